//! The encoder for Python: takes Arrow batches, returns record batches, raises `penstock.errors.UnwritableRecord`.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::arrow::{import_array, refused};
use super::message::new_bytes;
use crate::encoder::compressor::Compressed;
use crate::encoder::open_batch::{Finished, Producer};
use crate::encoder::row_numbers::RowNumbers;
use crate::encoder::rows::{COLUMNS, Rows};
use crate::encoder::unwritable::{Failure, Unwritable};
use crate::encoder::{Closed, Encoder as Core, Settings, split};
use crate::error::Reason;

/// Encodes Arrow batches into record batches, for the partitions of any number of topics.
#[pyclass(module = "penstock._kernel")]
pub struct Encoder {
    core: Core,
    compressed: Compressed,
    /// The names of the topics, by their numbers.
    topics: Vec<Py<PyString>>,
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (*, compression = "none", level = None, batch_size, max_record_size, buffer_size,
                        hashed = false, seed = 0))]
    fn new(
        compression: &str,
        level: Option<i32>,
        batch_size: usize,
        max_record_size: usize,
        buffer_size: usize,
        hashed: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let compressed = Compressed::new(compression, level).map_err(PyValueError::new_err)?;
        let settings = Settings { compressed, batch_size, max_record_size, buffer_size, hashed, seed };
        let core = Core::new(settings).map_err(PyRuntimeError::new_err)?;
        Ok(Encoder { core, compressed, topics: Vec::new() })
    }

    fn set_producer(&mut self, producer_id: i64, epoch: i16, transactional: bool) -> PyResult<()> {
        let producer = Producer { id: producer_id, epoch, transactional };
        self.core.set_producer(producer).map_err(PyValueError::new_err)
    }

    #[pyo3(signature = (topic, partitions, available = Vec::new()))]
    fn add_topic(
        &mut self,
        topic: &Bound<'_, PyString>,
        partitions: u32,
        available: Vec<u32>,
    ) -> PyResult<()> {
        let number =
            self.core.add_topic(topic.to_str()?, partitions, available).map_err(PyValueError::new_err)?;
        if number == self.topics.len() {
            self.topics.push(topic.clone().unbind());
        }
        Ok(())
    }

    #[pyo3(signature = (batch, *, topic, timestamp))]
    fn append(
        &mut self,
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        topic: Option<&str>,
        timestamp: i64,
    ) -> PyResult<Vec<EncodedBatch>> {
        if timestamp < 0 {
            return Err(PyValueError::new_err(format!("timestamp {timestamp} is before 1970")));
        }
        let number = match topic {
            None => None,
            Some(name) => Some(self.core.topic_number(name).ok_or_else(|| {
                PyValueError::new_err(format!("topic {name:?} was not added to the encoder"))
            })?),
        };
        let ((), data) = import_array(batch, |_| Ok(()))?;
        let core = &mut self.core;
        let encoded = py.detach(|| {
            let columns = data.columns(&COLUMNS).map_err(Refusal::Arrow)?;
            let columns = columns.iter().map(|(name, array)| (name.as_str(), array));
            let rows = Rows::new(data.len(), columns).map_err(Refusal::Columns)?;
            if number.is_none() && !rows.has_topics() {
                let reason = "column topic is missing, and no topic is given".to_owned();
                return Err(Refusal::Columns(reason));
            }
            let mut closed = Vec::new();
            core.append(&rows, number, timestamp, &mut closed).map_err(Refusal::Row)?;
            Ok(closed)
        });
        match encoded {
            Ok(closed) => self.batches(py, closed),
            Err(Refusal::Arrow(error)) => Err(refused(error)),
            Err(Refusal::Columns(reason)) => Err(PyValueError::new_err(reason)),
            Err(Refusal::Row(failure)) => Err(raised(py, failure)),
        }
    }

    fn flush(&mut self, py: Python<'_>) -> PyResult<Vec<EncodedBatch>> {
        let core = &mut self.core;
        let mut closed = Vec::new();
        py.detach(|| core.flush(&mut closed)).map_err(|failure| raised(py, failure))?;
        self.batches(py, closed)
    }

    #[getter]
    fn open_bytes(&self) -> usize {
        self.core.open_bytes()
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.core.rows()
    }

    #[getter]
    fn content_hash(&self) -> u64 {
        self.core.content_hash()
    }
}

impl Encoder {
    fn batches(&mut self, py: Python<'_>, closed: Vec<Closed>) -> PyResult<Vec<EncodedBatch>> {
        let mut batches = Vec::with_capacity(closed.len());
        for Closed { topic, partition, base_sequence, finished } in closed {
            let name =
                self.topics.get(topic).ok_or_else(|| PyRuntimeError::new_err("a topic has no name"))?;
            let place = (name.clone_ref(py), partition);
            let (batch, buffer) = EncodedBatch::new(py, place, base_sequence, finished, self.compressed)?;
            self.core.recycle(buffer);
            batches.push(batch);
        }
        Ok(batches)
    }
}

enum Refusal {
    Arrow(arrow_schema::ArrowError),
    Columns(String),
    Row(Failure),
}

fn raised(py: Python<'_>, failure: Failure) -> PyErr {
    let row = match failure {
        Failure::Unwritable(row) => row,
        Failure::Compression(reason) => return PyRuntimeError::new_err(reason),
    };
    let Unwritable { topic, partition, row, key, reason, hint } = *row;
    let key = key.map(|key| new_bytes(py, &key)).transpose();
    let made = key.and_then(|key| {
        let class = py.import("penstock.errors")?.getattr("UnwritableRecord")?;
        class.call1((topic, partition, row, key, reason.as_ref(), hint.as_ref()))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// A batch of the encoder cannot be read again: a defect of the kernel.
fn unreadable(reason: Reason) -> PyErr {
    PyRuntimeError::new_err(reason.into_owned())
}

/// One record batch, ready for a produce request.
#[pyclass(module = "penstock._kernel", frozen)]
pub struct EncodedBatch {
    #[pyo3(get)]
    topic: Py<PyString>,
    #[pyo3(get)]
    partition: u32,
    #[pyo3(get)]
    data: Py<PyBytes>,
    #[pyo3(get)]
    count: i32,
    #[pyo3(get)]
    base_sequence: i32,
    #[pyo3(get)]
    payload_bytes: usize,
    rows: RowNumbers,
    compressed: Compressed,
}

impl EncodedBatch {
    /// Returns the buffer of the batch, too.
    fn new(
        py: Python<'_>,
        place: (Py<PyString>, u32),
        base_sequence: i32,
        finished: Finished,
        compressed: Compressed,
    ) -> PyResult<(Self, Vec<u8>)> {
        let Finished { data, count, rows, payload_bytes } = finished;
        let batch = EncodedBatch {
            topic: place.0,
            partition: place.1,
            data: new_bytes(py, &data)?.cast_into::<PyBytes>()?.unbind(),
            count,
            base_sequence,
            payload_bytes,
            rows,
            compressed,
        };
        Ok((batch, data))
    }
}

#[pymethods]
impl EncodedBatch {
    #[getter]
    fn first_row(&self) -> u64 {
        self.rows.first()
    }

    #[getter]
    fn last_row(&self) -> u64 {
        self.rows.last()
    }

    fn split(&self, py: Python<'_>) -> PyResult<(EncodedBatch, EncodedBatch)> {
        if self.count < 2 {
            return Err(PyValueError::new_err("a batch of one record cannot be split"));
        }
        let data = self.data.as_bytes(py);
        let (first, last) =
            py.detach(|| split::split(data, self.compressed, &self.rows)).map_err(unreadable)?;
        let batch = |(finished, base_sequence): (Finished, i32)| {
            let place = (self.topic.clone_ref(py), self.partition);
            EncodedBatch::new(py, place, base_sequence, finished, self.compressed).map(|(batch, _)| batch)
        };
        Ok((batch(first)?, batch(last)?))
    }

    fn first_key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let data = self.data.as_bytes(py);
        let key = py.detach(|| split::first_key(data)).map_err(unreadable)?;
        key.map(|key| new_bytes(py, &key)).transpose()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let EncodedBatch { partition, count, rows, .. } = self;
        let (first_row, last_row) = (rows.first(), rows.last());
        let topic = self.topic.bind(py).to_string_lossy();
        format!("EncodedBatch({topic}-{partition}, {count} records of rows {first_row} to {last_row})")
    }
}
