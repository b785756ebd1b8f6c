//! Weights on devices compared with the files that they come from.
//!
//! The loader notes where it put elements of a tensor ([`Placed`]). Once all is loaded, a kernel
//! digests them there, element by element with its place in the tensor, so that it does not matter
//! how they lie and on which device; [`Checkpoint::digests`] reads the files again. What differs is
//! an error that names the tensor.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use warpfold::{Dtype, ExpertMatrices, Mxfp4, PackedExperts, PackedWeights, Tensor};

use crate::Error;
use crate::error::ErrorKind;
use crate::files::{Checkpoint, Held};

/// A digest of all weights of a model: the names of its tensors, and their values in the type that
/// is computed in.
///
/// It depends on neither the format of the files nor the number of devices. It tells models apart,
/// and finds faults; it withstands nobody who wants two models of one digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WeightsDigest(u64);

impl WeightsDigest {
    /// A digest of a number, for a model whose weights are none but that.
    #[must_use]
    pub const fn of_number(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for WeightsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Location on a device of elements of a tensor of the files.
#[derive(Debug)]
pub(crate) struct Placed {
    /// The tensor.
    pub(crate) name: String,
    pub(crate) held: Held,
    pub(crate) view: View,
    /// The number of the view's first element in the tensor.
    pub(crate) first: u64,
    /// From one element of the view to the next in the tensor, for each axis.
    pub(crate) strides: Vec<isize>,
}

/// Elements on a device.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Tensor(Tensor),
    /// Some of what packed weights stand for, in a type.
    Packed {
        weights: PackedWeights,
        dtype: Dtype,
        part: PackedPart,
    },
    Mxfp4 {
        weights: Mxfp4,
        dtype: Dtype,
        part: Mxfp4Part,
    },
    /// Some of the rows of all packed experts: the first, each so many rows on, in this shape.
    Experts {
        matrices: PackedExperts,
        rows: Range<usize>,
        step: usize,
        shape: Vec<usize>,
    },
}

/// Some of the elements of weights in MXFP4.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mxfp4Part {
    All,
    /// Every other row: the first, or the second of two.
    Turns(usize),
}

/// Some of the elements of packed weights.
#[derive(Debug, Clone)]
pub(crate) enum PackedPart {
    Rows(Range<usize>),
    /// Every other group of eight rows: the first, or the second of two.
    Turns(usize),
}

impl View {
    /// Rows of packed weights.
    pub(crate) fn of_rows(weights: &PackedWeights, dtype: Dtype, rows: Range<usize>) -> Self {
        Self::Packed { weights: weights.clone(), dtype, part: PackedPart::Rows(rows) }
    }

    /// Every other group of eight rows of packed weights, `[groups, 1, elements of a group]`.
    pub(crate) fn of_turns(weights: &PackedWeights, dtype: Dtype, which: usize) -> Self {
        Self::Packed { weights: weights.clone(), dtype, part: PackedPart::Turns(which) }
    }

    /// The same elements of matrices of experts, once those that the view is one of are packed.
    pub(crate) fn of_packed(&self, before: &ExpertMatrices, packed: &PackedExperts) -> Option<Self> {
        let shape = self.shape();
        let columns = *shape.last()?;
        let (first, step) = match (self, before) {
            (Self::Tensor(view), ExpertMatrices::Plain(all)) => {
                let bytes = all.dtype().bytes() * columns as u64;
                let end = all.address() + all.len() as u64 * all.dtype().bytes();
                if !(all.address()..end).contains(&view.address()) {
                    return None;
                }
                ((view.address() - all.address()) / bytes, if shape.len() == 3 { 2 } else { 1 })
            }
            (Self::Mxfp4 { weights, part, .. }, ExpertMatrices::Mxfp4(all)) if weights.address() == all.address() => {
                match part {
                    Mxfp4Part::All => (0, 1),
                    Mxfp4Part::Turns(i) => (*i as u64, 2),
                }
            }
            _ => return None,
        };
        let (first, rows) = (first as usize, shape.iter().product::<usize>() / columns);
        Some(Self::Experts { matrices: packed.clone(), rows: first..first + rows * step, step, shape })
    }

    /// The elements; those of packed weights are decoded for it.
    pub(crate) fn tensor(&self) -> Result<Tensor, Error> {
        Ok(match self {
            Self::Tensor(tensor) => tensor.clone(),
            Self::Experts { matrices, .. } => self.of_matrix(&matrices.to_matrix()?)?,
            Self::Mxfp4 { weights, dtype, part } => {
                let (matrix, shape) = (weights.to_matrix(*dtype)?, weights.shape());
                match part {
                    Mxfp4Part::All => matrix,
                    Mxfp4Part::Turns(i) => matrix.reshape(&[shape[0] / 2, 2, shape[1]])?.slice(1, *i..i + 1)?,
                }
            }
            Self::Packed { weights, dtype, part } => {
                let (matrix, [rows, columns]) = (weights.to_matrix(*dtype)?, weights.shape());
                match part {
                    PackedPart::Rows(rows) => matrix.slice(0, rows.clone())?,
                    PackedPart::Turns(i) => matrix.reshape(&[rows / 16, 2, 8 * columns])?.slice(1, *i..i + 1)?,
                }
            }
        })
    }

    /// The elements, of the numbers of packed experts.
    fn of_matrix(&self, matrix: &Tensor) -> Result<Tensor, Error> {
        let Self::Experts { rows, step, shape, .. } = self else { return self.tensor() };
        let columns = shape[shape.len() - 1];
        let all = matrix.len() / columns / step;
        let (first, which) = (rows.start / step, rows.start % step);
        let turns = matrix.reshape(&[all, *step, columns])?.slice(1, which..=which)?;
        Ok(turns.slice(0, first..first + rows.len() / step)?.contiguous()?.reshape(shape)?)
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            Self::Tensor(tensor) => tensor.shape().to_vec(),
            Self::Experts { shape, .. } => shape.clone(),
            Self::Mxfp4 { weights, part, .. } => match (part, weights.shape()) {
                (Mxfp4Part::All, shape) => shape,
                (Mxfp4Part::Turns(_), shape) => vec![shape[0] / 2, 1, shape[1]],
            },
            Self::Packed { weights, part, .. } => match (part, weights.shape()) {
                (PackedPart::Rows(rows), [_, columns]) => vec![rows.len(), columns],
                (PackedPart::Turns(_), [rows, columns]) => vec![rows / 16, 1, 8 * columns],
            },
        }
    }
}

/// The devices' parts of one tensor, with their digests.
type Parts<'a> = Vec<(&'a Placed, u64)>;

impl WeightsDigest {
    /// Compares what devices hold with the files.
    pub(crate) fn of(checkpoint: &Checkpoint, placed: &[Vec<Placed>]) -> Result<Self, Error> {
        let mut tensors: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
        for of_device in placed {
            for (placed, digest) in of_device.iter().zip(on_device(of_device)?) {
                tensors.entry(&placed.name).or_default().push((placed, digest));
            }
        }
        let helds: Vec<_> = tensors.iter().map(|(name, parts)| (*name, parts[0].0.held)).collect();
        let mut model = Fnv::default();
        for ((name, parts), expected) in tensors.into_iter().zip(checkpoint.digests(&helds)?) {
            let found = whole(&parts, checkpoint.num_elements_of(name)).and_then(|found| {
                let differs = || format!("its digest there is {found:016x}, and {expected:016x} of the file");
                if found == expected { Ok(found) } else { Err(differs()) }
            });
            let wrong =
                |reason| ErrorKind::Weights { path: checkpoint.path().to_owned(), tensor: name.to_owned(), reason };
            let digest = found.map_err(wrong)?;
            let dtype = parts[0].0.held.dtype.name();
            [name.as_bytes(), &[0], dtype.as_bytes(), &digest.to_le_bytes()].into_iter().for_each(|x| model.push(x));
        }
        Ok(Self(model.0))
    }
}

/// The digests of what one device holds.
fn on_device(placed: &[Placed]) -> Result<Vec<u64>, Error> {
    let Some(first) = placed.first() else { return Ok(Vec::new()) };
    let mut sums = Tensor::zeros(placed.len(), Dtype::U64, first.view.tensor()?.queue())?;
    // Views of packed experts follow each other: their numbers are made once.
    let mut numbers: Option<(u64, Tensor)> = None;
    for (i, Placed { view, first, strides, .. }) in placed.iter().enumerate() {
        let tensor = if let View::Experts { matrices, .. } = view {
            let address = matrices.address();
            let known = numbers.take().filter(|(of, _)| *of == address);
            let (_, matrix) = numbers.insert(match known {
                Some(known) => known,
                None => (address, matrices.to_matrix()?),
            });
            view.of_matrix(matrix)?
        } else {
            view.tensor()?
        };
        tensor.digest_into(*first, strides, &mut sums, i)?;
    }
    Ok(sums.to_vec()?)
}

/// The digest of a whole tensor of so many elements. Devices may have parts in common.
fn whole(parts: &Parts<'_>, len: u64) -> Result<u64, String> {
    let mut distinct: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for (Placed { view, first, strides, held, .. }, digest) in parts {
        if *held != parts[0].0.held {
            return Err("it is there in two types".to_owned());
        }
        let shape = view.shape();
        let len = shape.iter().product::<usize>() as u64;
        let (_, other) = *distinct.entry((*first, strides, shape)).or_insert((len, *digest));
        if other != *digest {
            return Err(format!(
                "two devices have other values of the same part, of digests {digest:016x} and {other:016x}"
            ));
        }
    }
    let (held, digest) =
        distinct.values().fold((0, 0_u64), |(held, sum), (len, digest)| (held + len, sum.wrapping_add(*digest)));
    match held == len {
        true => Ok(digest),
        false => Err(format!("{held} elements are there, and {len} in the file")),
    }
}

/// The hash of Fowler, Noll and Vo over bytes (FNV-1a).
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn push(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}

#[cfg(test)]
mod tests;
