//! Noise without state: Philox 4x32-10 (Salmon et al., SC'11) keyed by the seed and counted by
//! position and token, and what it is as Gumbel noise.

use warpfold_lang::Val;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// What the noise of a row depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    pub(super) seed: [Val<u32>; 2],
    pub(super) position: Val<u32>,
}

impl Noise {
    /// The random words of four tokens, the first of which is `4 * quad`.
    pub(super) fn words(&self, quad: Val<u32>) -> [Val<u32>; 4] {
        philox([self.position, quad, Val::constant(0), Val::constant(0)], self.seed)
    }
}

/// Four random words of a counter and a key.
pub(crate) fn philox(counter: [Val<u32>; 4], key: [Val<u32>; 2]) -> [Val<u32>; 4] {
    let (mut c, mut k) = (counter, key);
    for _ in 0..ROUNDS {
        let [a, b] = [c[0].mul_wide(MULTIPLIERS[0]), c[2].mul_wide(MULTIPLIERS[1])];
        let (high, low) = (|x: Val<u64>| (x >> 32).cast::<u32>(), |x: Val<u64>| x.cast::<u32>());
        c = [high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)];
        k = [k[0] + WEYL[0], k[1] + WEYL[1]];
    }
    c
}

/// The Gumbel noise of a random word: `-ln(-ln(u))`, where `u` is the middle of one of 2^24 equal
/// parts of (0, 1).
pub(super) fn gumbel(word: Val<u32>) -> Val<f64> {
    let u = ((word >> 8).cast::<f64>() + 0.5) * (1.0 / f64::from(1_u32 << 24));
    -((-(u.ln())).ln())
}

/// The same within 1e-4, for a fraction of the time.
pub(super) fn gumbel_approx(word: Val<u32>) -> Val<f32> {
    const LN_2: f32 = std::f32::consts::LN_2;
    const SCALE: f32 = 1.0 / (1_u32 << 24) as f32;
    let part = word >> 8;
    // Near 1 the logarithm is a series in 1 - u, which is exact there: `log2_approx` errs by 2^-22.
    let v = ((Val::constant(1_u32 << 24) - part).cast::<f32>() - 0.5) * SCALE;
    let series = v * (v * (v * (v * 0.25 + 1.0 / 3.0) + 0.5) + 1.0);
    let far = ((part.cast::<f32>() + 0.5) * SCALE).log2_approx() * -LN_2;
    let inner = part.ge(0xE0_0000).select(series, far);
    inner.log2_approx() * -LN_2
}
