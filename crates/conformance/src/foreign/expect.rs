//! Comparing what a kernel wrote with what a reference says.

use std::fmt::Debug;

/// Result of a reference: nothing, or the first difference in words.
pub type Outcome = Result<(), String>;

/// Every element as expected, bit for bit (floats: pass their bits).
///
/// # Errors
/// The first difference, and how many there are.
pub fn exact<T: PartialEq + Debug>(what: &str, got: &[T], want: &[T]) -> Outcome {
    if got.len() != want.len() {
        return Err(format!("{what}: {} elements, expected {}", got.len(), want.len()));
    }
    let wrong: Vec<usize> = (0..got.len()).filter(|&i| got[i] != want[i]).collect();
    let Some(&i) = wrong.first() else { return Ok(()) };
    Err(format!("{what}[{i}] is {:?}, expected {:?}; {} of {} differ", got[i], want[i], wrong.len(), got.len()))
}

/// Every element within its bound of what is expected. NaN equals NaN, an infinity only itself.
///
/// # Errors
/// The worst difference, and how many there are.
pub fn close(what: &str, got: &[f64], want: &[f64], bound: impl Fn(usize) -> f64) -> Outcome {
    if got.len() != want.len() {
        return Err(format!("{what}: {} elements, expected {}", got.len(), want.len()));
    }
    let excess = |i: usize| {
        let (g, w) = (got[i], want[i]);
        if g == w || (g.is_nan() && w.is_nan()) {
            return 0.0;
        }
        let ratio = (g - w).abs() / bound(i);
        if ratio.is_nan() { f64::INFINITY } else { ratio }
    };
    let wrong = (0..got.len()).filter(|&i| excess(i) > 1.0).count();
    if wrong == 0 {
        return Ok(());
    }
    let worst = (0..got.len()).max_by(|&a, &b| excess(a).total_cmp(&excess(b))).expect("some element is wrong");
    Err(format!(
        "{what}[{worst}] is {:e} ({:#x}), expected {:e} ({:#x}) within {:e}; {wrong} of {} differ",
        got[worst],
        got[worst].to_bits(),
        want[worst],
        want[worst].to_bits(),
        bound(worst),
        got.len()
    ))
}

/// The distance from 1 to the next number in f32.
pub const EPS32: f64 = f32::EPSILON as f64;

/// `count` units in the last place of an f32 result, and the smallest normal number, below which
/// results may be flushed.
#[must_use]
pub fn ulps32(count: f64, want: f64) -> f64 {
    count * EPS32 * want.abs() + f64::from(f32::MIN_POSITIVE)
}

/// `count` units in the last place of an f64 result.
#[must_use]
pub fn ulps64(count: f64, want: f64) -> f64 {
    count * f64::EPSILON * want.abs() + f64::MIN_POSITIVE
}

/// Error of an f32 sum whose longest chain of additions is `depth` long, over values of this
/// absolute sum.
#[must_use]
pub fn sum_error(depth: usize, absolute_sum: f64) -> f64 {
    depth as f64 * EPS32 / 2.0 * absolute_sum * 1.01
}

/// Widens, to compare in f64.
#[must_use]
pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}
