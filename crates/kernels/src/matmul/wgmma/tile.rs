//! The tiles of the kernel for warpgroups: what a block takes of the result, and how it is fed.

use std::fmt;

/// Bytes of a row of a tile: one panel of the widest swizzle.
pub(super) const ROW_BYTES: u32 = 128;

/// A block's tile of the result, and the ring of stages that its factors come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WgmmaTile {
    /// Warpgroups that multiply, each 64 rows: 1 or 2.
    pub consumers: u32,
    /// Columns of a block.
    pub columns: u32,
    /// Stages.
    pub stages: u32,
    /// Blocks, one below the other, that share their columns of `b`: 1 or 2.
    pub cluster: u32,
    /// Rows of clusters that are gone through together, column by column: what runs at once shares rows and columns.
    pub band: u32,
}

impl WgmmaTile {
    /// For large results: `tile_order`, the last rung of the ladder `hgemm`.
    pub const LARGE: Self = Self { consumers: 2, columns: 256, stages: 3, cluster: 2, band: 8 };
    /// For large results of 8-bit floats, whose sums are kept twice: it loads a sixth less than 128 columns do. 8192^3 of f8e4m3
    /// takes 714 us, by [`ALONE`](Self::ALONE) 775 (H200, 2026-11-20).
    pub const WIDE: Self = Self { columns: 192, stages: 4, cluster: 1, ..Self::LARGE };
    /// For results of a few thousand rows and columns.
    pub const MEDIUM: Self = Self { consumers: 2, columns: 128, stages: 5, cluster: 2, band: 8 };
    /// The same without a neighbour.
    pub const ALONE: Self = Self { cluster: 1, ..Self::MEDIUM };
    /// For few rows, or few tiles.
    pub const FLAT: Self = Self { consumers: 1, columns: 128, stages: 6, cluster: 1, band: 8 };
    /// For more than 64 rows and no more than 128: the blocks of a cluster take all of them. At 128 x 8192 x 8192 39 us, where
    /// [`FLAT`](Self::FLAT) takes 47 (H200, 2026-11-20).
    pub const PAIR: Self = Self { stages: 8, cluster: 2, ..Self::FLAT };
    /// For very few tiles.
    pub const SMALL: Self = Self { consumers: 1, columns: 64, stages: 8, cluster: 1, band: 8 };

    /// For the few filters of a convolution.
    pub const NARROW: Self = Self { consumers: 2, columns: 64, stages: 8, cluster: 1, band: 8 };

    /// Every one that convolutions take, the largest first. Blocks that share filters wait for each other: on an H200 pairs
    /// took up to 1.25 times as long (49 x 35 x 35 x 128, 384 filters of 3 x 3, 2026-11-20).
    pub const OF_CONVOLUTIONS: [Self; 5] =
        [Self { cluster: 1, ..Self::LARGE }, Self::ALONE, Self::NARROW, Self::FLAT, Self::SMALL];

    /// Every one that products of matrices take, the largest first.
    pub const ALL: [Self; 7] =
        [Self::LARGE, Self::WIDE, Self::MEDIUM, Self::ALONE, Self::PAIR, Self::FLAT, Self::SMALL];

    /// Rows of a block.
    #[must_use]
    pub const fn rows(self) -> u32 {
        64 * self.consumers
    }

    /// Steps of the sums that a stage has, for elements of so many bytes.
    #[must_use]
    pub const fn depth(self, element_bytes: u32) -> u32 {
        ROW_BYTES / element_bytes
    }

    /// Threads of a block: a warpgroup that copies, and those that multiply.
    #[must_use]
    pub const fn threads(self) -> u32 {
        128 * (1 + self.consumers)
    }

    /// Bytes of shared memory: the stages, and the tile of halves that a copy stores.
    #[must_use]
    pub const fn shared_bytes(self) -> u32 {
        self.stages * ROW_BYTES * (self.rows() + self.columns) + 2 * self.rows() * self.columns
    }

    /// Says what does not fit, if something does not.
    ///
    /// # Errors
    /// The broken rule, in words.
    pub fn validate(self) -> Result<(), String> {
        let rules = [
            ((1..=2).contains(&self.consumers), "one or two warpgroups multiply"),
            ((1..=2).contains(&self.cluster), "a cluster has one or two blocks"),
            (
                self.columns.is_multiple_of(64 * self.cluster) && (64..=256).contains(&self.columns),
                "columns are a multiple of 64 a block of the cluster, up to 256",
            ),
            (self.stages >= 2, "there are two stages at least"),
            (self.band >= 1, "a band has a row"),
            // Less a KiB for barriers.
            (self.shared_bytes() <= 226 << 10, "stages and result fit 226 KiB of shared memory"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(format!("{self}: {rule}")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WgmmaTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} in {} stages", self.rows(), self.columns, self.stages)?;
        if self.cluster > 1 { write!(f, ", clusters of {}", self.cluster) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::WgmmaTile;

    #[test]
    fn every_tile_keeps_the_rules() {
        for tile in WgmmaTile::ALL.into_iter().chain(WgmmaTile::OF_CONVOLUTIONS) {
            assert_eq!(tile.validate(), Ok(()));
        }
        let broken = WgmmaTile { stages: 4, ..WgmmaTile::LARGE };
        assert!(broken.validate().expect_err("too much shared memory").contains("226 KiB"));
    }
}
