//! Sequences of every combination of element types, alone and in pools of pages full of NaN.

use warpfold::{Attended, Attention, Device, Dtype, PageLayout, PagedKeys, Profile, Queue, Tensor};
use warpfold_conformance::sample::sampled;

use crate::attention::support::{device, device_of, ints, random, tensor};

pub(crate) const HEADS: usize = 4;
pub(crate) const KV_HEADS: usize = 2;
pub(crate) const DIM: usize = 16;
pub(crate) const PAGE: usize = 16;

/// The elements of queries, of keys and values, and whether 8-bit ones are multiplied as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Types {
    pub queries: Dtype,
    pub keys: Dtype,
    pub narrow_products: bool,
}

pub(crate) const fn all(dtype: Dtype) -> Types {
    Types { queries: dtype, keys: dtype, narrow_products: false }
}

/// Queries of 16 bits over a cache of 8.
pub(crate) const fn narrow_cache(queries: Dtype) -> Types {
    Types { queries, keys: Dtype::F8E4M3, narrow_products: false }
}

pub(crate) const NARROW_PRODUCTS: Types = Types { narrow_products: true, ..all(Dtype::F8E4M3) };

/// Every combination of types, on the devices whose kernels differ.
fn all_types() -> Vec<(Device, Types)> {
    let (hopper, ampere) = (device(), device_of(Profile::A100));
    let of_hopper = [
        all(Dtype::F32),
        all(Dtype::F16),
        all(Dtype::Bf16),
        narrow_cache(Dtype::F16),
        narrow_cache(Dtype::Bf16),
        narrow_cache(Dtype::F32),
        NARROW_PRODUCTS,
    ];
    let of_ampere = [all(Dtype::F16), narrow_cache(Dtype::Bf16)];
    let of_hopper = of_hopper.into_iter().map(|types| (hopper.clone(), types));
    of_hopper.chain(of_ampere.into_iter().map(|types| (ampere.clone(), types))).collect()
}

/// Runs a test with every combination of types.
pub(crate) fn of_all_types(mut test: impl FnMut(&Device, Types)) {
    all_types().iter().for_each(|(device, types)| test(device, *types));
}

/// Runs a test with a sample of the combinations of types, another one for each `turn` of three.
pub(crate) fn of_some_types(turn: usize, mut test: impl FnMut(&Device, Types)) {
    sampled(turn, all_types()).iter().for_each(|(device, types)| test(device, *types));
}

impl Types {
    /// Causal attention, with scales for what has 8 bits.
    pub(crate) fn options<'a>(self) -> Attention<'a> {
        let attention = Attention::new().causal();
        let attention = if self.keys.bytes() == 1 { attention.tensor_scales([1.0, 0.3, 1.7]) } else { attention };
        if self.narrow_products { attention.products(Dtype::F8E4M3) } else { attention }
    }
}

/// A sequence of tokens with their queries, keys and values: `[length, heads, head size]`.
pub(crate) struct Sequence {
    pub types: Types,
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
}

impl Sequence {
    pub(crate) fn new(device: &Device, types: Types, seed: usize, len: usize) -> Self {
        let of = |i: usize, dtype, heads: usize| tensor(device, 3 * seed + i, dtype, &[len, heads, DIM]);
        let Types { queries, keys, .. } = types;
        Self { types, q: of(0, queries, HEADS), k: of(1, keys, KV_HEADS), v: of(2, keys, KV_HEADS) }
    }

    pub(crate) fn len(&self) -> usize {
        self.q.shape()[0]
    }

    /// The same with keys and values as elements of the queries' type.
    pub(crate) fn dequantised(&self) -> Self {
        let queries = self.types.queries;
        let wide = |x: &Tensor| x.cast(Dtype::F32).unwrap().cast(queries).unwrap();
        Self { types: all(queries), q: self.q.clone(), k: wide(&self.k), v: wide(&self.v) }
    }
}

/// The results of queries `from..to` of a sequence, with the keys before `to`: `[1, heads, queries,
/// dim]`.
pub(crate) fn alone(sequence: &Sequence, from: usize, to: usize) -> Attended {
    with_options(&sequence.types.options(), sequence, from, to)
}

pub(crate) fn with_options(options: &Attention<'_>, sequence: &Sequence, from: usize, to: usize) -> Attended {
    let by_heads =
        |x: &Tensor, from: usize| x.slice(0, from..to).unwrap().permute(&[1, 0, 2]).unwrap().unsqueeze(0).unwrap();
    let Sequence { q, k, v, .. } = sequence;
    options.run(&by_heads(q, from), &by_heads(k, 0), &by_heads(v, 0)).unwrap()
}

/// The bits of results and log-sum-exp.
pub(crate) type Bits = (Vec<u8>, Vec<u8>);

/// Those of a query, of each head, from `[1, heads, queries, dim]`.
pub(crate) fn row(attended: &Attended, i: usize) -> Bits {
    let bits = |x: &Tensor| x.slice(2, i..i + 1).unwrap().to_bytes().unwrap();
    (bits(&attended.output), bits(&attended.lse))
}

/// The same from `[total, heads, dim]`.
pub(crate) fn packed_row(attended: &Attended, i: usize) -> Bits {
    let bits = |x: &Tensor| x.slice(0, i..i + 1).unwrap().to_bytes().unwrap();
    (bits(&attended.output), bits(&attended.lse))
}

/// Where sequences lie in a pool of pages.
pub(crate) struct Pool {
    pub layout: PageLayout,
    pub keys: Tensor,
    pub values: Tensor,
    pub table: Tensor,
    pub lens: Tensor,
}

/// What is no number, as memory has it.
fn nan_of(dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F16 => half::f16::NAN.to_bits().to_le_bytes().to_vec(),
        Dtype::Bf16 => half::bf16::NAN.to_bits().to_le_bytes().to_vec(),
        Dtype::F8E4M3 => vec![0x7f],
        _ => f32::NAN.to_le_bytes().to_vec(),
    }
}

impl Pool {
    /// Puts sequences into pages in a random order, in a pool of NaN.
    pub(crate) fn new(device: &Device, seed: usize, sequences: &[&Sequence], layout: PageLayout) -> Self {
        let lens: Vec<usize> = sequences.iter().map(|sequence| sequence.len()).collect();
        let num_pages: usize = lens.iter().map(|len| len.div_ceil(PAGE)).sum::<usize>() + 3;
        let mut order: Vec<usize> = (0..num_pages).collect();
        (0..num_pages).for_each(|i| order.swap(i, ((random(seed, i).abs() * 1e6) as usize) % num_pages));
        let width = lens.iter().map(|len| len.div_ceil(PAGE)).max().unwrap_or(0) + 1;
        let dtype = sequences[0].types.keys;
        let of_head = DIM * dtype.bytes() as usize;
        let mut pages = [0, 1].map(|_| nan_of(dtype).repeat(num_pages * PAGE * KV_HEADS * DIM));
        let mut table = vec![i32::MAX; sequences.len() * width];
        let mut free = order.into_iter();
        for (s, sequence) in sequences.iter().enumerate() {
            let bytes = [&sequence.k, &sequence.v].map(|x| x.to_bytes().unwrap());
            for token in 0..sequence.len() {
                let entry = &mut table[s * width + token / PAGE];
                if token % PAGE == 0 {
                    *entry = free.next().unwrap() as i32;
                }
                let (page, token_of_page) = (*entry as usize, token % PAGE);
                for head in 0..KV_HEADS {
                    let place = match layout {
                        PageLayout::Nhd => (page * PAGE + token_of_page) * KV_HEADS + head,
                        PageLayout::Hnd => (page * KV_HEADS + head) * PAGE + token_of_page,
                    };
                    for (pages, bytes) in pages.iter_mut().zip(&bytes) {
                        let of_token = &bytes[(token * KV_HEADS + head) * of_head..][..of_head];
                        pages[place * of_head..][..of_head].copy_from_slice(of_token);
                    }
                }
            }
        }
        let shape = match layout {
            PageLayout::Nhd => [num_pages, PAGE, KV_HEADS, DIM],
            PageLayout::Hnd => [num_pages, KV_HEADS, PAGE, DIM],
        };
        let [keys, values] = pages.map(|bytes| Tensor::from_bytes(&Queue::of(device), dtype, &bytes, &shape).unwrap());
        let table = Tensor::from_slice(&table, &[sequences.len(), width], device).unwrap();
        let lens: Vec<i32> = lens.iter().map(|len| *len as i32).collect();
        Self { layout, keys, values, table, lens: ints(device, &lens) }
    }

    pub(crate) fn pages(&self) -> PagedKeys<'_> {
        PagedKeys { keys: &self.keys, values: &self.values, block_table: &self.table, lens: &self.lens }
    }
}

/// Tensors one after the other, along their first axis.
pub(crate) fn concatenated(device: &Device, parts: &[Tensor]) -> Tensor {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_bytes().unwrap()).collect();
    let total = parts.iter().map(|part| part.shape()[0]).sum();
    let shape = [&[total], &parts[0].shape()[1..]].concat();
    Tensor::from_bytes(&Queue::of(device), parts[0].dtype(), &bytes, &shape).unwrap()
}

/// Where sequences of such lengths begin, and the last one ends.
pub(crate) fn offsets(device: &Device, lens: &[usize]) -> Tensor {
    let mut sum = 0;
    let list: Vec<i32> = std::iter::once(0)
        .chain(lens.iter().map(|len| {
            sum += len;
            sum as i32
        }))
        .collect();
    ints(device, &list)
}
