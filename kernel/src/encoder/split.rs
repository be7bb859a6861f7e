//! Reads a finished batch again: cuts it in halves, or finds its first key.
#![forbid(unsafe_code)]

use super::compressor::{Compressed, Compressor};
use super::open_batch::{Finished, OpenBatch, Producer};
use super::row_numbers::RowNumbers;
use super::sequence_after;
use crate::batch::{self, Front, HEADER, Header};
use crate::codecs::{Codecs, HIGHEST_LIMIT};
use crate::error::{Fault, Reason};
use crate::record::Reader;

const EPOCH_AT: usize = 51;
const SEQUENCE_AT: usize = 53;

/// Reads the records of one batch.
struct Records {
    header: Header,
    codecs: Codecs,
    /// Bytes in the buffer of `codecs`; None if the batch is not compressed.
    unpacked: Option<usize>,
}

impl Records {
    fn open(data: &[u8]) -> Result<Self, Reason> {
        let Front::Batch(header) = batch::read_front(data, false)? else {
            return Err("not a whole batch".into());
        };
        let mut codecs = Codecs::new(HIGHEST_LIMIT);
        let unpacked = match header.codec() {
            0 => None,
            codec => Some(codecs.decompress(codec, data.get(HEADER..).unwrap_or_default())?),
        };
        Ok(Records { header, codecs, unpacked })
    }

    fn reader<'a>(&'a self, data: &'a [u8]) -> Reader<'a> {
        Reader::new(match self.unpacked {
            Some(length) => self.codecs.output(length),
            None => data.get(HEADER..).unwrap_or_default(),
        })
    }
}

/// The key of the first record.
pub fn first_key(data: &[u8]) -> Result<Option<Vec<u8>>, Reason> {
    let records = Records::open(data)?;
    let record = records.reader(data).record().map_err(Fault::reason)?;
    Ok(record.key.map(<[u8]>::to_vec))
}

/// A half of a batch, and its base sequence.
pub type Half = (Finished, i32);

/// Cuts a batch in halves by records. `rows` are the rows of its records.
pub fn split(data: &[u8], compressed: Compressed, rows: &RowNumbers) -> Result<(Half, Half), Reason> {
    let records = Records::open(data)?;
    let header = records.header;
    let producer = Producer {
        id: header.producer_id,
        epoch: i16::from_be_bytes(field(data, EPOCH_AT)),
        transactional: header.is_transactional(),
    };
    let sequence = i32::from_be_bytes(field(data, SEQUENCE_AT));
    let mut reader = records.reader(data);
    let mut rows = rows.iter();
    let mut compressor = Compressor::new(compressed)?;
    let mut half = |count: i32, base_sequence: i32| {
        let mut open = OpenBatch::new(Vec::new());
        for row in rows.by_ref().take(count as usize) {
            let (timestamp_delta, content) = encoded_content(&mut reader).map_err(Fault::reason)?;
            open.push_encoded(row, header.base_timestamp.wrapping_add(timestamp_delta), content);
        }
        let (finished, _) = open.finish(&mut compressor, compressed.codec(), producer, base_sequence)?;
        Ok::<_, Reason>((finished, base_sequence))
    };
    let first_count = header.record_count / 2;
    let first = half(first_count, sequence)?;
    let last = half(header.record_count - first_count, sequence_after(sequence, first_count))?;
    Ok((first, last))
}

/// The timestamp delta of the next record, and its key, value and headers as they stand in the batch.
fn encoded_content<'a>(reader: &mut Reader<'a>) -> Result<(i64, &'a [u8]), Fault> {
    let length = reader.varint()?;
    let mut fields = Reader::new(reader.take(usize::try_from(length).map_err(|_| Fault::RecordLength)?)?);
    fields.take(1)?; // attributes
    let timestamp_delta = fields.varlong()?;
    fields.varint()?; // offset delta
    Ok((timestamp_delta, fields.take(fields.remaining())?))
}

fn field<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    data.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}
