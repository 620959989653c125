//! The records of a run of sends or batches, laid into the log, and what queues and index are to say of them.
//!
//! Twins: `store.log.appender.put_many` and `put_batch`.

use std::sync::atomic::{Ordering, compiler_fence};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::{self, ITEM_HEAD, LENGTH};
use crate::layout::{BODY, ENTRY, MAGIC_V1};
use crate::memory::Bytes;
use crate::sends::{PROPERTY_END, Place, Send, SendRun, part};
use crate::text::{Marks, key_hash, prefix_hash};

/// Where the records of a run are, and what queues and index are to say of them.
#[pyclass(frozen, module = "pyromq_native")]
pub struct Placed {
    #[pyo3(get)]
    pub offsets: Vec<u64>,
    #[pyo3(get)]
    sizes: Vec<u32>,
    /// The queue offset of each.
    #[pyo3(get)]
    pub numbers: Vec<i64>,
    /// The bytes of all records.
    #[pyo3(get)]
    size: usize,
    entries: Vec<u8>,
    ends: Vec<usize>,
    keys: Vec<u8>,
    /// For each place, the bytes of its records.
    #[pyo3(get)]
    place_sizes: Vec<u64>,
}

#[pymethods]
impl Placed {
    /// For each place, the entries of its queue, and where its first record begins and its last one ends.
    #[getter]
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyBytes>, u64, u64)>> {
        let mut start = 0;
        let mut made = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            let entries = part(&self.entries, &(start..end))?;
            let (Some(first), Some(last)) = (entries.first_chunk::<12>(), entries.last_chunk::<20>()) else {
                return Err(PyIndexError::new_err("a place without a record"));
            };
            let [first_offset, last_offset] = [first.first_chunk::<8>(), last.first_chunk::<8>()]
                .map(|bytes| bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes)));
            let size = last.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
            made.push((PyBytes::new(py, entries), first_offset, last_offset + u64::from(size)));
            start = end;
        }
        Ok(made)
    }

    /// The index keys of all records in their order: hash 4, offset 8, store time 8.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.keys)
    }
}

/// Of a record, beside body, topic and properties.
const FIXED: usize = BODY + 1 + LENGTH;

/// Write the records of a run into a file of the log, from `position` on, where it is to be moved by who calls.
///
/// `start` is the offset of the file, `limit` how far it may be written, `largest` the size of a record that is surely
/// not too large, `largest_batch` that of all records of a batch, `numbers` the next offset of each place; `common` are
/// born host, store host, what is added to the properties of a send, and the store time. None, and nothing is written,
/// if something is larger; the bytes it takes, if there is no room.
#[pyfunction]
pub fn write_sends(
    run: &SendRun,
    mut file: Bytes,
    place: (usize, usize, u64, usize, usize),
    numbers: Vec<i64>,
    common: (Bound<'_, PyBytes>, Bound<'_, PyBytes>, Bound<'_, PyBytes>, i64),
) -> PyResult<Option<Written>> {
    let (position, limit, start, largest, largest_batch) = place;
    let (born_host, store_host, suffix, timestamp) = common;
    let (suffix, stream, arena) = (suffix.as_bytes(), run.bytes.slice(), run.arena.as_slice());
    let (Ok(born_host), Ok(store_host)) =
        (<[u8; 8]>::try_from(born_host.as_bytes()), <[u8; 8]>::try_from(store_host.as_bytes()))
    else {
        return Ok(None);
    };
    if numbers.len() != run.known_places.len() {
        return Err(PyValueError::new_err("a number for each place is needed"));
    }
    let end_of_text = |send: &Send| -> &'static [u8] {
        let ended = arena.get(..send.head.text.end).is_some_and(|text| text.ends_with(&[PROPERTY_END]));
        if ended { &[] } else { &[PROPERTY_END] }
    };
    let mut total = 0_usize;
    for send in &run.sends {
        let (size, most) = if send.head.is_batch() {
            // A message of a batch brings the length of its properties with it.
            let around = FIXED - LENGTH + send.head.topic.len();
            (send.body.len() - send.messages * ITEM_HEAD + send.messages * around, largest_batch)
        } else {
            let text = send.head.text.len() + end_of_text(send).len() + suffix.len();
            (FIXED + send.body.len() + send.head.topic.len() + text, largest.min(i16::MAX as usize))
        };
        if size > most {
            return Ok(None);
        }
        total += size;
    }
    let Some(end) = position.checked_add(total).filter(|&end| end <= limit) else {
        return Ok(Some(Written::Needs(total)));
    };
    let window = file.window(position, end)?;
    let mut lay = Lay::new(run, window, start + position as u64, numbers, (born_host, store_host, timestamp))?;
    for send in &run.sends {
        let body = part(stream, &send.body)?;
        if send.head.is_batch() {
            let mut rest = body;
            while let Some(item) = batch::item(&mut rest) {
                let text = item.field.get(LENGTH..).unwrap_or_default();
                lay.put(send, item.flag, item.body, &[text], &Marks::of(text))?;
            }
        } else {
            let texts = [part(arena, &send.head.text)?, end_of_text(send), suffix];
            let [tags, unique_key, keys] = [&send.tags, &send.unique_key, &send.keys].map(|place| part(arena, place));
            let marks = Marks { tags: tags?, unique_key: unique_key?, keys: keys? };
            lay.put(send, send.head.flag.to_be_bytes(), body, &texts, &marks)?;
        }
    }
    Ok(Some(Written::Placed(lay.placed)))
}

/// What became of the records of a run.
#[derive(IntoPyObject)]
pub enum Written {
    Placed(Placed),
    Needs(usize),
}

/// Lays record behind record, and notes where they are.
struct Lay<'a> {
    stream: &'a [u8],
    window: &'a mut [u8],
    offset: u64,
    born_host: [u8; 8],
    store_host: [u8; 8],
    timestamp: i64,
    /// For each place: the next queue offset, where its next entry goes, the hash that its keys begin with.
    numbers: Vec<i64>,
    next: Vec<usize>,
    prefixes: Vec<u32>,
    placed: Placed,
}

impl<'a> Lay<'a> {
    fn new(
        run: &'a SendRun,
        window: &'a mut [u8],
        offset: u64,
        numbers: Vec<i64>,
        common: ([u8; 8], [u8; 8], i64),
    ) -> PyResult<Self> {
        let stream = run.bytes.slice();
        let prefix_of = |place: &Place| Ok(prefix_hash(part(stream, &place.topic)?));
        let prefixes = run.known_places.iter().map(prefix_of).collect::<PyResult<Vec<u32>>>()?;
        let (mut next, mut ends, mut end) = (Vec::new(), Vec::new(), 0);
        for place in &run.known_places {
            next.push(end);
            end += place.messages * ENTRY;
            ends.push(end);
        }
        let count = end / ENTRY;
        let placed = Placed {
            offsets: Vec::with_capacity(count),
            sizes: Vec::with_capacity(count),
            numbers: Vec::with_capacity(count),
            size: window.len(),
            entries: vec![0; count * ENTRY],
            ends,
            keys: Vec::with_capacity(count * ENTRY),
            place_sizes: vec![0; numbers.len()],
        };
        let (born_host, store_host, timestamp) = common;
        Ok(Self { stream, window, offset, born_host, store_host, timestamp, numbers, next, prefixes, placed })
    }

    /// One record, with its properties in pieces.
    fn put(&mut self, send: &Send, flag: [u8; 4], body: &[u8], texts: &[&[u8]], marks: &Marks<'_>) -> PyResult<()> {
        let misfit = || PyIndexError::new_err("the run does not fit together");
        let (head, offset, timestamp) = (&send.head, self.offset, self.timestamp);
        let topic = part(self.stream, &head.topic)?;
        let length: usize = texts.iter().map(|text| text.len()).sum();
        let size = FIXED + body.len() + topic.len() + length;
        let (record, rest) = std::mem::take(&mut self.window).split_at_mut_checked(size).ok_or_else(misfit)?;
        self.window = rest;
        let number = self.numbers.get_mut(send.place).ok_or_else(misfit)?;
        let mut writer = Writer { bytes: record, at: 0 };
        let mut prefix = [0; BODY];
        let mut fields = Writer { bytes: &mut prefix, at: 0 };
        fields.put(&(size as i32).to_be_bytes());
        fields.put(&MAGIC_V1.to_be_bytes());
        fields.put(&(crc32fast::hash(body) & 0x7FFF_FFFF).to_be_bytes());
        fields.put(&head.queue_id.to_be_bytes());
        fields.put(&flag);
        fields.put(&number.to_be_bytes());
        fields.put(&offset.to_be_bytes());
        fields.put(&head.sys_flag.to_be_bytes());
        fields.put(&head.born_timestamp.to_be_bytes());
        fields.put(&self.born_host);
        fields.put(&timestamp.to_be_bytes());
        fields.put(&self.store_host);
        fields.put(&head.reconsume_times.to_be_bytes());
        fields.put(&0i64.to_be_bytes());
        fields.put(&(body.len() as i32).to_be_bytes());
        writer.put(&prefix);
        writer.put(body);
        writer.put(&[topic.len() as u8]);
        writer.put(topic);
        writer.put(&(length as u16).to_be_bytes());
        for text in texts {
            writer.put(text);
        }
        // Each record is whole before the next is begun: a process that is killed meanwhile leaves no sound records
        // behind one that is not.
        compiler_fence(Ordering::SeqCst);
        let placed = &mut self.placed;
        let slot = self.next.get_mut(send.place).ok_or_else(misfit)?;
        let entry = placed.entries.get_mut(*slot..*slot + ENTRY).ok_or_else(misfit)?;
        let mut entry = Writer { bytes: entry, at: 0 };
        entry.put(&offset.to_be_bytes());
        entry.put(&(size as i32).to_be_bytes());
        entry.put(&marks.code().to_be_bytes());
        *slot += ENTRY;
        let prefix = *self.prefixes.get(send.place).ok_or_else(misfit)?;
        for key in marks.each_key() {
            placed.keys.extend_from_slice(&key_hash(prefix, key).to_be_bytes());
            placed.keys.extend_from_slice(&offset.to_be_bytes());
            placed.keys.extend_from_slice(&timestamp.to_be_bytes());
        }
        placed.offsets.push(offset);
        placed.sizes.push(size as u32);
        placed.numbers.push(*number);
        if let Some(sum) = placed.place_sizes.get_mut(send.place) {
            *sum += size as u64;
        }
        *number += 1;
        self.offset += size as u64;
        Ok(())
    }
}

/// Fills bytes from their start on.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        self.bytes[self.at..end].copy_from_slice(bytes);
        self.at = end;
    }
}
