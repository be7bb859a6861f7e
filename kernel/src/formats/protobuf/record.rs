//! The columns of a message. Reads the bytes of a message: each field straight into its column.
#![forbid(unsafe_code)]

use arrow_array::StructArray;
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, Fields};
use prost_reflect::MessageDescriptor;

use super::bad_record::BadRecord;
use super::column::Column;
use super::values::ROWS;
use super::wire::{Broken, Cursor, END_GROUP, START_GROUP};
use crate::formats::budget::Budget;

/// No member of the oneof is set.
const NONE: u32 = u32::MAX;

/// A selected field.
pub struct Field {
    pub name: Box<str>,
    pub number: u32,
    /// The tag as declared.
    pub tag: u32,
    /// The tag of the other form of a repeated field, packed or not; for other fields the same.
    pub other_tag: u32,
    pub column: usize,
    /// The oneof of the message that it belongs to.
    pub oneof: Option<usize>,
    pub repeated: bool,
    pub required: bool,
}

pub struct Record {
    message: MessageDescriptor,
    /// Sorted by number.
    fields: Vec<Field>,
    /// Index of the field plus one, by field number, for small numbers.
    dense: Vec<u32>,
    /// The fields of the columns that are in the result, which come first.
    types: Fields,
    columns: Vec<Column>,
    /// Indexes of the required fields.
    required: Vec<usize>,
    /// For each oneof, the index of the field that is set.
    chosen: Vec<u32>,
    /// A map's value is present even if it is not on the wire.
    always: bool,
    weight: usize,
    open: bool,
    nulls: NullBufferBuilder,
}

impl Record {
    pub fn new(
        message: MessageDescriptor,
        mut fields: Vec<Field>,
        types: Fields,
        columns: Vec<Column>,
        always: bool,
    ) -> Self {
        fields.sort_by_key(|field| field.number);
        let most = fields.len() * 8 + 64;
        let mut dense = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let number = field.number as usize;
            if number < most {
                dense.resize(number + 1, 0);
                dense[number] = index as u32 + 1;
            }
        }
        let required = (0..fields.len()).filter(|&index| fields[index].required).collect();
        let oneofs = fields.iter().filter_map(|field| field.oneof).max().map_or(0, |most| most + 1);
        let weight = 1 + columns.iter().map(Column::weight).sum::<usize>();
        let chosen = vec![NONE; oneofs];
        let (open, nulls) = (false, NullBufferBuilder::new(ROWS));
        Record { message, fields, dense, types, columns, required, chosen, always, weight, open, nulls }
    }

    pub fn message(&self) -> &MessageDescriptor {
        &self.message
    }

    pub fn fields(&self) -> impl Iterator<Item = (&Field, &Column)> {
        self.fields.iter().map(|field| (field, &self.columns[field.column]))
    }

    pub fn types(&self) -> &Fields {
        &self.types
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub fn weight(&self) -> usize {
        self.weight
    }

    /// See [`Utf8`](super::column::Utf8).
    pub fn check_texts(&mut self, each: bool) {
        self.columns.iter_mut().for_each(|column| column.check_texts(each));
    }

    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Reads a message in a field. Another occurrence in the same row is merged into the first.
    pub fn read_field(
        &mut self,
        tag: u32,
        cursor: &mut Cursor<'_>,
        depth: u32,
        budget: &mut Budget,
    ) -> Result<bool, BadRecord> {
        let depth = depth.checked_sub(1).ok_or(Broken::Deep)?;
        if tag & 7 == START_GROUP {
            return self.read(cursor, tag >> 3, depth, budget);
        }
        let mut inner = Cursor::new(cursor.bytes()?);
        self.read(&mut inner, 0, depth, budget)
    }

    /// Reads the fields of a message up to its end, or up to the end of the group of this number. Returns false if a
    /// known field counted as unknown.
    pub fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        group: u32,
        depth: u32,
        budget: &mut Budget,
    ) -> Result<bool, BadRecord> {
        self.open = true;
        let row = self.nulls.len();
        let mut whole = true;
        // Fields usually come in the order of their numbers.
        let mut next = 0;
        while !cursor.is_empty() {
            let tag = cursor.tag()?;
            if self.fields.get(next).is_none_or(|field| field.tag != tag) {
                match self.find(tag) {
                    Some(index) => next = index,
                    None if tag & 7 == END_GROUP && tag >> 3 == group => return Ok(whole),
                    None => {
                        cursor.skip(tag, depth)?;
                        continue;
                    }
                }
            }
            let field = &self.fields[next];
            let read = self.columns[field.column].read(row, tag, cursor, depth, budget);
            match read {
                Ok(true) if field.oneof.is_some() => self.choose(next, row, budget)?,
                Ok(stored) => whole &= stored,
                Err(bad) => return Err(bad.within(&field.name)),
            }
            next += usize::from(!self.fields[next].repeated);
        }
        if group == 0 { Ok(whole) } else { Err(Broken::Group.into()) }
    }

    #[inline(always)]
    fn find(&self, tag: u32) -> Option<usize> {
        let number = tag >> 3;
        let index = match self.dense.get(number as usize) {
            Some(&index) => (index as usize).checked_sub(1)?,
            None => self.fields.binary_search_by_key(&number, |field| field.number).ok()?,
        };
        // A field with another wire type than declared counts as unknown.
        let field = &self.fields[index];
        (field.tag == tag || field.other_tag == tag).then_some(index)
    }

    /// The last member of a oneof counts.
    fn choose(&mut self, index: usize, row: usize, budget: &mut Budget) -> Result<(), BadRecord> {
        let oneof = self.fields[index].oneof.unwrap_or_default();
        let before = std::mem::replace(&mut self.chosen[oneof], index as u32);
        if before != NONE && before != index as u32 {
            let column = &mut self.columns[self.fields[before as usize].column];
            // Limits the work for messages that alternate in a oneof, each wider than its bytes.
            budget.spend(column.weight())?;
            column.truncate(row);
        }
        Ok(())
    }

    pub fn fill(&mut self, row: usize) -> Result<(), BadRecord> {
        if self.nulls.len() > row {
            Ok(())
        } else if self.open || self.always {
            self.close()
        } else {
            self.push_null();
            Ok(())
        }
    }

    /// Ends the message.
    pub fn close(&mut self) -> Result<(), BadRecord> {
        let row = self.nulls.len();
        for &index in &self.required {
            let field = &self.fields[index];
            if !self.columns[field.column].is_set(row) {
                return Err(BadRecord::new("is required, but missing".to_owned()).within(&field.name));
            }
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            if let Err(bad) = column.fill(row) {
                return Err(bad.within(self.types[index].name()));
            }
        }
        self.forget();
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends a message that did not parse: present and empty.
    pub fn push_empty(&mut self) {
        self.columns.iter_mut().for_each(Column::push_null);
        self.nulls.append_non_null();
    }

    pub fn push_null(&mut self) {
        self.columns.iter_mut().for_each(Column::push_null);
        self.nulls.append_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
        self.nulls.truncate(rows);
        self.forget();
    }

    fn forget(&mut self) {
        self.open = false;
        // Do not simplify: filling an empty slice calls memset, whose masked store at a null address takes 19 ns.
        if !self.chosen.is_empty() {
            self.chosen.fill(NONE);
        }
    }

    pub fn reserve(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.reserve(rows));
    }

    pub fn finish(&mut self) -> Result<StructArray, ArrowError> {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let columns =
            self.columns[..self.types.len()].iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
        self.truncate(0);
        StructArray::try_new_with_length(self.types.clone(), columns, nulls, rows)
    }
}
