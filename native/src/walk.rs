//! Walking the log and comparing checksums: plain records only, what else there is stops here and Python looks at it.
//! Twins: `store/log/span.py` and `store/log/plainrecord.py`.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::layout::{BODY, HOSTS_MASK, MAGIC_V1};
use crate::memory::Bytes;
use crate::text::{Marks, key_hash, prefix_hash};

/// With an empty body, topic and properties.
const MIN_SIZE: usize = BODY + 3;
const MAX_TOPIC: usize = 127;
/// Bits of the system flag: what a transaction makes of the record.
const TRANSACTION: i32 = 0xC;
const COMMIT: i32 = 0x8;

fn int(data: &[u8], at: usize) -> Option<i32> {
    data.get(at..)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

fn long(data: &[u8], at: usize) -> Option<i64> {
    data.get(at..)?.first_chunk().map(|bytes| i64::from_be_bytes(*bytes))
}

/// A plain record, taken apart.
struct Plain<'a> {
    size: usize,
    queue_id: i32,
    number: i64,
    sys_flag: i32,
    timestamp: i64,
    topic: &'a [u8],
    text: &'a [u8],
}

impl<'a> Plain<'a> {
    /// What begins with `data`, if it is a sound plain record for a place of the log, whole in `data`.
    fn at(data: &'a [u8], place: i64, verify_crc: bool) -> Option<Self> {
        let size = usize::try_from(int(data, 0)?).ok().filter(|size| *size >= MIN_SIZE)?;
        let record = data.get(..size)?;
        let sys_flag = int(record, 36)?;
        if int(record, 4)? != MAGIC_V1 || long(record, 28)? != place || sys_flag & HOSTS_MASK != 0 {
            return None;
        }
        let body_size = usize::try_from(int(record, 84)?).ok()?;
        let (body, rest) = record.get(BODY..)?.split_at_checked(body_size)?;
        let (length, rest) = rest.split_first()?;
        let (topic, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, text) = rest.split_first_chunk()?;
        if usize::from(u16::from_be_bytes(*length)) != text.len() {
            return None;
        }
        if verify_crc && crc32fast::hash(body) & 0x7FFF_FFFF != int(record, 8)? as u32 {
            return None;
        }
        Some(Self {
            size,
            queue_id: int(record, 12)?,
            number: long(record, 20)?,
            sys_flag,
            timestamp: long(record, 56)?,
            topic,
            text,
        })
    }
}

/// Records of one queue with consecutive numbers.
struct Lane<'a> {
    topic: &'a str,
    queue_id: i32,
    number: i64,
    next: Option<i64>,
    begin: i64,
    end: i64,
    entries: Vec<u8>,
}

#[derive(Default)]
struct Found<'a> {
    end: usize,
    last: i64,
    timestamp: i64,
    count: usize,
    lanes: Vec<Lane<'a>>,
    keys: Vec<u8>,
}

impl<'a> Found<'a> {
    fn gather(data: &'a [u8], at: usize, start: i64, verify_crc: bool, most: usize) -> Self {
        let mut found = Self { end: at, last: -1, ..Self::default() };
        let mut current: HashMap<(&[u8], i32), (usize, u32)> = HashMap::new();
        while found.count < most {
            let at = found.end;
            let Some(place) = i64::try_from(at).ok().and_then(|at| start.checked_add(at)) else { break };
            let Some(record) = data.get(at..).and_then(|rest| Plain::at(rest, place, verify_crc)) else { break };
            let kind = record.sys_flag & TRANSACTION;
            if record.topic.len() > MAX_TOPIC || (kind != 0 && kind != COMMIT) {
                break;
            }
            let known = current.get(&(record.topic, record.queue_id)).copied();
            let follows =
                known.filter(|(lane, _)| found.lanes.get(*lane).is_some_and(|l| l.next == Some(record.number)));
            let (index, prefix) = match follows {
                Some(pair) => pair,
                None => {
                    let Ok(topic) = std::str::from_utf8(record.topic) else { break };
                    let lane = (found.lanes.len(), known.map_or_else(|| prefix_hash(record.topic), |pair| pair.1));
                    current.insert((record.topic, record.queue_id), lane);
                    found.lanes.push(Lane {
                        topic,
                        queue_id: record.queue_id,
                        number: record.number,
                        next: None,
                        begin: place,
                        end: place,
                        entries: Vec::new(),
                    });
                    lane
                }
            };
            let Some(lane) = found.lanes.get_mut(index) else { break };
            let marks = Marks::of(record.text);
            lane.next = record.number.checked_add(1);
            lane.end = place.saturating_add(record.size as i64);
            lane.entries.extend_from_slice(&place.to_be_bytes());
            lane.entries.extend_from_slice(&(record.size as u32).to_be_bytes());
            lane.entries.extend_from_slice(&marks.code().to_be_bytes());
            for key in marks.each_key() {
                found.keys.extend_from_slice(&key_hash(prefix, key).to_be_bytes());
                found.keys.extend_from_slice(&place.to_be_bytes());
                found.keys.extend_from_slice(&record.timestamp.to_be_bytes());
            }
            found.end = at + record.size;
            found.last = place;
            found.timestamp = record.timestamp;
            found.count += 1;
        }
        found
    }
}

type LaneFields = (Py<PyString>, i32, i64, i64, i64, Py<PyBytes>);
type SpanFields = (usize, i64, i64, usize, Vec<LaneFields>, Py<PyBytes>);

/// At most `most` plain records for consumers, from a position of a file on: by queues, and their keys.
#[pyfunction]
#[pyo3(signature = (raw, at, limit, start, verify_crc, most, /))]
pub fn gather_plain(
    py: Python<'_>,
    raw: Bytes,
    at: usize,
    limit: usize,
    start: i64,
    verify_crc: bool,
    most: usize,
) -> SpanFields {
    let data = raw.slice();
    let data = data.get(..limit).unwrap_or(data);
    // Others may run meanwhile: the buffer keeps the mapping, and what is below the limit is written already.
    let found = py.detach(|| Found::gather(data, at, start, verify_crc, most));
    let lanes = found
        .lanes
        .iter()
        .map(|lane| {
            let topic = PyString::new(py, lane.topic).unbind();
            let entries = PyBytes::new(py, &lane.entries).unbind();
            (topic, lane.queue_id, lane.number, lane.begin, lane.end, entries)
        })
        .collect();
    (found.end, found.last, found.timestamp, found.count, lanes, PyBytes::new(py, &found.keys).unbind())
}

/// Whether the view holds sound plain records back to back, for these places of the log, numbered from an offset on.
#[pyfunction]
#[pyo3(signature = (view, places, sizes, queue_offset, verify_crc, /))]
pub fn are_plain(view: Bytes, places: Vec<i64>, sizes: Vec<usize>, queue_offset: i64, verify_crc: bool) -> bool {
    let mut rest = view.slice();
    let mut number = Some(queue_offset);
    places.len() == sizes.len()
        && places.iter().zip(sizes).all(|(place, size)| {
            let Some((record, after)) = rest.split_at_checked(size) else { return false };
            rest = after;
            let expected = number;
            number = number.and_then(|number| number.checked_add(1));
            Plain::at(record, *place, verify_crc)
                .is_some_and(|found| found.size == size && Some(found.number) == expected)
        })
}

/// The position behind the sound plain records that begin at `at` of a view whose first byte is for `place`; none of
/// them is larger than `largest` or ends behind `limit`.
#[pyfunction]
#[pyo3(signature = (view, at, limit, place, largest, /))]
pub fn pass_plain(py: Python<'_>, view: Bytes, at: usize, limit: usize, place: i64, largest: usize) -> usize {
    let data = view.slice();
    let data = data.get(..limit).unwrap_or(data);
    py.detach(|| {
        let mut at = at;
        while let Some(record) = data.get(at..).filter(|rest| !rest.is_empty()).and_then(|rest| {
            let here = i64::try_from(at).ok().and_then(|at| place.checked_add(at))?;
            Plain::at(rest, here, true).filter(|record| record.size <= largest)
        }) {
            at += record.size;
        }
        at
    })
}
