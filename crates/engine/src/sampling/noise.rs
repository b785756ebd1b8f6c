//! Noise without state: Philox 4x32-10 (Salmon et al., SC'11) keyed by the seed and counted by
//! position and token.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Four random words for a key and a counter.
#[must_use]
pub fn philox(key: u64, counter: [u32; 4]) -> [u32; 4] {
    let mut k = [low(key), low(key >> 32)];
    let mut c = counter;
    for _ in 0..ROUNDS {
        let a = u64::from(MULTIPLIERS[0]) * u64::from(c[0]);
        let b = u64::from(MULTIPLIERS[1]) * u64::from(c[2]);
        c = [low(b >> 32) ^ c[1] ^ k[0], low(b), low(a >> 32) ^ c[3] ^ k[1], low(a)];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// The Gumbel noise of a token at a position: `-ln(-ln(u))`, where `u` is the middle of one of 2^24
/// equal parts of (0, 1), which an `f32` holds exactly. Word `token % 4` of the counter `[position,
/// token / 4, 0, 0]` chooses it.
#[must_use]
pub fn gumbel(seed: u64, position: u32, token: u32) -> f64 {
    let words = philox(seed, [position, token / 4, 0, 0]);
    let part = words[(token % 4) as usize] >> 8;
    let u = (f64::from(part) + 0.5) / f64::from(1_u32 << 24);
    -(-u.ln()).ln()
}

fn low(x: u64) -> u32 {
    (x & 0xFFFF_FFFF) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_known_answers_of_its_authors() {
        // kat_vectors of Random123 1.14, philox4x32 10.
        assert_eq!(philox(0, [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u64::MAX, [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        assert_eq!(philox(0x299f_31d0_a409_3822, pi), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn gumbel_noise_has_the_mean_and_variance_of_its_distribution() {
        let draws: Vec<_> = (0..40_000).map(|i| gumbel(7, i / 100, i % 100)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5772).abs() < 0.02, "{mean}");
        assert!((variance - std::f64::consts::PI.powi(2) / 6.0).abs() < 0.06, "{variance}");
    }
}
