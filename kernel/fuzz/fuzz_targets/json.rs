//! Arbitrary bytes as JSON, with types of every kind.
#![no_main]

use std::sync::Arc;

use _kernel::formats::json::Json;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use libfuzzer_sys::fuzz_target;
use penstock_kernel_fuzz::formats::{Case, check};

fn of(fields: &[(&str, DataType)]) -> DataType {
    let fields = fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    DataType::Struct(fields.collect::<Fields>())
}

fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, true)))
}

fn map(value: DataType) -> DataType {
    let entries = [Field::new("key", DataType::Utf8, false), Field::new("value", value, true)];
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(Fields::from(entries.to_vec())), false)),
        false,
    )
}

fn moment(zone: Option<&str>) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into))
}

const CASES: usize = 7;

fn case(case: usize, framed: bool) -> Case {
    let numbers = of(&[
        ("a", DataType::Int8),
        ("b", DataType::Int16),
        ("c", DataType::Int32),
        ("d", DataType::Int64),
        ("e", DataType::Float32),
        ("f", DataType::Float64),
        ("g", DataType::Boolean),
        ("h", DataType::Decimal128(9, 2)),
        ("i", DataType::Decimal128(38, 18)),
        ("j", DataType::Decimal128(38, 0)),
    ]);
    let texts = of(&[
        ("a", DataType::Utf8),
        ("b", DataType::Binary),
        ("a longer name than sixteen bytes", DataType::Utf8),
        ("ä\"\n", DataType::Utf8),
        ("", DataType::Null),
    ]);
    let times = of(&[("a", DataType::Date32), ("b", moment(Some("UTC"))), ("c", moment(None))]);
    let inner = of(&[("a", DataType::Int32), ("b", list(DataType::Utf8)), ("c", map(times.clone()))]);
    let nested = of(&[
        ("a", inner.clone()),
        ("b", list(inner.clone())),
        ("c", list(list(map(inner.clone())))),
        ("d", DataType::Utf8),
    ]);
    let cases: [_; CASES] = [
        (
            numbers.clone(),
            &br#"{"a":1,"b":-2,"c":3,"d":4,"e":0.5,"f":1e3,"g":true,"h":1.25,"i":-0.1,"j":7}"#[..],
        ),
        (texts, br#"{"a":"x\ty","b":"AAEC","a longer name than sixteen bytes":{"a":[1]}}"#),
        (times, br#"{"a":"2026-01-31","b":"2026-01-31T12:00:00.5","c":"2026-01-31T12:00"}"#),
        (
            nested,
            br#"{"a":{"a":1,"b":["x"]},"b":[{"c":{"k":{"a":"2026-01-31"}}}],"c":[[{"k":{"a":2}}]],"d":"e"}"#,
        ),
        (of(&[("d", DataType::Int64)]), br#"{"a":[{"d":1}],"b":"\u00e4","d":5,"c":null}"#),
        (list(numbers), br#"[{"a":1},{"d":2}]"#),
        (map(list(DataType::Float64)), br#"{"a":[1,2.5],"b":null}"#),
    ];
    let (wanted, good) = cases[case].clone();
    let zone = if framed { "Europe/Berlin" } else { "UTC" };
    Case::new(Json::new(wanted, zone).unwrap(), framed, &[], good, false)
}

fuzz_target!(|input: (u8, Vec<&[u8]>)| check(input, CASES, case));
