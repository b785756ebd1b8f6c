//! Images and filters on a device, and their convolution.

use warpfold_device::{Arguments, Device, MapMode, MapSwizzle, TensorLayout};
use warpfold_kernels::Dtype;
use warpfold_kernels::fold::sum_error_bound;

use super::ladder::{BOX, Data, WORDS, data_of, sizes_of};
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, samples};
use crate::row::{RowElement, open_typed};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    open_typed!(dtype, convolution(device, sizes_of(size), guards))
}

fn convolution<T: RowElement>(device: &Device, sizes: [u32; WORDS], guards: Guards) -> Result<Convolution<T>, Error> {
    Convolution::new(device, sizes, guards)
}

struct Convolution<T: RowElement> {
    device: Device,
    guards: Guards,
    sizes: [u32; WORDS],
    images: Vec<T>,
    weights: Vec<T>,
    x: Guarded<T>,
    w: Guarded<T>,
    y: Guarded<T>,
    /// The im2col matrix, for the rung that writes it.
    columns: Guarded<T>,
    /// Images and filters with their channels behind the pixels, from the first rung on that takes
    /// them.
    last: Option<[Guarded<T>; 2]>,
}

/// The elements of `[n, c, pixels]` as `[n, pixels, padded]`; zeros are the channels that there are
/// not.
fn channels_last<T: RowElement>(elements: &[T], [channels, pixels, padded]: [usize; 3]) -> Vec<T> {
    let mut moved = vec![T::ZERO; elements.len() / channels * padded];
    for (i, element) in elements.iter().enumerate() {
        let (image, channel, pixel) = (i / pixels / channels, i / pixels % channels, i % pixels);
        moved[(image * pixels + pixel) * padded + channel] = *element;
    }
    moved
}

impl<T: RowElement> Convolution<T> {
    fn new(device: &Device, sizes: [u32; WORDS], guards: Guards) -> Result<Self, Error> {
        let [n, c, h, w, k, r, s, .., p, q] = sizes.map(|size| size as usize);
        let (images, weights) = (samples::<T>(9, n * c * h * w), samples::<T>(10, k * c * r * s));
        Ok(Self {
            device: device.clone(),
            guards,
            sizes,
            x: Guarded::of(device, "x", &images, guards)?,
            w: Guarded::of(device, "w", &weights, guards)?,
            y: Guarded::new(device, "y", n * k * p * q, guards)?,
            columns: Guarded::new(device, "columns", 1, guards)?,
            last: None,
            images,
            weights,
        })
    }

    fn depth(&self) -> usize {
        [1, 5, 6].map(|word| self.sizes[word] as usize).iter().product()
    }

    /// The sizes as a rung sees them.
    fn sizes_for(&self, data: Data) -> [u32; WORDS] {
        let mut sizes = self.sizes;
        if data != Data::ChannelsFirst {
            sizes[1] = sizes[1].next_multiple_of(T::WIDTH);
        }
        sizes
    }

    fn make_last(&self) -> Result<[Guarded<T>; 2], Error> {
        let [_, c, h, w, _, r, s, ..] = self.sizes.map(|size| size as usize);
        let padded = self.sizes_for(Data::ChannelsLast)[1] as usize;
        let of = |name, elements: &[T], pixels| {
            Guarded::of(&self.device, name, &channels_last(elements, [c, pixels, padded]), self.guards)
        };
        Ok([of("x", &self.images, h * w)?, of("w", &self.weights, r * s)?])
    }

    /// The maps of images and filters: a pixel's channels, or an element's, for each line of a
    /// tile.
    fn layouts(&self) -> [TensorLayout; 2] {
        let [n, c, h, w, k, r, s, u, v, a, b, ..] = self.sizes_for(Data::Maps);
        let [pixels, elements] = [[n, h, w], [k, r, s]].map(|sizes| sizes.map(u64::from));
        let c = u64::from(c);
        let images = TensorLayout {
            mode: MapMode::Im2col {
                lower: [b, a].map(|padding| -(padding as i32)).to_vec(),
                upper: [[b, s], [a, r]].map(|[padding, side]| padding as i32 - (side as i32 - 1)).to_vec(),
                channels_per_pixel: BOX[0] * T::WIDTH,
                pixels_per_column: BOX[1],
            },
            element_strides: vec![1, v, u, 1],
            ..TensorLayout::tiled(
                &[c, pixels[2], pixels[1], pixels[0]],
                &[c, pixels[2] * c, pixels[1] * pixels[2] * c],
                &[1; 4],
                MapSwizzle::Bytes128,
            )
        };
        let elements_of_filter = elements[1] * elements[2];
        let sizes = [c, elements_of_filter, elements[0]];
        let of_filters = [BOX[0] * T::WIDTH, 1, BOX[1]];
        [images, TensorLayout::tiled(&sizes, &[c, elements_of_filter * c], &of_filters, MapSwizzle::Bytes128)]
    }

    /// The position of a result: image, filter, row, column.
    fn place(&self, data: Data, position: usize) -> [usize; 4] {
        let [_, _, _, _, k, .., p, q] = self.sizes.map(|size| size as usize);
        match data {
            Data::ChannelsFirst => [position / q / p / k, position / q / p % k, position / q % p, position % q],
            Data::ChannelsLast | Data::Maps => {
                [position / k / q / p, position % k, position / k / q % p, position / k % q]
            }
        }
    }

    /// Returns the error bound of a sum, given the sum of its products' magnitudes.
    fn bound(&self, data: Data, magnitude: f64) -> f64 {
        /// Relative error of an `f32` factor without its low 13 bits; f16 and bf16 lose nothing.
        const TF32: f64 = 1.0 / 1024.0;
        let (depth, loss) = (self.depth(), if T::WIDTH == f32::WIDTH { TF32 } else { 0.0 });
        match data {
            Data::ChannelsFirst => sum_error_bound(depth as u64 + 1, f32::UNIT_ROUNDOFF, magnitude),
            // As `hgemm` has it, behind the factors' loss.
            Data::ChannelsLast | Data::Maps => {
                let of_sums = 2.0 * depth as f64 * f64::from(f32::EPSILON);
                (2.0 * loss + of_sums * (1.0 + 2.0 * loss)) * magnitude
            }
        }
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
            let product = weight.as_f64() * self.images[((image * c + channel) * h + y) * w + x].as_f64();
            sum += product;
            magnitude += product.abs();
        }
        (sum, magnitude)
    }
}

impl<T: RowElement> Instance for Convolution<T> {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        let [n, .., p, q] = self.sizes.map(|size| size as usize);
        let columns = if rung.launches.len() == 2 { self.depth() * n * p * q } else { 1 };
        self.columns = Guarded::new(&self.device, "columns", columns, self.guards)?;
        if data_of(rung.name) != Data::ChannelsFirst && self.last.is_none() {
            self.last = Some(self.make_last()?);
        }
        self.y.renew(&self.device, "y", self.guards)
    }

    fn arguments(&mut self, rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let data = data_of(rung.name);
        let [images, filters] = self.layouts();
        let words: Vec<u8> = self.sizes_for(data).iter().flat_map(|size| size.to_le_bytes()).collect();
        let [x, w] = match &self.last {
            Some([x, w]) if data != Data::ChannelsFirst => [x.view()?, w.view()?],
            _ => [self.x.view()?, self.w.view()?],
        };
        let arguments = Arguments::new();
        let arguments = match (data, rung.launches.len(), launch_idx) {
            (Data::Maps, ..) => arguments
                .tensor_map(&x.tensor_map(&images)?)
                .tensor_map(&w.tensor_map(&filters)?)
                .output(self.y.view_mut()?),
            (_, 2, 0) => arguments.input(x).input(w).output(self.columns.view_mut()?),
            (_, 2, _) => arguments.input(self.columns.view()?).input(w).output(self.y.view_mut()?),
            _ => arguments.input(x).input(w).output(self.y.view_mut()?),
        };
        Ok(arguments.raw(&words, 4))
    }

    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error> {
        /// Multiply-adds that the host does at most.
        const MOST: usize = 1 << 28;
        let (results, intact) = self.y.read()?;
        let mut inputs = [&self.x, &self.w, &self.columns].into_iter().chain(self.last.iter().flatten());
        let intact = inputs.try_fold(intact, |intact, input| Ok::<_, Error>(intact & input.is_intact()?))?;
        let data = data_of(rung.name);
        let mut verdict = Verdict { ok: intact, max_error: 0.0 };
        // All results, unless that takes minutes; a step that shares no factor with the sizes meets
        // every row and column.
        let step = (results.len() * self.depth()).div_ceil(MOST).max(1) | 1;
        for position in (0..results.len()).rev().step_by(step) {
            let (sum, magnitude) = self.reference(self.place(data, position));
            let error = (results[position].as_f64() - sum).abs();
            // Written so that a NaN is wrong.
            verdict.ok &= error <= self.bound(data, magnitude) + T::UNIT_ROUNDOFF * sum.abs() + T::SMALLEST;
            verdict.max_error = verdict.max_error.max(error);
        }
        Ok(verdict)
    }

    fn bytes(&self) -> u64 {
        let [n, _, _, _, k, .., p, q] = self.sizes.map(|size| size as usize);
        <T as LadderElement>::DTYPE.bytes() * (self.images.len() + self.weights.len() + n * k * p * q) as u64
    }

    fn flops(&self) -> Option<u64> {
        let [n, _, _, _, k, .., p, q] = self.sizes.map(u64::from);
        Some(2 * n * k * p * q * self.depth() as u64)
    }
}
