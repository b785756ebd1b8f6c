//! The kernels that compute a product, and what a choice asks of each.

use std::fmt;

use super::cost::{self, Work};
use super::mma::MmaTile;
use super::problem::Problem;
use super::tile::Tile;
use super::wgmma::WgmmaTile;
use crate::Dtype;

/// The kernel that multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Ordinary cores.
    Simt(Tile),
    /// Tensor cores, driven by warps (sm_80 on).
    Mma(MmaTile),
    /// Tensor cores, driven by warpgroups (sm_90a).
    Wgmma(WgmmaTile),
    /// The same for few rows, which stand in the tile's columns: columns of the right factor stand in its rows, so that stages
    /// hold little else. No epilogue of one's own, which would see rows and columns exchanged.
    Turned(WgmmaTile),
}

impl Algorithm {
    pub(super) fn validate(self) -> Result<(), String> {
        match self {
            Self::Simt(tile) => tile.validate(),
            Self::Mma(tile) => tile.validate(),
            Self::Wgmma(tile) | Self::Turned(tile) => tile.validate(),
        }
    }

    /// Steps of the sums that a block takes at once.
    pub(super) fn depth(self, dtype: Dtype) -> u32 {
        match self {
            Self::Simt(tile) => tile.depth,
            Self::Mma(tile) => tile.depth(dtype.bytes() as u32),
            Self::Wgmma(tile) | Self::Turned(tile) => tile.depth(dtype.bytes() as u32),
        }
    }

    /// Rows and columns of a block.
    pub(super) fn sides(self) -> [u32; 2] {
        match self {
            Self::Simt(tile) => [tile.rows, tile.columns],
            Self::Mma(tile) => [tile.rows(), tile.columns()],
            Self::Wgmma(tile) => [tile.rows(), tile.columns],
            Self::Turned(tile) => [tile.columns, tile.rows()],
        }
    }

    pub(super) fn threads(self) -> u32 {
        match self {
            Self::Simt(tile) => tile.threads(),
            Self::Mma(tile) => tile.threads(),
            Self::Wgmma(tile) | Self::Turned(tile) => tile.threads(),
        }
    }

    /// The parts that the launch adds by itself, where it is bound to a number of them.
    pub(super) const fn own_parts(self) -> Option<u64> {
        match self {
            Self::Turned(tile) => Some(tile.split as u64),
            // What waits for memory alone gains nothing from parts that are written and read again.
            Self::Wgmma(tile) if tile.split > 1 || tile.rows_stages.is_some() => Some(tile.split as u64),
            Self::Simt(_) | Self::Mma(_) | Self::Wgmma(_) => None,
        }
    }

    /// Steps of a part of the sums, and how many parts there are then: parts are whole steps, so that only the last one may have
    /// a rest.
    pub(super) fn parts(self, problem: &Problem, wanted: u64) -> (u64, u64) {
        let depth = self.depth(problem.a.dtype);
        let part = problem.k.div_ceil(wanted).next_multiple_of(depth.into()).max(1);
        (part, problem.k.div_ceil(part).max(1))
    }

    pub(super) fn clocks(self, work: &Work, num_parts: u64) -> f64 {
        match self {
            Self::Simt(tile) => cost::clocks(work, tile, num_parts),
            Self::Mma(tile) => cost::warp_clocks(work, tile, num_parts),
            Self::Wgmma(tile) => cost::tensor_clocks(work, tile, num_parts),
            Self::Turned(tile) => cost::turned_clocks(work, tile, num_parts),
        }
    }

    pub(super) fn share_of_peak(self, work: &Work, clocks: f64) -> f64 {
        match self {
            Self::Simt(_) => cost::share_of_peak(work, clocks),
            Self::Mma(_) | Self::Wgmma(_) | Self::Turned(_) => cost::tensor_share_of_peak(work, clocks),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simt(tile) => tile.fmt(f),
            Self::Mma(tile) => write!(f, "{tile}, on tensor cores"),
            Self::Wgmma(tile) => write!(f, "{tile}, on tensor cores"),
            Self::Turned(tile) => write!(f, "{tile}, on tensor cores, turned"),
        }
    }
}
