//! A row on chip: in the registers of the threads that share it, or in their shared memory.

use std::rc::Rc;

use warpfold_lang::{Registers, Val, vars};

use crate::fold::{Monoid, Position, Team};

/// A row on chip, or what its items were mapped to.
///
/// A row in registers caches mapped values. A row in shared memory is lazy: each pass reads shared
/// memory and applies the maps again.
#[derive(Debug, Clone)]
pub struct OnChipRow<I> {
    pub(super) items: Items<I>,
    pub(super) groups: Groups,
}

/// What a thread has of each of its groups: neighbours of a row, or what belongs to their
/// positions.
pub(super) enum Items<I> {
    /// In registers.
    Materialized(Rc<[Vec<I>]>),
    /// Loaded and mapped at each use.
    Lazy(Rc<dyn Fn(GroupCoord) -> Vec<I>>),
}

/// Where a group is.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupCoord {
    /// A position in the row.
    pub(super) base: Val<u32>,
    /// From there to the group. It is known while recording, so that one register serves all
    /// addresses of a thread.
    pub(super) offset: u32,
    /// The number of the group's first item among those in shared memory.
    pub(super) smem_idx: Val<u32>,
    /// The group's number among those that are in registers as they are in global memory, if it is
    /// there instead.
    pub(super) register_idx: Option<usize>,
}

impl GroupCoord {
    /// A group at a position, with its items at the same place in shared memory.
    pub(super) const fn at(position: Val<u32>) -> Self {
        Self { base: position, offset: 0, smem_idx: position, register_idx: None }
    }

    /// The position of the group's first item in the row.
    pub(super) fn position(self) -> Val<u32> {
        self.base + self.offset
    }
}

/// Which groups of a row a thread has.
#[derive(Debug, Clone)]
pub(super) enum Groups {
    /// Some in registers, known when the kernel is built.
    Unrolled {
        /// The position of each group's first item.
        positions: Vec<Val<u32>>,
        /// From one to the next.
        step: u32,
        /// Whether the row has each group; `None` where it has all.
        has: Option<Vec<Val<bool>>>,
        extent: RowExtent,
    },
    /// Its share of what is in shared memory.
    Looped { groups: Rc<dyn GroupLoop>, extent: RowExtent },
}

/// A loop over a thread's groups in shared memory.
pub(super) trait GroupLoop: std::fmt::Debug {
    /// Records `body` for several groups that a thread takes together, and for the remainder.
    fn for_each(&self, body: &dyn Fn(&[GroupCoord]));
}

/// How long a row is, and which threads share it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowExtent {
    pub(super) len: Val<u32>,
    pub(super) team: Team,
}

/// What belongs to the positions of a row: in registers already, or loaded where it is used.
#[derive(Debug)]
pub struct Columns<C>(pub(super) Items<C>);

impl<I: Registers + 'static> OnChipRow<I> {
    /// The fold of the whole row, in every thread that shares it, in the order that the plan fixes.
    ///
    /// # Panics
    /// For a monoid that does not commute: neighbours along the row are not neighbours among the
    /// threads.
    #[track_caller]
    pub fn fold<M: Monoid<Item = I>>(&self, monoid: M) -> M::Output {
        self.combine_threads(monoid, self.fold_thread(monoid))
    }

    /// The first half of a fold: over this thread's items.
    ///
    /// # Panics
    /// As [`fold`](Self::fold).
    #[track_caller]
    pub fn fold_thread<M: Monoid<Item = I>>(&self, monoid: M) -> M::Acc {
        assert!(M::COMMUTES, "a row on chip is not in order");
        match &self.items {
            Items::Materialized(groups) => self.fold_materialized(monoid, groups),
            Items::Lazy(items) => self.fold_lazy(monoid, &**items),
        }
    }

    /// The second half of a fold: over the accumulators of the threads that share the row, in each
    /// of them. All come here together.
    #[track_caller]
    pub fn combine_threads<M: Monoid>(&self, monoid: M, acc: M::Acc) -> M::Output {
        let RowExtent { len, team } = self.groups.extent();
        monoid.finish(team.fold(monoid, acc), len.cast())
    }

    fn fold_materialized<M: Monoid<Item = I>>(&self, monoid: M, groups: &[Vec<I>]) -> M::Acc {
        let Groups::Unrolled { positions, has, .. } = &self.groups else {
            unreachable!("groups in registers are counted in advance")
        };
        let mut acc: Option<M::Acc> = None;
        for (group, items) in groups.iter().enumerate() {
            let at = |i: u64| Position::new(positions[group].cast(), i);
            let first = monoid.lift(items[0], at(0));
            let folded = items[1..].iter().zip(1..).fold(first, |acc, (item, i)| monoid.push(acc, *item, at(i)));
            let folded = match has {
                None => folded,
                Some(has) => Registers::select(has[group], folded, monoid.identity()),
            };
            acc = Some(acc.map_or(folded, |acc| monoid.combine(acc, folded)));
        }
        acc.expect("a thread holds an item")
    }

    fn fold_lazy<M: Monoid<Item = I>>(&self, monoid: M, items: &dyn Fn(GroupCoord) -> Vec<I>) -> M::Acc {
        let acc = vars(monoid.identity());
        self.groups.looped().for_each(&|coords| {
            let groups: Vec<_> = coords.iter().map(|coord| items(*coord)).collect();
            let first = |coord: &GroupCoord| Position::new(coord.position().cast(), 0);
            if M::USES_POSITION {
                for (coord, items) in coords.iter().zip(groups) {
                    acc.set(monoid.push_all(acc.get(), &items, first(coord)));
                }
            } else {
                acc.set(monoid.push_all(acc.get(), &groups.concat(), first(&coords[0])));
            }
        });
        acc.get()
    }

    /// Items of the row.
    #[must_use]
    pub const fn len(&self) -> Val<u32> {
        self.groups.extent().len
    }

    /// Whether items are in registers, so that no map is applied twice.
    #[must_use]
    pub const fn is_materialized(&self) -> bool {
        matches!(self.items, Items::Materialized(_))
    }

    /// Whether several warps share the row, so that they wait for each other in each fold.
    #[must_use]
    pub const fn spans_warps(&self) -> bool {
        matches!(self.groups.extent().team, Team::Block(_) | Team::Cluster { .. })
    }

    /// Whether several blocks share the row; waiting for each other takes them longer.
    #[must_use]
    pub const fn spans_blocks(&self) -> bool {
        matches!(self.groups.extent().team, Team::Cluster { .. })
    }

    /// Maps each item together with what belongs to its position.
    #[track_caller]
    #[must_use]
    pub fn map_with<C: Copy + 'static, J: 'static>(
        &self,
        columns: &Columns<C>,
        f: impl Fn(I, C) -> J + 'static,
    ) -> OnChipRow<J> {
        let map = move |items: &[I], columns: Vec<C>| items.iter().zip(columns).map(|(i, c)| f(*i, c)).collect();
        let items = match &self.items {
            Items::Materialized(groups) => {
                let group =
                    |(number, items): (usize, &Vec<I>)| map(items, columns.0.group(number, self.groups.coord(number)));
                Items::Materialized(groups.iter().enumerate().map(group).collect())
            }
            Items::Lazy(items) => {
                let (items, columns) = (items.clone(), columns.0.clone());
                Items::Lazy(Rc::new(move |coord| map(&items(coord), columns.group(0, coord))))
            }
        };
        OnChipRow { items, groups: self.groups.clone() }
    }

    /// Maps each item.
    #[track_caller]
    #[must_use]
    pub fn map<J: 'static>(&self, f: impl Fn(I) -> J + 'static) -> OnChipRow<J> {
        OnChipRow { items: self.items.map(f), groups: self.groups.clone() }
    }

    /// Uses each group for the last time: where it is, whether the row has it (`None` if it is
    /// known to), its items.
    pub(super) fn for_each(&self, body: impl Fn(GroupCoord, Option<Val<bool>>, &[I])) {
        match (&self.items, &self.groups) {
            (Items::Materialized(groups), Groups::Unrolled { positions, step, has, .. }) => {
                for (number, items) in groups.iter().enumerate() {
                    let offset = number as u32 * step;
                    let coord = GroupCoord { base: positions[0], offset, ..self.groups.coord(number) };
                    body(coord, has.as_ref().map(|has| has[number]), items);
                }
            }
            (items, groups) => groups.looped().for_each(&|coords| {
                let groups: Vec<_> = coords.iter().map(|coord| items.group(0, *coord)).collect();
                coords.iter().zip(groups).for_each(|(coord, items)| body(*coord, None, &items));
            }),
        }
    }
}

impl<C: Copy + 'static> Columns<C> {
    #[track_caller]
    pub(super) fn map<D: 'static>(&self, f: impl Fn(C) -> D + 'static) -> Columns<D> {
        Columns(self.0.map(f))
    }
}

impl<I: Copy + 'static> Items<I> {
    #[track_caller]
    fn map<J: 'static>(&self, f: impl Fn(I) -> J + 'static) -> Items<J> {
        let map = move |items: &[I]| items.iter().map(|item| f(*item)).collect::<Vec<J>>();
        match self {
            Self::Materialized(groups) => Items::Materialized(groups.iter().map(|items| map(items)).collect()),
            Self::Lazy(items) => {
                let items = items.clone();
                Items::Lazy(Rc::new(move |coord| map(&items(coord))))
            }
        }
    }

    /// A group, by its number or by where it is.
    fn group(&self, number: usize, coord: GroupCoord) -> Vec<I> {
        match self {
            Self::Materialized(groups) => groups[number].clone(),
            Self::Lazy(items) => items(coord),
        }
    }
}

impl Groups {
    const fn extent(&self) -> RowExtent {
        match self {
            Self::Unrolled { extent, .. } | Self::Looped { extent, .. } => *extent,
        }
    }

    /// Where the group of a number is.
    fn coord(&self, number: usize) -> GroupCoord {
        match self {
            Self::Unrolled { positions, .. } => GroupCoord::at(positions[number]),
            Self::Looped { .. } => unreachable!("groups that are counted at run time have no numbers"),
        }
    }

    fn looped(&self) -> &dyn GroupLoop {
        match self {
            Self::Looped { groups, .. } => &**groups,
            Self::Unrolled { .. } => unreachable!("registers hold materialized items"),
        }
    }
}

impl<I> Clone for Items<I> {
    fn clone(&self) -> Self {
        match self {
            Self::Materialized(groups) => Self::Materialized(groups.clone()),
            Self::Lazy(items) => Self::Lazy(items.clone()),
        }
    }
}

impl<I> std::fmt::Debug for Items<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Materialized(groups) => f.debug_tuple("Materialized").field(&groups.len()).finish(),
            Self::Lazy(_) => f.debug_tuple("Lazy").finish_non_exhaustive(),
        }
    }
}
