//! The sums of a warpgroup between products: read, changed, and folded along their rows.
//!
//! A thread has sums of two rows, `r` and `r + 8`, and four neighbouring lanes, a quad, have all of
//! a row (PTX ISA, "Register Fragments" of `wgmma.mma_async`, accumulator D).

use super::multiplicand::Multiplicand;
use super::warpgroup::WarpgroupSums;
use crate::recorder::Reg;
use crate::registers::Registers;
use crate::types::{Number, Scalar};
use crate::{ErrorKind, Operand, Val, lane_id, shfl_xor, untyped, warp_id};

/// Folds the values of the four lanes of a quad; each lane gets the result. `f` must be commutative
/// and associative, or the lanes' results differ: a maximum, or a sum, whose order is `(0 + 1) + (2
/// + 3)`.
///
/// ```
/// use warpfold_lang::{Arch, Global, Target, Val, fold_quad, kernel, lane_id};
/// let sums = kernel("sums", |data: Global<f32>| {
///     let own = data.at(lane_id());
///     own.set(fold_quad(own.get(), |a: Val<f32>, b| a + b));
/// });
/// assert!(sums.ptx(&Target::new(Arch::SM_80, (7, 0)))?.contains("shfl.sync.bfly"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn fold_quad<R: Registers>(value: R, f: impl Fn(R, R) -> R) -> R {
    [1, 2].into_iter().fold(value, |value, bits: u32| f(value, shfl_xor(value, bits)))
}

impl<T: Multiplicand> WarpgroupSums<T> {
    fn read(register: Reg) -> Val<T::Sum> {
        Val::from_raw(untyped::read(<T::Sum as Scalar>::TYPE, register))
    }

    /// The thread's two rows of the 64.
    #[track_caller]
    #[must_use]
    pub fn rows() -> [Val<u32>; 2] {
        let row = (warp_id() & 3) * 16 + (lane_id() >> 2);
        [row, row + 8]
    }

    /// The thread's first column. [`update`](Self::update) gives the distances of the others, known
    /// while recording: compare a bound on columns as `bound - first_column`, once per row.
    #[track_caller]
    #[must_use]
    pub fn first_column() -> Val<u32> {
        (lane_id() & 3) * 2
    }

    /// Returns a register's row (of the thread's two) and its distance from the first column.
    const fn place(index: usize) -> (usize, u32) {
        (index / 2 % 2, (8 * (index / 4) + index % 2) as u32)
    }

    /// Sets every sum to a value.
    #[track_caller]
    pub fn fill(&self, value: impl Operand<T::Sum>) {
        let value = value.val().raw();
        for register in &self.registers {
            untyped::assign(<T::Sum as Scalar>::TYPE, *register, value);
        }
    }

    /// Changes every sum by a function of its row (0 or 1: see [`rows`](Self::rows)), its distance
    /// from the thread's [first column](Self::first_column), and itself.
    ///
    /// ```
    /// use half::bf16;
    /// use warpfold_lang::{Arch, Global, Target, Val, WarpgroupSums, kernel};
    /// // A causal mask: a row sees the columns up to its own number.
    /// let mask = kernel("mask", |out: Global<f32>| {
    ///     let sums = WarpgroupSums::<bf16>::new(64);
    ///     sums.fill(1.0);
    ///     let limits = WarpgroupSums::<bf16>::rows().map(|row| row.cast::<i32>() - WarpgroupSums::<bf16>::first_column().cast::<i32>());
    ///     sums.update(|row, column, sum| limits[row].ge(column as i32).select(sum, f32::NEG_INFINITY));
    ///     sums.pairs().for_each(|(row, column, pair)| out.at(row * 64 + column).set_vec(pair));
    /// });
    /// assert!(mask.required_block(128).build(&Target::new(Arch::SM_90A, (8, 0))).is_ok());
    /// ```
    #[track_caller]
    pub fn update(&self, f: impl Fn(usize, u32, Val<T::Sum>) -> Val<T::Sum>) {
        for (i, register) in self.registers.iter().enumerate() {
            let (row, column) = Self::place(i);
            let value = f(row, column, Self::read(*register)).raw();
            untyped::assign(<T::Sum as Scalar>::TYPE, *register, value);
        }
    }

    /// Multiplies each of the thread's two rows by a factor of its own.
    #[track_caller]
    pub fn scale_rows(&self, factors: [Val<T::Sum>; 2])
    where
        T::Sum: Number,
    {
        self.update(|row, _, sum| sum * factors[row]);
    }

    /// Sets the thread's sums of one of its two rows, from left to right: see
    /// [`row_values`](Self::row_values).
    #[track_caller]
    pub fn set_row(&self, row: usize, values: &[Val<T::Sum>]) {
        let registers = self.registers.iter().enumerate().filter(|(i, _)| Self::place(*i).0 == row);
        if 4 * values.len() as u32 != self.columns() {
            let (found, own) = (values.len(), self.columns() / 4);
            untyped::fail(ErrorKind::Misuse(format!("{found} values for a row of which a thread has {own}")));
        }
        for ((_, register), value) in registers.zip(values) {
            untyped::assign(<T::Sum as Scalar>::TYPE, *register, value.raw());
        }
    }

    /// Folds the thread's sums of each of its two rows from left to right; combine the threads of a
    /// row with [`fold_quad`].
    ///
    /// ```
    /// use half::bf16;
    /// use warpfold_lang::{Arch, Global, Target, Val, WarpgroupSums, fold_quad, kernel};
    /// let largest = kernel("largest", |out: Global<f32>| {
    ///     let sums = WarpgroupSums::<bf16>::new(64);
    ///     sums.fill(1.0);
    ///     let rows = fold_quad(sums.fold_rows(Val::max), |a, b| [a[0].max(b[0]), a[1].max(b[1])]);
    ///     for (row, value) in WarpgroupSums::<bf16>::rows().into_iter().zip(rows) {
    ///         out.at(row).set(value);
    ///     }
    /// });
    /// assert!(largest.required_block(128).build(&Target::new(Arch::SM_90A, (8, 0))).is_ok());
    /// ```
    #[track_caller]
    #[must_use]
    pub fn fold_rows(&self, f: impl Fn(Val<T::Sum>, Val<T::Sum>) -> Val<T::Sum>) -> [Val<T::Sum>; 2] {
        let [first, second] = self.row_values().map(|row| row.into_iter().reduce(&f));
        [first, second].map(|row| row.unwrap_or_else(|| Val::constant(<T::Sum as Number>::ZERO)))
    }

    /// The current sums of each of the thread's two rows, from left to right.
    #[track_caller]
    #[must_use]
    pub fn row_values(&self) -> [Vec<Val<T::Sum>>; 2] {
        let mut rows = [Vec::new(), Vec::new()];
        for (i, register) in self.registers.iter().enumerate() {
            rows[Self::place(i).0].push(Self::read(*register));
        }
        rows
    }
}
