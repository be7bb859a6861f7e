//! How columns are written as a message: found before the first row.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use arrow_schema::{DataType, Fields, TimeUnit};
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax};

use super::encoder::{Field, Message, Shape, Value, varint, zigzag};
use super::plan::wire_type;
use super::times::TimeKind;
use super::types::time_message;
use super::wire::{END_GROUP, LENGTH, MAX_DEPTH, START_GROUP};
use super::writer::indexes;

/// The error names the field that does not fit.
pub fn plan(message: &MessageDescriptor, columns: &Fields) -> Result<Message, String> {
    Planner { path: Vec::new() }.message(message, columns)
}

/// A count and the indexes, each a zigzag varint; a single zero for the first message. Map entries are not counted, as
/// in Java: other clients do not look at the numbers.
pub fn framed_indexes(message: &MessageDescriptor) -> Option<Vec<u8>> {
    let indexes = indexes(message, false)?;
    let mut bytes = Vec::new();
    if indexes == [0] {
        bytes.push(0);
        return Some(bytes);
    }
    zigzag(indexes.len() as i64, &mut bytes);
    indexes.iter().for_each(|&index| zigzag(index, &mut bytes));
    Some(bytes)
}

struct Planner {
    path: Vec<String>,
}

impl Planner {
    fn refuse(&self, what: impl std::fmt::Display) -> String {
        if self.path.is_empty() { what.to_string() } else { format!("field {}: {what}", self.path.join(".")) }
    }

    fn message(&mut self, message: &MessageDescriptor, columns: &Fields) -> Result<Message, String> {
        if self.path.len() as u32 > MAX_DEPTH {
            return Err(self.refuse("is nested too deeply"));
        }
        let found = self.matched(message, columns)?;
        let mut fields = Vec::new();
        let mut oneofs: Vec<(String, Vec<usize>)> = Vec::new();
        // By number, as prost-reflect lists them.
        for field in message.fields() {
            let Some(&column) = found.get(&field.number()) else {
                if field.is_required() {
                    self.path.push(field.name().to_owned());
                    return Err(self.refuse("the message requires it, and there is no such column"));
                }
                continue;
            };
            if let Some(oneof) = field.containing_oneof() {
                match oneofs.iter_mut().find(|(name, _)| name == oneof.name()) {
                    Some((_, columns)) => columns.push(column),
                    None => oneofs.push((oneof.name().to_owned(), vec![column])),
                }
            }
            self.path.push(field.name().to_owned());
            fields.push(self.field(&field, column, columns[column].data_type())?);
            self.path.pop();
        }
        oneofs.retain(|(_, columns)| columns.len() > 1);
        Ok(Message { fields, oneofs })
    }

    /// The columns of fields, by field number. Every column belongs to a field.
    fn matched(
        &mut self,
        message: &MessageDescriptor,
        columns: &Fields,
    ) -> Result<HashMap<u32, usize>, String> {
        let mut found = HashMap::new();
        let mut folded: HashMap<String, Vec<FieldDescriptor>> = HashMap::new();
        for field in message.fields() {
            folded.entry(field.name().to_lowercase()).or_default().push(field);
        }
        let exact = |name: &str| message.get_field_by_name(name);
        // Names that fit exactly are taken first.
        for (column, field) in columns.iter().enumerate() {
            if let Some(field) = exact(field.name()) {
                found.insert(field.number(), column);
            }
        }
        for (column, arrow) in columns.iter().enumerate().filter(|(_, arrow)| exact(arrow.name()).is_none()) {
            let near = folded.get(&arrow.name().to_lowercase()).map_or(&[][..], Vec::as_slice);
            self.path.push(arrow.name().clone());
            match near {
                [field] if found.insert(field.number(), column).is_none() => {}
                [] => {
                    let name = message.full_name();
                    return Err(self.refuse(format!(
                        "is a column that message {name} does not have. Drop it, or add it to the schema"
                    )));
                }
                _ => return Err(self.refuse("two names differ only in case")),
            }
            self.path.pop();
        }
        Ok(found)
    }

    fn field(&mut self, field: &FieldDescriptor, column: usize, given: &DataType) -> Result<Field, String> {
        let kind = field.kind();
        let mut wire = wire_type(&kind);
        let (shape, value) = match (&kind, given) {
            (Kind::Message(entry), DataType::Map(entries, _)) if field.is_map() => {
                let DataType::Struct(parts) = entries.data_type() else {
                    return Err(self.refuse("is not a map"));
                };
                let key = self.value(&entry.map_entry_key_field(), parts[0].data_type())?;
                let value = self.value(&entry.map_entry_value_field(), parts[1].data_type())?;
                (Shape::Map(key), value)
            }
            (_, DataType::List(element)) if field.is_list() => {
                let value = self.value(field, element.data_type())?;
                if field.is_packed() {
                    wire = LENGTH;
                    (Shape::Packed, value)
                } else {
                    (Shape::Repeated, value)
                }
            }
            (_, given) if field.is_map() || field.is_list() => {
                let what = if field.is_map() { "a map" } else { "repeated" };
                return Err(
                    self.refuse(format!("a column of type {given} cannot be written: the field is {what}"))
                );
            }
            _ => (Shape::Single, self.value(field, given)?),
        };
        if let Value::Group(..) = value {
            wire = START_GROUP;
        }
        Ok(Field {
            name: field.name().to_owned(),
            column,
            tag: tag(field.number(), wire),
            shape,
            value,
            required: field.is_required(),
            presence: field.supports_presence(),
        })
    }

    fn value(&mut self, field: &FieldDescriptor, given: &DataType) -> Result<Value, String> {
        let kind = field.kind();
        let small = matches!(given, DataType::Int8 | DataType::Int16 | DataType::Int32);
        let integer = small || *given == DataType::Int64;
        Ok(match (&kind, given) {
            (Kind::Int32, _) if small => Value::Varint,
            (Kind::Int64 | Kind::Uint64, _) if integer => Value::Varint,
            (Kind::Uint32, _) if small => Value::Varint32,
            (Kind::Uint32, DataType::Int64) => Value::Unsigned32 { fixed: false },
            (Kind::Sint32, _) if small => Value::ZigZag,
            (Kind::Sint64, _) if integer => Value::ZigZag,
            (Kind::Fixed32 | Kind::Sfixed32, _) if small => Value::Fixed32,
            (Kind::Fixed32, DataType::Int64) => Value::Unsigned32 { fixed: true },
            (Kind::Fixed64 | Kind::Sfixed64, _) if integer => Value::Fixed64,
            (Kind::Uint64, DataType::Decimal128(_, 0)) => Value::Unsigned64 { fixed: false },
            (Kind::Fixed64, DataType::Decimal128(_, 0)) => Value::Unsigned64 { fixed: true },
            (Kind::Float, DataType::Float32) => Value::Float,
            (Kind::Double, DataType::Float32 | DataType::Float64) => Value::Double,
            (Kind::Bool, DataType::Boolean) => Value::Bool,
            (Kind::String, DataType::Utf8) | (Kind::Bytes, DataType::Binary) => Value::Bytes,
            (Kind::Enum(names), DataType::Utf8) => Value::EnumName {
                names: enum_names(names),
                unknown: (names.parent_file().syntax() == Syntax::Proto3)
                    .then(|| format!("UNKNOWN_ENUM_VALUE_{}_", names.name())),
            },
            (Kind::Enum(names), _) if small => Value::EnumNumber(
                (names.parent_file().syntax() == Syntax::Proto2)
                    .then(|| names.values().map(|value| value.number()).collect()),
            ),
            (Kind::Message(message), DataType::Struct(columns)) => {
                let message_plan = Box::new(self.message(message, columns)?);
                if field.is_group() {
                    Value::Group(message_plan, tag(field.number(), END_GROUP))
                } else {
                    Value::Message(message_plan)
                }
            }
            (Kind::Message(message), _) if is_time(message, given) => {
                let Some((kind, seconds, nanos)) = time_message(message) else {
                    return Err(self.refuse("is not a time"));
                };
                Value::Time { kind, seconds, nanos }
            }
            // A column without type has only nulls.
            (_, DataType::Null) => Value::Bool,
            _ => {
                let hint = match (&kind, given) {
                    (Kind::Int32 | Kind::Sint32 | Kind::Sfixed32, DataType::Int64)
                    | (Kind::Float, DataType::Float64) => ": cast it, or choose a wider type in the schema",
                    (Kind::Message(message), DataType::Timestamp(_, None))
                        if time_message(message).is_some() =>
                    {
                        ": a Timestamp is an instant, and the column has no time zone"
                    }
                    _ => "",
                };
                let kind = described(&kind);
                return Err(
                    self.refuse(format!("a column of type {given} cannot be written as {kind}{hint}"))
                );
            }
        })
    }
}

fn is_time(message: &MessageDescriptor, given: &DataType) -> bool {
    matches!(
        (time_message(message), given),
        (Some((TimeKind::Timestamp, ..)), DataType::Timestamp(TimeUnit::Microsecond, Some(_)))
            | (Some((TimeKind::Duration, ..)), DataType::Duration(TimeUnit::Microsecond))
    )
}

fn enum_names(names: &EnumDescriptor) -> HashMap<Box<[u8]>, i32> {
    names.values().map(|value| (value.name().as_bytes().into(), value.number())).collect()
}

/// A type in an error text.
fn described(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => format!("message {}", message.full_name()),
        Kind::Enum(names) => format!("enum {}", names.full_name()),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn tag(number: u32, wire: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(u64::from(number << 3 | wire), &mut bytes);
    bytes
}
