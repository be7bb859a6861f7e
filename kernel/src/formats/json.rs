//! JSON documents, by a schema: one pass over the bytes, straight into columns.
//!
//! ```text
//! rows ─> text     some documents in a row, each with a zero byte behind it
//!      ─> cursor   a place in that text: tokens, strings, numbers, skipping (sonic-rs)
//!      ─> values   one value into one column, by the rules of Spark's `from_json`
//!      ─> columns  Arrow, and back again if the document turns out to be none
//! ```
//!
//! Only what is wanted is read. The rest is skipped, and checked on the way: a document is JSON as a whole or not at all.
#![forbid(unsafe_code)]

mod cursor;
mod decimal;
mod escapes;
mod names;
#[cfg(test)]
mod tests;
mod text;
mod times;
mod types;
mod values;
mod words;

use std::borrow::Cow;

use arrow_schema::{ArrowError, DataType};

use self::cursor::{Cursor, Malformed, Scratch};
use self::names::Names;
use self::times::Zone;
use self::values::Reader;
use super::budget::Budget;
use super::{Decoded, Fault, Format, Row, columns};

type Column = columns::Column<Names>;

/// Documents are put together up to about this many bytes, which stay in the processor's first cache. SIMD then need not
/// stop short of a document's end, and UTF-8 is checked once for all of them.
const TEXT: usize = 8 << 10;

pub struct Json {
    data_type: DataType,
    zone: Zone,
    column: Column,
    text: Vec<u8>,
    /// The first and last byte of each document in `text`, or which row is none.
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
    /// `wanted`: the type of a document, which is a struct, a list or a map. `time_zone`: of dates and times that name none.
    /// An error names the part of the type that JSON cannot carry.
    pub fn new(wanted: DataType, time_zone: &str) -> Result<Self, String> {
        if !matches!(wanted, DataType::Struct(_) | DataType::List(_) | DataType::Map(..)) {
            return Err(format!("a JSON document must be a struct, an array or a map, not {wanted}"));
        }
        types::check(&wanted, "value")?;
        let column = column(&wanted)?;
        let zone = Zone::parse(time_zone).ok_or_else(|| format!("{time_zone} is no time zone"))?;
        let (text, documents, scratch) = (Vec::new(), Vec::new(), Scratch::default());
        Ok(Json { data_type: wanted, zone, column, text, documents, scratch })
    }

    /// Puts the first of `rows` into `text`, and says how many.
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
        self.text.resize(self.text.len() + Names::PADDING, 0);
        self.documents.len()
    }

    /// Reads the documents in `text`, which are the rows from `first` on, and says how many: not all, if they make too much
    /// for one batch. None, and nothing is done, if they are not UTF-8.
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
    Column::new(data_type, &|fields| Names::new(fields.iter().map(|field| field.name().as_str())))
}

/// One document. What follows it is not looked at, as in Spark.
#[inline(always)]
fn root(reader: &Reader<'_>, column: &mut Column, cursor: &mut Cursor<'_>) -> Result<bool, Malformed> {
    match (cursor.token(), column) {
        (b'{', Column::Struct(structs)) => reader.object(structs, cursor),
        (b'{', Column::List(lists)) => reader.array_of_one(lists, cursor),
        // Nothing but spaces is no document, and no fault.
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
            // The last call panicked, against all expectation.
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
