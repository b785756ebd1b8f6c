//! The tiles of the `mma.sync` kernel.

use std::fmt;

use warpfold_lang::Swizzle;

/// A block's tile of the result, its warps, and the ring of stages that its factors come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MmaTile {
    /// Rows and columns of a warp: powers of two from 16 on.
    pub warp: [u32; 2],
    /// Warps of a block, down and across.
    pub warps: [u32; 2],
    /// Bytes along the sums that a stage has: 64 or 128.
    pub step_bytes: u32,
    /// Stages.
    pub stages: u32,
    /// Rows of blocks that are gone through together, column by column: what runs at once shares
    /// rows and columns.
    pub band: u32,
}

impl MmaTile {
    /// For large results.
    pub const LARGE: Self = Self { warp: [64, 64], warps: [2, 4], step_bytes: 128, stages: 3, band: 8 };
    /// For results of a few thousand rows and columns.
    pub const MEDIUM: Self = Self { warp: [64, 64], warps: [2, 2], step_bytes: 64, stages: 4, band: 8 };
    /// For fewer tiles than that leaves.
    pub const WIDE: Self = Self { warp: [32, 64], warps: [2, 2], step_bytes: 128, stages: 3, band: 8 };
    /// For very few tiles.
    pub const SMALL: Self = Self { warp: [32, 32], warps: [2, 2], step_bytes: 128, stages: 4, band: 8 };
    /// For few rows: as much in flight as keeps memory busy.
    pub const FLAT: Self = Self { warp: [16, 16], warps: [1, 4], step_bytes: 128, stages: 8, band: 8 };

    /// Every one, the largest first.
    pub const ALL: [Self; 5] = [Self::LARGE, Self::MEDIUM, Self::WIDE, Self::SMALL, Self::FLAT];

    /// Rows of a block.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.warp[0] * self.warps[0]
    }

    /// Columns of a block.
    #[must_use]
    pub const fn columns(self) -> u32 {
        self.warp[1] * self.warps[1]
    }

    /// Steps of the sums that a stage has, for elements of this many bytes.
    #[must_use]
    pub const fn depth(self, element_bytes: u32) -> u32 {
        self.step_bytes / element_bytes
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(self) -> u32 {
        32 * self.warps[0] * self.warps[1]
    }

    /// Bytes of shared memory.
    #[must_use]
    pub const fn shared_bytes(self) -> u32 {
        self.stages * self.step_bytes * (self.rows() + self.columns())
    }

    /// As part of a kernel's name.
    pub(crate) fn key(self) -> String {
        let ([rows, columns], [warp_rows, warp_columns]) = ([self.rows(), self.columns()], self.warp);
        format!("{rows}x{columns}_{warp_rows}x{warp_columns}_{}x{}", self.step_bytes, self.stages)
    }

    /// Says what does not fit, if something does not.
    ///
    /// # Errors
    /// The broken rule, in words.
    pub fn validate(self) -> Result<(), String> {
        let is_side = |side: u32| side.is_power_of_two() && side >= 16;
        let rules = [
            (self.warp.into_iter().all(is_side), "rows and columns of a warp are powers of two from 16 on"),
            (self.warp[0] * self.warp[1] <= 64 * 64, "a warp's sums fit 128 registers of each thread"),
            (
                self.warps.into_iter().all(u32::is_power_of_two) && (128..=256).contains(&self.threads()),
                "four or eight warps make a block, a power of two either way",
            ),
            (matches!(self.step_bytes, 64 | 128), "a stage has 64 or 128 bytes along the sums"),
            (self.stages >= 2, "there are two stages at least"),
            (self.band >= 1, "a band has a row"),
            // What a block may have on sm_80, less what tiles are aligned to.
            (self.shared_bytes() <= 160 << 10, "stages fit 160 KiB of shared memory"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(format!("{self}: {rule}")),
            None => Ok(()),
        }
    }
}

/// The swizzle of tiles with rows of this many bytes: rows that are longer are cut into panels of
/// the widest.
pub(super) const fn swizzle(row_bytes: u32) -> Swizzle {
    match row_bytes {
        32 => Swizzle::Bytes32,
        64 => Swizzle::Bytes64,
        _ => Swizzle::Bytes128,
    }
}

impl fmt::Display for MmaTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([rows, columns], [warp_rows, warp_columns]) = ([self.rows(), self.columns()], self.warp);
        write!(f, "{rows}x{columns}, {warp_rows}x{warp_columns} per warp, in {} stages", self.stages)
    }
}

#[cfg(test)]
mod tests {
    use super::MmaTile;

    #[test]
    fn every_tile_keeps_the_rules() {
        for tile in MmaTile::ALL {
            assert_eq!(tile.validate(), Ok(()));
        }
        let broken = MmaTile { stages: 7, ..MmaTile::LARGE };
        assert!(broken.validate().expect_err("too much shared memory").contains("160 KiB"));
    }
}
