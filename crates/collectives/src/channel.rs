//! Channels: groups of ranks that exchange data through peer memory, with a region in the memory of
//! each.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use warpfold_device::{
    Arguments, Buffer, Device, Function, LaunchConfig, MappedBuffer, PeerGroup, Stream, View, ViewMut,
};

use crate::kernels::{self, MAX_BLOCKS, MAX_RANKS, STAGE_BYTES_FROM, Way, What, report};
use crate::{Combine, Error, ErrorKind};

/// Options of a group for peer memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerOptions {
    /// Blocks per launch, 1 to 256.
    pub blocks: u32,
    /// Threads per block, a multiple of 32.
    pub threads: u32,
    /// Bytes that a rank stages at a time, at least 1,024; longer messages take several launches.
    pub stage_bytes: usize,
    /// Maximum number of polls of a flag before a kernel gives up on a rank: a poll takes half a
    /// microsecond or more, and the kernel gives up no later than the group's timeout.
    pub looks: u32,
    /// Options for large messages.
    pub direct: DirectOptions,
}

/// Options of the direct exchange of large messages: from operand to operand, in one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectOptions {
    /// Smallest size in bytes of a large message.
    pub from_bytes: usize,
    /// Blocks per launch, 1 to 256: no more than can be resident at the same time.
    pub blocks: u32,
    /// Threads per block, a multiple of 32.
    pub threads: u32,
}

impl PeerOptions {
    /// Defaults for a device: many blocks on a GPU, few on the virtual one, which counts every
    /// instruction.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        let (blocks, threads, direct_blocks, direct_threads) =
            if device.is_virtual() { (2, 64, 2, 64) } else { (32, 512, device.limits().num_sms, 512) };
        let direct = DirectOptions { from_bytes: 1 << 20, blocks: direct_blocks, threads: direct_threads };
        Self { blocks, threads, stage_bytes: 1 << 20, looks: 1 << 28, direct }
    }
}

// THRESHOLD: shorter stages have this length; tested by
// crates/collectives/tests/collectives.rs::stages_and_launches_have_a_least_and_a_most
/// Sixteen of the largest elements for each of the most ranks.
const LEAST_STAGE: usize = 16 * 8 * MAX_RANKS;

/// Interval at which a rank checks again if another has opened a channel.
const AGAIN: Duration = Duration::from_micros(50);

/// The ranks of a channel, in one process.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Ranks of the members in the group.
    pub(crate) ranks: Vec<usize>,
    pub(crate) peers: PeerGroup,
    /// The region of each member that has opened the channel.
    regions: Vec<OnceLock<Region>>,
    options: PeerOptions,
    patience: Duration,
    /// Kernels by name and member.
    functions: Mutex<HashMap<(String, usize), Function>>,
}

/// A member's memory, which the kernels of all members access.
#[derive(Debug)]
struct Region {
    memory: Buffer<u32>,
    /// Words in host memory: [`report`].
    host: MappedBuffer<u32>,
}

/// Source of a rank's share.
pub(crate) enum Input<'a> {
    /// A view.
    View(View<'a, u8>),
    /// The destination of the result.
    Output,
    /// No input.
    None,
}

/// Input and output ranges of a rank, if it has them.
pub(crate) struct Operands<'a> {
    pub(crate) input: Input<'a>,
    pub(crate) output: Option<ViewMut<'a, u8>>,
    /// Tensor added to a sum of parts.
    pub(crate) residual: Option<View<'a, u8>>,
}

impl Channel {
    /// Opens the channel of all ranks.
    pub(crate) fn of_all(
        devices: &[Device],
        options: PeerOptions,
        patience: Duration,
        is_late: bool,
    ) -> Result<Self, Error> {
        if devices.len() > MAX_RANKS {
            return Err(ErrorKind::GroupSize { found: devices.len(), most: MAX_RANKS }.into());
        }
        let peers = PeerGroup::new(devices.to_vec(), patience)?;
        let peers = if is_late { peers.with_late_launches() } else { peers };
        let channel = Self::new((0..devices.len()).collect(), peers, options, patience);
        (0..devices.len()).try_for_each(|member| channel.open_member(member))?;
        Ok(channel)
    }

    /// A channel of two ranks, which [open](Channel::open) it.
    pub(crate) fn of_pair(all: &Self, from: usize, to: usize) -> Self {
        let peers = all.peers.subgroup(&[from, to]);
        Self::new(vec![from, to], peers, all.options, all.patience)
    }

    fn new(ranks: Vec<usize>, peers: PeerGroup, options: PeerOptions, patience: Duration) -> Self {
        let (blocks, stage_bytes) = (options.blocks.clamp(1, MAX_BLOCKS), options.stage_bytes.max(LEAST_STAGE));
        let direct = DirectOptions { blocks: options.direct.blocks.clamp(1, MAX_BLOCKS), ..options.direct };
        let looks = options.looks.min(u32::try_from(2 * patience.as_micros()).unwrap_or(u32::MAX)).max(1);
        let options = PeerOptions {
            blocks,
            stage_bytes: stage_bytes.next_multiple_of(16),
            looks: if peers.devices()[0].is_virtual() { options.looks } else { looks },
            direct,
            ..options
        };
        let regions = ranks.iter().map(|_| OnceLock::new()).collect();
        Self { ranks, peers, regions, options, patience, functions: Mutex::default() }
    }

    /// Allocates a member's region. Only its own rank may do so once kernels run: memory is
    /// allocated by a rank that knows what its device waits for.
    fn open_member(&self, member: usize) -> Result<(), Error> {
        if self.regions[member].get().is_some() {
            return Ok(());
        }
        let (device, head) = (&self.peers.devices()[member], (STAGE_BYTES_FROM / 4) as usize);
        let stage = (2 * self.half_bytes() + self.options.stage_bytes) / 4;
        let mut memory = device.alloc_named::<u32>("collective region", head + stage)?;
        device.default_stream().fill_bytes(memory.view_mut(..head)?, 0)?;
        device.synchronize()?;
        let host = MappedBuffer::new(device, &[0; report::WORDS])?;
        let _ = self.regions[member].set(Region { memory, host });
        Ok(())
    }

    /// Opens the channel for a rank, and waits until all members have opened it.
    pub(crate) fn open(&self, rank: usize) -> Result<(), Error> {
        self.open_member(self.member(rank))?;
        let end = Instant::now() + self.patience;
        while self.regions.iter().any(|region| region.get().is_none()) {
            self.peers.expect_all()?;
            if Instant::now() >= end {
                let missing = self.ranks.iter().zip(&self.regions).filter(|(_, region)| region.get().is_none());
                let missing = missing.map(|(rank, _)| *rank).collect();
                return Err(ErrorKind::RanksLate { waited: self.patience, missing, during: None }.into());
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }

    /// Bytes of one half of the stage, used by messages that are not large.
    fn half_bytes(&self) -> usize {
        self.options.stage_bytes.min(self.options.direct.from_bytes.max(LEAST_STAGE)).next_multiple_of(16)
    }

    fn region(&self, member: usize) -> &Region {
        self.regions[member].get().expect("a channel is open before it is used")
    }

    fn member(&self, rank: usize) -> usize {
        self.ranks.iter().position(|&r| r == rank).expect("a rank uses the channels that it is a member of")
    }

    /// Runs a rank's part of a collective on `count` elements of `bytes` bytes, whose parts are
    /// `count` elements apart.
    pub(crate) fn run(
        &self,
        rank: usize,
        stream: &Stream,
        what: &What,
        operands: Operands<'_>,
        count: usize,
    ) -> Result<(), Error> {
        let Operands { input, output, residual } = operands;
        // Kernels access 16 bytes at a time if the lengths allow it, which are the same on all
        // ranks. Addresses are not, so unaligned operands go through a copy.
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
        let way = |len: usize| match len * item * parts >= self.options.direct.from_bytes {
            true => Way::Direct,
            false => Way::Staged,
        };
        // A multiple of 16 elements, so that each piece is aligned as the whole is.
        let room = if way(count) == Way::Staged { self.half_bytes() } else { self.options.stage_bytes };
        let most = (room / (item * parts) / 16).max(1) * 16;
        let needs_stage = way(count) == Way::Staged || matches!(what, What::SumParts(_));
        let most = if self.is_alone(what) || !needs_stage { count } else { most };
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
            self.launch(rank, stream, (what, way(piece)), operands, (piece, count))?;
            done += piece;
        }
        Ok(())
    }

    fn launch(
        &self,
        rank: usize,
        stream: &Stream,
        (what, way): (&What, Way),
        operands: Operands<'_>,
        (piece, pitch): (usize, usize),
    ) -> Result<(), Error> {
        let Operands { input: from, output: to, residual } = operands;
        let member = self.member(rank);
        // Decisions that every rank must make alike: by lengths, since addresses may differ.
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
        let function = self.function(member, &what, way, wide)?;
        let region = self.region(member);
        let mut addresses = [0_u64; MAX_RANKS];
        for (member, address) in addresses.iter_mut().enumerate().take(self.ranks.len()) {
            *address = self.region(member).memory.address();
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
            .raw(&region.memory.address().to_le_bytes(), 8)
            .raw(&region.host.as_buffer().address().to_le_bytes(), 8)
            .raw(&addresses, 8)
            .value(member as u32)
            .value((piece / unit) as u64)
            .value((pitch / unit) as u64)
            .value(self.options.looks);
        let config = match (self.is_alone(&what), way) {
            (true, _) => LaunchConfig::for_elements(piece / unit, 256),
            (false, Way::Staged) => LaunchConfig::new(self.options.blocks, self.options.threads),
            (false, Way::Direct) => LaunchConfig::new(self.options.direct.blocks, self.options.direct.threads),
        };
        Ok(self.peers.launch(member, stream, &function, config, &arguments)?)
    }

    /// Returns true if a rank needs no other rank's memory, nor a stage.
    fn is_alone(&self, what: &What) -> bool {
        self.ranks.len() == 1 && matches!(what, What::SumParts(_))
    }

    fn function(&self, member: usize, what: &What, way: Way, wide: bool) -> Result<Function, Error> {
        let key = (format!("{}{way:?}{wide}", what.name()), member);
        let lock = || self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = lock().get(&key) {
            return Ok(function.clone());
        }
        let kernel = match what {
            What::SumParts(sum) if self.is_alone(&What::SumParts(*sum)) => sum.alone(wide),
            _ => kernels::peer(what, way, self.ranks.len(), self.half_bytes() as u64, wide),
        };
        // Not under the lock: loading may wait for the device, which may wait for a peer, which may
        // need the lock.
        let function = self.peers.devices()[member].prepare(&kernel)?;
        lock().insert(key, function.clone());
        Ok(function)
    }

    /// Waits for a stream, and fails if a kernel timed out waiting for a rank.
    pub(crate) fn check(&self, stream: &Stream) -> Result<(), Error> {
        stream.synchronize()?;
        self.expect_none_lost()
    }

    /// Fails if a kernel of any member has timed out waiting for a rank so far.
    pub(crate) fn expect_none_lost(&self) -> Result<(), Error> {
        for region in self.regions.iter().filter_map(OnceLock::get) {
            let word = |index: u32| region.host.word(index as usize).map(|word| word.load(Ordering::Acquire));
            let words: Vec<u32> = match word(report::LOST) {
                Some(0) => continue,
                Some(lost) => {
                    let of = |index| word(index).unwrap_or(0);
                    vec![lost, of(report::EXCHANGE), of(report::COLLECTIVE)]
                }
                None => region.host.read()?,
            };
            let [lost, exchange, collective, ..] = words[..] else { continue };
            if lost > 0 {
                let what = What::NAMES.get(collective as usize).copied().unwrap_or("collective");
                let reason = format!("it did not come to exchange {exchange}, of {what}");
                return Err(ErrorKind::RankFailed { rank: self.ranks[lost as usize - 1], reason }.into());
            }
        }
        Ok(())
    }

    /// Aborts the waits of running kernels, after a rank has failed.
    pub(crate) fn abort(&self) {
        for region in self.regions.iter().filter_map(OnceLock::get) {
            if let Some(word) = region.host.word(report::ABORT as usize) {
                word.store(1, Ordering::Release);
            }
        }
    }
}

/// The widest access that divides a length and a pitch in bytes.
fn unit_of(bytes: usize, pitch: usize) -> u32 {
    [16, 8, 4, 2].into_iter().find(|&unit| bytes.is_multiple_of(unit) && pitch.is_multiple_of(unit)).unwrap_or(1) as u32
}

/// Combines gathered data of all ranks, each of `count` items.
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
