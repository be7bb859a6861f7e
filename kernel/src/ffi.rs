//! The Python module: takes buffers, returns Arrow capsules or messages, raises `penstock.errors.CorruptBatch`. And takes
//! Arrow capsules, returns record batches, raises `penstock.errors.UnwritableRecord`.
//!
//! The only module with `unsafe` code. It is needed to read a Python buffer with the GIL released, to import an Arrow
//! array from another library (`ffi/arrow.rs`), and to define a Python class without PyO3's macro (`ffi/message.rs`).

mod arrow;
mod encoder;
mod format;
mod format_encoder;
mod message;
mod messages;

use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::Schema;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use self::arrow::{array_capsule, arrow_error, refused, schema_capsule, take_array};
use crate::codecs::{DEFAULT_LIMIT, HIGHEST_LIMIT};
use crate::columns::{Column, LONGEST_TOPIC, MOST_ROWS, checked};
use crate::decoder::{Decoder as Core, Request};
use crate::error::Corrupt;
use crate::scan::next_offset;

/// Default limits of an output batch, in rows and bytes. With records of 100 bytes, a Spark read of 3 M rows took 1.16
/// s with 4 Ki rows a batch, 1.18 s with 8 Ki, 1.25 s with 16 Ki, 1.29 s with 32 Ki and 1.24 s with 64 Ki. That was one
/// round each, on a machine whose times vary by more: a choice, not an optimum.
const BATCH_ROWS: usize = 8 << 10;
const BATCH_BYTES: usize = 8 << 20;
/// A smaller chunk is decoded with the GIL held: that takes microseconds, and getting the GIL back from another busy
/// thread can take milliseconds.
const SMALL_CHUNK: usize = 8 << 10;
/// The byte of a batch that holds its codec, and the codecs with high compression ratios: gzip and zstd.
const CODEC_AT: usize = 22;
const STRONG_CODECS: [u8; 2] = [1, 4];
/// Together with the highest decompression limit, this stays below Arrow's 32-bit offsets.
const MOST_BYTES: usize = 512 << 20;

/// Decodes the record batches of one topic partition, chunk by chunk.
#[pyclass(module = "penstock._kernel")]
struct Decoder {
    topic: String,
    partition: i32,
    core: Core,
    buffer: Option<PyBuffer<u8>>,
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (topic, partition, columns, *, decompression_limit = DEFAULT_LIMIT))]
    fn new(
        topic: String,
        partition: i32,
        columns: Vec<String>,
        decompression_limit: usize,
    ) -> PyResult<Self> {
        let mut wanted = Vec::with_capacity(columns.len());
        for name in &columns {
            let column = Column::by_name(name)
                .ok_or_else(|| PyValueError::new_err(format!("no column is called {name:?}")))?;
            if wanted.contains(&column) {
                return Err(PyValueError::new_err(format!("column {name:?} is named twice")));
            }
            wanted.push(column);
        }
        within("decompression_limit", decompression_limit, 1, HIGHEST_LIMIT)?;
        within("length of topic", topic.len(), 0, LONGEST_TOPIC)?;
        let core = Core::new(&topic, partition, &wanted, decompression_limit);
        Ok(Decoder { topic, partition, core, buffer: None })
    }

    #[pyo3(signature = (data, *, start, stop, high_watermark, aligned, cut, aborted = None, position = 0,
                        batch_rows = BATCH_ROWS, batch_bytes = BATCH_BYTES))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python")]
    fn open(
        &mut self,
        data: PyBuffer<u8>,
        start: i64,
        stop: i64,
        high_watermark: i64,
        aligned: bool,
        cut: bool,
        aborted: Option<Vec<(i64, i64)>>,
        position: usize,
        batch_rows: usize,
        batch_bytes: usize,
    ) -> PyResult<()> {
        if !data.is_c_contiguous() {
            return Err(PyValueError::new_err("data must be contiguous"));
        }
        within("position", position, 0, data.len_bytes())?;
        within("batch_rows", batch_rows, 1, MOST_ROWS)?;
        within("batch_bytes", batch_bytes, 1, MOST_BYTES)?;
        if start < 0 || stop < start {
            return Err(PyValueError::new_err(format!("[{start}, {stop}) is not a range of offsets")));
        }
        let request =
            Request { start, stop, high_watermark, aligned, cut, aborted, position, batch_rows, batch_bytes };
        self.core.open(request);
        self.buffer = Some(data);
        Ok(())
    }

    fn next_batch(&mut self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let Some(buffer) = &self.buffer else { return Ok(None) };
        let data = bytes_of(buffer);
        let core = &mut self.core;
        let decoded =
            if takes_no_time(data) { core.next_batch(data) } else { py.detach(|| core.next_batch(data)) };
        match decoded {
            Ok(Some(batch)) => Ok(Some(Batch { batch })),
            Ok(None) => {
                self.buffer = None;
                Ok(None)
            }
            Err(corrupt) => Err(self.corrupt_batch(py, corrupt)),
        }
    }

    fn close(&mut self) {
        self.core.close();
        self.buffer = None;
    }

    #[getter]
    fn next_offset(&self) -> i64 {
        self.core.next_offset()
    }

    #[getter]
    fn position(&self) -> usize {
        self.core.position()
    }

    #[getter]
    fn legacy(&self) -> bool {
        self.core.legacy()
    }
}

impl Decoder {
    fn corrupt_batch(&self, py: Python<'_>, corrupt: Corrupt) -> PyErr {
        let Corrupt { base_offset, position, reason } = corrupt;
        let made = py.import("penstock.errors").and_then(|errors| errors.getattr("CorruptBatch")).and_then(
            |class| {
                class.call1((self.topic.as_str(), self.partition, base_offset, position, reason.as_ref()))
            },
        );
        made.map_or_else(|error| error, PyErr::from_value)
    }
}

fn takes_no_time(chunk: &[u8]) -> bool {
    chunk.len() < SMALL_CHUNK
        && chunk.get(CODEC_AT).is_some_and(|byte| !STRONG_CODECS.contains(&(byte & 0x07)))
}

/// The memory of a buffer, which must be contiguous.
///
/// No thread may write to it: by the contracts of `open` and `scan`, the buffer belongs to the kernel until the chunk
/// is used up.
fn bytes_of(buffer: &PyBuffer<u8>) -> &[u8] {
    match buffer.len_bytes() {
        0 => &[],
        // SAFETY: the export pins the memory (a bytearray cannot be resized while it is exported) and `buffer` outlives
        // the slice. Pointer and length come from the exporter, and the caller checked that the bytes are contiguous.
        length => unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>().cast_const(), length) },
    }
}

/// The offset after the last complete batch of `data`, from the batch headers alone.
#[pyfunction]
fn scan(data: PyBuffer<u8>, start: i64) -> PyResult<i64> {
    if !data.is_c_contiguous() {
        return Err(PyValueError::new_err("data must be contiguous"));
    }
    let bytes = bytes_of(&data);
    // With the GIL held: a scan takes microseconds, and getting the GIL back from a busy thread can take milliseconds.
    Ok(next_offset(bytes, start))
}

fn within(name: &str, value: usize, least: usize, most: usize) -> PyResult<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{name} must be between {least} and {most}, not {value}")))
}

/// One Arrow record batch, exported through the Arrow C data interface.
#[pyclass(module = "penstock._kernel", frozen)]
struct Batch {
    batch: RecordBatch,
}

#[pymethods]
impl Batch {
    #[staticmethod]
    fn from_arrow(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (schema, data) = take_array(data, |schema| {
            let schema = Schema::try_from(schema).map_err(refused)?;
            checked(&schema).map_err(PyValueError::new_err)
        })?;
        let rows = StructArray::from(data);
        if rows.null_count() > 0 {
            return Err(PyValueError::new_err("a row is null"));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let (_, columns, _) = rows.into_parts();
        Ok(Batch { batch: RecordBatch::try_new_with_options(schema, columns, &options).map_err(refused)? })
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        let sizes = self.batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
        sizes.sum::<Result<usize, _>>().map_err(arrow_error)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // // the interface allows the producer to ignore it
        let array = array_capsule(py, &StructArray::from(self.batch.clone()).into_data())?;
        PyTuple::new(py, [self.__arrow_c_schema__(py)?, array])
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.batch.schema().as_ref())
    }
}

// Messages rely on the GIL, so a free-threaded Python would have to keep it.
#[pymodule(gil_used = true)]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Decoder>()?;
    module.add_class::<Batch>()?;
    module.add("Message", message::class(module.py())?)?;
    module.add_class::<messages::Messages>()?;
    module.add_class::<encoder::Encoder>()?;
    module.add_class::<encoder::EncodedBatch>()?;
    module.add_class::<format::Format>()?;
    module.add_class::<format::Decoded>()?;
    module.add_class::<format::Type>()?;
    module.add_class::<format_encoder::FormatEncoder>()?;
    module.add_class::<format_encoder::Encoded>()?;
    module.add_function(wrap_pyfunction!(format::avro_type, module)?)?;
    module.add_function(wrap_pyfunction!(format::protobuf_type, module)?)?;
    module.add_function(wrap_pyfunction!(format::protobuf_message, module)?)?;
    module.add_function(wrap_pyfunction!(format::protobuf_file, module)?)?;
    module.add_function(wrap_pyfunction!(format::compile_protobuf, module)?)?;
    module.add_function(wrap_pyfunction!(scan, module)?)?;
    module.add("COLUMNS", PyTuple::new(module.py(), Column::ALL.map(Column::name))?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
