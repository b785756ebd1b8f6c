//! Integer arithmetic, question by question.

use super::row;
use crate::foreign::expect::{Outcome, exact};
use crate::foreign::run::Run;

/// `(a, b, output, n)`: pairs of high and low words.
pub(super) fn int128_ops(run: &Run<'_>) -> Outcome {
    let join = |w: Vec<u64>| w.chunks(2).map(|p| u128::from(p[0]) << 64 | u128::from(p[1])).collect::<Vec<u128>>();
    let (a, b, output) = (join(run.before(0)), join(run.before(1)), join(run.after(2)));
    let n = a.len();
    type Question = fn(usize, u128, u128) -> u128;
    let questions: [(&str, Question); 7] = [
        ("add", |_, x, y| x.wrapping_add(y)),
        ("sub", |_, x, y| x.wrapping_sub(y)),
        ("mul", |_, x, y| x.wrapping_mul(y)),
        ("div", |_, x, y| x / (y >> 40 | 1)),
        ("rem", |_, x, y| x % (y | 1)),
        ("shr", |i, x, _| x >> (i % 128)),
        ("sar", |i, x, _| (x as i128 >> (i % 128)) as u128),
    ];
    for (k, (name, f)) in questions.into_iter().enumerate() {
        let want: Vec<u128> = (0..n).map(|i| f(i, a[i], b[i])).collect();
        exact(name, row(&output, k, n), &want)?;
    }
    Ok(())
}

/// `(a, b, c, d, output, n)`: 32-bit x by y, 64-bit u by v; divisors are odd.
pub(super) fn divisions(run: &Run<'_>) -> Outcome {
    let (a, b) = (run.before::<i32>(0), run.before::<i32>(1));
    let (c, d) = (run.before::<i64>(2), run.before::<i64>(3));
    let output = run.after::<i64>(4);
    let n = run.size(5);
    type Question = fn(i32, i32, i64, i64) -> i64;
    let questions: [(&str, Question); 15] = [
        ("div.s32", |x, y, _, _| x.wrapping_div(y).into()),
        ("rem.s32", |x, y, _, _| x.wrapping_rem(y).into()),
        ("div.u32", |x, y, _, _| (x as u32 / y as u32).into()),
        ("rem.u32", |x, y, _, _| (x as u32 % y as u32).into()),
        ("div.s64", |_, _, u, v| u.wrapping_div(v)),
        ("rem.s64", |_, _, u, v| u.wrapping_rem(v)),
        ("div.u64", |_, _, u, v| (u as u64 / v as u64) as i64),
        ("rem.u64", |_, _, u, v| (u as u64 % v as u64) as i64),
        ("by constants", |x, _, _, _| (x / 7).wrapping_add(x % 10).wrapping_add(x / -3).into()),
        ("mul.hi.s32", |x, y, _, _| (i64::from(x) * i64::from(y)) >> 32),
        ("mul.hi.u32", |x, y, _, _| ((u64::from(x as u32) * u64::from(y as u32)) >> 32) as i64),
        ("mul.hi.s64", |_, _, u, v| ((i128::from(u) * i128::from(v)) >> 64) as i64),
        ("mul.hi.u64", |_, _, u, v| ((u128::from(u as u64) * u128::from(v as u64)) >> 64) as i64),
        ("mad.wide", |x, y, u, _| (i64::from(x) * i64::from(y)).wrapping_add(u)),
        ("mul24", |x, y, _, _| ((x << 8 >> 8).wrapping_mul(y << 8 >> 8)).into()),
    ];
    for (k, (name, f)) in questions.into_iter().enumerate() {
        let want: Vec<i64> = (0..n).map(|i| f(a[i], b[i] | 1, c[i], d[i] | 1)).collect();
        exact(name, row(&output, k, n), &want)?;
    }
    Ok(())
}

/// Picks byte `selector` of the eight bytes of y:x.
fn byte(x: u32, y: u32, selector: u32) -> u32 {
    u32::from((u64::from(y) << 32 | u64::from(x)).to_le_bytes()[selector as usize & 7])
}

fn permute(x: u32, y: u32, s: u32) -> u32 {
    (0..4).map(|k| byte(x, y, s >> (4 * k) & 7) << (8 * k)).sum()
}

/// `(a, b, output, n)`.
pub(super) fn bits(run: &Run<'_>) -> Outcome {
    let both = |x: u32, y: u32| u64::from(y) << 32 | u64::from(x);
    let first_set = |x: u64| if x == 0 { 0 } else { x.trailing_zeros() + 1 };
    let answer = |k: usize, x: u32, y: u32| {
        let w = both(y, x);
        match k {
            0 => x.count_ones(),
            1 => (x >> (y % 33 % 32)).leading_zeros(),
            2 => first_set(u64::from(x & (y & 0xff00).wrapping_neg())),
            3 => x.reverse_bits(),
            4 => permute(x, y, 0x5140),
            5 => permute(x, y, y & 0x7777),
            6 => (both(x, y) << (y % 32) >> 32) as u32,
            7 => (both(x, y) >> (x % 32)) as u32,
            8 => (both(x, y) << (y % 64).min(32) >> 32) as u32,
            9 => w.count_ones() + 100 * (w >> (y % 64)).leading_zeros() + 10000 * first_set(w),
            10 => (w.reverse_bits() >> 16) as u32,
            11 => (x >> (y % 32)) ^ (x << (y % 29)),
            12 => (x as i32 >> (y % 32)) as u32,
            13 => (x & !y) | (y ^ 0x1234_5678),
            14 => (i64::from(x as i32) - i64::from(y % 1000)).unsigned_abs() as u32 + 5,
            15 => ((i64::from(x as i32) + i64::from(y as i32) + 1) >> 1) as u32,
            16 => x >> (y % 32) & ((1 << (y % 11)) - 1),
            _ => {
                let mask = ((1u64 << (y % 17)) - 1) << (x % 32);
                (u64::from(y) & !mask | u64::from(x) << (x % 32) & mask) as u32
            }
        }
    };
    compare(run, 18, answer)
}

/// Applies `f` to the four bytes of each.
fn bytewise(x: u32, y: u32, f: fn(u8, u8) -> u8) -> u32 {
    let (x, y) = (x.to_le_bytes(), y.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| f(x[i], y[i])))
}

/// `(a, b, output, n)`.
pub(super) fn packed(run: &Run<'_>) -> Outcome {
    let signed = |x: u32| x.to_le_bytes().map(|b| i32::from(b as i8));
    let dot2 = |x: u32, y: u32, first: usize| {
        let (low, high) = (i32::from(x as i16), i32::from((x >> 16) as i16));
        17 + low * signed(y)[first] + high * signed(y)[first + 1]
    };
    let answer = |k: usize, x: u32, y: u32| match k {
        0 => (17 + (0..4).map(|i| signed(x)[i] * signed(y)[i]).sum::<i32>()) as u32,
        1 => 17 + (0..4).map(|i| u32::from(x.to_le_bytes()[i]) * u32::from(y.to_le_bytes()[i])).sum::<u32>(),
        2 => dot2(x, y, 0) as u32,
        3 => dot2(x, y, 2) as u32,
        4 => bytewise(x, y, u8::wrapping_add),
        5 => bytewise(x, y, u8::abs_diff),
        6 => {
            let (low, high) = ((x as i16).max(y as i16), ((x >> 16) as i16).max((y >> 16) as i16));
            u32::from(high as u16) << 16 | u32::from(low as u16)
        }
        7 => bytewise(x, y, |p, q| if p > q { 0xff } else { 0 }),
        8 => bytewise(x, y, |p, q| (u16::from(p) + u16::from(q)).div_ceil(2) as u8),
        9 => (x as i32).wrapping_add(y as i32).max(1000) as u32,
        _ => (x as i32).min(y as i32).min(-5) as u32,
    };
    compare(run, 11, answer)
}

fn compare(run: &Run<'_>, questions: usize, answer: impl Fn(usize, u32, u32) -> u32) -> Outcome {
    let (a, b, output) = (run.before::<u32>(0), run.before::<u32>(1), run.after::<u32>(2));
    let n = a.len();
    for k in 0..questions {
        let want: Vec<u32> = (0..n).map(|i| answer(k, a[i], b[i])).collect();
        exact(&format!("row {k}"), row(&output, k, n), &want)?;
    }
    Ok(())
}
