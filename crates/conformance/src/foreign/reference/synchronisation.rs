//! Grid synchronisation, locks, barriers.

use crate::foreign::expect::{Outcome, exact};
use crate::foreign::run::Run;

/// `(values, scratch, rounds)`: reversed and incremented each round.
pub(super) fn grid_sync(run: &Run<'_>) -> Outcome {
    let mut want = run.before::<i32>(0);
    for _ in 0..run.u32(2) {
        want = want.iter().rev().map(|x| x + 1).collect();
    }
    exact("values", &run.after::<i32>(0), &want)
}

/// `(lock, counter, n)`.
pub(super) fn spin_lock(run: &Run<'_>) -> Outcome {
    exact("counter", &run.after::<i32>(1), &[run.u32(2) as i32])?;
    exact("lock", &run.after::<i32>(0), &[0])
}

/// `(input, output, n)`: even threads get three times the odd neighbour's value.
pub(super) fn producer_consumer(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let value = |i: usize| if i.is_multiple_of(2) { 3 * input[i + 1] + input[i] } else { -1 };
    let want: Vec<i32> = (0..input.len()).map(value).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output)`: the sum of what each cluster of four blocks has.
pub(super) fn cluster_row_sum(run: &Run<'_>) -> Outcome {
    let want: Vec<i32> = run.before::<i32>(0).chunks(4 * run.case.block[0] as usize).map(|r| r.iter().sum()).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(next, serving, order, length)`: everybody was served in the order of the tickets.
pub(super) fn ticket_lock(run: &Run<'_>) -> Outcome {
    let order = run.after::<u32>(2);
    let n = order.len() as u32;
    exact("order", &order, &(0..n).collect::<Vec<u32>>())?;
    for (arg, name) in [(0, "next"), (1, "serving"), (3, "length")] {
        exact(name, &run.after::<u32>(arg), &[n])?;
    }
    Ok(())
}

/// `(input, output, n)`: a block's count of positive values, whether all exceed -1000, whether one
/// is 77.
pub(super) fn barrier_reductions(run: &Run<'_>) -> Outcome {
    let answers = |block: &[i32]| {
        let count = block.iter().filter(|&&x| x > 0).count() as i32;
        [count, i32::from(block.iter().all(|&x| x > -1000)), i32::from(block.contains(&77))]
    };
    let want: Vec<i32> = run.before::<i32>(0).chunks(run.case.block[0] as usize).flat_map(answers).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output, rounds)`: weighted sums of the stages, rotated by 17.
pub(super) fn named_barriers(run: &Run<'_>) -> Outcome {
    let (input, rounds) = (run.before::<i32>(0), run.size(2));
    let block_sums = |stages: &[i32]| -> Vec<i32> {
        // The consumers are threads 64 to 127 of the block.
        let sum = |t: usize| {
            let staged = |r: usize| stages[r * 64 + (t + 64 + 17) % 64];
            (0..rounds).map(|r| staged(r) * (r as i32 + 1)).sum()
        };
        (0..64).map(sum).collect()
    };
    let want: Vec<i32> = input.chunks(64 * rounds).flat_map(block_sums).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output)`: runs of 64 reversed.
pub(super) fn half_block_reverse(run: &Run<'_>) -> Outcome {
    let mut want = run.before::<i32>(0);
    want.chunks_mut(64).for_each(<[i32]>::reverse);
    exact("output", &run.after::<i32>(1), &want)
}
