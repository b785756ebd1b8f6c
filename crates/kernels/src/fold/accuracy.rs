//! How far from a sum one in some order may be.

/// How far a computed sum may be from the true one if no element goes through more than `depth`
/// additions, each with relative error `unit_roundoff` (Higham, Accuracy and Stability of Numerical
/// Algorithms, section 4.2).
#[must_use]
pub fn sum_error_bound(depth: u64, unit_roundoff: f64, sum_of_magnitudes: f64) -> f64 {
    let nu = depth as f64 * unit_roundoff;
    nu / (1.0 - nu) * sum_of_magnitudes
}
