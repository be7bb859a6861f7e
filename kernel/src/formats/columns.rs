//! Columns that formats fill. Rows can be taken back, so that a bad record leaves nothing behind.
#![forbid(unsafe_code)]

mod nested;
mod single;

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, NullArray};
use arrow_schema::{ArrowError, DataType, Fields, TimeUnit};

pub use nested::{Lists, Maps, Structs, weight};
pub use single::{Booleans, Bytes, KEPT, Primitives, extend_first};

/// `N` is what a format keeps per struct to find its columns by name.
pub enum Column<N> {
    Null(usize),
    Boolean(Booleans),
    Int8(Primitives<Int8Type>),
    Int16(Primitives<Int16Type>),
    Int32(Primitives<Int32Type>),
    Int64(Primitives<Int64Type>),
    Float32(Primitives<Float32Type>),
    Float64(Primitives<Float64Type>),
    Decimal(Primitives<Decimal128Type>, u8, i8),
    Date(Primitives<Date32Type>),
    Timestamp(Primitives<TimestampMicrosecondType>),
    TimestampNtz(Primitives<TimestampMicrosecondType>),
    String(Bytes),
    Binary(Bytes),
    Struct(Box<Structs<N>>),
    List(Box<Lists<N>>),
    Map(Box<Maps<N>>),
}

macro_rules! each {
    ($self:ident, $column:ident => $act:expr) => {
        match $self {
            Column::Null(_) => unreachable!("has no values"),
            Column::Boolean($column) => $act,
            Column::Int8($column) => $act,
            Column::Int16($column) => $act,
            Column::Int32($column) => $act,
            Column::Int64($column) => $act,
            Column::Float32($column) => $act,
            Column::Float64($column) => $act,
            Column::Decimal($column, ..) => $act,
            Column::Date($column) => $act,
            Column::Timestamp($column) | Column::TimestampNtz($column) => $act,
            Column::String($column) | Column::Binary($column) => $act,
            Column::Struct($column) => $act,
            Column::List($column) => $act,
            Column::Map($column) => $act,
        }
    };
}

impl<N> Column<N> {
    /// `names` builds what is kept per struct. The error names a type that no format fills.
    pub fn new(data_type: &DataType, names: &impl Fn(&Fields) -> N) -> Result<Self, String> {
        Ok(match data_type {
            DataType::Null => Column::Null(0),
            DataType::Boolean => Column::Boolean(Booleans::new()),
            DataType::Int8 => Column::Int8(Primitives::new(data_type)),
            DataType::Int16 => Column::Int16(Primitives::new(data_type)),
            DataType::Int32 => Column::Int32(Primitives::new(data_type)),
            DataType::Int64 => Column::Int64(Primitives::new(data_type)),
            DataType::Float32 => Column::Float32(Primitives::new(data_type)),
            DataType::Float64 => Column::Float64(Primitives::new(data_type)),
            DataType::Decimal128(precision, scale) => {
                Column::Decimal(Primitives::new(data_type), *precision, *scale)
            }
            DataType::Date32 => Column::Date(Primitives::new(data_type)),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Column::Timestamp(Primitives::new(data_type))
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                Column::TimestampNtz(Primitives::new(data_type))
            }
            DataType::Utf8 => Column::String(Bytes::new()),
            DataType::Binary => Column::Binary(Bytes::new()),
            DataType::Struct(fields) => Column::Struct(Box::new(Structs::new(fields, names)?)),
            DataType::List(field) => Column::List(Box::new(Lists::new(field, names)?)),
            DataType::Map(entries, sorted) => Column::Map(Box::new(Maps::new(entries, *sorted, names)?)),
            other => return Err(format!("there is no column of type {other}")),
        })
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Column::Null(rows) => *rows,
            other => each!(other, column => column.len()),
        }
    }

    /// Bytes that a null row of a struct takes; little for other types.
    pub fn weight(&self) -> usize {
        match self {
            Column::Struct(structs) => 1 + structs.columns.iter().map(Column::weight).sum::<usize>(),
            _ => size_of::<i32>(),
        }
    }

    pub fn append_null(&mut self) {
        match self {
            Column::Null(rows) => *rows += 1,
            other => each!(other, column => column.append_null()),
        }
    }

    /// Appends the row of a bad record: a struct without values, a null of any other type.
    pub fn append_bad(&mut self) {
        match self {
            Column::Struct(structs) => {
                structs.columns.iter_mut().for_each(Column::append_null);
                structs.end_row();
            }
            other => other.append_null(),
        }
    }

    /// Drops all rows but the first `rows`, and an unfinished row.
    pub fn truncate(&mut self, to: usize) {
        match self {
            Column::Null(rows) => *rows = to,
            other => each!(other, column => column.truncate(to)),
        }
    }

    /// Drops the rows from `from` to before `to`.
    pub fn remove(&mut self, from: usize, to: usize) {
        if from < to {
            match self {
                Column::Null(rows) => *rows -= to - from,
                other => each!(other, column => column.remove(from, to)),
            }
        }
    }

    /// Returns all rows. Leaves the column empty.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        match self {
            Column::Null(rows) => Ok(Arc::new(NullArray::new(std::mem::take(rows)))),
            Column::String(column) => column.finish_strings(),
            Column::Binary(column) => column.finish(),
            Column::Boolean(column) => column.finish(),
            Column::Struct(column) => column.finish(),
            Column::List(column) => column.finish(),
            Column::Map(column) => column.finish(),
            Column::Int8(column) => column.finish(),
            Column::Int16(column) => column.finish(),
            Column::Int32(column) => column.finish(),
            Column::Int64(column) => column.finish(),
            Column::Float32(column) => column.finish(),
            Column::Float64(column) => column.finish(),
            Column::Decimal(column, ..) => column.finish(),
            Column::Date(column) => column.finish(),
            Column::Timestamp(column) | Column::TimestampNtz(column) => column.finish(),
        }
    }
}
