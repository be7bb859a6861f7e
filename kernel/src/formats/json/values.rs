//! One JSON value into one column, by Spark's rules for values of another type.

use super::Column;
use super::cursor::{Cursor, Malformed, Number};
use super::decimal;
use super::field_names::FieldNames;
use super::text;
use super::times::{self, Zone};
use crate::formats::columns::{Bytes, Lists, Maps, Structs};

/// Whether the value became a row of the column. If not, it had a wrong type: it was skipped, the column has no new
/// row, and the cursor has noted it.
type Kept = bool;

pub struct Reader<'z> {
    pub zone: &'z Zone,
}

impl Reader<'_> {
    /// Reads the value that begins with `first`, which is consumed, into `column`.
    #[inline(always)]
    pub fn read(&self, column: &mut Column, first: u8, cursor: &mut Cursor<'_>) -> Result<Kept, Malformed> {
        if first == b'n' {
            cursor.literal("ull")?;
            column.append_null();
            return Ok(true);
        }
        match column {
            Column::String(strings) => {
                if first != b'"' {
                    return self.text(strings, first, cursor);
                }
                strings.append(cursor.string()?);
                Ok(true)
            }
            Column::Int64(longs) => {
                let kept = integer(first, "bigint", cursor)?;
                kept.map(|value| longs.append(value)).map_or(Ok(false), |()| Ok(true))
            }
            Column::Float64(doubles) => {
                let kept = double(first, "double", cursor)?;
                kept.map(|value| doubles.append(value)).map_or(Ok(false), |()| Ok(true))
            }
            Column::Struct(structs) if first == b'{' => self.object(structs, cursor),
            other => self.read_rarer(other, first, cursor),
        }
    }

    fn read_rarer(&self, column: &mut Column, first: u8, cursor: &mut Cursor<'_>) -> Result<Kept, Malformed> {
        let start = cursor.index() - 1;
        macro_rules! appended {
            ($column:ident, $value:expr) => {
                match $value {
                    Some(value) => {
                        $column.append(value);
                        Ok(true)
                    }
                    None => Ok(false),
                }
            };
        }
        macro_rules! narrowed {
            ($column:ident, $name:literal) => {
                match integer(first, $name, cursor)?.map(TryFrom::try_from) {
                    Some(Ok(value)) => {
                        $column.append(value);
                        Ok(true)
                    }
                    Some(Err(_)) => {
                        cursor.unfit(start, $name);
                        Ok(false)
                    }
                    None => Ok(false),
                }
            };
        }
        match column {
            Column::Int32(column) => narrowed!(column, "int"),
            Column::Int16(column) => narrowed!(column, "smallint"),
            // Up to 255, as in Jackson and so in Spark: a Java byte, signed or unsigned.
            Column::Int8(column) => match integer(first, "tinyint", cursor)? {
                Some(value @ -128..=255) => {
                    column.append(value as i8);
                    Ok(true)
                }
                Some(_) => {
                    cursor.unfit(start, "tinyint");
                    Ok(false)
                }
                None => Ok(false),
            },
            Column::Boolean(column) => match first {
                b't' => {
                    cursor.literal("rue")?;
                    column.append(true);
                    Ok(true)
                }
                b'f' => {
                    cursor.literal("alse")?;
                    column.append(false);
                    Ok(true)
                }
                _ => cursor.mismatch(first, "boolean"),
            },
            Column::Float32(column) => appended!(column, float(first, cursor)?),
            Column::Decimal(column, precision, scale) => {
                let (precision, scale) = (*precision, *scale);
                let value = match first {
                    b'-' | b'0'..=b'9' => {
                        decimal::parse(cursor.number_text(first)?.as_bytes(), precision, scale)
                    }
                    // As Spark: commas may group digits.
                    b'"' => {
                        let text: Vec<u8> =
                            cursor.string()?.iter().copied().filter(|&byte| byte != b',').collect();
                        decimal::parse(&text, precision, scale)
                    }
                    _ => return cursor.mismatch(first, &format!("decimal({precision},{scale})")),
                };
                if value.is_none() {
                    cursor.unfit(start, &format!("decimal({precision},{scale})"));
                }
                appended!(column, value)
            }
            Column::Date(column) => {
                if first != b'"' {
                    return cursor.mismatch(first, "date");
                }
                let value = times::date(cursor.string()?);
                if value.is_none() {
                    cursor.unfit(start, "date");
                }
                appended!(column, value)
            }
            Column::Timestamp(column) => {
                let value = match first {
                    b'"' => times::timestamp(cursor.string()?, self.zone),
                    // Seconds since 1970. Microseconds wrap at 64 bits, as in Spark.
                    b'-' | b'0'..=b'9' => {
                        let seconds = integer(first, "timestamp", cursor)?;
                        return appended!(column, seconds.map(|seconds| seconds.wrapping_mul(1_000_000)));
                    }
                    _ => return cursor.mismatch(first, "timestamp"),
                };
                if value.is_none() {
                    cursor.unfit(start, "timestamp");
                }
                appended!(column, value)
            }
            Column::TimestampNtz(column) => {
                if first != b'"' {
                    return cursor.mismatch(first, "timestamp_ntz");
                }
                let value = times::timestamp_ntz(cursor.string()?);
                if value.is_none() {
                    cursor.unfit(start, "timestamp_ntz");
                }
                appended!(column, value)
            }
            Column::Binary(column) => {
                if first != b'"' {
                    return cursor.mismatch(first, "binary");
                }
                if text::decode_base64(cursor.string()?, column.open()) {
                    column.end_row();
                    Ok(true)
                } else {
                    column.abandon();
                    cursor.unfit(start, "binary (base64)");
                    Ok(false)
                }
            }
            Column::List(column) if first == b'[' => self.array(column, cursor),
            Column::Map(column) if first == b'{' => self.map(column, cursor),
            Column::Null(rows) => {
                cursor.skip(first)?;
                *rows += 1;
                Ok(true)
            }
            Column::List(_) => cursor.mismatch(first, "array"),
            Column::Map(_) => cursor.mismatch(first, "map"),
            Column::Struct(_) => cursor.mismatch(first, "struct"),
            Column::String(_) | Column::Int64(_) | Column::Float64(_) => unreachable!("read before"),
        }
    }

    /// A value that is not a string, as text.
    #[cold]
    fn text(&self, strings: &mut Bytes, first: u8, cursor: &mut Cursor<'_>) -> Result<Kept, Malformed> {
        match text::compact(first, cursor, strings.open()) {
            Ok(()) => {
                strings.end_row();
                Ok(true)
            }
            Err(Malformed) => {
                strings.abandon();
                Err(Malformed)
            }
        }
    }

    /// An object, whose brace is consumed. A field of a wrong type is null, unless the object had that field before.
    #[inline]
    pub fn object(
        &self,
        structs: &mut Structs<FieldNames>,
        cursor: &mut Cursor<'_>,
    ) -> Result<Kept, Malformed> {
        cursor.enter()?;
        let row = structs.len();
        let mut next = 0;
        let mut filled = 0;
        let mut more = cursor.first_name()?;
        while more {
            more = match structs.names.field(&mut next, cursor)? {
                None => cursor.skip_to_name()?,
                Some(field) => {
                    let first = cursor.token();
                    let was_wrong = cursor.is_wrong();
                    let column = &mut structs.columns[field];
                    let again = column.len() > row;
                    if again {
                        pay_again(column, cursor)?;
                    }
                    if self.read(column, first, cursor)? {
                        if again {
                            column.remove(row, row + 1);
                        } else {
                            filled += 1;
                        }
                    }
                    if cursor.is_wrong() && !was_wrong {
                        cursor.wrong_within(format!(".{}", structs.fields[field].name()));
                    }
                    cursor.next_name()?
                }
            };
        }
        if filled < structs.columns.len() {
            for column in &mut structs.columns {
                if column.len() == row {
                    column.append_null();
                }
            }
        }
        structs.end_row();
        cursor.leave();
        Ok(true)
    }

    /// An array, whose bracket is consumed. One element of a wrong type drops the whole array.
    fn array(&self, lists: &mut Lists<FieldNames>, cursor: &mut Cursor<'_>) -> Result<Kept, Malformed> {
        cursor.enter()?;
        let mut kept = true;
        let mut first = cursor.token();
        let mut at = 0;
        if first != b']' {
            loop {
                if kept {
                    cursor.spend(lists.weight)?;
                    let was_wrong = cursor.is_wrong();
                    kept = self.read(&mut lists.element, first, cursor)?;
                    if cursor.is_wrong() && !was_wrong {
                        cursor.wrong_within(format!("[{at}]"));
                    }
                } else {
                    cursor.skip(first)?;
                }
                if !cursor.next_element()? {
                    break;
                }
                first = cursor.token();
                at += 1;
            }
        }
        cursor.leave();
        if kept {
            lists.end_row();
        } else {
            lists.abandon();
        }
        Ok(kept)
    }

    /// An object as the only element of an array of structs, which Spark allows at the top of a document.
    pub fn array_of_one(
        &self,
        lists: &mut Lists<FieldNames>,
        cursor: &mut Cursor<'_>,
    ) -> Result<Kept, Malformed> {
        let Column::Struct(structs) = &mut lists.element else { return cursor.mismatch(b'{', "array") };
        self.object(structs, cursor)?;
        lists.end_row();
        Ok(true)
    }

    /// An object as a map, whose brace is consumed: any name is allowed. One value of a wrong type drops the whole map.
    fn map(&self, maps: &mut Maps<FieldNames>, cursor: &mut Cursor<'_>) -> Result<Kept, Malformed> {
        cursor.enter()?;
        let mut kept = true;
        let mut more = cursor.first_name()?;
        while more {
            if kept {
                cursor.spend(maps.weight)?;
                maps.keys.append(cursor.string()?);
                cursor.colon()?;
                let first = cursor.token();
                let was_wrong = cursor.is_wrong();
                kept = self.read(&mut maps.values, first, cursor)?;
                if cursor.is_wrong() && !was_wrong {
                    cursor.wrong_within(".value".to_owned());
                }
            } else {
                cursor.string()?;
                cursor.colon()?;
                let first = cursor.token();
                cursor.skip(first)?;
            }
            more = cursor.next_name()?;
        }
        cursor.leave();
        if kept {
            maps.end_row();
        } else {
            maps.abandon();
        }
        Ok(kept)
    }
}

/// Counts a repeated field: for a struct, building a row that is dropped again takes time.
#[cold]
#[inline(never)]
fn pay_again(column: &Column, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
    cursor.spend(column.weight())
}

/// An integer of at most 64 bits. None for any other value, which is noted.
#[inline(always)]
fn integer(first: u8, wanted: &'static str, cursor: &mut Cursor<'_>) -> Result<Option<i64>, Malformed> {
    if !matches!(first, b'-' | b'0'..=b'9') {
        return cursor.mismatch(first, wanted).map(|_| None);
    }
    let start = cursor.index() - 1;
    match cursor.number(first)? {
        Number::Unsigned(number) if number <= i64::MAX as u64 => Ok(Some(number as i64)),
        Number::Negative(number) => Ok(Some(number)),
        _ if cursor.raw(start, cursor.index()) == b"-0" => Ok(Some(0)),
        _ => {
            cursor.unfit(start, wanted);
            Ok(None)
        }
    }
}

#[inline(always)]
fn double(first: u8, wanted: &'static str, cursor: &mut Cursor<'_>) -> Result<Option<f64>, Malformed> {
    if !matches!(first, b'-' | b'0'..=b'9') {
        return not_finite(first, wanted, cursor);
    }
    let start = cursor.index() - 1;
    Ok(Some(match cursor.number(first)? {
        Number::Unsigned(number) => number as f64,
        Number::Negative(number) => number as f64,
        Number::Float(number) if number != 0.0 => number,
        _ => unusual(cursor.raw(start, cursor.index())),
    }))
}

/// A zero, whose sign counts only in a float, or a number that a double cannot hold.
#[cold]
fn unusual(text: &[u8]) -> f64 {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
    if text == b"-0" { 0.0 } else { number }
}

fn float(first: u8, cursor: &mut Cursor<'_>) -> Result<Option<f32>, Malformed> {
    if !matches!(first, b'-' | b'0'..=b'9') {
        return Ok(not_finite(first, "float", cursor)?.map(|number| number as f32));
    }
    let text = cursor.number_text(first)?;
    let number: f32 = text.parse().unwrap_or(f32::NAN);
    Ok(Some(if text == "-0" { 0.0 } else { number }))
}

/// Infinities and NaN are strings in JSON.
#[cold]
fn not_finite(first: u8, wanted: &'static str, cursor: &mut Cursor<'_>) -> Result<Option<f64>, Malformed> {
    if first != b'"' {
        return cursor.mismatch(first, wanted).map(|_| None);
    }
    let start = cursor.index() - 1;
    let number = match cursor.string()? {
        b"NaN" => Some(f64::NAN),
        b"Infinity" | b"+Infinity" | b"+INF" => Some(f64::INFINITY),
        b"-Infinity" | b"-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    };
    if number.is_none() {
        cursor.unfit(start, wanted);
    }
    Ok(number)
}
