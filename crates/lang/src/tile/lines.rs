//! A warp's rows of A or columns of B in a ring of tiles, with lane addresses computed once instead
//! of at every step.

use std::fmt;

use super::fragment::{Fragment, Lanes, Order, check_major};
use super::multiplicand::Multiplicand;
use super::shared::{Major, Tiles};
use crate::memory::Shared;
use crate::recorder::Raw;
use crate::{ErrorKind, Operand, Val, untyped};

/// A warp's rows of A in each tile of a ring; [`LinesOfB`] for columns of B.
///
/// The part of the addresses that does not change from stage to stage is computed where it is made,
/// so that a fragment costs no arithmetic but an addition for every 32 bytes of a stage: make it
/// before the loop over stages.
pub struct LinesOfA<T>(Lines<T>);

/// A warp's columns of B in each tile of a ring; see [`LinesOfA`].
pub struct LinesOfB<T>(Lines<T>);

/// Shared implementation of [`LinesOfA`] and [`LinesOfB`].
struct Lines<T> {
    tiles: Tiles<T>,
    major: Major,
    num: u32,
    /// The lane's row addresses in the current tile, one per 32 bytes of a panel's row.
    starts: Vec<Shared<u8>>,
}

impl<T: Multiplicand> Tiles<T> {
    /// The `share`-th group of `num` rows of A. `num` is a power of two ≥ 16 that divides the rows,
    /// or all rows (a multiple of 16).
    #[track_caller]
    #[must_use]
    pub fn lines_of_a(self, major: Major, share: impl Operand<u32>, num: u32) -> LinesOfA<T> {
        LinesOfA(Lines::new(self, major, Order::RowsFirst, share.val(), num))
    }

    /// The `share`-th group of `num` columns of B; see [`Self::lines_of_a`].
    #[track_caller]
    #[must_use]
    pub fn lines_of_b(self, major: Major, share: impl Operand<u32>, num: u32) -> LinesOfB<T> {
        LinesOfB(Lines::new(self, major, Order::StepsFirst, share.val(), num))
    }
}

impl<T: Multiplicand> LinesOfA<T> {
    /// The same rows in tile `index`.
    #[track_caller]
    #[must_use]
    pub fn of_tile(&self, index: impl Operand<u32>) -> Self {
        Self(self.0.of_tile(index))
    }

    /// The fragment of 16 rows from `line` and one step from `k`: multiples of 16 and of the step.
    #[track_caller]
    #[must_use]
    pub fn fragment(&self, line: u32, k: u32) -> Fragment<T, 4> {
        Fragment::new(self.0.load(line, k))
    }
}

impl<T: Multiplicand> LinesOfB<T> {
    /// The same columns in tile `index`.
    #[track_caller]
    #[must_use]
    pub fn of_tile(&self, index: impl Operand<u32>) -> Self {
        Self(self.0.of_tile(index))
    }

    /// Two fragments of 8 columns each, starting at `line`; see [`LinesOfA::fragment`].
    #[track_caller]
    #[must_use]
    pub fn fragments(&self, line: u32, k: u32) -> [Fragment<T, 2>; 2] {
        let [low, low_late, high, high_late] = self.0.load(line, k);
        [Fragment::new([low, low_late]), Fragment::new([high, high_late])]
    }
}

impl<T: Multiplicand> Lines<T> {
    fn new(tiles: Tiles<T>, major: Major, order: Order, share: Val<u32>, num: u32) -> Self {
        check_major::<T>(major);
        let tile = tiles.at(0);
        let all = if major == Major::K { tile.rows() } else { tile.columns() };
        check_lines(num, all);
        let first = share * num;
        let lanes = Lanes::new(order);
        // The later ones of the step's 32 bytes, or of 16 lines, are the next piece of 16 bytes.
        let place = match major {
            Major::K => tile.at(first + lanes.row + lanes.of_lines * 8, lanes.of_steps * (T::STEP / 2)),
            Major::Mn => tile.at(lanes.row + lanes.of_steps * (T::STEP / 2), first + lanes.of_lines * 8),
        };
        // Tiles begin at multiples of the swizzle's period, which lines and steps keep to: so their
        // bits of the address stand apart, and the swizzled address of another step differs from
        // this one by an exclusive or.
        let start = place.reinterpret::<u8>();
        let starts = match (major, num * T::BYTES) {
            (Major::Mn, width) if width < tile.swizzle().bytes() => width / 32,
            _ => tile.swizzle().bytes() / 32,
        };
        let starts = (0..starts).map(|i| if i == 0 { start } else { start.exclusive_or(32 * i) }).collect();
        Self { tiles, major, num, starts }
    }

    fn of_tile(&self, index: impl Operand<u32>) -> Self {
        let offset = index.val() * self.tiles.at(0).bytes();
        let starts = self.starts.iter().map(|start| start.at(offset)).collect();
        Self { starts, ..*self }
    }

    fn load(&self, line: u32, k: u32) -> [Raw; 4] {
        let (tile, width) = (self.tiles.at(0), self.tiles.at(0).swizzle().bytes());
        let is_whole = line.is_multiple_of(16) && line < self.num && k.is_multiple_of(T::STEP);
        if !is_whole {
            untyped::fail(ErrorKind::Misuse(format!("line {line} and step {k} begin no fragment")));
        }
        let (row, bytes) = if self.major == Major::K { (line, k * T::BYTES) } else { (k, line * T::BYTES) };
        let (panel, in_panel) = (bytes / width, bytes % width);
        let pointer = self.starts[(in_panel / 32) as usize].at(row * width + panel * tile.rows() * width);
        untyped::load_matrices(pointer.location(), self.major == Major::Mn)
    }
}

fn check_lines(num: u32, all: u32) {
    let is_share = num.is_power_of_two() && num >= 16 && all.is_multiple_of(num);
    // Where there is one share, it begins where tiles do, whatever its size.
    let is_whole = num == all && num.is_multiple_of(16);
    if !is_share && !is_whole {
        let (what, value) = ("the lines that a warp multiplies".to_owned(), num.to_string());
        let expected = format!("a power of two from 16 on that divides {all}, or {all}");
        untyped::fail(ErrorKind::OutOfRange { what, value, expected });
    }
}

impl<T: Multiplicand> fmt::Debug for LinesOfA<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinesOfA({} of {:?})", self.0.num, self.0.tiles)
    }
}

impl<T: Multiplicand> fmt::Debug for LinesOfB<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinesOfB({} of {:?})", self.0.num, self.0.tiles)
    }
}
