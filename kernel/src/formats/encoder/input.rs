//! An Arrow column as a tree of borrowed buffers.
#![forbid(unsafe_code)]

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};

pub struct Input<'a> {
    nulls: Option<&'a NullBuffer>,
    pub values: Values<'a>,
}

pub enum Values<'a> {
    Null,
    Boolean(&'a BooleanBuffer),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal(&'a [i128]),
    Date(&'a [i32]),
    /// Microseconds, of a timestamp with or without zone, or of a duration.
    Micros(&'a [i64]),
    Text(Bytes<'a>),
    Binary(Bytes<'a>),
    Struct(Vec<Input<'a>>),
    List(&'a [i32], Box<Input<'a>>),
    /// Offsets, keys and values.
    Map(&'a [i32], Box<(Input<'a>, Input<'a>)>),
}

/// Strings or binary values.
pub struct Bytes<'a> {
    offsets: &'a [i32],
    bytes: &'a [u8],
}

impl<'a> Bytes<'a> {
    #[inline(always)]
    pub fn get(&self, row: usize) -> &'a [u8] {
        &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// The range of a list's or map's elements.
#[inline(always)]
pub fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

fn slice<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

impl<'a> Input<'a> {
    pub fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean().values()),
            DataType::Int8 => Values::Int8(slice::<Int8Type>(array)),
            DataType::Int16 => Values::Int16(slice::<Int16Type>(array)),
            DataType::Int32 => Values::Int32(slice::<Int32Type>(array)),
            DataType::Int64 => Values::Int64(slice::<Int64Type>(array)),
            DataType::Float32 => Values::Float32(slice::<Float32Type>(array)),
            DataType::Float64 => Values::Float64(slice::<Float64Type>(array)),
            DataType::Decimal128(..) => Values::Decimal(slice::<Decimal128Type>(array)),
            DataType::Date32 => Values::Date(slice::<Date32Type>(array)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Values::Micros(slice::<TimestampMicrosecondType>(array))
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                Values::Micros(slice::<DurationMicrosecondType>(array))
            }
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Values::Text(Bytes { offsets: array.value_offsets(), bytes: array.value_data() })
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                Values::Binary(Bytes { offsets: array.value_offsets(), bytes: array.value_data() })
            }
            DataType::Struct(_) => {
                let columns = array.as_struct().columns().iter();
                Values::Struct(columns.map(|column| Input::new(column.as_ref())).collect::<Result<_, _>>()?)
            }
            DataType::List(_) => {
                let array = array.as_list::<i32>();
                Values::List(array.value_offsets(), Box::new(Input::new(array.values().as_ref())?))
            }
            DataType::Map(..) => {
                let array = array.as_map();
                let entries = (Input::new(array.keys().as_ref())?, Input::new(array.values().as_ref())?);
                Values::Map(array.value_offsets(), Box::new(entries))
            }
            other => return Err(ArrowError::SchemaError(format!("columns of type {other} are not encoded"))),
        };
        Ok(Input { nulls: array.nulls(), values })
    }

    #[inline(always)]
    pub fn is_null(&self, row: usize) -> bool {
        match (self.nulls, &self.values) {
            (None, Values::Null) => true,
            (None, _) => false,
            (Some(nulls), _) => nulls.is_null(row),
        }
    }
}
