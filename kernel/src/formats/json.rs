//! JSON documents with a schema: one pass over the bytes, straight into columns.
//!
//! ```text
//! rows ─> text     documents one after another, each followed by a zero byte
//!      ─> cursor   a position in that text: tokens, strings, numbers, skipping (sonic-rs)
//!      ─> values   one value into one column, by the rules of Spark's `from_json`
//!      ─> columns  Arrow; rows are dropped again if the document is malformed
//! ```
//!
//! Only selected fields are parsed into columns. The others are skipped, but checked: a malformed document is malformed
//! as a whole.
//!
//! `encoder` is the way back: columns into documents, by the rules of Spark's `to_json`, with `java_numbers` and
//! `time_texts`.
#![forbid(unsafe_code)]

mod cursor;
mod decimal;
mod encoder;
mod escapes;
mod field_names;
mod java_numbers;
mod swar;
#[cfg(test)]
mod tests;
mod text;
mod time_texts;
mod times;
mod types;
mod values;

use std::borrow::Cow;

use arrow_schema::{ArrowError, DataType};

pub use self::encoder::JsonEncoder;

use self::cursor::{Cursor, Malformed, Scratch};
use self::field_names::FieldNames;
use self::times::Zone;
use self::values::Reader;
use super::budget::Budget;
use super::{Decoded, Fault, Format, Row, columns};

type Column = columns::Column<FieldNames>;

/// Documents are collected up to about this many bytes, which stay in the first-level cache. Then SIMD need not stop
/// before the end of each document, and UTF-8 is checked once for all of them.
const TEXT: usize = 8 << 10;

pub struct Json {
    data_type: DataType,
    zone: Zone,
    column: Column,
    text: Vec<u8>,
    /// The range of each document in `text`, or the kind of row that has no document.
    documents: Vec<Document>,
    scratch: Scratch,
}

#[derive(Clone, Copy)]
enum Document {
    Null,
    Bad,
    At(usize, usize),
}

impl Json {
    /// `wanted`: the type of a document: a struct, a list or a map. `time_zone`: the zone of dates and times that name
    /// none. The error names the part of the type that JSON cannot represent.
    pub fn new(wanted: DataType, time_zone: &str) -> Result<Self, String> {
        if !matches!(wanted, DataType::Struct(_) | DataType::List(_) | DataType::Map(..)) {
            return Err(format!("a JSON document must be a struct, an array or a map, not {wanted}"));
        }
        types::check(&wanted, "value")?;
        let column = column(&wanted)?;
        let zone = Zone::parse(time_zone).ok_or_else(|| format!("{time_zone} is not a time zone"))?;
        let (text, documents, scratch) = (Vec::new(), Vec::new(), Scratch::default());
        Ok(Json { data_type: wanted, zone, column, text, documents, scratch })
    }

    /// Copies the first of `rows` into `text`. Returns their number.
    fn gather(&mut self, rows: &[Row<'_>], lossy: bool) -> usize {
        self.text.clear();
        self.documents.clear();
        for row in rows {
            self.documents.push(match row {
                Row::Null => Document::Null,
                Row::Bad => Document::Bad,
                Row::Bytes { bytes, .. } => {
                    let begin = self.text.len();
                    if begin > 0 && begin + bytes.len() > TEXT {
                        break;
                    }
                    match lossy.then(|| String::from_utf8_lossy(bytes)) {
                        Some(Cow::Owned(mended)) => self.text.extend_from_slice(mended.as_bytes()),
                        _ => self.text.extend_from_slice(bytes),
                    }
                    let end = self.text.len();
                    self.text.push(0);
                    Document::At(begin, end)
                }
            });
        }
        self.text.resize(self.text.len() + FieldNames::PADDING, 0);
        self.documents.len()
    }

    /// Reads the documents in `text`, the rows from `first` on. Returns the number of rows read: not all, if the batch
    /// is full. Returns None, and does nothing, if the text is not UTF-8.
    fn read(&mut self, first: usize, faults: &mut Vec<Fault>) -> Option<usize> {
        let mut cursor = Cursor::new(&self.text, &mut self.scratch);
        if !cursor.is_text() {
            return None;
        }
        let reader = Reader { zone: &self.zone };
        for (row, document) in (first..).zip(&self.documents) {
            let (begin, end) = match *document {
                Document::Null => {
                    self.column.append_null();
                    continue;
                }
                Document::Bad => {
                    self.column.append_bad();
                    continue;
                }
                Document::At(begin, end) => (begin, end),
            };
            cursor.open(begin, end);
            let outcome = root(&reader, &mut self.column, &mut cursor);
            if outcome == Ok(true) {
                cursor.close();
                if !cursor.is_wrong() {
                    if cursor.is_last() {
                        return Some(row + 1 - first);
                    }
                    continue;
                }
            } else {
                self.column.truncate(row);
                self.column.append_bad();
            }
            if let Some(reason) = cursor.reason() {
                faults.push(Fault { row, reason });
            }
            if cursor.is_last() {
                return Some(row + 1 - first);
            }
        }
        Some(self.documents.len())
    }
}

fn column(data_type: &DataType) -> Result<Column, String> {
    Column::new(data_type, &|fields| FieldNames::new(fields.iter().map(|field| field.name().as_str())))
}

/// Reads one document. The text after it is ignored, as in Spark.
#[inline(always)]
fn root(reader: &Reader<'_>, column: &mut Column, cursor: &mut Cursor<'_>) -> Result<bool, Malformed> {
    match (cursor.token(), column) {
        (b'{', Column::Struct(structs)) => reader.object(structs, cursor),
        (b'{', Column::List(lists)) => reader.array_of_one(lists, cursor),
        // White space alone is an empty document: null without a fault.
        (0, column) if cursor.at_end() => {
            column.append_null();
            Ok(true)
        }
        (first @ b'n', _) => cursor.mismatch(first, "document"),
        (first, column) => reader.read(column, first, cursor),
    }
}

impl Format for Json {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn row_weight(&self) -> usize {
        columns::weight(&self.data_type)
    }

    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        if self.column.len() > 0 {
            // The last call panicked, which is not expected.
            self.column = column(&self.data_type).map_err(ArrowError::SchemaError)?;
        }
        self.scratch.budget = Budget::default();
        let mut faults = Vec::new();
        let mut done = 0;
        while done < rows.len() {
            let count = self.gather(&rows[done..], false);
            let read = self.read(done, &mut faults).or_else(|| {
                self.gather(&rows[done..done + count], true);
                self.read(done, &mut faults)
            });
            done += read.unwrap_or(count);
            if self.scratch.budget.is_used_up() {
                break;
            }
        }
        Ok(Decoded { array: self.column.finish()?, faults })
    }
}
