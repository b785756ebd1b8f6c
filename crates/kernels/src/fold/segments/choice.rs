//! From numbers of segments and items to the kernel and the launch.

use warpfold_device::{LaunchConfig, Limits};

use super::kernel::{BLOCK, PART, RANGES};
use super::{SegmentsAlgorithm, SegmentsProblem};
use crate::fold::StrideKind;
use crate::fold::erased::ErasedMonoid;
use crate::fold::geometry::MAX_INPUTS;
use crate::layout::Layout;
use crate::plan::grid_size;
use crate::{Dtype, Error, ErrorKind};

/// Items of an average segment for each lane that folds it.
const ITEMS: u64 = 16;

/// Blocks that search for parts of huge segments, unless each would have more ranges to search than
/// warps: more than are resident at once, so that none is the last for long.
const HELPERS: u64 = 2048;

/// Persistent blocks per SM.
const RESIDENT: u32 = 6;

/// How a segmented fold is carried out. A value: it can be printed, compared and changed; it
/// decides the order of the fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentsChoice {
    /// The kernel.
    pub algorithm: SegmentsAlgorithm,
    /// The launch without blocks for parts of huge segments; `None` if there is no segment.
    pub launch: Option<LaunchConfig>,
    /// Blocks for parts of huge segments: an eighth of the ranges that they are looked for in, or
    /// more. How many changes nothing of the results.
    pub helpers: u64,
    /// 8-byte words of workspace.
    pub(super) workspace_words: u64,
    /// Counters, zero before and after the launch.
    pub(super) tickets: u64,
    /// Items of all segments.
    pub(super) len: u64,
    /// Of the inputs.
    pub(super) strides: [u64; MAX_INPUTS],
}

impl SegmentsChoice {
    /// The launch on a device of these limits: beside the blocks for parts only as many as are
    /// resident at once. Which block takes which segment changes nothing of the results.
    pub(super) fn launch_on(&self, limits: &Limits) -> Option<LaunchConfig> {
        let mut config = self.launch?;
        if self.algorithm.is_persistent() {
            config.grid[0] = config.grid[0].min(RESIDENT * limits.num_sms);
        }
        config.grid[0] += self.helpers as u32;
        Some(config)
    }
}

fn refuse<T>(reason: String) -> Result<T, Error> {
    Err(ErrorKind::Operand { operator: "fold of segments", reason }.into())
}

pub(super) fn choose(monoid: &dyn ErasedMonoid, problem: &SegmentsProblem) -> Result<SegmentsChoice, Error> {
    let SegmentsProblem { inputs, offsets, num_segments, .. } = problem;
    let layouts: Vec<&Layout> = inputs.iter().map(|input| &input.layout).collect();
    let (offsets, num_segments) = (*offsets, *num_segments);
    if let Some(layout) = layouts.iter().find(|layout| layout.rank() != 1) {
        return refuse(format!("takes tensors of one dimension, not of {}", layout.rank()));
    }
    if !matches!(offsets, Dtype::I32 | Dtype::I64) {
        return refuse(format!("takes offsets of i32 or i64, not of {offsets}"));
    }
    let len = layouts[0].len() as u64;
    let mean = len / num_segments.max(1);
    let lanes = match mean.div_ceil(ITEMS).clamp(1, 32).next_power_of_two() as u32 {
        // Lanes that fold in order shuffle as they go, so a warp has to keep together.
        lanes if monoid.commutes() => lanes,
        lanes if lanes <= 4 => 1,
        _ => 32,
    };
    let wide = monoid.num_registers() > 4;
    let (mut strides, mut stride_kinds) = ([0; MAX_INPUTS], [StrideKind::Any; MAX_INPUTS]);
    for (i, layout) in layouts.iter().enumerate() {
        let stride = layout.strides()[0] as i64;
        (strides[i], stride_kinds[i]) = (stride.cast_unsigned(), StrideKind::of(stride));
    }
    // Blocks for parts of huge segments, if there can be one.
    let ranges = if len > PART { len.div_ceil(PART) } else { 0 };
    let helpers = ranges.div_ceil(RANGES).max(ranges.min(HELPERS));
    let algorithm = SegmentsAlgorithm {
        lanes,
        unroll: (mean / u64::from(lanes)).clamp(1, if wide { 2 } else { 8 }).next_power_of_two() as u32,
        long_unroll: if wide { 2 } else { 8 },
        offsets,
        stride_kinds,
        shares: helpers > 0,
    };
    let blocks = num_segments.div_ceil(u64::from(algorithm.turn()));
    grid_size(helpers + blocks)?;
    Ok(SegmentsChoice {
        algorithm,
        launch: (num_segments > 0).then(|| LaunchConfig::new(blocks as u32, BLOCK)),
        helpers,
        // A slot for each range: a segment has no more parts than ranges begin in it.
        workspace_words: ranges * u64::from(monoid.num_registers()),
        tickets: ranges,
        len,
        strides,
    })
}
