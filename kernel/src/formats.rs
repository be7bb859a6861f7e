//! Bytes of keys or values into one typed Arrow column, whose type is settled before the first record.
//!
//! ```text
//! Reader ─┬> framing     magic byte and schema id, cut off
//!         └> Format      text | json | avro | protobuf: a whole column at a time
//! ```
//!
//! A record that does not parse costs itself and no other: it becomes a row whose fields are null (a partly readable
//! JSON document keeps what was read), and a [`Fault`] says why. Types are, to the letter, those that PySpark makes of
//! a Spark schema: every field nullable, a list's child named `element`, timestamps in microseconds and `UTC`.
#![forbid(unsafe_code)]

pub mod avro;
mod budget;
mod columns;
pub mod framing;
pub mod json;
pub mod protobuf;
pub mod text;
mod varint;

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, BinaryArray};
use arrow_schema::{ArrowError, DataType};

use framing::Framing;

/// One record's key or value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row<'a> {
    /// No bytes at all, as in a tombstone: a null of the whole column.
    Null,
    /// Found bad before the format saw it: the same row as any that does not parse, without a fault of its own.
    Bad,
    /// `schema` is the writer's, where the bytes were framed.
    Bytes { schema: Option<u32>, bytes: &'a [u8] },
}

/// Why a row does not say what its bytes said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub row: usize,
    /// For people: what is wrong, and at which byte or field.
    pub reason: String,
}

pub struct Decoded {
    /// A row for each that went in, of the format's type; or for the first of them, one at least, if all together would
    /// take too much memory.
    pub array: ArrayRef,
    /// In the order of the rows, one per row at most.
    pub faults: Vec<Fault>,
}

/// What [`Reader::decode`] comes to.
pub enum Outcome {
    Decoded(Decoded),
    UnknownWriters(Vec<u32>),
}

/// Turns bytes into a column of one type.
pub trait Format: Send {
    fn data_type(&self) -> &DataType;

    /// Bytes of columns that a row takes whatever its bytes are.
    fn row_weight(&self) -> usize;

    /// One row for each of `rows`, or for the first of them. An error is ours, never that of a record.
    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError>;

    /// Whether rows cannot be read before the schema they were written with is known.
    fn needs_writers(&self) -> bool {
        false
    }

    /// The schema that rows of this id were written with. An error says why the reader's does not fit it.
    fn add_writer(&mut self, id: u32, schema: &[u8]) -> Result<(), String> {
        let _ = (id, schema);
        Ok(())
    }
}

/// A format behind its framing, with the schema ids it has met.
pub struct Reader {
    format: Box<dyn Format>,
    framing: Framing,
    /// Ids that are known, and why rows of some of them are refused.
    writers: HashMap<u32, Option<String>>,
    /// Whether all rows count as those of writer [`ANY`], whatever id they name.
    any: bool,
    most_rows: usize,
}

/// The writer of all rows, where nobody can tell one from another.
const ANY: u32 = 0;

impl Reader {
    pub fn new(format: Box<dyn Format>, framing: Framing) -> Self {
        let most_rows = budget::most_rows(format.row_weight());
        Reader { format, framing, writers: HashMap::new(), any: false, most_rows }
    }

    pub fn data_type(&self) -> &DataType {
        self.format.data_type()
    }

    pub fn add_writer(&mut self, id: u32, schema: &[u8]) -> Result<(), String> {
        self.format.add_writer(id, schema)?;
        self.writers.insert(id, None);
        Ok(())
    }

    /// The schema that all rows were written with, whatever their ids say.
    pub fn assume_writer(&mut self, schema: &[u8]) -> Result<(), String> {
        self.add_writer(ANY, schema)?;
        self.any = true;
        Ok(())
    }

    /// Rows of this id are bad, for this reason.
    pub fn refuse_writer(&mut self, id: u32, reason: String) {
        self.writers.insert(id, Some(reason));
    }

    /// Ids that were refused are unknown again.
    pub fn forget_refused(&mut self) {
        self.writers.retain(|_, refused| refused.is_none());
    }

    /// Decodes a column, or the first rows of it; or, if rows were written with schemas that are not known, says which,
    /// each once, the smallest first.
    pub fn decode(&mut self, values: &BinaryArray) -> Result<Outcome, ArrowError> {
        let needs_writers = self.framing != Framing::None && self.format.needs_writers();
        let mut refused = Vec::new();
        let mut unknown = Vec::new();
        let mut rows = Vec::with_capacity(values.len().min(self.most_rows));
        let mut known = None; // the last id, which is mostly the next one too
        for (row, value) in values.iter().take(self.most_rows).enumerate() {
            let framed = match value.map(|value| self.framing.cut(value)) {
                None => {
                    rows.push(Row::Null);
                    continue;
                }
                Some(Ok((Some(_), bytes))) if self.any => Ok((Some(ANY), bytes)),
                Some(framed) => framed,
            };
            let reason = match framed {
                Err(reason) => reason.to_owned(),
                Ok((_, bytes)) if bytes.len() > budget::LONGEST => budget::too_long(bytes.len()),
                Ok((schema, bytes)) if !needs_writers || (schema == known && known.is_some()) => {
                    rows.push(Row::Bytes { schema, bytes });
                    continue;
                }
                Ok((schema, bytes)) => match schema.map(|id| (id, self.writers.get(&id))) {
                    None | Some((_, Some(None))) => {
                        known = schema;
                        rows.push(Row::Bytes { schema, bytes });
                        continue;
                    }
                    Some((_, Some(Some(reason)))) => reason.clone(),
                    Some((id, None)) => {
                        if unknown.last() != Some(&id) {
                            unknown.push(id);
                        }
                        continue;
                    }
                },
            };
            refused.push(Fault { row, reason });
            rows.push(Row::Bad);
        }
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            return Ok(Outcome::UnknownWriters(unknown));
        }
        let mut decoded = self.format.decode(&rows)?;
        if !refused.is_empty() {
            let rows = decoded.array.len();
            refused.retain(|fault| fault.row < rows);
            decoded.faults.append(&mut refused);
            decoded.faults.sort_by_key(|fault| fault.row);
        }
        Ok(Outcome::Decoded(decoded))
    }
}

#[cfg(test)]
mod tests;
