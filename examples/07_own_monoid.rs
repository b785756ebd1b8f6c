//! A user-defined monoid: the longest run of elements above zero is no built-in reduction; a few
//! lines carry it through every level of the machine, for any shape.

use warpfold::{Axes, Device, Queue, Tensor};
use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Fold, Monoid, Position};
use warpfold_lang::Val;

/// The longest run of elements above zero: how many above zero an interval begins with, ends with,
/// has in a row at most, and how long it is. It does not commute, so it is folded in the order of
/// the elements.
#[derive(Debug, Clone, Copy)]
struct LongestRun;

impl Monoid for LongestRun {
    type Item = Val<f32>;
    type Acc = (Val<u32>, Val<u32>, Val<u32>, Val<u32>);
    type Output = Val<u32>;
    const COMMUTES: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(0), Val::constant(0), Val::constant(0), Val::constant(0))
    }
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let begin = left.0.eq(left.3).select::<u32>(left.3 + right.0, left.0);
        let end = right.1.eq(right.3).select::<u32>(right.3 + left.1, right.1);
        (begin, end, left.2.max(right.2).max(left.1 + right.0), left.3 + right.3)
    }
    fn lift(self, item: Val<f32>, _: Position) -> Self::Acc {
        let is_above = item.gt(0.0).cast::<u32>();
        (is_above, is_above, is_above, Val::constant(1))
    }
    fn finish(self, acc: Self::Acc, _: Val<u64>) -> Val<u32> {
        acc.2
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::from_env()?;
    println!("on {device}");
    let (rows, len) = (3, 100_000);
    let elements: Vec<f32> =
        (0..rows * len).map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 16) as f32 - 20_000.0).collect();
    let x = Tensor::from_slice(&elements, &[rows, len], &device)?;

    let fold = Fold::new("longest_run", LongestRun, Source::one::<f32>(Dtype::F32), Sink::one::<u32>(Dtype::U32));
    let longest = x.fold(&fold, Axes::Of(&[1]))?.remove(0).to_vec::<u32>()?;

    for (row, elements) in elements.chunks(len).enumerate() {
        let runs = elements.split(|x| *x <= 0.0).map(<[f32]>::len);
        assert_eq!(longest[row], runs.max().unwrap_or(0) as u32);
        println!("row {row}: at most {} elements above zero in a row", longest[row]);
    }
    // The same on another stream.
    let queue = Queue::new(device.new_stream()?);
    assert_eq!(x.on(&queue).fold(&fold, Axes::Of(&[1]))?.remove(0).to_vec::<u32>()?, longest);
    Ok(())
}
