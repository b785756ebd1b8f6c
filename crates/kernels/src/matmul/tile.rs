//! The tiles of the kernel on CUDA cores: of a block, a warp and a thread.

use std::fmt;

/// A block's tile of the result, and who computes what of it.
///
/// Lanes of a warp stand in `32 / lanes_across` rows of `lanes_across`. Each takes groups of four
/// by four outputs, as many as `thread` says, as far apart as the lanes of the warp reach: so
/// fragments lie side by side in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of a block.
    pub rows: u32,
    /// Columns of a block.
    pub columns: u32,
    /// Columns of `a` and rows of `b` that are brought to shared memory in a step.
    pub depth: u32,
    /// Rows and columns of a thread, multiples of 4.
    pub thread: [u32; 2],
    /// Lanes of a warp side by side: a power of two.
    pub lanes_across: u32,
    /// Warps of a block side by side.
    pub warps_across: u32,
}

/// Words between rows of a tile in shared memory: stores of a transposed tile then go to as many
/// banks as lanes.
pub(crate) const PAD: u32 = 4;

/// Tiles in shared memory: one is multiplied, the next one is there, and one is in flight.
pub(crate) const STAGES: u32 = 3;

/// Measured with f32 on an H200, driver 580, 2026-11-20; of some thirty tiles and shapes of
/// threads [`LARGE`](Self::LARGE) was the fastest at 4096^3:
///
/// | tile | product | TFLOP/s |
/// |---|---|---|
/// | [`LARGE`](Self::LARGE) | 4096^3 | 51.1 |
/// | [`MEDIUM`](Self::MEDIUM) | 2048^3 | 48.0 |
/// | [`MEDIUM`](Self::MEDIUM) | 1024^3 | 38.2 |
/// | [`SMALL`](Self::SMALL) | 512^3 | 18.0 |
impl Tile {
    /// For large results: 128 sums a thread.
    pub const LARGE: Self =
        Self { rows: 256, columns: 128, depth: 16, thread: [8, 16], lanes_across: 4, warps_across: 2 };
    /// For results of one to two thousand rows and columns.
    pub const MEDIUM: Self =
        Self { rows: 64, columns: 128, depth: 16, thread: [8, 8], lanes_across: 8, warps_across: 2 };
    /// For small results, of which there are many tiles then.
    pub const SMALL: Self = Self { rows: 32, columns: 32, depth: 16, thread: [4, 4], lanes_across: 8, warps_across: 1 };
    /// For few rows.
    pub const FLAT: Self = Self { rows: 16, columns: 128, depth: 16, thread: [4, 4], lanes_across: 8, warps_across: 4 };

    /// Every one, the largest first.
    pub const ALL: [Self; 4] = [Self::LARGE, Self::MEDIUM, Self::SMALL, Self::FLAT];

    /// Threads of a block.
    #[must_use]
    pub const fn threads(self) -> u32 {
        self.rows / self.thread[0] * (self.columns / self.thread[1])
    }

    /// Lanes of a warp above one another.
    #[must_use]
    pub const fn lanes_down(self) -> u32 {
        32 / self.lanes_across
    }

    /// Rows and columns of a warp.
    #[must_use]
    pub const fn warp(self) -> [u32; 2] {
        [self.lanes_down() * self.thread[0], self.lanes_across * self.thread[1]]
    }

    /// Elements of shared memory for a side's stages.
    pub(crate) const fn elements(self, side: u32) -> u32 {
        STAGES * self.depth * (side + PAD)
    }

    /// Bytes of shared memory.
    #[must_use]
    pub const fn shared_bytes(self, element_bytes: u32) -> u32 {
        (self.elements(self.rows) + self.elements(self.columns)) * element_bytes
    }

    /// Says what does not fit, if something does not.
    ///
    /// # Errors
    /// The broken rule, in words.
    pub fn validate(self) -> Result<(), String> {
        if self.lanes_across == 0 {
            return Err(format!("{self}: lanes across are a power of two up to 32"));
        }
        let [rows, columns] = self.warp();
        let rules = [
            (
                self.lanes_across.is_power_of_two() && self.lanes_across <= 32,
                "lanes across are a power of two up to 32",
            ),
            (self.thread.iter().all(|side| side.is_multiple_of(4) && *side > 0), "a thread's sides are multiples of 4"),
            (self.columns == columns * self.warps_across, "the warps fill the columns"),
            (self.rows.is_multiple_of(rows.max(1)), "the warps fill the rows"),
            (self.threads() <= 1024, "a block has at most 1,024 threads"),
            (self.depth.is_multiple_of(4), "the depth is a multiple of 4"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(format!("{self}: {rule}")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, columns, depth, thread: [down, across], .. } = self;
        write!(f, "{rows}x{columns}x{depth} by {down}x{across}")
    }
}
