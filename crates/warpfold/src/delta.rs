//! Gated delta nets: linear attention with a matrix per head and sequence.

use warpfold_kernels::delta::{DeltaHeads, DeltaNet, DeltaProblem};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::Allocated;
use crate::{Queue, Tensor};

/// The numbers of a gated delta net's layer, of `f32`.
#[derive(Debug)]
pub struct DeltaWeights {
    /// Taps of the convolution: `[queries, keys and values, 4]`.
    pub taps: Tensor,
    /// The logarithms of decays, one a head of values.
    pub decays: Tensor,
    /// Terms added before decays are made: one a head of values.
    pub offsets: Tensor,
    /// The scale of the norm: one an element of a value.
    pub scale: Tensor,
    /// Epsilon of the norm, below the root.
    pub eps: f64,
}

/// Sequences of the rows of a step.
#[derive(Debug, Clone, Copy)]
pub struct DeltaRows<'a> {
    /// The position of each row, `[rows]` of `i32`. A sequence whose first row has position 0
    /// starts from nothing.
    pub positions: &'a Tensor,
    /// The place of each sequence, `[sequences]` of `i32`. Sequences whose place is negative or
    /// beyond the last are left out: their results are zero.
    pub places: &'a Tensor,
    /// The first row of each sequence and the end of the last, `[sequences + 1]` of `i32`; without
    /// it each sequence has one row.
    pub starts: Option<&'a Tensor>,
}

/// The states of a gated delta net's layer, a place for each sequence, kept between launches.
#[derive(Debug)]
pub struct DeltaState {
    heads: DeltaHeads,
    places: usize,
    tails: Tensor,
    matrices: Tensor,
}

impl DeltaState {
    /// Places of any content.
    ///
    /// # Errors
    /// What the device says.
    pub fn new(queue: &Queue, dtype: Dtype, heads: DeltaHeads, places: usize) -> Result<Self, Error> {
        let DeltaHeads { values, key_dim, value_dim, .. } = heads;
        let tails = [places, DeltaHeads::TAPS as usize - 1, heads.channels() as usize];
        let matrices = [places, values as usize, key_dim as usize, value_dim as usize];
        Ok(Self {
            heads,
            places,
            tails: Allocated::new(queue, dtype, &tails)?.finish(),
            matrices: Allocated::new(queue, Dtype::F32, &matrices)?.finish(),
        })
    }

    /// The type of rows.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.tails.dtype()
    }

    /// Bytes of a place.
    #[must_use]
    pub const fn bytes_of_place(heads: DeltaHeads, dtype: Dtype) -> u64 {
        (DeltaHeads::TAPS - 1) * heads.channels() * dtype.bytes() + 4 * heads.matrices()
    }

    /// Runs the rows of sequences, `[rows, elements]` of queries, keys, values, `z`, `b` and `a` of
    /// all heads (see [`warpfold_kernels::delta`]), one after the other, and keeps what comes
    /// after the last. The result is `[rows, value heads · value elements]`. The bits of a row
    /// depend neither on other sequences nor on how its own was cut into calls.
    ///
    /// ```
    /// use warpfold::{DeltaHeads, DeltaRows, DeltaState, DeltaWeights, Device, Dtype, Profile, Queue, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let heads = DeltaHeads { keys: 1, values: 1, key_dim: 8, value_dim: 8 };
    /// let ones = |shape: &[usize]| Tensor::filled(&Queue::of(&device), Dtype::F32, 1, shape);
    /// let weights = DeltaWeights {
    ///     taps: ones(&[24, 4])?,
    ///     decays: ones(&[1])?,
    ///     offsets: ones(&[1])?,
    ///     scale: ones(&[8])?,
    ///     eps: 1e-6,
    /// };
    /// let rows = ones(&[3, 34])?;
    /// let list = |numbers: &[i32]| Tensor::from_slice(numbers, &[numbers.len()], &device);
    /// let (positions, places) = (list(&[0, 1, 2])?, list(&[0])?);
    /// let mut run = |rows: &Tensor, positions: &Tensor, state: &mut DeltaState| {
    ///     let starts = list(&[0, rows.shape()[0] as i32])?;
    ///     state.run(rows, &weights, DeltaRows { positions, places: &places, starts: Some(&starts) })?.to_vec::<f32>()
    /// };
    /// let state = || DeltaState::new(&Queue::of(&device), Dtype::F32, heads, 1);
    /// let whole = run(&rows, &positions, &mut state()?)?;
    /// let mut state = state()?;
    /// let mut pieces = run(&rows.slice(0, ..1)?, &positions.slice(0, ..1)?, &mut state)?;
    /// pieces.extend(run(&rows.slice(0, 1..)?, &positions.slice(0, 1..)?, &mut state)?);
    /// assert_eq!(whole, pieces);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other, [`ErrorKind::DtypeMismatch`],
    /// [`ErrorKind::Unsupported`] unless the rows are `f32`, `f16` or `bf16`; what the device says.
    pub fn run(&mut self, x: &Tensor, weights: &DeltaWeights, of: DeltaRows<'_>) -> Result<Tensor, Error> {
        let (heads, rows, sequences) = (self.heads, x.shape().first().copied().unwrap_or(0), of.places.len());
        let (values, channels) = (heads.values as usize, heads.channels() as usize);
        let expected: [(&str, &Tensor, Dtype, &[usize]); 7] = [
            ("the rows", x, self.tails.dtype(), &[rows, heads.row_len() as usize]),
            ("the taps", &weights.taps, Dtype::F32, &[channels, DeltaHeads::TAPS as usize]),
            ("the decays", &weights.decays, Dtype::F32, &[values]),
            ("the offsets", &weights.offsets, Dtype::F32, &[values]),
            ("the scale", &weights.scale, Dtype::F32, &[heads.value_dim as usize]),
            ("the positions", of.positions, Dtype::I32, &[rows]),
            ("the places", of.places, Dtype::I32, &[sequences]),
        ];
        let starts = [sequences + 1];
        let starts = of.starts.map(|list| ("the starts", list, Dtype::I32, &starts[..]));
        let mut inputs = Vec::new();
        for (name, tensor, dtype, shape) in expected.into_iter().chain(starts) {
            tensor.expect_dtype(name, dtype)?;
            if tensor.shape() != shape {
                let reason = format!("{name} have the shape {:?}, not {shape:?}", tensor.shape());
                return Err(ErrorKind::Operand { operator: "delta-net", reason }.into());
            }
            inputs.push(tensor.contiguous()?);
        }
        let problem = DeltaProblem {
            dtype: x.dtype(),
            rows: rows as u64,
            sequences: sequences as u64,
            places: self.places as u64,
            heads,
            eps_bits: (weights.eps as f32).to_bits(),
            is_single: of.starts.is_none(),
        };
        let mut results = Allocated::new(x.queue(), x.dtype(), &[rows, heads.values() as usize])?;
        let views = inputs.iter().map(|tensor| tensor.memory_view().map(Some)).collect::<Result<Vec<_>, _>>()?;
        let outputs = &mut [results.buffer.as_view_mut(), self.tails.view_mut()?, self.matrices.view_mut()?];
        x.queue().run(&DeltaNet, problem, &views, outputs)?;
        Ok(results.finish())
    }
}
