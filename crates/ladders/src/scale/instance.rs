//! Rows on a device, to be scaled.

use warpfold_device::Device;
use warpfold_kernels::Dtype;

use super::ladder::COLUMNS;
use super::reference::scale;
use crate::Error;
use crate::ladder::{Guards, Instance, Rows, samples};
use crate::row::{Operator, RowElement, RowProblem, open_typed};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    open_typed!(dtype, rows(device, size, guards))
}

/// Elements of another magnitude in each row, with a row of zeros now and then.
fn rows<T: RowElement>(device: &Device, size: u64, guards: Guards) -> Result<RowProblem<T>, Error> {
    let rows = Rows::with(size, &COLUMNS);
    let scaled = |(i, x): (usize, f32)| T::round(x * [1.0, 100.0, 0.01, 0.0][i / rows.row_len % 4]);
    let elements = samples::<f32>(6, rows.num_rows * rows.row_len).into_iter().enumerate().map(scaled).collect();
    let reference = Box::new(scale::<T>);
    let operator = Operator { vectors: &[], statistics: &["scales"], eps: None, reference };
    RowProblem::new(device, rows, elements, operator, guards)
}
