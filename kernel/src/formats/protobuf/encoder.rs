//! Writes Protobuf: columns by a message type.
//!
//! Fields are found by name: first exactly, then in any case. A null, and a field without a column, is absent. A field
//! without presence (proto3) is also absent if it is zero or empty, as all implementations write it. Fields come in the
//! order of their numbers.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use arrow_schema::DataType;

use super::descriptors::{self, guarded};
use super::encoder_plan::{framed_indexes, plan};
use super::times::TimeKind;
use super::wire::{FIXED32, FIXED64, LENGTH, START_GROUP, VARINT};
use crate::formats::encoder::{Encode, Input, Unwritable, Values, Written, range};

const MICROS_PER_SECOND: i64 = 1_000_000;

pub struct ProtobufEncoder {
    data_type: DataType,
    message: Message,
    /// The message indexes of Confluent's framing.
    pub indexes: Vec<u8>,
}

impl ProtobufEncoder {
    /// `descriptors`: a serialized FileDescriptorSet. The error names the field that does not fit.
    pub fn new(descriptors: &[u8], message: &str, data_type: DataType) -> Result<Self, String> {
        guarded(|| {
            let descriptor = descriptors::find(&descriptors::load(descriptors)?, message)?;
            let DataType::Struct(columns) = &data_type else {
                let name = descriptor.full_name();
                return Err(format!("message {name} is written from a struct, not from {data_type}"));
            };
            let message = plan(&descriptor, columns)?;
            let indexes = framed_indexes(&descriptor).ok_or("the message is not in its file")?;
            Ok(ProtobufEncoder { data_type: data_type.clone(), message, indexes })
        })
    }
}

/// How a message is written from a struct.
pub struct Message {
    pub fields: Vec<Field>,
    /// The name of each oneof, and the columns of its fields.
    pub oneofs: Vec<(String, Vec<usize>)>,
}

pub struct Field {
    pub name: String,
    pub column: usize,
    pub tag: Vec<u8>,
    pub shape: Shape,
    pub value: Value,
    pub required: bool,
    /// Whether a zero or empty value is written.
    pub presence: bool,
}

pub enum Shape {
    Single,
    Repeated,
    Packed,
    /// The key of each entry; the field's value is that of the entry.
    Map(Value),
}

/// How one value is written, without its tag.
pub enum Value {
    /// Int32, int64, uint64, and uint32 from 32 bits with sign extension where Protobuf has it.
    Varint,
    /// Uint32 from a signed column: its bits.
    Varint32,
    ZigZag,
    Fixed32,
    Fixed64,
    /// Uint32 or fixed32 from a wider column.
    Unsigned32 {
        fixed: bool,
    },
    /// Uint64 or fixed64 from a decimal.
    Unsigned64 {
        fixed: bool,
    },
    Float,
    Double,
    Bool,
    Bytes,
    /// Numbers by name. An open enum also has `unknown` and a number: so reading shows numbers without a name.
    EnumName {
        names: HashMap<Box<[u8]>, i32>,
        unknown: Option<String>,
    },
    /// The numbers that a closed enum has. None: any.
    EnumNumber(Option<Vec<i32>>),
    Time {
        kind: TimeKind,
        seconds: u32,
        nanos: u32,
    },
    Message(Box<Message>),
    Group(Box<Message>, Vec<u8>),
}

impl Encode for ProtobufEncoder {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    #[inline]
    fn write(&self, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        self.message.write(input, row, to)
    }
}

impl Message {
    #[inline]
    fn write(&self, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        let Values::Struct(columns) = &input.values else { return Err(unplanned()) };
        for (name, members) in &self.oneofs {
            if members.iter().filter(|&&column| !columns[column].is_null(row)).count() > 1 {
                return Err(Unwritable::new(format!("more than one field of oneof {name} is not null")));
            }
        }
        for field in &self.fields {
            let input = &columns[field.column];
            if input.is_null(row) {
                if field.required {
                    let missing = Unwritable::new("is null, and the message requires it");
                    return Err(missing.below(&field.name));
                }
                continue;
            }
            field.write(input, row, to).map_err(|error| error.below(&field.name))?;
        }
        Ok(())
    }
}

impl Field {
    #[inline]
    fn write(&self, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        match (&self.shape, &input.values) {
            (Shape::Single, _) => {
                if !self.presence && self.value.is_default(input, row) {
                    return Ok(());
                }
                to.extend_from_slice(&self.tag);
                self.value.write(input, row, to)
            }
            (Shape::Repeated, Values::List(offsets, element)) => {
                for at in range(offsets, row) {
                    present(element, at)?;
                    to.extend_from_slice(&self.tag);
                    self.value.write(element, at, to)?;
                }
                Ok(())
            }
            (Shape::Packed, Values::List(offsets, element)) => {
                let range = range(offsets, row);
                if range.is_empty() {
                    return Ok(());
                }
                to.extend_from_slice(&self.tag);
                sized(to, |to| {
                    range.into_iter().try_for_each(|at| {
                        present(element, at)?;
                        self.value.write(element, at, to)
                    })
                })
            }
            (Shape::Map(key), Values::Map(offsets, entries)) => {
                for at in range(offsets, row) {
                    if entries.1.is_null(at) {
                        return Err(Unwritable::new(
                            "a value of the map is null, which Protobuf does not have",
                        ));
                    }
                    to.extend_from_slice(&self.tag);
                    sized(to, |to| {
                        varint(u64::from(1 << 3 | key.wire()), to);
                        key.write(&entries.0, at, to)?;
                        varint(u64::from(2 << 3 | self.value.wire()), to);
                        self.value.write(&entries.1, at, to)
                    })?;
                }
                Ok(())
            }
            _ => Err(unplanned()),
        }
    }
}

fn present(element: &Input<'_>, at: usize) -> Written {
    if element.is_null(at) {
        return Err(Unwritable::new("an element of the list is null, which Protobuf does not have"));
    }
    Ok(())
}

impl Value {
    fn wire(&self) -> u32 {
        match self {
            Value::Fixed32 | Value::Unsigned32 { fixed: true } | Value::Float => FIXED32,
            Value::Fixed64 | Value::Unsigned64 { fixed: true } | Value::Double => FIXED64,
            Value::Bytes | Value::Time { .. } | Value::Message(_) => LENGTH,
            Value::Group(..) => START_GROUP,
            _ => VARINT,
        }
    }

    /// Whether a value is zero or empty.
    #[inline]
    fn is_default(&self, input: &Input<'_>, row: usize) -> bool {
        match (&input.values, self) {
            (Values::Text(values), Value::EnumName { names, .. }) => names.get(values.get(row)) == Some(&0),
            (Values::Text(values) | Values::Binary(values), _) => values.get(row).is_empty(),
            (Values::Float64(values), _) => values[row].to_bits() == 0,
            (Values::Float32(values), _) => values[row].to_bits() == 0,
            (Values::Boolean(values), _) => !values.value(row),
            (Values::Decimal(values), _) => values[row] == 0,
            (Values::Struct(_) | Values::Micros(_), _) => false,
            _ => integer(input, row) == 0,
        }
    }

    /// Writes a value that is not null.
    #[inline]
    fn write(&self, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        match (self, &input.values) {
            (Value::Varint, _) => varint(integer(input, row) as u64, to),
            (Value::Bytes, Values::Text(values) | Values::Binary(values)) => {
                let bytes = values.get(row);
                varint(bytes.len() as u64, to);
                to.extend_from_slice(bytes);
            }
            (Value::Double, Values::Float64(values)) => to.extend_from_slice(&values[row].to_le_bytes()),
            (Value::Double, Values::Float32(values)) => {
                to.extend_from_slice(&f64::from(values[row]).to_le_bytes());
            }
            (Value::Float, Values::Float32(values)) => to.extend_from_slice(&values[row].to_le_bytes()),
            (Value::Bool, Values::Boolean(values)) => to.push(values.value(row).into()),
            (Value::Varint32, _) => varint(u64::from(integer(input, row) as u32), to),
            (Value::ZigZag, _) => zigzag(integer(input, row), to),
            (Value::Fixed32, _) => to.extend_from_slice(&(integer(input, row) as i32).to_le_bytes()),
            (Value::Fixed64, _) => to.extend_from_slice(&integer(input, row).to_le_bytes()),
            (Value::Unsigned32 { fixed }, _) => {
                let value = integer(input, row);
                let value =
                    u32::try_from(value).map_err(|_| out_of_range(value, "an unsigned 32-bit number"))?;
                if *fixed {
                    to.extend_from_slice(&value.to_le_bytes());
                } else {
                    varint(value.into(), to);
                }
            }
            (Value::Unsigned64 { fixed }, Values::Decimal(values)) => {
                let value = values[row];
                let value =
                    u64::try_from(value).map_err(|_| out_of_range(value, "an unsigned 64-bit number"))?;
                if *fixed {
                    to.extend_from_slice(&value.to_le_bytes());
                } else {
                    varint(value, to);
                }
            }
            (Value::EnumName { names, unknown }, Values::Text(values)) => {
                let name = values.get(row);
                let number = match names.get(name) {
                    Some(number) => *number,
                    None => unknown_number(name, unknown.as_deref())?,
                };
                varint(i64::from(number) as u64, to);
            }
            (Value::EnumNumber(numbers), _) => {
                let number = integer(input, row);
                if numbers.as_ref().is_some_and(|numbers| !numbers.contains(&(number as i32))) {
                    return Err(out_of_range(number, "a number of the enum"));
                }
                varint(number as u64, to);
            }
            (Value::Time { kind, seconds, nanos }, Values::Micros(values)) => {
                let micros = values[row];
                // The nanoseconds of an instant count forward; those of a duration have its sign.
                let (whole, rest) = match kind {
                    TimeKind::Timestamp => {
                        (micros.div_euclid(MICROS_PER_SECOND), micros.rem_euclid(MICROS_PER_SECOND))
                    }
                    TimeKind::Duration => (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND),
                };
                return sized(to, |to| {
                    for (number, value) in [(seconds, whole), (nanos, rest * 1000)] {
                        if value != 0 {
                            varint(u64::from(number << 3 | VARINT), to);
                            varint(value as u64, to);
                        }
                    }
                    Ok(())
                });
            }
            (Value::Message(message), _) => return sized(to, |to| message.write(input, row, to)),
            (Value::Group(message, end), _) => {
                message.write(input, row, to)?;
                to.extend_from_slice(end);
            }
            _ => return Err(unplanned()),
        }
        Ok(())
    }
}

#[cold]
fn unknown_number(name: &[u8], unknown: Option<&str>) -> Result<i32, Box<Unwritable>> {
    let text = String::from_utf8_lossy(name);
    let number = unknown.and_then(|prefix| text.strip_prefix(prefix)?.parse().ok());
    number.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        Unwritable::new(format!("{shown:?} is not a name of the enum"))
    })
}

#[inline(always)]
fn integer(input: &Input<'_>, row: usize) -> i64 {
    match &input.values {
        Values::Int64(values) => values[row],
        Values::Int32(values) => values[row].into(),
        Values::Int16(values) => values[row].into(),
        Values::Int8(values) => values[row].into(),
        _ => 0,
    }
}

/// Writes bytes after their length. The length takes one byte, unless the bytes turn out longer: then they move.
#[inline]
fn sized(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Written) -> Written {
    let start = to.len();
    to.push(0);
    write(to)?;
    let length = to.len() - start - 1;
    if length < 0x80 {
        to[start] = length as u8;
        return Ok(());
    }
    let mut head = [0; 10];
    let mut count = 0;
    let mut rest = length;
    while rest > 0 {
        head[count] = rest as u8 | 0x80;
        rest >>= 7;
        count += 1;
    }
    head[count - 1] &= 0x7f;
    to.resize(start + count + length, 0);
    to.copy_within(start + 1..start + 1 + length, start + count);
    to[start..start + count].copy_from_slice(&head[..count]);
    Ok(())
}

#[inline]
pub fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

pub fn zigzag(value: i64, to: &mut Vec<u8>) {
    varint(((value << 1) ^ (value >> 63)) as u64, to);
}

#[cold]
fn out_of_range(value: impl std::fmt::Display, what: &str) -> Box<Unwritable> {
    Unwritable::new(format!("{value} is not {what}"))
}

#[cold]
fn unplanned() -> Box<Unwritable> {
    Unwritable::new("the column has another type than its plan")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_any_size_come_before_their_bytes() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 3_000_000] {
            let mut to = vec![9];
            sized(&mut to, |to| {
                to.extend((0..length).map(|at| at as u8));
                Ok(())
            })
            .unwrap();
            let mut expected = vec![9];
            varint(length as u64, &mut expected);
            expected.extend((0..length).map(|at| at as u8));
            assert_eq!(to, expected);
        }
    }
}
