//! A place in the text of some documents, and the steps that parsing takes from there.
//!
//! Numbers, UTF-8, and strings that are long or have escapes are sonic-rs's work, with SIMD. Its own ways to walk a document
//! are not used: they recurse as deep as the document nests, and do not look at what a skipped `\u` escape says.

use sonic_number::ParserNumber;
use sonic_rs::Read;
use sonic_rs::parser::{Parser, Reference};
use sonic_rs::reader::Reader;

use super::escapes;

/// As Jackson, and so Spark, have it: objects and arrays within each other, the outermost counted.
pub const MAX_DEPTH: usize = 1000;

/// As Jackson, and so Spark, have it: digits of one number, not counting a zero before the point.
const MAX_DIGITS: usize = 1000;

/// Strings of up to so many bytes are looked at eight bytes at a time.
const SHORT_STRING: usize = 32;

/// How much of a value a reason shows.
const SHOWN: usize = 40;

/// The document is not JSON; the cursor knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

pub enum Number {
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    /// An integer beyond 64 bits, or a number beyond what a double holds: only its text says which.
    Other,
}

/// Memory that outlives a cursor, so that none is allocated per document.
#[derive(Default)]
pub struct Scratch {
    unescaped: Vec<u8>,
    nesting: Vec<u8>,
}

pub struct Cursor<'a> {
    /// Has an index of its own, which is set before it is used.
    parser: Parser<Read<'a>>,
    text: &'a [u8],
    at: usize,
    /// Where the document began, and where it ends: there is a zero byte, which JSON allows nowhere.
    begin: usize,
    end: usize,
    depth: usize,
    scratch: &'a mut Scratch,
    malformed: Option<(usize, &'static str)>,
    /// The first value of a wrong type: what it was, and the way to it from the inside out.
    wrong: Option<Wrong>,
}

pub struct Wrong {
    what: String,
    path: Vec<String>,
}

impl<'a> Cursor<'a> {
    /// `text` holds documents, each with a zero byte behind it.
    pub fn new(text: &'a [u8], scratch: &'a mut Scratch) -> Self {
        let parser = Parser::new(Read::from(text));
        Cursor { parser, text, at: 0, begin: 0, end: 0, depth: 0, scratch, malformed: None, wrong: None }
    }

    /// Go to the document in these bytes.
    #[inline]
    pub fn open(&mut self, begin: usize, end: usize) {
        self.malformed = None;
        self.wrong = None;
        self.depth = 0;
        self.begin = begin;
        self.end = end;
        self.at = begin;
    }

    /// Whether all of the text is UTF-8. What is not must not be read.
    pub fn is_text(&self) -> bool {
        self.parser.read.next_invalid_utf8() == usize::MAX
    }

    /// Whether nothing of the document was left when the last byte was taken.
    pub fn at_end(&self) -> bool {
        self.index() > self.end
    }

    #[inline(always)]
    pub fn index(&self) -> usize {
        self.at
    }

    /// The next byte that is no space, which is then behind us. A zero byte is the end.
    #[inline(always)]
    pub fn token(&mut self) -> u8 {
        loop {
            let byte = self.text.get(self.at).copied().unwrap_or(0);
            self.at += 1;
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return byte;
            }
        }
    }

    /// The bytes from `from` on, if that many are left in the text (of any document).
    #[inline(always)]
    pub fn bytes<const N: usize>(&self, from: usize) -> Option<&'a [u8; N]> {
        self.text.get(from..)?.first_chunk()
    }

    #[inline(always)]
    pub fn raw(&self, from: usize, to: usize) -> &'a [u8] {
        &self.text[from..to]
    }

    #[inline(always)]
    pub fn eat(&mut self, count: usize) {
        self.at += count;
    }

    #[cold]
    pub fn malformed(&mut self, what: &'static str) -> Malformed {
        let at = self.index().saturating_sub(1);
        self.malformed_at(at, what)
    }

    #[cold]
    fn malformed_at(&mut self, at: usize, what: &'static str) -> Malformed {
        self.malformed.get_or_insert((at, what));
        Malformed
    }

    /// Begin an object or array, whose first byte is behind us.
    #[inline(always)]
    pub fn enter(&mut self) -> Result<(), Malformed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.malformed("is nested too deep")) } else { Ok(()) }
    }

    #[inline(always)]
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// After a value in an object: whether another name follows, whose quote is then behind us.
    #[inline(always)]
    pub fn next_name(&mut self) -> Result<bool, Malformed> {
        if self.bytes(self.index()) == Some(b",\"") {
            self.eat(2);
            return Ok(true);
        }
        match self.token() {
            b'}' => Ok(false),
            b',' if self.token() == b'"' => Ok(true),
            b',' => Err(self.malformed("no name after a comma")),
            _ => Err(self.malformed("no comma or brace after a value")),
        }
    }

    /// After the brace that begins an object.
    #[inline(always)]
    pub fn first_name(&mut self) -> Result<bool, Malformed> {
        match self.token() {
            b'"' => Ok(true),
            b'}' => Ok(false),
            _ => Err(self.malformed("no name or brace after a brace")),
        }
    }

    /// After a value in an array: whether another follows.
    #[inline(always)]
    pub fn next_element(&mut self) -> Result<bool, Malformed> {
        match self.token() {
            b',' => Ok(true),
            b']' => Ok(false),
            _ => Err(self.malformed("no comma or bracket after a value")),
        }
    }

    #[inline(always)]
    pub fn colon(&mut self) -> Result<(), Malformed> {
        if self.token() == b':' { Ok(()) } else { Err(self.malformed("no colon after a name")) }
    }

    /// The text of a string whose opening quote is behind us.
    #[inline(always)]
    pub fn string(&mut self) -> Result<&[u8], Malformed> {
        let start = self.at;
        // Most strings are short and plain, and then this is twice as fast as setting up anything wider.
        for word in 0..SHORT_STRING / 8 {
            let Some(bytes) = self.bytes::<8>(start + 8 * word) else { break };
            let special = special_bytes(u64::from_le_bytes(*bytes));
            if special != 0 {
                let end = start + 8 * word + special.trailing_zeros() as usize / 8;
                match self.text[end] {
                    b'"' => {
                        self.at = end + 1;
                        return Ok(&self.text[start..end]);
                    }
                    b'\\' => break,
                    // Not for sonic-rs, whose errors take microseconds: they count lines from the beginning.
                    _ => {
                        self.string_slowly(start)?;
                        return Ok(&self.scratch.unescaped);
                    }
                }
            }
        }
        self.long_string(start)
    }

    #[inline(never)]
    fn long_string(&mut self, start: usize) -> Result<&[u8], Malformed> {
        self.parser.read.set_index(start);
        // Two looks at the outcome, for the borrow checker: a reference that lives in one arm is one to it in all.
        let length = match self.parser.parse_str(&mut self.scratch.unescaped) {
            Ok(Reference::Borrowed(text)) => Some(text.len()),
            Ok(Reference::Copied(_)) => None,
            Err(_) => {
                self.string_slowly(start)?;
                return Ok(&self.scratch.unescaped);
            }
        };
        self.at = self.parser.read.index();
        Ok(match length {
            Some(length) => &self.text[start..start + length],
            None => &self.scratch.unescaped,
        })
    }

    /// For what sonic-rs refuses: half a surrogate pair is a question mark, as in Java; all else is malformed here too.
    #[cold]
    fn string_slowly(&mut self, start: usize) -> Result<(), Malformed> {
        let rest = &self.text[start..self.end.max(start)];
        match escapes::unescape(rest, &mut self.scratch.unescaped) {
            Ok(length) => {
                self.at = start + length;
                Ok(())
            }
            Err((at, what)) => Err(self.malformed_at(start + at, what)),
        }
    }

    #[inline(always)]
    pub fn literal(&mut self, rest: &'static str) -> Result<(), Malformed> {
        if self.text.get(self.at..self.at + rest.len()) != Some(rest.as_bytes()) {
            return Err(self.malformed("no JSON value"));
        }
        self.at += rest.len();
        Ok(())
    }

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

    #[inline(always)]
    fn skip_number(&mut self, first: u8) -> Result<(), Malformed> {
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

    #[inline(always)]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn next(&mut self) -> u8 {
        let byte = self.peek();
        self.at += 1;
        byte
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

    /// Go past the value that begins with `first`, which is behind us; it must be well-formed all the same.
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

    /// Go past the value of a name whose colon is behind us, and say whether another name follows, as `next_name` does.
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

    /// Without recursion: a million brackets must not exhaust the stack.
    fn skip_nested(&mut self, first: u8) -> Result<(), Malformed> {
        let floor = self.scratch.nesting.len();
        let done = self.skip_from(first, floor);
        self.scratch.nesting.truncate(floor);
        done
    }

    fn skip_from(&mut self, mut open: u8, floor: usize) -> Result<(), Malformed> {
        loop {
            // `open` has just begun an object or array.
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

    /// A value that is no `wanted`: it is skipped and noted.
    #[cold]
    pub fn mismatch(&mut self, first: u8, wanted: &str) -> Result<bool, Malformed> {
        let start = self.index() - 1;
        self.skip(first)?;
        self.unfit(start, wanted);
        Ok(false)
    }

    /// Note that the value from `start` up to here is no `wanted`.
    #[cold]
    pub fn unfit(&mut self, start: usize, wanted: &str) {
        if self.wrong.is_none() {
            let value = shorten(&self.text[start..self.index()]);
            self.wrong = Some(Wrong { what: format!("{value} is no {wanted}"), path: Vec::new() });
        }
    }

    /// Whether a value of this document was of a wrong type.
    #[inline(always)]
    pub fn is_wrong(&self) -> bool {
        self.wrong.is_some()
    }

    /// What is wrong lies within this field or element.
    #[cold]
    pub fn wrong_within(&mut self, step: String) {
        if let Some(wrong) = &mut self.wrong {
            wrong.path.push(step);
        }
    }

    /// Why this document is malformed, or which of its values is wrong.
    #[cold]
    pub fn reason(&mut self) -> Option<String> {
        if let Some((at, what)) = self.malformed {
            return Some(match at.min(self.end) {
                at if at < self.end => {
                    format!("is not JSON: {what}, at byte {}", at.saturating_sub(self.begin))
                }
                _ => "is not JSON: it ends too soon".to_owned(),
            });
        }
        self.wrong.take().map(|Wrong { what, path }| {
            let path: Vec<_> = path.iter().rev().map(String::as_str).collect();
            match path.concat().trim_start_matches('.') {
                "" => what,
                path => format!("field {path}: {what}"),
            }
        })
    }
}

/// Where a short string or number at `at` ends together with what follows it, a comma and a quote (then another name comes)
/// or a brace, without any spaces. None: look again, with patience. It works on a copy of the cursor's place: as long as
/// that is in a register and not in memory, twice as many values are skipped in the same time.
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
            // Up to seven digits, and up to seven behind the point.
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

/// One in each byte of a word.
const ONES: u64 = u64::MAX / 255;

/// The high bit of each byte in `word` that is no digit.
#[inline(always)]
fn non_digits(word: u64) -> u64 {
    let value = word ^ (ONES * b'0' as u64);
    (((value & (ONES * 0x7f)) + ONES * (0x80 - 10)) | value) & (ONES * 0x80)
}

/// The high bit of the first byte in `word` that may not just stand in a string, a quote, a backslash or a control
/// character, and perhaps of some behind it.
#[inline(always)]
fn special_bytes(word: u64) -> u64 {
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (quote | backslash | below(word, 0x20)) & (ONES * 0x80)
}

#[cold]
fn is_too_long(number: &[u8]) -> bool {
    let number = number.strip_prefix(b"-").unwrap_or(number);
    let number = number.strip_prefix(b"0").unwrap_or(number);
    number.iter().filter(|byte| byte.is_ascii_digit()).count() > MAX_DIGITS
}

pub fn shorten(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]);
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.into_owned(),
    }
}
