//! Google's Timestamp and Duration, as microseconds.
#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::types::{DurationMicrosecondType, TimestampMicrosecondType};

use super::bad_record::BadRecord;
use super::values::{Absence, Values};
use super::wire::{Broken, Cursor, END_GROUP, START_GROUP, VARINT};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeKind {
    Timestamp,
    Duration,
}

pub struct Times {
    kind: TimeKind,
    seconds_tag: u32,
    nanos_tag: u32,
    values: Values<i64>,
    /// Seconds and nanoseconds of the row that is being read. Kept apart, because a second occurrence of the field may
    /// set only one of them.
    open: Option<(i64, i32)>,
    /// Whether absent means zero, as in a map entry.
    always: bool,
}

impl Times {
    pub fn new(kind: TimeKind, seconds: u32, nanos: u32, always: bool) -> Self {
        Times {
            kind,
            seconds_tag: seconds << 3 | VARINT,
            nanos_tag: nanos << 3 | VARINT,
            values: Values::new(Absence::never()),
            open: None,
            always,
        }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub fn read(&mut self, tag: u32, cursor: &mut Cursor<'_>, depth: u32) -> Result<(), Broken> {
        if tag & 7 == START_GROUP {
            let depth = depth.checked_sub(1).ok_or(Broken::Deep)?;
            return self.read_parts(cursor, tag >> 3, depth);
        }
        let mut inner = Cursor::new(cursor.bytes()?);
        let depth = depth.checked_sub(1).ok_or(Broken::Deep)?;
        self.read_parts(&mut inner, 0, depth)
    }

    /// Reads up to the end, or up to the end of the group of this number.
    fn read_parts(&mut self, cursor: &mut Cursor<'_>, group: u32, depth: u32) -> Result<(), Broken> {
        let (mut seconds, mut nanos) = self.open.unwrap_or_default();
        let mut is_open = group != 0;
        while !cursor.is_empty() {
            let tag = cursor.tag()?;
            if tag == self.seconds_tag {
                seconds = cursor.varint()? as i64;
            } else if tag == self.nanos_tag {
                nanos = cursor.varint()? as i32;
            } else if tag == group << 3 | END_GROUP {
                is_open = false;
                break;
            } else {
                cursor.skip(tag, depth)?;
            }
        }
        if is_open {
            return Err(Broken::Group);
        }
        self.open = Some((seconds, nanos));
        Ok(())
    }

    pub fn fill(&mut self, row: usize) -> Result<(), BadRecord> {
        if self.values.len() > row {
            return Ok(());
        }
        let Some((seconds, nanos)) = self.open.take().or(self.always.then_some((0, 0))) else {
            self.values.push_null();
            return Ok(());
        };
        // Fractions of a microsecond are truncated, as in Spark.
        let micros =
            seconds.checked_mul(1_000_000).and_then(|whole| whole.checked_add(i64::from(nanos / 1000)));
        let micros =
            micros.ok_or_else(|| BadRecord::new(format!("{seconds} s are too many for microseconds")))?;
        self.values.set(row, micros, false);
        Ok(())
    }

    pub fn push_null(&mut self) {
        self.values.push_null();
    }

    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.open = None;
    }

    pub fn reserve(&mut self, rows: usize) {
        self.values.reserve(rows);
    }

    pub fn finish(&mut self) -> ArrayRef {
        match self.kind {
            TimeKind::Timestamp => {
                Arc::new(self.values.primitive::<TimestampMicrosecondType>().with_timezone("UTC"))
            }
            TimeKind::Duration => Arc::new(self.values.primitive::<DurationMicrosecondType>()),
        }
    }
}
