//! The Arrow C data interface: capsules to and from other libraries, and errors as Python exceptions.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Imports an array from another library if `check` accepts its schema. Returns the array and the result of `check`.
pub fn take_array<T>(
    given: &Bound<'_, PyAny>,
    check: impl FnOnce(&FFI_ArrowSchema) -> PyResult<T>,
) -> PyResult<(T, ArrayData)> {
    let capsules = given.call_method0(intern!(given.py(), "__arrow_c_array__"))?;
    let (schema, array) = capsules.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: by the interface, capsules with these names hold these structures. They are valid as long as the
    // capsules, and no other code uses them. The array is moved out, as the interface requires.
    let (schema, array) = unsafe { (schema.as_ref(), FFI_ArrowArray::from_raw(array.as_ptr())) };
    let checked = check(schema)?;
    if array.is_released() {
        return Err(PyValueError::new_err("the array was taken over already"));
    }
    // SAFETY: by the interface, the array matches its schema. The interface does not promise valid offsets and strings,
    // so they are checked below before any code reads by them.
    let data = unsafe { from_ffi(array, schema) }.map_err(refused)?;
    data.validate_full().map_err(refused)?;
    Ok((checked, data))
}

/// The Arrow type of a field or type from another library.
pub fn type_of(given: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let capsule =
        given.call_method0(intern!(given.py(), "__arrow_c_schema__"))?.extract::<Bound<'_, PyCapsule>>()?;
    let schema = capsule.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    // SAFETY: by the interface, a capsule with this name holds this structure, valid as long as the capsule.
    DataType::try_from(unsafe { schema.as_ref() }).map_err(refused)
}

pub fn array_capsule<'py>(py: Python<'py>, data: &ArrayData) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArray::new(data), c"arrow_array")
}

pub fn schema_capsule<'py, S>(py: Python<'py>, schema: S) -> PyResult<Bound<'py, PyCapsule>>
where
    FFI_ArrowSchema: TryFrom<S, Error = ArrowError>,
{
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(schema).map_err(arrow_error)?, c"arrow_schema")
}

/// The given object cannot be used.
pub fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
