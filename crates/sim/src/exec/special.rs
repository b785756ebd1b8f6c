//! Constant rows of a frame: constants, special registers, undefined values.

use super::code::{Fill, FunctionCode, RESERVED_SHARED, Special};
use super::geometry::Geometry;
use super::row::{ALL_LANES, LANES, Row};

/// Writes the rows of a frame at `base` that hold constants.
pub(crate) fn fill_constants(rows: &mut [Row], base: u32, function: &FunctionCode) {
    for &(row, fill) in &function.fills {
        match fill {
            Fill::Constant32(v) => rows[(base + row) as usize] = Row([v; LANES]),
            Fill::Constant64(v) => put64(rows, base + row, v),
            Fill::Constant128(v) => put128(rows, base + row, v),
            Fill::Special(_) => {}
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "splitting into words")]
fn put64(rows: &mut [Row], row: u32, v: u64) {
    for r in 0..2 {
        for lane in 0..LANES {
            rows[row as usize + r].0[lane] = if lane % 2 == 0 { v as u32 } else { (v >> 32) as u32 };
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "splitting into words")]
fn put128(rows: &mut [Row], row: u32, v: u128) {
    for r in 0..4 {
        for lane in 0..LANES {
            rows[row as usize + r].0[lane] = (v >> (32 * (lane % 4))) as u32;
        }
    }
}

/// Writes the special registers of a frame; only those that differ between blocks, unless `all`.
pub(crate) fn fill_specials(
    rows: &mut [Row],
    base: u32,
    function: &FunctionCode,
    geometry: &Geometry,
    block: [u32; 3],
    warp: u32,
    all: bool,
) {
    for &(row, fill) in &function.fills {
        let Fill::Special(special) = fill else { continue };
        if !all
            && !matches!(
                special,
                Special::Ctaid(_)
                    | Special::SmId
                    | Special::ClusterId(_)
                    | Special::ClusterCtaid(_)
                    | Special::ClusterCtarank
            )
        {
            continue;
        }
        if special == Special::GridId {
            put64(rows, base + row, geometry.grid_id);
            continue;
        }
        let row = &mut rows[(base + row) as usize].0;
        row.fill(special_value(special, geometry, block, warp, 0));
        if special.differs_by_lane() {
            for (lane, value) in (1u32..).zip(&mut row[1..]) {
                *value = special_value(special, geometry, block, warp, lane);
            }
        }
    }
}

fn special_value(special: Special, g: &Geometry, block: [u32; 3], warp: u32, lane: u32) -> u32 {
    let at = |v: [u32; 3], axis: u8| v[axis as usize];
    let thread = || Geometry::coordinates(u64::from(warp * 32 + lane), g.block);
    let in_cluster = || [0, 1, 2].map(|i| block[i] % g.cluster[i]);
    let rank = |v: [u32; 3], e: [u32; 3]| (v[2] * e[1] + v[1]) * e[0] + v[0];
    match special {
        Special::Tid(a) => at(thread(), a),
        Special::Ntid(a) => at(g.block, a),
        Special::Ctaid(a) => at(g.seen(block).0, a),
        Special::Nctaid(a) => at(g.seen(block).1, a),
        Special::LaneId => lane,
        Special::WarpId => warp,
        Special::NWarpId => g.warps(),
        Special::SmId => rank(g.seen(block).0, g.grid) % g.multiprocessors,
        Special::NSmId => g.multiprocessors,
        Special::GridId => 0,
        Special::LaneMaskEq => 1 << lane,
        Special::LaneMaskLe => ALL_LANES >> (31 - lane),
        Special::LaneMaskLt => (1 << lane) - 1,
        Special::LaneMaskGe => ALL_LANES << lane,
        Special::LaneMaskGt => !(ALL_LANES >> (31 - lane)),
        Special::ClusterId(a) => at(block, a) / at(g.cluster, a),
        Special::NClusterId(a) => at(g.grid, a) / at(g.cluster, a),
        Special::ClusterCtaid(a) => at(in_cluster(), a),
        Special::ClusterNctaid(a) => at(g.cluster, a),
        Special::ClusterCtarank => rank(in_cluster(), g.cluster),
        Special::ClusterNctarank => g.cluster.iter().product(),
        Special::DynamicSmemSize => g.dynamic_shared,
        Special::TotalSmemSize => g.user_shared,
        Special::AggrSmemSize => g.user_shared + RESERVED_SHARED,
        Special::ReservedSmem(what) => what.value(),
        // The driver passes the grid's workspace to cooperative groups in two halves; their library
        // adds 4 for the barrier's word (`cooperative_groups/details/helpers.h`). The other
        // registers are the driver's own.
        Special::EnvReg(1) => (g.grid_workspace >> 32) as u32,
        Special::EnvReg(2) => g.grid_workspace as u32,
        Special::EnvReg(_) => 0,
    }
}

/// Clears registers and predicates that may be read before they are written, so that runs repeat.
pub(crate) fn clear_undefined(rows: &mut [Row], base: u32, function: &FunctionCode) {
    for &row in &function.clear_rows {
        rows[(base + row) as usize] = Row([0; LANES]);
    }
    for &p in &function.clear_predicates {
        rows[(base + function.predicate_row + p / 32) as usize].0[p as usize % 32] = 0;
    }
}
