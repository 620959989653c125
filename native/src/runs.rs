//! Runs of plain requests in a stream of frames. Twin of `cut_run` in `pyromq.protocol.frame`.

use pyo3::prelude::*;

use crate::memory::Bytes;
use crate::pulls::cut_pulls;
use crate::sends::cut_sends;

/// The plain sends, or the plain pulls, that begin at a position of a stream of frames; None if there are none.
#[pyfunction]
pub fn cut_run<'py>(
    py: Python<'py>,
    stream: Bound<'py, PyAny>,
    position: usize,
    max_frame: usize,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let bytes: Bytes = stream.extract()?;
    let bytes = match cut_sends(&stream, bytes, position, max_frame) {
        Ok(run) => return Ok(Some(Bound::new(py, run)?.into_any())),
        Err(bytes) => bytes,
    };
    Ok(match cut_pulls(&stream, bytes, position, max_frame) {
        Some(run) => Some(Bound::new(py, run)?.into_any()),
        None => None,
    })
}
