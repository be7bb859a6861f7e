//! UTF-8 text.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_schema::{ArrowError, DataType};

use super::{Decoded, Fault, Format, Row};

pub struct Text;

impl Format for Text {
    fn data_type(&self) -> &DataType {
        &DataType::Utf8
    }

    fn row_weight(&self) -> usize {
        size_of::<i32>() + 1
    }

    fn decode(&mut self, rows: &[Row<'_>]) -> Result<Decoded, ArrowError> {
        let bytes =
            rows.iter().map(|row| if let Row::Bytes { bytes, .. } = row { bytes.len() } else { 0 }).sum();
        let mut column = StringBuilder::with_capacity(rows.len(), bytes);
        let mut faults = Vec::new();
        for (row, value) in rows.iter().enumerate() {
            let Row::Bytes { bytes, .. } = value else {
                column.append_null();
                continue;
            };
            match std::str::from_utf8(bytes) {
                Ok(text) => column.append_value(text),
                Err(error) => {
                    column.append_null();
                    let reason = format!("is not UTF-8 from byte {} on", error.valid_up_to());
                    faults.push(Fault { row, reason });
                }
            }
        }
        Ok(Decoded { array: Arc::new(column.finish()), faults })
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, StringArray};

    use super::*;

    #[test]
    fn bytes_that_are_not_text_affect_only_their_row() {
        let value = |bytes| Row::Bytes { schema: None, bytes };
        let rows = [value(b"caf\xc3\xa9".as_slice()), value(b"caf\xc3"), Row::Null, value(b"")];
        let Decoded { array, faults } = Text.decode(&rows).expect("an array");
        let expected = StringArray::from(vec![Some("café"), None, None, Some("")]);
        assert_eq!(array.to_data(), expected.to_data());
        assert_eq!(faults.len(), 1);
        assert_eq!((faults[0].row, faults[0].reason.as_str()), (1, "is not UTF-8 from byte 3 on"));
    }
}
