//! Tests of the reader: framing, and the writers' schemas.

use arrow_array::{Array, StringArray};

use super::*;

/// A text format that needs the writers' schemas.
struct Known;

impl Format for Known {
    fn data_type(&self) -> &DataType {
        &DataType::Utf8
    }

    fn row_weight(&self) -> usize {
        text::Text.row_weight()
    }

    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        text::Text.decode(rows)
    }

    fn needs_writers(&self) -> bool {
        true
    }

    fn add_writer(&mut self, id: u32, schema: &[u8]) -> Result<(), String> {
        if schema == b"bad" { Err(format!("{id} does not fit")) } else { Ok(()) }
    }
}

fn decoded(outcome: Result<Outcome, ArrowError>) -> (Vec<Option<String>>, Vec<(usize, String)>) {
    let Ok(Outcome::Decoded(Decoded { array, faults })) = outcome else { panic!("not decoded") };
    let array = array.as_any().downcast_ref::<StringArray>().expect("text");
    let rows = array.iter().map(|row| row.map(str::to_owned)).collect();
    (rows, faults.into_iter().map(|fault| (fault.row, fault.reason)).collect())
}

fn unknown(outcome: Result<Outcome, ArrowError>) -> Vec<u32> {
    let Ok(Outcome::UnknownWriters(ids)) = outcome else { panic!("all are known") };
    ids
}

#[test]
fn unknown_ids_are_reported_once_and_refused_ones_are_faults() {
    let values = BinaryArray::from_opt_vec(vec![
        Some(b"\0\0\0\0\x07seven"),
        None,
        Some(b"\0\0\0\0\x08eight"),
        Some(b"\0\0\0\0\x07again"),
        Some(b"text"),
    ]);
    let mut reader = Reader::new(Box::new(Known), Framing::Confluent);
    assert_eq!(unknown(reader.decode(&values)), [7, 8]);
    reader.add_writer(7, b"good").expect("it fits");
    assert_eq!(unknown(reader.decode(&values)), [8]);
    reader.refuse_writer(8, "gone".to_owned());
    let (rows, faults) = decoded(reader.decode(&values));
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [text("seven"), None, None, text("again"), None]);
    assert_eq!(faults[0], (2, "gone".to_owned()));
    assert_eq!(faults.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn a_schema_that_does_not_fit_stays_unknown() {
    let mut reader = Reader::new(Box::new(Known), Framing::Confluent);
    assert_eq!(reader.add_writer(3, b"bad"), Err("3 does not fit".to_owned()));
    let values = BinaryArray::from_vec(vec![b"\0\0\0\0\x03x"]);
    assert_eq!(unknown(reader.decode(&values)), [3]);
}

#[test]
fn without_framing_no_id_is_unknown() {
    let mut reader = Reader::new(Box::new(Known), Framing::None);
    let (rows, faults) = decoded(reader.decode(&BinaryArray::from_vec(vec![b"x"])));
    assert_eq!((rows, faults), (vec![Some("x".to_owned())], vec![]));
}

#[test]
fn refused_ids_can_be_forgotten() {
    let mut reader = Reader::new(Box::new(Known), Framing::Confluent);
    let values = BinaryArray::from_vec(vec![b"\0\0\0\0\x09x", b"\0\0\0\0\x03y", b"\0\0\0\0\x09z"]);
    assert_eq!(unknown(reader.decode(&values)), [3, 9]);
    reader.add_writer(3, b"good").expect("it fits");
    reader.refuse_writer(9, "gone".to_owned());
    decoded(reader.decode(&values));
    reader.forget_refused();
    assert_eq!(unknown(reader.decode(&values)), [9]);
}

#[test]
fn an_assumed_writer_applies_to_all_ids() {
    let mut reader = Reader::new(Box::new(Known), Framing::Confluent);
    assert_eq!(reader.assume_writer(b"bad"), Err("0 does not fit".to_owned()));
    let values = BinaryArray::from_vec(vec![b"\0\0\0\0\x03x", b"\0\xff\0\0\x04y", b"none"]);
    assert_eq!(unknown(reader.decode(&values)), [3, 0xff00_0004]);
    reader.assume_writer(b"good").expect("it fits");
    let (rows, faults) = decoded(reader.decode(&values));
    assert_eq!(rows, [Some("x".to_owned()), Some("y".to_owned()), None]);
    assert_eq!(faults.len(), 1);
}
