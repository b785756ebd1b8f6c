//! Sums of products by the names of axes, as NumPy's and PyTorch's `einsum`.

use std::borrow::Borrow;

use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;

impl Tensor {
    /// The sum of products over every name that the result does not have: `"ij,jk->ik"` is a
    /// product of matrices. Factors are multiplied from the left to the right, two at a time, by
    /// [`Tensor::matmul`]. Without `->` the result has the names that come once, in alphabetical
    /// order.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(Tensor::einsum("ij,jk->ik", &[&x, &x])?.to_vec2::<f32>()?, [[7.0, 10.0], [15.0, 22.0]]);
    /// assert_eq!(Tensor::einsum("ij->j", &[&x])?.to_vec::<f32>()?, [4.0, 6.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for names that are not letters, stand twice in one factor or do not
    /// agree with the shapes; those of [`Tensor::matmul`] and [`Tensor::sum`].
    pub fn einsum<T: Borrow<Self>>(equation: &str, factors: &[T]) -> Result<Self, Error> {
        let equation: String = equation.split_whitespace().collect();
        let (left, result) = match equation.split_once("->") {
            Some((left, result)) => (left, names(result)?),
            None => (&equation[..], once(&equation)),
        };
        let listed: Vec<&str> = left.split(',').collect();
        if listed.len() != factors.len() {
            let (names, tensors) = (listed.len(), factors.len());
            return Err(refused(format!("'{left}' names {names} factor(s), there are {tensors}")));
        }
        let mut named = Vec::new();
        for (index, (list, factor)) in listed.iter().zip(factors).enumerate() {
            named.push(Named::of(index, names(list)?, factor.borrow())?);
        }
        sizes_agree(&named)?;
        if let Some(name) = result.iter().find(|name| !left.contains(**name)) {
            return Err(refused(format!("no factor has the '{name}' of the result")));
        }
        let mut rest = named.into_iter();
        let mut product = rest.next().ok_or_else(|| refused("there are no factors".to_owned()))?;
        while let Some(factor) = rest.next() {
            let is_needed = |name: &char| result.contains(name) || rest.as_slice().iter().any(|of| of.has(*name));
            product = product.times(factor, &is_needed)?;
        }
        let product = product.without(|name| !result.contains(&name))?;
        product.in_order(&result)
    }
}

/// A tensor with a name for each axis.
struct Named {
    names: Vec<char>,
    tensor: Tensor,
}

impl Named {
    fn of(index: usize, names: Vec<char>, tensor: &Tensor) -> Result<Self, Error> {
        if names.len() != tensor.rank() {
            let (count, shape) = (names.len(), tensor.shape());
            return Err(refused(format!("factor {index} has {count} name(s) and the shape {shape:?}")));
        }
        Ok(Self { names, tensor: tensor.clone() })
    }

    fn has(&self, name: char) -> bool {
        self.names.contains(&name)
    }

    /// Summed over the axes of these names.
    fn without(self, is_summed: impl Fn(char) -> bool) -> Result<Self, Error> {
        let axes: Vec<isize> =
            (0..self.names.len()).filter(|i| is_summed(self.names[*i])).map(|i| i as isize).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let dtype = self.tensor.dtype();
        let names = self.names.into_iter().filter(|name| !is_summed(*name)).collect();
        Ok(Self { names, tensor: self.tensor.sum(&axes)?.to_dtype(dtype)? })
    }

    /// With its axes as listed.
    fn in_order(&self, names: &[char]) -> Result<Tensor, Error> {
        let axes: Vec<isize> =
            names.iter().filter_map(|name| self.names.iter().position(|n| n == name)).map(|i| i as isize).collect();
        self.tensor.permute(&axes)
    }

    /// Both multiplied, and summed over what nobody needs afterwards.
    fn times(self, right: Self, is_needed: &dyn Fn(&char) -> bool) -> Result<Self, Error> {
        let left = self.clone_names();
        let of_right = right.clone_names();
        let left_only = self.without(|name| !of_right.contains(&name) && !is_needed(&name))?;
        let right_only = right.without(|name| !left.contains(&name) && !is_needed(&name))?;
        let (a, b) = (&left_only, &right_only);
        let both =
            |keep: bool| a.names.iter().copied().filter(move |n| b.has(*n) && is_needed(n) == keep).collect::<Vec<_>>();
        let (batch, inner) = (both(true), both(false));
        let rows: Vec<char> = a.names.iter().copied().filter(|name| !b.has(*name)).collect();
        let columns: Vec<char> = b.names.iter().copied().filter(|name| !a.has(*name)).collect();
        let sizes = |of: &Self, names: &[char]| -> Vec<usize> { names.iter().map(|name| of.size(*name)).collect() };
        let (batch_sizes, row_sizes, column_sizes) = (sizes(a, &batch), sizes(a, &rows), sizes(b, &columns));
        let count = |sizes: &[usize]| sizes.iter().product::<usize>();
        let [batches, m, n, k] = [&batch_sizes, &row_sizes, &column_sizes, &sizes(a, &inner)].map(|sizes| count(sizes));
        let matrices = a.in_order(&[&batch[..], &rows, &inner].concat())?.reshape(&[batches, m, k])?;
        let others = b.in_order(&[&batch[..], &inner, &columns].concat())?.reshape(&[batches, k, n])?;
        let product = if inner.is_empty() { matrices.mul(&others)? } else { matrices.matmul(&others)? };
        let shape = [batch_sizes, row_sizes, column_sizes].concat();
        Ok(Self { names: [batch, rows, columns].concat(), tensor: product.reshape(&shape[..])? })
    }

    fn clone_names(&self) -> Vec<char> {
        self.names.clone()
    }

    fn size(&self, name: char) -> usize {
        self.names.iter().zip(self.tensor.shape()).find(|(of, _)| **of == name).map_or(1, |(_, size)| *size)
    }
}

/// The letters of a list of axes.
fn names(list: &str) -> Result<Vec<char>, Error> {
    let names: Vec<char> = list.chars().collect();
    if let Some(other) = names.iter().find(|name| !name.is_ascii_alphabetic()) {
        return Err(refused(format!(
            "'{other}' is no name of an axis: names are letters, factors have commas between"
        )));
    }
    if let Some((_, name)) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        return Err(refused(format!("'{name}' stands twice in '{list}': take the diagonal before")));
    }
    Ok(names)
}

/// The names that come once.
fn once(left: &str) -> Vec<char> {
    let is_single = |name: &char| name.is_ascii_alphabetic() && left.matches(*name).count() == 1;
    let mut names: Vec<char> = left.chars().filter(is_single).collect();
    names.sort_unstable();
    names
}

fn sizes_agree(factors: &[Named]) -> Result<(), Error> {
    for (index, factor) in factors.iter().enumerate() {
        for name in &factor.names {
            let Some((other, first)) = factors[..index].iter().enumerate().find(|(_, of)| of.has(*name)) else {
                continue;
            };
            let [a, b] = [first.size(*name), factor.size(*name)];
            if a != b {
                return Err(refused(format!("'{name}' is {a} in factor {other} and {b} in factor {index}")));
            }
        }
    }
    Ok(())
}

fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "einsum", reason }.into()
}
