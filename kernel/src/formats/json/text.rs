//! Text of values that are not strings, and bytes of base64 strings.

use super::cursor::{Cursor, Malformed};
use super::escapes;

/// Writes the value that begins with `first`, which is consumed, without white space and as Spark writes it.
pub fn compact(first: u8, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    // Not recursive: documents may nest deeply.
    let mut nesting = Vec::new();
    let mut token = first;
    loop {
        match token {
            b'{' | b'[' => {
                cursor.enter()?;
                nesting.push(token);
                out.push(token);
                if token == b'{' {
                    if cursor.first_name()? {
                        name(cursor, out)?;
                        token = cursor.token();
                        continue;
                    }
                } else {
                    token = cursor.token();
                    if token != b']' {
                        continue;
                    }
                }
                close(&mut nesting, cursor, out);
            }
            _ => scalar(token, cursor, out)?,
        }
        loop {
            match nesting.last() {
                None => return Ok(()),
                Some(b'{') => {
                    if cursor.next_name()? {
                        out.push(b',');
                        name(cursor, out)?;
                        break;
                    }
                }
                Some(_) => {
                    if cursor.next_element()? {
                        out.push(b',');
                        break;
                    }
                }
            }
            close(&mut nesting, cursor, out);
        }
        token = cursor.token();
    }
}

fn close(nesting: &mut Vec<u8>, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) {
    out.push(if nesting.pop() == Some(b'{') { b'}' } else { b']' });
    cursor.leave();
}

fn name(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    string(cursor, out)?;
    out.push(b':');
    cursor.colon()
}

fn string(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = cursor.index();
    cursor.string()?;
    escapes::rewrite(cursor.raw(start, cursor.index() - 1), out);
    Ok(())
}

fn scalar(first: u8, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    match first {
        b'"' => string(cursor, out)?,
        b'-' | b'0'..=b'9' => number(cursor.number_text(first)?, out),
        b't' | b'f' | b'n' => {
            let start = cursor.index() - 1;
            cursor.skip(first)?;
            out.extend_from_slice(cursor.raw(start, cursor.index()));
        }
        _ => cursor.skip(first)?,
    }
    Ok(())
}

/// Integers as written; other numbers as Java prints a double.
fn number(text: &str, out: &mut Vec<u8>) {
    if text == "-0" {
        out.push(b'0');
    } else if !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(java_double(text.parse().unwrap_or(f64::NAN)).as_bytes());
    }
}

fn java_double(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" }.to_owned();
    }
    let size = number.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{number:?}");
    }
    let shortest = format!("{number:e}");
    if shortest.contains('.') {
        return shortest.replace('e', "E");
    }
    // At least two digits; if two are needed, the nearest two.
    format!("{number:.1E}")
}

/// Appends the bytes of the base64 in `text`. Returns whether it is valid.
pub fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> bool {
    base64_simd::STANDARD.decode_append(text, out).is_ok() || decode_base64_slowly(text, out)
}

/// As Jackson, and so Spark: allows spaces between quadruples, leftover bits, and more base64 after `=`.
#[cold]
fn decode_base64_slowly(mut text: &[u8], out: &mut Vec<u8>) -> bool {
    loop {
        text = text.trim_ascii_start();
        let Some((quadruple, rest)) = text.split_first_chunk::<4>() else { return text.is_empty() };
        let kept = match quadruple {
            [.., b'=', b'='] => 2,
            [.., b'='] => 3,
            _ => 4,
        };
        let mut bits = 0_u32;
        for (at, &digit) in quadruple.iter().enumerate() {
            let value = match digit {
                _ if at >= kept => 0,
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return false,
            };
            bits = bits << 6 | u32::from(value);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..kept]);
        text = rest;
    }
}
