//! Avro records, resolved from the writer's schema to the reader's schema.
//!
//! ```text
//! writer's schema ┐ reader's schema ┼> resolve ─> fill   how each written value gets into its column, or is skipped
//! selected type   ┘             │ records ──────────> cursor ───┴────> columns, the same for all writers
//! ```
//!
//! `encoder` is the way back: columns into records.
#![forbid(unsafe_code)]

mod bad_record;
mod cursor;
mod defaults;
mod encoder;
mod encoder_plan;
mod fill;
mod resolve;
mod schema;
mod schema_budget;
mod skip;
#[cfg(test)]
mod tests;
mod types;
mod unions;

use std::collections::HashMap;

use arrow_schema::{ArrowError, DataType};

use super::{Decoded, Fault, Format, Row};
use bad_record::Kind;
use cursor::Cursor;
pub use encoder::AvroEncoder;
use fill::{Column, Fill};
use resolve::Resolver;
use schema::Schema;
use schema_budget::SchemaBudget;
use skip::Skip;
use types::Path;

use super::budget::{Budget, allowance};
use super::columns::weight;

/// The column type of a reader's schema (JSON).
pub fn data_type(reader: &str) -> Result<DataType, String> {
    Schema::parse(reader).and_then(|schema| types::data_type(&schema)).map_err(the_schema)
}

fn the_schema(error: String) -> String {
    format!("the Avro schema: {error}")
}

pub struct Avro {
    data_type: DataType,
    reader: Schema,
    column: Column,
    /// Indexed by the values of `ids`.
    writers: Vec<Writer>,
    ids: HashMap<Option<u32>, usize>,
    /// Whether strings are checked one by one: true if the last batch had a string that is not UTF-8.
    checks_texts: bool,
}

/// How to read records that were written with one schema.
struct Writer {
    fill: Fill,
    shared: Vec<Skip>,
}

impl Writer {
    fn new(writer: &Schema, reader: &Schema, wanted: &DataType) -> Result<Self, String> {
        let mut budget = SchemaBudget::default();
        let mut resolver = Resolver::new(writer, reader, &mut budget);
        let fill = resolver.resolve(writer.root, reader.root, wanted, &Path::ROOT)?;
        let shared = resolver.finish()?;
        Ok(Writer { fill, shared })
    }
}

impl Avro {
    /// `reader`: the reader's schema as JSON. `wanted`: its [`data_type`], or a part of it. Rows without a schema id
    /// were written with the reader's schema.
    pub fn new(reader: &str, wanted: DataType) -> Result<Self, String> {
        let reader = Schema::parse(reader).map_err(the_schema)?;
        let full = types::data_type(&reader).map_err(the_schema)?;
        types::check_part(&full, &wanted, &Path::ROOT)?;
        let writer = Writer::new(&reader, &reader, &wanted).map_err(the_schema)?;
        let column = Column::new(&wanted, &|_| ()).map_err(the_schema)?;
        let ids = HashMap::from([(None, 0)]);
        Ok(Avro { data_type: wanted, reader, column, writers: vec![writer], ids, checks_texts: false })
    }

    /// Appends rows to the column until the batch is full. Returns the faults, and whether one of them is a string that
    /// is not UTF-8.
    fn fill(&mut self, rows: &[Row<'_>]) -> (Vec<Fault>, bool) {
        // An error or a panic of the last call may have left rows.
        self.column.truncate(0);
        let (mut faults, mut not_text) = (Vec::new(), false);
        let mut budget = Budget::default();
        let (mut id, mut writer) = (None, &self.writers[0]);
        for (row, value) in rows.iter().enumerate() {
            let (schema, bytes) = match value {
                Row::Null => {
                    self.column.append_null();
                    continue;
                }
                Row::Bad => {
                    self.column.append_bad();
                    continue;
                }
                Row::Bytes { schema, bytes } => (*schema, *bytes),
            };
            if schema != id {
                let Some(&place) = self.ids.get(&schema) else {
                    let id = schema.unwrap_or_default();
                    faults.push(Fault { row, reason: format!("schema {id} is not known") });
                    self.column.append_bad();
                    continue;
                };
                (id, writer) = (schema, &self.writers[place]);
            }
            let spare = allowance(bytes.len());
            let mut cursor = Cursor::new(bytes, &writer.shared, self.checks_texts, spare);
            let mut read = cursor.fill(&writer.fill, &mut self.column).and_then(|()| cursor.end());
            if read.is_err() && !self.checks_texts {
                // The cause may be an invalid string before that place: read again with checks.
                self.column.truncate(row);
                cursor = Cursor::new(bytes, &writer.shared, true, spare);
                read = cursor.fill(&writer.fill, &mut self.column).and_then(|()| cursor.end());
            }
            match read {
                Ok(()) => {
                    if budget.is_used_up_by(bytes.len() + spare - cursor.spare) {
                        break;
                    }
                }
                Err(bad) => {
                    self.column.truncate(row);
                    self.column.append_bad();
                    not_text |= bad.kind == Kind::NotText;
                    faults.push(Fault { row, reason: bad.to_string() });
                }
            }
        }
        (faults, not_text)
    }
}

impl Format for Avro {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn row_weight(&self) -> usize {
        weight(&self.data_type)
    }

    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        if !self.checks_texts {
            let (faults, _) = self.fill(rows);
            // An error means that a string is not UTF-8 in a record without another fault. The code below finds it.
            if let Ok(array) = self.column.finish() {
                return Ok(Decoded { array, faults });
            }
        }
        self.checks_texts = true;
        let (faults, not_text) = self.fill(rows);
        self.checks_texts = not_text;
        Ok(Decoded { array: self.column.finish()?, faults })
    }

    fn needs_writers(&self) -> bool {
        true
    }

    fn add_writer(&mut self, id: u32, schema: &[u8]) -> Result<(), String> {
        let schema = std::str::from_utf8(schema).map_err(|_| the_schema("is not UTF-8".to_owned()))?;
        let schema = Schema::parse(schema).map_err(the_schema)?;
        let writer = Writer::new(&schema, &self.reader, &self.data_type)?;
        match self.ids.get(&Some(id)) {
            Some(&place) => self.writers[place] = writer,
            None => {
                self.ids.insert(Some(id), self.writers.len());
                self.writers.push(writer);
            }
        }
        Ok(())
    }
}
