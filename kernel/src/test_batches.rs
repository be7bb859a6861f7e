//! Builds batches for tests: valid ones, and invalid ones with a correct CRC.
#![forbid(unsafe_code)]

pub fn varint(value: i64) -> Vec<u8> {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    let mut out = Vec::new();
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
    out
}

pub fn bytes(value: Option<&[u8]>) -> Vec<u8> {
    let mut out = varint(value.map_or(-1, |bytes| bytes.len() as i64));
    out.extend_from_slice(value.unwrap_or_default());
    out
}

pub type HeaderPair<'a> = (&'a [u8], Option<&'a [u8]>);

pub fn record_with(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[HeaderPair<'_>],
) -> Vec<u8> {
    let mut body = vec![0];
    body.extend(varint(timestamp_delta));
    body.extend(varint(offset_delta.into()));
    body.extend(bytes(key));
    body.extend(bytes(value));
    body.extend(varint(headers.len() as i64));
    for (key, value) in headers {
        body.extend(bytes(Some(key)));
        body.extend(bytes(*value));
    }
    framed(&body)
}

pub fn record(offset_delta: i32, value: &[u8]) -> Vec<u8> {
    record_with(offset_delta.into(), offset_delta, Some(b"k"), Some(value), &[])
}

/// A record without its length.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let mut out = varint(body.len() as i64);
    out.extend_from_slice(body);
    out
}

#[derive(Debug, Clone)]
pub struct Batch {
    pub base_offset: i64,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub count: i32,
    pub payload: Vec<u8>,
}

impl Batch {
    pub fn new(base_offset: i64, records: &[Vec<u8>]) -> Self {
        Batch {
            base_offset,
            attributes: 0,
            last_offset_delta: (records.len() as i32 - 1).max(0),
            base_timestamp: 1_000,
            max_timestamp: 2_000,
            producer_id: -1,
            count: records.len() as i32,
            payload: records.concat(),
        }
    }

    /// A batch of `count` records with the values "<base>+0", "<base>+1" and so on.
    pub fn counted(base_offset: i64, count: i32) -> Self {
        let records: Vec<_> =
            (0..count).map(|delta| record(delta, format!("{base_offset}+{delta}").as_bytes())).collect();
        Batch::new(base_offset, &records)
    }

    pub fn control(base_offset: i64, producer_id: i64, kind: i16) -> Self {
        let key = [0i16.to_be_bytes(), kind.to_be_bytes()].concat();
        let mut batch = Batch::new(base_offset, &[record_with(0, 0, Some(&key), Some(b"\0\0\0\0\0\0"), &[])]);
        batch.attributes = 0x30;
        batch.producer_id = producer_id;
        batch
    }

    pub fn transactional(mut self, producer_id: i64) -> Self {
        self.attributes |= 0x10;
        self.producer_id = producer_id;
        self
    }

    pub fn compressed(mut self, codec: i16, payload: Vec<u8>) -> Self {
        self.attributes |= codec;
        self.payload = payload;
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.base_offset.to_be_bytes());
        out.extend((49 + self.payload.len() as i32).to_be_bytes());
        out.extend(7i32.to_be_bytes());
        out.push(2);
        out.extend([0; 4]);
        out.extend(self.attributes.to_be_bytes());
        out.extend(self.last_offset_delta.to_be_bytes());
        out.extend(self.base_timestamp.to_be_bytes());
        out.extend(self.max_timestamp.to_be_bytes());
        out.extend(self.producer_id.to_be_bytes());
        out.extend(0i16.to_be_bytes());
        out.extend(0i32.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend_from_slice(&self.payload);
        fix_crc(&mut out);
        out
    }
}

/// Writes the correct CRC into the batch at the front of `bytes`, if there is a batch header.
pub fn fix_crc(bytes: &mut [u8]) {
    if bytes.len() >= 61 {
        let crc = crc_fast::crc32_iscsi(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    }
}
