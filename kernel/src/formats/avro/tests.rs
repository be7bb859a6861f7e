use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type};
use arrow_schema::Field;

use super::fill::Decimal;
use super::*;

fn bytes(bytes: &[u8]) -> Row<'_> {
    Row::Bytes { schema: None, bytes }
}

fn avro(reader: &str) -> Avro {
    Avro::new(reader, data_type(reader).expect("a type")).expect("a format")
}

fn faults(decoded: &Decoded) -> Vec<usize> {
    decoded.faults.iter().map(|fault| fault.row).collect()
}

#[test]
fn rows_found_bad_before_are_bad_without_a_second_fault() {
    let mut format = avro(r#"{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}"#);
    let rows = [Row::Bad, bytes(&[2]), Row::Null, bytes(&[]), bytes(&[4])];
    let decoded = format.decode(&rows).expect("a column");
    let column = decoded.array.as_struct();
    let a = column.column(0).as_primitive::<Int64Type>();
    assert_eq!((0..5).map(|row| column.is_valid(row)).collect::<Vec<_>>(), [true, true, false, true, true]);
    assert_eq!(a.iter().collect::<Vec<_>>(), [None, Some(1), None, None, Some(2)]);
    assert_eq!(faults(&decoded), [3]);
}

#[test]
fn no_rows_are_an_empty_column_and_nulls_alone_a_null_one() {
    let mut format = avro(r#"{"type":"array","items":"string"}"#);
    assert_eq!(format.decode(&[]).expect("a column").array.len(), 0);
    let nulls = format.decode(&[Row::Null, Row::Null]).expect("a column").array;
    assert_eq!((nulls.len(), nulls.null_count()), (2, 2));
    assert_eq!(nulls.data_type(), format.data_type());
    let bad = format.decode(&[Row::Bad, Row::Bad]).expect("a column").array;
    assert_eq!((bad.len(), bad.null_count()), (2, 2));
}

#[test]
fn a_column_beyond_arrows_offsets_is_an_error() {
    let mut format = avro("\"bytes\"");
    let megabytes = vec![0; 16 << 20];
    let rows: Vec<_> = (0..128).map(|_| bytes(&megabytes)).collect();
    assert!(matches!(format.decode(&rows), Err(ArrowError::OffsetOverflowError(_))));
    assert_eq!(format.decode(&[bytes(&[2, 7])]).expect("a column").array.len(), 1);
}

#[test]
fn a_default_beyond_arrows_offsets_is_an_error() {
    let with_default = r#"{"type":"record","name":"R","fields":[
        {"name":"a","type":"long"},{"name":"b","type":"string","default":"0123456789"}]}"#;
    let mut format = avro(with_default);
    format
        .add_writer(1, br#"{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}"#)
        .expect("fits");
    let rows = [Row::Bytes { schema: Some(1), bytes: &[2] }; 10];
    // The record has a byte, its default eleven.
    assert!(matches!(format.decode_within(119, &rows), Err(ArrowError::OffsetOverflowError(_))));
    let column = format.decode_within(120, &rows).expect("a column").array;
    let texts = column.as_struct().column(1).as_string::<i32>().clone();
    assert_eq!(texts.iter().collect::<Vec<_>>(), [Some("0123456789"); 10]);
}

#[test]
fn symbols_beyond_arrows_offsets_are_an_error() {
    let symbol = "S".repeat(100);
    let list = format!(r#"{{"type":"array","items":{{"type":"enum","name":"E","symbols":["{symbol}"]}}}}"#);
    let mut format = avro(&list);
    let record = [20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(matches!(format.decode_within(1011, &[bytes(&record)]), Err(ArrowError::OffsetOverflowError(_))));
    let decoded = format.decode_within(1012, &[bytes(&record)]).expect("a column");
    assert_eq!(decoded.array.as_list::<i32>().value(0).len(), 10);
}

/// Texts are checked once for all rows of a batch, and one by one only where that finds something.
#[test]
fn a_text_that_is_none_is_found_among_others() {
    let mut format = avro(r#"{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}"#);
    let texts = |decoded: &Decoded| {
        let column = decoded.array.as_struct().column(0).as_string::<i32>().clone();
        column.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
    };
    // The second and the third make a letter together, and no text each.
    let rows = [bytes(&[2, b'a']), bytes(&[2, 0xc3]), bytes(&[2, 0xa9]), bytes(&[4, 0xc3, 0xa9])];
    for _ in 0..2 {
        let decoded = format.decode(&rows).expect("a column");
        assert_eq!(texts(&decoded), [Some("a".to_owned()), None, None, Some("é".to_owned())]);
        assert_eq!(faults(&decoded), [1, 2]);
        assert_eq!(decoded.faults[0].reason, "field a: is not UTF-8 from byte 0 on");
        assert!(format.checks_texts);
    }
    for _ in 0..2 {
        let decoded = format.decode(&rows[..1]).expect("a column");
        assert_eq!(texts(&decoded), [Some("a".to_owned())]);
        assert!(!format.checks_texts);
    }
}

/// What a reason says is for people: here it holds a key of the record.
#[test]
fn a_key_that_reads_like_a_fault_is_none() {
    let mut format = avro(r#"{"type":"map","values":"int"}"#);
    let mut record = vec![2, 24];
    record.extend_from_slice(b"is not UTF-8");
    format.checks_texts = true;
    let decoded = format.decode(&[bytes(&record)]).expect("a column");
    assert_eq!(decoded.faults[0].reason, "field is not UTF-8: the record ends inside a number");
    assert!(!format.checks_texts);
}

#[test]
fn the_first_thing_that_is_wrong_is_told() {
    let record =
        r#"{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int"}]}"#;
    let decoded = avro(record).decode(&[bytes(&[2, 0xff])]).expect("a column");
    assert_eq!(decoded.faults[0].reason, "field a: is not UTF-8 from byte 0 on");
    let map = r#"{"type":"map","values":"int"}"#;
    let decoded = avro(map).decode(&[bytes(&[2, 2, 0xff])]).expect("a column");
    assert_eq!(decoded.faults[0].reason, "a key is not UTF-8");
    let decoded = avro(map).decode(&[bytes(&[2, 2, b'k'])]).expect("a column");
    assert_eq!(decoded.faults[0].reason, "field k: the record ends inside a number");
}

#[test]
fn what_is_not_wanted_is_skipped() {
    let written = r#"{"type":"record","name":"R","fields":[
        {"name":"f0","type":"long"},{"name":"f1","type":"int"},{"name":"f2","type":"bytes"},
        {"name":"f3","type":"null"},{"name":"f4","type":{"type":"fixed","name":"F","size":2}}]}"#;
    let wanted = vec![Field::new("f4", DataType::Binary, true), Field::new("f1", DataType::Int32, true)];
    let mut format = Avro::new(written, DataType::Struct(wanted.into())).expect("a format");
    let record = [0x80, 0x01, 14, 4, b'x', b'y', 8, 9];
    let cases: [(&[u8], &str); 3] = [
        (&record[..7], "field f4: the record ends inside a value"),
        (&[0, 7, 4, b'x'], "field f2: says it has 2 bytes, and 1 are left"),
        (&[0, 7, 0, 8, 9, 10], "1 bytes are left after the record"),
    ];
    for (cut, reason) in cases {
        let decoded = format.decode(&[bytes(&record), bytes(cut), bytes(&record)]).expect("a column");
        let column = decoded.array.as_struct();
        let (fixed, ints) =
            (column.column(0).as_binary::<i32>(), column.column(1).as_primitive::<Int32Type>());
        assert_eq!(fixed.iter().collect::<Vec<_>>(), [Some(&[8, 9][..]), None, Some(&[8, 9])]);
        assert_eq!(ints.iter().collect::<Vec<_>>(), [Some(7), None, Some(7)]);
        assert_eq!((faults(&decoded), decoded.faults[0].reason.as_str()), (vec![1], reason));
    }
}

#[test]
fn numbers_are_as_long_as_they_may_be() {
    let least = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let decoded = avro("\"long\"").decode(&[bytes(&least), bytes(&least[..9])]).expect("a column");
    let longs = decoded.array.as_primitive::<Int64Type>();
    assert_eq!(longs.iter().collect::<Vec<_>>(), [Some(i64::MIN), None]);
    assert_eq!(decoded.faults[0].reason, "the record ends inside a number");
    let rows = [bytes(&[0xff, 0xff, 0xff, 0xff, 0x0f]), bytes(&[0xff, 0xff, 0xff, 0xff, 0x1f])];
    let decoded = avro("\"int\"").decode(&rows).expect("a column");
    assert_eq!(decoded.array.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(i32::MIN), None]);
}

#[test]
fn decimals_are_bounded_by_their_digits() {
    let fill = Fill::Decimal(Box::new(Decimal { size: None, limit: 10i128.pow(38) }));
    let decoded = |record: &[u8]| {
        let mut column = Column::new(&DataType::Decimal128(38, 0), &|_| ()).expect("a column");
        Cursor::new(record, &[], true, 0).fill(&fill, &mut column).ok()?;
        Some(column.finish().expect("an array").as_primitive::<Decimal128Type>().value(0))
    };
    let encoded = |value: i128, width: usize| {
        let mut digits = vec![if value < 0 { 0xff } else { 0 }; width];
        digits[width - 16..].copy_from_slice(&value.to_be_bytes());
        let mut record = vec![(2 * width) as u8];
        record.extend(digits);
        decoded(&record)
    };
    for width in [16, 17, 40] {
        for value in [10i128.pow(38) - 1, 1 - 10i128.pow(38), -1] {
            assert_eq!(encoded(value, width), Some(value));
        }
        assert_eq!(encoded(10i128.pow(38), width), None);
        assert_eq!(encoded(i128::MIN, width), None);
    }
    assert_eq!(decoded(&[34, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(decoded(&[2, 0xfe]), Some(-2));
}

#[test]
fn a_fixed_of_no_bytes_is_empty_bytes() {
    let mut format = avro(
        r#"{"type":"record","name":"R","fields":[
            {"name":"a","type":{"type":"fixed","name":"F","size":0}},
            {"name":"b","type":["null","F"]}]}"#,
    );
    let column = format.decode(&[bytes(&[0]), bytes(&[2])]).expect("a column").array;
    let column = column.as_struct();
    assert_eq!(column.column(0).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&[][..]), Some(&[])]);
    assert_eq!(column.column(1).as_binary::<i32>().iter().collect::<Vec<_>>(), [None, Some(&[][..])]);
}

#[test]
fn a_field_of_a_wanted_type_has_to_be_nullable() {
    let wanted = DataType::Struct(vec![Field::new("a", DataType::Int64, false)].into());
    let reader = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}"#;
    assert!(Avro::new(reader, wanted).is_err_and(|error| error.contains("field a: has to be nullable")));
}

#[test]
fn a_chain_of_references_takes_no_time_and_no_stack() {
    let mut fields = vec![r#"{"name":"f0","type":{"type":"record","name":"R0","fields":[]}}"#.to_owned()];
    for at in 1..2000 {
        let inner = format!(
            r#"{{"type":"record","name":"R{at}","fields":[{{"name":"a","type":"R{0}"}},{{"name":"b","type":"R{0}"}}]}}"#,
            at - 1
        );
        fields.push(format!(r#"{{"name":"f{at}","type":{inner}}}"#));
    }
    fields.push(r#"{"name":"list","type":{"type":"array","items":"R1999"}}"#.to_owned());
    let writer = format!(r#"{{"type":"record","name":"W","fields":[{}]}}"#, fields.join(","));
    let mut format = avro(r#"{"type":"record","name":"W","fields":[]}"#);
    format.add_writer(1, writer.as_bytes()).expect("a schema that fits");
    let decoded = format.decode(&[Row::Bytes { schema: Some(1), bytes: &[0] }]).expect("a column");
    assert!(decoded.faults.is_empty());
}

#[test]
fn a_writer_may_be_given_again() {
    let mut format = avro("\"long\"");
    format.add_writer(5, b"\"string\"").expect_err("no number");
    format.add_writer(5, b"\"int\"").expect("a number");
    format.add_writer(5, b"\"long\"").expect("a number");
    let long = [0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    let decoded = format.decode(&[Row::Bytes { schema: Some(5), bytes: &long }]).expect("a column");
    assert!(decoded.faults.is_empty());
    let decoded = format.decode(&[Row::Bytes { schema: Some(6), bytes: &[2] }]).expect("a column");
    assert_eq!(decoded.faults[0].reason, "schema 6 is not known");
}
