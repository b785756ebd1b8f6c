//! Device kernels: one for all collectives over peer memory, and one that combines gathered data.
//!
//! A rank has a region in its memory (`channel`) that all others reach: a counter of exchanges and
//! a flag from each rank for every block, the addresses of the peers' operands, and a stage. Block
//! `b` of each rank works with block `b` of every other one. The counters are in memory, so that a
//! launch can be replayed by a graph, and every exchange raises them by one.
//!
//! A collective takes one of two ways, by its length, which all ranks see alike:
//!
//! - **staged** (small messages): a block copies its share of the input to a half of its own stage,
//!   tells block `b` of every rank so by a flag, waits for theirs, and reads the shares of the
//!   others where they lie. One exchange of flags is enough, because the halves alternate: a rank
//!   that writes to a half again has seen the flags that followed the last reads of it. Such a
//!   launch always has the same number of blocks, so that all of them are at the same half.
//! - **direct** (large ones): the ranks exchange the addresses of their operands together with the
//!   flags. Each rank combines its part of the elements from the inputs of all ranks, and writes
//!   the results into the outputs of all ranks: a reduce-scatter, then an all-gather, in one
//!   kernel, each byte over each link once. A second exchange ends it. Partial sums are staged
//!   first, in a third part of the stage, so that one number an element crosses the links.

use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Place, Run, Sink, Source};
use warpfold_lang::{
    Array, Global, Kernel, Order, Scope, Val, block_dim, block_idx, grid_dim, kernel, range, sync_threads, thread_idx,
    var, wait_for_dependencies, when, while_loop,
};

use crate::Combine;
use crate::parts::PartSum;

// THRESHOLD: larger groups are refused; tested by
// crates/collectives/tests/collectives.rs::an_all_reduce_of_every_number_of_ranks_and_lengths_around_its_pieces and
// crates/collectives/tests/failures.rs::what_makes_no_sense_is_refused_before_anything_runs
/// Ranks that a group over peer memory may have: an HGX machine has eight GPUs.
pub(crate) const MAX_RANKS: usize = 8;
// THRESHOLD: launches of more blocks have so many; tested by
// crates/collectives/tests/collectives.rs::stages_and_launches_have_a_least_and_a_most
/// Blocks of a launch at most.
pub(crate) const MAX_BLOCKS: u32 = 256;
/// The word with the rank that did not come, plus one.
pub(crate) const STATUS: u32 = MAX_BLOCKS;
const FLAGS: u32 = 512;
/// Offset of the operand addresses in words: two from each rank for each block.
const ADDRESSES: u32 = FLAGS + MAX_BLOCKS * MAX_RANKS as u32;
/// Offset of the stage.
pub(crate) const STAGE_BYTES_FROM: u64 = 4 * (ADDRESSES + MAX_BLOCKS * MAX_RANKS as u32 * 4) as u64;

/// Words in host memory in which a rank reports why it gave up, and is told to abort.
pub(crate) mod report {
    /// The rank that did not come, plus one.
    pub(crate) const LOST: u32 = 0;
    /// The number of the exchange of flags.
    pub(crate) const EXCHANGE: u32 = 1;
    /// The collective: [`What::index`](super::What::index).
    pub(crate) const COLLECTIVE: u32 = 2;
    /// Nonzero when the host has aborted.
    pub(crate) const ABORT: u32 = 3;
    pub(crate) const WORDS: usize = 4;
}

/// Polls of a flag between two polls of the host's word, which cross the bus.
const LOOKS_OF_HOST: u32 = 1 << 10;

/// A collective, the same on every rank.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// All-reduce: combines the shares of all ranks; the results go to every rank.
    AllReduce(Combine),
    /// Reduce-scatter: each rank combines the part of its number in the inputs of all ranks.
    ReduceScatter(Combine),
    /// Adds the parts of each rank, then the sums of the ranks; the results go to every rank.
    SumParts(PartSum),
    /// All-gather: concatenates the shares of all ranks, in units of this many bytes.
    AllGather(u32),
    /// Broadcast: copies the share of one rank, in units of this many bytes.
    Broadcast(u32, usize),
}

/// Data path of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// Through halves of the stage.
    Staged,
    /// Directly between operands.
    Direct,
}

impl What {
    /// Names by index.
    pub(crate) const NAMES: [&'static str; 5] =
        ["all-reduce", "reduce-scatter", "sum of parts", "all-gather", "broadcast"];

    pub(crate) fn index(&self) -> usize {
        match self {
            Self::AllReduce(_) => 0,
            Self::ReduceScatter(_) => 1,
            Self::SumParts(_) => 2,
            Self::AllGather(_) => 3,
            Self::Broadcast(..) => 4,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::AllReduce(combine) => format!("all_reduce_{}", combine.name()),
            Self::ReduceScatter(combine) => format!("reduce_scatter_{}", combine.name()),
            Self::SumParts(sum) => sum.name(),
            Self::AllGather(unit) => format!("all_gather_{unit}"),
            Self::Broadcast(unit, root) => format!("broadcast_{unit}_from_{root}"),
        }
    }

    /// Bytes per unit of the input, and of the output.
    fn units(&self, wide: bool) -> (u64, u64) {
        match self {
            Self::AllReduce(combine) | Self::ReduceScatter(combine) => {
                let n = if wide { u64::from(combine.vector()) } else { 1 };
                (n * combine.item().bytes(), n * combine.output().bytes())
            }
            Self::SumParts(sum) => {
                let n = if wide { u64::from(sum.vector()) } else { 1 };
                (n * 4, n * sum.output.bytes())
            }
            Self::AllGather(unit) | Self::Broadcast(unit, _) => (u64::from(*unit), u64::from(*unit)),
        }
    }
}

/// The parameters of the kernel over peer memory, as it takes them: input, output, what is added to
/// a sum, the rank's own region, the host's words ([`report`]), all regions, the rank, units of a
/// share, units from one part of a tensor to the next, and how often a flag is looked at before the
/// rank gives up.
pub(crate) type PeerParameters =
    (Global<u8>, Global<u8>, Global<u8>, Global<u32>, Global<u32>, [u64; MAX_RANKS], u32, u64, u64, u32);

/// The corresponding blocks of all ranks.
struct Peers {
    ranks: usize,
    rank: Val<u32>,
    own: Global<u32>,
    host: Global<u32>,
    regions: Vec<Val<u64>>,
    patience: Val<u32>,
    /// Index of the collective: [`What::index`].
    collective: u32,
}

impl Peers {
    fn region(&self, of: usize) -> Global<u8> {
        Global::<u8>::from_address(self.regions[of])
    }

    fn own_region(&self) -> Global<u8> {
        Global::<u8>::from_address(self.own.address())
    }

    /// Announces this block to the same block of every rank, with the addresses of its operands,
    /// and waits for all of them: then their earlier writes are visible, and their earlier reads
    /// done.
    fn exchange(&self, epoch: Val<u32>, operands: Option<(Global<u8>, Global<u8>)>) {
        let thread = thread_idx().x;
        sync_threads();
        when(thread.lt(self.ranks as u32), || {
            // Thread r signals rank r. One instruction for all of them, so that its fence is waited
            // for once.
            let others = self.regions.iter().enumerate().skip(1);
            let region = others.fold(self.regions[0], |at, (r, region)| thread.eq(r as u32).select(*region, at));
            let words = |from: u32, each: u32| {
                Global::<u32>::from_address(region).at(block_idx().x * (MAX_RANKS as u32 * each) + from)
            };
            if let Some((input, output)) = operands {
                let to = Global::<u64>::from_address(words(ADDRESSES, 4).address());
                to.at(self.rank * 2).set(input.address());
                to.at(self.rank * 2 + 1).set(output.address());
            }
            words(FLAGS, 1).at(self.rank).store(epoch, Order::Release, Scope::System);
            let flag = self.own.at(block_idx().x * MAX_RANKS as u32 + FLAGS).at(thread);
            let is_behind = || (flag.load(Order::Acquire, Scope::System) - epoch).cast::<i32>().lt(0);
            let (looks, waits, is_over) = (var(0_u32), var(is_behind()), var(Val::constant(false)));
            while_loop(
                || waits.get(),
                || {
                    looks.set(looks.get() + 1);
                    is_over.set(looks.get().ge(self.patience));
                    when((looks.get() & (LOOKS_OF_HOST - 1)).eq(0), || {
                        let lost = self.own.at(STATUS).load(Order::Relaxed, Scope::System);
                        let abort = self.host.at(report::ABORT).load(Order::Relaxed, Scope::System);
                        is_over.set(is_over.get() | (lost | abort).ne(0));
                    });
                    waits.set(is_behind() & !is_over.get());
                },
            );
            when(is_over.get() & is_behind(), || {
                // Only the first missing rank is reported.
                let before = self.own.at(STATUS).load(Order::Relaxed, Scope::System);
                when(before.eq(0), || {
                    self.own.at(STATUS).store(thread + 1, Order::Relaxed, Scope::System);
                    self.host.at(report::EXCHANGE).store(epoch, Order::Relaxed, Scope::System);
                    self.host.at(report::COLLECTIVE).store(self.collective, Order::Relaxed, Scope::System);
                    self.host.at(report::LOST).store(thread + 1, Order::Release, Scope::System);
                });
            });
        });
        sync_threads();
    }

    /// The inputs and outputs of all ranks, after they have been exchanged.
    fn operands(&self) -> (Vec<Global<u8>>, Vec<Global<u8>>) {
        let words = self.own.at(block_idx().x * (MAX_RANKS as u32 * 4) + ADDRESSES);
        let addresses = Global::<u64>::from_address(words.address());
        let of = |r: usize, i: u32| Global::<u8>::from_address(addresses.at(r as u32 * 2 + i).get());
        (0..self.ranks).map(|r| (of(r, 0), of(r, 1))).unzip()
    }
}

/// The kernel over peer memory for `ranks` ranks, each with a stage: two alternating halves of
/// `half_bytes`, then room for the partial sums of direct collectives. `wide` requires all
/// addresses and lengths to be multiples of the widest access.
pub(crate) fn peer(what: &What, way: Way, ranks: usize, half_bytes: u64, wide: bool) -> Kernel<PeerParameters> {
    let what = what.clone();
    let (direct, width) = (if way == Way::Direct { "_direct" } else { "" }, if wide { "_wide" } else { "" });
    let name = format!("{}_over_{ranks}_peers{direct}{width}", what.name());
    let body = move |input: Global<u8>,
                     output: Global<u8>,
                     residual: Global<u8>,
                     own: Global<u32>,
                     host: Global<u32>,
                     regions: Array<u64, MAX_RANKS>,
                     rank: Val<u32>,
                     count: Val<u64>,
                     pitch: Val<u64>,
                     patience: Val<u32>| {
        wait_for_dependencies();
        let regions = (0..ranks).map(|r| regions.at(r)).collect();
        let peers = Peers { ranks, rank, own, host, regions, patience, collective: what.index() as u32 };
        let operands = Share { input, output, residual, count, pitch, wide };
        let epoch = own.at(block_idx().x).get() + 1;
        let last = match way {
            Way::Staged => staged(&what, &peers, &operands, epoch, half_bytes),
            Way::Direct => direct_way(&what, &peers, &operands, epoch, half_bytes),
        };
        sync_threads();
        when(thread_idx().x.eq(0), || own.at(block_idx().x).set(last));
    };
    kernel(name, body)
}

/// Operands of a rank.
struct Share {
    input: Global<u8>,
    output: Global<u8>,
    residual: Global<u8>,
    count: Val<u64>,
    pitch: Val<u64>,
    wide: bool,
}

/// Visits a thread's units, from `from` to `to`, among all blocks.
fn each(from: Val<u64>, to: Val<u64>, visit: impl Fn(Val<u64>)) {
    let first = (block_idx().x * block_dim().x + thread_idx().x).cast::<u64>();
    range(from + first, to, (grid_dim().x * block_dim().x).cast::<u64>(), visit);
}

/// Visits several units at a time, so that their loads overlap.
fn several(from: Val<u64>, to: Val<u64>, at_once: u32, visit: impl Fn(&[Val<u64>])) {
    let first = (block_idx().x * block_dim().x + thread_idx().x).cast::<u64>();
    let step = (grid_dim().x * block_dim().x).cast::<u64>();
    let at = var(from + first);
    // Half as many at the end of a row of few.
    for n in [at_once, at_once / 2, 1].into_iter().filter(|n| *n > 0) {
        let last = step * u64::from(n - 1);
        while_loop(
            || (at.get() + last).lt(to),
            || {
                let places: Vec<_> = (0..u64::from(n)).map(|i| at.get() + step * i).collect();
                visit(&places);
                at.set(at.get() + step * u64::from(n));
            },
        );
    }
}

/// Exchanges once, through halves of the stage. Returns the number of the last exchange.
fn staged(what: &What, peers: &Peers, share: &Share, epoch: Val<u32>, half_bytes: u64) -> Val<u32> {
    let (in_unit, out_unit) = what.units(share.wide);
    let Share { input, output, residual, count, pitch, wide } = *share;
    let (ranks, zero) = (peers.ranks, Val::constant(0_u64));
    let half = (epoch & 1).cast::<u64>() * half_bytes + STAGE_BYTES_FROM;
    let parts = if matches!(what, What::ReduceScatter(_)) { ranks as u64 } else { 1 };
    // Stage: this block's share of the input.
    let stage = peers.own_region().at(half);
    let at_once = (8 / ranks as u32).max(1);
    let fill = || {
        for part in 0..parts {
            several(zero, count, 4, |places| {
                let from = |&i: &Val<u64>| input.at((pitch * part + i) * in_unit);
                let to = |&i: &Val<u64>| vec![stage.at((count * part + i) * in_unit)];
                copy_units(places.iter().map(from), places.iter().map(to), in_unit);
            });
        }
    };
    match what {
        What::Broadcast(_, root) => when(peers.rank.eq(*root as u32), fill),
        What::SumParts(sum) => {
            let n = if wide { sum.vector() } else { 1 };
            each(zero, count, |i| sum.stage(input, stage, &pitch, &i, n));
        }
        What::AllReduce(_) | What::ReduceScatter(_) | What::AllGather(_) => fill(),
    }
    peers.exchange(epoch, None);
    // Finish: from the stages of all ranks, in the order of ranks.
    let own_part = peers.rank.cast::<u64>() * count;
    let at = |r: usize, i: Val<u64>| peers.region(r).at(half + i * in_unit);
    match what {
        What::AllReduce(combine) | What::ReduceScatter(combine) => several(zero, count, at_once, |places| {
            let place = |i: Val<u64>| if parts == 1 { i } else { own_part + i };
            let items: Vec<Vec<_>> = places.iter().map(|&i| (0..ranks).map(|r| at(r, place(i))).collect()).collect();
            let to: Vec<_> = places.iter().map(|&i| vec![output.at(i * out_unit)]).collect();
            combine.step(&items, &to, if wide { combine.vector() } else { 1 }, wide);
        }),
        What::SumParts(sum) => several(zero, count, at_once, |places| {
            let items: Vec<Vec<_>> = places.iter().map(|&i| (0..ranks).map(|r| at(r, i)).collect()).collect();
            let around: Vec<_> = places.iter().map(|&i| residual.at(i * out_unit)).collect();
            let to: Vec<_> = places.iter().map(|&i| vec![output.at(i * out_unit)]).collect();
            sum.finish(&items, &around, &to, if wide { sum.vector() } else { 1 });
        }),
        What::AllGather(_) => each(zero, count, |i| {
            let to = (0..ranks as u64).map(|r| vec![output.at((pitch * r + i) * out_unit)]);
            copy_units((0..ranks).map(|r| at(r, i)), to, in_unit);
        }),
        // The sender has no output.
        What::Broadcast(_, root) => when(output.address().ne(0), || {
            several(zero, count, 4, |places| {
                let to = places.iter().map(|&i| vec![output.at(i * out_unit)]);
                copy_units(places.iter().map(|&i| at(*root, i)), to, in_unit);
            });
        }),
    }
    epoch
}

/// Exchanges twice, and copies directly between operands in between.
fn direct_way(what: &What, peers: &Peers, share: &Share, epoch: Val<u32>, half_bytes: u64) -> Val<u32> {
    let (in_unit, out_unit) = what.units(share.wide);
    let Share { input, output, residual, count, pitch, wide } = *share;
    let (ranks, zero, rank) = (peers.ranks, Val::constant(0_u64), peers.rank.cast::<u64>());
    // A rank's part of the elements that all have.
    let part = (count + (ranks as u64 - 1)) / ranks as u64;
    let from = |rank: Val<u64>| (part * rank).min(count);
    let (first, last) = (from(rank), from(rank + 1));
    let at_once = (16 / ranks as u32).max(1);
    let stage = 2 * half_bytes + STAGE_BYTES_FROM;
    if let What::SumParts(sum) = what {
        // Each thread stages what the same thread of a peer reads.
        let (n, own) = (if wide { sum.vector() } else { 1 }, peers.own_region().at(stage));
        for r in 0..ranks as u64 {
            let r = Val::constant(r);
            each(from(r), from(r + 1), |i| sum.stage(input, own, &pitch, &i, n));
        }
    }
    peers.exchange(epoch, Some((input, output)));
    let (inputs, outputs) = peers.operands();
    let all = |of: &[Global<u8>], at: Val<u64>| -> Vec<Global<u8>> { of.iter().map(|to| to.at(at)).collect() };
    match what {
        What::AllReduce(combine) => several(first, last, at_once, |places| {
            let items: Vec<_> = places.iter().map(|&i| all(&inputs, i * in_unit)).collect();
            let to: Vec<_> = places.iter().map(|&i| all(&outputs, i * out_unit)).collect();
            combine.step(&items, &to, if wide { combine.vector() } else { 1 }, wide);
        }),
        What::ReduceScatter(combine) => several(zero, count, at_once, |places| {
            let items: Vec<_> = places.iter().map(|&i| all(&inputs, (pitch * rank + i) * in_unit)).collect();
            let to: Vec<_> = places.iter().map(|&i| vec![output.at(i * out_unit)]).collect();
            combine.step(&items, &to, if wide { combine.vector() } else { 1 }, wide);
        }),
        What::SumParts(sum) => several(first, last, at_once, |places| {
            let staged = |i: Val<u64>| (0..ranks).map(|r| peers.region(r).at(i * in_unit + stage)).collect();
            let items: Vec<Vec<_>> = places.iter().map(|&i| staged(i)).collect();
            let around: Vec<_> = places.iter().map(|&i| residual.at(i * out_unit)).collect();
            let to: Vec<_> = places.iter().map(|&i| all(&outputs, i * out_unit)).collect();
            sum.finish(&items, &around, &to, if wide { sum.vector() } else { 1 });
        }),
        What::AllGather(_) => several(zero, count, 4, |places| {
            let to = places.iter().map(|&i| all(&outputs, (pitch * rank + i) * out_unit));
            copy_units(places.iter().map(|&i| input.at(i * in_unit)), to, in_unit);
        }),
        What::Broadcast(_, root) => when(peers.rank.eq(*root as u32), || {
            let others: Vec<_> = (0..ranks).filter(|r| r != root).map(|r| outputs[r]).collect();
            several(zero, count, 4, |places| {
                let to = places.iter().map(|&i| all(&others, i * out_unit));
                copy_units(places.iter().map(|&i| input.at(i * in_unit)), to, in_unit);
            });
        }),
    }
    let end = epoch + 1;
    peers.exchange(end, None);
    end
}

/// Combines gathered data, the items of a rank `pitch` units after those of the one before.
pub(crate) fn combine_gathered(
    combine: &Combine,
    ranks: usize,
    wide: bool,
) -> Kernel<(Global<u8>, Global<u8>, u64, u64)> {
    let combine = combine.clone();
    let n = if wide { combine.vector() } else { 1 };
    let name = format!("combine_{}_of_{ranks}{}", combine.name(), if wide { "_wide" } else { "" });
    kernel(name, move |gathered: Global<u8>, output: Global<u8>, count: Val<u64>, pitch: Val<u64>| {
        wait_for_dependencies();
        let i = (block_idx().x * block_dim().x + thread_idx().x).cast::<u64>();
        when(i.lt(count), || {
            let bytes = u64::from(n) * combine.item().bytes();
            let items: Vec<_> = (0..ranks).map(|r| gathered.at((pitch * r as u64 + i) * bytes)).collect();
            let to = output.at(i * (u64::from(n) * combine.output().bytes()));
            combine.step(&[items], &[vec![to]], n, wide);
        });
    })
}

/// Copies aligned units of 1, 2, 4, 8 or 16 bytes, each to several places. All loads come first.
pub(crate) fn copy_units(
    from: impl Iterator<Item = Global<u8>>,
    to: impl Iterator<Item = Vec<Global<u8>>>,
    bytes: u64,
) {
    let (dtype, n) = match bytes {
        1 => (Dtype::U8, 1),
        2 => (Dtype::U16, 1),
        bytes => (Dtype::U32, (bytes / 4) as u32),
    };
    let load = |pointer| Source::one::<u32>(dtype).load(&[Place { pointer, run: Run::Wide }], n);
    let loaded: Vec<_> = from.map(load).collect();
    for (items, to) in loaded.into_iter().zip(to) {
        to.iter().for_each(|to| Sink::one::<u32>(dtype).store(&[*to], &items, true));
    }
}
