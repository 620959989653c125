//! Rows as the body of a batch: twin of `spark/sink/plainrows.py`.

use std::io::Write;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::memory::Bytes;

const FIXED: usize = 22;
const MAX_BODY: usize = 4 << 20;
const MAX_PROPERTIES: usize = 32767;
/// Of a name, its separators, and a unique id's last four digits.
const ID: &[u8] = b"UNIQ_KEY\x01";

/// A column of strings or bytes by its buffers: what is not null, 32-bit offsets, data, and the index of row 0.
pub type Buffers = (Option<Bytes>, Bytes, Option<Bytes>, usize);

/// Strings or bytes of a column.
pub struct Values<'a> {
    valid: Option<&'a [u8]>,
    offsets: &'a [u8],
    data: &'a [u8],
    first: usize,
}

impl<'a> Values<'a> {
    pub fn of(buffers: &'a Buffers) -> Self {
        Self {
            valid: buffers.0.as_ref().map(Bytes::slice),
            offsets: buffers.1.slice(),
            data: buffers.2.as_ref().map_or(&[], Bytes::slice),
            first: buffers.3,
        }
    }

    /// The value of a row, None where it is null; an outer None where the buffers have none.
    pub fn get(&self, row: usize) -> Option<Option<&'a [u8]>> {
        let index = self.first.checked_add(row)?;
        if let Some(bits) = self.valid {
            if bits.get(index / 8)? & 1 << (index % 8) == 0 {
                return Some(None);
            }
        }
        let bounds = self.offsets.get(index.checked_mul(4)?..)?.first_chunk::<8>()?;
        let [a, b, c, d, e, f, g, h] = *bounds;
        let start = usize::try_from(i32::from_ne_bytes([a, b, c, d])).ok()?;
        let end = usize::try_from(i32::from_ne_bytes([e, f, g, h])).ok()?;
        Some(Some(self.data.get(start..end)?))
    }
}

/// The body of a batch, and where each message ends in it, as 64-bit numbers. None when a row is not plain.
#[pyfunction]
pub fn batch_rows<'py>(
    py: Python<'py>,
    count: usize,
    bodies: Buffers,
    properties: Vec<(String, Buffers)>,
    ids: Option<(String, u64)>,
) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let bodies = Values::of(&bodies);
    let properties: Vec<_> = properties.iter().map(|(name, column)| (name.as_bytes(), Values::of(column))).collect();
    let (data, ends) = py.detach(|| encoded(count, &bodies, &properties, ids.as_ref()))?;
    Some((PyBytes::new(py, &data), PyBytes::new(py, &ends)))
}

fn encoded(
    count: usize,
    bodies: &Values,
    properties: &[(&[u8], Values)],
    ids: Option<&(String, u64)>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut out, mut ends) = (Vec::with_capacity(bodies.data.len().min(count * 1024)), Vec::new());
    let mut text = Vec::new();
    for row in 0..count {
        let body = bodies.get(row)??;
        if body.len() > MAX_BODY {
            return None;
        }
        text.clear();
        for (name, column) in properties {
            let Some(value) = column.get(row)?.filter(|value| !value.is_empty()) else { continue };
            if value.iter().any(|byte| matches!(byte, 1 | 2)) {
                return None;
            }
            text.extend_from_slice(name);
            text.push(1);
            text.extend_from_slice(value);
            text.push(2);
        }
        if let Some((head, first)) = ids {
            text.extend_from_slice(ID);
            text.extend_from_slice(head.as_bytes());
            let _ = write!(text, "{:04X}\x02", first.wrapping_add(row as u64) & 0xFFFF);
        }
        if text.len() > MAX_PROPERTIES {
            return None;
        }
        out.extend_from_slice(&((FIXED + body.len() + text.len()) as i32).to_be_bytes());
        out.extend_from_slice(&[0; 12]); // magic, checksum and flag
        out.extend_from_slice(&(body.len() as i32).to_be_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(&(text.len() as i16).to_be_bytes());
        out.extend_from_slice(&text);
        ends.extend_from_slice(&(out.len() as i64).to_ne_bytes());
    }
    Some((out, ends))
}
