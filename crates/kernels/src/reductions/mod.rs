//! The reductions that every user expects, by name: for each element type a [`Fold`](crate::fold::Fold) with its monoid,
//! its conversions and its result type.
//!
//! [`Reduction`] names them, [`Options`] says what may be chosen, and [`fold_of`] gives the fold, made once a process.

mod table;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::fold::AnyFold;
use crate::{Dtype, Error, ErrorKind};

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum. Integers wrap in their own type; floats add in `f32` at least.
    Sum,
}

impl Reduction {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Sum];

    /// As the program takes it: `sum`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reduction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::ALL.iter().copied().find(|reduction| reduction.name() == text);
        known.ok_or_else(|| ErrorKind::UnknownOperation(text.to_owned()).into())
    }
}

/// What may be chosen of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// The result's element type, where it is not what the reduction gives by itself.
    pub dtype: Option<Dtype>,
}

/// The fold of a reduction over elements of these types, one an input.
///
/// # Errors
/// [`ErrorKind::Unsupported`].
pub fn fold_of(reduction: Reduction, dtypes: &[Dtype], options: Options) -> Result<Arc<dyn AnyFold>, Error> {
    type Key = (Reduction, Vec<Dtype>, Options);
    static FOLDS: LazyLock<Mutex<HashMap<Key, Arc<dyn AnyFold>>>> = LazyLock::new(Mutex::default);
    let key = (reduction, dtypes.to_vec(), options);
    let mut folds = FOLDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(fold) = folds.get(&key) {
        return Ok(fold.clone());
    }
    let fold = table::make(reduction, dtypes, options)?;
    Ok(folds.entry(key).or_insert(fold).clone())
}
