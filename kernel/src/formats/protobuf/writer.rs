//! The writer's schema of a record: the message indexes before the payload.
#![forbid(unsafe_code)]

use prost_reflect::{Cardinality, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};

use super::column::Column;
use super::record::Record;
use super::wire::Cursor;
use crate::formats::varint::unzigzag;

/// A schema that records were written with.
pub struct Writer {
    main: FileDescriptor,
    /// The message indexes of the reader's message. Two forms, because clients do not agree whether the entries of map
    /// fields count: in Python they do, in Java they do not.
    ours: [Option<Vec<i64>>; 2],
    /// Whether it is the first message, which is by far the most frequent: then the indexes are a single zero.
    ours_is_first: bool,
}

impl Writer {
    /// The error names the field that the reader's message cannot read.
    pub fn new(main: FileDescriptor, reader: &Record) -> Result<Self, String> {
        let name = reader.message().full_name();
        let message =
            main.parent_pool().get_message_by_name(name).filter(|message| message.parent_file() == main);
        if let Some(message) = &message {
            compare(reader, message, &mut Vec::new())?;
        }
        let ours =
            [true, false].map(|entries| message.as_ref().and_then(|message| indexes(message, entries)));
        let ours_is_first = ours[0].as_deref() == Some(&[0]);
        Ok(Writer { main, ours, ours_is_first })
    }

    /// Cuts off the indexes. They must point to the reader's message.
    #[inline]
    pub fn cut<'a>(&self, bytes: &'a [u8], reader: &MessageDescriptor) -> Result<&'a [u8], String> {
        if let [0, payload @ ..] = bytes
            && self.ours_is_first
        {
            return Ok(payload);
        }
        let mut cursor = Cursor::new(bytes);
        let found = read_indexes(&mut cursor)
            .ok_or("the message indexes of a schema registry's framing are cut off")?;
        if self.ours.iter().flatten().any(|ours| *ours == found) {
            return Ok(cursor.rest());
        }
        Err(match self.follow(&found) {
            Some(message) => format!("is message {message}, and {} is read", reader.full_name()),
            None => format!("message indexes {found:.40?} lead nowhere in {}", self.main.name()),
        })
    }

    /// The full name of the message that the indexes point to. Not by prost-reflect's lists of messages: each step
    /// there is linear in the number of messages, and this runs for each record.
    fn follow(&self, indexes: &[i64]) -> Option<String> {
        let file = self.main.file_descriptor_proto();
        let mut messages = &file.message_type;
        let mut names: Vec<&str> =
            Some(file.package()).filter(|package| !package.is_empty()).into_iter().collect();
        for &index in indexes {
            let message = messages.get(usize::try_from(index).ok()?)?;
            names.push(message.name());
            messages = &message.nested_type;
        }
        Some(names.join("."))
    }
}

/// A count and as many indexes, each a zigzag varint. A zero count means the first message.
fn read_indexes(cursor: &mut Cursor<'_>) -> Option<Vec<i64>> {
    let mut number = || cursor.varint().ok().map(unzigzag);
    let count = number()?;
    if count == 0 {
        return Some(vec![0]);
    }
    // Each index takes at least one byte, so a wrong count fails at the end of the bytes.
    (0..usize::try_from(count).ok()?).map(|_| number()).collect()
}

/// The indexes of a message: its index in the file, or in each enclosing message.
pub fn indexes(message: &MessageDescriptor, count_entries: bool) -> Option<Vec<i64>> {
    let mut indexes = Vec::new();
    let mut message = message.clone();
    while let Some(parent) = message.parent_message() {
        let mut siblings = parent.child_messages().filter(|sibling| count_entries || !sibling.is_map_entry());
        indexes.push(siblings.position(|sibling| sibling == message)? as i64);
        message = parent.clone();
    }
    indexes.push(message.parent_file().messages().position(|sibling| sibling == message)? as i64);
    indexes.reverse();
    Some(indexes)
}

/// Types with the same wire format and the same meaning.
#[derive(PartialEq, Eq)]
enum Family {
    Varint,
    ZigZag,
    Fixed32,
    Fixed64,
    Float,
    Double,
    Text,
    Message,
    Group,
}

fn family(field: &FieldDescriptor) -> Family {
    match field.kind() {
        Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Bool | Kind::Enum(_) => {
            Family::Varint
        }
        Kind::Sint32 | Kind::Sint64 => Family::ZigZag,
        Kind::Fixed32 | Kind::Sfixed32 => Family::Fixed32,
        Kind::Fixed64 | Kind::Sfixed64 => Family::Fixed64,
        Kind::Float => Family::Float,
        Kind::Double => Family::Double,
        Kind::String | Kind::Bytes => Family::Text,
        Kind::Message(_) if field.is_group() => Family::Group,
        Kind::Message(_) => Family::Message,
    }
}

/// Checks that the selected fields can be read as they were written, at every depth.
fn compare(reader: &Record, writer: &MessageDescriptor, path: &mut Vec<String>) -> Result<(), String> {
    for (field, column) in reader.fields() {
        let read = reader.message().get_field(field.number);
        let (Some(read), Some(written)) = (read, writer.get_field(field.number)) else { continue };
        path.push(field.name.to_string());
        if !fits(&read, &written) {
            return Err(format!(
                "field {} (number {}): {} was written, and {} is read",
                path.join("."),
                field.number,
                shown(&written),
                shown(&read)
            ));
        }
        let record = match column {
            Column::Record(record) => Some(record.as_ref()),
            Column::Map(map) => Some(map.entries()),
            Column::List(list) => match list.items() {
                Column::Record(record) => Some(record.as_ref()),
                _ => None,
            },
            _ => None,
        };
        if let (Some(record), Kind::Message(message)) = (record, written.kind()) {
            compare(record, &message, path)?;
        }
        path.pop();
    }
    Ok(())
}

fn fits(read: &FieldDescriptor, written: &FieldDescriptor) -> bool {
    let same = match (family(read), family(written)) {
        // Bytes may hold a message that is not parsed.
        (Family::Message, Family::Text) => written.kind() == Kind::Bytes,
        (Family::Text, Family::Message) => read.kind() == Kind::Bytes,
        (read, written) => read == written,
    };
    // A single value cannot be read from a packed list.
    same && (read.cardinality() == Cardinality::Repeated || !written.is_packed())
}

fn shown(field: &FieldDescriptor) -> String {
    let kind = match field.kind() {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(descriptor) => descriptor.full_name().to_owned(),
        kind => format!("{kind:?}").to_lowercase(),
    };
    if field.cardinality() == Cardinality::Repeated { format!("repeated {kind}") } else { kind }
}
