//! Named parameter lists: [`params!`](crate::params!) makes one structure for the kernel and for
//! the host.
//!
//! Addresses are parameters of their own, in the order of the fields; all numbers, and the strides
//! and sizes of tensors, are one structure that is passed by value after them, so that a launch has
//! few parameters.

use std::fmt::Debug;

use warpfold_ptx::ScalarType;

use crate::params::{Array, Layout, Param, Params, Sink, declare_one};
use crate::types::{Element, Scalar};
use crate::{Global, Strided, Val, untyped};

/// A side of a launch, which decides the field types of a [`params!`](crate::params!) structure.
pub trait Side: Copy + Debug {
    /// An address, [`Global<T>`].
    type Pointer<T: Element>: Debug;
    /// Several addresses, the last of which a launch may omit.
    type Pointers<T: Element, const N: usize>: Debug;
    /// A [`Strided`] tensor.
    type Tensor<const RANK: usize>: Debug;
    /// A number.
    type Scalar<T: Element + Param>: Debug;
    /// An array of numbers.
    type Array<T: Element + Param, const N: usize>: Debug;
    /// A parameter that a launch may omit.
    type Optional<P: NamedParam>: Debug;
}

/// The kernel's side: values of the kernel being recorded. The kernel's configuration says if an
/// optional parameter is present; the address of an absent one is null.
#[derive(Debug, Clone, Copy)]
pub struct Recorded;

impl Side for Recorded {
    type Pointer<T: Element> = Global<T>;
    type Pointers<T: Element, const N: usize> = [Global<T>; N];
    type Tensor<const RANK: usize> = Strided<RANK>;
    type Scalar<T: Element + Param> = Val<T>;
    type Array<T: Element + Param, const N: usize> = Array<T, N>;
    type Optional<P: NamedParam> = P::On<Self>;
}

/// Space that a field takes in a kernel's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldShape {
    /// Number of addresses.
    pub pointers: usize,
    /// Alignment of the memory at the addresses.
    pub pointee_align: u32,
    /// Bytes of the field's numbers.
    pub bytes: u32,
    /// Alignment of the numbers.
    pub align: u32,
}

/// Positions of a field's parameters.
#[derive(Debug, Clone, Copy)]
pub struct FieldPlace {
    /// Index of the parameter with its first address, if it has any.
    pub pointer: usize,
    /// Index of the parameter with all numbers.
    pub numbers: usize,
    /// Offset of the field's own numbers in that parameter.
    pub offset: u32,
}

/// A type of a field of a [`params!`](crate::params!) structure: [`Global`], an array of them,
/// [`Strided`], a scalar, an array of scalars, an `Option` of one of these.
pub trait NamedParam: 'static {
    /// The field on a side.
    type On<S: Side>: Debug;
    /// Space that the field takes in the parameters.
    const SHAPE: FieldShape;

    /// The field in the kernel.
    fn receive(place: FieldPlace) -> Self::On<Recorded>;
}

/// A [`params!`](crate::params!) structure on the kernel's side.
pub trait NamedParams: Params {
    /// Declares all parameters and reads them.
    fn receive() -> Self;
}

/// A host value for a field of type `P`: gives its address to the sink, and its numbers to those of
/// the structure.
pub trait NamedArgument<P: NamedParam, S: Sink> {
    /// Passes the value.
    ///
    /// # Errors
    /// If the sink refuses it.
    fn pass(self, sink: &mut S, numbers: &mut Numbers) -> Result<(), S::Error>;
}

/// The numbers of a structure, in the order of its fields.
#[derive(Debug, Default)]
pub struct Numbers {
    bytes: Vec<u8>,
    align: usize,
}

impl Numbers {
    /// Adds numbers of `align` bytes each, little-endian, at a multiple of them.
    pub fn push(&mut self, little_endian: &[u8], align: usize) {
        self.align = self.align.max(align);
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        self.bytes.extend_from_slice(little_endian);
    }

    /// Passes all numbers to a sink.
    ///
    /// # Errors
    /// If the sink refuses them.
    pub fn finish<S: Sink>(self, sink: &mut S) -> Result<(), S::Error> {
        if self.bytes.is_empty() { Ok(()) } else { sink.push(&self.bytes, self.align) }
    }
}

/// Parameter places of all fields of a structure.
struct Places {
    fields: Vec<FieldPlace>,
    pointers: Vec<u32>,
    bytes: u32,
    align: u32,
}

impl Places {
    fn of(shapes: &[FieldShape]) -> Self {
        let of_field = |shape: &FieldShape| std::iter::repeat_n(shape.pointee_align, shape.pointers);
        let pointers: Vec<u32> = shapes.iter().flat_map(of_field).collect();
        let (mut pointer, mut bytes, mut align) = (0, 0_u32, 1);
        let mut place = |shape: &FieldShape| {
            let offset = bytes.next_multiple_of(shape.align);
            let place = FieldPlace { pointer, numbers: pointers.len(), offset };
            (bytes, align) = (if shape.bytes > 0 { offset + shape.bytes } else { bytes }, align.max(shape.align));
            pointer += shape.pointers;
            place
        };
        let fields = shapes.iter().map(&mut place).collect();
        Self { fields, pointers, bytes, align }
    }
}

/// The layout of fields, for [`params!`](crate::params!).
#[doc(hidden)]
#[must_use]
pub fn layout_of_fields(shapes: &[FieldShape]) -> Layout {
    let Places { pointers, bytes, align, .. } = Places::of(shapes);
    let mut layout = Layout::default();
    pointers.iter().for_each(|_| layout.push(ScalarType::U64, 8, 8));
    if bytes > 0 {
        layout.push(ScalarType::B8, bytes, align);
    }
    layout
}

/// Declares the parameters of fields, for [`params!`](crate::params!).
#[doc(hidden)]
pub fn declare_fields(shapes: &[FieldShape]) -> impl Iterator<Item = FieldPlace> {
    let Places { fields, pointers, bytes, align } = Places::of(shapes);
    for (position, align) in pointers.iter().enumerate() {
        declare_one(position, ScalarType::U64, 8, Some(*align), None);
    }
    if bytes > 0 {
        declare_one(pointers.len(), ScalarType::B8, align, None, Some(bytes));
    }
    fields.into_iter()
}

const fn pointers(pointers: usize, pointee_align: u32) -> FieldShape {
    FieldShape { pointers, pointee_align, bytes: 0, align: 1 }
}

impl<T: Element> NamedParam for Global<T> {
    type On<S: Side> = S::Pointer<T>;
    const SHAPE: FieldShape = pointers(1, T::BYTES);

    fn receive(place: FieldPlace) -> Self {
        Self::of_param(place.pointer)
    }
}

impl<T: Element, const N: usize> NamedParam for [Global<T>; N] {
    type On<S: Side> = S::Pointers<T, N>;
    const SHAPE: FieldShape = pointers(N, T::BYTES);

    fn receive(place: FieldPlace) -> Self {
        std::array::from_fn(|i| Global::of_param(place.pointer + i))
    }
}

impl<const RANK: usize> NamedParam for Strided<RANK> {
    type On<S: Side> = S::Tensor<RANK>;
    const SHAPE: FieldShape = FieldShape { bytes: 12 * RANK as u32, align: 8, ..pointers(1, 1) };

    fn receive(place: FieldPlace) -> Self {
        Self::of_param(Global::of_param(place.pointer), place.numbers, place.offset)
    }
}

impl<T: Element + Param> NamedParam for T {
    type On<S: Side> = S::Scalar<T>;
    const SHAPE: FieldShape = FieldShape { bytes: <T as Param>::BYTES, align: T::ALIGN, ..pointers(0, 1) };

    fn receive(place: FieldPlace) -> Val<T> {
        Val::from_raw(untyped::load_param(place.numbers, place.offset.into(), T::TYPE))
    }
}

impl<T: Element + Param + Scalar, const N: usize> NamedParam for [T; N] {
    type On<S: Side> = S::Array<T, N>;
    const SHAPE: FieldShape = FieldShape { bytes: Self::BYTES, ..T::SHAPE };

    fn receive(place: FieldPlace) -> Array<T, N> {
        Array::of_param(place.numbers, place.offset)
    }
}

impl<P: NamedParam> NamedParam for Option<P> {
    type On<S: Side> = S::Optional<P>;
    const SHAPE: FieldShape = P::SHAPE;

    fn receive(place: FieldPlace) -> P::On<Recorded> {
        P::receive(place)
    }
}

impl<P: NamedParam, S: Sink, A: NamedArgument<P, S>> NamedArgument<Option<P>, S> for Option<A> {
    fn pass(self, sink: &mut S, numbers: &mut Numbers) -> Result<(), S::Error> {
        let FieldShape { pointers, bytes, align, .. } = P::SHAPE;
        if let Some(argument) = self {
            return argument.pass(sink, numbers);
        }
        (0..pointers).try_for_each(|_| sink.push(&[0; 8], 8))?;
        numbers.push(&vec![0; bytes as usize], align as usize);
        Ok(())
    }
}

/// Makes a structure of a kernel's parameters, each with a name. `Args` is what the kernel's
/// closure takes, and the parameter list of its [`Kernel`](crate::Kernel); on the host, `Args<S>`
/// of another [`Side`] is what a launch is given.
///
/// ```
/// use warpfold_lang::{Arch, Kernel, Strided, Target, kernel, params, thread_idx, when};
///
/// params! {
///     /// Parameters of the copy.
///     struct CopyArgs {
///         /// A tensor of bytes.
///         from: Strided<1>,
///         to: Strided<1>,
///         len: u32,
///     }
/// }
///
/// let copy: Kernel<CopyArgs> = kernel("copy", |args: CopyArgs| {
///     let i = thread_idx().x;
///     when(i.lt(args.len), || args.to.at(1, [i]).set(args.from.at(1, [i]).get()));
/// });
/// // Two addresses; then a stride and a size twice, the second at a multiple of 8 bytes, the length.
/// assert_eq!(copy.layout().bytes, 2 * 8 + 16 + 12 + 4);
/// let text = copy.ptx(&Target::new(Arch::SM_80, (8, 0)))?;
/// assert!(text.contains(".param .align 8 .b8 copy_param_2[32]"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
#[macro_export]
macro_rules! params {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $visibility struct $name<S: $crate::Side = $crate::Recorded> {
            $($(#[$field_meta])* $visibility $field: <$ty as $crate::NamedParam>::On<S>),*
        }

        impl<S: $crate::Side> ::std::clone::Clone for $name<S>
        where
            $(<$ty as $crate::NamedParam>::On<S>: ::std::clone::Clone),*
        {
            fn clone(&self) -> Self {
                Self { $($field: ::std::clone::Clone::clone(&self.$field)),* }
            }
        }

        impl<S: $crate::Side> ::std::marker::Copy for $name<S>
        where
            $(<$ty as $crate::NamedParam>::On<S>: ::std::marker::Copy),*
        {}

        impl $crate::Params for $name {
            fn layout() -> $crate::Layout {
                $crate::layout_of_fields(&[$(<$ty as $crate::NamedParam>::SHAPE),*])
            }
        }

        impl $crate::NamedParams for $name {
            fn receive() -> Self {
                let mut places = $crate::declare_fields(&[$(<$ty as $crate::NamedParam>::SHAPE),*]);
                let mut next = || places.next().expect("there is a place for each field");
                Self { $($field: <$ty as $crate::NamedParam>::receive(next())),* }
            }
        }

        impl<S: $crate::Side, K: $crate::Sink> $crate::Arguments<$name, K> for $name<S>
        where
            $(<$ty as $crate::NamedParam>::On<S>: $crate::NamedArgument<$ty, K>),*
        {
            fn pass_all(self, sink: &mut K) -> ::std::result::Result<(), K::Error> {
                let mut numbers = $crate::Numbers::default();
                $($crate::NamedArgument::<$ty, K>::pass(self.$field, sink, &mut numbers)?;)*
                numbers.finish(sink)
            }
        }
    };
}
