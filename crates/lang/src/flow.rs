//! Branches and loops of the running kernel. A Rust `if` selects code while recording, a Rust `for`
//! unrolls.

use crate::intrinsics::{Binary, Comparison, arithmetic, compare, control, convert};
use crate::recorder::{Raw, Reg, with};
use crate::registers::{FixedRegisters, Registers};
use crate::types::{Integer, Type};
use crate::{ErrorKind, Operand, Val, untyped};

// Each construct is a thin generic function around what its closure records: what comes before and
// after is recorded by functions that are compiled once, and every closure is called in one place.

fn label_number() -> u32 {
    with(crate::recorder::Recorder::label_number)
}

/// A branch that is being recorded.
struct Branch {
    /// The number of its label; none if the branch is always taken.
    number: Option<u32>,
}

impl Branch {
    /// Begins what runs where the condition holds, in a scope of its own: values made in it end
    /// with it. None if it never holds.
    #[track_caller]
    #[inline(never)]
    fn begin(condition: Raw) -> Option<Self> {
        let number = match condition {
            Raw::Const(0) => return None,
            Raw::Const(_) => None,
            Raw::Reg(_) => Some(label_number()),
        };
        with(|r| {
            if let Some(number) = number {
                control::branch_if(r, condition, false, &format!("$end_{number}"));
            }
            r.open_scope();
        });
        Some(Self { number })
    }

    #[track_caller]
    #[inline(never)]
    fn end(self) {
        with(|r| {
            r.close_scope();
            if let Some(number) = self.number {
                control::label(r, &format!("$end_{number}"));
            }
        });
    }
}

/// Runs `body` where the condition holds.
#[track_caller]
pub fn when(condition: impl Operand<bool>, body: impl FnOnce()) {
    if let Some(branch) = Branch::begin(condition.val().raw()) {
        body();
        branch.end();
    }
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

/// Two branches that are being recorded.
#[derive(Clone, Copy)]
enum Branches {
    /// One of them, known while recording.
    Known(bool),
    /// Both, with the number of their labels.
    Both(u32),
}

impl Branches {
    #[track_caller]
    #[inline(never)]
    fn begin(condition: Raw) -> Self {
        let number = match condition {
            Raw::Const(bits) => return Self::Known(bits == 1),
            Raw::Reg(_) => label_number(),
        };
        with(|r| {
            control::branch_if(r, condition, false, &format!("$else_{number}"));
            r.open_scope();
        });
        Self::Both(number)
    }

    #[track_caller]
    #[inline(never)]
    fn otherwise(self) {
        let Self::Both(number) = self else { return };
        with(|r| {
            r.close_scope();
            control::branch(r, &format!("$end_{number}"));
            control::label(r, &format!("$else_{number}"));
            r.open_scope();
        });
    }

    #[track_caller]
    #[inline(never)]
    fn end(self) {
        let Self::Both(number) = self else { return };
        with(|r| {
            r.close_scope();
            control::label(r, &format!("$end_{number}"));
        });
    }

    const fn has(self, side: bool) -> bool {
        match self {
            Self::Known(known) => known == side,
            Self::Both(_) => true,
        }
    }
}

/// [`when_else`], for registers of which only a value, here `like`, knows the types.
#[track_caller]
pub fn when_else_like<R: Registers>(
    like: R,
    condition: impl Operand<bool>,
    then: impl FnOnce() -> R,
    otherwise: impl FnOnce() -> R,
) -> R {
    let condition = condition.val().raw();
    // A branch that is known returns what it returns; of two, each assigns the same variables.
    let vars = matches!(condition, Raw::Reg(_)).then(|| like.declare());
    let mut result = like;
    let branches = Branches::begin(condition);
    if branches.has(true) {
        result = then();
        vars.inspect(|vars| R::assign(*vars, result));
    }
    branches.otherwise();
    if branches.has(false) {
        result = otherwise();
        vars.inspect(|vars| R::assign(*vars, result));
    }
    branches.end();
    vars.map_or(result, R::read)
}

/// A loop that is being recorded, by the number of its labels.
#[derive(Clone, Copy)]
struct Labels {
    number: u32,
}

impl Labels {
    fn start(self) -> String {
        format!("$loop_{}", self.number)
    }

    fn end(self) -> String {
        format!("$end_{}", self.number)
    }

    /// Begins a round.
    #[track_caller]
    #[inline(never)]
    fn begin() -> Self {
        let labels = Self { number: label_number() };
        with(|r| {
            control::label(r, &labels.start());
            r.open_scope();
        });
        labels
    }

    /// Branches if the condition has the value `is`: to the end, or to the start.
    #[track_caller]
    #[inline(never)]
    fn branch_if(self, condition: Raw, is: bool, to_end: bool) {
        with(|r| control::branch_if(r, condition, is, &if to_end { self.end() } else { self.start() }));
    }

    /// Ends a round: the next one follows.
    #[track_caller]
    #[inline(never)]
    fn finish(self) {
        with(|r| {
            r.close_scope();
            control::branch(r, &self.start());
            control::label(r, &self.end());
        });
    }
}

/// Runs `body` as long as `condition`, evaluated before each round, holds.
#[track_caller]
pub fn while_loop<C: Operand<bool>>(condition: impl FnOnce() -> C, body: impl FnOnce()) {
    let labels = Labels::begin();
    labels.branch_if(condition().val().raw(), false, true);
    body();
    labels.finish();
}

/// A loop over a range that is being recorded.
struct Range {
    ty: Type,
    end: Raw,
    step: Raw,
    index: Reg,
    labels: Labels,
}

impl Range {
    #[track_caller]
    #[inline(never)]
    fn begin(ty: Type, start: Raw, end: Raw, step: Raw) -> Self {
        if step == Raw::Const(0) {
            let (what, value) = ("the step of a loop over a range".to_owned(), "0".to_owned());
            untyped::fail(ErrorKind::OutOfRange {
                what,
                value,
                expected: "more than 0: the loop would not end".to_owned(),
            });
        }
        let labels = Labels { number: label_number() };
        let index = with(|r| {
            let some = compare::compare(r, Comparison::Lt, ty, start, end);
            control::branch_if(r, some, false, &labels.end());
            let index = convert::copy(r, ty, start);
            control::label(r, &labels.start());
            r.open_scope();
            index
        });
        Self { ty, end, step, index, labels }
    }

    #[track_caller]
    #[inline(never)]
    fn finish(self) {
        let index = Raw::Reg(self.index);
        with(|r| {
            r.close_scope();
            let next = arithmetic::binary(r, Binary::Add, self.ty, index, self.step);
            convert::assign(r, self.ty, self.index, next);
            let more = compare::compare(r, Comparison::Lt, self.ty, index, self.end);
            control::branch_if(r, more, true, &self.labels.start());
            control::label(r, &self.labels.end());
        });
    }
}

/// Runs `body` for `start`, `start + step`, … as long as it is less than `end`.
///
/// `step` must be positive (a constant of 0 is an [error](crate::ErrorKind::OutOfRange)), and the
/// last `i + step` must fit the type: near the end of its range the sum would wrap and the loop
/// begin anew (count in `u64` then).
#[track_caller]
pub fn range<T: Integer>(
    start: impl Operand<T>,
    end: impl Operand<T>,
    step: impl Operand<T>,
    body: impl FnOnce(Val<T>),
) {
    let (start, end, step) = (start.val().raw(), end.val().raw(), step.val().raw());
    let range = Range::begin(T::TYPE, start, end, step);
    body(Val::from_raw(Raw::Reg(range.index)));
    range.finish();
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
    let labels = Labels::begin();
    body(&Loop { number: labels.number });
    labels.finish();
}

impl Loop {
    const fn labels(&self) -> Labels {
        Labels { number: self.number }
    }

    /// Leaves the loop where the condition holds.
    #[track_caller]
    pub fn leave_if(&self, condition: impl Operand<bool>) {
        self.labels().branch_if(condition.val().raw(), true, true);
    }

    /// Starts the next round where the condition holds.
    #[track_caller]
    pub fn again_if(&self, condition: impl Operand<bool>) {
        self.labels().branch_if(condition.val().raw(), true, false);
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
