//! Stores: from the results of a fold or an operator to memory of any element types.

use std::fmt;
use std::sync::Arc;

use warpfold_lang::{Global, Shared, Val};

use super::{Compute, store};
use crate::Dtype;

/// Where the next elements of one output go.
#[derive(Debug, Clone, Copy)]
pub enum Destination {
    /// To global memory.
    Global(Global<u8>),
    /// To shared memory.
    Shared(Shared<u8>),
}

impl Destination {
    pub(super) fn store<C: Compute>(self, dtype: Dtype, values: &[Val<C>], wide: bool) {
        match self {
            Self::Global(to) => store(dtype, to, values, wide),
            Self::Shared(to) => store(dtype, to, values, wide),
        }
    }
}

pub(super) type Store<O> = dyn Fn(&[Destination], &[O], bool) + Send + Sync;

/// How results of a kernel go to its outputs: fused maps (an epilogue), conversions, stores.
///
/// ```
/// use warpfold_kernels::Dtype;
/// use warpfold_kernels::elements::Sink;
/// use warpfold_lang::Val;
///
/// // The square root of what is computed in f32, stored as f16.
/// let root = Sink::one::<f32>(Dtype::F16).after(|x: Val<f32>| x.sqrt());
/// assert_eq!(root.dtypes(), [Dtype::F16]);
/// ```
pub struct Sink<O> {
    pub(super) dtypes: Vec<Dtype>,
    /// Elements of each output that a result takes.
    pub(super) lens: Vec<u32>,
    pub(super) store: Arc<Store<O>>,
}

impl<C: Compute> Sink<Val<C>> {
    /// One output, of type `dtype` in memory.
    #[must_use]
    pub fn output(dtype: Dtype) -> Self {
        let store = move |to: &[Destination], values: &[Val<C>], wide| to[0].store(dtype, values, wide);
        Self { dtypes: vec![dtype], lens: vec![1], store: Arc::new(store) }
    }

    /// One output whose elements are given by their bits, as numbers without sign; see
    /// [`Source::bits`](super::Source::bits).
    #[must_use]
    pub fn bits(dtype: Dtype) -> Self {
        Self { dtypes: vec![dtype], ..Self::output(dtype.bits()) }
    }
}

impl<C: Compute, const N: usize> Sink<[Val<C>; N]> {
    /// One output, of type `dtype` in memory, that takes the first `len` values of each result,
    /// contiguous.
    ///
    /// # Panics
    /// If a result has fewer.
    #[must_use]
    pub fn list(dtype: Dtype, len: u32) -> Self {
        assert!((1..=N).contains(&(len as usize)), "a result of {N} values has no first {len}");
        let store = move |to: &[Destination], values: &[[Val<C>; N]], _| {
            let values: Vec<_> = values.iter().flat_map(|list| &list[..len as usize]).copied().collect();
            to[0].store(dtype, &values, false);
        };
        Self { dtypes: vec![dtype], lens: vec![len], store: Arc::new(store) }
    }
}

impl Sink<()> {
    /// As [`Sink::output`], with the type as a parameter.
    #[must_use]
    pub fn one<C: Compute>(dtype: Dtype) -> Sink<Val<C>> {
        Sink::output(dtype)
    }
}

impl<O: Copy + 'static> Sink<O> {
    /// No output at all.
    #[must_use]
    pub fn nothing() -> Self {
        Self { dtypes: Vec::new(), lens: Vec::new(), store: Arc::new(|_: &[Destination], _: &[O], _| {}) }
    }

    /// The element types of its outputs.
    #[must_use]
    pub fn dtypes(&self) -> &[Dtype] {
        &self.dtypes
    }

    /// How many contiguous elements of each output a result takes.
    #[must_use]
    pub fn lens(&self) -> &[u32] {
        &self.lens
    }

    /// Fuses a map before the stores.
    #[must_use]
    pub fn after<P: Copy + 'static>(self, map: impl Fn(P) -> O + Send + Sync + 'static) -> Sink<P> {
        let store = self.store;
        Sink {
            dtypes: self.dtypes,
            lens: self.lens,
            store: Arc::new(move |to: &[Destination], values: &[P], wide| {
                let mapped: Vec<O> = values.iter().map(|value| map(*value)).collect();
                store(to, &mapped, wide);
            }),
        }
    }

    /// Stores the first of two results in its own outputs, and the second in those of another sink,
    /// which are appended.
    #[must_use]
    pub fn zip<P: Copy + 'static>(self, other: Sink<P>) -> Sink<(O, P)> {
        let (own, left, right) = (self.dtypes.len(), self.store, other.store);
        Sink {
            dtypes: self.dtypes.into_iter().chain(other.dtypes).collect(),
            lens: self.lens.into_iter().chain(other.lens).collect(),
            store: Arc::new(move |to: &[Destination], values: &[(O, P)], wide| {
                let (ours, theirs) = to.split_at(own);
                left(ours, &values.iter().map(|value| value.0).collect::<Vec<_>>(), wide);
                right(theirs, &values.iter().map(|value| value.1).collect::<Vec<_>>(), wide);
            }),
        }
    }

    /// Stores results from these addresses on, one per output; `wide` promises that what is stored
    /// together is aligned to its size or to 16 bytes.
    pub fn store(&self, to: &[Global<u8>], values: &[O], wide: bool) {
        self.store_to(&to.iter().copied().map(Destination::Global).collect::<Vec<_>>(), values, wide);
    }

    /// As [`store`](Self::store), to either memory.
    pub fn store_to(&self, to: &[Destination], values: &[O], wide: bool) {
        debug_assert_eq!(to.len(), self.dtypes.len(), "one address an output");
        (self.store)(to, values, wide);
    }

    /// Stores one result at this position of every output.
    pub fn store_at(&self, outputs: &[Global<u8>], position: Val<u64>, value: O) {
        let bytes = self.dtypes.iter().zip(&self.lens).map(|(dtype, len)| dtype.bytes() * u64::from(*len));
        let to: Vec<_> = outputs.iter().zip(bytes).map(|(output, bytes)| output.at(position * bytes)).collect();
        self.store(&to, &[value], false);
    }
}

impl<O> Clone for Sink<O> {
    fn clone(&self) -> Self {
        Self { dtypes: self.dtypes.clone(), lens: self.lens.clone(), store: Arc::clone(&self.store) }
    }
}

impl<O> fmt::Debug for Sink<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("dtypes", &self.dtypes).finish_non_exhaustive()
    }
}
