//! A hash of rows that does not depend on their order.
//!
//! The sink stores it in Kafka and compares it when a batch is replayed, possibly by another version. So the hash of a
//! row must never change:
//!
//! ```text
//! XXH3 of  XXH3 of the topic            u64, little-endian
//!          partition, or -1 if null     i32, little-endian
//!          timestamp in ms, or -1       i64, little-endian
//!          XXH3 of the content          u64, little-endian: key, value and headers as in a record batch (varints)
//! ```
//!
//! The content hash of many rows is the wrapping sum of their hashes.
#![forbid(unsafe_code)]

use xxhash_rust::xxh3::xxh3_64;

const NONE: i8 = -1;

pub fn topic_hash(topic: &str) -> u64 {
    xxh3_64(topic.as_bytes())
}

/// `partition` and `timestamp` only if the row has them: those that the encoder chooses may differ in a replay.
pub fn row_hash(topic: u64, partition: Option<i32>, timestamp: Option<i64>, content: &[u8]) -> u64 {
    let mut row = [0; 28];
    let (topic_at, rest) = row.split_at_mut(8);
    let (partition_at, rest) = rest.split_at_mut(4);
    let (timestamp_at, content_at) = rest.split_at_mut(8);
    topic_at.copy_from_slice(&topic.to_le_bytes());
    partition_at.copy_from_slice(&partition.unwrap_or(NONE.into()).to_le_bytes());
    timestamp_at.copy_from_slice(&timestamp.unwrap_or(NONE.into()).to_le_bytes());
    content_at.copy_from_slice(&xxh3_64(content).to_le_bytes());
    xxh3_64(&row)
}
