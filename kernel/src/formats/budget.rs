//! Limits the memory that records may take beyond their own size. An empty message in a list takes two bytes, and each
//! of its thousand columns gets a cell for it. A null takes one byte, and a default is not in the record at all.
//!
//! A record above its limit is a bad record. A batch that reaches its limit ends, and the remaining rows go into
//! another batch.
#![forbid(unsafe_code)]

/// One megabyte; less in tests, which are not optimized and must be fast.
pub const UNIT: usize = if cfg!(test) { 64 << 10 } else { 1 << 20 };

/// Bytes of columns that one record may take beyond the allowance for its own bytes.
pub const RECORD: usize = 32 * UNIT;

/// Bytes of columns allowed per byte of a record: a null takes one byte, and a cell of a decimal seventeen.
const OWN: usize = 16;

/// The largest allowance for a record's own bytes.
const MOST_OWN: usize = 512 << 20;

/// Bytes of columns after which a batch ends. Its last record may exceed it.
const BATCH: usize = 128 * UNIT;

/// A longer record is not read. Repaired strings grow at most threefold, so no column of a batch outgrows Arrow's
/// 32-bit offsets: 3 * (BATCH + LONGEST) + RECORD + MOST_OWN is less.
pub const LONGEST: usize = 256 << 20;

const _: () = assert!(3 * (BATCH + LONGEST) + RECORD + MOST_OWN < i32::MAX as usize);

/// The budget of one batch.
pub struct Budget {
    batch: usize,
    record: usize,
    /// The allowance of the current record plus its own length.
    begun: usize,
}

/// The record exceeds its allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooWide;

impl TooWide {
    pub const REASON: &str =
        "takes far more memory than its own size, through repeated messages, nulls or defaults";
}

/// The reason for refusing a record longer than [`LONGEST`].
#[cold]
pub fn too_long(length: usize) -> String {
    format!("is {length} bytes long, more than {} MB", LONGEST >> 20)
}

/// The most rows of a batch if each row takes `weight` bytes of columns.
pub fn most_rows(weight: usize) -> usize {
    (BATCH / weight.max(1)).max(1)
}

/// Bytes of columns that a record of this length may take.
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
    /// Counts the bytes of a finished record, its own included. Returns whether the batch ends here.
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

    /// Counts a good record. A bad record leaves nothing in the columns, so it is not counted.
    #[inline]
    pub fn end_record(&mut self) {
        self.batch = self.batch.saturating_sub(self.begun - self.record);
    }

    /// Whether the batch ends here.
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
