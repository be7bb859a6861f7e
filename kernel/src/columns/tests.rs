use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMicrosecondType};

use crate::record::Reader;
use crate::test_batches;

fn push(columns: &mut Columns, offset: i64, milliseconds: Option<i64>, bytes: &[u8]) {
    let record = Reader::new(bytes).record().unwrap();
    columns.push(offset, milliseconds, &record).unwrap();
    columns.push_types(false, 1);
}

#[test]
fn only_selected_columns_are_built_in_that_order() {
    let mut columns = Columns::new("t", 1, &[Column::Offset, Column::Key]);
    push(&mut columns, 5, Some(1), &test_batches::record(0, b"v"));
    let batch = columns.finish().unwrap();
    let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["offset", "key"]);
    let none = Columns::new("t", 1, &[]).finish().unwrap();
    assert_eq!((none.num_columns(), none.num_rows()), (0, 0));
}

#[test]
fn null_bitmaps_appear_with_the_first_null() {
    let mut columns = Columns::new("t", 1, &[Column::Key, Column::Value]);
    push(&mut columns, 0, None, &test_batches::record_with(0, 0, Some(b"a"), Some(b"b"), &[]));
    push(&mut columns, 1, None, &test_batches::record_with(0, 0, None, Some(b""), &[]));
    push(&mut columns, 2, None, &test_batches::record_with(0, 0, Some(b"c"), Some(b"d"), &[]));
    let batch = columns.finish().unwrap();
    let keys = batch.column(0).as_binary::<i32>();
    assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(&b"a"[..]), None, Some(&b"c"[..])]);
    assert!(batch.column(1).nulls().is_none());
}

#[test]
fn a_timestamp_that_microseconds_cannot_hold_is_null() {
    let mut columns = Columns::new("t", 1, &[Column::Timestamp]);
    for milliseconds in [Some(-1), Some(i64::MAX), None, Some(i64::MAX / 1000)] {
        push(&mut columns, 0, milliseconds, &test_batches::record(0, b""));
    }
    let batch = columns.finish().unwrap();
    let found: Vec<_> = batch.column(0).as_primitive::<TimestampMicrosecondType>().iter().collect();
    assert_eq!(found, [Some(-1000), None, None, Some(i64::MAX / 1000 * 1000)]);
}

#[test]
fn header_keys_become_utf8_and_no_headers_become_null() {
    let mut columns = Columns::new("t", 1, &[Column::Headers]);
    push(&mut columns, 0, None, &test_batches::record(0, b""));
    push(
        &mut columns,
        1,
        None,
        &test_batches::record_with(0, 0, None, None, &[(b"a\xff", None), (b"b", Some(b""))]),
    );
    let batch = columns.finish().unwrap();
    let lists = batch.column(0).as_list::<i32>();
    assert!(lists.is_null(0) && !lists.is_null(1));
    let structs = lists.value(1);
    let structs = structs.as_struct();
    assert_eq!(
        structs.column(0).as_string::<i32>().iter().collect::<Vec<_>>(),
        [Some("a\u{fffd}"), Some("b")]
    );
    assert_eq!(structs.column(1).as_binary::<i32>().iter().collect::<Vec<_>>(), [None, Some(&b""[..])]);
}

#[test]
fn truncated_rows_leave_no_trace() {
    let fill = |columns: &mut Columns, rows: i64| {
        for row in 0..rows {
            let null = (row % 3 == 0).then_some(&b"v"[..]);
            let headers: [test_batches::HeaderPair<'_>; 1] = [(b"h", null)];
            let record = test_batches::record_with(row, 0, null, null, &headers[..(row % 2) as usize]);
            let record = Reader::new(&record).record().unwrap();
            columns.push(row, (row % 5 != 0).then_some(row), &record).unwrap();
            columns.push_types(row % 4 > 1, 1);
        }
    };
    for kept in 0..10 {
        let mut wanted = Columns::new("t", 1, &Column::ALL);
        fill(&mut wanted, kept);
        let mut columns = Columns::new("t", 1, &Column::ALL);
        fill(&mut columns, 10);
        columns.truncate(kept as usize);
        assert_eq!(columns.finish().unwrap(), wanted.finish().unwrap());
    }
}

#[test]
fn constant_columns_share_their_memory_between_batches() {
    let mut columns = Columns::new("topic", 9, &[Column::Topic, Column::Partition, Column::TimestampType]);
    let mut batches = Vec::new();
    for rows in [3, 2] {
        for _ in 0..rows {
            push(&mut columns, 0, None, &test_batches::record(0, b""));
        }
        batches.push(columns.finish().unwrap());
    }
    let [first, second] = batches.as_slice() else { panic!() };
    assert_eq!(second.column(0).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("topic"); 2]);
    assert_eq!(second.column(1).as_primitive::<Int32Type>().values(), &[9, 9]);
    for column in 0..3 {
        let start = |batch: &RecordBatch| batch.column(column).to_data().buffers()[0].as_ptr();
        assert_eq!(start(first), start(second));
    }
}

#[test]
fn mixed_timestamp_types_are_kept_apart() {
    let mut columns = Columns::new("t", 1, &[Column::TimestampType]);
    for append in [false, false, true] {
        let bytes = test_batches::record(0, b"");
        columns.push(0, None, &Reader::new(&bytes).record().unwrap()).unwrap();
        columns.push_types(append, 1);
    }
    assert_eq!(columns.finish().unwrap().column(0).as_primitive::<Int32Type>().values(), &[0, 0, 1]);
}

#[test]
fn nulls_come_in_runs_of_any_length_in_every_batch() {
    let has = |row: usize, every: usize| (row / every) & 1 == 0;
    let mut columns = Columns::new("t", 1, &[Column::Key, Column::Value, Column::Timestamp, Column::Headers]);
    for every in [1, 3, 64, 65, 1000] {
        for row in 0..300 {
            let some = has(row, every).then_some(&b"x"[..]);
            let headers: &[test_batches::HeaderPair<'_>] = &[(b"h", some), (b"i", None)];
            let headers = if has(row, every + 1) { headers } else { &[] };
            let record = test_batches::record_with(0, 0, some, Some(b"v"), headers);
            push(&mut columns, 0, has(row, every + 2).then_some(1), &record);
        }
        let batch = columns.finish().unwrap();
        let [keys, values, timestamps, headers] = batch.columns() else { panic!() };
        assert!(values.nulls().is_none());
        for row in 0..300 {
            assert_eq!(keys.is_valid(row), has(row, every), "row {row}, runs of {every}");
            assert_eq!(timestamps.is_valid(row), has(row, every + 2), "row {row}, runs of {every}");
            assert_eq!(headers.is_valid(row), has(row, every + 1), "row {row}, runs of {every}");
            let list = headers.as_list::<i32>().value(row);
            assert_eq!(list.len(), if headers.is_valid(row) { 2 } else { 0 });
            if headers.is_valid(row) {
                assert_eq!(list.as_struct().column(1).is_valid(0), has(row, every));
            }
        }
    }
}
