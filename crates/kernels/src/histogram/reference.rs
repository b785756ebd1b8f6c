//! A histogram on the host.

use super::Histogram;

impl Histogram {
    /// How often each of the values `0..bins` occurs, counted on the host; other values are not
    /// counted.
    #[must_use]
    pub fn reference(values: impl IntoIterator<Item = i128>, bins: usize) -> Vec<i32> {
        let mut counts = vec![0; bins];
        for value in values {
            if let Some(count) = usize::try_from(value).ok().and_then(|bin| counts.get_mut(bin)) {
                *count += 1;
            }
        }
        counts
    }
}
