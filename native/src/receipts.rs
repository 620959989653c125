//! Receipts, the answers that clients get to sends, out of what a connection has read. Twin:
//! `protocol/receipts.py`.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::json::{Json, int, number};
use crate::messages::Kept;

const MAX_HEADER: usize = 1024 * 1024;
const RESPONSE_FLAG: i32 = 1;

/// The receipts that begin at a position of a stream of frames, and where they end: at the first frame that is not
/// complete or no plain receipt. Of each: opaque, message id, queue id, queue offset, transaction id, region, whether it
/// is traced, and where it begins.
#[pyfunction]
pub fn cut_receipts<'py>(
    py: Python<'py>,
    stream: &Bound<'py, PyBytes>,
    position: usize,
    max_frame: usize,
) -> PyResult<(usize, Bound<'py, PyList>)> {
    let bytes = stream.as_bytes();
    let receipts = PyList::empty(py);
    let mut region = Kept::default();
    let mut at = position;
    while let Some((receipt, header, end)) = bytes.get(at..).and_then(|rest| read(rest, max_frame)) {
        let texts = &receipt.texts;
        let transaction_id = texts.transaction_id.clone().and_then(|place| header.get(place));
        let traced = texts.trace_on.clone().and_then(|place| header.get(place)) != Some("false");
        let place = texts.region.clone().and_then(|place| header.get(place)).map(|text| region.text(py, text));
        let message_id = header.get(receipt.message_id).unwrap_or_default();
        receipts.append((
            receipt.opaque,
            message_id,
            receipt.queue_id,
            receipt.queue_offset,
            transaction_id,
            place,
            traced,
            at,
        ))?;
        at += end;
    }
    Ok((at, receipts))
}

/// A receipt at the beginning of some bytes, its header and its size.
fn read(bytes: &[u8], max_frame: usize) -> Option<(Receipt, &str, usize)> {
    let length = usize::try_from(u32::from_be_bytes(*bytes.first_chunk()?)).ok()?;
    // A zero in the top byte says JSON, and what follows the header would be a body.
    let header = usize::try_from(u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?)).ok()?;
    if header.checked_add(4) != Some(length) || header > MAX_HEADER || length > max_frame.checked_sub(4)? {
        return None;
    }
    let text = std::str::from_utf8(bytes.get(8..8 + header)?).ok()?;
    Some((Receipt::read(text.as_bytes())?, text, 8 + header))
}

struct Receipt {
    opaque: i32,
    message_id: Range<usize>,
    queue_id: i32,
    queue_offset: i64,
    texts: Texts,
}

#[derive(Default)]
struct Texts {
    transaction_id: Option<Range<usize>>,
    region: Option<Range<usize>>,
    trace_on: Option<Range<usize>>,
}

impl Receipt {
    /// Out of a JSON header that says SUCCESS; None for what is spelled in an unusual way.
    fn read(header: &[u8]) -> Option<Self> {
        let mut json = Json { text: header, at: 0 };
        json.expect(b'{')?;
        let (mut opaque, mut found, mut seen) = (0, None, 0u32);
        loop {
            let name = json.key()?;
            let bit = match header.get(name)? {
                b"code" if json.digits()? == b"0" => 1,
                b"flag" if int(json.digits()?)? == RESPONSE_FLAG => 2,
                b"opaque" => {
                    opaque = int(json.digits()?)?;
                    4
                }
                b"extFields" => {
                    found = Some(Self::fields(&mut json)?);
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
                b"serializeTypeCurrentRPC" => {
                    json.plain()?;
                    64
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
        let mut receipt = found?;
        receipt.opaque = opaque;
        (json.at == header.len() && seen & 0xF == 0xF).then_some(receipt)
    }

    fn fields(json: &mut Json<'_>) -> Option<Self> {
        let (mut message_id, mut queue_id, mut queue_offset) = (None, None, None);
        let mut texts = Texts::default();
        json.expect(b'{')?;
        loop {
            let name = json.key()?;
            let name = json.text.get(name)?;
            let place = json.plain()?;
            let twice = match name {
                b"msgId" => message_id.replace(place).is_some(),
                b"queueId" => queue_id.replace(int(json.text.get(place)?)?).is_some(),
                b"queueOffset" => queue_offset.replace(number(json.text.get(place)?)?).is_some(),
                b"transactionId" => texts.transaction_id.replace(place).is_some(),
                b"MSG_REGION" => texts.region.replace(place).is_some(),
                b"TRACE_ON" => texts.trace_on.replace(place).is_some(),
                b"batchUniqId" | b"recallHandle" => true,
                _ => false,
            };
            if twice {
                return None;
            }
            if !json.more()? {
                break;
            }
        }
        Some(Self { opaque: 0, message_id: message_id?, queue_id: queue_id?, queue_offset: queue_offset?, texts })
    }
}
