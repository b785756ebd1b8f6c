//! Ragged segments: documents of any length, side by side in one tensor, each reduced by itself in
//! one launch.
//!
//! Offsets say where each begins. Empty and tiny ones, and one that is far longer than all others,
//! need no padding and no sorting: lanes, warps and blocks share them out on the device.

use warpfold::reductions::{Options, Reduction};
use warpfold::{Cumulative, Direction, Prefix};
use warpfold::{Device, ScanOrder, Tensor};

fn main() -> Result<(), warpfold::Error> {
    let device = Device::from_env()?;
    println!("on {device}");
    let lengths = [3, 0, 1, 50_000, 2, 700];
    let scores: Vec<f32> = (0..lengths.iter().sum::<i64>()).map(|i| (i % 1000) as f32 / 10.0).collect();
    let scores = Tensor::from_slice(&scores, &[scores.len()], &device)?;

    // Lengths become offsets by a scan: each offset is the sum of the lengths before it.
    let with_end = [lengths.as_slice(), &[0]].concat();
    let lengths_of = Tensor::from_slice(&with_end, &[with_end.len()], &device)?;
    let before = ScanOrder { prefix: Prefix::Exclusive, direction: Direction::Forward };
    let offsets = lengths_of.scan(Cumulative::Sum, 0, before, None)?;

    let mean = &scores.segment_reduce(Reduction::Mean, &offsets, Options::default())?[0];
    let best = &scores.segment_reduce(Reduction::ArgMax, &offsets, Options::default())?[0];
    let (mean, best) = (mean.to_vec::<f32>()?, best.to_vec::<i64>()?);
    for ((length, mean), best) in lengths.iter().zip(mean).zip(best) {
        match length {
            0 => println!("     0 scores"),
            _ => println!("{length:6} scores: mean {mean:8.4}, best at {best}"),
        }
    }
    Ok(())
}
