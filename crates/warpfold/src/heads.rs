//! From the product of queries, keys and values to queries, and to the paged cache.

use warpfold_kernels::heads::{Heads, Norms, Pairs, Problem, Rotary, Source};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::TensorSpec;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::Allocated;
use crate::{PagedCache, Tensor};

/// New tokens whose queries, keys and values are one product.
#[derive(Debug, Clone, Copy)]
pub struct NewHeads<'a> {
    /// `[tokens, heads + 2 · kv heads, head size]`: queries, keys, values.
    pub product: &'a Tensor,
    /// The slot of each token, `[tokens]` of `i32` or `i64`; see [`NewTokens`](crate::NewTokens).
    pub slots: &'a Tensor,
    /// The position of each token, of the same type.
    pub positions: &'a Tensor,
    /// Cosines and sines of the angles by which the halves of queries and keys are turned, of
    /// `f32`: a row for each position, a column for each pair of elements.
    pub angles: [&'a Tensor; 2],
    /// RMS norms of each head of queries and keys before they are turned: scales of `f32`, and what
    /// is added below the root.
    pub norms: Option<([&'a Tensor; 2], f64)>,
}

impl PagedCache {
    /// Norms and turns queries and keys, writes keys and values to the cache, and gives the queries
    /// (`[tokens, heads, head size]`): in one launch what
    /// [`Tensor::rms_norm`](crate::Tensor::rms_norm),
    /// [`Tensor::rotary_embedding`](crate::Tensor::rotary_embedding) and [`PagedCache::write`] do.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other, a cache with scales and tokens
    /// that do not lie side by side, [`ErrorKind::DtypeMismatch`] and [`ErrorKind::Unsupported`]
    /// for element types, [`ErrorKind::SharedMemory`] where others see the cache.
    pub fn write_heads(&mut self, new: NewHeads<'_>) -> Result<Tensor, Error> {
        let NewHeads { product, slots, positions, angles: [cos, sin], norms } = new;
        let shape = self.shape;
        let [tokens, all, head_dim] = *product.shape() else {
            return Err(refused(format!("the product has 3 axes, not {}", product.rank())));
        };
        let heads = all.checked_sub(2 * shape.kv_heads).filter(|heads| *heads > 0);
        let Some(heads) = heads.filter(|_| head_dim == shape.head_dim && head_dim == shape.value_dim) else {
            let reason = format!("the product has the shape {:?}, the cache {shape:?}", product.shape());
            return Err(refused(reason));
        };
        if self.scales != [1.0; 2] {
            return Err(refused("a cache with scales takes keys and values that are apart".to_owned()));
        }
        product.expect_dtype("the product", self.keys.dtype())?;
        positions.expect_dtype("the list of positions", slots.dtype())?;
        expect("slots", slots, &[tokens])?;
        expect("positions", positions, &[tokens])?;
        let rows = cos.shape().first().copied().unwrap_or(0);
        for (name, table) in [("cosines", cos), ("sines", sin)] {
            table.expect_dtype(name, Dtype::F32)?;
            expect(name, table, &[rows, head_dim / 2])?;
        }
        let mut inputs = vec![product, slots, positions, cos, sin];
        for scale in norms.iter().flat_map(|(scales, _)| scales) {
            scale.expect_dtype("the scales", Dtype::F32)?;
            expect("scales", scale, &[head_dim])?;
            inputs.push(scale);
        }
        let [head, element] = [1, 2].map(|axis| product.layout().strides()[axis]);
        if (head, element) != (head_dim as isize, 1) {
            return Err(refused("the heads of a token do not lie side by side".to_owned()));
        }
        let product = product.clone();
        let lists = inputs[1..].iter().map(|tensor| tensor.contiguous());
        let inputs = std::iter::once(Ok(product)).chain(lists).collect::<Result<Vec<_>, _>>()?;
        let mut queries = Allocated::new(inputs[0].queue(), self.keys.dtype(), &[tokens, heads, head_dim])?;
        let layout = Layout::contiguous(&[tokens, heads, head_dim])?;
        let specs: Vec<_> = inputs.iter().map(Tensor::spec).collect();
        let [product, slots, positions, cos, sin, scales @ ..] = &specs[..] else {
            unreachable!("there are five inputs and scales")
        };
        let norms =
            norms.map(|(_, eps)| Norms { scales: [0, 1].map(|i| scales[i].clone()), eps_bits: (eps as f32).to_bits() });
        let problem = Problem {
            source: Source::Product {
                product: product.clone(),
                queries: TensorSpec::new(self.keys.dtype(), layout, queries.buffer.address()),
                norms,
            },
            rotary: Some(Rotary {
                pairs: Pairs::Halves,
                dim: head_dim as u64,
                tables: [cos.clone(), sin.clone()],
                positions: Some(positions.clone()),
            }),
            cache: Some(self.cache_of(slots.clone())),
        };
        let views: Vec<_> = inputs.iter().map(|tensor| tensor.memory_view().map(Some)).collect::<Result<_, _>>()?;
        let queue = inputs[0].queue();
        let outputs = &mut [queries.buffer.as_view_mut(), self.keys.view_mut()?, self.values.view_mut()?];
        queue.run(&Heads, problem, &views, outputs)?;
        Ok(queries.finish())
    }
}

fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "heads", reason }.into()
}

fn expect(name: &str, tensor: &Tensor, expected: &[usize]) -> Result<(), Error> {
    if tensor.shape() == expected {
        return Ok(());
    }
    Err(refused(format!("{name} have the shape {:?}, not {expected:?}", tensor.shape())))
}
