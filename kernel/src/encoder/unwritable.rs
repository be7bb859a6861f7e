//! Rows that cannot become records.
#![forbid(unsafe_code)]

use std::borrow::Cow;

/// A row that no broker can take. The caller gives up the whole write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwritable {
    pub topic: Option<String>,
    pub partition: Option<i32>,
    /// Counts from 0 over all rows of the encoder.
    pub row: u64,
    /// Its first bytes.
    pub key: Option<Vec<u8>>,
    pub reason: Cow<'static, str>,
    pub hint: Cow<'static, str>,
}

/// Why an Arrow batch was not encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    Unwritable(Box<Unwritable>),
    /// A compression library failed.
    Compression(String),
}

/// What is wrong with a row. Small, so that the results of the hot loop stay in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    NullTopic,
    UnknownTopic,
    NoSuchPartition { partitions: u32 },
    TooLarge { size: u64, limit: usize },
    Timestamp,
    NullHeaderName,
    HeaderNameNotText,
}

impl Fault {
    pub fn reason(self) -> Cow<'static, str> {
        match self {
            Fault::NullTopic => "the topic is null".into(),
            Fault::UnknownTopic => "the topic does not exist".into(),
            Fault::NoSuchPartition { partitions } => {
                format!("the partition does not exist: the topic has {partitions}").into()
            }
            Fault::TooLarge { size, limit } => {
                format!("the record takes {size} bytes, and max.request.size allows {limit}").into()
            }
            Fault::Timestamp => "the timestamp is before 1970, or later than Kafka can store".into(),
            Fault::NullHeaderName => "a header has no name".into(),
            Fault::HeaderNameNotText => "the name of a header is not UTF-8".into(),
        }
    }

    pub fn hint(self) -> Cow<'static, str> {
        match self {
            Fault::NullTopic => "Set option topic, or fill column topic in every row",
            Fault::UnknownTopic => "Create the topic, or correct column topic",
            Fault::NoSuchPartition { .. } => {
                "Correct column partition, or set it to null to choose a partition by the key"
            }
            Fault::TooLarge { .. } => {
                "Make the record smaller, or raise max.request.size and the topic's max.message.bytes"
            }
            Fault::Timestamp => "Correct column timestamp, or set it to null to write the time of the write",
            Fault::NullHeaderName => "Give every header a name: only its value may be null",
            Fault::HeaderNameNotText => "Give headers names in UTF-8: only their values may be any bytes",
        }
        .into()
    }
}
