//! A matrix and a vector on a device, and their product.

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::gemv::{Element, Product, Reference};

use super::ladder::COLUMNS;
use crate::ladder::{Guarded, Guards, Instance, Rows, Rung, Verdict, samples};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    Ok(match dtype {
        Dtype::F32 => Box::new(Gemv::<f32>::new(device, size, guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

struct Gemv<T: LadderElement> {
    device: Device,
    guards: Guards,
    rows: Rows,
    /// Elements from one row to the next: whole vectors, with something between the rows that no
    /// sum may take in.
    row_stride: usize,
    reference: Vec<Reference>,
    matrix: Guarded<T>,
    vector: Guarded<T>,
    result: Guarded<T>,
}

impl<T: LadderElement + Element> Gemv<T> {
    fn new(device: &Device, size: u64, guards: Guards) -> Result<Self, Error> {
        let rows = Rows::with(size, &COLUMNS);
        let Rows { num_rows, row_len } = rows;
        let row_stride = row_len.next_multiple_of(T::VECTOR as usize);
        let (elements, factors): (Vec<T>, Vec<T>) = (samples(5, num_rows * row_len), samples(6, row_len));
        let mut padded = vec![T::HIGHEST; num_rows * row_stride];
        for (row, elements) in padded.chunks_mut(row_stride.max(1)).zip(elements.chunks(row_len.max(1))) {
            row[..row_len].copy_from_slice(elements);
        }
        let reference = Reference::of(
            Product::MatrixVector,
            (num_rows, row_len),
            |row, column| elements[row * row_len + column].as_f64(),
            |column| factors[column].as_f64(),
        );
        Ok(Self {
            device: device.clone(),
            guards,
            rows,
            row_stride,
            reference,
            matrix: Guarded::of(device, "matrix", &padded, guards)?,
            vector: Guarded::of(device, "vector", &factors, guards)?,
            result: Guarded::new(device, "result", num_rows, guards)?,
        })
    }

    /// The additions that a product goes through at most: 16 lanes or more share a row, but in the
    /// first rung.
    fn depth(&self, rung: &Rung) -> u64 {
        let lanes = if rung.name == "one_thread_a_row" { 1 } else { 16 };
        (self.rows.row_len as u64).div_ceil(lanes) + 16
    }
}

impl<T: LadderElement + Element> Instance for Gemv<T> {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        self.result.renew(&self.device, "result", self.guards)
    }

    fn arguments(&mut self, _rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let Rows { num_rows, row_len } = self.rows;
        let arguments = Arguments::new().input(self.matrix.view()?).input(self.vector.view()?);
        let arguments = arguments.output(self.result.view_mut()?);
        Ok(arguments.value(num_rows as u64).value(row_len as u32).value(self.row_stride as i64))
    }

    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error> {
        let (results, intact) = self.result.read()?;
        let intact = intact && self.matrix.is_intact()? && self.vector.is_intact()?;
        let mut verdict = Verdict { ok: intact, max_error: 0.0 };
        for (result, reference) in results.iter().zip(&self.reference) {
            let error = (result.as_f64() - reference.sum).abs();
            verdict.ok &= error <= reference.error_bound(self.depth(rung), T::UNIT_ROUNDOFF);
            verdict.max_error = verdict.max_error.max(error);
        }
        Ok(verdict)
    }

    fn bytes(&self) -> u64 {
        let Rows { num_rows, row_len } = self.rows;
        (num_rows * row_len + row_len + num_rows) as u64 * <T as LadderElement>::DTYPE.bytes()
    }
}
