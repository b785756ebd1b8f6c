//! From numbers of segments and items to the kernel and the launch.

use warpfold_device::{LaunchConfig, Limits};
use warpfold_lang::Registers;

use super::Segments;
use super::kernel::{BLOCK, HUGE, PART, WORDS};
use crate::fold::geometry::MAX_INPUTS;
use crate::fold::{Monoid, Step};
use crate::layout::Layout;
use crate::{Dtype, Error, ErrorKind};

/// Items of an average segment for each of the lanes that fold it.
const ITEMS: u64 = 16;

/// Blocks a multiprocessor that take segments again and again.
const RESIDENT: u32 = 6;

/// How the fold of segments is carried out. A value: it can be printed and compared; it decides the order of the fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentsPlan {
    /// The kernel.
    pub shape: Segments,
    /// The launch; `None` if there is no segment.
    pub launch: Option<LaunchConfig>,
    /// 8-byte words of workspace.
    pub workspace_words: u64,
    /// Counters, zero before and behind the launch.
    pub tickets: u64,
    pub(crate) words: [u64; WORDS],
}

impl SegmentsPlan {
    /// The launch on a device of these limits: beside the blocks for parts only as many as are resident at once. Which
    /// block takes which segment changes nothing of the results.
    #[must_use]
    pub fn launch_on(&self, limits: &Limits) -> Option<LaunchConfig> {
        let mut config = self.launch?;
        if self.shape.walks() {
            config.grid[0] = config.grid[0].min(self.words[2] as u32 + RESIDENT * limits.num_sms);
        }
        Some(config)
    }
}

fn refuse<T>(reason: String) -> Result<T, Error> {
    Err(ErrorKind::Operand { operator: "fold of segments", reason }.into())
}

pub(super) fn plan<M: Monoid>(
    monoid: M,
    layouts: &[&Layout],
    offsets: Dtype,
    num_segments: u64,
) -> Result<SegmentsPlan, Error> {
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
        lanes if M::COMMUTES => lanes,
        lanes if lanes <= 4 => 1,
        _ => 32,
    };
    let wide = monoid.identity().count() > 4;
    let strides: Vec<i64> = layouts.iter().map(|layout| layout.strides()[0] as i64).collect();
    let mut words = [0; WORDS];
    let mut steps = [Step::Any; MAX_INPUTS];
    for (i, stride) in strides.iter().enumerate() {
        steps[i] = Step::of(*stride);
        words[3 + i] = stride.cast_unsigned();
    }
    // Blocks for parts of huge segments, if there can be one.
    let helpers = if len > HUGE { len.div_ceil(PART) } else { 0 };
    words[..3].copy_from_slice(&[num_segments, len, helpers]);
    let blocks = helpers + num_segments.div_ceil(u64::from(BLOCK / lanes));
    const LIMIT: u64 = i32::MAX as u64;
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    // A huge segment begins at most every PART items; see the kernel.
    let slots = if helpers > 0 { 2 * helpers + 2 } else { 0 };
    Ok(SegmentsPlan {
        shape: Segments {
            lanes,
            unroll: (mean / u64::from(lanes)).clamp(1, if wide { 2 } else { 8 }).next_power_of_two() as u32,
            long_unroll: if wide { 2 } else { 8 },
            offsets,
            steps,
            shares: helpers > 0,
        },
        launch: (num_segments > 0).then(|| LaunchConfig::new(blocks as u32, BLOCK)),
        workspace_words: slots * u64::from(monoid.identity().count()),
        tickets: slots,
        words,
    })
}
