//! What documents fill: columns that can also take back what they got.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, NullArray, PrimitiveArray, StringArray,
    StructArray,
};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, TimeUnit};

use super::names::Names;

pub enum Column {
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
    Struct(Box<Structs>),
    List(Box<Lists>),
    Map(Box<Maps>),
}

pub struct Booleans {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
}

pub struct Primitives<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
    data_type: DataType,
}

pub struct Bytes {
    /// Where each value ends.
    ends: Vec<i32>,
    values: Vec<u8>,
    nulls: NullBufferBuilder,
}

pub struct Structs {
    pub columns: Vec<Column>,
    pub names: Names,
    pub fields: Fields,
    nulls: NullBufferBuilder,
}

pub struct Lists {
    pub element: Column,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    field: FieldRef,
}

pub struct Maps {
    pub keys: Bytes,
    pub values: Column,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    entries: FieldRef,
    sorted: bool,
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

impl Column {
    /// An error names the part of the type that JSON cannot carry; `path` is what to call the whole.
    pub fn new(data_type: &DataType, path: &str) -> Result<Self, String> {
        Ok(match data_type {
            DataType::Null => Column::Null(0),
            DataType::Boolean => Column::Boolean(Booleans::new()),
            DataType::Int8 => Column::Int8(Primitives::new(data_type)),
            DataType::Int16 => Column::Int16(Primitives::new(data_type)),
            DataType::Int32 => Column::Int32(Primitives::new(data_type)),
            DataType::Int64 => Column::Int64(Primitives::new(data_type)),
            DataType::Float32 => Column::Float32(Primitives::new(data_type)),
            DataType::Float64 => Column::Float64(Primitives::new(data_type)),
            DataType::Decimal128(precision, scale) if *scale >= 0 => {
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
            DataType::Struct(fields) => {
                if is_variant(fields) {
                    return Err(format!("{path}: a variant cannot be read from JSON; take a string"));
                }
                let columns = fields
                    .iter()
                    .map(|field| Column::new(field.data_type(), &format!("{path}.{}", field.name())))
                    .collect::<Result<_, _>>()?;
                let names = Names::new(fields.iter().map(|field| field.name().as_str()));
                Column::Struct(Box::new(Structs { columns, names, fields: fields.clone(), nulls: nulls() }))
            }
            DataType::List(field) => {
                let element = Column::new(field.data_type(), &format!("{path}.{}", field.name()))?;
                let field = Arc::clone(field);
                Column::List(Box::new(Lists { element, ends: Vec::new(), nulls: nulls(), field }))
            }
            DataType::Map(entries, sorted) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(format!("{path}: a map has entries of keys and values"));
                };
                let [key, value] = &fields[..] else {
                    return Err(format!("{path}: a map has entries of keys and values"));
                };
                if key.data_type() != &DataType::Utf8 {
                    return Err(format!(
                        "{path}: keys of a map must be strings in JSON, not {}",
                        key.data_type()
                    ));
                }
                Column::Map(Box::new(Maps {
                    keys: Bytes::new(),
                    values: Column::new(value.data_type(), &format!("{path}.{}", value.name()))?,
                    ends: Vec::new(),
                    nulls: nulls(),
                    entries: Arc::clone(entries),
                    sorted: *sorted,
                }))
            }
            other => return Err(format!("{path}: JSON cannot carry {other}")),
        })
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Column::Null(rows) => *rows,
            other => each!(other, column => column.len()),
        }
    }

    pub fn append_null(&mut self) {
        match self {
            Column::Null(rows) => *rows += 1,
            other => each!(other, column => column.append_null()),
        }
    }

    /// A row of a record that could not be read: a struct without values, a null of anything else.
    pub fn append_bad(&mut self) {
        match self {
            Column::Struct(structs) => {
                structs.columns.iter_mut().for_each(Column::append_null);
                structs.end_row();
            }
            other => other.append_null(),
        }
    }

    /// Take all but the first `rows` back, and what was begun of another.
    pub fn truncate(&mut self, to: usize) {
        match self {
            Column::Null(rows) => *rows = to,
            other => each!(other, column => column.truncate(to)),
        }
    }

    /// Take the rows from `from` up to before `to` back.
    pub fn remove(&mut self, from: usize, to: usize) {
        if from < to {
            match self {
                Column::Null(rows) => *rows -= to - from,
                other => each!(other, column => column.remove(from, to)),
            }
        }
    }

    /// All rows; the column is empty after that.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        match self {
            Column::Null(rows) => Ok(Arc::new(NullArray::new(std::mem::take(rows)))),
            Column::String(column) => {
                let (offsets, values, nulls) = column.take()?;
                Ok(Arc::new(StringArray::try_new(offsets, values.into(), nulls)?))
            }
            Column::Binary(column) => {
                let (offsets, values, nulls) = column.take()?;
                Ok(Arc::new(BinaryArray::try_new(offsets, values.into(), nulls)?))
            }
            Column::Boolean(column) => {
                Ok(Arc::new(BooleanArray::new(column.values.finish(), column.nulls.finish())))
            }
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

/// PySpark's Arrow type of a variant: a struct of two binaries, one of which says so.
fn is_variant(fields: &Fields) -> bool {
    fields.iter().any(|field| field.metadata().get("variant").is_some_and(|value| value == "true"))
}

fn nulls() -> NullBufferBuilder {
    NullBufferBuilder::new(1024)
}

fn remove_nulls(nulls: &mut NullBufferBuilder, from: usize, to: usize) {
    let kept: Vec<bool> = (to..nulls.len()).map(|row| nulls.is_valid(row)).collect();
    nulls.truncate(from);
    nulls.append_slice(&kept);
}

/// Takes rows out of offsets that are kept as ends; returns the range of what they hold.
fn remove_ends(ends: &mut Vec<i32>, from: usize, to: usize) -> (usize, usize) {
    let end_before = |row: usize| row.checked_sub(1).map_or(0, |row| ends[row]);
    let (begin, end) = (end_before(from), end_before(to));
    ends.drain(from..to);
    ends[from..].iter_mut().for_each(|later| *later -= end - begin);
    (begin as usize, end as usize)
}

fn offsets(ends: &mut Vec<i32>, held: usize) -> Result<OffsetBuffer<i32>, ArrowError> {
    if held > i32::MAX as usize {
        ends.clear();
        return Err(ArrowError::OffsetOverflowError(held));
    }
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.append(ends);
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

/// What was filled, leaving room for as much again: the next batch is mostly alike.
fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}

impl Booleans {
    fn new() -> Self {
        Booleans { values: BooleanBufferBuilder::new(1024), nulls: nulls() }
    }

    #[inline(always)]
    pub fn append(&mut self, value: bool) {
        self.values.append(value);
        self.nulls.append_non_null();
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn append_null(&mut self) {
        self.values.append(false);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn remove(&mut self, from: usize, to: usize) {
        let kept: Vec<bool> = (to..self.len()).map(|row| self.values.get_bit(row)).collect();
        self.values.truncate(from);
        self.values.append_slice(&kept);
        remove_nulls(&mut self.nulls, from, to);
    }
}

impl<T: ArrowPrimitiveType> Primitives<T> {
    fn new(data_type: &DataType) -> Self {
        Primitives { values: Vec::new(), nulls: nulls(), data_type: data_type.clone() }
    }

    #[inline(always)]
    pub fn append(&mut self, value: T::Native) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.values.len()
    }

    fn append_null(&mut self) {
        self.values.push(T::Native::default());
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.values.drain(from..to);
        remove_nulls(&mut self.nulls, from, to);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let array = PrimitiveArray::<T>::try_new(take(&mut self.values).into(), self.nulls.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}

impl Bytes {
    fn new() -> Self {
        Bytes { ends: Vec::new(), values: Vec::new(), nulls: nulls() }
    }

    #[inline(always)]
    pub fn append(&mut self, value: &[u8]) {
        self.values.extend_from_slice(value);
        self.end_row();
    }

    /// What is about to become the next value, up to `end_row`.
    pub fn open(&mut self) -> &mut Vec<u8> {
        &mut self.values
    }

    /// Forget what was put into `open`.
    pub fn abandon(&mut self) {
        let end = self.ends.last().map_or(0, |end| *end as usize);
        self.values.truncate(end);
    }

    /// A value beyond 2 GiB ends in nonsense here; `take` finds out.
    #[inline(always)]
    pub fn end_row(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_non_null();
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn append_null(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        if self.values.len() <= i32::MAX as usize {
            self.ends.truncate(rows);
            self.abandon();
            self.nulls.truncate(rows);
        }
    }

    fn remove(&mut self, from: usize, to: usize) {
        if self.values.len() > i32::MAX as usize {
            return; // its ends are nonsense, and the column is refused as a whole
        }
        let (begin, end) = remove_ends(&mut self.ends, from, to);
        self.values.drain(begin..end);
        remove_nulls(&mut self.nulls, from, to);
    }

    #[allow(clippy::type_complexity)]
    fn take(&mut self) -> Result<(OffsetBuffer<i32>, Vec<u8>, Option<arrow_buffer::NullBuffer>), ArrowError> {
        let (values, nulls) = (take(&mut self.values), self.nulls.finish());
        Ok((offsets(&mut self.ends, values.len())?, values, nulls))
    }
}

impl Structs {
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Each column has got its value.
    #[inline(always)]
    pub fn end_row(&mut self) {
        self.nulls.append_non_null();
    }

    fn append_null(&mut self) {
        self.columns.iter_mut().for_each(Column::append_null);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.nulls.truncate(rows);
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.columns.iter_mut().for_each(|column| column.remove(from, to));
        remove_nulls(&mut self.nulls, from, to);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (rows, nulls) = (self.nulls.len(), self.nulls.finish());
        // All of them, also after an error: what is not finished would be in the next batch.
        let columns: Vec<_> = self.columns.iter_mut().map(Column::finish).collect();
        let columns = columns.into_iter().collect::<Result<_, _>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(self.fields.clone(), columns, nulls, rows)?))
    }
}

impl Lists {
    /// The elements since the last row are the next row.
    #[inline(always)]
    pub fn end_row(&mut self) {
        self.ends.push(self.element.len() as i32);
        self.nulls.append_non_null();
    }

    /// Forget the elements since the last row.
    pub fn abandon(&mut self) {
        self.element.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn append_null(&mut self) {
        self.ends.push(self.element.len() as i32);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.abandon();
        self.nulls.truncate(rows);
    }

    fn remove(&mut self, from: usize, to: usize) {
        let (begin, end) = remove_ends(&mut self.ends, from, to);
        self.element.remove(begin, end);
        remove_nulls(&mut self.nulls, from, to);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let held = self.element.len();
        let (elements, offsets) = (self.element.finish(), offsets(&mut self.ends, held));
        let nulls = self.nulls.finish();
        Ok(Arc::new(ListArray::try_new(Arc::clone(&self.field), offsets?, elements?, nulls)?))
    }
}

impl Maps {
    #[inline(always)]
    pub fn end_row(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_non_null();
    }

    /// Forget the entries since the last row.
    pub fn abandon(&mut self) {
        let entries = self.ends.last().map_or(0, |end| *end as usize);
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn append_null(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.abandon();
        self.nulls.truncate(rows);
    }

    fn remove(&mut self, from: usize, to: usize) {
        let (begin, end) = remove_ends(&mut self.ends, from, to);
        self.keys.remove(begin, end);
        self.values.remove(begin, end);
        remove_nulls(&mut self.nulls, from, to);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let DataType::Struct(fields) = self.entries.data_type() else {
            unreachable!("checked when it was made")
        };
        let held = self.values.len();
        let (keys, values) = (self.keys.take(), self.values.finish());
        let (offsets, nulls) = (offsets(&mut self.ends, held), self.nulls.finish());
        let (key_offsets, key_bytes, key_nulls) = keys?;
        let keys = StringArray::try_new(key_offsets, key_bytes.into(), key_nulls)?;
        let entries = StructArray::try_new(fields.clone(), vec![Arc::new(keys), values?], None)?;
        let entries_field = Arc::clone(&self.entries);
        Ok(Arc::new(MapArray::try_new(entries_field, offsets?, entries, nulls, self.sorted)?))
    }
}
