//! Tiles of the kernel that keeps patches in shared memory: what a block computes, its shared
//! memory, and its cost.

use std::fmt;

use warpfold_device::Limits;
use warpfold_lang::Val;

use super::geometry::Geometry;
use super::problem::{Layout, Problem};
use crate::Dtype;
use crate::matmul::LAUNCH_CLOCKS;

/// Filters of a thread, in groups of four.
pub(super) const FILTERS: u32 = 8;
/// Pixels of a thread, one below the other.
pub(super) const ROWS: u32 = 8;
/// Words between rows of filters in shared memory: stores of one after the other then go to several
/// banks.
const PAD: u32 = 4;

/// What a block takes of the result: pixels of a rectangle, and filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PatchTile {
    /// Lanes of a warp that stand side by side over a row of pixels; others have other filters.
    pub lanes_across: u32,
    /// Warps over filters, rows and columns.
    pub warps: [u32; 3],
}

impl PatchTile {
    /// 16 x 16 pixels and 32 filters.
    pub const SQUARE: Self = Self { lanes_across: 16, warps: [2, 2, 1] };
    /// The same pixels and 64 filters: 128 x 3 x 230 x 230 `f32` with 64 filters of 7 x 7 and
    /// strides of 2 took 764.6 us by it, 831.0 us by the one above (H200, driver 580, 2026-11-21;
    /// those below as well).
    pub const DEEP: Self = Self { lanes_across: 16, warps: [4, 2, 1] };
    /// 16 x 32 pixels, of which a warp has few side by side, for results with channels last: 223 x
    /// 223 of `bf16` with 32 channels took 358.0 us by it, 373.7 us by the first.
    pub const BEHIND: Self = Self { lanes_across: 8, warps: [1, 2, 4] };
    /// 8 x 64 pixels, for planes whose rows begin anywhere: those of 223 x 223 `f32` took 727.6 us
    /// by it, 1,208 us by the first.
    pub const WIDE: Self = Self { lanes_across: 32, warps: [4, 1, 2] };
    /// 8 x 224 pixels and 16 filters, for such planes with long rows: 532.7 us.
    pub const ROW: Self = Self { lanes_across: 32, warps: [2, 1, 7] };

    /// Every one.
    pub const ALL: [Self; 5] = [Self::SQUARE, Self::DEEP, Self::BEHIND, Self::WIDE, Self::ROW];

    /// Threads of a block.
    #[must_use]
    pub const fn threads(self) -> u32 {
        let [filters, rows, columns] = self.warps;
        32_u32.saturating_mul(filters).saturating_mul(rows).saturating_mul(columns)
    }

    /// Lanes of a warp that have other filters.
    pub(super) const fn lanes_of_filters(self) -> u32 {
        32 / self.lanes_across
    }

    /// Filters of a block.
    #[must_use]
    pub const fn filters(self) -> u32 {
        self.warps[0] * self.lanes_of_filters() * FILTERS
    }

    /// Rows and columns of pixels of a block.
    #[must_use]
    pub const fn pixels(self) -> [u32; 2] {
        [self.warps[1] * ROWS, self.warps[2] * self.lanes_across]
    }

    /// Blocks that an SM has registers for: a thread has 128.
    pub(super) fn resident(self) -> u32 {
        (512 / self.threads()).max(1)
    }

    /// Says what does not fit, if something does not.
    ///
    /// # Errors
    /// The broken rule, in words.
    pub fn validate(self) -> Result<(), String> {
        let rules = [
            (
                self.lanes_across.is_power_of_two() && self.lanes_across <= 32,
                "lanes across are a power of two up to 32",
            ),
            (!self.warps.contains(&0) && self.threads() <= 512, "a block has 32 to 512 threads"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(format!("{self:?}: {rule}")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PatchTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.pixels();
        write!(f, "{rows}x{columns} pixels and {} filters", self.filters())
    }
}

/// A patch, and the filters, in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) geometry: Geometry,
    /// Rows and columns of a patch.
    pub(super) sides: [u32; 2],
    /// Words of the columns at the same place in a stride, of a row, and of a channel.
    pub(super) pitches: [u32; 3],
    /// Words of the elements of all filters at the same place.
    pub(super) filters: u32,
}

impl Shape {
    pub(super) fn of(geometry: Geometry, tile: PatchTile) -> Self {
        let (pixels, window) = (tile.pixels(), geometry.window);
        let sides =
            [0, 1].map(|i| (pixels[i] - 1) * window.stride[i] + (geometry.filter[i] - 1) * window.dilation[i] + 1);
        let of_place = sides[1].div_ceil(window.stride[1]);
        let of_row = of_place * window.stride[1];
        Self { geometry, sides, pitches: [of_place, of_row, of_row * sides[0]], filters: tile.filters() + PAD }
    }

    /// Words of a patch, and of the filters: whole pieces of 16 bytes.
    pub(super) fn words(&self) -> [u64; 2] {
        let of_patch = u64::from(self.pitches[2]) * u64::from(self.geometry.channels);
        let of_filters = u64::from(self.filters) * u64::from(self.geometry.depth());
        [of_patch, of_filters].map(|words| words.next_multiple_of(4))
    }

    /// The position of a column of a patch in its row.
    pub(super) fn column(&self, column: Val<u32>) -> Val<u32> {
        match self.geometry.window.stride[1] {
            1 => column,
            stride => (column % stride) * self.pitches[0] + column / stride,
        }
    }
}

/// Bytes of shared memory: of a patch that is read, one that is brought, and the filters.
pub(super) fn shared_bytes(problem: &Problem, tile: PatchTile) -> u64 {
    let [of_patch, of_filters] = Shape::of(Geometry::of(problem), tile).words();
    4 * (2 * of_patch + of_filters)
}

/// Blocks that fit an SM.
fn fit(problem: &Problem, tile: PatchTile, limits: &Limits) -> u32 {
    let of_memory = u64::from(limits.shared_bytes_per_sm) / (shared_bytes(problem, tile) + 1024);
    tile.resident().min(of_memory as u32).max(1)
}

/// Tiles of pixels of all images, and of filters.
fn tiles(problem: &Problem, tile: PatchTile) -> [u64; 2] {
    let ([rows, columns], [height, width]) = (tile.pixels(), problem.result_size());
    let of_image = height.div_ceil(rows.into()).saturating_mul(width.div_ceil(columns.into()));
    [problem.images.saturating_mul(of_image), problem.filters.div_ceil(tile.filters().into())]
}

/// Blocks: those that have the same filters take tiles of pixels in turns.
pub(super) fn num_blocks(problem: &Problem, tile: PatchTile, num_sms: u32) -> u64 {
    let [of_pixels, of_filters] = tiles(problem, tile);
    of_pixels.min(u64::from(num_sms * tile.resident()).div_ceil(of_filters.max(1))) * of_filters
}

/// Whether a block has room, for problems of one group that are added up in `f32`.
pub(super) fn is_possible(problem: &Problem, tile: PatchTile, limits: &Limits) -> bool {
    let Problem { dtype, channels, filters, filter, groups, window, .. } = *problem;
    let is_near = |i: usize| window.stride[i] <= 16 && (filter[i] - 1).saturating_mul(window.dilation[i].into()) < 1024;
    dtype != Dtype::F64
        && groups == 1
        && channels > 0
        && filters.saturating_mul(problem.depth()) < 1 << 31
        && tiles(problem, tile)[0] < 1 << 31
        // All rows of a filter stand in the kernel's code, each with 64 multiply-adds.
        && filter[0] <= 32
        && is_near(0)
        && is_near(1)
        && shared_bytes(problem, tile) <= limits.shared_bytes_per_block_optin.into()
}

/// Clocks of a multiply-add, of an element of a patch by way of registers and by a copy, and of a
/// whole sector of the result; then, where rows begin anywhere, those of the ends of a block's row,
/// parts of sectors each, and of a joint between two warps in it. Fitted to the times of ten tiles
/// at five problems of three channels in `f32` and `bf16`, most of which they meet within a tenth
/// (`cargo bench -p warpfold-bench --bench convolutions`, H200, driver 580, 2026-11-20 and
/// 21).
const PRODUCT: f64 = 0.01;
const ELEMENT: f64 = 0.88;
const COPY: f64 = 0.65;
const SECTOR: f64 = 0.8;
const ENDS: f64 = 14.0;
const JOINT: f64 = 1.5;

/// Clocks of a tile's stores.
fn store_clocks(problem: &Problem, tile: PatchTile) -> f64 {
    let ([rows, columns], bytes) = (tile.pixels(), problem.result.bytes());
    let of_sectors = |elements: u32| (f64::from(elements) * bytes as f64 / 32.0).max(1.0) * SECTOR;
    match problem.layout {
        Layout::Nchw => {
            let is_whole = (problem.result_size()[1] * bytes).is_multiple_of(32)
                && (u64::from(tile.lanes_across) * bytes).is_multiple_of(32);
            let ends = if is_whole { 0.0 } else { ENDS + f64::from(tile.warps[2] - 1) * JOINT };
            f64::from(rows * tile.filters()) * (of_sectors(columns) + ends)
        }
        // What is beside a group of filters another warp stores at once.
        Layout::Nhwc => {
            let side_by_side = 4 * tile.lanes_of_filters();
            f64::from(rows * columns * tile.filters() / side_by_side) * of_sectors(side_by_side)
        }
    }
}

/// Clocks of a tile in all.
pub(super) fn clocks(problem: &Problem, tile: PatchTile, limits: &Limits) -> f64 {
    let (shape, [rows, columns]) = (Shape::of(Geometry::of(problem), tile), tile.pixels());
    let products = f64::from(rows * columns * tile.filters()) * problem.depth() as f64;
    let elements = f64::from(shape.sides[0]) * f64::from(shape.sides[1]) * problem.channels as f64;
    // With fewer warps at work, less of their waits is hidden.
    let alone = f64::from(tile.resident()) / f64::from(fit(problem, tile, limits));
    let of_element = if problem.dtype == Dtype::F32 { COPY } else { ELEMENT };
    let of_tile = (products * PRODUCT + elements * of_element) * alone + store_clocks(problem, tile);
    let num: u64 = tiles(problem, tile).into_iter().product();
    let waves = num.div_ceil(u64::from(limits.num_sms.max(1)));
    LAUNCH_CLOCKS + waves as f64 * of_tile
}

/// The tile that costs the fewest clocks, where there is room for one.
pub(super) fn choice(problem: &Problem, limits: &Limits) -> Option<(f64, PatchTile)> {
    let possible = PatchTile::ALL.into_iter().filter(|tile| is_possible(problem, *tile, limits));
    possible.map(|tile| (clocks(problem, tile, limits), tile)).min_by(|a, b| a.0.total_cmp(&b.0))
}
