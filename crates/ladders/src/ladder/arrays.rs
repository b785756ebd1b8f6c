//! A problem that is arrays in, one array out: the instance of ladders that need nothing else.

use warpfold_device::{Arguments, Device};

use super::{Guarded, Guards, Instance, Rung, Verdict};
use crate::{Error, LadderElement};

/// Inputs, and what a right result is. Kernels take the inputs in order, then the output, then the
/// length of the first input as `u32`; every launch of a rung takes the same.
///
/// See `examples/20_own_ladder.rs` for a ladder made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrays<T> {
    /// Inputs of kernels; not empty.
    pub inputs: Vec<Vec<T>>,
    /// Expected output.
    pub expected: Vec<T>,
    /// Error bound of an element.
    pub tolerance: f64,
}

impl<T: LadderElement> Arrays<T> {
    /// The problem on a device: what a ladder's [`open`](super::Ladder::open) gives.
    ///
    /// # Errors
    /// If the device has no memory for it.
    pub fn open(self, device: &Device, guards: Guards) -> Result<Box<dyn Instance>, Error> {
        let inputs = self.inputs.iter().map(|input| Guarded::of(device, "input", input, guards));
        Ok(Box::new(OnDevice {
            device: device.clone(),
            guards,
            inputs: inputs.collect::<Result<_, _>>()?,
            output: Guarded::new(device, "output", self.expected.len(), guards)?,
            problem: self,
        }))
    }
}

struct OnDevice<T: LadderElement> {
    device: Device,
    guards: Guards,
    problem: Arrays<T>,
    inputs: Vec<Guarded<T>>,
    output: Guarded<T>,
}

impl<T: LadderElement> Instance for OnDevice<T> {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        // A rung may write to its inputs.
        for (buffer, input) in self.inputs.iter_mut().zip(&self.problem.inputs) {
            *buffer = Guarded::of(&self.device, "input", input, self.guards)?;
        }
        self.output.renew(&self.device, "output", self.guards)
    }

    fn arguments(&mut self, _rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let len = self.problem.inputs.first().map_or(0, Vec::len) as u32;
        let mut arguments = Arguments::new();
        for input in &self.inputs {
            arguments = arguments.input(input.view()?);
        }
        Ok(arguments.output(self.output.view_mut()?).value(len))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let (output, mut is_intact) = self.output.read()?;
        for input in &self.inputs {
            is_intact &= input.is_intact()?;
        }
        let error = |(a, b): (&T, &T)| (a.as_f64() - b.as_f64()).abs();
        let errors = output.iter().zip(&self.problem.expected).map(error);
        let max_error = errors.fold(0.0, |a: f64, b| if a.is_nan() || a > b { a } else { b });
        Ok(Verdict { ok: is_intact && max_error <= self.problem.tolerance, max_error })
    }

    fn bytes(&self) -> u64 {
        let Arrays { inputs, expected, .. } = &self.problem;
        let elements = inputs.iter().map(Vec::len).sum::<usize>() + expected.len();
        elements as u64 * T::DTYPE.bytes()
    }
}
