//! Kernels of row operators at lengths around each change of algorithm: to be assembled and
//! inspected.

use warpfold_device::Profile;

use super::{Norm, RowOp, Types, operator_of};
use crate::cross_entropy::{self, CrossEntropyLoss};
use crate::plan::TensorSpec;
use crate::softmax_v::{self, SoftmaxV};
use crate::{Dtype, Shipped};

/// The kernels of rows in shared memory, and of those that a cluster shares.
fn in_shared() -> Vec<Shipped> {
    let norm = Norm { eps: 1e-5, keep_sum: false };
    let softmax = RowOp::Softmax { scale: 1.0 };
    let cases = [
        (softmax, Dtype::Bf16, 0, &[4096, 20_000, 32_768, 50_257, 65_536, 98_304, 131_072, 262_144][..]),
        (RowOp::LogSoftmax { scale: 1.0 }, Dtype::F32, 0, &[32_768, 131_072]),
        (RowOp::LayerNorm(norm), Dtype::Bf16, 0, &[131_072]),
        (RowOp::LayerNorm(norm), Dtype::Bf16, 2, &[32_768, 40_960, 65_536, 131_072]),
        (RowOp::RmsNorm(norm), Dtype::Bf16, 1, &[65_536, 131_072]),
        (RowOp::Quantize { to: Dtype::F8E4M3 }, Dtype::Bf16, 0, &[65_536]),
    ];
    let planned_for = |rows| move |(op, dtype, columns, lens)| planned(op, dtype, columns, (rows, lens), Profile::H200);
    let few = (softmax, Dtype::Bf16, 0, &[131_072, 262_144][..]);
    cases.into_iter().flat_map(planned_for(64)).chain(planned_for(1)(few)).collect()
}

/// The kernels of an operator for so many rows of some lengths.
fn planned(op: RowOp, dtype: Dtype, columns: usize, (rows, lens): (usize, &[usize]), profile: Profile) -> Vec<Shipped> {
    let columns = vec![dtype; columns];
    let operator = operator_of(op, Types { rows: &[dtype], columns: &columns }).expect("the type is supported");
    let kernel = |len: &usize| {
        let tensor = |shape: &[usize]| TensorSpec::contiguous(dtype, shape).expect("few dimensions");
        let problem = operator.problem(vec![tensor(&[rows, *len])], vec![tensor(&[*len]); columns.len()], 1);
        Shipped::planned(&operator, &problem, profile)
    };
    lens.iter().map(kernel).collect()
}

/// All of them.
pub(crate) fn kernels() -> Vec<Shipped> {
    let norm = Norm { eps: 1e-5, keep_sum: false };
    let (softmax, layer_norm) = (RowOp::Softmax { scale: 1.0 }, RowOp::LayerNorm(norm));
    let mut kernels = in_shared();
    for (op, dtype, columns, lens) in [
        (softmax, Dtype::Bf16, 0, &[64, 1024, 16_384, 131_072][..]),
        (softmax, Dtype::F32, 0, &[1001, 4096]),
        (RowOp::LogSoftmax { scale: 0.5 }, Dtype::F64, 0, &[512]),
        (layer_norm, Dtype::F32, 2, &[1024, 8192, 16_384, 100_000]),
        (RowOp::RmsNorm(norm), Dtype::Bf16, 1, &[4096]),
        (RowOp::AbsMaxScale, Dtype::F32, 0, &[128]),
        (RowOp::Quantize { to: Dtype::I8 }, Dtype::Bf16, 0, &[4096]),
        (RowOp::Quantize { to: Dtype::F8E4M3 }, Dtype::F16, 0, &[128]),
    ] {
        kernels.extend(planned(op, dtype, columns, (64, lens), Profile::A100));
    }
    let tensor = |dtype, shape: &[usize]| TensorSpec::contiguous(dtype, shape).expect("few dimensions");
    let (logits, labels) = (tensor(Dtype::Bf16, &[4096, 32_768]), tensor(Dtype::I64, &[4096]));
    let problem = cross_entropy::Problem { logits, labels, ignored: -100 };
    kernels.push(Shipped::planned(&CrossEntropyLoss, &problem, Profile::A100));
    for width in [32, 256] {
        let (scores, values) = (tensor(Dtype::F32, &[8, 64]), tensor(Dtype::F32, &[64, width]));
        kernels.push(Shipped::planned(&SoftmaxV, &softmax_v::Problem { scores, values }, Profile::A100));
    }
    kernels
}
