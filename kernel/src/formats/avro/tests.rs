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
fn no_rows_give_an_empty_column_and_nulls_a_null_column() {
    let mut format = avro(r#"{"type":"array","items":"string"}"#);
    assert_eq!(format.decode(&[]).expect("a column").array.len(), 0);
    let nulls = format.decode(&[Row::Null, Row::Null]).expect("a column").array;
    assert_eq!((nulls.len(), nulls.null_count()), (2, 2));
    assert_eq!(nulls.data_type(), format.data_type());
    let bad = format.decode(&[Row::Bad, Row::Bad]).expect("a column").array;
    assert_eq!((bad.len(), bad.null_count()), (2, 2));
}

/// Decodes all rows, batch by batch: the size of each batch, and the faults of all.
fn batches(format: &mut Avro, rows: &[Row<'_>]) -> (Vec<usize>, Vec<String>) {
    let (mut sizes, mut reasons, mut done) = (Vec::new(), Vec::new(), 0);
    while done < rows.len() {
        let Decoded { array, faults } = format.decode(&rows[done..]).expect("a column");
        array.to_data().validate_full().expect("valid");
        assert!(!array.is_empty() && faults.iter().all(|fault| fault.row < array.len()));
        done += array.len();
        sizes.push(array.len());
        reasons.extend(faults.into_iter().map(|fault| fault.reason));
    }
    (sizes, reasons)
}

#[test]
fn records_too_large_for_one_batch_become_several() {
    let mut format = avro("\"bytes\"");
    let mut record = vec![0x80, 0x80, 0x80, 0x01]; // 1 MB
    record.resize((1 << 20) + 4, 7);
    let (sizes, reasons) = batches(&mut format, &[bytes(&record); 20]);
    assert_eq!((sizes, reasons), (vec![8, 8, 4], vec![]));
}

#[test]
fn a_long_default_makes_more_batches_not_larger_ones() {
    let text = "x".repeat(37_500);
    let with_default = format!(
        r#"{{"type":"record","name":"R","fields":[
        {{"name":"a","type":"long"}},{{"name":"b","type":"string","default":"{text}"}}]}}"#
    );
    let mut format = avro(&with_default);
    let writer = br#"{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}"#;
    format.add_writer(1, writer).expect("fits");
    let (sizes, reasons) = batches(&mut format, &[Row::Bytes { schema: Some(1), bytes: &[2] }; 500]);
    assert_eq!((sizes, reasons), (vec![224, 224, 52], vec![]));
}

/// A list of items. The writer's items lack a field whose default in the reader's schema is long.
#[test]
fn a_record_with_too_large_defaults_is_bad_alone() {
    let record = |extra: &str| {
        format!(
            r#"{{"type":"record","name":"R","fields":[{{"name":"l","type":{{"type":"array","items":
            {{"type":"record","name":"I","fields":[{{"name":"a","type":"int"}}{extra}]}}}}}}]}}"#
        )
    };
    let text = "x".repeat(37_500);
    let mut format = avro(&record(&format!(r#",{{"name":"b","type":"string","default":"{text}"}}"#)));
    format.add_writer(1, record("").as_bytes()).expect("fits");
    let items = |count: u8| [&[2 * count][..], &vec![2; count as usize], &[0]].concat();
    let (few, many) = (items(50), items(60));
    let row = |bytes| Row::Bytes { schema: Some(1), bytes };
    let (sizes, reasons) = batches(&mut format, &[row(&few), row(&many), row(&few)]);
    assert_eq!(sizes, [3]);
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("takes far more memory than its own size"), "{}", reasons[0]);
}

#[test]
fn nulls_of_wide_records_count() {
    let fields: Vec<_> = (0..500).map(|at| format!(r#"{{"name":"f{at}","type":"long"}}"#)).collect();
    let record = format!(r#"{{"type":"record","name":"W","fields":[{}]}}"#, fields.join(","));
    for kind in ["array", "map"] {
        let part = if kind == "array" { "items" } else { "values" };
        let mut format = avro(&format!(r#"{{"type":"{kind}","{part}":["null",{record}]}}"#));
        // An item takes one byte, an entry two; each makes 4,501 bytes.
        let entries = |count: usize| {
            let mut record = vec![(2 * count) as u8 | 0x80, (count >> 6) as u8 | 0x80, (count >> 13) as u8];
            record.resize(3 + if kind == "array" { count } else { 2 * count }, 0);
            [record, vec![0]].concat()
        };
        let (few, many) = (entries(440), entries(600));
        let (sizes, reasons) = batches(&mut format, &[bytes(&few), bytes(&many), bytes(&few)]);
        assert_eq!((sizes, reasons.len()), (vec![3], 1), "{kind}: {reasons:?}");
        // And together they do not fit one batch.
        let (sizes, reasons) = batches(&mut format, &[bytes(&few); 9]);
        assert_eq!((sizes.iter().sum::<usize>(), sizes.len(), reasons.len()), (9, 2, 0), "{kind}");
    }
}

#[test]
fn symbols_count() {
    let symbol = "S".repeat(1000);
    let list = format!(r#"{{"type":"array","items":{{"type":"enum","name":"E","symbols":["{symbol}"]}}}}"#);
    let mut format = avro(&list);
    let mut record = vec![0xd0, 0x0f]; // 1,000 items
    record.resize(1_003, 0);
    let (sizes, reasons) = batches(&mut format, &[bytes(&record); 10]);
    assert_eq!((sizes, reasons.len()), (vec![9, 1], 0));
    let mut record = vec![0xc8, 0xd0, 0x07]; // 62,500 items
    record.resize(62_504, 0);
    let (sizes, reasons) = batches(&mut format, &[bytes(&record), bytes(&[0])]);
    assert_eq!((sizes, reasons.len()), (vec![2], 1));
}

/// Strings are checked once for all rows of a batch, and one by one only if that check fails.
#[test]
fn an_invalid_string_is_found_among_valid_ones() {
    let mut format = avro(r#"{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}"#);
    let texts = |decoded: &Decoded| {
        let column = decoded.array.as_struct().column(0).as_string::<i32>().clone();
        column.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
    };
    // The second and the third are half a letter each.
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

/// A reason is a text for users: here it holds a key of the record.
#[test]
fn a_key_that_reads_like_a_fault_is_not_one() {
    let mut format = avro(r#"{"type":"map","values":"int"}"#);
    let mut record = vec![2, 24];
    record.extend_from_slice(b"is not UTF-8");
    format.checks_texts = true;
    let decoded = format.decode(&[bytes(&record)]).expect("a column");
    assert_eq!(decoded.faults[0].reason, "field is not UTF-8: the record ends inside a number");
    assert!(!format.checks_texts);
}

#[test]
fn the_first_fault_is_reported() {
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
fn unselected_fields_are_skipped() {
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
fn numbers_of_maximum_length_are_read() {
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

/// Small texts that describe large schemas. They must be refused before memory is taken for them.
mod bombs {
    use super::*;

    fn record(name: &str, fields: &[String]) -> String {
        format!(r#"{{"type":"record","name":"{name}","fields":[{}]}}"#, fields.join(","))
    }

    fn field(name: &str, kind: &str) -> String {
        format!(r#"{{"name":"{name}","type":{kind}}}"#)
    }

    fn refused(reader: &str) -> String {
        data_type(reader).and_then(|wanted| Avro::new(reader, wanted)).err().expect("refused")
    }

    /// A reader without fields: all fields of a writer are skipped.
    fn skip_all(writer: &str) -> Result<(), String> {
        avro(&record("W", &[])).add_writer(1, writer.as_bytes())
    }

    #[test]
    fn a_union_of_very_many_branches() {
        let branch = |at| format!(r#"{{"type":"fixed","name":"F{at}","size":1}}"#);
        let branches: Vec<String> = (0..99_999).map(branch).collect();
        let union = format!("[{}]", branches.join(","));
        assert!(refused(&union).contains("20000 types"));
        let more = format!(r#"[{},"int","long"]"#, branches.join(","));
        assert!(refused(&more).contains("100000 types"));
        let twice = format!("[{},\"F0\"]", branches[..1_000].join(","));
        assert!(refused(&twice).contains("two branches of type fixed"));
        // The reader has one long, and each branch of the writer is tried against it.
        let union = format!("[{}]", branches[..10_000].join(","));
        let error = avro("\"long\"").add_writer(1, union.as_bytes()).expect_err("none fits");
        assert!(error.contains("fixed F0 of 1 bytes, which cannot be read as long"), "{error}");
        // Each branch of the writer is tried against each branch of the reader.
        let union = format!("[{}]", branches[..2_000].join(","));
        assert!(refused(&union).contains("4 MB to resolve"));
        let union = format!("[{}]", branches[..100].join(","));
        avro(&union).add_writer(1, union.as_bytes()).expect("fits");
    }

    #[test]
    fn an_error_shows_some_branches_of_a_union() {
        let union = r#"["int","string","boolean","float","bytes","double","null"]"#;
        let error = avro("{\"type\":\"array\",\"items\":\"int\"}").add_writer(1, union.as_bytes());
        assert!(error.is_err_and(|error| error.contains("was written as int")));
        let error = avro(union).add_writer(1, br#"{"type":"array","items":"int"}"#).expect_err("no array");
        assert!(error.contains("[int, string, boolean, float, bytes and 2 more]"), "{error}");
    }

    #[test]
    fn symbols_of_an_enum_that_is_used_everywhere() {
        let symbols: Vec<String> = (0..1_000).map(|at| format!("\"S{at}\"")).collect();
        let symbols = format!(r#"{{"type":"enum","name":"E","symbols":[{}]}}"#, symbols.join(","));
        let mut fields = vec![field("f0", &symbols)];
        fields.extend((1..1_000).map(|at| field(&format!("f{at}"), "\"E\"")));
        let mut format = avro(&record("R", &fields));
        let decoded = format.decode(&[bytes(&[2; 1_000])]).expect("a column");
        assert_eq!(decoded.array.as_struct().column(999).as_string::<i32>().value(0), "S1");
    }

    #[test]
    fn very_deeply_nested_records() {
        // Branches that the reader cannot read are not resolved, so that the last record comes first.
        let mut chain = vec![field("f0", &record("R0", &[field("a", "\"int\"")]))];
        for at in 1..10_000 {
            let inner = record(&format!("R{at}"), &[field("a", &format!("\"R{}\"", at - 1))]);
            chain.push(field(&format!("f{at}"), &inner));
        }
        let union = format!("[\"long\",{}]", record("Defined", &chain));
        let writer = record("W", &[field("known", &union), field("deep", "\"R9999\"")]);
        let mut format = avro(&record("W", &[field("known", "\"long\"")]));
        format.add_writer(1, writer.as_bytes()).expect("fits");
        let decoded = format.decode(&[Row::Bytes { schema: Some(1), bytes: &[0, 14, 2] }]).expect("a column");
        assert_eq!(
            decoded.faults[0].reason.rsplit(": ").next(),
            Some("is nested more than 256 records deep")
        );
    }

    #[test]
    fn a_namespace_that_all_names_have() {
        let fields: Vec<_> = (0..20_000)
            .map(|at| field(&format!("f{at}"), &format!(r#"{{"type":"fixed","name":"F{at}","size":1}}"#)))
            .collect();
        let schema = |namespace: usize| record(&format!("{}.W", "n".repeat(namespace)), &fields);
        skip_all(&schema(500)).expect("fits");
        assert!(skip_all(&schema(1_000_000)).is_err_and(|error| error.contains("names of more than 16 MB")));
        let aliases = "\"a\",".repeat(100_000);
        let aliases = format!(
            r#"{{"type":"fixed","size":1,"name":"{}.F","aliases":[{aliases}"b"]}}"#,
            "n".repeat(10_000)
        );
        assert!(refused(&aliases).contains("names of more than 16 MB"));
    }

    #[test]
    fn a_record_with_long_names_that_is_used_everywhere() {
        let fields: Vec<_> =
            (0..100).map(|at| field(&format!("{at}{}", "x".repeat(5_000)), "\"int\"")).collect();
        let mut all = vec![field("f0", &record("I", &fields))];
        all.extend((1..5_000).map(|at| field(&format!("f{at}"), "\"I\"")));
        let reader: Vec<_> = (0..5_000)
            .map(|at| {
                field(
                    &format!("f{at}"),
                    if at == 0 { r#"{"type":"record","name":"I","fields":[]}"# } else { "\"I\"" },
                )
            })
            .collect();
        let error = avro(&record("W", &reader)).add_writer(1, record("W", &all).as_bytes());
        assert!(error.is_err_and(|error| error.contains("4 MB to resolve")));
    }

    #[test]
    fn defaults_of_defaults() {
        // Each item of the list has all fields, each with its default.
        let fields: Vec<_> = (0..10_000)
            .map(|at| format!(r#"{{"name":"f{at}","type":"string","default":"0123456789"}}"#))
            .collect();
        let items = "{},".repeat(10_000);
        let list = format!(
            r#"{{"name":"l","type":{{"type":"array","items":{}}},"default":[{items}{{}}]}}"#,
            record("I", &fields)
        );
        let mut format = avro(&record("R", &[list]));
        let error = format.add_writer(1, record("R", &[]).as_bytes()).expect_err("too much");
        assert!(error.contains("4 MB to resolve"), "{error}");
        // The same default, once for each field of that record type.
        let text = "x".repeat(500_000);
        let inner = format!(r#"{{"name":"a","type":"string","default":"{text}"}}"#);
        let with = |first: &str| {
            let mut all = vec![field("f0", first)];
            all.extend((1..5_000).map(|at| field(&format!("f{at}"), "\"I\"")));
            record("W", &all)
        };
        let error = avro(&with(&record("I", &[inner])))
            .add_writer(1, with(&record("I", &[])).as_bytes())
            .expect_err("too much");
        assert!(error.contains("4 MB to resolve"), "{error}");
    }

    #[test]
    fn a_default_that_fits_no_branch_of_a_union() {
        let branches: Vec<_> =
            (0..10_000).map(|at| format!(r#"{{"type":"fixed","name":"F{at}","size":1}}"#)).collect();
        let text = "x".repeat(500_000);
        let field = format!(r#"{{"name":"a","type":[{}],"default":"{text}"}}"#, branches.join(","));
        let reader = record("R", &[field]);
        let wanted = data_type(&reader).expect("a type");
        let part = DataType::Struct(
            vec![Field::new("a", DataType::Struct(Vec::<Field>::new().into()), true)].into(),
        );
        assert!(Avro::new(&reader, wanted).is_err_and(|error| error.contains("4 MB to resolve")));
        let mut format = Avro::new(&reader, part).expect("nothing of it is wanted");
        let error = format.add_writer(1, record("R", &[]).as_bytes()).expect_err("too much");
        assert!(error.contains("4 MB to resolve"), "{error}");
    }

    #[test]
    fn a_row_of_very_many_columns() {
        let fields: Vec<_> = (0..19_000).map(|at| field(&format!("f{at}"), "\"double\"")).collect();
        let reader = record("R", &fields);
        let wanted = data_type(&reader).expect("a type");
        let mut reader = crate::formats::Reader::new(
            Box::new(Avro::new(&reader, wanted).expect("a format")),
            crate::formats::framing::Framing::None,
        );
        let values = arrow_array::BinaryArray::from(vec![None; 5_000]);
        let crate::formats::Outcome::Decoded(decoded) = reader.decode(&values).expect("a column") else {
            panic!("nothing is unknown");
        };
        assert_eq!(decoded.array.len(), 49);
    }
}
