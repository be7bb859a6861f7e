//! JSON documents, by a schema.
#![forbid(unsafe_code)]

use arrow_schema::{ArrowError, DataType};

use super::{Decoded, Format, Row};

pub struct Json {
    data_type: DataType,
}

impl Json {
    /// `wanted`: the type of a document, which is a struct, a list or a map. `time_zone`: of dates and times that name none.
    /// An error names the part of the type that JSON cannot carry.
    pub fn new(wanted: DataType, time_zone: &str) -> Result<Self, String> {
        let _ = (&wanted, time_zone);
        Err("JSON is not built yet".to_owned())
    }
}

impl Format for Json {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn decode(&mut self, _rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        Err(ArrowError::NotYetImplemented("JSON".to_owned()))
    }
}
