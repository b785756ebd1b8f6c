//! A channel: ranks that exchange through peer memory, with a region in the memory of each.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use warpfold_device::{Arguments, Buffer, Device, Function, LaunchConfig, PeerGroup, Stream, View, ViewMut};

use crate::kernels::{self, MAX_BLOCKS, MAX_RANKS, STAGE_BYTES_FROM, STATUS, What};
use crate::{Combine, Error, ErrorKind};

/// How a group uses peer memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerOptions {
    /// Blocks of a launch, 1 to 256.
    pub blocks: u32,
    /// Threads of a block, a multiple of 32.
    pub threads: u32,
    /// Bytes that a rank stages at a time, 1,024 at least; longer messages take several launches.
    pub stage_bytes: usize,
    /// How often a kernel looks at a flag before it gives up on a rank.
    pub looks: u32,
}

impl PeerOptions {
    /// What suits a device: many blocks on a GPU, few on the virtual one, which counts every
    /// instruction.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        let (blocks, threads) = if device.is_virtual() { (2, 64) } else { (32, 256) };
        Self { blocks, threads, stage_bytes: 1 << 20, looks: 1 << 28 }
    }
}

/// Sixteen of the largest elements for each of the most ranks.
const LEAST_STAGE: usize = 16 * 8 * MAX_RANKS;

/// The ranks of a channel, as one process sees them.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Their numbers in the group.
    pub(crate) ranks: Vec<usize>,
    pub(crate) peers: PeerGroup,
    regions: Vec<Buffer<u32>>,
    options: PeerOptions,
    /// Kernels by name and member.
    functions: Mutex<HashMap<(String, usize), Function>>,
}

/// Where a rank's share comes from.
pub(crate) enum Input<'a> {
    /// From there.
    View(View<'a, u8>),
    /// From where the result goes to.
    Output,
    /// It has none.
    None,
}

/// A stretch of bytes to be read, and one to be written, unless the rank has none.
pub(crate) struct Operands<'a> {
    pub(crate) input: Input<'a>,
    pub(crate) output: Option<ViewMut<'a, u8>>,
    /// What is added to a sum of parts.
    pub(crate) residual: Option<View<'a, u8>>,
}

impl Channel {
    pub(crate) fn new(
        ranks: Vec<usize>,
        devices: &[Device],
        options: PeerOptions,
        patience: Duration,
    ) -> Result<Self, Error> {
        if ranks.len() > MAX_RANKS {
            return Err(ErrorKind::GroupSize { found: ranks.len(), most: MAX_RANKS }.into());
        }
        let (blocks, stage_bytes) = (options.blocks.clamp(1, MAX_BLOCKS), options.stage_bytes.max(LEAST_STAGE));
        let options = PeerOptions { blocks, stage_bytes: stage_bytes.next_multiple_of(16), ..options };
        let devices: Vec<Device> = ranks.iter().map(|&rank| devices[rank].clone()).collect();
        let peers = PeerGroup::new(devices.clone(), patience)?;
        let head = (STAGE_BYTES_FROM / 4) as usize;
        let region = |device: &Device| -> Result<Buffer<u32>, Error> {
            let mut region = device.alloc_named::<u32>("collective region", head + options.stage_bytes / 2)?;
            device.default_stream().fill_bytes(region.view_mut(..head)?, 0)?;
            device.synchronize()?;
            Ok(region)
        };
        let regions = devices.iter().map(region).collect::<Result<_, _>>()?;
        Ok(Self { ranks, peers, regions, options, functions: Mutex::default() })
    }

    fn member(&self, rank: usize) -> usize {
        self.ranks.iter().position(|&r| r == rank).expect("a rank uses the channels that it is a member of")
    }

    /// Runs a collective for a rank on `count` elements of `bytes` bytes, whose parts are `count`
    /// elements apart.
    pub(crate) fn run(
        &self,
        rank: usize,
        stream: &Stream,
        what: &What,
        operands: Operands<'_>,
        count: usize,
    ) -> Result<(), Error> {
        let Operands { input, output, residual } = operands;
        // Kernels take 16 bytes at a time where the lengths allow it, which all ranks see alike.
        // Addresses they do not, so what is not aligned goes through a copy.
        let device = &self.peers.devices()[self.member(rank)];
        let is_aligned = |address: u64| address.is_multiple_of(16);
        let copied = match &input {
            Input::View(view) if !is_aligned(view.address()) => {
                let mut copy = device.alloc_named::<u8>("aligned input", view.len())?;
                stream.copy(&mut copy, view.clone())?;
                Some(copy)
            }
            Input::View(_) | Input::Output | Input::None => None,
        };
        let input = match &copied {
            Some(copy) => Input::View(copy.as_view()),
            None => input,
        };
        let added = match &residual {
            Some(view) if !is_aligned(view.address()) => {
                let mut copy = device.alloc_named::<u8>("aligned residual", view.len())?;
                stream.copy(&mut copy, view.clone())?;
                Some(copy)
            }
            Some(_) | None => None,
        };
        let residual = added.as_ref().map(Buffer::as_view).or(residual);
        let mut to = match output {
            Some(to) if !is_aligned(to.address()) => to,
            output => return self.run_aligned(rank, stream, what, Operands { input, output, residual }, count),
        };
        let mut result = device.alloc_named::<u8>("aligned output", to.len())?;
        if matches!(input, Input::Output) {
            stream.copy(&mut result, to.as_view())?;
        }
        let output = Some(result.as_view_mut());
        self.run_aligned(rank, stream, what, Operands { input, output, residual }, count)?;
        Ok(stream.copy(to.reborrow(), &result)?)
    }

    fn run_aligned(
        &self,
        rank: usize,
        stream: &Stream,
        what: &What,
        mut operands: Operands<'_>,
        count: usize,
    ) -> Result<(), Error> {
        let ranks = self.ranks.len();
        let (item, output) = match what {
            What::AllReduce(combine) | What::ReduceScatter(combine) => {
                (combine.item().bytes(), combine.output().bytes())
            }
            What::SumParts(sum) => (4, sum.output.bytes()),
            What::AllGather(_) | What::Broadcast(..) => (1, 1),
        };
        let (item, out) = (item as usize, output as usize);
        let parts = if matches!(what, What::ReduceScatter(_)) { ranks } else { 1 };
        // A multiple of 16 elements, so that each piece is aligned as the whole is.
        let most = (self.options.stage_bytes / (item * parts) / 16).max(1) * 16;
        let most = if self.is_alone(what) { count } else { most };
        let mut done = 0;
        while done < count {
            let piece = most.min(count - done);
            let from = match &operands.input {
                Input::View(view) => Input::View(view.clone().slice(done * item..)?),
                Input::Output => Input::Output,
                Input::None => Input::None,
            };
            let to = operands.output.as_mut().map(|view| view.reborrow().slice(done * out..)).transpose()?;
            let residual = operands.residual.as_ref().map(|view| view.clone().slice(done * out..)).transpose()?;
            let operands = Operands { input: from, output: to, residual };
            self.launch(rank, stream, what, operands, (piece, count))?;
            done += piece;
        }
        Ok(())
    }

    fn launch(
        &self,
        rank: usize,
        stream: &Stream,
        what: &What,
        operands: Operands<'_>,
        (piece, pitch): (usize, usize),
    ) -> Result<(), Error> {
        let Operands { input: from, output: to, residual } = operands;
        let member = self.member(rank);
        // What every rank decides alike: by lengths, since addresses may differ.
        let (what, wide, unit) = match what {
            What::AllReduce(combine) | What::ReduceScatter(combine) => {
                let n = combine.vector() as usize;
                let is_even = piece.is_multiple_of(n) && pitch.is_multiple_of(n);
                (what.clone(), is_even, if is_even { n } else { 1 })
            }
            What::SumParts(sum) => {
                let n = sum.vector() as usize;
                let is_even = piece.is_multiple_of(n) && pitch.is_multiple_of(n);
                (what.clone(), is_even, if is_even { n } else { 1 })
            }
            What::AllGather(_) => (What::AllGather(unit_of(piece, pitch)), true, unit_of(piece, pitch) as usize),
            What::Broadcast(_, root) => (What::Broadcast(unit_of(piece, 0), *root), true, unit_of(piece, 0) as usize),
        };
        let function = self.function(member, &what, wide)?;
        let region = &self.regions[member];
        let mut addresses = [0_u64; MAX_RANKS];
        for (address, region) in addresses.iter_mut().zip(&self.regions) {
            *address = region.address();
        }
        let mut arguments = Arguments::new();
        arguments = match from {
            Input::View(view) => arguments.input(view),
            Input::Output => arguments.raw(&to.as_ref().map_or(0, ViewMut::address).to_le_bytes(), 8),
            Input::None => arguments.raw(&0_u64.to_le_bytes(), 8),
        };
        arguments = match to {
            Some(view) => arguments.output(view),
            None => arguments.raw(&0_u64.to_le_bytes(), 8),
        };
        arguments = match residual {
            Some(view) => arguments.input(view),
            None => arguments.raw(&0_u64.to_le_bytes(), 8),
        };
        let addresses: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
        let arguments = arguments
            .raw(&region.address().to_le_bytes(), 8)
            .raw(&addresses, 8)
            .value(member as u32)
            .value((piece / unit) as u64)
            .value((pitch / unit) as u64)
            .value(self.options.looks);
        let config = match self.is_alone(&what) {
            true => LaunchConfig::for_elements(piece / unit, 256),
            false => LaunchConfig::new(self.options.blocks, self.options.threads),
        };
        Ok(self.peers.launch(member, stream, &function, config, &arguments)?)
    }

    /// Whether a rank needs nobody else's memory, nor a stage.
    fn is_alone(&self, what: &What) -> bool {
        self.ranks.len() == 1 && matches!(what, What::SumParts(_))
    }

    fn function(&self, member: usize, what: &What, wide: bool) -> Result<Function, Error> {
        let key = (format!("{}{wide}", what.name()), member);
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(&key) {
            return Ok(function.clone());
        }
        let kernel = match what {
            What::SumParts(sum) if self.is_alone(&What::SumParts(*sum)) => sum.alone(wide),
            _ => kernels::peer(what, self.ranks.len(), self.options.stage_bytes as u64, wide),
        };
        let function = self.peers.devices()[member].prepare(&kernel)?;
        functions.insert(key, function.clone());
        Ok(function)
    }

    /// Waits for a stream, and fails if a kernel gave up on a rank.
    pub(crate) fn check(&self, rank: usize, stream: &Stream) -> Result<(), Error> {
        stream.synchronize()?;
        let region = &self.regions[self.member(rank)];
        let mut status = [0_u32];
        stream.copy_to_host(region.view(STATUS as usize..STATUS as usize + 1)?, &mut status)?;
        match status[0] {
            0 => Ok(()),
            lost => {
                let reason = "its flag did not come".to_owned();
                Err(ErrorKind::RankFailed { rank: self.ranks[lost as usize - 1], reason }.into())
            }
        }
    }
}

/// The largest access that divides a length and a distance in bytes.
fn unit_of(bytes: usize, pitch: usize) -> u32 {
    [16, 8, 4, 2].into_iter().find(|&unit| bytes.is_multiple_of(unit) && pitch.is_multiple_of(unit)).unwrap_or(1) as u32
}

/// Combines what was gathered from all ranks, each of `count` items.
pub(crate) fn combine_gathered(
    stream: &Stream,
    combine: &Combine,
    ranks: usize,
    gathered: &Buffer<u8>,
    output: ViewMut<'_, u8>,
    count: usize,
) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    let n = combine.vector() as usize;
    let wide = count.is_multiple_of(n) && output.address().is_multiple_of(16);
    let units = if wide { count / n } else { count };
    let kernel = kernels::combine_gathered(combine, ranks, wide);
    let config = LaunchConfig::for_elements(units, 128);
    Ok(stream.launch(&kernel, config, (gathered, output, units as u64, units as u64))?)
}
