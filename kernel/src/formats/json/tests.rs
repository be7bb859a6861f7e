//! Rules that can be tested without Spark.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, Fields};

use super::Json;
use crate::formats::{Decoded, Format, Row};

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn of(fields: Vec<Field>) -> DataType {
    DataType::Struct(Fields::from(fields))
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(field("element", of)))
}

fn decode(data_type: &DataType, documents: &[&[u8]]) -> (ArrayRef, Vec<(usize, String)>) {
    let rows: Vec<_> = documents.iter().map(|bytes| Row::Bytes { schema: None, bytes }).collect();
    let mut json = Json::new(data_type.clone(), "UTC").expect("a type that JSON can carry");
    let Decoded { array, faults } = json.decode(&rows).expect("an array");
    array.to_data().validate_full().expect("a valid array");
    assert_eq!(array.len(), documents.len());
    assert_eq!(array.data_type(), data_type);
    (array, faults.into_iter().map(|fault| (fault.row, fault.reason)).collect())
}

fn texts(array: &dyn Array) -> Vec<Option<&str>> {
    array.as_string::<i32>().iter().collect()
}

fn longs(array: &dyn Array) -> Vec<Option<i64>> {
    array.as_primitive::<Int64Type>().iter().collect()
}

fn column<'a>(structs: &'a StructArray, name: &str) -> &'a dyn Array {
    structs.column_by_name(name).expect("a column")
}

#[test]
fn fields_come_in_any_order_or_not_at_all() {
    let wanted =
        of(vec![field("a", DataType::Int64), field("b", DataType::Utf8), field("c", DataType::Float64)]);
    let documents: &[&[u8]] = &[
        br#"{"a":1,"b":"x","c":1.5}"#,
        br#"{"a":2,"b":"y","c":2.5}"#,
        br#" { "c" : 3 , "zzz" : [ 1 , { "a" : 7 } ] , "a" : 3 } "#,
        br#"{}"#,
        br#"{"b":"only"}"#,
        br#"{"a":-5,"b":null,"c":-1e3}"#,
    ];
    let (array, faults) = decode(&wanted, documents);
    assert_eq!(faults, []);
    let structs = array.as_struct();
    assert_eq!(longs(column(structs, "a")), [Some(1), Some(2), Some(3), None, None, Some(-5)]);
    assert_eq!(texts(column(structs, "b")), [Some("x"), Some("y"), None, None, Some("only"), None]);
    let doubles: Vec<_> = column(structs, "c").as_primitive::<Float64Type>().iter().collect();
    assert_eq!(doubles, [Some(1.5), Some(2.5), Some(3.0), None, None, Some(-1000.0)]);
}

#[test]
fn a_bad_document_affects_only_its_row() {
    let wanted = of(vec![field("a", DataType::Int64), field("b", list(DataType::Utf8))]);
    let bad: &[&[u8]] = &[
        b"{\"a\":1,\"b\":[\"x\",\"y\"",
        b"{\"a\":1,\"b\":[\"x\",\"y\"],}",
        b"{\"a\":1,\"b\":[\"x\" \"y\"]}",
        b"{\"a\":01}",
        b"{\"a\":1,\"zzz\":\"\\u12G4\"}",
        b"{\"a\":1,\"zzz\":\"\\u12",
        b"{\"a\":1,\"zzz\":\"\\ud834\\u",
        b"{\"a\":1,\"zzz\":\"tab\there\"}",
        b"{\"a\":1,\"zzz\":nul}",
        b"{\"a\":1,\"zzz\":[1,}",
        b"{\"a\":1,\"zzz\":{\"x\":1]}",
        b"{\"a\":1,\"zzz\":-}",
        b"{\"a\":1,\"zzz\":1.}",
        b"{\"a\":1,\"zzz",
        b"{\"a\"",
        b"[{\"a\":1}]",
        b"null",
        b"17",
        b"\"a\"",
        b"garbage",
        b"\0",
        b"{\"a\":\0}",
    ];
    for bad in bad {
        let good: &[u8] = b"{\"a\":7,\"b\":[\"good\"]}";
        let (array, faults) = decode(&wanted, &[good, bad, good]);
        let name = String::from_utf8_lossy(bad);
        assert_eq!(faults.len(), 1, "{name}: {faults:?}");
        assert_eq!(faults[0].0, 1);
        let structs = array.as_struct();
        assert_eq!(structs.null_count(), 0, "{name}");
        assert_eq!(longs(column(structs, "a")), [Some(7), None, Some(7)], "{name}");
        let lists = column(structs, "b").as_list::<i32>();
        assert!(lists.is_null(1), "{name}");
        assert_eq!(texts(lists.value(2).as_ref()), [Some("good")], "{name}");
    }
}

#[test]
fn a_value_of_a_wrong_type_nulls_its_field_and_is_named() {
    let inner = of(vec![field("x", DataType::Int32), field("y", DataType::Int32)]);
    let wanted = of(vec![
        field("price", DataType::Float64),
        field("items", list(inner)),
        field("numbers", list(DataType::Int32)),
        field("id", DataType::Int64),
    ]);
    let document: &[u8] =
        br#"{"price":"abc","items":[{"x":1,"y":"no"},{"x":2,"y":3}],"numbers":[1,2,"3",4],"id":9}"#;
    let (array, faults) = decode(&wanted, &[document, br#"{"items":[{"x":true}]}"#, br#"{"id":1.0}"#]);
    let reasons: Vec<_> = faults.iter().map(|(_, reason)| reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "field price: \"abc\" is not of type double",
            "field items[0].x: true is not of type int",
            "field id: 1.0 is not of type bigint"
        ]
    );
    let structs = array.as_struct();
    assert_eq!(longs(column(structs, "id")), [Some(9), None, None]);
    assert!(column(structs, "price").is_null(0) && column(structs, "numbers").is_null(0));
    let items = column(structs, "items").as_list::<i32>().value(0);
    let x: Vec<_> = column(items.as_struct(), "x").as_primitive::<Int32Type>().iter().collect();
    let y: Vec<_> = column(items.as_struct(), "y").as_primitive::<Int32Type>().iter().collect();
    assert_eq!((x, y), (vec![Some(1), Some(2)], vec![None, Some(3)]));
}

#[test]
fn the_last_of_two_equal_names_counts_unless_its_type_is_wrong() {
    let wanted = of(vec![field("a", list(DataType::Utf8)), field("b", DataType::Int64)]);
    let documents: &[&[u8]] = &[
        br#"{"a":["one","two"],"b":1,"a":["three"],"b":2}"#,
        br#"{"a":["one"],"a":null,"b":1,"b":null}"#,
        br#"{"a":["one"],"a":1,"b":1,"b":"x","b":[]}"#,
        br#"{"a":["last"]}"#,
    ];
    let (array, faults) = decode(&wanted, documents);
    assert_eq!(faults, [(2, "field a: 1 is not of type array".to_owned())]);
    let structs = array.as_struct();
    assert_eq!(longs(column(structs, "b")), [Some(2), None, Some(1), None]);
    let lists = column(structs, "a").as_list::<i32>();
    assert_eq!(texts(lists.value(0).as_ref()), [Some("three")]);
    assert!(lists.is_null(1));
    assert_eq!(texts(lists.value(2).as_ref()), [Some("one")]);
    assert_eq!(texts(lists.value(3).as_ref()), [Some("last")]);
}

#[test]
fn nesting_is_limited_without_recursion() {
    let wanted = of(vec![field("text", DataType::Utf8), field("a", DataType::Int64)]);
    for name in ["skipped", "text", "a"] {
        for (open, close) in [("[", "]"), ("{\"x\":", "}")] {
            let deep = |depth: usize| {
                let (begin, end) = (open.repeat(depth), close.repeat(depth));
                format!("{{\"{name}\":{begin}1{end},\"a\":5}}").into_bytes()
            };
            let endless = format!("{{\"{name}\":{}", open.repeat(1_000_000)).into_bytes();
            let (array, faults) = decode(&wanted, &[&deep(999), &deep(1000), &endless, b"{\"a\":6}"]);
            let bad: Vec<_> =
                faults.iter().filter(|(_, reason)| reason.contains("deep")).map(|(row, _)| *row).collect();
            assert_eq!(bad, [1, 2], "{name} {open}: {faults:?}");
            assert_eq!(longs(column(array.as_struct(), "a")), [Some(5), None, None, Some(6)]);
        }
    }
}

#[test]
fn empty_objects_in_a_list_or_a_map_count_with_their_columns() {
    let wide = of((0..200).map(|number| field(&format!("f{number}"), DataType::Int64)).collect());
    let entries = of(vec![Field::new("key", DataType::Utf8, false), field("value", wide.clone())]);
    let map = DataType::Map(Field::new("entries", entries, false).into(), false);
    let wanted = of(vec![field("list", list(wide)), field("map", map)]);
    let lists = |count: usize| format!("{{\"list\":[{}{{}}]}}", "{},".repeat(count - 1));
    let maps = |count: usize| format!("{{\"map\":{{{}\"b\":null}}}}", "\"a\":null,".repeat(count - 1));
    // A struct of them takes 1,801 bytes: 1,125 take about 2 MB, and the document's own bytes allow some more.
    let (fits, many) = (lists(1_125), lists(2_500));
    let (fits_too, entries) = (maps(1_125), maps(2_500));
    let documents: Vec<&[u8]> = [&fits, &many, &entries, &fits_too].map(|text| text.as_bytes()).to_vec();
    let (array, faults) = decode(&wanted, &documents);
    assert_eq!(array.len(), 4);
    assert_eq!(column(array.as_struct(), "list").as_list::<i32>().value_length(0), 1_125);
    assert_eq!(column(array.as_struct(), "map").as_map().value_length(3), 1_125);
    assert_eq!(faults.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 2]);
    assert!(faults.iter().all(|(_, reason)| reason.contains("takes far more memory than its own size")));

    // A batch has a limit, too; the remaining rows make the next batch.
    let documents = vec![fits.as_bytes(); 20];
    let rows: Vec<_> = documents.iter().map(|bytes| Row::Bytes { schema: None, bytes }).collect();
    let mut json = Json::new(wanted.clone(), "UTC").expect("a type that JSON can carry");
    let (mut sizes, mut done) = (Vec::new(), 0);
    while done < rows.len() {
        let Decoded { array, faults } = json.decode(&rows[done..]).expect("an array");
        assert_eq!(faults, []);
        done += array.len();
        sizes.push(array.len());
    }
    assert_eq!(sizes, [5, 5, 5, 5]);
    let many_plain = format!("{{\"list\":[{}{{}}]}}", "{\"f1\":1,\"f2\":2},".repeat(1_300));
    assert_eq!(decode(&wanted, &[many_plain.as_bytes()]).1, []);
}

#[test]
fn repeated_names_are_limited() {
    let wide = of((0..2_000).map(|number| field(&format!("f{number}"), DataType::Int64)).collect());
    let wanted = of(vec![field("a", wide)]);
    let again = |count: usize| format!("{{{}\"a\":{{}}}}", "\"a\":{},".repeat(count));
    let (some, many) = (again(200), again(10_000));
    let (_, faults) = decode(&wanted, &[some.as_bytes(), many.as_bytes()]);
    assert_eq!(faults.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1]);
}

#[test]
fn tombstones_and_blanks_are_null_without_a_fault() {
    let wanted = of(vec![field("a", DataType::Int64)]);
    let bytes = |bytes| Row::Bytes { schema: None, bytes };
    let rows = [Row::Null, bytes(b"".as_slice()), bytes(b" \n\t "), Row::Bad, bytes(b"{\"a\":1}")];
    let Decoded { array, faults } = Json::new(wanted, "UTC").unwrap().decode(&rows).unwrap();
    assert_eq!(faults, []);
    let nulls: Vec<_> = (0..5).map(|row| array.is_null(row)).collect();
    assert_eq!(nulls, [true, true, true, false, false]);
    assert_eq!(longs(column(array.as_struct(), "a")), [None, None, None, None, Some(1)]);
}

#[test]
fn types_that_json_cannot_represent_are_refused_by_name() {
    let refused = |data_type| Json::new(data_type, "UTC").err().expect("refused");
    let interval = DataType::Interval(arrow_schema::IntervalUnit::DayTime);
    assert_eq!(
        refused(of(vec![field("a", of(vec![field("b", interval)]))])),
        "value.a.b: JSON cannot carry Interval(DayTime)"
    );
    assert_eq!(refused(DataType::Int64), "a JSON document must be a struct, an array or a map, not Int64");
    assert_eq!(Json::new(of(vec![]), "Mars/Base").err().unwrap(), "Mars/Base is not a time zone");
}

#[test]
fn many_batches_and_texts_of_all_sizes() {
    let wanted = of(vec![field("n", DataType::Int64), field("text", DataType::Utf8)]);
    let mut json = Json::new(wanted, "UTC").unwrap();
    for batch in 0..3_i64 {
        let documents: Vec<String> = (0..500)
            .map(|n| match n % 7 {
                0 => format!("{{\"n\":{n},\"text\":\"{}\"}}", "x".repeat(n as usize * 40)),
                1 => format!("{{\"text\":\"caf\u{e9}\",\"n\":{n}}}"),
                2 => "{\"n\":".to_owned(),
                _ => format!("{{\"other\":\"{}\",\"n\":{n}}}", "y".repeat((n + batch) as usize % 90)),
            })
            .collect();
        let rows: Vec<_> =
            documents.iter().map(|text| Row::Bytes { schema: None, bytes: text.as_bytes() }).collect();
        let Decoded { array, faults } = json.decode(&rows).unwrap();
        array.to_data().validate_full().unwrap();
        let bad: Vec<_> = faults.iter().map(|fault| fault.row).collect();
        assert_eq!(bad, (0..500).filter(|n| n % 7 == 2).collect::<Vec<_>>());
        let expected: Vec<_> = (0..500).map(|n| (n % 7 != 2).then_some(n)).collect();
        assert_eq!(longs(column(array.as_struct(), "n")), expected);
        assert_eq!(texts(column(array.as_struct(), "text"))[1], Some("caf\u{e9}"));
    }
}
