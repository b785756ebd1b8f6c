//! Two vectors on a device, and their dot product.

use warpfold_device::{Arguments, Buffer, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::fold::sum_error_bound;

use crate::ladder::{Finish, Guarded, Guards, Instance, Rung, Verdict, elements_of, samples};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    assert_eq!(dtype, Dtype::F32, "the ladder has no other kernels");
    Ok(Box::new(Dot::new(device, elements_of(size), guards)?))
}

struct Dot {
    device: Device,
    guards: Guards,
    len: usize,
    /// The product, and the sum of the magnitudes behind it.
    expected: [f64; 2],
    a: Guarded<f32>,
    b: Guarded<f32>,
    /// One element per block, where blocks leave their sums.
    partials: Guarded<f32>,
    result: Guarded<f32>,
    /// Counts blocks; each launch has to leave it as it found it.
    ticket: Buffer<u32>,
}

impl Dot {
    fn new(device: &Device, len: usize, guards: Guards) -> Result<Self, Error> {
        let (a, b) = (samples::<f32>(12, len), samples::<f32>(13, len));
        let products = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        let expected = products.fold([0.0, 0.0], |[sum, magnitude], x| [sum + x, magnitude + x.abs()]);
        Ok(Self {
            device: device.clone(),
            guards,
            len,
            expected,
            a: Guarded::of(device, "a", &a, guards)?,
            b: Guarded::of(device, "b", &b, guards)?,
            partials: Guarded::new(device, "partials", 1, guards)?,
            result: Guarded::new(device, "result", 1, guards)?,
            ticket: device.alloc_zeroed(1)?,
        })
    }

    /// The multiply-adds and additions that an element goes through at most.
    fn depth(&self, rung: &Rung) -> u64 {
        let blocks = rung.num_blocks(self.len as u64);
        let threads = blocks * u64::from(super::ladder::BLOCK);
        (self.len as u64).div_ceil(threads) + 16 + if rung.finish == Finish::Atomic { blocks } else { 16 }
    }
}

impl Instance for Dot {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        let blocks = rung.num_blocks(self.len as u64) as usize;
        self.partials = Guarded::new(&self.device, "partials", blocks, self.guards)?;
        match rung.finish {
            Finish::Atomic => self.result.fill_zero(),
            _ => self.result.renew(&self.device, "result", self.guards),
        }
    }

    fn arguments(&mut self, rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let arguments = Arguments::new().input(self.a.view()?).input(self.b.view()?);
        Ok(match rung.finish {
            Finish::LastBlock => {
                arguments.output(self.partials.view_mut()?).output(self.result.view_mut()?).output(&mut self.ticket)
            }
            _ => arguments.output(self.result.view_mut()?),
        }
        .value(self.len as u32))
    }

    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error> {
        let (result, mut intact) = self.result.read()?;
        intact &= self.partials.is_intact()? && self.a.is_intact()? && self.b.is_intact()?;
        intact &= self.ticket.download()? == [0];
        let [sum, magnitude] = self.expected;
        let max_error = (f64::from(result[0]) - sum).abs();
        let bound = sum_error_bound(self.depth(rung), f32::UNIT_ROUNDOFF, magnitude);
        Ok(Verdict { ok: intact && max_error <= bound, max_error })
    }

    fn bytes(&self) -> u64 {
        4 * (2 * self.len as u64 + 1)
    }
}
