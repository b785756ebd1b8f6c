//! Calls, branches, parameters, module variables.

use crate::foreign::expect::{Outcome, exact};
use crate::foreign::run::Run;

/// `(input, output, n)`: quotient and remainder of 3x - 7 by i mod 13 + 1.
pub(super) fn noinline_calls(run: &Run<'_>) -> Outcome {
    let want: Vec<i32> = (0..)
        .zip(run.before::<i32>(0))
        .flat_map(|(i, x)| [(3 * x - 7) / (i % 13 + 1), (3 * x - 7) % (i % 13 + 1)])
        .collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output, n)`: twice a Fibonacci number, plus one for an even argument.
pub(super) fn recursion(run: &Run<'_>) -> Outcome {
    let fibonacci = |k: u32| (0..k).fold((0u32, 1u32), |(a, b), _| (b, a + b)).0;
    let want: Vec<u32> =
        run.before::<u32>(0).iter().map(|x| 2 * fibonacci(x % 12) + u32::from(x % 9 % 2 == 0)).collect();
    exact("output", &run.after::<u32>(1), &want)
}

/// `(input, output, n)`: one of four functions by position.
pub(super) fn function_pointers(run: &Run<'_>) -> Outcome {
    let apply = |i: usize, x: i32| [-x, x * x, x / 2, !x][i % 4];
    let want: Vec<i32> = run.before::<i32>(0).into_iter().enumerate().map(|(i, x)| apply(i, x)).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output, n)`: areas of three shapes.
pub(super) fn virtual_calls(run: &Run<'_>) -> Outcome {
    let area = |i: i32, size: i32| [size * size, size * (size + 1) / 2, 4 * (i % 5) * (size - i % 5)][i as usize % 3];
    let want: Vec<i32> = (0..).zip(run.before::<i32>(0)).map(|(i, x)| area(i, x)).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output, n)`: eleven branches, some of which write a second output at i + n.
pub(super) fn switch_tree(run: &Run<'_>) -> Outcome {
    let (input, mut want) = (run.before::<i32>(0), run.before::<i32>(1));
    let n = run.size(2);
    for i in 0..n {
        let x = input[i];
        let second = [None, None, None, Some(3), None, Some(5), None, None, Some(x % 7), None, None][i % 11];
        let value = [
            x.wrapping_add(want[i]),
            x.wrapping_mul(17),
            x / 3,
            x ^ 0x5a5a,
            x.wrapping_shl(i as u32 & 7),
            x.wrapping_neg().wrapping_sub(1000),
            x.wrapping_sub(1000),
            x.count_ones() as i32,
            x % 7,
            if x > 0 { 1 } else { -1 },
            42,
        ][i % 11];
        want[i] = value;
        if let Some(second) = second {
            want[i + n] = second;
        }
    }
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output, n)`: four targets by position.
pub(super) fn indexed_branch(run: &Run<'_>) -> Outcome {
    let apply = |i: usize, x: i32| [x + 100, x * 3, -x, 7][i % 4];
    let want: Vec<i32> = run.before::<i32>(0).into_iter().enumerate().map(|(i, x)| apply(i, x)).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(structure, output, dynamic)` with the structure of the case: 'A', -2, 3, 4.5, (1, 2, 3, 4),
/// 10…50, 7 8 9.
pub(super) fn by_value(run: &Run<'_>) -> Outcome {
    let dynamic = run.size(2);
    let table = [10.0, 20.0, 30.0, 40.0, 50.0][dynamic % 5];
    let byte = [7.0, 8.0, 9.0][dynamic % 3];
    exact("output", &run.after::<f64>(1), &[65.0, -2.0, 3.0, 4.5, 1.0, 4.0, table, byte])
}

/// `(structure, output, dynamic)`, one thread an element.
pub(super) fn by_value_written(run: &Run<'_>) -> Outcome {
    let dynamic = run.size(2);
    let value = |i: usize| {
        let mut table = [10, 20, 30, 40, 50];
        table[(i + dynamic) % 5] += i as i32;
        table.iter().rev().fold(0, |sum, x| sum * 10 + x)
    };
    let want: Vec<i32> = (0..run.case.block[0] as usize).map(value).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// Eleven scalars of the case, as doubles.
pub(super) fn scalars(run: &Run<'_>) -> Outcome {
    let want = [1.0, -8.0, 250.0, -30000.0, 60000.0, -7.0, 4e9, -1e12, 1e13, 0.5, -2.25];
    exact("output", &run.after::<f64>(11), &want)
}

/// `(output, n)`: one look-up in each table, summed.
pub(super) fn tables(run: &Run<'_>) -> Outcome {
    let primes = [2, 3, 5, 7, 11, 13];
    let words = ["one", "three", "seven"];
    let value = |i: usize| {
        let letters: i32 = words[i % 3].bytes().map(i32::from).sum();
        let entry = if i.is_multiple_of(2) { 3.0 * 0.25 + 7.0 } else { -4.0 * 8.0 };
        let integers = (i % 16 * (i % 16)) as i32 + primes[i % 6] + primes[1 + i % 5] + 250 + (i % 5) as i32 + letters;
        f64::from(integers) + 0.5 + (i % 4) as f64 + entry
    };
    let want: Vec<f64> = (0..run.size(1)).map(value).collect();
    exact("output", &run.after::<f64>(0), &want)
}

/// `(pi, big)`: the initial values of two variables.
pub(super) fn globals(run: &Run<'_>) -> Outcome {
    exact("pi", &run.after::<f32>(0), &[std::f32::consts::PI])?;
    exact("big", &run.after::<i64>(1), &[-0x0123_4567_89ab_cdef])
}

/// `(output, …)`: every element is 1.
pub(super) fn all_ones(run: &Run<'_>) -> Outcome {
    let got = run.after::<u32>(0);
    exact("output", &got, &vec![1; got.len()])
}

/// `(input, output, n)`: clamped to \[0, 1\].
pub(super) fn clamp(run: &Run<'_>) -> Outcome {
    let want: Vec<f32> = run.before::<f32>(0).iter().map(|x| x.clamp(0.0, 1.0)).collect();
    exact("output", &run.after::<f32>(1), &want)
}
