//! Encodes a default of the reader's schema in Avro.

use arrow_array::Array;
use arrow_schema::DataType;
use sonic_rs::{JsonContainerTrait, JsonValueTrait, Value};

use super::cursor::Cursor;
use super::fill::{Column, Default};
use super::resolve::Resolver;
use super::schema::{Kind, NodeId, Schema};
use super::schema_budget::{STEP, SchemaBudget};
use super::types::Path;
use crate::formats::budget::RECORD;

pub fn encode_default(
    schema: &Schema,
    id: NodeId,
    value: &Value,
    wanted: &DataType,
    path: &Path<'_>,
    budget: &mut SchemaBudget,
) -> Result<Default, String> {
    let refused = |reason: &dyn std::fmt::Display| path.error(format!("its default {reason}"));
    let bytes = encode_value(schema, id, value, budget).map_err(|reason| refused(&reason))?;
    let mut resolver = Resolver::new(schema, schema, budget);
    let fill = resolver.resolve(id, id, wanted, path)?;
    let mut default = Default { bytes, fill, shared: resolver.finish()?, cost: 0 };
    // Decode it once here: then no record is bad because of it, and its cost is known.
    let mut column = Column::new(wanted, &|_| ()).map_err(|error| path.error(error))?;
    let mut cursor = Cursor::new(&default.bytes, &default.shared, true, RECORD);
    cursor.fill(&default.fill, &mut column).map_err(|bad| refused(&bad))?;
    let array = column.finish().map_err(|error| refused(&error))?;
    default.cost = array.to_data().get_slice_memory_size().map_err(|error| refused(&error))?;
    budget.spend(default.cost)?;
    if default.cost > RECORD {
        return Err(refused(&format!("takes {} bytes of columns, more than a record may", default.cost)));
    }
    Ok(default)
}

/// The bytes of a default.
pub fn encode_value(
    schema: &Schema,
    id: NodeId,
    value: &Value,
    budget: &mut SchemaBudget,
) -> Result<Vec<u8>, String> {
    let mut writer = Writer { schema, to: Vec::new(), budget };
    writer.write(id, value)?;
    Ok(writer.to)
}

/// The number of characters of a wrong value that an error shows.
const SHOWN: usize = 40;

fn shown(value: &Value) -> String {
    if value.is_array() {
        return "(a list)".to_owned();
    }
    if value.is_object() {
        return "(an object)".to_owned();
    }
    match value.as_str() {
        Some(text) => format!("{:?}", text.chars().take(SHOWN).collect::<String>()),
        None => value.to_string(),
    }
}

struct Writer<'a> {
    schema: &'a Schema,
    to: Vec<u8>,
    budget: &'a mut SchemaBudget,
}

impl Writer<'_> {
    fn write(&mut self, id: NodeId, value: &Value) -> Result<(), String> {
        self.budget.spend(STEP / 4 + value.as_str().map_or(0, str::len))?;
        let schema = self.schema;
        let kind = schema.kind(id);
        let mismatch = || format!("{} is not of type {}", shown(value), kind.name());
        let to = &mut self.to;
        match kind {
            Kind::Null if value.is_null() => {}
            Kind::Boolean => to.push(value.as_bool().ok_or_else(mismatch)?.into()),
            Kind::Int => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                long(number.ok_or_else(mismatch)?.into(), to);
            }
            Kind::Long => long(value.as_i64().ok_or_else(mismatch)?, to),
            Kind::Float => to.extend((number(value).ok_or_else(mismatch)? as f32).to_le_bytes()),
            Kind::Double => to.extend(number(value).ok_or_else(mismatch)?.to_le_bytes()),
            Kind::String => {
                let text = value.as_str().ok_or_else(mismatch)?;
                long(text.len() as i64, to);
                to.extend(text.as_bytes());
            }
            Kind::Bytes => {
                let bytes = bytes(value).ok_or_else(mismatch)?;
                long(bytes.len() as i64, to);
                to.extend(bytes);
            }
            Kind::Fixed(size) => {
                to.extend(bytes(value).filter(|bytes| bytes.len() == *size).ok_or_else(mismatch)?);
            }
            Kind::Enum { symbols, .. } => {
                self.budget.spend(symbols.len())?;
                let index = symbols.iter().position(|symbol| value.as_str() == Some(symbol));
                long(index.ok_or_else(mismatch)? as i64, to);
            }
            Kind::Record(fields) => {
                let entries = value.as_object().ok_or_else(mismatch)?;
                // Each field is searched among all entries.
                self.budget.spend(fields.len().saturating_mul(STEP / 4 + entries.len()))?;
                for field in fields {
                    let value = value.get(field.name.as_str()).or(field.default.as_ref());
                    let value = value.ok_or_else(|| format!("has no value for field {}", field.name))?;
                    self.write(field.node, value)?;
                }
            }
            Kind::Array(item) => {
                let items = value.as_array().ok_or_else(mismatch)?;
                if !items.is_empty() {
                    long(items.len() as i64, to);
                    items.iter().try_for_each(|value| self.write(*item, value))?;
                }
                self.to.push(0);
            }
            Kind::Map(item) => {
                let entries = value.as_object().ok_or_else(mismatch)?;
                if !entries.is_empty() {
                    long(entries.len() as i64, to);
                    for (key, value) in entries.iter() {
                        self.budget.spend(key.len())?;
                        long(key.len() as i64, &mut self.to);
                        self.to.extend(key.as_bytes());
                        self.write(*item, value)?;
                    }
                }
                self.to.push(0);
            }
            Kind::Union(branches) => {
                // The specification up to 1.11 requires the first branch; later versions allow any.
                let start = to.len();
                for (index, &branch) in branches.iter().enumerate() {
                    long(index as i64, &mut self.to);
                    if self.write(branch, value).is_ok() {
                        return Ok(());
                    }
                    self.budget.check()?;
                    self.to.truncate(start);
                }
                return Err(mismatch());
            }
            Kind::Null => return Err(mismatch()),
        }
        Ok(())
    }
}

#[inline]
pub fn long(value: i64, to: &mut Vec<u8>) {
    let mut value = ((value << 1) ^ (value >> 63)) as u64;
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn number(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity" | "INF") => Some(f64::INFINITY),
        Some("-Infinity" | "-INF") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

/// One byte for each character up to U+00FF.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str()?.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}
