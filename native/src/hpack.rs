//! Field blocks of HTTP/2 (RFC 7541): the decoder of one connection, with the table that it shares with the client.
//!
//! The table keeps fields as the tuples that Python gets, so that a field which is already there costs a reference.

use std::collections::VecDeque;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple, PyType};

use crate::{huffman, statictable};

/// What a field counts beside its name and value.
pub const OVERHEAD: usize = 32;
/// What both sides begin with.
const INITIAL_SIZE: usize = 4096;
/// After the first one.
const INTEGER_OCTETS: u32 = 5;
/// As many fields as requests have.
const USUAL_FIELDS: usize = 16;

struct Entry {
    field: Py<PyTuple>,
    size: usize,
    /// Whether the value is well-formed.
    sound: bool,
}

/// A field on its way from the block or the table to Python.
struct Found<'py> {
    field: Bound<'py, PyTuple>,
    size: usize,
    sound: bool,
}

/// All fields of a block, and whether all their values are well-formed.
struct Fields<'py> {
    list: Vec<Bound<'py, PyTuple>>,
    sound: bool,
}

/// The dynamic table, newest entry first.
struct Table {
    entries: VecDeque<Entry>,
    size: usize,
    capacity: usize,
}

impl Table {
    fn add(&mut self, entry: Entry) {
        let size = entry.size;
        self.shrink(self.capacity.saturating_sub(size));
        if size <= self.capacity {
            self.entries.push_front(entry);
            self.size += size;
        }
    }

    fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.shrink(capacity);
    }

    fn shrink(&mut self, size: usize) {
        while self.size > size {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.size -= oldest.size;
        }
    }
}

/// Why a block is no block; the sentences are those of the Python twin.
enum Fault {
    Malformed(String),
    Python(PyErr),
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Self {
        Fault::Python(error)
    }
}

fn malformed<T>(reason: &str) -> Result<T, Fault> {
    Err(Fault::Malformed(reason.to_owned()))
}

/// The decoder of a connection. `malformed` and `oversized` are the errors it raises.
#[pyclass(module = "pyromq_native")]
pub struct HpackDecoder {
    max_table_size: usize,
    max_list_size: usize,
    malformed: Py<PyType>,
    oversized: Py<PyType>,
    table: Table,
    failed: bool,
    /// The room in which strings are unpacked.
    text: Vec<u8>,
}

#[pymethods]
impl HpackDecoder {
    #[new]
    #[pyo3(signature = (max_table_size, max_list_size, malformed, oversized, /))]
    fn new(max_table_size: usize, max_list_size: usize, malformed: Py<PyType>, oversized: Py<PyType>) -> Self {
        let table = Table { entries: VecDeque::new(), size: 0, capacity: INITIAL_SIZE };
        Self { max_table_size, max_list_size, malformed, oversized, table, failed: false, text: Vec::new() }
    }

    #[pyo3(signature = (block, /))]
    fn decode<'py>(&mut self, py: Python<'py>, block: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.checked(py, block.as_bytes())?.list)
    }

    #[pyo3(signature = (block, /))]
    fn decode_request<'py>(
        &mut self,
        py: Python<'py>,
        block: &Bound<'py, PyBytes>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyTuple>, bool)> {
        let Fields { list, sound } = self.checked(py, block.as_bytes())?;
        let names = list.iter().map(|field| field.get_item(0)).collect::<PyResult<Vec<_>>>()?;
        Ok((PyList::new(py, list)?, PyTuple::new(py, names)?, sound))
    }
}

impl HpackDecoder {
    fn error(&self, py: Python<'_>, reason: String) -> PyErr {
        PyErr::from_type(self.malformed.bind(py).clone(), reason)
    }

    /// The fields of a block, or the error that Python raises.
    fn checked<'py>(&mut self, py: Python<'py>, block: &[u8]) -> PyResult<Fields<'py>> {
        if self.failed {
            return Err(self.error(py, "the table was lost with an earlier block".to_owned()));
        }
        // Until all went well: what stops in the middle, be it a panic, leaves a table that is not the client's.
        self.failed = true;
        let fields = match self.fields(py, block) {
            Ok(fields) => fields,
            Err(Fault::Malformed(reason)) => return Err(self.error(py, reason)),
            Err(Fault::Python(error)) => return Err(error),
        };
        self.failed = false;
        fields.ok_or_else(|| {
            let reason = format!("the header list is over {} bytes", self.max_list_size);
            PyErr::from_type(self.oversized.bind(py).clone(), reason)
        })
    }

    /// All of the block through the table; None in place of the list if that is too long.
    fn fields<'py>(&mut self, py: Python<'py>, block: &[u8]) -> Result<Option<Fields<'py>>, Fault> {
        let mut reader = Reader { block, at: 0 };
        let mut fields = Fields { list: Vec::with_capacity(USUAL_FIELDS), sound: true };
        let (mut total, mut beginning) = (0, true);
        while let Some(&first) = block.get(reader.at) {
            if first & 0xE0 == 0x20 {
                if !beginning {
                    return malformed("a table size update after a field");
                }
                self.resize(reader.integer(0x1F)?)?;
                continue;
            }
            beginning = false;
            let found = match first & 0x80 {
                0 => self.literal(py, &mut reader, first & 0x40 != 0)?,
                _ => self.entry(py, reader.integer(0x7F)?)?,
            };
            fields.sound &= found.sound;
            total += found.size;
            if total <= self.max_list_size {
                fields.list.push(found.field);
            } else {
                fields.list.clear();
            }
        }
        Ok((total <= self.max_list_size).then_some(fields))
    }

    fn resize(&mut self, size: u64) -> Result<(), Fault> {
        match usize::try_from(size) {
            Ok(size) if size <= self.max_table_size => {
                self.table.resize(size);
                Ok(())
            }
            _ => Err(Fault::Malformed(format!("a table of {size} bytes where {} are allowed", self.max_table_size))),
        }
    }

    /// The field of an index.
    fn entry<'py>(&self, py: Python<'py>, index: u64) -> Result<Found<'py>, Fault> {
        let none = || Fault::Malformed(format!("the table has no entry {index}"));
        let place = usize::try_from(index).ok().and_then(|index| index.checked_sub(1)).ok_or_else(none)?;
        let known = statictable::fields(py)?;
        if let Some(field) = known.get(place) {
            return Ok(Found { field: field.bind(py).clone(), size: statictable::size(place), sound: true });
        }
        let Entry { field, size, sound } = self.table.entries.get(place - known.len()).ok_or_else(none)?;
        Ok(Found { field: field.bind(py).clone(), size: *size, sound: *sound })
    }

    /// A field whose value, and perhaps name, is in the block; `keep` puts it into the table.
    fn literal<'py>(&mut self, py: Python<'py>, reader: &mut Reader<'_>, keep: bool) -> Result<Found<'py>, Fault> {
        let index = reader.integer(if keep { 0x3F } else { 0x0F })?;
        let name = match index {
            0 => self.string(py, reader)?,
            _ => self.entry(py, index)?.field.get_item(0)?.cast_into::<PyBytes>().map_err(PyErr::from)?,
        };
        let value = self.string(py, reader)?;
        let size = name.as_bytes().len() + value.as_bytes().len() + OVERHEAD;
        let sound = is_sound(value.as_bytes());
        let field = PyTuple::new(py, [name, value])?;
        if keep {
            self.table.add(Entry { field: field.clone().unbind(), size, sound });
        }
        Ok(Found { field, size, sound })
    }

    fn string<'py>(&mut self, py: Python<'py>, reader: &mut Reader<'_>) -> Result<Bound<'py, PyBytes>, Fault> {
        let (packed, text) = reader.string()?;
        if !packed {
            return Ok(PyBytes::new(py, text));
        }
        self.text.clear();
        match huffman::unpack(text, &mut self.text) {
            Some(()) => Ok(PyBytes::new(py, &self.text)),
            None => malformed("the Huffman code of a string is broken"),
        }
    }
}

/// Whether a value has neither line breaks nor NUL, nor space at its ends (RFC 9113, 8.2.1).
fn is_sound(value: &[u8]) -> bool {
    let space = |octet: Option<&u8>| matches!(octet, Some(b' ' | b'\t'));
    !value.iter().any(|octet| matches!(octet, 0 | b'\n' | b'\r')) && !space(value.first()) && !space(value.last())
}

struct Reader<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The number that begins in the low bits of the next octet.
    fn integer(&mut self, prefix: u8) -> Result<u64, Fault> {
        let mut value = u64::from(self.octet()? & prefix);
        if value < prefix.into() {
            return Ok(value);
        }
        for place in 0..INTEGER_OCTETS {
            let octet = self.octet()?;
            value += u64::from(octet & 0x7F) << (7 * place);
            if octet < 0x80 {
                return Ok(value);
            }
        }
        malformed("an integer is too long")
    }

    fn octet(&mut self) -> Result<u8, Fault> {
        let Some(&octet) = self.block.get(self.at) else { return malformed("the block ends within an integer") };
        self.at += 1;
        Ok(octet)
    }

    /// The octets of a string, and whether they are packed.
    fn string(&mut self) -> Result<(bool, &'a [u8]), Fault> {
        let packed = self.block.get(self.at).is_some_and(|first| first & 0x80 != 0);
        let length = self.integer(0x7F)?;
        let rest = &self.block[self.at..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(text) => {
                self.at += text.len();
                Ok((packed, text))
            }
            None => malformed("a string is longer than its block"),
        }
    }
}
