//! The Huffman code of HPACK (RFC 7541, appendix B). It is canonical: codes follow from their lengths alone.

/// The bits of the code of each octet, and of the end of a string.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];
const END: u16 = 256;
const LONGEST: usize = 30;
/// Codes up to this length, those of nearly all text, are found by one look at a table.
const SHORT: usize = 9;

struct Code {
    /// By the next bits: a symbol and the length of its code, or length zero if that is a long one.
    short: [(u8, u8); 1 << SHORT],
    /// By length: where codes of this length end, as the first bits of 32, and what to add to a code of that length for
    /// its place in `symbols`.
    ends: [u64; LONGEST + 1],
    places: [i64; LONGEST + 1],
    symbols: [u16; LENGTHS.len()],
}

static CODE: Code = code();

const fn code() -> Code {
    let mut made = Code {
        short: [(0, 0); 1 << SHORT],
        ends: [0; LONGEST + 1],
        places: [0; LONGEST + 1],
        symbols: [0; LENGTHS.len()],
    };
    let (mut length, mut next, mut place) = (1, 0_u64, 0);
    while length <= LONGEST {
        next <<= 1;
        made.places[length] = place as i64 - next as i64;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                made.symbols[place] = symbol as u16;
                place += 1;
                if length <= SHORT {
                    let mut at = (next << (SHORT - length)) as usize;
                    let end = ((next + 1) << (SHORT - length)) as usize;
                    while at < end {
                        made.short[at] = (symbol as u8, length as u8);
                        at += 1;
                    }
                }
                next += 1;
            }
            symbol += 1;
        }
        made.ends[length] = next << (32 - length);
        length += 1;
    }
    made
}

/// Appends the octets that are packed. None if the code is broken: the end of a string within it, or padding that is
/// longer than seven bits or not all ones.
pub fn unpack(packed: &[u8], text: &mut Vec<u8>) -> Option<()> {
    text.reserve(packed.len() * 8 / 5);
    let mut octets = packed.iter();
    // The bits that wait, first ones highest, and how many they are.
    let (mut bits, mut count) = (0_u64, 0_usize);
    loop {
        while count <= 56 {
            let Some(octet) = octets.next() else { break };
            bits |= u64::from(*octet) << (56 - count);
            count += 8;
        }
        // Behind the end there are ones, so that padding looks like the end of a string that is cut off.
        let ahead = if count < 32 { bits | u64::MAX >> count } else { bits };
        let (symbol, length) = symbol(ahead >> 32);
        if length > count {
            let padding = bits | u64::MAX.checked_shr(count as u32).unwrap_or(0);
            return (count < 8 && padding == u64::MAX).then_some(());
        }
        if symbol == END {
            return None;
        }
        text.push(symbol as u8);
        bits <<= length;
        count -= length;
    }
}

/// The symbol at the beginning of these 32 bits, and the length of its code.
fn symbol(ahead: u64) -> (u16, usize) {
    let (symbol, length) = CODE.short[(ahead >> (32 - SHORT)) as usize];
    if length != 0 {
        return (symbol.into(), length.into());
    }
    // The code of the longest length is complete, so that the loop ends there at the latest.
    let length = (SHORT + 1..LONGEST).find(|length| ahead < CODE.ends[*length]).unwrap_or(LONGEST);
    let place = (ahead >> (32 - length)) as i64 + CODE.places[length];
    (CODE.symbols[place as usize], length)
}
