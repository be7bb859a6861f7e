//! Strings byte by byte: decodes the ones that the fast path rejects, and writes strings.

/// Decodes the string at the front of `text`, whose opening quote is consumed, into `out`. Returns its length with the
/// closing quote, or the position and the reason of the error.
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<usize, (usize, &'static str)> {
    out.clear();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => at = escape(text, at, out)?,
            0..0x20 => return Err((at, "a control character in a string")),
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Err((text.len(), "a string without end"))
}

/// Decodes the escape whose backslash is at `at`. Returns its end.
fn escape(text: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, (usize, &'static str)> {
    let Some(&kind) = text.get(at + 1) else { return Err((text.len(), "a string without end")) };
    out.push(match kind {
        b'"' | b'\\' | b'/' => kind,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let high = unit(text, at)?;
            let mut end = at + 6;
            let mut character = char::from_u32(high);
            if (0xd800..0xdc00).contains(&high) {
                // An error in the next escape is reported when that one is decoded.
                let low = unit(text, end).unwrap_or(0);
                if text.get(end..end + 2) == Some(b"\\u") && (0xdc00..0xe000).contains(&low) {
                    character = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                    end += 6;
                }
            }
            let character = character.unwrap_or('?');
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(end);
        }
        _ => return Err((at + 1, "an unknown escape")),
    });
    Ok(at + 2)
}

/// The number in the `\uXXXX` at `at`.
fn unit(text: &[u8], at: usize) -> Result<u32, (usize, &'static str)> {
    let digits = text.get(at + 2..at + 6).ok_or((text.len(), "a string without end"))?;
    digits.iter().enumerate().try_fold(0, |unit, (digit, &byte)| {
        let value = char::from(byte).to_digit(16).ok_or((at + 2 + digit, "no hexadecimal digit"))?;
        Ok(unit << 4 | value)
    })
}

/// Appends a string as Jackson, and so Spark, writes it: with as few escapes as possible. Surrogates are escaped, also
/// the two halves of a pair, because UTF-8 cannot represent one half. `written` is the text between the quotes, already
/// validated.
pub fn rewrite(written: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut at = 0;
    while let Some(&byte) = written.get(at) {
        match byte {
            b'\\' => at = rewrite_escape(written, at, out),
            0xf0.. => {
                let end = written.len().min(at + 4);
                for unit in String::from_utf8_lossy(&written[at..end]).encode_utf16() {
                    write_unit(unit.into(), out);
                }
                at = end;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out.push(b'"');
}

/// Writes the escape whose backslash is at `at`. Returns its end.
fn rewrite_escape(written: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    match written.get(at + 1) {
        Some(b'u') => {
            let unit = unit(written, at).unwrap_or(u32::from(char::REPLACEMENT_CHARACTER));
            write_unit(unit, out);
            at + 6
        }
        Some(b'/') => {
            out.push(b'/');
            at + 2
        }
        _ => {
            out.extend_from_slice(&written[at..written.len().min(at + 2)]);
            at + 2
        }
    }
}

/// Writes a UTF-16 unit: a character, or half of one.
fn write_unit(unit: u32, out: &mut Vec<u8>) {
    match char::from_u32(unit) {
        Some(character @ ('"' | '\\')) => out.extend_from_slice(&[b'\\', character as u8]),
        Some('\u{8}') => out.extend_from_slice(b"\\b"),
        Some('\u{c}') => out.extend_from_slice(b"\\f"),
        Some('\n') => out.extend_from_slice(b"\\n"),
        Some('\r') => out.extend_from_slice(b"\\r"),
        Some('\t') => out.extend_from_slice(b"\\t"),
        Some(character @ ' '..) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        _ => out.extend_from_slice(format!("\\u{unit:04X}").as_bytes()),
    }
}
