//! Weights of few bits, as they are stored.

use std::ops::Range;

use warpfold_device::ViewMut;
use warpfold_kernels::layout::Layout;
use warpfold_kernels::matmul::quantized::{Dequantize, GatherProblem, GatherRows, PackedShape, Scheme};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::matrices::Shapes;
use crate::tensor::Allocated;
use crate::{Matmul, Queue, Tensor};

/// A matrix of weights of few bits on a device: the right factor of [`Matmul::run_packed`], `[out,
/// in]`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PackedWeights {
    parts: Vec<Part>,
    columns: usize,
}

/// Rows of one scheme.
#[derive(Debug, Clone)]
struct Part {
    bytes: Tensor,
    scheme: Scheme,
    rows: usize,
}

impl Part {
    fn shape(&self, columns: usize) -> PackedShape {
        PackedShape { rows: self.rows as u64, columns: columns as u64 }
    }
}

impl PackedWeights {
    /// Weights as [`Scheme::pack`] lays them out, of `[rows, columns]`.
    ///
    /// ```
    /// use warpfold::kernels::matmul::quantized::PackedShape;
    /// use warpfold::{Device, Dtype, Matmul, PackedWeights, Profile, Queue, Scheme, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let shape = PackedShape { rows: 2, columns: 32 };
    /// // 4 bits with a scale for each 32: 0.5 · (code - 8).
    /// let bytes = Scheme::symmetric(4, 8).pack(shape, |row, _, piece| {
    ///     piece.codes[0] = 9 + row as u8;
    ///     piece.codes[1..].fill(8);
    ///     piece.scales[0] = half::f16::from_f32(0.5).to_bits();
    /// });
    /// let weights = PackedWeights::new(&Queue::of(&device), &bytes, Scheme::symmetric(4, 8), [2, 32])?;
    /// let x = Tensor::ones((1, 32), Dtype::BF16, &device)?;
    /// let y = Matmul::new().dtype(Dtype::F32).run_packed(&x, &weights)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.5, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] unless there are as many bytes as the scheme and the shape
    /// need; what the device says.
    pub fn new(queue: &Queue, bytes: &[u8], scheme: Scheme, [rows, columns]: [usize; 2]) -> Result<Self, Error> {
        let len = PackedShape { rows: rows as u64, columns: columns as u64 }.bytes(scheme) as usize;
        let bytes = if queue.is_outline() {
            Tensor::uninitialized(queue, Dtype::U8, &[len])?
        } else {
            Tensor::from_bytes(queue, Dtype::U8, bytes, &[len])?
        };
        Ok(Self { parts: vec![Part { bytes, scheme, rows }], columns })
    }

    /// Matrices one below the other, of any schemes.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`] unless they have equally many columns.
    pub fn stacked(all: &[Self]) -> Result<Self, Error> {
        let columns = all.first().map_or(0, |first| first.columns);
        if let Some(other) = all.iter().find(|other| other.columns != columns) {
            let (left, right) = (all[0].shape().to_vec(), other.shape().to_vec());
            return Err(ErrorKind::ShapeMismatch { left, right }.into());
        }
        Ok(Self { parts: all.iter().flat_map(|packed| packed.parts.clone()).collect(), columns })
    }

    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.parts.iter().map(|part| part.rows).sum(), self.columns]
    }

    /// Bytes on the device.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// Some of the rows, where they begin at a block of 64 rows and are of one scheme.
    #[must_use]
    pub fn rows(&self, range: Range<usize>) -> Option<Self> {
        let [Part { bytes, scheme, rows }] = &self.parts[..] else { return None };
        if !range.start.is_multiple_of(64) || range.end > *rows || range.start > range.end {
            return None;
        }
        let before =
            |rows: usize| PackedShape { rows: rows as u64, columns: self.columns as u64 }.bytes(*scheme) as usize;
        let bytes = bytes.slice(0, before(range.start)..before(range.end)).ok()?;
        Some(Self { parts: vec![Part { bytes, scheme: *scheme, rows: range.len() }], columns: self.columns })
    }

    /// The matrix that they stand for, in `f32`, `f16` or `bf16`.
    ///
    /// # Errors
    /// What no kernel decodes, and what the device says.
    pub fn to_matrix(&self, dtype: Dtype) -> Result<Tensor, Error> {
        let queue = self.queue()?;
        let mut matrix = Allocated::new(queue, dtype, &self.shape())?;
        let mut output = matrix.buffer.as_view_mut();
        for part in &self.parts {
            let row_bytes = self.columns * dtype.bytes() as usize;
            let (own, rest) = output.split_at(part.rows * row_bytes)?;
            let problem = (part.scheme, part.shape(self.columns), dtype);
            queue.run(&Dequantize, problem, &[Some(part.bytes.view_of_all()?)], &mut [own])?;
            output = rest;
        }
        Ok(matrix.finish())
    }

    /// Rows by index, in `f32`, `f16` or `bf16`; zeros for an index that names none.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for weights of several schemes and for indices that are no integers;
    /// what the device says.
    pub fn gather_rows(&self, indices: &Tensor, dtype: Dtype) -> Result<Tensor, Error> {
        let [part] = &self.parts[..] else {
            let reason = "rows are gathered of weights of one scheme".to_owned();
            return Err(ErrorKind::Operand { operator: "gather", reason }.into());
        };
        let indices = indices.contiguous()?;
        let mut output = Allocated::new(indices.queue(), dtype, &[indices.shape(), &[self.columns]].concat())?;
        let problem = GatherProblem {
            indices: indices.dtype(),
            count: indices.len() as u64,
            scheme: part.scheme,
            shape: part.shape(self.columns),
            dtype,
        };
        let views = [Some(indices.memory_view()?), Some(part.bytes.view_of_all()?)];
        indices.queue().run(&GatherRows, problem, &views, &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }

    fn queue(&self) -> Result<&Queue, Error> {
        let none = || ErrorKind::Operand { operator: "matmul", reason: "there are no weights".to_owned() };
        Ok(self.parts.first().ok_or_else(none)?.bytes.queue())
    }
}

impl Matmul {
    /// `x Wᵀ` with the epilogue, of weights as they are stored. The bits are those of the
    /// [batch-invariant](Self::batch_invariant) product with the weights as a matrix of the type of
    /// the rows, whatever the number of rows.
    ///
    /// # Errors
    /// Those of [`Matmul::run`]; [`ErrorKind::Operand`] for rows with a batch, for a gate over
    /// weights of several schemes.
    pub fn run_packed(&self, x: &Tensor, weights: &PackedWeights) -> Result<Tensor, Error> {
        let shapes = packed_shapes(x, weights)?;
        let dtype = self.result_dtype(x);
        let mut output = Allocated::new(x.queue(), dtype, &self.result_shape(&shapes))?;
        let layout = output.layout.clone();
        self.write_parts(x, weights, &shapes, (dtype, &layout, output.buffer.as_view_mut()))?;
        Ok(output.finish())
    }

    /// Variant of [`Matmul::run_packed`] that writes to an existing tensor: see
    /// [`Matmul::run_into`].
    ///
    /// # Errors
    /// Those of [`Matmul::run_packed`] and [`Matmul::run_into`].
    pub fn run_packed_into(&self, x: &Tensor, weights: &PackedWeights, output: &mut Tensor) -> Result<(), Error> {
        let shapes = packed_shapes(x, weights)?;
        output.expect_dtype("the result", self.result_dtype(x))?;
        let shape = self.result_shape(&shapes);
        if output.shape() != shape || !output.is_contiguous() {
            return Err(ErrorKind::LengthMismatch { shape, found: output.len() }.into());
        }
        let (dtype, layout) = (output.dtype, output.layout.clone());
        self.write_parts(x, weights, &shapes, (dtype, &layout, output.view_mut()?))
    }

    fn write_parts(
        &self,
        x: &Tensor,
        weights: &PackedWeights,
        shapes: &Shapes,
        (dtype, layout, mut output): (Dtype, &Layout, ViewMut<'_, u8>),
    ) -> Result<(), Error> {
        if let [part] = &weights.parts[..] {
            return self.write_packed(x, (&part.bytes, part.scheme), shapes, (dtype, layout, output));
        }
        let mut first = 0;
        for part in &weights.parts {
            let columns = first..first + part.rows;
            let own = Shapes::of(x.shape(), &[weights.columns, part.rows])?;
            let strides = layout.strides().to_vec();
            let layout = Layout::new(self.result_shape(&own), strides)?;
            // Of an outline there is no memory to take a part of.
            let start = if x.queue().is_outline() { 0 } else { first * dtype.bytes() as usize };
            let place = output.reborrow().slice(start..)?;
            self.of_columns(columns)?.write_packed(x, (&part.bytes, part.scheme), &own, (dtype, &layout, place))?;
            first += part.rows;
        }
        Ok(())
    }
}

fn packed_shapes(x: &Tensor, weights: &PackedWeights) -> Result<Shapes, Error> {
    let [rows, columns] = weights.shape();
    let shapes = Shapes::of(x.shape(), &[columns, rows])?;
    if !shapes.batch.is_empty() {
        let reason = format!("packed weights are multiplied by rows, not by {:?}", x.shape());
        return Err(ErrorKind::Operand { operator: "matmul", reason }.into());
    }
    Ok(shapes)
}
