//! The cost model: clocks of a choice, from sizes alone, so that it can be explained and repeated.
//!
//! An SM does some FMA per clock ([`ArchRates`]); a kernel reaches a part of them ([`efficiency`]),
//! and a smaller one where fewer blocks share an SM than fit. Blocks come in waves over all SMs.
//! Split-K adds a second launch and the traffic of its sums. The constants were fitted to an
//! H100/H200; replace them by measurements where a choice turns out wrong.

use super::mma::MmaTile;
use super::rates::ArchRates;
use super::tile::Tile;
use super::wgmma::WgmmaTile;
use crate::Dtype;

/// Clocks from one launch to the next, 3 us at 1.7 GHz.
pub(crate) const LAUNCH_CLOCKS: f64 = 5000.0;
/// Bytes that a block's copies bring in a clock.
const BYTES_OF_BLOCK: f64 = 34.0;
/// Bytes that a block's copies bring in a clock at most, from wherever, where they bring most rows
/// from the cache: 128 x 8192 x 8192 by 128 x 64 tiles takes 39.8 us (H200, 2026-11-21).
const BYTES_OF_CACHE: f64 = 52.0;
/// Bytes of parts' sums that are written, read and added in a clock.
const BYTES_OF_SUMS: f64 = 800.0;
/// Clocks of the exchange of sums between the blocks of a cluster.
const DSMEM_REDUCE: f64 = 1000.0;
/// Clocks until a block's first tile has come, and from its last sum to its end.
const BLOCK: f64 = 2000.0;

/// What a choice is estimated for.
#[derive(Debug, Clone, Copy)]
pub(super) struct CostInput {
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub products: u64,
    /// The type of the factors.
    pub dtype: Dtype,
    pub accumulator: Dtype,
    /// Bytes of both factors in memory.
    pub factors: u64,
    pub num_sms: u64,
    pub rates: &'static ArchRates,
}

/// The part of that which the kernel reaches while it multiplies. Blocks of a cluster wait for one
/// another: that shows where they take several tiles, but for the largest, and not in one wave,
/// which reads the shared columns once.
///
/// | product | waves | us without clusters | us with them |
/// |---|---|---|---|
/// | 2048^3, bf16 | several | 24.7 | 25.8 |
/// | 8192^3, f8e4m3 | several | 772 | 800 |
/// | 256 x 8192 x 8192, bf16 | one | 50.8 | 49.9 |
fn tensor_efficiency(tile: WgmmaTile, waves: u64) -> f64 {
    match (tile.rows(), tile.columns) {
        // One wave, whose blocks end together.
        _ if tile.rows_stages.is_some() => 0.83,
        (128, 256) => 0.87,
        (128, 64) => 0.55,
        (128, _) if tile.cluster > 1 && waves > 1 => 0.82,
        (128, _) => 0.85,
        (_, 128) => 0.60,
        // Long stages: fewer waits.
        (_, 64) if tile.panels > 1 => 0.60,
        _ => 0.39,
    }
}

/// Clocks of the WGMMA kernel. Its constants were fitted to the times of all tiles at eight shapes
/// of bf16, from 64 x 8192 x 8192 to 4096^3
/// (`cargo bench -p warpfold-bench --bench products`, H200, driver 580, 2026-11-20).
pub(super) fn tensor_clocks(work: &CostInput, tile: WgmmaTile, num_parts: u64) -> f64 {
    let down = work.m.div_ceil((tile.cluster * tile.rows()).into()) * u64::from(tile.cluster);
    let blocks = down * work.n.div_ceil(tile.columns.into()) * work.products * num_parts;
    let depth = work.k.div_ceil(num_parts).max(1) as f64;
    // Of eight rows all of a product's 64 are multiplied.
    let area = f64::from(64 * tile.consumers) * f64::from(tile.columns);
    let waves = blocks.div_ceil(work.num_sms);
    let alone = area * depth / (work.rates.tensor_fma_per_clock_per_sm(work.dtype) * tensor_efficiency(tile, waves));
    // The first tile's copies and the last one's stores stand alone; of the others a little shows.
    let ends = 1000.0 + area / 8.0;
    let computed = waves as f64 * (alone + area / 16.0);
    let bytes = work.factors + work.m * work.n * work.products * 2;
    // Few blocks do not keep enough loads in flight for all of the memory's speed; those beyond the
    // last row load nothing.
    let loading = blocks
        .min(work.m.div_ceil(tile.rows().into()) * work.n.div_ceil(tile.columns.into()) * work.products * num_parts);
    let moved = bytes as f64
        / (work.rates.memory_bytes_per_clock() * memory_efficiency(tile, waves)).min(loading as f64 * BYTES_OF_BLOCK);
    let lines = tile.rows() + tile.copied_columns();
    let copied = waves as f64 * f64::from(lines) * depth * work.dtype.bytes() as f64;
    let moved = if tile.once { moved.max(copied / BYTES_OF_CACHE) } else { moved };
    let added = if tile.split > 1 { DSMEM_REDUCE } else { split(work, num_parts) };
    LAUNCH_CLOCKS + ends + computed.max(moved) + added
}

/// How much faster than a copy the kernel reads where it waits for nothing else: long stages show
/// most in one wave (16 x 8192 x 8192 takes 36.3 us by [`WgmmaTile::SMALL`], 35.2 by swap-AB, 64
/// rows 37.1 and 35.9).
fn memory_efficiency(tile: WgmmaTile, waves: u64) -> f64 {
    match (tile.panels, tile.columns) {
        // All of a block's columns are on their way at once.
        _ if tile.eight_rows => 1.06,
        // The room goes to what takes longest to come.
        _ if tile.rows_stages.is_some() && waves == 1 => 1.05,
        // A tile for each SM: none ends before the others, and stages are many.
        (1, _) if tile.once => 1.04,
        (1, _) => 1.0,
        _ if waves > 1 => 1.01,
        (_, 64..) => 1.03,
        // SwapAb.
        _ => 1.05,
    }
}

/// The same of a swapped product.
pub(super) fn swap_ab_clocks(work: &CostInput, tile: WgmmaTile, num_parts: u64) -> f64 {
    tensor_clocks(&CostInput { m: work.n, n: work.m, ..*work }, tile, num_parts)
}

/// The part of that which the `mma.sync` kernel reaches while it multiplies.
fn warp_efficiency(tile: MmaTile) -> f64 {
    match (tile.warp, tile.columns()) {
        ([64, 64], 256) => 0.75,
        ([64, 64], _) => 0.68,
        ([32, 64], _) => 0.61,
        ([32, 32], _) => 0.53,
        _ => 0.23,
    }
}

/// Clocks of the `mma.sync` kernel. Its constants were fitted to times of bf16 from 16 x 8192 x
/// 8192 to 8192^3 (H200, driver 580, 2026-11-20); on an A100 nothing was timed.
pub(super) fn warp_clocks(work: &CostInput, tile: MmaTile, num_parts: u64) -> f64 {
    let tiles = work.m.div_ceil(tile.rows().into()) * work.n.div_ceil(tile.columns().into()) * work.products;
    let blocks = tiles * num_parts;
    let depth = work.k.div_ceil(num_parts).max(1) as f64;
    let area = f64::from(tile.rows()) * f64::from(tile.columns());
    let fma = work.rates.mma_fma_per_clock_per_sm(work.dtype);
    let alone = area * depth / (fma * warp_efficiency(tile)) + area / 16.0;
    let computed = blocks.div_ceil(work.num_sms) as f64 * alone;
    let bytes = work.factors + work.m * work.n * work.products * 2;
    // Small blocks that come as others go keep memory busier than those that take tile after tile:
    // 1 x 28672 x 8192 takes 110 us, swap-AB 119.
    let comes_and_goes = if tile.rows() == 16 && blocks > work.num_sms { 1.02 } else { 1.0 };
    let moved =
        bytes as f64 / (work.rates.memory_bytes_per_clock() * comes_and_goes).min(blocks as f64 * BYTES_OF_BLOCK);
    // The first tile's copies and the last one's stores stand alone.
    let ends = 700.0 + area / 4.0;
    LAUNCH_CLOCKS + ends + computed.max(moved) + split(work, num_parts)
}

/// The part of the tensor cores' multiply-adds that these clocks are.
pub(super) fn tensor_share_of_peak(work: &CostInput, clocks: f64) -> f64 {
    let products = work.m as f64 * work.n as f64 * work.k as f64 * work.products as f64;
    products / (clocks * work.rates.tensor_fma_per_clock_per_sm(work.dtype) * work.num_sms as f64)
}

/// Clocks of a launch that repacks tensors of this many bytes.
pub(crate) fn copy_clocks(bytes: u64, rates: &ArchRates) -> f64 {
    LAUNCH_CLOCKS + 2.0 * bytes as f64 / rates.memory_bytes_per_clock()
}

/// Clocks that a split adds: a second launch, which reads the sums of all parts.
fn split(work: &CostInput, num_parts: u64) -> f64 {
    let sums = (work.m * work.n * work.products) as f64 * 4.0;
    if num_parts > 1 { LAUNCH_CLOCKS + num_parts as f64 * sums / BYTES_OF_SUMS } else { 0.0 }
}

/// The part of an SM's multiply-adds that the kernel reaches when as many blocks as fit are at
/// work: measured at 4096^3 and 1024^3 (H200 at 1.98 GHz, driver 580, 2026-11-20).
fn efficiency(tile: Tile) -> f64 {
    match tile.thread {
        [8, 16] => 0.80,
        [8, 8] => 0.78,
        _ => 0.45,
    }
}

/// Blocks that fit an SM, by its registers.
fn resident(tile: Tile) -> u64 {
    let registers = (tile.thread[0] * tile.thread[1] * 3 / 2 + 48).min(255);
    u64::from(65536 / (registers * tile.threads())).max(1)
}

/// Clocks of a choice.
pub(super) fn clocks(work: &CostInput, tile: Tile, num_parts: u64) -> f64 {
    let tiles = work.m.div_ceil(tile.rows.into()) * work.n.div_ceil(tile.columns.into()) * work.products;
    let blocks = tiles * num_parts;
    let depth = work.k.div_ceil(num_parts).max(1) as f64;
    let products = f64::from(tile.rows) * f64::from(tile.columns) * depth;
    let alone = products / (work.rates.fma_per_clock_per_sm(work.accumulator) * efficiency(tile));
    let fit = resident(tile);
    // Blocks that share an SM take turns; one alone leaves some of its clocks unused.
    let wave = |shared: u64| {
        let unused = 1.0 + 0.4 * (1.0 - shared as f64 / fit as f64);
        alone * shared as f64 * unused + BLOCK
    };
    let (full, rest) = (blocks / (work.num_sms * fit), blocks % (work.num_sms * fit));
    let last = if rest == 0 { 0.0 } else { wave(rest.div_ceil(work.num_sms)) };
    LAUNCH_CLOCKS + full as f64 * wave(fit) + last + split(work, num_parts)
}

/// The part of the device's multiply-adds that these clocks are.
pub(super) fn share_of_peak(work: &CostInput, clocks: f64) -> f64 {
    let products = work.m as f64 * work.n as f64 * work.k as f64 * work.products as f64;
    products / (clocks * work.rates.fma_per_clock_per_sm(work.accumulator) * work.num_sms as f64)
}
