use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};

use crate::codecs::{self, DEFAULT_LIMIT};
use crate::test_batches::{self, Batch};

fn request(start: i64, stop: i64) -> Request {
    Request {
        start,
        stop,
        high_watermark: i64::MAX,
        aligned: false,
        cut: false,
        aborted: None,
        position: 0,
        batch_rows: 1000,
        batch_bytes: 1 << 20,
    }
}

fn decoder() -> Decoder {
    Decoder::new("t", 0, &Column::ALL, DEFAULT_LIMIT)
}

/// The offsets of the decoded rows.
fn offsets(decoder: &mut Decoder, data: &[u8], request: Request) -> Result<Vec<i64>, Corrupt> {
    decoder.open(request);
    let mut found = Vec::new();
    while let Some(batch) = decoder.next_batch(data)? {
        assert!(batch.num_rows() > 0);
        found.extend(batch.column(4).as_primitive::<Int64Type>().values());
    }
    assert_eq!(decoder.next_batch(data), Ok(None));
    Ok(found)
}

fn read(data: &[u8], request: Request) -> Result<Vec<i64>, Corrupt> {
    offsets(&mut decoder(), data, request)
}

fn chunk(batches: &[Batch]) -> Vec<u8> {
    batches.iter().flat_map(Batch::encode).collect()
}

#[test]
fn records_outside_the_range_are_skipped() {
    let data = chunk(&[Batch::counted(10, 5), Batch::counted(15, 5)]);
    assert_eq!(read(&data, request(10, 20)).unwrap(), (10..20).collect::<Vec<_>>());
    assert_eq!(read(&data, request(12, 17)).unwrap(), [12, 13, 14, 15, 16]);
    assert!(read(&data, request(12, 12)).unwrap().is_empty());
    assert!(read(&[], request(12, 20)).unwrap().is_empty());
}

#[test]
fn a_batch_that_reaches_past_stop_can_be_opened_again_for_its_tail() {
    let batches = [Batch::counted(10, 5), Batch::counted(15, 5)];
    let (data, first) = (chunk(&batches), batches[0].encode().len());
    let mut decoder = decoder();
    assert_eq!(offsets(&mut decoder, &data, request(10, 17)).unwrap().len(), 7);
    assert_eq!((decoder.next_offset(), decoder.position()), (17, first));
    let rest = Request { position: first, ..request(17, 100) };
    assert_eq!(offsets(&mut decoder, &data, rest).unwrap(), [17, 18, 19]);
    assert_eq!((decoder.next_offset(), decoder.position()), (20, data.len()));
}

#[test]
fn a_gap_up_to_stop_counts_as_read() {
    let data = chunk(&[Batch::counted(0, 2), Batch::counted(50, 2)]);
    let mut decoder = decoder();
    assert_eq!(offsets(&mut decoder, &data, request(0, 30)).unwrap(), [0, 1]);
    assert_eq!(decoder.next_offset(), 30);
}

#[test]
fn output_batches_end_at_their_rows_even_inside_a_batch() {
    let data = chunk(&[Batch::counted(0, 25), Batch::counted(25, 5)]);
    let mut decoder = decoder();
    decoder.open(Request { batch_rows: 10, ..request(3, 28) });
    let mut seen = Vec::new();
    while let Some(batch) = decoder.next_batch(&data).unwrap() {
        let offsets = batch.column(4).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(decoder.next_offset(), offsets.last().unwrap() + 1);
        seen.push(offsets);
    }
    assert_eq!(seen, [(3..13).collect::<Vec<_>>(), (13..23).collect(), (23..28).collect()]);
}

#[test]
fn output_batches_end_soon_after_their_bytes() {
    let data = chunk(&[Batch::counted(0, 3000), Batch::counted(3000, 10)]);
    let mut decoder = decoder();
    decoder.open(Request { batch_rows: 1 << 20, batch_bytes: 1, ..request(0, 3010) });
    let mut sizes = Vec::new();
    while let Some(batch) = decoder.next_batch(&data).unwrap() {
        sizes.push(batch.num_rows());
    }
    assert_eq!(sizes, [1024, 1024, 952, 10]);
}

#[test]
fn every_codec_gives_the_same_rows() {
    let plain = Batch::counted(0, 300);
    let wanted = read(&plain.encode(), request(0, 300)).unwrap();
    for (codec, packed) in codecs::tests::all(&plain.payload) {
        let data = plain.clone().compressed(codec, packed).encode();
        let small = Request { batch_rows: 7, ..request(0, 300) };
        assert_eq!(read(&data, small).unwrap(), wanted, "codec {codec}");
    }
}

#[test]
fn log_append_time_comes_from_the_batch() {
    let mut append = Batch::counted(2, 1);
    append.attributes |= 8;
    let data = chunk(&[Batch::counted(0, 2), append]);
    let mut decoder = decoder();
    decoder.open(request(0, 10));
    let batch = decoder.next_batch(&data).unwrap().unwrap();
    let times = batch.column(5).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.values(), &[1_000_000, 1_001_000, 2_000_000]);
    assert_eq!(batch.column(6).as_primitive::<Int32Type>().values(), &[0, 0, 1]);
}

#[test]
fn a_timestamp_beyond_64_bits_is_null() {
    let mut batch = Batch::new(0, &[test_batches::record_with(i64::MAX, 0, None, None, &[])]);
    batch.base_timestamp = i64::MAX;
    let mut decoder = decoder();
    decoder.open(request(0, 1));
    let rows = decoder.next_batch(&batch.encode()).unwrap().unwrap();
    assert!(rows.column(5).is_null(0));
}

#[test]
fn control_batches_are_skipped_and_aborted_records_dropped() {
    let data = chunk(&[
        Batch::counted(0, 2).transactional(7),
        Batch::counted(2, 2),
        Batch::control(4, 7, 0),
        Batch::counted(5, 1).transactional(7),
        Batch::control(6, 7, 1),
    ]);
    let mut decoder = decoder();
    assert_eq!(offsets(&mut decoder, &data, request(0, 100)).unwrap(), [0, 1, 2, 3, 5]);
    assert_eq!((decoder.next_offset(), decoder.position()), (7, data.len()));
    let committed = Request { aborted: Some(vec![(7, 0)]), ..request(0, 100) };
    assert_eq!(read(&data, committed.clone()).unwrap(), [2, 3, 5]);
    // Opened after the marker: the aborted transaction is over, and the committed one must not be dropped.
    let behind = data.len() - chunk(&[Batch::counted(5, 1), Batch::control(6, 7, 1)]).len();
    let rest = Request { start: 5, position: behind, ..committed };
    assert_eq!(read(&data, rest).unwrap(), [5]);
}

#[test]
fn an_incomplete_batch_at_the_end_is_ignored_only_if_the_response_was_cut() {
    let whole = Batch::counted(0, 2).encode();
    let data = [whole.clone(), Batch::counted(2, 2).encode()].concat();
    for length in whole.len() + 1..data.len() {
        let data = &data[..length];
        let mut decoder = decoder();
        let cut = Request { cut: true, ..request(0, 10) };
        assert_eq!(offsets(&mut decoder, data, cut).unwrap(), [0, 1]);
        assert_eq!((decoder.next_offset(), decoder.position()), (2, whole.len()));
        let error = read(data, request(0, 10)).unwrap_err();
        assert_eq!((error.position, error.reason.as_ref()), (whole.len(), "the batch is cut short"));
    }
}

#[test]
fn batches_must_lie_between_their_neighbours_and_the_high_watermark() {
    let refused = |batches: &[Batch], request: Request, position: usize, word: &str| {
        let error = read(&chunk(batches), request).unwrap_err();
        assert!(error.reason.contains(word), "{error}");
        assert_eq!(error.position, position, "{error}");
    };
    let two = |second: i64| [Batch::counted(10, 5), Batch::counted(second, 5)];
    refused(&two(14), request(10, 20), 0, "next batch");
    refused(
        &two(16),
        Request { high_watermark: 20, ..request(10, 30) },
        two(0)[0].encode().len(),
        "watermark",
    );
    // Records appended while the broker answered: they follow without a gap, above the high watermark that it read
    // before.
    assert!(read(&chunk(&two(15)), Request { high_watermark: 15, ..request(10, 20) }).is_ok());
    refused(&two(15), request(15, 20), 0, "offset asked for");
    refused(&two(15), Request { aligned: true, ..request(11, 20) }, 0, "where the batch before it ended");
    assert!(read(&chunk(&two(15)), Request { aligned: true, high_watermark: 20, ..request(10, 20) }).is_ok());
}

#[test]
fn rows_before_a_corrupt_batch_come_first_and_the_error_stays() {
    let mut bad = Batch::counted(5, 5);
    bad.payload.push(0);
    let (good, data) = (Batch::counted(0, 5).encode(), chunk(&[Batch::counted(0, 5), bad]));
    let mut decoder = decoder();
    decoder.open(request(0, 100));
    assert_eq!(decoder.next_batch(&data).unwrap().unwrap().num_rows(), 5);
    for _ in 0..2 {
        let error = decoder.next_batch(&data).unwrap_err();
        assert_eq!((error.base_offset, error.position), (5, good.len()));
        assert_eq!((decoder.next_offset(), decoder.position()), (5, good.len()));
    }
}

#[test]
fn records_must_fill_the_batch_and_their_offsets_rise() {
    let refused = |records: &[Vec<u8>], last_offset_delta: i32, word: &str| {
        let mut batch = Batch::new(0, records);
        batch.last_offset_delta = last_offset_delta;
        let error = read(&batch.encode(), request(0, 100)).unwrap_err();
        assert!(error.reason.contains(word), "{error}");
    };
    let at = |delta: i32| test_batches::record(delta, b"v");
    refused(&[at(0), at(0)], 1, "rise");
    refused(&[at(1), at(0)], 1, "rise");
    refused(&[at(-1), at(0)], 1, "rise");
    refused(&[at(0), at(2)], 1, "exceed");
    let mut batch = Batch::new(0, &[at(0), at(1)]);
    batch.count = 1;
    assert!(read(&batch.encode(), request(0, 9)).unwrap_err().reason.contains("left after"));
    batch.count = 0;
    assert!(read(&batch.encode(), request(0, 9)).unwrap_err().reason.contains("left after"));
}

#[test]
fn compacted_batches_have_gaps_and_may_be_empty() {
    let mut gaps = Batch::new(0, &[test_batches::record(3, b"a"), test_batches::record(7, b"b")]);
    gaps.last_offset_delta = 9;
    let mut empty = Batch::new(10, &[]);
    empty.last_offset_delta = 4;
    let mut decoder = decoder();
    let data = chunk(&[gaps, empty, Batch::counted(20, 1)]);
    assert_eq!(offsets(&mut decoder, &data, request(0, 100)).unwrap(), [3, 7, 20]);
    assert_eq!((decoder.next_offset(), decoder.position()), (21, data.len()));
}

#[test]
fn decoding_stops_at_a_message_set_of_old_magic() {
    let mut old = Batch::counted(3, 1).encode();
    old[16] = 1;
    let new = Batch::counted(0, 3).encode();
    let data = [new.clone(), old].concat();
    let mut decoder = decoder();
    assert_eq!(offsets(&mut decoder, &data, request(0, 100)).unwrap(), [0, 1, 2]);
    assert_eq!((decoder.legacy(), decoder.position(), decoder.next_offset()), (true, new.len(), 3));
}

#[test]
fn a_decompression_bomb_ends_at_the_limit() {
    let payload = vec![0; 10 << 20];
    for (codec, packed) in codecs::tests::all(&payload) {
        let data = Batch::counted(0, 1).compressed(codec, packed).encode();
        let mut decoder = Decoder::new("t", 0, &[Column::Value], 1 << 20);
        let error = offsets(&mut decoder, &data, request(0, 1)).unwrap_err();
        assert!(error.reason.contains("decompression limit of 1048576"), "{error}");
    }
}
