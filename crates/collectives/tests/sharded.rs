//! Folds whose axis is split over devices, against the same fold on one device.

use warpfold::{Axes, Device, Dtype, Profile, Tensor};
use warpfold_collectives::{Error, Group, Sharded};

const SHAPE: [usize; 3] = [3, 37, 2];

fn numbers() -> Vec<f32> {
    (0..SHAPE.iter().product()).map(|i| ((i * 37 + 11) % 101) as f32 / 8.0 - 5.0).collect()
}

/// The shard of a rank: the axis is split as evenly as it goes, the first ranks with one more.
fn shard(x: &Tensor, rank: usize, ranks: usize) -> Result<Tensor, Error> {
    let (len, more) = (SHAPE[1] / ranks, SHAPE[1] % ranks);
    let start = rank * len + rank.min(more);
    Ok(x.slice(1, start..start + len + usize::from(rank < more))?)
}

#[test]
fn folds_over_a_sharded_axis_are_those_of_the_whole() {
    let one = Device::virtual_gpu(Profile::H200);
    let whole = Tensor::from_slice(&numbers(), &SHAPE, &one).expect("a tensor");
    let axes = || Axes::Of(&[1]);
    let argmax = whole.argmax(axes()).and_then(|t| t.to_vec::<i64>()).expect("a fold");
    let exact = |t: Result<Tensor, warpfold::Error>| t.and_then(|t| t.to_vec::<f32>()).expect("a fold");
    let (max, sum, lse) = (exact(whole.max(axes())), exact(whole.sum(axes())), exact(whole.log_sum_exp(axes())));
    let softmax = exact(whole.softmax(axes()));
    for ranks in [2, 3, 4, 8] {
        let results = Group::virtual_gpus(ranks).expect("a group").run(|rank| -> Result<_, Error> {
            let x = Tensor::from_slice(&numbers(), &SHAPE, rank.device())?;
            let x = Sharded::new(rank, shard(&x, rank.rank(), ranks)?, 1)?;
            assert_eq!(x.len(), SHAPE[1]);
            let soft = x.softmax()?;
            Ok((
                x.argmax()?.to_vec::<i64>()?,
                x.max()?.to_vec::<f32>()?,
                x.sum()?.to_vec::<f32>()?,
                x.log_sum_exp()?.to_vec::<f32>()?,
                (soft.shape().to_vec(), soft.to_vec::<f32>()?),
            ))
        });
        let results = results.expect("no rank fails");
        for (rank, (at, largest, total, log, (shape, soft))) in results.iter().enumerate() {
            assert_eq!((at, largest), (&argmax, &max), "rank {rank} of {ranks}");
            assert_eq!(results[0].2, *total, "the same bits on every rank");
            // Sums of 37 eighths are exact.
            assert_eq!(*total, sum, "rank {rank} of {ranks}");
            let is_near = |a: f32, b: f32| (a - b).abs() <= 4e-6 * b.abs().max(1.0);
            assert!(log.iter().zip(&lse).all(|(a, b)| is_near(*a, *b)), "rank {rank} of {ranks}: {log:?} {lse:?}");
            let expected = Tensor::from_slice(&softmax, &SHAPE, &one).expect("a tensor");
            let expected = shard(&expected, rank, ranks).expect("a shard");
            assert_eq!(shape, expected.shape());
            let expected = expected.to_vec::<f32>().expect("elements");
            assert!(soft.iter().zip(&expected).all(|(a, b)| is_near(*a, *b)), "rank {rank} of {ranks}");
        }
    }
}

#[test]
fn products_and_means_are_those_of_the_whole() {
    // Powers of two and signs: every product and sum is exact.
    let numbers: Vec<f32> = (0..24).map(|i| [2.0, -1.0, 0.5, 1.0, 4.0][i % 5]).collect();
    let one = Device::virtual_gpu(Profile::H200);
    let whole = Tensor::from_slice(&numbers, &[12, 2], &one).expect("a tensor");
    let vec = |t: Result<Tensor, warpfold::Error>| t.and_then(|t| t.to_vec::<f32>()).expect("a fold");
    let (product, mean) = (vec(whole.product(Axes::Of(&[0]))), vec(whole.mean(Axes::Of(&[0]))));
    for (ranks, dtype) in [(2, Dtype::F32), (3, Dtype::Bf16), (4, Dtype::F16)] {
        let results = Group::virtual_gpus(ranks).expect("a group").run(|rank| -> Result<_, Error> {
            let x = Tensor::from_slice(&numbers, &[12, 2], rank.device())?.cast(dtype)?;
            let len = 12 / ranks;
            let x = Sharded::new(rank, x.slice(0, rank.rank() * len..(rank.rank() + 1) * len)?, 0)?;
            let of = |t: Tensor| -> Result<Vec<f32>, Error> {
                assert_eq!(t.dtype(), dtype);
                Ok(t.cast(Dtype::F32)?.to_vec()?)
            };
            Ok((of(x.product()?)?, of(x.mean()?)?))
        });
        for (found_product, found_mean) in results.expect("no rank fails") {
            assert_eq!(found_product, product, "{dtype}");
            let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 4e-3 * b.abs().max(1.0);
            assert!(found_mean.iter().zip(&mean).all(is_near), "{dtype}: {found_mean:?}, not {mean:?}");
        }
    }
    let refused = Group::virtual_gpus(2).expect("a group").run(|rank| -> Result<_, Error> {
        Sharded::new(rank, Tensor::from_slice(&[1_i32, 2], &[2], rank.device())?, 0)?.mean()
    });
    assert!(refused.expect_err("which type would it have?").to_string().contains("a mean is not possible of integers"));
}

#[test]
fn the_first_of_equals_and_of_nan_wins_across_shards() {
    let results = Group::virtual_gpus(3).expect("a group").run(|rank| -> Result<_, Error> {
        let of = |shards: [[f32; 2]; 3]| -> Result<Vec<i64>, Error> {
            let x = Tensor::from_slice(&shards[rank.rank()], &[2], rank.device())?;
            Ok(Sharded::new(rank, x, 0)?.argmax()?.to_vec()?)
        };
        Ok((of([[1.0, 2.0], [5.0, 0.0], [0.0, 5.0]])?, of([[1.0, 2.0], [5.0, f32::NAN], [f32::NAN, 5.0]])?))
    });
    assert_eq!(results.expect("no rank fails"), vec![(vec![2], vec![3]); 3]);
}
