//! Branches and loops of the running kernel. A Rust `if` selects code while recording, a Rust `for` unrolls.

use crate::intrinsics::{Binary, Comparison, arithmetic, compare, control, convert};
use crate::recorder::{Raw, with};
use crate::registers::{FixedRegisters, Registers};
use crate::types::Integer;
use crate::{Operand, Val};

/// Runs `body` in a scope of its own: values made in it end with it.
fn scoped<R>(body: impl FnOnce() -> R) -> R {
    with(crate::recorder::Recorder::open_scope);
    let result = body();
    with(crate::recorder::Recorder::close_scope);
    result
}

fn label_number() -> u32 {
    with(crate::recorder::Recorder::label_number)
}

/// Runs `body` where the condition holds.
#[track_caller]
pub fn when(condition: impl Operand<bool>, body: impl FnOnce()) {
    let condition = condition.val();
    match condition.known() {
        Some(true) => return scoped(body),
        Some(false) => return,
        None => {}
    }
    let end = format!("$end_{}", label_number());
    with(|r| control::branch_if(r, condition.raw(), false, &end));
    scoped(body);
    with(|r| control::label(r, &end));
}

/// Runs one of two branches and gives what it returns: nothing, a value, or a tuple of values.
///
/// ```
/// use warpfold_lang::{Arch, Global, Target, Val, kernel, when_else};
/// let root = kernel("root", |x: Global<f32>| {
///     let value = x.get();
///     let scaled = when_else(value.lt(1.0), || value * 2.0, || value + 1.0);
///     x.set(scaled);
/// });
/// assert!(root.build(&Target::new(Arch::SM_80, (7, 0))).is_ok());
/// ```
#[track_caller]
pub fn when_else<R: FixedRegisters>(
    condition: impl Operand<bool>,
    then: impl FnOnce() -> R,
    otherwise: impl FnOnce() -> R,
) -> R {
    when_else_like(R::any(), condition, then, otherwise)
}

/// [`when_else`], for registers of which only a value, here `like`, knows the types.
#[track_caller]
pub fn when_else_like<R: Registers>(
    like: R,
    condition: impl Operand<bool>,
    then: impl FnOnce() -> R,
    otherwise: impl FnOnce() -> R,
) -> R {
    let condition = condition.val();
    match condition.known() {
        Some(true) => return then(),
        Some(false) => return otherwise(),
        None => {}
    }
    let result = like.declare();
    let number = label_number();
    let (other, end) = (format!("$else_{number}"), format!("$end_{number}"));
    with(|r| control::branch_if(r, condition.raw(), false, &other));
    scoped(|| R::assign(result, then()));
    with(|r| {
        control::branch(r, &end);
        control::label(r, &other);
    });
    scoped(|| R::assign(result, otherwise()));
    with(|r| control::label(r, &end));
    R::read(result)
}

/// Runs `body` as long as `condition`, evaluated before each round, holds.
#[track_caller]
pub fn while_loop<C: Operand<bool>>(condition: impl FnOnce() -> C, body: impl FnOnce()) {
    let number = label_number();
    let (start, end) = (format!("$loop_{number}"), format!("$end_{number}"));
    with(|r| control::label(r, &start));
    scoped(|| {
        let condition = condition().val();
        with(|r| control::branch_if(r, condition.raw(), false, &end));
        body();
    });
    with(|r| {
        control::branch(r, &start);
        control::label(r, &end);
    });
}

/// Runs `body` for `start`, `start + step`, … as long as it is less than `end`.
///
/// `step` must be positive, and the last `i + step` must fit the type: near the end of its range the sum would wrap
/// and the loop begin anew (count in `u64` then).
#[track_caller]
pub fn range<T: Integer>(
    start: impl Operand<T>,
    end: impl Operand<T>,
    step: impl Operand<T>,
    body: impl FnOnce(Val<T>),
) {
    let (start, end, step) = (start.val().raw(), end.val().raw(), step.val().raw());
    let number = label_number();
    let (top, after) = (format!("$loop_{number}"), format!("$end_{number}"));
    let index = with(|r| {
        let some = compare::compare(r, Comparison::Lt, T::TYPE, start, end);
        control::branch_if(r, some, false, &after);
        let index = convert::copy(r, T::TYPE, start);
        control::label(r, &top);
        index
    });
    scoped(|| body(Val::from_raw(Raw::Reg(index))));
    with(|r| {
        let next = arithmetic::binary(r, Binary::Add, T::TYPE, Raw::Reg(index), step);
        convert::assign(r, T::TYPE, index, next);
        let more = compare::compare(r, Comparison::Lt, T::TYPE, Raw::Reg(index), end);
        control::branch_if(r, more, true, &top);
        control::label(r, &after);
    });
}

/// A loop that runs until it is left; see [`loop_until_left`].
#[derive(Debug)]
pub struct Loop {
    number: u32,
}

/// Runs `body` again and again until it leaves.
///
/// ```
/// use warpfold_lang::{Arch, Global, Order, Scope, Target, kernel, loop_until_left};
/// let wait = kernel("wait", |flag: Global<u32>| {
///     loop_until_left(|spin| {
///         let seen = flag.load(Order::Acquire, Scope::Gpu);
///         spin.leave_if(seen.ne(0));
///     });
/// });
/// assert!(wait.build(&Target::new(Arch::SM_80, (7, 0))).is_ok());
/// ```
#[track_caller]
pub fn loop_until_left(body: impl FnOnce(&Loop)) {
    let this = Loop { number: label_number() };
    with(|r| control::label(r, &this.start()));
    scoped(|| body(&this));
    with(|r| {
        control::branch(r, &this.start());
        control::label(r, &this.end());
    });
}

impl Loop {
    fn start(&self) -> String {
        format!("$loop_{}", self.number)
    }

    fn end(&self) -> String {
        format!("$end_{}", self.number)
    }

    /// Leaves the loop where the condition holds.
    #[track_caller]
    pub fn leave_if(&self, condition: impl Operand<bool>) {
        let condition = condition.val();
        with(|r| control::branch_if(r, condition.raw(), true, &self.end()));
    }

    /// Starts the next round where the condition holds.
    #[track_caller]
    pub fn again_if(&self, condition: impl Operand<bool>) {
        let condition = condition.val();
        with(|r| control::branch_if(r, condition.raw(), true, &self.start()));
    }
}

/// `n`, `n / 2`, … down to 1, known while recording: the strides of a tree.
///
/// ```
/// assert_eq!(warpfold_lang::halving(8).collect::<Vec<_>>(), [8, 4, 2, 1]);
/// ```
pub fn halving(n: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(n), |n| Some(n / 2)).take_while(|n| *n > 0)
}

/// 1, 2, 4, … below `n`, known while recording.
///
/// ```
/// assert_eq!(warpfold_lang::doubling(8).collect::<Vec<_>>(), [1, 2, 4]);
/// ```
pub fn doubling(n: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1_u32), |i| i.checked_mul(2)).take_while(move |i| *i < n)
}

/// Ends this thread. Its block's barriers no longer wait for it.
#[track_caller]
pub fn exit() {
    with(control::exit);
}

/// Stops the grid with an error that the host sees.
#[track_caller]
pub fn trap() {
    with(control::trap);
}
