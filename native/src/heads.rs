//! The header of a request, out of JSON or RocketMQ's binary form. Twin of what `protocol.frame` and the typed headers
//! do for plain requests; what their fields are is up to `sendhead` and `pullhead`.
//!
//! `None` never means that a header is wrong, only that it is not known here to mean the same to Python: odd numbers,
//! escapes out of place, fields twice, fields of another type. Python looks at it then.

use std::ops::Range;

use crate::json::{Json, int};

/// A longer header is no plain one.
const MAX_HEADER: usize = 1 << 16;

/// The fields of a kind of request, as they come.
pub trait Fields: Sized {
    /// To be filled; `None` if these are not the fields of requests with this code.
    fn of(code: i32) -> Option<Self>;

    /// Take a field whose value is what the JSON continues with. Texts with escapes go to the end of the arena.
    fn json(&mut self, name: &[u8], json: &mut Json<'_>, arena: &mut Vec<u8>) -> Option<()>;

    /// Take a field of a binary header whose value, which is not empty, lies at a place of it.
    fn binary(&mut self, name: &[u8], header: &[u8], value: Range<usize>, arena: &mut Vec<u8>) -> Option<()>;
}

/// What all requests say of themselves, and their fields.
pub struct Request<F> {
    pub code: i32,
    pub opaque: i32,
    pub flag: i32,
    pub fields: F,
}

/// Where the header of a whole frame at a position is, where the frame ends and how it is written; `None` also when
/// the frame cannot be right.
pub fn frame_at(stream: &[u8], position: usize, max_frame: usize) -> Option<(Range<usize>, usize, bool)> {
    let length = word(stream, position)? as usize;
    let kind = word(stream, position.checked_add(4)?)?;
    let header = (kind & 0xFF_FFFF) as usize;
    if length < 4 || length.checked_add(4)? > max_frame || header > length - 4 || header > MAX_HEADER || kind >> 24 > 1
    {
        return None;
    }
    let end = position.checked_add(4 + length)?;
    (end <= stream.len()).then_some((position + 8..position + 8 + header, end, kind >> 24 == 1))
}

fn word(stream: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(stream.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A header, whichever form it has.
pub fn read<F: Fields>(header: &[u8], binary: bool, arena: &mut Vec<u8>) -> Option<Request<F>> {
    if binary { read_binary(header, arena) } else { read_json(header, arena) }
}

fn read_json<F: Fields>(header: &[u8], arena: &mut Vec<u8>) -> Option<Request<F>> {
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
                F::of(found)?;
                code = Some(found);
                1
            }
            b"extFields" => {
                fields = Some(read_fields(F::of(code?)?, &mut json, arena)?);
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
    if !json.is_over() || std::str::from_utf8(header).is_err() {
        return None;
    }
    Some(Request { code: code?, opaque, flag, fields: fields? })
}

fn read_fields<F: Fields>(mut fields: F, json: &mut Json<'_>, arena: &mut Vec<u8>) -> Option<F> {
    json.expect(b'{')?;
    loop {
        let name = json.key()?;
        fields.json(json.text.get(name)?, json, arena)?;
        if !json.more()? {
            return Some(fields);
        }
    }
}

/// Code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | remark | ext length 4 | entries, each key
/// length 2 | key | value length 4 | value; empty ones stand for none.
fn read_binary<F: Fields>(header: &[u8], arena: &mut Vec<u8>) -> Option<Request<F>> {
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
    let mut fields = F::of(code)?;
    take(3)?;
    let opaque = word(take(4)?)? as i32;
    let flag = word(take(4)?)? as i32;
    let remark = word(take(4)?)?;
    let remark = take(usize::try_from(remark).ok().filter(|&length| length <= header.len())?)?;
    std::str::from_utf8(header.get(remark)?).ok()?;
    let entries = word(take(4)?)?;
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
        fields.binary(header.get(name)?, header, value, arena)?;
    }
    if at != header.len() {
        return None;
    }
    Some(Request { code, opaque, flag, fields })
}
