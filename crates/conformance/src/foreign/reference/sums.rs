//! Vector addition, sums, prefix sums, arg-max.

use crate::foreign::expect::{Outcome, close, exact, sum_error, wide};
use crate::foreign::run::Run;

/// `(a, b, c, n, …)`: c = a + b, exact because f32 addition is.
pub(super) fn vector_add(run: &Run<'_>) -> Outcome {
    let (a, b) = (run.before::<f32>(0), run.before::<f32>(1));
    let n = run.size(3);
    let want: Vec<u32> = a.iter().zip(&b).take(n).map(|(x, y)| (x + y).to_bits()).collect();
    let got: Vec<u32> = run.after::<f32>(2).iter().map(|x| x.to_bits()).collect();
    exact("c", &got, &want)
}

fn wrapping_sum(values: &[i32]) -> i32 {
    values.iter().fold(0, |sum, &x| sum.wrapping_add(x))
}

/// `(input, output, n, …)`: one sum for every `part` elements.
pub(super) fn block_sums_i32(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let want: Vec<i32> = input[..run.size(2)].chunks(run.with("part")).map(wrapping_sum).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output, n, …)`: the sum of everything added to output\[0\].
pub(super) fn total_i32(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let want = run.before::<i32>(1)[0].wrapping_add(wrapping_sum(&input[..run.size(2)]));
    exact("output", &run.after::<i32>(1)[..1], &[want])
}

/// `(input, partial sums, output, arrived, n)`: the counter is back at zero afterwards.
pub(super) fn single_pass_i32(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    exact("output", &run.after::<i32>(2), &[wrapping_sum(&input[..run.size(4)])])?;
    exact("arrived", &run.after::<u32>(3), &[0])
}

/// `(input, output, …)`: an f32 sum; `depth` additions stand one after the other at most.
pub(super) fn total_f32(run: &Run<'_>) -> Outcome {
    let input = wide(&run.before::<f32>(0));
    let want = input.iter().sum::<f64>();
    let bound = sum_error(run.with("depth"), input.iter().map(|x| x.abs()).sum());
    close("output", &wide(&run.after::<f32>(1))[..1], &[want], |_| bound)
}

/// `(input, output, …)` with n elements in both.
pub(super) fn scan_inclusive(run: &Run<'_>) -> Outcome {
    let running = |sum: &mut i32, x: i32| {
        *sum = sum.wrapping_add(x);
        Some(*sum)
    };
    let want: Vec<i32> = run.before::<i32>(0).into_iter().scan(0, running).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, best, n, …)`: the first index of the largest value.
pub(super) fn argmax(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let largest = input.iter().max().expect("the input is not empty");
    let want = input.iter().position(|x| x == largest).expect("the maximum is an element");
    exact("best", &run.after::<i32>(1), &[want as i32])
}
