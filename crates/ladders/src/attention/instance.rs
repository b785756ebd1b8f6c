//! Queries, keys and values on a device, and their attention.

use std::cell::OnceCell;

use half::{bf16, f16};
use warpfold_device::{Arguments, Device, MapSwizzle, TensorLayout};
use warpfold_kernels::Dtype;
use warpfold_lang::F8E4M3;

use super::element::AttentionElement;
use super::ladder::{Data, data_of};
use super::reference::{self, RowReference};
use super::shipped::{Of, Shipped, plan};
use super::work::words;
use crate::ladder::{Guarded, Guards, Heads, Instance, Memory, Rung, Verdict, samples};
use crate::{Error, LadderElement};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    let heads = Heads::unpack(size);
    Ok(match dtype {
        Dtype::F32 => Box::new(Prefill::<f32>::new(device, (dtype, heads), guards)?),
        Dtype::F16 => Box::new(Prefill::<f16>::new(device, (dtype, heads), guards)?),
        Dtype::Bf16 => Box::new(Prefill::<bf16>::new(device, (dtype, heads), guards)?),
        Dtype::F8E4M3 => Box::new(Prefill::<F8E4M3>::new(device, (dtype, heads), guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

/// Rows of elements from -1 to 1, each row times the next of some factors, which go round.
pub(super) fn rows<T: AttentionElement>(seed: u64, len: usize, dim: usize, factors: &[f32]) -> Vec<T::Memory> {
    let factor = |i: usize| factors[i / dim % factors.len()];
    samples::<f32>(seed, len).into_iter().enumerate().map(|(i, x)| T::round(x * factor(i))).collect()
}

/// Factors of every third query: nearly equal weights, some unequal ones, and one that is all.
/// Without subtracting the maximum, exponentials of the last ones' scores are infinite.
pub(super) const FACTORS: [f32; 3] = [1.0, 4.0, 100.0];

/// Elements in double precision.
pub(super) fn wide<T: AttentionElement>(elements: &[T::Memory]) -> Vec<f64> {
    elements.iter().map(|element| T::as_f64(*element)).collect()
}

/// Every how many rows one is compared with the reference: all of them, unless that takes seconds.
/// Odd, so that every row of a tile has its turn.
pub(super) fn step(products: usize) -> usize {
    const MOST: usize = 1 << 27;
    products.div_ceil(MOST) | 1
}

struct Prefill<T: AttentionElement> {
    device: Device,
    guards: Guards,
    dtype: Dtype,
    heads: Heads,
    /// Queries, keys, values.
    elements: [Vec<T::Memory>; 3],
    expected: OnceCell<Vec<RowReference>>,
    inputs: [Guarded<T::Memory>; 3],
    output: Guarded<T::Out>,
    /// Room for scores, for results that are not yet finished, and for what goes with them: of the
    /// rungs that take it.
    scores: Option<Guarded<f32>>,
    running: Option<[Guarded<f32>; 2]>,
    counter: Guarded<u32>,
    /// Inputs of the library's kernel.
    shipped: Option<Shipped>,
}

impl<T: AttentionElement> Prefill<T> {
    fn new(device: &Device, (dtype, heads): (Dtype, Heads), guards: Guards) -> Result<Self, Error> {
        let Heads { length, kv_heads, head_dim, sequences, .. } = heads;
        let len = |heads: usize| heads * length * head_dim;
        let (of_queries, of_keys) = (len(heads.all_heads()), len(kv_heads * sequences));
        let queries = rows::<T>(7, of_queries, head_dim, &FACTORS);
        let [keys, values] = [8, 9].map(|seed| rows::<T>(seed, of_keys, head_dim, &[1.0]));
        let input = |name, elements: &[T::Memory]| Guarded::of(device, name, elements, guards);
        Ok(Self {
            device: device.clone(),
            guards,
            dtype,
            heads,
            inputs: [input("q", &queries)?, input("k", &keys)?, input("v", &values)?],
            output: Guarded::new(device, "o", of_queries, guards)?,
            elements: [queries, keys, values],
            expected: OnceCell::new(),
            scores: None,
            running: None,
            counter: Guarded::of(device, "counter", &[0], guards)?,
            shipped: None,
        })
    }

    /// Returns the expected value of every [`step`]th row; the same for every rung.
    fn expected(&self) -> &[RowReference] {
        let Heads { length, heads, head_dim, causal, .. } = self.heads;
        let num_rows = self.heads.all_heads() * length;
        let row = |row: usize| {
            let (head, query) = (row / length, row % length);
            let kv_head = head / heads * self.heads.kv_heads + head % heads / self.heads.group();
            let seen = if causal { query + 1 } else { length };
            let [queries, keys, values] = &self.elements;
            let start = row * head_dim;
            let [keys, values] =
                [keys, values].map(|of| wide::<T>(&of[kv_head * length * head_dim..][..seen * head_dim]));
            reference::row(start, &wide::<T>(&queries[start..][..head_dim]), &keys, &values)
        };
        let step = step(num_rows * length * head_dim);
        self.expected.get_or_init(|| (0..num_rows).step_by(step).map(row).collect())
    }
}

/// A map of an input whose box has some rows of 64 columns of a head.
fn layout(of: Heads, input: usize, rows: u32) -> TensorLayout {
    let heads = if input == 0 { of.all_heads() } else { of.kv_heads * of.sequences };
    let dims = [of.head_dim, of.length, heads].map(|size| size as u64);
    TensorLayout::tiled(&dims, &[dims[0], dims[0] * dims[1]], &[64, rows, 1], MapSwizzle::Bytes128)
}

/// Unit roundoff and smallest number of a type of results.
pub(super) const fn accuracy_of<O: LadderElement>() -> [f64; 2] {
    [O::UNIT_ROUNDOFF, O::SMALLEST]
}

/// Results in double precision, and whether nothing beside them was touched.
pub(super) fn results_of<O: LadderElement>(from: &Guarded<O>) -> Result<(Vec<f64>, bool), Error> {
    let (results, is_intact) = from.read()?;
    Ok((results.into_iter().map(LadderElement::as_f64).collect(), is_intact))
}

impl<T: AttentionElement> Instance for Prefill<T> {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        let num_rows = self.heads.all_heads() * self.heads.length;
        let new = |name, len| Guarded::new(&self.device, name, len, self.guards);
        (self.scores, self.running, self.shipped) = (None, None, None);
        match data_of(rung.name) {
            Data::Scores => self.scores = Some(new("scores", num_rows * self.heads.length)?),
            Data::Running => {
                self.running = Some([new("o", num_rows * self.heads.head_dim)?, new("statistics", 2 * num_rows)?]);
            }
            Data::Shipped => {
                let plan = plan(Of::Prefill, self.dtype, self.heads);
                self.shipped = Some(Shipped::new(&self.device, plan, self.guards)?);
            }
            Data::Tensors | Data::Maps(_) | Data::Drawn(_) => {}
        }
        self.output.renew(&self.device, "o", self.guards)
    }

    fn arguments(&mut self, rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error> {
        if let Some(shipped) = &mut self.shipped {
            let [q, k, v] = &self.inputs;
            let inputs = [q.view()?.bytes(), k.view()?.bytes(), v.view()?.bytes()];
            return shipped.arguments(&inputs, self.output.view_mut()?.bytes());
        }
        let words: Vec<u8> = words(self.heads).iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut arguments = Arguments::new();
        let data = data_of(rung.name);
        if let Data::Maps([q, kv]) | Data::Drawn([q, kv]) = data {
            for (input, rows) in [q, kv, kv].into_iter().enumerate() {
                let map = self.inputs[input].view()?.tensor_map(&layout(self.heads, input, rows))?;
                arguments = arguments.tensor_map(&map);
            }
        }
        let [q, k, v] = &self.inputs;
        arguments = match (data, &mut self.scores, &mut self.running) {
            (Data::Scores, Some(scores), _) => match launch_idx {
                0 => arguments.input(q.view()?).input(k.view()?).output(scores.view_mut()?),
                1 => arguments.output(scores.view_mut()?),
                _ => arguments.input(scores.view()?).input(v.view()?).output(self.output.view_mut()?),
            },
            (Data::Running, _, Some([results, statistics])) => {
                let arguments = arguments.input(q.view()?).input(k.view()?).input(v.view()?);
                arguments.output(results.view_mut()?).output(statistics.view_mut()?)
            }
            (Data::Tensors, ..) => {
                let arguments = arguments.input(q.view()?).input(k.view()?).input(v.view()?);
                arguments.output(self.output.view_mut()?)
            }
            (Data::Maps(_) | Data::Drawn(_), ..) => arguments.output(self.output.view_mut()?),
            (Data::Scores | Data::Running | Data::Shipped, ..) => unreachable!("the rung was not reset"),
        };
        if let Data::Drawn(_) = data {
            arguments = arguments.output(self.counter.view_mut()?);
        }
        Ok(arguments.raw(&words, 4))
    }

    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error> {
        let (results, mut ok, accuracy) = match &self.running {
            Some([results, statistics]) => {
                let (results, is_intact) = results_of(results)?;
                (results, is_intact && statistics.is_intact()?, accuracy_of::<f32>())
            }
            None => {
                let (results, is_intact) = results_of(&self.output)?;
                (results, is_intact, accuracy_of::<T::Out>())
            }
        };
        for input in &self.inputs {
            ok &= input.is_intact()?;
        }
        ok &= self.counter.is_intact()?;
        if let Some(shipped) = &self.shipped {
            ok &= shipped.is_intact()?;
        }
        if let Some(scores) = &self.scores {
            ok &= scores.is_intact()?;
        }
        let rounds_weights = !matches!(rung.name, "three_kernels" | "flash1" | "flash2");
        // What no thread stored is still poison.
        ok &= results.iter().all(|result| result.is_finite());
        let mut max_error = 0.0;
        for row in self.expected() {
            let (error, is_right) = row.judge::<T>(&results[row.range()], accuracy, rounds_weights);
            ok &= is_right;
            max_error = f64::max(max_error, error);
        }
        Ok(Verdict { ok, max_error })
    }

    fn bytes(&self) -> u64 {
        let inputs = self.elements.iter().map(|elements| elements.len() * size_of::<T::Memory>());
        (inputs.sum::<usize>() + self.elements[0].len() * size_of::<T::Out>()) as u64
    }

    fn flops(&self) -> Option<u64> {
        let Heads { length, head_dim, causal, .. } = self.heads;
        let pairs = if causal { length * (length + 1) / 2 } else { length * length };
        Some(4 * (self.heads.all_heads() * pairs * head_dim) as u64)
    }

    fn memory(&self) -> Memory {
        let rows = self.heads.all_heads() * self.heads.length;
        let score_bytes = self.scores.as_ref().map_or(0, |_| (4 * rows * self.heads.length) as u64);
        Memory { score_bytes, cache_bytes: 0 }
    }
}
