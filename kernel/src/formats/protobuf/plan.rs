//! Builds the columns for the selected fields of a message.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields};
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax, Value};

use super::column::{Column, Utf8};
use super::enum_names::EnumNames;
use super::list::List;
use super::map::Map;
use super::record::{Field, Record};
use super::times::Times;
use super::types::{scalar_type, time_message, time_type};
use super::values::{Absence, Texts, Values};
use super::wire::{FIXED32, FIXED64, LENGTH, MAX_DEPTH, START_GROUP, VARINT};

/// The columns of a message for the fields in `wanted`.
pub fn plan(message: &MessageDescriptor, wanted: &Fields) -> Result<Record, String> {
    Plan { path: Vec::new(), names: HashMap::new(), defaults: MOST_DEFAULTS }.record(message, wanted, false)
}

/// The place of a value: it decides what an absent value means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Singular,
    Element,
    /// Key or value of a map entry: never absent.
    Entry,
}

/// The most bytes of the defaults of all fields. Messages that are used several times count each time.
const MOST_DEFAULTS: usize = 32 << 20;

struct Plan {
    path: Vec<String>,
    /// The names of each enum by its full name: thousands of fields may have the same enum.
    names: HashMap<String, Arc<EnumNames>>,
    /// Bytes of defaults left of the limit.
    defaults: usize,
}

impl Plan {
    fn record(
        &mut self,
        message: &MessageDescriptor,
        wanted: &Fields,
        always: bool,
    ) -> Result<Record, String> {
        if self.path.len() > 2 * MAX_DEPTH as usize {
            return Err(format!("field {}: is nested too deep", self.path.join(".")));
        }
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        let mut oneofs = HashMap::new();
        let mut numbers = HashSet::new();
        let entry = message.is_map_entry();
        for asked in wanted {
            self.path.push(asked.name().clone());
            let field = message
                .get_field_by_name(asked.name())
                .ok_or_else(|| self.refuse(&format!("message {} has no such field", message.full_name())))?;
            if !asked.is_nullable() && !entry {
                return Err(self.refuse("must be nullable"));
            }
            if !numbers.insert(field.number()) {
                return Err(self.refuse("is selected twice"));
            }
            let place = if entry { Place::Entry } else { Place::Singular };
            let column = self.column(&field, asked.data_type(), place)?;
            let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic()).map(|oneof| {
                let next = oneofs.len();
                oneofs.entry(oneof.name().to_owned()).or_insert((next, oneof)).0
            });
            fields.push(entry_of(&field, columns.len(), oneof));
            columns.push(column);
            self.path.pop();
        }
        for (index, oneof) in oneofs.values() {
            for member in oneof.fields() {
                if numbers.insert(member.number()) {
                    fields.push(Field { required: false, ..entry_of(&member, columns.len(), Some(*index)) });
                    columns.push(Column::Unwanted(self.closed_names(&member.kind())));
                }
            }
        }
        Ok(Record::new(message.clone(), fields, wanted.clone(), columns, always))
    }

    fn column(&mut self, field: &FieldDescriptor, wanted: &DataType, place: Place) -> Result<Column, String> {
        match (field.kind(), wanted) {
            (Kind::Message(entry), DataType::Map(of_entries, false)) if field.is_map() => {
                let DataType::Struct(parts) = of_entries.data_type() else {
                    return Err(self.refuse("is not an Arrow map"));
                };
                let record = self.record(
                    &entry,
                    &entry_parts(parts).ok_or_else(|| self.refuse("is not a map"))?,
                    false,
                )?;
                let of_entries =
                    ArrowField::new(of_entries.name(), DataType::Struct(record.types().clone()), false);
                Ok(Column::Map(Box::new(Map::new(Arc::new(of_entries), Box::new(record)))))
            }
            (kind, DataType::List(element)) if field.is_list() => {
                let items = self.value(field, &kind, element.data_type(), Place::Element)?;
                Ok(Column::List(Box::new(List::new(element.clone(), items, packable(&kind)))))
            }
            (_, other) if field.cardinality() == Cardinality::Repeated => {
                let what = if field.is_map() { "a map" } else { "repeated" };
                Err(self.refuse(&format!("is {what} in the message, but {other} is requested")))
            }
            (kind, wanted) => self.value(field, &kind, wanted, place),
        }
    }

    fn value(
        &mut self,
        field: &FieldDescriptor,
        kind: &Kind,
        wanted: &DataType,
        place: Place,
    ) -> Result<Column, String> {
        let always = place == Place::Entry;
        let expected = match kind {
            Kind::Message(message) => match (time_message(message), wanted) {
                (Some((time_kind, seconds, nanos)), _) if *wanted == time_type(time_kind) => {
                    return Ok(Column::Time(Box::new(Times::new(time_kind, seconds, nanos, always))));
                }
                (Some((time_kind, ..)), _) => time_type(time_kind),
                (None, DataType::Struct(fields)) => {
                    return Ok(Column::Record(Box::new(self.record(message, fields, always)?)));
                }
                (None, _) => {
                    return Err(self
                        .refuse(&format!("is message {}, but {wanted} is requested", message.full_name())));
                }
            },
            _ => scalar_type(kind),
        };
        if *wanted != expected {
            return Err(self.refuse(&format!("is {}, but {wanted} is requested", kind_name(kind, &expected))));
        }
        self.scalar(field, kind, place)
    }

    fn scalar(&mut self, field: &FieldDescriptor, kind: &Kind, place: Place) -> Result<Column, String> {
        let declared = field.field_descriptor_proto().default_value.as_ref();
        self.defaults = self
            .defaults
            .checked_sub(declared.map_or(0, String::len))
            .ok_or_else(|| format!("the defaults of all fields take more than {} MB", MOST_DEFAULTS >> 20))?;
        let default = match place {
            Place::Singular => declared.is_some().then(|| field.default_value()),
            Place::Element => None,
            Place::Entry => Some(kind.default_value()),
        };
        let zero = place == Place::Singular && !field.supports_presence();
        fn values<T: Copy + Default>(
            default: Option<Value>,
            zero: bool,
            of: impl Fn(&Value) -> Option<T>,
        ) -> Values<T> {
            Values::new(Absence { default: default.as_ref().and_then(of), zero })
        }
        let int32 = |default| {
            values(default, zero, |value: &Value| value.as_i32().or(value.as_u32().map(|value| value as i32)))
        };
        let int64 = |default| {
            values(default, zero, |value: &Value| value.as_i64().or(value.as_u64().map(|value| value as i64)))
        };
        let texts = |default: Option<Box<[u8]>>| Texts::new(Absence { default, zero });
        Ok(match kind {
            Kind::Int32 | Kind::Uint32 => Column::Int32(int32(default)),
            Kind::Sint32 => Column::SInt32(int32(default)),
            Kind::Fixed32 | Kind::Sfixed32 => Column::Fixed32(int32(default)),
            Kind::Int64 | Kind::Uint64 => Column::Int64(int64(default)),
            Kind::Sint64 => Column::SInt64(int64(default)),
            Kind::Fixed64 | Kind::Sfixed64 => Column::Fixed64(int64(default)),
            Kind::Float => Column::Float(values(default, zero, Value::as_f32)),
            Kind::Double => Column::Double(values(default, zero, Value::as_f64)),
            Kind::Bool => Column::Bool(values(default, zero, Value::as_bool)),
            Kind::Bytes | Kind::Message(_) => Column::Bytes(texts(
                default.as_ref().and_then(Value::as_bytes).map(|bytes| bytes.as_ref().into()),
            )),
            Kind::String => {
                let checked = field.parent_file().syntax() == Syntax::Proto3;
                let default = default.as_ref().and_then(Value::as_str).map(|text| text.as_bytes().into());
                Column::String(texts(default), if checked { Utf8::Checked } else { Utf8::Repaired })
            }
            Kind::Enum(descriptor) => {
                let names = self.names(descriptor);
                let number = default.as_ref().and_then(Value::as_enum_number);
                Column::Enum(texts(number.and_then(|number| names.get(number)).map(Into::into)), names)
            }
        })
    }

    fn names(&mut self, descriptor: &EnumDescriptor) -> Arc<EnumNames> {
        let made = self.names.entry(descriptor.full_name().to_owned());
        Arc::clone(made.or_insert_with(|| Arc::new(EnumNames::new(descriptor))))
    }

    fn closed_names(&mut self, kind: &Kind) -> Option<Arc<EnumNames>> {
        let Kind::Enum(descriptor) = kind else { return None };
        Some(self.names(descriptor)).filter(|names| names.closed)
    }

    fn refuse(&self, why: &str) -> String {
        format!("field {}: {why}", self.path.join("."))
    }
}

fn kind_name(kind: &Kind, expected: &DataType) -> String {
    match kind {
        Kind::Enum(_) => format!("an enum, which makes {expected}"),
        Kind::Message(message) => format!("message {}, which makes {expected}", message.full_name()),
        _ => format!("{kind:?}, which makes {expected}"),
    }
}

/// Key and value, under the names they have in a map entry.
fn entry_parts(parts: &Fields) -> Option<Fields> {
    let [key, value] = &parts[..] else { return None };
    let named = |part: &FieldRef, name: &str| part.as_ref().clone().with_name(name);
    Some(vec![named(key, "key"), named(value, "value")].into())
}

fn entry_of(field: &FieldDescriptor, column: usize, oneof: Option<usize>) -> Field {
    let kind = field.kind();
    let tag = field.number() << 3 | if field.is_group() { START_GROUP } else { wire_type(&kind) };
    let other_tag = if field.is_list() && packable(&kind) { field.number() << 3 | LENGTH } else { tag };
    // The form that writers use comes first.
    let (tag, other_tag) = if field.is_packed() { (other_tag, tag) } else { (tag, other_tag) };
    Field {
        name: field.name().into(),
        number: field.number(),
        tag,
        other_tag,
        column,
        oneof,
        repeated: field.cardinality() == Cardinality::Repeated,
        required: field.is_required(),
    }
}

pub fn packable(kind: &Kind) -> bool {
    wire_type(kind) != LENGTH
}

pub fn wire_type(kind: &Kind) -> u32 {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => FIXED64,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => FIXED32,
        Kind::String | Kind::Bytes | Kind::Message(_) => LENGTH,
        _ => VARINT,
    }
}
