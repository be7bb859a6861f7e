//! Arrow types of messages, as in Spark's `from_protobuf` with its default options.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor};

use super::times::TimeKind;

/// The most fields at all depths together. A few messages that each hold the next one twice have millions.
const MAX_FIELDS: usize = 20_000;

/// The most levels of nested structs, lists and maps: pyarrow imports at most 64 levels.
const MAX_LEVELS: usize = 60;

/// The type of a whole message. Fields are in declaration order. Fields whose messages have no fields at all are left
/// out, because Spark has no structs without fields.
pub fn message_type(message: &MessageDescriptor) -> Result<DataType, String> {
    let above = vec![message.full_name().to_owned()];
    let mut types = Types { path: Vec::new(), above, levels: 1, fields: 0 };
    Ok(DataType::Struct(types.fields(message)?))
}

/// Fields in declaration order; prost-reflect sorts them by number.
pub fn declared_fields(message: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> {
    message.descriptor_proto().field.iter().filter_map(|field| message.get_field(field.number() as u32))
}

struct Types {
    /// The names of the enclosing fields, and the full names of their messages.
    path: Vec<String>,
    above: Vec<String>,
    levels: usize,
    fields: usize,
}

impl Types {
    fn fields(&mut self, message: &MessageDescriptor) -> Result<Fields, String> {
        let mut fields = Vec::new();
        for field in declared_fields(message) {
            self.fields += 1;
            if self.fields > MAX_FIELDS {
                return Err(format!(
                    "message {} has more than {MAX_FIELDS} fields, those of the messages in it counted",
                    self.above[0]
                ));
            }
            self.path.push(field.name().to_owned());
            if let Some(data_type) = self.field(&field)? {
                fields.push(Field::new(field.name(), data_type, true));
            }
            self.path.pop();
        }
        Ok(fields.into())
    }

    fn field(&mut self, field: &FieldDescriptor) -> Result<Option<DataType>, String> {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let key = self.value(&entry.map_entry_key_field(), 2)?;
                let value = self.value(&entry.map_entry_value_field(), 2)?;
                Ok(key.zip(value).map(|(key, value)| map_type(key, value)))
            }
            _ if field.is_list() => Ok(self.value(field, 1)?.map(list_type)),
            _ => self.value(field, 0),
        }
    }

    /// The type of one value of a field, this many levels below its message.
    fn value(&mut self, field: &FieldDescriptor, levels: usize) -> Result<Option<DataType>, String> {
        let kind = field.kind();
        let Kind::Message(message) = &kind else { return Ok(Some(scalar_type(&kind))) };
        if let Some((kind, ..)) = time_message(message) {
            return Ok(Some(time_type(kind)));
        }
        if self.above.iter().any(|above| above == message.full_name()) {
            return Err(format!(
                "field {}: message {} contains itself, which no column can; select columns without this field",
                self.path.join("."),
                message.full_name()
            ));
        }
        if self.levels + levels >= MAX_LEVELS {
            return Err(format!(
                "field {}: is nested more than {MAX_LEVELS} levels deep; select columns without this field",
                self.path.join(".")
            ));
        }
        self.above.push(message.full_name().to_owned());
        self.levels += 1 + levels;
        let fields = self.fields(message)?;
        self.levels -= 1 + levels;
        self.above.pop();
        Ok((!fields.is_empty()).then_some(DataType::Struct(fields)))
    }
}

pub fn scalar_type(kind: &Kind) -> DataType {
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Uint32 | Kind::Fixed32 | Kind::Sfixed32 => DataType::Int32,
        Kind::Int64 | Kind::Sint64 | Kind::Uint64 | Kind::Fixed64 | Kind::Sfixed64 => DataType::Int64,
        Kind::Float => DataType::Float32,
        Kind::Double => DataType::Float64,
        Kind::Bool => DataType::Boolean,
        Kind::String | Kind::Enum(_) => DataType::Utf8,
        Kind::Bytes => DataType::Binary,
        Kind::Message(_) => DataType::Null,
    }
}

pub fn time_type(kind: TimeKind) -> DataType {
    match kind {
        TimeKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        TimeKind::Duration => DataType::Duration(TimeUnit::Microsecond),
    }
}

fn list_type(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, true)))
}

fn map_type(key: DataType, value: DataType) -> DataType {
    let entry = vec![Field::new("key", key, false), Field::new("value", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
}

/// Whether a message is a Timestamp or a Duration, and the numbers of its seconds and nanoseconds. As in Spark, the
/// message name without the package and the fields decide; it need not be Google's own.
pub fn time_message(message: &MessageDescriptor) -> Option<(TimeKind, u32, u32)> {
    let kind = match message.name() {
        "Timestamp" => TimeKind::Timestamp,
        "Duration" => TimeKind::Duration,
        _ => return None,
    };
    // The count first: there may be thousands of fields, and this runs for each field of this type.
    if message.descriptor_proto().field.len() != 2 {
        return None;
    }
    let fields = declared_fields(message).collect::<Vec<_>>();
    let [seconds, nanos] = fields.as_slice() else { return None };
    let plain = |field: &FieldDescriptor, name, kind| {
        field.name() == name
            && field.kind() == kind
            && field.cardinality() == Cardinality::Optional
            && field.field_descriptor_proto().default_value.is_none()
    };
    (plain(seconds, "seconds", Kind::Int64) && plain(nanos, "nanos", Kind::Int32))
        .then(|| (kind, seconds.number(), nanos.number()))
}
