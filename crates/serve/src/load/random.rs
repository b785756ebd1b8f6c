//! Numbers that look drawn and repeat: SplitMix64 (Steele, Lea, Flood 2014).

/// A source of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Above 0 and up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    /// Exponentially distributed around `mean`: the gaps of a Poisson process.
    pub(crate) fn gap(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// Log-normally distributed around `median` (Box, Muller 1958).
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        median * (sigma * normal).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_their_mean_and_median() {
        let mut random = Random::new(1);
        let mean = (0..20_000).map(|_| random.gap(3.0)).sum::<f64>() / 20_000.0;
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
        let mut lens: Vec<f64> = (0..20_001).map(|_| random.log_normal(120.0, 1.0)).collect();
        lens.sort_by(f64::total_cmp);
        assert!((lens[10_000] - 120.0).abs() < 5.0, "{}", lens[10_000]);
        assert!((0..1000).all(|_| (3..=5).contains(&random.between(3, 5))));
    }
}
