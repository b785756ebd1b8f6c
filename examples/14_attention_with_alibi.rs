//! Attention with a user-defined score function: ALiBi subtracts from each score the distance of
//! query and key, times a slope of the head (Press, Smith and Lewis 2022). A closure adds it to the
//! shipped kernel, for prefill and for a paged cache alike.

use warpfold::{Attention, CacheShape, Device, Dtype, Error, NewTokens, PageLayout, PagedCache, Queue, Score, Tensor};

const HEADS: usize = 4;
const DIM: usize = 16;
const LEN: usize = 40;

fn main() -> Result<(), Error> {
    let device = Device::from_env()?;
    println!("on {device}");
    let element = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
    let of = |seed: usize| {
        let elements: Vec<f32> = (0..LEN * HEADS * DIM).map(|i| element(i + 100_000 * seed)).collect();
        Tensor::from_slice(&elements, &[LEN, HEADS, DIM], &device)
    };
    let (q, k, v) = (of(1)?, of(2)?, of(3)?);

    // The slopes of four heads: 1/4, 1/16, 1/64, 1/256. The closure is recorded into the kernel.
    let alibi = Score::new(|score, at| {
        let slope = ((at.head.cast::<f32>() + 1.0) * -2.0).exp2();
        score - slope * (at.query - at.key).cast::<f32>()
    });
    let attention = Attention::new().causal().score(&alibi);

    // All queries at once, [batch, heads, length, head size] as views.
    let by_heads = |x: &Tensor| x.permute(&[1, 0, 2])?.unsqueeze(0);
    let prefill = attention.run(&by_heads(&q)?, &by_heads(&k)?, &by_heads(&v)?)?;

    // The last query alone, over a cache of pages.
    let shape = CacheShape { pages: 4, page: 16, kv_heads: HEADS, head_dim: DIM, value_dim: DIM };
    let mut cache = PagedCache::new(&Queue::of(&device), Dtype::F32, shape, PageLayout::Nhd)?;
    // Pages 2, 0, 3 in this order.
    let slots: Vec<i32> = (0..LEN as i32).map(|i| [2, 0, 3][i as usize / 16] * 16 + i % 16).collect();
    let slots = Tensor::from_slice(&slots, &[LEN], &device)?;
    cache.write(NewTokens { keys: &k, values: &v, slots: &slots }, None)?;
    let table = Tensor::from_slice(&[2_i32, 0, 3], &[1, 3], &device)?;
    let lens = Tensor::from_slice(&[LEN as i32], &[1], &device)?;
    let last = q.slice(0, LEN - 1..)?;
    let decode = attention.run_paged(&last, cache.pages(&table, &lens), None)?;

    let of_prefill = prefill.output.slice(2, LEN - 1..)?.to_vec::<f32>()?;
    let of_decode = decode.output.to_vec::<f32>()?;
    assert!(of_prefill.iter().zip(&of_decode).all(|(a, b)| a.to_bits() == b.to_bits()), "the same bits");

    // The same in f64, for the last query of each head.
    let (q, k, v) = (q.to_vec::<f32>()?, k.to_vec::<f32>()?, v.to_vec::<f32>()?);
    for head in 0..HEADS {
        let at = |x: &[f32], token: usize, column: usize| f64::from(x[(token * HEADS + head) * DIM + column]);
        let score = |key: usize| {
            let dot: f64 = (0..DIM).map(|c| at(&q, LEN - 1, c) * at(&k, key, c)).sum();
            dot / (DIM as f64).sqrt() - 0.25_f64.powi(head as i32 + 1) * (LEN - 1 - key) as f64
        };
        let weights: Vec<f64> = (0..LEN).map(|key| score(key).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let nearest = weights[LEN - 8..].iter().sum::<f64>() / sum;
        println!("head {head}: {:.0} % of the weight on the nearest 8 of {LEN} keys", nearest * 100.0);
        for column in 0..DIM {
            let expected: f64 = (0..LEN).map(|key| weights[key] * at(&v, key, column)).sum::<f64>() / sum;
            let found = f64::from(of_decode[head * DIM + column]);
            assert!((found - expected).abs() < 1e-5, "head {head}, column {column}: {found}, not {expected}");
        }
    }
    Ok(())
}
