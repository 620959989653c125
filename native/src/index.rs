//! Hashed keys become entries of an index file. Twin: `store/index/file.py`.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::memory::Bytes;

/// A key: hash 4, place in the log 8, store time 8.
const KEY: usize = 20;
const SLOT: usize = 4;

/// Entries for hashed keys, numbered from `count` on, and how many slots of the file were not in use before. `slots`,
/// in the byte order of the machine, are those of a file that begins with the time `begin`; they are changed.
#[pyfunction]
#[pyo3(signature = (keys, slots, count, begin, /))]
pub fn link_keys(
    py: Python<'_>,
    keys: Bytes,
    mut slots: Bytes,
    count: u32,
    begin: i64,
) -> PyResult<(Py<PyBytes>, u32)> {
    let keys = keys.slice();
    let end = slots.slice().len();
    let slots = slots.window(0, end)?;
    let mut entries = Vec::with_capacity(keys.len());
    let (mut number, mut fresh) = (count, 0);
    let slot_count = (slots.len() / SLOT).max(1);
    let (mut last, mut seconds) = (begin, 0);
    for key in keys.chunks_exact(KEY) {
        let (Some(hash), Some(place), Some(time)) = (key.first_chunk(), key.get(..12), key.last_chunk()) else {
            continue;
        };
        let timestamp = i64::from_be_bytes(*time);
        if timestamp != last {
            last = timestamp;
            seconds = if timestamp > begin && begin > 0 { ((timestamp - begin) / 1000).min(0x7FFF_FFFF) } else { 0 };
        }
        let at = u32::from_be_bytes(*hash) as usize % slot_count * SLOT;
        let Some(slot) = slots.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else { continue };
        let mut previous = u32::from_ne_bytes(*slot);
        *slot = number.to_ne_bytes();
        if previous == 0 {
            fresh += 1;
        } else if previous >= number {
            previous = 0; // stale, from before a crash of another writer
        }
        entries.extend_from_slice(place);
        entries.extend_from_slice(&(seconds as u32).to_be_bytes());
        entries.extend_from_slice(&previous.to_be_bytes());
        number = number.wrapping_add(1);
    }
    Ok((PyBytes::new(py, &entries).unbind(), fresh))
}
