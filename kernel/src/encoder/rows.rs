//! The columns of an Arrow batch as the encoder reads them.
#![forbid(unsafe_code)]

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int32Array, Int64Array, LargeBinaryArray, PrimitiveArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::unwritable::Fault;

/// The columns that the encoder knows. It ignores all others.
pub const COLUMNS: [&str; 6] = ["topic", "partition", "key", "value", "headers", "timestamp"];

/// Bytes or strings.
#[derive(Debug)]
enum ByteColumn {
    Null,
    Small(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
}

impl ByteColumn {
    fn new(name: &str, array: &ArrayRef) -> Result<Self, String> {
        Ok(match array.data_type() {
            DataType::Null => ByteColumn::Null,
            DataType::Binary => ByteColumn::Small(array.as_binary().clone()),
            DataType::LargeBinary => ByteColumn::Large(array.as_binary().clone()),
            DataType::BinaryView => ByteColumn::View(array.as_binary_view().clone()),
            DataType::Utf8 => ByteColumn::Small(array.as_string::<i32>().clone().into()),
            DataType::LargeUtf8 => ByteColumn::Large(array.as_string::<i64>().clone().into()),
            DataType::Utf8View => ByteColumn::View(array.as_string_view().clone().to_binary_view()),
            other => return Err(wrong_type(name, other, "binary or string")),
        })
    }

    #[inline(always)]
    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            ByteColumn::Null => None,
            ByteColumn::Small(array) => array.is_valid(row).then(|| array.value(row)),
            ByteColumn::Large(array) => array.is_valid(row).then(|| array.value(row)),
            ByteColumn::View(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }
}

/// Milliseconds since 1970.
#[derive(Debug)]
struct TimeColumn {
    values: Int64Array,
    /// Milliseconds in a unit of the values, or units in a millisecond.
    factor: i64,
    divisor: i64,
}

impl TimeColumn {
    fn new(array: &ArrayRef) -> Result<Option<Self>, String> {
        fn integers<T: arrow_array::ArrowPrimitiveType<Native = i64>>(array: &ArrayRef) -> Int64Array {
            let array: &PrimitiveArray<T> = array.as_primitive();
            Int64Array::new(array.values().clone(), array.nulls().cloned())
        }
        let (values, factor, divisor) = match array.data_type() {
            DataType::Null => return Ok(None),
            DataType::Int64 => (integers::<Int64Type>(array), 1, 1),
            DataType::Timestamp(TimeUnit::Second, _) => (integers::<TimestampSecondType>(array), 1000, 1),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                (integers::<TimestampMillisecondType>(array), 1, 1)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                (integers::<TimestampMicrosecondType>(array), 1, 1000)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                (integers::<TimestampNanosecondType>(array), 1, 1_000_000)
            }
            other => return Err(wrong_type("timestamp", other, "a timestamp, or int64 in milliseconds")),
        };
        Ok(Some(TimeColumn { values, factor, divisor }))
    }

    #[inline(always)]
    fn get(&self, row: usize) -> Result<Option<i64>, Fault> {
        if self.values.is_null(row) {
            return Ok(None);
        }
        match self.values.value(row).checked_mul(self.factor) {
            Some(value @ 0..) => Ok(Some(value / self.divisor)),
            _ => Err(Fault::Timestamp),
        }
    }
}

/// Lists of pairs of name and value.
#[derive(Debug)]
struct HeaderColumn {
    offsets: ListOffsets,
    nulls: Option<NullBuffer>,
    names: ByteColumn,
    /// Strings are UTF-8 already.
    names_are_text: bool,
    values: ByteColumn,
    pair_nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum ListOffsets {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

impl HeaderColumn {
    fn new(array: &ArrayRef) -> Result<Option<Self>, String> {
        const WANTED: &str = "a list of structs of key and value";
        let (offsets, nulls, pairs) = match array.data_type() {
            DataType::Null => return Ok(None),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (ListOffsets::Small(list.offsets().clone()), list.nulls().cloned(), list.values())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (ListOffsets::Large(list.offsets().clone()), list.nulls().cloned(), list.values())
            }
            other => return Err(wrong_type("headers", other, WANTED)),
        };
        let Some(pairs) = pairs.as_struct_opt() else {
            return Err(wrong_type("headers", array.data_type(), WANTED));
        };
        let field = |wanted: &str| {
            let at = pairs.fields().iter().position(|field| field.name().eq_ignore_ascii_case(wanted));
            at.and_then(|at| pairs.columns().get(at))
                .ok_or_else(|| wrong_type("headers", array.data_type(), WANTED))
        };
        let names = field("key")?;
        Ok(Some(HeaderColumn {
            offsets,
            nulls,
            names: ByteColumn::new("headers.key", names)?,
            names_are_text: !matches!(
                names.data_type(),
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView
            ),
            values: ByteColumn::new("headers.value", field("value")?)?,
            pair_nulls: pairs.nulls().cloned(),
        }))
    }

    fn get(&self, row: usize) -> Headers<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Headers::NONE;
        }
        let bounds = match &self.offsets {
            ListOffsets::Small(offsets) => {
                (offsets.get(row).map(|&at| at as usize), offsets.get(row + 1).map(|&at| at as usize))
            }
            ListOffsets::Large(offsets) => {
                (offsets.get(row).map(|&at| at as usize), offsets.get(row + 1).map(|&at| at as usize))
            }
        };
        match bounds {
            (Some(from), Some(to)) if from < to => Headers { column: Some(self), from, to },
            _ => Headers::NONE,
        }
    }
}

/// The headers of one row.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    column: Option<&'a HeaderColumn>,
    from: usize,
    to: usize,
}

impl<'a> Headers<'a> {
    const NONE: Headers<'static> = Headers { column: None, from: 0, to: 0 };

    pub fn count(&self) -> usize {
        self.to - self.from
    }

    /// Checks the names. Only then [`Headers::pairs`] yields all headers.
    pub fn check(&self) -> Result<(), Fault> {
        let Some(column) = self.column else { return Ok(()) };
        for at in self.from..self.to {
            if column.pair_nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                return Err(Fault::NullHeaderName);
            }
            let name = column.names.get(at).ok_or(Fault::NullHeaderName)?;
            if !column.names_are_text && std::str::from_utf8(name).is_err() {
                return Err(Fault::HeaderNameNotText);
            }
        }
        Ok(())
    }

    pub fn pairs(self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let column = self.column;
        (self.from..self.to).filter_map(move |at| {
            let column = column?;
            Some((column.names.get(at)?, column.values.get(at)))
        })
    }
}

/// The rows of one Arrow batch.
#[derive(Debug)]
pub struct Rows {
    length: usize,
    topic: Option<ByteColumn>,
    partition: Option<Int32Array>,
    key: ByteColumn,
    value: ByteColumn,
    headers: Option<HeaderColumn>,
    timestamp: Option<TimeColumn>,
}

impl Rows {
    /// `columns`: the columns of [`COLUMNS`] that the batch has, each with `length` rows.
    pub fn new<'a>(
        length: usize,
        columns: impl IntoIterator<Item = (&'a str, &'a ArrayRef)>,
    ) -> Result<Self, String> {
        let mut found: [Option<&ArrayRef>; 6] = [None; 6];
        for (name, array) in columns {
            let Some(place) =
                COLUMNS.iter().position(|known| *known == name).and_then(|at| found.get_mut(at))
            else {
                continue;
            };
            if place.replace(array).is_some() {
                return Err(format!("column {name} is there twice"));
            }
            if array.len() != length {
                return Err(format!("column {name} has {} rows, the batch has {length}", array.len()));
            }
        }
        let [topic, partition, key, value, headers, timestamp] = found;
        let value = value.ok_or("column value is missing")?;
        Ok(Rows {
            length,
            topic: topic.map(topic_column).transpose()?,
            partition: partition.map(partition_column).transpose()?.flatten(),
            key: key.map_or(Ok(ByteColumn::Null), |array| ByteColumn::new("key", array))?,
            value: ByteColumn::new("value", value)?,
            headers: headers.map(HeaderColumn::new).transpose()?.flatten(),
            timestamp: timestamp.map(TimeColumn::new).transpose()?.flatten(),
        })
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn has_topics(&self) -> bool {
        self.topic.is_some()
    }

    #[inline(always)]
    pub fn topic(&self, row: usize) -> Option<&[u8]> {
        self.topic.as_ref().and_then(|column| column.get(row))
    }

    #[inline(always)]
    pub fn partition(&self, row: usize) -> Option<i32> {
        self.partition.as_ref().and_then(|column| column.is_valid(row).then(|| column.value(row)))
    }

    #[inline(always)]
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        self.key.get(row)
    }

    #[inline(always)]
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        self.value.get(row)
    }

    #[inline(always)]
    pub fn headers(&self, row: usize) -> Headers<'_> {
        self.headers.as_ref().map_or(Headers::NONE, |column| column.get(row))
    }

    /// Milliseconds since 1970; None if the row has no timestamp.
    #[inline(always)]
    pub fn timestamp(&self, row: usize) -> Result<Option<i64>, Fault> {
        self.timestamp.as_ref().map_or(Ok(None), |column| column.get(row))
    }
}

fn topic_column(array: &ArrayRef) -> Result<ByteColumn, String> {
    match array.data_type() {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            ByteColumn::new("topic", array)
        }
        other => Err(wrong_type("topic", other, "string")),
    }
}

fn partition_column(array: &ArrayRef) -> Result<Option<Int32Array>, String> {
    match array.data_type() {
        DataType::Null => Ok(None),
        DataType::Int32 => Ok(Some(array.as_primitive::<Int32Type>().clone())),
        other => Err(wrong_type("partition", other, "int32")),
    }
}

fn wrong_type(name: &str, found: &DataType, wanted: &str) -> String {
    format!("column {name} is of type {found}, and must be {wanted}")
}
