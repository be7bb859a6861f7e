//! Writes Avro: columns by a schema.
//!
//! Fields of a record are found by name, in the order of the schema: first exactly, then in any case. A field without a
//! column is null or has its default; both are encoded once. Types must be those that reading returns for the schema,
//! or narrower numbers. Whatever does not fit is found here, before the first row, except for values: a null where the
//! schema has none, a text that is not a symbol, a decimal with too many digits.

use std::collections::HashMap;

use arrow_schema::DataType;

use super::defaults::long;
use super::encoder_plan::plan;
use super::schema::Schema;
use super::the_schema;
use super::types::member;
use crate::formats::encoder::{Encode, Input, Unwritable, Values, Written, range};

pub struct AvroEncoder {
    data_type: DataType,
    plan: Plan,
}

/// How the values of one column are written.
pub enum Plan {
    Null,
    Boolean,
    /// Int or long, from any integer or date.
    Integer,
    Float,
    Double,
    /// Text or binary with a length.
    Bytes,
    Fixed(usize),
    Enum(HashMap<Box<[u8]>, i64>),
    DecimalBytes {
        limit: i128,
        precision: u8,
    },
    DecimalFixed {
        limit: i128,
        precision: u8,
        size: usize,
    },
    Millis,
    Micros,
    Nanos,
    Record(Vec<Field>),
    Array(Box<Plan>),
    Map(Box<Plan>),
    /// The branches of null and of the value.
    Optional {
        null: i64,
        value: i64,
        plan: Box<Plan>,
    },
    /// One branch for each field of a struct.
    Members {
        null: Option<i64>,
        members: Vec<(i64, Plan)>,
    },
    /// The only branch that is written.
    Branch(i64, Box<Plan>),
}

pub enum Field {
    Column {
        name: String,
        index: usize,
        plan: Plan,
    },
    /// A null or a default.
    Constant(Vec<u8>),
}

impl AvroEncoder {
    /// The error names the field that does not fit.
    pub fn new(schema: &str, data_type: DataType) -> Result<Self, String> {
        let schema = Schema::parse(schema).map_err(the_schema)?;
        let plan = plan(&schema, &data_type).map_err(the_schema)?;
        Ok(AvroEncoder { data_type, plan })
    }
}

impl Encode for AvroEncoder {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    #[inline]
    fn write(&self, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        write(&self.plan, input, row, to)
    }
}

/// Writes a value, null or not.
#[inline]
fn write(plan: &Plan, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
    if let Plan::Optional { null, value, plan } = plan {
        if input.is_null(row) {
            long(*null, to);
            return Ok(());
        }
        long(*value, to);
        return present(plan, input, row, to);
    }
    if input.is_null(row) {
        return absent(plan, to);
    }
    present(plan, input, row, to)
}

/// Writes a null, for which the schema may have no place.
fn absent(plan: &Plan, to: &mut Vec<u8>) -> Written {
    match plan {
        Plan::Null => Ok(()),
        Plan::Members { null: Some(null), .. } => {
            long(*null, to);
            Ok(())
        }
        Plan::Branch(index, plan) if matches!(**plan, Plan::Null) => {
            long(*index, to);
            Ok(())
        }
        _ => Err(Unwritable::new("is null, and the Avro schema does not allow null here")),
    }
}

/// Writes a value that is not null.
#[inline]
fn present(plan: &Plan, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
    match (plan, &input.values) {
        (Plan::Integer, Values::Int64(values)) => long(values[row], to),
        (Plan::Integer, Values::Int32(values) | Values::Date(values)) => long(values[row].into(), to),
        (Plan::Integer, Values::Int16(values)) => long(values[row].into(), to),
        (Plan::Integer, Values::Int8(values)) => long(values[row].into(), to),
        (Plan::Bytes, Values::Text(values) | Values::Binary(values)) => sized(values.get(row), to),
        (Plan::Double, Values::Float64(values)) => to.extend_from_slice(&values[row].to_le_bytes()),
        (Plan::Double, Values::Float32(values)) => {
            to.extend_from_slice(&f64::from(values[row]).to_le_bytes());
        }
        (Plan::Float, Values::Float32(values)) => to.extend_from_slice(&values[row].to_le_bytes()),
        (Plan::Boolean, Values::Boolean(values)) => to.push(values.value(row).into()),
        (Plan::Micros, Values::Micros(values)) => long(values[row], to),
        (Plan::Millis, Values::Micros(values)) => long(values[row].div_euclid(1000), to),
        (Plan::Nanos, Values::Micros(values)) => {
            let nanos = values[row].checked_mul(1000);
            long(nanos.ok_or_else(|| Unwritable::new("is too far from 1970 for nanoseconds"))?, to);
        }
        (Plan::Record(fields), Values::Struct(columns)) => {
            for field in fields {
                match field {
                    Field::Column { name, index, plan } => {
                        write(plan, &columns[*index], row, to).map_err(|error| error.below(name))?;
                    }
                    Field::Constant(bytes) => to.extend_from_slice(bytes),
                }
            }
        }
        (Plan::Array(plan), Values::List(offsets, element)) => {
            let range = range(offsets, row);
            if !range.is_empty() {
                long(range.len() as i64, to);
            }
            for at in range {
                write(plan, element, at, to).map_err(|error| error.below("element"))?;
            }
            to.push(0);
        }
        (Plan::Map(plan), Values::Map(offsets, entries)) => {
            let range = range(offsets, row);
            if !range.is_empty() {
                long(range.len() as i64, to);
            }
            let Values::Text(keys) = &entries.0.values else { return Err(unplanned()) };
            for at in range {
                sized(keys.get(at), to);
                write(plan, &entries.1, at, to).map_err(|error| error.below("value"))?;
            }
            to.push(0);
        }
        (Plan::Enum(symbols), Values::Text(values)) => {
            let text = values.get(row);
            let index = symbols.get(text).ok_or_else(|| {
                let shown: String = String::from_utf8_lossy(text).chars().take(40).collect();
                Unwritable::new(format!("{shown:?} is not a symbol of the enum"))
            })?;
            long(*index, to);
        }
        (Plan::Fixed(size), Values::Binary(values)) => {
            let bytes = values.get(row);
            if bytes.len() != *size {
                return Err(Unwritable::new(format!("has {} bytes, not {size}", bytes.len())));
            }
            to.extend_from_slice(bytes);
        }
        (Plan::DecimalBytes { limit, precision }, Values::Decimal(values)) => {
            let bytes = digits(values[row], *limit, *precision)?;
            // The shortest form: no byte that only repeats the sign.
            let sign = if values[row] < 0 { 0xff } else { 0 };
            let spare = bytes.windows(2).take_while(|pair| pair[0] == sign && pair[1] >> 7 == sign >> 7);
            sized(&bytes[spare.count()..], to);
        }
        (Plan::DecimalFixed { limit, precision, size }, Values::Decimal(values)) => {
            let bytes = digits(values[row], *limit, *precision)?;
            let sign = if values[row] < 0 { 0xff } else { 0 };
            match size.checked_sub(bytes.len()) {
                Some(more) => {
                    to.resize(to.len() + more, sign);
                    to.extend_from_slice(&bytes);
                }
                // The schema's precision fits into its size, so these bytes only repeat the sign.
                None => to.extend_from_slice(&bytes[bytes.len() - size..]),
            }
        }
        (Plan::Members { members, .. }, Values::Struct(columns)) => {
            let mut present = columns.iter().enumerate().filter(|(_, column)| !column.is_null(row));
            let (Some((at, column)), None) = (present.next(), present.next()) else {
                return Err(Unwritable::new("must have exactly one member that is not null"));
            };
            let (branch, plan) = &members[at];
            long(*branch, to);
            write(plan, column, row, to).map_err(|error| error.below(&member(at)))?;
        }
        (Plan::Branch(index, plan), _) => {
            long(*index, to);
            return write(plan, input, row, to);
        }
        _ => return Err(unplanned()),
    }
    Ok(())
}

#[cold]
fn unplanned() -> Box<Unwritable> {
    Unwritable::new("the column has another type than its plan")
}

#[inline]
fn sized(bytes: &[u8], to: &mut Vec<u8>) {
    long(bytes.len() as i64, to);
    to.extend_from_slice(bytes);
}

fn digits(value: i128, limit: i128, precision: u8) -> Result<[u8; 16], Box<Unwritable>> {
    if value <= -limit || value >= limit {
        return Err(Unwritable::new(format!("has more than {precision} digits")));
    }
    Ok(value.to_be_bytes())
}
