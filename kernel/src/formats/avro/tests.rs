use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::Field;

use super::resolve::Part;
use super::shape::{Shape, repeat};
use super::walk::{Walk, Walker};
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
    let text: ArrayRef = shape::symbols(std::iter::once("x".repeat(1 << 20)));
    assert_eq!(repeat(&text, 3).expect("three").len(), 3);
    assert!(matches!(repeat(&text, 4096), Err(ArrowError::OffsetOverflowError(_))));
}

/// The walk is meant to find everything. Should it not, a row is lost, and nothing else.
#[test]
fn what_only_arrow_avro_finds_costs_its_row_too() {
    let mut format = avro("\"int\"");
    let part = Part { walk: Walk::Sized(1), written: "\"int\"".to_owned(), shape: Shape::Same, width: 0 };
    format.columns[0] = Column::new(part, Vec::new()).expect("a column");
    let rows = [bytes(&[0x80]), bytes(&[2]), bytes(&[4]), bytes(&[0x80]), bytes(&[6])];
    let decoded = format.decode(&rows).expect("a column");
    let values = decoded.array.as_primitive::<arrow_array::types::Int32Type>();
    assert_eq!(values.iter().collect::<Vec<_>>(), [None, Some(1), Some(2), None, Some(3)]);
    assert_eq!(faults(&decoded), [0, 3]);
}

#[test]
fn an_error_leaves_no_rows_behind() {
    let mut format = avro("\"string\"");
    let part = Part { walk: Walk::Bytes, written: "\"string\"".to_owned(), shape: Shape::Same, width: 0 };
    format.columns[0] = Column::new(part, Vec::new()).expect("a column");
    // No UTF-8, which the walk was told not to look for: arrow-avro tells at the end.
    assert!(format.decode(&[bytes(&[2, b'a']), bytes(&[2, 0xff])]).is_err());
    let column = format.decode(&[bytes(&[2, b'b'])]).expect("a column").array;
    assert_eq!(column.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("b")]);
}

#[test]
fn what_is_dropped_is_left_out_of_the_bytes() {
    let field = |name: &str, walk| (name.to_owned(), walk);
    let dropped = vec![field("f2", Walk::Bytes), field("f3", Walk::Nothing)];
    let fields = vec![
        field("", Walk::Dropped(vec![field("f0", Walk::Long)])),
        field("f1", Walk::Int),
        field("", Walk::Dropped(dropped)),
        field("f4", Walk::Sized(2)),
    ];
    let mut walker = Walker::new(Walk::Record(fields), Vec::new());
    for _ in 0..2 {
        let kept = walker.walk(&[0x80, 0x01, 7, 4, b'x', b'y', 8, 9]).expect("a record");
        assert_eq!(kept, [7, 8, 9]);
    }
    let reason = walker.walk(&[0x80, 0x01, 7, 4, b'x', b'y', 8]).expect_err("cut short").to_string();
    assert_eq!(reason, "field f4: the record ends inside a value");
    let reason = walker.walk(&[0, 7, 4, b'x']).expect_err("cut short").to_string();
    assert_eq!(reason, "field f2: says it has 2 bytes, and 1 are left");
    assert!(walker.walk(&[0, 7, 0, 8, 9, 10]).is_err_and(|bad| bad.to_string().contains("1 bytes are left")));
}

#[test]
fn numbers_are_as_long_as_they_may_be() {
    let mut walker = Walker::new(Walk::Long, Vec::new());
    let least = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert!(walker.walk(&least).is_ok());
    assert!(walker.walk(&least[..9]).is_err_and(|bad| bad.to_string().contains("ends inside")));
    let mut walker = Walker::new(Walk::Int, Vec::new());
    assert!(walker.walk(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_ok());
    assert!(walker.walk(&[0xff, 0xff, 0xff, 0xff, 0x1f]).is_err());
}

#[test]
fn decimals_are_bounded_by_their_digits() {
    let mut walker = Walker::new(Walk::Decimal { size: None, limit: 10i128.pow(38) }, Vec::new());
    let mut encoded = |value: i128, width: usize| {
        let mut digits = vec![if value < 0 { 0xff } else { 0 }; width];
        digits[width - 16..].copy_from_slice(&value.to_be_bytes());
        let mut record = vec![(2 * width) as u8];
        record.extend(digits);
        walker.walk(&record).is_ok()
    };
    for width in [16, 17, 40] {
        assert!(encoded(10i128.pow(38) - 1, width));
        assert!(encoded(1 - 10i128.pow(38), width));
        assert!(encoded(-1, width));
        assert!(!encoded(10i128.pow(38), width));
        assert!(!encoded(i128::MIN, width));
    }
    assert!(walker.walk(&[34, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
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
