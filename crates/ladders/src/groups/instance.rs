//! A vector on a device, and the sums and maxima of its groups.

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::fold::sum_error_bound;

use super::ladder::width_of;
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, elements_of, samples};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    Ok(match dtype {
        Dtype::I32 => Box::new(Groups::<i32>::new(device, elements_of(size), guards)?),
        Dtype::F32 => Box::new(Groups::<f32>::new(device, elements_of(size), guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

struct Groups<T: LadderElement> {
    device: Device,
    guards: Guards,
    elements: Vec<T>,
    input: Guarded<T>,
    /// One result per group of the rung's width.
    sums: Guarded<T>,
    maxima: Guarded<T>,
}

impl<T: LadderElement> Groups<T> {
    fn new(device: &Device, size: usize, guards: Guards) -> Result<Self, Error> {
        let elements = samples(14, size);
        let output = |name| Guarded::new(device, name, 1, guards);
        Ok(Self {
            device: device.clone(),
            guards,
            input: Guarded::of(device, "input", &elements, guards)?,
            sums: output("sums")?,
            maxima: output("maxima")?,
            elements,
        })
    }
}

impl<T: LadderElement> Instance for Groups<T> {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        let groups = self.elements.len().div_ceil(width_of(rung) as usize);
        self.sums = Guarded::new(&self.device, "sums", groups, self.guards)?;
        self.maxima = Guarded::new(&self.device, "maxima", groups, self.guards)?;
        Ok(())
    }

    /// The first launch leaves sums, the second one maxima.
    fn arguments(&mut self, _rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let output = if launch_idx == 0 { &mut self.sums } else { &mut self.maxima };
        let len = self.elements.len() as u32;
        Ok(Arguments::new().input(self.input.view()?).output(output.view_mut()?).value(len))
    }

    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error> {
        let ((sums, intact), (maxima, too)) = (self.sums.read()?, self.maxima.read()?);
        let mut verdict = Verdict { ok: intact && too && self.input.is_intact()?, max_error: 0.0 };
        let width = width_of(rung);
        for ((group, sum), maximum) in self.elements.chunks(width as usize).zip(sums).zip(maxima) {
            let magnitude = group.iter().map(|x| x.as_f64().abs()).sum();
            let error = (sum.as_f64() - T::sum(group)).abs();
            verdict.ok &= error <= sum_error_bound(u64::from(width.ilog2()), T::UNIT_ROUNDOFF, magnitude);
            verdict.ok &= Some(maximum.as_f64()) == group.iter().map(|x| x.as_f64()).reduce(f64::max);
            verdict.max_error = verdict.max_error.max(error);
        }
        Ok(verdict)
    }

    fn bytes(&self) -> u64 {
        2 * self.elements.len() as u64 * T::DTYPE.bytes()
    }
}
