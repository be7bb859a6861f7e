//! Errors of record batches: the reason and the place.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

/// Why a batch is corrupt, in words. Built only on failure, so it may allocate.
pub type Reason = Cow<'static, str>;

/// A record batch whose bytes are not what Kafka wrote. The caller that opened the chunk knows the topic and the
/// partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// The base offset in the batch header, or the expected offset if the header cannot be read.
    pub base_offset: i64,
    /// The byte of the chunk at which the batch begins.
    pub position: usize,
    pub reason: Reason,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "base offset {}, byte {}: {}", self.base_offset, self.position, self.reason)
    }
}

impl std::error::Error for Corrupt {}

/// A fault inside a record. One byte wide, so that the results of the hot loop stay in registers.
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
