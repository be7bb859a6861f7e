//! Protobuf messages, by a descriptor.
//!
//! ```text
//! descriptors   .proto texts -> descriptor set -> message
//! types         message -> Arrow type, as Spark's from_protobuf has it by default
//! plan          message and what is asked for -> Record, a tree of columns
//! record        the walk through a message's bytes: each field into its column
//!   column      values | list | map | moment | record: all can be cut back to a row
//! writer        schema registry: message indexes, and whether a writer's fields can be read
//! ```
//!
//! Why an own walk: messages of 92 bytes and 6 fields (int64, two strings, double, int32, bool), 16 Ki a batch, one thread
//! of a busy 2-core machine, no LTO, ns a record, best and median of 60:
//!
//! | this walk, straight into columns | 83 | 96 |
//! | prost-reflect's DynamicMessage into Arrow's builders | 506 | 1245 |
//! | Google's Python package, C underneath, lists into pyarrow | 1061 | 1117 |
//! | this walk, one of the six fields asked for | 44 | 47 |
//!
//! What differs from Spark's `from_protobuf`, on purpose: of a map's key the last entry counts (Spark keeps all); a field
//! of another wire type than declared, or with a number that a closed enum lacks, counts as unknown, as Google's
//! libraries have it (Spark calls the record malformed); a required field is missed only if it is asked for.
#![forbid(unsafe_code)]

mod bad;
mod column;
mod descriptors;
mod list;
mod map;
mod moment;
mod names;
mod plan;
mod record;
mod source;
#[cfg(test)]
mod tests;
mod types;
mod values;
mod wire;
mod writer;

use std::sync::Arc;

use arrow_schema::{ArrowError, DataType};

use self::bad::Bad;
pub use self::descriptors::Proto;
use self::descriptors::guarded;
use self::record::Record;
use self::wire::{Cursor, MAX_DEPTH};
use self::writer::Writer;
use super::budget::Budget;
use super::{Decoded, Fault, Format, Row};

/// Compiles `.proto` texts, and files that are compiled already, by the names they import each other by, into a descriptor
/// set with everything that `main` needs. Google's well-known types need not be given.
pub fn compile(main: &str, files: &[(String, impl Clone + Into<Proto>)]) -> Result<Vec<u8>, String> {
    let files = files.iter().map(|(name, file)| (name.clone(), file.clone().into())).collect();
    guarded(|| descriptors::compile(main, files))
}

/// The full name of the message to read: `message` itself, by its full or its last name; or, if it is empty, the first
/// message of the set's last file.
pub fn message_name(descriptors: &[u8], message: &str) -> Result<String, String> {
    guarded(|| Ok(descriptors::find(&descriptors::load(descriptors)?, message)?.full_name().to_owned()))
}

/// The type of the column that a message makes.
pub fn data_type(descriptors: &[u8], message: &str) -> Result<DataType, String> {
    guarded(|| types::message_type(&descriptors::find(&descriptors::load(descriptors)?, message)?))
}

pub struct Protobuf {
    data_type: DataType,
    record: Record,
    writers: Vec<(u32, Writer)>,
    /// Which of the writers the last record was of: mostly, so is the next.
    last: usize,
    /// Whether texts are checked one by one: the last batch had one that is none.
    checks_texts: bool,
}

impl Protobuf {
    /// `descriptors`: a serialized FileDescriptorSet; `message`: a full name; `wanted`: [`data_type`] of it, or a part of
    /// that. Rows with a schema id begin with Confluent's message indexes.
    pub fn new(descriptors: &[u8], message: &str, wanted: DataType) -> Result<Self, String> {
        let record = guarded(|| {
            let message = descriptors::find(&descriptors::load(descriptors)?, message)?;
            let DataType::Struct(fields) = &wanted else {
                return Err(format!(
                    "message {} makes a struct, and {wanted} is asked for",
                    message.full_name()
                ));
            };
            plan::plan(&message, fields)
        })?;
        Ok(Protobuf { record, data_type: wanted, writers: Vec::new(), last: 0, checks_texts: false })
    }

    fn row(&mut self, schema: Option<u32>, bytes: &[u8], budget: &mut Budget) -> Result<(), Bad> {
        let bytes = match schema {
            None => bytes,
            Some(id) => {
                if self.writers.get(self.last).is_none_or(|(known, _)| *known != id) {
                    let found = self.writers.iter().position(|(known, _)| *known == id);
                    self.last = found.ok_or_else(|| Bad::new(format!("schema {id} is not known")))?;
                }
                self.writers[self.last].1.cut(bytes, self.record.message()).map_err(Bad::new)?
            }
        };
        self.record.read(&mut Cursor::new(bytes), 0, MAX_DEPTH, budget)?;
        self.record.close()
    }

    /// Each row into the columns, as far as a batch goes; what comes back are those that were not to be read, and whether
    /// one of them is so for a text that is none.
    fn fill(&mut self, rows: &[Row<'_>]) -> (Vec<Fault>, bool) {
        let (mut faults, mut not_text) = (Vec::new(), false);
        let mut budget = Budget::default();
        self.record.truncate(0);
        self.record.reserve(rows.len());
        self.record.check_texts(self.checks_texts);
        for (row, value) in rows.iter().enumerate() {
            let (schema, bytes) = match value {
                Row::Null => {
                    self.record.push_null();
                    continue;
                }
                Row::Bad => {
                    self.record.push_empty();
                    continue;
                }
                Row::Bytes { schema, bytes } => (*schema, *bytes),
            };
            budget.begin_record(bytes.len());
            let mut read = self.row(schema, bytes, &mut budget);
            if read.is_err() && !self.checks_texts {
                // Perhaps for a text before that place.
                self.record.truncate(row);
                self.record.check_texts(true);
                budget.begin_record(bytes.len());
                read = self.row(schema, bytes, &mut budget);
                self.record.check_texts(false);
            }
            match read {
                Ok(()) => {
                    budget.end_record();
                    if budget.is_used_up() {
                        break;
                    }
                }
                Err(bad) => {
                    self.record.truncate(row);
                    self.record.push_empty();
                    not_text |= bad.is_not_text();
                    faults.push(Fault { row, reason: bad.reason() });
                }
            }
        }
        (faults, not_text)
    }
}

impl Format for Protobuf {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn row_weight(&self) -> usize {
        self.record.weight()
    }

    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        if !self.checks_texts {
            let (faults, _) = self.fill(rows);
            // An error is a text that is none, in a record without another fault: looked for below.
            if let Ok(array) = self.record.finish() {
                return Ok(Decoded { array: Arc::new(array), faults });
            }
        }
        self.checks_texts = true;
        let (faults, not_text) = self.fill(rows);
        self.checks_texts = not_text;
        Ok(Decoded { array: Arc::new(self.record.finish()?), faults })
    }

    fn needs_writers(&self) -> bool {
        true
    }

    fn add_writer(&mut self, id: u32, schema: &[u8]) -> Result<(), String> {
        let writer = guarded(|| Writer::new(descriptors::load(schema)?, &self.record))?;
        match self.writers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known = writer,
            None => self.writers.push((id, writer)),
        }
        Ok(())
    }
}
