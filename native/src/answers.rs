//! The answers to a run of sends or batches. Twins: `protocol.headers.sendrun` and, for one, `protocol.headers.sendreply`.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::records::Placed;
use crate::sends::{SendRun, text};
use crate::text::Digits;

/// The answers to the sends of a run that want one, as frames: all say SUCCESS.
///
/// `host` is the store host in hexadecimal digits, `ids` stand in for unique keys that are missing. `parts` is what
/// follows the transaction id and the opaque in JSON, and what comes before the opaque and behind the transaction id in a
/// binary header.
#[pyfunction]
pub fn answer_sends<'py>(
    py: Python<'py>,
    run: &SendRun,
    placed: &Placed,
    host: &str,
    parts: (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>),
    ids: Vec<String>,
) -> PyResult<Bound<'py, PyBytes>> {
    let [middle, end, start, tail] = [&parts.0, &parts.1, &parts.2, &parts.3].map(|part| part.as_bytes());
    let (mut offsets, mut numbers) = (placed.offsets.as_slice(), placed.numbers.as_slice());
    let mut ids = ids.iter();
    let mut digits = Digits::new();
    let mut out = Vec::with_capacity(run.sends.len() * 320 + placed.offsets.len() * (host.len() + 17));
    let misfit = || PyIndexError::new_err("the records are not those of the run");
    for send in &run.sends {
        let (own, rest) = offsets.split_at_checked(send.messages).ok_or_else(misfit)?;
        let (own_numbers, rest_numbers) = numbers.split_at_checked(send.messages).ok_or_else(misfit)?;
        let number = *own_numbers.first().ok_or_else(misfit)?;
        (offsets, numbers) = (rest, rest_numbers);
        let unique_key = match text(&run.arena, &send.unique_key)? {
            "" => ids.next().ok_or_else(misfit)?,
            key => key,
        };
        if send.head.oneway {
            continue;
        }
        let begin = out.len();
        out.extend_from_slice(&[0; 8]);
        if send.binary {
            out.extend_from_slice(start);
            out.extend_from_slice(&send.head.opaque.to_be_bytes());
            out.extend_from_slice(&1i32.to_be_bytes());
            out.extend_from_slice(&[0; 4]);
            let fields = out.len();
            out.extend_from_slice(&[0; 4]);
            let mut names = Vec::with_capacity(own.len() * (host.len() + 17));
            message_ids(&mut names, host, own);
            field(&mut out, "msgId", &names);
            field(&mut out, "queueId", digits.of(send.head.queue_id.into()));
            field(&mut out, "queueOffset", digits.of(number));
            field(&mut out, "transactionId", unique_key.as_bytes());
            out.extend_from_slice(tail);
            let length = (out.len() - fields - 4) as u32;
            out[fields..fields + 4].copy_from_slice(&length.to_be_bytes());
        } else {
            out.extend_from_slice(b"{\"code\":0,\"extFields\":{\"msgId\":\"");
            message_ids(&mut out, host, own);
            out.extend_from_slice(b"\",\"queueId\":\"");
            out.extend_from_slice(digits.of(send.head.queue_id.into()));
            out.extend_from_slice(b"\",\"queueOffset\":\"");
            out.extend_from_slice(digits.of(number));
            out.extend_from_slice(b"\",\"transactionId\":");
            quote(&mut out, unique_key);
            out.extend_from_slice(middle);
            out.extend_from_slice(digits.of(send.head.opaque.into()));
            out.extend_from_slice(end);
        }
        let length = (out.len() - begin - 8) as u32;
        out[begin..begin + 4].copy_from_slice(&(4 + length).to_be_bytes());
        out[begin + 4..begin + 8].copy_from_slice(&(u32::from(send.binary) << 24 | length).to_be_bytes());
    }
    Ok(PyBytes::new(py, &out))
}

/// The ids of the records at some offsets, joined with commas.
fn message_ids(out: &mut Vec<u8>, host: &str, offsets: &[u64]) {
    for (place, &offset) in offsets.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(host.as_bytes());
        hexadecimal(out, offset);
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

fn hexadecimal(out: &mut Vec<u8>, number: u64) {
    for byte in number.to_be_bytes() {
        out.extend_from_slice(&[
            b"0123456789ABCDEF"[usize::from(byte >> 4)],
            b"0123456789ABCDEF"[usize::from(byte & 15)],
        ]);
    }
}

/// As Python's `encode_basestring_ascii` does.
fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for found in text.chars() {
        match found {
            '"' | '\\' => out.extend_from_slice(&[b'\\', found as u8]),
            ' '..='~' => out.push(found as u8),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            _ => {
                for unit in found.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    out.push(b'"');
}
