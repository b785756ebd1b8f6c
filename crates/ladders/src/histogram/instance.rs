//! Values on a device, and their histogram.

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::histogram;

use super::ladder::BINS;
use crate::Error;
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, elements_of, samples};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    debug_assert_eq!(dtype, Dtype::I32, "the ladder's only element type");
    // Nearly all of them within the bins, and some on either side.
    let values: Vec<i32> =
        samples::<i32>(7, elements_of(size)).iter().map(|sample| sample.rem_euclid(272) - 8).collect();
    Ok(Box::new(Histogram {
        reference: histogram::Histogram::reference(values.iter().map(|value| i128::from(*value)), BINS as usize),
        values: Guarded::of(device, "values", &values, guards)?,
        counts: Guarded::new(device, "counts", BINS as usize, guards)?,
        size: elements_of(size),
    }))
}

struct Histogram {
    reference: Vec<i32>,
    values: Guarded<i32>,
    counts: Guarded<i32>,
    size: usize,
}

impl Instance for Histogram {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        self.counts.fill_zero()
    }

    fn arguments(&mut self, _rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let arguments = Arguments::new().input(self.values.view()?).output(self.counts.view_mut()?);
        Ok(arguments.value(self.size as u64).value(BINS))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let (counts, intact) = self.counts.read()?;
        let differences = counts.iter().zip(&self.reference).map(|(count, expected)| count.abs_diff(*expected));
        let max_error = f64::from(differences.max().unwrap_or(0));
        Ok(Verdict { ok: intact && self.values.is_intact()? && max_error == 0.0, max_error })
    }

    fn bytes(&self) -> u64 {
        (self.size as u64 + u64::from(BINS)) * 4
    }
}
