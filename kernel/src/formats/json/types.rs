//! Checks whether JSON can be read as a type.

use arrow_schema::{DataType, Fields, TimeUnit};

/// The error names the part of the type that JSON cannot represent. `path` is the name of the whole.
pub fn check(data_type: &DataType, path: &str) -> Result<(), String> {
    match data_type {
        DataType::Null | DataType::Boolean | DataType::Date32 | DataType::Utf8 | DataType::Binary => Ok(()),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Ok(()),
        DataType::Float32 | DataType::Float64 | DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(()),
        DataType::Decimal128(_, scale) if *scale >= 0 => Ok(()),
        DataType::Struct(fields) => {
            if is_variant(fields) {
                return Err(format!("{path}: a variant cannot be read from JSON; take a string"));
            }
            let mut fields = fields.iter();
            fields.try_for_each(|field| check(field.data_type(), &format!("{path}.{}", field.name())))
        }
        DataType::List(field) => check(field.data_type(), &format!("{path}.{}", field.name())),
        DataType::Map(entries, _) => {
            let entries = if let DataType::Struct(fields) = entries.data_type() { &fields[..] } else { &[] };
            let [key, value] = entries else {
                return Err(format!("{path}: a map has entries of keys and values"));
            };
            if key.data_type() != &DataType::Utf8 {
                return Err(format!(
                    "{path}: keys of a map must be strings in JSON, not {}",
                    key.data_type()
                ));
            }
            check(value.data_type(), &format!("{path}.{}", value.name()))
        }
        other => Err(format!("{path}: JSON cannot carry {other}")),
    }
}

/// PySpark's Arrow type of a variant: a struct of two binaries, marked in the metadata of one field.
fn is_variant(fields: &Fields) -> bool {
    fields.iter().any(|field| field.metadata().get("variant").is_some_and(|value| value == "true"))
}
