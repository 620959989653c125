//! The header of a plain send or batch, out of JSON or RocketMQ's binary form. Twin of what `protocol.frame` and
//! `protocol.headers.send` do for such a request.
//!
//! `None` never means that a header is wrong, only that it is not known here to mean the same to Python: odd numbers,
//! escapes out of place, fields twice, fields of another type. Python looks at it then.

use std::ops::Range;

const SEND_MESSAGE: i32 = 10;
const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;
const ONEWAY_FLAG: i32 = 2;
/// Bytes of a name; Python allows as many characters.
const MAX_NAME: usize = 255;
/// Of what is stored in a plain record.
const MAX_TOPIC: usize = 127;

/// What a send says of itself. `topic` is a part of the header, `text` (the properties) one of the arena.
pub struct Head {
    pub code: i32,
    pub opaque: i32,
    pub oneway: bool,
    pub topic: Range<usize>,
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub flag: i32,
    pub reconsume_times: i32,
    pub text: Range<usize>,
}

impl Head {
    pub fn is_batch(&self) -> bool {
        self.code == SEND_BATCH_MESSAGE
    }
}

/// What a field of a send is, whatever its name.
#[derive(Clone, Copy)]
enum Field {
    Name,
    Topic,
    Int,
    QueueId,
    SysFlag,
    BornTimestamp,
    Flag,
    Properties,
    ReconsumeTimes,
    Bool,
    Batch,
}

/// The field of a name, with the bit under which it is known to have been there.
fn field(code: i32, name: &[u8]) -> Option<(Field, u32)> {
    let (field, number) = if code != SEND_MESSAGE {
        match name {
            b"a" => (Field::Name, 0),
            b"b" => (Field::Topic, 1),
            b"c" => (Field::Name, 2),
            b"d" => (Field::Int, 3),
            b"e" => (Field::QueueId, 4),
            b"f" => (Field::SysFlag, 5),
            b"g" => (Field::BornTimestamp, 6),
            b"h" => (Field::Flag, 7),
            b"i" => (Field::Properties, 8),
            b"j" => (Field::ReconsumeTimes, 9),
            b"k" => (Field::Bool, 10),
            b"l" => (Field::Int, 11),
            b"m" => (Field::Batch, 12),
            b"n" => (Field::Name, 13),
            b"ns" => (Field::Name, 14),
            b"nsd" => (Field::Bool, 15),
            b"oway" => (Field::Bool, 16),
            b"lo" => (Field::Bool, 17),
            _ => return None,
        }
    } else {
        match name {
            b"producerGroup" => (Field::Name, 0),
            b"topic" => (Field::Topic, 1),
            b"defaultTopic" => (Field::Name, 2),
            b"defaultTopicQueueNums" => (Field::Int, 3),
            b"queueId" => (Field::QueueId, 4),
            b"sysFlag" => (Field::SysFlag, 5),
            b"bornTimestamp" => (Field::BornTimestamp, 6),
            b"flag" => (Field::Flag, 7),
            b"properties" => (Field::Properties, 8),
            b"reconsumeTimes" => (Field::ReconsumeTimes, 9),
            b"unitMode" => (Field::Bool, 10),
            b"maxReconsumeTimes" => (Field::Int, 11),
            b"batch" => (Field::Batch, 12),
            b"bname" => (Field::Name, 13),
            b"ns" => (Field::Name, 14),
            b"nsd" => (Field::Bool, 15),
            b"oway" => (Field::Bool, 16),
            b"lo" => (Field::Bool, 17),
            _ => return None,
        }
    };
    Some((field, 1 << number))
}

/// Those without which a send is not plain: all that are required, and the properties, which a batch may lack.
const NEEDED: u32 = 0x1FF;
const NEEDED_IN_BATCH: u32 = 0xFF;

/// A number in its shortest form, which every reader takes for the same.
fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 || (digits[0] == b'0' && (digits.len() > 1 || negative)) {
        return None;
    }
    let mut value = 0i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -value } else { value })
}

fn int(text: &[u8]) -> Option<i32> {
    i32::try_from(number(text)?).ok()
}

/// Fields as they come, and which have been there.
struct Fields {
    head: Head,
    seen: u32,
}

impl Fields {
    fn new(code: i32) -> Self {
        let head = Head {
            code,
            opaque: 0,
            oneway: false,
            topic: 0..0,
            queue_id: 0,
            sys_flag: 0,
            born_timestamp: 0,
            flag: 0,
            reconsume_times: 0,
            text: 0..0,
        };
        Self { head, seen: 0 }
    }

    /// Take the value of a field, all but the properties, which lies at `place` of the header.
    fn take(&mut self, field: Field, header: &[u8], place: Range<usize>) -> Option<()> {
        let value = header.get(place.clone())?;
        let head = &mut self.head;
        match field {
            Field::Name if value.len() <= MAX_NAME => {}
            Field::Topic if !value.is_empty() && value.len() <= MAX_TOPIC => head.topic = place,
            Field::Int => drop(int(value)?),
            Field::QueueId => head.queue_id = int(value)?,
            Field::SysFlag => head.sys_flag = int(value)?,
            Field::BornTimestamp => head.born_timestamp = number(value)?,
            Field::Flag => head.flag = int(value)?,
            Field::ReconsumeTimes => head.reconsume_times = int(value)?,
            Field::Bool if value == b"true" || value == b"false" => {}
            Field::Batch if value == b"false" || (value == b"true" && head.is_batch()) => {}
            _ => return None,
        }
        Some(())
    }

    /// Note that a field is there; `None` if it was already.
    fn once(&mut self, bit: u32) -> Option<()> {
        let before = self.seen;
        self.seen |= bit;
        (before & bit == 0).then_some(())
    }

    /// A field of no name that is known here: to a batch it may say whose it is.
    fn unknown(&self) -> Option<()> {
        (!self.head.is_batch()).then_some(())
    }

    fn finish(self) -> Option<Head> {
        let needed = if self.head.is_batch() { NEEDED_IN_BATCH } else { NEEDED };
        (self.seen & needed == needed).then_some(self.head)
    }
}

fn is_send(code: i32) -> bool {
    matches!(code, SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE)
}

fn flagged(head: &mut Head, flag: i32) -> Option<()> {
    head.oneway = flag == ONEWAY_FLAG;
    (flag == 0 || flag == ONEWAY_FLAG).then_some(())
}

/// A JSON header. What the properties say goes to the end of the arena.
pub fn read_json(header: &[u8], arena: &mut Vec<u8>) -> Option<Head> {
    let mut json = Json { text: header, at: 0 };
    json.expect(b'{')?;
    let mut code = None;
    let mut fields = None;
    let (mut opaque, mut flag, mut seen) = (0, 0, 0u32);
    loop {
        let name = json.key()?;
        let bit = match header.get(name)? {
            b"code" => {
                let found = int(json.digits()?)?;
                if !is_send(found) {
                    return None;
                }
                code = Some(found);
                1
            }
            b"extFields" => {
                fields = Some(read_fields(&mut json, code?, arena)?);
                2
            }
            b"flag" => {
                flag = int(json.digits()?)?;
                4
            }
            b"opaque" => {
                opaque = int(json.digits()?)?;
                8
            }
            b"version" => {
                int(json.digits()?)?;
                16
            }
            b"language" => {
                json.plain()?;
                32
            }
            b"remark" => {
                if !json.null() {
                    json.plain()?;
                }
                64
            }
            b"serializeTypeCurrentRPC" => {
                json.plain()?;
                128
            }
            _ => return None,
        };
        if seen & bit != 0 {
            return None;
        }
        seen |= bit;
        if !json.more()? {
            break;
        }
    }
    // At the end only: what is not ASCII lies in texts, which were taken byte by byte.
    if json.at != header.len() || std::str::from_utf8(header).is_err() {
        return None;
    }
    let mut head = fields?.finish()?;
    head.opaque = opaque;
    flagged(&mut head, flag)?;
    Some(head)
}

fn read_fields(json: &mut Json<'_>, code: i32, arena: &mut Vec<u8>) -> Option<Fields> {
    let mut fields = Fields::new(code);
    json.expect(b'{')?;
    loop {
        let name = json.key()?;
        match field(code, json.text.get(name)?) {
            None => {
                fields.unknown()?;
                json.plain()?;
            }
            Some((Field::Properties, bit)) => {
                fields.once(bit)?;
                let start = arena.len();
                json.unescaped(arena)?;
                fields.head.text = start..arena.len();
            }
            Some((field, bit)) => {
                fields.once(bit)?;
                let place = json.plain()?;
                fields.take(field, json.text, place)?;
            }
        }
        if !json.more()? {
            return Some(fields);
        }
    }
}

/// A reader of the little JSON that headers are made of.
struct Json<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Json<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.space();
        self.byte(byte)
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// A name and the colon behind it.
    fn key(&mut self) -> Option<Range<usize>> {
        let name = self.plain()?;
        self.expect(b':')?;
        Some(name)
    }

    /// Whether another member follows; false behind the end of the object.
    fn more(&mut self) -> Option<bool> {
        self.space();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            b'}' => Some(false),
            _ => None,
        }
    }

    fn null(&mut self) -> bool {
        self.space();
        let there = self.text[self.at..].starts_with(b"null");
        if there {
            self.at += 4;
        }
        there
    }

    /// A number, of digits at least to the eye.
    fn digits(&mut self) -> Option<&'a [u8]> {
        self.space();
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            self.at += 1;
        }
        self.text.get(start..self.at)
    }

    /// Where a text without escapes lies.
    fn plain(&mut self) -> Option<Range<usize>> {
        self.expect(b'"')?;
        let start = self.at;
        self.at = special(self.text, start)?;
        self.byte(b'"')?;
        Some(start..self.at - 1)
    }

    /// A text with its escapes resolved.
    fn unescaped(&mut self, arena: &mut Vec<u8>) -> Option<()> {
        self.expect(b'"')?;
        loop {
            let stop = special(self.text, self.at)?;
            arena.extend_from_slice(self.text.get(self.at..stop)?);
            self.at = stop + 1;
            match *self.text.get(stop)? {
                b'"' => return Some(()),
                b'\\' => {}
                _ => return None,
            }
            let escape = self.peek()?;
            self.at += 1;
            arena.push(match escape {
                b'"' | b'\\' | b'/' => escape,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    let found = self.unicode()?;
                    if found.is_ascii() {
                        found as u8
                    } else {
                        arena.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
                        continue;
                    }
                }
                _ => return None,
            });
        }
    }

    /// The character of an escape, or of the two that make up one; half of a pair is none.
    fn unicode(&mut self) -> Option<char> {
        let first = self.unit()?;
        if !(0xD800..0xE000).contains(&first) {
            return char::from_u32(first);
        }
        self.byte(b'\\')?;
        self.byte(b'u')?;
        let second = self.unit()?;
        if first >= 0xDC00 || !(0xDC00..0xE000).contains(&second) {
            return None;
        }
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    fn unit(&mut self) -> Option<u32> {
        let mut unit = 0;
        for &digit in self.text.get(self.at..self.at + 4)? {
            unit = unit << 4 | (digit as char).to_digit(16)?;
        }
        self.at += 4;
        Some(unit)
    }
}

/// Where the first quote, backslash or control character from `at` on is, eight bytes at a time.
fn special(text: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    while let Some(chunk) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().ok()?);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = zero_in(word ^ (ONES * u64::from(b'"'))) | zero_in(word ^ (ONES * u64::from(b'\\'))) | control;
        if found != 0 {
            // The lowest bit is exact; borrows reach only the bytes above it.
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    text.get(at..)?.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20).map(|place| at + place)
}

/// A binary header: code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | remark | ext length 4 |
/// entries, each key length 2 | key | value length 4 | value; empty ones stand for none.
pub fn read_binary(header: &[u8], arena: &mut Vec<u8>) -> Option<Head> {
    let mut at = 0;
    let mut take = |count: usize| {
        let place = at..at + count;
        header.get(place.clone())?;
        at = place.end;
        Some(place)
    };
    let word = |place: Range<usize>| Some(u32::from_be_bytes(header.get(place)?.try_into().ok()?));
    let place = take(2)?;
    let code = i32::from(i16::from_be_bytes(header.get(place)?.try_into().ok()?));
    if !is_send(code) {
        return None;
    }
    take(3)?;
    let opaque = word(take(4)?)? as i32;
    let flag = word(take(4)?)? as i32;
    let remark = word(take(4)?)?;
    let remark = take(usize::try_from(remark).ok().filter(|&length| length <= header.len())?)?;
    std::str::from_utf8(header.get(remark)?).ok()?;
    let entries = word(take(4)?)?;
    let mut fields = Fields::new(code);
    let mut left = usize::try_from(entries).ok()?;
    while left > 0 {
        let place = take(2)?;
        let length = usize::from(u16::from_be_bytes(header.get(place)?.try_into().ok()?));
        let name = take(length)?;
        let size = usize::try_from(word(take(4)?)?).ok().filter(|&length| length <= header.len())?;
        let value = take(size)?;
        left = left.checked_sub(6 + length + size)?;
        std::str::from_utf8(header.get(name.clone())?).ok()?;
        std::str::from_utf8(header.get(value.clone())?).ok()?;
        if name.is_empty() || value.is_empty() {
            continue;
        }
        match field(code, header.get(name)?) {
            None => fields.unknown()?,
            Some((Field::Properties, bit)) => {
                fields.once(bit)?;
                let start = arena.len();
                arena.extend_from_slice(header.get(value)?);
                fields.head.text = start..arena.len();
            }
            Some((field, bit)) => {
                fields.once(bit)?;
                fields.take(field, header, value)?;
            }
        }
    }
    if at != header.len() {
        return None;
    }
    let mut head = fields.finish()?;
    head.opaque = opaque;
    flagged(&mut head, flag)?;
    Some(head)
}
