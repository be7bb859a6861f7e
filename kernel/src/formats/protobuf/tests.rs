//! Whole messages, encoded by hand. Python tests compare random messages with Google's library.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, StructArray};
use arrow_schema::Field;

use super::column::Column;
use super::*;

fn descriptors(text: &str) -> Vec<u8> {
    compile("t.proto", &[("t.proto".to_owned(), text.to_owned())]).expect("a descriptor set")
}

fn format(text: &str) -> Protobuf {
    let set = descriptors(text);
    let wanted = data_type(&set, "").expect("a type");
    Protobuf::new(&set, &message_name(&set, "").expect("a name"), wanted).expect("a format")
}

fn read(format: &mut Protobuf, rows: &[&[u8]]) -> (StructArray, Vec<(usize, String)>) {
    let rows = rows.iter().map(|&bytes| Row::Bytes { schema: None, bytes }).collect::<Vec<_>>();
    let Decoded { array, faults } = format.decode(&rows).expect("a column");
    array.to_data().validate_full().expect("sound data");
    let faults = faults.into_iter().map(|Fault { row, reason }| (row, reason)).collect();
    (array.as_struct().clone(), faults)
}

fn numbers(array: &dyn Array) -> Vec<Option<i32>> {
    array.as_primitive::<Int32Type>().iter().collect()
}

const ORDER: &str = r#"
    syntax = "proto3";
    message Order {
        int32 id = 1;
        Line line = 2;
        repeated Line lines = 3;
        repeated int32 tags = 4;
        map<string, int32> counts = 5;
        oneof payment { int32 card = 6; Line voucher = 7; }
        message Line { int32 price = 1; repeated int32 parts = 2; optional string note = 3; }
    }"#;

#[test]
fn a_bad_record_affects_only_its_row() {
    let mut format = format(ORDER);
    let good: &[u8] = &[8, 1, 18, 4, 8, 7, 16, 9, 26, 2, 16, 3, 34, 2, 5, 6, 42, 5, 10, 1, b'k', 16, 8];
    // The same, with a truncated last field: all fields before it were in their columns already.
    let bad = [good, &[34, 3, 1, 0x80]].concat();
    let (array, faults) = read(&mut format, &[good, &bad, good]);
    assert_eq!(faults, [(1, "field tags: a length reaches beyond the message".to_owned())]);
    assert_eq!(array.null_count(), 0);
    assert_eq!(numbers(array.column(0)), [Some(1), None, Some(1)]);
    for column in array.columns() {
        assert!(column.is_null(1));
    }
    assert_eq!(array.column(2).as_list::<i32>().value_length(2), 1);
    assert_eq!(array.column(3).as_list::<i32>().values().len(), 4);
    assert_eq!(array.slice(0, 1).to_data(), array.slice(2, 1).to_data());
}

/// Strings are checked once for all rows of a batch, and one by one only if that check fails.
#[test]
fn an_invalid_string_is_found_among_valid_ones() {
    let mut format = format(ORDER);
    let note = |text: &[u8]| [&[18, text.len() as u8 + 2, 26, text.len() as u8][..], text].concat();
    // The second and the third are half a letter each. The last one has another fault after the string.
    let rows =
        [note(b"a"), note(b"\xc3"), note(b"\xa9"), note("é".as_bytes()), [note(b"\xff"), vec![8]].concat()];
    let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    for _ in 0..2 {
        let (array, faults) = read(&mut format, &rows);
        let notes = array.column(1).as_struct().column(2).as_string::<i32>();
        assert_eq!(notes.iter().collect::<Vec<_>>(), [Some("a"), None, None, Some("é"), None]);
        let reason = || "field line.note: is not UTF-8".to_owned();
        assert_eq!(faults, [(1, reason()), (2, reason()), (4, reason())]);
        assert!(format.checks_texts);
    }
    for _ in 0..2 {
        assert!(read(&mut format, &rows[..1]).1.is_empty());
        assert!(!format.checks_texts);
    }
    // A record with several faults reports the first.
    assert_eq!(read(&mut format, &rows[4..]).1, [(0, "field line.note: is not UTF-8".to_owned())]);
    let key = [42, 3, 10, 1, 0xff];
    assert_eq!(read(&mut format, &[&key]).1, [(0, "field counts.key: is not UTF-8".to_owned())]);
}

#[test]
fn a_null_is_null_and_a_bad_row_is_a_struct_of_nulls() {
    let mut format = format(ORDER);
    let Decoded { array, faults } = format.decode(&[Row::Null, Row::Bad]).expect("a column");
    assert!(array.is_null(0) && array.is_valid(1) && faults.is_empty());
    assert!(array.as_struct().columns().iter().all(|column| column.null_count() == 2));
}

#[test]
fn a_second_occurrence_is_merged() {
    let mut format = format(ORDER);
    let (array, faults) =
        read(&mut format, &[&[8, 1, 18, 4, 8, 7, 16, 1, 8, 2, 18, 2, 16, 2], &[18, 0], &[]]);
    assert!(faults.is_empty());
    assert_eq!(numbers(array.column(0)), [Some(2), None, None]);
    let line = array.column(1).as_struct();
    assert_eq!((line.is_valid(0), line.is_valid(1), line.is_valid(2)), (true, true, false));
    assert_eq!(numbers(line.column(0)), [Some(7), None, None]);
    assert_eq!(numbers(line.column(1).as_list::<i32>().value(0).as_ref()), [Some(1), Some(2)]);
}

#[test]
fn the_last_member_of_a_oneof_counts() {
    let mut format = format(ORDER);
    let rows: [&[u8]; 3] =
        [&[48, 0], &[48, 5, 58, 4, 8, 3, 16, 1, 48, 0, 58, 2, 16, 2], &[58, 2, 8, 4, 58, 2, 16, 5]];
    let (array, faults) = read(&mut format, &rows);
    assert!(faults.is_empty());
    assert_eq!(numbers(array.column(5)), [Some(0), None, None]);
    let voucher = array.column(6).as_struct();
    assert_eq!(numbers(voucher.column(0)), [None, None, Some(4)]);
    let parts = voucher.column(1).as_list::<i32>();
    assert_eq!(numbers(parts.value(1).as_ref()), [Some(2)]);
    assert_eq!(numbers(parts.value(2).as_ref()), [Some(5)]);
}

#[test]
fn an_unselected_member_of_a_oneof_unsets_a_selected_one() {
    let set = descriptors(ORDER);
    let card = Field::new("card", DataType::Int32, true);
    let mut format = Protobuf::new(&set, "Order", DataType::Struct(vec![card].into())).expect("a format");
    let (array, _) = read(&mut format, &[&[48, 5, 58, 0], &[58, 0, 48, 5], &[48, 5, 56, 1]]);
    assert_eq!(numbers(array.column(0)), [None, Some(5), Some(5)]);
}

#[test]
fn the_last_entry_of_a_key_counts() {
    let mut format = format(ORDER);
    let entry = |key: u8, value: u8| vec![42, 5, 10, 1, key, 16, value];
    let few = [entry(b'a', 1), entry(b'b', 2), entry(b'a', 3)].concat();
    let many = (0..40).flat_map(|index| entry(b'a' + index % 20, index)).collect::<Vec<_>>();
    let (array, faults) = read(&mut format, &[&few, &[42, 0], &[&many[..], &[42]].concat(), &many]);
    assert_eq!(faults.len(), 1);
    let map = array.column(4).as_map();
    let entries = |row| {
        let value = map.value(row);
        let keys = value.column(0).as_string::<i32>().iter().map(|key| key.unwrap_or("?").to_owned());
        keys.zip(numbers(value.column(1))).collect::<Vec<_>>()
    };
    assert_eq!(entries(0), [("b".to_owned(), Some(2)), ("a".to_owned(), Some(3))]);
    assert_eq!(entries(1), [(String::new(), Some(0))]);
    assert!(map.is_null(2));
    assert_eq!(entries(3).len(), 20);
    assert!(entries(3).iter().all(|(_, value)| value.is_some_and(|value| value >= 20)));
}

#[test]
fn absent_and_zero_are_null_and_declared_defaults_apply() {
    let mut format = format(
        r#"syntax = "proto2";
        enum Color { RED = 1; BLUE = 2; }
        message M {
            optional int32 plain = 1; optional int32 seven = 2 [default = 7];
            optional Color color = 3 [default = BLUE]; optional string text = 4 [default = "t"];
            repeated Color colors = 5; optional group Inner = 6 { optional int32 x = 1; }
        }"#,
    );
    let unknown_colors: &[u8] = &[8, 0, 24, 9, 40, 1, 40, 9, 42, 2, 2, 9, 51, 8, 3, 52];
    let (array, faults) = read(&mut format, &[&[], unknown_colors]);
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(numbers(array.column(0)), [None, Some(0)]);
    assert_eq!(numbers(array.column(1)), [Some(7), Some(7)]);
    let texts = |column: usize| array.column(column).as_string::<i32>().iter().flatten().collect::<Vec<_>>();
    assert_eq!((texts(2), texts(3)), (vec!["BLUE", "BLUE"], vec!["t", "t"]));
    assert_eq!(array.column(4).as_list::<i32>().value(1).as_string::<i32>().iter().flatten().count(), 2);
    assert_eq!(numbers(array.column(5).as_struct().column(0)), [None, Some(3)]);
}

#[test]
fn a_required_field_that_is_missing_makes_the_record_bad() {
    let mut format = format(
        r#"syntax = "proto2"; message M { required int32 id = 1; optional M2 m = 2; }
        message M2 { required int32 id = 1; }"#,
    );
    let (_, faults) = read(&mut format, &[&[8, 0], &[], &[8, 0, 18, 0]]);
    assert_eq!(
        faults,
        [
            (1, "field id: is required, but missing".to_owned()),
            (2, "field m.id: is required, but missing".to_owned())
        ]
    );
}

#[test]
fn timestamps_are_microseconds() {
    let mut format = format(
        r#"syntax = "proto3"; import "google/protobuf/timestamp.proto";
        message M { google.protobuf.Timestamp at = 1; repeated google.protobuf.Timestamp all = 2; }"#,
    );
    let far: Vec<u8> = [&[10, 10, 8][..], &[0xff; 8], &[0x7f]].concat();
    let (array, faults) = read(&mut format, &[&[10, 2, 8, 2, 10, 3, 16, 0x88, 0x27], &[10, 0], &far, &[]]);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].1.starts_with("field at: "), "{faults:?}");
    let at = array.column(0).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(at.iter().collect::<Vec<_>>(), [Some(2_000_005), Some(0), None, None]);
}

#[test]
fn only_selected_fields_are_read() {
    let set = descriptors(ORDER);
    let line = DataType::Struct(vec![Field::new("note", DataType::Utf8, true)].into());
    let wanted = DataType::Struct(
        vec![Field::new("line", line, true), Field::new("id", DataType::Int32, true)].into(),
    );
    let mut format = Protobuf::new(&set, "Order", wanted.clone()).expect("a format");
    let (array, faults) = read(&mut format, &[&[8, 1, 18, 5, 8, 7, 26, 1, b'n', 26, 1, 0xff]]);
    assert!(faults.is_empty());
    assert_eq!(*array.data_type(), wanted);
    assert_eq!(array.column(0).as_struct().column(0).as_string::<i32>().value(0), "n");

    let refused = |name: &str, data_type| {
        let wanted = DataType::Struct(vec![Field::new(name, data_type, true)].into());
        Protobuf::new(&set, "Order", wanted).err().unwrap_or_default()
    };
    assert_eq!(
        refused("id", DataType::Int64),
        "field id: is int32, which makes Int32, but Int64 is requested"
    );
    assert_eq!(refused("none", DataType::Int64), "field none: message Order has no such field");
    assert!(refused("tags", DataType::Int32).starts_with("field tags: is repeated in the message"));
    let line = DataType::Struct(vec![Field::new("note", DataType::Binary, true)].into());
    assert!(refused("line", line).starts_with("field line.note: is "));
}

#[test]
fn a_recursive_message_is_refused_with_its_path() {
    let set = descriptors(
        r#"syntax = "proto3"; message A { B b = 1; int32 x = 2; } message B { repeated A as = 1; }"#,
    );
    let error = data_type(&set, "A").expect_err("a refusal");
    assert!(error.starts_with("field b.as: message A contains itself"), "{error}");
    let wanted = DataType::Struct(vec![Field::new("x", DataType::Int32, true)].into());
    assert!(Protobuf::new(&set, "A", wanted).is_ok());
}

#[test]
fn a_type_cannot_explode() {
    let levels = (0..40).map(|level| format!("message M{level} {{ M{0} a = 1; M{0} b = 2; }}", level + 1));
    let text = format!("syntax = \"proto3\"; {} message M40 {{ int32 x = 1; }}", levels.collect::<String>());
    assert!(data_type(&descriptors(&text), "M0").is_err_and(|why| why.contains("more than 20000 fields")));
}

#[test]
fn empty_messages_of_many_fields_do_not_exhaust_memory() {
    let fields = (1..=1000).map(|number| format!("int64 f{number} = {number};")).collect::<String>();
    let mut format =
        format(&format!("syntax = \"proto3\"; message M {{ repeated W w = 1; }} message W {{ {fields} }}"));
    let wide = [10, 0].repeat(100_000);
    let (array, faults) = read(&mut format, &[&[10, 0, 10, 0], &wide, &[10, 0]]);
    assert_eq!(faults.len(), 1);
    assert!(faults[0].0 == 1 && faults[0].1.starts_with("field w: takes far more"), "{faults:?}");
    assert_eq!(array.column(0).as_list::<i32>().values().len(), 3);
}

/// Decodes all rows, batch by batch: the size of each batch.
fn batches(format: &mut Protobuf, records: &[&[u8]]) -> Vec<usize> {
    let rows: Vec<_> = records.iter().map(|bytes| Row::Bytes { schema: None, bytes }).collect();
    let (mut sizes, mut done) = (Vec::new(), 0);
    while done < rows.len() {
        let Decoded { array, faults } = format.decode(&rows[done..]).expect("a column");
        assert!(faults.is_empty());
        done += array.len();
        sizes.push(array.len());
    }
    sizes
}

#[test]
fn messages_too_large_for_one_batch_become_several() {
    let mut large = format(r#"syntax = "proto3"; message M { bytes b = 1; }"#);
    let mut record = vec![10, 0x80, 0x80, 0x40]; // 1 MB
    record.resize((1 << 20) + 4, 7);
    assert_eq!(batches(&mut large, &[&record[..]; 20]), [8, 8, 4]);
    // The size of earlier records does not make a good record bad.
    let fields = (1..=1000).map(|number| format!("int64 f{number} = {number};")).collect::<String>();
    let mut repeated =
        format(&format!("syntax = \"proto3\"; message M {{ repeated W w = 1; }} message W {{ {fields} }}"));
    let wide = [10, 0].repeat(187);
    assert_eq!(batches(&mut repeated, &[&wide[..]; 12]), [5, 5, 2]);
}

#[test]
fn a_long_default_counts_for_each_row() {
    let text = "x".repeat(37_500);
    let format = format(&format!(
        "syntax = \"proto2\"; message M {{ optional int32 a = 1; optional string b = 2 [default = \"{text}\"]; }}"
    ));
    let mut reader = crate::formats::Reader::new(Box::new(format), crate::formats::framing::Framing::None);
    let values = arrow_array::BinaryArray::from(vec![Some(&b""[..]); 1_000]);
    let Ok(crate::formats::Outcome::Decoded(decoded)) = reader.decode(&values) else { panic!("not decoded") };
    assert_eq!(decoded.array.len(), 223);
}

#[test]
fn a_long_default_of_very_many_columns_is_refused() {
    let text = "x".repeat(600_000);
    let fields = (1..=100).map(|number| format!("optional D f{number} = {number};")).collect::<String>();
    let set = descriptors(&format!(
        "syntax = \"proto2\"; message M {{ {fields} }} message D {{ optional string b = 2 [default = \"{text}\"]; }}"
    ));
    let wanted = data_type(&set, "M").expect("a type");
    assert!(
        Protobuf::new(&set, "M", wanted).is_err_and(|why| why.contains("defaults of all fields take more"))
    );
}

#[test]
fn names_of_an_enum_are_kept_once() {
    let format = format(
        r#"syntax = "proto3"; enum E { A = 0; } message M { E a = 1; repeated E b = 2; N n = 3; }
        message N { E a = 1; }"#,
    );
    let [Column::Enum(_, a), Column::List(b), Column::Record(n)] = format.record.columns() else { panic!() };
    let (Column::Enum(_, b), [Column::Enum(_, c)]) = (b.items(), n.columns()) else { panic!() };
    assert!(Arc::ptr_eq(a, b) && Arc::ptr_eq(a, c));
}

#[test]
fn texts_that_would_crash_the_compiler_are_refused_first() {
    let deep = format!("{}{}", "{o:".repeat(100_000), "}".repeat(100_000));
    let cases = [
        (format!("message M {{ option (o) = {deep}; }}"), "more than 64 deep"),
        (format!("message M {{ int32 a = 1 [{}]; }}", "deprecated = true,".repeat(50_000)), "100 options"),
        ("message M {".repeat(100_000), "more than 64 deep"),
        ("message M { int32 a = 1; }".repeat(100_000), "50000 declarations"),
    ];
    for (text, why) in cases {
        let files = [("m.proto".to_owned(), format!("syntax = \"proto3\"; {text}"))];
        let error = compile("m.proto", &files).expect_err("refused");
        assert!(error.starts_with("m.proto has ") && error.contains(why), "{error}");
    }
}

#[test]
fn very_many_undefined_names_are_reported_without_lines() {
    let fields =
        |count: usize| (1..=count).map(|number| format!("Missing f{number} = {number};")).collect::<String>();
    let error = |count: usize| {
        let text = format!("syntax = \"proto3\"; message M {{ {} }}", fields(count));
        compile("m.proto", &[("m.proto".to_owned(), text)]).expect_err("not defined")
    };
    assert!(error(10).starts_with("m.proto:1:"));
    assert!(error(5_000).contains("name 'Missing' is not defined"));
}

#[test]
fn descriptors_of_very_many_parts_are_refused_before_they_are_read() {
    let file: Vec<u8> = [0x22, 0].repeat(600_000); // messages without a name
    let set = [
        &[10][..],
        &[0x80 | (file.len() & 0x7f) as u8, 0x80 | (file.len() >> 7 & 0x7f) as u8],
        &[(file.len() >> 14) as u8],
        &file,
    ]
    .concat();
    assert!(message_name(&set, "").is_err_and(|why| why.contains("more than 500000 parts")));
    let files = [("m.proto".to_owned(), Proto::Descriptor(file))];
    assert!(compile("m.proto", &files).is_err_and(|why| why.contains("more than 500000 parts")));
}

#[test]
fn messages_are_found_by_full_and_last_name() {
    let set = descriptors(
        r#"syntax = "proto3"; package p.q; message A { message In { int32 x = 1; } map<string, In> m = 1; }
        message B { message In { int32 x = 1; } }"#,
    );
    let name = |name| message_name(&set, name);
    assert_eq!(name(""), Ok("p.q.A".to_owned()));
    assert_eq!(name("B"), Ok("p.q.B".to_owned()));
    assert_eq!(name("p.q.B.In"), Ok("p.q.B.In".to_owned()));
    assert_eq!(name("B.In"), Ok("p.q.B.In".to_owned()));
    assert!(name("In").is_err_and(|why| why.contains("p.q.A.In, p.q.B.In: give the full name")));
    assert!(name("C").is_err_and(|why| why.contains("no message C; there are p.q.A")));
    assert!(message_name(b"\xff", "").is_err_and(|why| why.contains("is not a descriptor set")));
    assert!(message_name(b"", "").is_err_and(|why| why.contains("holds no file")));
}

fn framed(format: &mut Protobuf, id: u32, bytes: &[u8]) -> (Vec<Option<i64>>, Vec<String>) {
    let Decoded { array, faults } =
        format.decode(&[Row::Bytes { schema: Some(id), bytes }]).expect("a column");
    let numbers = array.as_struct().column(0).as_primitive::<Int64Type>().iter().collect();
    (numbers, faults.into_iter().map(|fault| fault.reason).collect())
}

#[test]
fn message_indexes_must_point_to_the_message() {
    let text = r#"syntax = "proto3"; message A { int32 x = 1; }
        message B { map<string, int32> m = 1; message C { int64 x = 1; } C c = 2; }"#;
    let set = descriptors(text);
    let wanted = data_type(&set, "B.C").expect("a type");
    let mut format = Protobuf::new(&set, "B.C", wanted).expect("a format");
    format.add_writer(7, &set).expect("the same schema");
    // Count 2, then 1 and 1, or 0 for clients that do not count map entries.
    assert_eq!(framed(&mut format, 7, &[4, 2, 2, 8, 5]), (vec![Some(5)], vec![]));
    assert_eq!(framed(&mut format, 7, &[4, 2, 0, 8, 5]), (vec![Some(5)], vec![]));
    let why = |format: &mut Protobuf, bytes: &[u8]| framed(format, 7, bytes).1.join("");
    assert_eq!(why(&mut format, &[0, 8, 5]), "is message A, and B.C is read");
    assert_eq!(why(&mut format, &[2, 2, 8, 5]), "is message B, and B.C is read");
    assert!(why(&mut format, &[2, 8, 8, 5]).contains("lead nowhere in t.proto"));
    assert!(why(&mut format, &[2, 1, 8, 5]).contains("lead nowhere in t.proto"));
    assert!(why(&mut format, &[0xfe, 0xff, 0xff, 0xff, 0xf, 0, 0]).contains("cut off"));
    assert!(why(&mut format, &[1]).contains("cut off"));
    assert!(why(&mut format, &[]).contains("cut off"));
    assert_eq!(framed(&mut format, 8, &[0]).1, ["schema 8 is not known"]);
}

#[test]
fn a_writer_whose_fields_cannot_be_read_is_refused() {
    let set = descriptors(
        r#"syntax = "proto3"; message M { int64 x = 1; string s = 2; In in = 3; repeated int32 r = 4; }
        message In { double d = 1; }"#,
    );
    let mut format = Protobuf::new(&set, "M", data_type(&set, "").expect("a type")).expect("a format");
    let mut add = |text: &str| format.add_writer(1, &descriptors(&format!("syntax = \"proto3\"; {text}")));
    assert_eq!(
        add("message M { bool x = 1; bytes s = 2; In in = 9; uint64 r = 4; } message In { float d = 1; }"),
        Ok(())
    );
    assert_eq!(add("message Other { string x = 1; }"), Ok(()));
    let why = add("message M { string x = 1; }").expect_err("a refusal");
    assert_eq!(why, "field x (number 1): string was written, and int64 is read");
    let why = add("message M { In in = 3; } message In { float d = 1; }").expect_err("a refusal");
    assert_eq!(why, "field in.d (number 1): float was written, and double is read");
    let why = add("message M { repeated int64 x = 1; }").expect_err("a refusal");
    assert_eq!(why, "field x (number 1): repeated int64 was written, and int64 is read");
}

#[test]
fn a_compile_error_names_its_place() {
    let files = [
        ("a.proto".to_owned(), "syntax = \"proto3\"; import \"b.proto\"; message A { B b = 1; }".to_owned()),
        ("b.proto".to_owned(), "syntax = \"proto3\"; message B { C c = 1; }".to_owned()),
    ];
    let error = compile("a.proto", &files).expect_err("no C");
    assert!(error.contains("b.proto:1:") && error.contains("'C'"), "{error}");
    let error = compile("a.proto", &files[..1]).expect_err("no b.proto");
    assert!(error.contains("b.proto"), "{error}");
    assert!(compile("none.proto", &files).is_err_and(|why| why.contains("none.proto")));
}

#[test]
fn a_very_deep_text_is_refused() {
    let text = format!("syntax = \"proto3\"; {}{}", "message A { ".repeat(100_000), "}".repeat(100_000));
    assert!(compile("t.proto", &[("t.proto".to_owned(), text)]).is_err());
}

#[test]
fn an_entry_with_an_unknown_number_of_a_closed_enum_is_dropped() {
    let mut format =
        format(r#"syntax = "proto2"; enum E { ZERO = 0; ONE = 1; } message M { map<int32, E> m = 1; }"#);
    let (array, faults) = read(&mut format, &[&[10, 4, 8, 1, 16, 1, 10, 4, 8, 2, 16, 9, 10, 2, 8, 3]]);
    assert!(faults.is_empty());
    let entries = array.column(0).as_map().value(0);
    assert_eq!(numbers(entries.column(0)), [Some(1), Some(3)]);
    assert_eq!(entries.column(1).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["ONE", "ZERO"]);
}
