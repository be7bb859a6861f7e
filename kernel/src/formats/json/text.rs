//! Text of values that are not strings, and bytes of base64 strings.

use super::cursor::{Cursor, Malformed};
use super::escapes;
use super::java_numbers::{self, quoted_unless_finite};

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
    } else if is_printed_as_written(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        let number: f64 = text.parse().unwrap_or(f64::NAN);
        quoted_unless_finite(number.is_finite(), out, |out| java_numbers::double(number, out));
    }
}

/// Whether a number is an integer, or a decimal that Java prints with the same digits: a double keeps 15 of them, and
/// from a thousandth up to ten millions there is no exponent. Not to parse such a number takes a third of the time.
fn is_printed_as_written(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let Some(point) = digits.iter().position(|byte| !byte.is_ascii_digit()) else { return true };
    let (whole, fraction) = (&digits[..point], &digits[point + 1..]);
    digits[point] == b'.'
        && digits.len() <= 16
        && whole.len() <= 7
        && fraction.iter().all(u8::is_ascii_digit)
        && (fraction == b"0" || fraction.last().is_some_and(|&last| last != b'0'))
        && (whole != b"0" || fraction == b"0" || fraction.iter().take(3).any(|&digit| digit != b'0'))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        let mut out = Vec::new();
        number(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_stay_and_other_numbers_are_printed_as_java_prints_doubles() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("123456789012345678901", "123456789012345678901"),
            ("-0.0", "-0.0"),
            ("1.50", "1.5"),
            ("0.001", "0.001"),
            ("0.0009", "9.0E-4"),
            ("9999999.5", "9999999.5"),
            ("10000000.5", "1.00000005E7"),
            ("1e2", "100.0"),
            ("0.10000000000000001", "0.1"),
            ("-1e999", "\"-Infinity\""),
        ] {
            assert_eq!(printed(text), expected);
        }
    }

    #[test]
    fn what_is_printed_as_written_is_what_java_prints() {
        let mut bits = 0x3039_u64;
        let mut seen = 0;
        for _ in 0..50_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (digits, scale) =
                ((bits >> 13) % 10_u64.pow((bits >> 60) as u32 + 1), ((bits >> 8) & 15) as usize + 1);
            let padded = format!("{digits:0width$}", width = scale + 1);
            let (whole, fraction) = padded.split_at(padded.len() - scale);
            let text = format!("{}{whole}.{fraction}", if bits & 1 == 0 { "" } else { "-" });
            if is_printed_as_written(text.as_bytes()) {
                let mut java = Vec::new();
                java_numbers::double(text.parse().unwrap(), &mut java);
                assert_eq!(java, text.as_bytes());
                seen += 1;
            }
        }
        assert!(seen > 5_000, "{seen}");
    }
}
