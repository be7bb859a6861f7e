//! Encodes one typed Arrow column into the bytes of keys or values: the way back of [`super::Format`].
//!
//! ```text
//! Arrow column ─> Input    borrowed buffers, a tree as the type
//!              ─> Encode   json | avro | protobuf: a plan, made once, that walks the tree row by row
//!              ─> Encoded  one binary column, and a Fault for each row that cannot be encoded
//! ```
//!
//! All bytes of a column go to one buffer: there is no allocation per row. Types are those that PySpark derives from a
//! Spark schema; the caller casts others.
#![forbid(unsafe_code)]

mod input;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};

use super::Fault;
pub use input::{Bytes, Input, Values, range};

/// The bytes that a row takes, as a first guess, and the most bytes to reserve for all: a column of nulls has any number
/// of rows.
const ROW: usize = 64;
const RESERVED: usize = 4 << 20;

pub struct Encoded {
    /// One row per input row. Null if the input is null, or if there is a fault.
    pub array: ArrayRef,
    /// In row order, at most one per row.
    pub faults: Vec<Fault>,
}

/// Why a row cannot be encoded: the reason, and the names of the fields around it, the innermost first.
#[derive(Debug)]
pub struct Unwritable {
    reason: String,
    path: Vec<String>,
}

impl Unwritable {
    #[cold]
    pub fn new(reason: impl Into<String>) -> Box<Self> {
        Box::new(Unwritable { reason: reason.into(), path: Vec::new() })
    }

    #[cold]
    pub fn below(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.path.push(name.to_owned());
        self
    }

    fn reason(mut self) -> String {
        if self.path.is_empty() {
            return self.reason;
        }
        self.path.reverse();
        format!("field {}: {}", self.path.join("."), self.reason)
    }
}

pub type Written = Result<(), Box<Unwritable>>;

/// Writes single rows of a column.
pub trait Encode: Send + Sync {
    fn data_type(&self) -> &DataType;

    /// Appends the bytes of a row that is not null.
    fn write(&self, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written;
}

/// A format, and the bytes before each value.
pub struct Encoder {
    format: Box<dyn Encode>,
    prefix: Vec<u8>,
}

impl Encoder {
    pub fn new(format: Box<dyn Encode>, prefix: Vec<u8>) -> Self {
        Encoder { format, prefix }
    }

    /// Encodes a column, which must have the type of the format.
    pub fn encode(&self, column: &dyn Array) -> Result<Encoded, ArrowError> {
        if column.data_type() != self.format.data_type() {
            let (found, wanted) = (column.data_type(), self.format.data_type());
            return Err(ArrowError::SchemaError(format!("the column is {found}, not {wanted}")));
        }
        let input = Input::new(column)?;
        let rows = column.len();
        let mut bytes = Vec::with_capacity((rows.saturating_mul(ROW)).min(RESERVED));
        let mut offsets = Vec::with_capacity((rows + 1).min(RESERVED));
        offsets.push(0);
        let mut valid = BooleanBufferBuilder::new(rows.min(RESERVED));
        let mut faults = Vec::new();
        for row in 0..rows {
            let start = bytes.len();
            let mut present = !input.is_null(row);
            if present {
                bytes.extend_from_slice(&self.prefix);
                if let Err(error) = self.format.write(&input, row, &mut bytes) {
                    bytes.truncate(start);
                    faults.push(Fault { row, reason: error.reason() });
                    present = false;
                }
            }
            valid.append(present);
            let end = i32::try_from(bytes.len()).map_err(|_| {
                ArrowError::InvalidArgumentError(format!(
                    "the values of {rows} rows take more than 2 GB: write smaller batches"
                ))
            })?;
            offsets.push(end);
        }
        let nulls = NullBuffer::new(valid.finish());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        let array = BinaryArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?;
        Ok(Encoded { array: Arc::new(array), faults })
    }
}
