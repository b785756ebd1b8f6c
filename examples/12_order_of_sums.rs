//! Why the order of a sum is part of its result: floats are not associative. The same ten small
//! numbers beside two large ones, from the left and from the right; small numbers that an
//! accumulator of 16 bits loses; and a sum whose order is that of time, beside sums whose order is
//! fixed.

use std::collections::BTreeSet;

use half::f16;
use warpfold::reductions::{Options, Reduction};
use warpfold::{Axes, Device, Tensor};
use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, range, thread_idx, var, when};

/// One thread adds all of them up: from the first on, and from the last on.
fn from_either_end(device: &Device, elements: &[f64]) -> Result<[f64; 2], warpfold::Error> {
    let both = kernel("from_either_end", |elements: Global<f64>, sums: Global<f64>, len: Val<u32>| {
        for (end, sum) in [false, true].into_iter().zip([sums, sums.at(1)]) {
            let total = var(0.0_f64);
            range(0, len, 1, |i| total.set(total.get() + elements.at(if end { len - 1 - i } else { i }).get()));
            sum.set(total.get());
        }
    });
    let (elements, len) = (device.upload(elements)?, elements.len() as u32);
    let mut sums = device.alloc::<f64>(2)?;
    device.launch(&both, LaunchConfig::new(1, 1), (&elements, &mut sums, len))?;
    let sums = sums.download()?;
    Ok([sums[0], sums[1]])
}

/// One thread adds all of them up, and rounds each sum to 16 bits.
fn in_halves(device: &Device, elements: &[f16]) -> Result<f32, warpfold::Error> {
    let narrow = kernel("in_halves", |elements: Global<f16>, sum: Global<f16>, len: Val<u32>| {
        let total = var(f16::ZERO);
        range(0, len, 1, |i| total.set(total.get() + elements.at(i).get()));
        sum.set(total.get());
    });
    let (elements, len) = (device.upload(elements)?, elements.len() as u32);
    let mut sum = device.alloc::<f16>(1)?;
    device.launch(&narrow, LaunchConfig::new(1, 1), (&elements, &mut sum, len))?;
    Ok(sum.download()?[0].to_f32())
}

/// Each thread adds its element to one word, when its turn comes.
fn as_time_has_it(device: &Device, elements: &[f32]) -> Result<f32, warpfold::Error> {
    let atomic = kernel("as_time_has_it", |elements: Global<f32>, sum: Global<f32>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || sum.reduction().add(elements.at(i).get()));
    });
    let (elements, len) = (device.upload(elements)?, elements.len() as u32);
    let mut sum = device.alloc_zeroed::<f32>(1)?;
    device.launch(&atomic, LaunchConfig::for_elements(elements.len(), 256), (&elements, &mut sum, len))?;
    Ok(sum.download()?[0])
}

fn main() -> Result<(), warpfold::Error> {
    let device = Device::from_env()?;
    println!("on {device}");

    let elements = [[1e-20; 10].as_slice(), &[1e20, -1e20]].concat();
    let [left, right] = from_either_end(&device, &elements)?;
    println!("ten times 1e-20, then 1e20 and -1e20: {left:e} from the left, {right:e} from the right");
    assert_eq!([left, right], [0.0, 9.999999999999997e-20]);

    let elements = [[f16::from_f32(1000.0)].as_slice(), &[f16::from_f32(1e-3); 1000]].concat();
    let narrow = in_halves(&device, &elements)?;
    let x = Tensor::from_slice(&elements, &[elements.len()], &device)?;
    let wide = x.sum(Axes::All)?.to_vec::<f16>()?[0];
    println!(
        "1000 and a thousand times 0.001: {narrow} where each sum is rounded to f16, {wide} as a tensor of f16 has it"
    );
    assert_eq!((narrow, wide.to_f32()), (1000.0, 1001.0));

    let elements: Vec<f32> = (0..20_000_i32).map(|i| i.wrapping_mul(-1_640_531_535) as f32).collect();
    let x = Tensor::from_slice(&elements, &[elements.len()], &device)?;
    let runs = |sum: &dyn Fn() -> Result<f32, warpfold::Error>| {
        (0..20).map(|_| Ok(sum()?.to_bits())).collect::<Result<BTreeSet<u32>, warpfold::Error>>()
    };
    let by_atomics = runs(&|| as_time_has_it(&device, &elements))?;
    let fixed = runs(&|| Ok(x.sum(Axes::All)?.to_vec::<f32>()?[0]))?;
    println!("20 sums of 20,000 numbers: {} result(s) by atomics, {} by a tensor's sum", by_atomics.len(), fixed.len());
    assert_eq!(fixed.len(), 1);

    // Another order of the elements is another sum, unless it is one that does not depend on the
    // order.
    let mut ascending = elements.clone();
    ascending.sort_by(f32::total_cmp);
    let ascending = Tensor::from_slice(&ascending, &[elements.len()], &device)?;
    let of = |x: &Tensor, reduction| -> Result<f32, warpfold::Error> {
        Ok(x.reduce(reduction, Axes::All, Options::default())?[0].to_vec::<f32>()?[0])
    };
    for reduction in [Reduction::Sum, Reduction::ReproducibleSum] {
        println!("{reduction}: {} as they come, {} in ascending order", of(&x, reduction)?, of(&ascending, reduction)?);
    }
    assert_eq!(of(&x, Reduction::ReproducibleSum)?.to_bits(), of(&ascending, Reduction::ReproducibleSum)?.to_bits());
    Ok(())
}
