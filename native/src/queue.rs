//! Consume queues as they lie on disk.

use pyo3::prelude::*;

use crate::layout::ENTRY;
use crate::memory::Bytes;

const FILLER: i32 = i32::MAX;

/// How many entries at the beginning are sound, with place and size of the last record among them; see the twin in
/// `store/queue/consumequeue.py`.
#[pyfunction]
pub fn sound_entries(data: Bytes, last: i64) -> (usize, i64, i32) {
    let (mut count, mut last, mut length) = (0, last, 0);
    for entry in data.slice().chunks_exact(ENTRY) {
        let Some((place, rest)) = entry.split_first_chunk::<8>() else { break };
        let Some(size) = rest.first_chunk::<4>() else { break };
        let (place, size) = (i64::from_be_bytes(*place), i32::from_be_bytes(*size));
        if size != FILLER || place != 0 {
            if size <= 0 || place <= last {
                break;
            }
            (last, length) = (place, size);
        }
        count += 1;
    }
    (count, last, length)
}
