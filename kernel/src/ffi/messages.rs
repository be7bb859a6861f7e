//! `Messages`: the iterator over the messages of one batch.
//!
//! No `unsafe` here. Every field is immutable or atomic, so any thread may call any method at any time.

use arrow_array::Int64Array;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use pyo3::{PyTraverseError, PyVisit};

use super::arrow::{refused, take_array};
use super::{Batch, message};
use crate::messages::{Progress, Rows};

/// Iterates over the messages of a batch. Each message is a reference to this object and a row number.
#[pyclass(module = "penstock._kernel", frozen)]
pub struct Messages {
    pub rows: Rows,
    pub topic: Py<PyString>,
    pub partition: i32,
    pub key_decoder: Option<Py<PyAny>>,
    pub value_decoder: Option<Py<PyAny>>,
    /// The class of the messages. Looking it up for each message would cost more than keeping it.
    class: Py<PyType>,
    progress: Progress,
}

#[pymethods]
impl Messages {
    #[new]
    #[pyo3(signature = (batch, topic, partition, end, key_decoder = None, value_decoder = None, event_times = None))]
    fn new(
        batch: &Bound<'_, Batch>,
        topic: Py<PyString>,
        partition: i32,
        end: i64,
        key_decoder: Option<Bound<'_, PyAny>>,
        value_decoder: Option<Bound<'_, PyAny>>,
        event_times: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut rows = Rows::new(&batch.get().batch, end).map_err(PyValueError::new_err)?;
        if let Some(times) = event_times {
            rows = rows.with_event_times(milliseconds(&times)?).map_err(PyValueError::new_err)?;
        }
        Ok(Messages {
            progress: Progress::new(rows.len()),
            rows,
            topic,
            partition,
            key_decoder: callable("key_decoder", key_decoder)?,
            value_decoder: callable("value_decoder", value_decoder)?,
            class: message::class(batch.py())?,
        })
    }

    fn __iter__<'a, 'py>(slf: &'a Bound<'py, Self>) -> &'a Bound<'py, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let messages = slf.get();
        // The allocation may run a garbage collection, and with it other threads. So the row is claimed after it:
        // nothing runs between the claim and the return.
        message::create(slf, messages.class.bind(slf.py()), || messages.progress.claim())
    }

    // Not named "close": a generator that delegates to this iterator (`yield from`) would call `close` when it is left
    // early.
    fn stop(&self) -> i64 {
        self.rows.offset(self.progress.stop())
    }

    #[getter]
    fn position(&self) -> i64 {
        self.rows.offset(self.progress.handed_out())
    }

    #[getter]
    fn remaining(&self) -> usize {
        self.progress.remaining()
    }

    // There is no `__clear__`: decoders are older than this object, so a cycle contains another object that was changed
    // later and can be cleared itself.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key_decoder)?;
        visit.call(&self.value_decoder)
    }
}

fn milliseconds(times: &Bound<'_, PyAny>) -> PyResult<Int64Array> {
    let (_, data) = take_array(times, |schema| match DataType::try_from(schema) {
        Ok(DataType::Int64) => Ok(()),
        Ok(_) => Err(PyValueError::new_err("event_times must be int64, milliseconds since 1970")),
        Err(error) => Err(refused(error)),
    })?;
    Ok(data.into())
}

fn callable(name: &str, decoder: Option<Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match decoder {
        Some(decoder) if !decoder.is_callable() => {
            Err(PyTypeError::new_err(format!("{name} must be callable, not {}", decoder.get_type().name()?)))
        }
        decoder => Ok(decoder.map(Bound::unbind)),
    }
}
