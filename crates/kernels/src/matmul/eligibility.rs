//! Which algorithms can compute a product at all: by layout, type and device.

use warpfold_device::Limits;

use super::algorithm::Algorithm;
use super::epilogue::Step;
use super::family::Matmul;
use super::mma::{self, Pieces};
use super::operand_major::OperandMajor;
use super::problem::{BatchInvariance, F32Math, Problem};
use super::tile::Tile;
use super::wgmma::{self, WgmmaTile};
use crate::Dtype;

// THRESHOLD: rows go by tiles that large weights take once; tested by
// crates/kernels/tests/matmul/wgmma.rs::few_rows_of_large_weights_go_their_own_ways
/// Rows that one tile, or a cluster's two, have of a product that waits for its weights alone, at
/// most.
pub(super) const FEW_ROWS: u64 = 128;

/// The major dimension of both factors, if TMA can load their tiles.
pub(super) fn majors_of(problem: &Problem) -> Option<[OperandMajor; 2]> {
    let Problem { n, k, batch, ref a, ref b, .. } = *problem;
    Some([wgmma::tma_major(a, rows_of(problem), k, batch)?, wgmma::tma_major(&b.transposed(), n, k, batch)?])
}

/// The rows that decide on the layout: what one row alone would allow must not be taken where bits
/// may not depend on the number of rows.
pub(super) fn rows_of(problem: &Problem) -> u64 {
    if problem.has_fixed_order() { problem.m.max(2) } else { problem.m }
}

/// The same, if there is a WGMMA kernel and the device has them.
pub(super) fn tma_majors(problem: &Problem, limits: &Limits) -> Option<[OperandMajor; 2]> {
    has_warpgroups(problem, limits).then(|| majors_of(problem)).flatten()
}

fn has_warpgroups(problem: &Problem, limits: &Limits) -> bool {
    limits.has_wgmma && wgmma::has_kernel(problem.a.dtype) && suits_tensor_cores(problem)
}

fn has_warps(problem: &Problem, limits: &Limits) -> bool {
    limits.has_mma && mma::has_kernel(problem.a.dtype) && suits_tensor_cores(problem)
}

/// Whether tensor cores can multiply such factors at all, however they lie.
pub(super) fn has_tensor_cores(problem: &Problem, limits: &Limits) -> bool {
    has_warpgroups(problem, limits) || has_warps(problem, limits)
}

/// The pieces that threads copy of both factors, if there are some.
pub(super) fn pieces_of(problem: &Problem) -> Option<[Pieces; 2]> {
    let Problem { n, k, batch, ref a, ref b, .. } = *problem;
    Some([Pieces::of(a, rows_of(problem), k, batch)?, Pieces::of(&b.transposed(), n, k, batch)?])
}

/// The same, if there is a `mma.sync` kernel and the device runs it.
pub(super) fn pieces(problem: &Problem, limits: &Limits) -> Option<[Pieces; 2]> {
    has_warps(problem, limits).then(|| pieces_of(problem)).flatten()
}

/// Whether there are products, and tensor cores may do them: factors of `f32` only where tf32 will
/// do.
fn suits_tensor_cores(problem: &Problem) -> bool {
    let is_full_single = problem.a.dtype == Dtype::F32 && problem.f32_math == F32Math::Ieee;
    !is_full_single && problem.m > 0 && problem.n > 0 && problem.k > 0 && problem.num_products() > 0
}

/// What WGMMA does for few rows, or few blocks, beside their other tiles: where the sums are long
/// enough to fill a ring of stages, and parts of them are one for each block. Each has an order of
/// its own, but for what does not split them.
pub(super) fn few_blocks(problem: &Problem, majors: [OperandMajor; 2], limits: &Limits) -> Vec<Algorithm> {
    let dtype = problem.a.dtype;
    let step = match majors[1] {
        // Copies store a multiple of 16 columns.
        OperandMajor::K if problem.epilogue.gate_activation().is_some() => 32,
        OperandMajor::K => 16,
        OperandMajor::Mn => COLUMNS_SIDE_BY_SIDE,
    };
    let num_sms = limits.num_sms.max(1).into();
    // Where sums may be split or rows stand in columns, that is as fast.
    let is_invariant = problem.batch_invariance == BatchInvariance::On;
    let few_rows = (is_invariant && problem.m <= 8 && majors == [OperandMajor::K; 2]).then(|| {
        // A thread has both columns of a gate.
        let is_paired = is_eight_bits(dtype) || problem.epilogue.gate_activation().is_some();
        WgmmaTile::few_rows(
            [problem.n, problem.k / problem.k_parts, problem.k],
            dtype.bytes(),
            num_sms,
            if is_paired { 16 } else { 8 },
        )
    });
    let tiles = WgmmaTile::of_few(problem.m, problem.n, num_sms, step).into_iter().chain(few_rows);
    // Of many rows the blocks stand all at once, where they gain (256 x 1024 x 4096 takes 9.7 us,
    // by other tiles 13.7).
    let tiles = tiles
        .filter(|tile| suits_tile(*tile, dtype, majors) && (problem.m <= FEW_ROWS || stands(*tile, problem, limits)));
    let columns = problem.m.next_multiple_of(if is_eight_bits(dtype) { 16 } else { 8 }).max(LEAST_SWAPPED);
    let turned = [1, 2].map(|split| WgmmaTile::swap_ab(columns.min(MOST_SWAPPED) as u32, split));
    let turned = turned.into_iter().filter(|tile| columns <= MOST_SWAPPED && can_swap_ab(*tile, problem));
    let is_long = |code: &Algorithm, stages: u32, parts: u64| {
        let depth = u64::from(stages * code.depth(dtype));
        problem.k >= depth * parts && code.parts(problem, parts).1 == parts
    };
    let is_possible = |code: &Algorithm| match *code {
        Algorithm::Wgmma(tile) | Algorithm::SwapAb(tile) => {
            (tile.eight_rows || is_long(code, tile.stages, tile.split.into()))
                && (!is_invariant || matches!(code, Algorithm::Wgmma(_)) && (tile.split == 1 || problem.k_parts > 1))
        }
        Algorithm::Simt(_) | Algorithm::Mma(_) => false,
    };
    tiles.map(Algorithm::Wgmma).chain(turned.map(Algorithm::SwapAb)).filter(is_possible).collect()
}

/// Whether all blocks of a tile run at once.
pub(super) fn stands(tile: WgmmaTile, problem: &Problem, limits: &Limits) -> bool {
    let tiles = problem.m.div_ceil(tile.rows().into()) * problem.n.div_ceil(tile.columns.into());
    tiles.saturating_mul(problem.num_products()).saturating_mul(tile.split.into()) <= limits.num_sms.into()
}

/// Whether some kernel adds the parts of K in one launch, however many rows there are.
pub(super) fn can_add_tree(problem: &Problem, limits: &Limits) -> bool {
    let Problem { k, k_parts, a, .. } = *problem;
    k_parts == 1
        || Matmul::adds_parts_in_one_launch(a.dtype, k, k_parts, limits)
            && tma_majors(problem, limits).is_some()
            && (!problem.has_ragged_parts() || can_copy_parts(problem))
}

/// Returns whether TMA can load the parts of K as a batch, in which zeros follow each.
fn can_copy_parts(problem: &Problem) -> bool {
    problem.a.dtype.bytes() == 2 && majors_of(&problem.of_parts()) == majors_of(problem)
}

/// Whether an algorithm adds the parts of K as the problem wants them, in one launch: parts are
/// whole stages, as many for each block that shares a tile, or come as a batch.
pub(super) fn suits_tree(algorithm: Algorithm, problem: &Problem) -> bool {
    let parts = problem.k_parts;
    let suits = |tile: WgmmaTile| {
        let is_whole = match problem.has_ragged_parts() {
            true => tile.split == 1 && tile.cluster == 1 && can_copy_parts(problem),
            false => (problem.k / parts).is_multiple_of(tile.depth(problem.a.dtype.bytes() as u32).into()),
        };
        let each = parts / u64::from(tile.split);
        is_whole && each > 0 && tile.has_room_for_tree(each as u32) && !is_promoted(problem.a.dtype)
    };
    parts == 1 || matches!(algorithm, Algorithm::Wgmma(tile) if suits(tile))
}

// THRESHOLD: fewer rows stand in as many columns; tested by
// crates/kernels/tests/matmul/wgmma.rs::few_rows_of_large_weights_go_their_own_ways
/// The fewest columns in which rows stand: by 8, of which an SM has room for two blocks of three
/// stages, 8 x 8192 x 8192 takes 33.2 us, by 16 31.8 (H200, 2026-11-21).
const LEAST_SWAPPED: u64 = 16;

// THRESHOLD: rows stand in a tile's rows again; tested by
// crates/kernels/tests/matmul/wgmma.rs::few_rows_of_large_weights_go_their_own_ways
/// The most rows that stand in the columns of a tile.
const MOST_SWAPPED: u64 = 32;

/// Whether a product can be computed with swapped factors (swap-AB): rows then lie as steps, and
/// nothing looks at places of the result.
pub(super) fn can_swap_ab(tile: WgmmaTile, problem: &Problem) -> bool {
    let dtype = problem.a.dtype;
    has_registers(tile, dtype)
        && tile.columns.is_multiple_of(if is_eight_bits(dtype) { 16 } else { 8 })
        && majors_of(problem).is_some_and(|majors| majors[0] == OperandMajor::K)
        && !problem.epilogue.steps().iter().any(|step| matches!(step, Step::Apply(_)))
}

/// Whether elements are integers of eight bits, of which products have a multiple of 16 columns.
pub(super) const fn is_eight_bits(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::I8 | Dtype::U8)
}

/// Whether an algorithm can end as a problem wants it: a gate wants both of its columns in one
/// thread.
pub(super) fn suits_end(algorithm: &Algorithm, problem: &Problem) -> bool {
    let is_whole = matches!(algorithm, Algorithm::Wgmma(tile) if tile.split == 1 && tile.columns.is_multiple_of(16));
    is_whole || problem.epilogue.gate_activation().is_none()
}

/// Whether factors suit a tile: its columns are whole panels of the right one, where columns lie
/// side by side, and there are registers for their sums.
pub(super) fn suits_tile(tile: WgmmaTile, dtype: Dtype, majors: [OperandMajor; 2]) -> bool {
    let has_panels = majors[1] == OperandMajor::K || tile.copied_columns().is_multiple_of(COLUMNS_SIDE_BY_SIDE);
    has_panels && has_registers(tile, dtype)
}

/// Columns of halves of a panel that lie side by side.
const COLUMNS_SIDE_BY_SIDE: u32 = 64;

/// Whether the sums' sums of 8-bit floats leave room for the sums, and are taken often enough.
fn has_registers(tile: WgmmaTile, dtype: Dtype) -> bool {
    !is_promoted(dtype) || (tile.columns <= 192 && tile.panels == 1)
}

/// Whether sums of a stage are added up outside of the tensor cores: those keep about 14 bits of
/// sums of 8-bit floats.
pub(super) fn is_promoted(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F8E4M3 | Dtype::F8E5M2)
}

/// Sums of 8 bytes leave no room for the largest tile.
pub(super) fn has_room(tile: Tile, accumulator: Dtype) -> bool {
    u64::from(tile.thread[0] * tile.thread[1]) * accumulator.bytes() <= 512
}
