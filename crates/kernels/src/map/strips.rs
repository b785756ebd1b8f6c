//! The map whose threads access all tensors in the order of the output's memory, some neighbours
//! each.

use warpfold_lang::{Global, Operand, Val, block_idx, kernel, range, thread_idx, when, when_else};

use super::family::Code;
use super::geometry::{Index, MAX_INPUTS, MapArgs};
use crate::AnyKernel;
use crate::elements::{Place, Run};
use crate::overlap::overlap_launches;

/// Threads per block.
pub(super) const BLOCK: u32 = 256;

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Strips {
    /// Neighbouring elements of a unit, which one thread maps.
    pub vector: u32,
    /// Units that a thread loads before it computes the first.
    pub unroll: u32,
    /// How the elements of a unit are loaded, of each input.
    pub runs: [Run; MAX_INPUTS],
    /// Dimensions.
    pub rank: usize,
    /// Whether the last unit has fewer elements; there is one dimension then.
    pub ragged: bool,
    /// Whether positions and offsets fit 31 bits.
    pub small: bool,
}

pub(super) fn kernel_of(map: Code, strips: Strips) -> AnyKernel {
    let name = format!("{}_strips", map.name);
    let body = move |args: MapArgs| {
        overlap_launches();
        let (inputs, outputs) = args.tensors(map.inputs(), map.outputs());
        let walk = Walker { map: &map, strips: &strips, args, inputs, outputs };
        if strips.small { walk.run::<u32>() } else { walk.run::<u64>() }
    };
    kernel(name, body).required_block(BLOCK).into()
}

struct Walker<'a> {
    map: &'a Code,
    strips: &'a Strips,
    args: MapArgs,
    inputs: Vec<Global<u8>>,
    outputs: Vec<Global<u8>>,
}

impl Walker<'_> {
    fn run<T: Index>(&self)
    where
        Val<T>: Operand<T>,
    {
        // Contract: the grid has a block for each `BLOCK * unroll` units.
        let unroll = self.strips.unroll;
        let tile = Val::constant(T::from_bits(u64::from(BLOCK * unroll)));
        let block_first = block_idx().x.cast::<T>() * tile;
        let first = block_first + thread_idx().x.cast::<T>();
        let units = self.args.units.cast::<T>();
        let whole = if self.strips.ragged { units - T::ONE } else { units };
        if unroll == 1 {
            when(first.lt(units), || self.unit(first, whole));
            return;
        }
        let all = || {
            let step = |u: u32| first + Val::constant(T::from_bits(u64::from(u * BLOCK)));
            self.whole((0..unroll).map(step).collect());
        };
        let rest = || {
            let end = (block_first + tile).min(units);
            range(first, end, Val::constant(T::from_bits(BLOCK.into())), |unit| self.unit(unit, whole));
        };
        when_else((block_first + tile).le(whole), all, rest);
    }

    /// A unit that may be the last.
    fn unit<T: Index>(&self, unit: Val<T>, whole: Val<T>) {
        if self.strips.ragged {
            when_else(unit.lt(whole), || self.whole(vec![unit]), || self.rest(unit));
        } else {
            self.whole(vec![unit]);
        }
    }

    /// The addresses of a unit in each input and each output.
    fn pointers<T: Index>(&self, unit: Val<T>) -> (Vec<Global<u8>>, Vec<Global<u8>>) {
        let tensors = self.inputs.len() + super::geometry::MAX_OUTPUTS.min(self.outputs.len());
        let offsets = self.args.offsets(unit, self.strips.rank, tensors);
        let memory = self.inputs.iter().chain(&self.outputs).zip(offsets).enumerate();
        let mut pointers: Vec<_> =
            memory.map(|(tensor, (memory, offset))| T::of(self.args.base(tensor, *memory), offset)).collect();
        let outputs = pointers.split_off(self.inputs.len());
        (pointers, outputs)
    }

    /// Whole units: every load before the first store.
    fn whole<T: Index>(&self, units: Vec<Val<T>>) {
        let load = |unit: Val<T>| {
            let (inputs, outputs) = self.pointers(unit);
            let place = |(pointer, run): (Global<u8>, Run)| Place { pointer, run };
            let places: Vec<_> = inputs.into_iter().zip(self.strips.runs).map(place).collect();
            (self.map.source.load(&places, self.strips.vector), outputs)
        };
        let loaded: Vec<_> = units.into_iter().map(load).collect();
        for (items, outputs) in loaded {
            let results: Vec<_> = items.into_iter().map(|item| self.map.apply(item, self.args.scalars())).collect();
            self.map.sink.store(&outputs, &results, true);
        }
    }

    /// The last unit, element by element.
    fn rest<T: Index>(&self, unit: Val<T>) {
        let (inputs, outputs) = self.pointers(unit);
        range(0_u32, self.args.rest.cast::<u32>(), 1, |i| {
            let at = |(pointer, bytes): (&Global<u8>, u64)| pointer.at(i * bytes as u32);
            let place = |((pointer, run), dtype): ((&Global<u8>, Run), &crate::Dtype)| match run {
                Run::Same => Place { pointer: *pointer, run },
                Run::Wide | Run::Narrow => Place { pointer: at((pointer, dtype.bytes())), run: Run::Narrow },
            };
            let places: Vec<_> = inputs.iter().zip(self.strips.runs).zip(self.map.source.dtypes()).map(place).collect();
            let items = self.map.source.load(&places, 1);
            let to: Vec<_> =
                outputs.iter().zip(self.map.sink.dtypes().iter().map(|dtype| dtype.bytes())).map(at).collect();
            self.map.sink.store(&to, &[self.map.apply(items[0], self.args.scalars())], false);
        });
    }
}
