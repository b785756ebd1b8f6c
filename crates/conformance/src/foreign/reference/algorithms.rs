//! Sorting, cellular automata, fractals, thread indices.

use crate::foreign::expect::{Outcome, exact};
use crate::foreign::run::Run;

fn sorted_chunks(values: &[i32], len: usize) -> Vec<i32> {
    let mut sorted = values.to_vec();
    sorted.chunks_mut(len).for_each(<[i32]>::sort_unstable);
    sorted
}

/// `(input, output, rows)`: rows of 16.
pub(super) fn insertion_sort(run: &Run<'_>) -> Outcome {
    exact("output", &run.after::<i32>(1), &sorted_chunks(&run.before(0), 16))
}

/// `(input, output)`: one block sorts twice its threads.
pub(super) fn bitonic_sort(run: &Run<'_>) -> Outcome {
    exact("output", &run.after::<i32>(1), &sorted_chunks(&run.before(0), 2 * run.case.block[0] as usize))
}

/// `(input, output, n)`: of the digits of x\[i\] and x\[n-1-i\] together, ties to the smaller
/// digit.
pub(super) fn most_frequent_digit(run: &Run<'_>) -> Outcome {
    let input = run.before::<u32>(0);
    let best = |i: usize| {
        let text = format!("{}{}", input[i], input[input.len() - 1 - i]);
        let count = |digit: u32| text.chars().filter(|c| c.to_digit(10) == Some(digit)).count();
        (0..10).rev().max_by_key(|&digit| count(digit)).expect("there are ten digits")
    };
    let want: Vec<u32> = (0..input.len()).map(best).collect();
    exact("output", &run.after::<u32>(1), &want)
}

/// `(output, width, height, limit)`.
pub(super) fn mandelbrot(run: &Run<'_>) -> Outcome {
    let (width, height, limit) = (run.u32(1), run.u32(2), run.u32(3));
    let steps = |px: u32, py: u32| {
        let (cx, cy) = (px as f32 * 0.031_25 - 2.0, py as f32 * 0.031_25 - 1.0);
        let (mut x, mut y) = (0f32, 0f32);
        for k in 0..limit {
            let (xx, yy) = (x * x, y * y);
            if xx + yy > 4.0 {
                return k;
            }
            y = (x + x) * y + cy;
            x = (xx - yy) + cx;
        }
        limit
    };
    let want: Vec<u32> = (0..width * height).map(|i| steps(i % width, i / width)).collect();
    exact("output", &run.after::<u32>(0), &want)
}

/// `(input, output, width, height)`: one step on each board.
pub(super) fn life(run: &Run<'_>) -> Outcome {
    let (input, width, height) = (run.before::<u8>(0), run.size(2), run.size(3));
    let step = |board: &[u8]| -> Vec<u8> {
        let alive = |x: usize, y: usize| board[y % height * width + x % width];
        let next = |x: usize, y: usize| {
            let around: u8 =
                (0..9).filter(|&d| d != 4).map(|d| alive(x + width + d % 3 - 1, y + height + d / 3 - 1)).sum();
            u8::from(around == 3 || (around == 2 && alive(x, y) == 1))
        };
        (0..width * height).map(|i| next(i % width, i / width)).collect()
    };
    let want: Vec<u8> = input.chunks(width * height).flat_map(step).collect();
    exact("output", &run.after::<u8>(1), &want)
}

/// `(output)`: block, thread, warp, lane of every thread, in order.
pub(super) fn thread_ids(run: &Run<'_>) -> Outcome {
    let blocks: u32 = run.case.grid.iter().product();
    let threads: u32 = run.case.block.iter().product();
    let ids = |b: u32| (0..threads).flat_map(move |t| [b, t, t / 32, t % 32]);
    let want: Vec<u32> = (0..blocks).flat_map(ids).collect();
    exact("output", &run.after::<u32>(0), &want)
}

/// `(input, output, …)`: runs of `run` elements sorted.
pub(super) fn sort(run: &Run<'_>) -> Outcome {
    exact("output", &run.after::<i32>(1), &sorted_chunks(&run.before(0), run.with("run")))
}

/// `(output, n, seed, …)`: the first word of Philox 4x32-10 (Salmon et al., 2011) at counter i.
pub(super) fn philox(run: &Run<'_>) -> Outcome {
    let seed = run.u32(2);
    let word = |i: u32| {
        let (mut counter, mut key) = ([i, 0, 0, 0], [seed, 0u32]);
        for _ in 0..10 {
            let product = |constant: u32, x: u32| u64::from(constant) * u64::from(x);
            let (p0, p1) = (product(0xd251_1f53, counter[0]), product(0xcd9e_8d57, counter[2]));
            let high = |p: u64| (p >> 32) as u32;
            counter = [high(p1) ^ counter[1] ^ key[0], p1 as u32, high(p0) ^ counter[3] ^ key[1], p0 as u32];
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        counter[0] as i32
    };
    let want: Vec<i32> = (0..run.u32(1)).map(word).collect();
    exact("output", &run.after::<i32>(0), &want)
}
