//! The tiles of the WGMMA kernel.

use std::fmt;

/// Bytes of a row of a tile: one panel of the widest swizzle.
pub(super) const ROW_BYTES: u32 = 128;

/// Shared memory of a block, less a KiB for barriers.
const SHARED_BYTES: u32 = 226 << 10;

/// A block's tile of the result, and the ring of stages that its factors come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WgmmaTile {
    /// Warpgroups that multiply, each 64 rows: 1 or 2.
    pub consumers: u32,
    /// Columns of a block.
    pub columns: u32,
    /// Stages.
    pub stages: u32,
    /// Stages of the left factor, where it comes through a ring of its own: the room then goes to
    /// what takes longest to come.
    pub rows_stages: Option<u32>,
    /// Blocks, one below the other, that share their columns of `b`: 1 or 2.
    pub cluster: u32,
    /// Rows of clusters that are gone through together, column by column: what runs at once shares
    /// rows and columns.
    pub band: u32,
    /// Pieces of 128 bytes of a line that a stage has: where a product waits for memory, long ones
    /// are brought faster.
    pub panels: u32,
    /// Blocks of a cluster that share a tile, each with a part of its sums: 1 or 2, and 1 where
    /// they share columns of `b`.
    pub split: u32,
    /// Whether a block takes one tile alone, which it knows before launches before its own have
    /// ended, and whose result leaves through the stages of the left factor.
    pub once: bool,
    /// Whether a block has eight rows, which stand in each group of eight of a product's 64: they
    /// take an eighth of the room, and the other factor has it.
    pub eight_rows: bool,
}

/// Measured with an H200, driver 580, bf16 but for the first row:
///
/// | tile | product | us | beside | us | date |
/// |---|---|---|---|---|---|
/// | [`WIDE`](Self::WIDE) | 8192^3, f8e4m3 | 714 | [`ALONE`](Self::ALONE) | 775 | 2026-11-20 |
/// | [`PAIR`](Self::PAIR) | 128 x 8192 x 8192 | 39 | [`FLAT`](Self::FLAT) | 47 | 2026-11-20 |
/// | [`APART`](Self::APART) | 128 x 8192 x 8192 | 34.8 | [`PAIR`](Self::PAIR) | 36.4 | 2026-11-21 |
/// | [`APART_NARROW`](Self::APART_NARROW) | 128 x 4096 x 14336 | 32.3 | 128 x 64, `split: 2` | 34.2 | 2026-11-21 |
/// | [`DEEP`](Self::DEEP) | 64 x 8192 x 8192 | 34.4 | [`DEEP_APART`](Self::DEEP_APART) | 33.2 | 2026-11-21 |
/// | [`wave`](Self::wave), 224 columns, 2 stages, 2 panels | 128 x 28672 x 8192 | 115 | 5 stages, 1 panel | 116 | 2026-11-21 |
/// | the same | 128 x 28672 x 8192 | 115 | [`ALONE`](Self::ALONE), two waves | 129 | 2026-11-21 |
/// | [`wave`](Self::wave), 112 columns | 64 x 28672 x 8192 | 109 | 224 columns | 111 | 2026-11-21 |
/// | the same | 64 x 28672 x 8192 | 109 | [`DEEP`](Self::DEEP) | 118 | 2026-11-21 |
/// | the same | 128 x 14336 x 4096 | 32.1 | | | 2026-11-21 |
/// | the same | 64 x 14336 x 4096 | 29.3 | | | 2026-11-21 |
impl WgmmaTile {
    /// For large results: `tile_order`, the last rung of the ladder `hgemm`.
    pub const LARGE: Self = Self {
        consumers: 2,
        columns: 256,
        stages: 3,
        cluster: 2,
        band: 8,
        panels: 1,
        split: 1,
        rows_stages: None,
        once: false,
        eight_rows: false,
    };
    /// For large results of 8-bit floats, whose sums are kept twice: it loads a sixth less than 128
    /// columns do.
    pub const WIDE: Self = Self { columns: 192, stages: 4, cluster: 1, ..Self::LARGE };
    /// For results of a few thousand rows and columns.
    pub const MEDIUM: Self = Self { columns: 128, stages: 5, ..Self::LARGE };
    /// The same without a neighbour.
    pub const ALONE: Self = Self { cluster: 1, ..Self::MEDIUM };
    /// The same with room for the tree of eight parts of the sums.
    pub const ALONE_TREE: Self = Self { stages: 4, ..Self::ALONE };
    /// Two blocks for a tile, each with half of its sums: for fewer tiles than half of the SMs.
    pub const SHARED_TREE: Self = Self { split: 2, ..Self::ALONE };
    /// For few rows, or few tiles.
    pub const FLAT: Self = Self { consumers: 1, stages: 6, ..Self::ALONE };
    /// For more than 64 rows and no more than 128: the blocks of a cluster take all of them.
    pub const PAIR: Self = Self { stages: 8, cluster: 2, ..Self::FLAT };
    /// The same for products that wait for memory, of one tile a block.
    pub const APART: Self = Self { stages: 5, rows_stages: Some(4), panels: 2, once: true, ..Self::PAIR };
    /// And for fewer columns.
    pub const APART_NARROW: Self = Self { columns: 64, stages: 8, rows_stages: Some(6), ..Self::APART };
    /// For very few tiles.
    pub const SMALL: Self = Self { columns: 64, stages: 8, ..Self::FLAT };

    /// For up to 64 rows, and for few tiles.
    pub const DEEP: Self = Self { stages: 6, panels: 2, ..Self::SMALL };
    /// The same for one tile a block.
    pub const DEEP_APART: Self = Self { stages: 9, rows_stages: Some(4), once: true, ..Self::DEEP };

    /// For the few filters of a convolution.
    pub const NARROW: Self = Self { columns: 64, stages: 8, ..Self::ALONE };

    /// Every one that convolutions take, the largest first. Blocks that share filters wait for each
    /// other: on an H200 pairs took up to 1.25 times as long (49 x 35 x 35 x 128, 384 filters of 3
    /// x 3, 2026-11-20).
    pub const OF_CONVOLUTIONS: [Self; 5] =
        [Self { cluster: 1, ..Self::LARGE }, Self::ALONE, Self::NARROW, Self::FLAT, Self::SMALL];

    /// Every one that products of matrices take, the largest first.
    pub const ALL: [Self; 7] =
        [Self::LARGE, Self::WIDE, Self::MEDIUM, Self::ALONE, Self::PAIR, Self::FLAT, Self::SMALL];

    /// Those that products whose sums are a tree take beside them. Of 4096 columns and 12,288 steps
    /// in eight parts, us (H100, driver 580, 2026-11-27):
    ///
    /// | rows | ALONE_TREE | in clusters of 2 | SHARED_TREE | FLAT | 128x96 |
    /// |---|---|---|---|---|---|
    /// | 256 | 66.9 | 70.5 | 50.6 | 54.4 | 59.0 |
    /// | 2048 | 302 | 331 | 397 | 420 | 417 |
    pub const OF_TREES: [Self; 2] = [Self::ALONE_TREE, Self::SHARED_TREE];

    /// Those that products of this many rows and columns may take beside them where blocks, or
    /// rows, are few. For `step` see [`wave`](Self::wave).
    pub(in crate::matmul) fn of_few(rows: u64, columns: u64, num_sms: u64, step: u32) -> Vec<Self> {
        let wave = (rows <= 128).then(|| Self::wave(rows, columns, num_sms, step));
        let deep = [Self::DEEP, Self::DEEP_APART, Self { split: 2, ..Self::DEEP }];
        let few = match rows {
            ..=64 => deep.to_vec(),
            65..=128 => vec![Self::APART, Self::APART_NARROW],
            // 256 x 4096 x 12288 takes 48.1 us by these, 50.1 by blocks that share a tile, 54.4 by
            // FLAT (H100, 2026-11-27).
            _ => deep.into_iter().chain([Self::APART]).collect(),
        };
        few.into_iter().chain(wave).collect()
    }

    /// For up to 128 rows: of this many columns each SM has one tile, or a few of them. The tile's
    /// columns are a multiple of `step`, a power of two from 16 on.
    #[must_use]
    pub fn wave(rows: u64, columns: u64, num_sms: u64, step: u32) -> Self {
        let (consumers, most) = if rows <= 64 { (1, 128) } else { (2, 256) };
        let waves = columns.div_ceil(num_sms * most);
        let columns =
            columns.div_ceil(num_sms * waves.max(1)).next_multiple_of(step.into()).clamp(step.into(), most) as u32;
        let panels = if columns > 192 { 2 } else { 1 };
        let stages = (SHARED_BYTES / (panels * ROW_BYTES * (64 * consumers + columns))).min(12);
        Self { consumers, columns, stages, cluster: 1, panels, once: true, ..Self::MEDIUM }
    }

    /// The tile of a swapped product, in whose columns up to 32 rows of `a` stand: this many of
    /// them, and blocks that share its sums.
    #[must_use]
    pub const fn swap_ab(columns: u32, split: u32) -> Self {
        Self { columns, stages: 4, panels: 4, split, once: true, ..Self::DEEP }
    }

    /// For up to eight rows, of one tile a block: as many stages as `k` elements of this many bytes
    /// fill, if there is room, so that all of a block's columns are on their way at once. A stage
    /// is some panels of `part` elements. The tile's columns are a multiple of `step`.
    #[must_use]
    pub fn few_rows([columns, part, k]: [u64; 3], element_bytes: u64, num_sms: u64, step: u32) -> Self {
        let waves = columns.div_ceil(num_sms * 128).max(1);
        let columns = columns.div_ceil(num_sms * waves).next_multiple_of(step.into()).clamp(step.into(), 128) as u32;
        let needed = (k * element_bytes).div_ceil(ROW_BYTES.into()).clamp(1, 1 << 20) as u32;
        let room = SHARED_BYTES / (ROW_BYTES * (8 + columns));
        let most = if room >= 24 { 4 } else { 2 };
        let suits = |panels: &u32| part == k || (part * element_bytes).is_multiple_of((panels * ROW_BYTES).into());
        let panels = [4, 2, 1].into_iter().filter(|panels| *panels <= most).find(suits).unwrap_or(1);
        let stages = needed.div_ceil(panels).min(room / panels).clamp(2, 32);
        Self { columns, stages, panels, once: true, eight_rows: true, ..Self::SMALL }
    }

    /// Rows of a block.
    #[must_use]
    pub const fn rows(self) -> u32 {
        if self.eight_rows { 8 } else { 64_u32.saturating_mul(self.consumers) }
    }

    /// Steps of the sums that a stage has, for elements of this many bytes.
    #[must_use]
    pub const fn depth(self, element_bytes: u32) -> u32 {
        self.panels * ROW_BYTES / element_bytes
    }

    /// Whether a warpgroup begins the next stage's product while one is in flight. Two keep the
    /// tensor cores busy for each other, and few stages are better given back at once: 128 x 8192 x
    /// 8192 by [`PAIR`](Self::PAIR) takes 37.4 us so and 38.2 without, by [`APART`](Self::APART)
    /// 35.2 and 35.7 (H200, 2026-11-21). Sums of 8-bit floats are looked at after each stage.
    pub(super) const fn is_ahead(self) -> bool {
        self.rows_stages.is_some() || self.eight_rows || self.consumers == 1 && self.stages >= 6
    }

    /// Threads of a block: a warpgroup that copies, and those that multiply.
    #[must_use]
    pub const fn threads(self) -> u32 {
        128 * (1 + self.consumers)
    }

    /// Sums that a block receives from the other one that shares its tile: four of each thread for
    /// every other group of columns.
    pub(super) const fn received(self) -> u32 {
        (self.split - 1) * (self.columns / 8).div_ceil(2) * 512 * self.consumers
    }

    /// Columns that a block copies: those that blocks share, each copies a part of.
    pub(crate) const fn copied_columns(self) -> u32 {
        self.columns / self.cluster
    }

    /// Stages of each factor.
    pub(super) fn each_stages(self) -> [u32; 2] {
        [self.rows_stages.unwrap_or(self.stages), self.stages]
    }

    /// Bytes of shared memory for a level of the tree in which so many parts of the sums are added:
    /// more than three sums for each of a block's results leave no registers.
    pub(super) const fn tree_bytes(self, parts: u32) -> u32 {
        if parts == 8 && self.columns > 96 { 4 * 64 * self.consumers * self.columns } else { 0 }
    }

    /// Whether a block has room for the sums of so many parts that are added in a tree.
    pub(in crate::matmul) fn has_room_for_tree(self, parts: u32) -> bool {
        parts == 1 || self.columns <= 128 && self.shared_bytes() + self.tree_bytes(parts) <= SHARED_BYTES
    }

    /// Bytes of shared memory: the stages, and the tile of halves that a copy stores or the sums of
    /// other blocks.
    #[must_use]
    pub fn shared_bytes(self) -> u32 {
        let end = match self {
            Self { split: 2.., .. } => 4 * self.received(),
            Self { once: true, .. } => 0,
            _ => 2 * self.rows() * self.columns,
        };
        let [left, right] = self.each_stages();
        self.panels * ROW_BYTES * (left * self.rows() + right * self.columns) + end
    }

    /// Columns of the panels in which copies store a result of halves, if they can.
    pub(in crate::matmul) const fn panel_of(self, columns: u32) -> Option<u32> {
        let can_be_short = self.once && self.split == 1;
        match columns {
            _ if self.eight_rows => None,
            columns if columns.is_multiple_of(64) && self.split == 1 => Some(64),
            columns if columns.is_multiple_of(32) && can_be_short => Some(32),
            columns if columns.is_multiple_of(16) && can_be_short => Some(16),
            _ => None,
        }
    }

    /// Says what does not fit, if something does not.
    ///
    /// # Errors
    /// The broken rule, in words.
    pub fn validate(self) -> Result<(), String> {
        const FIT: &str = "stages and result fit 226 KiB of shared memory";
        // Beyond them, what shared memory holds might not fit its count.
        let stages = self.each_stages();
        let is_small = self.panels <= 32 && stages.iter().all(|stages| *stages <= 32);
        let rules = [
            ((1..=2).contains(&self.consumers), "one or two warpgroups multiply"),
            ((1..=2).contains(&self.cluster), "a cluster has one or two blocks"),
            ((1..=2).contains(&self.split), "one or two blocks share a tile's sums"),
            (self.cluster == 1 || self.split == 1, "blocks share columns, or a tile"),
            (
                self.columns.is_multiple_of(8_u32.saturating_mul(self.cluster)) && (8..=256).contains(&self.columns),
                "columns are a multiple of 8 per block of the cluster, up to 256",
            ),
            (self.panels >= 1, "a stage has a panel"),
            (stages.iter().all(|stages| *stages >= 2), "there are two stages at least"),
            (
                !self.once || self.eight_rows || is_small && 64 * stages[0] * self.panels >= self.columns,
                "a result fits the rows' stages that it leaves through",
            ),
            (self.band >= 1, "a band has a row"),
            (
                !self.eight_rows || self.once && self.consumers * self.cluster * self.split == 1,
                "eight rows are a warpgroup's, alone with its tile",
            ),
            (is_small, FIT),
        ];
        // Less a KiB for barriers; counted only of numbers that keep the other rules.
        let fits = || if self.shared_bytes() <= SHARED_BYTES { Ok(()) } else { Err(FIT) };
        let broken = rules.iter().find(|(holds, _)| !holds);
        broken.map_or_else(fits, |(_, rule)| Err(*rule)).map_err(|rule| format!("{self}: {rule}"))
    }
}

impl fmt::Display for WgmmaTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} in {} stages", self.rows(), self.columns, self.stages)?;
        self.rows_stages.map_or(Ok(()), |stages| write!(f, ", {stages} of rows"))?;
        match (self.cluster, self.split) {
            (1, 1) => Ok(()),
            (1, split) => write!(f, ", sums shared by clusters of {split}"),
            (cluster, _) => write!(f, ", clusters of {cluster}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WgmmaTile;

    #[test]
    fn every_tile_keeps_the_rules() {
        let columns = [1, 16, 2000, 8192, 14_336, 28_672, 50_000, 1 << 20];
        let few = columns
            .map(|columns| [1, 128].map(|rows| WgmmaTile::of_few(rows, columns, 132, 16)))
            .into_iter()
            .flatten()
            .flatten();
        let turned =
            [8, 16, 24, 32].into_iter().flat_map(|columns| [1, 2].map(|split| WgmmaTile::swap_ab(columns, split)));
        let eight = columns.into_iter().flat_map(|columns| {
            [(1, 1), (1024, 1024), (3072, 3072), (14_336, 14_336), (128, 1024), (384, 3072), (1792, 14_336)]
                .map(|(part, k)| WgmmaTile::few_rows([columns, part, k], 2, 132, 8))
        });
        for tile in WgmmaTile::ALL
            .into_iter()
            .chain(WgmmaTile::OF_TREES)
            .chain(WgmmaTile::OF_CONVOLUTIONS)
            .chain(few)
            .chain(turned)
            .chain(eight)
        {
            assert_eq!(tile.validate(), Ok(()));
        }
        let broken = WgmmaTile { stages: 4, ..WgmmaTile::LARGE };
        assert!(broken.validate().expect_err("too much shared memory").contains("226 KiB"));
        for absurd in [
            WgmmaTile { stages: u32::MAX, ..WgmmaTile::LARGE },
            WgmmaTile { stages: 1 << 22, panels: 1 << 10, ..WgmmaTile::LARGE },
            WgmmaTile { consumers: 1 << 31, ..WgmmaTile::LARGE },
            WgmmaTile { cluster: 0, ..WgmmaTile::LARGE },
        ] {
            assert!(absurd.validate().is_err());
        }
    }
}
