//! What a row operator is.

use warpfold_lang::FixedRegisters;

use super::{Columns, OnChipRow};
use crate::fold::Monoid;

/// What an operator computes of a row on chip; how many threads share a row depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// A fold and a map.
    Light,
    /// Two folds, one after the other.
    TwoFolds,
    /// Exponentials: threads begin with the part of a row that has arrived as soon as they can.
    Heavy,
}

/// How the elements of a row become its results.
///
/// It is written twice: [`on_chip`](RowOperator::on_chip) has the whole row in registers or shared
/// memory and may fold it more than once; [`apply`](RowOperator::apply), for long rows, has one
/// item and the result of a fold of [`monoid`](RowOperator::monoid) over the row.
pub trait RowOperator: Copy + Send + Sync + 'static {
    /// An item of a row.
    type Item: FixedRegisters + 'static;
    /// What belongs to a position in every row: a scale, a bias.
    type Columns: FixedRegisters + 'static;
    /// The statistics of a row.
    type Stats: FixedRegisters + 'static;
    /// The result of an item.
    type Out: FixedRegisters + 'static;
    /// The fold that gives the statistics.
    type Monoid: Monoid<Item = Self::Item, Output = Self::Stats>;

    /// What an item costs.
    const COST: Cost = Cost::Light;

    /// The fold that gives the statistics.
    fn monoid(self) -> Self::Monoid;

    /// The results of a row on chip, and its statistics.
    fn on_chip(
        self,
        row: &OnChipRow<Self::Item>,
        columns: &Columns<Self::Columns>,
    ) -> (OnChipRow<Self::Out>, Self::Stats) {
        let stats = row.fold(self.monoid());
        (row.map_with(columns, move |item, columns| self.apply(item, stats, columns)), stats)
    }

    /// The result of one item.
    fn apply(self, item: Self::Item, stats: Self::Stats, columns: Self::Columns) -> Self::Out;
}
