//! The column of a field. Its type decides how the field is read from the wire.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_schema::ArrowError;

use super::bad_record::BadRecord;
use super::enum_names::EnumNames;
use super::list::List;
use super::map::Map;
use super::record::Record;
use super::times::Times;
use super::values::{Texts, Values};
use super::wire::{Broken, Cursor};
use crate::formats::budget::Budget;
use crate::formats::varint::unzigzag;

pub enum Column {
    /// Also `uint32`: Spark shows its bits as a signed number by default.
    Int32(Values<i32>),
    SInt32(Values<i32>),
    Fixed32(Values<i32>),
    Int64(Values<i64>),
    SInt64(Values<i64>),
    Fixed64(Values<i64>),
    Float(Values<f32>),
    Double(Values<f64>),
    Bool(Values<bool>),
    String(Texts, Utf8),
    Bytes(Texts),
    Enum(Texts, Arc<EnumNames>),
    Time(Box<Times>),
    Record(Box<Record>),
    List(Box<List>),
    Map(Box<Map>),
    /// Not selected and not in the result, but a member of a oneof: it unsets a selected member.
    Unwanted(Option<Arc<EnumNames>>),
}

/// How a string that is not UTF-8 is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Utf8 {
    /// proto3: the record is bad.
    Checked,
    /// The same, but the check happens when the whole column is finished, and does not show the record. If it fails,
    /// all rows are read again.
    Later,
    /// proto2: invalid bytes become U+FFFD, as in Google's Java library.
    Repaired,
}

/// Runs the same code for every type of column that is in the result.
macro_rules! each {
    ($column:expr, $inner:ident => $body:expr, $unwanted:expr) => {
        match $column {
            Column::Int32($inner) | Column::SInt32($inner) | Column::Fixed32($inner) => $body,
            Column::Int64($inner) | Column::SInt64($inner) | Column::Fixed64($inner) => $body,
            Column::Float($inner) => $body,
            Column::Double($inner) => $body,
            Column::Bool($inner) => $body,
            Column::String($inner, _) | Column::Bytes($inner) | Column::Enum($inner, _) => $body,
            Column::Time($inner) => $body,
            Column::Record($inner) => $body,
            Column::List($inner) => $body,
            Column::Map($inner) => $body,
            Column::Unwanted(_) => $unwanted,
        }
    };
}

impl Column {
    /// The number of complete rows. For a single value, the unfinished row counts if it is set.
    pub fn len(&self) -> usize {
        each!(self, inner => inner.len(), 0)
    }

    /// Whether the field is set in the row that is being read.
    pub fn is_set(&self, row: usize) -> bool {
        match self {
            Column::Time(times) => times.is_open(),
            Column::Record(record) => record.is_open(),
            _ => self.len() > row,
        }
    }

    /// Bytes that a row takes if its field is absent.
    pub fn weight(&self) -> usize {
        match self {
            Column::Int32(_) | Column::SInt32(_) | Column::Fixed32(_) | Column::Float(_) => 5,
            Column::Int64(_) | Column::SInt64(_) | Column::Fixed64(_) | Column::Double(_) => 9,
            Column::Time(_) => 9,
            Column::Bool(_) => 2,
            Column::String(texts, _) | Column::Bytes(texts) | Column::Enum(texts, _) => texts.weight(),
            Column::Record(record) => record.weight(),
            Column::List(_) | Column::Map(_) => 5,
            Column::Unwanted(_) => 0,
        }
    }

    /// Reads one value of the field, after its `tag`. Returns false if it counts as an unknown field.
    #[inline(always)]
    pub fn read(
        &mut self,
        row: usize,
        tag: u32,
        cursor: &mut Cursor<'_>,
        depth: u32,
        budget: &mut Budget,
    ) -> Result<bool, BadRecord> {
        match self {
            Column::Int32(values) => {
                let value = cursor.varint()? as i32;
                values.set(row, value, value == 0);
            }
            Column::Int64(values) => {
                let value = cursor.varint()? as i64;
                values.set(row, value, value == 0);
            }
            Column::String(texts, utf8) => {
                if *utf8 == Utf8::Later {
                    let (bytes, size) = cursor.sized()?;
                    texts.set_first(row, bytes, size, size == 0);
                    return Ok(true);
                }
                let value = cursor.bytes()?;
                if value.is_ascii() || std::str::from_utf8(value).is_ok() {
                    texts.set(row, value, value.is_empty());
                } else if *utf8 == Utf8::Repaired {
                    texts.set(row, String::from_utf8_lossy(value).as_bytes(), false);
                } else {
                    return Err(Broken::NotUtf8.into());
                }
            }
            Column::Double(values) => {
                let value = f64::from_le_bytes(cursor.fixed()?);
                values.set(row, value, value.to_bits() == 0);
            }
            Column::Bool(values) => {
                let value = cursor.varint()? != 0;
                values.set(row, value, !value);
            }
            Column::Enum(texts, names) => return read_enum(texts, names, row, cursor, budget),
            Column::Bytes(texts) => {
                let value = cursor.bytes()?;
                texts.set(row, value, value.is_empty());
            }
            Column::Float(values) => {
                let value = f32::from_le_bytes(cursor.fixed()?);
                values.set(row, value, value.to_bits() == 0);
            }
            Column::SInt32(values) => {
                let value = unzigzag(u64::from(cursor.varint()? as u32)) as i32;
                values.set(row, value, value == 0);
            }
            Column::SInt64(values) => {
                let value = unzigzag(cursor.varint()?);
                values.set(row, value, value == 0);
            }
            Column::Fixed32(values) => {
                let value = i32::from_le_bytes(cursor.fixed()?);
                values.set(row, value, value == 0);
            }
            Column::Fixed64(values) => {
                let value = i64::from_le_bytes(cursor.fixed()?);
                values.set(row, value, value == 0);
            }
            Column::Time(times) => times.read(tag, cursor, depth)?,
            Column::Record(record) => {
                record.read_field(tag, cursor, depth, budget)?;
            }
            Column::List(list) => list.read(tag, cursor, depth, budget)?,
            Column::Map(map) => map.read(cursor, depth, budget)?,
            Column::Unwanted(Some(names)) => return Ok(names.get(cursor.varint()? as i32).is_some()),
            Column::Unwanted(None) => cursor.skip(tag, depth)?,
        }
        Ok(true)
    }

    /// Reads packed values: one after another, without tags.
    pub fn read_packed(&mut self, cursor: &mut Cursor<'_>, budget: &mut Budget) -> Result<(), BadRecord> {
        while !cursor.is_empty() {
            // Only messages use the tag and the depth, and messages are never packed.
            self.read(self.len(), 0, cursor, 0, budget)?;
        }
        Ok(())
    }

    /// Ends the row: a value that was not set is absent.
    #[inline(always)]
    pub fn fill(&mut self, row: usize) -> Result<(), BadRecord> {
        match self {
            Column::Int32(values) | Column::SInt32(values) | Column::Fixed32(values) => values.fill(row),
            Column::Int64(values) | Column::SInt64(values) | Column::Fixed64(values) => values.fill(row),
            Column::Float(values) => values.fill(row),
            Column::Double(values) => values.fill(row),
            Column::Bool(values) => values.fill(row),
            Column::String(texts, _) | Column::Bytes(texts) | Column::Enum(texts, _) => texts.fill(row),
            Column::Time(times) => times.fill(row)?,
            Column::Record(record) => record.fill(row)?,
            Column::List(list) => list.fill(),
            Column::Map(map) => map.fill(),
            Column::Unwanted(_) => {}
        }
        Ok(())
    }

    pub fn push_null(&mut self) {
        each!(self, inner => inner.push_null(), ())
    }

    /// Keeps this many complete rows. Drops the others and the unfinished one.
    pub fn truncate(&mut self, rows: usize) {
        each!(self, inner => inner.truncate(rows), ())
    }

    /// Whether strings that must be UTF-8 are checked one by one, or as a column.
    pub fn check_texts(&mut self, each: bool) {
        match self {
            Column::String(_, utf8) if *utf8 != Utf8::Repaired => {
                *utf8 = if each { Utf8::Checked } else { Utf8::Later };
            }
            Column::Record(record) => record.check_texts(each),
            Column::List(list) => list.check_texts(each),
            Column::Map(map) => map.check_texts(each),
            _ => {}
        }
    }

    pub fn reserve(&mut self, rows: usize) {
        each!(self, inner => inner.reserve(rows), ())
    }

    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Int32(values) | Column::SInt32(values) | Column::Fixed32(values) => {
                Arc::new(values.primitive::<Int32Type>())
            }
            Column::Int64(values) | Column::SInt64(values) | Column::Fixed64(values) => {
                Arc::new(values.primitive::<Int64Type>())
            }
            Column::Float(values) => Arc::new(values.primitive::<Float32Type>()),
            Column::Double(values) => Arc::new(values.primitive::<Float64Type>()),
            Column::Bool(values) => values.finish(),
            Column::String(texts, _) | Column::Enum(texts, _) => texts.strings()?,
            Column::Bytes(texts) => texts.binaries()?,
            Column::Time(times) => times.finish(),
            Column::Record(record) => Arc::new(record.finish()?),
            Column::List(list) => Arc::new(list.finish()?),
            Column::Map(map) => Arc::new(map.finish()?),
            Column::Unwanted(_) => {
                return Err(ArrowError::InvalidArgumentError("a column that is not wanted".to_owned()));
            }
        })
    }
}

fn read_enum(
    texts: &mut Texts,
    names: &EnumNames,
    row: usize,
    cursor: &mut Cursor<'_>,
    budget: &mut Budget,
) -> Result<bool, BadRecord> {
    let number = cursor.varint()? as i32;
    if let Some(name) = names.get(number) {
        budget.spend(name.len())?;
        texts.set(row, name, number == 0);
    } else if names.closed {
        return Ok(false);
    } else {
        let name = names.unknown(number);
        budget.spend(name.len())?;
        texts.set(row, &name, number == 0);
    }
    Ok(true)
}
