//! Two vectors on a device, and their sum.

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;

use super::reference::vector_add;
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, elements_of, samples};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    Ok(match dtype {
        Dtype::I32 => Box::new(VectorAdd::<i32>::new(device, elements_of(size), guards)?),
        Dtype::F32 => Box::new(VectorAdd::<f32>::new(device, elements_of(size), guards)?),
        Dtype::F16 => Box::new(VectorAdd::<half::f16>::new(device, elements_of(size), guards)?),
        Dtype::Bf16 => Box::new(VectorAdd::<half::bf16>::new(device, elements_of(size), guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

struct VectorAdd<T: LadderElement> {
    device: Device,
    guards: Guards,
    terms: [Vec<T>; 2],
    a: Guarded<T>,
    b: Guarded<T>,
    sum: Guarded<T>,
}

impl<T: LadderElement> VectorAdd<T> {
    fn new(device: &Device, size: usize, guards: Guards) -> Result<Self, Error> {
        let terms = [samples(1, size), samples(2, size)];
        Ok(Self {
            device: device.clone(),
            guards,
            a: Guarded::of(device, "a", &terms[0], guards)?,
            b: Guarded::of(device, "b", &terms[1], guards)?,
            sum: Guarded::new(device, "sum", size, guards)?,
            terms,
        })
    }
}

impl<T: LadderElement> Instance for VectorAdd<T> {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        self.sum.renew(&self.device, "sum", self.guards)
    }

    fn arguments(&mut self, _rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let len = self.terms[0].len() as u32;
        Ok(Arguments::new().input(self.a.view()?).input(self.b.view()?).output(self.sum.view_mut()?).value(len))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let (sum, intact) = self.sum.read()?;
        let expected = vector_add(&self.terms[0], &self.terms[1]);
        let errors = sum.iter().zip(expected).map(|(sum, expected)| (sum.as_f64() - expected.as_f64()).abs());
        let max_error = errors.fold(0.0, worse);
        Ok(Verdict { ok: intact && max_error == 0.0, max_error })
    }

    fn bytes(&self) -> u64 {
        3 * self.terms[0].len() as u64 * T::DTYPE.bytes()
    }
}

/// The larger error, NaN being the largest.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}
