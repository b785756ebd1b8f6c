//! Matrix products of a warp, in registers: `ldmatrix`, `stmatrix` and `mma.sync`.

use std::fmt;
use std::marker::PhantomData;

use super::multiplicand::{Multiplicand, Sum};
use super::shared::{Major, Tile};
use crate::intrinsics::matrix::Product;
use crate::recorder::{Raw, Reg};
use crate::types::{Element, Number, Scalar, Type};
use crate::{ErrorKind, HalfOfPair, Operand, Shared, Val, lane_id, untyped};

/// 8 rows by 32 bytes of `k` for each two of its `N` registers: a piece of A (`N` = 4: 16 rows) or
/// of B (`N` = 2: 8 columns), over the lanes as `mma.sync` wants it (PTX ISA, "Matrix Fragments for
/// mma").
#[derive(Debug)]
pub struct Fragment<T, const N: usize> {
    pub(super) registers: [Raw; N],
    element: PhantomData<fn() -> T>,
}

impl<T, const N: usize> Clone for Fragment<T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for Fragment<T, N> {}

impl<T, const N: usize> Fragment<T, N> {
    pub(super) const fn new(registers: [Raw; N]) -> Self {
        Self { registers, element: PhantomData }
    }
}

/// Variables for a fragment; see [`Fragment::var`].
#[derive(Debug)]
pub struct FragmentVar<T, const N: usize> {
    registers: [Reg; N],
    element: PhantomData<fn() -> T>,
}

impl<T, const N: usize> Fragment<T, N> {
    /// Makes a variable with this fragment as its first value: to load the next one while this is
    /// multiplied.
    #[track_caller]
    #[must_use]
    pub fn var(self) -> FragmentVar<T, N> {
        let registers = self.registers.map(|word| untyped::copy(Type::U32, word));
        FragmentVar { registers, element: PhantomData }
    }
}

impl<T, const N: usize> FragmentVar<T, N> {
    /// The current fragment; later changes do not affect it.
    #[track_caller]
    #[must_use]
    pub fn get(&self) -> Fragment<T, N> {
        Fragment::new(self.registers.map(|word| untyped::read(Type::U32, word)))
    }

    /// Assigns a new fragment.
    #[track_caller]
    pub fn set(&self, fragment: Fragment<T, N>) {
        for (register, word) in self.registers.iter().zip(fragment.registers) {
            untyped::assign(Type::U32, *register, word);
        }
    }
}

impl<H: Multiplicand + HalfOfPair> Fragment<H, 4> {
    /// Converts the sums of 16 columns, rounded to nearest even, to A of the next product: each
    /// lane keeps its own elements, so no data is exchanged.
    ///
    /// ```
    /// use half::bf16;
    /// use warpfold_lang::{Arch, Fragment, Global, Major, Swizzle, Target, WarpSums, kernel, tile};
    /// // (Q Kᵀ) V of a warp: the sums of the first product never leave its registers.
    /// let chained = kernel("chained", |out: Global<f32>| {
    ///     let [q, k, v] = [0, 1, 2].map(|_| tile::<bf16>(16, 64, Swizzle::Bytes128));
    ///     let scores = [0, 1].map(|_| WarpSums::<bf16>::zero());
    ///     let right = k.fragments_b(Major::K, 0, 0);
    ///     for (scores, right) in scores.iter().zip(right) {
    ///         scores.add_product(q.fragment_a(Major::K, 0, 0), right);
    ///     }
    ///     let sums = WarpSums::<bf16>::zero();
    ///     sums.add_product(Fragment::of_sums(scores), v.fragments_b(Major::Mn, 0, 0)[0]);
    ///     for (row, column, pair) in sums.pairs() {
    ///         out.at(row * 8 + column).set_vec(pair);
    ///     }
    /// });
    /// assert!(chained.required_block(32).ptx(&Target::new(Arch::SM_80, (7, 0)))?.contains("ldmatrix.sync.aligned.m8n8.x4.trans"));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn of_sums<T: Multiplicand<Sum = f32>>(columns: [WarpSums<T>; 2]) -> Self {
        let pair = |(_, _, [low, high]): (_, _, [Val<f32>; 2])| Val::<H::Pair>::from_f32(low, high).raw();
        let [[upper, lower], [upper_late, lower_late]] = columns.map(|sums| sums.pairs().map(pair));
        Self::new([upper, lower, upper_late, lower_late])
    }
}

/// Order of the four 8 x 8 matrices of a fragment: along the rows first, or along `k` first.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// A: rows first.
    RowsFirst,
    /// B: `k` first.
    StepsFirst,
}

/// The row that each lane addresses in `ldmatrix`: lanes `8 j` to `8 j + 7` hold the row addresses
/// of matrix `j`.
pub(super) struct Lanes {
    pub(super) row: Val<u32>,
    /// 1 for lanes of the lower matrices.
    pub(super) of_lines: Val<u32>,
    /// 1 for lanes of the later matrices along `k`.
    pub(super) of_steps: Val<u32>,
}

impl Lanes {
    pub(super) fn new(order: Order) -> Self {
        let lane = lane_id();
        let (row, middle, high) = (lane & 7, (lane >> 3) & 1, lane >> 4);
        match order {
            Order::RowsFirst => Self { row, of_lines: middle, of_steps: high },
            Order::StepsFirst => Self { row, of_lines: high, of_steps: middle },
        }
    }
}

impl<T: Multiplicand> Tile<T> {
    /// The fragment of A with its 16 rows from `row` and one step of `k` from `k` on, both counted
    /// in the matrix, whichever of them lies along the tile's columns.
    #[track_caller]
    #[must_use]
    pub fn fragment_a(self, major: Major, row: impl Operand<u32>, k: impl Operand<u32>) -> Fragment<T, 4> {
        Fragment::new(self.matrices(major, Order::RowsFirst, row.val(), k.val()))
    }

    /// Two fragments of B with 8 columns each, starting at `column`; see [`Self::fragment_a`].
    #[track_caller]
    #[must_use]
    pub fn fragments_b(self, major: Major, column: impl Operand<u32>, k: impl Operand<u32>) -> [Fragment<T, 2>; 2] {
        let [low, low_late, high, high_late] = self.matrices(major, Order::StepsFirst, column.val(), k.val());
        [Fragment::new([low, low_late]), Fragment::new([high, high_late])]
    }

    /// Loads matrices with each lane addressing one of the 32 rows of 16 bytes.
    fn matrices(self, major: Major, order: Order, position: Val<u32>, k: Val<u32>) -> [Raw; 4] {
        check_major::<T>(major);
        let Lanes { row, of_lines, of_steps } = Lanes::new(order);
        let half = T::STEP / 2;
        let pointer = match major {
            Major::K => self.at(position + row + of_lines * 8, k + of_steps * half),
            Major::Mn => self.at(k + row + of_steps * half, position + of_lines * 8),
        };
        untyped::load_matrices(pointer.location(), major == Major::Mn)
    }
}

/// Notes an error if the element type does not support the major dimension.
pub(super) fn check_major<T: Multiplicand>(major: Major) {
    if major == Major::Mn && !T::EITHER_MAJOR {
        let kind =
            ErrorKind::NoSuchOperation { what: "a product of tiles with k along their rows".into(), ty: T::TYPE };
        untyped::fail(kind);
    }
}

pub(super) const fn product<T: Multiplicand>() -> Product {
    Product { factor: T::NAME, sum: <T::Sum as Sum>::NAME, step: T::STEP, since: T::MMA_SINCE }
}

/// Loads four matrices of 8 rows of 16 bytes to a warp's registers: `ldmatrix`. Eight lanes point
/// to the rows of each matrix, the first eight to those of the first, which is the first word of
/// every lane: with [`Major::K`] lane `l` has four bytes of row `l / 4`, from `l % 4 * 4` on; with
/// [`Major::Mn`] the matrix is transposed, in elements of two bytes, and it has element `l / 4` of
/// the rows `l % 4 * 2` and the next.
///
/// For factors that are not yet what tensor cores multiply: of 8-bit elements the first has two
/// pairs of neighbours along `k`, the second pairs of two rows of A, one in the even bytes.
///
/// ```
/// use warpfold_lang::{Arch, Global, Major, Swizzle, Target, kernel, lane_id, load_matrices, tile};
/// let transposed = kernel("transposed", |out: Global<u32>| {
///     let tile = tile::<u8>(32, 128, Swizzle::Bytes128);
///     out.at(lane_id() * 4).set_vec(load_matrices(tile.at(lane_id(), 16), Major::Mn));
/// });
/// assert!(transposed.ptx(&Target::new(Arch::SM_80, (7, 0)))?.contains("ldmatrix.sync.aligned.m8n8.x4.trans.shared"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn load_matrices<T: Element>(from: Shared<T>, major: Major) -> [Val<u32>; 4] {
    untyped::load_matrices(from.location(), major == Major::Mn).map(Val::from_raw)
}

/// Stores two or four 8 x 8 matrices of 16-bit elements: `stmatrix`, the inverse of
/// [`load_matrices`] (sm_90).
///
/// ```
/// use half::bf16;
/// use warpfold_lang::{Arch, Bf16x2, Major, Swizzle, Target, Val, kernel, lane_id, store_matrices, tile};
/// let stored = kernel("stored", |pair: Val<u32>| {
///     let tile = tile::<bf16>(16, 64, Swizzle::Bytes128);
///     store_matrices(tile.at(lane_id() & 15, 0), [pair; 2], Major::Mn);
/// });
/// assert!(stored.ptx(&Target::new(Arch::SM_90A, (8, 0)))?.contains("stmatrix.sync.aligned.m8n8.x2.trans.shared"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
#[track_caller]
pub fn store_matrices<T: Element, const N: usize>(to: Shared<T>, words: [Val<u32>; N], major: Major) {
    const { assert!(N == 2 || N == 4, "two or four matrices are stored at once") };
    untyped::store_matrices(to.location(), &words.map(Val::raw), major == Major::Mn);
}

/// 16 x 8 sums of a warp, four per lane.
pub struct WarpSums<T: Multiplicand> {
    registers: [Reg; 4],
    element: PhantomData<fn() -> T>,
}

impl<T: Multiplicand> WarpSums<T> {
    /// Sums initialised to zero.
    #[track_caller]
    #[must_use]
    pub fn zero() -> Self {
        let zero = Raw::Const(Scalar::to_bits(<T::Sum as Number>::ZERO));
        let registers = std::array::from_fn(|_| untyped::copy(<T::Sum as Scalar>::TYPE, zero));
        Self { registers, element: PhantomData }
    }

    /// Adds the product of two fragments: `mma.sync`.
    #[track_caller]
    pub fn add_product(self, a: Fragment<T, 4>, b: Fragment<T, 2>) {
        untyped::mma(product::<T>(), self.registers, &a.registers, &b.registers);
    }

    /// Changes every sum by a function of its row (0 for the lane's upper one, 1 for that 8 rows
    /// below), its distance from the lane's first column, and itself.
    #[track_caller]
    pub fn update(self, f: impl Fn(usize, u32, Val<T::Sum>) -> Val<T::Sum>) {
        for (i, register) in self.registers.into_iter().enumerate() {
            let sum = Val::from_raw(untyped::read(<T::Sum as Scalar>::TYPE, register));
            let value = f(i / 2, i as u32 % 2, sum).raw();
            untyped::assign(<T::Sum as Scalar>::TYPE, register, value);
        }
    }

    /// The sums of this lane: row and column in the 16 x 8 block, and two neighbours of the row.
    #[track_caller]
    #[must_use]
    pub fn pairs(self) -> [(Val<u32>, Val<u32>, [Val<T::Sum>; 2]); 2] {
        let lane = lane_id();
        let (row, column) = (lane >> 2, (lane & 3) * 2);
        let get = |i: usize| Val::from_raw(untyped::read(<T::Sum as Scalar>::TYPE, self.registers[i]));
        [(row, column, [get(0), get(1)]), (row + 8, column, [get(2), get(3)])]
    }
}

/// Stores 16 rows of 16 columns of 16-bit elements from the registers of a warp, laid out as four 8
/// x 8 matrices: upper left, lower left, upper right, lower right (PTX ISA, `stmatrix`; sm_90).
#[track_caller]
pub(super) fn store_16x16<H: HalfOfPair>(tile: Tile<H>, row: Val<u32>, column: Val<u32>, words: [Raw; 4]) {
    let lane = lane_id();
    let to: Shared<H> = tile.at(row + (lane & 15), column + (lane >> 4) * 8);
    untyped::store_matrices(to.location(), &words, false);
}

impl<T: Multiplicand> Clone for WarpSums<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Multiplicand> Copy for WarpSums<T> {}

impl<T: Multiplicand> fmt::Debug for WarpSums<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarpSums<{:?}>({:?})", T::TYPE, self.registers)
    }
}
