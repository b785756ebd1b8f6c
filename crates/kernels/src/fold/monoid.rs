//! What a fold needs to know about its operation.

use warpfold_lang::{Element, Registers, Val};

/// An identity and an associative combine over values held in registers, with the way in and the way out.
///
/// ```
/// use warpfold_kernels::fold::Monoid;
/// use warpfold_lang::Val;
///
/// /// The sum of squares.
/// #[derive(Clone, Copy)]
/// struct Energy;
///
/// impl Monoid for Energy {
///     type Element = f32;
///     type Acc = Val<f32>;
///     type Output = f32;
///     const COMMUTES: bool = true;
///
///     fn identity(self) -> Val<f32> {
///         Val::constant(0.0)
///     }
///     fn combine(self, left: Val<f32>, right: Val<f32>) -> Val<f32> {
///         left + right
///     }
///     fn lift(self, element: Val<f32>, _: Val<u64>) -> Val<f32> {
///         element * element
///     }
///     fn finish(self, acc: Val<f32>, _: Val<u64>) -> Val<f32> {
///         acc
///     }
/// }
/// ```
pub trait Monoid: Copy + Send + Sync + 'static {
    /// What is folded.
    type Element: Element;
    /// What is carried: one register, or a tuple of them.
    type Acc: Registers;
    /// What comes out.
    type Output: Element;
    /// Whether `combine(a, b)` is `combine(b, a)`, so that a fold may reorder.
    const COMMUTES: bool;

    /// The accumulator of nothing: `combine(identity(), a) == a == combine(a, identity())`.
    fn identity(self) -> Self::Acc;

    /// The accumulator of everything in `left`, then everything in `right`. Associative; for floats up to rounding.
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc;

    /// The accumulator of one element at its position in the whole.
    fn lift(self, element: Val<Self::Element>, index: Val<u64>) -> Self::Acc;

    /// The result of a fold over `count` elements.
    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Val<Self::Output>;
}
