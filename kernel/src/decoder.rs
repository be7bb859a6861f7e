//! Decodes a chunk: batch after batch, record after record, into columns.
//!
//! A chunk is the records field of one partition in one fetch response. Call [`Decoder::open`], then
//! [`Decoder::next_batch`] until it returns None. An error describes the batch at [`Decoder::position`]. The rows of
//! the batches before it are returned first, and calling again returns the same error again.
#![forbid(unsafe_code)]

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::batch::{self, Front, HEADER, Header};
use crate::codecs::Codecs;
use crate::columns::{Column, Columns};
use crate::error::{Corrupt, Fault, Reason};
use crate::record::Reader;
use crate::transactions::Transactions;

/// The number of records decoded between two checks of the output size.
const RUN: usize = 1024;

/// What to read from a chunk. `_kernel.pyi` explains the terms.
#[derive(Debug, Clone)]
pub struct Request {
    pub start: i64,
    pub stop: i64,
    pub high_watermark: i64,
    pub aligned: bool,
    pub cut: bool,
    /// (producer id, first offset); None reads uncommitted.
    pub aborted: Option<Vec<(i64, i64)>>,
    pub position: usize,
    /// An output batch ends at this many rows, at most [`crate::columns::MOST_ROWS`],
    pub batch_rows: usize,
    /// or soon after this many bytes.
    pub batch_bytes: usize,
}

/// The batch being read, and how far it has been read.
#[derive(Debug, Clone, Copy)]
struct Inside {
    header: Header,
    payload: Payload,
    /// The byte of the payload at which the next record begins.
    at: usize,
    /// The number of records not read yet.
    left: usize,
    /// Offset delta of the last record read.
    last_delta: i32,
}

#[derive(Debug, Clone, Copy)]
enum Payload {
    /// Uncompressed: a range of the chunk itself.
    Chunk(usize, usize),
    /// Decompressed: this many bytes at the front of the codecs' buffer.
    Buffer(usize),
}

/// Whether the output batch has room for more rows.
enum Step {
    Onward,
    Full,
}

/// How a run of records ended.
enum Run {
    /// All requested records were read.
    Read,
    /// The next record is at or past `stop`.
    Stop,
}

pub struct Decoder {
    columns: Columns,
    codecs: Codecs,
    request: Request,
    transactions: Option<Transactions>,
    inside: Option<Inside>,
    /// The lowest valid base offset of the next batch. None until the first batch was read.
    floor: Option<i64>,
    next_offset: i64,
    position: usize,
    legacy: bool,
    done: bool,
}

impl Decoder {
    pub fn new(topic: &str, partition: i32, columns: &[Column], decompression_limit: usize) -> Self {
        Decoder {
            columns: Columns::new(topic, partition, columns),
            codecs: Codecs::new(decompression_limit),
            request: Request {
                start: 0,
                stop: 0,
                high_watermark: 0,
                aligned: false,
                cut: false,
                aborted: None,
                position: 0,
                batch_rows: 1,
                batch_bytes: 1,
            },
            transactions: None,
            inside: None,
            floor: None,
            next_offset: 0,
            position: 0,
            legacy: false,
            done: true,
        }
    }

    pub fn schema(&self) -> SchemaRef {
        self.columns.schema()
    }

    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn legacy(&self) -> bool {
        self.legacy
    }

    pub fn open(&mut self, request: Request) {
        self.columns.truncate(0);
        self.codecs.trim();
        self.transactions = None;
        self.inside = None;
        self.floor = None;
        self.next_offset = request.start;
        self.position = request.position;
        self.legacy = false;
        self.done = false;
        self.request = request;
    }

    /// Closes the chunk and ignores the rest of it.
    pub fn close(&mut self) {
        self.columns.truncate(0);
        self.codecs.trim();
        self.inside = None;
        self.done = true;
    }

    /// The next rows of `data`, which must be the same bytes in every call after `open`. None at the end of the chunk.
    pub fn next_batch(&mut self, data: &[u8]) -> Result<Option<RecordBatch>, Corrupt> {
        while !self.done && !self.is_full() {
            let begun = (self.columns.rows(), self.inside);
            match self.step(data) {
                Ok(Step::Onward) => {}
                Ok(Step::Full) => break,
                Err(reason) => {
                    self.columns.truncate(begun.0);
                    self.inside = begun.1;
                    if begun.0 > 0 {
                        break; // // return the rows first; the next call finds the error again
                    }
                    return Err(self.corrupt(data, reason));
                }
            }
        }
        if self.columns.rows() == 0 {
            return Ok(None);
        }
        let batch = self.columns.finish();
        batch.map(Some).map_err(|error| self.corrupt(data, error.to_string().into()))
    }

    fn is_full(&self) -> bool {
        let rows = self.columns.rows();
        rows >= self.request.batch_rows || (rows > 0 && self.columns.bytes() >= self.request.batch_bytes)
    }

    #[cold]
    fn corrupt(&self, data: &[u8], reason: Reason) -> Corrupt {
        let here = data.get(self.position..).unwrap_or_default();
        let base_offset = batch::peek_base_offset(here).unwrap_or(self.next_offset);
        Corrupt { base_offset, position: self.position, reason }
    }

    /// Enters the batch at `position`, or continues to read the current batch.
    fn step(&mut self, data: &[u8]) -> Result<Step, Reason> {
        match self.inside {
            None => self.enter(data).map(|()| Step::Onward),
            Some(inside) => self.read_on(data, inside),
        }
    }

    fn enter(&mut self, data: &[u8]) -> Result<(), Reason> {
        let here = data.get(self.position..).unwrap_or_default();
        if here.is_empty() || self.next_offset >= self.request.stop {
            self.done = true;
            return Ok(());
        }
        let header = match batch::read_front(here, true)? {
            Front::Batch(header) => header,
            Front::Legacy(_) => {
                self.legacy = true;
                self.done = true;
                return Ok(());
            }
            Front::Incomplete if self.request.cut => {
                self.done = true;
                return Ok(());
            }
            Front::Incomplete => return Err("the batch is cut short".into()),
        };
        self.check_place(&header, here)?;
        if header.base_offset >= self.request.stop {
            // No record of the range is left: a gap extends to the end of the range.
            self.next_offset = self.request.stop;
            self.done = true;
            return Ok(());
        }
        if self.transactions.is_none() && self.request.aborted.is_some() {
            self.transactions = Some(self.replay(data)?);
        }
        let drop = match &mut self.transactions {
            // Control batches are read here, other batches below. Kafka does not compress control batches, so a
            // compressed one is read as if it were uncompressed, and rejected if that fails.
            Some(transactions) => transactions
                .observe(&header, here.get(HEADER..header.size).unwrap_or_default())
                .map_err(|fault| format!("control batch: {}", fault.reason()))?,
            None => false,
        };
        if drop || header.is_control() {
            self.leave(&header);
            return Ok(());
        }
        let raw = here.get(HEADER..header.size).unwrap_or_default();
        let payload = if header.codec() == 0 || raw.is_empty() {
            Payload::Chunk(self.position + HEADER, raw.len())
        } else {
            Payload::Buffer(self.codecs.decompress(header.codec(), raw)?)
        };
        let (Payload::Chunk(_, bytes) | Payload::Buffer(bytes)) = payload;
        batch::check_count(header.record_count, bytes)?;
        let left = header.record_count as usize;
        self.inside = Some(Inside { header, payload, at: 0, left, last_delta: -1 });
        Ok(())
    }

    /// Checks the header fields that no CRC covers: the batch must lie after the previous batch, before the next one
    /// and, if there is a gap before it, below the high watermark. Other clients silently lose records when one of
    /// these bits flips.
    fn check_place(&self, header: &Header, here: &[u8]) -> Result<(), Reason> {
        let Header { base_offset, last_offset, .. } = *header;
        let Request { start, high_watermark, aligned, .. } = self.request;
        match self.floor {
            Some(floor) if base_offset < floor => {
                return Err(format!("base offset is below {floor}, where the batch before it ended").into());
            }
            None if last_offset < start => {
                return Err(
                    format!("last offset {last_offset} is below {start}, the offset asked for").into()
                );
            }
            None if aligned && base_offset < start => {
                return Err(format!("base offset is below {start}, where the batch before it ended").into());
            }
            _ => {}
        }
        // A batch that begins where the previous one ended is in its place. The high watermark proves nothing about it:
        // a broker reads the high watermark before the records, so records appended in between lie above it.
        let follows = base_offset == self.floor.unwrap_or(start);
        if !follows && last_offset >= high_watermark {
            return Err(format!(
                "last offset {last_offset} is not below the high watermark {high_watermark}"
            )
            .into());
        }
        match here.get(header.size..).and_then(batch::peek_base_offset) {
            Some(next) if next <= last_offset => {
                Err(format!("last offset {last_offset} reaches past {next}, where the next batch begins")
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// The transactions that are aborted at `position`. If a chunk is opened in the middle, markers before that
    /// position may have ended some of the aborted transactions. Without those markers, a later committed transaction
    /// of the same producer would be dropped.
    fn replay(&self, data: &[u8]) -> Result<Transactions, Reason> {
        let mut transactions = Transactions::new(self.request.aborted.as_deref().unwrap_or_default());
        let mut before = data.get(..self.position).unwrap_or_default();
        while !before.is_empty() {
            let size = match batch::read_front(before, false)? {
                Front::Batch(header) => {
                    let payload = before.get(HEADER..header.size).unwrap_or_default();
                    transactions.observe(&header, payload).map_err(Fault::reason)?;
                    header.size
                }
                Front::Legacy(size) => size,
                Front::Incomplete => return Err("position is not where a batch begins".into()),
            };
            before = before.get(size..).unwrap_or_default();
        }
        Ok(transactions)
    }

    /// Moves past a finished batch, or stays at a batch that extends past `stop`.
    fn leave(&mut self, header: &Header) {
        self.inside = None;
        if header.last_offset >= self.request.stop {
            self.next_offset = self.request.stop;
            self.done = true;
        } else {
            // Below `stop`, so the sum does not overflow.
            self.next_offset = header.last_offset.saturating_add(1);
            self.position += header.size;
            self.floor = Some(self.next_offset);
        }
    }

    fn read_on(&mut self, data: &[u8], mut inside: Inside) -> Result<Step, Reason> {
        let header = inside.header;
        let payload = match inside.payload {
            Payload::Chunk(from, length) => {
                data.get(from..).and_then(|rest| rest.get(..length)).unwrap_or_default()
            }
            Payload::Buffer(length) => self.codecs.output(length),
        };
        let before = self.columns.rows();
        self.columns.reserve(inside.left.min(self.request.batch_rows.saturating_sub(before)));
        let mut reader = Reader::new(payload.get(inside.at..).unwrap_or_default());
        let mut stopped = false;
        while inside.left > 0 && !stopped {
            let rows = self.columns.rows();
            if rows >= self.request.batch_rows
                || (rows > 0 && self.columns.bytes() >= self.request.batch_bytes)
                // No column may outgrow its 32-bit offsets. A single batch never does.
                || (rows > 0 && self.columns.bytes() + reader.remaining() > i32::MAX as usize)
            {
                break;
            }
            let run = RUN.min(inside.left).min(self.request.batch_rows - rows);
            stopped = matches!(
                read_run(&mut self.columns, &self.request, &mut inside, &mut reader, run)
                    .map_err(Fault::reason)?,
                Run::Stop
            );
        }
        self.columns.push_types(header.is_log_append_time(), self.columns.rows() - before);
        if stopped || inside.left == 0 {
            if inside.left == 0 && reader.remaining() > 0 {
                return Err(Fault::TrailingBytes.reason().into());
            }
            self.leave(&header);
            return Ok(Step::Onward);
        }
        inside.at = payload.len() - reader.remaining();
        self.inside = Some(inside);
        self.next_offset = (header.base_offset + i64::from(inside.last_delta) + 1).max(self.next_offset);
        Ok(Step::Full)
    }
}

/// Reads up to `run` records. The hot loop.
fn read_run(
    columns: &mut Columns,
    request: &Request,
    inside: &mut Inside,
    reader: &mut Reader<'_>,
    run: usize,
) -> Result<Run, Fault> {
    let Header { base_offset, last_offset_delta, base_timestamp, max_timestamp, .. } = inside.header;
    let append_time = inside.header.is_log_append_time();
    for _ in 0..run {
        let record = reader.record()?;
        if record.offset_delta <= inside.last_delta || record.offset_delta > last_offset_delta {
            return Err(Fault::OffsetDelta);
        }
        // Cannot overflow: the last offset fits into 64 bits, and this delta is at most the last offset delta.
        let offset = base_offset + i64::from(record.offset_delta);
        if offset >= request.stop {
            return Ok(Run::Stop);
        }
        inside.last_delta = record.offset_delta;
        inside.left -= 1;
        if offset < request.start {
            record.headers.walk(|_, _| Ok(()))?;
            continue;
        }
        let milliseconds = if append_time {
            Some(max_timestamp)
        } else {
            base_timestamp.checked_add(record.timestamp_delta)
        };
        columns.push(offset, milliseconds, &record)?;
    }
    Ok(Run::Read)
}

#[cfg(test)]
mod tests;
