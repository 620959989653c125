//! JSON bodies as columns: twin of `arrow/body.py`, for bodies and types that are plain.
//!
//! A body that leaves any doubt (an escape, a name twice, a number that is long or out of range, text that is not
//! UTF-8, what is no object) is left over for Python by its number: whether it is bad, and why, is decided there.

use std::ffi::CStr;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::{ArrowColumns, MAX_TIME, MIN_TIME, Texts, Validity};
use crate::cdata::{Buffer, Column};
use crate::json;
use crate::rows::{Buffers, Values};

const MAX_DEPTH: usize = 16;
/// Digits of a number that no reader rounds in its own way.
const MAX_DIGITS: usize = 17;
const MICROS: i64 = 1_000_000;

/// Columns of the fields (name, and type as Arrow's C data interface has it) of so many bodies, null where a body is
/// left over; and which are, as 64-bit numbers. None for a type that is not plain.
#[pyfunction]
pub fn body_columns<'py>(
    py: Python<'py>,
    count: usize,
    bodies: Buffers,
    fields: Vec<(String, String)>,
) -> Option<(ArrowColumns, Bound<'py, PyBytes>)> {
    let bodies = Values::of(&bodies);
    let (root, left) = py.detach(|| columns_of(count, &bodies, &fields))?;
    Some((ArrowColumns { root: Arc::new(root) }, PyBytes::new(py, &left)))
}

fn columns_of(count: usize, bodies: &Values, fields: &[(String, String)]) -> Option<(Column, Vec<u8>)> {
    let mut columns = Vec::with_capacity(fields.len());
    for (_, kind) in fields {
        columns.push(Cells::new(kind, count.min(1 << 20))?);
    }
    let names: Vec<&[u8]> = fields.iter().map(|(name, _)| name.as_bytes()).collect();
    let mut found = vec![None; fields.len()];
    let mut left = Vec::new();
    for row in 0..count {
        found.fill(None);
        let body = bodies.get(row)?.filter(|body| std::str::from_utf8(body).is_ok());
        let plain = body.is_some_and(|body| {
            members(body, &names, &mut found).is_some()
                && columns.iter().zip(&found).all(|(cells, text)| text.is_none_or(|text| cells.takes(text)))
        });
        if !plain {
            left.extend_from_slice(&(row as i64).to_ne_bytes());
            found.fill(None);
        }
        for (cells, text) in columns.iter_mut().zip(&found) {
            cells.push(*text);
        }
    }
    let mut children = Vec::with_capacity(columns.len());
    for ((name, _), cells) in fields.iter().zip(columns) {
        children.push(Arc::new(cells.finish(name, count)?));
    }
    let buffers = vec![None];
    Some((
        Column { name: String::new(), format: c"+s", nullable: false, length: count, nulls: 0, buffers, children },
        left,
    ))
}

/// The texts of an object's members that have one of the names; a null is none. None when the object is not plain.
fn members<'a>(body: &'a [u8], names: &[&[u8]], found: &mut [Option<&'a [u8]>]) -> Option<()> {
    let mut reader = Reader { data: body, at: 0 };
    let mut seen = 0u64; // a field beyond the 64th is not plain
    let mut guess = 0;
    reader.blank();
    reader.byte(b'{')?;
    reader.blank();
    if reader.peek()? == b'}' {
        reader.at += 1;
    } else {
        loop {
            let name = reader.string()?;
            reader.blank();
            reader.byte(b':')?;
            reader.blank();
            let start = reader.at;
            reader.value(0)?;
            let place = match names.get(guess) {
                Some(next) if *next == name => Some(guess),
                _ => names.iter().position(|each| *each == name),
            };
            if let Some(place) = place {
                let bit = 1u64.checked_shl(u32::try_from(place).ok()?)?;
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                guess = place + 1;
                let text = body.get(start..reader.at)?;
                *found.get_mut(place)? = (text != b"null").then_some(text);
            }
            reader.blank();
            match reader.next()? {
                b',' => reader.blank(),
                b'}' => break,
                _ => return None,
            }
        }
    }
    reader.blank();
    (reader.at == body.len()).then_some(())
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// What stands between quotation marks, if that is how it is meant.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        let rest = self.data.get(self.at..)?;
        let length = plain_length(rest);
        self.at += length;
        self.byte(b'"')?;
        rest.get(..length)
    }

    /// Pass over a value that is plain.
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' | b'[' => self.nested(depth),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn nested(&mut self, depth: usize) -> Option<()> {
        let (is_object, end) = if self.next()? == b'{' { (true, b'}') } else { (false, b']') };
        if depth == MAX_DEPTH {
            return None;
        }
        self.blank();
        if self.peek()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            if is_object {
                self.string()?;
                self.blank();
                self.byte(b':')?;
                self.blank();
            }
            self.value(depth + 1)?;
            self.blank();
            match self.next()? {
                b',' => self.blank(),
                byte if byte == end => return Some(()),
                _ => return None,
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.data.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        let start = self.at;
        let whole = self.digits()?;
        if whole > 1 && self.data.get(start) == Some(&b'0') {
            return None;
        }
        let mut digits = whole;
        if self.peek() == Some(b'.') {
            self.at += 1;
            digits += self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits().filter(|count| *count <= 3)?;
        }
        (digits <= MAX_DIGITS).then_some(())
    }

    /// How many there are, at least one.
    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then(|| self.at - start)
    }
}

/// Bytes before the first quotation mark, backslash or control character.
fn plain_length(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = 0x80 * ONES;
    let mut at = 0;
    while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk()).map(|raw| u64::from_le_bytes(*raw)) {
        // The high bit of each byte that is below a bound or, after the exclusive or, zero. Above the first such byte
        // there may be wrong ones; only the first counts.
        let (quote, slash) = (word ^ (u64::from(b'"') * ONES), word ^ (u64::from(b'\\') * ONES));
        let below = |value: u64, bound: u64| value.wrapping_sub(bound * ONES) & !value & HIGH;
        let found = below(quote, 1) | below(slash, 1) | below(word, 0x20);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
}

/// A column in the making.
enum Cells {
    Int(Vec<i32>, Validity),
    Long(Vec<i64>, Validity),
    Double(Vec<i64>, Validity),
    Bool(Vec<u8>, usize, Validity),
    Time(&'static CStr, Vec<i64>, Validity),
    Text(Texts),
}

impl Cells {
    fn new(kind: &str, count: usize) -> Option<Self> {
        let longs = || (Vec::with_capacity(count), Validity::default());
        Some(match kind {
            "i" => Self::Int(Vec::with_capacity(count), Validity::default()),
            "l" => Self::Long(longs().0, Validity::default()),
            "g" => Self::Double(longs().0, Validity::default()),
            "b" => Self::Bool(Vec::with_capacity(count / 8 + 1), 0, Validity::default()),
            "tsu:UTC" => Self::Time(c"tsu:UTC", longs().0, Validity::default()),
            "tsu:" => Self::Time(c"tsu:", longs().0, Validity::default()),
            "u" => Self::Text(Texts::new(count)),
            _ => return None,
        })
    }

    /// Whether a text, which is a plain value, is one of this type for sure.
    fn takes(&self, text: &[u8]) -> bool {
        match self {
            Self::Int(..) => json::int(text).is_some(),
            Self::Long(..) => json::number(text).is_some(),
            Self::Double(..) => double(text).is_some(),
            Self::Bool(..) => matches!(text, b"true" | b"false"),
            Self::Time(..) => micros(text).is_some(),
            Self::Text(_) => text.first() == Some(&b'"'),
        }
    }

    fn push(&mut self, text: Option<&[u8]>) {
        match self {
            Self::Int(values, valid) => {
                valid.push(values.len(), text.is_some());
                values.push(text.and_then(json::int).unwrap_or_default());
            }
            Self::Long(values, valid) => {
                valid.push(values.len(), text.is_some());
                values.push(text.and_then(json::number).unwrap_or_default());
            }
            Self::Double(values, valid) => {
                valid.push(values.len(), text.is_some());
                values.push(text.and_then(double).unwrap_or_default().to_bits() as i64);
            }
            Self::Bool(bits, length, valid) => {
                valid.push(*length, text.is_some());
                if *length % 8 == 0 {
                    bits.push(0);
                }
                if let (Some(byte), Some(b"true")) = (bits.last_mut(), text) {
                    *byte |= 1 << (*length % 8);
                }
                *length += 1;
            }
            Self::Time(_, values, valid) => {
                valid.push(values.len(), text.is_some());
                values.push(text.and_then(micros).unwrap_or_default());
            }
            Self::Text(texts) => texts.push(text.and_then(|text| text.get(1..text.len().saturating_sub(1)))),
        }
    }

    fn finish(self, name: &str, length: usize) -> Option<Column> {
        let (format, valid, values) = match self {
            Self::Int(values, valid) => (c"i", valid, Buffer::Ints(values)),
            Self::Long(values, valid) => (c"l", valid, Buffer::Longs(values)),
            Self::Double(values, valid) => (c"g", valid, Buffer::Longs(values)),
            Self::Bool(bits, _, valid) => (c"b", valid, Buffer::Bytes(bits)),
            Self::Time(format, values, valid) => (format, valid, Buffer::Longs(values)),
            Self::Text(texts) => return texts.finish(name, true),
        };
        let (nulls, valid) = valid.finish();
        let buffers = vec![valid, Some(values)];
        Some(Column { name: name.to_owned(), format, nullable: true, length, nulls, buffers, children: vec![] })
    }
}

/// A number that is finite, and written so that no reader makes another one of it.
fn double(text: &[u8]) -> Option<f64> {
    if text == b"-0" || !matches!(text.last(), Some(b'0'..=b'9')) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Microseconds of a time in milliseconds, or of `"2026-01-31T12:00:00.5Z"`, where the zone may be missing.
fn micros(text: &[u8]) -> Option<i64> {
    let Some(inner) = text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        let millis = json::number(text)?;
        return (MIN_TIME..=MAX_TIME).contains(&millis).then_some(millis.checked_mul(1000)?);
    };
    let inner = inner.strip_suffix(b"Z").unwrap_or(inner);
    let (clock, fraction) = inner.split_at_checked(19)?;
    let digits = |range: std::ops::Range<usize>| {
        let piece = clock.get(range)?;
        let value = piece
            .iter()
            .try_fold(0i64, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))?;
        Some(value)
    };
    for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
        if clock.get(at) != Some(&mark) {
            return None;
        }
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1 || !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let part = match fraction {
        [] => 0,
        [b'.', rest @ ..] if (1..=6).contains(&rest.len()) => {
            let value = rest
                .iter()
                .try_fold(0i64, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))?;
            value * 10i64.pow(6 - rest.len() as u32)
        }
        _ => return None,
    };
    // Days since 1970 of the civil calendar, whose years begin in March here.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let since = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719_468;
    Some(((since * 24 + hour) * 60 + minute) * 60 * MICROS + second * MICROS + part)
}
