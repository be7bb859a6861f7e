//! Formats for Python: decodes an Arrow column of bytes into a typed column and its faults.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::{Array, ArrayRef, BinaryArray, new_empty_array};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use super::arrow::{array_capsule, arrow_error, refused, schema_capsule, take_array, type_of};
use crate::formats::avro::{self, Avro};
use crate::formats::framing::Framing;
use crate::formats::json::Json;
use crate::formats::protobuf::{self, Proto, Protobuf};
use crate::formats::text::Text;
use crate::formats::{Fault, Outcome, Reader};

/// A column with fewer bytes is decoded with the GIL held: see `SMALL_CHUNK`.
const SMALL_COLUMN: usize = 8 << 10;

/// Decodes keys or values into one typed column.
#[pyclass(module = "penstock._kernel", frozen)]
pub struct Format {
    reader: Mutex<Reader>,
}

impl Format {
    fn new(format: impl crate::formats::Format + 'static, framed: bool) -> Self {
        let framing = if framed { Framing::Confluent } else { Framing::None };
        Format { reader: Mutex::new(Reader::new(Box::new(format), framing)) }
    }

    /// A format serves one thread at a time. After a panic it can still be used, because it builds each column from
    /// scratch.
    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Format {
    #[staticmethod]
    #[pyo3(signature = (*, framed = false))]
    fn text(framed: bool) -> Self {
        Format::new(Text, framed)
    }

    #[staticmethod]
    #[pyo3(signature = (wanted, *, time_zone = "UTC", framed = false))]
    fn json(wanted: &Bound<'_, PyAny>, time_zone: &str, framed: bool) -> PyResult<Self> {
        let json = Json::new(type_of(wanted)?, time_zone).map_err(PyValueError::new_err)?;
        Ok(Format::new(json, framed))
    }

    #[staticmethod]
    #[pyo3(signature = (schema, wanted, *, framed = false))]
    fn avro(schema: &str, wanted: &Bound<'_, PyAny>, framed: bool) -> PyResult<Self> {
        let avro = Avro::new(schema, type_of(wanted)?).map_err(PyValueError::new_err)?;
        Ok(Format::new(avro, framed))
    }

    #[staticmethod]
    #[pyo3(signature = (descriptors, message, wanted, *, framed = false))]
    fn protobuf(
        descriptors: &[u8],
        message: &str,
        wanted: &Bound<'_, PyAny>,
        framed: bool,
    ) -> PyResult<Self> {
        let format = Protobuf::new(descriptors, message, type_of(wanted)?).map_err(PyValueError::new_err)?;
        Ok(Format::new(format, framed))
    }

    #[getter]
    fn r#type(&self) -> Type {
        Type { data_type: self.reader().data_type().clone() }
    }

    fn add_schema(&self, schema_id: u32, schema: &[u8]) -> PyResult<()> {
        self.reader().add_writer(schema_id, schema).map_err(PyValueError::new_err)
    }

    fn refuse_schema(&self, schema_id: u32, reason: String) {
        self.reader().refuse_writer(schema_id, reason);
    }

    fn assume_schema(&self, schema: &[u8]) -> PyResult<()> {
        self.reader().assume_writer(schema).map_err(PyValueError::new_err)
    }

    fn forget_refused(&self) {
        self.reader().forget_refused();
    }

    fn decode(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Decoded> {
        let values = binary(values)?;
        let decoded = if values.values().len() < SMALL_COLUMN {
            self.reader().decode(&values)
        } else {
            py.detach(|| self.reader().decode(&values))
        };
        Ok(match decoded.map_err(arrow_error)? {
            Outcome::Decoded(crate::formats::Decoded { array, faults }) => {
                let faults = faults.into_iter().map(|Fault { row, reason }| (row, reason)).collect();
                Decoded { array, faults, unknown_schemas: Vec::new() }
            }
            Outcome::UnknownWriters(ids) => {
                let array = new_empty_array(self.reader().data_type());
                Decoded { array, faults: Vec::new(), unknown_schemas: ids }
            }
        })
    }
}

/// A typed column, exported through the Arrow C data interface, and the faults found in it.
#[pyclass(module = "penstock._kernel", frozen)]
pub struct Decoded {
    array: ArrayRef,
    #[pyo3(get)]
    faults: Vec<(usize, String)>,
    #[pyo3(get)]
    unknown_schemas: Vec<u32>,
}

#[pymethods]
impl Decoded {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // // the interface allows the producer to ignore it
        let array = array_capsule(py, &self.array.to_data())?;
        PyTuple::new(py, [type_capsule(py, self.array.data_type())?, array])
    }
}

/// An Arrow type, exported through the Arrow C data interface.
#[pyclass(module = "penstock._kernel", frozen)]
pub struct Type {
    data_type: DataType,
}

#[pymethods]
impl Type {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        type_capsule(py, &self.data_type)
    }
}

/// The column type of an Avro schema (JSON).
#[pyfunction]
pub fn avro_type(schema: &str) -> PyResult<Type> {
    avro::data_type(schema).map(|data_type| Type { data_type }).map_err(PyValueError::new_err)
}

#[pyfunction]
pub fn protobuf_type(descriptors: &[u8], message: &str) -> PyResult<Type> {
    let data_type = protobuf::data_type(descriptors, message);
    data_type.map(|data_type| Type { data_type }).map_err(PyValueError::new_err)
}

#[pyfunction]
pub fn protobuf_message(descriptors: &[u8], message: &str) -> PyResult<String> {
    protobuf::message_name(descriptors, message).map_err(PyValueError::new_err)
}

#[pyfunction]
pub fn protobuf_file<'py>(
    py: Python<'py>,
    descriptors: &[u8],
) -> PyResult<(Bound<'py, PyBytes>, Vec<String>)> {
    let (file, imports) = protobuf::main_file(descriptors).map_err(PyValueError::new_err)?;
    Ok((PyBytes::new(py, &file), imports))
}

/// A `.proto` file: `str` or `bytes`.
#[derive(Clone, FromPyObject)]
pub enum File {
    Source(String),
    Descriptor(Vec<u8>),
}

impl From<File> for Proto {
    fn from(file: File) -> Self {
        match file {
            File::Source(text) => Proto::Source(text),
            File::Descriptor(bytes) => Proto::Descriptor(bytes),
        }
    }
}

#[pyfunction]
pub fn compile_protobuf(main: &str, files: Vec<(String, File)>) -> PyResult<Vec<u8>> {
    protobuf::compile(main, &files).map_err(PyValueError::new_err)
}

pub fn type_capsule<'py>(py: Python<'py>, data_type: &DataType) -> PyResult<Bound<'py, PyCapsule>> {
    schema_capsule(py, &Field::new("", data_type.clone(), true))
}

/// A column of bytes from another library.
fn binary(values: &Bound<'_, PyAny>) -> PyResult<BinaryArray> {
    let (_, data) = take_array(values, |schema| match DataType::try_from(schema) {
        Ok(DataType::Binary) => Ok(()),
        Ok(_) => Err(PyValueError::new_err("values must be binary")),
        Err(error) => Err(refused(error)),
    })?;
    Ok(data.into())
}
