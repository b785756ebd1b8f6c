//! Rotary position embedding.

use warpfold_kernels::heads::{Heads, Pairs, Problem, Queries, Rotary};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::TensorSpec;
use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

/// Options of a rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RotaryOptions {
    /// The pairing of a head's elements: by default an element of one half with that of the other.
    pub pairs: Pairs,
    /// Number of elements of a head to rotate: all of them by default.
    pub rotary_dim: Option<usize>,
    /// Heads of a tensor of three axes.
    pub num_heads: Option<usize>,
}

impl Tensor {
    /// Turns each pair of elements of a head by an angle of its position: `(x cos − y sin, x sin +
    /// y cos)`. The tensor is `[batch, heads, length, head size]` or `[batch, length, heads · head
    /// size]`, and so is the result. Cosines and sines have a column for each pair; a row for each
    /// position that `positions` (`[batch, length]` of `i32` or `i64`) may name, or, without it,
    /// for each query: `[batch, length, pairs]`. Positions outside of the tables are taken for the
    /// first or the last: nobody looks at them on the device.
    ///
    /// ```
    /// use warpfold::{Device, Profile, RotaryOptions, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// // One head of one pair at the positions 0 and 1: a quarter turn each.
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 1.0, 2.0], &[1, 1, 2, 2], &device)?;
    /// let cos = Tensor::from_slice(&[1.0_f32, 0.0], &[2, 1], &device)?;
    /// let sin = Tensor::from_slice(&[0.0_f32, 1.0], &[2, 1], &device)?;
    /// let positions = Tensor::from_slice(&[0_i64, 1], &[1, 2], &device)?;
    /// let y = x.rotary_embedding(&cos, &sin, Some(&positions), RotaryOptions::default())?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, -2.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other, [`ErrorKind::Unsupported`] for
    /// element types, [`ErrorKind::TooLarge`].
    pub fn rotary_embedding(
        &self,
        cos: &Self,
        sin: &Self,
        positions: Option<&Self>,
        options: RotaryOptions,
    ) -> Result<Self, Error> {
        let [batch, len, heads, head_dim] = self.rotary_sizes(options.num_heads)?;
        let strides = |layout: &Layout| match *layout.strides() {
            [batch, head, position, element] => vec![batch, position, head, element],
            [batch, position, element] => vec![batch, position, element * head_dim as isize, element],
            _ => unreachable!("the axes were counted"),
        };
        let heads_of = |layout: &Layout, address: u64| {
            let layout = Layout::new(vec![batch, len, heads, head_dim], strides(layout))?;
            Ok::<_, Error>(TensorSpec::new(self.dtype(), layout, address))
        };
        let rotary_dim = options.rotary_dim.unwrap_or(head_dim);
        let (cos, sin) = (cos.with_columns_together()?, sin.with_columns_together()?);
        cos.expect_dtype("the table of cosines", sin.dtype())?;
        let tables = [("cosines", &cos), ("sines", &sin)];
        match positions {
            Some(positions) => {
                let rows = cos.shape().first().copied().unwrap_or(0);
                for (name, table) in tables {
                    expect(name, table, &[rows, rotary_dim / 2])?;
                }
                if rows == 0 && !self.is_empty() {
                    return Err(refused("the tables of cosines and sines have no rows".to_owned()));
                }
                expect("positions", positions, &[batch, len])?;
            }
            None => {
                for (name, table) in tables {
                    expect(name, table, &[batch, len, rotary_dim / 2])?;
                }
            }
        }
        let mut out = Allocated::new(self.queue(), self.dtype(), self.shape())?;
        let results = heads_of(&Layout::contiguous(self.shape())?, out.buffer.address())?;
        let queries = [heads_of(self.layout(), self.address())?, results];
        let rotary = Rotary {
            pairs: options.pairs,
            dim: rotary_dim as u64,
            tables: [cos.spec(), sin.spec()],
            positions: positions.map(Self::spec),
        };
        let problem = Problem::rotary(Queries::Copied(Box::new(queries)), rotary);
        let inputs = [Some(self), positions, Some(&cos), Some(&sin)].into_iter().flatten();
        let inputs: Vec<_> = inputs.map(|tensor| tensor.memory_view().map(Some)).collect::<Result<_, _>>()?;
        self.queue().run(&Heads, problem, &inputs, &mut [out.buffer.as_view_mut()])?;
        Ok(out.finish())
    }

    /// Batch, length, heads, head size.
    fn rotary_sizes(&self, num_heads: Option<usize>) -> Result<[usize; 4], Error> {
        let given = |heads: usize| num_heads.is_none_or(|num| num == heads);
        match (self.shape(), num_heads) {
            (&[batch, heads, len, head_dim], _) if given(heads) => Ok([batch, len, heads, head_dim]),
            (&[_, heads, _, _], num) => Err(refused(format!("there are {heads} heads, not {}", num.unwrap_or(0)))),
            (&[batch, len, hidden], Some(heads)) if heads > 0 && hidden % heads == 0 => {
                Ok([batch, len, heads, hidden / heads])
            }
            (&[.., hidden], Some(heads)) if self.rank() == 3 => {
                Err(refused(format!("{hidden} elements are not those of {heads} heads")))
            }
            (&[_, _, _], _) => Err(refused("a tensor of 3 axes needs the number of its heads".to_owned())),
            _ => Err(refused(format!("a tensor has 3 or 4 axes, not {}", self.rank()))),
        }
    }

    /// With the elements of a row side by side, as tables are read.
    pub(crate) fn with_columns_together(&self) -> Result<Self, Error> {
        if self.layout().strides().last() == Some(&1) { Ok(self.clone()) } else { self.contiguous() }
    }
}

fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "rotary embedding", reason }.into()
}

fn expect(name: &str, tensor: &Tensor, expected: &[usize]) -> Result<(), Error> {
    if tensor.shape() == expected {
        return Ok(());
    }
    Err(refused(format!("{name} have the shape {:?}, not {expected:?}", tensor.shape())))
}
