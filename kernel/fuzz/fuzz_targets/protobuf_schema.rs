//! Arbitrary Protobuf files and descriptor sets, read by another: repeated names, options, very large counts. Also
//! texts and bytes that are not descriptors.
#![no_main]

use std::fmt::Write;

use _kernel::formats::protobuf::{Proto, Protobuf, compile, data_type, message_name};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use penstock_kernel_fuzz::schemas::{LONGEST_TEXT, allow_panics_of_descriptors, count, read};

#[derive(Arbitrary, Debug)]
enum Part {
    Field {
        label: u8,
        of: u8,
        number: u16,
        default: Option<u16>,
    },
    /// That many fields of one type.
    Fields {
        of: u8,
        many: u16,
    },
    Map {
        key: u8,
        of: u8,
        number: u16,
    },
    Oneof(u16),
    Message(Vec<Part>),
    Enum(u16),
    Group(u16, Vec<Part>),
    /// Nested brackets, as the value of an option.
    Option(u16),
    Options(u16),
    Ranges(u16),
}

#[derive(Arbitrary, Debug)]
struct File {
    proto2: bool,
    package: u16,
    messages: Vec<Vec<Part>>,
}

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Two {
        reader: File,
        writer: File,
        rows: Vec<&'a [u8]>,
    },
    Text(&'a str, Vec<&'a [u8]>),
    /// Bytes in place of a descriptor set, and of a file descriptor.
    Descriptors(&'a [u8], Vec<&'a [u8]>),
    /// A good set, with one part replaced.
    Damaged {
        file: File,
        at: u16,
        by: &'a [u8],
        rows: Vec<&'a [u8]>,
    },
}

const SCALARS: [&str; 15] = [
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
    "float", "double", "bool", "string", "bytes",
];

struct Text {
    text: String,
    names: usize,
    proto2: bool,
}

impl Text {
    fn of(file: &File) -> Option<String> {
        let syntax = if file.proto2 { "proto2" } else { "proto3" };
        let package = "p".repeat(usize::from(file.package) / 64 + 1);
        let mut text = Text { text: String::new(), names: 0, proto2: file.proto2 };
        text.add(format_args!(
            "syntax = \"{syntax}\"; package {package}; import \"google/protobuf/timestamp.proto\";"
        ))?;
        text.add(format_args!("enum E {{ ZERO = 0; ONE = 1; }}"))?;
        for (at, parts) in file.messages.iter().enumerate() {
            text.add(format_args!("message M{at} {{"))?;
            text.parts(parts)?;
            text.add(format_args!("}}"))?;
        }
        Some(text.text)
    }

    /// None if it gets too long.
    fn add(&mut self, part: std::fmt::Arguments<'_>) -> Option<()> {
        self.text.write_fmt(part).ok()?;
        (self.text.len() <= LONGEST_TEXT).then_some(())
    }

    fn kind(of: u8) -> String {
        match usize::from(of) {
            at if at < 2 * SCALARS.len() => SCALARS[at % SCALARS.len()].to_owned(),
            at if at < 40 => "E".to_owned(),
            at if at < 50 => "google.protobuf.Timestamp".to_owned(),
            at => format!("M{}", at % 8),
        }
    }

    fn parts(&mut self, parts: &[Part]) -> Option<()> {
        for part in parts {
            self.names += 1;
            let name = self.names;
            match part {
                Part::Field { label, of, number, default } => {
                    let labels = if self.proto2 {
                        ["optional", "repeated", "required"]
                    } else {
                        ["", "repeated", "optional"]
                    };
                    let (label, kind) = (labels[usize::from(*label) % 3], Text::kind(*of));
                    let default = match default {
                        Some(length) if self.proto2 && kind == "string" => {
                            format!(" [default = \"{}\"]", "x".repeat(usize::from(count(*length))))
                        }
                        _ => String::new(),
                    };
                    self.add(format_args!(
                        "{label} {kind} f{name} = {}{default};",
                        u32::from(*number) % 1000 + 1
                    ))?;
                }
                Part::Fields { of, many } => {
                    let kind = Text::kind(*of);
                    let label = if self.proto2 { "optional" } else { "" };
                    for at in 0..count(*many) {
                        self.add(format_args!("{label} {kind} w{name}_{at} = {};", 20_000 + u32::from(at)))?;
                    }
                }
                Part::Map { key, of, number } => {
                    let (key, of) = (SCALARS[usize::from(*key) % SCALARS.len()], Text::kind(*of));
                    self.add(format_args!("map<{key}, {of}> f{name} = {};", u32::from(*number) % 1000 + 1))?;
                }
                Part::Oneof(many) => {
                    self.add(format_args!("oneof o{name} {{ "))?;
                    for at in 0..=count(*many) {
                        self.add(format_args!(
                            "{} o{name}_{at} = {};",
                            Text::kind(at as u8),
                            100_000 + u32::from(at)
                        ))?;
                    }
                    self.add(format_args!("}}"))?;
                }
                Part::Message(parts) => {
                    self.add(format_args!("message M{} {{", name % 8))?;
                    self.parts(parts)?;
                    self.add(format_args!("}}"))?;
                }
                Part::Enum(many) => {
                    self.add(format_args!("enum E{name} {{"))?;
                    for at in 0..=count(*many) {
                        self.add(format_args!("V{name}_{at} = {at};"))?;
                    }
                    self.add(format_args!("}}"))?;
                }
                Part::Group(number, parts) => {
                    self.add(format_args!("repeated group G{name} = {} {{", u32::from(*number) % 1000 + 1))?;
                    self.parts(parts)?;
                    self.add(format_args!("}}"))?;
                }
                Part::Option(depth) => {
                    let (open, close) =
                        ("{a:".repeat(usize::from(count(*depth))), "}".repeat(usize::from(count(*depth))));
                    self.add(format_args!("option (o) = {open}{close};"))?;
                }
                Part::Options(many) => {
                    for _ in 0..count(*many) {
                        self.add(format_args!("option deprecated = true;"))?;
                    }
                }
                Part::Ranges(many) => {
                    for at in 0..count(*many) {
                        self.add(format_args!("reserved {};", 200_000 + u32::from(at)))?;
                    }
                }
            }
        }
        Some(())
    }
}

const NAME: &str = "m.proto";

fn compiled(file: impl Into<Proto> + Clone) -> Option<Vec<u8>> {
    compile(NAME, &[(NAME.to_owned(), file)]).ok()
}

fn check(set: &[u8], writer: Option<&[u8]>, rows: &[&[u8]]) {
    let Ok(message) = message_name(set, "") else { return };
    let Ok(wanted) = data_type(set, &message) else { return };
    if Protobuf::new(set, &message, wanted.clone()).is_err() {
        return; // // too large to resolve
    }
    read(|| Box::new(Protobuf::new(set, &message, wanted.clone()).unwrap()), writer, rows);
}

fuzz_target!(init: allow_panics_of_descriptors(), |input: Input<'_>| match &input {
    Input::Two { reader, writer, rows } => {
        let (Some(reader), Some(writer)) = (Text::of(reader), Text::of(writer)) else { return };
        let Some(set) = compiled(reader) else { return };
        check(&set, compiled(writer).as_deref(), rows);
    }
    Input::Text(text, rows) => {
        if let Some(set) = compiled((*text).to_owned()) {
            check(&set, Some(&set), rows);
        }
    }
    Input::Descriptors(bytes, rows) => {
        check(bytes, Some(bytes), rows);
        if let Some(set) = compiled(Proto::Descriptor(bytes.to_vec())) {
            check(&set, Some(bytes), rows);
        }
    }
    Input::Damaged { file, at, by, rows } => {
        let Some(set) = Text::of(file).and_then(compiled) else { return };
        let at = usize::from(*at) % set.len();
        let damaged = [&set[..at], by, &set[(at + by.len()).min(set.len())..]].concat();
        check(&damaged, Some(&set), rows);
        check(&set, Some(&damaged), rows);
    }
});
