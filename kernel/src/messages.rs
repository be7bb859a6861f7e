//! A batch as messages: reads its rows one by one and counts the rows handed out.
//!
//! No value is copied or converted before it is read: `ffi/message.rs` shows a row to Python as an object that holds a
//! row number and a reference to its [`Rows`].
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, BinaryArray, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_buffer::ScalarBuffer;

use crate::columns::Column;

/// The timestamp of a record without a timestamp, in milliseconds.
const NO_TIMESTAMP: i64 = -1;

/// The columns of a batch that a message shows. Topic and partition are the same for all rows and are not read from the
/// batch.
pub struct Rows {
    keys: BinaryArray,
    values: BinaryArray,
    offsets: ScalarBuffer<i64>,
    timestamps: TimestampMicrosecondArray,
    timestamp_types: ScalarBuffer<i32>,
    headers: ListArray,
    header_keys: StringArray,
    header_values: BinaryArray,
    /// Event times in milliseconds, if they differ from the timestamps.
    event_times: Option<Int64Array>,
    /// The offset after this batch. It may be above the last offset plus one: a gap belongs to the batch before it.
    end: i64,
}

impl Rows {
    const NEEDED: [Column; 6] = [
        Column::Key,
        Column::Value,
        Column::Offset,
        Column::Timestamp,
        Column::TimestampType,
        Column::Headers,
    ];

    /// `batch` must have the kernel's column types: it comes from [`crate::columns::Columns`], or
    /// [`crate::columns::checked`] verified its schema. The error names the missing columns.
    pub fn new(batch: &RecordBatch, end: i64) -> Result<Self, String> {
        let column = |column: Column| batch.column_by_name(column.name());
        let missing: Vec<_> =
            Self::NEEDED.into_iter().filter(|&name| column(name).is_none()).map(Column::name).collect();
        let [Some(keys), Some(values), Some(offsets), Some(timestamps), Some(timestamp_types), Some(headers)] =
            Self::NEEDED.map(column)
        else {
            return Err(format!("messages need the columns {}", missing.join(", ")));
        };
        let headers = headers.as_list::<i32>();
        let pairs = headers.values().as_struct();
        let header_keys = pairs.column(0).as_string::<i32>();
        for (name, nulls) in [
            ("offset", offsets.null_count()),
            ("timestampType", timestamp_types.null_count()),
            ("headers", pairs.null_count() + header_keys.null_count()),
        ] {
            if nulls > 0 {
                return Err(format!("column {name} has a null where a message has none"));
            }
        }
        let offsets = offsets.as_primitive::<Int64Type>().values();
        if let Some(&last) = offsets.last().filter(|&&last| last >= end) {
            return Err(format!("end is {end}, but the last row has offset {last}"));
        }
        Ok(Rows {
            keys: keys.as_binary::<i32>().clone(),
            values: values.as_binary::<i32>().clone(),
            offsets: offsets.clone(),
            timestamps: timestamps.as_primitive::<TimestampMicrosecondType>().clone(),
            timestamp_types: timestamp_types.as_primitive::<Int32Type>().values().clone(),
            headers: headers.clone(),
            header_keys: header_keys.clone(),
            header_values: pairs.column(1).as_binary::<i32>().clone(),
            event_times: None,
            end,
        })
    }

    /// The same rows with other event times, one per row. Fails if the numbers of rows and event times differ.
    pub fn with_event_times(self, times: Int64Array) -> Result<Self, String> {
        if times.len() != self.len() {
            return Err(format!("{} rows have {} event times", self.len(), times.len()));
        }
        Ok(Rows { event_times: Some(times), ..self })
    }

    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The offset of a row. For the row after the last one: the offset at which the next batch begins.
    #[inline]
    pub fn offset(&self, row: usize) -> i64 {
        self.offsets.get(row).copied().unwrap_or(self.end)
    }

    #[inline]
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        bytes(&self.keys, row)
    }

    #[inline]
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        bytes(&self.values, row)
    }

    /// Milliseconds since 1970.
    pub fn timestamp(&self, row: usize) -> Option<i64> {
        let milliseconds =
            self.timestamps.is_valid(row).then(|| self.timestamps.value(row).div_euclid(1000))?;
        (milliseconds != NO_TIMESTAMP).then_some(milliseconds)
    }

    /// Milliseconds since 1970. The timestamp, unless the rows have event times of their own.
    pub fn event_time(&self, row: usize) -> Option<i64> {
        match &self.event_times {
            None => self.timestamp(row),
            Some(times) => (row < times.len() && times.is_valid(row)).then(|| times.value(row)),
        }
    }

    pub fn timestamp_type(&self, row: usize) -> i32 {
        self.timestamp_types.get(row).copied().unwrap_or(-1)
    }

    pub fn headers(&self, row: usize) -> impl ExactSizeIterator<Item = (&str, Option<&[u8]>)> {
        let range = match self.headers.value_offsets().get(row..) {
            Some(&[from, to, ..]) if self.headers.is_valid(row) => from as usize..to as usize,
            _ => 0..0,
        };
        range.map(|header| (self.header_keys.value(header), bytes(&self.header_values, header)))
    }
}

#[inline]
fn bytes(array: &BinaryArray, row: usize) -> Option<&[u8]> {
    array.is_valid(row).then(|| array.value(row))
}

/// Counts the rows handed out, and whether iteration was stopped. One atomic number, so that [`Progress::stop`] happens
/// either before or after a [`Progress::claim`] of another thread.
pub struct Progress {
    next: AtomicUsize,
    rows: usize,
}

impl Progress {
    /// This bit of `next` is set by `stop`, which puts `next` past every row.
    const STOPPED: usize = 1 << (usize::BITS - 1);

    pub fn new(rows: usize) -> Self {
        Progress { next: AtomicUsize::new(0), rows }
    }

    /// Claims the next row. None if there is no row left or iteration was stopped.
    #[inline]
    pub fn claim(&self) -> Option<usize> {
        // Under the GIL a plain load and store would be enough, but it was not measurably faster.
        let after = |next| if next < self.rows { Some(next + 1) } else { None };
        self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, after).ok()
    }

    /// Stops iteration. Returns the number of rows handed out before the stop.
    pub fn stop(&self) -> usize {
        self.next.fetch_or(Self::STOPPED, Ordering::AcqRel) & !Self::STOPPED
    }

    pub fn handed_out(&self) -> usize {
        self.next.load(Ordering::Acquire) & !Self::STOPPED
    }

    /// The number of rows still to hand out.
    pub fn remaining(&self) -> usize {
        self.rows.saturating_sub(self.next.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests;
