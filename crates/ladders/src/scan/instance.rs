//! A vector on a device, and its inclusive sums.

use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::fold::sum_error_bound;

use super::ladder::TILE;
use crate::ladder::{Guarded, Guards, Instance, Rung, Verdict, elements_of, samples};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    Ok(match dtype {
        Dtype::I32 => Box::new(Scan::<i32>::new(device, elements_of(size), guards)?),
        Dtype::F32 => Box::new(Scan::<f32>::new(device, elements_of(size), guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

struct Scan<T: LadderElement> {
    device: Device,
    guards: Guards,
    elements: Vec<T>,
    input: Guarded<T>,
    output: Guarded<T>,
    /// The sum of each tile, then of all tiles before it.
    totals: Guarded<T>,
    /// Look-back state of tiles in a single launch.
    state: Guarded<u64>,
    ticket: Guarded<u32>,
}

impl<T: LadderElement> Scan<T> {
    fn new(device: &Device, size: usize, guards: Guards) -> Result<Self, Error> {
        let elements = samples(15, size);
        let tiles = size.div_ceil(TILE as usize).max(1);
        Ok(Self {
            device: device.clone(),
            guards,
            input: Guarded::of(device, "input", &elements, guards)?,
            output: Guarded::new(device, "output", size, guards)?,
            totals: Guarded::new(device, "totals", tiles, guards)?,
            state: Guarded::new(device, "state", tiles, guards)?,
            ticket: Guarded::new(device, "ticket", 1, guards)?,
            elements,
        })
    }
}

impl<T: LadderElement> Instance for Scan<T> {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        self.output.renew(&self.device, "output", self.guards)?;
        if rung.launches.len() > 1 {
            return self.totals.renew(&self.device, "totals", self.guards);
        }
        self.state.fill_zero()?;
        self.ticket.fill_zero()
    }

    fn arguments(&mut self, rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let len = self.elements.len() as u32;
        let tiles = self.totals.len() as u32;
        let arguments = Arguments::new();
        Ok(match (rung.launches.len(), launch_idx) {
            (1, _) => arguments
                .input(self.input.view()?)
                .output(self.output.view_mut()?)
                .output(self.state.view_mut()?)
                .output(self.ticket.view_mut()?)
                .value(len),
            (_, 0) => arguments
                .input(self.input.view()?)
                .output(self.output.view_mut()?)
                .output(self.totals.view_mut()?)
                .value(len),
            (_, 1) => arguments.output(self.totals.view_mut()?).value(tiles),
            _ => arguments.output(self.output.view_mut()?).input(self.totals.view()?).value(len),
        })
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let (output, mut ok) = self.output.read()?;
        ok &= self.input.is_intact()? && self.totals.is_intact()? && self.state.is_intact()?;
        ok &= self.ticket.is_intact()?;
        // Within a tile, and then from tile to tile.
        let depth = u64::from(TILE.ilog2()) * 2 + self.totals.len() as u64;
        let (mut sum, mut magnitude, mut max_error) = (0.0_f64, 0.0_f64, 0.0_f64);
        for (element, found) in self.elements.iter().zip(output) {
            // As the element type adds: integers wrap.
            sum = T::wrapped(sum + element.as_f64());
            magnitude += element.as_f64().abs();
            let error = (found.as_f64() - sum).abs();
            // Written so that a NaN is wrong.
            ok &= error <= sum_error_bound(depth, T::UNIT_ROUNDOFF, magnitude);
            max_error = max_error.max(error);
        }
        Ok(Verdict { ok, max_error })
    }

    fn bytes(&self) -> u64 {
        2 * self.elements.len() as u64 * T::DTYPE.bytes()
    }
}
