//! A row on chip: in the registers of the threads that share it, or in their shared memory.

use std::rc::Rc;

use warpfold_lang::{Registers, Val, range, vars};

use crate::fold::{Monoid, Position};
use crate::row::Team;

/// A row on chip, as its items are or as they have become. What registers hold, a change makes once; what shared memory
/// holds is read and changed again at each use, so that a fold over it costs what made its items.
#[derive(Debug, Clone)]
pub struct Held<I> {
    pub(super) items: Items<I>,
    pub(super) parts: Parts,
}

/// Something that a thread has group by group: neighbours of a row, or what belongs to their positions.
pub(super) enum Items<I> {
    /// In registers.
    Kept(Rc<[Vec<I>]>),
    /// Made at each use, for a group whose first item has this position.
    Again(Rc<dyn Fn(Val<u32>) -> Vec<I>>),
}

/// Which groups a thread has of a row.
#[derive(Debug, Clone)]
pub(super) enum Parts {
    /// Some, known when the kernel is built.
    Fixed {
        /// The position of each group's first item.
        positions: Vec<Val<u32>>,
        /// Whether the row has each group; `None` where it has all.
        has: Option<Vec<Val<bool>>>,
        of: Of,
    },
    /// From `start` to `end` every thread of a block in turn.
    Counted {
        start: Val<u32>,
        end: Val<u32>,
        /// Groups that a thread takes before it uses the first.
        unroll: u32,
        /// This thread and those of its block.
        thread: Val<u32>,
        threads: u32,
        of: Of,
    },
}

/// What a row is, and who shares it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Of {
    pub(super) len: Val<u32>,
    /// Items side by side.
    pub(super) vector: u32,
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
        assert!(M::COMMUTES, "a row on chip is not in order");
        let of = self.parts.of();
        let acc = match &self.items {
            Items::Kept(groups) => self.fold_kept(monoid, groups),
            Items::Again(items) => self.fold_again(monoid, &**items),
        };
        monoid.finish(of.team.fold(monoid, acc), of.len.cast())
    }

    fn fold_kept<M: Monoid<Item = I>>(&self, monoid: M, groups: &[Vec<I>]) -> M::Acc {
        let Parts::Fixed { positions, has, .. } = &self.parts else { unreachable!("registers are counted in advance") };
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

    fn fold_again<M: Monoid<Item = I>>(&self, monoid: M, items: &dyn Fn(Val<u32>) -> Vec<I>) -> M::Acc {
        let acc = vars(monoid.identity());
        self.parts.each_tile(|positions| {
            let groups: Vec<_> = positions.iter().map(|position| items(*position)).collect();
            if M::USES_POSITION {
                for (position, items) in positions.iter().zip(groups) {
                    acc.set(monoid.push_all(acc.get(), &items, Position::new(position.cast(), 0)));
                }
            } else {
                acc.set(monoid.push_all(acc.get(), &groups.concat(), Position::new(positions[0].cast(), 0)));
            }
        });
        acc.get()
    }

    /// Items of the row.
    #[must_use]
    pub const fn len(&self) -> Val<u32> {
        self.parts.of().len
    }

    /// Whether items are in registers, so that nothing that was made of them is made again.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        matches!(self.items, Items::Kept(_))
    }

    /// Each item with what belongs to its position, changed.
    #[track_caller]
    #[must_use]
    pub fn map<C: Copy + 'static, J: 'static>(&self, columns: &Columns<C>, f: impl Fn(I, C) -> J + 'static) -> Held<J> {
        let changed = move |items: &[I], columns: Vec<C>| items.iter().zip(columns).map(|(i, c)| f(*i, c)).collect();
        let items = match &self.items {
            Items::Kept(groups) => {
                let group = |(number, items): (usize, &Vec<I>)| {
                    changed(items, columns.0.group(number, self.parts.position(number)))
                };
                Items::Kept(groups.iter().enumerate().map(group).collect())
            }
            Items::Again(items) => {
                let (items, columns) = (items.clone(), columns.0.clone());
                Items::Again(Rc::new(move |position| changed(&items(position), columns.group(0, position))))
            }
        };
        Held { items, parts: self.parts.clone() }
    }

    /// Each item changed.
    #[track_caller]
    #[must_use]
    pub fn each<J: 'static>(&self, f: impl Fn(I) -> J + 'static) -> Held<J> {
        let changed = move |items: Vec<I>| items.into_iter().map(&f).collect::<Vec<J>>();
        let items = match &self.items {
            Items::Kept(groups) => Items::Kept(groups.iter().cloned().map(changed).collect()),
            Items::Again(items) => {
                let items = items.clone();
                Items::Again(Rc::new(move |position| changed(items(position))))
            }
        };
        Held { items, parts: self.parts.clone() }
    }

    /// Does something with each group: its position, whether the row has it (`None` if it is known to), its items.
    pub(super) fn for_each(&self, body: impl Fn(Val<u32>, Option<Val<bool>>, &[I])) {
        match (&self.items, &self.parts) {
            (Items::Kept(groups), Parts::Fixed { positions, has, .. }) => {
                for (number, items) in groups.iter().enumerate() {
                    body(positions[number], has.as_ref().map(|has| has[number]), items);
                }
            }
            (items, parts) => parts.each_tile(|positions| {
                let groups: Vec<_> = positions.iter().map(|position| items.group(0, *position)).collect();
                positions.iter().zip(groups).for_each(|(position, items)| body(*position, None, &items));
            }),
        }
    }
}

impl<I: Clone> Items<I> {
    /// A group, by number or by position.
    fn group(&self, number: usize, position: Val<u32>) -> Vec<I> {
        match self {
            Self::Kept(groups) => groups[number].clone(),
            Self::Again(items) => items(position),
        }
    }
}

impl Parts {
    const fn of(&self) -> Of {
        match self {
            Self::Fixed { of, .. } | Self::Counted { of, .. } => *of,
        }
    }

    /// The position of the group of a number.
    fn position(&self, number: usize) -> Val<u32> {
        match self {
            Self::Fixed { positions, .. } => positions[number],
            Self::Counted { .. } => unreachable!("groups that are counted at run time have no numbers"),
        }
    }

    /// Does something with the positions of groups that are taken together, until there are no more. Recorded twice: for
    /// as many as are taken at once, and for one.
    fn each_tile(&self, body: impl Fn(&[Val<u32>])) {
        let Self::Counted { start, end, unroll, thread, threads, of } = *self else {
            unreachable!("registers hold what is not made again")
        };
        let round = threads * of.vector;
        let tile = round * unroll;
        let whole = (end - start) & !(tile - 1);
        let mine = start + thread * of.vector;
        range(mine, start + whole, tile, |i| body(&(0..unroll).map(|u| i + u * round).collect::<Vec<_>>()));
        range(mine + whole, end, round, |i| body(&[i]));
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
