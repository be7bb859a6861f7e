//! Skips values that are not selected. They are not parsed, but they must be well-formed.

use super::{Cursor, MAX_DEPTH, Malformed, SHORT_STRING};
use crate::formats::json::swar::{non_digits, special_bytes};

impl Cursor<'_> {
    /// Skips the value that begins with `first`, which is consumed. It must be well-formed.
    #[inline(always)]
    pub fn skip(&mut self, first: u8) -> Result<(), Malformed> {
        match first {
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.skip_number(first),
            b't' => self.literal("rue"),
            b'f' => self.literal("alse"),
            b'n' => self.literal("ull"),
            b'{' | b'[' => self.skip_nested(first),
            0 => Err(self.malformed("the end came too soon")),
            _ => Err(self.malformed("no JSON value")),
        }
    }

    /// Skips the value of a name whose colon is consumed. Returns whether another name follows, as `next_name`.
    #[inline(always)]
    pub fn skip_to_name(&mut self) -> Result<bool, Malformed> {
        if let Some((at, more)) = plain_value(self.text, self.at) {
            self.at = at;
            return Ok(more);
        }
        let first = self.token();
        self.skip(first)?;
        self.next_name()
    }

    /// Not recursive: a million brackets must not exhaust the stack.
    fn skip_nested(&mut self, first: u8) -> Result<(), Malformed> {
        let floor = self.scratch.nesting.len();
        let done = self.skip_from(first, floor);
        self.scratch.nesting.truncate(floor);
        done
    }

    fn skip_from(&mut self, mut open: u8, floor: usize) -> Result<(), Malformed> {
        loop {
            // `open` is an object or array that was just entered.
            self.scratch.nesting.push(open);
            if self.depth + self.scratch.nesting.len() - floor > MAX_DEPTH {
                return Err(self.malformed("is nested too deep"));
            }
            let mut more = if open == b'{' {
                self.first_name()?
            } else {
                match self.token() {
                    b']' => false,
                    _ => {
                        self.at -= 1;
                        true
                    }
                }
            };
            open = loop {
                if more {
                    if self.scratch.nesting.last() == Some(&b'{') {
                        self.string()?;
                        self.colon()?;
                    }
                    match self.token() {
                        first @ (b'{' | b'[') => break first,
                        first => self.skip(first)?,
                    }
                } else {
                    self.scratch.nesting.pop();
                    if self.scratch.nesting.len() == floor {
                        return Ok(());
                    }
                }
                more = if self.scratch.nesting.last() == Some(&b'{') {
                    self.next_name()?
                } else {
                    self.next_element()?
                };
            };
        }
    }
}

/// Fast path: the end of a short string or number at `at` together with the comma and quote (another name follows) or
/// the brace after it, without any spaces. None: take the slow path. It works on a copy of the cursor's position: held
/// in a register and not in memory, that doubles the number of values skipped per second.
#[inline(always)]
fn plain_value(text: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let word = |at: usize| text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    match *text.get(at)? {
        b'"' => {
            at += 1;
            let mut words = 1;
            let mut special = special_bytes(word(at)?);
            while special == 0 {
                if words == SHORT_STRING / 8 {
                    return None;
                }
                words += 1;
                at += 8;
                special = special_bytes(word(at)?);
            }
            at += special.trailing_zeros() as usize / 8;
            if text[at] != b'"' {
                return None;
            }
            at += 1;
        }
        b'1'..=b'9' => {
            // Up to seven digits, and up to seven after the point.
            at += non_digits(word(at)?).trailing_zeros() as usize / 8;
            if *text.get(at)? == b'.' {
                let digits = non_digits(word(at + 1)?).trailing_zeros() as usize / 8;
                if digits == 0 {
                    return None;
                }
                at += 1 + digits;
            }
        }
        _ => return None,
    }
    match text.get(at..)? {
        [b',', b'"', ..] => Some((at + 2, true)),
        [b'}', ..] => Some((at + 1, false)),
        _ => None,
    }
}
