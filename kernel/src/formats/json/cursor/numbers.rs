//! Numbers: parsed by sonic-rs, as text, or skipped.

use sonic_number::ParserNumber;
use sonic_rs::reader::Reader;

use super::{Cursor, Malformed};
use crate::formats::json::swar::non_digits;

/// Jackson's limit, and so Spark's: digits of one number, without a zero before the point.
const MAX_DIGITS: usize = 1000;

pub enum Number {
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    /// An integer above 64 bits, or a number that a double cannot hold. Only the text shows which.
    Other,
}

impl<'a> Cursor<'a> {
    /// Parses the number that begins with `first`, which is consumed.
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

    /// The same number as text.
    #[inline(always)]
    pub fn number_text(&mut self, first: u8) -> Result<&'a str, Malformed> {
        let start = self.at - 1;
        self.skip_number(first)?;
        Ok(std::str::from_utf8(self.raw(start, self.at)).unwrap_or_default())
    }

    /// Skips the number, which must be well-formed.
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

    /// Skips digits. Returns their number.
    #[inline(always)]
    fn digits(&mut self) -> usize {
        let start = self.at;
        // Eight at a time: the number of digits varies, and a mispredicted branch costs more than all of this.
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
