//! A launch of a kernel that takes one or two inputs, one or two outputs, workspace, what else it asks for, and words by
//! value.

use warpfold_device::{Arguments, LaunchConfig, Stream, View, ViewMut};

use super::geometry::MAX_INPUTS;
use crate::elements::Sink;
use crate::{AnyKernel, Error, ErrorKind};

/// The memory of such a kernel.
pub(super) struct Operands<'a> {
    pub(super) inputs: Vec<View<'a, u8>>,
    pub(super) outputs: Vec<ViewMut<'a, u8>>,
    /// Workspace.
    pub(super) words: ViewMut<'a, u64>,
    /// Counters that are zero, for a kernel that takes them.
    pub(super) tickets: Option<ViewMut<'a, u32>>,
    /// Offsets of segments, for a kernel that takes them.
    pub(super) offsets: Option<View<'a, u8>>,
}

/// Enqueues the kernel. An input or output that is not there is a null pointer.
pub(super) fn launch(
    stream: &Stream,
    kernel: &AnyKernel,
    config: LaunchConfig,
    operands: Operands<'_>,
    words: &[u64],
) -> Result<(), Error> {
    let function = kernel.prepare(stream.device())?;
    let mut arguments = Arguments::new();
    for i in 0..MAX_INPUTS {
        arguments = match operands.inputs.get(i) {
            Some(input) => arguments.input(input.clone()),
            None => arguments.value(0_u64),
        };
    }
    let mut outputs = operands.outputs.into_iter();
    for _ in 0..2 {
        arguments = match outputs.next() {
            Some(output) => arguments.output(output),
            None => arguments.value(0_u64),
        };
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    arguments = arguments.output(operands.words);
    if let Some(tickets) = operands.tickets {
        arguments = arguments.output(tickets);
    }
    if let Some(offsets) = operands.offsets {
        arguments = arguments.input(offsets);
    }
    Ok(stream.launch_raw(&function, config, &arguments.raw(&bytes, 8))?)
}

/// Whether outputs have room for so many results.
pub(super) fn check_room<O: Copy + 'static>(
    sink: &Sink<O>,
    outputs: &[ViewMut<'_, u8>],
    results: u64,
) -> Result<(), Error> {
    assert_eq!(outputs.len(), sink.dtypes().len(), "one view for each output");
    for ((output, dtype), len) in outputs.iter().zip(sink.dtypes()).zip(sink.lens()) {
        let needed = results.saturating_mul(dtype.bytes() * u64::from(*len));
        if needed > output.num_bytes() as u64 {
            let found = output.num_bytes();
            let reason = format!("an output has {found} bytes, too few for {results} results of {len} {dtype} each");
            return Err(ErrorKind::Operand { operator: "fold", reason }.into());
        }
    }
    Ok(())
}
