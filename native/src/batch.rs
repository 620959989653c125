//! A producer's batch becomes records in the log, queue entries and index keys. Twin: `store/log/encoder.py`.

use std::sync::atomic::{Ordering, compiler_fence};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::layout::{ENTRY, MAGIC_V1, MAGIC_V2};
use crate::memory::Bytes;
use crate::text::{Marks, key_hash, prefix_hash};

/// The longest topic whose length takes one byte.
const MAX_SHORT: usize = 127;
/// Of a message in a batch, before its body: size, magic, checksum, flag, body length.
pub const ITEM_HEAD: usize = 20;
/// Of a record before what all of a batch share: size, magic, checksum, queue id, flag, queue offset, place.
const RECORD_HEAD: usize = 36;
pub const LENGTH: usize = 2;

/// One message of a batch, in the bytes of the batch.
pub struct Item<'a> {
    pub flag: [u8; 4],
    pub body: &'a [u8],
    /// The length of the properties, and they.
    pub field: &'a [u8],
}

/// Takes the first message off a batch; None where it makes no sense.
pub fn item<'a>(rest: &mut &'a [u8]) -> Option<Item<'a>> {
    let size = usize::try_from(i32::from_be_bytes(*rest.first_chunk()?)).ok()?;
    let (whole, after) = rest.split_at_checked(size)?;
    let flag = *whole.get(12..)?.first_chunk()?;
    let length = usize::try_from(i32::from_be_bytes(*whole.get(16..)?.first_chunk()?)).ok()?;
    let (body, field) = whole.get(ITEM_HEAD..)?.split_at_checked(length)?;
    let text = usize::try_from(i16::from_be_bytes(*field.first_chunk()?)).ok()?;
    if text != field.len() - LENGTH {
        return None;
    }
    *rest = after;
    Some(Item { flag, body, field })
}

/// How many messages a batch has; None unless they take all of it.
pub fn count(batch: &[u8]) -> Option<usize> {
    let (mut rest, mut count) = (batch, 0);
    while !rest.is_empty() {
        item(&mut rest)?;
        count += 1;
    }
    Some(count)
}

/// Writes into a slice from its beginning on.
struct Cursor<'a> {
    free: &'a mut [u8],
}

impl Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let free = std::mem::take(&mut self.free);
        let (here, rest) = free.split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.free = rest;
    }
}

/// What became of a batch: the bytes it takes in the log, its queue entries, its hashed keys.
type Placed = (usize, Py<PyBytes>, Py<PyBytes>);

#[derive(IntoPyObject)]
pub enum Outcome {
    Placed(Placed),
    Needs(usize),
}

#[pyfunction]
#[pyo3(signature = (raw, at, limit, body, topic, queue_id, number, place, shared, timestamp, /))]
#[allow(clippy::too_many_arguments)]
pub fn place_batch(
    py: Python<'_>,
    mut raw: Bytes,
    at: usize,
    limit: isize,
    body: Bytes,
    topic: &[u8],
    queue_id: i32,
    number: i64,
    place: i64,
    shared: &[u8],
    timestamp: i64,
) -> PyResult<Option<Outcome>> {
    let batch = body.slice();
    let Some(count) = count(batch).filter(|count| *count > 0) else { return Ok(None) };
    let short = topic.len() <= MAX_SHORT;
    // Beside body, properties and their length, which a batch has as well.
    let around = RECORD_HEAD + shared.len() + 4 + 2 - usize::from(short) + topic.len();
    let total = batch.len() - count * ITEM_HEAD + count * around;
    let fits = i32::try_from(total).is_ok() && u16::try_from(topic.len()).is_ok();
    let numbered = i64::try_from(count).ok().and_then(|count| number.checked_add(count)).is_some();
    let placed = i64::try_from(total).ok().and_then(|total| place.checked_add(total)).is_some();
    if usize::try_from(limit).map_or(true, |limit| at.saturating_add(total) > limit) {
        return Ok(Some(Outcome::Needs(total)));
    }
    if !(fits && numbered && placed) {
        return Ok(None);
    }
    let prefix = prefix_hash(topic);
    let mut entries = Vec::with_capacity(count * ENTRY);
    let mut keys = Vec::with_capacity(count * ENTRY);
    let mut log = Cursor { free: raw.window(at, at + total)? };
    let (mut rest, mut number, mut place) = (batch, number, place);
    while let Some(Item { flag, body, field }) = item(&mut rest) {
        let size = (around + body.len() + field.len()) as i32; // at most the total, which fits
        let checksum = crc32fast::hash(body) & 0x7FFF_FFFF;
        log.put(&size.to_be_bytes());
        log.put(&(if short { MAGIC_V1 } else { MAGIC_V2 }).to_be_bytes());
        log.put(&checksum.to_be_bytes());
        log.put(&queue_id.to_be_bytes());
        log.put(&flag);
        log.put(&number.to_be_bytes());
        log.put(&place.to_be_bytes());
        log.put(shared);
        log.put(&(body.len() as u32).to_be_bytes());
        log.put(body);
        if short {
            log.put(&[topic.len() as u8]);
        } else {
            log.put(&(topic.len() as u16).to_be_bytes());
        }
        log.put(topic);
        log.put(field);
        // Each whole before the next is begun: a kill in between leaves sound records and then nothing.
        compiler_fence(Ordering::SeqCst);
        let marks = Marks::of(field.get(LENGTH..).unwrap_or_default());
        entries.extend_from_slice(&place.to_be_bytes());
        entries.extend_from_slice(&size.to_be_bytes());
        entries.extend_from_slice(&marks.code().to_be_bytes());
        for key in marks.each_key() {
            keys.extend_from_slice(&key_hash(prefix, key).to_be_bytes());
            keys.extend_from_slice(&place.to_be_bytes());
            keys.extend_from_slice(&timestamp.to_be_bytes());
        }
        number += 1;
        place += i64::from(size);
    }
    Ok(Some(Outcome::Placed((total, PyBytes::new(py, &entries).unbind(), PyBytes::new(py, &keys).unbind()))))
}

/// The offset message ids of the records that queue entries name, joined with commas. Twin: `store/log/put.py`.
#[pyfunction]
#[pyo3(signature = (host, entries, /))]
pub fn message_ids(py: Python<'_>, host: &str, entries: &[u8]) -> Py<PyString> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(entries.len() / ENTRY * (host.len() + 17));
    for entry in entries.chunks_exact(ENTRY) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(host);
        for byte in entry.iter().take(8) {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from(*DIGITS.get(usize::from(digit)).unwrap_or(&b'0')));
            }
        }
    }
    PyString::new(py, &text).unbind()
}
