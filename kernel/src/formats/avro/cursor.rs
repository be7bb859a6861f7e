//! The unread bytes of a record: reads numbers, lengths and blocks.

use super::bad_record::{Read, bad};
use super::skip::Skip;
use crate::formats::varint;

/// The most values of zero bytes (null, a record without fields) in the arrays of one record. Nothing else limits them:
/// six bytes can claim 2^40.
const MOST_EMPTY_ITEMS: usize = 1024;

pub struct Cursor<'a> {
    pub rest: &'a [u8],
    /// The skips that [`Skip::Shared`] refers to.
    pub shared: &'a [Skip],
    /// The number of shared skips that are open.
    pub depth: usize,
    empty_items: usize,
    /// Whether each string is checked. If not, the whole column is checked when it is finished. That is cheaper, but
    /// does not show the record.
    pub checks_texts: bool,
    /// Bytes of columns that the record may still take beyond its own.
    pub spare: usize,
}

#[cold]
fn short<T>(what: &str) -> Read<T> {
    bad(format!("the record ends inside {what}"))
}

#[cold]
fn too_long<T>(size: i64, left: usize) -> Read<T> {
    bad(format!("says it has {size} bytes, and {left} are left"))
}

#[cold]
fn too_wide<T>(value: i64) -> Read<T> {
    bad(format!("{value} does not fit an int of 32 bits"))
}

#[cold]
fn no_branch<T>(index: i64, branches: usize) -> Read<T> {
    bad(format!("branch {index} of a union with {branches}"))
}

impl<'a> Cursor<'a> {
    pub fn new(record: &'a [u8], shared: &'a [Skip], checks_texts: bool, spare: usize) -> Self {
        Cursor { rest: record, shared, depth: 0, empty_items: 0, checks_texts, spare }
    }

    pub fn end(&self) -> Read<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        bad(format!("{} bytes are left after the record", self.rest.len()))
    }

    #[inline(always)]
    pub fn take(&mut self, size: usize) -> Read<&'a [u8]> {
        match self.rest.split_at_checked(size) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => short("a value"),
        }
    }

    #[inline(always)]
    pub fn array<const SIZE: usize>(&mut self) -> Read<[u8; SIZE]> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => short("a value"),
        }
    }

    #[inline(always)]
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        self.sized().map(|(bytes, size)| &bytes[..size])
    }

    /// A length and its bytes. Returns all remaining bytes from there on, and the length.
    #[inline(always)]
    pub fn sized(&mut self) -> Read<(&'a [u8], usize)> {
        let size = self.long()?;
        let bytes = self.rest;
        match usize::try_from(size).ok().and_then(|size| Some((bytes.get(size..)?, size))) {
            Some((rest, size)) => {
                self.rest = rest;
                Ok((bytes, size))
            }
            None => too_long(size, bytes.len()),
        }
    }

    #[inline(always)]
    pub fn long(&mut self) -> Read<i64> {
        let value = match varint::short(self.rest) {
            Some((value, rest)) => {
                self.rest = rest;
                value
            }
            None => self.long_varint()?,
        };
        Ok(varint::unzigzag(value))
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Read<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            if index == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        if self.rest.len() < 10 { short("a number") } else { bad("a number is longer than 64 bits") }
    }

    #[inline(always)]
    pub fn int(&mut self) -> Read<i32> {
        let value = self.long()?;
        match i32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => too_wide(value),
        }
    }

    /// The index of a symbol, below `symbols`.
    pub fn symbol(&mut self, symbols: usize) -> Read<usize> {
        let index = self.int()?;
        match usize::try_from(index).ok().filter(|index| *index < symbols) {
            Some(index) => Ok(index),
            None => bad(format!("symbol {index} of an enum with {symbols}")),
        }
    }

    #[inline(always)]
    pub fn branch<'b, T>(&mut self, branches: &'b [T]) -> Read<&'b T> {
        let index = self.long()?;
        match usize::try_from(index).ok().and_then(|index| branches.get(index)) {
            Some(branch) => Ok(branch),
            None => no_branch(index, branches.len()),
        }
    }

    /// The number of items in the next block. None at the end. With `skip`, blocks that give their size are skipped and
    /// not returned.
    pub fn block(&mut self, skip: bool, is_empty: bool) -> Read<Option<usize>> {
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(None);
            }
            if count < 0 {
                let size = self.long()?;
                let left = self.rest.len();
                let Some(size) = usize::try_from(size).ok().filter(|size| *size <= left) else {
                    return bad(format!("says it has a block of {size} bytes, and {left} are left"));
                };
                if skip {
                    self.rest = &self.rest[size..];
                    continue;
                }
                count = count.saturating_neg();
            }
            let left = self.rest.len();
            let most = if is_empty { MOST_EMPTY_ITEMS - self.empty_items } else { left };
            let Some(count) = usize::try_from(count).ok().filter(|count| *count <= most) else {
                return if is_empty {
                    bad(format!("says it has {count} items without a byte, more than {MOST_EMPTY_ITEMS}"))
                } else {
                    bad(format!("says it has {count} items, and {left} bytes are left"))
                };
            };
            if is_empty {
                self.empty_items += count;
            }
            return Ok(Some(count));
        }
    }
}
