//! The walk over a chunk: batch after batch, record after record, into columns.
//!
//! A chunk is the records field of one partition in one fetch response. Its life: [`Decoder::open`], then
//! [`Decoder::next_batch`] until it returns None. An error says what is wrong with the batch at [`Decoder::position`];
//! rows of the batches before it are handed out first, and calling again gives the same error again.
#![forbid(unsafe_code)]

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::batch::{self, Front, HEADER, Header};
use crate::codecs::Codecs;
use crate::columns::{Column, Columns};
use crate::error::{Corrupt, Fault, Reason};
use crate::record::Reader;
use crate::txn::Transactions;

/// How many records are decoded between two looks at the size of the output.
const RUN: usize = 1024;

/// What to read from a chunk. See `_kernel.pyi` for the words.
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
    /// An output batch ends at so many rows, at most [`crate::columns::MOST_ROWS`],
    pub batch_rows: usize,
    /// or soon after so many bytes.
    pub batch_bytes: usize,
}

/// A batch that is being read, and how far.
#[derive(Debug, Clone, Copy)]
struct Inside {
    header: Header,
    payload: Payload,
    /// The next record's byte in the payload.
    at: usize,
    /// Records not read yet.
    left: usize,
    /// Offset delta of the record read last.
    last_delta: i32,
}

#[derive(Debug, Clone, Copy)]
enum Payload {
    /// Uncompressed: in the chunk itself, from a byte, so many.
    Chunk(usize, usize),
    /// Decompressed: so many bytes at the front of the codecs' buffer.
    Buffer(usize),
}

/// Whether the output batch has room for more.
enum Step {
    Onward,
    Full,
}

/// How a run of records ended.
enum Run {
    /// All that were asked for are read.
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
    /// No base offset may be below this; None until the first batch was read.
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

    /// Ends the chunk, whatever is left of it.
    pub fn close(&mut self) {
        self.columns.truncate(0);
        self.codecs.trim();
        self.inside = None;
        self.done = true;
    }

    /// The next rows of `data`, which must be the same bytes in every call after `open`. None at the end.
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
                        break; // the rows first; the next call meets the error again
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

    /// Enters the batch at `position`, or reads some more of the one it is in.
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
            // Nothing of the range is left: a gap reaches up to its end.
            self.next_offset = self.request.stop;
            self.done = true;
            return Ok(());
        }
        if self.transactions.is_none() && self.request.aborted.is_some() {
            self.transactions = Some(self.replay(data)?);
        }
        let drop = match &mut self.transactions {
            // A control batch is read here, and any other one below: Kafka does not compress control batches, so a
            // compressed one is read as it is and refused if that makes no sense.
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

    /// Checks by reason what no CRC covers: that the batch lies where it can lie, between the one before it, the one
    /// after it and the high watermark. Other clients lose records in silence when a bit flips there.
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
        // A batch that begins just where the one before it ended is in its place. The high watermark cannot judge it:
        // a broker reads that number before it reads the records, so those appended in between lie above it.
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

    /// The state of transactions at `position`. When a chunk is opened in the middle, markers before that place have
    /// ended transactions already: without them a committed one of the same producer would be dropped.
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

    /// Goes past a batch that is done with, or stays at one that reaches past `stop`.
    fn leave(&mut self, header: &Header) {
        self.inside = None;
        if header.last_offset >= self.request.stop {
            self.next_offset = self.request.stop;
            self.done = true;
        } else {
            // Below stop, so the sum fits.
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
                // No column may outgrow its 32-bit offsets; alone, a batch never does.
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
        // Cannot overflow: the last offset fits, and this delta is not above the last.
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
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};

    use crate::codecs::{self, DEFAULT_LIMIT};
    use crate::forge::{self, Batch};

    fn request(start: i64, stop: i64) -> Request {
        Request {
            start,
            stop,
            high_watermark: i64::MAX,
            aligned: false,
            cut: false,
            aborted: None,
            position: 0,
            batch_rows: 1000,
            batch_bytes: 1 << 20,
        }
    }

    fn decoder() -> Decoder {
        Decoder::new("t", 0, &Column::ALL, DEFAULT_LIMIT)
    }

    /// The offsets that come out.
    fn offsets(decoder: &mut Decoder, data: &[u8], request: Request) -> Result<Vec<i64>, Corrupt> {
        decoder.open(request);
        let mut found = Vec::new();
        while let Some(batch) = decoder.next_batch(data)? {
            assert!(batch.num_rows() > 0);
            found.extend(batch.column(4).as_primitive::<Int64Type>().values());
        }
        assert_eq!(decoder.next_batch(data), Ok(None));
        Ok(found)
    }

    fn read(data: &[u8], request: Request) -> Result<Vec<i64>, Corrupt> {
        offsets(&mut decoder(), data, request)
    }

    fn chunk(batches: &[Batch]) -> Vec<u8> {
        batches.iter().flat_map(Batch::encode).collect()
    }

    #[test]
    fn records_outside_the_range_are_left_out() {
        let data = chunk(&[Batch::counted(10, 5), Batch::counted(15, 5)]);
        assert_eq!(read(&data, request(10, 20)).unwrap(), (10..20).collect::<Vec<_>>());
        assert_eq!(read(&data, request(12, 17)).unwrap(), [12, 13, 14, 15, 16]);
        assert!(read(&data, request(12, 12)).unwrap().is_empty());
        assert!(read(&[], request(12, 20)).unwrap().is_empty());
    }

    #[test]
    fn a_batch_that_reaches_past_stop_can_be_opened_again_for_its_tail() {
        let batches = [Batch::counted(10, 5), Batch::counted(15, 5)];
        let (data, first) = (chunk(&batches), batches[0].encode().len());
        let mut decoder = decoder();
        assert_eq!(offsets(&mut decoder, &data, request(10, 17)).unwrap().len(), 7);
        assert_eq!((decoder.next_offset(), decoder.position()), (17, first));
        let rest = Request { position: first, ..request(17, 100) };
        assert_eq!(offsets(&mut decoder, &data, rest).unwrap(), [17, 18, 19]);
        assert_eq!((decoder.next_offset(), decoder.position()), (20, data.len()));
    }

    #[test]
    fn a_gap_up_to_stop_counts_as_read() {
        let data = chunk(&[Batch::counted(0, 2), Batch::counted(50, 2)]);
        let mut decoder = decoder();
        assert_eq!(offsets(&mut decoder, &data, request(0, 30)).unwrap(), [0, 1]);
        assert_eq!(decoder.next_offset(), 30);
    }

    #[test]
    fn output_batches_end_at_their_rows_even_inside_a_batch() {
        let data = chunk(&[Batch::counted(0, 25), Batch::counted(25, 5)]);
        let mut decoder = decoder();
        decoder.open(Request { batch_rows: 10, ..request(3, 28) });
        let mut seen = Vec::new();
        while let Some(batch) = decoder.next_batch(&data).unwrap() {
            let offsets = batch.column(4).as_primitive::<Int64Type>().values().to_vec();
            assert_eq!(decoder.next_offset(), offsets.last().unwrap() + 1);
            seen.push(offsets);
        }
        assert_eq!(seen, [(3..13).collect::<Vec<_>>(), (13..23).collect(), (23..28).collect()]);
    }

    #[test]
    fn output_batches_end_soon_after_their_bytes() {
        let data = chunk(&[Batch::counted(0, 3000), Batch::counted(3000, 10)]);
        let mut decoder = decoder();
        decoder.open(Request { batch_rows: 1 << 20, batch_bytes: 1, ..request(0, 3010) });
        let mut sizes = Vec::new();
        while let Some(batch) = decoder.next_batch(&data).unwrap() {
            sizes.push(batch.num_rows());
        }
        assert_eq!(sizes, [1024, 1024, 952, 10]);
    }

    #[test]
    fn every_codec_gives_the_same_rows() {
        let plain = Batch::counted(0, 300);
        let wanted = read(&plain.encode(), request(0, 300)).unwrap();
        for (codec, packed) in codecs::tests::all(&plain.payload) {
            let data = plain.clone().compressed(codec, packed).encode();
            let small = Request { batch_rows: 7, ..request(0, 300) };
            assert_eq!(read(&data, small).unwrap(), wanted, "codec {codec}");
        }
    }

    #[test]
    fn log_append_time_comes_from_the_batch() {
        let mut append = Batch::counted(2, 1);
        append.attributes |= 8;
        let data = chunk(&[Batch::counted(0, 2), append]);
        let mut decoder = decoder();
        decoder.open(request(0, 10));
        let batch = decoder.next_batch(&data).unwrap().unwrap();
        let times = batch.column(5).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(times.values(), &[1_000_000, 1_001_000, 2_000_000]);
        assert_eq!(batch.column(6).as_primitive::<Int32Type>().values(), &[0, 0, 1]);
    }

    #[test]
    fn a_timestamp_beyond_64_bits_is_null() {
        let mut batch = Batch::new(0, &[forge::record_with(i64::MAX, 0, None, None, &[])]);
        batch.base_timestamp = i64::MAX;
        let mut decoder = decoder();
        decoder.open(request(0, 1));
        let rows = decoder.next_batch(&batch.encode()).unwrap().unwrap();
        assert!(rows.column(5).is_null(0));
    }

    #[test]
    fn control_batches_are_passed_over_and_aborted_records_dropped() {
        let data = chunk(&[
            Batch::counted(0, 2).transactional(7),
            Batch::counted(2, 2),
            Batch::control(4, 7, 0),
            Batch::counted(5, 1).transactional(7),
            Batch::control(6, 7, 1),
        ]);
        let mut decoder = decoder();
        assert_eq!(offsets(&mut decoder, &data, request(0, 100)).unwrap(), [0, 1, 2, 3, 5]);
        assert_eq!((decoder.next_offset(), decoder.position()), (7, data.len()));
        let committed = Request { aborted: Some(vec![(7, 0)]), ..request(0, 100) };
        assert_eq!(read(&data, committed.clone()).unwrap(), [2, 3, 5]);
        // Opened behind the marker: the aborted transaction is over, the committed one must not be dropped.
        let behind = data.len() - chunk(&[Batch::counted(5, 1), Batch::control(6, 7, 1)]).len();
        let rest = Request { start: 5, position: behind, ..committed };
        assert_eq!(read(&data, rest).unwrap(), [5]);
    }

    #[test]
    fn an_incomplete_batch_at_the_end_is_ignored_only_if_the_response_was_cut() {
        let whole = Batch::counted(0, 2).encode();
        let data = [whole.clone(), Batch::counted(2, 2).encode()].concat();
        for length in whole.len() + 1..data.len() {
            let data = &data[..length];
            let mut decoder = decoder();
            let cut = Request { cut: true, ..request(0, 10) };
            assert_eq!(offsets(&mut decoder, data, cut).unwrap(), [0, 1]);
            assert_eq!((decoder.next_offset(), decoder.position()), (2, whole.len()));
            let error = read(data, request(0, 10)).unwrap_err();
            assert_eq!((error.position, error.reason.as_ref()), (whole.len(), "the batch is cut short"));
        }
    }

    #[test]
    fn batches_must_lie_between_their_neighbours_and_the_high_watermark() {
        let refused = |batches: &[Batch], request: Request, position: usize, word: &str| {
            let error = read(&chunk(batches), request).unwrap_err();
            assert!(error.reason.contains(word), "{error}");
            assert_eq!(error.position, position, "{error}");
        };
        let two = |second: i64| [Batch::counted(10, 5), Batch::counted(second, 5)];
        refused(&two(14), request(10, 20), 0, "next batch");
        refused(
            &two(16),
            Request { high_watermark: 20, ..request(10, 30) },
            two(0)[0].encode().len(),
            "watermark",
        );
        // Records appended while the broker answered: they follow without a gap, above the watermark it read before.
        assert!(read(&chunk(&two(15)), Request { high_watermark: 15, ..request(10, 20) }).is_ok());
        refused(&two(15), request(15, 20), 0, "offset asked for");
        refused(&two(15), Request { aligned: true, ..request(11, 20) }, 0, "where the batch before it ended");
        assert!(
            read(&chunk(&two(15)), Request { aligned: true, high_watermark: 20, ..request(10, 20) }).is_ok()
        );
    }

    #[test]
    fn rows_before_a_corrupt_batch_come_first_and_the_error_stays() {
        let mut bad = Batch::counted(5, 5);
        bad.payload.push(0);
        let (good, data) = (Batch::counted(0, 5).encode(), chunk(&[Batch::counted(0, 5), bad]));
        let mut decoder = decoder();
        decoder.open(request(0, 100));
        assert_eq!(decoder.next_batch(&data).unwrap().unwrap().num_rows(), 5);
        for _ in 0..2 {
            let error = decoder.next_batch(&data).unwrap_err();
            assert_eq!((error.base_offset, error.position), (5, good.len()));
            assert_eq!((decoder.next_offset(), decoder.position()), (5, good.len()));
        }
    }

    #[test]
    fn records_must_fill_the_batch_and_their_offsets_rise() {
        let refused = |records: &[Vec<u8>], last_offset_delta: i32, word: &str| {
            let mut batch = Batch::new(0, records);
            batch.last_offset_delta = last_offset_delta;
            let error = read(&batch.encode(), request(0, 100)).unwrap_err();
            assert!(error.reason.contains(word), "{error}");
        };
        let at = |delta: i32| forge::record(delta, b"v");
        refused(&[at(0), at(0)], 1, "rise");
        refused(&[at(1), at(0)], 1, "rise");
        refused(&[at(-1), at(0)], 1, "rise");
        refused(&[at(0), at(2)], 1, "exceed");
        let mut batch = Batch::new(0, &[at(0), at(1)]);
        batch.count = 1;
        assert!(read(&batch.encode(), request(0, 9)).unwrap_err().reason.contains("left after"));
        batch.count = 0;
        assert!(read(&batch.encode(), request(0, 9)).unwrap_err().reason.contains("left after"));
    }

    #[test]
    fn compacted_batches_have_gaps_and_may_be_empty() {
        let mut gaps = Batch::new(0, &[forge::record(3, b"a"), forge::record(7, b"b")]);
        gaps.last_offset_delta = 9;
        let mut empty = Batch::new(10, &[]);
        empty.last_offset_delta = 4;
        let mut decoder = decoder();
        let data = chunk(&[gaps, empty, Batch::counted(20, 1)]);
        assert_eq!(offsets(&mut decoder, &data, request(0, 100)).unwrap(), [3, 7, 20]);
        assert_eq!((decoder.next_offset(), decoder.position()), (21, data.len()));
    }

    #[test]
    fn message_sets_of_old_magic_are_left_where_they_begin() {
        let mut old = Batch::counted(3, 1).encode();
        old[16] = 1;
        let new = Batch::counted(0, 3).encode();
        let data = [new.clone(), old].concat();
        let mut decoder = decoder();
        assert_eq!(offsets(&mut decoder, &data, request(0, 100)).unwrap(), [0, 1, 2]);
        assert_eq!((decoder.legacy(), decoder.position(), decoder.next_offset()), (true, new.len(), 3));
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let payload = vec![0; 10 << 20];
        for (codec, packed) in codecs::tests::all(&payload) {
            let data = Batch::counted(0, 1).compressed(codec, packed).encode();
            let mut decoder = Decoder::new("t", 0, &[Column::Value], 1 << 20);
            let error = offsets(&mut decoder, &data, request(0, 1)).unwrap_err();
            assert!(error.reason.contains("decompression limit of 1048576"), "{error}");
        }
    }
}
