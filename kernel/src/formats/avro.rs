//! Avro records, resolved from the schema they were written with to the reader's.
#![forbid(unsafe_code)]

use arrow_schema::{ArrowError, DataType};

use super::{Decoded, Format, Row};

/// The type of the column that a reader's schema (JSON) makes.
pub fn data_type(reader: &str) -> Result<DataType, String> {
    let _ = reader;
    Err("Avro is not built yet".to_owned())
}

pub struct Avro {
    data_type: DataType,
}

impl Avro {
    /// `reader`: the reader's schema as JSON; `wanted`: [`data_type`] of it, or a part of that. Rows without a schema id
    /// were written with the reader's schema.
    pub fn new(reader: &str, wanted: DataType) -> Result<Self, String> {
        let _ = (reader, &wanted);
        Err("Avro is not built yet".to_owned())
    }
}

impl Format for Avro {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn decode(&mut self, _rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        Err(ArrowError::NotYetImplemented("Avro".to_owned()))
    }

    fn needs_writers(&self) -> bool {
        true
    }
}
