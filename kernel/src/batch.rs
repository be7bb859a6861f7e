//! The header of a record batch (magic 2), and the checks that need no record.
//!
//! ```text
//! byte  0 base offset i64          not covered by the CRC: a bit flipped here moves every record of the batch
//!       8 length i32               not covered
//!      12 leader epoch i32         not covered, not used
//!      16 magic i8                 not covered
//!      17 crc u32                  CRC32C of everything from byte 21 to the end
//!      21 attributes i16           codec 0-2, timestamp type 3, transactional 4, control 5, delete horizon 6
//!      23 last offset delta i32    27 base timestamp i64    35 max timestamp i64
//!      43 producer id i64          51 producer epoch i16    53 base sequence i32    57 record count i32
//!      61 records
//! ```
#![forbid(unsafe_code)]

use crate::error::Reason;
use crate::record::MIN_RECORD;

/// Base offset and length: the bytes that the length field does not count.
const LOG_OVERHEAD: usize = 12;
/// The bytes before the first record.
pub const HEADER: usize = 61;
/// The smallest length field of a magic 2 batch: a header without records.
const MIN_LENGTH: i32 = (HEADER - LOG_OVERHEAD) as i32;
/// The smallest length field of a magic 0 message: crc, magic, attributes, null key, null value.
const MIN_LEGACY_LENGTH: i32 = 14;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub base_offset: i64,
    /// Size of the whole batch in bytes, base offset and length included.
    pub size: usize,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub last_offset: i64,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub record_count: i32,
}

impl Header {
    pub fn codec(&self) -> i16 {
        self.attributes & 0x07
    }

    pub fn is_log_append_time(&self) -> bool {
        self.attributes & 0x08 != 0
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }
}

/// What begins at the front of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// A complete batch of magic 2 with a correct CRC.
    Batch(Header),
    /// A complete message or message set of magic 0 or 1, with its size in bytes.
    Legacy(usize),
    /// The bytes end before the batch does.
    Incomplete,
}

/// Reads the front of `bytes`. Fields that the CRC covers are used only after the CRC was verified.
pub fn read_front(bytes: &[u8], check_crc: bool) -> Result<Front, Reason> {
    let Some(length) = be_i32(bytes, 8) else { return Ok(Front::Incomplete) };
    if length < MIN_LEGACY_LENGTH {
        return Err(format!("batch length {length} is less than any batch takes").into());
    }
    let Some(&magic) = bytes.get(MAGIC_AT) else { return Ok(Front::Incomplete) };
    if magic > 2 {
        return Err(format!("unknown magic {}", magic as i8).into());
    }
    if magic == 2 && length < MIN_LENGTH {
        return Err(format!("batch length {length} is less than a batch header takes").into());
    }
    let size = LOG_OVERHEAD + length as usize;
    let Some(bytes) = bytes.get(..size) else { return Ok(Front::Incomplete) };
    if magic < 2 {
        return Ok(Front::Legacy(size));
    }
    if check_crc {
        let stored = be_i32(bytes, CRC_AT).unwrap_or_default() as u32;
        let computed = crc_fast::crc32_iscsi(bytes.get(CRC_FROM..).unwrap_or_default());
        if stored != computed {
            return Err(format!("CRC is {computed:08x}, the batch says {stored:08x}").into());
        }
    }
    match read_header(bytes, size) {
        Some(header) => check(header).map(Front::Batch),
        None => Ok(Front::Incomplete),
    }
}

/// The base offset at the front of `bytes`, if there are enough bytes.
pub fn peek_base_offset(bytes: &[u8]) -> Option<i64> {
    be_i64(bytes, 0)
}

fn read_header(bytes: &[u8], size: usize) -> Option<Header> {
    let base_offset = be_i64(bytes, 0)?;
    let last_offset_delta = be_i32(bytes, 23)?;
    Some(Header {
        base_offset,
        size,
        attributes: be_i16(bytes, 21)?,
        last_offset_delta,
        // An overflow becomes negative, and `check` rejects that.
        last_offset: base_offset.wrapping_add(i64::from(last_offset_delta)),
        base_timestamp: be_i64(bytes, 27)?,
        max_timestamp: be_i64(bytes, 35)?,
        producer_id: be_i64(bytes, 43)?,
        record_count: be_i32(bytes, 57)?,
    })
}

fn check(header: Header) -> Result<Header, Reason> {
    let Header { base_offset, last_offset_delta, last_offset, record_count, .. } = header;
    if base_offset < 0 {
        return Err("base offset is negative".into());
    }
    if last_offset_delta < 0 {
        return Err(format!("last offset delta {last_offset_delta} is negative").into());
    }
    if last_offset < base_offset {
        return Err("last offset does not fit 64 bits".into());
    }
    if record_count < 0 || i64::from(record_count) > i64::from(last_offset_delta) + 1 {
        return Err(format!(
            "record count {record_count} does not agree with last offset delta {last_offset_delta}"
        )
        .into());
    }
    if header.codec() > 4 {
        return Err(format!("unknown codec {}", header.codec()).into());
    }
    if header.codec() == 0 {
        check_count(record_count, header.size - HEADER)?;
    }
    Ok(header)
}

/// Rejects a record count that does not fit into `bytes` of decompressed records.
pub fn check_count(record_count: i32, bytes: usize) -> Result<(), Reason> {
    if record_count as usize > bytes / MIN_RECORD {
        return Err(format!("{record_count} records cannot fit in {bytes} bytes").into());
    }
    Ok(())
}

fn be_i16(bytes: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be_i32(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be_i64(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_batches::{Batch, fix_crc};

    fn reason(bytes: &[u8]) -> String {
        read_front(bytes, true).expect_err("must be refused").into_owned()
    }

    #[test]
    fn a_header_is_read_field_by_field() {
        let mut batch = Batch::counted(100, 3).transactional(42);
        batch.last_offset_delta = 9;
        let bytes = batch.encode();
        let Ok(Front::Batch(header)) = read_front(&bytes, true) else { panic!("not a batch") };
        assert_eq!((header.base_offset, header.last_offset, header.record_count), (100, 109, 3));
        assert_eq!((header.base_timestamp, header.max_timestamp, header.producer_id), (1_000, 2_000, 42));
        assert_eq!((header.size, header.codec()), (bytes.len(), 0));
        assert!(header.is_transactional() && !header.is_control() && !header.is_log_append_time());
    }

    #[test]
    fn a_batch_without_its_last_bytes_is_incomplete() {
        let bytes = Batch::counted(0, 2).encode();
        for length in 0..bytes.len() {
            assert_eq!(read_front(&bytes[..length], true), Ok(Front::Incomplete), "{length} bytes");
        }
    }

    #[test]
    fn every_bit_from_the_crc_on_is_covered_by_it() {
        let bytes = Batch::counted(0, 2).encode();
        for bit in 17 * 8..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(reason(&bad).starts_with("CRC"), "bit {bit}");
        }
    }

    #[test]
    fn magic_0_and_1_are_reported_and_unknown_ones_refused() {
        let mut bytes = Batch::counted(0, 1).encode();
        for magic in [0, 1] {
            bytes[16] = magic;
            assert_eq!(read_front(&bytes, true), Ok(Front::Legacy(bytes.len())));
        }
        for magic in 3..=255 {
            bytes[16] = magic;
            assert!(reason(&bytes).contains("magic"));
        }
    }

    #[test]
    fn impossible_batch_lengths_are_refused() {
        let mut bytes = Batch::counted(0, 1).encode();
        for length in [i32::MIN, -1, 0, 13, 14, 48] {
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            assert!(reason(&bytes).contains("length"), "{length}");
        }
    }

    #[test]
    fn counts_deltas_and_offsets_must_agree() {
        let refused = |change: fn(&mut Batch), word: &str| {
            let mut batch = Batch::counted(5, 2);
            change(&mut batch);
            let found = reason(&batch.encode());
            assert!(found.contains(word), "{found} does not name {word}");
        };
        refused(|batch| batch.count = 3, "record count");
        refused(|batch| batch.count = -1, "record count");
        refused(|batch| batch.last_offset_delta = -1, "last offset delta");
        refused(|batch| batch.last_offset_delta = 0, "record count");
        refused(|batch| batch.base_offset = -1, "negative");
        refused(|batch| batch.base_offset = i64::MAX, "64 bits");
        refused(|batch| batch.attributes = 5, "codec");
        refused(|batch| (batch.count, batch.last_offset_delta) = (i32::MAX, i32::MAX), "cannot fit");
    }

    #[test]
    fn compaction_may_leave_a_batch_without_records() {
        let mut batch = Batch::new(7, &[]);
        batch.last_offset_delta = 4;
        assert!(
            matches!(read_front(&batch.encode(), true), Ok(Front::Batch(header)) if header.last_offset == 11)
        );
    }

    #[test]
    fn bytes_after_the_batch_do_not_matter_to_its_crc() {
        let mut bytes = Batch::counted(0, 1).encode();
        fix_crc(&mut bytes);
        bytes.push(9);
        assert!(read_front(&bytes, true).is_ok());
    }
}
