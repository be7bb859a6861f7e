//! The Arrow C data interface: capsules to and from other libraries, and errors as Python exceptions.

use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{ArrayRef, GenericListArray, OffsetSizeTrait, make_array, new_empty_array};
use arrow_buffer::OffsetBuffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Imports an array from another library if `check` accepts its schema. Returns the array and the result of `check`.
pub fn take_array<T>(
    given: &Bound<'_, PyAny>,
    check: impl FnOnce(&FFI_ArrowSchema) -> PyResult<T>,
) -> PyResult<(T, ArrayData)> {
    let (checked, array) = import_array(given, check)?;
    Ok((checked, array.validated().map_err(refused)?))
}

/// An array of another library. Its offsets and strings were not checked yet, so no code may read by them.
pub struct Unchecked(ArrayData);

impl Unchecked {
    pub fn validated(self) -> Result<ArrayData, ArrowError> {
        self.0.validate_full()?;
        Ok(self.0)
    }

    /// The columns of a struct array with these names, without a copy. Only those are validated.
    pub fn columns(&self, names: &[&str]) -> Result<Vec<(String, ArrayRef)>, ArrowError> {
        let DataType::Struct(fields) = self.0.data_type() else {
            let found = self.0.data_type();
            return Err(ArrowError::SchemaError(format!(
                "a record batch is needed, not an array of {found}"
            )));
        };
        // Sizes and lengths of all children, not their content.
        self.0.validate()?;
        if self.0.null_count() > 0 {
            return Err(ArrowError::InvalidArgumentError("a row is null".to_owned()));
        }
        let mut columns = Vec::new();
        for (field, child) in fields.iter().zip(self.0.child_data()) {
            if names.contains(&field.name().as_str()) {
                let child = child.slice(self.0.offset(), self.0.len());
                let column = match child.data_type() {
                    DataType::List(item) => list_column::<i32>(&child, item)?,
                    DataType::LargeList(item) => list_column::<i64>(&child, item)?,
                    _ => {
                        child.validate_full()?;
                        make_array(child)
                    }
                };
                columns.push((field.name().clone(), column));
            }
        }
        Ok(columns)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A list column with only the values of its own rows.
///
/// Do not simplify: a slice of a large table has the values of all its rows, and to validate them with each slice would
/// take quadratic time.
fn list_column<O: OffsetSizeTrait>(data: &ArrayData, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    data.validate_data()?;
    let (Some(offsets), [values]) = (data.buffers().first(), data.child_data()) else {
        return Err(ArrowError::InvalidArgumentError("a list has no offsets or no values".to_owned()));
    };
    let own = data.offset()..data.offset() + data.len() + 1;
    let Some(offsets) = offsets.typed_data::<O>().get(own) else {
        return Ok(new_empty_array(data.data_type())); // a list of no rows may have no offsets
    };
    let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
        return Ok(new_empty_array(data.data_type()));
    };
    let values = values.slice(first.as_usize(), (last - first).as_usize());
    values.validate_full()?;
    let offsets = OffsetBuffer::new(offsets.iter().map(|&offset| offset - first).collect());
    let list = GenericListArray::try_new(item.clone(), offsets, make_array(values), data.nulls().cloned())?;
    Ok(Arc::new(list))
}

/// Like [`take_array`], without the validation, which can run without the GIL.
pub fn import_array<T>(
    given: &Bound<'_, PyAny>,
    check: impl FnOnce(&FFI_ArrowSchema) -> PyResult<T>,
) -> PyResult<(T, Unchecked)> {
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
    // SAFETY: by the interface, the array matches its schema, and the last offset is the length of its buffer: the
    // interface has no other. It does not promise valid offsets and strings, so `Unchecked` gives access only after
    // they were checked.
    let data = unsafe { from_ffi(array, schema) }.map_err(refused)?;
    Ok((checked, Unchecked(data)))
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
