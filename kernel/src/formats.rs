//! Decodes the bytes of keys or values into one typed Arrow column. Its type is known before the first record.
//!
//! ```text
//! Reader ─┬> framing     cuts off magic byte and schema id
//!         └> Format      text | json | avro | protobuf: decodes a whole column at a time
//! ```
//!
//! A record that does not parse does not affect the others. It becomes a row whose fields are null (a partly readable
//! JSON document keeps the fields that were read), and a [`Fault`] gives the reason. Types are exactly those that
//! PySpark derives from a Spark schema: every field nullable, a list's child named `element`, timestamps in
//! microseconds and `UTC`. [`encoder`] is the way back.
#![forbid(unsafe_code)]

pub mod avro;
mod budget;
mod columns;
pub mod encoder;
pub mod framing;
pub mod json;
pub mod protobuf;
pub mod text;
mod varint;

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, BinaryArray};
use arrow_schema::{ArrowError, DataType};

use framing::Framing;

/// The key or value of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row<'a> {
    /// No bytes, as in a tombstone: a null of the whole column.
    Null,
    /// Found bad before the format decodes it. The format appends the row of a bad record and reports no fault.
    Bad,
    /// `schema` is the id of the writer's schema, if the bytes were framed.
    Bytes { schema: Option<u32>, bytes: &'a [u8] },
}

/// Why a row does not hold the values of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub row: usize,
    /// A text for users: what is wrong, and at which byte or in which field.
    pub reason: String,
}

pub struct Decoded {
    /// One row per input row, of the format's type. If all rows together would take too much memory: only the first
    /// rows, at least one.
    pub array: ArrayRef,
    /// In row order, at most one per row.
    pub faults: Vec<Fault>,
}

/// The result of [`Reader::decode`].
pub enum Outcome {
    Decoded(Decoded),
    UnknownWriters(Vec<u32>),
}

/// Decodes bytes into a column of one type.
pub trait Format: Send {
    fn data_type(&self) -> &DataType;

    /// The number of column bytes that a row takes at least, whatever its record holds.
    fn row_weight(&self) -> usize;

    /// Decodes `rows`, or the first of them, into one row each. An error is an error of the kernel, never of a record.
    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError>;

    /// Whether rows can be decoded only if the writer's schema is known.
    fn needs_writers(&self) -> bool {
        false
    }

    /// Adds the writer's schema of this id. The error says why the reader's schema cannot read it.
    fn add_writer(&mut self, id: u32, schema: &[u8]) -> Result<(), String> {
        let _ = (id, schema);
        Ok(())
    }
}

/// A format, its framing, and the schema ids seen so far.
pub struct Reader {
    format: Box<dyn Format>,
    framing: Framing,
    /// The known ids. Rows of an id with a reason are refused.
    writers: HashMap<u32, Option<String>>,
    /// Whether all rows are decoded as rows of writer [`ANY`], whatever their id.
    any: bool,
    most_rows: usize,
}

/// The id of the writer that `assume_writer` sets.
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

    /// Sets the schema that all rows were written with, whatever their ids.
    pub fn assume_writer(&mut self, schema: &[u8]) -> Result<(), String> {
        self.add_writer(ANY, schema)?;
        self.any = true;
        Ok(())
    }

    /// Makes the rows of this id bad, with this reason.
    pub fn refuse_writer(&mut self, id: u32, reason: String) {
        self.writers.insert(id, Some(reason));
    }

    /// Makes refused ids unknown again.
    pub fn forget_refused(&mut self) {
        self.writers.retain(|_, refused| refused.is_none());
    }

    /// Decodes a column, or its first rows. If rows have unknown schema ids, decodes nothing and returns those ids,
    /// each once, in ascending order.
    pub fn decode(&mut self, values: &BinaryArray) -> Result<Outcome, ArrowError> {
        let needs_writers = self.framing != Framing::None && self.format.needs_writers();
        let mut refused = Vec::new();
        let mut unknown = Vec::new();
        let mut rows = Vec::with_capacity(values.len().min(self.most_rows));
        let mut known = None; // // the last id; most rows have the id of the row before
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
