//! Skips values that are not selected.

use super::bad_record::{Read, bad, inside};
use super::cursor::Cursor;

/// The depth limit of a recursive value. One byte per level is enough to exhaust a thread's stack.
const DEEPEST: usize = 256;

#[derive(Debug)]
pub enum Skip {
    Nothing,
    Int,
    Long,
    Sized(usize),
    Bytes,
    /// The number of symbols.
    Enum(usize),
    Array {
        item: Box<Skip>,
        is_empty: bool,
    },
    Map(Box<Skip>),
    Union(Vec<Skip>),
    Record(Vec<(String, Skip)>),
    /// An index into the cursor's shared skips: a record, which may contain itself.
    Shared(usize),
}

impl Cursor<'_> {
    #[inline]
    pub fn skip(&mut self, skip: &Skip) -> Read<()> {
        match skip {
            Skip::Nothing => Ok(()),
            Skip::Int => self.int().map(drop),
            Skip::Long => self.long().map(drop),
            Skip::Sized(size) => self.take(*size).map(drop),
            Skip::Bytes => self.bytes().map(drop),
            other => self.skip_other(other),
        }
    }

    fn skip_other(&mut self, skip: &Skip) -> Read<()> {
        match skip {
            Skip::Nothing | Skip::Int | Skip::Long | Skip::Sized(_) | Skip::Bytes => self.skip(skip),
            Skip::Enum(symbols) => self.symbol(*symbols).map(drop),
            Skip::Array { item, is_empty } => {
                let mut total = 0;
                while let Some(count) = self.block(true, *is_empty)? {
                    for index in 0..count {
                        if let Err(bad) = self.skip(item) {
                            return Err(inside(bad, &format!("[{}]", total + index)));
                        }
                    }
                    total += count;
                }
                Ok(())
            }
            Skip::Map(value) => {
                while let Some(count) = self.block(true, false)? {
                    for _ in 0..count {
                        self.bytes()?;
                        self.skip(value)?;
                    }
                }
                Ok(())
            }
            Skip::Union(branches) => {
                let branch = self.branch(branches)?;
                self.skip(branch)
            }
            Skip::Record(fields) => {
                for (name, field) in fields {
                    if let Err(bad) = self.skip(field) {
                        return Err(inside(bad, name));
                    }
                }
                Ok(())
            }
            Skip::Shared(index) => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return bad(format!("is nested more than {DEEPEST} records deep"));
                }
                let shared = self.shared;
                self.skip(&shared[*index])?;
                self.depth -= 1;
                Ok(())
            }
        }
    }
}
