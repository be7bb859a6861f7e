//! Strings out of values that are none, and bytes out of strings.

use super::cursor::{Cursor, Malformed};
use super::escapes;

/// Writes the value that begins with `first`, which is behind us, without spaces and as Spark writes it.
pub fn compact(first: u8, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    // Without recursion, as deep as documents may nest.
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
    escapes::quote(cursor.string()?, out);
    out.push(b':');
    cursor.colon()
}

fn scalar(first: u8, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    match first {
        b'"' => escapes::quote(cursor.string()?, out),
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

/// Integers as they are written; others as Java writes a double.
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
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// Appends what the base64 in `text` says, or says that it is none. Spaces may stand between its quadruples.
pub fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> bool {
    if base64_simd::STANDARD.decode_append(text, out).is_ok() {
        return true;
    }
    let mut spaceless = Vec::with_capacity(text.len());
    for quadruple_or_space in text.iter().enumerate().filter_map(|(_, &byte)| (byte > b' ').then_some(byte)) {
        spaceless.push(quadruple_or_space);
    }
    base64_simd::STANDARD.decode_append(&spaceless, out).is_ok()
}
