//! Keys of any type: what two kernels or two plans are equal by.

use std::any::Any;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value that can be compared and hashed, without its type. Cheap to clone.
#[derive(Clone)]
pub struct Key(Arc<dyn Erased>);

trait Erased: Any + Debug + Send + Sync {
    fn is_equal(&self, other: &dyn Any) -> bool;
    fn hash_into(&self, hasher: &mut dyn Hasher);
}

impl<T: Any + Debug + Eq + Hash + Send + Sync> Erased for T {
    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }

    fn hash_into(&self, mut hasher: &mut dyn Hasher) {
        self.type_id().hash(&mut hasher);
        self.hash(&mut hasher);
    }
}

impl Key {
    /// The key of a value: equal to those of equal values of the same type, and to no others.
    #[must_use]
    pub fn of<T: Any + Debug + Eq + Hash + Send + Sync>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The value that it is the key of, if that has this type.
    pub(super) fn value<T: Any>(&self) -> Option<&T> {
        let value: &dyn Any = &*self.0;
        value.downcast_ref()
    }

    /// A key that equals its clones alone: for closures, which nothing can compare.
    #[must_use]
    pub fn unique() -> Self {
        #[derive(Debug, PartialEq, Eq, Hash)]
        struct Unique(u64);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::of(Unique(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let other: &dyn Any = &*other.0;
        self.0.is_equal(other)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash_into(state);
    }
}

impl Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
