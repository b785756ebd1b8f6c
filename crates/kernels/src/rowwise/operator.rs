//! What a row operator is.

use warpfold_lang::FixedRegisters;

use super::{Columns, Held};
use crate::fold::Monoid;

/// What an operator does to an item of a row on chip: how many threads a row wants goes by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// A fold and a map.
    Light,
    /// Two folds, one behind the other.
    TwoFolds,
    /// Exponentials: threads begin with what has come of a row as soon as they can.
    Heavy,
}

/// How the elements of a row become its results.
///
/// It is written twice, once for each place that a row can have: [`on_chip`](RowOperator::on_chip) has the whole row on
/// chip, and may fold it as often as it likes; [`apply`](RowOperator::apply) sees one item, with what a fold of
/// [`monoid`](RowOperator::monoid) over the row gave before.
pub trait RowOperator: Copy + Send + Sync + 'static {
    /// An item of a row.
    type Item: FixedRegisters + 'static;
    /// What belongs to a position of every row: a scale, a bias.
    type Columns: FixedRegisters + 'static;
    /// What the whole row tells.
    type Stats: FixedRegisters + 'static;
    /// What an item becomes.
    type Out: FixedRegisters + 'static;
    /// The fold that gives the statistics.
    type Monoid: Monoid<Item = Self::Item, Output = Self::Stats>;

    /// What an item costs.
    const COST: Cost = Cost::Light;

    /// The fold that gives the statistics.
    fn monoid(self) -> Self::Monoid;

    /// The results of a row on chip, and its statistics.
    fn on_chip(self, row: &Held<Self::Item>, columns: &Columns<Self::Columns>) -> (Held<Self::Out>, Self::Stats) {
        let stats = row.fold(self.monoid());
        (row.map(columns, move |item, columns| self.apply(item, stats, columns)), stats)
    }

    /// The result of one item.
    fn apply(self, item: Self::Item, stats: Self::Stats, columns: Self::Columns) -> Self::Out;
}
