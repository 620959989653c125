//! A reader of the little JSON that headers are made of, and of the numbers in them.
//!
//! `None` never means that a text is wrong, only that it is not known here to mean the same to Python.

use std::ops::Range;

/// A number in its shortest form, which every reader takes for the same.
pub fn number(text: &[u8]) -> Option<i64> {
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

pub fn int(text: &[u8]) -> Option<i32> {
    i32::try_from(number(text)?).ok()
}

/// A reader of the little JSON that headers are made of.
pub struct Json<'a> {
    pub text: &'a [u8],
    pub at: usize,
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

    pub fn expect(&mut self, byte: u8) -> Option<()> {
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
    pub fn key(&mut self) -> Option<Range<usize>> {
        let name = self.plain()?;
        self.expect(b':')?;
        Some(name)
    }

    /// Whether another member follows; false behind the end of the object.
    pub fn more(&mut self) -> Option<bool> {
        self.space();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            b'}' => Some(false),
            _ => None,
        }
    }

    pub fn null(&mut self) -> bool {
        self.space();
        let there = self.text[self.at..].starts_with(b"null");
        if there {
            self.at += 4;
        }
        there
    }

    /// A number, of digits at least to the eye.
    pub fn digits(&mut self) -> Option<&'a [u8]> {
        self.space();
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'0'..=b'9')) {
            self.at += 1;
        }
        self.text.get(start..self.at)
    }

    /// Where a number lies, in quotes or not.
    pub fn maybe_bare(&mut self) -> Option<Range<usize>> {
        self.space();
        if self.peek()? == b'"' {
            return self.plain();
        }
        let start = self.at;
        self.digits()?;
        Some(start..self.at)
    }

    /// Whether nothing but blanks follows.
    pub fn is_over(&mut self) -> bool {
        self.space();
        self.at == self.text.len()
    }

    /// Where a text without escapes lies.
    pub fn plain(&mut self) -> Option<Range<usize>> {
        self.expect(b'"')?;
        let start = self.at;
        self.at = special(self.text, start)?;
        self.byte(b'"')?;
        Some(start..self.at - 1)
    }

    /// A text with its escapes resolved.
    pub fn unescaped(&mut self, arena: &mut Vec<u8>) -> Option<()> {
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
