//! What went wrong, and where.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

/// Why a batch is corrupt, in words. Made only when something is wrong, so it may allocate.
pub type Reason = Cow<'static, str>;

/// A record batch whose bytes are not what Kafka wrote. Topic and partition are known to whoever opened the chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// The base offset the batch claims, or the offset expected there if its header is not readable.
    pub base_offset: i64,
    /// The byte of the chunk where the batch begins.
    pub position: usize,
    pub reason: Reason,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "base offset {}, byte {}: {}", self.base_offset, self.position, self.reason)
    }
}

impl std::error::Error for Corrupt {}

/// What can be wrong inside a record. One byte wide, so that the hot loop's results stay in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Truncated,
    VarintTooLong,
    RecordLength,
    RecordNotTiled,
    NegativeLength,
    HeaderCount,
    HeaderKeyNull,
    HeaderKeysTooLarge,
    OffsetDelta,
    OffsetOverflow,
    TrailingBytes,
}

impl Fault {
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Truncated => "a record ends before its last field",
            Fault::VarintTooLong => "a varint is longer than its type allows",
            Fault::RecordLength => "a record's length is negative or reaches past the end of its batch",
            Fault::RecordNotTiled => "a record's fields do not fill its length",
            Fault::NegativeLength => "a length is below -1",
            Fault::HeaderCount => "a record's header count is negative or more than its bytes can hold",
            Fault::HeaderKeyNull => "a header has no key",
            Fault::HeaderKeysTooLarge => "header keys of one batch take more than 2 GiB",
            Fault::OffsetDelta => "offset deltas do not rise, or exceed the batch's last offset delta",
            Fault::OffsetOverflow => "an offset does not fit 64 bits",
            Fault::TrailingBytes => "bytes are left after the last record",
        }
    }
}
