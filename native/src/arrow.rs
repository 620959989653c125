//! Records as Arrow columns: twin of the vectors of `arrow/decoder.py`, for records that are plain.
//!
//! A record that is not (damaged, compressed, an inner batch, IPv6 hosts, text that is not UTF-8) is left over for
//! Python by its number, with all others untouched by it. The lock is not held while columns are made.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io::Write;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::cdata::{Buffer, Column, array_capsule, schema_capsule};
use crate::layout::{HOSTS_MASK, MAGIC_V1, MAGIC_V2};
use crate::memory::Bytes;

const HEAD: usize = 88;
const MIN_SIZE: usize = 91;
const COMPRESSED: i32 = 0x1;
const WRAPPED: i32 = 0xC0;
pub const MIN_TIME: i64 = -62_135_596_800_000;
pub const MAX_TIME: i64 = 253_402_300_799_999;
const MAX_BYTES: usize = i32::MAX as usize;
/// Properties of one record; what has more is not plain.
const MAX_ENTRIES: usize = 64;

// Where fixed fields are in a record with IPv4 hosts.
const SIZE: usize = 0;
const MAGIC: usize = 4;
const CRC: usize = 8;
const QUEUE: usize = 12;
const FLAG: usize = 16;
const OFFSET: usize = 20;
const PHYSICAL: usize = 28;
const SYS_FLAG: usize = 36;
const BORN: usize = 40;
const BORN_HOST: usize = 48;
const STORED: usize = 56;
const STORE_HOST: usize = 64;
const RECONSUMED: usize = 72;
const PREPARED: usize = 76;
const BODY: usize = 84;

type Head = [u8; HEAD];

/// `RowSpec`, by its attributes.
#[derive(FromPyObject)]
pub struct Spec {
    columns: Vec<String>,
    text_properties: bool,
    text_body: bool,
    decompress: bool,
    verify_crc: bool,
    tags: Option<HashSet<String>>,
}

/// `Segment`: records, topic, broker, start, end, delta.
type Segment = (usize, Option<String>, String, i64, i64, i64);

/// Columns of one length, for anything that imports Arrow's C data interface.
#[pyclass(frozen, module = "pyromq_native")]
pub struct ArrowColumns {
    pub root: Arc<Column>,
}

#[pymethods]
impl ArrowColumns {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.root)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema; // a wish, which may be passed over
        Ok((schema_capsule(py, &self.root)?, array_capsule(py, &self.root)?))
    }

    fn __len__(&self) -> usize {
        self.root.length
    }
}

/// Columns of the plain records, the rows they are of, and the rows left over; both as 64-bit numbers. None when a
/// column would be too large, or is unknown here.
#[pyfunction]
pub fn arrow_columns<'py>(
    py: Python<'py>,
    buffer: Bytes,
    starts: Bytes,
    owners: Bytes,
    segments: Vec<Segment>,
    spec: Spec,
) -> PyResult<Option<(ArrowColumns, Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
    let (data, starts, owners) = (buffer.slice(), starts.slice(), owners.slice());
    let made = py.detach(|| columns_of(data, starts, owners, &segments, &spec));
    Ok(made.map(|(root, rows, left)| {
        (ArrowColumns { root: Arc::new(root) }, PyBytes::new(py, &rows), PyBytes::new(py, &left))
    }))
}

/// Columns of all records of some answers to pulls, a segment for each. None unless all of them are plain.
#[pyfunction]
pub fn pulled_columns(py: Python<'_>, bodies: Vec<Bytes>, segments: Vec<Segment>, spec: Spec) -> Option<ArrowColumns> {
    py.detach(|| columns_of_pulls(&bodies, &segments, &spec)).map(|root| ArrowColumns { root: Arc::new(root) })
}

/// Starts of records that lie back to back from `start` to the end, as 64-bit numbers. None where a size is wrong.
#[pyfunction]
pub fn plain_starts<'py>(py: Python<'py>, buffer: Bytes, start: usize) -> Option<Bound<'py, PyBytes>> {
    let data = buffer.slice();
    let found = py.detach(|| {
        let mut found = Vec::with_capacity(data.len() / 8);
        let mut at = start;
        while at < data.len() {
            let left = data.get(at..)?;
            let size = usize::try_from(i32::from_be_bytes(*left.first_chunk()?)).ok()?;
            if left.len() < MIN_SIZE || size < MIN_SIZE || size > left.len() {
                return None;
            }
            found.extend_from_slice(&(at as i64).to_ne_bytes());
            at += size;
        }
        Some(found)
    })?;
    Some(PyBytes::new(py, &found))
}

fn columns_of(
    data: &[u8],
    starts: &[u8],
    owners: &[u8],
    segments: &[Segment],
    spec: &Spec,
) -> Option<(Column, Vec<u8>, Vec<u8>)> {
    if data.len() > MAX_BYTES || starts.len() != owners.len() {
        return None;
    }
    let mut table = Table::new(spec, segments, starts.len() / 8)?;
    table.reserve(numbers(starts).map(|start| claimed_body(data, start)).sum::<usize>().min(data.len()));
    let (mut rows, mut left) = (Vec::with_capacity(starts.len()), Vec::new());
    for (row, (start, owner)) in numbers(starts).zip(numbers(owners)).enumerate() {
        match table.take(data, start, segments.get(usize::try_from(owner).ok()?)?) {
            Taken::Row => rows.extend_from_slice(&(row as i64).to_ne_bytes()),
            Taken::Unwanted => {}
            Taken::Odd => left.extend_from_slice(&(row as i64).to_ne_bytes()),
        }
    }
    Some((table.finish(rows.len() / 8)?, rows, left))
}

/// Columns of records that lie back to back in several buffers, a segment for each. None unless all are plain.
fn columns_of_pulls(bodies: &[Bytes], segments: &[Segment], spec: &Spec) -> Option<Column> {
    let size = bodies.iter().map(|body| body.slice().len()).sum::<usize>();
    if size > MAX_BYTES || bodies.len() != segments.len() {
        return None;
    }
    let count = segments.iter().map(|segment| segment.0).sum::<usize>().min(size / MIN_SIZE);
    let mut table = Table::new(spec, segments, count)?;
    table.reserve(size.saturating_sub(count.saturating_mul(MIN_SIZE)));
    let mut length = 0;
    for (body, segment) in bodies.iter().map(Bytes::slice).zip(segments) {
        let mut at = 0;
        while at < body.len() {
            let size = usize::try_from(i32::from_be_bytes(*body.get(at..)?.first_chunk()?)).ok()?;
            match table.take(body, i64::try_from(at).ok()?, segment) {
                Taken::Row => length += 1,
                Taken::Unwanted => {}
                Taken::Odd => return None,
            }
            at += size; // which a record that is not odd has
        }
    }
    table.finish(length)
}

enum Taken {
    Row,
    Unwanted,
    Odd,
}

/// Columns in the making.
struct Table<'a, 'b> {
    spec: &'b Spec,
    needs: Needs,
    made: Vec<Building>,
    entries: Vec<Entry<'a>>,
}

impl<'a, 'b> Table<'a, 'b> {
    fn new(spec: &'b Spec, segments: &[Segment], count: usize) -> Option<Self> {
        let mut made = Vec::with_capacity(spec.columns.len());
        for name in &spec.columns {
            made.push(Building::new(name, spec, segments, count)?);
        }
        let needs = Needs::of(&made, spec);
        Some(Self { spec, needs, made, entries: Vec::new() })
    }

    /// Make room for so many bytes of bodies.
    fn reserve(&mut self, bodies: usize) {
        if let Some(Building::Body(texts)) = self.made.iter_mut().find(|each| matches!(each, Building::Body(_))) {
            texts.data.reserve(bodies);
        }
    }

    /// A row of the record at `start`, if it is plain and wanted.
    #[inline]
    fn take(&mut self, data: &'a [u8], start: i64, segment: &Segment) -> Taken {
        match Record::read(data, start, segment, self.spec, &self.needs, &mut self.entries) {
            Verdict::Plain(record) => {
                for each in &mut self.made {
                    each.push(&record, &self.entries, segment);
                }
                Taken::Row
            }
            Verdict::Unwanted => Taken::Unwanted,
            Verdict::Odd => Taken::Odd,
        }
    }

    /// All of them as children of one. None when a column has become too large.
    fn finish(self, length: usize) -> Option<Column> {
        let mut children = Vec::with_capacity(self.made.len());
        for (name, each) in self.spec.columns.iter().zip(self.made) {
            children.push(Arc::new(each.finish(name, length)?));
        }
        Some(Column {
            name: String::new(),
            format: c"+s",
            nullable: false,
            length,
            nulls: 0,
            buffers: vec![None],
            children,
        })
    }
}

/// 64-bit numbers out of their bytes.
fn numbers(raw: &[u8]) -> impl Iterator<Item = i64> {
    raw.chunks_exact(8).map(|each| i64::from_ne_bytes(each.try_into().unwrap_or_default()))
}

/// What a record says about the length of its body, if anything: an estimate.
fn claimed_body(data: &[u8], start: i64) -> usize {
    let length = usize::try_from(start)
        .ok()
        .and_then(|start| data.get(start.checked_add(BODY)?..))
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |raw| i32::from_be_bytes(*raw));
    usize::try_from(length).unwrap_or(0)
}

/// Which parts of records have to be looked at.
struct Needs {
    body: bool,
    text_body: bool,
    topic: bool,
    properties: bool,
    all_properties: bool,
}

impl Needs {
    fn of(made: &[Building], spec: &Spec) -> Self {
        let any = |wanted: fn(&Building) -> bool| made.iter().any(wanted);
        let body = any(|each| matches!(each, Building::Body(_)));
        let all_properties = any(|each| matches!(each, Building::Map { .. } | Building::Json(_)));
        let one_property = any(|each| matches!(each, Building::Property(..) | Building::Id(_)));
        Self {
            body,
            text_body: body && spec.text_body,
            topic: any(|each| matches!(each, Building::Topic(_))),
            properties: all_properties || one_property || spec.tags.is_some(),
            all_properties,
        }
    }
}

enum Verdict<'a> {
    Plain(Record<'a>),
    Unwanted,
    Odd,
}

/// A property: name and value.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// A record that is plain.
struct Record<'a> {
    head: &'a Head,
    body: &'a [u8],
    topic: &'a [u8],
    /// The offset in its queue.
    offset: i64,
}

impl<'a> Record<'a> {
    /// The record at `start`; its properties, if they are needed, in `entries`.
    fn read(
        data: &'a [u8],
        start: i64,
        segment: &Segment,
        spec: &Spec,
        needs: &Needs,
        entries: &mut Vec<Entry<'a>>,
    ) -> Verdict<'a> {
        let Some((head, body, topic, properties)) = usize::try_from(start).ok().and_then(|at| located(data, at)) else {
            return Verdict::Odd;
        };
        if spec.verify_crc && (crc32fast::hash(body) & 0x7FFF_FFFF) as i32 != int(head, CRC) {
            return Verdict::Odd;
        }
        let sys_flag = int(head, SYS_FLAG);
        if sys_flag & WRAPPED == WRAPPED {
            return Verdict::Odd;
        }
        let (_, _, _, low, high, delta) = *segment;
        let offset = long(head, OFFSET).wrapping_add(delta);
        if offset < low || offset >= high {
            return Verdict::Unwanted;
        }
        if needs.body && spec.decompress && sys_flag & COMPRESSED != 0 {
            return Verdict::Odd;
        }
        if needs.topic && std::str::from_utf8(topic).is_err() || needs.text_body && std::str::from_utf8(body).is_err() {
            return Verdict::Odd;
        }
        if needs.properties {
            if !split(properties, needs.all_properties, entries) {
                return Verdict::Odd;
            }
            if let Some(tags) = &spec.tags {
                // Brokers compare hashes of tags; different tags may share one.
                let tag = property(entries, b"TAGS").and_then(|tag| std::str::from_utf8(tag).ok());
                if !tag.is_some_and(|tag| tags.contains(tag)) {
                    return Verdict::Unwanted;
                }
            }
        }
        Verdict::Plain(Self { head, body, topic, offset })
    }
}

/// The parts of a sound record with IPv4 hosts: head, body, topic, properties.
fn located(data: &[u8], at: usize) -> Option<(&Head, &[u8], &[u8], &[u8])> {
    let rest = data.get(at..)?;
    let head: &Head = rest.first_chunk()?;
    let size = usize::try_from(int(head, SIZE)).ok()?;
    if size < MIN_SIZE || int(head, SYS_FLAG) & HOSTS_MASK != 0 {
        return None;
    }
    let rest = rest.get(HEAD..size)?;
    let (body, rest) = rest.split_at_checked(usize::try_from(int(head, BODY)).ok()?)?;
    let (length, rest) = match int(head, MAGIC) {
        MAGIC_V1 => {
            let (length, rest) = rest.split_first()?;
            (i16::from(*length as i8), rest)
        }
        MAGIC_V2 => {
            let (length, rest) = rest.split_first_chunk()?;
            (i16::from_be_bytes(*length), rest)
        }
        _ => return None,
    };
    let (topic, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let (length, properties) = rest.split_first_chunk()?;
    (usize::try_from(i16::from_be_bytes(*length)).ok()? == properties.len()).then_some((head, body, topic, properties))
}

/// Properties in the order of their text, each name once with its last value if `once`. False when they are not plain.
fn split<'a>(text: &'a [u8], once: bool, entries: &mut Vec<Entry<'a>>) -> bool {
    const ONES: u64 = u64::MAX / 255;
    entries.clear();
    if std::str::from_utf8(text).is_err() {
        return false;
    }
    let mut pieces = Pieces { text, start: 0, middle: None, once, entries };
    let mut at = 0;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk()).map(|raw| u64::from_le_bytes(*raw)) {
        // The high bit of each byte below 3. Above such a byte there may be one that is not, which `mark` passes over.
        let mut found = word.wrapping_sub(3 * ONES) & !word & (0x80 * ONES);
        while found != 0 {
            if !pieces.mark(at + found.trailing_zeros() as usize / 8) {
                return false;
            }
            found &= found - 1;
        }
        at += 8;
    }
    (at..=text.len()).all(|at| pieces.mark(at))
}

/// A text of properties on its way into entries.
struct Pieces<'a, 'b> {
    text: &'a [u8],
    start: usize,
    middle: Option<usize>,
    once: bool,
    entries: &'b mut Vec<Entry<'a>>,
}

impl Pieces<'_, '_> {
    /// Look at one byte, or at the end. False when there are too many.
    #[inline]
    fn mark(&mut self, at: usize) -> bool {
        match self.text.get(at) {
            Some(1) if self.middle.is_none() => self.middle = Some(at),
            Some(2) | None => return self.end(at),
            _ => {}
        }
        true
    }

    #[inline]
    fn end(&mut self, at: usize) -> bool {
        let (start, middle) = (self.start, self.middle.take());
        self.start = at + 1;
        let Some((name, value)) =
            middle.and_then(|middle| Some((self.text.get(start..middle)?, self.text.get(middle + 1..at)?)))
        else {
            return true;
        };
        if name.is_empty() || value.is_empty() {
            return true;
        }
        if self.once {
            if let Some(earlier) = self.entries.iter_mut().find(|each| each.0 == name) {
                earlier.1 = value;
                return true;
            }
        }
        if self.entries.len() == MAX_ENTRIES {
            return false;
        }
        self.entries.push((name, value));
        true
    }
}

fn property<'a>(entries: &[Entry<'a>], name: &[u8]) -> Option<&'a [u8]> {
    entries.iter().rev().find(|each| each.0 == name).map(|each| each.1)
}

fn int(head: &Head, at: usize) -> i32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&head[at..at + 4]);
    i32::from_be_bytes(raw)
}

fn long(head: &Head, at: usize) -> i64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&head[at..at + 8]);
    i64::from_be_bytes(raw)
}

/// Which values are not null; nothing is noted before the first null.
#[derive(Default)]
pub struct Validity {
    bits: Vec<u8>,
    nulls: usize,
}

impl Validity {
    #[inline]
    pub fn push(&mut self, index: usize, valid: bool) {
        if !valid || self.nulls > 0 {
            self.note(index, valid);
        }
    }

    fn note(&mut self, index: usize, valid: bool) {
        if self.nulls == 0 {
            self.bits = vec![0xFF; index / 8 + 1];
        } else if self.bits.len() <= index / 8 {
            self.bits.push(0xFF);
        }
        if !valid {
            self.nulls += 1;
            if let Some(byte) = self.bits.get_mut(index / 8) {
                *byte &= !(1 << (index % 8));
            }
        }
    }

    pub fn finish(self) -> (usize, Option<Buffer>) {
        (self.nulls, (self.nulls > 0).then_some(Buffer::Bytes(self.bits)))
    }
}

/// Strings or bytes.
pub struct Texts {
    format: &'static CStr,
    ends: Vec<i32>,
    data: Vec<u8>,
    valid: Validity,
}

impl Texts {
    pub fn new(count: usize) -> Self {
        let mut ends = Vec::with_capacity(count + 1);
        ends.push(0);
        Self { format: c"u", ends, data: Vec::new(), valid: Validity::default() }
    }

    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.data.extend_from_slice(value);
        }
        self.end(value.is_some());
    }

    /// The value is what was written to `data` since the last one.
    #[inline]
    fn end(&mut self, valid: bool) {
        self.valid.push(self.ends.len() - 1, valid);
        self.ends.push(self.data.len() as i32); // one that does not fit is found by `finish`
    }

    pub fn finish(self, name: &str, nullable: bool) -> Option<Column> {
        if self.data.len() > MAX_BYTES {
            return None;
        }
        let length = self.ends.len() - 1;
        let (nulls, valid) = self.valid.finish();
        let buffers = vec![valid, Some(Buffer::Ints(self.ends)), Some(Buffer::Bytes(self.data))];
        Some(Column { name: name.to_owned(), format: self.format, nullable, length, nulls, buffers, children: vec![] })
    }
}

/// A column in the making; numbers say where in a record its value is.
enum Building {
    Int(usize, Vec<i32>),
    Long(usize, Vec<i64>),
    SysFlag(i32, Vec<i32>),
    QueueOffset(Vec<i64>),
    Time(usize, Vec<i64>, Validity),
    Host(usize, Texts),
    Topic(Texts),
    SharedTopic(Texts),
    Broker(Texts),
    Body(Texts),
    Property(&'static [u8], Texts),
    Id(Texts),
    Map { ends: Vec<i32>, names: Texts, values: Texts },
    Json(Texts),
    Fault(Texts),
}

impl Building {
    fn new(name: &str, spec: &Spec, segments: &[Segment], count: usize) -> Option<Self> {
        let ints = || Vec::with_capacity(count);
        let longs = || Vec::with_capacity(count);
        let texts = || Texts::new(count);
        Some(match name {
            "topic" if segments.iter().any(|segment| segment.1.is_none()) => Self::Topic(texts()),
            "topic" => Self::SharedTopic(texts()),
            "brokerName" => Self::Broker(texts()),
            "queueId" => Self::Int(QUEUE, ints()),
            "queueOffset" => Self::QueueOffset(longs()),
            "msgId" => Self::Id(texts()),
            "tags" => Self::Property(b"TAGS", texts()),
            "keys" => Self::Property(b"KEYS", texts()),
            "body" if spec.text_body => Self::Body(texts()),
            "body" => Self::Body(Texts { format: c"z", ..texts() }),
            "properties" if spec.text_properties => Self::Json(texts()),
            "properties" => {
                let mut ends = ints();
                ends.push(0);
                Self::Map { ends, names: texts(), values: texts() }
            }
            "bornTimestamp" => Self::Time(BORN, longs(), Validity::default()),
            "storeTimestamp" => Self::Time(STORED, longs(), Validity::default()),
            "flag" => Self::Int(FLAG, ints()),
            "reconsumeTimes" => Self::Int(RECONSUMED, ints()),
            "sysFlag" => Self::SysFlag(if spec.decompress { !COMPRESSED } else { !0 }, ints()),
            "bornHost" => Self::Host(BORN_HOST, texts()),
            "storeHost" => Self::Host(STORE_HOST, texts()),
            "commitLogOffset" => Self::Long(PHYSICAL, longs()),
            "storeSize" => Self::Int(SIZE, ints()),
            "bodyCrc" => Self::Int(CRC, ints()),
            "preparedTransactionOffset" => Self::Long(PREPARED, longs()),
            "fault" => Self::Fault(texts()),
            _ => return None,
        })
    }

    fn push(&mut self, record: &Record, entries: &[Entry], segment: &Segment) {
        let head = record.head;
        match self {
            Self::Int(at, values) => values.push(int(head, *at)),
            Self::Long(at, values) => values.push(long(head, *at)),
            Self::SysFlag(mask, values) => values.push(int(head, SYS_FLAG) & *mask),
            Self::QueueOffset(values) => values.push(record.offset),
            Self::Time(at, values, valid) => {
                let millis = long(head, *at);
                let sane = (MIN_TIME..=MAX_TIME).contains(&millis);
                valid.push(values.len(), sane);
                values.push(if sane { millis * 1000 } else { 0 });
            }
            Self::Host(at, texts) => {
                let [a, b, c, d] = (int(head, *at) as u32).to_be_bytes();
                let _ = write!(texts.data, "{a}.{b}.{c}.{d}:{}", int(head, *at + 4));
                texts.end(true);
            }
            Self::Topic(texts) => texts.push(Some(record.topic)),
            Self::SharedTopic(texts) => texts.push(segment.1.as_deref().map(str::as_bytes)),
            Self::Broker(texts) => texts.push(Some(segment.2.as_bytes())),
            Self::Body(texts) => texts.push(Some(record.body)),
            Self::Property(name, texts) => texts.push(property(entries, name)),
            Self::Id(texts) => match property(entries, b"UNIQ_KEY") {
                Some(id) => texts.push(Some(id)),
                None => {
                    // One whose sender gave it no id is known by its place.
                    let (host, physical) = (long(head, STORE_HOST), long(head, PHYSICAL));
                    let _ = write!(texts.data, "{host:016X}{physical:016X}");
                    texts.end(true);
                }
            },
            Self::Map { ends, names, values } => {
                for (name, value) in entries {
                    names.push(Some(name));
                    values.push(Some(value));
                }
                ends.push((names.ends.len() - 1) as i32);
            }
            Self::Json(texts) => {
                json(entries, &mut texts.data);
                texts.end(true);
            }
            Self::Fault(texts) => texts.push(None),
        }
    }

    /// None when a column has become too large.
    fn finish(self, name: &str, length: usize) -> Option<Column> {
        let numbers = |format, (nulls, valid), values| Column {
            name: name.to_owned(),
            format,
            nullable: true,
            length,
            nulls,
            buffers: vec![valid, Some(values)],
            children: vec![],
        };
        Some(match self {
            Self::Int(_, values) | Self::SysFlag(_, values) => numbers(c"i", (0, None), Buffer::Ints(values)),
            Self::Long(_, values) | Self::QueueOffset(values) => numbers(c"l", (0, None), Buffer::Longs(values)),
            Self::Time(_, values, valid) => numbers(c"tsu:UTC", valid.finish(), Buffer::Longs(values)),
            Self::Host(_, texts) | Self::Property(_, texts) => texts.finish(name, true)?,
            Self::Topic(texts) | Self::SharedTopic(texts) | Self::Broker(texts) => texts.finish(name, true)?,
            Self::Body(texts) | Self::Id(texts) | Self::Json(texts) | Self::Fault(texts) => texts.finish(name, true)?,
            Self::Map { ends, names, values } => {
                let entries = names.ends.len() - 1;
                let pairs = Column {
                    name: "entries".to_owned(),
                    format: c"+s",
                    nullable: false,
                    length: entries,
                    nulls: 0,
                    buffers: vec![None],
                    children: vec![Arc::new(names.finish("key", false)?), Arc::new(values.finish("value", true)?)],
                };
                let mut column = numbers(c"+m", (0, None), Buffer::Ints(ends));
                column.children.push(Arc::new(pairs));
                column
            }
        })
    }
}

/// Properties as a JSON object, as msgspec writes it.
fn json(entries: &[Entry], out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        quote(name, out);
        out.push(b':');
        quote(value, out);
    }
    out.push(b'}');
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
