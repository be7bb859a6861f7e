//! How much memory records may ask for beyond their own bytes: an empty message in a list takes two of them, and each of its
//! thousand columns makes a cell of it; a null takes one, and what a default makes is not in the record at all.
//!
//! A record that asks for too much is a bad record. A batch that has got enough ends there, and what is left of it makes
//! another one.
#![forbid(unsafe_code)]

/// A megabyte; less in tests, which are not optimized and have to be quick.
pub const UNIT: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };

/// Bytes of columns that one record may make beyond what its own bytes pay for.
pub const RECORD: usize = 32 * UNIT;

/// Bytes of columns that a byte of a record pays for: a null takes one byte, and a cell of a decimal seventeen.
const OWN: usize = 16;

/// Bytes of columns that the bytes of one record pay for at most.
const MOST_OWN: usize = 512 << 20;

/// Bytes of columns after which a batch ends. It may go beyond that by its last record.
const BATCH: usize = 128 * UNIT;

/// A longer record is not read. Repaired texts grow threefold at most, so no column of a batch outgrows Arrow's offsets of
/// 32 bits: 3 * (BATCH + LONGEST) + RECORD + MOST_OWN is less.
pub const LONGEST: usize = 256 << 20;

const _: () = assert!(3 * (BATCH + LONGEST) + RECORD + MOST_OWN < i32::MAX as usize);

/// Of one batch.
pub struct Budget {
    batch: usize,
    record: usize,
    /// What the record began with, and its own length.
    begun: usize,
}

/// The record asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooWide;

impl TooWide {
    pub const REASON: &str =
        "makes far more columns' cells than it has bytes, by repeated messages, nulls or defaults";
}

/// What a record longer than [`LONGEST`] is refused for.
#[cold]
pub fn too_long(length: usize) -> String {
    format!("is {length} bytes long, more than {} MB", LONGEST >> 20)
}

/// How many rows a batch has at most, of which each makes so many bytes of columns.
pub fn most_rows(weight: usize) -> usize {
    (BATCH / weight.max(1)).max(1)
}

/// Bytes of columns that a record of this length may make.
#[inline]
pub fn allowance(length: usize) -> usize {
    RECORD + length.saturating_mul(OWN).min(MOST_OWN)
}

impl Default for Budget {
    fn default() -> Self {
        Budget { batch: BATCH, record: 0, begun: 0 }
    }
}

impl Budget {
    /// A record has made so many bytes, its own counted. Says whether the batch has to end here.
    #[inline]
    pub fn is_used_up_by(&mut self, bytes: usize) -> bool {
        self.batch = self.batch.saturating_sub(bytes);
        self.is_used_up()
    }

    #[inline]
    pub fn begin_record(&mut self, length: usize) {
        self.record = allowance(length);
        self.begun = self.record + length;
    }

    /// A bad record leaves nothing behind, and so costs nothing: this is for others.
    #[inline]
    pub fn end_record(&mut self) {
        self.batch = self.batch.saturating_sub(self.begun - self.record);
    }

    /// Whether the batch has to end here.
    #[inline]
    pub fn is_used_up(&self) -> bool {
        self.batch == 0
    }

    #[inline(always)]
    pub fn spend(&mut self, bytes: usize) -> Result<(), TooWide> {
        self.record = self.record.checked_sub(bytes).ok_or(TooWide)?;
        Ok(())
    }
}
