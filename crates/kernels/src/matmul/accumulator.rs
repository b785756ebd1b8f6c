//! The types that sums are kept in: `f32`, `f64`, `i32`, `i64`.

use warpfold_lang::{Global, Shared, Val, WideFloat};

use super::epilogue::{Activation, Custom, OutputCoord};
use crate::elements::Compute;
use crate::operations;

/// What sums are kept in: `f32`, `f64`, `i32` or `i64`.
pub(crate) trait Accumulator: Compute {
    /// An activation of a sum.
    #[doc(hidden)]
    fn activate(activation: Activation, value: Val<Self>) -> Val<Self>;
    /// A user's function of a sum.
    #[doc(hidden)]
    fn call(function: &Custom, value: Val<Self>, place: OutputCoord, inputs: &[Val<Self>]) -> Val<Self>;
    /// Four neighbours in shared memory, 16 bytes at a time.
    #[doc(hidden)]
    fn get_four(place: Shared<Self>) -> [Val<Self>; 4];
    /// Stores four neighbours in shared memory, 16 bytes at a time.
    #[doc(hidden)]
    fn set_four(place: Shared<Self>, values: [Val<Self>; 4], condition: Option<Val<bool>>);
    /// Begins to copy four neighbours, or to make them zero where a condition does not hold.
    #[doc(hidden)]
    fn copy_four(to: Shared<Self>, from: Global<Self>, condition: Option<Val<bool>>);
}

impl Accumulator for f32 {
    fn activate(activation: Activation, value: Val<Self>) -> Val<Self> {
        of_float(activation, value)
    }

    fn call(function: &Custom, value: Val<Self>, place: OutputCoord, inputs: &[Val<Self>]) -> Val<Self> {
        function.call(value, place, inputs)
    }

    fn get_four(place: Shared<Self>) -> [Val<Self>; 4] {
        place.get_vec()
    }

    fn set_four(place: Shared<Self>, values: [Val<Self>; 4], condition: Option<Val<bool>>) {
        place.set_vec_if(values, condition.unwrap_or(Val::constant(true)));
    }

    fn copy_four(to: Shared<Self>, from: Global<Self>, condition: Option<Val<bool>>) {
        copy::<Self, 4>(to, from, condition);
    }
}

impl Accumulator for f64 {
    fn activate(activation: Activation, value: Val<Self>) -> Val<Self> {
        of_float(activation, value)
    }

    fn call(_: &Custom, _: Val<Self>, _: OutputCoord, _: &[Val<Self>]) -> Val<Self> {
        unreachable!("plans refuse functions of sums in f64")
    }

    fn get_four(place: Shared<Self>) -> [Val<Self>; 4] {
        get_pairs(place)
    }

    fn set_four(place: Shared<Self>, values: [Val<Self>; 4], condition: Option<Val<bool>>) {
        set_pairs(place, values, condition);
    }

    fn copy_four(to: Shared<Self>, from: Global<Self>, condition: Option<Val<bool>>) {
        copy_pairs(to, from, condition);
    }
}

impl Accumulator for i32 {
    fn activate(activation: Activation, value: Val<Self>) -> Val<Self> {
        assert_eq!(activation, Activation::Relu, "plans refuse other activations of integers");
        value.max(0)
    }

    fn call(_: &Custom, _: Val<Self>, _: OutputCoord, _: &[Val<Self>]) -> Val<Self> {
        unreachable!("plans refuse functions of sums in i32")
    }

    fn get_four(place: Shared<Self>) -> [Val<Self>; 4] {
        place.get_vec()
    }

    fn set_four(place: Shared<Self>, values: [Val<Self>; 4], condition: Option<Val<bool>>) {
        place.set_vec_if(values, condition.unwrap_or(Val::constant(true)));
    }

    fn copy_four(to: Shared<Self>, from: Global<Self>, condition: Option<Val<bool>>) {
        copy::<Self, 4>(to, from, condition);
    }
}

impl Accumulator for i64 {
    fn activate(activation: Activation, value: Val<Self>) -> Val<Self> {
        assert_eq!(activation, Activation::Relu, "plans refuse other activations of integers");
        value.max(0)
    }

    fn call(_: &Custom, _: Val<Self>, _: OutputCoord, _: &[Val<Self>]) -> Val<Self> {
        unreachable!("plans refuse functions of sums in i64")
    }

    fn get_four(place: Shared<Self>) -> [Val<Self>; 4] {
        get_pairs(place)
    }

    fn set_four(place: Shared<Self>, values: [Val<Self>; 4], condition: Option<Val<bool>>) {
        set_pairs(place, values, condition);
    }

    fn copy_four(to: Shared<Self>, from: Global<Self>, condition: Option<Val<bool>>) {
        copy_pairs(to, from, condition);
    }
}

/// Four neighbours of 8 bytes, two at a time.
fn get_pairs<A: Compute>(place: Shared<A>) -> [Val<A>; 4] {
    let [[a, b], [c, d]] = [0, 2].map(|i| place.at(i).get_vec::<2>());
    [a, b, c, d]
}

fn set_pairs<A: Compute>(place: Shared<A>, [a, b, c, d]: [Val<A>; 4], condition: Option<Val<bool>>) {
    let condition = condition.unwrap_or(Val::constant(true));
    place.set_vec_if([a, b], condition);
    place.at(2).set_vec_if([c, d], condition);
}

fn copy_pairs<A: Compute>(to: Shared<A>, from: Global<A>, condition: Option<Val<bool>>) {
    [0, 2].into_iter().for_each(|i| copy::<A, 2>(to.at(i), from.at(i), condition));
}

fn copy<A: Compute, const N: usize>(to: Shared<A>, from: Global<A>, condition: Option<Val<bool>>) {
    match condition {
        None => to.copy_async::<N>(from),
        Some(condition) => to.copy_async_or_zero::<N>(from, condition),
    }
}

fn of_float<A: Compute + WideFloat>(activation: Activation, value: Val<A>) -> Val<A> {
    operations::of_float(activation.operation(), value)
}
