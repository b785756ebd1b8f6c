//! Attention as it is written down, key after key in `f64`, with a function that says each score.

/// The sizes of an attention: queries `[batch, heads, len, dim]`, keys `[batch, kv_heads, keys,
/// dim]`, values with `value_dim`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub len: usize,
    pub keys: usize,
    pub dim: usize,
    pub value_dim: usize,
}

/// Which score it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub batch: usize,
    pub head: usize,
    pub query: usize,
    pub key: usize,
}

/// Results and log-sum-exp. `score` makes of `q · k` what the softmax takes: minus infinity for a
/// key that is not seen.
pub(crate) fn attention(
    sizes: Sizes,
    [q, k, v]: [&[f64]; 3],
    score: impl Fn(f64, At) -> f64,
    sink: impl Fn(usize) -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let Sizes { batch, heads, kv_heads, len, keys, dim, value_dim } = sizes;
    let (mut results, mut lse) = (Vec::new(), Vec::new());
    for row in 0..batch * heads * len {
        let (b, h, i) = (row / (heads * len), row / len % heads, row % len);
        let kv = b * kv_heads + h / (heads / kv_heads);
        let query = &q[row * dim..][..dim];
        let one = |j: usize| {
            let key = &k[(kv * keys + j) * dim..][..dim];
            let dot: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
            score(dot, At { batch: b, head: h, query: i, key: j })
        };
        let scores: Vec<f64> = (0..keys).map(one).collect();
        let max = scores.iter().copied().fold(sink(h), f64::max);
        if max == f64::NEG_INFINITY {
            results.extend(std::iter::repeat_n(0.0, value_dim));
            lse.push(f64::NEG_INFINITY);
            continue;
        }
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let sum: f64 = weights.iter().sum::<f64>() + (sink(h) - max).exp();
        let column = |c: usize| {
            let weighed = |(j, weight): (usize, &f64)| weight * v[(kv * keys + j) * value_dim + c];
            weights.iter().enumerate().map(weighed).sum::<f64>() / sum
        };
        results.extend((0..value_dim).map(column));
        lse.push(max + sum.ln());
    }
    (results, lse)
}

/// No sink.
pub(crate) fn no_sink(_: usize) -> f64 {
    f64::NEG_INFINITY
}
