//! A vector on a device, and its activation.

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;

use crate::Error;
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, elements_of, samples};
use crate::row::{RowElement, open_typed};

/// An activation in double precision.
pub(super) type Reference = fn(f64) -> f64;

pub(super) fn open(
    device: &Device,
    dtype: Dtype,
    size: u64,
    guards: Guards,
    reference: Reference,
) -> Result<Box<dyn Instance>, Error> {
    open_typed!(dtype, problem(device, elements_of(size), guards, reference))
}

struct Problem<T: RowElement> {
    device: Device,
    guards: Guards,
    reference: Reference,
    elements: Vec<T>,
    input: Guarded<T>,
    output: Guarded<T>,
}

/// Elements from -16 to 16, and every seventh one so large that its exponential is infinite.
fn problem<T: RowElement>(
    device: &Device,
    size: usize,
    guards: Guards,
    reference: Reference,
) -> Result<Problem<T>, Error> {
    let scaled = |(i, x): (usize, f32)| T::round(if i % 7 == 3 { 100.0 * x.signum() } else { 16.0 * x });
    let elements: Vec<T> = samples::<f32>(11, size).into_iter().enumerate().map(scaled).collect();
    Ok(Problem {
        device: device.clone(),
        guards,
        reference,
        input: Guarded::of(device, "input", &elements, guards)?,
        output: Guarded::new(device, "output", size, guards)?,
        elements,
    })
}

/// Returns the error bound of a result: some roundings of `f32`, the one to the element type, and
/// values below the smallest normal `f32`.
fn bound<T: RowElement>(exact: f64) -> f64 {
    let relative = 16.0 * <f32 as crate::LadderElement>::UNIT_ROUNDOFF + T::UNIT_ROUNDOFF;
    relative * exact.abs() + T::SMALLEST + f64::from(f32::MIN_POSITIVE)
}

impl<T: RowElement> Instance for Problem<T> {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        self.output.renew(&self.device, "output", self.guards)
    }

    fn arguments(&mut self, _rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let len = self.elements.len() as u32;
        Ok(Arguments::new().input(self.input.view()?).output(self.output.view_mut()?).value(len))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let (output, intact) = self.output.read()?;
        let mut verdict = Verdict { ok: intact && self.input.is_intact()?, max_error: 0.0 };
        for (x, y) in self.elements.iter().zip(output) {
            let exact = (self.reference)(x.as_f64());
            let error = (y.as_f64() - exact).abs();
            // Written so that a NaN is wrong.
            verdict.ok &= error <= bound::<T>(exact);
            verdict.max_error = verdict.max_error.max(error);
        }
        Ok(verdict)
    }

    fn bytes(&self) -> u64 {
        2 * self.elements.len() as u64 * T::DTYPE.bytes()
    }
}
