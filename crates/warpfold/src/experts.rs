//! Mixtures of experts (MoE).

use warpfold_device::View;
use warpfold_kernels::experts::{self, Gating, Problem, Weights};
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
    /// The biases of both products, `[experts, 2 · inner]` and `[experts, hidden]`, where the gate
    /// is [`ExpertGating::Clamped`](Gating::Clamped); without, it is
    /// [`ExpertGating::Silu`](Gating::Silu).
    pub biases: Option<[Tensor; 2]>,
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
    /// let experts = Experts { gate_up, down, chosen: 1, weights: ExpertWeights::Normalized, biases: None };
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
        let problem = self.problem(x, logits)?;
        expect(
            "the weights of gate and up",
            &self.gate_up,
            &[logits.shape()[1], self.gate_up.shape()[1], x.shape()[1]],
        )?;
        expect("the residual", residual, x.shape())?;
        residual.expect_dtype("the residual", x.dtype())?;
        let inputs = contiguous(&self.inputs(x, logits).chain([residual]).collect::<Vec<_>>())?;
        let problem = Problem { alignment: alignment_of(inputs.iter().map(Tensor::address)), ..problem };
        let mut output = Allocated::new(x.queue(), x.dtype(), x.shape())?;
        x.queue().run(&experts::Experts, problem, &views(&inputs)?, &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }

    /// Multiplies by the experts that are here, of a mixture with more of them: those from `first`
    /// on. Where [`ExpertSlots::sum`] adds what all of them give, it has the bits of
    /// [`Experts::run`].
    ///
    /// ```
    /// use warpfold::{Device, Experts, ExpertWeights, Profile, ExpertSlots, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let tensor = |numbers: &[f32], shape: &[usize]| Tensor::from_slice(numbers, shape, &device);
    /// // The second of two experts.
    /// let (gate_up, down) = (tensor(&[100.0, 10.0], &[1, 2, 1])?, tensor(&[1.0], &[1, 1, 1])?);
    /// let experts = Experts { gate_up, down, chosen: 1, weights: ExpertWeights::Normalized, biases: None };
    /// let (x, logits) = (tensor(&[1.0, 1.0], &[2, 1])?, tensor(&[0.0, 1.0, 2.0, 0.0], &[2, 2])?);
    /// let ExpertSlots { results, shares } = experts.slots(1, &x, &logits)?;
    /// assert_eq!(results.to_vec::<f32>()?, [1000.0, 0.0]);
    /// assert_eq!(shares.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Experts::run`].
    pub fn slots(&self, first: usize, x: &Tensor, logits: &Tensor) -> Result<ExpertSlots, Error> {
        let problem = self.problem(x, logits)?;
        let inputs = contiguous(&self.inputs(x, logits).collect::<Vec<_>>())?;
        let alignment = alignment_of(inputs.iter().map(Tensor::address));
        let problem = Problem { first: first as u64, sums: false, alignment, ..problem };
        let slots = [x.shape()[0], self.chosen];
        let mut results = Allocated::new(x.queue(), Dtype::F32, &[slots[0], slots[1], x.shape()[1]])?;
        let mut shares = Allocated::new(x.queue(), Dtype::F32, &slots)?;
        let outputs = &mut [results.buffer.as_view_mut(), shares.buffer.as_view_mut()];
        x.queue().run(&experts::Experts, problem, &views(&inputs)?, outputs)?;
        Ok(ExpertSlots { results: results.finish(), shares: shares.finish() })
    }

    fn inputs<'a>(&'a self, x: &'a Tensor, logits: &'a Tensor) -> impl Iterator<Item = &'a Tensor> {
        [x, logits, &self.gate_up, &self.down].into_iter().chain(self.biases.iter().flatten())
    }

    /// The sizes, but for the alignment, if all but the number of experts fit each other.
    fn problem(&self, x: &Tensor, logits: &Tensor) -> Result<Problem, Error> {
        let (&[rows, hidden], &[_, num], &[own, lines, _]) = (x.shape(), logits.shape(), self.gate_up.shape()) else {
            let reason =
                format!("rows are {:?}, logits {:?}, weights {:?}", x.shape(), logits.shape(), self.gate_up.shape());
            return Err(ErrorKind::Operand { operator: "experts", reason }.into());
        };
        let inner = lines / 2;
        expect("the logits", logits, &[rows, num])?;
        expect("the weights of gate and up", &self.gate_up, &[own, 2 * inner, hidden])?;
        expect("the weights of down", &self.down, &[own, hidden, inner])?;
        logits.expect_dtype("the logits", Dtype::F32)?;
        self.gate_up.expect_dtype("gate and up", x.dtype())?;
        self.down.expect_dtype("down", x.dtype())?;
        if let Some([of_gate_up, of_down]) = &self.biases {
            expect("the biases of gate and up", of_gate_up, &[own, 2 * inner])?;
            expect("the biases of down", of_down, &[own, hidden])?;
            of_gate_up.expect_dtype("the biases of gate and up", x.dtype())?;
            of_down.expect_dtype("the biases of down", x.dtype())?;
        }
        Ok(Problem {
            dtype: x.dtype(),
            rows: rows as u64,
            hidden: hidden as u64,
            inner: inner as u64,
            experts: num as u64,
            first: 0,
            own: own as u64,
            sums: true,
            chosen: self.chosen as u64,
            weights: self.weights,
            gating: if self.biases.is_some() { Gating::Clamped } else { Gating::Silu },
            alignment: 1,
        })
    }
}

/// Contributions of experts to the rows that chose them.
#[derive(Debug, Clone)]
pub struct ExpertSlots {
    /// `[rows, chosen, hidden]` of `f32`: of each row and each of its experts, the largest logit
    /// first; zero where the expert is elsewhere.
    pub results: Tensor,
    /// `[rows, chosen]` of `f32`: the weights of the experts of each row.
    pub shares: Tensor,
}

impl ExpertSlots {
    /// `residual + Σ w_s · y_s` over the slots `s` of each row, in order, rounded once.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other, [`ErrorKind::DtypeMismatch`],
    /// [`ErrorKind::Unsupported`] unless the residual is `f32`, `f16` or `bf16`; what the device
    /// says.
    pub fn sum(&self, residual: &Tensor) -> Result<Tensor, Error> {
        let &[rows, chosen, hidden] = self.results.shape() else {
            let reason = format!("what slots give has the shape {:?}", self.results.shape());
            return Err(ErrorKind::Operand { operator: "experts", reason }.into());
        };
        expect("the weights of slots", &self.shares, &[rows, chosen])?;
        expect("the residual", residual, &[rows, hidden])?;
        self.results.expect_dtype("what slots give", Dtype::F32)?;
        self.shares.expect_dtype("the weights of slots", Dtype::F32)?;
        let inputs = contiguous(&[&self.results, &self.shares, residual])?;
        let [rows, hidden, chosen] = [rows, hidden, chosen].map(|size| size as u64);
        let problem = Problem {
            dtype: residual.dtype(),
            rows,
            hidden,
            inner: 0,
            experts: chosen,
            first: 0,
            own: 0,
            sums: true,
            chosen,
            weights: Weights::Share,
            gating: Gating::Silu,
            alignment: 1,
        };
        let mut output = Allocated::new(residual.queue(), residual.dtype(), residual.shape())?;
        residual.queue().run(&experts::Experts, problem, &views(&inputs)?, &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }
}

fn contiguous(inputs: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    inputs.iter().map(|tensor| tensor.contiguous()).collect()
}

fn views(inputs: &[Tensor]) -> Result<Vec<Option<View<'_, u8>>>, Error> {
    inputs.iter().map(|tensor| tensor.memory_view().map(Some)).collect()
}

fn expect(name: &str, tensor: &Tensor, expected: &[usize]) -> Result<(), Error> {
    if tensor.shape() == expected {
        return Ok(());
    }
    let reason = format!("{name} have the shape {:?}, not {expected:?}", tensor.shape());
    Err(ErrorKind::Operand { operator: "experts", reason }.into())
}
