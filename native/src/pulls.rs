//! A run of plain pulls: recognised in a stream of frames, and answered out of one file of the log.
//!
//! Twins: `protocol.frame` (what a run is made of), `broker.consume.pull` and `store.queue.read`, each for requests one
//! by one.

use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice, PyString};

use crate::heads::frame_at;
use crate::memory::Bytes;
use crate::pull::{Extent, Limits, Picked, all_sound, pick, write_head};
use crate::pullhead::{Head, read_pull};

/// Pulls of a run, so that other connections get their turn.
const MOST: usize = 128;
/// Entries of a queue that are looked at for a run, about.
const MOST_ENTRIES: i64 = 4096;
/// Answers up to this size are copied into one piece with their neighbours: a slice costs as much.
const JOINED_MAX: usize = 64 * 1024;
/// Larger ones, too, whose records lie about in pieces up to this size on average.
const JOINED_RUN: usize = 8 * 1024;

/// What one pull of a run has for itself. `frame` is a part of the stream.
struct Pull {
    frame: Range<usize>,
    binary: bool,
    opaque: i32,
    queue_offset: i64,
    max_count: i32,
    commit_offset: i64,
}

/// What the pulls of a run have in common. Ranges are parts of the stream.
struct Common {
    stream: Py<PyAny>,
    bytes: Bytes,
    head: Head,
    pulls: Vec<Pull>,
}

impl Common {
    fn text(&self, range: &Range<usize>) -> PyResult<&str> {
        let bytes = self.bytes.slice().get(range.clone());
        let bytes = bytes.ok_or_else(|| PyIndexError::new_err("beyond the bytes of the run"))?;
        std::str::from_utf8(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Whether another pull, whose texts are parts of the stream, too, asks for the same as the first.
    fn is_alike(&self, other: &Head) -> bool {
        let (stream, head) = (self.bytes.slice(), &self.head);
        let same = |one: &Range<usize>, two: &Range<usize>| stream.get(one.clone()) == stream.get(two.clone());
        let both = |one: &Option<Range<usize>>, two: &Option<Range<usize>>| match (one, two) {
            (Some(one), Some(two)) => same(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        head.code == other.code
            && head.queue_id == other.queue_id
            && head.sys_flag == other.sys_flag
            && head.sub_version == other.sub_version
            && head.stream_bytes() == other.stream_bytes()
            && same(&head.topic, &other.topic)
            && same(&head.group, &other.group)
            && both(&head.subscription, &other.subscription)
            && both(&head.expression_type, &other.expression_type)
    }
}

/// Plain pulls of one queue, alike but for where and how much they want, that lie behind each other in a stream.
#[pyclass(frozen, module = "pyromq_native")]
pub struct PullRun {
    common: Arc<Common>,
    from: usize,
}

type Ask<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    i32,
    i32,
    Option<Bound<'py, PyString>>,
    Option<Bound<'py, PyString>>,
    i64,
    Option<i32>,
);

#[pymethods]
impl PullRun {
    fn __len__(&self) -> usize {
        self.pulls().len()
    }

    /// Of all its requests.
    #[getter]
    fn code(&self) -> i32 {
        self.common.head.code
    }

    /// The bytes that it is a part of.
    #[getter]
    fn stream(&self, py: Python<'_>) -> Py<PyAny> {
        self.common.stream.clone_ref(py)
    }

    /// Where it ends in the stream.
    #[getter]
    fn end(&self) -> usize {
        self.common.pulls.last().map_or(0, |pull| pull.frame.end)
    }

    /// Where the frames begin in the stream.
    #[getter]
    fn starts(&self) -> Vec<usize> {
        self.pulls().iter().map(|pull| pull.frame.start).collect()
    }

    /// How many want no answer.
    #[getter]
    fn oneways(&self) -> usize {
        0
    }

    /// What all of them say: group, topic, queue id, system flag, subscription, its type and version, bytes of a stream.
    #[getter]
    fn ask<'py>(&self, py: Python<'py>) -> PyResult<Ask<'py>> {
        let (common, head) = (&self.common, &self.common.head);
        let text = |range: &Range<usize>| Ok::<_, PyErr>(PyString::new(py, common.text(range)?));
        let maybe = |range: &Option<Range<usize>>| range.as_ref().map(text).transpose();
        let (subscription, kind) = (maybe(&head.subscription)?, maybe(&head.expression_type)?);
        let (group, topic) = (text(&head.group)?, text(&head.topic)?);
        Ok((group, topic, head.queue_id, head.sys_flag, subscription, kind, head.sub_version, head.stream_bytes()))
    }

    /// The queue offset that the first one wants.
    #[getter]
    fn offset(&self) -> i64 {
        self.pulls().first().map_or(0, |pull| pull.queue_offset)
    }

    /// The offset that the first one wants, and how many entries from there on are wanted, at most so many each, by it
    /// and those that follow without a gap.
    fn span(&self, most: i64) -> (i64, i64) {
        let first = self.offset();
        let mut end = first;
        for pull in self.pulls() {
            if pull.queue_offset < first || pull.queue_offset > end || end.saturating_sub(first) > MOST_ENTRIES {
                break;
            }
            // One more than it gets, which tells that its limit was met.
            let count = i64::from(pull.max_count).clamp(1, most.max(1)) + 1;
            end = end.max(pull.queue_offset.saturating_add(count));
        }
        (first, end.saturating_sub(first))
    }

    /// The offsets that the first ones commit.
    fn commits(&self, count: usize) -> Vec<i64> {
        self.pulls().iter().take(count).map(|pull| pull.commit_offset).collect()
    }

    /// Those behind the first ones.
    fn rest(&self, count: usize) -> Self {
        let from = self.from.saturating_add(count).min(self.common.pulls.len());
        Self { common: Arc::clone(&self.common), from }
    }
}

impl PullRun {
    fn pulls(&self) -> &[Pull] {
        self.common.pulls.get(self.from..).unwrap_or_default()
    }
}

/// A pull at a position; its texts are parts of the stream.
fn pull_at(stream: &[u8], position: usize, max_frame: usize) -> Option<(Pull, Head)> {
    let (header, end, binary) = frame_at(stream, position, max_frame)?;
    let mut head = read_pull(stream.get(header.clone())?, binary).filter(|_| header.end == end)?;
    let shift = |range: &mut Range<usize>| *range = header.start + range.start..header.start + range.end;
    shift(&mut head.group);
    shift(&mut head.topic);
    head.subscription.iter_mut().for_each(shift);
    head.expression_type.iter_mut().for_each(shift);
    let Head { opaque, queue_offset, max_count, commit_offset, .. } = head;
    Some((Pull { frame: position..end, binary, opaque, queue_offset, max_count, commit_offset }, head))
}

/// The plain pulls that begin at a position of a stream of frames.
pub fn cut_pulls(stream: &Bound<'_, PyAny>, bytes: Bytes, position: usize, max_frame: usize) -> Option<PullRun> {
    let (pull, head) = pull_at(bytes.slice(), position, max_frame)?;
    let mut at = pull.frame.end;
    let mut common = Common { stream: stream.clone().unbind(), bytes, head, pulls: vec![pull] };
    while common.pulls.len() < MOST {
        let Some((pull, head)) = pull_at(common.bytes.slice(), at, max_frame) else { break };
        if !common.is_alike(&head) {
            break;
        }
        at = pull.frame.end;
        common.pulls.push(pull);
    }
    Some(PullRun { common: Arc::new(common), from: 0 })
}

/// The answer to one pull: its head is a part of the heads of all, its records are parts of the log.
struct Answer {
    head: Range<usize>,
    records: Vec<Range<usize>>,
    joined: bool,
}

/// Answer the first pulls of a run, as many as find messages and are plain to answer; see
/// `pyromq.store.queue.scan`.
#[pyfunction]
#[pyo3(signature = (run, room, entries, window, near, far, log, extent, codes, checks, voice, /))]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
pub fn answer_pulls<'py>(
    py: Python<'py>,
    run: &PullRun,
    room: usize,
    entries: Bytes,
    window: (usize, usize, i64, i64, i64, i64),
    near: Limits,
    far: Limits,
    log: Bound<'py, PyAny>,
    extent: (i64, i64, i64, i64, i64),
    codes: Option<Bytes>,
    checks: (usize, usize, i64, bool),
    voice: (i32, i64, i64),
) -> PyResult<Option<(usize, Bound<'py, PyAny>, i64, i64, i64)>> {
    let bytes: Bytes = log.extract()?;
    let (log_bytes, entries, codes) = (bytes.slice(), entries.slice(), codes.as_ref().map(Bytes::slice));
    let (index, available, low, high, least, most) = window;
    let (start, begin, end, resident, file_size) = extent;
    let (check_first, check_step, written_before, verify_crc) = checks;
    let (version, near_broker, far_broker) = voice;
    let extent: Extent = (begin, end, resident, file_size);
    let first = run.offset();
    let place = |offset: i64| usize::try_from(offset.checked_sub(start)?).ok();
    let within = |&(begin, end): &(i64, i64)| {
        let range = place(begin)?..place(end)?;
        log_bytes.get(range.clone()).map(|_| range)
    };
    let mut heads: Vec<u8> = Vec::with_capacity(320 * run.pulls().len());
    let mut answers: Vec<Answer> = Vec::with_capacity(run.pulls().len());
    let (mut total, mut count, mut size, mut following) = (0_usize, 0_i64, 0_i64, 0_i64);
    for (number, pull) in run.pulls().iter().enumerate() {
        let offset = pull.queue_offset;
        if (number > 0 && total >= room) || offset < low || offset >= high {
            break;
        }
        let Some(skip) = offset.checked_sub(first).and_then(|skip| usize::try_from(skip).ok()) else { break };
        let bound = usize::try_from(least.max(i64::from(pull.max_count)).min(most)).unwrap_or(0);
        let seen = available.saturating_sub(skip).min(bound);
        let Some(at) = index.checked_add(skip) else { break };
        let Picked { examined, ended, count: picked, size: bytes, oldest, last, runs, numbers, .. } =
            pick(entries, at, seen, pull.max_count.into(), near, far, extent, codes);
        let more = seen < bound && offset.saturating_add(seen as i64) < high;
        if picked == 0 || (!ended && more) {
            break;
        }
        let behind = i128::from(end) - i128::from(oldest) > i128::from(resident);
        let sampled = check_step > 0 && number >= check_first && (number - check_first) % check_step == 0;
        let checked = sampled || behind || oldest < written_before;
        if checked && !all_sound(log_bytes, start, entries, at, offset, &numbers, verify_crc) {
            break;
        }
        let (Some(records), Ok(body)) = (runs.iter().map(within).collect::<Option<Vec<_>>>(), usize::try_from(bytes))
        else {
            break;
        };
        let is_far = behind && i128::from(end) - i128::from(last) > i128::from(resident);
        following = offset.saturating_add(examined as i64);
        let numbers = (if is_far { far_broker } else { near_broker }, following, low, high);
        let head = heads.len();
        write_head(&mut heads, pull.binary, 0, pull.opaque, version, "FOUND", numbers, body)?;
        let joined = body <= JOINED_MAX || body <= JOINED_RUN * records.len();
        total += heads.len() - head + body;
        answers.push(Answer { head: head..heads.len(), records, joined });
        count += picked;
        size += bytes;
    }
    if answers.is_empty() {
        return Ok(None);
    }
    let frames = in_pieces(py, &heads, &log, log_bytes, &answers)?;
    Ok(Some((answers.len(), frames, count, size, following)))
}

/// Answers as one object where they are all joined, else as a list of bytes and of slices of the log.
fn in_pieces<'py>(
    py: Python<'py>,
    heads: &[u8],
    log: &Bound<'py, PyAny>,
    log_bytes: &[u8],
    answers: &[Answer],
) -> PyResult<Bound<'py, PyAny>> {
    let misfit = || PyIndexError::new_err("the run does not fit together");
    let mut pieces: Vec<Bound<'py, PyAny>> = Vec::new();
    let mut together: Vec<&[u8]> = Vec::new();
    for answer in answers {
        together.push(heads.get(answer.head.clone()).ok_or_else(misfit)?);
        if answer.joined {
            for range in &answer.records {
                together.push(log_bytes.get(range.clone()).ok_or_else(misfit)?);
            }
            continue;
        }
        pieces.push(joined(py, &together)?);
        together.clear();
        for range in &answer.records {
            let slice = PySlice::new(py, isize::try_from(range.start)?, isize::try_from(range.end)?, 1);
            pieces.push(log.get_item(slice)?);
        }
    }
    if !together.is_empty() {
        pieces.push(joined(py, &together)?);
    }
    match pieces.len() {
        1 => pieces.pop().ok_or_else(misfit),
        _ => Ok(PyList::new(py, pieces)?.into_any()),
    }
}

fn joined<'py>(py: Python<'py>, parts: &[&[u8]]) -> PyResult<Bound<'py, PyAny>> {
    let size = parts.iter().map(|part| part.len()).sum();
    let bytes = PyBytes::new_with(py, size, |mut into| {
        for part in parts {
            let (here, rest) = into.split_at_mut(part.len());
            here.copy_from_slice(part);
            into = rest;
        }
        Ok(())
    })?;
    Ok(bytes.into_any())
}
