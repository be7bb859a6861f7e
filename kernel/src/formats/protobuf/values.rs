//! Columns of single values. They can be truncated to any row, so that a bad record leaves nothing behind.
#![forbid(unsafe_code)]

use std::mem::take;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray, types::ArrowPrimitiveType,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::ArrowError;

use crate::formats::columns::{KEPT, extend_first};

/// What an absent field becomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Absence<T> {
    /// The default that replaces it: declared in proto2, or of a map entry. Otherwise null.
    pub default: Option<T>,
    /// Whether zero, the empty string and so on count as absent: proto3's fields without presence. Spark's
    /// `from_protobuf` gives null for those by default, even if they were written.
    pub zero: bool,
}

impl<T> Absence<T> {
    /// For elements of a list, which are never absent.
    pub fn never() -> Self {
        Absence { default: None, zero: false }
    }
}

/// Initial capacity for the nulls of a batch.
pub const ROWS: usize = 1024;

/// Numbers and booleans.
pub struct Values<T> {
    values: Vec<T>,
    nulls: NullBufferBuilder,
    absence: Absence<T>,
}

impl<T: Copy + Default> Values<T> {
    pub fn new(absence: Absence<T>) -> Self {
        Values { values: Vec::new(), nulls: NullBufferBuilder::new(ROWS), absence }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn get(&self, row: usize) -> T {
        self.values[row]
    }

    /// The last value of a row wins.
    #[inline(always)]
    pub fn set(&mut self, row: usize, value: T, is_zero: bool) {
        if is_zero && self.absence.zero {
            self.truncate(row);
        } else if let Some(set) = self.values.get_mut(row) {
            *set = value;
        } else {
            self.values.push(value);
            self.nulls.append_non_null();
        }
    }

    #[inline(always)]
    pub fn fill(&mut self, row: usize) {
        if self.values.len() <= row {
            self.values.push(self.absence.default.unwrap_or_default());
            self.nulls.append(self.absence.default.is_some());
        }
    }

    pub fn push_null(&mut self) {
        self.values.push(T::default());
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    pub fn reserve(&mut self, rows: usize) {
        self.values.reserve(rows);
    }

    pub fn primitive<P>(&mut self) -> PrimitiveArray<P>
    where
        T: ArrowNativeType,
        P: ArrowPrimitiveType<Native = T>,
    {
        PrimitiveArray::new(ScalarBuffer::from(take(&mut self.values)), self.nulls.finish())
    }
}

impl Values<bool> {
    pub fn finish(&mut self) -> ArrayRef {
        let values = BooleanBuffer::from(take(&mut self.values));
        Arc::new(BooleanArray::new(values, self.nulls.finish()))
    }
}

/// Strings, names of enums, and bytes.
pub struct Texts {
    bytes: Vec<u8>,
    /// The end of each row.
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    absence: Absence<Box<[u8]>>,
    /// Bytes of the last batch, the estimate for the next one.
    last: usize,
}

impl Texts {
    pub fn new(absence: Absence<Box<[u8]>>) -> Self {
        Texts { bytes: Vec::new(), ends: Vec::new(), nulls: NullBufferBuilder::new(ROWS), absence, last: 0 }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start as usize..self.ends[row] as usize]
    }

    /// Bytes that a row takes if the field is absent.
    pub fn weight(&self) -> usize {
        size_of::<i32>() + 1 + self.absence.default.as_ref().map_or(0, |default| default.len())
    }

    #[inline(always)]
    pub fn set(&mut self, row: usize, value: &[u8], is_zero: bool) {
        self.set_first(row, value, value.len(), is_zero);
    }

    /// Sets the first `size` of `bytes`.
    #[inline(always)]
    pub fn set_first(&mut self, row: usize, bytes: &[u8], size: usize, is_zero: bool) {
        if self.ends.len() > row {
            self.truncate(row);
        }
        if !(is_zero && self.absence.zero) {
            extend_first(&mut self.bytes, bytes, size);
            self.end(true);
        }
    }

    /// The caller limits the strings of a batch so that `i32` can hold their ends.
    #[inline(always)]
    fn end(&mut self, valid: bool) {
        self.ends.push(self.bytes.len() as i32);
        self.nulls.append(valid);
    }

    #[inline(always)]
    pub fn fill(&mut self, row: usize) {
        if self.ends.len() <= row {
            if let Some(default) = &self.absence.default {
                self.bytes.extend_from_slice(default);
            }
            self.end(self.absence.default.is_some());
        }
    }

    pub fn push_null(&mut self) {
        self.end(false);
    }

    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.nulls.truncate(rows);
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    pub fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
        self.bytes.reserve((self.last + self.last / 16).min(KEPT));
    }

    fn parts(&mut self) -> (OffsetBuffer<i32>, Vec<u8>, Option<NullBuffer>) {
        self.last = self.bytes.len();
        (offsets(take(&mut self.ends)), take(&mut self.bytes), self.nulls.finish())
    }

    pub fn strings(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, bytes, nulls) = self.parts();
        Ok(Arc::new(StringArray::try_new(offsets, bytes.into(), nulls)?))
    }

    pub fn binaries(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, bytes, nulls) = self.parts();
        Ok(Arc::new(BinaryArray::try_new(offsets, bytes.into(), nulls)?))
    }
}

/// Arrow's offsets from the ends of the rows.
pub fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.extend(ends);
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

#[cfg(test)]
mod tests {
    use arrow_array::Int32Array;
    use arrow_array::types::Int32Type;

    use super::*;

    #[test]
    fn the_last_value_wins_and_zero_may_be_absent() {
        let mut values = Values::new(Absence { default: None, zero: true });
        values.set(0, 5, false);
        values.set(0, 6, false);
        values.fill(0);
        values.set(1, 7, false);
        values.set(1, 0, true);
        values.fill(1);
        values.set(2, 8, false);
        values.truncate(2);
        assert_eq!(values.primitive::<Int32Type>(), Int32Array::from(vec![Some(6), None]));
    }

    #[test]
    fn strings_are_truncated() {
        let mut texts = Texts::new(Absence { default: Some(b"none"[..].into()), zero: false });
        texts.set(0, b"long ago", false);
        texts.set(0, b"a", false);
        texts.set(1, b"bad", false);
        texts.truncate(1);
        texts.fill(1);
        texts.push_null();
        let expected = StringArray::from(vec![Some("a"), Some("none"), None]);
        assert_eq!(texts.strings().expect("UTF-8").as_ref(), &expected as &dyn arrow_array::Array);
    }
}
