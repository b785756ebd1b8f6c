//! Named parameter lists: [`params!`](crate::params!) makes one structure for the kernel and for
//! the host.
//!
//! Addresses are parameters of their own, in the order of the fields; all numbers, and the strides
//! and sizes of tensors, are one structure that is passed by value after them, so that a launch has
//! few parameters.

use std::fmt::Debug;
use std::marker::PhantomData;

use warpfold_ptx::ScalarType;

use crate::params::{Array, Layout, Param, Params, Sink, declare_one, load_once};
use crate::types::{Element, Scalar};
use crate::{Global, Strided, TensorMap, Val, untyped};

/// A side of a launch, which decides the field types of a [`params!`](crate::params!) structure.
pub trait Side: Copy + Debug {
    /// An address, [`Global<T>`].
    type Pointer<T: Element>: Debug;
    /// Several addresses, the last of which a launch may omit.
    type Pointers<T: Element, const N: usize>: Debug;
    /// A [`Strided`] tensor.
    type Tensor<const RANK: usize>: Debug;
    /// A [`TensorMap`].
    type Map<T: Element>: Debug;
    /// A number.
    type Scalar<T: Element + Param>: Debug;
    /// A [`Lazy`] number.
    type Lazy<T: Element + Param>: Debug;
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
    type Map<T: Element> = TensorMap<T>;
    type Scalar<T: Element + Param> = Val<T>;
    type Lazy<T: Element + Param> = Lazy<T>;
    type Array<T: Element + Param, const N: usize> = Array<T, N>;
    type Optional<P: NamedParam> = P::On<Self>;
}

/// Number that is loaded once, at its first use; an unused one costs nothing.
#[derive(Debug, Clone, Copy)]
pub struct Lazy<T> {
    place: FieldPlace,
    number: PhantomData<fn() -> T>,
}

impl<T: Element + Param> Lazy<T> {
    /// The number.
    #[track_caller]
    #[must_use]
    pub fn get(self) -> Val<T> {
        Val::from_raw(load_once(self.place.position, self.place.offset, T::TYPE))
    }
}

/// Array of `N` parameters of one kind, such as [`params!`](crate::params!) structures.
#[derive(Debug)]
pub struct Several<P, const N: usize>(PhantomData<P>);

/// A piece of a kernel's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldShape {
    /// An address, a parameter of its own; the alignment of what is there.
    Address(u32),
    /// A tensor map, a parameter of its own.
    Map,
    /// So many bytes of the numbers, and their alignment.
    Numbers(u32, u32),
}

/// Position of a [`FieldShape`] in the parameters.
#[derive(Debug, Clone, Copy)]
pub struct FieldPlace {
    /// The parameter.
    pub position: usize,
    /// Bytes before it there.
    pub offset: u32,
}

/// Positions of all pieces, in the order of the fields.
pub type FieldPlaces = std::vec::IntoIter<FieldPlace>;

/// A type of a field of a [`params!`](crate::params!) structure: [`Global`], an array of them,
/// [`Strided`], [`TensorMap`], a scalar, [`Lazy`] or not, an array of scalars, another such
/// structure, [`Several`] of these, an `Option` of one of these.
pub trait NamedParam: 'static {
    /// The field on a side.
    type On<S: Side>: Debug;

    /// Adds what it takes of the parameters.
    fn shapes(shapes: &mut Vec<FieldShape>);

    /// The field in the kernel, which takes a place for each of its shapes.
    fn receive(places: &mut FieldPlaces) -> Self::On<Recorded>;
}

/// A [`params!`](crate::params!) structure on the kernel's side.
pub trait NamedParams: Params + NamedParam<On<Recorded> = Self> {}

impl<P: Params + NamedParam<On<Recorded> = Self>> NamedParams for P {}

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

/// The parameters of a structure: those of its own, then one of all numbers.
struct Shapes(Vec<FieldShape>);

impl Shapes {
    fn of<P: NamedParam>() -> Self {
        let mut shapes = Vec::new();
        P::shapes(&mut shapes);
        Self(shapes)
    }

    /// The parameters before the numbers: the alignment at each address, and nothing for a map.
    fn own(&self) -> impl Iterator<Item = Option<u32>> {
        self.0.iter().filter_map(|shape| match *shape {
            FieldShape::Address(align) => Some(Some(align)),
            FieldShape::Map => Some(None),
            FieldShape::Numbers(..) => None,
        })
    }

    /// Positions of all, bytes of the numbers, and their alignment.
    fn places(&self) -> (Vec<FieldPlace>, u32, u32) {
        let numbers = self.own().count();
        let (mut next, mut bytes, mut most) = (0, 0_u32, 1);
        let mut place = |shape: &FieldShape| match *shape {
            FieldShape::Numbers(len, align) => {
                let offset = bytes.next_multiple_of(align);
                (bytes, most) = (offset + len, most.max(align));
                FieldPlace { position: numbers, offset }
            }
            FieldShape::Address(_) | FieldShape::Map => {
                next += 1;
                FieldPlace { position: next - 1, offset: 0 }
            }
        };
        let places = self.0.iter().map(&mut place).collect();
        (places, bytes, most)
    }
}

/// The layout of a structure, for [`params!`](crate::params!).
#[doc(hidden)]
#[must_use]
pub fn layout_of<P: NamedParam>() -> Layout {
    let shapes = Shapes::of::<P>();
    let mut layout = Layout::default();
    for address in shapes.own() {
        match address {
            Some(_) => layout.push(ScalarType::U64, 8, 8),
            None => layout.push(ScalarType::B8, MAP_BYTES, MAP_ALIGN),
        }
    }
    let (_, bytes, align) = shapes.places();
    if bytes > 0 {
        layout.push(ScalarType::B8, bytes, align);
    }
    layout
}

/// Declares all parameters of a structure and reads them.
pub(crate) fn receive<P: NamedParam>() -> P::On<Recorded> {
    let shapes = Shapes::of::<P>();
    let mut position = 0;
    for address in shapes.own() {
        match address {
            Some(_) => declare_one(position, ScalarType::U64, 8, address, None),
            None => declare_one(position, ScalarType::B8, MAP_ALIGN, None, Some(MAP_BYTES)),
        }
        position += 1;
    }
    let (places, bytes, align) = shapes.places();
    if bytes > 0 {
        declare_one(position, ScalarType::B8, align, None, Some(bytes));
    }
    P::receive(&mut places.into_iter())
}

/// Size and alignment of a tensor map.
const MAP_BYTES: u32 = <TensorMap<u8> as Param>::BYTES;
const MAP_ALIGN: u32 = <TensorMap<u8> as Param>::ALIGN;

/// The place of a field's next shape.
fn next(places: &mut FieldPlaces) -> FieldPlace {
    places.next().expect("there is a place for each shape")
}

impl<T: Element> NamedParam for Global<T> {
    type On<S: Side> = S::Pointer<T>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        shapes.push(FieldShape::Address(T::BYTES));
    }

    fn receive(places: &mut FieldPlaces) -> Self {
        Self::of_param(next(places).position)
    }
}

impl<T: Element, const N: usize> NamedParam for [Global<T>; N] {
    type On<S: Side> = S::Pointers<T, N>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        shapes.extend([FieldShape::Address(T::BYTES); N]);
    }

    fn receive(places: &mut FieldPlaces) -> Self {
        std::array::from_fn(|_| <Global<T> as NamedParam>::receive(places))
    }
}

impl<const RANK: usize> NamedParam for Strided<RANK> {
    type On<S: Side> = S::Tensor<RANK>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        shapes.extend([FieldShape::Address(1), FieldShape::Numbers(12 * RANK as u32, 8)]);
    }

    fn receive(places: &mut FieldPlaces) -> Self {
        let (base, numbers) = (next(places), next(places));
        Self::of_param(Global::of_param(base.position), numbers.position, numbers.offset)
    }
}

impl<T: Element> NamedParam for TensorMap<T> {
    type On<S: Side> = S::Map<T>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        shapes.push(FieldShape::Map);
    }

    fn receive(places: &mut FieldPlaces) -> Self {
        Self::of_param(next(places).position)
    }
}

impl<T: Element + Param> NamedParam for T {
    type On<S: Side> = S::Scalar<T>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        shapes.push(FieldShape::Numbers(<T as Param>::BYTES, T::ALIGN));
    }

    fn receive(places: &mut FieldPlaces) -> Val<T> {
        let FieldPlace { position, offset } = next(places);
        Val::from_raw(untyped::load_param(position, offset.into(), T::TYPE))
    }
}

impl<T: Element + Param> NamedParam for Lazy<T> {
    type On<S: Side> = S::Lazy<T>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        T::shapes(shapes);
    }

    fn receive(places: &mut FieldPlaces) -> Self {
        Self { place: next(places), number: PhantomData }
    }
}

impl<T: Element + Param + Scalar, const N: usize> NamedParam for [T; N] {
    type On<S: Side> = S::Array<T, N>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        shapes.push(FieldShape::Numbers(Self::BYTES, <T as Param>::ALIGN));
    }

    fn receive(places: &mut FieldPlaces) -> Array<T, N> {
        let FieldPlace { position, offset } = next(places);
        Array::of_param(position, offset)
    }
}

impl<P: NamedParam, const N: usize> NamedParam for Several<P, N> {
    type On<S: Side> = [P::On<S>; N];

    fn shapes(shapes: &mut Vec<FieldShape>) {
        (0..N).for_each(|_| P::shapes(shapes));
    }

    fn receive(places: &mut FieldPlaces) -> [P::On<Recorded>; N] {
        std::array::from_fn(|_| P::receive(places))
    }
}

impl<P: NamedParam, S: Sink, A: NamedArgument<P, S>, const N: usize> NamedArgument<Several<P, N>, S> for [A; N] {
    fn pass(self, sink: &mut S, numbers: &mut Numbers) -> Result<(), S::Error> {
        self.into_iter().try_for_each(|argument| argument.pass(sink, numbers))
    }
}

impl<P: NamedParam> NamedParam for Option<P> {
    type On<S: Side> = S::Optional<P>;

    fn shapes(shapes: &mut Vec<FieldShape>) {
        P::shapes(shapes);
    }

    fn receive(places: &mut FieldPlaces) -> P::On<Recorded> {
        P::receive(places)
    }
}

impl<P: NamedParam, S: Sink, A: NamedArgument<P, S>> NamedArgument<Option<P>, S> for Option<A> {
    fn pass(self, sink: &mut S, numbers: &mut Numbers) -> Result<(), S::Error> {
        if let Some(argument) = self {
            return argument.pass(sink, numbers);
        }
        Shapes::of::<P>().0.into_iter().try_for_each(|shape| match shape {
            FieldShape::Address(_) => sink.push(&[0; 8], 8),
            FieldShape::Map => sink.push(&[0; MAP_BYTES as usize], MAP_ALIGN as usize),
            FieldShape::Numbers(bytes, align) => {
                numbers.push(&vec![0; bytes as usize], align as usize);
                Ok(())
            }
        })
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
                $crate::layout_of::<Self>()
            }
        }

        impl $crate::NamedParam for $name {
            type On<S: $crate::Side> = $name<S>;

            fn shapes(shapes: &mut ::std::vec::Vec<$crate::FieldShape>) {
                $(<$ty as $crate::NamedParam>::shapes(shapes);)*
            }

            fn receive(places: &mut $crate::FieldPlaces) -> Self {
                Self { $($field: <$ty as $crate::NamedParam>::receive(places)),* }
            }
        }

        impl<S: $crate::Side, K: $crate::Sink> $crate::NamedArgument<$name, K> for $name<S>
        where
            $(<$ty as $crate::NamedParam>::On<S>: $crate::NamedArgument<$ty, K>),*
        {
            fn pass(self, sink: &mut K, numbers: &mut $crate::Numbers) -> ::std::result::Result<(), K::Error> {
                $($crate::NamedArgument::<$ty, K>::pass(self.$field, sink, numbers)?;)*
                ::std::result::Result::Ok(())
            }
        }

        impl<S: $crate::Side, K: $crate::Sink> $crate::Arguments<$name, K> for $name<S>
        where
            Self: $crate::NamedArgument<$name, K>,
        {
            fn pass_all(self, sink: &mut K) -> ::std::result::Result<(), K::Error> {
                let mut numbers = $crate::Numbers::default();
                $crate::NamedArgument::<$name, K>::pass(self, sink, &mut numbers)?;
                numbers.finish(sink)
            }
        }
    };
}
