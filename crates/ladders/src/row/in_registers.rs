//! The first elements of a row, in the registers of the team that shares it.

use warpfold_lang::{Val, Var, var, when};

use super::{Row, RowElement, Team};

/// Values of a row in one thread's registers.
///
/// Of a row that can be accessed by 16 bytes, a thread holds groups of neighbours; of any other
/// one, single elements that lie a team apart. Either way those that the row has come first.
#[derive(Debug)]
pub(crate) struct InRegisters {
    values: Vec<Val<f32>>,
    /// Number of values of the row; it may exceed the capacity.
    count: Val<u32>,
    team: Team,
}

impl InRegisters {
    /// Loads `num` values a thread, a multiple of [`RowElement::WIDTH`], all before the first is
    /// used. Behind the end of the row they are the default, which has to be a value of the element
    /// type.
    #[track_caller]
    pub(crate) fn load<T: RowElement>(row: Row<T>, team: Team, num: u32, default: f32) -> Self {
        assert!(num.is_multiple_of(T::WIDTH), "a thread holds whole groups of {}, not {num}", T::WIDTH);
        let is_wide = row.is_wide();
        let count = is_wide.select(num_held(row, team, T::WIDTH), num_held(row, team, 1));
        let values: Vec<Var<f32>> = (0..num).map(|_| var(default)).collect();
        when(is_wide, || {
            for n in (0..num).step_by(T::WIDTH as usize) {
                let from = row.first.at(team.thread() * T::WIDTH).at(n * team.threads());
                let loaded = T::load_wide(from, default, count.gt(n));
                values[n as usize..].iter().zip(loaded).for_each(|(value, loaded)| value.set(loaded));
            }
        });
        when(!is_wide, || {
            for (n, value) in (0..).zip(&values) {
                let from = row.first.at(team.thread()).at(n * team.threads());
                value.set(from.get_or(T::round(default), count.gt(n)).cast());
            }
        });
        Self { values: values.into_iter().map(Var::get).collect(), count, team }
    }

    /// The elements of a row that the team holds at most.
    pub(crate) const fn capacity(&self) -> u32 {
        self.team.threads() * self.values.len() as u32
    }

    /// The values, those behind the end of the row among them.
    pub(crate) fn values(&self) -> &[Val<f32>] {
        &self.values
    }

    /// Returns whether the row has the `n`-th value.
    #[track_caller]
    pub(crate) fn has(&self, n: usize) -> Val<bool> {
        self.count.gt(n as u32)
    }

    /// Returns the number of values of the row.
    #[track_caller]
    pub(crate) fn count(&self) -> Val<u32> {
        self.count.min(self.values.len() as u32)
    }

    /// Other values in their places.
    pub(crate) fn with(&self, values: impl IntoIterator<Item = Val<f32>>) -> Self {
        Self { values: values.into_iter().collect(), ..*self }
    }

    /// Stores the values that the row has into a row of the same length.
    #[track_caller]
    pub(crate) fn store<T: RowElement>(&self, row: Row<T>) {
        let Self { count, team, .. } = *self;
        when(row.is_wide(), || {
            for (n, values) in (0..).step_by(T::WIDTH as usize).zip(self.values.chunks(T::WIDTH as usize)) {
                let to = row.first.at(team.thread() * T::WIDTH).at(n * team.threads());
                T::store_wide(to, values, count.gt(n));
            }
        });
        when(!row.is_wide(), || {
            for (n, value) in (0_u32..).zip(&self.values) {
                row.first.at(team.thread()).at(n * team.threads()).set_if(value.cast::<T>(), count.gt(n));
            }
        });
    }
}

/// The elements of a row that a thread meets, if the team takes groups of `width` in turn.
#[track_caller]
fn num_held<T: RowElement>(row: Row<T>, team: Team, width: u32) -> Val<u32> {
    let (threads, thread) = (team.threads(), team.thread());
    let rounds = (row.len + (threads * width - 1) - thread * width) / (threads * width);
    rounds * width
}
