//! Arbitrary bytes as Protobuf, with messages of every kind. With framing, the writer's files differ from the reader's.
#![no_main]

use std::sync::Arc;

use _kernel::formats::protobuf::{Protobuf, compile, data_type, message_name};
use arrow_schema::{DataType, Field, Fields};
use libfuzzer_sys::fuzz_target;
use penstock_kernel_fuzz::formats::{Case, check};

const SCALARS: &str = r#"syntax = "proto3"; message M {
    int32 a = 1; int64 b = 2; uint32 c = 3; uint64 d = 4; sint32 e = 5; sint64 f = 6; fixed32 g = 7; fixed64 h = 8;
    sfixed32 i = 9; sfixed64 j = 10; float k = 11; double l = 12; bool m = 13; string n = 14; bytes o = 15;
    optional int32 p = 16; E q = 17; optional string r = 2047; enum E { ZERO = 0; ONE = 1; MINUS = -1; } }"#;

const NESTED: &str = r#"syntax = "proto3"; message M {
    int32 id = 1; Line line = 2; repeated Line lines = 3; repeated sint64 packed = 4; repeated string texts = 5;
    map<string, int32> counts = 6; map<int64, Line> by_number = 7; map<bool, E> flags = 8;
    oneof one { int32 card = 9; Line voucher = 10; string note = 11; E kind = 12; }
    repeated E kinds = 13; repeated double unpacked = 14 [packed = false]; map<string, bytes> blobs = 15;
    message Line { int32 price = 1; repeated int32 parts = 2; optional string note = 3; Deep deep = 4; }
    message Deep { repeated Deeper all = 1; message Deeper { map<string, string> more = 1; fixed32 x = 2; } }
    enum E { A = 0; B = 5; } }"#;

const PROTO2: &str = r#"syntax = "proto2"; message M {
    required int32 id = 1; optional string text = 2 [default = "none"]; optional E kind = 3 [default = TWO];
    repeated E kinds = 4 [packed = true]; repeated group Part = 5 { required string name = 1; optional M.Leaf leaf = 2; }
    optional group Single = 6 { optional int32 x = 1; } map<string, Leaf> leaves = 7; optional bytes raw = 8;
    optional Leaf leaf = 9; extensions 100 to 200;
    message Leaf { required int64 n = 1; optional float f = 2 [default = -inf]; } enum E { ONE = 1; TWO = 2; } }
    extend M { optional int32 more = 100; }"#;

const WELL_KNOWN: &str = r#"syntax = "proto3";
    import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto"; import "google/protobuf/empty.proto";
    message M { google.protobuf.Timestamp at = 1; repeated google.protobuf.Timestamp times = 2;
    google.protobuf.Duration took = 3; google.protobuf.Int64Value n = 4; google.protobuf.StringValue s = 5;
    google.protobuf.Any any = 6; google.protobuf.Empty empty = 7; map<string, google.protobuf.Duration> by_name = 8; }"#;

const RECURSIVE: &str = r#"syntax = "proto3"; message M {
    int32 id = 1; M next = 2; repeated M kids = 3; map<string, M> named = 4; repeated int32 tags = 5; }"#;

/// The message at other indexes, and with other fields.
const MOVED: &str = r#"syntax = "proto3"; message Other { message Inner { string x = 1; } map<string, Inner> y = 1; }
    message M { string unknown = 99; }"#;

const CASES: [(&str, &[u8]); 5] = [
    (SCALARS, &[8, 1, 40, 3, 61, 1, 0, 0, 0, 0x72, 1, b'x', 0x88, 1, 1, 0x80, 1, 0]),
    (
        NESTED,
        &[8, 1, 18, 4, 8, 7, 16, 9, 26, 2, 16, 3, 34, 2, 5, 6, 50, 5, 10, 1, b'k', 16, 8, 0x5a, 1, b'n'],
    ),
    (PROTO2, &[8, 1, 18, 1, b't', 24, 1, 34, 2, 1, 2, 43, 10, 1, b'p', 44, 51, 8, 4, 52, 74, 2, 8, 3]),
    (WELL_KNOWN, &[10, 4, 8, 1, 16, 2, 26, 2, 8, 9, 34, 2, 8, 7, 66, 7, 10, 1, b'k', 18, 2, 8, 5]),
    (RECURSIVE, &[8, 1, 18, 4, 8, 2, 18, 0, 42, 2, 1, 2]),
];

fn descriptors(text: &str) -> Vec<u8> {
    compile("m.proto", &[("m.proto".to_owned(), text.to_owned())]).unwrap()
}

fn case(case: usize, framed: bool) -> Case {
    let (text, good) = CASES[case];
    let set = descriptors(text);
    // A recursive message has no type, but parts of it have.
    let wanted = data_type(&set, "M").unwrap_or_else(|_| {
        let tags = DataType::List(Arc::new(Field::new("element", DataType::Int32, true)));
        let fields = [Field::new("id", DataType::Int32, true), Field::new("tags", tags, true)];
        DataType::Struct(Fields::from(fields.to_vec()))
    });
    let format = Protobuf::new(&set, &message_name(&set, "M").unwrap(), wanted).unwrap();
    let indexed = [&[0], good].concat();
    let good = if framed { indexed.as_slice() } else { good };
    Case::new(format, framed, &[set, descriptors(MOVED)], good, true)
}

fuzz_target!(|input: (u8, Vec<&[u8]>)| check(input, CASES.len(), case));
