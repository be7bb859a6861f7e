use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, Int32Array, StringArray, TimestampMicrosecondArray};

use super::*;
use crate::columns::Column;
use crate::decoder::{Decoder, Request};

fn settings(compression: &str) -> Settings {
    Settings {
        compressed: Compressed::new(compression, None).unwrap(),
        batch_size: 1000,
        max_record_size: 5000,
        buffer_size: 100_000,
        hashed: true,
        seed: 0,
    }
}

fn rows(columns: &[(&str, ArrayRef)]) -> Rows {
    Rows::new(columns[0].1.len(), columns.iter().map(|(name, array)| (*name, array))).unwrap()
}

fn values(data: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new("t", 0, &[Column::Value], 1 << 20);
    decoder.open(Request {
        start: 0,
        stop: i64::MAX,
        high_watermark: i64::MAX,
        aligned: true,
        cut: false,
        aborted: None,
        position: 0,
        batch_rows: 1 << 20,
        batch_bytes: 1 << 20,
    });
    let batch = decoder.next_batch(data).unwrap().unwrap();
    let column = batch.column(0).as_binary::<i32>();
    (0..batch.num_rows()).map(|row| column.value(row).to_vec()).collect()
}

#[test]
fn what_is_encoded_is_decoded() {
    let wanted: Vec<_> = (0..500).map(|at| format!("value {at}").into_bytes()).collect();
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(&wanted));
    let partition: ArrayRef = Arc::new(Int32Array::from(vec![1; 500]));
    let times: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from_iter_values((0..500).map(|at| at * 1_000_000)));
    for codec in compressor::Codec::ALL {
        let mut encoder = Encoder::new(settings(codec.name())).unwrap();
        let topic = encoder.add_topic("t", 2, Vec::new()).unwrap();
        let rows = rows(&[
            ("value", column.clone()),
            ("partition", partition.clone()),
            ("timestamp", times.clone()),
        ]);
        let mut closed = Vec::new();
        encoder.append(&rows, Some(topic), 0, &mut closed).unwrap();
        assert!(encoder.open_bytes() > 0);
        encoder.flush(&mut closed).unwrap();
        assert_eq!((encoder.open_bytes(), encoder.rows()), (0, 500));
        let mut found = Vec::new();
        for each in closed {
            assert_eq!((each.topic, each.partition, each.base_sequence), (topic, 1, -1));
            assert!(each.finished.payload_bytes <= 1000);
            found.extend(values(&each.finished.data));
            encoder.recycle(each.finished.data);
        }
        assert_eq!(found, wanted);
    }
}

#[test]
fn sequences_wrap_to_zero() {
    assert_eq!(sequence_after(i32::MAX, 1), 0);
    assert_eq!(sequence_after(i32::MAX - 1, 5), 3);
    assert_eq!(sequence_after(0, i32::MAX), i32::MAX);
    assert_eq!(sequence_after(-1, 5), -1);
}

#[test]
fn w8_a_refused_row_names_its_place() {
    let mut encoder = Encoder::new(settings("none")).unwrap();
    encoder.add_topic("t", 2, Vec::new()).unwrap();
    let topics: ArrayRef = Arc::new(StringArray::from(vec!["t", "u"]));
    let keys: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"k", b"l"]));
    let rows = rows(&[("value", keys.clone()), ("key", keys), ("topic", topics)]);
    let Err(Failure::Unwritable(found)) = encoder.append(&rows, None, 0, &mut Vec::new()) else {
        panic!("must be refused")
    };
    assert_eq!((found.topic.as_deref(), found.row, found.key.as_deref()), (Some("u"), 1, Some(&b"l"[..])));
}

#[test]
fn spare_buffers_are_bounded() {
    let mut encoder = Encoder::new(settings("none")).unwrap();
    for _ in 0..10 {
        encoder.recycle(Vec::with_capacity(SPARE_BYTES / 4));
    }
    assert_eq!(encoder.closer.spares.len(), 4);
    for _ in 0..4 {
        encoder.closer.new_batch();
    }
    assert_eq!(encoder.closer.spare_bytes, 0);
}
