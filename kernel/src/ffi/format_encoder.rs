//! Encoders for Python: a typed Arrow column in, a column of bytes and its faults out.

use arrow_array::{ArrayRef, make_array};
use arrow_schema::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::arrow::{array_capsule, refused, take_array, type_of};
use super::format::type_capsule;
use crate::formats::Fault;
use crate::formats::avro::AvroEncoder;
use crate::formats::encoder::{Encode, Encoder};
use crate::formats::framing::frame;
use crate::formats::json::JsonEncoder;
use crate::formats::protobuf::ProtobufEncoder;

/// A column with fewer rows is encoded with the GIL held: see `SMALL_CHUNK`.
const SMALL_COLUMN: usize = 64;

/// Encodes one typed column into the bytes of keys or values.
#[pyclass(module = "penstock._kernel", frozen)]
pub struct FormatEncoder {
    encoder: Encoder,
}

impl FormatEncoder {
    fn new(format: impl Encode + 'static, prefix: Vec<u8>) -> Self {
        FormatEncoder { encoder: Encoder::new(Box::new(format), prefix) }
    }
}

#[pymethods]
impl FormatEncoder {
    #[staticmethod]
    #[pyo3(signature = (given, *, time_zone = None, ignore_null_fields = true, schema_id = None))]
    fn json(
        given: &Bound<'_, PyAny>,
        time_zone: Option<&str>,
        ignore_null_fields: bool,
        schema_id: Option<u32>,
    ) -> PyResult<Self> {
        let format = JsonEncoder::new(type_of(given)?, time_zone, ignore_null_fields);
        Ok(FormatEncoder::new(format.map_err(PyValueError::new_err)?, frame(schema_id)))
    }

    #[staticmethod]
    #[pyo3(signature = (schema, given, *, schema_id = None))]
    fn avro(schema: &str, given: &Bound<'_, PyAny>, schema_id: Option<u32>) -> PyResult<Self> {
        let format = AvroEncoder::new(schema, type_of(given)?).map_err(PyValueError::new_err)?;
        Ok(FormatEncoder::new(format, frame(schema_id)))
    }

    #[staticmethod]
    #[pyo3(signature = (descriptors, message, given, *, schema_id = None))]
    fn protobuf(
        descriptors: &[u8],
        message: &str,
        given: &Bound<'_, PyAny>,
        schema_id: Option<u32>,
    ) -> PyResult<Self> {
        let format = ProtobufEncoder::new(descriptors, message, type_of(given)?);
        let format = format.map_err(PyValueError::new_err)?;
        let mut prefix = frame(schema_id);
        if schema_id.is_some() {
            prefix.extend_from_slice(&format.indexes);
        }
        Ok(FormatEncoder::new(format, prefix))
    }

    fn encode(&self, py: Python<'_>, column: &Bound<'_, PyAny>) -> PyResult<Encoded> {
        let (_, data) = take_array(column, |schema| DataType::try_from(schema).map_err(refused))?;
        let column = make_array(data);
        let encoded = if column.len() < SMALL_COLUMN {
            self.encoder.encode(&column)
        } else {
            py.detach(|| self.encoder.encode(&column))
        };
        let crate::formats::encoder::Encoded { array, faults } = encoded.map_err(refused)?;
        let faults = faults.into_iter().map(|Fault { row, reason }| (row, reason)).collect();
        Ok(Encoded { array, faults })
    }
}

/// A column of bytes, exported through the Arrow C data interface, and the rows that could not be encoded.
#[pyclass(module = "penstock._kernel", frozen)]
pub struct Encoded {
    array: ArrayRef,
    #[pyo3(get)]
    faults: Vec<(usize, String)>,
}

#[pymethods]
impl Encoded {
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
