//! Typed pointers into one state space.

use std::fmt;
use std::marker::PhantomData;

use super::{Cache, Order, Scope};
use crate::intrinsics::convert;
use crate::intrinsics::memory::{self, Base, Location, Otherwise};
use crate::intrinsics::{logic, sync};
use crate::recorder::{Raw, with};
use crate::types::{Element, Number, Scalar, Type};
use crate::{Operand, Val, Var, untyped};

/// A state space, at compile time.
pub trait Space: Copy + sealed::Sealed + 'static {}

mod sealed {
    pub trait Sealed {
        const SPACE: Window;
    }

    /// The memory that a pointer points into.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Window {
        Global,
        /// The shared memory of the block.
        Shared,
        /// The shared memory of any block of the cluster.
        Cluster,
        Local,
    }
}

pub(crate) use sealed::{Sealed, Window};

macro_rules! spaces {
    ($($(#[$doc:meta])* $marker:ident $space:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $marker {}
        impl Sealed for $marker {
            const SPACE: Window = Window::$space;
        }
        impl Space for $marker {}
    )*};
}

spaces! {
    /// Memory of the device, seen by all threads.
    GlobalSpace Global;
    /// Memory of the block.
    SharedSpace Shared;
    /// Memory of any block of the cluster.
    ClusterSpace Cluster;
    /// Memory of the thread.
    LocalSpace Local;
}

/// A pointer into the memory of the device; as a kernel parameter, a buffer.
pub type Global<T> = Pointer<T, GlobalSpace>;
/// A pointer into the memory of the block.
pub type Shared<T> = Pointer<T, SharedSpace>;
/// A pointer into the shared memory of a block of the cluster; made by
/// [`Shared::in_block`](Pointer::in_block).
pub type Distributed<T> = Pointer<T, ClusterSpace>;
/// A pointer into the memory of the thread.
pub type Local<T> = Pointer<T, LocalSpace>;

/// A pointer to elements of type `T`.
pub struct Pointer<T, S> {
    base: Base,
    offset: i64,
    cache: Cache,
    target: PhantomData<fn() -> (T, S)>,
}

/// An index into memory: [`Val`]s, [`Var`]s and constants of 32- and 64-bit integer types, and
/// `usize`.
pub trait Index {
    /// The type and the value.
    #[doc(hidden)]
    fn index(self) -> (Type, Val<()>);
}

macro_rules! indices {
    ($($rust:ty),*) => {$(
        impl Index for Val<$rust> {
            fn index(self) -> (Type, Val<()>) {
                (<$rust>::TYPE, Val::from_raw(self.raw()))
            }
        }
        impl Index for Var<$rust> {
            fn index(self) -> (Type, Val<()>) {
                self.get().index()
            }
        }
        impl Index for $rust {
            fn index(self) -> (Type, Val<()>) {
                Val::constant(self).index()
            }
        }
    )*};
}

indices!(u32, i32, u64, i64);

impl Index for usize {
    fn index(self) -> (Type, Val<()>) {
        (self as u64).index()
    }
}

impl<T: Element, S: Space> Pointer<T, S> {
    pub(crate) const fn from_base(base: Base) -> Self {
        Self { base, offset: 0, cache: Cache::Default, target: PhantomData }
    }

    pub(crate) const fn from_location(location: Location) -> Self {
        Self { base: location.base, offset: location.offset, cache: Cache::Default, target: PhantomData }
    }

    pub(crate) const fn location(self) -> Location {
        Location { space: S::SPACE, base: self.base, offset: self.offset }
    }

    const fn place(self) -> Place {
        Place { location: self.location(), cache: self.cache }
    }

    /// Notes an error if the pointer treats the caches in a way that only plain loads and stores
    /// have.
    #[track_caller]
    pub(crate) fn without_cache(self) {
        without_cache(self.cache);
    }

    /// Returns the pointer `index` elements further on. Bounds are not checked.
    #[track_caller]
    #[must_use]
    pub fn at(self, index: impl Index) -> Self {
        self.element(T::TYPE, index)
    }

    /// Returns the pointer `index` groups of elements further on.
    #[track_caller]
    pub(crate) fn elements(self, group: u32, index: impl Index) -> Self {
        let (ty, index) = index.index();
        let location = untyped::element(self.location(), group * T::BYTES, ty, index.raw());
        Self { base: location.base, offset: location.offset, ..self }
    }

    /// Returns the pointer `index` elements of a type further on.
    #[track_caller]
    pub(crate) fn element(self, of: Type, index: impl Index) -> Self {
        let (ty, index) = index.index();
        let location = untyped::element(self.location(), of.bytes(), ty, index.raw());
        Self { base: location.base, offset: location.offset, ..self }
    }

    /// Returns the same pointer with this cache behaviour for its loads and stores.
    #[must_use]
    pub const fn cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// The same address as a pointer to another type. Its alignment must suit.
    #[must_use]
    pub const fn reinterpret<U: Element>(self) -> Pointer<U, S> {
        Pointer { base: self.base, offset: self.offset, cache: self.cache, target: PhantomData }
    }

    /// Loads the element.
    #[track_caller]
    #[must_use]
    pub fn get(self) -> Val<T> {
        Val::from_raw(self.place().load(T::TYPE))
    }

    /// Loads the element if the condition holds; otherwise returns the default without accessing
    /// memory.
    #[track_caller]
    #[must_use]
    pub fn get_or(self, default: impl Operand<T>, condition: impl Operand<bool>) -> Val<T> {
        let (default, condition) = (default.val().raw(), condition.val().raw());
        Val::from_raw(self.place().load_or(T::TYPE, default, condition))
    }

    /// Stores the element.
    #[track_caller]
    pub fn set(self, value: impl Operand<T>) {
        self.place().store(T::TYPE, &[value.val().raw()], None);
    }

    /// Stores the element if the condition holds.
    #[track_caller]
    pub fn set_if(self, value: impl Operand<T>, condition: impl Operand<bool>) {
        let (value, condition) = (value.val().raw(), condition.val().raw());
        self.place().store(T::TYPE, &[value], Some(condition));
    }

    /// Loads `N` consecutive elements as one vector access: `N` times the element's size is a power
    /// of two up to 16 bytes, and the address is aligned to it.
    ///
    /// ```
    /// use warpfold_lang::{Arch, Global, Target, kernel, thread_idx};
    /// let double = kernel("double", |data: Global<f32>| {
    ///     let mine = data.at(thread_idx().x * 4);
    ///     mine.set_vec(mine.get_vec::<4>().map(|x| x * 2.0));
    /// });
    /// assert!(double.ptx(&Target::new(Arch::SM_80, (7, 0))).unwrap().contains("ld.global.v4.f32"));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn get_vec<const N: usize>(self) -> [Val<T>; N] {
        const { check_vector(N, T::BYTES) };
        let mut values = [Raw::Const(0); N];
        self.place().load_all(T::TYPE, None, &mut values);
        values.map(Val::from_raw)
    }

    /// Like [`Self::get_vec`] if the condition holds; otherwise every element is the default.
    #[track_caller]
    #[must_use]
    pub fn get_vec_or<const N: usize>(self, default: impl Operand<T>, condition: impl Operand<bool>) -> [Val<T>; N] {
        const { check_vector(N, T::BYTES) };
        let (default, condition) = (default.val().raw(), condition.val().raw());
        let mut values = [default; N];
        self.place().load_all(T::TYPE, Some(condition), &mut values);
        values.map(Val::from_raw)
    }

    /// Stores `N` consecutive elements as one access; the rules of [`Self::get_vec`] apply.
    #[track_caller]
    pub fn set_vec<const N: usize>(self, values: [impl Operand<T>; N]) {
        const { check_vector(N, T::BYTES) };
        let values: [Raw; N] = values.map(|value| value.val().raw());
        self.place().store(T::TYPE, &values, None);
    }

    /// Like [`Self::set_vec`], where the condition holds.
    #[track_caller]
    pub fn set_vec_if<const N: usize>(self, values: [impl Operand<T>; N], condition: impl Operand<bool>) {
        const { check_vector(N, T::BYTES) };
        let values: [Raw; N] = values.map(|value| value.val().raw());
        let condition = condition.val().raw();
        self.place().store(T::TYPE, &values, Some(condition));
    }

    /// The address within its state space: 32 bits wide in shared memory.
    #[track_caller]
    #[must_use]
    pub fn address(self) -> Val<u64> {
        Val::from_raw(wide_address(self.location()))
    }

    /// Loads with a memory order and a scope: `Relaxed` or `Acquire`.
    #[track_caller]
    #[must_use]
    pub fn load(self, order: Order, scope: Scope) -> Val<T> {
        self.without_cache();
        Val::from_raw(untyped::load_ordered(self.location(), order, scope, T::TYPE))
    }

    /// Stores with a memory order and a scope: `Relaxed` or `Release`.
    #[track_caller]
    pub fn store(self, value: impl Operand<T>, order: Order, scope: Scope) {
        let value = value.val().raw();
        self.without_cache();
        untyped::store_ordered(self.location(), order, scope, T::TYPE, value);
    }
}

impl<T: Element> Global<T> {
    /// Prefetches the element's line into L2.
    #[track_caller]
    pub fn prefetch(self) {
        untyped::prefetch(self.location());
    }

    pub(crate) const fn new(address: Val<u64>) -> Self {
        Self::from_base(Base::Register(address.raw()))
    }

    /// Makes a pointer from an address that was computed or passed as a number: memory of another
    /// device, say. Neither its type nor its validity is checked.
    #[must_use]
    pub const fn from_address(address: Val<u64>) -> Self {
        Self::new(address)
    }
}

impl Shared<u8> {
    /// The pointer whose address differs in these bits.
    #[track_caller]
    pub(crate) fn exclusive_or(self, bits: u32) -> Self {
        let address = with(|r| {
            let address = memory::whole_address(r, self.location());
            logic::xor(r, Type::U32, address, Raw::Const(bits.into()))
        });
        Self::from_base(Base::Register(address))
    }
}

impl<T: Element> Shared<T> {
    /// The same place in the shared memory of another block of the cluster, by rank (`mapa`;
    /// sm_90).
    ///
    /// That block must have begun, and must not have ended: what comes behind a
    /// [`cluster_sync`](crate::cluster_sync) knows the one, and a block that waits at another one
    /// before it ends gives the other.
    ///
    /// ```
    /// use warpfold_lang::{Arch, Global, Target, cluster_block_rank, cluster_sync, kernel, shared, thread_idx};
    /// let swap = kernel("swap", |out: Global<u32>| {
    ///     let tile = shared::<u32>(32);
    ///     cluster_sync();
    ///     tile.in_block(cluster_block_rank() ^ 1).at(thread_idx().x).set(thread_idx().x);
    ///     cluster_sync();
    ///     out.at(thread_idx().x).set(tile.at(thread_idx().x).get());
    /// });
    /// let ptx = swap.cluster(2).ptx(&Target::new(Arch::SM_90, (8, 0))).unwrap();
    /// assert!(ptx.contains("st.shared::cluster.u32"));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn in_block(self, rank: impl Operand<u32>) -> Distributed<T> {
        let rank = rank.val().raw();
        let address = address_in_block(self.location(), rank);
        Pointer { base: Base::Register(address), offset: 0, cache: self.cache, target: PhantomData }
    }
}

impl<T: Number, S: Space> Pointer<T, S> {
    /// Loads, modifies and stores the element. Not atomic.
    #[track_caller]
    pub fn update(self, f: impl FnOnce(Val<T>) -> Val<T>) {
        self.set(f(self.get()));
    }

    /// Adds to the element. Not atomic.
    #[track_caller]
    pub fn add_assign(self, value: impl Operand<T>) {
        let value = value.val();
        self.set(self.get() + value);
    }
}

/// A pointer without its element type, for recording loads and stores.
#[derive(Clone, Copy)]
struct Place {
    location: Location,
    cache: Cache,
}

impl Place {
    #[track_caller]
    #[inline(never)]
    fn load(&self, ty: Type) -> Raw {
        with(|r| memory::load(r, self.location, self.cache, ty, 1, None)[0])
    }

    #[track_caller]
    #[inline(never)]
    fn load_or(&self, ty: Type, default: Raw, condition: Raw) -> Raw {
        let otherwise = Otherwise { condition, default: &[default] };
        with(|r| memory::load(r, self.location, self.cache, ty, 1, Some(otherwise))[0])
    }

    /// Loads one element per value; if the condition does not hold, the values stay.
    #[track_caller]
    #[inline(never)]
    fn load_all(&self, ty: Type, condition: Option<Raw>, values: &mut [Raw]) {
        let default = values.to_vec();
        let otherwise = condition.map(|condition| Otherwise { condition, default: &default });
        let count = default.len() as u32;
        values.copy_from_slice(&with(|r| memory::load(r, self.location, self.cache, ty, count, otherwise)));
    }

    #[track_caller]
    #[inline(never)]
    fn store(&self, ty: Type, values: &[Raw], condition: Option<Raw>) {
        with(|r| memory::store(r, self.location, self.cache, ty, values, condition));
    }
}

#[track_caller]
#[inline(never)]
fn without_cache(cache: Cache) {
    with(|r| memory::without_cache(r, cache));
}

#[track_caller]
#[inline(never)]
fn wide_address(location: Location) -> Raw {
    with(|r| {
        let address = memory::whole_address(r, location);
        convert::convert(r, memory::address_type(location.space), Type::U64, address, None)
    })
}

#[track_caller]
#[inline(never)]
fn address_in_block(own: Location, rank: Raw) -> Raw {
    with(|r| {
        let own = memory::whole_address(r, own);
        sync::map_to_block(r, own, rank)
    })
}

/// Checks the length of a vector access.
const fn check_vector(n: usize, bytes: u32) {
    let total = n * bytes as usize;
    assert!(n.is_power_of_two() && total <= 16, "a vector access takes a power of two of elements, at most 16 bytes");
    assert!(n <= 4 || total >= 8, "more than four elements travel as 32-bit words");
}

impl<T, S> Clone for Pointer<T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S> Copy for Pointer<T, S> {}

impl<T: Scalar, S: Space> fmt::Debug for Pointer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}<{:?}>({:?} + {})", S::SPACE, T::TYPE, self.base, self.offset)
    }
}
