//! Two matrices of halves on a device, and their product.

use std::cell::OnceCell;

use warpfold_device::{Arguments, Device, MapSwizzle, TensorLayout};
use warpfold_kernels::Dtype;

use super::block::{Half, pitch};
use super::ladder::boxes;
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, samples, unpack};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    Ok(match dtype {
        Dtype::Bf16 => Box::new(Product::<half::bf16>::new(device, unpack(size), guards)?),
        Dtype::F16 => Box::new(Product::<half::f16>::new(device, unpack(size), guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

struct Product<T: LadderElement> {
    device: Device,
    guards: Guards,
    /// `m`, `n`, `k`.
    sizes: [usize; 3],
    /// `a` and `b`, without what is between their rows.
    elements: [Vec<T>; 2],
    /// Result of [`Self::expected`].
    expected: OnceCell<Vec<[f64; 2]>>,
    a: Guarded<T>,
    b: Guarded<T>,
    c: Guarded<T>,
}

fn padded(len: usize) -> usize {
    pitch(len as u32) as usize
}

/// The rows of a matrix, one [`pitch`] apart. What is between them is a NaN, so that a kernel that
/// uses it is wrong.
fn spread<T: LadderElement>(elements: &[T], columns: usize) -> Vec<T> {
    let nan = <T as warpfold_lang::Scalar>::from_bits(u64::MAX);
    let mut rows = vec![nan; elements.len() / columns * padded(columns)];
    for (row, elements) in rows.chunks_mut(padded(columns)).zip(elements.chunks(columns)) {
        row[..columns].copy_from_slice(elements);
    }
    rows
}

impl<T: LadderElement + Half> Product<T> {
    fn new(device: &Device, sizes: [usize; 3], guards: Guards) -> Result<Self, Error> {
        let [m, n, k] = sizes;
        let (a, b) = (samples::<T>(7, m * k), samples::<T>(8, n * k));
        Ok(Self {
            device: device.clone(),
            guards,
            sizes,
            a: Guarded::of(device, "a", &spread(&a, k), guards)?,
            b: Guarded::of(device, "b", &spread(&b, k), guards)?,
            c: Guarded::new(device, "c", m * padded(n), guards)?,
            elements: [a, b],
            expected: OnceCell::new(),
        })
    }

    /// Every how many elements one is compared with the reference: all of them, unless that takes
    /// seconds. Odd, so that every row and column of a tile has its turn.
    fn step(&self) -> usize {
        const MOST: usize = 1 << 24;
        self.sizes.iter().product::<usize>().div_ceil(MOST) | 1
    }

    /// Returns the expected value of every [`step`](Self::step)th element, and the sum of its
    /// terms' magnitudes; the same for every rung.
    fn expected(&self) -> &[[f64; 2]] {
        let [m, n, k] = self.sizes;
        let [a, b] = &self.elements;
        let element = |at: usize| {
            let (left, right) = (&a[at / n * k..][..k], &b[at % n * k..][..k]);
            left.iter().zip(right).fold([0.0, 0.0], |[sum, magnitude], (left, right)| {
                let product = left.as_f64() * right.as_f64();
                [sum + product, magnitude + product.abs()]
            })
        };
        self.expected.get_or_init(|| (0..m * n).step_by(self.step()).map(element).collect())
    }

    /// A map whose box has 64 columns.
    fn layout(rows: usize, columns: usize, box_rows: u32) -> TensorLayout {
        let (rows, pitch, columns) = (rows as u64, padded(columns) as u64, columns as u64);
        TensorLayout::matrix(rows, columns, pitch, box_rows, 64, MapSwizzle::Bytes128)
    }
}

impl<T: LadderElement + Half> Instance for Product<T> {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        self.c.renew(&self.device, "c", self.guards)
    }

    fn arguments(&mut self, rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let [m, n, k] = self.sizes;
        let mut arguments = Arguments::new();
        match boxes(rung.name) {
            None => arguments = arguments.input(self.a.view()?).input(self.b.view()?),
            Some(boxes) => {
                let map_a = self.a.view()?.tensor_map(&Self::layout(m, k, boxes.a))?;
                let map_b = self.b.view()?.tensor_map(&Self::layout(n, k, boxes.b))?;
                arguments = arguments.tensor_map(&map_a).tensor_map(&map_b);
            }
        }
        arguments = match boxes(rung.name).and_then(|boxes| boxes.c) {
            None => arguments.output(self.c.view_mut()?),
            Some(rows) => arguments.tensor_map(&self.c.view_mut()?.into_tensor_map(&Self::layout(m, n, rows))?),
        };
        Ok(self.sizes.iter().fold(arguments, |arguments, size| arguments.value(*size as u32)))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let [_, n, k] = self.sizes;
        let (results, intact) = self.c.read_rows(n, padded(n))?;
        let intact = intact && self.a.is_intact()? && self.b.is_intact()?;
        let mut verdict = Verdict { ok: intact, max_error: 0.0 };
        // What no thread stored is still poison.
        verdict.ok &= results.chunks(padded(n)).flat_map(|row| &row[..n]).all(|result| result.as_f64().is_finite());
        for (place, [sum, magnitude]) in self.expected().iter().enumerate() {
            let at = place * self.step();
            let error = (results[at / n * padded(n) + at % n].as_f64() - sum).abs();
            let of_sums = 2.0 * k as f64 * f64::from(f32::EPSILON) * magnitude;
            // Written so that a NaN is wrong.
            verdict.ok &= error <= of_sums + T::UNIT_ROUNDOFF * (sum.abs() + of_sums) + T::SMALLEST;
            verdict.max_error = verdict.max_error.max(error);
        }
        Ok(verdict)
    }

    fn bytes(&self) -> u64 {
        let [m, n, k] = self.sizes;
        2 * (m * k + n * k + m * n) as u64
    }

    fn flops(&self) -> Option<u64> {
        Some(2 * self.sizes.iter().map(|size| *size as u64).product::<u64>())
    }
}
