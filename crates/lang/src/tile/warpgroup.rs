//! Asynchronous matrix products of a warpgroup, four warps: `wgmma` (PTX ISA, "Asynchronous
//! Warpgroup Level Matrix Instructions"; sm_90a).

use std::fmt;
use std::marker::PhantomData;

use super::descriptor::{Descriptor, Factor};
use super::fragment::{Fragment, check_major, product, store_16x16};
use super::multiplicand::Multiplicand;
use super::shared::{Major, Tile};
use super::warpgroup_fragment::WarpgroupFragment;
use crate::intrinsics::matrix::{self, FactorA, Product, Transposed};
use crate::intrinsics::sync;
use crate::recorder::{Raw, Reg, with};
use crate::types::{Scalar, Type};
use crate::{ErrorKind, HalfOfPair, Operand, Val, lane_id, shfl, untyped, warp_id};

/// Threads of a warpgroup.
const THREADS: u32 = 128;

/// The index of the thread's warpgroup in its block, as a value that the compiler knows to be
/// uniform in a warp.
#[track_caller]
#[must_use]
pub fn warpgroup_idx() -> Val<u32> {
    shfl(warp_id() >> (THREADS / 32).ilog2(), 0)
}

/// Orders the warpgroup's accesses to accumulator registers before the following products: needed
/// before the first product, and after any other use of the registers.
#[track_caller]
pub fn wgmma_fence() {
    with(matrix::wgmma_fence);
}

/// Commits a group of the products started since the last one.
#[track_caller]
pub fn wgmma_commit() {
    with(matrix::wgmma_commit);
}

/// Waits until at most `pending` of the newest groups, 0 to 7, are in flight. After that, the sums
/// of the other groups may be read, their registers of A changed, and their tiles overwritten.
///
/// With one group pending the thread computes while the tensor cores do:
/// ```
/// use half::bf16;
/// use warpfold_lang::{
///     Arch, Global, Major, Operands, Swizzle, Target, WarpgroupSums, kernel, tile, wgmma_commit, wgmma_fence,
///     wgmma_wait,
/// };
/// let two = kernel("two", |out: Global<f32>| {
///     let [a, b] = [0, 1].map(|_| tile::<bf16>(64, 64, Swizzle::Bytes128));
///     let [first, second] = [0, 1].map(|_| WarpgroupSums::<bf16>::new(64));
///     wgmma_fence();
///     first.add_product(&Operands { a, a_major: Major::K, b, b_major: Major::K }, false);
///     wgmma_commit();
///     second.add_product(&Operands { a: b, a_major: Major::K, b: a, b_major: Major::K }, false);
///     wgmma_commit();
///     wgmma_wait(1);
///     first.update(|_, _, sum| sum * 0.125); // the second product runs meanwhile
///     wgmma_wait(0);
///     for ((row, column, low), (.., high)) in first.pairs().zip(second.pairs()) {
///         out.at(row * 64 + column).set_vec([low[0] + high[0], low[1] + high[1]]);
///     }
/// });
/// assert!(two.required_block(128).ptx(&Target::new(Arch::SM_90A, (8, 0)))?.contains("wait_group.sync.aligned 1;"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
#[track_caller]
pub fn wgmma_wait(pending: u32) {
    with(|r| matrix::wgmma_wait(r, pending));
}

/// Waits for the 128 threads of the warpgroup, and makes their earlier writes visible to each
/// other. Uses the block's named barrier 1 plus the warpgroup's index.
#[track_caller]
pub fn sync_warpgroup() {
    let barrier = warpgroup_idx() + 1;
    with(|r| sync::barrier_sync_of(r, barrier.raw(), THREADS));
}

/// The operands of a product: two tiles, with the major dimension of each.
#[derive(Debug)]
pub struct Operands<T> {
    /// 64 rows of A, or eight K-major rows: these are repeated for each group of eight, so that
    /// rows of sums repeat, and the tile takes an eighth of the memory.
    pub a: Tile<T>,
    /// Major dimension of A.
    pub a_major: Major,
    /// B, with one column for each column of the accumulator.
    pub b: Tile<T>,
    /// Major dimension of B.
    pub b_major: Major,
}

/// 64 x `columns` accumulators of a warpgroup: `columns / 2` per thread.
///
/// They have no value until a product starts without keeping them, or [`fill`](Self::fill) gives
/// them one. Between products they are read and changed like any registers: see
/// [`pairs`](Self::pairs), [`update`](Self::update) and [`fold_rows`](Self::fold_rows). From the
/// start of a product to the [`wgmma_wait`] that covers its group they must not be touched, and a
/// [`wgmma_fence`] comes between a change and the next product.
pub struct WarpgroupSums<T: Multiplicand> {
    pub(super) registers: Vec<Reg>,
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

/// Operand A of a product.
enum Left<'a> {
    Tile(Descriptor),
    Registers(&'a [Reg]),
}

/// Starts a product: one MMA per step of 32 bytes along `k`.
#[track_caller]
fn multiply((product, can_transpose): (Product, bool), sums: &[Reg], a: Left<'_>, b: &Descriptor, keep: Raw) {
    let (rows, depth, is_transposed) = match &a {
        Left::Tile(tile) => (tile.factor.extent(), tile.factor.depth(), tile.factor.is_mn_major()),
        Left::Registers(registers) => (64, registers.len() as u32 / 4 * product.step, false),
    };
    check_shapes([rows, depth], [b.factor.depth(), b.factor.extent()], 2 * sums.len() as u32);
    let transposed = Transposed { can: can_transpose, a: is_transposed, b: b.factor.is_mn_major() };
    for step in 0..depth / product.step {
        let keep = if step == 0 { keep } else { Raw::Const(1) };
        let left = match &a {
            Left::Tile(tile) => FactorA::Shared(tile.step(step, product.step)),
            Left::Registers(registers) => FactorA::Registers(&registers[4 * step as usize..][..4]),
        };
        let right = b.step(step, product.step);
        with(|r| matrix::wgmma(r, product, transposed, sums, left, right, keep));
    }
}

impl<T: Multiplicand> WarpgroupSums<T> {
    /// Declares accumulators of 8 to 256 columns, a multiple of 8 (of 16 for integers).
    #[track_caller]
    #[must_use]
    pub fn new(columns: u32) -> Self {
        Self { registers: registers(<T::Sum as Scalar>::TYPE, columns, T::COLUMNS_STEP), element: PhantomData }
    }

    /// Number of columns.
    #[must_use]
    pub fn columns(&self) -> u32 {
        2 * self.registers.len() as u32
    }

    /// Starts the product of two tiles: one MMA per step of 32 bytes along `k`. If `keep` is false,
    /// the first step overwrites the sums.
    ///
    /// All four warps come here together. What is between [`wgmma_fence`], this, [`wgmma_commit`]
    /// and [`wgmma_wait`] must not touch the sums.
    #[track_caller]
    pub fn add_product(&self, factors: &Operands<T>, keep: impl Operand<bool>) {
        check_major::<T>(factors.a_major);
        check_major::<T>(factors.b_major);
        let (a, b) = (Factor::new(factors.a, factors.a_major), Factor::new(factors.b, factors.b_major));
        let (a, b) = (Descriptor::new(a.for_a()), Descriptor::new(b));
        multiply((product::<T>(), T::EITHER_MAJOR), &self.registers, Left::Tile(a), &b, keep.val().raw());
    }

    /// Like [`add_product`](Self::add_product), with A in registers: the tensor cores read only
    /// half as much from shared memory.
    ///
    /// Neither the sums nor the registers of A may be touched until the [`wgmma_wait`] that covers
    /// the product.
    ///
    /// ```
    /// use half::bf16;
    /// use warpfold_lang::{
    ///     Arch, Global, Major, Operands, Swizzle, Target, WarpgroupFragment, WarpgroupSums, kernel, tile, wgmma_commit,
    ///     wgmma_fence, wgmma_wait,
    /// };
    /// // (Q Kᵀ) V: the sums of the first product are A of the second, and stay in registers.
    /// let chained = kernel("chained", |out: Global<f32>| {
    ///     let [q, k, v] = [64, 128, 128].map(|rows| tile::<bf16>(rows, 64, Swizzle::Bytes128));
    ///     let (scores, sums) = (WarpgroupSums::<bf16>::new(128), WarpgroupSums::<bf16>::new(64));
    ///     let weights = WarpgroupFragment::<bf16>::new(128);
    ///     wgmma_fence();
    ///     scores.add_product(&Operands { a: q, a_major: Major::K, b: k, b_major: Major::K }, false);
    ///     wgmma_commit();
    ///     wgmma_wait(0);
    ///     weights.set_sums(&scores);
    ///     wgmma_fence();
    ///     sums.add_product_of(&weights, v, Major::Mn, false);
    ///     wgmma_commit();
    ///     wgmma_wait(0);
    ///     for (row, column, pair) in sums.pairs() {
    ///         out.at(row * 64 + column).set_vec(pair);
    ///     }
    /// });
    /// let ptx = chained.required_block(128).ptx(&Target::new(Arch::SM_90A, (8, 0)))?;
    /// assert!(ptx.contains("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    #[track_caller]
    pub fn add_product_of(&self, a: &WarpgroupFragment<T>, b: Tile<T>, b_major: Major, keep: impl Operand<bool>) {
        check_major::<T>(b_major);
        let b = Descriptor::new(Factor::new(b, b_major));
        let a = Left::Registers(a.registers());
        multiply((product::<T>(), T::EITHER_MAJOR), &self.registers, a, &b, keep.val().raw());
    }

    /// Adds the product of two fragments to 8 columns, starting at `column`, of this warp's 16
    /// rows: `mma.sync`, whose accumulators have the same register layout. So code for the sums of
    /// a warpgroup works without `wgmma`, on sm_80, as well. The sums must have a value before, and
    /// no [`wgmma_fence`] or [`wgmma_wait`] is needed.
    ///
    /// ```
    /// use half::bf16;
    /// use warpfold_lang::{Arch, Global, Major, Swizzle, Target, WarpgroupSums, kernel, tiles, warp_id};
    /// // Four warps, 16 rows each.
    /// let product = kernel("product", |out: Global<f32>| {
    ///     let [a, b] = [64, 16].map(|rows| tiles::<bf16>(1, rows, 64, Swizzle::Bytes128));
    ///     let (rows, columns) = (a.lines_of_a(Major::K, warp_id(), 16), b.lines_of_b(Major::K, 0, 16));
    ///     let sums = WarpgroupSums::<bf16>::new(16);
    ///     sums.fill(0.0);
    ///     for k in [0, 16, 32, 48] {
    ///         let [low, high] = columns.fragments(0, k);
    ///         sums.add_fragments(0, rows.fragment(0, k), low);
    ///         sums.add_fragments(8, rows.fragment(0, k), high);
    ///     }
    ///     sums.pairs().for_each(|(row, column, pair)| out.at(row * 16 + column).set_vec(pair));
    /// });
    /// let ptx = product.required_block(128).ptx(&Target::new(Arch::SM_80, (7, 0)))?;
    /// assert!(ptx.contains("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    #[track_caller]
    pub fn add_fragments(&self, column: u32, a: Fragment<T, 4>, b: Fragment<T, 2>) {
        let registers = self.registers.chunks_exact(4).nth((column / 8) as usize);
        let Some(registers) = registers.filter(|_| column.is_multiple_of(8)) else {
            let (what, value) = ("the column of a fragment's sums".to_owned(), column.to_string());
            let expected = format!("a multiple of 8 below {}", self.columns());
            untyped::fail(ErrorKind::OutOfRange { what, value, expected });
            return;
        };
        untyped::mma(product::<T>(), std::array::from_fn(|i| registers[i]), &a.registers, &b.registers);
    }

    /// The positions of this thread's sums: a row of 64, and the column of each pair of neighbours.
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
        self.store_columns(0, pairs);
    }

    /// Like [`Self::store_pairs`], for as many columns as there are pairs, from `first`, a multiple
    /// of 16.
    #[track_caller]
    pub fn store_pairs_from(self, first: u32, pairs: &[Val<H::Pair>]) {
        let end = first + 4 * pairs.len() as u32;
        if self.rows() != 64 || end > self.columns() || !first.is_multiple_of(16) || !end.is_multiple_of(16) {
            untyped::fail(ErrorKind::Misuse(format!("columns {first} to {end} of a warpgroup are not in {self:?}")));
        }
        self.store_columns(first, pairs);
    }

    fn store_columns(self, first: u32, pairs: &[Val<H::Pair>]) {
        let row = (warp_id() & 3) * 16;
        for (block, words) in pairs.chunks_exact(4).enumerate() {
            let words = std::array::from_fn(|i| words[i].raw());
            store_16x16(self, row, Val::constant(first + 16 * block as u32), words);
        }
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
