//! How a written value gets into its column, as [`super::resolve`] decided: with promotions, enums, logical types and
//! unions.
//!
//! A record that fails in the middle leaves its first fields in their columns. The caller truncates the columns.

use std::sync::Arc;

use super::bad_record::{BadRecord, Read, bad, inside, not_text};
use super::cursor::Cursor;
use super::schema::Unit;
use super::skip::Skip;
use crate::formats::budget::TooWide;
use crate::formats::columns::{self, Lists, Maps, Structs};

pub type Column = columns::Column<()>;

#[derive(Debug)]
pub enum Fill {
    /// Takes no bytes. Any column type.
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Text,
    Bytes,
    /// An int or a long, into a wider number type.
    Widened(Width),
    FloatAsDouble,
    Timestamp(Width, Unit),
    Decimal(Box<Decimal>),
    Fixed(usize),
    /// The text of each symbol of the writer, or why the reader cannot read it. Shared by all fields of this type.
    Enum(Arc<Symbols>),
    Record(Box<Record>),
    List {
        item: Box<Fill>,
        is_empty: bool,
    },
    Map(Box<Fill>),
    Union(Vec<Fill>),
    /// A member of a struct that represents a union.
    Member(usize, Box<Fill>),
    /// A union whose member is not selected: all members are null.
    NoMember(Skip),
    /// A branch that the reader's schema does not have.
    Refused(String),
}

pub type Symbols = Vec<Result<Box<str>, String>>;

/// The written type of a number: the value of an int must not exceed 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    Int,
    Long,
}

#[derive(Debug)]
pub struct Decimal {
    /// The size of a fixed.
    pub size: Option<usize>,
    /// The smallest number with too many digits.
    pub limit: i128,
}

#[derive(Debug)]
pub struct Record {
    /// In the writer's order.
    pub fields: Vec<Field>,
    /// The name of each field.
    pub names: Vec<String>,
    /// Columns that the writer has no field for, with their defaults.
    pub missing: Vec<(usize, Default)>,
}

#[derive(Debug)]
pub enum Field {
    /// Goes into the column of this index.
    Wanted(usize, Fill),
    Unwanted(Skip),
}

/// A default of the reader's schema. Kept in Avro's encoding, so that there is only one way from Avro into columns.
#[derive(Debug)]
pub struct Default {
    pub bytes: Vec<u8>,
    pub fill: Fill,
    pub shared: Vec<Skip>,
    /// Bytes of columns that it takes.
    pub cost: usize,
}

impl Cursor<'_> {
    /// Reads frequent types inline in the loop over the fields, and all others in a call. In one function, the frequent
    /// ones would pay for the stack frame of the others.
    #[inline(always)]
    pub fn fill(&mut self, fill: &Fill, column: &mut Column) -> Read<()> {
        match (fill, column) {
            (Fill::Long, Column::Int64(longs)) => longs.append(self.long()?),
            (Fill::Text, Column::String(texts)) => {
                let (bytes, size) = self.sized()?;
                if self.checks_texts {
                    check(&bytes[..size])?;
                }
                texts.append_first(bytes, size);
            }
            (Fill::Double, Column::Float64(doubles)) => doubles.append(f64::from_le_bytes(self.array()?)),
            (Fill::Int, Column::Int32(ints)) => ints.append(self.int()?),
            (fill, column) => return self.fill_other(fill, column),
        }
        Ok(())
    }

    #[inline(never)]
    fn fill_other(&mut self, fill: &Fill, column: &mut Column) -> Read<()> {
        match (fill, column) {
            (Fill::Union(branches), column) => {
                let branch = self.branch(branches)?;
                return self.fill(branch, column);
            }
            (Fill::Null, column) => column.append_null(),
            (Fill::Record(record), Column::Struct(structs)) => return self.record(record, structs),
            (Fill::List { item, is_empty }, Column::List(lists)) => return self.list(item, *is_empty, lists),
            (Fill::Map(value), Column::Map(maps)) => return self.map(value, maps),
            (Fill::Boolean, Column::Boolean(booleans)) => match self.array()? {
                [byte @ (0 | 1)] => booleans.append(byte == 1),
                [byte] => return bad(format!("a boolean is 0 or 1, not {byte}")),
            },
            (Fill::Float, Column::Float32(floats)) => floats.append(f32::from_le_bytes(self.array()?)),
            (Fill::FloatAsDouble, Column::Float64(doubles)) => {
                doubles.append(f32::from_le_bytes(self.array()?).into());
            }
            (Fill::Bytes, Column::Binary(values)) => {
                let (bytes, size) = self.sized()?;
                values.append_first(bytes, size);
            }
            (Fill::Fixed(size), Column::Binary(values)) => values.append(self.take(*size)?),
            (Fill::Int, Column::Date(dates)) => dates.append(self.int()?),
            (Fill::Widened(width), Column::Int64(longs)) => longs.append(self.number(*width)?),
            (Fill::Widened(width), Column::Float32(floats)) => floats.append(self.number(*width)? as f32),
            (Fill::Widened(width), Column::Float64(doubles)) => doubles.append(self.number(*width)? as f64),
            (Fill::Timestamp(width, unit), Column::Timestamp(times) | Column::TimestampNtz(times)) => {
                let value = self.number(*width)?;
                times.append(match unit {
                    Unit::Micros => value,
                    Unit::Nanos => value.div_euclid(1000),
                    Unit::Millis => match value.checked_mul(1000) {
                        Some(micros) => micros,
                        None => return bad(format!("{value} is beyond what a timestamp can hold")),
                    },
                });
            }
            (Fill::Decimal(decimal), Column::Decimal(numbers, ..)) => {
                let digits = match decimal.size {
                    Some(size) => self.take(size)?,
                    None => self.bytes()?,
                };
                numbers.append(number(digits, decimal.limit)?);
            }
            (Fill::Enum(symbols), Column::String(texts)) => match &symbols[self.symbol(symbols.len())?] {
                Ok(text) => {
                    self.spend(text.len())?;
                    texts.append(text.as_bytes());
                }
                Err(reason) => return bad(reason.as_str()),
            },
            (Fill::Member(place, fill), Column::Struct(structs)) => {
                for (index, column) in structs.columns.iter_mut().enumerate() {
                    if index == *place {
                        self.fill(fill, column)?;
                    } else {
                        column.append_null();
                    }
                }
                structs.end_row();
            }
            (Fill::NoMember(skip), Column::Struct(structs)) => {
                self.skip(skip)?;
                structs.columns.iter_mut().for_each(Column::append_null);
                structs.end_row();
            }
            (Fill::Refused(reason), _) => return bad(reason.as_str()),
            (fill, _) => unreachable!("{fill:?} was resolved for a column of another type"),
        }
        Ok(())
    }

    #[inline(always)]
    fn number(&mut self, width: Width) -> Read<i64> {
        match width {
            Width::Int => self.int().map(i64::from),
            Width::Long => self.long(),
        }
    }

    #[inline(always)]
    pub fn record(&mut self, record: &Record, structs: &mut Structs<()>) -> Read<()> {
        for (index, field) in record.fields.iter().enumerate() {
            let read = match field {
                Field::Wanted(place, fill) => self.fill(fill, &mut structs.columns[*place]),
                Field::Unwanted(skip) => self.skip(skip),
            };
            if let Err(bad) = read {
                return Err(inside(bad, &record.names[index]));
            }
        }
        for (place, default) in &record.missing {
            self.default(default, &mut structs.columns[*place])?;
        }
        structs.end_row();
        Ok(())
    }

    fn default(&mut self, default: &Default, column: &mut Column) -> Read<()> {
        self.spend(default.cost)?;
        Cursor::new(&default.bytes, &default.shared, false, usize::MAX).fill(&default.fill, column)
    }

    fn list(&mut self, item: &Fill, is_empty: bool, lists: &mut Lists<()>) -> Read<()> {
        let mut total = 0;
        while let Some(count) = self.block(false, is_empty)? {
            self.spend(count.saturating_mul(lists.weight))?;
            for index in 0..count {
                if let Err(bad) = self.fill(item, &mut lists.element) {
                    return Err(inside(bad, &format!("[{}]", total + index)));
                }
            }
            total += count;
        }
        lists.end_row();
        Ok(())
    }

    fn map(&mut self, value: &Fill, maps: &mut Maps<()>) -> Read<()> {
        while let Some(count) = self.block(false, false)? {
            self.spend(count.saturating_mul(maps.weight))?;
            for _ in 0..count {
                let key = self.bytes()?;
                if self.checks_texts && std::str::from_utf8(key).is_err() {
                    return not_text("a key is not UTF-8");
                }
                maps.keys.append(key);
                if let Err(bad) = self.fill(value, &mut maps.values) {
                    return Err(at_key(bad, key));
                }
            }
        }
        maps.end_row();
        Ok(())
    }

    /// Call before the bytes are built: counts bytes of columns that do not come from the record.
    #[inline]
    fn spend(&mut self, bytes: usize) -> Read<()> {
        match self.spare.checked_sub(bytes) {
            Some(spare) => {
                self.spare = spare;
                Ok(())
            }
            None => bad(TooWide::REASON),
        }
    }
}

#[cold]
fn at_key(bad: Box<BadRecord>, key: &[u8]) -> Box<BadRecord> {
    let key: String = String::from_utf8_lossy(key).chars().take(40).collect();
    inside(bad, &key)
}

fn check(text: &[u8]) -> Read<()> {
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => not_text(format!("is not UTF-8 from byte {} on", error.valid_up_to())),
    }
}

/// A big-endian number in two's complement, if its absolute value is below `limit`.
fn number(digits: &[u8], limit: i128) -> Read<i128> {
    let Some(&first) = digits.first() else { return bad("is a decimal without a digit") };
    let sign = if first < 0x80 { 0u8 } else { 0xff };
    let extra = digits.len().saturating_sub(16);
    let mut number = [sign; 16];
    number[16 - (digits.len() - extra)..].copy_from_slice(&digits[extra..]);
    let fits = digits[..extra].iter().all(|&byte| byte == sign) && (number[0] ^ sign) < 0x80;
    let number = i128::from_be_bytes(number);
    if fits && -limit < number && number < limit {
        return Ok(number);
    }
    let precision = limit.ilog10();
    bad(format!("is a decimal of more than {precision} digits"))
}
