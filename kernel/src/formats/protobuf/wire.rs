//! The wire format: tags, varints, lengths, and how to skip a field that is not selected.
#![forbid(unsafe_code)]

use crate::formats::varint;

pub const VARINT: u32 = 0;
pub const FIXED64: u32 = 1;
pub const LENGTH: u32 = 2;
pub const START_GROUP: u32 = 3;
pub const END_GROUP: u32 = 4;
pub const FIXED32: u32 = 5;

/// The most levels of nested messages and groups below the outermost: Google's own limit.
pub const MAX_DEPTH: u32 = 100;

/// Why bytes are not a message. Small, because every read returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Cut,
    LongVarint,
    Tag,
    WireType,
    Length,
    Group,
    Deep,
    NotUtf8,
}

impl Broken {
    pub fn reason(self) -> &'static str {
        match self {
            Broken::Cut => "the bytes end in the middle of a value",
            Broken::LongVarint => "a varint is longer than ten bytes",
            Broken::Tag => "a tag does not hold a field number and a wire type",
            Broken::WireType => "a tag has a wire type that does not exist",
            Broken::Length => "a length reaches beyond the message",
            Broken::Group => "a group ends that did not begin, or does not end",
            Broken::Deep => "messages lie in each other more than 100 levels deep",
            Broken::NotUtf8 => "is not UTF-8",
        }
    }
}

/// The unread bytes of a message.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, Broken> {
        match varint::short(self.rest) {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(value)
            }
            None => self.long_varint(),
        }
    }

    /// Bits above the 64th are dropped, as in Google's parsers.
    fn long_varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { Broken::Cut } else { Broken::LongVarint })
    }

    /// The field number times eight, plus the wire type.
    #[inline(always)]
    pub fn tag(&mut self) -> Result<u32, Broken> {
        match *self.rest {
            [byte, ref rest @ ..] if (8..0x80).contains(&byte) => {
                self.rest = rest;
                Ok(u32::from(byte))
            }
            _ => self.long_tag(),
        }
    }

    fn long_tag(&mut self) -> Result<u32, Broken> {
        let before = self.rest.len();
        let tag = self.varint()?;
        match u32::try_from(tag) {
            Ok(tag) if tag >= 8 && before - self.rest.len() <= 5 => Ok(tag),
            _ => Err(Broken::Tag),
        }
    }

    #[inline(always)]
    pub fn fixed<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Broken> {
        let (value, rest) = self.rest.split_first_chunk().ok_or(Broken::Cut)?;
        self.rest = rest;
        Ok(*value)
    }

    #[inline(always)]
    pub fn bytes(&mut self) -> Result<&'a [u8], Broken> {
        self.sized().map(|(bytes, size)| &bytes[..size])
    }

    /// A length and its bytes. Returns all remaining bytes from there on, and the length.
    #[inline(always)]
    pub fn sized(&mut self) -> Result<(&'a [u8], usize), Broken> {
        let size = usize::try_from(self.varint()?).map_err(|_| Broken::Length)?;
        let bytes = self.rest;
        self.rest = bytes.get(size..).ok_or(Broken::Length)?;
        Ok((bytes, size))
    }

    /// Skips the value after `tag`, by its wire type alone.
    pub fn skip(&mut self, tag: u32, depth: u32) -> Result<(), Broken> {
        match tag & 7 {
            VARINT => self.varint().map(drop),
            FIXED64 => self.fixed::<8>().map(drop),
            LENGTH => self.bytes().map(drop),
            START_GROUP => self.skip_group(tag >> 3, depth),
            END_GROUP => Err(Broken::Group),
            FIXED32 => self.fixed::<4>().map(drop),
            _ => Err(Broken::WireType),
        }
    }

    fn skip_group(&mut self, number: u32, depth: u32) -> Result<(), Broken> {
        let depth = depth.checked_sub(1).ok_or(Broken::Deep)?;
        loop {
            if self.is_empty() {
                return Err(Broken::Group);
            }
            let tag = self.tag()?;
            if tag == number << 3 | END_GROUP {
                return Ok(());
            }
            self.skip(tag, depth)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_end_at_their_last_byte() {
        let mut cursor = Cursor::new(&[5, 0x96, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        let read = [cursor.varint(), cursor.varint(), cursor.varint(), cursor.varint()];
        assert_eq!(read, [Ok(5), Ok(150), Ok(u64::MAX), Err(Broken::Cut)]);
        assert_eq!(Cursor::new(&[0x80; 11]).varint(), Err(Broken::LongVarint));
        assert_eq!(Cursor::new(&[0x80; 9]).varint(), Err(Broken::Cut));
    }

    #[test]
    fn tags_have_a_number_and_at_most_five_bytes() {
        assert_eq!(Cursor::new(&[8]).tag(), Ok(8));
        assert_eq!(Cursor::new(&[7]).tag(), Err(Broken::Tag));
        assert_eq!(Cursor::new(&[0x88, 0x80, 0x80, 0x80, 0]).tag(), Ok(8));
        assert_eq!(Cursor::new(&[0x88, 0x80, 0x80, 0x80, 0x80, 0]).tag(), Err(Broken::Tag));
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).tag(), Err(Broken::Tag));
    }

    #[test]
    fn unselected_fields_are_skipped_by_their_wire_type() {
        let after = |bytes: &'static [u8]| {
            let mut cursor = Cursor::new(bytes);
            cursor.tag().and_then(|tag| cursor.skip(tag, MAX_DEPTH)).map(|()| cursor.rest().len())
        };
        assert_eq!(after(&[8, 0x96, 1, 7]), Ok(1));
        assert_eq!(after(&[9, 1, 2, 3, 4, 5, 6, 7, 8, 7]), Ok(1));
        assert_eq!(after(&[10, 2, 1, 1, 7]), Ok(1));
        assert_eq!(after(&[11, 16, 1, 19, 20, 12, 7]), Ok(1));
        assert_eq!(after(&[13, 1, 2, 3, 4, 7]), Ok(1));
        assert_eq!(after(&[12]), Err(Broken::Group));
        assert_eq!(after(&[11, 20]), Err(Broken::Group));
        assert_eq!(after(&[11]), Err(Broken::Group));
        assert_eq!(after(&[14]), Err(Broken::WireType));
        assert_eq!(after(&[10, 2, 1]), Err(Broken::Length));
        assert_eq!(after(&[9, 1]), Err(Broken::Cut));
        assert_eq!(after(&[11; 101]), Err(Broken::Deep));
        assert_eq!(after(&[11; 100]), Err(Broken::Group));
    }
}
