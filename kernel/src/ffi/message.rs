//! `Message`: one row of a batch as a Python object.
//!
//! Not a `#[pyclass]`, because a consumer creates and drops millions per second. Python's garbage collector tracks
//! every PyO3 object, so it visits every message that the user's code keeps. It tracks these messages only if a decoder
//! could create a cycle. Nanoseconds per message, best of five, with a million records of 100 bytes in batches of 8 Ki
//! rows (Python 3.11):
//!
//! | | `for m in messages: m.value` | `list(messages)` per batch | all of them in one list |
//! | --- | --- | --- | --- |
//! | `#[pyclass]` that holds an `Arc`, or a `Py`, of its rows | 106, 111 | 206, 209 | 505, 469 |
//! | with PyO3's `freelist` | 103 | 221 | 491 |
//! | reused when no other reference exists | 54 | 207 | 468 |
//! | this | 72 | 39 | 62 |
//! | this, and `Messages` defined by hand as well | 55 | 26 | 49 |
//! | a list of `bytes`, no messages | 38 | | |
//!
//! Defining `Messages` by hand as well would double the `unsafe` code, for a gain that cannot be measured once records
//! are fetched and decoded.

use std::cell::OnceCell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyType};

use super::messages::Messages;

/// Number of bytes of a key or value that `repr` shows.
const SHOWN: usize = 64;

/// The object as the interpreter sees it. `fields` are initialized from [`create`] to [`dealloc`].
#[repr(C)]
struct Object {
    base: ffi::PyObject,
    fields: ManuallyDrop<Fields>,
}

struct Fields {
    messages: Py<Messages>,
    row: usize,
    /// The results of the key decoder and the value decoder. Accessed only with the GIL held.
    key: OnceCell<Py<PyAny>>,
    value: OnceCell<Py<PyAny>>,
}

impl Fields {
    fn topic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.messages.get().topic.bind(py).clone().into_any())
    }

    fn partition<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.messages.get().partition.into_pyobject(py)?.into_any())
    }

    fn offset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.messages.get().rows.offset(self.row).into_pyobject(py)?.into_any())
    }

    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.messages.get().rows.timestamp(self.row).into_pyobject(py)?)
    }

    fn event_time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.messages.get().rows.event_time(self.row).into_pyobject(py)?)
    }

    fn timestamp_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.messages.get().rows.timestamp_type(self.row).into_pyobject(py)?.into_any())
    }

    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let headers = self.messages.get().rows.headers(self.row);
        let pairs = headers.map(|(key, value)| (key, value.map(|bytes| PyBytes::new(py, bytes))));
        Ok(PyList::new(py, pairs)?.into_any())
    }

    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Messages { rows, key_decoder, .. } = self.messages.get();
        read(py, rows.key(self.row), key_decoder.as_ref(), &self.key)
    }

    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Messages { rows, value_decoder, .. } = self.messages.get();
        read(py, rows.value(self.row), value_decoder.as_ref(), &self.value)
    }

    fn repr<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Messages { rows, topic, partition, .. } = self.messages.get();
        let (topic, offset) = (topic.bind(py).repr()?, rows.offset(self.row));
        let (key, value) = (show(py, rows.key(self.row))?, show(py, rows.value(self.row))?);
        let text = format!(
            "Message(topic={}, partition={partition}, offset={offset}, key={key}, value={value})",
            topic.to_string_lossy(),
        );
        Ok(text.into_pyobject(py)?.into_any())
    }
}

/// A key or value as bytes, or the result of its decoder. Null is not decoded.
///
/// Bytes are created at each access, because code rarely reads them twice. A decoder's result is kept: it costs more,
/// and code that changes it (a dict, for example) expects to see the change at the next access.
#[inline]
fn read<'py>(
    py: Python<'py>,
    bytes: Option<&[u8]>,
    decoder: Option<&Py<PyAny>>,
    decoded: &OnceCell<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(bytes) = bytes else { return Ok(py.None().into_bound(py)) };
    match decoder {
        None => new_bytes(py, bytes),
        Some(decoder) => {
            if decoded.get().is_none() {
                let made = decoder.bind(py).call1((new_bytes(py, bytes)?,))?;
                // Another thread may have set it during the call: all threads see the first result.
                if let Err(late) = decoded.set(made.unbind()) {
                    drop(late.into_bound(py));
                }
            }
            Ok(decoded.get().map_or_else(|| py.None().into_bound(py), |made| made.bind(py).clone()))
        }
    }
}

/// Like `PyBytes::new`, which panics when memory is short.
#[inline]
pub fn new_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: pointer and length are those of a slice, and the bytes are copied. The result is a new object, or null
    // with an error set.
    unsafe {
        let object = ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as ffi::Py_ssize_t);
        Bound::from_owned_ptr_or_err(py, object)
    }
}

/// The `repr` of bytes, cut to the first ones.
fn show(py: Python<'_>, bytes: Option<&[u8]>) -> PyResult<String> {
    let Some(bytes) = bytes else { return Ok("None".to_owned()) };
    let shown = new_bytes(py, bytes.get(..SHOWN).unwrap_or(bytes))?.repr()?;
    let shown = shown.to_string_lossy();
    Ok(if bytes.len() > SHOWN { format!("{shown}... ({} bytes)", bytes.len()) } else { shown.into_owned() })
}

/// The class, created once.
pub fn class(py: Python<'_>) -> PyResult<Py<PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.get_or_try_init(py, || make_class(py)).map(|class| class.clone_ref(py))
}

/// A message of `messages` for the row that `claim` returns. None if it returns none. Between `claim` and the return no
/// Python code runs, and no thread that waits for the GIL.
#[inline]
pub fn create<'py>(
    messages: &Bound<'py, Messages>,
    class: &Bound<'py, PyType>,
    claim: impl FnOnce() -> Option<usize>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = messages.py();
    let has_decoder = messages.get().key_decoder.is_some() || messages.get().value_decoder.is_some();
    // SAFETY: `class` comes from `make_class`, so the new object has the size of `Object` and a garbage collector's
    // header. No other code has a reference to it: either all its fields are written before other code sees it, or it
    // is freed as it was allocated, together with the reference to its class that every object of a heap type holds.
    unsafe {
        let object: *mut Object = ffi::PyObject_GC_New(class.as_type_ptr());
        if object.is_null() {
            return Err(PyErr::fetch(py));
        }
        let Some(row) = claim() else {
            ffi::PyObject_GC_Del(object.cast());
            ffi::Py_DECREF(class.as_ptr());
            return Ok(None);
        };
        let messages = messages.clone().unbind();
        let fields = Fields { messages, row, key: OnceCell::new(), value: OnceCell::new() };
        (&raw mut (*object).fields).write(ManuallyDrop::new(fields));
        // Without decoders a message refers to bytes and numbers only, so it cannot be part of a cycle.
        if has_decoder {
            ffi::PyObject_GC_Track(object.cast());
        }
        Ok(Some(Bound::from_owned_ptr(py, object.cast())))
    }
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this attached, with an object of our class that no other code can reach. The fields
    // are moved out before the memory is freed, and dropped last, so code that runs during their drop does not touch
    // the object. They are dropped as `Bound`, because PyO3 defers the drop of a `Py` outside of its own calls.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let py = Python::assume_attached();
        let class = ffi::Py_TYPE(object);
        let Fields { messages, key, value, row: _ } =
            ManuallyDrop::take(&mut (*object.cast::<Object>()).fields);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(class.cast());
        drop(messages.into_bound(py));
        drop(key.into_inner().map(|made| made.into_bound(py)));
        drop(value.into_inner().map(|made| made.into_bound(py)));
    }
}

/// Visits the references of a message. There is no `tp_clear`, as for tuples: see `Messages::__traverse__`.
unsafe extern "C" fn traverse(object: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: only tracked objects are traversed, and tracked objects have their fields. Pointers are passed on without
    // changing a reference count.
    unsafe {
        let Fields { messages, key, value, row: _ } = &*(*object.cast::<Object>()).fields;
        let made = [key, value].map(|made| made.get().map_or(ptr::null_mut(), Py::as_ptr));
        let found = [ffi::Py_TYPE(object).cast(), messages.as_ptr(), made[0], made[1]];
        for found in found.into_iter().filter(|found| !found.is_null()) {
            match visit(found, arg) {
                0 => {}
                stop => return stop,
            }
        }
    }
    0
}

/// Runs `read` on the fields of a message for the interpreter. Returns a new reference, or null with an error set.
///
/// # Safety
/// `object` is a message, and the thread is attached.
#[inline(always)]
unsafe fn answer(
    object: *mut ffi::PyObject,
    read: impl for<'py> FnOnce(&Fields, Python<'py>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller. The caller's reference keeps the object alive during the call.
    let (py, fields) = unsafe { (Python::assume_attached(), &(*object.cast::<Object>()).fields) };
    // A panic must not unwind into the interpreter. No panic is known.
    let error = match catch_unwind(AssertUnwindSafe(|| read(fields, py))) {
        Ok(Ok(found)) => return found.into_ptr(),
        Ok(Err(error)) => error,
        Err(_) => PyRuntimeError::new_err("a message could not be read"),
    };
    error.restore(py);
    ptr::null_mut()
}

macro_rules! getter {
    ($name:ident, $read:path, $doc:literal) => {{
        unsafe extern "C" fn get(object: *mut ffi::PyObject, _closure: *mut c_void) -> *mut ffi::PyObject {
            // SAFETY: the interpreter calls getters attached, with an object of their class.
            unsafe { answer(object, $read) }
        }
        const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
        ffi::PyGetSetDef {
            name: NAME.as_ptr(),
            get: Some(get),
            set: None,
            doc: $doc.as_ptr(),
            closure: ptr::null_mut(),
        }
    }};
}

unsafe extern "C" fn repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this attached, with an object of our class.
    unsafe { answer(object, Fields::repr) }
}

const DOC: &CStr = c"One record of a partition.";

fn make_class(py: Python<'_>) -> PyResult<Py<PyType>> {
    let end = ffi::PyGetSetDef::default();
    // Leaked: the class refers to them, and the class is never freed.
    let getters = Box::leak(Box::new([
        getter!(topic, Fields::topic, c"The topic's name."),
        getter!(partition, Fields::partition, c"The partition's number."),
        getter!(offset, Fields::offset, c"The offset in the partition."),
        getter!(timestamp, Fields::timestamp, c"Milliseconds since 1970, or None."),
        getter!(
            event_time,
            Fields::event_time,
            c"Milliseconds since 1970, or None: by default the timestamp."
        ),
        getter!(timestamp_type, Fields::timestamp_type, c"-1: none, 0: create time, 1: log append time."),
        getter!(headers, Fields::headers, c"Pairs of name and bytes or None."),
        getter!(key, Fields::key, c"bytes or None, or what the key decoder makes of the bytes."),
        getter!(value, Fields::value, c"bytes or None, or what the value decoder makes of the bytes."),
        end,
    ]));
    let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_getset, getters.as_mut_ptr().cast()),
        slot(0, ptr::null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT
        | ffi::Py_TPFLAGS_HAVE_GC
        // Python code can neither create an object without fields nor assign our class to another object.
        | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION
        | ffi::Py_TPFLAGS_IMMUTABLETYPE;
    let mut spec = ffi::PyType_Spec {
        name: c"penstock._kernel.Message".as_ptr(),
        basicsize: size_of::<Object>() as c_int,
        itemsize: 0,
        flags: flags as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the functions have the signatures of their slots and follow the rules of the interpreter for them. Slots
    // and getters end with an empty entry. Getters and strings live forever; the rest is copied.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
    Ok(class.cast_into::<PyType>()?.unbind())
}
