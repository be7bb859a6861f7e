//! Arbitrary bytes as Avro, with schemas of every kind. With framing, the writer's schema differs from the reader's.
#![no_main]

use _kernel::formats::avro::{Avro, data_type};
use libfuzzer_sys::fuzz_target;
use penstock_kernel_fuzz::formats::{Case, check};

const FLAT: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "boolean"}, {"name": "b", "type": "int"}, {"name": "c", "type": "long"},
    {"name": "d", "type": "float"}, {"name": "e", "type": "double"}, {"name": "f", "type": "bytes"},
    {"name": "g", "type": "string"}, {"name": "h", "type": "null"}]}"#;
const FLAT_GOOD: &[u8] = &[1, 2, 4, 0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 4, 9, 9, 2, b'x'];
/// Promoted and reordered fields, and fields that are skipped.
const FLAT_WRITERS: [&str; 2] = [
    r#"{"type": "record", "name": "R", "fields": [
        {"name": "g", "type": "bytes"}, {"name": "x", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "e", "type": "int"}, {"name": "c", "type": "int"}, {"name": "d", "type": "long"},
        {"name": "f", "type": "string"}, {"name": "a", "type": "boolean"}, {"name": "b", "type": "int"},
        {"name": "y", "type": {"type": "map", "values": "null"}}, {"name": "h", "type": "null"}]}"#,
    r#"{"type": "record", "name": "R", "fields": [
        {"name": "tree", "type": {"type": "record", "name": "T", "fields": [
            {"name": "kids", "type": {"type": "array", "items": "T"}}, {"name": "next", "type": ["null", "T"]}]}},
        {"name": "a", "type": "boolean"}, {"name": "b", "type": ["int", "null"]}, {"name": "c", "type": "long"},
        {"name": "d", "type": "float"}, {"name": "e", "type": ["double", "float"]}, {"name": "f", "type": "bytes"},
        {"name": "g", "type": ["string", "bytes"]}, {"name": "h", "type": "null"}]}"#,
];

const LOGICAL: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "a", "type": {"type": "int", "logicalType": "date"}},
    {"name": "b", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "c", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "d", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "e", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "f", "type": {"type": "fixed", "name": "F", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 3}},
    {"name": "g", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}},
    {"name": "h", "type": {"type": "enum", "name": "E", "symbols": ["X", "YY", "Z"]}},
    {"name": "i", "type": {"type": "fixed", "name": "G", "size": 3}},
    {"name": "j", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
    {"name": "k", "type": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}},
    {"name": "l", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "m", "type": {"type": "long", "logicalType": "time-micros"}}]}"#;
const LOGICAL_GOOD: &[u8] = &[
    2, 4, 6, 8, 4, 1, 0, 0, 0, 0, 1, 0, 2, 7, 2, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    15, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 72, b'0', b'0', b'0', b'0', b'0', b'0', b'0', b'0', b'-', b'0',
    b'0', b'0', b'0', b'-', b'0', b'0', b'0', b'0', b'-', b'0', b'0', b'0', b'0', b'-', b'0', b'0', b'0',
    b'0', b'0', b'0', b'0', b'0', b'0', b'0', b'0', b'0', 8,
];
const LOGICAL_WRITERS: [&str; 1] = [r#"{"type": "record", "name": "R", "fields": [
    {"name": "h", "type": {"type": "enum", "name": "E", "symbols": ["Z", "X", "W"], "default": "Z"}},
    {"name": "l", "type": "string"},
    {"name": "a", "type": {"type": "int", "logicalType": "date"}},
    {"name": "b", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "c", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "d", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "e", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "f", "type": {"type": "fixed", "name": "F", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 3}},
    {"name": "g", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}},
    {"name": "i", "type": {"type": "fixed", "name": "G", "size": 3}},
    {"name": "j", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
    {"name": "k", "type": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}},
    {"name": "m", "type": {"type": "long", "logicalType": "time-micros"}}]}"#];

const UNIONS: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "a", "type": ["null", "long"]}, {"name": "b", "type": ["string", "null"]},
    {"name": "c", "type": ["null", {"type": "record", "name": "S", "fields": [
        {"name": "x", "type": ["null", "string"]}, {"name": "y", "type": {"type": "array", "items": ["null", "int"]}}]}]},
    {"name": "d", "type": ["int", "string", "null", {"type": "map", "values": "S"}]},
    {"name": "e", "type": ["int", "long"]}, {"name": "f", "type": ["null"]},
    {"name": "g", "type": {"type": "array", "items": ["S", "double", "boolean"]}}]}"#;
const UNIONS_GOOD: &[u8] =
    &[2, 14, 0, 2, b'b', 2, 2, 2, b'x', 4, 0, 2, 6, 0, 2, 4, b'd', b'd', 2, 8, 0, 2, 4, 1, 0];
const UNIONS_WRITERS: [&str; 1] = [r#"{"type": "record", "name": "R", "fields": [
    {"name": "d", "type": ["null", "string", "bytes"]}, {"name": "a", "type": ["int", "null", "long"]},
    {"name": "b", "type": "string"}, {"name": "e", "type": ["long", "null", "int"]}, {"name": "f", "type": "null"},
    {"name": "c", "type": {"type": "record", "name": "S", "fields": [
        {"name": "y", "type": {"type": "array", "items": "int"}}, {"name": "x", "type": ["string", "null"]}]}},
    {"name": "g", "type": {"type": "array", "items": "double"}}]}"#];

const NESTED: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "a", "type": {"type": "array", "items": {"type": "array", "items": {"type": "map", "values": "string"}}}},
    {"name": "b", "type": {"type": "array", "items": "null"}},
    {"name": "c", "type": {"type": "map", "values": {"type": "record", "name": "S", "fields": [
        {"name": "x", "type": "long"}, {"name": "y", "type": {"type": "map", "values": {"type": "array", "items": "bytes"}}}]}}},
    {"name": "d", "type": {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}},
    {"name": "e", "type": {"type": "array", "items": {"type": "fixed", "name": "N", "size": 0}}}]}"#;
const NESTED_GOOD: &[u8] =
    &[2, 2, 2, 2, b'k', 2, b'v', 0, 0, 0, 4, 0, 1, 10, 2, b'k', 6, 2, 2, b'm', 2, 2, 7, 0, 0, 0, 2, 0, 4, 0];

/// Fields that the reader has and the writers do not, and aliases.
const GROWN: &str = r#"{"type": "record", "name": "New", "aliases": ["R"], "fields": [
    {"name": "id", "aliases": ["number"], "type": "double"},
    {"name": "text", "type": "string", "default": "ä"},
    {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1, -2]},
    {"name": "map", "type": {"type": "map", "values": ["null", "long"]}, "default": {"k": null}},
    {"name": "inner", "type": {"type": "record", "name": "I", "fields": [
        {"name": "x", "type": "long", "default": 7}, {"name": "y", "type": ["null", "string"], "default": null}]},
        "default": {}}]}"#;
const GROWN_GOOD: &[u8] =
    &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 2, b't', 2, 6, 0, 2, 2, b'k', 2, 8, 0, 10, 2, 2, b'y'];
const GROWN_WRITERS: [&str; 2] = [
    r#"{"type": "record", "name": "R", "fields": [{"name": "number", "type": "int"}]}"#,
    r#"{"type": "record", "name": "R", "fields": [
        {"name": "inner", "type": {"type": "record", "name": "I", "fields": [
            {"name": "z", "type": "string"}, {"name": "x", "type": "int"}]}},
        {"name": "map", "type": {"type": "map", "values": "int"}}, {"name": "number", "type": "float"}]}"#,
];

const CASES: [(&str, &[u8], &[&str]); 9] = [
    (FLAT, FLAT_GOOD, &FLAT_WRITERS),
    (LOGICAL, LOGICAL_GOOD, &LOGICAL_WRITERS),
    (UNIONS, UNIONS_GOOD, &UNIONS_WRITERS),
    (NESTED, NESTED_GOOD, &[]),
    (GROWN, GROWN_GOOD, &GROWN_WRITERS),
    (r#""long""#, &[14], &[r#""int""#]),
    (r#"{"type": "array", "items": ["null", "string"]}"#, &[4, 2, 2, b'a', 0, 0], &[]),
    (
        r#"{"type": "map", "values": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}"#,
        &[2, 2, b'k', 2, 0],
        &[],
    ),
    (r#"["null", {"type": "bytes", "logicalType": "decimal", "precision": 4}, "double"]"#, &[2, 2, 9], &[]),
];

fn case(case: usize, framed: bool) -> Case {
    let (reader, good, writers) = CASES[case];
    let avro = Avro::new(reader, data_type(reader).unwrap()).unwrap();
    let writers =
        [&[reader], writers].concat().iter().map(|writer| writer.as_bytes().to_vec()).collect::<Vec<_>>();
    Case::new(avro, framed, &writers, good, true)
}

fuzz_target!(|input: (u8, Vec<&[u8]>)| check(input, CASES.len(), case));
