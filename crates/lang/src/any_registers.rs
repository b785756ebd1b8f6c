//! A group of registers whose types are known only while a kernel is recorded.

use std::fmt;

use warpfold_ptx::StateSpace;

use crate::intrinsics::convert;
use crate::intrinsics::memory::{self, Base};
use crate::memory::{Cache, ClusterSpace, Global, GlobalSpace, Pointer, SharedSpace, Space};
use crate::recorder::{Raw, Reg, with};
use crate::registers::{FixedRegisters, MapRegisters, Registers, ZipRegisters};
use crate::types::Type;
use crate::{Index, Val};

/// Registers at most.
const MAX: usize = 32;

/// [`Registers`] without their Rust types: what code holds that is compiled once for all of them, not once for each.
/// A function of such groups records the same instructions as one of the types that they came from.
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
#[derive(Clone, Copy)]
pub struct AnyRegisters {
    len: usize,
    values: [(Type, Raw); MAX],
}

/// Variables for [`AnyRegisters`].
#[derive(Debug, Clone, Copy)]
pub struct AnyVars {
    len: usize,
    vars: [Option<(Type, Reg)>; MAX],
}

/// A pointer for each register of [`AnyRegisters`].
#[derive(Debug, Clone, Copy)]
pub struct AnyPointers<S: Space> {
    len: usize,
    pointers: [Option<(Type, Pointer<u8, S>)>; MAX],
}

impl AnyRegisters {
    /// A group without its type.
    ///
    /// # Panics
    /// If it has more than 32 registers.
    #[must_use]
    pub fn of<R: Registers>(registers: R) -> Self {
        let mut collected = Self { len: 0, values: [(Type::U32, Raw::Const(0)); MAX] };
        registers.each(&mut |ty, value| {
            collected.push(ty, value.raw());
            value
        });
        collected
    }

    fn push(&mut self, ty: Type, raw: Raw) {
        assert!(self.len < MAX, "a group has at most {MAX} registers");
        self.values[self.len] = (ty, raw);
        self.len += 1;
    }

    /// The group with its type.
    ///
    /// # Panics
    /// If it is of another type.
    #[must_use]
    pub fn to<R: FixedRegisters>(self) -> R {
        let mut values = self.values[..self.len].iter();
        let registers = R::gather(&mut |wanted| Val::from_raw(next_of(&mut values, wanted)));
        assert!(values.next().is_none(), "a group of no more registers");
        registers
    }

    fn pointers<S: Space>(self, mut pointer: impl FnMut(Type) -> Pointer<u8, S>) -> AnyPointers<S> {
        let mut pointers = [None; MAX];
        for (place, (ty, _)) in pointers.iter_mut().zip(&self.values[..self.len]) {
            *place = Some((*ty, pointer(*ty)));
        }
        AnyPointers { len: self.len, pointers }
    }
}

fn next_of(values: &mut std::slice::Iter<'_, (Type, Raw)>, wanted: Type) -> Raw {
    let (ty, raw) = values.next().expect("a group of as many registers");
    assert_eq!(*ty, wanted, "a group of the same types");
    *raw
}

/// Calls a generic function with the Rust type of a type of memory.
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
        self.len as u32
    }

    fn declare(self) -> AnyVars {
        let mut vars = [None; MAX];
        for (place, (ty, _)) in vars.iter_mut().zip(&self.values[..self.len]) {
            *place = Some((*ty, with(|r| r.register(ty.register()))));
        }
        AnyVars { len: self.len, vars }
    }

    #[track_caller]
    fn assign(vars: AnyVars, values: Self) {
        assert_eq!(vars.len, values.len, "a group of as many registers");
        for ((ty, reg), (of, raw)) in vars.vars.into_iter().flatten().zip(values.values) {
            assert_eq!(ty, of, "a group of the same types");
            with(|r| convert::assign(r, ty, reg, raw));
        }
    }

    #[track_caller]
    fn read(vars: AnyVars) -> Self {
        let mut values = [(Type::U32, Raw::Const(0)); MAX];
        for (place, (ty, reg)) in values.iter_mut().zip(vars.vars.into_iter().flatten()) {
            *place = (ty, Raw::Reg(with(|r| convert::copy(r, ty, Raw::Reg(reg)))));
        }
        Self { len: vars.len, values }
    }

    fn map(mut self, f: &mut impl MapRegisters) -> Self {
        for (ty, raw) in &mut self.values[..self.len] {
            *raw = with_element!(*ty, T => f.map(Val::<T>::from_raw(*raw)).raw());
        }
        self
    }

    fn zip(mut self, other: Self, f: &mut impl ZipRegisters) -> Self {
        assert_eq!(self.len, other.len, "groups of as many registers");
        for ((ty, raw), (of, other)) in self.values[..self.len].iter_mut().zip(other.values) {
            assert_eq!(*ty, of, "groups of the same types");
            *raw = with_element!(*ty, T => f.zip(Val::<T>::from_raw(*raw), Val::from_raw(other)).raw());
        }
        self
    }

    fn each(mut self, f: &mut dyn FnMut(Type, Val<()>) -> Val<()>) -> Self {
        for (ty, raw) in &mut self.values[..self.len] {
            *raw = f(*ty, Val::from_raw(*raw)).raw();
        }
        self
    }

    fn each_pair(mut self, other: Self, f: &mut dyn FnMut(Type, Val<()>, Val<()>) -> Val<()>) -> Self {
        assert_eq!(self.len, other.len, "groups of as many registers");
        for ((ty, raw), (of, other)) in self.values[..self.len].iter_mut().zip(other.values) {
            assert_eq!(*ty, of, "groups of the same types");
            *raw = f(*ty, Val::from_raw(*raw), Val::from_raw(other)).raw();
        }
        self
    }

    #[track_caller]
    fn shared(self, len: u32) -> AnyPointers<SharedSpace> {
        self.pointers(|ty| {
            let symbol = with(|r| memory::array(r, StateSpace::Shared, ty, len.into(), "shared"));
            Pointer::from_base(Base::Symbol(symbol))
        })
    }

    #[track_caller]
    fn in_block(own: AnyPointers<SharedSpace>, rank: Val<u32>) -> AnyPointers<ClusterSpace> {
        let pointers = own.pointers.map(|pointer| pointer.map(|(ty, pointer)| (ty, pointer.in_block(rank))));
        AnyPointers { len: own.len, pointers }
    }

    #[track_caller]
    fn global(self, memory: Global<u64>, len: Val<u64>, next: &mut u32) -> AnyPointers<GlobalSpace> {
        self.pointers(|_| Val::<u64>::constant(0).global(memory, len, next).reinterpret())
    }

    #[track_caller]
    fn load<S: Space>(from: AnyPointers<S>, index: impl Index + Copy) -> Self {
        let mut values = [(Type::U32, Raw::Const(0)); MAX];
        for (place, (ty, pointer)) in values.iter_mut().zip(from.pointers.into_iter().flatten()) {
            let location = pointer.element(ty, index).location();
            *place = (ty, with(|r| memory::load(r, location, Cache::Default, ty, 1, None)[0]));
        }
        Self { len: from.len, values }
    }

    #[track_caller]
    fn store<S: Space>(self, to: AnyPointers<S>, index: impl Index + Copy) {
        assert_eq!(self.len, to.len, "a group of as many registers");
        for ((ty, pointer), (of, raw)) in to.pointers.into_iter().flatten().zip(self.values) {
            assert_eq!(ty, of, "a group of the same types");
            let location = pointer.element(ty, index).location();
            with(|r| memory::store(r, location, Cache::Default, ty, &[raw], None));
        }
    }
}

impl fmt::Debug for AnyRegisters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.values[..self.len]).finish()
    }
}
