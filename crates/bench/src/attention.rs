//! Attention: prefill of one sequence, and decode from a paged cache.
//!
//! Timed as peers are: each launch by itself between two events, behind a fill that empties the L2
//! and lets the launch stand in line.

use std::time::Duration;

use warpfold_device::{Buffer, Counters, Device};
use warpfold_kernels::attention::{Attention, Causal, Keys, Problem, Queries};
use warpfold_kernels::plan::Family;
use warpfold_kernels::{Dtype, Error, Workspace};

use super::data::filled;
use super::measure::added;
use super::products::summary;
use super::{Record, Time};
use warpfold::Queue;

/// Launches whose median counts.
const RUNS: usize = 20;
/// More than any L2.
const FLUSHED_BYTES: usize = 256 << 20;

/// An attention at a shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    kv_dtype: Dtype,
    batch: u64,
    heads: [u64; 2],
    dim: u64,
    /// Keys of a sequence.
    len: u64,
    work: Work,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    /// As many queries as keys.
    Prefill { causal: bool },
    /// One query a sequence, keys in pages of so many tokens.
    Decode { page: u64 },
}

/// Every case; for the virtual GPU shorter ones.
pub(super) fn all(is_virtual: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |kv_dtype: Dtype, batch: u64, heads: [u64; 2], dim: u64, len: u64, work: Work| {
        let (batch, len) = if is_virtual { (batch.min(2), len.div_ceil(32)) } else { (batch, len) };
        cases.push(Case { kv_dtype, batch, heads, dim, len, work });
    };
    for (dim, heads) in [(64, [32, 8]), (128, [32, 8]), (128, [64, 8]), (256, [16, 4])] {
        for len in [2048, 4096, 8192, 16_384] {
            for causal in [false, true] {
                add(Dtype::Bf16, 1, heads, dim, len, Work::Prefill { causal });
            }
        }
    }
    let decodes = [
        (1, 4096, [32, 8], 128, 16),
        (1, 32_768, [32, 8], 128, 16),
        (16, 4096, [32, 8], 128, 16),
        (32, 4096, [32, 8], 128, 16),
        (128, 1024, [32, 8], 128, 16),
        (256, 1024, [32, 8], 128, 16),
        (32, 8192, [64, 8], 128, 16),
        (16, 4096, [32, 32], 128, 16),
        (64, 2048, [9, 3], 64, 16),
        (64, 4096, [4, 1], 256, 16),
        (32, 4096, [32, 8], 128, 256),
    ];
    for (batch, len, heads, dim, page) in decodes {
        add(Dtype::Bf16, batch, heads, dim, len, Work::Decode { page });
    }
    for (batch, len) in [(32, 4096), (256, 1024)] {
        add(Dtype::F8E4M3, batch, [32, 8], 128, len, Work::Decode { page: 16 });
    }
    cases
}

impl Case {
    fn name(self) -> String {
        let Self { kv_dtype, batch, heads: [heads, kv_heads], dim, len, work } = self;
        let work = match work {
            Work::Prefill { causal: false } => "full".to_owned(),
            Work::Prefill { causal: true } => "causal".to_owned(),
            Work::Decode { page } => format!("decode, page {page}"),
        };
        format!("attention {kv_dtype} B{batch} S{len} H{heads}:{kv_heads} D{dim} {work}")
    }

    fn problem(self) -> Problem {
        let Self { kv_dtype, batch, heads: [heads, kv_heads], dim, len, work } = self;
        let of = |positions: u64, heads: u64| {
            let (positions, heads, dim) = (positions as i64, heads as i64, dim as i64);
            [positions * heads * dim, dim, heads * dim, 1]
        };
        let (queries, keys, causal) = match work {
            Work::Prefill { causal } => {
                let strides @ [b, h, s, _] = of(len, heads);
                let queries = Queries::Dense { batch, len, strides, out_strides: [b, h, s] };
                let kv = of(len, kv_heads);
                (queries, Keys::Dense { len, k_strides: kv, v_strides: kv }, causal)
            }
            Work::Decode { page } => {
                let [_, h, s, e] = of(1, heads);
                let kv = of(page, kv_heads);
                let width = len.div_ceil(page);
                let queries = Queries::Packed { batch, total: batch, strides: [s, h, e] };
                (queries, Keys::Paged { page, pages: batch * width, width, k_strides: kv, v_strides: kv }, true)
            }
        };
        Problem {
            dtype: Dtype::Bf16,
            kv_dtype,
            output: Dtype::Bf16,
            heads,
            kv_heads,
            head_dim: dim,
            value_dim: dim,
            queries,
            keys,
            scale_bits: (1.0 / (dim as f32).sqrt()).to_bits(),
            value_scale_bits: 1.0_f32.to_bits(),
            causal: causal.then_some(Causal::BottomRight),
            window: None,
            softcap_bits: None,
            mask: None,
            sinks: None,
            lse: false,
            score: None,
            alignment: 16,
        }
    }

    /// Products and sums; a causal one has half of them.
    fn flops(self) -> Option<u64> {
        let Self { batch, heads: [heads, _], dim, len, work, .. } = self;
        match work {
            Work::Prefill { causal } => Some(4 * batch * heads * len * len * dim / if causal { 2 } else { 1 }),
            Work::Decode { .. } => None,
        }
    }

    /// Of keys and values, and of queries and results.
    fn bytes(self) -> u64 {
        let Self { kv_dtype, batch, heads: [heads, kv_heads], dim, len, work } = self;
        let queries = if matches!(work, Work::Prefill { .. }) { len } else { 1 };
        2 * batch * dim * (len * kv_heads * kv_dtype.bytes() + queries * heads * Dtype::Bf16.bytes())
    }

    /// The lists that are read on the device: where queries begin, lengths, pages in any order.
    fn lists(self) -> Vec<Vec<i32>> {
        let Work::Decode { page } = self.work else { return Vec::new() };
        let (batch, pages) = (self.batch as i32, self.batch * self.len.div_ceil(page));
        // A step that has no divisor in common with the number of pages meets each once.
        let step = (pages / 2 + 1..).find(|step| gcd(*step, pages) == 1).expect("some number has none");
        let table = (0..pages).map(|i| (i * step % pages) as i32).collect();
        vec![(0..=batch).collect(), vec![self.len as i32; self.batch as usize], table]
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub(super) fn measure(device: &Device, case: Case) -> Result<Record, Error> {
    let queue = Queue::new(device.default_stream());
    let problem = case.problem();
    let ready = Attention.ready(device, &problem)?;
    let specs = &ready.plan().inputs;
    let mut inputs: Vec<Buffer<u8>> = Vec::new();
    for (spec, dtype) in specs[..3].iter().zip([problem.dtype, problem.kv_dtype, problem.kv_dtype]) {
        inputs.push(filled(&queue, dtype, spec.bytes / dtype.bytes())?);
    }
    for list in case.lists() {
        inputs.push(device.upload(bytemuck::cast_slice::<i32, u8>(&list))?);
    }
    let mut output = device.alloc::<u8>(ready.plan().outputs[0].bytes as usize)?;
    let mut workspace = Workspace::new();
    drop(device.take_reports());
    let mut ours = || {
        let views: Vec<_> = inputs.iter().map(|input| Some(input.as_view())).collect();
        ready.launch(queue.stream(), &views, &mut [output.as_view_mut()], &mut workspace)
    };
    ours()?;
    let record = Record {
        family: "attention",
        case: case.name(),
        bytes: case.bytes(),
        flops: case.flops(),
        launches: ready.plan().steps.len() as u64,
        time: None,
        peer: None,
        counters: None,
    };
    if device.is_virtual() {
        let reports = device.take_reports();
        let counters = reports.iter().fold(Counters::default(), |sum, launch| added(sum, &launch.report.counters));
        return Ok(Record { counters: Some(counters), ..record });
    }
    Ok(Record { time: Some(alone(&queue, &mut ours)?), ..record })
}

/// The time of a launch by itself.
fn alone(queue: &Queue, run: &mut dyn FnMut() -> Result<(), Error>) -> Result<Time, Error> {
    let mut flushed = queue.device().alloc::<u8>(FLUSHED_BYTES)?;
    let mut events = Vec::new();
    for _ in 0..=RUNS {
        queue.stream().fill_bytes(flushed.as_view_mut(), 0)?;
        let start = queue.stream().record()?;
        run()?;
        events.push((start, queue.stream().record()?));
    }
    let elapsed = |(start, end): &(_, warpfold_device::Event)| {
        Ok::<Duration, Error>(end.elapsed_since(start)?.unwrap_or_default())
    };
    Ok(summary(events.iter().map(elapsed).collect::<Result<_, _>>()?))
}
