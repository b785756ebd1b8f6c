//! All-reduce: the sum of a vector on every one of several devices, from the first way that comes
//! to mind to the kernel that ships.
//!
//! What a rung costs on a machine of many links is the number of its steps (each waits for the one
//! before) and the bytes that the busiest device sends and receives. Both are counted here while
//! [`Instance`] runs a rung, by copies between devices and a kernel that adds; the last rung is the
//! kernel of [`warpfold_collectives`], whose reads of peer memory are counted by its definition.

mod rungs;

use std::path::PathBuf;

use warpfold_collectives::{Communicator, Group, PeerOptions, Reduce};
use warpfold_device::{Buffer, Device, Graph, LaunchConfig, Nccl, NcclCommunicator, Stream};
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
    way: Way,
}

/// The kind of a rung.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Copies and additions, step by step; the sum is in [`Instance::data`].
    Steps(fn(&mut Instance) -> Result<(), Error>),
    /// A call of each rank, to [`Instance::arrived`].
    Call(fn(&Rank, &Buffer<f32>, &mut Buffer<f32>) -> Result<(), Error>),
}

/// NCCL's all-reduce, to compare with: [`Instance::load_nccl`] comes first.
pub static NCCL: Rung = Rung {
    name: "nccl",
    changed: "NCCL's own all-reduce, in its own order, to compare with",
    powers_of_two: false,
    way: Way::Call(by_nccl),
};

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
    /// Steps, each of which waits for the one before; 0 where they are not known.
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

/// A device's part in calls.
#[derive(Debug)]
struct Rank {
    link: Communicator,
    stream: Stream,
    /// Graphs of calls, by the rung's name and how many there are. They end before NCCL does.
    graphs: Vec<(&'static str, usize, Graph)>,
    nccl: Option<NcclCommunicator>,
}

impl Rank {
    /// Launches so many calls of a rung at once, as a graph that is captured the first time.
    fn launch(
        &mut self,
        name: &'static str,
        calls: usize,
        call: impl Fn(&Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_it = |(of, len, _): &(&'static str, usize, Graph)| (*of, *len) == (name, calls);
        if !self.graphs.iter().any(is_it) {
            // Loads kernels, and connects the ranks of NCCL.
            call(self)?;
            self.link.synchronize(&self.stream)?;
            let (graph, ()) = self.stream.capture(|| (0..calls).try_for_each(|_| call(self)))?;
            self.graphs.push((name, calls, graph));
        }
        let graph = self.graphs.iter().find(|graph| is_it(graph));
        Ok(graph.map_or(Ok(()), |(.., graph)| self.link.launch(graph))?)
    }
}

/// The vectors of all devices.
#[derive(Debug)]
pub struct Instance {
    devices: Vec<Device>,
    ranks: Vec<Rank>,
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
        let rank = |link: Communicator| -> Result<Rank, Error> {
            let stream = link.device().new_stream()?;
            Ok(Rank { link, stream, nccl: None, graphs: Vec::new() })
        };
        let ranks = Group::new(devices.to_vec())?.communicators()?.into_iter().map(rank).collect::<Result<_, _>>()?;
        Ok(Self { devices: devices.to_vec(), ranks, inputs, data, arrived, add, steps: 0, links, len })
    }

    /// Loads NCCL, from these places first, and joins a communicator of all devices; returns its
    /// version.
    ///
    /// # Errors
    /// [`NoNccl`](warpfold_device::ErrorKind::NoNccl) names every place;
    /// [`WrongKindOfDevice`](warpfold_device::ErrorKind::WrongKindOfDevice) on virtual GPUs.
    pub fn load_nccl(&mut self, places: &[PathBuf]) -> Result<String, Error> {
        let nccl = Nccl::load(places)?;
        let (id, size) = (nccl.new_id()?, self.ranks.len());
        on_threads(self.ranks.iter_mut().enumerate(), |(number, rank)| {
            rank.nccl = Some(nccl.join(rank.link.device(), &id, number, size, None)?);
            Ok(())
        })?;
        Ok(nccl.version()?)
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
        self.reduce(rung, 1)?;
        let results = if let Way::Steps(_) = rung.way { &self.data } else { &self.arrived };
        let results = results.iter().map(Buffer::download).collect::<Result<Vec<_>, _>>()?;
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

    /// Runs a rung so many times, to be timed: all calls of a collective are one graph on each
    /// device, captured the first time. What is added step by step grows.
    ///
    /// # Errors
    /// What the devices say.
    pub fn reduce(&mut self, rung: &Rung, calls: usize) -> Result<(), Error> {
        self.steps = 0;
        self.links.iter_mut().flatten().for_each(|bytes| *bytes = 0);
        match rung.way {
            Way::Steps(steps) => (0..calls).try_for_each(|_| steps(self))?,
            Way::Call(call) => {
                let ranks = self.ranks.iter_mut().zip(&self.data).zip(&mut self.arrived);
                on_threads(ranks, |((rank, from), to)| {
                    let to = std::cell::RefCell::new(to);
                    let done = rank.launch(rung.name, calls, |rank| call(rank, from, &mut to.borrow_mut()));
                    let done = done.and_then(|()| Ok(rank.link.synchronize(&rank.stream)?));
                    // The others do not wait for it.
                    done.inspect_err(|error| rank.link.fail(&error.to_string()))
                })?;
                if rung.name != NCCL.name {
                    self.count_call();
                }
            }
        }
        Ok(self.devices.iter().try_for_each(Device::synchronize)?)
    }

    /// Counts what the kernel that ships does: it reads all vectors, or of large ones its part of
    /// each, and writes the sum of that part to all.
    fn count_call(&mut self) {
        let (n, bytes) = (self.num_devices(), 4 * self.len as u64);
        let is_direct = bytes >= PeerOptions::of(&self.devices[0]).direct.from_bytes as u64;
        let of_link = if is_direct { 2 * bytes / n as u64 } else { bytes };
        self.steps = 1 + u64::from(is_direct);
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))).filter(|(from, to)| from != to) {
            self.links[from][to] = of_link;
        }
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
}

/// The kernel that ships.
fn one_shot(rank: &Rank, from: &Buffer<f32>, to: &mut Buffer<f32>) -> Result<(), Error> {
    Ok(rank.link.all_reduce(&rank.stream, Reduce::Sum, from, to)?)
}

fn by_nccl(rank: &Rank, from: &Buffer<f32>, to: &mut Buffer<f32>) -> Result<(), Error> {
    let no_nccl = || {
        warpfold_device::Error::from(warpfold_device::ErrorKind::NoNccl {
            places: vec!["it was not loaded".to_owned()],
        })
    };
    let nccl = rank.nccl.as_ref().ok_or_else(no_nccl)?;
    Ok(nccl.all_reduce_sum(&rank.stream, &from.as_view(), to.as_view_mut())?)
}

/// A thread for each: a launch on a virtual GPU ends when all ranks have come.
fn on_threads<T: Send>(
    items: impl Iterator<Item = T>,
    work: impl Fn(T) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
