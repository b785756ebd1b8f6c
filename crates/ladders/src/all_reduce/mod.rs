//! All-reduce: the sum of a vector on every one of several devices, from the first way that comes
//! to mind to the kernel that ships.
//!
//! What a rung costs on a machine of many links is the number of its steps (each waits for the one
//! before) and the bytes that the busiest device sends and receives. Both are counted here while
//! [`Instance`] runs a rung, by copies between devices and a kernel that adds; the last rung is the
//! kernel of [`warpfold_collectives`], whose reads of peer memory are counted by its definition.

mod rungs;

use warpfold_collectives::{Communicator, Group, Reduce};
use warpfold_device::{Buffer, Device, LaunchConfig};
use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};

use crate::{Error, ErrorKind};

pub use rungs::RUNGS;

/// Name on the command line.
pub const NAME: &str = "all_reduce";

/// The problem in a sentence.
pub const PROBLEM: &str = "a sum of arrays, on every one of several devices";

/// One way.
#[derive(Debug)]
pub struct Rung {
    /// The field's name: `ring`.
    pub name: &'static str,
    /// The change from the previous rung.
    pub changed: &'static str,
    /// Requires a power of two of devices.
    pub powers_of_two: bool,
    way: fn(&mut Instance) -> Result<(), Error>,
}

/// The rung of this name.
///
/// # Errors
/// [`ErrorKind::UnknownRung`].
pub fn rung(name: &str) -> Result<&'static Rung, Error> {
    RUNGS.iter().find(|rung| rung.name == name).ok_or_else(|| {
        let known = RUNGS.iter().map(|rung| rung.name).collect::<Vec<_>>().join(", ");
        ErrorKind::UnknownRung { ladder: NAME, name: name.to_owned(), known }.into()
    })
}

/// Cost of a rung, and its correctness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Steps, each of which waits for the one before.
    pub steps: u64,
    /// Bytes from each device to each other one, by sender and receiver.
    pub links: Vec<Vec<u64>>,
    /// Every device has the sum, up to rounding.
    pub is_right: bool,
    /// Every device has the same bits.
    pub is_same: bool,
    /// The bits are those of a sum in the order of ranks.
    pub is_in_order: bool,
}

impl Counts {
    /// Bytes that went between devices.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.links.iter().flatten().sum()
    }

    /// Bytes of the link, one way, that has most.
    #[must_use]
    pub fn busiest_link(&self) -> u64 {
        self.links.iter().flatten().copied().max().unwrap_or(0)
    }

    /// Bytes that the device which receives most receives.
    #[must_use]
    pub fn busiest_device(&self) -> u64 {
        (0..self.links.len()).map(|to| self.links.iter().map(|from| from[to]).sum()).max().unwrap_or(0)
    }
}

/// A part of a vector that goes from one device to another.
#[derive(Debug, Clone)]
struct Move {
    from: usize,
    to: usize,
    part: std::ops::Range<usize>,
    /// Added to what is there, or put in its place.
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Add,
    Replace,
}

/// The vectors of all devices.
#[derive(Debug)]
pub struct Instance {
    devices: Vec<Device>,
    ranks: Vec<Communicator>,
    inputs: Vec<Vec<f32>>,
    data: Vec<Buffer<f32>>,
    arrived: Vec<Buffer<f32>>,
    add: Kernel<(Global<f32>, Global<f32>, u32)>,
    steps: u64,
    links: Vec<Vec<u64>>,
    len: usize,
}

impl Instance {
    /// Vectors of `len` elements on these devices.
    ///
    /// # Errors
    /// Out of memory.
    pub fn open(devices: &[Device], len: usize) -> Result<Self, Error> {
        let number = |device: usize, i: usize| ((i * 7 + device * 13) % 31) as f32 / 3.0;
        let inputs: Vec<Vec<f32>> =
            (0..devices.len()).map(|device| (0..len).map(|i| number(device, i)).collect()).collect();
        let data = devices.iter().zip(&inputs).map(|(device, input)| device.upload(input)).collect::<Result<_, _>>()?;
        let arrived = devices.iter().map(|device| device.alloc(len)).collect::<Result<_, _>>()?;
        let add = kernel("add_arrived", |data: Global<f32>, arrived: Global<f32>, len: Val<u32>| {
            let i = block_idx().x * block_dim().x + thread_idx().x;
            when(i.lt(len), || data.at(i).add_assign(arrived.at(i).get()));
        });
        let links = vec![vec![0; devices.len()]; devices.len()];
        let ranks = Group::new(devices.to_vec())?.communicators()?;
        Ok(Self { devices: devices.to_vec(), ranks, inputs, data, arrived, add, steps: 0, links, len })
    }

    /// Returns whether a rung works for this number of devices.
    #[must_use]
    pub fn can_run(&self, rung: &Rung) -> bool {
        !rung.powers_of_two || self.num_devices().is_power_of_two()
    }

    /// Runs a rung on fresh data, and looks at what came out.
    ///
    /// # Errors
    /// What the devices say.
    pub fn run(&mut self, rung: &Rung) -> Result<Counts, Error> {
        self.reset()?;
        self.reduce(rung)?;
        let results = self.data.iter().map(Buffer::download).collect::<Result<Vec<_>, _>>()?;
        let of_element = |i: usize| self.inputs.iter().map(move |input| input[i]);
        let in_order: Vec<f32> = (0..self.len).map(|i| of_element(i).reduce(|a, b| a + b).unwrap_or(0.0)).collect();
        let is_near = |(found, expected): (&f32, &f32)| (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        Ok(Counts {
            steps: self.steps,
            links: self.links.clone(),
            is_right: results.iter().all(|result| result.iter().zip(&in_order).all(is_near)),
            is_same: results.iter().all(|result| *result == results[0]),
            is_in_order: results.iter().all(|result| *result == in_order),
        })
    }

    /// Runs a rung once more, to be timed; the numbers grow.
    ///
    /// # Errors
    /// What the devices say.
    pub fn reduce(&mut self, rung: &Rung) -> Result<(), Error> {
        self.steps = 0;
        self.links.iter_mut().flatten().for_each(|bytes| *bytes = 0);
        (rung.way)(self)?;
        Ok(self.devices.iter().try_for_each(Device::synchronize)?)
    }

    fn reset(&mut self) -> Result<(), Error> {
        Ok(self.data.iter_mut().zip(&self.inputs).try_for_each(|(data, input)| data.copy_from(input))?)
    }

    fn num_devices(&self) -> usize {
        self.data.len()
    }

    /// Part `index` of the vector, of as many as there are devices.
    fn part(&self, index: usize) -> std::ops::Range<usize> {
        let n = self.num_devices();
        index % n * self.len / n..(index % n + 1) * self.len / n
    }

    /// Moves that happen at the same time: all copies, then what is done with them.
    fn step(&mut self, moves: &[Move]) -> Result<(), Error> {
        self.steps += 1;
        for Move { from, to, part, .. } in moves {
            let stream = self.devices[*to].default_stream();
            stream.copy_from_peer(self.arrived[*to].view_mut(part.clone())?, self.data[*from].view(part.clone())?)?;
            self.links[*from][*to] += 4 * part.len() as u64;
        }
        for Move { to, part, how, .. } in moves.iter().filter(|m| !m.part.is_empty()) {
            let stream = self.devices[*to].default_stream();
            let (data, arrived) = (self.data[*to].view_mut(part.clone())?, self.arrived[*to].view(part.clone())?);
            match how {
                How::Replace => stream.copy(data, arrived)?,
                How::Add => {
                    let config = LaunchConfig::for_elements(part.len(), 256);
                    stream.launch(&self.add, config, (data, arrived, part.len() as u32))?;
                }
            }
        }
        Ok(())
    }

    /// The kernel that ships.
    fn one_shot(&mut self) -> Result<(), Error> {
        let reduce = |(rank, data): (&Communicator, &mut Buffer<f32>)| {
            rank.all_reduce_in_place(&rank.device().default_stream(), Reduce::Sum, data)
        };
        if self.devices[0].is_virtual() {
            // A launch ends there when all ranks have come.
            std::thread::scope(|scope| {
                let ranks = self.ranks.iter().zip(&mut self.data);
                let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || reduce(rank))).collect();
                threads.into_iter().try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
            })?;
        } else {
            self.ranks.iter().zip(&mut self.data).try_for_each(reduce)?;
        }
        self.ranks.iter().try_for_each(|rank| rank.synchronize(&rank.device().default_stream()))?;
        self.steps = 1;
        let n = self.num_devices();
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))).filter(|(from, to)| from != to) {
            self.links[from][to] = 4 * self.len as u64;
        }
        Ok(())
    }
}
