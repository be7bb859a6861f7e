//! A record batch that is being built: records are appended, then it is compressed and gets its header.
#![forbid(unsafe_code)]

use super::compressor::{Codec, Compressor};
use super::row_numbers::RowNumbers;
use super::rows::Headers;
use crate::batch::HEADER;

const MAGIC: u8 = 2;
const TRANSACTIONAL: i16 = 0x10;
/// Offset and leader epoch are the broker's to set. Java's producer writes these.
const BASE_OFFSET: i64 = 0;
const LEADER_EPOCH: i32 = -1;
/// Base offset and length: the bytes that the length field does not count.
const LOG_OVERHEAD: usize = 12;
const CRC_FROM: usize = 21;

/// The producer of a batch, as in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
    pub transactional: bool,
}

impl Producer {
    /// Of batches without an idempotent producer.
    pub const NONE: Producer = Producer { id: -1, epoch: -1, transactional: false };
}

/// The key, the value and the headers of a record.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

impl Content<'_> {
    /// The bytes that it takes in a batch.
    #[inline(always)]
    pub fn size(&self) -> u64 {
        let mut size = sized(self.key) + sized(self.value) + varint_size(self.headers.count() as i64);
        for (name, value) in self.headers.pairs() {
            size += sized(Some(name)) + sized(value);
        }
        size
    }

    #[inline(always)]
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.key);
        put_bytes(out, self.value);
        put_varint(out, self.headers.count() as i64);
        for (name, value) in self.headers.pairs() {
            put_bytes(out, Some(name));
            put_bytes(out, value);
        }
    }
}

/// A closed batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub data: Vec<u8>,
    pub count: i32,
    pub rows: RowNumbers,
    /// Bytes of the records before compression.
    pub payload_bytes: usize,
}

#[derive(Debug)]
pub struct OpenBatch {
    /// Room for the header, then the records.
    buffer: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    rows: RowNumbers,
}

impl OpenBatch {
    /// `buffer` is an old one, or empty; its content does not matter.
    pub fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(HEADER, 0);
        OpenBatch { buffer, count: 0, base_timestamp: 0, max_timestamp: 0, rows: RowNumbers::default() }
    }

    /// Bytes of header and records.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes that a record would take as the next one of this batch, which is not empty.
    #[inline(always)]
    pub fn record_size(&self, timestamp: i64, content: u64) -> u64 {
        let body = body_size(timestamp - self.base_timestamp, self.count, content);
        varint_size(body as i64) + body
    }

    /// Appends a record. Returns its content as it stands in the batch, for the hash of the row.
    #[inline(always)]
    pub fn push(&mut self, row: u64, timestamp: i64, content: &Content<'_>, content_size: u64) -> &[u8] {
        self.begin(row, timestamp, content_size);
        let start = self.buffer.len();
        content.write(&mut self.buffer);
        self.buffer.get(start..).unwrap_or_default()
    }

    /// Appends a record whose content is encoded already.
    pub fn push_encoded(&mut self, row: u64, timestamp: i64, content: &[u8]) {
        self.begin(row, timestamp, content.len() as u64);
        self.buffer.extend_from_slice(content);
    }

    /// Writes the fields of a record before its content.
    #[inline(always)]
    fn begin(&mut self, row: u64, timestamp: i64, content_size: u64) {
        if self.count == 0 {
            (self.base_timestamp, self.max_timestamp) = (timestamp, timestamp);
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.rows.push(row);
        let delta = timestamp - self.base_timestamp;
        let body = body_size(delta, self.count, content_size);
        self.buffer.reserve(body as usize + 5);
        put_varint(&mut self.buffer, body as i64);
        self.buffer.push(0); // attributes: Kafka uses no bit of them
        put_varint(&mut self.buffer, delta);
        put_varint(&mut self.buffer, self.count.into());
        self.count += 1;
    }

    /// Compresses the records and writes the header. Returns the buffer too if the batch does not use it.
    pub fn finish(
        self,
        compressor: &mut Compressor,
        codec: Codec,
        producer: Producer,
        base_sequence: i32,
    ) -> Result<(Finished, Option<Vec<u8>>), String> {
        let OpenBatch { buffer, count, base_timestamp, max_timestamp, rows } = self;
        let payload_bytes = buffer.len() - HEADER;
        let (mut data, spare) = match compressor.compress(HEADER, buffer.get(HEADER..).unwrap_or_default())? {
            Some(data) => (data, Some(buffer)),
            None => (buffer, None),
        };
        let attributes = codec as i16 | if producer.transactional { TRANSACTIONAL } else { 0 };
        let mut covered = [0; HEADER - CRC_FROM];
        let mut fields = Fields { rest: &mut covered };
        fields.put(attributes.to_be_bytes());
        fields.put((count - 1).to_be_bytes());
        fields.put(base_timestamp.to_be_bytes());
        fields.put(max_timestamp.to_be_bytes());
        fields.put(producer.id.to_be_bytes());
        fields.put(producer.epoch.to_be_bytes());
        fields.put(base_sequence.to_be_bytes());
        fields.put(count.to_be_bytes());
        if let Some(room) = data.get_mut(CRC_FROM..HEADER) {
            room.copy_from_slice(&covered);
        }
        let crc = crc_fast::crc32_iscsi(data.get(CRC_FROM..).unwrap_or_default());
        let length = (data.len() - LOG_OVERHEAD) as i32;
        let mut fields = Fields { rest: data.get_mut(..CRC_FROM).unwrap_or_default() };
        fields.put(BASE_OFFSET.to_be_bytes());
        fields.put(length.to_be_bytes());
        fields.put(LEADER_EPOCH.to_be_bytes());
        fields.put([MAGIC]);
        fields.put(crc.to_be_bytes());
        Ok((Finished { data, count, rows, payload_bytes }, spare))
    }
}

/// Writes fields one after the other.
struct Fields<'a> {
    rest: &'a mut [u8],
}

impl Fields<'_> {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        if let Some((place, rest)) = std::mem::take(&mut self.rest).split_first_chunk_mut::<N>() {
            *place = field;
            self.rest = rest;
        }
    }
}

/// The bytes of a record as the first one of a batch.
#[inline(always)]
pub fn first_record_size(content: u64) -> u64 {
    let body = body_size(0, 0, content);
    varint_size(body as i64) + body
}

/// The bytes of a record without its length.
#[inline(always)]
fn body_size(timestamp_delta: i64, offset_delta: i32, content: u64) -> u64 {
    1 + varint_size(timestamp_delta) + varint_size(offset_delta.into()) + content
}

#[inline(always)]
fn sized(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(1, |bytes| varint_size(bytes.len() as i64) + bytes.len() as u64)
}

#[inline(always)]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline(always)]
fn varint_size(value: i64) -> u64 {
    u64::from(70 - (zigzag(value) | 1).leading_zeros()) / 7
}

#[inline(always)]
fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

#[inline(always)]
fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.push(1), // the varint of -1
        Some(bytes) => {
            put_varint(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_batches;

    #[test]
    fn varints_are_those_of_the_reader() {
        for shift in 0..64 {
            for value in [1i64 << shift, (1i64 << shift).wrapping_sub(1), -(1i64 << shift.min(62))] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out, test_batches::varint(value));
                assert_eq!(varint_size(value), out.len() as u64, "{value}");
            }
        }
    }
}
