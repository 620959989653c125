//! A run of plain sends: recognised in a stream of frames, written into the log as records, answered.
//!
//! Twins: `protocol.frame` (what a run is made of), `broker.send.sender`, `store.log.appender.put_many` and
//! `protocol.headers.sendreply`, each for requests one by one.

use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyFrozenSet, PyString, PyTuple};

use crate::heads::{Head, read_binary, read_json};
use crate::memory::Bytes;
use crate::text::{hash, key_hash, prefix_hash};

/// Sends of a run, so that other connections get their turn.
const MOST: usize = 128;
/// Places of a run, and names of properties in it: each send looks through them.
const MOST_PLACES: usize = 64;
const MOST_NAMES: usize = 32;
/// A longer header is no plain one.
const MAX_HEADER: usize = 1 << 16;

const NAME_END: u8 = 1;
const PROPERTY_END: u8 = 2;

/// One send. `frame` and `body` are parts of the stream, the other ranges of the run's arena.
struct Send {
    head: Head,
    frame: Range<usize>,
    body: Range<usize>,
    binary: bool,
    place: usize,
    unique_key: Range<usize>,
    keys: Range<usize>,
    tags: Range<usize>,
}

/// A queue that sends of a run go to; `topic` is a part of the stream.
struct Place {
    topic: Range<usize>,
    queue_id: i32,
    count: usize,
}

/// Plain sends of one code that lie behind each other in a stream.
#[pyclass(frozen, module = "pyromq_native")]
pub struct SendRun {
    stream: Py<PyAny>,
    bytes: Bytes,
    arena: Vec<u8>,
    sends: Vec<Send>,
    known_places: Vec<Place>,
    known_names: Vec<Range<usize>>,
    places: PyOnceLock<Py<PyTuple>>,
    names: PyOnceLock<Py<PyFrozenSet>>,
}

#[pymethods]
impl SendRun {
    fn __len__(&self) -> usize {
        self.sends.len()
    }

    /// Of all its requests.
    #[getter]
    fn code(&self) -> i32 {
        self.sends.first().map_or(0, |send| send.head.code)
    }

    /// The bytes that it is a part of.
    #[getter]
    fn stream(&self, py: Python<'_>) -> Py<PyAny> {
        self.stream.clone_ref(py)
    }

    /// Where it ends in the stream.
    #[getter]
    fn end(&self) -> usize {
        self.sends.last().map_or(0, |send| send.frame.end)
    }

    /// How many want no answer.
    #[getter]
    fn oneways(&self) -> usize {
        self.sends.iter().filter(|send| send.head.oneway).count()
    }

    /// The system flags of all of them together.
    #[getter]
    fn sys_flags(&self) -> i32 {
        self.sends.iter().fold(0, |flags, send| flags | send.head.sys_flag)
    }

    /// Topic and queue id of each queue that they go to, in the order in which they came.
    #[getter]
    fn places(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let made = self.places.get_or_try_init(py, || {
            let stream = self.bytes.slice();
            let places = self.known_places.iter().map(|place| Ok((text(stream, &place.topic)?, place.queue_id)));
            Ok::<_, PyErr>(PyTuple::new(py, places.collect::<PyResult<Vec<_>>>()?)?.unbind())
        })?;
        Ok(made.clone_ref(py))
    }

    /// How many go to each place.
    #[getter]
    fn counts(&self) -> Vec<usize> {
        self.known_places.iter().map(|place| place.count).collect()
    }

    /// The names of all properties that one of them has.
    #[getter]
    fn names(&self, py: Python<'_>) -> PyResult<Py<PyFrozenSet>> {
        let made = self.names.get_or_try_init(py, || {
            let names = self.known_names.iter().map(|name| text(&self.arena, name));
            Ok::<_, PyErr>(PyFrozenSet::new(py, names.collect::<PyResult<Vec<_>>>()?)?.unbind())
        })?;
        Ok(made.clone_ref(py))
    }

    /// Where the frames begin in the stream.
    #[getter]
    fn starts(&self) -> Vec<usize> {
        self.sends.iter().map(|send| send.frame.start).collect()
    }

    /// Of one: the number of its place, system flag, properties, unique key and opaque; oneway; binary header.
    #[allow(clippy::type_complexity)]
    fn send<'py>(
        &self,
        py: Python<'py>,
        number: usize,
    ) -> PyResult<(usize, i32, Bound<'py, PyBytes>, Bound<'py, PyString>, i32, bool, bool)> {
        let send = self.sends.get(number).ok_or_else(|| PyIndexError::new_err("the run has no such send"))?;
        let properties = PyBytes::new(py, part(&self.arena, &send.head.text)?);
        let unique_key = PyString::new(py, text(&self.arena, &send.unique_key)?);
        let head = &send.head;
        Ok((send.place, head.sys_flag, properties, unique_key, head.opaque, head.oneway, send.binary))
    }
}

impl SendRun {
    /// Take one more send; `None` if it is not plain, or begins another run.
    fn take(&mut self, frame: Range<usize>, header: Range<usize>, binary: bool) -> Option<()> {
        let stream = self.bytes.slice();
        let body = header.end..frame.end;
        let bytes = stream.get(header.clone())?;
        let mut head = if binary { read_binary(bytes, &mut self.arena)? } else { read_json(bytes, &mut self.arena)? };
        if self.sends.first().is_some_and(|first| first.head.code != head.code) {
            return None;
        }
        head.topic = header.start + head.topic.start..header.start + head.topic.end;
        let found = properties(&self.arena, &head.text, &mut self.known_names)?;
        let topic = stream.get(head.topic.clone())?;
        let places = &mut self.known_places;
        let same = |place: &Place| place.queue_id == head.queue_id && stream.get(place.topic.clone()) == Some(topic);
        let place = match places.iter().position(same) {
            Some(place) => place,
            None if places.len() < MOST_PLACES => {
                places.push(Place { topic: head.topic.clone(), queue_id: head.queue_id, count: 0 });
                places.len() - 1
            }
            None => return None,
        };
        places[place].count += 1;
        let Found { unique_key, keys, tags } = found;
        self.sends.push(Send { head, frame, body, binary, place, unique_key, keys, tags });
        Some(())
    }
}

/// What is looked for in properties; empty where it is not there.
struct Found {
    unique_key: Range<usize>,
    keys: Range<usize>,
    tags: Range<usize>,
}

/// Go through `name 0x01 value 0x02` repeated: of two with a name the later counts, without a value none does.
fn properties(arena: &[u8], text: &Range<usize>, names: &mut Vec<Range<usize>>) -> Option<Found> {
    let mut found = Found { unique_key: 0..0, keys: 0..0, tags: 0..0 };
    let known = names.len();
    let (mut at, mut number, mut waits) = (text.start, 0, true);
    while at < text.end {
        let rest = arena.get(at..text.end)?;
        let length = rest.iter().position(|&byte| byte == PROPERTY_END).unwrap_or(rest.len());
        let piece = rest.get(..length)?;
        let name_length = piece.iter().position(|&byte| byte == NAME_END).unwrap_or(length);
        let name = piece.get(..name_length)?;
        let value = at + name_length + 1..at + length;
        if name_length > 0 && value.start < value.end {
            match name {
                b"UNIQ_KEY" => found.unique_key = value,
                b"KEYS" => found.keys = value,
                b"TAGS" => found.tags = value,
                b"WAIT" => waits = arena.get(value)? != b"false",
                _ => {}
            }
            // Sends that come together have the same properties in the same order, as a rule.
            let is_name = |place: &Range<usize>| arena.get(place.clone()) == Some(name);
            if !names.get(number).is_some_and(is_name) && !names.iter().any(is_name) {
                if names.len() >= MOST_NAMES {
                    names.truncate(known);
                    return None;
                }
                names.push(at..at + name_length);
            }
            number += 1;
        }
        at += length + 1;
    }
    let plain = waits && !found.unique_key.is_empty();
    if !plain {
        names.truncate(known);
    }
    plain.then_some(found)
}

fn part<'a>(bytes: &'a [u8], range: &Range<usize>) -> PyResult<&'a [u8]> {
    bytes.get(range.clone()).ok_or_else(|| PyIndexError::new_err("beyond the bytes of the run"))
}

fn text<'a>(bytes: &'a [u8], range: &Range<usize>) -> PyResult<&'a str> {
    std::str::from_utf8(part(bytes, range)?).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn word(stream: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(stream.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Where the header of a whole frame at a position is, where the frame ends and how it is written; `None` also when
/// the frame cannot be right.
fn frame_at(stream: &[u8], position: usize, max_frame: usize) -> Option<(Range<usize>, usize, bool)> {
    let length = word(stream, position)? as usize;
    let kind = word(stream, position + 4)?;
    let header = (kind & 0xFF_FFFF) as usize;
    if length < 4 || length.checked_add(4)? > max_frame || header > length - 4 || header > MAX_HEADER || kind >> 24 > 1
    {
        return None;
    }
    let end = position.checked_add(4 + length)?;
    (end <= stream.len()).then_some((position + 8..position + 8 + header, end, kind >> 24 == 1))
}

/// The plain sends that begin at a position of a stream of frames; None if there is none.
#[pyfunction]
pub fn cut_sends(
    py: Python<'_>,
    stream: Bound<'_, PyAny>,
    position: usize,
    max_frame: usize,
) -> PyResult<Option<Py<SendRun>>> {
    let bytes: Bytes = stream.extract()?;
    if frame_at(bytes.slice(), position, max_frame).is_none() {
        return Ok(None);
    }
    let mut run = SendRun {
        stream: stream.unbind(),
        bytes,
        arena: Vec::new(),
        sends: Vec::new(),
        known_places: Vec::new(),
        known_names: Vec::new(),
        places: PyOnceLock::new(),
        names: PyOnceLock::new(),
    };
    let mut at = position;
    while run.sends.len() < MOST {
        let Some((header, end, binary)) = frame_at(run.bytes.slice(), at, max_frame) else { break };
        let (arena, names) = (run.arena.len(), run.known_names.len());
        if run.take(at..end, header, binary).is_none() {
            run.arena.truncate(arena);
            run.known_names.truncate(names);
            break;
        }
        if at == position {
            // Room for as many of its kind as there may be, so that nothing grows step by step.
            let more = ((run.bytes.slice().len() - at) / (end - at)).min(MOST);
            run.sends.reserve_exact(more);
            run.arena.reserve(run.arena.len().saturating_mul(more).min(1 << 16));
        }
        at = end;
    }
    if run.sends.is_empty() { Ok(None) } else { Ok(Some(Py::new(py, run)?)) }
}

/// Where the records of a run are, and what queues and index are to say of them.
#[pyclass(frozen, module = "pyromq_native")]
pub struct Placed {
    #[pyo3(get)]
    offsets: Vec<u64>,
    #[pyo3(get)]
    sizes: Vec<u32>,
    /// The queue offset of each.
    #[pyo3(get)]
    numbers: Vec<i64>,
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

const BODY: usize = 88;
const MAGIC_V1: i32 = 0xDAA3_20A7_u32 as i32;
const ENTRY: usize = 20;

/// Write the records of a run into a file of the log, from `position` on, where it is to be moved by who calls.
///
/// `start` is the offset of the file, `limit` how far it may be written, `largest` the size of a record that is surely
/// not too large, `numbers` the next offset of each place; `common` are born host, store host, what is added to the
/// properties, and the store time. None, and nothing is written, if a record is larger; the bytes it takes, if there is
/// no room.
#[pyfunction]
pub fn write_sends(
    run: &SendRun,
    mut file: Bytes,
    place: (usize, usize, u64, usize),
    mut numbers: Vec<i64>,
    common: (Bound<'_, PyBytes>, Bound<'_, PyBytes>, Bound<'_, PyBytes>, i64),
) -> PyResult<Option<Written>> {
    let (position, limit, start, largest) = place;
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
    let ended = |send: &Send| arena.get(..send.head.text.end).is_some_and(|text| text.ends_with(&[PROPERTY_END]));
    let texts = |send: &Send| send.head.text.len() + usize::from(!ended(send)) + suffix.len();
    let size_of = |send: &Send| BODY + send.body.len() + 1 + send.head.topic.len() + 2 + texts(send);
    let sizes: Vec<usize> = run.sends.iter().map(size_of).collect();
    let total: usize = sizes.iter().sum();
    if sizes.iter().any(|&size| size > largest || size > i16::MAX as usize) {
        return Ok(None);
    }
    let Some(end) = position.checked_add(total).filter(|&end| end <= limit) else {
        return Ok(Some(Written::Needs(total)));
    };
    let prefix_of = |place: &Place| Ok(prefix_hash(part(stream, &place.topic)?));
    let prefixes = run.known_places.iter().map(prefix_of).collect::<PyResult<Vec<u32>>>()?;
    let mut next: Vec<usize> = Vec::with_capacity(numbers.len());
    let mut ends: Vec<usize> = Vec::with_capacity(numbers.len());
    for place in &run.known_places {
        let begin = ends.last().copied().unwrap_or(0);
        next.push(begin);
        ends.push(begin + place.count * ENTRY);
    }
    let count = run.sends.len();
    let mut placed = Placed {
        offsets: Vec::with_capacity(count),
        sizes: Vec::with_capacity(count),
        numbers: Vec::with_capacity(count),
        size: total,
        entries: vec![0; count * ENTRY],
        ends,
        keys: Vec::with_capacity(count * ENTRY),
        place_sizes: vec![0; numbers.len()],
    };
    let mut window = file.window(position, end)?;
    let mut offset = start + position as u64;
    let misfit = || PyIndexError::new_err("the run does not fit together");
    for (send, &size) in run.sends.iter().zip(&sizes) {
        let head = &send.head;
        let (record, rest) = window.split_at_mut_checked(size).ok_or_else(misfit)?;
        window = rest;
        let number = numbers.get_mut(send.place).ok_or_else(misfit)?;
        let body = part(stream, &send.body)?;
        let mut writer = Writer { bytes: record, at: 0 };
        let mut prefix = [0; BODY];
        let mut fields = Writer { bytes: &mut prefix, at: 0 };
        fields.put(&(size as i32).to_be_bytes());
        fields.put(&MAGIC_V1.to_be_bytes());
        fields.put(&(crc32fast::hash(body) & 0x7FFF_FFFF).to_be_bytes());
        fields.put(&head.queue_id.to_be_bytes());
        fields.put(&head.flag.to_be_bytes());
        fields.put(&number.to_be_bytes());
        fields.put(&offset.to_be_bytes());
        fields.put(&head.sys_flag.to_be_bytes());
        fields.put(&head.born_timestamp.to_be_bytes());
        fields.put(&born_host);
        fields.put(&timestamp.to_be_bytes());
        fields.put(&store_host);
        fields.put(&head.reconsume_times.to_be_bytes());
        fields.put(&0i64.to_be_bytes());
        fields.put(&(body.len() as i32).to_be_bytes());
        writer.put(&prefix);
        writer.put(body);
        let topic = part(stream, &head.topic)?;
        writer.put(&[topic.len() as u8]);
        writer.put(topic);
        writer.put(&(texts(send) as u16).to_be_bytes());
        writer.put(part(arena, &head.text)?);
        if !ended(send) {
            writer.put(&[PROPERTY_END]);
        }
        writer.put(suffix);
        // Each record is whole before the next is begun: a process that is killed meanwhile leaves no sound records
        // behind one that is not.
        compiler_fence(Ordering::SeqCst);
        let tags = part(arena, &send.tags)?;
        let slot = next.get_mut(send.place).ok_or_else(misfit)?;
        let entry = placed.entries.get_mut(*slot..*slot + ENTRY).ok_or_else(misfit)?;
        let mut entry = Writer { bytes: entry, at: 0 };
        entry.put(&offset.to_be_bytes());
        entry.put(&(size as i32).to_be_bytes());
        entry.put(&i64::from(hash(0, tags) as i32).to_be_bytes());
        *slot += ENTRY;
        let prefix = *prefixes.get(send.place).ok_or_else(misfit)?;
        let unique_key = part(arena, &send.unique_key)?;
        for key in std::iter::once(unique_key).chain(part(arena, &send.keys)?.split(|&byte| byte == b' ')) {
            if !key.is_empty() {
                placed.keys.extend_from_slice(&key_hash(prefix, key).to_be_bytes());
                placed.keys.extend_from_slice(&offset.to_be_bytes());
                placed.keys.extend_from_slice(&timestamp.to_be_bytes());
            }
        }
        placed.offsets.push(offset);
        placed.sizes.push(size as u32);
        placed.numbers.push(*number);
        if let Some(sum) = placed.place_sizes.get_mut(send.place) {
            *sum += size as u64;
        }
        *number += 1;
        offset += size as u64;
    }
    Ok(Some(Written::Placed(placed)))
}

/// What became of the records of a run.
#[derive(IntoPyObject)]
pub enum Written {
    Placed(Placed),
    Needs(usize),
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

/// The answers to the sends of a run that want one, as frames: all say SUCCESS.
///
/// `host` is the store host in hexadecimal digits. `parts` is what follows the transaction id and the opaque in JSON,
/// and what comes before the opaque and behind the transaction id in a binary header.
#[pyfunction]
pub fn answer_sends<'py>(
    py: Python<'py>,
    run: &SendRun,
    placed: &Placed,
    host: &str,
    parts: (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>),
) -> PyResult<Bound<'py, PyBytes>> {
    let [middle, end, start, tail] = [&parts.0, &parts.1, &parts.2, &parts.3].map(|part| part.as_bytes());
    let mut out = Vec::with_capacity(run.sends.len() * 320);
    for ((send, &offset), &number) in run.sends.iter().zip(&placed.offsets).zip(&placed.numbers) {
        if send.head.oneway {
            continue;
        }
        let unique_key = text(&run.arena, &send.unique_key)?;
        let begin = out.len();
        out.extend_from_slice(&[0; 8]);
        if send.binary {
            out.extend_from_slice(start);
            out.extend_from_slice(&send.head.opaque.to_be_bytes());
            out.extend_from_slice(&1i32.to_be_bytes());
            out.extend_from_slice(&[0; 4]);
            let fields = out.len();
            out.extend_from_slice(&[0; 4]);
            let mut digits = Vec::with_capacity(32);
            digits.extend_from_slice(host.as_bytes());
            hexadecimal(&mut digits, offset);
            field(&mut out, "msgId", &digits);
            digits.clear();
            decimal(&mut digits, send.head.queue_id.into());
            field(&mut out, "queueId", &digits);
            digits.clear();
            decimal(&mut digits, number);
            field(&mut out, "queueOffset", &digits);
            field(&mut out, "transactionId", unique_key.as_bytes());
            out.extend_from_slice(tail);
            let length = (out.len() - fields - 4) as u32;
            out[fields..fields + 4].copy_from_slice(&length.to_be_bytes());
        } else {
            out.extend_from_slice(b"{\"code\":0,\"extFields\":{\"msgId\":\"");
            out.extend_from_slice(host.as_bytes());
            hexadecimal(&mut out, offset);
            out.extend_from_slice(b"\",\"queueId\":\"");
            decimal(&mut out, send.head.queue_id.into());
            out.extend_from_slice(b"\",\"queueOffset\":\"");
            decimal(&mut out, number);
            out.extend_from_slice(b"\",\"transactionId\":");
            quote(&mut out, unique_key);
            out.extend_from_slice(middle);
            decimal(&mut out, send.head.opaque.into());
            out.extend_from_slice(end);
        }
        let length = (out.len() - begin - 8) as u32;
        out[begin..begin + 4].copy_from_slice(&(4 + length).to_be_bytes());
        out[begin + 4..begin + 8].copy_from_slice(&(u32::from(send.binary) << 24 | length).to_be_bytes());
    }
    Ok(PyBytes::new(py, &out))
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

fn hexadecimal(out: &mut Vec<u8>, number: u64) {
    for byte in number.to_be_bytes() {
        out.extend_from_slice(&[
            b"0123456789ABCDEF"[usize::from(byte >> 4)],
            b"0123456789ABCDEF"[usize::from(byte & 15)],
        ]);
    }
}

fn decimal(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// As Python's `encode_basestring_ascii` does.
fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for found in text.chars() {
        match found {
            '"' | '\\' => out.extend_from_slice(&[b'\\', found as u8]),
            ' '..='~' => out.push(found as u8),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            _ => {
                for unit in found.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    out.push(b'"');
}
