//! Map fields: repeated entries on the wire. The last entry of a key counts.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::mem::take;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, MapArray};
use arrow_buffer::{BooleanBuffer, NullBufferBuilder};
use arrow_schema::{ArrowError, FieldRef};
use arrow_select::filter::filter;

use super::bad_record::BadRecord;
use super::column::Column;
use super::record::Record;
use super::values::{ROWS, offsets};
use super::wire::{Broken, Cursor};
use crate::formats::budget::Budget;

/// Maps up to this size are searched for duplicate keys one by one: faster than hashing.
const FEW: usize = 8;

pub struct Map {
    field: FieldRef,
    entries: Box<Record>,
    /// Bytes that an entry takes if it is empty on the wire.
    weight: usize,
    /// Entries that a later entry of the same row replaces, in order. They are dropped at the end: too rare to be worth
    /// moving columns for.
    replaced: Vec<usize>,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Number(i64),
    Text(&'a [u8]),
}

impl Map {
    /// `field` is Arrow's field of the entries, with the columns key and value.
    pub fn new(field: FieldRef, entries: Box<Record>) -> Self {
        let weight = entries.weight();
        Map {
            field,
            entries,
            weight,
            replaced: Vec::new(),
            ends: Vec::new(),
            nulls: NullBufferBuilder::new(ROWS),
        }
    }

    pub fn entries(&self) -> &Record {
        &self.entries
    }

    pub fn check_texts(&mut self, each: bool) {
        self.entries.check_texts(each);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        depth: u32,
        budget: &mut Budget,
    ) -> Result<(), BadRecord> {
        budget.spend(self.weight)?;
        let depth = depth.checked_sub(1).ok_or(Broken::Deep)?;
        let row = self.entries.len();
        let mut inner = Cursor::new(cursor.bytes()?);
        if self.entries.read(&mut inner, 0, depth, budget)? {
            self.entries.close()?;
        } else {
            self.entries.truncate(row); // // an unknown number of a closed enum makes the entry unknown
        }
        Ok(())
    }

    pub fn fill(&mut self) {
        let (start, end) = (self.start(), self.entries.len());
        if end - start > 1 {
            let before = self.replaced.len();
            replaced(self.entries.columns(), start, end, &mut self.replaced);
            self.replaced[before..].sort_unstable();
        }
        self.ends.push(end as i32);
        self.nulls.append_non_null();
    }

    /// The first entry of the row that is being read.
    fn start(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    pub fn push_null(&mut self) {
        self.ends.push(self.entries.len() as i32);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.nulls.truncate(rows);
        let end = self.start();
        self.entries.truncate(end);
        self.replaced.truncate(self.replaced.partition_point(|&entry| entry < end));
    }

    pub fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
    }

    pub fn finish(&mut self) -> Result<MapArray, ArrowError> {
        let mut entries = self.entries.finish()?;
        let mut ends = take(&mut self.ends);
        let replaced = take(&mut self.replaced);
        if !replaced.is_empty() {
            let mut kept = vec![true; entries.len()];
            replaced.iter().for_each(|&entry| kept[entry] = false);
            let kept = BooleanArray::new(BooleanBuffer::from(kept), None);
            entries = filter(&entries, &kept)?.as_struct().clone();
            for end in &mut ends {
                *end -= replaced.partition_point(|&entry| entry < *end as usize) as i32;
            }
        }
        MapArray::try_new(self.field.clone(), offsets(ends), entries, self.nulls.finish(), false)
    }
}

fn replaced(columns: &[Column], start: usize, end: usize, found: &mut Vec<usize>) {
    let key = |row| match &columns[0] {
        Column::Int32(keys) | Column::SInt32(keys) | Column::Fixed32(keys) => {
            Key::Number(keys.get(row).into())
        }
        Column::Int64(keys) | Column::SInt64(keys) | Column::Fixed64(keys) => Key::Number(keys.get(row)),
        Column::Bool(keys) => Key::Number(keys.get(row).into()),
        Column::String(keys, _) => Key::Text(keys.get(row)),
        _ => Key::Number(row as i64), // // other types cannot be keys
    };
    if end - start <= FEW {
        found.extend((start..end).filter(|&row| (row + 1..end).any(|later| key(later) == key(row))));
        return;
    }
    let mut last = HashMap::with_capacity(end - start);
    found.extend((start..end).filter_map(|row| last.insert(key(row), row)));
}
