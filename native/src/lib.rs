//! The native core: twins of PyroMQ's hot functions. Python decides, this carries.
//!
//! Every function here has a Python twin of the same name and contract, which is the reference. None keeps state that
//! outlives its call, but for values that Python holds; none changes what Python sees before it is certain to succeed.

use pyo3::prelude::*;

mod answers;
mod arrow;
mod batch;
mod bodies;
mod cdata;
mod heads;
mod hpack;
mod huffman;
mod index;
mod json;
mod layout;
mod memory;
mod messages;
mod pull;
mod pullhead;
mod pulls;
mod queue;
mod receipts;
mod records;
mod rows;
mod runs;
mod sendhead;
mod sends;
mod statictable;
mod text;
mod walk;

/// What Python and this library agree on. Raised with every change of a signature: a library of another contract is
/// not used.
const CONTRACT: u32 = 1;

#[pymodule]
fn pyromq_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CONTRACT", CONTRACT)?;
    module.add("Panic", module.py().get_type::<pyo3::panic::PanicException>())?;
    module.add_function(wrap_pyfunction!(panic, module)?)?;
    module.add_function(wrap_pyfunction!(messages::take_plain, module)?)?;
    module.add_function(wrap_pyfunction!(messages::send_fields, module)?)?;
    module.add_function(wrap_pyfunction!(messages::send_frame, module)?)?;
    module.add_function(wrap_pyfunction!(receipts::cut_receipts, module)?)?;
    module.add_function(wrap_pyfunction!(batch::place_batch, module)?)?;
    module.add_function(wrap_pyfunction!(batch::message_ids, module)?)?;
    module.add_function(wrap_pyfunction!(index::link_keys, module)?)?;
    module.add_class::<arrow::ArrowColumns>()?;
    module.add_function(wrap_pyfunction!(arrow::arrow_columns, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::plain_starts, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::pulled_columns, module)?)?;
    module.add_function(wrap_pyfunction!(bodies::body_columns, module)?)?;
    module.add_function(wrap_pyfunction!(rows::batch_rows, module)?)?;
    module.add_function(wrap_pyfunction!(pull::are_sound, module)?)?;
    module.add_function(wrap_pyfunction!(pull::gather, module)?)?;
    module.add_function(wrap_pyfunction!(pull::pull_head, module)?)?;
    module.add_function(wrap_pyfunction!(pull::scan_entries, module)?)?;
    module.add_class::<pulls::PullRun>()?;
    module.add_function(wrap_pyfunction!(pulls::answer_pulls, module)?)?;
    module.add_function(wrap_pyfunction!(walk::gather_plain, module)?)?;
    module.add_function(wrap_pyfunction!(walk::are_plain, module)?)?;
    module.add_function(wrap_pyfunction!(walk::pass_plain, module)?)?;
    module.add_function(wrap_pyfunction!(queue::sound_entries, module)?)?;
    module.add_class::<sends::SendRun>()?;
    module.add_class::<records::Placed>()?;
    module.add_function(wrap_pyfunction!(runs::cut_run, module)?)?;
    module.add_function(wrap_pyfunction!(records::write_sends, module)?)?;
    module.add_function(wrap_pyfunction!(answers::answer_sends, module)?)?;
    module.add_class::<hpack::HpackDecoder>()?;
    Ok(())
}

/// Panics, for tests of what happens then.
#[pyfunction]
fn panic(reason: String) {
    panic!("{reason}");
}
