//! Groups of registers that are used as one value: the accumulators of folds.

use crate::memory::{ClusterSpace, Global, GlobalSpace, Pointer, SharedSpace, Space, shared};
use crate::recorder::Raw;
use crate::types::{Element, Type};
use crate::{Index, Operand, Val, Var, untyped};

/// Nothing, a [`Val`], or a tuple or an array of them: a value for branches to return, shuffles to
/// move, shared memory to hold, and folds to accumulate.
pub trait Registers: Copy {
    /// One [`Var`] for each register.
    type Vars: Copy;
    /// One pointer for each register: a structure of arrays, so that neighbouring threads touch
    /// neighbouring words.
    type Pointers<S: Space>: Copy;

    /// Number of registers in the group.
    fn count(self) -> u32;
    /// Declares as many registers of the same types, without a value yet; assign them on every path
    /// before reading.
    #[doc(hidden)]
    fn declare(self) -> Self::Vars;
    /// Assigns the values to the variables.
    fn assign(vars: Self::Vars, values: Self);
    /// The current values of the variables.
    fn read(vars: Self::Vars) -> Self;
    /// Applies a function to each register.
    fn map(self, f: &mut impl MapRegisters) -> Self;
    /// Applies a function to each pair of registers.
    fn zip(self, other: Self, f: &mut impl ZipRegisters) -> Self;
    /// [`map`](Self::map) with a function that takes types as values, so that it is compiled only
    /// once.
    #[doc(hidden)]
    fn each(self, f: &mut dyn FnMut(Type, Val<()>) -> Val<()>) -> Self;
    /// [`zip`](Self::zip) with a function that takes types as values.
    #[doc(hidden)]
    fn each_pair(self, other: Self, f: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) -> Self;
    /// Arrays of `len` in shared memory, for registers of the same types.
    fn shared(self, len: u32) -> Self::Pointers<SharedSpace>;
    /// The same arrays in the shared memory of the block of a rank of the cluster.
    fn in_block(own: Self::Pointers<SharedSpace>, rank: Val<u32>) -> Self::Pointers<ClusterSpace>;
    /// Arrays of `len` in global memory, for registers of the same types: 8 bytes per element,
    /// consecutive arrays starting at array number `next`, which is advanced.
    fn global(self, memory: Global<u64>, len: Val<u64>, next: &mut u32) -> Self::Pointers<GlobalSpace>;
    /// Loads each register from its array.
    fn load<S: Space>(from: Self::Pointers<S>, index: impl Index + Copy) -> Self;
    /// Stores each register into its array.
    fn store<S: Space>(self, to: Self::Pointers<S>, index: impl Index + Copy);

    /// `yes` if the condition holds, else `no`.
    #[track_caller]
    fn select(condition: impl Operand<bool>, yes: Self, no: Self) -> Self {
        let condition = condition.val().raw();
        yes.each_pair(no, &mut |ty, yes, no| Val::from_raw(untyped::select(ty, condition, yes.raw(), no.raw())))
    }
}

/// [`Registers`] whose number and types are those of the Rust type: all but
/// [`AnyRegisters`](crate::AnyRegisters).
pub trait FixedRegisters: Registers {
    /// Number of registers in the group.
    const COUNT: u32;

    /// Assembles a group from registers taken one after the other.
    fn assemble(from: &mut impl TakeRegister) -> Self;

    /// Assembles a group from registers that a function returns for their types.
    #[doc(hidden)]
    fn gather(from: &mut dyn FnMut(Type) -> Val<()>) -> Self;

    /// A group of arbitrary values, for its types only.
    #[must_use]
    fn any() -> Self {
        Self::gather(&mut |_| Val::from_raw(Raw::Const(0)))
    }
}

/// A source of registers of any type.
pub trait TakeRegister {
    /// The next one.
    fn take<T: Element>(&mut self) -> Val<T>;
}

/// A function to apply to each register of a group, of any type.
pub trait MapRegisters {
    /// The new value of one register.
    fn map<T: Element>(&mut self, value: Val<T>) -> Val<T>;
}

/// A function to apply to each pair of registers of two groups.
pub trait ZipRegisters {
    /// The new value made from one register of each group.
    fn zip<T: Element>(&mut self, left: Val<T>, right: Val<T>) -> Val<T>;
}

/// Variables for a group of registers; see [`vars`].
#[derive(Debug, Clone, Copy)]
pub struct Vars<R: Registers>(R::Vars);

/// Variables for a group of registers, with their first values.
#[track_caller]
#[must_use]
pub fn vars<R: Registers>(init: R) -> Vars<R> {
    let vars = init.declare();
    R::assign(vars, init);
    Vars(vars)
}

impl<R: Registers> Vars<R> {
    /// The current values of the variables.
    #[track_caller]
    #[must_use]
    pub fn get(self) -> R {
        R::read(self.0)
    }

    /// Assigns new values.
    #[track_caller]
    pub fn set(self, values: R) {
        R::assign(self.0, values);
    }
}

impl Registers for () {
    type Vars = ();
    type Pointers<S: Space> = ();

    fn count(self) -> u32 {
        0
    }
    fn declare(self) {}
    fn assign((): (), (): ()) {}
    fn read((): ()) {}
    fn map(self, _: &mut impl MapRegisters) {}
    fn zip(self, (): (), _: &mut impl ZipRegisters) {}
    fn each(self, _: &mut dyn FnMut(Type, Val<()>) -> Val<()>) {}
    fn each_pair(self, (): (), _: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) {}
    fn shared(self, _: u32) {}
    fn in_block((): (), _: Val<u32>) {}
    fn global(self, _: Global<u64>, _: Val<u64>, _: &mut u32) {}
    fn load<S: Space>((): (), _: impl Index + Copy) {}
    fn store<S: Space>(self, (): (), _: impl Index + Copy) {}
}

impl FixedRegisters for () {
    const COUNT: u32 = 0;

    fn assemble(_: &mut impl TakeRegister) {}

    fn gather(_: &mut dyn FnMut(Type) -> Val<()>) {}
}

impl<T: Element> Registers for Val<T> {
    type Vars = Var<T>;
    type Pointers<S: Space> = Pointer<T, S>;

    fn count(self) -> u32 {
        1
    }

    fn declare(self) -> Var<T> {
        Var::declare()
    }

    #[track_caller]
    fn assign(var: Var<T>, value: Self) {
        var.set(value);
    }

    #[track_caller]
    fn read(var: Var<T>) -> Self {
        var.get()
    }

    fn map(self, f: &mut impl MapRegisters) -> Self {
        f.map(self)
    }

    fn zip(self, other: Self, f: &mut impl ZipRegisters) -> Self {
        f.zip(self, other)
    }

    fn each(self, f: &mut dyn FnMut(Type, Val<()>) -> Val<()>) -> Self {
        Self::from_raw(f(T::TYPE, Val::from_raw(self.raw())).raw())
    }

    fn each_pair(self, other: Self, f: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) -> Self {
        Self::from_raw(f(T::TYPE, Val::from_raw(self.raw()), Val::from_raw(other.raw())).raw())
    }

    #[track_caller]
    fn shared(self, len: u32) -> Pointer<T, SharedSpace> {
        shared(len)
    }

    #[track_caller]
    fn in_block(own: Pointer<T, SharedSpace>, rank: Val<u32>) -> Pointer<T, ClusterSpace> {
        own.in_block(rank)
    }

    #[track_caller]
    fn global(self, memory: Global<u64>, len: Val<u64>, next: &mut u32) -> Pointer<T, GlobalSpace> {
        let first = len * u64::from(*next);
        *next += 1;
        memory.at(first).reinterpret()
    }

    #[track_caller]
    fn load<S: Space>(from: Pointer<T, S>, index: impl Index + Copy) -> Self {
        from.at(index).get()
    }

    #[track_caller]
    fn store<S: Space>(self, to: Pointer<T, S>, index: impl Index + Copy) {
        to.at(index).set(self);
    }
}

impl<T: Element> FixedRegisters for Val<T> {
    const COUNT: u32 = 1;

    fn assemble(from: &mut impl TakeRegister) -> Self {
        from.take()
    }

    fn gather(from: &mut dyn FnMut(Type) -> Val<()>) -> Self {
        Self::from_raw(from(T::TYPE).raw())
    }
}

impl<R: Registers, const N: usize> Registers for [R; N] {
    type Vars = [R::Vars; N];
    type Pointers<S: Space> = [R::Pointers<S>; N];

    fn count(self) -> u32 {
        self.iter().map(|group| group.count()).sum()
    }

    fn declare(self) -> Self::Vars {
        self.map(R::declare)
    }

    #[track_caller]
    fn assign(vars: Self::Vars, values: Self) {
        vars.into_iter().zip(values).for_each(|(var, value)| R::assign(var, value));
    }

    #[track_caller]
    fn read(vars: Self::Vars) -> Self {
        vars.map(R::read)
    }

    fn map(self, f: &mut impl MapRegisters) -> Self {
        std::array::from_fn(|i| self[i].map(f))
    }

    fn zip(self, other: Self, f: &mut impl ZipRegisters) -> Self {
        std::array::from_fn(|i| self[i].zip(other[i], f))
    }

    fn each(self, f: &mut dyn FnMut(Type, Val<()>) -> Val<()>) -> Self {
        self.map(|group| group.each(f))
    }

    fn each_pair(self, other: Self, f: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) -> Self {
        std::array::from_fn(|i| self[i].each_pair(other[i], f))
    }

    #[track_caller]
    fn shared(self, len: u32) -> Self::Pointers<SharedSpace> {
        self.map(|group| group.shared(len))
    }

    #[track_caller]
    fn in_block(own: Self::Pointers<SharedSpace>, rank: Val<u32>) -> Self::Pointers<ClusterSpace> {
        own.map(|pointers| R::in_block(pointers, rank))
    }

    #[track_caller]
    fn global(self, memory: Global<u64>, len: Val<u64>, next: &mut u32) -> Self::Pointers<GlobalSpace> {
        self.map(|group| group.global(memory, len, next))
    }

    #[track_caller]
    fn load<S: Space>(from: Self::Pointers<S>, index: impl Index + Copy) -> Self {
        from.map(|pointer| R::load(pointer, index))
    }

    #[track_caller]
    fn store<S: Space>(self, to: Self::Pointers<S>, index: impl Index + Copy) {
        self.into_iter().zip(to).for_each(|(value, pointer)| value.store(pointer, index));
    }
}

impl<R: FixedRegisters, const N: usize> FixedRegisters for [R; N] {
    const COUNT: u32 = R::COUNT * N as u32;

    fn assemble(from: &mut impl TakeRegister) -> Self {
        std::array::from_fn(|_| R::assemble(from))
    }

    fn gather(from: &mut dyn FnMut(Type) -> Val<()>) -> Self {
        std::array::from_fn(|_| R::gather(from))
    }
}

macro_rules! tuples {
    ($($register:ident $position:tt)*) => {
        impl<$($register: Registers),*> Registers for ($($register,)*) {
            type Vars = ($($register::Vars,)*);
            type Pointers<Sp: Space> = ($($register::Pointers<Sp>,)*);

            fn count(self) -> u32 {
                0 $(+ self.$position.count())*
            }

            fn declare(self) -> Self::Vars {
                ($(self.$position.declare(),)*)
            }

            #[track_caller]
            fn assign(vars: Self::Vars, values: Self) {
                $($register::assign(vars.$position, values.$position);)*
            }

            #[track_caller]
            fn read(vars: Self::Vars) -> Self {
                ($($register::read(vars.$position),)*)
            }

            fn map(self, f: &mut impl MapRegisters) -> Self {
                ($(self.$position.map(f),)*)
            }

            fn zip(self, other: Self, f: &mut impl ZipRegisters) -> Self {
                ($(self.$position.zip(other.$position, f),)*)
            }

            fn each(self, f: &mut dyn FnMut(Type, Val<()>) -> Val<()>) -> Self {
                ($(self.$position.each(f),)*)
            }

            fn each_pair(self, other: Self, f: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) -> Self {
                ($(self.$position.each_pair(other.$position, f),)*)
            }

            #[track_caller]
            fn shared(self, len: u32) -> Self::Pointers<SharedSpace> {
                ($(self.$position.shared(len),)*)
            }

            #[track_caller]
            fn in_block(own: Self::Pointers<SharedSpace>, rank: Val<u32>) -> Self::Pointers<ClusterSpace> {
                ($($register::in_block(own.$position, rank),)*)
            }

            #[track_caller]
            fn global(self, memory: Global<u64>, len: Val<u64>, next: &mut u32) -> Self::Pointers<GlobalSpace> {
                ($(self.$position.global(memory, len, next),)*)
            }

            #[track_caller]
            fn load<Sp: Space>(from: Self::Pointers<Sp>, index: impl Index + Copy) -> Self {
                ($($register::load(from.$position, index),)*)
            }

            #[track_caller]
            fn store<Sp: Space>(self, to: Self::Pointers<Sp>, index: impl Index + Copy) {
                $(self.$position.store(to.$position, index);)*
            }
        }

        impl<$($register: FixedRegisters),*> FixedRegisters for ($($register,)*) {
            const COUNT: u32 = 0 $(+ $register::COUNT)*;

            fn assemble(from: &mut impl TakeRegister) -> Self {
                ($($register::assemble(from),)*)
            }

            fn gather(from: &mut dyn FnMut(Type) -> Val<()>) -> Self {
                ($($register::gather(from),)*)
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0 B 1);
tuples!(A 0 B 1 C 2);
tuples!(A 0 B 1 C 2 D 3);
tuples!(A 0 B 1 C 2 D 3 E 4);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
