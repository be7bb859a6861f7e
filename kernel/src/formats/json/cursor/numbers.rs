//! Numbers: as sonic-rs parses them, as they are written, or only passed.

use sonic_number::ParserNumber;
use sonic_rs::reader::Reader;

use super::{Cursor, Malformed};
use crate::formats::json::words::non_digits;

/// As Jackson, and so Spark, have it: digits of one number, not counting a zero before the point.
const MAX_DIGITS: usize = 1000;

pub enum Number {
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    /// An integer beyond 64 bits, or a number beyond what a double holds: only its text says which.
    Other,
}

impl<'a> Cursor<'a> {
    /// The number that begins with `first`, which is behind us.
    #[inline(always)]
    pub fn number(&mut self, first: u8) -> Result<Number, Malformed> {
        let start = self.at - 1;
        self.parser.read.set_index(self.at);
        let number = self.parser.parse_number(first);
        let Ok(number) = number else {
            self.number_text(first)?;
            return Ok(Number::Other);
        };
        self.at = self.parser.read.index();
        if self.at - start > MAX_DIGITS && is_too_long(self.raw(start, self.at)) {
            return Err(self.malformed("a number is too long"));
        }
        Ok(match number {
            ParserNumber::Unsigned(number) => Number::Unsigned(number),
            ParserNumber::Signed(number) => Number::Negative(number),
            ParserNumber::Float(number) => Number::Float(number),
        })
    }

    /// The same, as it is written.
    #[inline(always)]
    pub fn number_text(&mut self, first: u8) -> Result<&'a str, Malformed> {
        let start = self.at - 1;
        self.skip_number(first)?;
        Ok(std::str::from_utf8(self.raw(start, self.at)).unwrap_or_default())
    }

    /// Go past it; it must be well-formed all the same.
    #[inline(always)]
    pub fn skip_number(&mut self, first: u8) -> Result<(), Malformed> {
        let start = self.at - 1;
        let leading = if first == b'-' { self.next() } else { first };
        let mut well = leading.is_ascii_digit();
        if leading != b'0' {
            self.digits();
        }
        if self.peek() == b'.' {
            self.at += 1;
            well &= self.digits() > 0;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            well &= self.digits() > 0;
        }
        if !well {
            return Err(self.malformed("no number"));
        }
        if self.at - start > MAX_DIGITS && is_too_long(self.raw(start, self.at)) {
            return Err(self.malformed("a number is too long"));
        }
        Ok(())
    }

    /// Go past digits, and say how many.
    #[inline(always)]
    fn digits(&mut self) -> usize {
        let start = self.at;
        // Eight at a time: how many digits there are is never the same, and a wrong guess costs more than all of this.
        while let Some(bytes) = self.bytes::<8>(self.at) {
            let others = non_digits(u64::from_le_bytes(*bytes));
            if others != 0 {
                self.at += others.trailing_zeros() as usize / 8;
                return self.at - start;
            }
            self.at += 8;
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        self.at - start
    }
}

#[cold]
fn is_too_long(number: &[u8]) -> bool {
    let number = number.strip_prefix(b"-").unwrap_or(number);
    let number = number.strip_prefix(b"0").unwrap_or(number);
    number.iter().filter(|byte| byte.is_ascii_digit()).count() > MAX_DIGITS
}
