//! Images and filters on a device, and their convolution.

use warpfold_device::{Arguments, Device};

use super::ladder::{WORDS, sizes_of};
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, samples};
use crate::reduce::sum_error_bound;
use crate::{Dtype, Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: usize, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    assert_eq!(dtype, Dtype::F32, "the ladder has no other kernels");
    Ok(Box::new(Convolution::new(device, sizes_of(size), guards)?))
}

struct Convolution {
    device: Device,
    guards: Guards,
    sizes: [u32; WORDS],
    images: Vec<f32>,
    weights: Vec<f32>,
    x: Guarded<f32>,
    w: Guarded<f32>,
    y: Guarded<f32>,
    /// What the filters look at, for the rung that writes it.
    columns: Guarded<f32>,
}

impl Convolution {
    fn new(device: &Device, sizes: [u32; WORDS], guards: Guards) -> Result<Self, Error> {
        let [n, c, h, w, k, r, s, .., p, q] = sizes.map(|size| size as usize);
        let (images, weights) = (samples::<f32>(9, n * c * h * w), samples::<f32>(10, k * c * r * s));
        Ok(Self {
            device: device.clone(),
            guards,
            sizes,
            x: Guarded::of(device, "x", &images, guards)?,
            w: Guarded::of(device, "w", &weights, guards)?,
            y: Guarded::new(device, "y", n * k * p * q, guards)?,
            columns: Guarded::new(device, "columns", 1, guards)?,
            images,
            weights,
        })
    }

    fn depth(&self) -> usize {
        [1, 5, 6].map(|word| self.sizes[word] as usize).iter().product()
    }

    /// A result and the sum of the magnitudes of its products.
    fn reference(&self, [image, filter, row, column]: [usize; 4]) -> (f64, f64) {
        let [_, c, h, w, _, r, s, u, v, a, b, ..] = self.sizes.map(|size| size as usize);
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for (l, weight) in self.weights[filter * c * r * s..][..c * r * s].iter().enumerate() {
            let (channel, y, x) = (l / s / r, row * u + l / s % r, column * v + l % s);
            let (Some(y), Some(x)) = (y.checked_sub(a).filter(|y| *y < h), x.checked_sub(b).filter(|x| *x < w)) else {
                continue;
            };
            let product = f64::from(*weight) * f64::from(self.images[((image * c + channel) * h + y) * w + x]);
            sum += product;
            magnitude += product.abs();
        }
        (sum, magnitude)
    }
}

impl Instance for Convolution {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        let [n, .., p, q] = self.sizes.map(|size| size as usize);
        let columns = if rung.launches.len() == 2 { self.depth() * n * p * q } else { 1 };
        self.columns = Guarded::new(&self.device, "columns", columns, self.guards)?;
        self.y.renew(&self.device, "y", self.guards)
    }

    fn arguments(&mut self, rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let arguments = Arguments::new();
        let arguments = match (rung.launches.len(), launch_idx) {
            (2, 0) => arguments.input(self.x.view()?).input(self.w.view()?).output(self.columns.view_mut()?),
            (2, _) => arguments.input(self.columns.view()?).input(self.w.view()?).output(self.y.view_mut()?),
            _ => arguments.input(self.x.view()?).input(self.w.view()?).output(self.y.view_mut()?),
        };
        let words: Vec<u8> = self.sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
        Ok(arguments.raw(&words, 4))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        /// Multiply-adds that the host does at most.
        const MOST: usize = 1 << 28;
        let [_, _, _, _, k, .., p, q] = self.sizes.map(|size| size as usize);
        let (results, intact) = self.y.read()?;
        let intact = intact && self.x.is_intact()? && self.w.is_intact()? && self.columns.is_intact()?;
        let mut verdict = Verdict { ok: intact, max_error: 0.0 };
        // All results, unless that takes minutes; a step that shares no factor with the sizes meets every row and column.
        let step = (results.len() * self.depth()).div_ceil(MOST).max(1) | 1;
        for position in (0..results.len()).rev().step_by(step) {
            let place = [position / q / p / k, position / q / p % k, position / q % p, position % q];
            let (sum, magnitude) = self.reference(place);
            let error = (f64::from(results[position]) - sum).abs();
            // Written so that a NaN is wrong.
            verdict.ok &= error <= sum_error_bound(self.depth() as u64 + 1, f32::UNIT_ROUNDOFF, magnitude);
            verdict.max_error = verdict.max_error.max(error);
        }
        Ok(verdict)
    }

    fn bytes(&self) -> u64 {
        let [n, _, _, _, k, .., p, q] = self.sizes.map(|size| size as usize);
        4 * (self.images.len() + self.weights.len() + n * k * p * q) as u64
    }

    fn flops(&self) -> Option<u64> {
        let [n, _, _, _, k, .., p, q] = self.sizes.map(u64::from);
        Some(2 * n * k * p * q * self.depth() as u64)
    }
}
