//! The static table of HPACK (RFC 7541, appendix A), as Python has fields.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};

use crate::hpack::OVERHEAD;

static FIELDS: PyOnceLock<Vec<Py<PyTuple>>> = PyOnceLock::new();

/// All fields, that of index one first.
pub fn fields(py: Python<'_>) -> PyResult<&[Py<PyTuple>]> {
    let made = FIELDS.get_or_try_init(py, || {
        let fields = TABLE.iter().map(|(name, value)| [name, value].map(|text| PyBytes::new(py, text.as_bytes())));
        fields.map(|field| Ok(PyTuple::new(py, field)?.unbind())).collect::<PyResult<_>>()
    })?;
    Ok(made)
}

/// What the field at this place counts.
pub fn size(place: usize) -> usize {
    let (name, value) = TABLE[place];
    name.len() + value.len() + OVERHEAD
}

const TABLE: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
