//! Texts of messages: Java's string hash, the properties that queue and index go by, and numbers as text. Twins:
//! `protocol/records/tags.py` and `decode_properties`.

/// Java's hash of a text in UTF-8, as an unsigned number; `seed` is the hash of the text before it. What is not UTF-8
/// counts as U+FFFD, as Python's "replace" has it.
pub fn hash(seed: u32, text: &[u8]) -> u32 {
    if !text.is_ascii() {
        return String::from_utf8_lossy(text).encode_utf16().fold(seed, |h, unit| step(h, u32::from(unit)));
    }
    // Four at a time: one multiplication waits for the last, so a step a character would take four times as long.
    let mut fours = text.chunks_exact(4);
    let mut h = seed;
    for four in &mut fours {
        if let [a, b, c, d] = *four {
            let low = u32::from(a) * 29_791 + u32::from(b) * 961 + u32::from(c) * 31 + u32::from(d);
            h = h.wrapping_mul(923_521).wrapping_add(low);
        }
    }
    fours.remainder().iter().fold(h, |h, unit| step(h, u32::from(*unit)))
}

fn step(h: u32, unit: u32) -> u32 {
    h.wrapping_mul(31).wrapping_add(unit)
}

/// The index hash of a key behind "topic#", whose hash is `prefix`: the absolute value, 0 for the least number (S-13).
pub fn key_hash(prefix: u32, key: &[u8]) -> u32 {
    let h = hash(prefix, key);
    if h & 0x8000_0000 == 0 { h } else { h.wrapping_neg() & 0x7FFF_FFFF }
}

/// The hash of "topic#".
pub fn prefix_hash(topic: &[u8]) -> u32 {
    step(hash(0, topic), u32::from(b'#'))
}

/// What queue and index want to know of a message; empty where it has no such property.
#[derive(Default)]
pub struct Marks<'a> {
    pub tags: &'a [u8],
    pub unique_key: &'a [u8],
    pub keys: &'a [u8],
}

impl<'a> Marks<'a> {
    /// Out of the text form of properties: pieces without name or value do not count, the last of a name does.
    pub fn of(text: &'a [u8]) -> Self {
        let mut marks = Self::default();
        for piece in text.split(|byte| *byte == 2) {
            let (found, name) = match piece {
                [b'T', b'A', b'G', b'S', 1, ..] => (&mut marks.tags, 4),
                [b'K', b'E', b'Y', b'S', 1, ..] => (&mut marks.keys, 4),
                [b'U', b'N', b'I', b'Q', b'_', b'K', b'E', b'Y', 1, ..] => (&mut marks.unique_key, 8),
                _ => continue,
            };
            if let Some(value) = piece.get(name + 1..).filter(|value| !value.is_empty()) {
                *found = value;
            }
        }
        marks
    }

    /// The tag code of the queue entry: the signed hash of the tags, 0 without any.
    pub fn code(&self) -> i64 {
        i64::from(hash(0, self.tags) as i32)
    }

    /// Each key: the unique one first, then the words.
    pub fn each_key(&self) -> impl Iterator<Item = &'a [u8]> {
        let words = self.keys.split(|byte| *byte == b' ');
        std::iter::once(self.unique_key).chain(words).filter(|key| !key.is_empty())
    }
}

/// Numbers as text without an allocation.
pub struct Digits {
    text: [u8; 20],
}

impl Digits {
    pub fn new() -> Self {
        Self { text: [0; 20] }
    }

    pub fn of(&mut self, number: i64) -> &[u8] {
        let mut rest = number.unsigned_abs();
        let mut at = self.text.len();
        loop {
            at -= 1;
            #[allow(clippy::cast_possible_truncation)] // one digit
            let digit = (rest % 10) as u8;
            self.text[at] = b'0' + digit;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            self.text[at] = b'-';
        }
        &self.text[at..]
    }
}
