//! A position in the text of the documents, and the parsing steps from there.
//!
//! sonic-rs parses numbers, UTF-8, and strings that are long or have escapes, with SIMD. Its functions that walk a
//! document are not used: they recurse as deep as the document nests, and do not check `\u` escapes in skipped strings.

mod numbers;
mod skip;

use sonic_rs::Read;
use sonic_rs::parser::{Parser, Reference};
use sonic_rs::reader::Reader;

pub use self::numbers::Number;
use super::escapes;
use super::swar::special_bytes;
use crate::formats::budget::{Budget, TooWide};

/// Jackson's limit, and so Spark's: nested objects and arrays, the outermost included.
pub const MAX_DEPTH: usize = 1000;

/// Strings up to this many bytes are scanned eight bytes at a time.
const SHORT_STRING: usize = 32;

/// The number of characters of a value that a reason shows.
const SHOWN: usize = 40;

/// The document is not JSON. The cursor has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Memory that outlives a cursor, so that documents do not allocate.
#[derive(Default)]
pub struct Scratch {
    unescaped: Vec<u8>,
    nesting: Vec<u8>,
    /// The budget of the current batch.
    pub budget: Budget,
}

pub struct Cursor<'a> {
    /// Has its own index, which is set before each use.
    parser: Parser<Read<'a>>,
    text: &'a [u8],
    at: usize,
    /// The range of the document. At its end is a zero byte, which is never valid in JSON.
    begin: usize,
    end: usize,
    depth: usize,
    scratch: &'a mut Scratch,
    malformed: Option<(usize, &'static str)>,
    /// The first value of a wrong type: the reason, and the path to it from the innermost field outwards.
    wrong: Option<Wrong>,
}

pub struct Wrong {
    what: String,
    path: Vec<String>,
}

impl<'a> Cursor<'a> {
    /// `text` holds documents, each followed by a zero byte.
    pub fn new(text: &'a [u8], scratch: &'a mut Scratch) -> Self {
        let parser = Parser::new(Read::from(text));
        Cursor { parser, text, at: 0, begin: 0, end: 0, depth: 0, scratch, malformed: None, wrong: None }
    }

    /// Moves to the document in these bytes.
    #[inline]
    pub fn open(&mut self, begin: usize, end: usize) {
        self.malformed = None;
        self.wrong = None;
        self.depth = 0;
        self.begin = begin;
        self.end = end;
        self.at = begin;
        self.scratch.budget.begin_record(end - begin);
    }

    /// Counts the finished document, which is in the columns.
    #[inline]
    pub fn close(&mut self) {
        self.scratch.budget.end_record();
    }

    /// Whether the batch has no room for another document.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.scratch.budget.is_used_up()
    }

    /// Whether all of the text is UTF-8. Otherwise it must not be read.
    pub fn is_text(&self) -> bool {
        self.parser.read.next_invalid_utf8() == usize::MAX
    }

    /// Whether the last token was the end of the document.
    pub fn at_end(&self) -> bool {
        self.index() > self.end
    }

    #[inline(always)]
    pub fn index(&self) -> usize {
        self.at
    }

    /// Consumes white space and the next byte, and returns that byte. Zero at the end of the document.
    #[inline(always)]
    pub fn token(&mut self) -> u8 {
        loop {
            let byte = self.next();
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return byte;
            }
        }
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

    /// The bytes from `from` on, if enough are left in the text, documents after this one included.
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

    /// Call before each element of an array or a map: counts the bytes of columns that it takes at least.
    #[inline(always)]
    pub fn spend(&mut self, bytes: usize) -> Result<(), Malformed> {
        let spent = self.scratch.budget.spend(bytes);
        spent.map_err(|TooWide| self.malformed(TooWide::REASON))
    }

    /// Enters an object or array, whose first byte is consumed.
    #[inline(always)]
    pub fn enter(&mut self) -> Result<(), Malformed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.malformed("is nested too deep")) } else { Ok(()) }
    }

    #[inline(always)]
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// After a value in an object: returns whether another name follows, and consumes its quote.
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

    /// After the opening brace of an object: as `next_name`.
    #[inline(always)]
    pub fn first_name(&mut self) -> Result<bool, Malformed> {
        match self.token() {
            b'"' => Ok(true),
            b'}' => Ok(false),
            _ => Err(self.malformed("no name or brace after a brace")),
        }
    }

    /// After a value in an array: returns whether another one follows.
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

    /// The content of a string, whose opening quote is consumed.
    #[inline(always)]
    pub fn string(&mut self) -> Result<&[u8], Malformed> {
        let start = self.at;
        // Most strings are short and plain. For those this is twice as fast as setting up wider SIMD.
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
                    // Not sonic-rs: building its errors takes microseconds, because it counts lines from the beginning.
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
        // Matched twice because of the borrow checker: a reference returned from one arm would borrow in all arms.
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

    /// For strings that sonic-rs rejects: half a surrogate pair becomes a question mark, as in Java; all others are
    /// malformed here too.
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

    /// Skips a value that is not a `wanted`, and notes it.
    #[cold]
    pub fn mismatch(&mut self, first: u8, wanted: &str) -> Result<bool, Malformed> {
        let start = self.index() - 1;
        self.skip(first)?;
        self.unfit(start, wanted);
        Ok(false)
    }

    /// Notes that the value from `start` to here is not a `wanted`.
    #[cold]
    pub fn unfit(&mut self, start: usize, wanted: &str) {
        if self.wrong.is_none() {
            let value = shorten(&self.text[start..self.index()]);
            self.wrong = Some(Wrong { what: format!("{value} is not of type {wanted}"), path: Vec::new() });
        }
    }

    /// Whether the document has a value of a wrong type.
    #[inline(always)]
    pub fn is_wrong(&self) -> bool {
        self.wrong.is_some()
    }

    /// Adds the enclosing field or element to the path of the wrong value.
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

pub fn shorten(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN)]);
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.into_owned(),
    }
}
