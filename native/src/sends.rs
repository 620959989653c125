//! A run of plain sends or batches, recognised in a stream of frames. What becomes of it is in `records` and `answers`.
//!
//! Twin: `protocol.frame`, which reads such requests one by one.

use std::ops::Range;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFrozenSet, PyString, PyTuple};

use crate::batch;
use crate::heads::frame_at;
use crate::memory::Bytes;
use crate::sendhead::{Head, read_send};

/// Sends of a run, so that other connections get their turn.
const MOST: usize = 128;
/// Places of a run, and names of properties in it: each send looks through them.
const MOST_PLACES: usize = 64;
const MOST_NAMES: usize = 32;

const NAME_END: u8 = 1;
pub const PROPERTY_END: u8 = 2;

/// One send or batch. `frame` and `body` are parts of the stream, the other ranges of the run's arena.
pub struct Send {
    pub head: Head,
    pub frame: Range<usize>,
    pub body: Range<usize>,
    pub binary: bool,
    pub place: usize,
    /// How many messages it brings.
    pub messages: usize,
    pub unique_key: Range<usize>,
    pub keys: Range<usize>,
    pub tags: Range<usize>,
}

/// A queue that sends of a run go to, and how many messages and requests do; `topic` is a part of the stream.
pub struct Place {
    pub topic: Range<usize>,
    pub queue_id: i32,
    pub messages: usize,
    pub requests: usize,
}

/// Plain sends or batches of one code that lie behind each other in a stream.
#[pyclass(frozen, module = "pyromq_native")]
pub struct SendRun {
    stream: Py<PyAny>,
    pub bytes: Bytes,
    pub arena: Vec<u8>,
    pub sends: Vec<Send>,
    pub known_places: Vec<Place>,
    known_names: Vec<Range<usize>>,
    places: PyOnceLock<Py<PyTuple>>,
    topics: PyOnceLock<Py<PyFrozenSet>>,
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

    /// How many messages they bring.
    #[getter]
    fn messages(&self) -> usize {
        self.sends.iter().map(|send| send.messages).sum()
    }

    /// How many have no unique key.
    #[getter]
    fn nameless(&self) -> usize {
        self.sends.iter().filter(|send| send.unique_key.is_empty()).count()
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

    /// Those of the places.
    #[getter]
    fn topics(&self, py: Python<'_>) -> PyResult<Py<PyFrozenSet>> {
        let made = self.topics.get_or_try_init(py, || {
            let stream = self.bytes.slice();
            let topics = self.known_places.iter().map(|place| text(stream, &place.topic));
            Ok::<_, PyErr>(PyFrozenSet::new(py, topics.collect::<PyResult<Vec<_>>>()?)?.unbind())
        })?;
        Ok(made.clone_ref(py))
    }

    /// How many messages go to each place.
    #[getter]
    fn counts(&self) -> Vec<usize> {
        self.known_places.iter().map(|place| place.messages).collect()
    }

    /// How many requests go to each place.
    #[getter]
    fn requests(&self) -> Vec<usize> {
        self.known_places.iter().map(|place| place.requests).collect()
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

    /// Of one: the number of its place, how many messages it brings, unique key and opaque; oneway; binary header.
    fn send<'py>(
        &self,
        py: Python<'py>,
        number: usize,
    ) -> PyResult<(usize, usize, Bound<'py, PyString>, i32, bool, bool)> {
        let send = self.sends.get(number).ok_or_else(|| PyIndexError::new_err("the run has no such send"))?;
        let unique_key = PyString::new(py, text(&self.arena, &send.unique_key)?);
        Ok((send.place, send.messages, unique_key, send.head.opaque, send.head.oneway, send.binary))
    }
}

impl SendRun {
    /// Take one more send; `None` if it is not plain, or begins another run.
    fn take(&mut self, frame: Range<usize>, header: Range<usize>, binary: bool) -> Option<()> {
        let stream = self.bytes.slice();
        let body = header.end..frame.end;
        let bytes = stream.get(header.clone())?;
        let mut head = read_send(bytes, binary, &mut self.arena)?;
        if self.sends.first().is_some_and(|first| first.head.code != head.code) {
            return None;
        }
        head.topic = header.start + head.topic.start..header.start + head.topic.end;
        let messages =
            if head.is_batch() { batch::count(stream.get(body.clone())?).filter(|&count| count > 0)? } else { 1 };
        let found = properties(&self.arena, &head.text, &mut self.known_names, head.is_batch())?;
        let topic = stream.get(head.topic.clone())?;
        let places = &mut self.known_places;
        let same = |place: &Place| place.queue_id == head.queue_id && stream.get(place.topic.clone()) == Some(topic);
        let place = match places.iter().position(same) {
            Some(place) => place,
            None if places.len() < MOST_PLACES => {
                places.push(Place { topic: head.topic.clone(), queue_id: head.queue_id, messages: 0, requests: 0 });
                places.len() - 1
            }
            None => return None,
        };
        places[place].messages += messages;
        places[place].requests += 1;
        let Found { unique_key, keys, tags } = found;
        self.sends.push(Send { head, frame, body, binary, place, messages, unique_key, keys, tags });
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
///
/// `None` if that makes a message that is not plain; a batch is, without a unique key too.
fn properties(arena: &[u8], text: &Range<usize>, names: &mut Vec<Range<usize>>, is_batch: bool) -> Option<Found> {
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
    let plain = waits && (is_batch || !found.unique_key.is_empty());
    if !plain {
        names.truncate(known);
    }
    plain.then_some(found)
}

pub fn part<'a>(bytes: &'a [u8], range: &Range<usize>) -> PyResult<&'a [u8]> {
    bytes.get(range.clone()).ok_or_else(|| PyIndexError::new_err("beyond the bytes of the run"))
}

pub fn text<'a>(bytes: &'a [u8], range: &Range<usize>) -> PyResult<&'a str> {
    std::str::from_utf8(part(bytes, range)?).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The plain sends that begin at a position of a stream of frames; its bytes, given back, if there is none.
pub fn cut_sends(stream: &Bound<'_, PyAny>, bytes: Bytes, position: usize, max_frame: usize) -> Result<SendRun, Bytes> {
    let mut run = SendRun {
        stream: stream.clone().unbind(),
        bytes,
        arena: Vec::new(),
        sends: Vec::new(),
        known_places: Vec::new(),
        known_names: Vec::new(),
        places: PyOnceLock::new(),
        topics: PyOnceLock::new(),
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
    if run.sends.is_empty() { Err(run.bytes) } else { Ok(run) }
}
