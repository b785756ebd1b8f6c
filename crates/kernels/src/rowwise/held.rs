//! A row in the registers of the threads that share it.

use warpfold_lang::{Registers, Val};

use crate::fold::{Monoid, Position};
use crate::row::Team;

/// What one thread holds of a row: groups of neighbours that lie a team apart.
#[derive(Debug, Clone)]
pub struct Held<I> {
    pub(super) items: Vec<I>,
    /// Items side by side.
    pub(super) vector: usize,
    /// The position of each group's first item.
    pub(super) positions: Vec<Val<u32>>,
    /// Whether the row has each group; `None` where it has all.
    pub(super) has: Option<Vec<Val<bool>>>,
    pub(super) len: Val<u32>,
    pub(super) team: Team,
}

/// What belongs to the positions of a row, group by group: in registers already, or loaded where it is asked for.
pub struct Columns<'a, C> {
    pub(super) load: &'a dyn Fn(usize) -> Vec<C>,
}

impl<C> std::fmt::Debug for Columns<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Columns").finish_non_exhaustive()
    }
}

impl<I: Registers> Held<I> {
    /// The fold of the whole row, in every thread that shares it; in the order that the plan fixes.
    ///
    /// # Panics
    /// For a monoid that does not commute: neighbours along the row are not neighbours among the threads.
    #[track_caller]
    pub fn fold<M: Monoid<Item = I>>(&self, monoid: M) -> M::Output {
        assert!(M::COMMUTES, "a row in registers is not in order");
        let mut acc: Option<M::Acc> = None;
        for (group, items) in self.items.chunks(self.vector).enumerate() {
            let at = |i: u64| Position::new(self.positions[group].cast(), i);
            let first = monoid.lift(items[0], at(0));
            let folded = items[1..].iter().zip(1..).fold(first, |acc, (item, i)| monoid.push(acc, *item, at(i)));
            let folded = match &self.has {
                None => folded,
                Some(has) => Registers::select(has[group], folded, monoid.identity()),
            };
            acc = Some(acc.map_or(folded, |acc| monoid.combine(acc, folded)));
        }
        let acc = self.team.fold(monoid, acc.expect("a thread holds an item"));
        monoid.finish(acc, self.len.cast())
    }

    /// Items of the row.
    #[must_use]
    pub const fn len(&self) -> Val<u32> {
        self.len
    }

    /// Each item with what belongs to its position, changed.
    #[track_caller]
    #[must_use]
    pub fn map<C: Copy, J>(&self, columns: &Columns<'_, C>, f: impl Fn(I, C) -> J) -> Held<J> {
        let groups = self.items.chunks(self.vector).enumerate();
        let changed = groups.flat_map(|(group, items)| {
            let columns = (columns.load)(group);
            items.iter().zip(columns).map(|(item, columns)| f(*item, columns)).collect::<Vec<_>>()
        });
        self.with(changed.collect())
    }

    /// Each item changed.
    #[track_caller]
    #[must_use]
    pub fn each<J>(&self, f: impl Fn(I) -> J) -> Held<J> {
        self.with(self.items.iter().map(|item| f(*item)).collect())
    }

    fn with<J>(&self, items: Vec<J>) -> Held<J> {
        let Self { vector, len, team, .. } = *self;
        Held { items, vector, positions: self.positions.clone(), has: self.has.clone(), len, team }
    }
}
