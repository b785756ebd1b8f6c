//! Mixtures of experts (MoE).

use warpfold_device::View;
use warpfold_kernels::experts::{
    self, ExpertFormat, ExpertLines, Gating, Mxfp4Numbers, PackExperts, PackProblem, Problem, Weights,
};
use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

/// The weights of a mixture of experts, and how they are chosen.
#[derive(Debug, Clone)]
pub struct Experts {
    /// `[experts, 2 · inner, hidden]`: of the gate, then of `up`.
    pub gate_up: ExpertMatrices,
    /// `[experts, hidden, inner]`.
    pub down: ExpertMatrices,
    /// Experts of a row.
    pub chosen: usize,
    /// Normalisation of the weights of the chosen experts.
    pub weights: Weights,
    /// The biases of both products, `[experts, 2 · inner]` and `[experts, hidden]`, where the gate
    /// is [`ExpertGating::Clamped`](Gating::Clamped); without, it is
    /// [`ExpertGating::Silu`](Gating::Silu).
    pub biases: Option<[Tensor; 2]>,
}

/// The matrices of experts, all of one shape.
#[derive(Debug, Clone)]
pub enum ExpertMatrices {
    /// Numbers, of the type of the rows.
    Plain(Tensor),
    /// Weights of 4 bits. Results have the bits of [`Mxfp4::to_matrix`] in the type of the rows.
    Mxfp4(Mxfp4),
    /// Either, laid out for tensor cores by [`Experts::packed`].
    Packed(PackedExperts),
}

/// Matrices of experts, laid out for tensor cores.
#[derive(Debug, Clone)]
pub struct PackedExperts {
    bytes: Tensor,
    problem: PackProblem,
    /// The type of the rows.
    dtype: Dtype,
}

impl PackedExperts {
    /// The numbers, `[experts, rows, columns]`, in the type of the rows that they are packed for.
    ///
    /// # Errors
    /// What the device says.
    pub fn to_matrix(&self) -> Result<Tensor, Error> {
        let Self { bytes, problem, dtype } = self;
        let shape = problem.shape.map(|size| size as usize);
        let (input, back) = ([bytes.memory_view().map(Some)?], PackProblem { is_back: true, ..*problem });
        let queue = bytes.queue();
        if problem.format == ExpertFormat::Plain {
            let mut numbers = Allocated::new(queue, *dtype, &shape)?;
            queue.run(&PackExperts, back, &input, &mut [numbers.buffer.as_view_mut()])?;
            return Ok(numbers.finish());
        }
        let of_row = |by: usize| [shape[0], shape[1], shape[2] / by];
        let mut codes = Allocated::new(queue, Dtype::U8, &of_row(2))?;
        let mut scales = Allocated::new(queue, Dtype::U8, &of_row(Mxfp4Numbers::GROUP as usize))?;
        let outputs = &mut [codes.buffer.as_view_mut(), scales.buffer.as_view_mut()];
        queue.run(&PackExperts, back, &input, outputs)?;
        Mxfp4::new(codes.finish(), scales.finish())?.to_matrix(*dtype)
    }

    /// The bytes that the packed weights take.
    #[must_use]
    pub fn num_bytes(&self) -> u64 {
        self.problem.bytes()
    }

    /// The address of the packed weights, which tells them from others.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.bytes.address()
    }
}

impl From<Tensor> for ExpertMatrices {
    fn from(tensor: Tensor) -> Self {
        Self::Plain(tensor)
    }
}

impl From<Mxfp4> for ExpertMatrices {
    fn from(weights: Mxfp4) -> Self {
        Self::Mxfp4(weights)
    }
}

impl ExpertMatrices {
    /// The shape of the matrices, `[experts, rows, columns]`.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Self::Plain(tensor) => tensor.shape().to_vec(),
            Self::Mxfp4(weights) => weights.shape(),
            Self::Packed(packed) => packed.problem.shape.map(|size| size as usize).to_vec(),
        }
    }

    /// The bytes that the weights take.
    #[must_use]
    pub fn num_bytes(&self) -> u64 {
        self.tensors().into_iter().flatten().map(|tensor| tensor.len() as u64 * tensor.dtype().bytes()).sum()
    }

    fn tensors(&self) -> [Option<&Tensor>; 2] {
        match self {
            Self::Plain(tensor) => [Some(tensor), None],
            Self::Mxfp4(Mxfp4 { codes, scales }) => [Some(codes), Some(scales)],
            Self::Packed(packed) => [Some(&packed.bytes), None],
        }
    }

    fn format(&self) -> ExpertFormat {
        match self {
            Self::Plain(_) => ExpertFormat::Plain,
            Self::Mxfp4(_) => ExpertFormat::Mxfp4,
            Self::Packed(packed) => packed.problem.format,
        }
    }

    fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    /// The same matrices, laid out for tensor cores that multiply rows of a type.
    fn packed(&self, dtype: Dtype, lines: ExpertLines) -> Result<Self, Error> {
        let (format, shape) = (self.format(), self.shape());
        let &[own, num_lines, columns] = &shape[..] else {
            let reason = format!("the weights have the shape {shape:?}");
            return Err(ErrorKind::Operand { operator: "packed experts", reason }.into());
        };
        self.expect_dtype("the weights", dtype)?;
        let shape = [own, num_lines, columns].map(|size| size as u64);
        let problem = PackProblem { format, lines, shape, is_back: false };
        let inputs = contiguous(&self.tensors().into_iter().flatten().collect::<Vec<_>>())?;
        let queue = inputs[0].queue();
        let mut bytes = Allocated::new(queue, Dtype::U8, &[problem.bytes() as usize])?;
        queue.run(&PackExperts, problem, &views(&inputs)?, &mut [bytes.buffer.as_view_mut()])?;
        Ok(Self::Packed(PackedExperts { bytes: bytes.finish(), problem, dtype }))
    }

    fn expect_dtype(&self, name: &str, dtype: Dtype) -> Result<(), Error> {
        match self {
            Self::Plain(tensor) => tensor.expect_dtype(name, dtype),
            Self::Mxfp4(_) => Ok(()),
            Self::Packed(packed) if packed.dtype == dtype => Ok(()),
            Self::Packed(packed) => packed.bytes.expect_dtype(name, packed.dtype),
        }
    }
}

/// Weights of 4 bits with a power of two for each 32 neighbours (MXFP4: OCP Microscaling Formats
/// specification 1.0).
#[derive(Debug, Clone)]
pub struct Mxfp4 {
    codes: Tensor,
    scales: Tensor,
}

impl Mxfp4 {
    /// Codes `[.., columns / 2]`, two in a byte with the low half first, and scales `[..,
    /// columns / 32]`, `2^(byte - 127)`, both of `u8`.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Mxfp4, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// // 1.5 and -6, times 2.
    /// let codes = [&[0xf3_u8][..], &[0; 15]].concat();
    /// let (codes, scales) = (Tensor::from_slice(&codes, (1, 16), &device)?, [128_u8]);
    /// let weights = Mxfp4::new(codes, Tensor::from_slice(&scales, (1, 1), &device)?)?;
    /// assert_eq!(weights.to_matrix(Dtype::F32)?.to_vec::<f32>()?[..3], [3.0, -12.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`], [`ErrorKind::Operand`] unless there is a scale for each 16
    /// bytes of codes; what the device says.
    pub fn new(codes: Tensor, scales: Tensor) -> Result<Self, Error> {
        codes.expect_dtype("codes of MXFP4", Dtype::U8)?;
        scales.expect_dtype("scales of MXFP4", Dtype::U8)?;
        let mut expected = codes.shape().to_vec();
        let of_group = Mxfp4Numbers::GROUP as usize / 2;
        match expected.last_mut() {
            Some(columns) if columns.is_multiple_of(of_group) => *columns /= of_group,
            _ => {
                let reason = format!("codes of the shape {:?} are not in groups of 16 bytes", codes.shape());
                return Err(ErrorKind::Operand { operator: "MXFP4", reason }.into());
            }
        }
        expect("the scales", &scales, &expected)?;
        Ok(Self { codes: codes.contiguous()?, scales: scales.contiguous()? })
    }

    /// The shape of the numbers.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.codes.shape().to_vec();
        shape.last_mut().into_iter().for_each(|columns| *columns *= 2);
        shape
    }

    /// The address of the codes, which tells the weights from others.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.codes.address()
    }

    /// The same weights in another shape, whose rows are groups of 32.
    ///
    /// # Errors
    /// Those of [`Tensor::reshape`], and of [`Mxfp4::new`].
    pub fn reshape(&self, shape: &[usize]) -> Result<Self, Error> {
        let by = |factor: usize| {
            let mut shape = shape.to_vec();
            shape.last_mut().into_iter().for_each(|columns| *columns /= factor);
            shape
        };
        Self::new(self.codes.reshape(&by(2))?, self.scales.reshape(&by(Mxfp4Numbers::GROUP as usize))?)
    }

    /// The numbers, in `f32`, `f16` or `bf16`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for other types; what the device says.
    pub fn to_matrix(&self, dtype: Dtype) -> Result<Tensor, Error> {
        let mut numbers = Allocated::new(self.codes.queue(), dtype, &self.shape())?;
        let inputs = contiguous(&[&self.codes, &self.scales])?;
        let problem = (2 * self.codes.len() as u64, dtype);
        let outputs = &mut [numbers.buffer.as_view_mut()];
        self.codes.queue().run(&Mxfp4Numbers, problem, &views(&inputs)?, outputs)?;
        Ok(numbers.finish())
    }
}

impl Experts {
    /// The same experts, laid out for tensor cores where the device has WGMMA and the rows, of
    /// `dtype`, are `f16` or `bf16`: many times as fast, with sums in the order of matrix products.
    /// The bits are those of packed numbers whatever the storage is. Others stay as they are.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`], [`ErrorKind::DtypeMismatch`]; what the device says.
    pub fn packed(self, dtype: Dtype) -> Result<Self, Error> {
        let sizes = [self.gate_up.shape(), self.down.shape()];
        let fits = |shape: &Vec<usize>| shape.iter().all(|size| *size > 0) && shape[shape.len() - 1].is_multiple_of(8);
        let has_wgmma = match self.gate_up.tensors()[0] {
            Some(tensor) => tensor.queue().device().limits().has_wgmma,
            None => false,
        };
        if !has_wgmma || dtype == Dtype::F32 || !sizes.iter().all(fits) {
            return Ok(self);
        }
        let gate_up = self.gate_up.packed(dtype, ExpertLines::of_gate(self.gating()))?;
        Ok(Self { gate_up, down: self.down.packed(dtype, ExpertLines::Outputs)?, ..self })
    }

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
    /// let experts = Experts {
    ///     gate_up: gate_up.into(),
    ///     down: down.into(),
    ///     chosen: 1,
    ///     weights: ExpertWeights::Normalized,
    ///     biases: None,
    /// };
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
        let expected = [logits.shape()[1], self.gate_up.shape()[1], x.shape()[1]];
        expect_shape("the weights of gate and up", &self.gate_up.shape(), &expected)?;
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
    /// let experts = Experts {
    ///     gate_up: gate_up.into(),
    ///     down: down.into(),
    ///     chosen: 1,
    ///     weights: ExpertWeights::Normalized,
    ///     biases: None,
    /// };
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

    fn gating(&self) -> Gating {
        if self.biases.is_some() { Gating::Clamped } else { Gating::Silu }
    }

    fn inputs<'a>(&'a self, x: &'a Tensor, logits: &'a Tensor) -> impl Iterator<Item = &'a Tensor> {
        let ([gate_up, of_gate_up], [down, of_down]) = (self.gate_up.tensors(), self.down.tensors());
        let weights = [gate_up, down, of_gate_up, of_down].into_iter().flatten();
        [x, logits].into_iter().chain(weights).chain(self.biases.iter().flatten())
    }

    /// The sizes, but for the alignment, if all but the number of experts fit each other.
    fn problem(&self, x: &Tensor, logits: &Tensor) -> Result<Problem, Error> {
        let weights = self.gate_up.shape();
        let (&[rows, hidden], &[_, num], &[own, lines, _]) = (x.shape(), logits.shape(), &weights[..]) else {
            let reason = format!("rows are {:?}, logits {:?}, weights {weights:?}", x.shape(), logits.shape());
            return Err(ErrorKind::Operand { operator: "experts", reason }.into());
        };
        let inner = lines / 2;
        expect("the logits", logits, &[rows, num])?;
        expect_shape("the weights of gate and up", &weights, &[own, 2 * inner, hidden])?;
        expect_shape("the weights of down", &self.down.shape(), &[own, hidden, inner])?;
        let format = self.gate_up.format();
        let packed = self.gate_up.is_packed();
        if format != self.down.format() || packed != self.down.is_packed() {
            let reason = "weights of gate and up are stored in another way than those of down".to_owned();
            return Err(ErrorKind::Operand { operator: "experts", reason }.into());
        }
        let gate = ExpertLines::of_gate(self.gating());
        for (matrices, lines) in [(&self.gate_up, gate), (&self.down, ExpertLines::Outputs)] {
            if matches!(matrices, ExpertMatrices::Packed(packed) if packed.problem.lines != lines) {
                let reason = "weights are packed for another product or gate".to_owned();
                return Err(ErrorKind::Operand { operator: "experts", reason }.into());
            }
        }
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
            gating: self.gating(),
            format,
            packed,
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
            format: ExpertFormat::Plain,
            packed: false,
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
    expect_shape(name, tensor.shape(), expected)
}

fn expect_shape(name: &str, shape: &[usize], expected: &[usize]) -> Result<(), Error> {
    if shape == expected {
        return Ok(());
    }
    let reason = format!("{name} have the shape {shape:?}, not {expected:?}");
    Err(ErrorKind::Operand { operator: "experts", reason }.into())
}
