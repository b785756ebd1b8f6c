//! Atomics: what is left in the cells when everybody has been there, in whatever order.

use crate::foreign::expect::{Outcome, exact};
use crate::foreign::run::Run;

/// `(input, cells, n)`; the cells are listed in the kernel's source.
pub(super) fn atomic_i32(run: &Run<'_>) -> Outcome {
    let (input, before) = (run.before::<i32>(0), run.before::<i32>(1));
    let input = &input[..run.size(2)];
    let sum = input.iter().fold(0i32, |s, &x| s.wrapping_add(x));
    let unsigned = || input.iter().map(|&x| x as u32);
    let fold = |first: i32, f: fn(i32, i32) -> i32| input.iter().fold(first, |a, &x| f(a, x));
    let n = input.len() as u32;
    let after = run.after::<i32>(1);
    // Counting up to 99 and around, counting down from 99 and around.
    let up = (before[7] as u32 + n) % 100;
    let down = (before[8] as u32 + 100 - n % 100) % 100;
    let want = [
        before[0].wrapping_add(sum),
        before[1].wrapping_sub(sum),
        fold(before[2], i32::min),
        fold(before[3], i32::max),
        fold(before[4], |a, x| a & (x | 0xff)),
        fold(before[5], |a, x| a | (x & 0xff00)),
        fold(before[6], |a, x| a ^ x),
        up as i32,
        down as i32,
    ];
    exact("cells", &after[..9], &want)?;
    let handed_on = before[9].wrapping_add(before[10]).wrapping_add(sum);
    exact("cells 9 + 10", &[after[9].wrapping_add(after[10])], &[handed_on])?;
    let rest = [
        fold(before[11], i32::max),
        unsigned().fold(before[12] as u32, u32::min) as i32,
        unsigned().fold(before[13] as u32, u32::max) as i32,
    ];
    exact("cells 11..", &after[11..14], &rest)
}

/// `(input, cells, n)`.
pub(super) fn atomic_i64(run: &Run<'_>) -> Outcome {
    let (input, before) = (run.before::<i64>(0), run.before::<i64>(1));
    let input = &input[..run.size(2)];
    let sum = input.iter().fold(0i64, |s, &x| s.wrapping_add(x));
    let unsigned = || input.iter().map(|&x| x as u64);
    let fold = |first: i64, f: fn(i64, i64) -> i64| input.iter().fold(first, |a, &x| f(a, x));
    let want = [
        before[0].wrapping_add(sum),
        fold(before[1], i64::min),
        fold(before[2], i64::max),
        fold(before[3], |a, x| a & (x | 0xffff)),
        fold(before[4], |a, x| a | (x & 0xff00_ff00_ff00)),
        fold(before[5], |a, x| a ^ x),
        unsigned().fold(before[6] as u64, u64::min) as i64,
        unsigned().fold(before[7] as u64, u64::max) as i64,
        before[8].wrapping_add(sum.wrapping_mul(3)),
    ];
    exact("cells", &run.after::<i64>(1), &want)
}

/// The bits of a whole number from 0 to 2048 in half precision, computed from its binary digits.
fn f16_bits(x: u32) -> u16 {
    whole_bits(x, 10, 15)
}

fn bf16_bits(x: u32) -> u16 {
    whole_bits(x, 7, 127)
}

fn whole_bits(x: u32, fraction: u32, bias: u32) -> u16 {
    if x == 0 {
        return 0;
    }
    let exponent = x.ilog2();
    assert!(exponent <= fraction, "{x} needs more than {fraction} fraction bits");
    (((exponent + bias) << fraction) + ((x << (fraction - exponent)) - (1 << fraction))) as u16
}

/// `(input, f32, f64, f16, f16x2, bf16, bf16x2, n)`: sums of whole numbers by position.
pub(super) fn atomic_float(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let n = run.size(7);
    let strided = |start: usize, step: usize, f: fn(i32) -> i32| -> i64 {
        input[..n].iter().skip(start).step_by(step).map(|&x| i64::from(f(x))).sum()
    };
    let thirds: Vec<f32> = (0..3).map(|k| strided(k, 3, |x| x) as f32).collect();
    exact("f32", &run.after::<f32>(1), &thirds)?;
    let halves = |k: usize| strided(k, 3, |x| 2 * x + 1) as f64 / 2.0;
    exact("f64", &run.after::<f64>(2), &[halves(0), halves(1), halves(2)])?;
    let small = |f: fn(i32) -> i32| move |k: usize| strided(k, 64, f) as u32;
    let single: Vec<u32> = (0..64).map(small(|x| x % 4)).collect();
    let pairs: Vec<u32> = (0..64).flat_map(|k| [small(|x| x % 3)(k), small(|x| x % 5)(k)]).collect();
    let as_bits = |values: &[u32], f: fn(u32) -> u16| values.iter().map(|&x| f(x)).collect::<Vec<u16>>();
    exact("f16", &run.after::<u16>(3), &as_bits(&single, f16_bits))?;
    exact("f16x2", &run.after::<u16>(4), &as_bits(&pairs, f16_bits))?;
    exact("bf16", &run.after::<u16>(5), &as_bits(&single, bf16_bits))?;
    exact("bf16x2", &run.after::<u16>(6), &as_bits(&pairs, bf16_bits))
}

/// `(cells, n)`: even threads add 1 to the first, odd ones 2 to the second.
pub(super) fn cas_u16(run: &Run<'_>) -> Outcome {
    let (before, n) = (run.before::<u16>(0), run.u32(1));
    let add = |x: u16, y: u32| x.wrapping_add(y as u16);
    let want = [add(before[0], n.div_ceil(2)), add(before[1], n / 2 * 2), before[2], before[3]];
    exact("cells", &run.after::<u16>(0), &want)
}

/// `(cells, n)`: 2^62 for each thread, then an exchange.
pub(super) fn cas_u128(run: &Run<'_>) -> Outcome {
    let (before, n) = (run.before::<u64>(0), run.u32(1));
    let sum = (u128::from(before[1]) << 64 | u128::from(before[0])) + (u128::from(n) << 62);
    exact("cells", &run.after::<u64>(0), &[sum as u64, (sum >> 64) as u64, 7, 9])
}

/// `(input, pairs, quads, n)`.
pub(super) fn vector_atomics(run: &Run<'_>) -> Outcome {
    let input = run.before::<i32>(0);
    let of = |k: usize| input.iter().skip(k).step_by(2);
    let sum = |k: usize| of(k).sum::<i32>() as f32;
    let count = |k: usize| of(k).count() as f32;
    exact("pairs", &run.after::<f32>(1), &[sum(0), count(0), sum(1), count(1)])?;
    let quad = |k: usize| [sum(k), 2.0 * sum(k), count(k), -sum(k)];
    exact("quads", &run.after::<f32>(2), &[quad(0), quad(1)].concat())
}

/// `(cells, n)`.
pub(super) fn scopes(run: &Run<'_>) -> Outcome {
    let (before, n) = (run.before::<i32>(0), run.u32(1) as i32);
    let threads = run.case.block[0] as i32;
    let entered = (n + threads - 1) / threads;
    let want = [
        before[0] + n,
        before[1].max(n - 1),
        (0..n).fold(before[2], |a, i| a ^ i),
        before[3] + 3 * n,
        before[4] + entered * 2 * threads,
        77,
    ];
    exact("cells", &run.after::<i32>(0), &want)
}

/// `(flag, cells, n)`.
pub(super) fn scoped_legacy(run: &Run<'_>) -> Outcome {
    let n = run.u32(2);
    let (blocks, threads) = (run.case.grid[0], run.case.block[0]);
    let in_block = |b: u32| n.saturating_sub(b * threads).min(threads) as i32;
    let mut want = vec![123, 123 * blocks as i32, n as i32];
    want.extend((0..blocks).map(in_block));
    exact("cells", &run.after::<i32>(1), &want)?;
    exact("flag", &run.after::<i32>(0), &[1])
}

/// `(input, bins, n)`: 64 bins of bytes.
pub(super) fn histogram(run: &Run<'_>) -> Outcome {
    let mut want = vec![0u32; 64];
    run.before::<u8>(0).iter().for_each(|&x| want[usize::from(x) % 64] += 1);
    exact("bins", &run.after::<u32>(1), &want)
}

/// `(input, bins, n, …)`: 64 bins of whole numbers below 64.
pub(super) fn triton_histogram(run: &Run<'_>) -> Outcome {
    let mut want = vec![0i32; 64];
    run.before::<i32>(0)[..run.size(2)].iter().for_each(|&x| want[x as usize] += 1);
    exact("bins", &run.after::<i32>(1), &want)
}

/// `(input, counts, n, limit, …)`: how many exceed the limit, counted in eight places by position.
pub(super) fn count_above(run: &Run<'_>) -> Outcome {
    let (input, limit) = (run.before::<i32>(0), run.u32(3) as i32);
    let above = |k: usize| input.iter().skip(k).step_by(8).filter(|&&x| x > limit).count() as i32;
    exact("counts", &run.after::<i32>(1), &(0..8).map(above).collect::<Vec<i32>>())
}
