//! Predicates as members of a group of registers: for results of branches and for folds with `any`
//! and `all`.
//!
//! Shuffles and memory have no predicates. A `Val<bool>` moves as a `u32` that is 0 or 1, and stays
//! in memory as a `u8`.

use crate::memory::{ClusterSpace, Global, GlobalSpace, Pointer, SharedSpace, Space};
use crate::registers::TakeRegister;
use crate::types::Type;
use crate::{FixedRegisters, Index, MapRegisters, Registers, Val, Var, ZipRegisters};

impl Registers for Val<bool> {
    type Vars = Var<bool>;
    type Pointers<S: Space> = Pointer<u8, S>;

    fn count(self) -> u32 {
        1
    }

    fn declare(self) -> Var<bool> {
        Var::declare()
    }

    #[track_caller]
    fn assign(var: Var<bool>, value: Self) {
        var.set(value);
    }

    #[track_caller]
    fn read(var: Var<bool>) -> Self {
        var.get()
    }

    fn map(self, f: &mut impl MapRegisters) -> Self {
        f.map(self.cast::<u32>()).cast()
    }

    fn zip(self, other: Self, f: &mut impl ZipRegisters) -> Self {
        f.zip(self.cast::<u32>(), other.cast::<u32>()).cast()
    }

    fn each(self, f: &mut dyn FnMut(Type, Val<()>) -> Val<()>) -> Self {
        self.cast::<u32>().each(f).cast()
    }

    fn each_pair(self, other: Self, f: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) -> Self {
        self.cast::<u32>().each_pair(other.cast::<u32>(), f).cast()
    }

    #[track_caller]
    fn shared(self, len: u32) -> Pointer<u8, SharedSpace> {
        Val::<u8>::constant(0).shared(len)
    }

    #[track_caller]
    fn in_block(own: Pointer<u8, SharedSpace>, rank: Val<u32>) -> Pointer<u8, ClusterSpace> {
        own.in_block(rank)
    }

    #[track_caller]
    fn global(self, memory: Global<u64>, len: Val<u64>, next: &mut u32) -> Pointer<u8, GlobalSpace> {
        Val::<u8>::constant(0).global(memory, len, next)
    }

    #[track_caller]
    fn load<S: Space>(from: Pointer<u8, S>, index: impl Index + Copy) -> Self {
        from.at(index).get().cast()
    }

    #[track_caller]
    fn store<S: Space>(self, to: Pointer<u8, S>, index: impl Index + Copy) {
        to.at(index).set(self.cast::<u8>());
    }
}

impl FixedRegisters for Val<bool> {
    const COUNT: u32 = 1;

    fn assemble(from: &mut impl TakeRegister) -> Self {
        from.take::<u32>().cast()
    }

    fn gather(from: &mut dyn FnMut(Type) -> Val<()>) -> Self {
        Val::<u32>::gather(from).cast()
    }
}
