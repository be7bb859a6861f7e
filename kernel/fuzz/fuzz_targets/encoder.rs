//! Arbitrary rows and settings: the decoder reads back the rows that were encoded, also from batches that were split.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use _kernel::columns::Column;
use _kernel::decoder::{Decoder, Request};
use _kernel::encoder::compressor::{Codec, Compressed};
use _kernel::encoder::open_batch::{Finished, Producer};
use _kernel::encoder::rows::Rows;
use _kernel::encoder::split::{first_key, split};
use _kernel::encoder::unwritable::Failure;
use _kernel::encoder::{Encoder, Settings};
use _kernel::messages::Rows as Decoded;
use arbitrary::Arbitrary;
use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{ArrayRef, BinaryArray, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Given {
    codec: u8,
    batch_size: u16,
    max_record_size: u16,
    buffer_size: u16,
    seed: u8,
    producer: bool,
    batches: Vec<Vec<Row>>,
    flushes: bool,
}

#[derive(Debug, Arbitrary)]
struct Row {
    topic: Option<bool>,
    partition: Option<i8>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp: Option<i64>,
    headers: Option<Vec<(Option<String>, Option<Vec<u8>>)>>,
}

const TOPICS: [(&str, u32); 2] = [("a", 3), ("b", 1)];
const NOW: i64 = 1_000;

type Headers = Vec<(String, Option<Vec<u8>>)>;
type Record = (Option<Vec<u8>>, Option<Vec<u8>>, i64, Headers);

impl Row {
    fn record(&self) -> Record {
        let headers = self.headers.iter().flatten();
        (
            self.key.clone(),
            self.value.clone(),
            self.timestamp.unwrap_or(NOW),
            headers.map(|(name, value)| (name.clone().unwrap(), value.clone())).collect(),
        )
    }
}

fn columns(rows: &[Row]) -> Vec<(&'static str, ArrayRef)> {
    let topics = rows.iter().map(|row| row.topic.map(|other| TOPICS[usize::from(other)].0));
    let fields = vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)];
    let builders: Vec<Box<dyn arrow_array::builder::ArrayBuilder>> =
        vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())];
    let mut headers = ListBuilder::new(StructBuilder::new(fields, builders));
    for row in rows {
        for (name, value) in row.headers.iter().flatten() {
            headers.values().field_builder::<StringBuilder>(0).unwrap().append_option(name.as_ref());
            headers.values().field_builder::<BinaryBuilder>(1).unwrap().append_option(value.as_ref());
            headers.values().append(true);
        }
        headers.append(row.headers.is_some());
    }
    vec![
        ("topic", Arc::new(topics.collect::<StringArray>())),
        ("partition", Arc::new(rows.iter().map(|row| row.partition.map(i32::from)).collect::<Int32Array>())),
        ("key", Arc::new(rows.iter().map(|row| row.key.as_ref()).collect::<BinaryArray>())),
        ("value", Arc::new(rows.iter().map(|row| row.value.as_ref()).collect::<BinaryArray>())),
        ("timestamp", Arc::new(rows.iter().map(|row| row.timestamp).collect::<Int64Array>())),
        ("headers", Arc::new(headers.finish())),
    ]
}

fn decoded(data: &[u8]) -> Vec<Record> {
    let wanted =
        [Column::Key, Column::Value, Column::Offset, Column::Timestamp, Column::TimestampType, Column::Headers];
    let mut decoder = Decoder::new("a", 0, &wanted, 1 << 20);
    decoder.open(Request {
        start: 0,
        stop: i64::MAX,
        high_watermark: i64::MAX,
        aligned: true,
        cut: false,
        aborted: None,
        position: 0,
        batch_rows: 1 << 20,
        batch_bytes: 1 << 30,
    });
    let batch = decoder.next_batch(data).expect("a correct batch").expect("a batch with records");
    assert!(decoder.next_batch(data).expect("nothing more").is_none());
    assert_eq!(decoder.position(), data.len());
    let rows = Decoded::new(&batch, i64::MAX).expect("all columns");
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    (0..batch.num_rows())
        .map(|row| {
            let headers = rows.headers(row).map(|(name, value)| (name.to_owned(), owned(value))).collect();
            // Milliseconds that do not fit Arrow's microseconds are null.
            (owned(rows.key(row)), owned(rows.value(row)), rows.timestamp(row).unwrap_or(-1), headers)
        })
        .collect()
}

fn check_split(finished: &Finished, compressed: Compressed, whole: &[Record]) {
    assert_eq!(first_key(&finished.data).expect("a key"), whole[0].0);
    if finished.count < 2 {
        return;
    }
    let ((first, _), (last, _)) = split(&finished.data, compressed, &finished.rows).expect("halves");
    assert_eq!([decoded(&first.data), decoded(&last.data)].concat(), whole);
    let rows: Vec<_> = first.rows.iter().chain(last.rows.iter()).collect();
    assert_eq!(rows, finished.rows.iter().collect::<Vec<_>>());
}

fuzz_target!(|given: Given| {
    let codec = Codec::ALL[usize::from(given.codec) % Codec::ALL.len()];
    let compressed = Compressed::new(codec.name(), None).unwrap();
    let settings = Settings {
        compressed,
        batch_size: given.batch_size.into(),
        max_record_size: given.max_record_size.into(),
        buffer_size: given.buffer_size.into(),
        hashed: true,
        seed: given.seed.into(),
    };
    let mut encoder = Encoder::new(settings).unwrap();
    for (name, partitions) in TOPICS {
        encoder.add_topic(name, partitions, Vec::new()).unwrap();
    }
    if given.producer {
        encoder.set_producer(Producer { id: 7, epoch: 1, transactional: true }).unwrap();
    }
    let mut closed = Vec::new();
    for rows in &given.batches {
        let columns = columns(rows);
        let view = Rows::new(rows.len(), columns.iter().map(|(name, array)| (*name, array))).unwrap();
        match encoder.append(&view, None, NOW, &mut closed) {
            Ok(()) => {}
            Err(Failure::Unwritable(_)) => return,
            Err(Failure::Compression(reason)) => panic!("{reason}"),
        }
        if given.flushes {
            encoder.flush(&mut closed).unwrap();
            assert_eq!(encoder.open_bytes(), 0);
        }
    }
    encoder.flush(&mut closed).unwrap();
    let rows: Vec<_> = given.batches.iter().flatten().collect();
    let mut sequences = BTreeMap::new();
    let mut count = 0;
    for each in &closed {
        let finished = &each.finished;
        let found = decoded(&finished.data);
        assert_eq!(found.len(), finished.count as usize);
        for (record, row) in found.iter().zip(finished.rows.iter()) {
            let row = rows[row as usize];
            let mut wanted = row.record();
            if wanted.2 > i64::MAX / 1000 {
                wanted.2 = -1;
            }
            assert_eq!(*record, wanted);
            assert!(row.topic.map(usize::from) == Some(each.topic));
            assert!(row.partition.is_none_or(|own| own as u32 == each.partition));
        }
        let sequence = sequences.entry((each.topic, each.partition)).or_insert(0);
        assert_eq!(each.base_sequence, if given.producer { *sequence } else { -1 });
        *sequence += finished.count;
        assert!(finished.count == 1 || finished.payload_bytes + 61 <= usize::from(given.batch_size));
        check_split(finished, compressed, &found);
        count += found.len();
    }
    assert_eq!(count, rows.len());
});
