use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use super::*;
use crate::columns::Columns;
use crate::record::Reader;
use crate::test_batches;

fn batch(columns: &[Column], rows: &[(i64, Option<i64>, Vec<u8>)]) -> RecordBatch {
    let mut columns = Columns::new("t", 1, columns);
    for (offset, milliseconds, bytes) in rows {
        let record = Reader::new(bytes).record().unwrap();
        columns.push(*offset, *milliseconds, &record).unwrap();
        columns.push_types(*offset > 6, 1);
    }
    columns.finish().unwrap()
}

#[test]
fn a_row_has_the_values_of_its_record() {
    let headers: &[test_batches::HeaderPair<'_>] = &[(b"a", Some(b"1")), (b"a", None), (b"", Some(b""))];
    let rows = [
        (5, Some(-1), test_batches::record_with(0, 0, None, Some(b"v"), headers)),
        (6, None, test_batches::record_with(0, 0, Some(b""), None, &[])),
        (9, Some(-2), test_batches::record_with(0, 0, Some(b"k"), Some(b""), &headers[..1])),
    ];
    let rows = Rows::new(&batch(&Column::ALL, &rows), 12).unwrap();
    assert_eq!((rows.len(), rows.is_empty()), (3, false));
    assert_eq!([0, 1, 2, 3].map(|row| rows.offset(row)), [5, 6, 9, 12]);
    assert_eq!([0, 1, 2].map(|row| rows.key(row)), [None, Some(&b""[..]), Some(b"k")]);
    assert_eq!([0, 1, 2].map(|row| rows.value(row)), [Some(&b"v"[..]), None, Some(b"")]);
    assert_eq!([0, 1, 2].map(|row| rows.timestamp(row)), [None, None, Some(-2)]);
    assert_eq!([0, 1, 2].map(|row| rows.timestamp_type(row)), [0, 0, 1]);
    let found = |row| rows.headers(row).collect::<Vec<_>>();
    assert_eq!(found(0), [("a", Some(&b"1"[..])), ("a", None), ("", Some(b""))]);
    assert_eq!(found(1), []);
    assert_eq!(found(2), [("a", Some(&b"1"[..]))]);
}

#[test]
fn a_slice_of_a_batch_has_rows_of_its_own() {
    let record = |value: &[u8]| test_batches::record_with(0, 0, None, Some(value), &[(b"h", Some(value))]);
    let rows = [0, 1, 2].map(|at: u8| (at.into(), Some(at.into()), record(&[at])));
    let rows = Rows::new(&batch(&Column::ALL, &rows).slice(1, 2), 3).unwrap();
    assert_eq!((rows.len(), rows.offset(0), rows.timestamp(1)), (2, 1, Some(2)));
    assert_eq!((rows.value(0), rows.headers(1).next()), (Some(&[1][..]), Some(("h", Some(&[2][..])))));
}

#[test]
fn event_times_are_the_timestamps_or_those_given() {
    let record = test_batches::record(0, b"");
    let rows = || {
        let rows = [(0, Some(5), record.clone()), (1, None, record.clone()), (2, Some(-1), record.clone())];
        Rows::new(&batch(&Column::ALL, &rows), 3).unwrap()
    };
    assert_eq!([0, 1, 2].map(|row| rows().event_time(row)), [Some(5), None, None]);
    let times = Int64Array::from(vec![Some(0), Some(-1), None, Some(9)]);
    let given = rows().with_event_times(times.slice(1, 3)).unwrap();
    assert_eq!([0, 1, 2, 3].map(|row| given.event_time(row)), [Some(-1), None, Some(9), None]);
    assert_eq!([0, 1].map(|row| given.timestamp(row)), [Some(5), None]);
    assert_eq!(rows().with_event_times(times).err().unwrap(), "3 rows have 4 event times");
}

#[test]
fn missing_columns_are_named() {
    let error = Rows::new(&batch(&[Column::Value, Column::Offset], &[]), 0).err().unwrap();
    assert_eq!(error, "messages need the columns key, timestamp, timestampType, headers");
}

#[test]
fn the_end_is_after_the_last_row() {
    let batch = batch(&Column::ALL, &[(7, None, test_batches::record(0, b""))]);
    assert_eq!(Rows::new(&batch, 7).err().unwrap(), "end is 7, but the last row has offset 7");
    assert!(Rows::new(&batch, 8).is_ok());
    assert!(Rows::new(&batch.slice(0, 0), 7).is_ok());
}

#[test]
fn a_stopped_progress_does_not_move() {
    let progress = Progress::new(3);
    assert_eq!((progress.claim(), progress.handed_out(), progress.remaining()), (Some(0), 1, 2));
    assert_eq!((progress.stop(), progress.stop()), (1, 1));
    assert_eq!((progress.claim(), progress.handed_out(), progress.remaining()), (None, 1, 0));
    let empty = Progress::new(0);
    assert_eq!((empty.claim(), empty.remaining(), empty.stop()), (None, 0, 0));
}

#[test]
fn no_row_is_handed_out_twice_or_after_a_stop() {
    let progress = Progress::new(10_000_000);
    let claimed = Mutex::new(Vec::new());
    let stopped = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mine: Vec<_> = std::iter::from_fn(|| progress.claim()).collect();
                claimed.lock().unwrap().extend(mine);
            });
        }
        while progress.handed_out() < 1000 {
            thread::yield_now();
        }
        progress.stop()
    });
    let claimed = claimed.into_inner().unwrap();
    assert_eq!(claimed.len(), stopped);
    assert_eq!(claimed.into_iter().collect::<HashSet<_>>(), (0..stopped).collect());
}
