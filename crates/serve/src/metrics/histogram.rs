//! Counts of values by size, which threads add to without a lock.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Values by the least bound that they do not pass.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds.
    counts: Box<[AtomicU64]>,
    /// In millionths.
    sum: AtomicU64,
}

const PARTS: f64 = 1e6;

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    pub(crate) fn add(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * PARTS) as u64, Ordering::Relaxed);
    }

    /// Writes it in Prometheus' text format.
    pub(crate) fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut count = 0;
        for (i, in_bucket) in self.counts.iter().enumerate() {
            count += in_bucket.load(Ordering::Relaxed);
            let bound = self.bounds.get(i).map_or_else(|| "+Inf".to_owned(), |bound| format!("{bound:?}"));
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
        }
        let sum = self.sum.load(Ordering::Relaxed) as f64 / PARTS;
        let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
        let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_its_bucket_and_all_above() {
        let histogram = Histogram::new(&[1.0, 2.5]);
        [0.5, 1.0, 2.0, 9.0].iter().for_each(|value| histogram.add(*value));
        let mut text = String::new();
        histogram.write(&mut text, "a", "m=\"x\"");
        let expected = "a_bucket{m=\"x\",le=\"1.0\"} 2\na_bucket{m=\"x\",le=\"2.5\"} 3\na_bucket{m=\"x\",le=\"+Inf\"} 4\n\
                        a_sum{m=\"x\"} 12.5\na_count{m=\"x\"} 4\n";
        assert_eq!(text, expected);
    }
}
