//! What arrow-avro made of the written bytes, turned into the column that is wanted: whole buffers at a time.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, ListArray, MapArray, PrimitiveArray, StringArray, StructArray, UInt32Array,
    new_null_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use arrow_select::interleave::interleave;
use arrow_select::take::take;

#[derive(Debug)]
pub enum Shape {
    Same,
    /// The same numbers under another name: a date, a timestamp.
    Renamed(DataType),
    /// A number that became wider.
    Cast(DataType),
    /// Timestamps of another unit.
    Times(i64, DataType),
    Divided(i64, DataType),
    /// A fixed, as bytes.
    Fixed,
    /// Values of no bytes at all: a fixed of size 0.
    Empty,
    /// The texts of an enum's numbers.
    Symbols(ArrayRef),
    /// The only field of a record that stands in for its value.
    Only(Box<Shape>),
    Struct(Fields, Vec<Source>),
    List(FieldRef, Box<Shape>),
    Map(FieldRef, Box<Shape>),
    /// For each branch, as all of what is wanted.
    Union(Vec<Shape>),
    /// One of the fields of a struct that a union is read as, or none.
    Member(Fields, Option<usize>, Box<Shape>),
    Null(DataType),
}

/// Where a field of a struct comes from.
#[derive(Debug)]
pub enum Source {
    /// The child of this number.
    Written(usize, Shape),
    /// One value for all rows.
    Constant(ArrayRef),
}

impl Shape {
    pub fn apply(&self, array: ArrayRef) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Shape::Same => array,
            Shape::Renamed(data_type) => {
                let data = array.to_data().into_builder().data_type(data_type.clone());
                arrow_array::make_array(data.build()?)
            }
            Shape::Cast(data_type) => widened(&array, data_type)?,
            Shape::Times(factor, data_type) => {
                // Places that are null may hold anything; all others were found to fit.
                numbers(&array)?
                    .unary::<_, Int64Type>(|value| value.wrapping_mul(*factor))
                    .renamed(data_type)?
            }
            Shape::Divided(divisor, data_type) => numbers(&array)?
                .unary::<_, Int64Type>(|value| value.div_euclid(*divisor))
                .renamed(data_type)?,
            Shape::Fixed => fixed_to_binary(&array)?,
            Shape::Empty => {
                let offsets = OffsetBuffer::new_zeroed(array.len());
                Arc::new(BinaryArray::try_new(offsets, Vec::<u8>::new().into(), array.logical_nulls())?)
            }
            Shape::Symbols(symbols) => take(symbols, array.as_primitive::<Int32Type>(), None)?,
            Shape::Only(shape) => shape.apply(array.as_struct().column(0).clone())?,
            Shape::Struct(fields, sources) => {
                let written = array.as_struct();
                let columns: Vec<ArrayRef> = sources
                    .iter()
                    .map(|source| match source {
                        Source::Written(index, shape) => shape.apply(written.column(*index).clone()),
                        Source::Constant(value) => repeat(value, array.len()),
                    })
                    .collect::<Result<_, _>>()?;
                let nulls = array.nulls().cloned();
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
            }
            Shape::List(field, shape) => {
                let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
                Arc::new(ListArray::try_new(field.clone(), offsets, shape.apply(values)?, nulls)?)
            }
            Shape::Map(field, shape) => {
                let (_, offsets, entries, nulls, _) = array.as_map().clone().into_parts();
                let DataType::Struct(fields) = field.data_type() else {
                    return Err(ArrowError::SchemaError("the entries of a map are no struct".to_owned()));
                };
                let columns = vec![entries.column(0).clone(), shape.apply(entries.column(1).clone())?];
                let entries = StructArray::try_new(fields.clone(), columns, None)?;
                Arc::new(MapArray::try_new(field.clone(), offsets, entries, nulls, false)?)
            }
            Shape::Union(branches) => {
                let union = array.as_union();
                let children: Vec<ArrayRef> = branches
                    .iter()
                    .enumerate()
                    .map(|(id, shape)| shape.apply(union.child(id as i8).clone()))
                    .collect::<Result<_, _>>()?;
                let children: Vec<&dyn Array> = children.iter().map(AsRef::as_ref).collect();
                let places: Vec<(usize, usize)> = (0..union.len())
                    .map(|row| (union.type_id(row) as usize, union.value_offset(row)))
                    .collect();
                interleave(&children, &places)?
            }
            Shape::Member(fields, place, shape) => {
                let length = array.len();
                let nulls = array.logical_nulls();
                let mut value = match place {
                    Some(_) => Some(shape.apply(array)?),
                    None => None,
                };
                let columns = fields.iter().enumerate().map(|(index, field)| {
                    let value = if Some(index) == *place { value.take() } else { None };
                    value.unwrap_or_else(|| new_null_array(field.data_type(), length))
                });
                let columns = columns.collect();
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, length)?)
            }
            Shape::Null(data_type) => new_null_array(data_type, array.len()),
        })
    }
}

/// Longs, or ints as such.
fn numbers(array: &ArrayRef) -> Result<PrimitiveArray<Int64Type>, ArrowError> {
    let narrow = array.data_type().primitive_width() == Some(4);
    let plain = if narrow { DataType::Int32 } else { DataType::Int64 };
    let plain = arrow_array::make_array(array.to_data().into_builder().data_type(plain).build()?);
    Ok(if narrow {
        plain.as_primitive::<Int32Type>().unary(i64::from)
    } else {
        plain.as_primitive::<Int64Type>().clone()
    })
}

/// Avro's promotions of numbers. By hand: crate arrow-cast knows every pair of types there is, and makes the kernel
/// twice as large.
fn widened(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(match (array.data_type(), data_type) {
        (from, to) if from == to => Arc::clone(array),
        (DataType::Int32, DataType::Int64) => {
            Arc::new(array.as_primitive::<Int32Type>().unary::<_, Int64Type>(i64::from))
        }
        (DataType::Int32, DataType::Float32) => {
            Arc::new(array.as_primitive::<Int32Type>().unary::<_, Float32Type>(|value| value as f32))
        }
        (DataType::Int32, DataType::Float64) => {
            Arc::new(array.as_primitive::<Int32Type>().unary::<_, Float64Type>(f64::from))
        }
        (DataType::Int64, DataType::Float32) => {
            Arc::new(array.as_primitive::<Int64Type>().unary::<_, Float32Type>(|value| value as f32))
        }
        (DataType::Int64, DataType::Float64) => {
            Arc::new(array.as_primitive::<Int64Type>().unary::<_, Float64Type>(|value| value as f64))
        }
        (DataType::Float32, DataType::Float64) => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from))
        }
        (from, to) => return Err(ArrowError::CastError(format!("{from} is not promoted to {to}"))),
    })
}

trait Renamed {
    fn renamed(self, data_type: &DataType) -> Result<ArrayRef, ArrowError>;
}

impl<T: ArrowPrimitiveType> Renamed for PrimitiveArray<T> {
    fn renamed(self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let data = self.into_data().into_builder().data_type(data_type.clone());
        Ok(arrow_array::make_array(data.build()?))
    }
}

fn fixed_to_binary(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let fixed = array.as_fixed_size_binary();
    let size = fixed.value_length();
    let too_large = || ArrowError::OffsetOverflowError(fixed.len().saturating_mul(size as usize));
    i32::try_from(fixed.len() * size as usize).map_err(|_| too_large())?;
    let offsets: ScalarBuffer<i32> = (0..=fixed.len() as i32).map(|row| row * size).collect();
    let values = fixed.to_data().buffers()[0].clone();
    Ok(Arc::new(BinaryArray::try_new(OffsetBuffer::new(offsets), values, fixed.nulls().cloned())?))
}

/// A value of one row, as often.
pub fn repeat(value: &ArrayRef, times: usize) -> Result<ArrayRef, ArrowError> {
    let bytes = value.to_data().get_slice_memory_size()?.saturating_mul(times);
    if value.data_type().is_nested() || matches!(value.data_type(), DataType::Utf8 | DataType::Binary) {
        // Offsets of 32 bits: a column that would not fit is refused, instead of a panic inside Arrow.
        i32::try_from(bytes).map_err(|_| ArrowError::OffsetOverflowError(bytes))?;
    }
    take(value, &UInt32Array::from(vec![0; times]), None)
}

pub fn symbols(texts: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}
