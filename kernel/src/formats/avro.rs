//! Avro records, resolved from the schema they were written with to the reader's.
//!
//! ```text
//! writer's schema ┐
//! reader's schema ┼> resolve ─┬> walk    checks a record's bytes, leaves out what is not wanted
//! wanted type     ┘           ├> arrow-avro, with the writer's types as plain as they come
//!                             └> shape   its columns into the wanted ones
//! ```
#![forbid(unsafe_code)]

mod column;
mod constant;
mod resolve;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod types;
mod unions;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StructArray, make_array, new_empty_array, new_null_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType};

use super::{Decoded, Fault, Format, Row};
use column::{Column, Refusal};
use resolve::Resolver;
use schema::Schema;
use types::Path;

/// The type of the column that a reader's schema (JSON) makes.
pub fn data_type(reader: &str) -> Result<DataType, String> {
    Schema::parse(reader).and_then(|schema| types::data_type(&schema)).map_err(the_schema)
}

fn the_schema(error: String) -> String {
    format!("the Avro schema: {error}")
}

pub struct Avro {
    data_type: DataType,
    reader: Schema,
    /// By the place that `ids` names.
    columns: Vec<Column>,
    ids: HashMap<Option<u32>, usize>,
}

impl Avro {
    /// `reader`: the reader's schema as JSON; `wanted`: [`data_type`] of it, or a part of that. Rows without a schema id
    /// were written with the reader's schema.
    pub fn new(reader: &str, wanted: DataType) -> Result<Self, String> {
        let reader = Schema::parse(reader).map_err(the_schema)?;
        let full = types::data_type(&reader).map_err(the_schema)?;
        types::check_part(&full, &wanted, &Path::ROOT)?;
        let column = column(&reader, &reader, &wanted).map_err(the_schema)?;
        Ok(Avro { data_type: wanted, reader, columns: vec![column], ids: HashMap::from([(None, 0)]) })
    }

    /// `decode`, with the rows in `broken` taken for bad ones, for the reason they have there.
    fn attempt(&mut self, rows: &[Row<'_>], broken: &BTreeMap<usize, String>) -> Result<Attempt, ArrowError> {
        let mut faults = Vec::new();
        let mut runs = Runs(Vec::new());
        let mut last = (None, 0);
        for (row, value) in rows.iter().enumerate() {
            let (schema, bytes) = match value {
                Row::Null => {
                    runs.push(NULL);
                    continue;
                }
                Row::Bad => {
                    runs.push(BAD);
                    continue;
                }
                Row::Bytes { schema, bytes } => (*schema, *bytes),
            };
            if schema != last.0 {
                let Some(&place) = self.ids.get(&schema) else {
                    let id = schema.unwrap_or_default();
                    faults.push(Fault { row, reason: format!("schema {id} is not known") });
                    runs.push(BAD);
                    continue;
                };
                last = (schema, place);
            }
            let place = last.1;
            let reason = match broken.get(&row) {
                Some(reason) => reason.clone(),
                None => match self.columns[place].push(bytes) {
                    Ok(()) => {
                        runs.push(place + COLUMNS);
                        continue;
                    }
                    Err(Refusal::Bad(bad)) => bad.to_string(),
                    Err(Refusal::Broken(reason)) => return Ok(Attempt::Broken(row, reason)),
                },
            };
            faults.push(Fault { row, reason });
            runs.push(BAD);
        }
        Ok(Attempt::Done(Decoded { array: self.join(runs)?, faults }))
    }

    /// The rows of all columns, in the order in which they came.
    fn join(&mut self, Runs(runs): Runs) -> Result<ArrayRef, ArrowError> {
        let Some(&(first, length)) = runs.first() else { return Ok(new_empty_array(&self.data_type)) };
        if runs.len() == 1 && first >= COLUMNS {
            return self.checked(first - COLUMNS);
        }
        if runs.len() == 1 && first == NULL {
            return Ok(new_null_array(&self.data_type, length));
        }
        let mut sources = vec![bad_row(&self.data_type)?.to_data()];
        let mut places = vec![0; self.columns.len()];
        for (index, place) in places.iter_mut().enumerate() {
            if self.columns[index].rows() > 0 {
                *place = sources.len();
                sources.push(self.checked(index)?.to_data());
            }
        }
        let rows = runs.iter().map(|(_, length)| length).sum();
        let mut joined = MutableArrayData::new(sources.iter().collect(), true, rows);
        let mut taken = vec![0; sources.len()];
        for (source, length) in runs {
            match source {
                NULL => joined.try_extend_nulls(length)?,
                BAD => (0..length).try_for_each(|_| joined.try_extend(0, 0, 1))?,
                column => {
                    let place = places[column - COLUMNS];
                    joined.try_extend(place, taken[place], taken[place] + length)?;
                    taken[place] += length;
                }
            }
        }
        Ok(make_array(joined.freeze()))
    }

    fn checked(&mut self, index: usize) -> Result<ArrayRef, ArrowError> {
        let array = self.columns[index].finish()?;
        if *array.data_type() == self.data_type {
            return Ok(array);
        }
        Err(ArrowError::SchemaError(format!("made {}, wanted {}", array.data_type(), self.data_type)))
    }
}

impl Format for Avro {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        let bytes: usize =
            rows.iter().map(|row| if let Row::Bytes { bytes, .. } = row { bytes.len() } else { 0 }).sum();
        // No text, list or map of the result is longer than this, so that no offset of 32 bits can overflow, which would
        // be a panic inside Arrow.
        i32::try_from(bytes).map_err(|_| ArrowError::OffsetOverflowError(bytes))?;
        // A BTreeMap: asked for each row, and all but always empty, which it finds out without a hash.
        let mut broken = BTreeMap::new();
        loop {
            // An error or a panic of the last call may have left rows behind.
            for column in self.columns.iter_mut().filter(|column| column.is_dirty()) {
                column.clear()?;
            }
            match self.attempt(rows, &broken)? {
                Attempt::Done(decoded) => return Ok(decoded),
                Attempt::Broken(row, reason) => broken.insert(row, reason),
            };
        }
    }

    fn needs_writers(&self) -> bool {
        true
    }

    fn add_writer(&mut self, id: u32, schema: &[u8]) -> Result<(), String> {
        let schema = std::str::from_utf8(schema).map_err(|_| the_schema("is not UTF-8".to_owned()))?;
        let writer = Schema::parse(schema).map_err(the_schema)?;
        let column = column(&writer, &self.reader, &self.data_type)?;
        match self.ids.get(&Some(id)) {
            Some(&place) => self.columns[place] = column,
            None => {
                self.ids.insert(Some(id), self.columns.len());
                self.columns.push(column);
            }
        }
        Ok(())
    }
}

fn column(writer: &Schema, reader: &Schema, wanted: &DataType) -> Result<Column, String> {
    let mut resolver = Resolver::new(writer, reader);
    let part = resolver.resolve(writer.root, reader.root, wanted, &Path::ROOT)?;
    Column::new(part, resolver.walks).map_err(|error| error.to_string())
}

enum Attempt {
    Done(Decoded),
    /// This row passed the walk and failed in arrow-avro.
    Broken(usize, String),
}

const BAD: usize = 0;
const NULL: usize = 1;
/// And all from here on are columns.
const COLUMNS: usize = 2;

/// Where the rows are, in order: so many of one source, so many of another.
struct Runs(Vec<(usize, usize)>);

impl Runs {
    #[inline]
    fn push(&mut self, source: usize) {
        match self.0.last_mut() {
            Some((last, length)) if *last == source => *length += 1,
            _ => self.0.push((source, 1)),
        }
    }
}

/// A struct whose fields are null, and which is not; of any other type a null.
fn bad_row(data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = data_type else { return Ok(new_null_array(data_type, 1)) };
    let columns = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, 1)?))
}
