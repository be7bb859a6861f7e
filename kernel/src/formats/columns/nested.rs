//! Columns of structs, lists and maps.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};

use super::Column;
use super::single::{Bytes, nulls, offsets, remove_ends, remove_nulls};

pub struct Structs<N> {
    pub columns: Vec<Column<N>>,
    pub names: N,
    pub fields: Fields,
    nulls: NullBufferBuilder,
}

pub struct Lists<N> {
    pub element: Column<N>,
    /// Bytes that an element takes at least.
    pub weight: usize,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    field: FieldRef,
}

pub struct Maps<N> {
    pub keys: Bytes,
    pub values: Column<N>,
    /// Bytes that a value takes at least.
    pub weight: usize,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    entries: FieldRef,
    sorted: bool,
}

impl<N> Structs<N> {
    pub fn new(fields: &Fields, names: &impl Fn(&Fields) -> N) -> Result<Self, String> {
        let columns =
            fields.iter().map(|field| Column::new(field.data_type(), names)).collect::<Result<_, _>>()?;
        Ok(Structs { columns, names: names(fields), fields: fields.clone(), nulls: nulls() })
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Ends a row. Each column has its value already.
    #[inline(always)]
    pub fn end_row(&mut self) {
        self.nulls.append_non_null();
    }

    pub fn append_null(&mut self) {
        self.columns.iter_mut().for_each(Column::append_null);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.nulls.truncate(rows);
    }

    pub fn remove(&mut self, from: usize, to: usize) {
        self.columns.iter_mut().for_each(|column| column.remove(from, to));
        remove_nulls(&mut self.nulls, from, to);
    }

    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (rows, nulls) = (self.nulls.len(), self.nulls.finish());
        // Finish all of them, also after an error: a column left unfinished would leak into the next batch.
        let columns: Vec<_> = self.columns.iter_mut().map(Column::finish).collect();
        let columns = columns.into_iter().collect::<Result<_, _>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(self.fields.clone(), columns, nulls, rows)?))
    }
}

impl<N> Lists<N> {
    pub fn new(field: &FieldRef, names: &impl Fn(&Fields) -> N) -> Result<Self, String> {
        let element = Column::new(field.data_type(), names)?;
        Ok(Lists {
            element,
            weight: extra_weight(field.data_type()),
            ends: Vec::new(),
            nulls: nulls(),
            field: Arc::clone(field),
        })
    }

    /// Ends a row: the elements since the last row belong to it.
    #[inline(always)]
    pub fn end_row(&mut self) {
        self.ends.push(self.element.len() as i32);
        self.nulls.append_non_null();
    }

    /// Drops the elements since the last row.
    pub fn abandon(&mut self) {
        self.element.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn append_null(&mut self) {
        self.ends.push(self.element.len() as i32);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.abandon();
        self.nulls.truncate(rows);
    }

    pub fn remove(&mut self, from: usize, to: usize) {
        let (begin, end) = remove_ends(&mut self.ends, from, to);
        self.element.remove(begin, end);
        remove_nulls(&mut self.nulls, from, to);
    }

    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let held = self.element.len();
        let (elements, offsets) = (self.element.finish(), offsets(&mut self.ends, held));
        let nulls = self.nulls.finish();
        Ok(Arc::new(ListArray::try_new(Arc::clone(&self.field), offsets?, elements?, nulls)?))
    }
}

impl<N> Maps<N> {
    pub fn new(entries: &FieldRef, sorted: bool, names: &impl Fn(&Fields) -> N) -> Result<Self, String> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err("a map has entries of keys and values".to_owned());
        };
        let [key, value] = &fields[..] else {
            return Err("a map has entries of keys and values".to_owned());
        };
        if key.data_type() != &DataType::Utf8 {
            return Err(format!("keys of a map must be strings, not {}", key.data_type()));
        }
        let (keys, values) = (Bytes::new(), Column::new(value.data_type(), names)?);
        let (ends, nulls, entries) = (Vec::new(), nulls(), Arc::clone(entries));
        Ok(Maps { keys, values, weight: extra_weight(value.data_type()), ends, nulls, entries, sorted })
    }

    #[inline(always)]
    pub fn end_row(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_non_null();
    }

    /// Drops the entries since the last row.
    pub fn abandon(&mut self) {
        let entries = self.ends.last().map_or(0, |end| *end as usize);
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn append_null(&mut self) {
        self.ends.push(self.values.len() as i32);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.abandon();
        self.nulls.truncate(rows);
    }

    pub fn remove(&mut self, from: usize, to: usize) {
        let (begin, end) = remove_ends(&mut self.ends, from, to);
        self.keys.remove(begin, end);
        self.values.remove(begin, end);
        remove_nulls(&mut self.nulls, from, to);
    }

    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let DataType::Struct(fields) = self.entries.data_type() else {
            unreachable!("checked when it was made")
        };
        let held = self.values.len();
        let (keys, values) = (self.keys.finish_strings(), self.values.finish());
        let (offsets, nulls) = (offsets(&mut self.ends, held), self.nulls.finish());
        let entries = StructArray::try_new(fields.clone(), vec![keys?, values?], None)?;
        let entries_field = Arc::clone(&self.entries);
        Ok(Arc::new(MapArray::try_new(entries_field, offsets?, entries, nulls, self.sorted)?))
    }
}

/// Bytes that an empty struct takes. No other type takes far more than its bytes in the record.
fn extra_weight(data_type: &DataType) -> usize {
    if matches!(data_type, DataType::Struct(_)) { weight(data_type) } else { 0 }
}

/// Bytes that a null row takes.
pub fn weight(data_type: &DataType) -> usize {
    match data_type {
        DataType::Null => 0,
        DataType::Struct(fields) => 1 + fields.iter().map(|field| weight(field.data_type())).sum::<usize>(),
        other => 1 + other.primitive_width().unwrap_or(size_of::<i32>()),
    }
}
