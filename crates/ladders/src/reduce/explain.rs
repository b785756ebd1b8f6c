//! The ways of a reduction, step by step, as a lecture draws them: serial, in pairs, as a tree.
//!
//! A kernel with the addressing of a rung leaves its tile after each step, so that what is drawn of
//! a tree is what a device did.

use warpfold_device::{Device, LaunchConfig};
use warpfold_lang::{
    Global, Kernel, Val, block_dim, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop,
};

use crate::Error;

/// Elements that are drawn at most: the threads of a block.
pub const MOST_EXPLAINED: usize = 1024;

/// The operator of an explained reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combine {
    /// Addition.
    Sum,
    /// The larger of two.
    Maximum,
}

impl Combine {
    /// The name of the result.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Maximum => "maximum",
        }
    }

    /// The value that changes nothing: what a block is filled up with.
    const fn identity(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Maximum => f32::NEG_INFINITY,
        }
    }

    fn of(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Sum => a + b,
            Self::Maximum => a.max(b),
        }
    }

    /// One thread: the result of the elements up to each.
    ///
    /// ```
    /// use warpfold_ladders::reduce::Combine;
    /// assert_eq!(Combine::Maximum.serial(&[5.0, 2.0, 8.0, 1.0]), [5.0, 5.0, 8.0, 8.0]);
    /// ```
    #[must_use]
    pub fn serial(self, elements: &[f32]) -> Vec<f32> {
        let push = |acc: &mut Option<f32>, x: &f32| {
            *acc = Some(acc.map_or(*x, |acc| self.of(acc, *x)));
            *acc
        };
        elements.iter().scan(None, push).collect()
    }

    /// Neighbours meet at once: the vector before the first step and after each. A last element
    /// without a partner stays.
    ///
    /// ```
    /// use warpfold_ladders::reduce::Combine;
    /// let rows = Combine::Maximum.pairs(&[5.0, 8.0, 9.0, 7.0, 6.0]);
    /// assert_eq!(rows[1..], [vec![8.0, 9.0, 6.0], vec![9.0, 6.0], vec![9.0]]);
    /// ```
    #[must_use]
    pub fn pairs(self, elements: &[f32]) -> Vec<Vec<f32>> {
        let halved = |row: &Vec<f32>| {
            let pair = |pair: &[f32]| pair[1..].iter().fold(pair[0], |a, b| self.of(a, *b));
            (row.len() > 1).then(|| row.chunks(2).map(pair).collect())
        };
        std::iter::successors(Some(elements.to_vec()), halved).collect()
    }
}

/// Pairing of elements in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addressing {
    /// Strides double; thread `t` works where `t` is a multiple of twice the stride (`naive`).
    Naive,
    /// Strides double; thread `t` works on element `2 * stride * t` (`interleaved`).
    Interleaved,
    /// Strides halve; thread `t` works on element `t` (`sequential`).
    Sequential,
}

impl Addressing {
    /// All of them, as the rungs come.
    pub const ALL: [Self; 3] = [Self::Naive, Self::Interleaved, Self::Sequential];

    /// The rung that has it.
    #[must_use]
    pub const fn rung(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Interleaved => "interleaved",
            Self::Sequential => "sequential",
        }
    }
}

/// One addition: which thread, where it keeps the sum, and where the other element lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addition {
    /// The thread.
    pub thread: usize,
    /// The element that becomes the sum.
    pub to: usize,
    /// The element that is added.
    pub from: usize,
}

/// One step of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeStep {
    /// The distance of the elements that meet.
    pub stride: usize,
    /// Additions, by thread.
    pub additions: Vec<Addition>,
    /// The tile after the step.
    pub tile: Vec<f32>,
}

/// Leaves the tile before the first step and after each.
fn tree(addressing: Addressing, combine: Combine) -> Kernel<(Global<f32>, Global<f32>)> {
    let body = move |input: Global<f32>, tiles: Global<f32>| {
        let tile = shared_named::<f32>("tile", MOST_EXPLAINED as u32);
        let (thread, block) = (thread_idx().x, block_dim().x);
        tile.at(thread).set(input.at(thread).get());
        let row = var(0_u32);
        let leave = || {
            sync_threads();
            tiles.at(row.get() * block + thread).set(tile.at(thread).get());
            row.add_assign(1);
            sync_threads();
        };
        leave();
        let halves = addressing == Addressing::Sequential;
        let stride = var(if halves { block >> 1 } else { Val::constant(1) });
        while_loop(
            || if halves { stride.get().gt(0) } else { stride.get().lt(block) },
            || {
                let near = stride.get();
                let (to, works) = match addressing {
                    Addressing::Naive => (thread, (thread % (near * 2)).eq(0)),
                    Addressing::Interleaved => (thread * (near * 2), (thread * (near * 2)).lt(block)),
                    Addressing::Sequential => (thread, thread.lt(near)),
                };
                when(works, || match combine {
                    Combine::Sum => tile.at(to).add_assign(tile.at(to + near).get()),
                    Combine::Maximum => tile.at(to).set(tile.at(to).get().max(tile.at(to + near).get())),
                });
                leave();
                stride.set(if halves { near >> 1 } else { near * 2 });
            },
        );
    };
    kernel(format!("explain_{}_{}", addressing.rung(), combine.name()), body)
}

/// The steps of the tree of one block over some elements, as many as a power of two; others are
/// filled up with what changes nothing, as rungs do.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_ladders::reduce::{Addressing, Combine, explain};
/// let device = Device::virtual_gpu(Profile::H200);
/// let steps = explain(&device, &[5.0, 5.0, 8.0, 8.0], Addressing::Sequential, Combine::Sum)?;
/// assert_eq!(steps[0].tile[..2], [13.0, 13.0]);
/// assert_eq!(steps[1].tile[0], 26.0);
/// # Ok::<(), warpfold_ladders::Error>(())
/// ```
///
/// # Errors
/// What the device says; [`ErrorKind::BadSize`](crate::ErrorKind::BadSize) for no elements, and for
/// more than [`MOST_EXPLAINED`].
pub fn explain(
    device: &Device,
    elements: &[f32],
    addressing: Addressing,
    combine: Combine,
) -> Result<Vec<TreeStep>, Error> {
    if elements.is_empty() || elements.len() > MOST_EXPLAINED {
        let text = format!("{} elements", elements.len());
        return Err(crate::ErrorKind::BadSize { text, expected: "from 1 to 1024 elements" }.into());
    }
    let block = elements.len().next_power_of_two();
    let mut padded = elements.to_vec();
    padded.resize(block, combine.identity());
    let num_steps = block.ilog2() as usize;
    let input = device.upload(&padded)?;
    let mut tiles = device.alloc::<f32>((num_steps + 1) * block)?;
    device.launch(&tree(addressing, combine), LaunchConfig::new(1, block as u32), (&input, &mut tiles))?;
    let tiles = tiles.download()?;
    let step = |(i, tile): (usize, &[f32])| {
        let stride = if addressing == Addressing::Sequential { block >> (i + 1) } else { 1 << i };
        let additions = (0..block / 2 / if addressing == Addressing::Sequential { 1 << i } else { stride }).map(|n| {
            let to = if addressing == Addressing::Sequential { n } else { n * 2 * stride };
            let thread = if addressing == Addressing::Naive { to } else { n };
            Addition { thread, to, from: to + stride }
        });
        TreeStep { stride, additions: additions.collect(), tile: tile.to_vec() }
    };
    Ok(tiles.chunks(block).skip(1).enumerate().map(step).collect())
}
