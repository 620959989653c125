//! Pulls: which queue entries are answered with, whether their records are sound, the head of the answer, one buffer
//! for it all. Twins of `pyromq.store.queue.scan` and of `pull_head` in `pyromq.protocol.headers.consume`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::layout::{BODY, ENTRY, HOSTS_MASK, MAGIC_V1};
use crate::memory::Bytes;
use crate::text::Digits;

const FILLER: i32 = 0x7FFF_FFFF;

/// One entry of a consume queue.
struct Entry {
    physical: i64,
    size: i32,
    code: i64,
}

fn read_i64(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn read_i32(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn entry(entries: &[u8], index: usize) -> Option<Entry> {
    let at = index.checked_mul(ENTRY)?;
    let bytes = entries.get(at..at.checked_add(ENTRY)?)?;
    Some(Entry { physical: read_i64(bytes, 0)?, size: read_i32(bytes, 8)?, code: read_i64(bytes, 12)? })
}

/// Whether the low half of a tag code is among packed, sorted codes.
fn wanted(codes: &[u8], code: i64) -> bool {
    #[allow(clippy::cast_possible_truncation)] // only the low half counts: the upper one is the sign
    let low = code as i32;
    let (mut begin, mut end) = (0, codes.len() / 4);
    while begin < end {
        let middle = (begin + end) / 2;
        match read_i32(codes, middle * 4) {
            Some(found) if found == low => return true,
            Some(found) if found < low => begin = middle + 1,
            _ => end = middle,
        }
    }
    false
}

/// Bytes and records.
pub type Limits = (i64, i64);
/// Begin and end of the log, how many bytes before the end count as being in memory, the size of a file.
pub type Extent = (i64, i64, i64, i64);

/// What a scan found; see `pyromq.store.queue.scan`.
pub struct Picked {
    pub examined: usize,
    pub ended: bool,
    removing: bool,
    pub count: i64,
    pub size: i64,
    pub oldest: i64,
    pub last: i64,
    pub runs: Vec<(i64, i64)>,
    /// Which of the entries, also when they are all of them.
    pub numbers: Vec<usize>,
}

/// Pick records by their entries, of which so many are `available` from an index on.
#[allow(clippy::too_many_arguments)]
pub fn pick(
    entries: &[u8],
    index: usize,
    available: usize,
    max_count: i64,
    near: Limits,
    far: Limits,
    log: Extent,
    codes: Option<&[u8]>,
) -> Picked {
    let (begin, end, resident, file_size) = log;
    let (mut examined, mut count, mut size) = (0_usize, 0_i64, 0_i64);
    let (mut ended, mut removing) = (false, false);
    let (mut oldest, mut last) = (i64::MAX, 0_i64);
    let mut file = (0_i64, 0_i64);
    let mut runs: Vec<(i64, i64)> = Vec::new();
    let mut numbers: Vec<usize> = Vec::with_capacity(available.min(64));
    while examined < available {
        let Some(item) = index.checked_add(examined).and_then(|at| entry(entries, at)) else { break };
        let length = i64::from(item.size);
        let is_far = i128::from(end) - i128::from(item.physical) > i128::from(resident);
        let (byte_limit, count_limit) = if is_far { far } else { near };
        if count > 0 && (count >= max_count || count >= count_limit || size + length > byte_limit) {
            ended = true;
            break;
        }
        examined += 1;
        if item.size == FILLER || item.size <= 0 {
            continue;
        }
        if codes.is_some_and(|codes| !wanted(codes, item.code)) {
            continue;
        }
        let stop = match item.physical.checked_add(length) {
            Some(stop) if item.physical >= begin && stop <= end => stop,
            _ => {
                removing |= count == 0;
                continue;
            }
        };
        if item.physical < file.0 || item.physical >= file.1 {
            // Most are in the file of the one before: dividing for each would take longer than all the rest.
            let Some(rest) = item.physical.checked_rem(file_size).filter(|_| file_size > 0) else { continue };
            file = (item.physical - rest, (item.physical - rest).saturating_add(file_size));
        }
        if stop > file.1 {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.1 == item.physical && item.physical != file.0 => run.1 = stop,
            _ => runs.push((item.physical, stop)),
        }
        numbers.push(examined - 1);
        oldest = oldest.min(item.physical);
        last = stop;
        count += 1;
        size += length;
    }
    let oldest = if count > 0 { oldest } else { 0 };
    Picked { examined, ended, removing, count, size, oldest, last, runs, numbers }
}

/// See `pyromq.store.queue.scan`.
#[pyfunction]
#[pyo3(signature = (entries, index, available, max_count, near, far, log, codes, /))]
#[allow(clippy::too_many_arguments)]
pub fn scan_entries<'py>(
    py: Python<'py>,
    entries: Bytes,
    index: usize,
    available: usize,
    max_count: i64,
    near: Limits,
    far: Limits,
    log: Extent,
    codes: Option<Bytes>,
) -> PyResult<Bound<'py, PyTuple>> {
    let codes = codes.as_ref().map(Bytes::slice);
    let found = pick(entries.slice(), index, available, max_count, near, far, log, codes);
    let Picked { examined, ended, removing, count, size, oldest, last, runs, numbers } = found;
    let runs = PyList::new(py, runs)?;
    let numbers = if numbers.len() == examined { PyList::empty(py) } else { PyList::new(py, numbers)? };
    (examined, ended, removing, count, size, oldest, last, runs, numbers).into_pyobject(py)
}

/// Whether a sound plain record of this place and number begins at a position; see `plainrecord.is_plain`.
fn is_plain(log: &[u8], at: usize, size: usize, place: i64, number: i64, verify: bool) -> Option<bool> {
    let record = log.get(at..at.checked_add(size)?)?;
    let body_size = usize::try_from(read_i32(record, 84)?).ok()?;
    let sound = usize::try_from(read_i32(record, 0)?).ok()? == size
        && read_i32(record, 4)? == MAGIC_V1
        && read_i64(record, 28)? == place
        && read_i64(record, 20)? == number
        && read_i32(record, 36)? & HOSTS_MASK == 0;
    if !sound {
        return Some(false);
    }
    let topic_at = BODY.checked_add(body_size)?;
    let text_at = topic_at + usize::from(*record.get(topic_at)?) + 3;
    let length = record.get(text_at - 2..text_at)?;
    if usize::from(u16::from_be_bytes([length[0], length[1]])) != record.len() - text_at {
        return Some(false);
    }
    let body = record.get(BODY..topic_at)?;
    #[allow(clippy::cast_possible_wrap)] // the sign bit is cut off
    let checksum = || (crc32fast::hash(body) & 0x7FFF_FFFF) as i32;
    Some(!verify || checksum() == read_i32(record, 8)?)
}

/// See `pyromq.store.queue.scan`.
#[pyfunction]
#[pyo3(signature = (log, start, entries, index, first, picked, verify_crc, /))]
pub fn are_sound(
    log: Bytes,
    start: i64,
    entries: Bytes,
    index: usize,
    first: i64,
    picked: Vec<usize>,
    verify_crc: bool,
) -> bool {
    all_sound(log.slice(), start, entries.slice(), index, first, &picked, verify_crc)
}

/// Whether the records of entries are sound plain ones, in a part of the log that begins at `start`.
pub fn all_sound(
    log: &[u8],
    start: i64,
    entries: &[u8],
    index: usize,
    first: i64,
    numbers: &[usize],
    verify_crc: bool,
) -> bool {
    numbers.iter().all(|&number| {
        let check = || {
            let item = entry(entries, index.checked_add(number)?)?;
            let size = usize::try_from(item.size).ok()?;
            let at = usize::try_from(item.physical.checked_sub(start)?).ok()?;
            let offset = first.checked_add(i64::try_from(number).ok()?)?;
            is_plain(log, at, size, item.physical, offset, verify_crc)
        };
        check().unwrap_or(false)
    })
}

/// See `pyromq.store.queue.scan`.
#[pyfunction]
#[pyo3(signature = (head, log, start, runs, /))]
pub fn gather<'py>(
    py: Python<'py>,
    head: Bytes,
    log: Bytes,
    start: i64,
    runs: Vec<(i64, i64)>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let (head, log) = (head.slice(), log.slice());
    let mut size = head.len();
    let mut pieces: Vec<&[u8]> = Vec::with_capacity(runs.len());
    for (begin, end) in runs {
        let place = |offset: i64| usize::try_from(offset.checked_sub(start)?).ok();
        let Some(piece) = place(begin).zip(place(end)).and_then(|(begin, end)| log.get(begin..end)) else {
            return Ok(None);
        };
        size += piece.len();
        pieces.push(piece);
    }
    let frame = PyBytes::new_with(py, size, |mut into| {
        for piece in std::iter::once(&head).chain(&pieces) {
            let (here, rest) = into.split_at_mut(piece.len());
            here.copy_from_slice(piece);
            into = rest;
        }
        Ok(())
    })?;
    Ok(Some(frame))
}

const PYTHON: u8 = 3;
const RESPONSE: i32 = 1;

/// See `pyromq.protocol.headers.consume`.
#[pyfunction]
#[pyo3(signature = (binary, code, opaque, version, remark, numbers, size, /))]
pub fn pull_head<'py>(
    py: Python<'py>,
    binary: bool,
    code: i32,
    opaque: i32,
    version: i32,
    remark: &str,
    numbers: (i64, i64, i64, i64),
    size: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut frame: Vec<u8> = Vec::with_capacity(320);
    write_head(&mut frame, binary, code, opaque, version, remark, numbers, size)?;
    Ok(PyBytes::new(py, &frame))
}

/// Append the head of an answer with messages of `size` bytes.
#[allow(clippy::too_many_arguments)]
pub fn write_head(
    frame: &mut Vec<u8>,
    binary: bool,
    code: i32,
    opaque: i32,
    version: i32,
    remark: &str,
    numbers: (i64, i64, i64, i64),
    size: usize,
) -> PyResult<()> {
    let begin = frame.len();
    frame.extend_from_slice(&[0; 8]);
    let (suggested, next, low, high) = numbers;
    let fields =
        [("suggestWhichBrokerId", suggested), ("nextBeginOffset", next), ("minOffset", low), ("maxOffset", high)];
    let mut digits = Digits::new();
    if binary {
        #[allow(clippy::cast_possible_truncation)] // binary headers cut off larger codes, and readers know it
        let (code, version) = (code as i16, version as i16);
        frame.extend_from_slice(&code.to_be_bytes());
        frame.push(PYTHON);
        frame.extend_from_slice(&version.to_be_bytes());
        frame.extend_from_slice(&opaque.to_be_bytes());
        frame.extend_from_slice(&RESPONSE.to_be_bytes());
        frame.extend_from_slice(&length(remark.len())?);
        frame.extend_from_slice(remark.as_bytes());
        let block = frame.len();
        frame.extend_from_slice(&[0; 4]);
        for (name, number) in fields {
            let text = digits.of(number);
            frame.push(0);
            #[allow(clippy::cast_possible_truncation)] // the names above
            frame.push(name.len() as u8);
            frame.extend_from_slice(name.as_bytes());
            frame.extend_from_slice(&length(text.len())?);
            frame.extend_from_slice(text);
        }
        let word = length(frame.len() - block - 4)?;
        frame[block..block + 4].copy_from_slice(&word);
    } else {
        frame.extend_from_slice(b"{\"code\":");
        frame.extend_from_slice(digits.of(i64::from(code)));
        frame.extend_from_slice(b",\"extFields\":{");
        for (place, (name, number)) in fields.into_iter().enumerate() {
            frame.extend_from_slice(if place == 0 { b"\"" } else { b",\"" });
            frame.extend_from_slice(name.as_bytes());
            frame.extend_from_slice(b"\":\"");
            frame.extend_from_slice(digits.of(number));
            frame.push(b'"');
        }
        frame.extend_from_slice(b"},\"flag\":1,\"language\":\"PYTHON\",\"opaque\":");
        frame.extend_from_slice(digits.of(i64::from(opaque)));
        frame.extend_from_slice(b",\"remark\":\"");
        frame.extend_from_slice(remark.as_bytes());
        frame.extend_from_slice(b"\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        frame.extend_from_slice(digits.of(i64::from(version)));
        frame.push(b'}');
    }
    let header = frame.len() - begin - 8;
    let total = length(header + 4 + size)?;
    let word = length(header | usize::from(binary) << 24)?;
    frame[begin..begin + 4].copy_from_slice(&total);
    frame[begin + 4..begin + 8].copy_from_slice(&word);
    Ok(())
}

fn length(number: usize) -> PyResult<[u8; 4]> {
    Ok(u32::try_from(number)?.to_be_bytes())
}
