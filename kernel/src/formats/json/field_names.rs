//! Finds the field for a name in an object.

use std::collections::HashMap;

use super::cursor::{Cursor, Malformed};

/// Longer names, quotes and colon included, are looked up each time.
const MAX_GUESS: usize = 64;

/// How many of the next guesses are tried: so many fields of earlier documents may be missing in this one.
const LOOK_AHEAD: usize = 4;

/// Documents of one topic usually have the same fields in the same order. So the last names are kept as they were
/// written, from quote to colon, and a name is first compared with the name that followed last time. That takes two
/// loads and a comparison; reading and hashing a name takes ten times as long.
pub struct FieldNames {
    fields: HashMap<Box<[u8]>, usize>,
    guesses: Vec<Guess>,
    most: usize,
}

struct Guess {
    head: u128,
    mask: u128,
    tail: Box<[u8]>,
    length: usize,
    field: Option<usize>,
}

impl Guess {
    fn new(written: &[u8], field: Option<usize>) -> Self {
        let mut head = [0; 16];
        let in_head = written.len().min(16);
        head[..in_head].copy_from_slice(&written[..in_head]);
        let mask = u128::MAX >> (128 - 8 * in_head);
        let tail = written[in_head..].into();
        Guess { head: u128::from_le_bytes(head), mask, tail, length: written.len(), field }
    }

    #[inline(always)]
    fn fits(&self, at: usize, cursor: &Cursor<'_>) -> bool {
        let Some(head) = cursor.bytes::<16>(at) else { return false };
        u128::from_le_bytes(*head) & self.mask == self.head
            && (self.tail.is_empty() || self.tail_fits(at, cursor))
    }

    #[inline(never)]
    fn tail_fits(&self, at: usize, cursor: &Cursor<'_>) -> bool {
        // The head matched, and after the last document there is padding for any tail.
        cursor.raw(at + 16, at + 16 + self.tail.len()) == &*self.tail
    }
}

impl FieldNames {
    /// Padding that the text needs after the last document.
    pub const PADDING: usize = 16 + MAX_GUESS;

    pub fn new<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let most = 2 * names.len() + 64;
        // If two fields have one name, the first is filled, as in Spark.
        let mut fields = HashMap::with_capacity(names.len());
        for (field, name) in names.enumerate() {
            fields.entry(name.as_bytes().into()).or_insert(field);
        }
        FieldNames { fields, guesses: Vec::new(), most }
    }

    /// The field of a name whose opening quote is consumed. Consumes the name and the colon. `next` is the position of
    /// this document in the guesses: zero at its first name.
    #[inline(always)]
    pub fn field(&mut self, next: &mut usize, cursor: &mut Cursor<'_>) -> Result<Option<usize>, Malformed> {
        let quote = cursor.index() - 1;
        if let Some(guess) = self.guesses.get(*next)
            && guess.fits(quote, cursor)
        {
            cursor.eat(guess.length - 1);
            *next += 1;
            return Ok(guess.field);
        }
        self.find(quote, next, cursor)
    }

    #[inline(never)]
    fn find(
        &mut self,
        quote: usize,
        next: &mut usize,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<usize>, Malformed> {
        let further = self.guesses.iter().enumerate().skip(*next + 1).take(LOOK_AHEAD);
        for (at, guess) in further {
            if guess.fits(quote, cursor) {
                cursor.eat(guess.length - 1);
                *next = at + 1;
                return Ok(guess.field);
            }
        }
        let field = self.fields.get(cursor.string()?).copied();
        cursor.colon()?;
        let written = cursor.raw(quote, cursor.index());
        if written.len() <= MAX_GUESS {
            if self.guesses.len() == self.most {
                self.guesses.clear();
                *next = 0;
            }
            self.guesses.insert(*next, Guess::new(written, field));
            *next += 1;
        }
        Ok(field)
    }
}
