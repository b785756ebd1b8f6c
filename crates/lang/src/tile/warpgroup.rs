//! The products of a warpgroup, four warps, in the background: `wgmma` (PTX ISA, "Asynchronous
//! Warpgroup Level Matrix Instructions"; sm_90a).

use std::fmt;
use std::marker::PhantomData;

use super::fragment::{check_major, product, store_16x16};
use super::multiplicand::Multiplicand;
use super::shared::{Major, Tile};
use crate::intrinsics::matrix::{self, Transposed};
use crate::intrinsics::sync;
use crate::recorder::{Raw, Reg, with};
use crate::types::{Element, Scalar, Type};
use crate::{ErrorKind, HalfOfPair, Operand, Val, lane_id, shfl, untyped, warp_id};

/// Threads of a warpgroup.
const THREADS: u32 = 128;

/// The number of the thread's warpgroup in its block, as a value that the compiler knows to be the
/// same in a warp.
#[track_caller]
#[must_use]
pub fn warpgroup_idx() -> Val<u32> {
    shfl(warp_id() >> (THREADS / 32).ilog2(), 0)
}

/// Orders what the warpgroup did to its sums' registers before the products that follow: before the
/// first one, and after any other use of the registers.
#[track_caller]
pub fn wgmma_fence() {
    with(matrix::wgmma_fence);
}

/// Makes a group of the products started since the last one.
#[track_caller]
pub fn wgmma_commit() {
    with(matrix::wgmma_commit);
}

/// Waits until no more than `pending` of the newest groups are under way. Sums may be looked at,
/// and tiles written again, when their group is not among them.
#[track_caller]
pub fn wgmma_wait(pending: u32) {
    with(|r| matrix::wgmma_wait(r, pending));
}

/// Waits for the 128 threads of the warpgroup, and lets each see what the others wrote before. It
/// takes the block's named barrier of 1 plus the warpgroup's number.
#[track_caller]
pub fn sync_warpgroup() {
    let barrier = warpgroup_idx() + 1;
    with(|r| sync::barrier_sync_of(r, barrier.raw(), THREADS));
}

/// A tile as a factor: which of its dimensions is `k`.
#[derive(Debug)]
pub struct Operands<T> {
    /// 64 rows of A.
    pub a: Tile<T>,
    /// What lies along A's columns.
    pub a_major: Major,
    /// As many columns of B as there are columns of sums.
    pub b: Tile<T>,
    /// What lies along B's columns.
    pub b_major: Major,
}

/// 64 x `columns` sums of a warpgroup: `columns / 2` a thread.
///
/// They have no value until a product starts without keeping them.
pub struct WarpgroupSums<T: Multiplicand> {
    registers: Vec<Reg>,
    element: PhantomData<fn() -> T>,
}

fn registers(ty: Type, columns: u32, step: u32) -> Vec<Reg> {
    if columns == 0 || columns > 256 || !columns.is_multiple_of(step) {
        let (what, value) = ("the number of columns of a warpgroup's product".to_owned(), columns.to_string());
        let expected = format!("a multiple of {step} up to 256");
        untyped::fail(ErrorKind::OutOfRange { what, value, expected });
    }
    (0..columns / 2).map(|_| untyped::register(ty)).collect()
}

fn check_shapes(a: [u32; 2], b: [u32; 2], own: u32) {
    let ([rows, depth], [other, columns]) = (a, b);
    if rows != 64 || columns != own || depth != other {
        untyped::fail(ErrorKind::Misuse(format!(
            "a tile of {rows} x {depth} times one of {other} x {columns} is not a product of 64 x {own} sums"
        )));
    }
}

impl<T: Multiplicand> WarpgroupSums<T> {
    /// Registers for sums of 8 to 256 columns, a multiple of 8 (of 16 for integers).
    #[track_caller]
    #[must_use]
    pub fn new(columns: u32) -> Self {
        Self { registers: registers(<T::Sum as Scalar>::TYPE, columns, T::COLUMNS_STEP), element: PhantomData }
    }

    /// Its columns.
    #[must_use]
    pub fn columns(&self) -> u32 {
        2 * self.registers.len() as u32
    }

    /// Starts the product of two tiles, one step of 32 bytes along `k` after the other. Where
    /// `keep` does not hold, the first step overwrites the sums.
    ///
    /// All four warps come here together. What is between [`wgmma_fence`], this, [`wgmma_commit`]
    /// and [`wgmma_wait`] must not touch the sums.
    #[track_caller]
    pub fn add_product(&self, factors: &Operands<T>, keep: impl Operand<bool>) {
        self.check(factors);
        let (a, b) = (Descriptor::new(factors.a, factors.a_major), Descriptor::new(factors.b, factors.b_major));
        let transposed =
            Transposed { can: T::EITHER_MAJOR, a: factors.a_major == Major::Mn, b: factors.b_major == Major::Mn };
        let keep = keep.val().raw();
        for step in 0..depth(factors.a, factors.a_major) / T::STEP {
            let keep = if step == 0 { keep } else { Raw::Const(1) };
            let descriptors = [a.step(step), b.step(step)];
            untyped::wgmma(product::<T>(), transposed, &self.registers, descriptors, keep);
        }
    }

    fn check(&self, factors: &Operands<T>) {
        check_major::<T>(factors.a_major);
        check_major::<T>(factors.b_major);
        let (rows, columns) = (extent(factors.a, factors.a_major), extent(factors.b, factors.b_major));
        let depths = [depth(factors.a, factors.a_major), depth(factors.b, factors.b_major)];
        check_shapes([rows, depths[0]], [depths[1], columns], self.columns());
    }

    /// The places of this thread's sums, a row of 64 and a column for each pair of neighbours of a
    /// row.
    #[track_caller]
    pub fn places(&self) -> impl Iterator<Item = (Val<u32>, Val<u32>)> + use<T> {
        let lane = lane_id();
        let row = (warp_id() & 3) * 16 + (lane >> 2);
        let column = (lane & 3) * 2;
        (0..self.columns() / 4).map(move |pair| (row + 8 * (pair % 2), column + 8 * (pair / 2)))
    }

    /// The sums of this thread in pairs, with their [places](Self::places).
    #[track_caller]
    pub fn pairs(&self) -> impl Iterator<Item = (Val<u32>, Val<u32>, [Val<T::Sum>; 2])> {
        self.places().zip(self.registers.chunks_exact(2)).map(|((row, column), registers)| {
            (
                row,
                column,
                [registers[0], registers[1]]
                    .map(|register| Val::from_raw(untyped::read(<T::Sum as Scalar>::TYPE, register))),
            )
        })
    }

    /// Stores the sums, rounded to nearest even, into a tile of 64 rows: `stmatrix`.
    ///
    /// Copies see it after [`fence_async`](crate::fence_async) and a barrier.
    #[track_caller]
    pub fn store<H: HalfOfPair>(&self, to: Tile<H>)
    where
        T: Multiplicand<Sum = f32>,
    {
        let words: Vec<_> = self.pairs().map(|(_, _, [low, high])| Val::<H::Pair>::from_f32(low, high)).collect();
        to.store_pairs(&words);
    }
}

impl<H: HalfOfPair> Tile<H> {
    /// Stores 64 rows of halves from a warpgroup's registers, where each thread holds the pairs at
    /// the [places](WarpgroupSums::places) of sums with as many columns, a multiple of 16:
    /// `stmatrix`.
    #[track_caller]
    pub fn store_pairs(self, pairs: &[Val<H::Pair>]) {
        let columns = 4 * pairs.len() as u32;
        if self.rows() != 64 || self.columns() != columns || !columns.is_multiple_of(16) {
            untyped::fail(ErrorKind::Misuse(format!("64 x {columns} halves of a warpgroup do not fill {self:?}")));
        }
        let row = (warp_id() & 3) * 16;
        for (block, words) in pairs.chunks_exact(4).enumerate() {
            let words = std::array::from_fn(|i| words[i].raw());
            store_16x16(self, row, Val::constant(16 * block as u32), words);
        }
    }
}

/// Rows of A or columns of B that a tile holds.
fn extent<T: Element>(tile: Tile<T>, major: Major) -> u32 {
    if major == Major::K { tile.rows() } else { tile.columns() }
}

/// Its extent along `k`.
fn depth<T: Element>(tile: Tile<T>, major: Major) -> u32 {
    if major == Major::K { tile.columns() } else { tile.rows() }
}

/// A tile as `wgmma` reads it (PTX ISA, "Matrix Descriptor Format"): a word that moves along `k`,
/// and one that does not.
struct Descriptor<T> {
    tile: Tile<T>,
    major: Major,
    low: Val<u32>,
    high: u32,
}

impl<T: Multiplicand> Descriptor<T> {
    fn new(tile: Tile<T>, major: Major) -> Self {
        let swizzle = tile.swizzle();
        let address: Val<u32> = Val::from_raw(untyped::whole_address(tile.start().location()));
        // Leading offset: from panel to panel, where the sums' dimension runs over panels; unused
        // along `k`, as a step never leaves a panel. Stride: from 8 rows to the next.
        let leading = if major == Major::K { 1 } else { (tile.rows() * swizzle.bytes()) >> 4 };
        let high = (swizzle.period() >> 4) | ((swizzle.code() as u32) << 30);
        Self { tile, major, low: ((address & 0x3_ffff) >> 4) + (leading << 16), high }
    }

    /// The descriptor of one step along `k`.
    fn step(&self, step: u32) -> Raw {
        let width = self.tile.swizzle().bytes();
        let bytes = match self.major {
            // Inside a panel the hardware swizzles the sum, so that adding is right.
            Major::K => {
                let steps = width / 32;
                (step / steps) * self.tile.rows() * width + (step % steps) * 32
            }
            Major::Mn => step * T::STEP * width,
        };
        let low = self.low + (bytes >> 4);
        let words = [low.raw(), Raw::Const(self.high.into())];
        untyped::pack(Type::U32, Type::U64, words)
    }
}

impl<T> Clone for Operands<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Operands<T> {}

impl<T: Multiplicand> fmt::Debug for WarpgroupSums<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarpgroupSums<{:?}>(64 x {})", T::TYPE, self.columns())
    }
}
