//! Convolutions of halves with their channels last, and of `f32`: the catalogue's problems that such layers have.

use std::time::Duration;

use warpfold_device::{Counters, Device};
use warpfold_kernels::conv::ladder::PROBLEMS;
use warpfold_kernels::conv::{self, Layout, Operands, Plan, Problem, Window};
use warpfold_kernels::matmul::{Epilogue, Singles};
use warpfold_kernels::{Dtype, Error};

use super::data::filled;
use super::measure::{added, wait_for};
use super::{Record, Time};
use crate::Queue;

/// Rounds whose median counts.
const ROUNDS: usize = 7;

/// Every problem in `f32`, and those whose channels copies can bring in `bf16`; on the virtual GPU smaller ones.
pub(super) fn all(is_virtual: bool) -> Vec<Problem> {
    let of = |dtype, layout, [n, c, h, w, k, r, s, u, v, p, q]: [u32; 11]| {
        let smaller = |size: u32, least: u32| if is_virtual { size.div_ceil(8).max(least) } else { size };
        Problem {
            dtype,
            result: dtype,
            layout,
            images: smaller(n, 1).into(),
            channels: c.into(),
            size: [smaller(h, r), smaller(w, s)].map(u64::from),
            filters: smaller(k, 1).into(),
            filter: [r, s].map(u64::from),
            groups: 1,
            window: Window { stride: [u, v], padding: [p, q], dilation: [1, 1] },
            singles: Singles::Full,
            num_inputs: 0,
        }
    };
    let singles = PROBLEMS.iter().map(|sizes| of(Dtype::F32, Layout::Nchw, *sizes));
    // A layer of a residual network, and its pointwise one, beside those of the catalogue.
    let layers = [[64, 256, 56, 56, 256, 3, 3, 1, 1, 1, 1], [64, 1024, 28, 28, 256, 1, 1, 1, 1, 0, 0]];
    let halves = PROBLEMS.iter().filter(|sizes| sizes[1] % 8 == 0).chain(&layers);
    singles.chain(halves.map(|sizes| of(Dtype::Bf16, Layout::Nhwc, *sizes))).collect()
}

pub(super) fn measure(device: &Device, problem: &Problem) -> Result<Record, Error> {
    let queue = Queue::new(device.default_stream());
    let plan = Plan::new(problem.clone(), Epilogue::new(), device.limits())?;
    let Problem { dtype, images, channels, size: [h, w], filters, .. } = *problem;
    let (pixels, weights, results) = (images * channels * h * w, filters * problem.depth(), problem.num_results());
    let (x, y) = (filled(&queue, dtype, pixels)?, filled(&queue, dtype, weights)?);
    let mut result = device.alloc::<u8>((results * dtype.bytes()) as usize)?;
    let mut run = || {
        let operands =
            Operands { images: x.as_view(), filters: y.as_view(), inputs: Vec::new(), result: result.as_view_mut() };
        conv::launch(queue.stream(), &plan, operands)
    };
    drop(device.take_reports());
    run()?;
    let record = Record {
        family: "conv",
        case: format!("conv2d {problem}, strides {:?}", problem.window.stride),
        bytes: (pixels + weights + results) * dtype.bytes(),
        flops: Some(problem.flops()),
        launches: 1,
        time: None,
        peer: None,
        counters: None,
    };
    if device.is_virtual() {
        let reports = device.take_reports();
        let counters = reports.iter().fold(Counters::default(), |sum, launch| added(sum, &launch.report.counters));
        return Ok(Record { counters: Some(counters), ..record });
    }
    let runs = (4_000_000_000_000 / problem.flops().max(1)).clamp(2, 50) as u32;
    let mut times: Vec<Duration> = Vec::new();
    for round in 0..=ROUNDS {
        wait_for(&queue, 4_000_000)?;
        let start = queue.stream().record()?;
        for _ in 0..runs {
            run()?;
        }
        let end = queue.stream().record()?;
        // The first round warms up.
        if round > 0 {
            times.push(end.elapsed_since(&start)?.unwrap_or_default() / runs);
        }
    }
    times.sort_unstable();
    let (least, most) = (times[0], times[times.len() - 1]);
    let time = Time { median: times[times.len() / 2].max(Duration::from_nanos(1)), least, most };
    Ok(Record { time: Some(time), ..record })
}
