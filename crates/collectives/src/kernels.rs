//! The kernels: one for all collectives over peer memory, and one that combines what was gathered.
//!
//! A rank has a region in its memory (`channel`) that all others reach: a counter for each block,
//! flags, and two halves of a stage. In a collective, block `b` of each rank copies its share of
//! the input to a half of its own stage, tells block `b` of every rank so by a flag, waits for
//! theirs, and reads the shares of the others where they lie. One exchange of flags is enough,
//! because the halves alternate: who writes to a half again has seen the flags that followed the
//! last reads of it. The number of blocks is the same in every launch, so that block `b` counts
//! with block `b`; the counters are in memory, so that a launch can be replayed by a graph.

use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Place, Run, Sink, Source};
use warpfold_lang::{
    Array, Global, Kernel, Order, Scope, Val, block_dim, block_idx, grid_dim, kernel, range, sync_threads, thread_idx,
    var, wait_for_dependencies, when, while_loop,
};

use crate::Combine;
use crate::parts::PartSum;

/// Ranks that a group over peer memory may have: an HGX machine has eight GPUs.
pub(crate) const MAX_RANKS: usize = 8;
/// Blocks of a launch at most.
pub(crate) const MAX_BLOCKS: u32 = 256;
/// The word that says which rank was waited for in vain, plus one.
pub(crate) const STATUS: u32 = MAX_BLOCKS;
const FLAGS: u32 = 512;
/// Where the stage begins.
pub(crate) const STAGE_BYTES_FROM: u64 = 4 * (FLAGS + MAX_BLOCKS * MAX_RANKS as u32) as u64;

/// What every rank does.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// Combines the shares of all ranks; the results go to every rank.
    AllReduce(Combine),
    /// Combines the shares of all ranks in one part of their inputs, each rank in the part of its
    /// number.
    ReduceScatter(Combine),
    /// Adds the parts that each rank has, then the sums of the ranks; the results go to every rank.
    SumParts(PartSum),
    /// Puts the shares of all ranks side by side, in units of so many bytes.
    AllGather(u32),
    /// Copies the share of one rank, in units of so many bytes.
    Broadcast(u32, usize),
}

impl What {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::AllReduce(combine) => format!("all_reduce_{}", combine.name()),
            Self::ReduceScatter(combine) => format!("reduce_scatter_{}", combine.name()),
            Self::SumParts(sum) => sum.name(),
            Self::AllGather(unit) => format!("all_gather_{unit}"),
            Self::Broadcast(unit, root) => format!("broadcast_{unit}_from_{root}"),
        }
    }

    /// Bytes of an input's unit, and of an output's.
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

/// The parameters of the kernel over peer memory, as it takes them: input, output, what is
/// added to a sum, the rank's own region, all regions, the rank, units of a share, units from one
/// part of a tensor to the next, and how often a flag is looked at before the rank gives up.
pub(crate) type PeerParameters =
    (Global<u8>, Global<u8>, Global<u8>, Global<u32>, [u64; MAX_RANKS], u32, u64, u64, u32);

/// The kernel over peer memory for so many ranks, each with two halves of a stage of so many bytes.
/// `wide` says that all addresses and lengths are multiples of the widest access.
pub(crate) fn peer(what: &What, ranks: usize, half_bytes: u64, wide: bool) -> Kernel<PeerParameters> {
    let what = what.clone();
    let name = format!("{}_over_{ranks}_peers{}", what.name(), if wide { "_wide" } else { "" });
    let (in_unit, out_unit) = what.units(wide);
    let body = move |input: Global<u8>,
                     output: Global<u8>,
                     residual: Global<u8>,
                     own: Global<u32>,
                     regions: Array<u64, MAX_RANKS>,
                     rank: Val<u32>,
                     count: Val<u64>,
                     pitch: Val<u64>,
                     patience: Val<u32>| {
        wait_for_dependencies();
        let (block, thread) = (block_idx().x, thread_idx().x);
        let epoch = own.at(block).get() + 1;
        let half = (epoch & 1).cast::<u64>() * half_bytes + STAGE_BYTES_FROM;
        let region = |rank: usize| Global::<u8>::from_address(regions.at(rank));
        let flags = |of: usize| Global::<u32>::from_address(regions.at(of)).at(block * MAX_RANKS as u32 + FLAGS);
        let first = (block * block_dim().x + thread).cast::<u64>();
        let step = (grid_dim().x * block_dim().x).cast::<u64>();
        let parts = if matches!(what, What::ReduceScatter(_)) { ranks as u64 } else { 1 };
        // Stage: this block's share of the input.
        let stage = Global::<u8>::from_address(own.address()).at(half);
        let fill = || {
            range(first, count, step, |i| {
                for part in 0..parts {
                    let from = input.at((pitch * part + i) * in_unit);
                    copy_unit(from, stage.at((count * part + i) * in_unit), in_unit);
                }
            });
        };
        match &what {
            What::Broadcast(_, root) => when(rank.eq(*root as u32), fill),
            What::SumParts(sum) => {
                let n = if wide { sum.vector() } else { 1 };
                range(first, count, step, |i| sum.stage(input, stage, &pitch, &i, n));
            }
            What::AllReduce(_) | What::ReduceScatter(_) | What::AllGather(_) => fill(),
        }
        sync_threads();
        // Barrier among the ranks: thread r tells rank r, and waits for it.
        for other in 0..ranks {
            when(thread.eq(other as u32), || flags(other).at(rank).store(epoch, Order::Release, Scope::System));
        }
        when(thread.lt(ranks as u32), || {
            let flag = own.at(block * MAX_RANKS as u32 + FLAGS).at(thread);
            let looks = var(0_u32);
            let is_behind = || (flag.load(Order::Acquire, Scope::System) - epoch).cast::<i32>().lt(0);
            let waits = var(is_behind());
            while_loop(
                || waits.get(),
                || {
                    looks.set(looks.get() + 1);
                    waits.set(is_behind() & looks.get().lt(patience));
                },
            );
            when(looks.get().ge(patience), || own.at(STATUS).set(thread + 1));
        });
        sync_threads();
        // Finish: from the stages of all ranks, in the order of ranks.
        let own_part = rank.cast::<u64>() * count;
        range(first, count, step, |i| match &what {
            What::AllReduce(combine) | What::ReduceScatter(combine) => {
                let at = if parts == 1 { i } else { own_part + i };
                let items: Vec<_> = (0..ranks).map(|r| region(r).at(half + at * in_unit)).collect();
                let n = if wide { combine.vector() } else { 1 };
                combine.step(&items, output.at(i * out_unit), n, wide);
            }
            What::SumParts(sum) => {
                let staged: Vec<_> = (0..ranks).map(|r| region(r).at(half + i * in_unit)).collect();
                let n = if wide { sum.vector() } else { 1 };
                sum.finish(&staged, residual.at(i * out_unit), output.at(i * out_unit), n);
            }
            What::AllGather(_) => {
                for r in 0..ranks {
                    let to = output.at((pitch * r as u64 + i) * out_unit);
                    copy_unit(region(r).at(half + i * in_unit), to, in_unit);
                }
            }
            // Who sends has no output.
            What::Broadcast(_, root) => when(output.address().ne(0), || {
                copy_unit(region(*root).at(half + i * in_unit), output.at(i * out_unit), in_unit);
            }),
        });
        sync_threads();
        when(thread.eq(0), || own.at(block).set(epoch));
    };
    kernel(name, body)
}

/// Combines what was gathered, the items of a rank `pitch` units after those of the one before.
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
            combine.step(&items, output.at(i * (u64::from(n) * combine.output().bytes())), n, wide);
        });
    })
}

/// Copies 1, 2, 4, 8 or 16 bytes, aligned to their number.
fn copy_unit(from: Global<u8>, to: Global<u8>, bytes: u64) {
    let (dtype, n) = match bytes {
        1 => (Dtype::U8, 1),
        2 => (Dtype::U16, 1),
        bytes => (Dtype::U32, (bytes / 4) as u32),
    };
    let items = Source::one::<u32>(dtype).load(&[Place { pointer: from, run: Run::Wide }], n);
    Sink::one::<u32>(dtype).store(&[to], &items, true);
}
