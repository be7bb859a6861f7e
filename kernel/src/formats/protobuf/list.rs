//! Repeated fields.
#![forbid(unsafe_code)]

use std::mem::take;

use arrow_array::ListArray;
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, FieldRef};

use super::bad_record::BadRecord;
use super::column::Column;
use super::values::{ROWS, offsets};
use super::wire::{Cursor, LENGTH};
use crate::formats::budget::Budget;

pub struct List {
    element: FieldRef,
    items: Column,
    /// Whether values may be packed after a single tag. Parsers accept both forms, whatever is declared.
    packable: bool,
    /// Bytes that an element takes if it is empty on the wire.
    weight: usize,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl List {
    pub fn new(element: FieldRef, items: Column, packable: bool) -> Self {
        let weight = if let Column::Record(record) = &items { record.weight() } else { 0 };
        List { element, items, packable, weight, ends: Vec::new(), nulls: NullBufferBuilder::new(ROWS) }
    }

    pub fn items(&self) -> &Column {
        &self.items
    }

    pub fn check_texts(&mut self, each: bool) {
        self.items.check_texts(each);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn read(
        &mut self,
        tag: u32,
        cursor: &mut Cursor<'_>,
        depth: u32,
        budget: &mut Budget,
    ) -> Result<(), BadRecord> {
        if self.packable && tag & 7 == LENGTH {
            return self.items.read_packed(&mut Cursor::new(cursor.bytes()?), budget);
        }
        budget.spend(self.weight)?;
        let row = self.items.len();
        if self.items.read(row, tag, cursor, depth, budget)? {
            self.items.fill(row)?;
        }
        Ok(())
    }

    pub fn fill(&mut self) {
        self.ends.push(self.items.len() as i32);
        self.nulls.append_non_null();
    }

    pub fn push_null(&mut self) {
        self.ends.push(self.items.len() as i32);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.nulls.truncate(rows);
        self.items.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    pub fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
    }

    pub fn finish(&mut self) -> Result<ListArray, ArrowError> {
        let items = self.items.finish()?;
        let ends = offsets(take(&mut self.ends));
        ListArray::try_new(self.element.clone(), ends, items, self.nulls.finish())
    }
}
