//! A row operator without its types, so that kernels' bodies are compiled once.

use warpfold_lang::AnyRegisters;

use super::{Columns, Held, RowOperator};

/// What kernels record of any [`RowOperator`]: the same instructions.
pub(super) trait ErasedOperator: Send + Sync {
    /// As [`RowOperator::on_chip`].
    fn on_chip(&self, row: &Held<AnyRegisters>, columns: &Columns<AnyRegisters>) -> (Held<AnyRegisters>, AnyRegisters);

    /// As [`RowOperator::apply`].
    fn apply(&self, item: AnyRegisters, stats: AnyRegisters, columns: AnyRegisters) -> AnyRegisters;
}

impl<O: RowOperator> ErasedOperator for O {
    fn on_chip(&self, row: &Held<AnyRegisters>, columns: &Columns<AnyRegisters>) -> (Held<AnyRegisters>, AnyRegisters) {
        let row = row.each(|item| item.to::<O::Item>());
        let (results, stats) = RowOperator::on_chip(*self, &row, &columns.each(|column| column.to()));
        (results.each(AnyRegisters::of), AnyRegisters::of(stats))
    }

    fn apply(&self, item: AnyRegisters, stats: AnyRegisters, columns: AnyRegisters) -> AnyRegisters {
        AnyRegisters::of(RowOperator::apply(*self, item.to(), stats.to(), columns.to()))
    }
}
