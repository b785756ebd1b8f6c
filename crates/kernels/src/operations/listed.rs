//! Kernels of maps as they ship, to be assembled and compared: one for each thing that a kernel may do.

use warpfold_device::Profile;

use super::{Operation, Options, map_of};
use crate::layout::Layout;
use crate::plan::TensorSpec;
use crate::{Dtype, Shipped};

/// How the tensors of a listed map lie.
#[derive(Debug, Clone, Copy)]
enum Lie {
    /// Side by side, many of them: several accesses of 16 bytes a thread.
    Long,
    /// As rows, over which the last input repeats.
    Rows,
    /// The first input along the other dimension.
    Turned,
    /// One element beside a multiple of 16 bytes.
    Shifted,
}

const LISTED: &[(Operation, Dtype, Option<Dtype>, Lie)] = &[
    (Operation::Copy, Dtype::U8, None, Lie::Long),
    (Operation::Copy, Dtype::F16, None, Lie::Turned),
    (Operation::Neg, Dtype::F16, None, Lie::Shifted),
    (Operation::Fill, Dtype::F32, Some(Dtype::F32), Lie::Long),
    (Operation::Cast, Dtype::F32, Some(Dtype::F8E4M3), Lie::Long),
    (Operation::Cast, Dtype::F64, Some(Dtype::I64), Lie::Turned),
    (Operation::Gelu, Dtype::Bf16, None, Lie::Long),
    (Operation::Sin, Dtype::F32, None, Lie::Long),
    (Operation::Add, Dtype::F32, None, Lie::Long),
    (Operation::Sub, Dtype::F16, None, Lie::Rows),
    (Operation::Pow, Dtype::F64, None, Lie::Long),
    (Operation::Pow, Dtype::I8, None, Lie::Long),
    (Operation::Rem, Dtype::F64, None, Lie::Long),
    (Operation::Div, Dtype::I64, None, Lie::Rows),
    (Operation::Clamp, Dtype::F16, None, Lie::Long),
    (Operation::Fma, Dtype::F32, None, Lie::Turned),
];

/// The kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    LISTED.iter().map(|(operation, dtype, to, lie)| kernel(*operation, *dtype, *to, *lie)).collect()
}

fn kernel(operation: Operation, dtype: Dtype, to: Option<Dtype>, lie: Lie) -> Shipped {
    let layout = |shape: &[usize], strides: &[isize]| {
        Layout::new(shape.to_vec(), strides.to_vec()).expect("a listed layout has few dimensions")
    };
    let inputs = operation.inputs();
    let matrix = layout(&[1 << 12, 1 << 12], &[1 << 12, 1]);
    let (mut layouts, output) = match lie {
        Lie::Long | Lie::Shifted => (vec![layout(&[1 << 24], &[1]); inputs], layout(&[1 << 24], &[1])),
        Lie::Rows | Lie::Turned => (vec![matrix.clone(); inputs], matrix),
    };
    match lie {
        Lie::Rows => layouts[inputs - 1] = layout(&[1 << 12], &[1]),
        Lie::Turned => layouts[0] = layout(&[1 << 12, 1 << 12], &[1, 1 << 12]),
        Lie::Long | Lie::Shifted => {}
    }
    let shift = if matches!(lie, Lie::Shifted) { dtype.bytes() } else { 0 };
    let tensor = |(i, layout): (usize, Layout)| TensorSpec::new(dtype, layout, if i == 0 { shift } else { 0 });
    let map = map_of(operation, &vec![dtype; inputs], &Options { dtype: to, ..Options::default() });
    let map = map.expect("a listed operation exists for its type");
    let tensors = layouts.into_iter().enumerate().map(tensor).collect();
    let problem = map.problem(tensors, vec![TensorSpec::new(map.outputs()[0], output, 0)]);
    Shipped::planned(&map, &problem, Profile::H200)
}
