//! Sums of partial results in one tree, regardless of the number of ranks: first on each rank, then
//! over the ranks.
//!
//! A split-K product gives its partial sums in `f32`. Each rank has the same number of them, stored
//! contiguously. They are added in a balanced tree: halves, halves of halves. If the numbers of
//! parts and of ranks are powers of two, a rank's parts are a subtree, so that a sum has the same
//! bits on one rank and on eight.

use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Place, Run, Sink, Source};
use warpfold_kernels::fold::pairwise_sums;
use warpfold_lang::{
    Array, Global, Kernel, Val, block_dim, block_idx, grid_dim, kernel, range, thread_idx, wait_for_dependencies,
};

use crate::kernels::{MAX_RANKS, PeerParameters};

/// Element types of a sum of parts and of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartSum {
    /// Parts per rank.
    pub(crate) parts: usize,
    /// The type of the result, and of what is added to the sum before it is rounded.
    pub(crate) output: Dtype,
    pub(crate) has_residual: bool,
}

/// Bytes of a partial sum.
const ITEM: u64 = 4;

impl PartSum {
    pub(crate) fn name(&self) -> String {
        let residual = if self.has_residual { "_residual" } else { "" };
        format!("sum_{}_parts_{}{residual}", self.parts, self.output)
    }

    /// Neighbours added together if everything is aligned.
    pub(crate) fn vector(&self) -> u32 {
        (16 / ITEM.max(self.output.bytes())) as u32
    }

    /// The sum of a rank's parts at one place; parts are `pitch` units apart.
    fn own(&self, input: Global<u8>, pitch: &Val<u64>, at: &Val<u64>, n: u32) -> Vec<Val<f32>> {
        let places = (0..self.parts as u64).map(|part| input.at((*pitch * part + *at) * (u64::from(n) * ITEM)));
        pairwise_sums(&places.map(|place| load(place, Dtype::F32, n)).collect::<Vec<_>>())
    }

    /// Stores the sum of a rank's parts for the others.
    pub(crate) fn stage(&self, input: Global<u8>, to: Global<u8>, pitch: &Val<u64>, at: &Val<u64>, n: u32) {
        let sums = self.own(input, pitch, at, n);
        Sink::one::<f32>(Dtype::F32).store(&[to.at(*at * (u64::from(n) * ITEM))], &sums, true);
    }

    /// Adds the sums that all ranks have staged at several places, and the residual, and stores the
    /// results.
    pub(crate) fn finish(&self, staged: &[Vec<Global<u8>>], residual: &[Global<u8>], to: &[Vec<Global<u8>>], n: u32) {
        let load_all = |ranks: &Vec<Global<u8>>| ranks.iter().map(|place| load(*place, Dtype::F32, n)).collect();
        // All loads come first, so that they overlap.
        let loaded: Vec<Vec<Vec<Val<f32>>>> = staged.iter().map(load_all).collect();
        for ((ranks, residual), to) in loaded.into_iter().zip(residual).zip(to) {
            self.store(pairwise_sums(&ranks), *residual, to, n);
        }
    }

    fn store(&self, mut sums: Vec<Val<f32>>, residual: Global<u8>, to: &[Global<u8>], n: u32) {
        if self.has_residual {
            sums.iter_mut().zip(load(residual, self.output, n)).for_each(|(sum, item)| *sum += item);
        }
        to.iter().for_each(|to| Sink::one::<f32>(self.output).store(&[*to], &sums, true));
    }

    /// The kernel of a group of one rank, with the parameters of those over peer memory.
    pub(crate) fn alone(self, wide: bool) -> Kernel<PeerParameters> {
        let name = format!("{}{}", self.name(), if wide { "_wide" } else { "" });
        let n = if wide { self.vector() } else { 1 };
        let body = move |input: Global<u8>,
                         output: Global<u8>,
                         residual: Global<u8>,
                         _: Global<u32>,
                         _: Global<u32>,
                         _: Array<u64, MAX_RANKS>,
                         _: Val<u32>,
                         count: Val<u64>,
                         pitch: Val<u64>,
                         _: Val<u32>| {
            wait_for_dependencies();
            let first = (block_idx().x * block_dim().x + thread_idx().x).cast::<u64>();
            range(first, count, (grid_dim().x * block_dim().x).cast::<u64>(), |i| {
                let bytes = u64::from(n) * self.output.bytes();
                let sums = self.own(input, &pitch, &i, n);
                self.store(sums, residual.at(i * bytes), &[output.at(i * bytes)], n);
            });
        };
        kernel(name, body)
    }
}

fn load(pointer: Global<u8>, dtype: Dtype, n: u32) -> Vec<Val<f32>> {
    Source::one::<f32>(dtype).load(&[Place { pointer, run: Run::Wide }], n)
}
