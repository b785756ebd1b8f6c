//! Warp-level communication, lane by lane.

use super::row;
use crate::foreign::expect::{Outcome, exact};
use crate::foreign::run::Run;

/// Compares row by row what each lane of each warp should hold: `f(k, warp, lane)`.
fn rows<T: Copy + PartialEq + std::fmt::Debug>(
    input: &[i32],
    output: &[T],
    questions: usize,
    f: impl Fn(usize, &[i32], usize) -> T,
) -> Outcome {
    let n = input.len();
    for k in 0..questions {
        let want: Vec<T> = (0..n).map(|i| f(k, &input[i / 32 * 32..][..32], i % 32)).collect();
        exact(&format!("row {k}"), row(output, k, n), &want)?;
    }
    Ok(())
}

/// `(input, output, n)`.
pub(super) fn shuffles(run: &Run<'_>) -> Outcome {
    rows(&run.before(0), &run.after::<i32>(1), 11, |k, x, lane| {
        // A source outside its segment leaves the lane's own value.
        let up = |d: usize, width: usize| if lane % width >= d { lane - d } else { lane };
        let down = |d: usize, width: usize| if lane % width + d < width { lane + d } else { lane };
        let source = match k {
            0 => 5,
            1 => up(3, 32),
            2 => down(7, 32),
            3 => lane ^ 21,
            4 => (lane * 7 + 3) % 32,
            5 => lane / 8 * 8 + 9 % 8,
            6 => up(2, 8),
            7 => down(2, 16),
            // Crossing into a later segment leaves the value, into an earlier one does not.
            8 => {
                if (lane ^ 6) / 4 > lane / 4 {
                    lane
                } else {
                    lane ^ 6
                }
            }
            9 => {
                if lane < 16 {
                    lane ^ 1
                } else {
                    lane ^ 2
                }
            }
            _ => down(1, 32),
        };
        x[source]
    })
}

/// A mask of the lanes that pass.
fn ballot(x: &[i32], f: impl Fn(i32) -> bool) -> u32 {
    x.iter().enumerate().map(|(lane, &v)| u32::from(f(v)) << lane).sum()
}

/// `(input, output, n)`.
pub(super) fn votes(run: &Run<'_>) -> Outcome {
    rows(&run.before(0), &run.after::<u32>(1), 10, |k, x, lane| match k {
        0 => u32::from(x.iter().any(|&v| v > 90)),
        1 => u32::from(x.iter().all(|&v| v > -90)),
        2 => ballot(x, |v| v % 3 == 0),
        3 if lane < 10 => ballot(x, |v| v > 0) & 0x3ff,
        3 => ballot(x, |v| v < 0) & !0x3ff,
        4 => ballot(x, |v| v % 5 == x[lane] % 5),
        5 if x.iter().all(|v| v / 1000 == x[0] / 1000) => u32::MAX,
        5 => 0,
        6 => u32::from(x.iter().all(|v| v / 1000 == x[0] / 1000)),
        7 => ballot(x, |v| v % 2 == x[lane] % 2),
        8 if lane % 3 == 1 => 0x9249_2492,
        8 => 0,
        _ => (1 << lane) - 1,
    })
}

/// `(input, output, n)`.
pub(super) fn reductions(run: &Run<'_>) -> Outcome {
    rows(&run.before(0), &run.after::<i32>(1), 9, |k, x, lane| {
        let unsigned = || x.iter().map(|&v| v as u32);
        let some = |r: std::ops::Range<usize>| x[r].iter().sum::<i32>();
        match k {
            0 => some(0..32),
            1 => x.iter().copied().fold(i32::MAX, i32::min),
            2 => x.iter().copied().fold(i32::MIN, i32::max),
            3 => unsigned().fold(u32::MAX, u32::min) as i32,
            4 => unsigned().fold(0, u32::max) as i32,
            5 => unsigned().fold(u32::MAX, |a, v| a & (v | 0xf0)) as i32,
            6 => unsigned().fold(0, |a, v| a | (v & 0xff0f)) as i32,
            7 => unsigned().fold(0, |a, v| a ^ v) as i32,
            _ if lane < 20 => some(0..20),
            _ => 2 * some(20..32),
        }
    })
}

/// `(input, sums of 4, sums of 8, maxima of 32)`.
pub(super) fn tiled(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let spread = |len: usize, f: fn(&[i32]) -> i32| -> Vec<i32> {
        input.chunks(len).flat_map(|tile| vec![f(tile); len]).collect()
    };
    exact("sums of 4", &run.after::<i32>(1), &spread(4, |t| t.iter().sum()))?;
    exact("sums of 8", &run.after::<i32>(2), &spread(8, |t| t.iter().sum()))?;
    exact("maxima of 32", &run.after::<i32>(3), &spread(32, |t| t.iter().copied().fold(i32::MIN, i32::max)))
}

/// `(input, sums64, sums128)`: sums over tiles of several warps.
pub(super) fn wide_tiles(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let sums = |len: usize| -> Vec<i32> { input.chunks(len).flat_map(|tile| vec![tile.iter().sum(); len]).collect() };
    exact("sums of 64", &run.after::<i32>(1), &sums(64))?;
    exact("sums of 128", &run.after::<i32>(2), &sums(128))
}

/// `(input, output)`: prefix sums within each warp.
pub(super) fn tile_scan(run: &Run<'_>) -> Outcome {
    let running = |sum: &mut i32, x: &i32| {
        *sum += x;
        Some(*sum)
    };
    let want: Vec<i32> =
        run.before::<i32>(0).chunks(32).flat_map(|w| w.iter().scan(0, running).collect::<Vec<i32>>()).collect();
    exact("output", &run.after::<i32>(1), &want)
}

/// `(input, output, length, n)`: those that pass, in any order.
fn packed(run: &Run<'_>, passes: fn(i32) -> bool) -> Outcome {
    let input = run.before::<i32>(0);
    let mut want: Vec<i32> = input[..run.size(3)].iter().copied().filter(|&x| passes(x)).collect();
    exact("length", &run.after::<u32>(2), &[want.len() as u32])?;
    let mut got = run.after::<i32>(1)[..want.len()].to_vec();
    want.sort_unstable();
    got.sort_unstable();
    exact("sorted output", &got, &want)
}

/// Positive values.
pub(super) fn filter_positive(run: &Run<'_>) -> Outcome {
    packed(run, |x| x > 0)
}

/// Multiples of three.
pub(super) fn aggregated_atomic(run: &Run<'_>) -> Outcome {
    packed(run, |x| x % 3 == 0)
}

/// `(input, counts, n)`: how many lanes of the warp hold the same value.
pub(super) fn labelled(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let counts =
        |warp: &[i32]| warp.iter().map(|x| warp.iter().filter(|y| *y == x).count() as i32).collect::<Vec<i32>>();
    let want: Vec<i32> = input[..run.size(2)].chunks(32).flat_map(counts).collect();
    exact("counts", &run.after::<i32>(1), &want)
}
