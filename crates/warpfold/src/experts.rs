//! Mixtures of experts (MoE).

use warpfold_kernels::experts::{self, Problem, Weights};
use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

/// The weights of a mixture of experts, and how they are chosen.
#[derive(Debug, Clone)]
pub struct Experts {
    /// `[experts, 2 · inner, hidden]`: of the gate, then of `up`.
    pub gate_up: Tensor,
    /// `[experts, hidden, inner]`.
    pub down: Tensor,
    /// Experts of a row.
    pub chosen: usize,
    /// Normalisation of the weights of the chosen experts.
    pub weights: Weights,
}

impl Experts {
    /// `residual + Σ w_e · down_e(silu(gate_e x) · up_e x)` over the experts `e` with the largest
    /// of a row's logits (`[rows, experts]` of `f32`; of equals the lower), for rows `x` and a
    /// residual of `[rows, hidden]`. The bits of a row do not depend on the other rows.
    ///
    /// ```
    /// use warpfold::{Device, Experts, ExpertWeights, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let tensor = |numbers: &[f32], shape: &[usize]| Tensor::from_slice(numbers, shape, &device);
    /// // Two experts of one element: silu(x · gate) · x · up · down.
    /// let gate_up = tensor(&[100.0, 1.0, 100.0, 10.0], &[2, 2, 1])?;
    /// let down = tensor(&[1.0, 1.0], &[2, 1, 1])?;
    /// let experts = Experts { gate_up, down, chosen: 1, weights: ExpertWeights::Normalized };
    /// let (x, logits) = (tensor(&[1.0, 1.0], &[2, 1])?, tensor(&[0.0, 1.0, 2.0, 2.0], &[2, 2])?);
    /// let y = experts.run(&x, &logits, &tensor(&[0.0, 5.0], &[2, 1])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1000.0, 105.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other, [`ErrorKind::DtypeMismatch`],
    /// [`ErrorKind::Unsupported`] unless the elements are `f32`, `f16` or `bf16`; what the device
    /// says.
    pub fn run(&self, x: &Tensor, logits: &Tensor, residual: &Tensor) -> Result<Tensor, Error> {
        let ([rows, hidden], [num, lines, _]) = (x.shape(), self.gate_up.shape()) else {
            let reason = format!("rows are {:?}, weights {:?}", x.shape(), self.gate_up.shape());
            return Err(ErrorKind::Operand { operator: "experts", reason }.into());
        };
        let (rows, hidden, num, inner) = (*rows, *hidden, *num, lines / 2);
        expect("the logits", logits, &[rows, num])?;
        expect("the residual", residual, &[rows, hidden])?;
        expect("the weights of gate and up", &self.gate_up, &[num, 2 * inner, hidden])?;
        expect("the weights of down", &self.down, &[num, hidden, inner])?;
        logits.expect_dtype("the logits", Dtype::F32)?;
        let others = [("gate and up", &self.gate_up), ("down", &self.down), ("the residual", residual)];
        for (name, other) in others {
            other.expect_dtype(name, x.dtype())?;
        }
        let inputs = [x, logits, &self.gate_up, &self.down, residual];
        let inputs: Vec<Tensor> = inputs.into_iter().map(Tensor::contiguous).collect::<Result<_, _>>()?;
        let mut output = Allocated::new(x.queue(), x.dtype(), &[rows, hidden])?;
        let problem = Problem {
            dtype: x.dtype(),
            rows: rows as u64,
            hidden: hidden as u64,
            inner: inner as u64,
            experts: num as u64,
            chosen: self.chosen as u64,
            weights: self.weights,
            alignment: alignment_of(inputs.iter().map(Tensor::address)),
        };
        let views = inputs.iter().map(|tensor| tensor.memory_view().map(Some)).collect::<Result<Vec<_>, _>>()?;
        x.queue().run(&experts::Experts, problem, &views, &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }
}

fn expect(name: &str, tensor: &Tensor, expected: &[usize]) -> Result<(), Error> {
    if tensor.shape() == expected {
        return Ok(());
    }
    let reason = format!("{name} have the shape {:?}, not {expected:?}", tensor.shape());
    Err(ErrorKind::Operand { operator: "experts", reason }.into())
}
