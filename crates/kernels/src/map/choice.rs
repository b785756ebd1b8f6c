//! From layouts and alignments to the kernel and its launch.
//!
//! The rules look at shapes, strides and alignment, never at the device; results do not depend on
//! them.

use warpfold_device::LaunchConfig;

use super::geometry::{Geometry, MAX_INPUTS, MAX_SCALARS};
use super::injective::is_injective;
use super::strips::{self, Strips};
use super::tiles::{self, Tiles};
use crate::elements::Run;
use crate::layout::{Dim, Layout, dims, merge};
use crate::plan::{Key, TensorSpec, grid_size};
use crate::{Dtype, Error, ErrorKind};

// THRESHOLD: tiles of a transposition are larger; tested by
// crates/kernels/tests/map_of_tensors/turns.rs::large_matrices_turn_in_large_tiles
/// Blocks that fill a GPU several times over: with fewer, threads and blocks map fewer elements.
const ENOUGH_BLOCKS: u64 = 512;

/// Static shared memory of a block.
const SHARED_BYTES: u32 = 48 << 10;

/// How much a map computes for an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Weight {
    /// Little compared with loading it.
    #[default]
    Light,
    /// Dozens of instructions: a thread maps 8 elements at most, so that the code stays short.
    Heavy,
}

/// Which kernel maps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Threads access all tensors in the order of the output's memory.
    Strips(Strips),
    /// Some inputs are transposed in shared memory.
    Tiles(Tiles),
}

/// How a map is carried out. A value: it can be printed and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The kernel.
    pub algorithm: Algorithm,
    /// The launch; `None` if there are no elements.
    pub launch: Option<LaunchConfig>,
    pub(super) geometry: Geometry,
}

impl Choice {
    /// Bytes of loads that a thread has in flight, of inputs of these types.
    #[must_use]
    pub fn bytes_in_flight_a_thread(&self, inputs: &[Dtype]) -> u64 {
        let items = match &self.algorithm {
            Algorithm::Strips(strips) => strips.vector * strips.unroll,
            Algorithm::Tiles(tiles) => tiles.items_a_thread(),
        };
        inputs.iter().map(|dtype| dtype.bytes() * u64::from(items)).sum()
    }
}

/// A map of tensors; [`Map::problem`](super::Map::problem) makes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Which map.
    pub(super) map: Key,
    /// Broadcast to the shape of the outputs.
    pub inputs: Vec<TensorSpec>,
    /// Of one shape.
    pub outputs: Vec<TensorSpec>,
    /// Whether the first input is in the memory of the first output, with the same layout.
    pub in_place: bool,
    pub(super) weight: Weight,
    pub(super) scalars: [u64; MAX_SCALARS],
}

impl Problem {
    /// The same with the first input in the memory of the first output.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// A tensor by its number: the inputs, then the outputs.
    fn tensor(&self, number: usize) -> &TensorSpec {
        self.inputs.get(number).unwrap_or_else(|| &self.outputs[number - self.inputs.len()])
    }

    fn bytes(&self, tensor: usize) -> i64 {
        self.tensor(tensor).dtype.bytes() as i64
    }

    fn is_output(&self, tensor: usize) -> bool {
        tensor >= self.inputs.len()
    }

    fn tensors(&self) -> std::ops::Range<usize> {
        0..self.inputs.len() + self.outputs.len()
    }

    /// Chooses the kernel, its sizes and the launch.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], [`ErrorKind::OverlappingOutput`], [`ErrorKind::TooLarge`].
    pub fn choose(&self) -> Result<Choice, Error> {
        let shape = self.outputs[0].layout.shape();
        for TensorSpec { layout, .. } in &self.outputs {
            if layout.shape() != shape {
                let (left, right) = (shape.to_vec(), layout.shape().to_vec());
                return Err(ErrorKind::ShapeMismatch { left, right }.into());
            }
            if !is_injective(layout) {
                let (shape, strides) = (layout.shape().to_vec(), layout.strides().to_vec());
                return Err(ErrorKind::OverlappingOutput { shape, strides }.into());
            }
        }
        let broadcast = |tensor| self.tensor(tensor).layout.broadcast(shape);
        let layouts = self.tensors().map(broadcast).collect::<Result<Vec<_>, _>>()?;
        let (bases, dims) = in_memory_order(self, &layouts.iter().collect::<Vec<_>>());
        let len = dims.iter().try_fold(1_u64, |len, dim| len.checked_mul(dim.size));
        let len = len.ok_or(ErrorKind::TooLarge { what: "a map", size: u64::MAX, limit: u64::MAX })?;
        let geometry = Geometry { len, units: len, rest: 0, bases, dims };
        match transposed(self, &geometry) {
            Some((column, staged)) => tiles(self, geometry, column, staged),
            None => strips(self, geometry),
        }
    }
}

/// From the first element of each tensor to the position 0, and the dimensions with the longest
/// stride of the first output outside, each forwards through that output, and merged. All in bytes.
fn in_memory_order(problem: &Problem, layouts: &[&Layout]) -> (Vec<i64>, Vec<Dim>) {
    let output = problem.inputs.len();
    let mut bases = vec![0; layouts.len()];
    let mut all = dims(layouts, |_| true);
    for dim in &mut all {
        let is_backwards = dim.strides[output] < 0;
        for (tensor, stride) in dim.strides.iter_mut().enumerate() {
            *stride *= problem.bytes(tensor);
            if is_backwards {
                bases[tensor] += (dim.size as i64 - 1) * *stride;
                *stride = -*stride;
            }
        }
    }
    all.sort_by_key(|dim| std::cmp::Reverse((dim.strides[output], dim.strides.iter().map(|s| s.abs()).max())));
    (bases, merge(all))
}

/// If inputs are contiguous along another dimension than the output: that dimension, and which
/// inputs.
fn transposed(problem: &Problem, geometry: &Geometry) -> Option<(usize, [bool; MAX_INPUTS])> {
    // THRESHOLD: shorter dimensions do not turn in shared memory; tested by
    // crates/kernels/tests/map_of_tensors/turns.rs::short_sides_do_not_turn_in_shared_memory
    const LEAST: u64 = 16;
    let row = geometry.dims.last()?;
    let is_run = |dim: &Dim, tensor: usize| dim.strides[tensor].abs() == problem.bytes(tensor);
    if row.size < LEAST || !is_run(row, problem.inputs.len()) {
        return None;
    }
    let is_transposed = |dim: &Dim, input: usize| {
        dim.size >= LEAST && is_run(dim, input) && row.strides[input].abs() > problem.bytes(input)
    };
    let mut candidates = geometry.dims[..geometry.dims.len() - 1].iter();
    let column = candidates.rposition(|dim| (0..problem.inputs.len()).any(|input| is_transposed(dim, input)))?;
    let staged = |input: usize| input < problem.inputs.len() && is_transposed(&geometry.dims[column], input);
    Some((column, std::array::from_fn(staged)))
}

fn tiles(
    problem: &Problem,
    mut geometry: Geometry,
    column: usize,
    staged: [bool; MAX_INPUTS],
) -> Result<Choice, Error> {
    // The columns' dimension next to the rows'.
    let dim = geometry.dims.remove(column);
    let last = geometry.dims.len() - 1;
    geometry.dims.insert(last, dim);
    let vector = vector_of_tiles(problem, &geometry, staged);
    let outer: u64 = geometry.dims[..last].iter().map(|dim| dim.size).product();
    let blocks_of = |side: u32| {
        let across = |dim: &Dim| dim.size.div_ceil(u64::from(side));
        outer.saturating_mul(across(&geometry.dims[last])).saturating_mul(across(&geometry.dims[last + 1]))
    };
    // Lines of 256 bytes, but for elements of one byte. Transposes of 1 GiB on an H200 (a copy
    // within the device: 4,158 GB/s; driver 580.159.04, 2026-11); f64 gains nothing from lines of
    // 512:
    //
    // | GB/s | 128 bytes | 256 bytes |
    // |------|----------:|----------:|
    // | f32  |     2,147 |     3,933 |
    // | f16  |     3,090 |     3,944 |
    let large = 64 * vector as u32;
    let transposed = (0..problem.inputs.len()).filter(|input| staged[*input]);
    let widest = transposed.clone().map(|input| problem.tensor(input).dtype.bytes()).max().unwrap_or(1);
    let shared_bytes = transposed.count() as u32 * large * 64 * 4;
    let suits = vector < 4 && widest < 8 && shared_bytes <= SHARED_BYTES;
    let is_large = suits && blocks_of(large) >= ENOUGH_BLOCKS;
    let side = if is_large { large } else { 32 * vector as u32 };
    let blocks = blocks_of(side);
    let row = &geometry.dims[last + 1];
    let run = |input: usize| match vector {
        1 => Run::Narrow,
        _ if input < problem.inputs.len() && row.strides[input] == 0 => Run::Same,
        _ => Run::Wide,
    };
    let runs = std::array::from_fn(run);
    let tiles = Tiles { side, vector: vector as u32, staged, runs, outer: last };
    finish(Algorithm::Tiles(tiles), geometry, blocks, tiles::BLOCK)
}

/// Elements that a lane loads and stores together: those of a word, if all of them are aligned.
fn vector_of_tiles(problem: &Problem, geometry: &Geometry, staged: [bool; MAX_INPUTS]) -> u64 {
    let transposed: Vec<usize> = (0..problem.inputs.len()).filter(|input| staged[*input]).collect();
    let bytes = problem.tensor(transposed[0]).dtype.bytes();
    let [.., column, row] = &geometry.dims[..] else { return 1 };
    if bytes >= 4 || [column, row].iter().any(|dim| !dim.size.is_multiple_of(4 / bytes)) {
        return 1;
    }
    let outer = &geometry.dims[..geometry.dims.len() - 2];
    let suits = |tensor: usize| {
        let is_transposed = transposed.contains(&tensor);
        let (along, across) = if is_transposed { (column, row) } else { (row, column) };
        let others = || outer.iter().chain([across]);
        match along.strides[tensor] {
            0 => true,
            stride => {
                let has_size = !is_transposed || problem.tensor(tensor).dtype.bytes() == bytes;
                stride == problem.bytes(tensor)
                    && has_size
                    && is_aligned(problem, geometry, tensor, 4 / bytes, others())
            }
        }
    };
    if problem.tensors().all(suits) { 4 / bytes } else { 1 }
}

/// Whether accesses of `vector` elements are aligned at every position of the other dimensions.
fn is_aligned<'a>(
    problem: &Problem,
    geometry: &Geometry,
    tensor: usize,
    vector: u64,
    mut others: impl Iterator<Item = &'a Dim>,
) -> bool {
    let access = (vector * problem.tensor(tensor).dtype.bytes()).min(16);
    u64::from(problem.tensor(tensor).address_mod_16).wrapping_add_signed(geometry.bases[tensor]).is_multiple_of(access)
        && others.all(|dim| dim.strides[tensor].unsigned_abs().is_multiple_of(access))
}

/// Elements in 16 bytes, of the widest type; fewer if the code of each is long.
fn most_of(problem: &Problem) -> u64 {
    let widest = problem.tensors().map(|tensor| problem.tensor(tensor).dtype.bytes()).max().unwrap_or(1);
    match problem.weight {
        Weight::Light => 16 / widest,
        Weight::Heavy => (16 / widest).min(8),
    }
}

/// Neighbouring elements of a thread.
fn vector_of(problem: &Problem, geometry: &Geometry) -> u64 {
    let Some((inner, outer)) = geometry.dims.split_last() else { return 1 };
    let suits = |vector: &u64| {
        // No vector crosses the end of a run, unless it is the end of all.
        (outer.is_empty() || inner.size.is_multiple_of(*vector))
            && problem.tensors().all(|tensor| match inner.strides[tensor] {
                0 => !problem.is_output(tensor),
                stride => {
                    stride == problem.bytes(tensor) && is_aligned(problem, geometry, tensor, *vector, outer.iter())
                }
            })
    };
    std::iter::successors(Some(most_of(problem)), |vector| Some(vector / 2))
        .find(|vector| *vector == 1 || suits(vector))
        .unwrap_or(1)
}

fn strips(problem: &Problem, mut geometry: Geometry) -> Result<Choice, Error> {
    let vector = vector_of(problem, &geometry);
    let mut runs = [Run::Narrow; MAX_INPUTS];
    if let Some(inner) = geometry.dims.last_mut() {
        for (input, run) in runs.iter_mut().enumerate().take(problem.inputs.len()) {
            *run = if inner.strides[input] == 0 { Run::Same } else { Run::Wide };
        }
        geometry.rest = inner.size % vector;
        inner.size = inner.size.div_ceil(vector);
        inner.strides.iter_mut().for_each(|stride| *stride *= vector as i64);
    }
    geometry.units = geometry.dims.iter().map(|dim| dim.size).product();
    // 16 bytes a thread, however they are accessed: 32 KiB an input in flight on a SM. Of 1 GiB on
    // an H200 (a copy within the device: 4,158 GB/s; driver 580.159.04, 2026-11):
    //
    // | GB/s                      | one access a thread |   two |  four | eight |
    // |---------------------------|--------------------:|------:|------:|------:|
    // | copy, 16 bytes an access  |               4,103 | 3,963 | 3,904 |       |
    // | f32 sum, 16 bytes         |               4,235 | 4,219 | 4,175 |       |
    // | copy, 4 bytes an access   |               2,557 |       | 4,084 | 3,932 |
    let several = (most_of(problem) / vector) as u32;
    let is_long = geometry.units >= u64::from(strips::BLOCK * several) * ENOUGH_BLOCKS;
    let unroll = if is_long { several } else { 1 };
    let blocks = geometry.units.div_ceil(u64::from(strips::BLOCK * unroll));
    let strips = Strips {
        vector: vector as u32,
        unroll,
        runs,
        rank: geometry.dims.len(),
        ragged: geometry.rest > 0,
        small: is_small(&geometry),
    };
    finish(Algorithm::Strips(strips), geometry, blocks, strips::BLOCK)
}

/// Whether positions and offsets fit 31 bits.
fn is_small(geometry: &Geometry) -> bool {
    let reach = |tensor: usize| {
        let walk = |dim: &Dim| u128::from(dim.size) * u128::from(dim.strides[tensor].unsigned_abs());
        geometry.dims.iter().map(walk).sum::<u128>()
    };
    geometry.units < 1 << 31 && (0..geometry.bases.len()).all(|tensor| reach(tensor) < 1 << 31)
}

fn finish(algorithm: Algorithm, geometry: Geometry, blocks: u64, block: u32) -> Result<Choice, Error> {
    if geometry.len == 0 {
        return Ok(Choice { algorithm, launch: None, geometry });
    }
    let launch = Some(LaunchConfig::new(grid_size(blocks)?, block));
    Ok(Choice { algorithm, launch, geometry })
}
