//! The rows that were written with one schema, on their way into a column.

use std::fmt;

use arrow_array::ArrayRef;
use arrow_avro::reader::{Decoder, DecoderMode, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use arrow_schema::ArrowError;

use super::resolve::Part;
use super::shape::Shape;
use super::walk::{Bad, Walk, Walker};

pub struct Column {
    walker: Walker,
    /// For arrow-avro: a record whose only field is the value.
    written: String,
    decoder: Decoder,
    shape: Shape,
    rows: usize,
    /// Whether arrow-avro may hold rows, or a part of one.
    dirty: bool,
}

/// Why a row was not taken.
pub enum Refusal {
    Bad(Box<Bad>),
    /// The walk found nothing wrong and arrow-avro did: then its columns may hold half a row, and the whole of
    /// [`Column`] has to begin anew.
    Broken(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Bad(bad) => bad.fmt(to),
            Refusal::Broken(reason) => to.write_str(reason),
        }
    }
}

impl Column {
    pub fn new(part: Part, shared: Vec<Walk>) -> Result<Self, ArrowError> {
        let written =
            format!(r#"{{"type":"record","name":"root","fields":[{{"name":"v","type":{}}}]}}"#, part.written);
        let decoder = decoder(&written)?;
        Ok(Column {
            walker: Walker::new(part.walk, shared),
            written,
            decoder,
            shape: part.shape,
            rows: 0,
            dirty: false,
        })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<(), Refusal> {
        let bytes = self.walker.walk(record).map_err(Refusal::Bad)?;
        self.dirty = true;
        match self.decoder.decode(bytes) {
            Ok(consumed) if consumed == bytes.len() => {
                self.rows += 1;
                Ok(())
            }
            Ok(consumed) => Err(Refusal::Broken(format!("{consumed} of {} bytes were read", bytes.len()))),
            Err(error) => Err(Refusal::Broken(error.to_string())),
        }
    }

    /// All rows since the last call.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.rows = 0;
        let batch = self.decoder.flush()?;
        self.dirty = false;
        match batch {
            Some(batch) => self.shape.apply(batch.column(0).clone()),
            None => Err(ArrowError::InvalidArgumentError("there are no rows".to_owned())),
        }
    }

    /// Forget all rows since the last `finish`.
    pub fn clear(&mut self) -> Result<(), ArrowError> {
        self.rows = 0;
        self.decoder = decoder(&self.written)?;
        self.dirty = false;
        Ok(())
    }
}

fn decoder(written: &str) -> Result<Decoder, ArrowError> {
    const ONLY: Fingerprint = Fingerprint::Id(0);
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(ONLY, AvroSchema::new(written.to_owned()))?;
    ReaderBuilder::new()
        .with_decoder_mode(DecoderMode::UnframedDatum)
        .with_writer_schema_store(store)
        .with_active_fingerprint(ONLY)
        .with_batch_size(usize::MAX)
        .build_decoder()
}
