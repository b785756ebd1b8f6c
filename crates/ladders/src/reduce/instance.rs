//! A vector on a device, and its sum.

use warpfold_device::{Arguments, Buffer, Device};
use warpfold_kernels::Dtype;
use warpfold_kernels::fold::sum_error_bound;

use super::reference::{self, Reference};
use crate::ladder::{Finish, Guarded, Guards, Instance, Rung, Verdict, elements_of, samples};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    Ok(match dtype {
        Dtype::I32 => Box::new(Sum::<i32>::new(device, size, guards)?),
        Dtype::F32 => Box::new(Sum::<f32>::new(device, size, guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

struct Sum<T: LadderElement> {
    device: Device,
    guards: Guards,
    /// Size in the form that launches take: elements, and perhaps the ladder's option.
    size: u64,
    elements: Vec<T>,
    reference: Reference,
    input: Guarded<T>,
    /// One element a block, where blocks leave their sums.
    partials: Guarded<T>,
    result: Guarded<T>,
    /// Block counter of [`Finish::LastBlock`]. Cleared once: each launch has to leave it as it
    /// found it.
    ticket: Buffer<u32>,
}

impl<T: LadderElement> Sum<T> {
    fn new(device: &Device, size: u64, guards: Guards) -> Result<Self, Error> {
        let elements = samples(3, elements_of(size));
        Ok(Self {
            device: device.clone(),
            guards,
            size,
            reference: reference::sum(&elements),
            input: Guarded::of(device, "input", &elements, guards)?,
            partials: Guarded::new(device, "partials", 1, guards)?,
            result: Guarded::new(device, "result", 1, guards)?,
            ticket: device.alloc_zeroed(1)?,
            elements,
        })
    }

    /// The additions that an element goes through at most.
    fn depth(&self, rung: &Rung) -> u64 {
        let [launch] = rung.launches else { unreachable!("{} is one launch", rung.name) };
        let (blocks, threads) = (launch.num_blocks(self.size), (launch.config)(self.size).num_threads());
        let in_thread = (self.elements.len() as u64).div_ceil(blocks * threads) + 4;
        let in_block = u64::from(threads.next_power_of_two().ilog2());
        let between_blocks = match rung.finish {
            // The host adds in double precision.
            Finish::Nothing | Finish::OneBlock | Finish::Host => 0,
            Finish::Atomic => blocks,
            Finish::LastBlock => blocks.div_ceil(threads) + in_block,
            Finish::Cleared | Finish::Race => unreachable!("{} is a sum", rung.name),
        };
        in_thread + in_block + between_blocks
    }
}

impl<T: LadderElement> Instance for Sum<T> {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        let Self { device, guards, .. } = self;
        if rung.finish == Finish::OneBlock {
            device.default_stream().copy_from_host(self.input.view_mut()?, &self.elements)?;
        }
        self.partials = Guarded::new(device, "partials", rung.num_blocks(self.size) as usize, *guards)?;
        match rung.finish {
            Finish::Atomic => self.result.fill_zero(),
            _ => self.result.renew(device, "result", *guards),
        }
    }

    fn arguments(&mut self, rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let len = self.elements.len() as u32;
        let arguments = Arguments::new();
        Ok(match rung.finish {
            Finish::OneBlock => arguments.output(self.input.view_mut()?).output(self.result.view_mut()?),
            Finish::Host => arguments.input(self.input.view()?).output(self.partials.view_mut()?),
            Finish::Nothing | Finish::Atomic | Finish::Cleared | Finish::Race => {
                arguments.input(self.input.view()?).output(self.result.view_mut()?)
            }
            Finish::LastBlock => arguments
                .input(self.input.view()?)
                .output(self.partials.view_mut()?)
                .output(self.result.view_mut()?)
                .output(&mut self.ticket),
        }
        .value(len))
    }

    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error> {
        let output = if rung.finish == Finish::Host { &self.partials } else { &self.result };
        let (sums, mut intact) = output.read()?;
        intact &= self.partials.is_intact()? && self.input.is_intact()?;
        intact &= self.ticket.download()? == [0];
        let max_error = (T::sum(&sums) - self.reference.sum).abs();
        let bound = sum_error_bound(self.depth(rung), T::UNIT_ROUNDOFF, self.reference.sum_of_magnitudes);
        Ok(Verdict { ok: intact && max_error <= bound, max_error })
    }

    fn bytes(&self) -> u64 {
        (self.elements.len() as u64 + 1) * T::DTYPE.bytes()
    }
}
