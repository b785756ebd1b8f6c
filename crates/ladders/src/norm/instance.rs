//! Rows on a device, to be normed.

use warpfold_device::Device;
use warpfold_kernels::Dtype;

use super::ladder::ROW_LEN;
use super::reference::{layer_norm, rms_norm};
use crate::ladder::{Guards, Instance, Rows, elements_of, samples};
use crate::row::{Operator, RowElement, RowProblem, open_typed};
use crate::{Error, LadderElement};

/// Epsilon added to the variance.
const EPS: f32 = 1e-5;

pub(super) fn open_layer(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    open_typed!(dtype, layer(device, elements_of(size), guards))
}

pub(super) fn open_rms(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    open_typed!(dtype, rms(device, elements_of(size), guards))
}

/// Elements from 1 to 5, so that the mean is larger than what it has to be told apart from.
fn elements<T: RowElement>(size: usize) -> Vec<T> {
    samples::<f32>(7, size).into_iter().map(|x| T::round(2.0 * x + 3.0)).collect()
}

fn as_f64<T: LadderElement>(elements: &[T]) -> Vec<f64> {
    elements.iter().map(|x| x.as_f64()).collect()
}

fn layer<T: RowElement>(device: &Device, size: usize, guards: Guards) -> Result<RowProblem<T>, Error> {
    let rows = Rows::of(size, ROW_LEN);
    let [scale, bias] = [8, 9].map(|seed| samples::<T>(seed, rows.row_len));
    let (scales, biases) = (as_f64(&scale), as_f64(&bias));
    let reference = Box::new(move |row: &[f64]| layer_norm::<T>(row, &scales, &biases, EPS.into()));
    let vectors = &[("scale", scale), ("bias", bias)];
    let operator = Operator { vectors, statistics: &["mean", "rstd"], eps: Some(EPS), reference };
    RowProblem::new(device, rows, elements(size), operator, guards)
}

fn rms<T: RowElement>(device: &Device, size: usize, guards: Guards) -> Result<RowProblem<T>, Error> {
    let rows = Rows::of(size, ROW_LEN);
    let scale = samples::<T>(8, rows.row_len);
    let scales = as_f64(&scale);
    let reference = Box::new(move |row: &[f64]| rms_norm::<T>(row, &scales, EPS.into()));
    let operator = Operator { vectors: &[("scale", scale)], statistics: &["rstd"], eps: Some(EPS), reference };
    RowProblem::new(device, rows, elements(size), operator, guards)
}
