//! Operand A of a warpgroup's products, in registers (PTX ISA, "Register Fragments" of
//! `wgmma.mma_async`; sm_90a).

use std::fmt;
use std::marker::PhantomData;

use super::fragment::Fragment;
use super::multiplicand::Multiplicand;
use super::shared::{Major, Tile};
use super::warpgroup::WarpgroupSums;
use crate::recorder::{Raw, Reg};
use crate::types::{Scalar, Type};
use crate::{EightBitFloat, ErrorKind, HalfOfPair, Val, untyped, warp_id};

/// 64 rows of A, `depth` elements of `k` each, in the registers of a warpgroup: four registers a
/// thread for each step of 32 bytes. For [`WarpgroupSums::add_product_of`].
///
/// The registers change: they keep their names, so that a fragment is set in one round of a loop
/// and multiplied in the next. They have no value at first. A product reads them in the background,
/// so they may be set again only after the [`wgmma_wait`](crate::wgmma_wait) that covers it, and a
/// [`wgmma_fence`](crate::wgmma_fence) comes between setting them and the product.
pub struct WarpgroupFragment<T> {
    registers: Vec<Reg>,
    element: PhantomData<fn() -> T>,
}

impl<T: Multiplicand> WarpgroupFragment<T> {
    /// Declares registers for `depth` elements of `k`, a multiple of [`Multiplicand::STEP`].
    #[track_caller]
    #[must_use]
    pub fn new(depth: u32) -> Self {
        if depth == 0 || !depth.is_multiple_of(T::STEP) {
            let (what, value) = ("the depth of a warpgroup's fragment".to_owned(), depth.to_string());
            untyped::fail(ErrorKind::OutOfRange { what, value, expected: format!("a multiple of {}", T::STEP) });
        }
        let registers = (0..4 * depth.div_ceil(T::STEP)).map(|_| untyped::register(Type::U32)).collect();
        Self { registers, element: PhantomData }
    }

    /// Number of elements along `k`.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.registers.len() as u32 / 4 * T::STEP
    }

    pub(super) fn registers(&self) -> &[Reg] {
        &self.registers
    }

    /// This warp's current 16 rows of the step from `k`, a multiple of [`Multiplicand::STEP`] below
    /// the depth: for `mma.sync`, which a warp executes by itself.
    #[track_caller]
    #[must_use]
    pub fn of_warp(&self, k: u32) -> Fragment<T, 4> {
        let step = (k / T::STEP) as usize;
        let registers = self.registers.chunks_exact(4).nth(step).filter(|_| k.is_multiple_of(T::STEP));
        let Some(registers) = registers else {
            let (depth, step) = (self.depth(), T::STEP);
            let (what, value) = ("the step of a fragment".to_owned(), k.to_string());
            let expected = format!("a multiple of {step} below {depth}");
            untyped::fail(ErrorKind::OutOfRange { what, value, expected });
            return Fragment::new([Raw::Const(0); 4]);
        };
        Fragment::new(std::array::from_fn(|i| untyped::read(Type::U32, registers[i])))
    }

    /// Loads a tile of 64 rows of A: `ldmatrix`. An operand that is reused, such as the queries of
    /// attention, is then read from shared memory once.
    #[track_caller]
    pub fn load(&self, tile: Tile<T>, major: Major) {
        let (rows, depth) =
            if major == Major::K { (tile.rows(), tile.columns()) } else { (tile.columns(), tile.rows()) };
        if rows != 64 || depth != self.depth() {
            let own = self.depth();
            untyped::fail(ErrorKind::Misuse(format!("{rows} x {depth} of A do not fill a fragment of 64 x {own}")));
            return;
        }
        let row = (warp_id() & 3) * 16;
        for (step, registers) in self.registers.chunks_exact(4).enumerate() {
            let Fragment { registers: words, .. } = tile.fragment_a(major, row, T::STEP * step as u32);
            registers.iter().zip(words).for_each(|(register, word)| untyped::assign(Type::U32, *register, word));
        }
    }
}

impl<H: Multiplicand + HalfOfPair> WarpgroupFragment<H> {
    /// Sets the fragment to sums, rounded to nearest even: a product of `depth` columns becomes A
    /// of the next one. Each thread keeps its own elements, so no data is exchanged (8-bit elements
    /// have another layout: [`Self::set_sums_by_fours`]).
    #[track_caller]
    pub fn set_sums<T: Multiplicand<Sum = f32>>(&self, sums: &WarpgroupSums<T>) {
        let read = |register: Reg| Val::<f32>::from_raw(untyped::read(f32::TYPE, register));
        let pairs = sums.registers.chunks_exact(2).map(|pair| Val::from_f32(read(pair[0]), read(pair[1])));
        self.set_pairs(&pairs.collect::<Vec<_>>());
    }

    /// Sets the fragment to pairs in the order of [`WarpgroupSums::pairs`], for sums with `depth`
    /// columns.
    #[track_caller]
    pub fn set_pairs(&self, pairs: &[Val<H::Pair>]) {
        if pairs.len() != self.registers.len() {
            let (columns, own) = (4 * pairs.len(), self.depth());
            untyped::fail(ErrorKind::Misuse(format!("{columns} columns do not fill a fragment of depth {own}")));
        }
        for (register, pair) in self.registers.iter().zip(pairs) {
            untyped::assign(Type::U32, *register, pair.raw());
        }
    }
}

impl<F: Multiplicand + EightBitFloat> WarpgroupFragment<F> {
    /// Sets it to sums, rounded to nearest even and saturated: what a product of `depth` columns
    /// left becomes A of the next one. Each thread keeps its own elements, so nothing is exchanged;
    /// but 8-bit elements lie by fours where sums lie by twos. So its elements along `k` are the
    /// columns of the sums in the order of [`Self::column`], and B has its own in that order, too.
    ///
    /// ```
    /// use warpfold_lang::{
    ///     Arch, F8E4M3, Global, Major, Operands, Swizzle, Target, WarpgroupFragment, WarpgroupSums, kernel, tile,
    ///     wgmma_commit, wgmma_fence, wgmma_wait,
    /// };
    /// // (Q Kᵀ) V, where row `n` of the last tile is column `n` of V, its elements in the order of the fragment.
    /// let chained = kernel("chained", |out: Global<f32>| {
    ///     let [q, k] = [64, 128].map(|rows| tile::<F8E4M3>(rows, 64, Swizzle::Bytes64));
    ///     let v = tile::<F8E4M3>(64, 128, Swizzle::Bytes128);
    ///     let (scores, sums) = (WarpgroupSums::<F8E4M3>::new(128), WarpgroupSums::<F8E4M3>::new(64));
    ///     let weights = WarpgroupFragment::<F8E4M3>::new(128);
    ///     wgmma_fence();
    ///     scores.add_product(&Operands { a: q, a_major: Major::K, b: k, b_major: Major::K }, false);
    ///     wgmma_commit();
    ///     wgmma_wait(0);
    ///     weights.set_sums_by_fours(&scores);
    ///     wgmma_fence();
    ///     sums.add_product_of(&weights, v, Major::K, false);
    ///     wgmma_commit();
    ///     wgmma_wait(0);
    ///     for (row, column, pair) in sums.pairs() {
    ///         out.at(row * 64 + column).set_vec(pair);
    ///     }
    /// });
    /// let ptx = chained.required_block(128).ptx(&Target::new(Arch::SM_90A, (8, 0)))?;
    /// assert!(ptx.contains("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    #[track_caller]
    pub fn set_sums_by_fours<T: Multiplicand<Sum = f32>>(&self, sums: &WarpgroupSums<T>) {
        if sums.columns() != self.depth() {
            let (columns, own) = (sums.columns(), self.depth());
            untyped::fail(ErrorKind::Misuse(format!("{columns} columns do not fill a fragment of depth {own}")));
            return;
        }
        let read = |register: Reg| Val::<f32>::from_raw(untyped::read(f32::TYPE, register));
        // Of 16 columns: two pairs of the upper row, two of the lower one, in turns.
        for (registers, sums) in self.registers.chunks_exact(2).zip(sums.registers.chunks_exact(8)) {
            let [upper, lower] = [[0, 1, 4, 5], [2, 3, 6, 7]].map(|four| four.map(|i| read(sums[i])));
            for (register, four) in registers.iter().zip([upper, lower]) {
                untyped::assign(Type::U32, *register, Val::<u32>::pack_eight_bits::<F>(four).raw());
            }
        }
    }

    /// The column of sums that is the element `k` of a fragment that was set to them: another order
    /// inside of each 16.
    #[must_use]
    pub const fn column(k: u32) -> u32 {
        let (thread, i) = (k % 16 / 4, k % 4);
        k - k % 16 + 8 * (i / 2) + 2 * thread + i % 2
    }
}

impl<T: Multiplicand> fmt::Debug for WarpgroupFragment<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarpgroupFragment<{:?}>(64 x {})", T::TYPE, self.depth())
    }
}
