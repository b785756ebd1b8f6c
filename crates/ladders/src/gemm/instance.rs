//! Two matrices on a device, and their product.

use std::cell::OnceCell;

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::fold::sum_error_bound;

use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, samples, unpack};
use crate::{Error, LadderElement};

/// Elements from one row to the next of a matrix with so many columns: whole groups of 16 bytes.
#[must_use]
pub const fn row_len(columns: usize) -> usize {
    columns.next_multiple_of(4)
}

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    assert_eq!(dtype, Dtype::F32, "the ladder has no other kernels");
    Ok(Box::new(Product::new(device, unpack(size), guards)?))
}

struct Product {
    device: Device,
    guards: Guards,
    /// `m`, `n`, `k`.
    sizes: [usize; 3],
    elements: [Vec<f32>; 2],
    /// Result of [`Self::expected`].
    expected: OnceCell<Vec<[f64; 2]>>,
    a: Guarded<f32>,
    b: Guarded<f32>,
    c: Guarded<f32>,
}

impl Product {
    fn new(device: &Device, sizes: [usize; 3], guards: Guards) -> Result<Self, Error> {
        let [m, n, k] = sizes;
        let (a, b) = (samples::<f32>(7, m * k), samples::<f32>(8, k * n));
        Ok(Self {
            device: device.clone(),
            guards,
            sizes,
            a: Guarded::of(device, "a", &filled_up(&a, k), guards)?,
            b: Guarded::of(device, "b", &filled_up(&b, n), guards)?,
            c: Guarded::new(device, "c", m * row_len(n), guards)?,
            elements: [a, b],
            expected: OnceCell::new(),
        })
    }

    /// The rows that are compared with the reference: all of them, unless that takes minutes.
    fn rows_to_compare(&self) -> impl Iterator<Item = usize> + use<> {
        const MOST: usize = 1 << 28;
        let [m, n, k] = self.sizes;
        let step = (m * n * k).div_ceil(MOST).max(1);
        // The last row is always among them.
        (0..m).rev().step_by(step)
    }

    /// Returns the expected value of every element in those rows, and the sum of its terms'
    /// magnitudes; the same for every rung.
    fn expected(&self) -> &[[f64; 2]] {
        let [_, n, k] = self.sizes;
        let [a, b] = &self.elements;
        let sums_of = |row: usize| {
            let mut sums = vec![[0.0_f64; 2]; n];
            for (left, row_of_b) in a[row * k..][..k].iter().zip(b.chunks(n)) {
                for ([sum, magnitude], right) in sums.iter_mut().zip(row_of_b) {
                    let product = f64::from(*left) * f64::from(*right);
                    *sum += product;
                    *magnitude += product.abs();
                }
            }
            sums
        };
        self.expected.get_or_init(|| self.rows_to_compare().flat_map(sums_of).collect())
    }
}

/// The rows of a matrix, each filled up with zeros.
fn filled_up(elements: &[f32], columns: usize) -> Vec<f32> {
    let mut padded = vec![0.0; elements.len() / columns * row_len(columns)];
    for (row, elements) in padded.chunks_mut(row_len(columns)).zip(elements.chunks(columns)) {
        row[..columns].copy_from_slice(elements);
    }
    padded
}

impl Instance for Product {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        self.c.renew(&self.device, "c", self.guards)
    }

    fn arguments(&mut self, _rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let arguments = Arguments::new().input(self.a.view()?).input(self.b.view()?).output(self.c.view_mut()?);
        Ok(self.sizes.iter().fold(arguments, |arguments, size| arguments.value(*size as u32)))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let [_, n, k] = self.sizes;
        let (results, intact) = self.c.read_rows(n, row_len(n))?;
        let intact = intact && self.a.is_intact()? && self.b.is_intact()?;
        let mut verdict = Verdict { ok: intact, max_error: 0.0 };
        for (row, expected) in self.rows_to_compare().zip(self.expected().chunks(n)) {
            for (result, [sum, magnitude]) in results[row * row_len(n)..].iter().zip(expected) {
                let error = (f64::from(*result) - sum).abs();
                // Written so that a NaN is wrong.
                verdict.ok &= error <= sum_error_bound(k as u64 + 1, f32::UNIT_ROUNDOFF, *magnitude);
                verdict.max_error = verdict.max_error.max(error);
            }
        }
        Ok(verdict)
    }

    fn bytes(&self) -> u64 {
        let [m, n, k] = self.sizes;
        4 * (m * k + k * n + m * n) as u64
    }

    fn flops(&self) -> Option<u64> {
        Some(2 * self.sizes.iter().map(|size| *size as u64).product::<u64>())
    }
}
