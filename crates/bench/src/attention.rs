//! Attention: prefill of one sequence, and decode from a paged cache.
//!
//! Timed as peers are: each launch by itself between two events, behind a fill that empties the L2
//! and lets the launch stand in line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use warpfold_device::{Buffer, Device, Event};
use warpfold_kernels::attention::{Attention, Causal, Keys, Problem, Queries};
use warpfold_kernels::plan::{Family, Plan, Ready};
use warpfold_kernels::{Dtype, Error, Workspace};

use super::check::{Sample, compare, spread};
use super::data::{Elements, filled};
use super::measure::counted;
use super::products::summary;
use super::{Peer, Record, Time};
use crate::vendor::cudnn_attention::{Cudnn, CudnnAttention};
use warpfold::Queue;

/// Launches whose median counts.
const RUNS: usize = 20;
/// More than any L2.
const FLUSHED_BYTES: usize = 256 << 20;

/// An attention at a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    kv_dtype: Dtype,
    batch: u64,
    heads: [u64; 2],
    dim: u64,
    /// Keys of a sequence.
    len: u64,
    work: Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Equal numbers of queries and keys.
    Prefill { causal: bool },
    /// One query a sequence, keys in pages of so many tokens.
    Decode { page: u64 },
}

/// Every case; for the virtual GPU shorter ones.
pub(super) fn all(is_virtual: bool) -> Vec<Shape> {
    let mut cases = Vec::new();
    let mut add = |kv_dtype: Dtype, batch: u64, heads: [u64; 2], dim: u64, len: u64, work: Work| {
        // Work of a prefill grows with the square of its length.
        let shorter = if matches!(work, Work::Prefill { .. }) { 64 } else { 32 };
        let (batch, len) = if is_virtual { (batch.min(2), len.div_ceil(shorter)) } else { (batch, len) };
        let case = Shape { kv_dtype, batch, heads, dim, len, work };
        // Cut to the virtual GPU's sizes, some are the same.
        if !cases.contains(&case) {
            cases.push(case);
        }
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
    for (dim, heads) in [(64, [32, 8]), (128, [32, 8]), (256, [16, 4])] {
        for causal in [false, true] {
            add(Dtype::F8E4M3, 1, heads, dim, 8192, Work::Prefill { causal });
        }
    }
    for (batch, len) in [(32, 4096), (256, 1024)] {
        add(Dtype::F8E4M3, batch, [32, 8], 128, len, Work::Decode { page: 16 });
    }
    cases
}

impl Shape {
    /// Returns the problem for the library's family.
    #[must_use]
    pub fn problem(self) -> Problem {
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
        // 8-bit keys of a prefill are multiplied as they are, as are its queries.
        let is_narrow = matches!(work, Work::Prefill { .. }) && kv_dtype == Dtype::F8E4M3;
        Problem {
            kv_dtype,
            output: Dtype::Bf16,
            products: is_narrow.then_some(kv_dtype),
            causal: causal.then_some(Causal::BottomRight),
            ..Problem::new(self.dtype(), [heads, kv_heads], [dim; 2], queries, keys)
        }
    }

    /// The type of the queries.
    fn dtype(self) -> Dtype {
        if matches!(self.work, Work::Prefill { .. }) { self.kv_dtype } else { Dtype::Bf16 }
    }

    /// Products and sums; a causal one has half of them.
    #[must_use]
    pub fn flops(self) -> Option<u64> {
        let Self { batch, heads: [heads, _], dim, len, work, .. } = self;
        match work {
            Work::Prefill { causal } => Some(4 * batch * heads * len * len * dim / if causal { 2 } else { 1 }),
            Work::Decode { .. } => None,
        }
    }

    /// Returns the bytes of keys and values, and of queries and results.
    #[must_use]
    pub fn bytes(self) -> u64 {
        let Self { kv_dtype, batch, heads: [heads, kv_heads], dim, len, work } = self;
        let queries = if matches!(work, Work::Prefill { .. }) { len } else { 1 };
        let of_queries = queries * heads * (self.dtype().bytes() + Dtype::Bf16.bytes());
        batch * dim * (2 * len * kv_heads * kv_dtype.bytes() + of_queries)
    }

    /// Memory for a plan of it, with random numbers.
    ///
    /// # Errors
    /// What the device says.
    pub fn memory(self, device: &Device, plan: &Plan) -> Result<Memory, Error> {
        let (queue, problem) = (Queue::new(device.default_stream()), self.problem());
        let Plan { inputs: specs, outputs, .. } = plan;
        let mut inputs = Vec::new();
        for (spec, dtype) in specs[..3].iter().zip([problem.dtype, problem.kv_dtype, problem.kv_dtype]) {
            inputs.push(filled(&queue, dtype, spec.bytes / dtype.bytes())?);
        }
        for list in self.lists() {
            inputs.push(device.upload(bytemuck::cast_slice::<i32, u8>(&list))?);
        }
        let output = device.alloc::<u8>(outputs[0].bytes as usize)?;
        Ok(Memory { queue, inputs, output, flushed: None })
    }

    /// The same for the vendor's library: a prefill in bf16.
    fn peer(self) -> Option<CudnnAttention> {
        let Self { kv_dtype: Dtype::Bf16, batch, heads, dim, len, work: Work::Prefill { causal } } = self else {
            return None;
        };
        let [batch, heads, kv_heads, len, dim] = [batch, heads[0], heads[1], len, dim].map(|size| size as usize);
        let scale = f32::from_bits(self.problem().scale_bits);
        Some(CudnnAttention { batch, heads, kv_heads, len, dim, causal, scale })
    }

    /// Results of queries at both ends and between, in double precision.
    fn samples(self) -> Vec<Sample> {
        let Self { kv_dtype, batch, heads: [heads, kv_heads], dim, len, work } = self;
        let (problem, lists) = (self.problem(), self.lists());
        let queries = if matches!(work, Work::Prefill { .. }) { len } else { 1 };
        let q = Elements::new(self.dtype(), batch * queries * heads * dim);
        let keys = match work {
            Work::Prefill { .. } => len,
            Work::Decode { page } => len.next_multiple_of(page),
        };
        let kv = Elements::new(kv_dtype, batch * keys * kv_heads * dim);
        let scale = f64::from(f32::from_bits(problem.scale_bits));
        // Weights of 8 bits have 4 digits, those of bf16 8; their errors cancel in part.
        let digits = if problem.products.is_some() { 5 } else { 8 };
        let of = |[sequence, query, head]: [u64; 3]| {
            let first = ((sequence * queries + query) * heads + head) * dim;
            let row = |key: u64| {
                let token = match work {
                    Work::Prefill { .. } => sequence * len + key,
                    Work::Decode { page } => {
                        let entry = sequence * len.div_ceil(page) + key / page;
                        lists[2][entry as usize] as u64 * page + key % page
                    }
                };
                (token * kv_heads + head / (heads / kv_heads)) * dim
            };
            let seen = if matches!(work, Work::Prefill { causal: true }) { query + 1 } else { len };
            let score = |key| (0..dim).map(|d| q.at(first + d) * kv.at(row(key) + d)).sum::<f64>() * scale;
            let scores: Vec<f64> = (0..seen).map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
            let all: f64 = weights.iter().sum();
            let result = |d: u64| {
                let terms = weights.iter().zip(0..).map(|(weight, key)| weight / all * kv.at(row(key) + d));
                let [sum, magnitudes] = terms.fold([0.0; 2], |[sum, all], term| [sum + term, all + term.abs()]);
                Sample::new(Dtype::Bf16, first + d, sum, magnitudes * 2_f64.powi(-digits))
            };
            spread(dim, 4).map(result).collect::<Vec<_>>()
        };
        let places = spread(batch, 2).flat_map(|sequence| spread(queries, 3).map(move |query| [sequence, query]));
        let places = places.flat_map(|[sequence, query]| spread(heads, 3).map(move |head| [sequence, query, head]));
        places.flat_map(of).collect()
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

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kv_dtype, batch, heads: [heads, kv_heads], dim, len, work } = self;
        write!(f, "attention {kv_dtype} B{batch} S{len} H{heads}:{kv_heads} D{dim} ")?;
        match work {
            Work::Prefill { causal: false } => write!(f, "full"),
            Work::Prefill { causal: true } => write!(f, "causal"),
            Work::Decode { page } => write!(f, "decode, page {page}"),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    /// `prefill:D:H:Hkv:S`, `causal:D:H:Hkv:S` or `decode:D:H:Hkv:S:B`, in bf16, with pages of 16;
    /// `prefill8` and `causal8` multiply f8e4m3.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let kind = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().map_err(|e| format!("{text}: {e}"))?;
        let is_narrow = kind.ends_with('8');
        let of = |batch, [dim, heads, kv_heads, len]: [u64; 4], work| Self {
            kv_dtype: if is_narrow { Dtype::F8E4M3 } else { Dtype::Bf16 },
            batch,
            heads: [heads, kv_heads],
            dim,
            len,
            work,
        };
        match (kind, &numbers[..]) {
            ("prefill" | "causal" | "prefill8" | "causal8", &[d, h, k, s]) => {
                Ok(of(1, [d, h, k, s], Work::Prefill { causal: kind.starts_with("causal") }))
            }
            ("decode", &[d, h, k, s, b]) => Ok(of(b, [d, h, k, s], Work::Decode { page: 16 })),
            _ => Err(format!("{text} is no shape, such as causal:128:32:8:4096 or decode:128:32:8:4096:32")),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Bytes that an attention of a shape reads and writes.
#[derive(Debug)]
pub struct Memory {
    queue: Queue,
    inputs: Vec<Buffer<u8>>,
    output: Buffer<u8>,
    flushed: Option<Buffer<u8>>,
}

impl Memory {
    fn run(&mut self, ready: &Ready, workspace: &mut Workspace) -> Result<(), Error> {
        let views: Vec<_> = self.inputs.iter().map(|input| Some(input.as_view())).collect();
        let stream = self.queue.stream();
        stream.device().recorded(|| ready.launch(stream, &views, &mut [self.output.as_view_mut()], workspace))
    }

    /// The same by the vendor's library.
    fn run_peer(&mut self, peer: &mut Cudnn) -> Result<(), Error> {
        let [q, k, v] = [0, 1, 2].map(|i| self.inputs[i].as_view());
        Ok(peer.attend([&q, &k, &v], &mut self.output.as_view_mut())?)
    }

    /// The time of a launch by itself, on a GPU.
    ///
    /// # Errors
    /// What the device says.
    pub fn time(&mut self, ready: &Ready, workspace: &mut Workspace) -> Result<Time, Error> {
        let [time] = self.in_turns([&mut |memory: &mut Self| memory.run(ready, workspace)])?;
        Ok(time)
    }

    /// The times of launches by themselves, which take turns.
    fn in_turns<const N: usize>(
        &mut self,
        mut launches: [&mut dyn FnMut(&mut Self) -> Result<(), Error>; N],
    ) -> Result<[Time; N], Error> {
        let mut flushed = match self.flushed.take() {
            Some(buffer) => buffer,
            None => self.queue.device().alloc::<u8>(FLUSHED_BYTES)?,
        };
        let mut events = [(); N].map(|()| Vec::new());
        for _ in 0..=RUNS {
            for (launch, events) in launches.iter_mut().zip(&mut events) {
                self.queue.stream().fill_bytes(flushed.as_view_mut(), 0)?;
                let start = self.queue.stream().record()?;
                launch(self)?;
                events.push((start, self.queue.stream().record()?));
            }
        }
        self.flushed = Some(flushed);
        let elapsed =
            |(start, end): &(Event, Event)| Ok::<Duration, Error>(end.elapsed_since(start)?.unwrap_or_default());
        let times: Vec<Time> = events
            .iter()
            .map(|events| Ok(summary(events.iter().map(elapsed).collect::<Result<_, Error>>()?)))
            .collect::<Result<_, Error>>()?;
        Ok(std::array::from_fn(|i| times[i]))
    }

    /// The largest difference between the results at hand and those that `launch` gives, at the
    /// beginning and at the end of the tensor: the first and the last queries.
    fn difference(&mut self, launch: &mut dyn FnMut(&mut Self) -> Result<(), Error>) -> Result<f32, Error> {
        const COMPARED: usize = 1 << 20;
        let ends = |memory: &Self| {
            let bytes = memory.output.len();
            let compared = COMPARED.min(bytes);
            let mut ends = vec![0_u8; 2 * compared];
            let (first, last) = ends.split_at_mut(compared);
            memory.queue.stream().copy_to_host(memory.output.view(..compared)?, first)?;
            memory.queue.stream().copy_to_host(memory.output.view(bytes - compared..)?, last)?;
            let numbers = ends.chunks_exact(2).map(|two| half::bf16::from_le_bytes([two[0], two[1]]).to_f32());
            Ok::<Vec<f32>, Error>(numbers.collect())
        };
        let ours = ends(self)?;
        // Results of before must not pass for the other's.
        self.queue.stream().fill_bytes(self.output.as_view_mut(), 0xff)?;
        launch(self)?;
        // Not `max`, which would pass over what is no number.
        let far = |most: f32, (a, b): (&f32, &f32)| if (a - b).abs() <= most { most } else { (a - b).abs() };
        Ok(ours.iter().zip(&ends(self)?).fold(0.0, far))
    }
}

/// Tolerance of bf16 results: values are between -1 and 1, and their weights add up to 1.
const TOLERANCE: f32 = 0.02;

/// The vendor's library, if it has this and gives our results, which are at hand; else why not,
/// where it is installed.
fn peer(shape: Shape, memory: &mut Memory) -> Result<Option<Cudnn>, String> {
    let Some(attention) = shape.peer() else { return Ok(None) };
    let name = |error: &dyn fmt::Display| format!("cuDNN: {error}");
    let Some(mut library) = Cudnn::load(memory.queue.stream(), attention).map_err(|error| name(&error))? else {
        return Ok(None);
    };
    let difference = memory.difference(&mut |memory| memory.run_peer(&mut library)).map_err(|error| name(&error))?;
    if difference <= TOLERANCE {
        Ok(Some(library))
    } else {
        Err(name(&format_args!("its results differ from ours by {difference}")))
    }
}

pub(super) fn measure(device: &Device, shape: Shape) -> Result<Record, Error> {
    let ready = device.recorded(|| Attention.ready(device, &shape.problem()))?;
    let (mut memory, mut workspace) = (shape.memory(device, ready.plan())?, Workspace::new());
    drop(device.take_reports());
    memory.run(&ready, &mut workspace)?;
    let record =
        Record::new("attention", shape.to_string(), [shape.bytes(), ready.plan().steps.len() as u64], shape.flops());
    if device.is_virtual() {
        let (counters, _) = counted(device);
        let checked = Some(compare(&memory.queue, [vec![&memory.output]], &shape.samples())?);
        return Ok(Record { counters: Some(counters), checked, ..record });
    }
    let mut ours = |memory: &mut Memory| memory.run(&ready, &mut workspace);
    let record = match peer(shape, &mut memory) {
        Ok(Some(mut library)) => {
            let [time, peer] = memory.in_turns([&mut ours, &mut |memory| memory.run_peer(&mut library)])?;
            Record { time: Some(time), peer: Some(Peer { name: "cuDNN", time: peer }), ..record }
        }
        other => {
            let [time] = memory.in_turns([&mut ours])?;
            Record { time: Some(time), no_peer: other.err(), ..record }
        }
    };
    // The peer's results are not ours.
    ours(&mut memory)?;
    let checked = Some(compare(&memory.queue, [vec![&memory.output]], &shape.samples())?);
    Ok(Record { checked, ..record })
}
