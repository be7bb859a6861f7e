//! The Arrow C data interface: capsules to and from other libraries, and errors as Python's.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Takes over an array that another library made, if `check` agrees with its schema, and says what that made of it.
pub fn take_array<T>(
    given: &Bound<'_, PyAny>,
    check: impl FnOnce(&FFI_ArrowSchema) -> PyResult<T>,
) -> PyResult<(T, ArrayData)> {
    let capsules = given.call_method0(intern!(given.py(), "__arrow_c_array__"))?;
    let (schema, array) = capsules.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: by the interface, capsules of these names hold these structures, which are valid as long as the capsules
    // and not in use by anybody else. The array is moved out, as the interface has it.
    let (schema, array) = unsafe { (schema.as_ref(), FFI_ArrowArray::from_raw(array.as_ptr())) };
    let checked = check(schema)?;
    if array.is_released() {
        return Err(PyValueError::new_err("the array was taken over already"));
    }
    // SAFETY: the array is what its schema says, by the interface. That its offsets and strings make sense is not for
    // it to say, and is checked below before anybody reads by them.
    let data = unsafe { from_ffi(array, schema) }.map_err(refused)?;
    data.validate_full().map_err(refused)?;
    Ok((checked, data))
}

/// The type that another library's field or type has.
pub fn type_of(given: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let capsule =
        given.call_method0(intern!(given.py(), "__arrow_c_schema__"))?.extract::<Bound<'_, PyCapsule>>()?;
    let schema = capsule.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    // SAFETY: by the interface, a capsule of this name holds this structure, valid as long as the capsule.
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

/// What was given cannot be used.
pub fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
