//! What a fold needs to know about its operation.

use warpfold_lang::{FixedRegisters, Val};

/// An identity and an associative combine over values held in registers, with the map of items to
/// accumulators and of accumulators to results.
///
/// ```
/// use warpfold_kernels::fold::{Monoid, Position};
/// use warpfold_lang::Val;
///
/// /// The sum of squares.
/// #[derive(Clone, Copy)]
/// struct Energy;
///
/// impl Monoid for Energy {
///     type Item = Val<f32>;
///     type Acc = Val<f32>;
///     type Output = Val<f32>;
///     const COMMUTES: bool = true;
///
///     fn identity(self) -> Val<f32> {
///         Val::constant(0.0)
///     }
///     fn combine(self, left: Val<f32>, right: Val<f32>) -> Val<f32> {
///         left + right
///     }
///     fn lift(self, item: Val<f32>, _: Position) -> Val<f32> {
///         item * item
///     }
///     fn finish(self, acc: Val<f32>, _: Val<u64>) -> Val<f32> {
///         acc
///     }
/// }
/// ```
pub trait Monoid: Copy + Send + Sync + 'static {
    /// What is folded: one register, or a tuple of them.
    type Item: FixedRegisters + 'static;
    /// What is carried.
    type Acc: FixedRegisters + 'static;
    /// What comes out.
    type Output: FixedRegisters + 'static;
    /// Whether `combine(a, b)` is `combine(b, a)`, so that a fold may take items in another order
    /// than theirs.
    const COMMUTES: bool;
    /// Whether `lift` looks at the position. If not, and if it commutes, the dimensions of a tensor
    /// may be walked in the order of memory.
    const USES_POSITION: bool = true;

    /// The accumulator of nothing: `combine(identity(), a) == a == combine(a, identity())`.
    fn identity(self) -> Self::Acc;

    /// The accumulator of everything in `left`, then everything in `right`. Associative; for floats
    /// up to rounding.
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc;

    /// The accumulator of one item at its position in the whole.
    fn lift(self, item: Self::Item, position: Position) -> Self::Acc;

    /// The result of a fold over `count` items.
    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Self::Output;

    /// `combine(acc, lift(item, position))`, for an item after all that `acc` has folded, and
    /// perhaps with fewer instructions.
    fn push(self, acc: Self::Acc, item: Self::Item, position: Position) -> Self::Acc {
        self.combine(acc, self.lift(item, position))
    }

    /// [`Monoid::push`] of neighbouring items, the first of them at a position, and perhaps with
    /// fewer instructions or less rounding. Their number is a power of two.
    fn push_all(self, acc: Self::Acc, items: &[Self::Item], first: Position) -> Self::Acc {
        items.iter().zip(0..).fold(acc, |acc, (item, i)| self.push(acc, *item, first.plus(i)))
    }

    /// The fold over the 32 lanes of a warp, in lane 0 at least, where there is a better way than
    /// to combine pairs: an instruction (`redux`), or steps that each pair would repeat. All lanes
    /// come here together.
    fn fold_lanes(self, acc: Self::Acc) -> Option<Self::Acc> {
        let _ = acc;
        None
    }
}

/// The position of an item in what is folded, counted from 0 in C order of the reduced dimensions.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    start: Val<u64>,
    offset: u64,
}

impl Position {
    /// `offset` positions after `start`.
    #[must_use]
    pub const fn new(start: Val<u64>, offset: u64) -> Self {
        Self { start, offset }
    }

    /// The position `items` further on.
    #[must_use]
    pub const fn plus(self, items: u64) -> Self {
        Self { start: self.start, offset: self.offset + items }
    }

    /// As a number; costs an instruction where it is asked for, and nothing where not.
    #[track_caller]
    #[must_use]
    pub fn index(self) -> Val<u64> {
        if self.offset == 0 { self.start } else { self.start + self.offset }
    }
}
