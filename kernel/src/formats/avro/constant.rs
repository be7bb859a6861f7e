//! A default out of the reader's schema, written in Avro.

use arrow_schema::DataType;
use sonic_rs::{JsonContainerTrait, JsonValueTrait, Value};

use super::cursor::Cursor;
use super::fill::{Column, Default};
use super::resolve::Resolver;
use super::schema::{Kind, NodeId, Schema};
use super::types::Path;

pub fn constant(
    schema: &Schema,
    id: NodeId,
    value: &Value,
    wanted: &DataType,
    path: &Path<'_>,
) -> Result<Default, String> {
    let refused = |reason: &dyn std::fmt::Display| path.error(format!("its default {reason}"));
    let mut bytes = Vec::new();
    write(schema, id, value, &mut bytes).map_err(|reason| refused(&reason))?;
    let mut resolver = Resolver::new(schema, schema);
    let fill = resolver.resolve(id, id, wanted, path)?;
    let default = Default { bytes, fill, shared: resolver.shared };
    // Once here, so that no record is found bad for it.
    let mut column = Column::new(wanted, &|_| ()).map_err(|error| path.error(error))?;
    let mut cursor = Cursor::new(&default.bytes, &default.shared, true, i32::MAX as usize);
    cursor.fill(&default.fill, &mut column).map_err(|bad| refused(&bad))?;
    Ok(default)
}

fn write(schema: &Schema, id: NodeId, value: &Value, to: &mut Vec<u8>) -> Result<(), String> {
    let kind = schema.kind(id);
    let mismatch = || {
        let text: String = value.to_string().chars().take(40).collect();
        format!("{text} is no {}", kind.name())
    };
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
            let index = symbols.iter().position(|symbol| value.as_str() == Some(symbol));
            long(index.ok_or_else(mismatch)? as i64, to);
        }
        Kind::Record(fields) => {
            value.as_object().ok_or_else(mismatch)?;
            for field in fields {
                let value = value.get(field.name.as_str()).or(field.default.as_ref());
                let value = value.ok_or_else(|| format!("has no value for field {}", field.name))?;
                write(schema, field.node, value, to)?;
            }
        }
        Kind::Array(item) => {
            let items = value.as_array().ok_or_else(mismatch)?;
            if !items.is_empty() {
                long(items.len() as i64, to);
                items.iter().try_for_each(|value| write(schema, *item, value, to))?;
            }
            to.push(0);
        }
        Kind::Map(item) => {
            let entries = value.as_object().ok_or_else(mismatch)?;
            if !entries.is_empty() {
                long(entries.len() as i64, to);
                for (key, value) in entries.iter() {
                    long(key.len() as i64, to);
                    to.extend(key.as_bytes());
                    write(schema, *item, value, to)?;
                }
            }
            to.push(0);
        }
        Kind::Union(branches) => {
            // The first branch, says the specification up to 1.11; any of them, it says since.
            let start = to.len();
            for (index, &branch) in branches.iter().enumerate() {
                long(index as i64, to);
                if write(schema, branch, value, to).is_ok() {
                    return Ok(());
                }
                to.truncate(start);
            }
            return Err(mismatch());
        }
        Kind::Null => return Err(mismatch()),
    }
    Ok(())
}

fn long(value: i64, to: &mut Vec<u8>) {
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

/// A byte for each character up to U+00FF.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str()?.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect()
}
