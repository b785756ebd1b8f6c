//! A group of registers whose types are known only while a kernel is recorded.

use std::marker::PhantomData;
use std::rc::Rc;

use warpfold_ptx::StateSpace;

use crate::intrinsics::convert;
use crate::intrinsics::memory::{self, Base, Location};
use crate::memory::{Cache, ClusterSpace, Global, GlobalSpace, Pointer, SharedSpace, Space};
use crate::recorder::{Raw, with};
use crate::registers::{FixedRegisters, MapRegisters, Registers, ZipRegisters};
use crate::types::Type;
use crate::{Index, Val};

/// [`Registers`] without their Rust types, for code that is compiled once instead of once per type.
/// A function of such groups records the same instructions as one of the original types.
///
/// A group belongs to the kernel that is being recorded, and exists only inside its closure.
///
/// ```
/// use warpfold_lang::{AnyRegisters, Arch, Global, Target, Val, kernel, lane_id, shfl_down};
/// let next = kernel("next", |data: Global<f32>, index: Global<u64>| {
///     let i = lane_id();
///     let pair = AnyRegisters::of((data.at(i).get(), index.at(i).get()));
///     let (value, position): (Val<f32>, Val<u64>) = shfl_down(pair, 1).to();
///     data.at(i).set(value);
///     index.at(i).set(position);
/// });
/// assert!(next.build(&Target::new(Arch::SM_80, (7, 0))).is_ok());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct AnyRegisters(Handle);

/// Variables for [`AnyRegisters`].
#[derive(Debug, Clone, Copy)]
pub struct AnyVars(Handle);

/// A pointer for each register of [`AnyRegisters`].
#[derive(Debug, Clone, Copy)]
pub struct AnyPointers<S: Space>(Handle, PhantomData<fn() -> S>);

/// Index of a group in the recorder of its kernel; a copyable handle to a group of any length.
#[derive(Debug, Clone, Copy)]
struct Handle {
    kernel: u32,
    index: u32,
    len: u32,
}

/// The groups of a kernel that is being recorded.
#[derive(Default)]
pub(crate) struct Groups {
    registers: Vec<Rc<[(Type, Raw)]>>,
    pointers: Vec<Rc<[(Type, Location)]>>,
}

impl Handle {
    #[track_caller]
    fn to_last<T>(kernel: u32, groups: &[Rc<[T]>]) -> Self {
        let last = groups.last().map_or(0, |group| group.len());
        Self { kernel, index: groups.len() as u32 - 1, len: last as u32 }
    }

    #[track_caller]
    fn of_registers(registers: Vec<(Type, Raw)>) -> Self {
        with(|r| {
            r.groups.registers.push(registers.into());
            Self::to_last(r.id(), &r.groups.registers)
        })
    }

    #[track_caller]
    fn of_pointers(pointers: Vec<(Type, Location)>) -> Self {
        with(|r| {
            r.groups.pointers.push(pointers.into());
            Self::to_last(r.id(), &r.groups.pointers)
        })
    }

    #[track_caller]
    fn registers(self) -> Rc<[(Type, Raw)]> {
        with(|r| {
            assert_eq!(self.kernel, r.id(), "a group of the kernel that is being recorded");
            Rc::clone(&r.groups.registers[self.index as usize])
        })
    }

    #[track_caller]
    fn pointers(self) -> Rc<[(Type, Location)]> {
        with(|r| {
            assert_eq!(self.kernel, r.id(), "a group of the kernel that is being recorded");
            Rc::clone(&r.groups.pointers[self.index as usize])
        })
    }
}

impl AnyRegisters {
    /// Erases the types of a group.
    #[track_caller]
    #[must_use]
    pub fn of<R: Registers>(registers: R) -> Self {
        let mut collected = Vec::new();
        registers.each(&mut |ty, value| {
            collected.push((ty, value.raw()));
            value
        });
        Self(Handle::of_registers(collected))
    }

    /// Restores the type of a group.
    ///
    /// # Panics
    /// If it is of another type.
    #[track_caller]
    #[must_use]
    pub fn to<R: FixedRegisters>(self) -> R {
        let group = self.0.registers();
        let mut values = group.iter();
        let registers = R::gather(&mut |wanted| Val::from_raw(next_of(&mut values, wanted)));
        assert!(values.next().is_none(), "a group of no more registers");
        registers
    }

    /// Applies a function to each register, giving a group of the same types.
    fn each_register(self, mut f: impl FnMut(Type, Raw) -> Raw) -> Self {
        Self(Handle::of_registers(self.0.registers().iter().map(|(ty, raw)| (*ty, f(*ty, *raw))).collect()))
    }

    fn each_two(self, other: Self, mut f: impl FnMut(Type, Raw, Raw) -> Raw) -> Self {
        assert_eq!(self.0.len, other.0.len, "groups of as many registers");
        let (left, right) = (self.0.registers(), other.0.registers());
        let pairs = left.iter().zip(right.iter()).map(|((ty, left), (of, right))| {
            assert_eq!(ty, of, "groups of the same types");
            (*ty, f(*ty, *left, *right))
        });
        Self(Handle::of_registers(pairs.collect()))
    }

    fn pointers<S: Space>(self, mut pointer: impl FnMut(Type) -> Pointer<u8, S>) -> AnyPointers<S> {
        let locations = self.0.registers().iter().map(|(ty, _)| (*ty, pointer(*ty).location())).collect();
        AnyPointers(Handle::of_pointers(locations), PhantomData)
    }
}

fn next_of(values: &mut std::slice::Iter<'_, (Type, Raw)>, wanted: Type) -> Raw {
    let (ty, raw) = values.next().expect("a group of as many registers");
    assert_eq!(*ty, wanted, "a group of the same types");
    *raw
}

/// Calls a generic function with the Rust type of an element type.
macro_rules! with_element {
    ($ty:expr, $element:ident => $body:expr) => {
        with_element!(@ $ty, $element, $body,
            U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F8E4M3 crate::F8E4M3,
            F8E5M2 crate::F8E5M2, F16 half::f16, Bf16 half::bf16, F16x2 crate::F16x2, Bf16x2 crate::Bf16x2, F32 f32,
            F64 f64)
    };
    (@ $ty:expr, $element:ident, $body:expr, $($variant:ident $rust:ty),*) => {
        match $ty {
            $(Type::$variant => {
                type $element = $rust;
                $body
            })*
            Type::Bool => unreachable!("a predicate is no element"),
        }
    };
}

impl Registers for AnyRegisters {
    type Vars = AnyVars;
    type Pointers<S: Space> = AnyPointers<S>;

    fn count(self) -> u32 {
        self.0.len
    }

    fn declare(self) -> AnyVars {
        AnyVars(self.each_register(|ty, _| Raw::Reg(with(|r| r.register(ty.register())))).0)
    }

    #[track_caller]
    fn assign(AnyVars(vars): AnyVars, Self(values): Self) {
        assert_eq!(vars.len, values.len, "a group of as many registers");
        for ((ty, var), (of, raw)) in vars.registers().iter().zip(values.registers().iter()) {
            assert_eq!(ty, of, "a group of the same types");
            let Raw::Reg(reg) = *var else { unreachable!("variables are registers") };
            with(|r| convert::assign(r, *ty, reg, *raw));
        }
    }

    #[track_caller]
    fn read(AnyVars(vars): AnyVars) -> Self {
        Self(vars).each_register(|ty, reg| Raw::Reg(with(|r| convert::copy(r, ty, reg))))
    }

    fn map(self, f: &mut impl MapRegisters) -> Self {
        self.each_register(|ty, raw| with_element!(ty, T => f.map(Val::<T>::from_raw(raw)).raw()))
    }

    fn zip(self, other: Self, f: &mut impl ZipRegisters) -> Self {
        self.each_two(
            other,
            |ty, left, right| with_element!(ty, T => f.zip(Val::<T>::from_raw(left), Val::from_raw(right)).raw()),
        )
    }

    fn each(self, f: &mut dyn FnMut(Type, Val<()>) -> Val<()>) -> Self {
        self.each_register(|ty, raw| f(ty, Val::from_raw(raw)).raw())
    }

    fn each_pair(self, other: Self, f: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) -> Self {
        self.each_two(other, |ty, left, right| f(ty, Val::from_raw(left), Val::from_raw(right)).raw())
    }

    #[track_caller]
    fn shared(self, len: u32) -> AnyPointers<SharedSpace> {
        self.pointers(|ty| {
            let symbol = with(|r| memory::array(r, StateSpace::Shared, ty, len.into(), "shared"));
            Pointer::from_base(Base::Symbol(symbol))
        })
    }

    #[track_caller]
    fn in_block(AnyPointers(own, _): AnyPointers<SharedSpace>, rank: Val<u32>) -> AnyPointers<ClusterSpace> {
        let own = own.pointers();
        let pointer = |location| Pointer::<u8, SharedSpace>::from_location(location).in_block(rank);
        let locations = own.iter().map(|(ty, location)| (*ty, pointer(*location).location())).collect();
        AnyPointers(Handle::of_pointers(locations), PhantomData)
    }

    #[track_caller]
    fn global(self, memory: Global<u64>, len: Val<u64>, next: &mut u32) -> AnyPointers<GlobalSpace> {
        self.pointers(|_| Val::<u64>::constant(0).global(memory, len, next).reinterpret())
    }

    #[track_caller]
    fn load<S: Space>(AnyPointers(from, _): AnyPointers<S>, index: impl Index + Copy) -> Self {
        let load = |(ty, location): &(Type, Location)| {
            let location = Pointer::<u8, S>::from_location(*location).element(*ty, index).location();
            (*ty, with(|r| memory::load(r, location, Cache::Default, *ty, 1, None)[0]))
        };
        Self(Handle::of_registers(from.pointers().iter().map(load).collect()))
    }

    #[track_caller]
    fn store<S: Space>(self, AnyPointers(to, _): AnyPointers<S>, index: impl Index + Copy) {
        assert_eq!(self.0.len, to.len, "a group of as many registers");
        for ((ty, location), (of, raw)) in to.pointers().iter().zip(self.0.registers().iter()) {
            assert_eq!(ty, of, "a group of the same types");
            let location = Pointer::<u8, S>::from_location(*location).element(*ty, index).location();
            with(|r| memory::store(r, location, Cache::Default, *ty, &[*raw], None));
        }
    }
}
