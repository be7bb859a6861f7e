//! Columns of single values: numbers, strings and bytes.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

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
    /// The end of each value.
    ends: Vec<i32>,
    values: Vec<u8>,
    nulls: NullBufferBuilder,
}

pub fn nulls() -> NullBufferBuilder {
    NullBufferBuilder::new(1024)
}

pub fn remove_nulls(nulls: &mut NullBufferBuilder, from: usize, to: usize) {
    let kept: Vec<bool> = (to..nulls.len()).map(|row| nulls.is_valid(row)).collect();
    nulls.truncate(from);
    nulls.append_slice(&kept);
}

/// Removes rows from the ends of values. Returns the range that their values take.
pub fn remove_ends(ends: &mut Vec<i32>, from: usize, to: usize) -> (usize, usize) {
    let end_before = |row: usize| row.checked_sub(1).map_or(0, |row| ends[row]);
    let (begin, end) = (end_before(from), end_before(to));
    ends.drain(from..to);
    ends[from..].iter_mut().for_each(|later| *later -= end - begin);
    (begin as usize, end as usize)
}

pub fn offsets(ends: &mut Vec<i32>, held: usize) -> Result<OffsetBuffer<i32>, ArrowError> {
    if held > i32::MAX as usize {
        ends.clear();
        return Err(ArrowError::OffsetOverflowError(held));
    }
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.append(ends);
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

/// The most bytes of a column for which capacity is kept from one batch to the next.
pub const KEPT: usize = 16 << 20;

/// Takes the values out. Leaves capacity for as many again and a little more: the next batch usually has a similar
/// size, and one that is larger by a byte would be copied as a whole.
fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = (values.len() + values.len() / 16 + 64).min(KEPT / size_of::<T>());
    std::mem::replace(values, Vec::with_capacity(room))
}

/// Appends the first `size` of `bytes` to `values`. If there are more bytes, some more are copied and cut off again:
/// that is two stores of a fixed size, where a copy of a few bytes is a function call.
#[inline(always)]
pub fn extend_first(values: &mut Vec<u8>, bytes: &[u8], size: usize) {
    match bytes.first_chunk::<32>() {
        Some(chunk) if size <= chunk.len() => {
            let end = values.len() + size;
            values.extend_from_slice(chunk);
            values.truncate(end);
        }
        _ => values.extend_from_slice(&bytes[..size]),
    }
}

impl Booleans {
    pub fn new() -> Self {
        Booleans { values: BooleanBufferBuilder::new(1024), nulls: nulls() }
    }

    #[inline(always)]
    pub fn append(&mut self, value: bool) {
        self.values.append(value);
        self.nulls.append_non_null();
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn append_null(&mut self) {
        self.values.append(false);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    pub fn remove(&mut self, from: usize, to: usize) {
        let kept: Vec<bool> = (to..self.len()).map(|row| self.values.get_bit(row)).collect();
        self.values.truncate(from);
        self.values.append_slice(&kept);
        remove_nulls(&mut self.nulls, from, to);
    }

    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BooleanArray::new(self.values.finish(), self.nulls.finish())))
    }
}

impl<T: ArrowPrimitiveType> Primitives<T> {
    pub fn new(data_type: &DataType) -> Self {
        Primitives { values: Vec::new(), nulls: nulls(), data_type: data_type.clone() }
    }

    #[inline(always)]
    pub fn append(&mut self, value: T::Native) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn append_null(&mut self) {
        self.values.push(T::Native::default());
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    pub fn remove(&mut self, from: usize, to: usize) {
        self.values.drain(from..to);
        remove_nulls(&mut self.nulls, from, to);
    }

    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let array = PrimitiveArray::<T>::try_new(take(&mut self.values).into(), self.nulls.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}

impl Bytes {
    pub fn new() -> Self {
        Bytes { ends: Vec::new(), values: Vec::new(), nulls: nulls() }
    }

    #[inline(always)]
    pub fn append(&mut self, value: &[u8]) {
        self.values.extend_from_slice(value);
        self.end_row();
    }

    /// Appends the first `size` of `bytes`.
    #[inline(always)]
    pub fn append_first(&mut self, bytes: &[u8], size: usize) {
        extend_first(&mut self.values, bytes, size);
        self.end_row();
    }

    /// The buffer of the next value; `end_row` ends it.
    pub fn open(&mut self) -> &mut Vec<u8> {
        &mut self.values
    }

    /// Drops what was written to `open`.
    pub fn abandon(&mut self) {
        let end = self.ends.last().map_or(0, |end| *end as usize);
        self.values.truncate(end);
    }

    /// A value above 2 GiB gives a wrong end here; `take` detects that.
    #[inline(always)]
    pub fn end_row(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_non_null();
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn append_null(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        if self.values.len() <= i32::MAX as usize {
            self.ends.truncate(rows);
            self.abandon();
            self.nulls.truncate(rows);
        }
    }

    pub fn remove(&mut self, from: usize, to: usize) {
        if self.values.len() > i32::MAX as usize {
            return; // // its ends are wrong, and the column is rejected as a whole
        }
        let (begin, end) = remove_ends(&mut self.ends, from, to);
        self.values.drain(begin..end);
        remove_nulls(&mut self.nulls, from, to);
    }

    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, values, nulls) = self.take()?;
        Ok(Arc::new(BinaryArray::try_new(offsets, values.into(), nulls)?))
    }

    /// Also fails if a value is not UTF-8.
    pub fn finish_strings(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, values, nulls) = self.take()?;
        Ok(Arc::new(StringArray::try_new(offsets, values.into(), nulls)?))
    }

    #[allow(clippy::type_complexity)]
    fn take(&mut self) -> Result<(OffsetBuffer<i32>, Vec<u8>, Option<NullBuffer>), ArrowError> {
        let (values, nulls) = (take(&mut self.values), self.nulls.finish());
        Ok((offsets(&mut self.ends, values.len())?, values, nulls))
    }
}
