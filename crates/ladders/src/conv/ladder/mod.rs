//! The ladder `conv`: from one output a thread to a product of matrices of which one is never made.
//!
//! Its problems are the seven of the catalogue, by number; a second number says how many times
//! smaller each of images, height, width and filters is. `--size 3x8` is the third at an eighth.
//!
//! Images and filters are the same numbers for every rung. Those before `cp_async` take them as
//! `[N, C, H, W]` and `[K, C, R, S]`. From there on they are `[N, H, W, C]` and `[K, R, S, C]`,
//! with zeros for channels up to a multiple of 16 bytes, and the result is `[N, P, Q, K]`. Sums are
//! in `f32`; tensor cores take halves as they are, and `f32` without its low 13 bits (tf32), which
//! results are judged by.

mod r01_naive;
mod r02_im2col;
mod r03_implicit_gemm;
mod r04_cp_async;
mod r05_wgmma_im2col;

pub use super::shape::{Factor, WORDS};
pub use r01_naive::naive;
pub use r02_im2col::{columns, im2col};
pub use r03_implicit_gemm::implicit_gemm;
pub use r04_cp_async::cp_async;
pub use r05_wgmma_im2col::wgmma_im2col;

use warpfold_device::LaunchConfig;
use warpfold_kernels::conv::PROBLEMS;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel, TensorMap};

use super::instance::open;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, Metric, Numbers, Rung, Sizes, pack, unpack};

/// Parameters of every kernel: images (or the matrix made of them), filters, output, sizes.
pub type Conv<T> = Kernel<(Global<T>, Global<T>, Global<T>, [u32; WORDS])>;

/// Parameters of an im2col-mode TMA kernel: a tensor map of the images, filters, output, sizes.
pub type ConvOfMaps<T> = Kernel<(TensorMap<T>, TensorMap<T>, Global<T>, [u32; WORDS])>;

/// Filters and pixels of a block; it has as many threads as a tile has outputs.
const TILE: u32 = 16;

/// Parameters of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// Channels before the pixels; products of whole `f32`.
    ChannelsFirst,
    /// Channels behind the pixels, whole pieces of 16 bytes; products of halves or tf32.
    ChannelsLast,
    /// The same, by tensor maps.
    Maps,
}

/// Returns the parameters of a rung by its name.
pub(super) fn data_of(rung: &str) -> Data {
    match rung {
        "cp_async" => Data::ChannelsLast,
        "wgmma_im2col" => Data::Maps,
        _ => Data::ChannelsFirst,
    }
}

/// Pieces of channels that the maps' copies bring, of so many pixels or filters.
pub(super) const BOX: [u32; 2] = [r05_wgmma_im2col::PIECES, r05_wgmma_im2col::TILE];

/// The sizes of a problem as the kernels take them: those of the catalogue, scaled down, and height
/// and width of the result.
#[must_use]
pub fn sizes_of(size: u64) -> [u32; WORDS] {
    let [problem, divisor, _] = unpack(size);
    let [n, c, h, w, k, r, s, u, v, p, q] = PROBLEMS[problem - 1];
    let smaller = |size: u32, least: u32| size.div_ceil(divisor as u32).max(least);
    // The filter fits once at least.
    let [h, w] = [smaller(h, r), smaller(w, s)];
    let result = [(h + 2 * p - r) / u + 1, (w + 2 * q - s) / v + 1];
    [smaller(n, 1), c, h, w, smaller(k, 1), r, s, u, v, p, q, result[0], result[1]]
}

/// A launch over rows of filters, or of elements of a filter, and columns of pixels.
fn tiles_of(size: u64, rows: fn(&[u32; WORDS]) -> u32) -> LaunchConfig {
    let sizes = sizes_of(size);
    let pixels = sizes[0] * sizes[11] * sizes[12];
    LaunchConfig::new((pixels.div_ceil(TILE), rows(&sizes).div_ceil(TILE)), (TILE, TILE))
}

/// A launch over columns of pixels and rows of filters in the tiles of tensor cores.
fn tiles_of_tensor_cores(size: u64) -> LaunchConfig {
    use r04_cp_async::{THREADS, TILE};
    let sizes = sizes_of(size);
    let pixels = sizes[0] * sizes[11] * sizes[12];
    LaunchConfig::new((pixels.div_ceil(TILE), sizes[4].div_ceil(TILE)), THREADS)
}

fn filters(sizes: &[u32; WORDS]) -> u32 {
    sizes[4]
}

fn depth(sizes: &[u32; WORDS]) -> u32 {
    sizes[1] * sizes[5] * sizes[6]
}

/// The sizes of the ladder.
const SIZES: Numbers = Numbers {
    form: "a problem from 1 to 7, and how many times smaller it is: P or PxD with D from 1 to 1024",
    complete: |numbers| match *numbers {
        [problem] => Some([problem, 1, 1]),
        [problem, divisor] => Some([problem, divisor, 1]),
        _ => None,
    },
    most: [7, 1024, 1],
    shown: 2,
    told: |numbers| {
        let [n, c, h, w, k, r, s, u, v, p, q, out_h, out_w] = sizes_of(pack(numbers));
        Some(format!(
            "n {n}, c {c}, h {h}, w {w}; k {k}, r {r}, s {s}; u {u}, v {v}, p {p}, q {q}; out {out_h} x {out_w}"
        ))
    },
};

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "conv",
    problem: "the convolution of images with filters",
    sizes: Sizes::Numbers(SIZES),
    default_size: pack([2, 8, 1]),
    max_size: u64::MAX,
    dtypes: &[Dtype::F32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open,
};

/// A kernel for an element type.
macro_rules! typed {
    ($kernel:ident) => {
        |dtype| match dtype {
            Dtype::F32 => AnyKernel::from($kernel::<f32>()),
            Dtype::F16 => AnyKernel::from($kernel::<half::f16>()),
            Dtype::Bf16 => AnyKernel::from($kernel::<half::bf16>()),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

const RUNGS: &[Rung] = &[
    Rung {
        name: "naive",
        changed: "A thread walks over a filter and the pixels under it",
        claims: &[],
        launches: &[Launch::new(typed!(naive), |size| tiles_of(size, filters))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "im2col",
        changed: "A launch writes what the filters look at as a matrix, a second one multiplies tiles of it",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
            Claim::new(Metric::StoreBytes, Change::Rises),
        ],
        launches: &[
            Launch::new(typed!(columns), |size| tiles_of(size, depth)),
            Launch::new(typed!(im2col), |size| tiles_of(size, filters)),
        ],
        finish: Finish::Nothing,
    },
    Rung {
        name: "implicit_gemm",
        changed: "The block gathers its tile of that matrix from the images, and nobody makes it",
        claims: &[Claim::new(Metric::Steps, Change::DividedBy(2)), Claim::new(Metric::StoreBytes, Change::Falls)],
        launches: &[Launch::new(typed!(implicit_gemm), |size| tiles_of(size, filters))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "cp_async",
        changed: "Tiles of NHWC images come in the background, and tensor cores multiply them, f32 as tf32",
        claims: &[
            Claim::new(Metric::Instructions, Change::Falls),
            Claim::new(Metric::SharedAccesses, Change::Falls),
            Claim::new(Metric::Blocks, Change::Falls),
        ],
        launches: &[Launch::new(typed!(cp_async), tiles_of_tensor_cores)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "wgmma_im2col",
        changed: "Bulk copies gather the tiles by themselves, and warpgroups multiply straight from shared memory",
        claims: &[Claim::new(Metric::Instructions, Change::Falls), Claim::new(Metric::SharedAccesses, Change::Falls)],
        launches: &[Launch::new(typed!(wgmma_im2col), tiles_of_tensor_cores)],
        finish: Finish::Nothing,
    },
];
