//! Parameters: host-side arguments, kernel-side values, and the check of a launch by the Rust
//! compiler.
//!
//! A kernel's type lists its parameters, for example `Kernel<(Global<f32>, u32)>`. Three traits
//! connect the sides:
//!
//! - [`Param`]: a parameter type: [`Global<T>`](crate::Global), and the scalars `u8`…`u64`,
//!   `i8`…`i64`, `f16`, `bf16`, `f32`, `f64`, and arrays of them. [`Params`] is a tuple of one to
//!   twelve of them, or a structure made by [`params!`](crate::params!), and knows the [`Layout`].
//! - [`Received`]: what the kernel's closure gets for it: `Global<T>` for `Global<T>`, `Val<T>` for
//!   a scalar `T`.
//! - [`Argument<P, S>`]: a host value that may be passed for parameter `P` into a [`Sink`] `S`.
//!   [`Arguments<Ps, S>`] is a tuple of them. Scalars are arguments for themselves with every sink.
//!
//! # For the device crate
//! Write a sink, and say which of your types are pointers; the tuples follow from it:
//! ```
//! use warpfold_lang::{Argument, Arguments, Element, Global, Kernel, Params, Sink};
//!
//! struct Packet { bytes: Vec<Vec<u8>>, device: u32 }          // what cuLaunchKernel or the virtual GPU takes
//! struct Buffer<T> { address: u64, device: u32, element: std::marker::PhantomData<T> }
//!
//! impl Sink for Packet {
//!     type Error = String;
//!     fn push(&mut self, little_endian: &[u8], _align: usize) -> Result<(), String> {
//!         self.bytes.push(little_endian.to_vec());
//!         Ok(())
//!     }
//! }
//!
//! impl<T: Element> Argument<Global<T>, Packet> for &Buffer<T> {
//!     fn pass(self, packet: &mut Packet) -> Result<(), String> {
//!         if self.device != packet.device {
//!             return Err("the buffer lies on another device".to_owned());
//!         }
//!         packet.push(&self.address.to_le_bytes(), 8)
//!     }
//! }
//!
//! fn launch<Ps: Params>(kernel: &Kernel<Ps>, arguments: impl Arguments<Ps, Packet>) -> Result<Packet, String> {
//!     let mut packet = Packet { bytes: Vec::new(), device: 0 };
//!     arguments.pass_all(&mut packet)?;
//!     Ok(packet)
//! }
//!
//! let scale: Kernel<(Global<f32>, u32)> =
//!     warpfold_lang::kernel("scale", |_: Global<f32>, _: warpfold_lang::Val<u32>| {});
//! let buffer = Buffer::<f32> { address: 0x1000, device: 0, element: std::marker::PhantomData };
//! let packet = launch(&scale, (&buffer, 7)).unwrap();
//! assert_eq!(packet.bytes, [vec![0, 0x10, 0, 0, 0, 0, 0, 0], vec![7, 0, 0, 0]]);
//! ```
//! Passing a `Buffer<i32>`, a `u64`, or one argument too many to the last call does not compile:
//! ```compile_fail,E0277
//! # use warpfold_lang::{Argument, Arguments, Global, Kernel, Params, Sink};
//! # struct Packet;
//! # impl Sink for Packet {
//! #     type Error = ();
//! #     fn push(&mut self, _: &[u8], _: usize) -> Result<(), ()> { Ok(()) }
//! # }
//! # fn launch<Ps: Params>(_: &Kernel<Ps>, arguments: impl Arguments<Ps, Packet>) {
//! #     arguments.pass_all(&mut Packet).unwrap();
//! # }
//! let scale = warpfold_lang::kernel("scale", |_: warpfold_lang::Val<f32>, _: warpfold_lang::Val<u32>| {});
//! launch(&scale, (1.0_f32, 7_u64)); // the second parameter is a `u32`
//! ```

use warpfold_ptx::{self as ptx, ScalarType, StateSpace};

use crate::named::{Lazy, NamedArgument, Numbers};
use crate::recorder::{Computed, Raw, with};
use crate::types::{Element, Scalar, Type};
use crate::{Global, Val, intrinsics, untyped};

/// A type of kernel parameter.
pub trait Param: 'static {
    /// The type in the PTX declaration.
    const PTX_TYPE: ScalarType;
    /// Its size in bytes.
    const BYTES: u32;
    /// Its alignment in bytes.
    const ALIGN: u32 = Self::BYTES;
    /// For a pointer: the alignment of its target.
    const POINTEE_ALIGN: Option<u32> = None;
    /// For an array: its length.
    const LEN: Option<u32> = None;
}

/// An array of scalars, passed by value: shapes and strides.
impl<T: Param + Scalar, const N: usize> Param for [T; N] {
    const PTX_TYPE: ScalarType = T::PTX_TYPE;
    const BYTES: u32 = T::BYTES * N as u32;
    const ALIGN: u32 = T::ALIGN;
    const LEN: Option<u32> = Some(N as u32);
}

impl<T: Element> Param for Global<T> {
    const PTX_TYPE: ScalarType = ScalarType::U64;
    const BYTES: u32 = 8;
    const POINTEE_ALIGN: Option<u32> = Some(T::BYTES);
}

/// A kernel parameter as its closure receives it.
pub trait Received: Copy + 'static {
    /// The parameter type.
    type Param: Param;
    /// Declares the parameter at this position and reads it.
    fn receive(position: usize) -> Self;
}

impl<T: Element> Global<T> {
    /// The address in a parameter.
    pub(crate) fn of_param(position: usize) -> Self {
        Self::new(Val::from_raw(untyped::load_param(position, 0, Type::U64)))
    }
}

impl<T: Element> Received for Global<T> {
    type Param = Self;

    fn receive(position: usize) -> Self {
        declare::<Self>(position);
        Self::of_param(position)
    }
}

impl<T: Element + Param> Received for Val<T> {
    type Param = T;

    fn receive(position: usize) -> Self {
        declare::<T>(position);
        Val::from_raw(untyped::load_param(position, 0, T::TYPE))
    }
}

/// An array of scalars, passed by value. Each element is loaded once, at its first use.
///
/// ```
/// use warpfold_lang::{Arch, Array, Global, Target, kernel};
/// let area = kernel("area", |out: Global<u32>, shape: Array<u32, 3>| out.set(shape.at(0) * shape.at(2)));
/// assert_eq!(area.layout().bytes, 20);
/// assert!(area.ptx(&Target::new(Arch::SM_80, (8, 0)))?.contains(".param .u32 area_param_1[3]"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Array<T, const N: usize> {
    position: usize,
    /// Offset in the parameter, in bytes.
    first: u32,
    element: std::marker::PhantomData<fn() -> T>,
}

impl<T: Element + Param, const N: usize> Array<T, N> {
    /// The array at byte `first` of a parameter.
    pub(crate) const fn of_param(position: usize, first: u32) -> Self {
        Self { position, first, element: std::marker::PhantomData }
    }

    /// The element at a position known while recording.
    ///
    /// # Panics
    /// Beyond the end.
    #[track_caller]
    #[must_use]
    pub fn at(self, index: usize) -> Val<T> {
        assert!(index < N, "the array has {N} elements, there is none at {index}");
        let offset = self.first + <T as Param>::BYTES * index as u32;
        Val::from_raw(load_once(self.position, offset, T::TYPE))
    }
}

impl<T: Element + Param, const N: usize> Received for Array<T, N> {
    type Param = [T; N];

    fn receive(position: usize) -> Self {
        declare::<Self::Param>(position);
        Self::of_param(position, 0)
    }
}

/// Declares a parameter of the kernel that is being recorded.
pub(crate) fn declare<P: Param>(position: usize) {
    declare_one(position, P::PTX_TYPE, P::ALIGN, P::POINTEE_ALIGN, P::LEN);
}

#[inline(never)]
pub(crate) fn declare_one(position: usize, ty: ScalarType, align: u32, pointee_align: Option<u32>, len: Option<u32>) {
    let mut variable = intrinsics::memory::variable(StateSpace::Param, ty, "");
    variable.ptr = pointee_align.map(|align| ptx::PtrAttribute { space: Some(StateSpace::Global), align: Some(align) });
    variable.align = (align > ty.bytes()).then_some(align);
    variable.dims = len.map(|len| Some(len.into())).into_iter().collect();
    with(|r| {
        debug_assert_eq!(position, r.params.len(), "parameters are declared in order");
        variable.name = format!("{}_param_{position}", r.name).into();
        r.params.push(variable);
    });
}

/// Loads part of a parameter once, at its first use.
#[track_caller]
#[inline(never)]
pub(crate) fn load_once(position: usize, offset: u32, ty: Type) -> Raw {
    with(|r| {
        let name = Computed::Param { position, offset };
        r.computed(name, |r| intrinsics::memory::load_param(r, position, offset.into(), ty))
    })
}

/// Layout of the parameter block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Offset and size of each parameter, in bytes.
    pub params: Vec<Slot>,
    /// Size of the whole block in bytes, without padding at its end.
    pub bytes: u32,
}

impl Layout {
    /// Adds a parameter after the others, at the next multiple of its alignment.
    pub(crate) fn push(&mut self, ty: ScalarType, bytes: u32, align: u32) {
        let offset = self.bytes.next_multiple_of(align);
        self.params.push(Slot { ty, offset, bytes });
        self.bytes = offset + bytes;
    }
}

/// Position of one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The type in the PTX declaration.
    pub ty: ScalarType,
    /// Offset from the start of the block, a multiple of the type's alignment.
    pub offset: u32,
    /// Size in bytes.
    pub bytes: u32,
}

/// A tuple of parameters, or a structure of them.
pub trait Params: 'static {
    /// The layout: each parameter at the next multiple of its alignment.
    fn layout() -> Layout;
}

/// A collector of the bytes of a launch's arguments.
pub trait Sink {
    /// The error for a refused argument.
    type Error;

    /// Takes the next argument's bytes, little-endian, which lie at a multiple of `align`.
    ///
    /// # Errors
    /// Up to the sink.
    fn push(&mut self, little_endian: &[u8], align: usize) -> Result<(), Self::Error>;
}

/// A host value that can be passed for the parameter `P`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a kernel parameter of type `{P}`",
    label = "the kernel expects `{P}` here"
)]
pub trait Argument<P: Param, S: Sink> {
    /// Passes the value's bytes to the sink.
    ///
    /// # Errors
    /// If the sink refuses it.
    fn pass(self, sink: &mut S) -> Result<(), S::Error>;
}

/// A tuple of host values that fits the parameters `Ps` one for one.
#[diagnostic::on_unimplemented(
    message = "the arguments `{Self}` do not fit the kernel's parameters `{Ps}`",
    label = "expected arguments for `{Ps}`"
)]
pub trait Arguments<Ps: Params, S: Sink> {
    /// Passes all values to the sink, in order.
    ///
    /// # Errors
    /// If the sink refuses one.
    fn pass_all(self, sink: &mut S) -> Result<(), S::Error>;
}

macro_rules! scalar_params {
    ($($rust:ty),*) => {$(
        impl Param for $rust {
            const PTX_TYPE: ScalarType = <$rust as Scalar>::TYPE.memory();
            const BYTES: u32 = <$rust as Scalar>::TYPE.bytes();
        }
        impl<S: Sink> Argument<$rust, S> for $rust {
            fn pass(self, sink: &mut S) -> Result<(), S::Error> {
                sink.push(&self.to_le_bytes(), size_of::<$rust>())
            }
        }
        impl<S: Sink> NamedArgument<$rust, S> for $rust {
            fn pass(self, _: &mut S, numbers: &mut Numbers) -> Result<(), S::Error> {
                numbers.push(&self.to_le_bytes(), size_of::<$rust>());
                Ok(())
            }
        }
        impl<S: Sink> NamedArgument<Lazy<$rust>, S> for $rust {
            fn pass(self, sink: &mut S, numbers: &mut Numbers) -> Result<(), S::Error> {
                NamedArgument::<$rust, S>::pass(self, sink, numbers)
            }
        }
        impl<S: Sink, const N: usize> NamedArgument<[$rust; N], S> for [$rust; N] {
            fn pass(self, _: &mut S, numbers: &mut Numbers) -> Result<(), S::Error> {
                self.iter().for_each(|value| numbers.push(&value.to_le_bytes(), size_of::<$rust>()));
                Ok(())
            }
        }
        impl<S: Sink, const N: usize> Argument<[$rust; N], S> for [$rust; N] {
            fn pass(self, sink: &mut S) -> Result<(), S::Error> {
                let bytes: Vec<u8> = self.iter().flat_map(|value| value.to_le_bytes()).collect();
                sink.push(&bytes, size_of::<$rust>())
            }
        }
    )*};
}

scalar_params!(u8, u16, u32, u64, i8, i16, i32, i64, half::f16, half::bf16, f32, f64);

macro_rules! tuples {
    ($($param:ident $argument:ident)*) => {
        impl<$($param: Param),*> Params for ($($param,)*) {
            fn layout() -> Layout {
                let mut layout = Layout::default();
                $(layout.push($param::PTX_TYPE, $param::BYTES, $param::ALIGN);)*
                layout
            }
        }

        impl<S: Sink, $($param: Param, $argument: Argument<$param, S>),*> Arguments<($($param,)*), S> for ($($argument,)*) {
            #[allow(non_snake_case, reason = "one name for the type and the value of each element")]
            fn pass_all(self, sink: &mut S) -> Result<(), S::Error> {
                let ($($argument,)*) = self;
                $($argument.pass(sink)?;)*
                Ok(())
            }
        }
    };
}

tuples!(P1 A1);
tuples!(P1 A1 P2 A2);
tuples!(P1 A1 P2 A2 P3 A3);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5 P6 A6);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5 P6 A6 P7 A7);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5 P6 A6 P7 A7 P8 A8);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5 P6 A6 P7 A7 P8 A8 P9 A9);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5 P6 A6 P7 A7 P8 A8 P9 A9 P10 A10);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5 P6 A6 P7 A7 P8 A8 P9 A9 P10 A10 P11 A11);
tuples!(P1 A1 P2 A2 P3 A3 P4 A4 P5 A5 P6 A6 P7 A7 P8 A8 P9 A9 P10 A10 P11 A11 P12 A12);
