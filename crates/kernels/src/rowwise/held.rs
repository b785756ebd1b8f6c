//! A row on chip: in the registers of the threads that share it, or in their shared memory.

use std::rc::Rc;

use warpfold_lang::{Registers, Val, vars};

use crate::fold::{Monoid, Position, Team};

/// A row on chip, as its items are or as they have become. What registers hold, a change makes once; what shared memory
/// holds is read and changed again at each use, so that a fold over it costs what made its items.
#[derive(Debug, Clone)]
pub struct Held<I> {
    pub(super) items: Items<I>,
    pub(super) groups: Groups,
}

/// Something that a thread has group by group: neighbours of a row, or what belongs to their positions.
pub(super) enum Items<I> {
    /// In registers.
    Kept(Rc<[Vec<I>]>),
    /// Made at each use.
    Again(Rc<dyn Fn(At) -> Vec<I>>),
}

/// Where a group is.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    /// A position in the row.
    pub(super) first: Val<u32>,
    /// How far behind it the group begins: known while recording, so that one register serves all of a thread's addresses.
    pub(super) more: u32,
    /// The number of the group's first item among those in shared memory.
    pub(super) place: Val<u32>,
    /// The group's number among those that are in registers as they are in memory, if it is there instead.
    pub(super) kept: Option<usize>,
}

impl At {
    /// The position of the group's first item in the row.
    pub(super) fn position(self) -> Val<u32> {
        self.first + self.more
    }
}

/// Which groups a thread has of a row.
#[derive(Debug, Clone)]
pub(super) enum Groups {
    /// Some in registers, known when the kernel is built.
    Fixed {
        /// The position of each group's first item.
        positions: Vec<Val<u32>>,
        /// From one to the next.
        step: u32,
        /// Whether the row has each group; `None` where it has all.
        has: Option<Vec<Val<bool>>>,
        of: Of,
    },
    /// Its share of what is in shared memory.
    Walked { walk: Rc<dyn Walk>, of: Of },
}

/// A way over a row in shared memory.
pub(super) trait Walk: std::fmt::Debug {
    /// Records `body` for several groups that a thread takes together, and for what is left over.
    fn each(&self, body: &dyn Fn(&[At]));
}

/// What a row is, and who shares it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of {
    pub(super) len: Val<u32>,
    pub(super) team: Team,
}

/// What belongs to the positions of a row: in registers already, or loaded where it is asked for.
#[derive(Debug)]
pub struct Columns<C>(pub(super) Items<C>);

impl<I: Registers + 'static> Held<I> {
    /// The fold of the whole row, in every thread that shares it; in the order that the plan fixes.
    ///
    /// # Panics
    /// For a monoid that does not commute: neighbours along the row are not neighbours among the threads.
    #[track_caller]
    pub fn fold<M: Monoid<Item = I>>(&self, monoid: M) -> M::Output {
        self.fold_together(monoid, self.fold_own(monoid))
    }

    /// The first half of a fold: of what this thread has of the row.
    ///
    /// # Panics
    /// As [`fold`](Self::fold).
    #[track_caller]
    pub fn fold_own<M: Monoid<Item = I>>(&self, monoid: M) -> M::Acc {
        assert!(M::COMMUTES, "a row on chip is not in order");
        match &self.items {
            Items::Kept(groups) => self.fold_kept(monoid, groups),
            Items::Again(items) => self.fold_again(monoid, &**items),
        }
    }

    /// The second half of a fold: of what the threads that share the row have found, in each of them. All come here together.
    #[track_caller]
    pub fn fold_together<M: Monoid>(&self, monoid: M, own: M::Acc) -> M::Output {
        let of = self.groups.of();
        monoid.finish(of.team.fold(monoid, own), of.len.cast())
    }

    fn fold_kept<M: Monoid<Item = I>>(&self, monoid: M, groups: &[Vec<I>]) -> M::Acc {
        let Groups::Fixed { positions, has, .. } = &self.groups else {
            unreachable!("registers are counted in advance")
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

    fn fold_again<M: Monoid<Item = I>>(&self, monoid: M, items: &dyn Fn(At) -> Vec<I>) -> M::Acc {
        let acc = vars(monoid.identity());
        self.groups.walk().each(&|taken| {
            let groups: Vec<_> = taken.iter().map(|at| items(*at)).collect();
            let first = |at: &At| Position::new(at.position().cast(), 0);
            if M::USES_POSITION {
                for (at, items) in taken.iter().zip(groups) {
                    acc.set(monoid.push_all(acc.get(), &items, first(at)));
                }
            } else {
                acc.set(monoid.push_all(acc.get(), &groups.concat(), first(&taken[0])));
            }
        });
        acc.get()
    }

    /// Items of the row.
    #[must_use]
    pub const fn len(&self) -> Val<u32> {
        self.groups.of().len
    }

    /// Whether items are in registers, so that nothing that was made of them is made again.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        matches!(self.items, Items::Kept(_))
    }

    /// Whether several warps share the row, so that they wait for each other in each fold.
    #[must_use]
    pub const fn is_of_warps(&self) -> bool {
        matches!(self.groups.of().team, Team::Block(_) | Team::Cluster { .. })
    }

    /// Whether several blocks share the row, which wait for each other longer.
    #[must_use]
    pub const fn is_of_blocks(&self) -> bool {
        matches!(self.groups.of().team, Team::Cluster { .. })
    }

    /// Each item with what belongs to its position, changed.
    #[track_caller]
    #[must_use]
    pub fn map<C: Copy + 'static, J: 'static>(&self, columns: &Columns<C>, f: impl Fn(I, C) -> J + 'static) -> Held<J> {
        let changed = move |items: &[I], columns: Vec<C>| items.iter().zip(columns).map(|(i, c)| f(*i, c)).collect();
        let items = match &self.items {
            Items::Kept(groups) => {
                let group =
                    |(number, items): (usize, &Vec<I>)| changed(items, columns.0.group(number, self.groups.at(number)));
                Items::Kept(groups.iter().enumerate().map(group).collect())
            }
            Items::Again(items) => {
                let (items, columns) = (items.clone(), columns.0.clone());
                Items::Again(Rc::new(move |at| changed(&items(at), columns.group(0, at))))
            }
        };
        Held { items, groups: self.groups.clone() }
    }

    /// Each item changed.
    #[track_caller]
    #[must_use]
    pub fn each<J: 'static>(&self, f: impl Fn(I) -> J + 'static) -> Held<J> {
        Held { items: self.items.each(f), groups: self.groups.clone() }
    }

    /// Does something with each group for the last time: where it is, whether the row has it (`None` if it is known to), its
    /// items.
    pub(super) fn for_each(&self, body: impl Fn(At, Option<Val<bool>>, &[I])) {
        match (&self.items, &self.groups) {
            (Items::Kept(groups), Groups::Fixed { positions, step, has, .. }) => {
                for (number, items) in groups.iter().enumerate() {
                    let at =
                        At { first: positions[0], more: number as u32 * step, place: positions[number], kept: None };
                    body(at, has.as_ref().map(|has| has[number]), items);
                }
            }
            (items, groups) => groups.walk().each(&|taken| {
                let groups: Vec<_> = taken.iter().map(|at| items.group(0, *at)).collect();
                taken.iter().zip(groups).for_each(|(at, items)| body(*at, None, &items));
            }),
        }
    }
}

impl<C: Copy + 'static> Columns<C> {
    /// Each changed.
    #[track_caller]
    pub(super) fn each<D: 'static>(&self, f: impl Fn(C) -> D + 'static) -> Columns<D> {
        Columns(self.0.each(f))
    }
}

impl<I: Copy + 'static> Items<I> {
    #[track_caller]
    fn each<J: 'static>(&self, f: impl Fn(I) -> J + 'static) -> Items<J> {
        let changed = move |items: &[I]| items.iter().map(|item| f(*item)).collect::<Vec<J>>();
        match self {
            Self::Kept(groups) => Items::Kept(groups.iter().map(|items| changed(items)).collect()),
            Self::Again(items) => {
                let items = items.clone();
                Items::Again(Rc::new(move |at| changed(&items(at))))
            }
        }
    }
}

impl<I: Clone> Items<I> {
    /// A group, by its number or by where it is.
    fn group(&self, number: usize, at: At) -> Vec<I> {
        match self {
            Self::Kept(groups) => groups[number].clone(),
            Self::Again(items) => items(at),
        }
    }
}

impl Groups {
    const fn of(&self) -> Of {
        match self {
            Self::Fixed { of, .. } | Self::Walked { of, .. } => *of,
        }
    }

    /// Where the group of a number is.
    fn at(&self, number: usize) -> At {
        match self {
            Self::Fixed { positions, .. } => {
                At { first: positions[number], more: 0, place: positions[number], kept: None }
            }
            Self::Walked { .. } => unreachable!("groups that are counted at run time have no numbers"),
        }
    }

    fn walk(&self) -> &dyn Walk {
        match self {
            Self::Walked { walk, .. } => &**walk,
            Self::Fixed { .. } => unreachable!("registers hold what is not made again"),
        }
    }
}

impl<I> Clone for Items<I> {
    fn clone(&self) -> Self {
        match self {
            Self::Kept(groups) => Self::Kept(groups.clone()),
            Self::Again(items) => Self::Again(items.clone()),
        }
    }
}

impl<I> std::fmt::Debug for Items<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kept(groups) => f.debug_tuple("Kept").field(&groups.len()).finish(),
            Self::Again(_) => f.debug_tuple("Again").finish_non_exhaustive(),
        }
    }
}
