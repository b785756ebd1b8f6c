//! Low-rank adapters (LoRA) of the rows of a product.

use warpfold_kernels::experts::{self, AdaptersProblem};
use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;

/// Pairs of small matrices, one of which each row may name.
#[derive(Debug)]
pub struct Adapters {
    /// `[adapters, rank, len]`.
    pub down: Tensor,
    /// `[adapters, columns, rank]` of `f32`.
    pub up: Tensor,
}

impl Adapters {
    /// `up_a · down_a x` for rows `x` of `[rows, len]` and their adapters `a` (`[rows]` of `i32`),
    /// in `f32`; 0 for rows whose number is no adapter's. The bits of a row do not depend on the
    /// other rows.
    ///
    /// ```
    /// use warpfold::{Adapters, Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let tensor = |numbers: &[f32], shape: &[usize]| Tensor::from_slice(numbers, shape, &device);
    /// // Two adapters of rank 1, from two elements to one.
    /// let adapters = Adapters { down: tensor(&[1.0, 1.0, 1.0, -1.0], &[2, 1, 2])?, up: tensor(&[2.0, 10.0], &[2, 1, 1])? };
    /// let x = tensor(&[3.0, 1.0, 3.0, 1.0, 3.0, 1.0], &[3, 2])?;
    /// let ids = Tensor::from_slice(&[1, 0, -1], &[3], &device)?;
    /// assert_eq!(adapters.run(&x, &ids)?.to_vec::<f32>()?, [20.0, 8.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other, [`ErrorKind::DtypeMismatch`],
    /// [`ErrorKind::Unsupported`] unless the rows are `f32`, `f16` or `bf16`; what the device says.
    pub fn run(&self, x: &Tensor, ids: &Tensor) -> Result<Tensor, Error> {
        let (&[rows, len], &[adapters, rank, _], &[_, columns, _]) = (x.shape(), self.down.shape(), self.up.shape())
        else {
            let reason = format!("rows are {:?}, adapters {:?}", x.shape(), self.down.shape());
            return Err(ErrorKind::Operand { operator: "adapters", reason }.into());
        };
        let shapes: [(&str, &Tensor, &[usize]); 3] = [
            ("the adapters of rows", ids, &[rows]),
            ("the first matrices", &self.down, &[adapters, rank, len]),
            ("the second matrices", &self.up, &[adapters, columns, rank]),
        ];
        if let Some((name, tensor, expected)) = shapes.into_iter().find(|(_, of, shape)| of.shape() != *shape) {
            let reason = format!("{name} have the shape {:?}, not {expected:?}", tensor.shape());
            return Err(ErrorKind::Operand { operator: "adapters", reason }.into());
        }
        ids.expect_dtype("the adapters of rows", Dtype::I32)?;
        self.down.expect_dtype("the first matrices", x.dtype())?;
        self.up.expect_dtype("the second matrices", Dtype::F32)?;
        let inputs = [x, ids, &self.down, &self.up];
        let inputs: Vec<Tensor> = inputs.into_iter().map(Tensor::contiguous).collect::<Result<_, _>>()?;
        let mut output = Tensor::filled(x.queue(), Dtype::F32, 0, &[rows, columns])?;
        let problem = AdaptersProblem {
            dtype: x.dtype(),
            rows: rows as u64,
            len: len as u64,
            rank: rank as u64,
            columns: columns as u64,
            adapters: adapters as u64,
            alignment: alignment_of(inputs.iter().map(Tensor::address)),
        };
        let views = inputs.iter().map(|tensor| tensor.memory_view().map(Some)).collect::<Result<Vec<_>, _>>()?;
        let queue = x.queue().clone();
        queue.run(&experts::Adapters, problem, &views, &mut [output.view_mut()?])?;
        Ok(output)
    }
}
