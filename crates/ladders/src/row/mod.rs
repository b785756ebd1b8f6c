//! Rows and the threads that share one: what softmax, norms and scaling have in common.
//!
//! A [`RowElement`] is what memory holds; registers compute in `f32`. A `Team` is a warp or a block
//! that shares a row, and folds what its threads have found. `Row` walks over a row, and
//! `InRegisters` is the part of a row that a team keeps in registers, so that it is read once.
//! Every row may have any length: where it is not a multiple of 16 bytes, rows do not start at one
//! either, and elements are accessed one by one, neighbours by neighbouring threads.

mod element;
mod in_registers;
mod problem;
mod walk;

pub use element::RowElement;
pub(crate) use in_registers::InRegisters;
pub(crate) use problem::{Expected, Operator, RowProblem, RowResult};
pub(crate) use walk::Row;
pub(crate) use warpfold_kernels::fold::Team;

/// A kernel for an element type of rows.
macro_rules! typed {
    ($kernel:ident($($config:expr),*)) => {
        |dtype| match dtype {
            warpfold_kernels::Dtype::F32 => warpfold_kernels::AnyKernel::from($kernel::<f32>($($config),*)),
            warpfold_kernels::Dtype::F16 => warpfold_kernels::AnyKernel::from($kernel::<half::f16>($($config),*)),
            warpfold_kernels::Dtype::Bf16 => warpfold_kernels::AnyKernel::from($kernel::<half::bf16>($($config),*)),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}
pub(crate) use typed;

/// The data of a problem for an element type of rows.
macro_rules! open_typed {
    ($dtype:expr, $open:ident($($argument:expr),*)) => {
        match $dtype {
            warpfold_kernels::Dtype::F32 => Ok(Box::new($open::<f32>($($argument),*)?)),
            warpfold_kernels::Dtype::F16 => Ok(Box::new($open::<half::f16>($($argument),*)?)),
            warpfold_kernels::Dtype::Bf16 => Ok(Box::new($open::<half::bf16>($($argument),*)?)),
            dtype => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}
pub(crate) use open_typed;
