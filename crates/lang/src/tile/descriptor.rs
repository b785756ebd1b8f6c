//! Tiles as `wgmma` reads them (PTX ISA, "Matrix Descriptor Format").

use super::shared::{Major, Swizzle, Tile};
use crate::intrinsics::memory::Location;
use crate::recorder::Raw;
use crate::types::{Element, Type};
use crate::{Val, untyped};

/// Rows from one stride offset to the next.
const GROUP: u32 = 8;

/// Rows of A in one MMA.
const ROWS_OF_A: u32 = 64;

/// An operand in shared memory, without its element type: its start and its layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Factor {
    start: Location,
    rows: u32,
    columns: u32,
    swizzle: Swizzle,
    major: Major,
    /// True if eight rows stand for each group of eight of A.
    repeats: bool,
}

impl Factor {
    pub(super) fn new<T: Element>(tile: Tile<T>, major: Major) -> Self {
        let start = tile.start().location();
        Self { start, rows: tile.rows(), columns: tile.columns(), swizzle: tile.swizzle(), major, repeats: false }
    }

    /// Returns the operand as A: eight rows are repeated for all 64.
    pub(super) fn for_a(self) -> Self {
        Self { repeats: self.major == Major::K && self.rows == GROUP, ..self }
    }

    pub(super) fn is_mn_major(&self) -> bool {
        self.major == Major::Mn
    }

    /// Rows of A or columns of B that the tile holds.
    pub(super) const fn extent(&self) -> u32 {
        match self.major {
            Major::K if self.repeats => ROWS_OF_A,
            Major::K => self.rows,
            Major::Mn => self.columns,
        }
    }

    /// Number of elements along `k`.
    pub(super) const fn depth(&self) -> u32 {
        match self.major {
            Major::K => self.columns,
            Major::Mn => self.rows,
        }
    }
}

/// A matrix descriptor: the word that changes along `k`, and the constant one.
pub(super) struct Descriptor {
    pub(super) factor: Factor,
    low: Val<u32>,
    high: u32,
}

impl Descriptor {
    #[track_caller]
    pub(super) fn new(factor: Factor) -> Self {
        let swizzle = factor.swizzle;
        let address: Val<u32> = Val::from_raw(untyped::whole_address(factor.start));
        // Leading offset: from panel to panel, where the sums' dimension runs over panels; unused
        // along `k`, as a step never leaves a panel. Stride: from 8 rows to the next.
        let leading = if factor.major == Major::K { 1 } else { (factor.rows * swizzle.bytes()) >> 4 };
        let stride = if factor.repeats { 0 } else { swizzle.period() >> 4 };
        let high = stride | ((swizzle.code() as u32) << 30);
        Self { factor, low: ((address & 0x3_ffff) >> 4) + (leading << 16), high }
    }

    /// The descriptor of a step of `step_rows` elements along `k`.
    #[track_caller]
    pub(super) fn step(&self, step: u32, step_rows: u32) -> Raw {
        let width = self.factor.swizzle.bytes();
        let bytes = match self.factor.major {
            // Inside a panel the hardware swizzles the sum, so that adding is right.
            Major::K => {
                let steps = width / 32;
                (step / steps) * self.factor.rows * width + (step % steps) * 32
            }
            Major::Mn => step * step_rows * width,
        };
        let low = self.low + (bytes >> 4);
        untyped::pack(Type::U32, Type::U64, [low.raw(), Raw::Const(self.high.into())])
    }
}
