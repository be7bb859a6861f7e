//! Protobuf messages, read by a descriptor.
//!
//! ```text
//! descriptors   .proto texts -> descriptor set -> message types         message -> Arrow type, as in Spark's
//! from_protobuf with default options plan          message and selected fields -> Record, a tree of columns record
//! reads the bytes of a message: each field into its column
//!   column      values | list | map | times | record: all can be truncated to a row
//! limits        rejects .proto texts that are too large for the compiler writer        schema registry: message
//! indexes, and whether the writer's fields can be read
//! ```
//!
//! `encoder` is the way back: columns into messages.
//!
//! Why not a library: messages of 92 bytes and 6 fields (int64, two strings, double, int32, bool), 16 Ki a batch, one
//! thread of a busy 2-core machine, no LTO, ns per record, best and median of 60:
//!
//! | this module, straight into columns | 83 | 96 |
//! | prost-reflect's DynamicMessage into Arrow's builders | 506 | 1245 |
//! | Google's Python package with its C core, lists into pyarrow | 1061 | 1117 |
//! | this module, one of the six fields selected | 44 | 47 |
//!
//! Intended differences from Spark's `from_protobuf`:
//!
//! - For a key that occurs twice in a map the last entry counts (Spark keeps both).
//! - A field with another wire type than declared, or with a number that a closed enum does not have, is an unknown
//!   field, as in Google's libraries (Spark rejects the record).
//! - A missing required field makes a record bad only if the field is selected.
#![forbid(unsafe_code)]

mod bad_record;
mod column;
mod descriptors;
mod encoder;
mod encoder_plan;
mod enum_names;
mod limits;
mod list;
mod map;
mod plan;
mod record;
#[cfg(test)]
mod tests;
mod times;
mod types;
mod values;
mod wire;
mod writer;

use std::sync::Arc;

use arrow_schema::{ArrowError, DataType};

use self::bad_record::BadRecord;
pub use self::descriptors::Proto;
use self::descriptors::guarded;
pub use self::encoder::ProtobufEncoder;
use self::record::Record;
use self::wire::{Cursor, MAX_DEPTH};
use self::writer::Writer;
use super::budget::Budget;
use super::{Decoded, Fault, Format, Row};

/// Compiles `.proto` texts and compiled files, by the names under which they import each other, into a descriptor set
/// with everything that `main` needs. Google's well-known types need not be given.
pub fn compile(main: &str, files: &[(String, impl Clone + Into<Proto>)]) -> Result<Vec<u8>, String> {
    let files = files.iter().map(|(name, file)| (name.clone(), file.clone().into())).collect();
    guarded(|| descriptors::compile(main, files))
}

/// The full name of the message to read. `message` is a full name or its last part; if it is empty, the first message
/// of the set's last file.
pub fn message_name(descriptors: &[u8], message: &str) -> Result<String, String> {
    guarded(|| Ok(descriptors::find(&descriptors::load(descriptors)?, message)?.full_name().to_owned()))
}

/// The main file of a set, serialized, and the names of its imports.
pub fn main_file(descriptors: &[u8]) -> Result<(Vec<u8>, Vec<String>), String> {
    guarded(|| {
        let main = descriptors::load(descriptors)?;
        Ok((main.encode_to_vec(), main.file_descriptor_proto().dependency.clone()))
    })
}

/// The column type of a message.
pub fn data_type(descriptors: &[u8], message: &str) -> Result<DataType, String> {
    guarded(|| types::message_type(&descriptors::find(&descriptors::load(descriptors)?, message)?))
}

pub struct Protobuf {
    data_type: DataType,
    record: Record,
    writers: Vec<(u32, Writer)>,
    /// Index of the writer of the last record. Most records have the writer of the record before.
    last: usize,
    /// Whether strings are checked one by one: true if the last batch had a string that is not UTF-8.
    checks_texts: bool,
}

impl Protobuf {
    /// `descriptors`: a serialized FileDescriptorSet. `message`: a full name. `wanted`: its [`data_type`], or a part of
    /// it. Rows with a schema id begin with Confluent's message indexes.
    pub fn new(descriptors: &[u8], message: &str, wanted: DataType) -> Result<Self, String> {
        let record = guarded(|| {
            let message = descriptors::find(&descriptors::load(descriptors)?, message)?;
            let DataType::Struct(fields) = &wanted else {
                return Err(format!(
                    "message {} makes a struct, but {wanted} is requested",
                    message.full_name()
                ));
            };
            plan::plan(&message, fields)
        })?;
        Ok(Protobuf { record, data_type: wanted, writers: Vec::new(), last: 0, checks_texts: false })
    }

    fn row(&mut self, schema: Option<u32>, bytes: &[u8], budget: &mut Budget) -> Result<(), BadRecord> {
        let bytes = match schema {
            None => bytes,
            Some(id) => {
                if self.writers.get(self.last).is_none_or(|(known, _)| *known != id) {
                    let found = self.writers.iter().position(|(known, _)| *known == id);
                    self.last = found.ok_or_else(|| BadRecord::new(format!("schema {id} is not known")))?;
                }
                self.writers[self.last].1.cut(bytes, self.record.message()).map_err(BadRecord::new)?
            }
        };
        self.record.read(&mut Cursor::new(bytes), 0, MAX_DEPTH, budget)?;
        self.record.close()
    }

    /// Appends rows to the columns until the batch is full. Returns the faults, and whether one of them is a string
    /// that is not UTF-8.
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
                // The cause may be an invalid string before that place: read again with checks.
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
            // An error means that a string is not UTF-8 in a record without another fault. The code below finds it.
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
