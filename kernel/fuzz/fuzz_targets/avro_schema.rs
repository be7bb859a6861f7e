//! Arbitrary Avro schemas and their resolution: repeated names, defaults, unions, very large counts. Also texts that
//! are not schemas.
#![no_main]

use std::fmt::Write;

use _kernel::formats::avro::{Avro, data_type};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use penstock_kernel_fuzz::schemas::{LONGEST_TEXT, count, read};

#[derive(Arbitrary, Debug)]
enum Type {
    Plain(u8),
    Logical(u8, u8, u8),
    /// A name that may or may not be defined.
    Named(u8),
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    /// A union of that many fixed types.
    WideUnion(u16),
    Record(u8, Vec<Field>),
    /// A record with that many fields of one type.
    WideRecord(u8, u16, Box<Type>),
    Enum(u8, u16, u8),
    Fixed(u8, u32),
}

#[derive(Arbitrary, Debug)]
struct Field {
    name: u8,
    of: Type,
    default: Option<Value>,
}

#[derive(Arbitrary, Debug)]
enum Value {
    Null,
    Boolean(bool),
    Number(i64),
    Double(f64),
    Text(u16),
    List(u8, Vec<Value>),
    Object(Vec<(u8, Value)>),
}

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// The writer's schema is the reader's, without the fields whose bits are not set.
    Evolved {
        reader: Type,
        fields: u64,
        rows: Vec<&'a [u8]>,
    },
    Two {
        reader: Type,
        writer: Type,
        rows: Vec<&'a [u8]>,
    },
    Text(&'a str, &'a str),
}

const PLAIN: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
const LOGICAL: [(&str, &str); 8] = [
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "timestamp-millis"),
    ("long", "timestamp-micros"),
    ("long", "local-timestamp-nanos"),
    ("bytes", "decimal"),
    ("string", "uuid"),
    ("long", "time-micros"),
];

struct Text {
    json: String,
    names: usize,
    fields: u64,
    seen: u32,
}

impl Text {
    fn of(kind: &Type, fields: u64) -> Option<String> {
        let mut text = Text { json: String::new(), names: 0, fields, seen: 0 };
        text.write(kind)?;
        Some(text.json)
    }

    /// None if it gets too long.
    fn add(&mut self, part: std::fmt::Arguments<'_>) -> Option<()> {
        self.json.write_fmt(part).ok()?;
        (self.json.len() <= LONGEST_TEXT).then_some(())
    }

    fn name(&mut self, name: u8) -> String {
        // Usually a new name: a schema that defines a name twice is refused early.
        self.names += 1;
        if name < 8 { format!("N{name}") } else { format!("ns{}.T{}", name % 4, self.names) }
    }

    fn write(&mut self, kind: &Type) -> Option<()> {
        match kind {
            Type::Plain(at) => self.add(format_args!("\"{}\"", PLAIN[usize::from(*at) % PLAIN.len()])),
            Type::Logical(at, precision, scale) => {
                let (kind, logical) = LOGICAL[usize::from(*at) % LOGICAL.len()];
                self.add(format_args!(
                    r#"{{"type":"{kind}","logicalType":"{logical}","precision":{precision},"scale":{scale}}}"#
                ))
            }
            Type::Named(name) => self.add(format_args!("\"N{}\"", name % 8)),
            Type::Array(items) => {
                self.add(format_args!(r#"{{"type":"array","items":"#))?;
                self.write(items)?;
                self.add(format_args!("}}"))
            }
            Type::Map(values) => {
                self.add(format_args!(r#"{{"type":"map","values":"#))?;
                self.write(values)?;
                self.add(format_args!("}}"))
            }
            Type::Union(branches) => {
                for (at, branch) in branches.iter().enumerate() {
                    self.add(format_args!("{}", if at == 0 { "[" } else { "," }))?;
                    self.write(branch)?;
                }
                self.add(format_args!("{}", if branches.is_empty() { "[]" } else { "]" }))
            }
            Type::WideUnion(many) => {
                self.add(format_args!("[\"null\""))?;
                for _ in 0..count(*many) {
                    self.names += 1;
                    let name = self.names;
                    self.add(format_args!(r#",{{"type":"fixed","name":"W{name}","size":1}}"#))?;
                }
                self.add(format_args!("]"))
            }
            Type::Record(name, fields) => {
                let name = self.name(*name);
                self.add(format_args!(r#"{{"type":"record","name":"{name}","fields":["#))?;
                let mut comma = "";
                for field in fields {
                    self.seen += 1;
                    if self.fields >> (self.seen % 64) & 1 == 0 {
                        continue;
                    }
                    self.add(format_args!(
                        r#"{comma}{{"name":"f{}","aliases":["f{}"],"type":"#,
                        field.name,
                        field.name / 2
                    ))?;
                    self.write(&field.of)?;
                    if let Some(default) = &field.default {
                        self.add(format_args!(r#","default":"#))?;
                        self.value(default)?;
                    }
                    self.add(format_args!("}}"))?;
                    comma = ",";
                }
                self.add(format_args!("]}}"))
            }
            Type::WideRecord(name, many, of) => {
                let name = self.name(*name);
                self.add(format_args!(
                    r#"{{"type":"record","name":"{name}","fields":[{{"name":"f","type":"#
                ))?;
                self.write(of)?;
                self.add(format_args!("}}"))?;
                for at in 0..count(*many) {
                    self.seen += 1;
                    if self.fields >> (self.seen % 64) & 1 == 1 {
                        self.add(format_args!(r#",{{"name":"w{at}","type":"N{}","default":{{}}}}"#, at % 8))?;
                    }
                }
                self.add(format_args!("]}}"))
            }
            Type::Enum(name, many, default) => {
                let name = self.name(*name);
                self.add(format_args!(
                    r#"{{"type":"enum","name":"{name}","default":"S{default}","symbols":["S0""#
                ))?;
                for at in 1..=count(*many) {
                    self.add(format_args!(r#","S{at}""#))?;
                }
                self.add(format_args!("]}}"))
            }
            Type::Fixed(name, size) => {
                let name = self.name(*name);
                self.add(format_args!(r#"{{"type":"fixed","name":"{name}","size":{size}}}"#))
            }
        }
    }

    fn value(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Null => self.add(format_args!("null")),
            Value::Boolean(value) => self.add(format_args!("{value}")),
            Value::Number(value) => self.add(format_args!("{value}")),
            Value::Double(value) => {
                self.add(format_args!("{}", if value.is_finite() { *value } else { 0.5 }))
            }
            Value::Text(length) => self.add(format_args!("\"{}\"", "x".repeat(usize::from(count(*length))))),
            Value::List(times, values) => {
                self.add(format_args!("["))?;
                let mut comma = "";
                for _ in 0..=*times {
                    for value in values {
                        self.add(format_args!("{comma}"))?;
                        self.value(value)?;
                        comma = ",";
                    }
                }
                self.add(format_args!("]"))
            }
            Value::Object(entries) => {
                self.add(format_args!("{{"))?;
                for (at, (name, value)) in entries.iter().enumerate() {
                    self.add(format_args!("{}\"f{name}\":", if at == 0 { "" } else { "," }))?;
                    self.value(value)?;
                }
                self.add(format_args!("}}"))
            }
        }
    }
}

fn check(reader: &str, writer: &str, rows: &[&[u8]]) {
    let Ok(wanted) = data_type(reader) else { return };
    if Avro::new(reader, wanted.clone()).is_err() {
        return; // // too large to resolve
    }
    read(|| Box::new(Avro::new(reader, wanted.clone()).unwrap()), Some(writer.as_bytes()), rows);
}

fuzz_target!(|input: Input<'_>| match &input {
    Input::Evolved { reader, fields, rows } => {
        if let (Some(read), Some(written)) = (Text::of(reader, u64::MAX), Text::of(reader, *fields)) {
            check(&read, &written, rows);
        }
    }
    Input::Two { reader, writer, rows } => {
        if let (Some(reader), Some(writer)) = (Text::of(reader, u64::MAX), Text::of(writer, u64::MAX)) {
            check(&reader, &writer, rows);
        }
    }
    Input::Text(reader, writer) => check(reader, writer, &[b"", b"\0", b"\x02\x02"]),
});
