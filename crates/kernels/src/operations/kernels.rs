//! Kernels of maps as they ship, to be assembled and compared: one for each feature of a kernel.

use warpfold_device::Profile;

use super::{Operation, Options, map_of};
use crate::layout::Layout;
use crate::plan::TensorSpec;
use crate::{Dtype, Shipped};

/// The layouts of a listed map.
#[derive(Debug, Clone, Copy)]
enum Arrangement {
    /// Contiguous, many elements: several accesses of 16 bytes per thread.
    Long,
    /// Rows, over which the last input is broadcast.
    Rows,
    /// The first input is transposed.
    Transposed,
    /// One element after a multiple of 16 bytes.
    Shifted,
}

const LISTED: &[(Operation, Dtype, Option<Dtype>, Arrangement)] = &[
    (Operation::Copy, Dtype::U8, None, Arrangement::Long),
    (Operation::Copy, Dtype::F16, None, Arrangement::Transposed),
    (Operation::Neg, Dtype::F16, None, Arrangement::Shifted),
    (Operation::Fill, Dtype::F32, Some(Dtype::F32), Arrangement::Long),
    (Operation::Cast, Dtype::F32, Some(Dtype::F8E4M3), Arrangement::Long),
    (Operation::Cast, Dtype::F64, Some(Dtype::I64), Arrangement::Transposed),
    (Operation::Gelu, Dtype::Bf16, None, Arrangement::Long),
    (Operation::Sin, Dtype::F32, None, Arrangement::Long),
    (Operation::Add, Dtype::F32, None, Arrangement::Long),
    (Operation::Sub, Dtype::F16, None, Arrangement::Rows),
    (Operation::Pow, Dtype::F64, None, Arrangement::Long),
    (Operation::Pow, Dtype::I8, None, Arrangement::Long),
    (Operation::Rem, Dtype::F64, None, Arrangement::Long),
    (Operation::Div, Dtype::I64, None, Arrangement::Rows),
    (Operation::Clamp, Dtype::F16, None, Arrangement::Long),
    (Operation::Fma, Dtype::F32, None, Arrangement::Transposed),
];

/// The kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    LISTED.iter().map(|(operation, dtype, to, arrangement)| kernel(*operation, *dtype, *to, *arrangement)).collect()
}

fn kernel(operation: Operation, dtype: Dtype, to: Option<Dtype>, arrangement: Arrangement) -> Shipped {
    let layout = |shape: &[usize], strides: &[isize]| {
        Layout::new(shape.to_vec(), strides.to_vec()).expect("a listed layout has few dimensions")
    };
    let inputs = operation.inputs();
    let matrix = layout(&[1 << 12, 1 << 12], &[1 << 12, 1]);
    let (mut layouts, output) = match arrangement {
        Arrangement::Long | Arrangement::Shifted => (vec![layout(&[1 << 24], &[1]); inputs], layout(&[1 << 24], &[1])),
        Arrangement::Rows | Arrangement::Transposed => (vec![matrix.clone(); inputs], matrix),
    };
    match arrangement {
        Arrangement::Rows => layouts[inputs - 1] = layout(&[1 << 12], &[1]),
        Arrangement::Transposed => layouts[0] = layout(&[1 << 12, 1 << 12], &[1, 1 << 12]),
        Arrangement::Long | Arrangement::Shifted => {}
    }
    let shift = if matches!(arrangement, Arrangement::Shifted) { dtype.bytes() } else { 0 };
    let tensor = |(i, layout): (usize, Layout)| TensorSpec::new(dtype, layout, if i == 0 { shift } else { 0 });
    let map = map_of(operation, &vec![dtype; inputs], &Options { dtype: to, ..Options::default() });
    let map = map.expect("a listed operation exists for its type");
    let tensors = layouts.into_iter().enumerate().map(tensor).collect();
    let problem = map.problem(tensors, vec![TensorSpec::new(map.outputs()[0], output, 0)]);
    Shipped::planned(&map, &problem, Profile::H200)
}
