//! Writes JSON by the rules of Spark's `to_json`.
//!
//! Numbers are those of Java's `toString`, binary values base64. NaN and infinity are strings. Timestamps are in
//! milliseconds: Spark's default format has three digits.

use arrow_schema::DataType;

use super::java_numbers;
use super::swar::special_bytes;
use super::time_texts::{self, Clock};
use super::times::Zone;
use crate::formats::encoder::{Encode, Input, Unwritable, Values, Written, range};

pub struct JsonEncoder {
    data_type: DataType,
    plan: Plan,
    skip_nulls: bool,
}

/// How the values of a column are written.
enum Plan {
    /// As their Arrow type says.
    Plain,
    Decimal(usize),
    Instant(Clock),
    LocalTime,
    Struct(Vec<Field>),
    List(Box<Plan>),
    /// Keys and values.
    Map(Box<(Plan, Plan)>),
}

struct Field {
    /// `,"name":`
    name: Vec<u8>,
    plan: Plan,
}

impl JsonEncoder {
    /// `data_type`: a struct, a list or a map. `time_zone`: of timestamps that have one; None is the zone of their type.
    /// `skip_nulls`: leave out null fields of structs. The error names the field that JSON cannot hold.
    pub fn new(data_type: DataType, time_zone: Option<&str>, skip_nulls: bool) -> Result<Self, String> {
        if !matches!(data_type, DataType::Struct(_) | DataType::List(_) | DataType::Map(..)) {
            return Err(format!("a JSON document must be a struct, an array or a map, not {data_type}"));
        }
        if let Some(id) = time_zone.filter(|id| Zone::parse(id).is_none()) {
            return Err(format!("{id} is not a time zone"));
        }
        let plan = plan(&data_type, time_zone, &mut Vec::new())?;
        Ok(JsonEncoder { data_type, plan, skip_nulls })
    }
}

fn plan(data_type: &DataType, zone: Option<&str>, path: &mut Vec<String>) -> Result<Plan, String> {
    let place = |path: &[String]| {
        if path.is_empty() { String::new() } else { format!("field {}: ", path.join(".")) }
    };
    let inner = |data_type: &DataType, name: &str, path: &mut Vec<String>| {
        path.push(name.to_owned());
        let made = plan(data_type, zone, path)?;
        path.pop();
        Ok::<_, String>(made)
    };
    Ok(match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Utf8
        | DataType::Binary => Plan::Plain,
        DataType::Decimal128(_, scale) if *scale >= 0 => Plan::Decimal(*scale as usize),
        DataType::Timestamp(_, None) => Plan::LocalTime,
        DataType::Timestamp(_, Some(own)) => {
            let id = zone.unwrap_or(own);
            let zone = Zone::parse(id).ok_or_else(|| format!("{}{id} is not a time zone", place(path)))?;
            Plan::Instant(Clock::new(zone))
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| {
                let plan = inner(field.data_type(), field.name(), path)?;
                let mut name = vec![b','];
                string(field.name().as_bytes(), &mut name);
                name.push(b':');
                Ok::<_, String>(Field { name, plan })
            });
            Plan::Struct(fields.collect::<Result<_, _>>()?)
        }
        DataType::List(element) => Plan::List(Box::new(inner(element.data_type(), "element", path)?)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(entry) if entry.len() == 2 => {
                let key = entry[0].data_type();
                if !matches!(key, DataType::Utf8 | DataType::Boolean | DataType::Decimal128(..))
                    && !key.is_integer()
                    && !key.is_floating()
                {
                    let what =
                        "a JSON object has texts as keys: map keys must be strings, numbers or booleans";
                    return Err(format!("{}{what}, not {key}", place(path)));
                }
                let key = inner(key, "key", path)?;
                Plan::Map(Box::new((key, inner(entry[1].data_type(), "value", path)?)))
            }
            _ => return Err(format!("{}{data_type} is not a map", place(path))),
        },
        other => return Err(format!("{}JSON cannot hold a column of type {other}", place(path))),
    })
}

impl Encode for JsonEncoder {
    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    #[inline]
    fn write(&self, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        self.value(&self.plan, input, row, to)
    }
}

impl JsonEncoder {
    /// Writes a value that is not null.
    #[inline]
    fn value(&self, plan: &Plan, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        match (&input.values, plan) {
            (Values::Text(texts), _) => string(texts.get(row), to),
            (Values::Int64(values), _) => integer(values[row], to),
            (Values::Int32(values), _) => integer(values[row], to),
            (Values::Float64(values), _) => {
                java_numbers::quoted_unless_finite(values[row].is_finite(), to, |to| {
                    java_numbers::double(values[row], to);
                });
            }
            (Values::Boolean(values), _) => boolean(values.value(row), to),
            (Values::Micros(values), Plan::Instant(clock)) => {
                to.push(b'"');
                clock.write(values[row], to);
                to.push(b'"');
            }
            (Values::Micros(values), _) => {
                to.push(b'"');
                time_texts::local_time(values[row], to);
                to.push(b'"');
            }
            (Values::Struct(columns), Plan::Struct(fields)) => self.object(fields, columns, row, to)?,
            (Values::List(offsets, element), Plan::List(plan)) => {
                to.push(b'[');
                for at in range(offsets, row) {
                    self.nullable(plan, element, at, to)?;
                    to.push(b',');
                }
                close(to, b'[', b']');
            }
            (Values::Map(offsets, entries), Plan::Map(plans)) => {
                to.push(b'{');
                for at in range(offsets, row) {
                    self.key(&plans.0, &entries.0, at, to)?;
                    to.push(b':');
                    self.nullable(&plans.1, &entries.1, at, to)?;
                    to.push(b',');
                }
                close(to, b'{', b'}');
            }
            (Values::Float32(values), _) => {
                java_numbers::quoted_unless_finite(values[row].is_finite(), to, |to| {
                    java_numbers::float(values[row], to);
                });
            }
            (Values::Int16(values), _) => integer(values[row], to),
            (Values::Int8(values), _) => integer(values[row], to),
            (Values::Decimal(values), Plan::Decimal(scale)) => java_numbers::decimal(values[row], *scale, to),
            (Values::Date(values), _) => {
                to.push(b'"');
                time_texts::date(i64::from(values[row]), to);
                to.push(b'"');
            }
            (Values::Binary(values), _) => {
                to.push(b'"');
                base64_simd::STANDARD.encode_append(values.get(row), to);
                to.push(b'"');
            }
            (Values::Null, _) => to.extend_from_slice(b"null"),
            _ => return Err(Unwritable::new("the column has another type than its plan")),
        }
        Ok(())
    }

    #[inline]
    fn object(&self, fields: &[Field], columns: &[Input<'_>], row: usize, to: &mut Vec<u8>) -> Written {
        let mut comma = 1; // the first name is written without it
        to.push(b'{');
        for (field, column) in fields.iter().zip(columns) {
            let null = column.is_null(row);
            if null && self.skip_nulls {
                continue;
            }
            to.extend_from_slice(&field.name[comma..]);
            comma = 0;
            if null {
                to.extend_from_slice(b"null");
            } else {
                self.value(&field.plan, column, row, to)?;
            }
        }
        to.push(b'}');
        Ok(())
    }

    #[inline]
    fn nullable(&self, plan: &Plan, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        if input.is_null(row) {
            to.extend_from_slice(b"null");
            return Ok(());
        }
        self.value(plan, input, row, to)
    }

    /// The key of a map: a text, whatever its type.
    fn key(&self, plan: &Plan, input: &Input<'_>, row: usize, to: &mut Vec<u8>) -> Written {
        if input.is_null(row) {
            return Err(Unwritable::new("the key of a map is null"));
        }
        let start = to.len();
        self.value(plan, input, row, to)?;
        if to[start] != b'"' {
            to.insert(start, b'"');
            to.push(b'"');
        }
        Ok(())
    }
}

/// Ends a list whose last element is followed by a comma.
#[inline]
fn close(to: &mut Vec<u8>, opened: u8, end: u8) {
    match to.last_mut() {
        Some(last) if *last != opened => *last = end,
        _ => to.push(end),
    }
}

fn integer(value: impl itoa::Integer, to: &mut Vec<u8>) {
    to.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn boolean(value: bool, to: &mut Vec<u8>) {
    to.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Writes a string in quotes, escaped as Jackson does.
#[inline]
fn string(text: &[u8], to: &mut Vec<u8>) {
    to.reserve(text.len() + 2);
    to.push(b'"');
    let mut rest = text;
    loop {
        let plain = plain_prefix(rest);
        to.extend_from_slice(&rest[..plain]);
        let Some(&special) = rest.get(plain) else { break };
        escape(special, to);
        rest = &rest[plain + 1..];
    }
    to.push(b'"');
}

/// The number of bytes before the first one that must be escaped.
#[inline]
fn plain_prefix(text: &[u8]) -> usize {
    let (words, rest) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    text.len() - rest.len() + rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len())
}

#[cold]
fn escape(byte: u8, to: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            to.extend_from_slice(b"\\u00");
            to.push(HEX[usize::from(byte >> 4)]);
            to.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    to.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> String {
        let mut to = Vec::new();
        string(text.as_bytes(), &mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_jackson_does() {
        assert_eq!(quoted(""), r#""""#);
        assert_eq!(quoted("plain text of more than eight bytes"), "\"plain text of more than eight bytes\"");
        assert_eq!(quoted("a\"b\\c/d"), r#""a\"b\\c/d""#);
        assert_eq!(
            quoted("\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}"),
            "\"\\u0000\\b\\t\\n\\u000B\\f\\r\\u001F\u{7f}\""
        );
        assert_eq!(quoted("grüße 😀 at the end\""), "\"grüße 😀 at the end\\\"\"");
    }

    #[test]
    fn keys_that_are_no_texts_and_types_that_json_lacks_are_refused() {
        let field = |data_type| DataType::Struct(vec![arrow_schema::Field::new("a", data_type, true)].into());
        let refused = |data_type| JsonEncoder::new(field(data_type), None, true).err().unwrap();
        assert!(refused(DataType::Duration(arrow_schema::TimeUnit::Microsecond)).starts_with("field a: "));
        let entry = vec![
            arrow_schema::Field::new("key", DataType::Date32, false),
            arrow_schema::Field::new("value", DataType::Int8, true),
        ];
        let entry = arrow_schema::Field::new("entries", DataType::Struct(entry.into()), false);
        assert!(refused(DataType::Map(entry.into(), false)).contains("strings, numbers or booleans"));
        assert!(JsonEncoder::new(DataType::Int8, None, true).is_err());
    }
}
