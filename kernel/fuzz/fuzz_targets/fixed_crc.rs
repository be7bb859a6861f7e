//! Batches with an arbitrary header and payload but correct lengths and a correct CRC, so that the fuzzer gets past
//! both. Payloads may be compressed first: a fuzzer does not find a valid gzip trailer by itself.
#![no_main]

use std::io::Write;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use penstock_kernel_fuzz::Arguments;

#[derive(Debug, Arbitrary)]
struct Batch {
    gap: u8,
    attributes: u8,
    last_offset_delta: i8,
    count: i8,
    base_timestamp: i64,
    producer_id: i8,
    pack: bool,
    /// Wrong counts and deltas are found early; most batches must get further.
    honest: bool,
    records: Vec<Record>,
    tail: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
struct Record {
    timestamp_delta: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    damage: Option<(u8, u8)>,
}

fn varint(value: i64, out: &mut Vec<u8>) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn bytes(value: Option<&[u8]>, out: &mut Vec<u8>) {
    varint(value.map_or(-1, |bytes| bytes.len() as i64), out);
    out.extend_from_slice(value.unwrap_or_default());
}

impl Record {
    fn encode(&self, delta: i64, out: &mut Vec<u8>) {
        let mut body = vec![0];
        varint(self.timestamp_delta, &mut body);
        varint(delta, &mut body);
        bytes(self.key.as_deref(), &mut body);
        bytes(self.value.as_deref(), &mut body);
        varint(self.headers.len() as i64, &mut body);
        for (key, value) in &self.headers {
            bytes(Some(key), &mut body);
            bytes(value.as_deref(), &mut body);
        }
        if let Some((at, bits)) = self.damage {
            let at = usize::from(at) % body.len();
            body[at] ^= bits;
        }
        varint(body.len() as i64, out);
        out.extend(body);
    }
}

impl Batch {
    fn encode(&self, base_offset: &mut i64, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        for (delta, record) in self.records.iter().enumerate() {
            record.encode(delta as i64, &mut payload);
        }
        payload.extend_from_slice(&self.tail);
        if self.pack {
            payload = pack(self.attributes & 7, &payload);
        }
        let records = self.records.len() as i32;
        let (last, count) = if self.honest {
            ((records - 1).max(0), records)
        } else {
            (self.last_offset_delta.into(), self.count.into())
        };
        *base_offset += i64::from(self.gap / 16);
        let begin = out.len();
        out.extend(base_offset.to_be_bytes());
        out.extend((49 + payload.len() as i32).to_be_bytes());
        out.extend([0, 0, 0, 0, 2, 0, 0, 0, 0, 0, self.attributes]);
        out.extend(last.to_be_bytes());
        out.extend(self.base_timestamp.to_be_bytes());
        out.extend(self.base_timestamp.to_be_bytes());
        out.extend(i64::from(self.producer_id).to_be_bytes());
        out.extend([0; 6]);
        out.extend(count.to_be_bytes());
        out.extend(payload);
        let crc = crc_fast::crc32_iscsi(&out[begin + 21..]);
        out[begin + 17..begin + 21].copy_from_slice(&crc.to_be_bytes());
        *base_offset += i64::from(last) + 1;
    }
}

fn pack(codec: u8, bytes: &[u8]) -> Vec<u8> {
    match codec {
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        2 => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        3 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        4 => zstd::encode_all(bytes, 1).unwrap(),
        _ => bytes.to_vec(),
    }
}

fuzz_target!(|input: (Arguments, u8, Vec<Batch>)| {
    let (arguments, first, batches) = input;
    let (mut data, mut base_offset) = (Vec::new(), i64::from(first));
    for batch in &batches {
        batch.encode(&mut base_offset, &mut data);
    }
    arguments.decode(&data);
});
