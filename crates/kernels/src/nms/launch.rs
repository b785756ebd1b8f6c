//! Launches a plan on buffers of the device.

use warpfold_device::{Arguments, LaunchConfig, Stream, View, ViewMut};

use super::rank::BOXES;
use super::{GROUP, Plan, overlaps, rank, sweep};
use crate::kept::Kept;
use crate::{AnyKernel, Error, ErrorKind, Workspace};

/// The memory of a suppression, as bytes; each array at a multiple of its elements.
#[derive(Debug)]
pub struct Operands<'a> {
    /// `N` times four `f32`.
    pub boxes: View<'a, u8>,
    /// `N` times an `f32`.
    pub scores: View<'a, u8>,
    /// Room for `N` times an `i64`.
    pub indices: ViewMut<'a, u8>,
    /// Room for an `i64`.
    pub count: ViewMut<'a, u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Rank,
    Overlaps,
    Sweep,
}

static KERNELS: Kept<Part> = Kept::new();

fn make(part: &Part) -> AnyKernel {
    match part {
        Part::Rank => rank().into(),
        Part::Overlaps => overlaps().into(),
        Part::Sweep => sweep().into(),
    }
}

/// Suppresses the boxes that a plan was made for.
///
/// # Errors
/// [`ErrorKind::Operand`] if a buffer is too short, or does not begin at a multiple of its elements; what the device says.
pub fn launch(
    stream: &Stream,
    plan: &Plan,
    threshold: f32,
    operands: Operands<'_>,
    workspace: &mut Workspace,
) -> Result<(), Error> {
    check(plan, &operands)?;
    let Operands { boxes, scores, mut indices, count } = operands;
    let mut count = count.slice(..8)?;
    let &Plan { num_boxes, .. } = plan;
    if num_boxes == 0 {
        return Ok(stream.fill_bytes(count, 0)?);
    }
    let (words, _) = workspace.get(stream.device(), plan.workspace_words(), 0)?;
    let [in_sorted, in_order, in_suppressed, _] = plan.places().map(|words| words as usize);
    let (mut sorted, rest) = words.split_at(in_sorted)?;
    let (mut order, rest) = rest.split_at(in_order)?;
    let (mut suppressed, mut bits) = rest.split_at(in_suppressed)?;

    let device = stream.device();
    let arguments = Arguments::new().input(boxes).input(scores).output(sorted.reborrow());
    let arguments = arguments.output(order.reborrow()).output(suppressed.reborrow()).value(num_boxes);
    let config = LaunchConfig::new(num_boxes.div_ceil(BOXES), rank::BLOCK);
    stream.launch_raw(&KERNELS.prepare(device, Part::Rank, make)?, config, &arguments)?;

    let (overlaps, sweep_function) =
        (KERNELS.prepare(device, Part::Overlaps, make)?, KERNELS.prepare(device, Part::Sweep, make)?);
    let num_words = plan.num_words();
    for (first, end) in plan.parts() {
        let arguments = Arguments::new().input(sorted.as_view()).input(suppressed.as_view());
        let arguments = arguments.output(bits.reborrow()).value(num_boxes).value(num_words).value(first);
        let config = LaunchConfig::new((num_words - first / GROUP, (end - first).div_ceil(GROUP)), GROUP);
        stream.launch_raw(&overlaps, config, &arguments.value(threshold))?;
        let arguments = Arguments::new().input(bits.as_view()).input(order.as_view()).output(suppressed.reborrow());
        let arguments = arguments.output(indices.reborrow()).output(count.reborrow());
        let arguments = arguments.value(num_boxes).value(num_words).value(first).value(end);
        stream.launch_raw(&sweep_function, LaunchConfig::new(1, sweep::BLOCK), &arguments)?;
    }
    Ok(())
}

fn check(plan: &Plan, operands: &Operands<'_>) -> Result<(), Error> {
    let refused = |reason| Err(ErrorKind::Operand { operator: "nms", reason }.into());
    if plan.part == 0 || !plan.part.is_multiple_of(GROUP) {
        return refused(format!("a part has a multiple of {GROUP} boxes, not {}", plan.part));
    }
    let Operands { boxes, scores, indices, count } = operands;
    let num_boxes = u64::from(plan.num_boxes);
    let arrays = [
        ("boxes", boxes.address(), boxes.num_bytes(), 16 * num_boxes, 4),
        ("scores", scores.address(), scores.num_bytes(), 4 * num_boxes, 4),
        ("indices", indices.address(), indices.num_bytes(), 8 * num_boxes, 8),
        ("count", count.address(), count.num_bytes(), 8, 8),
    ];
    for (name, address, found, needed, alignment) in arrays {
        if needed > found as u64 {
            return refused(format!("{name}: {found} bytes, {needed} are needed"));
        }
        if address % alignment != 0 {
            return refused(format!("{name}: not at a multiple of {alignment} bytes"));
        }
    }
    Ok(())
}
