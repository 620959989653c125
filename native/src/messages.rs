//! A client's messages: out of the records of a pull, and into the text of a send. Twins: `protocol/records/salvage.py`
//! and `protocol/headers/send.py`.

use std::fmt::Write;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyType};

use crate::layout::{BODY, MAGIC_V1, MAGIC_V2};

const MIN_SIZE: usize = 91;
const MAX_SHORT_TOPIC: usize = 127;
/// Low bits of the system flag that need a closer look: compressed, IPv6 hosts, batches within.
const ODD: i32 = 0xF1;
const MAX_PROPERTIES: usize = 32767;
/// Where the lengths of a frame will stand.
const WORDS: &str = "\0\0\0\0\0\0\0\0";
const MAX_HEADER: usize = 1024 * 1024;
const FAULT: &[u8] = b"PYROMQ_FAULT";

/// Reads the messages of plain records from `offset` on and appends them to `messages`; where it stopped: at the end or
/// at the first record that is not plain. `make` is the class of messages, `host` reads the packed form of an address.
#[pyfunction]
pub fn take_plain<'py>(
    data: &Bound<'py, PyBytes>,
    offset: usize,
    delta: i64,
    make: &Bound<'py, PyType>,
    host: &Bound<'py, PyAny>,
    messages: &Bound<'py, PyList>,
) -> PyResult<usize> {
    let bytes = data.as_bytes();
    let mut reader = Reader::new(make, host)?;
    let mut at = offset;
    while let Some(record) = bytes.get(at..).and_then(Record::read) {
        let Some(queue_offset) = record.queue_offset.checked_add(delta) else { break };
        let Some(message) = reader.message(&record, queue_offset)? else { break };
        messages.append(message)?;
        at += record.size;
    }
    Ok(at)
}

/// A record with both hosts IPv4, an uncompressed body that matches its checksum, and texts that are UTF-8.
struct Record<'a> {
    size: usize,
    body_crc: i32,
    queue_id: i32,
    flag: i32,
    queue_offset: i64,
    physical_offset: i64,
    sys_flag: i32,
    born_timestamp: i64,
    born_host: &'a [u8],
    store_timestamp: i64,
    store_host: &'a [u8],
    reconsume_times: i32,
    prepared: i64,
    body: &'a [u8],
    topic: &'a str,
    properties: &'a str,
}

impl<'a> Record<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < MIN_SIZE {
            return None;
        }
        let size = usize::try_from(int(bytes, 0)?).ok()?;
        let magic = int(bytes, 4)?;
        let sys_flag = int(bytes, 36)?;
        if sys_flag & ODD != 0 || size < MIN_SIZE {
            return None;
        }
        let record = bytes.get(..size)?;
        let body_end = BODY.checked_add(usize::try_from(int(record, 84)?).ok()?)?;
        let body = record.get(BODY..body_end)?;
        let (topic_start, topic_length) = match magic {
            MAGIC_V1 => (body_end + 1, usize::from(*record.get(body_end)?)),
            MAGIC_V2 => (body_end + 2, usize::try_from(short(record, body_end)?).ok()?),
            _ => return None,
        };
        if magic == MAGIC_V1 && topic_length > MAX_SHORT_TOPIC {
            return None;
        }
        let topic_end = topic_start + topic_length;
        let topic = record.get(topic_start..topic_end)?;
        let properties = record.get(topic_end + 2..)?;
        if usize::try_from(short(record, topic_end)?) != Ok(properties.len()) {
            return None;
        }
        let body_crc = int(record, 8)?;
        if (crc32fast::hash(body) & 0x7FFF_FFFF) as i32 != body_crc {
            return None;
        }
        Some(Self {
            size,
            body_crc,
            queue_id: int(record, 12)?,
            flag: int(record, 16)?,
            queue_offset: long(record, 20)?,
            physical_offset: long(record, 28)?,
            sys_flag,
            born_timestamp: long(record, 40)?,
            born_host: record.get(48..56)?,
            store_timestamp: long(record, 56)?,
            store_host: record.get(64..72)?,
            reconsume_times: int(record, 72)?,
            prepared: long(record, 76)?,
            body,
            topic: std::str::from_utf8(topic).ok()?,
            properties: std::str::from_utf8(properties).ok()?,
        })
    }
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn short(bytes: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Makes messages. Those of one run have nearly all their texts in common, so the last ones are kept for the next.
struct Reader<'py, 'a> {
    py: Python<'py>,
    make: &'a Bound<'py, PyType>,
    new: Bound<'py, PyAny>,
    host: &'a Bound<'py, PyAny>,
    topic: Kept<'py>,
    born: Option<([u8; 8], Bound<'py, PyAny>)>,
    store: Option<([u8; 8], Bound<'py, PyAny>)>,
    properties: Vec<(Kept<'py>, Kept<'py>)>,
    empty: Bound<'py, PyString>,
    none: Bound<'py, PyAny>,
}

impl<'py, 'a> Reader<'py, 'a> {
    fn new(make: &'a Bound<'py, PyType>, host: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let py = make.py();
        Ok(Self {
            py,
            make,
            new: make.getattr(intern!(py, "__new__"))?,
            host,
            topic: Kept::default(),
            born: None,
            store: None,
            properties: Vec::new(),
            empty: PyString::new(py, ""),
            none: py.None().into_bound(py),
        })
    }

    /// None when the record is the copy of a damaged one.
    fn message(&mut self, record: &Record<'_>, queue_offset: i64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let Some((properties, transaction_id)) = self.properties(record.properties)? else { return Ok(None) };
        let message = self.new.call1((self.make,))?;
        message.setattr(intern!(py, "topic"), self.topic.text(py, record.topic))?;
        message.setattr(intern!(py, "body"), PyBytes::new(py, record.body))?;
        message.setattr(intern!(py, "properties"), properties)?;
        message.setattr(intern!(py, "flag"), record.flag)?;
        message.setattr(intern!(py, "transaction_id"), transaction_id)?;
        message.setattr(intern!(py, "broker_name"), &self.empty)?;
        message.setattr(intern!(py, "queue_id"), record.queue_id)?;
        message.setattr(intern!(py, "queue_offset"), queue_offset)?;
        message.setattr(intern!(py, "physical_offset"), record.physical_offset)?;
        message.setattr(intern!(py, "sys_flag"), record.sys_flag)?;
        message.setattr(intern!(py, "born_timestamp"), record.born_timestamp)?;
        message.setattr(intern!(py, "born_host"), same_host(&mut self.born, record.born_host, self.host)?)?;
        message.setattr(intern!(py, "store_timestamp"), record.store_timestamp)?;
        message.setattr(intern!(py, "store_host"), same_host(&mut self.store, record.store_host, self.host)?)?;
        message.setattr(intern!(py, "reconsume_times"), record.reconsume_times)?;
        message.setattr(intern!(py, "prepared_transaction_offset"), record.prepared)?;
        message.setattr(intern!(py, "body_crc"), record.body_crc)?;
        message.setattr(intern!(py, "store_size"), record.size)?;
        message.setattr(intern!(py, "fault"), &self.none)?;
        Ok(Some(message))
    }

    /// The properties by name, and of a half message its unique id; None when they tell of damage.
    fn properties(&mut self, text: &str) -> PyResult<Option<(Bound<'py, PyDict>, Bound<'py, PyAny>)>> {
        let py = self.py;
        let properties = PyDict::new(py);
        let mut half = false;
        for (place, (name, value)) in entries(text).enumerate() {
            if name.as_bytes() == FAULT {
                return Ok(None);
            }
            if self.properties.len() <= place {
                self.properties.push(Default::default());
            }
            let (names, values) = &mut self.properties[place];
            properties.set_item(names.text(py, name), values.text(py, value))?;
            half |= name == "TRAN_MSG";
        }
        let mut transaction_id = self.none.clone();
        if half {
            let prepared = properties.get_item(intern!(py, "TRAN_MSG"))?;
            if prepared.is_some_and(|value| value.eq(intern!(py, "true")).unwrap_or(false)) {
                transaction_id = properties.get_item(intern!(py, "UNIQ_KEY"))?.unwrap_or(transaction_id);
            }
        }
        Ok(Some((properties, transaction_id)))
    }
}

/// Name and value of each property that has both.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('\x02')
        .filter_map(|piece| piece.split_once('\x01'))
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

fn same_host<'py>(
    kept: &mut Option<([u8; 8], Bound<'py, PyAny>)>,
    packed: &[u8],
    host: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some((known, object)) = kept
        && known == packed
    {
        return Ok(object.clone());
    }
    let object = host.call1((PyBytes::new(host.py(), packed),))?;
    if let Ok(known) = packed.try_into() {
        *kept = Some((known, object.clone()));
    }
    Ok(object)
}

/// The last text of its kind.
#[derive(Default)]
pub struct Kept<'py> {
    text: String,
    object: Option<Bound<'py, PyString>>,
}

impl<'py> Kept<'py> {
    pub fn text(&mut self, py: Python<'py>, text: &str) -> Bound<'py, PyString> {
        if let Some(object) = &self.object
            && self.text == text
        {
            return object.clone();
        }
        let object = PyString::new(py, text);
        self.text.clear();
        self.text.push_str(text);
        self.object = Some(object.clone());
        object
    }
}

/// The fields of a send as JSON text: what is the same for all of a topic and broker, and between it what is not. None
/// for numbers and properties that Python has to look at.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn send_fields<'py>(
    head: &str,
    queue_id: &Bound<'py, PyAny>,
    sys_flag: &Bound<'py, PyAny>,
    born: &Bound<'py, PyAny>,
    flag: &Bound<'py, PyAny>,
    properties: &Bound<'py, PyAny>,
    retries: &Bound<'py, PyAny>,
    tail: &str,
) -> Option<String> {
    let mut text = String::with_capacity(head.len() + tail.len() + 320);
    write_fields(&mut text, head, [queue_id, sys_flag, born, flag], properties, retries, tail)?;
    Some(text)
}

/// A send as a whole frame: the fields, and behind them the opaque, the rest of the header and the body. `head` and
/// `tail` begin and end with what the header has around them.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn send_frame<'py>(
    py: Python<'py>,
    head: &str,
    queue_id: &Bound<'py, PyAny>,
    sys_flag: &Bound<'py, PyAny>,
    born: &Bound<'py, PyAny>,
    flag: &Bound<'py, PyAny>,
    properties: &Bound<'py, PyAny>,
    retries: &Bound<'py, PyAny>,
    tail: &str,
    opaque: &Bound<'py, PyAny>,
    end: &str,
    body: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyBytes>> {
    let body = body.cast_exact::<PyBytes>().ok()?.as_bytes();
    let mut text = String::with_capacity(8 + head.len() + tail.len() + 400);
    text.push_str(WORDS);
    write_fields(&mut text, head, [queue_id, sys_flag, born, flag], properties, retries, tail)?;
    write!(text, "{}", plain_number(opaque)?).ok()?;
    text.push_str(end);
    let header = text.len() - WORDS.len();
    if header > MAX_HEADER {
        return None;
    }
    let length = u32::try_from(4 + header + body.len()).ok()?;
    let mut frame = text.into_bytes();
    frame.reserve_exact(body.len());
    frame.extend_from_slice(body);
    frame.get_mut(..4)?.copy_from_slice(&length.to_be_bytes());
    frame.get_mut(4..8)?.copy_from_slice(&u32::try_from(header).ok()?.to_be_bytes());
    Some(PyBytes::new(py, &frame))
}

/// The text of `send_fields` behind what a text has already.
fn write_fields<'py>(
    text: &mut String,
    head: &str,
    numbers: [&Bound<'py, PyAny>; 4],
    properties: &Bound<'py, PyAny>,
    retries: &Bound<'py, PyAny>,
    tail: &str,
) -> Option<()> {
    let [queue_id, sys_flag, born, flag] = numbers;
    text.push_str(head);
    for (name, number) in
        [("\"e\":\"", queue_id), ("\",\"f\":\"", sys_flag), ("\",\"g\":\"", born), ("\",\"h\":\"", flag)]
    {
        text.push_str(name);
        write!(text, "{}", plain_number(number)?).ok()?;
    }
    text.push_str("\",\"i\":\"");
    quote_properties(text, properties.cast_exact::<PyDict>().ok()?)?;
    write!(text, "\",\"j\":\"{}\",", plain_number(retries)?).ok()?;
    text.push_str(tail);
    Some(())
}

/// No bool and no subclass, which Python writes in its own way.
fn plain_number(number: &Bound<'_, PyAny>) -> Option<i64> {
    number.cast_exact::<PyInt>().ok()?.extract().ok()
}

fn quote_properties(text: &mut String, properties: &Bound<'_, PyDict>) -> Option<()> {
    let mut size = 0;
    for (name, value) in properties.iter() {
        let (name, value) = (name.cast_into_exact::<PyString>().ok()?, value.cast_into_exact::<PyString>().ok()?);
        let (name, value) = (name.to_str().ok()?, value.to_str().ok()?);
        if name.is_empty() || value.is_empty() {
            return None;
        }
        size += name.len() + value.len() + 2;
        if size > MAX_PROPERTIES {
            return None;
        }
        quote(text, name)?;
        text.push_str("\\u0001");
        quote(text, value)?;
        text.push_str("\\u0002");
    }
    Some(())
}

/// JSON text in the form of Python's writer, pure ASCII. None for separators of properties.
fn quote(text: &mut String, raw: &str) -> Option<()> {
    for letter in raw.chars() {
        match letter {
            '\x01' | '\x02' => return None,
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            ' '..='~' => text.push(letter),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x0c' => text.push_str("\\f"),
            '\x08' => text.push_str("\\b"),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(text, "\\u{unit:04x}").ok()?;
                }
            }
        }
    }
    Some(())
}
