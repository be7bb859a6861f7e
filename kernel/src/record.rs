//! Varints, records and record headers, read from the decompressed payload of one batch.
#![forbid(unsafe_code)]

use crate::error::Fault;

/// The smallest record in bytes: seven fields of one byte each.
pub const MIN_RECORD: usize = 7;
/// The smallest header in bytes: an empty key and a null value.
const MIN_HEADER: usize = 2;

/// Reads fields from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// A zigzag varint of 32 bits, at most 5 bytes long. Bits above the 32nd are dropped, as in Kafka's Java client.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<i32, Fault> {
        // Do not simplify: lengths and deltas of most records take one or two bytes, and these two arms halve the time
        // of the loop below.
        let raw = match *self.bytes {
            [a, ref rest @ ..] if a < 0x80 => {
                self.bytes = rest;
                u32::from(a)
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.bytes = rest;
                u32::from(a & 0x7f) | u32::from(b) << 7
            }
            _ => self.long_varint(5)? as u32,
        };
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// A zigzag varint of 64 bits, at most 10 bytes long.
    #[inline(always)]
    pub fn varlong(&mut self) -> Result<i64, Fault> {
        let raw = match *self.bytes {
            [a, ref rest @ ..] if a < 0x80 => {
                self.bytes = rest;
                u64::from(a)
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.bytes = rest;
                u64::from(a & 0x7f) | u64::from(b) << 7
            }
            _ => self.long_varint(10)?,
        };
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn long_varint(&mut self, longest: usize) -> Result<u64, Fault> {
        let mut raw = 0u64;
        for (at, &byte) in self.bytes.iter().take(longest).enumerate() {
            raw |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.bytes = self.bytes.get(at + 1..).unwrap_or_default();
                return Ok(raw);
            }
        }
        Err(if self.bytes.len() < longest { Fault::Truncated } else { Fault::VarintTooLong })
    }

    /// The next `length` bytes, without a copy.
    #[inline(always)]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Fault::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A length and that many bytes; length -1 is null.
    #[inline(always)]
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, Fault> {
        match self.varint()? {
            -1 => Ok(None),
            length => self.take(usize::try_from(length).map_err(|_| Fault::NegativeLength)?).map(Some),
        }
    }

    /// The record at the front. Its headers are counted but not read: see [`Headers::walk`].
    #[inline(always)]
    pub fn record(&mut self) -> Result<Record<'a>, Fault> {
        let length = usize::try_from(self.varint()?).map_err(|_| Fault::RecordLength)?;
        let mut fields = Reader::new(self.take(length).map_err(|_| Fault::RecordLength)?);
        fields.take(1)?; // // attributes: Kafka uses no bit of them
        let timestamp_delta = fields.varlong()?;
        let offset_delta = fields.varint()?;
        let key = fields.nullable_bytes()?;
        let value = fields.nullable_bytes()?;
        let count = fields.varint()?;
        if count == 0 && fields.remaining() != 0 {
            return Err(Fault::RecordNotTiled);
        }
        if count < 0 || count as usize > fields.remaining() / MIN_HEADER {
            return Err(Fault::HeaderCount);
        }
        Ok(Record { timestamp_delta, offset_delta, key, value, headers: Headers { count, fields } })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    count: i32,
    fields: Reader<'a>,
}

impl<'a> Headers<'a> {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Passes every header to `each`, and checks that the headers fill the rest of the record.
    pub fn walk(
        &self,
        mut each: impl FnMut(&'a [u8], Option<&'a [u8]>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut fields = self.fields;
        for _ in 0..self.count {
            let key = fields.nullable_bytes()?.ok_or(Fault::HeaderKeyNull)?;
            each(key, fields.nullable_bytes()?)?;
        }
        if fields.remaining() == 0 { Ok(()) } else { Err(Fault::RecordNotTiled) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_batches;

    #[test]
    fn varints_are_read_as_written() {
        for value in [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 1 << 20, i32::MAX, i32::MIN] {
            let bytes = test_batches::varint(value.into());
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.remaining(), 0);
        }
        for value in [0, -1, 63, 64, i64::MAX, i64::MIN, 1 << 40] {
            assert_eq!(Reader::new(&test_batches::varint(value)).varlong(), Ok(value));
        }
    }

    #[test]
    fn a_varint_is_at_most_five_bytes_and_a_varlong_ten() {
        assert_eq!(Reader::new(&[0x80; 5]).varint(), Err(Fault::VarintTooLong));
        assert_eq!(Reader::new(&[0x80; 10]).varlong(), Err(Fault::VarintTooLong));
        assert_eq!(Reader::new(&[0x80; 4]).varint(), Err(Fault::Truncated));
        assert_eq!(Reader::new(&[0x80; 9]).varlong(), Err(Fault::Truncated));
        assert_eq!(Reader::new(&[]).varint(), Err(Fault::Truncated));
    }

    #[test]
    fn null_and_empty_differ() {
        let bytes = test_batches::record_with(0, 0, None, Some(b""), &[(b"h", None), (b"", Some(b""))]);
        let record = Reader::new(&bytes).record().unwrap();
        assert_eq!((record.key, record.value), (None, Some(&b""[..])));
        let mut seen = Vec::new();
        let mut keep = |key, value| {
            seen.push((key, value));
            Ok(())
        };
        record.headers.walk(&mut keep).unwrap();
        assert_eq!(seen, [(&b"h"[..], None), (&b""[..], Some(&b""[..]))]);
    }

    #[test]
    fn fields_must_fill_the_record() {
        let body = [0, 0, 0, 1, 1, 0];
        assert!(Reader::new(&test_batches::framed(&body)).record().is_ok());
        assert_eq!(Reader::new(&test_batches::framed(&body[..5])).record().unwrap_err(), Fault::Truncated);
        let longer = [&body[..], &[0]].concat();
        assert_eq!(Reader::new(&test_batches::framed(&longer)).record().unwrap_err(), Fault::RecordNotTiled);
        let with_header = [0, 0, 0, 1, 1, 2, 0, 1, 9];
        let framed = test_batches::framed(&with_header);
        let record = Reader::new(&framed).record().unwrap();
        assert_eq!(record.headers.walk(|_, _| Ok(())), Err(Fault::RecordNotTiled));
    }

    #[test]
    fn lengths_below_minus_one_are_refused() {
        let minus_two = 3;
        assert_eq!(Reader::new(&[minus_two]).record().unwrap_err(), Fault::RecordLength);
        for body in [[0, 0, 0, minus_two, 1, 0], [0, 0, 0, 1, minus_two, 0]] {
            assert_eq!(
                Reader::new(&test_batches::framed(&body)).record().unwrap_err(),
                Fault::NegativeLength
            );
        }
        let null_header_key = test_batches::framed(&[0, 0, 0, 1, 1, 2, 1, 1]);
        let record = Reader::new(&null_header_key).record().unwrap();
        assert_eq!(record.headers.walk(|_, _| Ok(())), Err(Fault::HeaderKeyNull));
    }

    #[test]
    fn a_header_count_needs_the_bytes_for_it() {
        let mut body = vec![0, 0, 0, 1, 1];
        body.extend(test_batches::varint(i32::MAX.into()));
        body.extend([0; 20]);
        assert_eq!(Reader::new(&test_batches::framed(&body)).record().unwrap_err(), Fault::HeaderCount);
        assert_eq!(
            Reader::new(&test_batches::framed(&[0, 0, 0, 1, 1, 1])).record().unwrap_err(),
            Fault::HeaderCount
        );
    }
}
