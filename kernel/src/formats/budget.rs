//! How much memory a record may ask for beyond its own bytes: an empty message in a list takes two of them, and each of
//! its thousand columns makes a cell of it.
#![forbid(unsafe_code)]

/// Bytes of columns that one record may make.
const RECORD: usize = 32 << 20;
/// The same for all records of a batch together.
pub const BATCH: usize = 512 << 20;

pub struct Budget {
    batch: usize,
    record: usize,
    /// What the record may spend without the batch.
    own: usize,
}

/// The record asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooWide;

impl TooWide {
    pub const REASON: &str = "repeated messages would make far more columns' cells than the record has bytes";
}

impl Default for Budget {
    fn default() -> Self {
        Budget { batch: BATCH, record: 0, own: 0 }
    }
}

impl Budget {
    /// `own`: what the record has paid for by its own length.
    #[inline]
    pub fn begin_record(&mut self, own: usize) {
        self.own = own;
        self.record = own.saturating_add(RECORD.min(self.batch));
    }

    /// A bad record leaves nothing behind, and so costs nothing.
    #[inline]
    pub fn end_record(&mut self) {
        self.batch -= RECORD.min(self.batch).saturating_sub(self.record);
    }

    #[inline(always)]
    pub fn spend(&mut self, bytes: usize) -> Result<(), TooWide> {
        self.record = self.record.checked_sub(bytes).ok_or(TooWide)?;
        Ok(())
    }
}
