//! Encodes Arrow rows into record batches (magic 2), one open batch per partition.
//!
//! ```text
//! encoder ─┬> rows          the columns of an Arrow batch
//!          ├> partitioner   Java's murmur2, and the rotation of rows without a key
//!          ├> open_batch    the records of one partition, and the header of their batch
//!          ├> compressor    gzip, snappy, lz4 and zstd as Java's producer frames them
//!          ├> content_hash  a hash of all rows that does not depend on their order
//!          ├> row_numbers   which rows are in a batch
//!          ├> split         cuts a finished batch in halves
//!          └> unwritable    rows that cannot become records
//! ```
//!
//! One pass over the rows, no allocation per row: every record is written once, into the buffer of its partition. Memory
//! is bounded by the size of all open batches and by the batches that a call returns.
#![forbid(unsafe_code)]

pub mod compressor;
pub mod content_hash;
pub mod open_batch;
pub mod partitioner;
pub mod row_numbers;
pub mod rows;
pub mod split;
pub mod unwritable;

use std::collections::HashMap;

use self::compressor::{Compressed, Compressor};
use self::open_batch::{Content, Finished, OpenBatch, Producer};
use self::partitioner::{Rotation, partition_of};
use self::rows::Rows;
use self::unwritable::{Failure, Fault, Unwritable};
use crate::batch::HEADER;

/// The largest batch and the largest record: decoders accept no more.
pub const MOST_BYTES: usize = 1 << 30;
/// Partitions of a topic. Guards against a count that no cluster has.
pub const MOST_PARTITIONS: u32 = 1 << 20;
/// Buffers kept for new batches, in bytes of all together.
const SPARE_BYTES: usize = 16 << 20;
/// Bytes of the key in the error of a refused row.
const SHOWN_KEY: usize = 100;
const NO_SEQUENCE: i32 = -1;
const NO_TOPIC: usize = usize::MAX;

/// Sequences wrap to 0 after 2^31 - 1, as brokers expect. Batches without a producer have -1.
pub fn sequence_after(sequence: i32, count: i32) -> i32 {
    if sequence == NO_SEQUENCE {
        return NO_SEQUENCE;
    }
    ((sequence as u32).wrapping_add(count as u32) & 0x7fff_ffff) as i32
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub compressed: Compressed,
    /// Bytes of a batch, header included and before compression, at which it is cut.
    pub batch_size: usize,
    /// Bytes of a batch with one record, before compression, above which the record is refused.
    pub max_record_size: usize,
    /// Bytes of all open batches together, at which all of them are closed.
    pub buffer_size: usize,
    /// Whether to keep a hash of all rows.
    pub hashed: bool,
    /// The partition at which the rotation begins.
    pub seed: u64,
}

/// A closed batch of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The number that `add_topic` returned.
    pub topic: usize,
    pub partition: u32,
    pub base_sequence: i32,
    pub finished: Finished,
}

struct Topic {
    name: String,
    hash: u64,
    partitions: u32,
    /// One per partition. More than `partitions` if the topic was created again with fewer.
    slots: Vec<Slot>,
    rotation: Rotation,
}

/// The state of one partition.
#[derive(Default)]
struct Slot {
    open: Option<OpenBatch>,
    next_sequence: i32,
}

pub struct Encoder {
    settings: Settings,
    topics: Vec<Topic>,
    numbers: HashMap<String, usize>,
    closer: Closer,
    open_bytes: usize,
    rows: u64,
    content_hash: u64,
}

/// Closes batches.
struct Closer {
    compressor: Compressor,
    compressed: Compressed,
    producer: Option<Producer>,
    /// Buffers of closed batches, for new ones.
    spares: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Closer {
    fn close(&mut self, slot: &mut Slot, open_bytes: &mut usize) -> Result<Option<(Finished, i32)>, Failure> {
        let Some(open) = slot.open.take() else { return Ok(None) };
        *open_bytes -= open.bytes();
        let base_sequence = if self.producer.is_some() { slot.next_sequence } else { NO_SEQUENCE };
        let producer = self.producer.unwrap_or(Producer::NONE);
        let (finished, spare) = open
            .finish(&mut self.compressor, self.compressed.codec(), producer, base_sequence)
            .map_err(Failure::Compression)?;
        slot.next_sequence = sequence_after(slot.next_sequence, finished.count);
        if let Some(spare) = spare {
            self.recycle(spare);
        }
        Ok(Some((finished, base_sequence)))
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        let bytes = self.spare_bytes + buffer.capacity();
        if bytes <= SPARE_BYTES {
            self.spare_bytes = bytes;
            self.spares.push(buffer);
        }
    }

    fn new_batch(&mut self) -> OpenBatch {
        let buffer = self.spares.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity();
        OpenBatch::new(buffer)
    }
}

impl Encoder {
    pub fn new(mut settings: Settings) -> Result<Self, String> {
        settings.batch_size = settings.batch_size.min(MOST_BYTES);
        settings.max_record_size = settings.max_record_size.min(MOST_BYTES);
        let closer = Closer {
            compressor: Compressor::new(settings.compressed)?,
            compressed: settings.compressed,
            producer: None,
            spares: Vec::new(),
            spare_bytes: 0,
        };
        let (topics, numbers) = (Vec::new(), HashMap::new());
        Ok(Encoder { settings, topics, numbers, closer, open_bytes: 0, rows: 0, content_hash: 0 })
    }

    /// Bytes of all open batches.
    pub fn open_bytes(&self) -> usize {
        self.open_bytes
    }

    /// Rows appended so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The hash of all rows appended so far; 0 if none is kept.
    pub fn content_hash(&self) -> u64 {
        self.content_hash
    }

    /// Sets the producer of all further batches. The sequences of all partitions restart at 0.
    pub fn set_producer(&mut self, producer: Producer) -> Result<(), String> {
        if self.open_bytes > 0 {
            return Err("batches are open: flush them before the producer changes".to_owned());
        }
        self.closer.producer = Some(producer);
        for slot in self.topics.iter_mut().flat_map(|topic| &mut topic.slots) {
            slot.next_sequence = 0;
        }
        Ok(())
    }

    /// Adds a topic, or changes its partitions. Returns the topic's number.
    ///
    /// `available`: the partitions for rows that have neither key nor partition. Empty: all.
    pub fn add_topic(&mut self, name: &str, partitions: u32, available: Vec<u32>) -> Result<usize, String> {
        if !(1..=MOST_PARTITIONS).contains(&partitions) {
            return Err(format!(
                "topic {name:?}: the number of partitions must be between 1 and {MOST_PARTITIONS}, not {partitions}"
            ));
        }
        if let Some(wrong) = available.iter().find(|each| **each >= partitions) {
            return Err(format!("topic {name:?}: partition {wrong} is not one of {partitions}"));
        }
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None => {
                self.numbers.insert(name.to_owned(), self.topics.len());
                self.topics.push(Topic {
                    name: name.to_owned(),
                    hash: content_hash::topic_hash(name),
                    partitions,
                    slots: Vec::new(),
                    rotation: Rotation::new(partitions, Vec::new(), self.settings.seed),
                });
                self.topics.len() - 1
            }
        };
        if let Some(topic) = self.topics.get_mut(number) {
            topic.partitions = partitions;
            topic.rotation.reset(partitions, available);
            topic.slots.resize_with(topic.slots.len().max(partitions as usize), Slot::default);
        }
        Ok(number)
    }

    /// The number of a topic.
    pub fn topic_number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Appends all rows. Batches that became full are added to `closed`, in order per partition.
    ///
    /// `topic` is that of all rows; None reads the column. `timestamp` is for rows that have none.
    pub fn append(
        &mut self,
        rows: &Rows,
        topic: Option<usize>,
        timestamp: i64,
        closed: &mut Vec<Closed>,
    ) -> Result<(), Failure> {
        let mut number = topic.unwrap_or_default();
        for at in 0..rows.len() {
            if topic.is_none() {
                number = match self.topic_of(rows.topic(at), number) {
                    Ok(number) => number,
                    Err(fault) => {
                        let row = Row { rows, at, number: NO_TOPIC };
                        return Err(self.refuse(row, rows.partition(at), fault));
                    }
                };
            }
            self.append_row(rows, at, number, timestamp, closed)?;
        }
        Ok(())
    }

    /// Closes all open batches. Rows without a key go on with the next partition.
    pub fn flush(&mut self, closed: &mut Vec<Closed>) -> Result<(), Failure> {
        let Encoder { topics, closer, open_bytes, .. } = self;
        for (number, topic) in topics.iter_mut().enumerate() {
            for (partition, slot) in topic.slots.iter_mut().enumerate() {
                if let Some((finished, base_sequence)) = closer.close(slot, open_bytes)? {
                    closed.push(Closed {
                        topic: number,
                        partition: partition as u32,
                        base_sequence,
                        finished,
                    });
                }
            }
            topic.rotation.advance();
        }
        Ok(())
    }

    /// Takes back the buffer of a closed batch.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.closer.recycle(buffer);
    }

    /// The number of a row's topic. `last` is that of the row before: most rows have the same.
    #[inline]
    fn topic_of(&self, name: Option<&[u8]>, last: usize) -> Result<usize, Fault> {
        let name = name.ok_or(Fault::NullTopic)?;
        match self.topics.get(last) {
            Some(topic) if topic.name.as_bytes() == name => Ok(last),
            _ => {
                let name = std::str::from_utf8(name).map_err(|_| Fault::UnknownTopic)?;
                self.topic_number(name).ok_or(Fault::UnknownTopic)
            }
        }
    }

    #[inline]
    fn append_row(
        &mut self,
        rows: &Rows,
        at: usize,
        number: usize,
        timestamp: i64,
        closed: &mut Vec<Closed>,
    ) -> Result<(), Failure> {
        let row = Row { rows, at, number };
        let own_partition = rows.partition(at);
        let own_timestamp = match rows.timestamp(at) {
            Ok(own_timestamp) => own_timestamp,
            Err(fault) => return Err(self.refuse(row, own_partition, fault)),
        };
        let content = Content { key: rows.key(at), value: rows.value(at), headers: rows.headers(at) };
        if let Err(fault) = content.headers.check() {
            return Err(self.refuse(row, own_partition, fault));
        }
        let timestamp = own_timestamp.unwrap_or(timestamp);
        let size = content.size();
        let mut moved = false;
        loop {
            let Encoder { settings, topics, closer, open_bytes, .. } = self;
            let Some(topic) = topics.get_mut(number) else {
                return Err(self.refuse(row, own_partition, Fault::UnknownTopic));
            };
            let (partition, rotates) = match (own_partition, content.key) {
                (Some(partition), _) => (partition as u32, false),
                (None, Some(key)) => (partition_of(key, topic.partitions), false),
                (None, None) => (topic.rotation.current(), true),
            };
            let slot = match topic.slots.get_mut(partition as usize) {
                Some(slot) if partition < topic.partitions => slot,
                _ => {
                    let fault = Fault::NoSuchPartition { partitions: topic.partitions };
                    return Err(self.refuse(row, Some(partition as i32), fault));
                }
            };
            let alone = HEADER as u64 + open_batch::first_record_size(size);
            if alone > settings.max_record_size as u64 {
                let fault = Fault::TooLarge { size: alone, limit: settings.max_record_size };
                return Err(self.refuse(row, Some(partition as i32), fault));
            }
            // Not above `max_record_size` plus a few bytes of deltas.
            let growth = match &slot.open {
                None => alone as usize,
                Some(open) => {
                    let growth = open.record_size(timestamp, size) as usize;
                    if open.bytes() + growth > settings.batch_size {
                        if let Some((finished, base_sequence)) = closer.close(slot, open_bytes)? {
                            closed.push(Closed { topic: number, partition, base_sequence, finished });
                        }
                        if rotates && !moved {
                            topic.rotation.advance();
                            moved = true;
                        }
                        continue;
                    }
                    growth
                }
            };
            if *open_bytes > 0 && *open_bytes + growth > settings.buffer_size {
                self.flush(closed)?;
                continue;
            }
            let open = slot.open.get_or_insert_with(|| closer.new_batch());
            let written = open.push(self.rows, timestamp, &content, size);
            if settings.hashed {
                let hash = content_hash::row_hash(topic.hash, own_partition, own_timestamp, written);
                self.content_hash = self.content_hash.wrapping_add(hash);
            }
            *open_bytes += growth;
            self.rows += 1;
            return Ok(());
        }
    }

    #[cold]
    fn refuse(&self, row: Row<'_>, partition: Option<i32>, fault: Fault) -> Failure {
        let Row { rows, at, number } = row;
        let column = || rows.topic(at).map(|name| String::from_utf8_lossy(name).into_owned());
        Failure::Unwritable(Box::new(Unwritable {
            topic: self.topics.get(number).map_or_else(column, |topic| Some(topic.name.clone())),
            partition,
            row: self.rows,
            key: rows.key(at).map(|key| key.get(..SHOWN_KEY).unwrap_or(key).to_vec()),
            reason: fault.reason(),
            hint: fault.hint(),
        }))
    }
}

/// A row that may be refused. The number of its topic is [`NO_TOPIC`] if it has none.
#[derive(Clone, Copy)]
struct Row<'a> {
    rows: &'a Rows,
    at: usize,
    number: usize,
}

#[cfg(test)]
mod tests;
