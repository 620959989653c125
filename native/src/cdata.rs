//! Arrow's C data interface, by which columns are handed to whoever imports them, without a copy.
//!
//! The two structures are written by hand: they are forty lines of a frozen ABI. Arrow's own crates were tried: 28 of them, 50 s
//! of a processor to build, and as many bytes again as this library has. Beside `memory` the only module with `unsafe`: the
//! structures hold pointers.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const NULLABLE: i64 = 2;

/// One buffer of a column.
pub enum Buffer {
    Bytes(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
}

impl Buffer {
    fn pointer(&self) -> *const c_void {
        match self {
            Self::Bytes(values) => values.as_ptr().cast(),
            Self::Ints(values) => values.as_ptr().cast(),
            Self::Longs(values) => values.as_ptr().cast(),
        }
    }
}

/// A column that is complete. `buffers` begin with the bitmap of what is not null, None where nothing is.
pub struct Column {
    pub name: String,
    pub format: &'static CStr,
    pub nullable: bool,
    pub length: usize,
    pub nulls: usize,
    pub buffers: Vec<Option<Buffer>>,
    pub children: Vec<Arc<Column>>,
}

/// `struct ArrowSchema` of the interface.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray` of the interface.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// What a schema's pointers lead to.
struct SchemaParts {
    name: CString,
    children: Vec<*mut Schema>,
}

/// What an array's pointers lead to.
struct ArrayParts {
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    /// Owns the bytes.
    _column: Arc<Column>,
}

// SAFETY: all that a structure points to is its own or behind an `Arc` of something immutable; no thread is special.
unsafe impl Send for Schema {}
// SAFETY: as above.
unsafe impl Send for Array {}

impl Schema {
    fn of(column: &Column) -> Self {
        let mut parts = Box::new(SchemaParts {
            name: CString::new(column.name.as_str()).unwrap_or_default(),
            children: column.children.iter().map(|child| Box::into_raw(Box::new(Self::of(child)))).collect(),
        });
        Self {
            format: column.format.as_ptr(),
            name: parts.name.as_ptr(),
            metadata: ptr::null(),
            flags: if column.nullable { NULLABLE } else { 0 },
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

impl Array {
    fn of(column: &Arc<Column>) -> Self {
        let mut parts = Box::new(ArrayParts {
            buffers: column.buffers.iter().map(|each| each.as_ref().map_or(ptr::null(), Buffer::pointer)).collect(),
            children: column.children.iter().map(|child| Box::into_raw(Box::new(Self::of(child)))).collect(),
            _column: Arc::clone(column),
        });
        Self {
            length: column.length as i64,
            null_count: column.nulls as i64,
            offset: 0,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: whoever took the contents over has set `release` to null, so they are still here.
            unsafe { release(self) }
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: whoever took the contents over has set `release` to null, so they are still here.
            unsafe { release(self) }
        }
    }
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the interface calls this once, with a structure that `Schema::of` filled: its private data and its
    // children come from `Box::into_raw`. A child that was taken over has no `release` and is only freed.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for child in &parts.children {
            drop(Box::from_raw(*child));
        }
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as for `release_schema`, with `Array::of`.
    unsafe {
        let parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for child in &parts.children {
            drop(Box::from_raw(*child));
        }
        (*array).release = None;
    }
}

/// What `__arrow_c_schema__` returns.
pub fn schema_capsule<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, Schema::of(column), c"arrow_schema")
}

/// The second half of what `__arrow_c_array__` returns.
pub fn array_capsule<'py>(py: Python<'py>, column: &Arc<Column>) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, Array::of(column), c"arrow_array")
}
