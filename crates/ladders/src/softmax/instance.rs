//! Rows, or one vector, on a device, and their softmax.

use warpfold_device::{Arguments, Buffer, Device};
use warpfold_kernels::Dtype;

use super::ladder::ROW_LEN;
use super::reference::softmax;
use super::vector::MAX_BLOCKS;
use crate::Error;
use crate::ladder::{Finish, Guarded, Guards, Instance, Rows, Rung, Verdict, elements_of, samples};
use crate::row::{Expected, Operator, RowElement, RowProblem, RowResult, open_typed};

pub(super) fn open_rows(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    open_typed!(dtype, rows(device, elements_of(size), guards))
}

pub(super) fn open_vector(
    device: &Device,
    dtype: Dtype,
    size: u64,
    guards: Guards,
) -> Result<Box<dyn Instance>, Error> {
    open_typed!(dtype, vector(device, elements_of(size), guards))
}

/// Elements from -8 to 8, and a hundred up or down in every second and third row: their
/// exponentials alone would be infinite or nothing.
fn elements<T: RowElement>(size: usize, row_len: usize) -> Vec<T> {
    let lifted = |(i, x): (usize, f32)| T::round(8.0 * x + [0.0, 100.0, -100.0][i / row_len.max(1) % 3]);
    samples::<f32>(5, size).into_iter().enumerate().map(lifted).collect()
}

fn rows<T: RowElement>(device: &Device, size: usize, guards: Guards) -> Result<RowProblem<T>, Error> {
    let rows = Rows::of(size, ROW_LEN);
    let reference = |row: &[f64]| RowResult { output: softmax::<T>(row), statistics: Vec::new() };
    let operator = Operator { vectors: &[], statistics: &[], eps: None, reference: Box::new(reference) };
    RowProblem::new(device, rows, elements(size, rows.row_len), operator, guards)
}

struct VectorProblem<T: RowElement> {
    device: Device,
    guards: Guards,
    elements: Vec<T>,
    input: Guarded<T>,
    /// The largest element of each block, and the sum of exponentials.
    partials: [Guarded<f32>; 2],
    /// The word of the grid's barrier. Cleared once: each launch has to leave it ready for the
    /// next.
    barrier: Buffer<u32>,
    output: Guarded<T>,
}

fn vector<T: RowElement>(device: &Device, size: usize, guards: Guards) -> Result<VectorProblem<T>, Error> {
    let elements = elements(size, size);
    let partial = |name| Guarded::new(device, name, MAX_BLOCKS as usize, guards);
    Ok(VectorProblem {
        device: device.clone(),
        guards,
        input: Guarded::of(device, "input", &elements, guards)?,
        partials: [partial("largest")?, partial("sums")?],
        barrier: device.alloc_zeroed(1)?,
        output: Guarded::new(device, "output", size, guards)?,
        elements,
    })
}

impl<T: RowElement> Instance for VectorProblem<T> {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        for (name, partials) in ["largest", "sums"].into_iter().zip(&mut self.partials) {
            partials.renew(&self.device, name, self.guards)?;
        }
        if rung.finish == Finish::Race {
            self.partials[1].fill_zero()?;
        }
        self.output.renew(&self.device, "output", self.guards)
    }

    /// Returns the arguments. The first of two launches takes the input, the blocks' results, and
    /// the length; the second one also their number and the output. A single launch takes it all,
    /// and the barrier of the blocks.
    fn arguments(&mut self, rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let len = self.elements.len() as u32;
        let [largest, sums] = &mut self.partials;
        let arguments = Arguments::new().input(self.input.view()?);
        match rung.name {
            "threadfence" => {
                return Ok(arguments.output(sums.view_mut()?).output(self.output.view_mut()?).value(len));
            }
            "grid_sync" => {
                let arguments = arguments.output(largest.view_mut()?).output(sums.view_mut()?);
                return Ok(arguments.output(&mut self.barrier).output(self.output.view_mut()?).value(len));
            }
            _ => {}
        }
        if launch_idx == 0 {
            return Ok(arguments.output(largest.view_mut()?).output(sums.view_mut()?).value(len));
        }
        let num_partials = rung.launches[0].num_blocks(self.elements.len() as u64) as u32;
        let arguments = arguments.input(largest.view()?).input(sums.view()?).value(num_partials);
        Ok(arguments.output(self.output.view_mut()?).value(len))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let (output, mut ok) = self.output.read()?;
        ok &= self.input.is_intact()? && self.partials[0].is_intact()? && self.partials[1].is_intact()?;
        let elements: Vec<_> = self.elements.iter().map(|x| x.as_f64()).collect();
        let expected = softmax::<T>(&elements).into_iter();
        let (max_error, is_right) = Expected::judge_all(output.iter().map(|y| y.as_f64()), expected);
        Ok(Verdict { ok: ok && is_right, max_error })
    }

    fn bytes(&self) -> u64 {
        2 * self.elements.len() as u64 * T::DTYPE.bytes()
    }
}
