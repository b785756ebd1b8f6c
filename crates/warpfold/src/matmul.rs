//! GEMM: products of matrices, and of batches of them.

use std::ops::Range;

use warpfold_device::ViewMut;
use warpfold_kernels::layout::Layout;
use warpfold_kernels::matmul::quantized::{self, Scheme};
use warpfold_kernels::matmul::{self, Activation, BatchInvariance, Epilogue, F32Math, Matrix, Problem};
use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::matrices::{MatrixView, ScaleOf, Shapes, matrix};
use crate::tensor::Allocated;

impl Tensor {
    /// `self @ right` as NumPy's `matmul`: the last two axes are matrices, those before them
    /// broadcast, and a tensor of one axis is a row on the left and a column on the right. Sums of
    /// no products are 0.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let a = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2], &device)?;
    /// let b = Tensor::from_slice(&[10.0_f32, 1.0], &[2, 1], &device)?;
    /// assert_eq!(a.matmul(&b)?.to_vec::<f32>()?, [12.0, 34.0]);
    /// assert_eq!(a.t()?.matmul(&b)?.to_vec::<f32>()?, [13.0, 24.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Matmul::run`].
    pub fn matmul(&self, right: &Self) -> Result<Self, Error> {
        Matmul::new().run(self, right)
    }
}

/// A product with an epilogue, in one launch: `activation(alpha A B + beta C + bias) + residual`,
/// with [scales](Matmul::scale_a) read from the device if there are any, or an [`Epilogue`] of the
/// caller.
///
/// ```
/// use warpfold::{Activation, Device, Matmul, Profile, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let x = Tensor::from_slice(&[1.0_f32, -2.0], &[1, 2], &device)?;
/// let weights = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 1.0], &[2, 2], &device)?;
/// let bias = Tensor::from_slice(&[0.5_f32, 0.5], &[2], &device)?;
/// let layer = Matmul::new().bias(&bias).activation(Activation::Relu);
/// assert_eq!(layer.run(&x, &weights)?.to_vec::<f32>()?, [0.0, 0.5]);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Matmul {
    epilogue: Epilogue,
    inputs: Vec<Tensor>,
    dtype: Option<Dtype>,
    batch_invariance: BatchInvariance,
    k_parts: Option<u64>,
    weights: bool,
    f32_math: F32Math,
    standard: Standard,
    gate: Option<Activation>,
}

/// The parts of the standard epilogue.
#[derive(Debug, Clone, Default)]
struct Standard {
    scale_a: Option<Tensor>,
    scale_b: Option<Tensor>,
    scale_result: Option<Tensor>,
    alpha: Option<f64>,
    scaled: Option<(f64, Tensor)>,
    bias: Option<Tensor>,
    activation: Option<Activation>,
    residual: Option<Tensor>,
}

impl Matmul {
    /// The product alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the scale of the left matrix, `f32` in the device's memory: one number, or `[M]` or
    /// `[.., M, 1]`, a number for each row (`[.., 1, 1]`: for each product of a batch). Kernels
    /// multiply the sums by it, before all else. As it is read when the kernel runs, a graph that
    /// is played again takes what is there then.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Matmul, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let eighth = |numbers: &[f32], shape| Tensor::from_slice(numbers, shape, &device)?.cast(Dtype::F8E4M3);
    /// let (a, b) = (eighth(&[1.0, 2.0, 3.0, 4.0], &[2, 2])?, eighth(&[2.0, 1.0], &[2, 1])?);
    /// let rows = Tensor::from_slice(&[0.5_f32, 10.0], &[2], &device)?;
    /// let all = Tensor::from_slice(&[2.0_f32], &[1], &device)?;
    /// let product = Matmul::new().scale_a(&rows).scale_b(&all).dtype(Dtype::F32).run(&a, &b)?;
    /// assert_eq!(product.to_vec::<f32>()?, [4.0, 200.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn scale_a(mut self, scale: &Tensor) -> Self {
        self.standard.scale_a = Some(scale.clone());
        self
    }

    /// The same of the right matrix: one number, or `[N]` or `[.., 1, N]`, a number for each
    /// column. The sums are multiplied by it after the left one's.
    #[must_use]
    pub fn scale_b(mut self, scale: &Tensor) -> Self {
        self.standard.scale_b = Some(scale.clone());
        self
    }

    /// Sets the scale applied last to the result, one `f32` in the device's memory: maps it to the
    /// range of 8-bit types.
    #[must_use]
    pub fn scale_result(mut self, scale: &Tensor) -> Self {
        self.standard.scale_result = Some(scale.clone());
        self
    }

    /// The factor of the product; of integers a whole number.
    #[must_use]
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.standard.alpha = Some(alpha);
        self
    }

    /// Adds another tensor times a number, to integers times a whole number.
    #[must_use]
    pub fn add(mut self, beta: f64, c: &Tensor) -> Self {
        self.standard.scaled = Some((beta, c.clone()));
        self
    }

    /// Adds a bias before the activation: `[N]` for each column, `[M, 1]` for each row.
    #[must_use]
    pub fn bias(mut self, bias: &Tensor) -> Self {
        self.standard.bias = Some(bias.clone());
        self
    }

    /// Sets the activation, applied to the sum of product and bias.
    #[must_use]
    pub const fn activation(mut self, activation: Activation) -> Self {
        self.standard.activation = Some(activation);
        self
    }

    /// Half as many columns: the activation of a gate's columns times others. Columns of the right
    /// matrix come in groups of eight, of the gate and of the others in turns; both are rounded to
    /// the type of the result first. Of two matrices, and nothing else is done to the sums.
    ///
    /// ```
    /// use warpfold::{Activation, Device, Matmul, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::ones((1, 1), Dtype::F32, &device)?;
    /// // Eight columns of a gate, eight of what it multiplies.
    /// let weights: Vec<f32> = (0..16).map(|i| if i < 8 { 2.0 } else { i as f32 }).collect();
    /// let weights = Tensor::from_slice(&weights, &[1, 16], &device)?;
    /// let y = Matmul::new().gate(Activation::Relu).run(&x, &weights)?;
    /// assert_eq!(y.to_vec::<f32>()?, [16.0, 18.0, 20.0, 22.0, 24.0, 26.0, 28.0, 30.0]);
    /// # use warpfold::Dtype;
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub const fn gate(mut self, activation: Activation) -> Self {
        self.gate = Some(activation);
        self
    }

    /// Adds another tensor after the activation.
    #[must_use]
    pub fn residual(mut self, residual: &Tensor) -> Self {
        self.standard.residual = Some(residual.clone());
        self
    }

    /// Steps of the caller after those above, with the tensors that they take. Make the epilogue
    /// once and use it often: its kernels are kept with it.
    #[must_use]
    pub fn epilogue(mut self, epilogue: &Epilogue, inputs: &[&Tensor]) -> Self {
        self.epilogue = epilogue.clone();
        self.inputs = inputs.iter().copied().cloned().collect();
        self
    }

    /// The element type of the result: that of the matrices unless said, `i32` for integers
    /// that it holds, 64 bits for others, and `f32` for eight-bit floats.
    #[must_use]
    pub const fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// The bits of a row depend on that row and on the right matrix alone: not on how many rows
    /// there are beside it.
    #[must_use]
    pub const fn batch_invariant(mut self) -> Self {
        self.batch_invariance = BatchInvariance::On;
        self
    }

    /// The sums are cut into 1, 2, 4 or 8 parts of equal length, which are added in a balanced
    /// tree: so a product has the same bits as several, each of half of the parts, whose results
    /// are added.
    #[must_use]
    pub const fn parts(mut self, parts: u64) -> Self {
        self.k_parts = Some(parts);
        self
    }

    /// The right matrix are weights, which no launch that may still run writes: the product reads
    /// them while launches before it end.
    #[must_use]
    pub const fn weights(mut self) -> Self {
        self.weights = true;
        self
    }

    /// Factors of `f32` may go to tensor cores without their low 13 bits (tf32), where the device
    /// has them and the factors lie with the sums' dimension side by side:
    /// `x @ weights.transpose()`.
    #[must_use]
    pub const fn tf32(mut self) -> Self {
        self.f32_math = F32Math::Tf32;
        self
    }

    /// The steps, and the tensors that they take, as large as the result.
    fn steps(&self, shapes: &Shapes) -> Result<(Epilogue, Vec<MatrixView>), Error> {
        let Standard { scale_a, scale_b, scale_result, alpha, scaled, bias, activation, residual } = &self.standard;
        let whole = |input: &Tensor| {
            let broadcast = input.layout().broadcast(&shapes.result)?;
            MatrixView::new(input, shapes.result_as(&broadcast)?, &shapes.batch)
        };
        let tensors = [scale_a, scale_b, scale_result, bias, residual];
        let is_plain = alpha.is_none() && scaled.is_none() && activation.is_none();
        if let Some(gate) = self.gate {
            if !is_plain || tensors.into_iter().any(Option::is_some) || !self.epilogue.steps().is_empty() {
                let reason = "nothing but a gate is done to the sums: no scale, bias, activation or epilogue";
                return Err(ErrorKind::Operand { operator: "matmul", reason: reason.to_owned() }.into());
            }
            return Ok((Epilogue::new().gate(gate), Vec::new()));
        }
        if !self.epilogue.steps().is_empty() {
            if !is_plain || tensors.into_iter().any(Option::is_some) {
                let reason = "a user-defined epilogue takes the place of scales, alpha, bias, activation and the like";
                return Err(ErrorKind::Operand { operator: "matmul", reason: reason.to_owned() }.into());
            }
            return Ok((self.epilogue.clone(), self.inputs.iter().map(whole).collect::<Result<_, _>>()?));
        }
        let (mut epilogue, mut inputs) = (Epilogue::new(), Vec::new());
        for (scale, of) in [(scale_a, ScaleOf::Rows), (scale_b, ScaleOf::Columns)] {
            if let Some(scale) = scale {
                epilogue = epilogue.multiply();
                inputs.push(shapes.scale(scale, of)?);
            }
        }
        if let Some(alpha) = alpha {
            epilogue = epilogue.scale(*alpha);
        }
        if let Some((beta, c)) = scaled {
            epilogue = epilogue.add_scaled(*beta);
            inputs.push(whole(c)?);
        }
        if let Some(bias) = bias {
            epilogue = epilogue.add();
            inputs.push(whole(bias)?);
        }
        if let Some(activation) = activation {
            epilogue = epilogue.activate(*activation);
        }
        if let Some(residual) = residual {
            epilogue = epilogue.add();
            inputs.push(whole(residual)?);
        }
        if let Some(scale) = scale_result {
            epilogue = epilogue.multiply();
            inputs.push(shapes.scale(scale, ScaleOf::All)?);
        }
        Ok((epilogue, inputs))
    }

    /// Multiplies.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`] for matrices, batches, scales or inputs that do not fit each
    /// other, also for tensors without axes; [`ErrorKind::DtypeMismatch`];
    /// [`ErrorKind::Unsupported`] for `bool`, and for epilogues that the type of
    /// the sums does not have (scales are for sums of floats), and scales that are not `f32`;
    /// [`ErrorKind::OptionOutOfRange`] for integers times numbers that are not whole; what the
    /// device says.
    pub fn run(&self, left: &Tensor, right: &Tensor) -> Result<Tensor, Error> {
        let shapes = Shapes::of(left.shape(), right.shape())?;
        let dtype = self.result_dtype(left);
        let mut output = Allocated::new(left.queue(), dtype, &self.result_shape(&shapes))?;
        let place = (dtype, &output.layout, output.buffer.as_view_mut());
        self.write(left, right, &shapes, place)?;
        Ok(output.finish())
    }

    /// Variant of [`Matmul::run`] that writes to a contiguous tensor of the result's shape and
    /// type. No clone and no view of it may be left.
    ///
    /// # Errors
    /// [`ErrorKind::SharedMemory`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::LengthMismatch`] for
    /// another shape; those of [`Matmul::run`].
    pub fn run_into(&self, left: &Tensor, right: &Tensor, output: &mut Tensor) -> Result<(), Error> {
        let shapes = Shapes::of(left.shape(), right.shape())?;
        output.expect_dtype("the result", self.result_dtype(left))?;
        let shape = self.result_shape(&shapes);
        if output.shape() != shape || !output.layout.is_contiguous() {
            let found = output.len();
            return Err(ErrorKind::LengthMismatch { shape, found }.into());
        }
        let (dtype, layout) = (output.dtype, output.layout.clone());
        self.write(left, right, &shapes, (dtype, &layout, output.view_mut()?))
    }

    /// The sizes of the result.
    pub(crate) fn result_shape(&self, shapes: &Shapes) -> Vec<usize> {
        let mut shape = shapes.result.clone();
        if let (Some(_), Some(columns)) = (self.gate, shape.last_mut()) {
            *columns /= 2;
        }
        shape
    }

    /// The element type of the result.
    pub(crate) fn result_dtype(&self, left: &Tensor) -> Dtype {
        self.dtype.unwrap_or(match left.dtype() {
            dtype @ (Dtype::I64 | Dtype::U64) => dtype,
            Dtype::U16 | Dtype::U32 => Dtype::I64,
            dtype if dtype.is_integer() => Dtype::I32,
            Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::F32,
            dtype => dtype,
        })
    }

    fn write(
        &self,
        left: &Tensor,
        right: &Tensor,
        shapes: &Shapes,
        (dtype, layout, output): (Dtype, &Layout, ViewMut<'_, u8>),
    ) -> Result<(), Error> {
        let b = MatrixView::new(right, shapes.right_as(right.layout())?, &shapes.batch)?;
        let (problem, factors) = self.problem(left, b.matrix()?, shapes, (dtype, layout, output.address()))?;
        let [a, inputs @ ..] = &factors[..] else { unreachable!("a product has a left factor") };
        let views = [a, &b].into_iter().chain(inputs).map(|view| view.tensor.view_of_all().map(Some));
        let views = views.collect::<Result<Vec<_>, _>>()?;
        left.queue().run(&matmul::Matmul, problem, &views, &mut [output])
    }

    /// The product with packed weights, for columns of the result that begin at a place of the
    /// output.
    pub(crate) fn write_packed(
        &self,
        left: &Tensor,
        (weights, scheme): (&Tensor, Scheme),
        shapes: &Shapes,
        (dtype, layout, output): (Dtype, &Layout, ViewMut<'_, u8>),
    ) -> Result<(), Error> {
        let b = Matrix::rows(left.dtype(), shapes.k as u64).transposed();
        let (problem, factors) = self.problem(left, b, shapes, (dtype, layout, output.address()))?;
        let [a, inputs @ ..] = &factors[..] else { unreachable!("a product has a left factor") };
        let tensors = [&a.tensor, weights].into_iter().chain(inputs.iter().map(|view| &view.tensor));
        let views = tensors.map(|tensor| tensor.view_of_all().map(Some)).collect::<Result<Vec<_>, _>>()?;
        let problem = quantized::Problem::new(problem, scheme);
        left.queue().run(&quantized::Quantized, problem, &views, &mut [output])
    }

    /// The problem, and what is read beside the right matrix: the left one, inputs of the epilogue.
    fn problem(
        &self,
        left: &Tensor,
        b: Matrix,
        shapes: &Shapes,
        (dtype, layout, address): (Dtype, &Layout, u64),
    ) -> Result<(Problem, Vec<MatrixView>), Error> {
        if left.dtype() == Dtype::U64 && self.standard.activation.is_some() {
            // Sums without sign are kept in registers with one, where half of them seem negative.
            return Err(ErrorKind::Unsupported { op: "matmul with an activation".to_owned(), dtype: Dtype::U64 }.into());
        }
        let (epilogue, inputs) = self.steps(shapes)?;
        let a = MatrixView::new(left, shapes.left_as(left.layout())?, &shapes.batch)?;
        let mut batch = [1; Matrix::MAX_BATCH_RANK];
        for (place, size) in batch.iter_mut().rev().zip(shapes.batch.iter().rev()) {
            *place = *size as u64;
        }
        let problem = Problem {
            m: shapes.m as u64,
            n: shapes.n as u64,
            k: shapes.k as u64,
            batch,
            a: a.matrix()?,
            b,
            c: Matrix { alignment: alignment_of([address]), ..matrix(dtype, &shapes.result_as(layout)?) },
            epilogue,
            inputs: inputs.iter().map(MatrixView::matrix).collect::<Result<_, _>>()?,
            batch_invariance: self.batch_invariance,
            k_parts: self.k_parts.unwrap_or(1),
            weights: self.weights,
            f32_math: self.f32_math,
        };
        Ok((problem, [a].into_iter().chain(inputs).collect()))
    }

    /// The product of some of the columns of the result.
    pub(crate) fn of_columns(&self, columns: Range<usize>) -> Result<Self, Error> {
        let part = |tensor: &Tensor| {
            let last = tensor.rank().saturating_sub(1) as isize;
            if tensor.shape().last() == Some(&1) { Ok(tensor.clone()) } else { tensor.slice(last, columns.clone()) }
        };
        let Standard { bias, residual, scaled, scale_b, .. } = &self.standard;
        let standard = Standard {
            bias: bias.as_ref().map(part).transpose()?,
            residual: residual.as_ref().map(part).transpose()?,
            scaled: scaled.as_ref().map(|(beta, c)| Ok::<_, Error>((*beta, part(c)?))).transpose()?,
            scale_b: scale_b.as_ref().map(part).transpose()?,
            ..self.standard.clone()
        };
        if self.gate.is_some() || !self.epilogue.steps().is_empty() {
            let reason = "a gate, or a user-defined epilogue, takes weights of one scheme".to_owned();
            return Err(ErrorKind::Operand { operator: "matmul", reason }.into());
        }
        Ok(Self { standard, ..self.clone() })
    }
}

const _: () = assert!(Epilogue::MAX_INPUTS >= 6, "the standard epilogue takes three scales and adds three tensors");
