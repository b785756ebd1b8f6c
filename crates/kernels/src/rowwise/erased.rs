//! A row operator without its types, so that kernels' bodies are compiled once.

use warpfold_lang::AnyRegisters;

use super::{Columns, OnChipRow, RowOperator};

/// What kernels record of any [`RowOperator`]: the same instructions.
pub(super) trait ErasedOperator: Send + Sync {
    /// As [`RowOperator::on_chip`].
    fn on_chip(
        &self,
        row: &OnChipRow<AnyRegisters>,
        columns: &Columns<AnyRegisters>,
    ) -> (OnChipRow<AnyRegisters>, AnyRegisters);

    /// As [`RowOperator::apply`].
    fn apply(&self, item: AnyRegisters, stats: AnyRegisters, columns: AnyRegisters) -> AnyRegisters;
}

impl<O: RowOperator> ErasedOperator for O {
    fn on_chip(
        &self,
        row: &OnChipRow<AnyRegisters>,
        columns: &Columns<AnyRegisters>,
    ) -> (OnChipRow<AnyRegisters>, AnyRegisters) {
        let row = row.map(|item| item.to::<O::Item>());
        let (results, stats) = RowOperator::on_chip(*self, &row, &columns.map(|column| column.to()));
        (results.map(AnyRegisters::of), AnyRegisters::of(stats))
    }

    fn apply(&self, item: AnyRegisters, stats: AnyRegisters, columns: AnyRegisters) -> AnyRegisters {
        AnyRegisters::of(RowOperator::apply(*self, item.to(), stats.to(), columns.to()))
    }
}
