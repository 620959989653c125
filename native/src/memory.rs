//! Beside `cdata` the only module with `unsafe`: bytes of Python objects, mapped files among them, as slices.
#![allow(unsafe_code)]

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::prelude::*;

/// The bytes of a Python object for the length of a call.
pub struct Bytes {
    buffer: PyBuffer<u8>,
}

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(&object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the bytes are not contiguous"));
        }
        Ok(Self { buffer })
    }
}

impl Bytes {
    /// To read.
    pub fn slice(&self) -> &[u8] {
        // SAFETY: the buffer is contiguous and, while `self` holds it, neither moved nor freed. Python code that
        // could change the bytes runs only when the call is over: whoever keeps the lock passes bytes that nobody
        // writes to, or that only the calling thread writes to.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast::<u8>(), self.buffer.item_count()) }
    }

    /// To write from `start` to `end`. IndexError if that is not within the object.
    pub fn window(&mut self, start: usize, end: usize) -> PyResult<&mut [u8]> {
        if self.buffer.readonly() {
            return Err(PyBufferError::new_err("the bytes are read-only"));
        }
        if start > end || end > self.buffer.item_count() {
            return Err(PyIndexError::new_err("the window is not within the bytes"));
        }
        // SAFETY: within a contiguous, writable buffer that `self` holds. The caller owns the window: the log is
        // written by one thread, beyond the position up to which others read.
        unsafe { Ok(std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast::<u8>().add(start), end - start)) }
    }
}
