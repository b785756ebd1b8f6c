//! Queries and a cache on a device, and their attention.

use std::cell::OnceCell;

use half::{bf16, f16};
use warpfold_device::{Arguments, Device};
use warpfold_kernels::Dtype;
use warpfold_lang::{F8E4M3, Scalar};

use super::cache::{PAGE, blocks_of_heads, words};
use super::decode::num_parts;
use super::element::AttentionElement;
use super::instance::{FACTORS, accuracy_of, results_of, rows, step, wide};
use super::reference::{self, RowReference};
use super::shipped::{Of, Shipped, plan};
use crate::Error;
use crate::ladder::{Guarded, Guards, Heads, Instance, Memory, Rung, Verdict};

pub(super) fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    let heads = Heads::unpack(size);
    Ok(match dtype {
        Dtype::F16 => Box::new(Decode::<f16>::new(device, (dtype, heads), guards)?),
        Dtype::Bf16 => Box::new(Decode::<bf16>::new(device, (dtype, heads), guards)?),
        Dtype::F8E4M3 => Box::new(Decode::<F8E4M3>::new(device, (dtype, heads), guards)?),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    })
}

/// Returns the number of keys of each sequence: the first one fills the cache, the others at least
/// half of that.
fn lens(heads: Heads) -> Vec<u32> {
    let len = |sequence: usize| heads.length - sequence * 389 % (heads.length / 2 + 1);
    (0..heads.sequences).map(|sequence| len(sequence) as u32).collect()
}

struct Decode<T: AttentionElement> {
    device: Device,
    guards: Guards,
    dtype: Dtype,
    heads: Heads,
    lens: Vec<u32>,
    /// Queries, and keys and values of every head one after the other.
    elements: [Vec<T::Memory>; 3],
    expected: OnceCell<Vec<RowReference>>,
    queries: Guarded<T::Memory>,
    /// Keys and values, with room for as many tokens in every sequence.
    contiguous: [Guarded<T::Memory>; 2],
    /// The same in pages, of which there are no more than it takes.
    pages: [Guarded<T::Memory>; 2],
    table: Guarded<u32>,
    lens_on_device: Guarded<u32>,
    parts: Guarded<f32>,
    tickets: Guarded<u32>,
    output: Guarded<T::Out>,
    /// Bytes of the cache that the last rung was given.
    cache_bytes: u64,
    /// Inputs of the library's kernel.
    shipped: Option<Shipped>,
    num_pages: u64,
}

/// The pages that sequences have, last ones first: a table with room for all tokens, where an entry
/// that is not in use names no page; and how many pages there are.
fn block_table(heads: Heads, lens: &[u32]) -> (Vec<u32>, u32) {
    let width = (heads.length as u32).div_ceil(PAGE);
    let num_pages: u32 = lens.iter().map(|len| len.div_ceil(PAGE)).sum();
    let mut next = num_pages;
    let mut entries = Vec::new();
    for len in lens {
        for page in 0..width {
            let in_use = page * PAGE < *len;
            next -= u32::from(in_use);
            entries.push(if in_use { next } else { u32::MAX });
        }
    }
    (entries, num_pages)
}

impl<T: AttentionElement> Decode<T> {
    fn new(device: &Device, (dtype, heads): (Dtype, Heads), guards: Guards) -> Result<Self, Error> {
        let Heads { length, kv_heads, head_dim, sequences, .. } = heads;
        let lens = lens(heads);
        let of_queries = heads.all_heads() * head_dim;
        let queries = rows::<T>(7, of_queries, head_dim, &FACTORS);
        let nan = T::Memory::from_bits(u64::MAX);
        let cache = |seed| {
            let mut cache = rows::<T>(seed, sequences * kv_heads * length * head_dim, head_dim, &[1.0]);
            for (head, cache) in cache.chunks_mut(length * head_dim).enumerate() {
                cache[lens[head / kv_heads] as usize * head_dim..].fill(nan);
            }
            cache
        };
        let [keys, values] = [8, 9].map(cache);
        let (table, num_pages) = block_table(heads, &lens);
        let width = table.len() / sequences;
        let row =
            |sequence: usize, head: usize, token: usize| ((sequence * kv_heads + head) * length + token) * head_dim;
        let in_pages = |cache: &[T::Memory]| {
            let mut pages = vec![nan; (num_pages * PAGE) as usize * kv_heads * head_dim];
            for (sequence, len) in lens.iter().enumerate() {
                for (head, token) in (0..kv_heads).flat_map(|head| (0..*len as usize).map(move |token| (head, token))) {
                    let page = table[sequence * width + token / PAGE as usize] as usize;
                    let to = ((page * kv_heads + head) * PAGE as usize + token % PAGE as usize) * head_dim;
                    let from = row(sequence, head, token);
                    pages[to..to + head_dim].copy_from_slice(&cache[from..from + head_dim]);
                }
            }
            pages
        };
        let input = |name, elements: &[T::Memory]| Guarded::of(device, name, elements, guards);
        let parts = heads.all_heads() * num_parts(heads) * (head_dim + 2);
        let tickets = vec![0; blocks_of_heads(heads) as usize * sequences];
        Ok(Self {
            device: device.clone(),
            guards,
            dtype,
            heads,
            queries: input("q", &queries)?,
            contiguous: [input("k", &keys)?, input("v", &values)?],
            pages: [input("k_pages", &in_pages(&keys))?, input("v_pages", &in_pages(&values))?],
            table: Guarded::of(device, "block_table", &table, guards)?,
            lens_on_device: Guarded::of(device, "kv_lens", &lens, guards)?,
            parts: Guarded::new(device, "parts", parts, guards)?,
            tickets: Guarded::of(device, "tickets", &tickets, guards)?,
            output: Guarded::new(device, "o", of_queries, guards)?,
            lens,
            elements: [queries, keys, values],
            expected: OnceCell::new(),
            cache_bytes: 0,
            shipped: None,
            num_pages: num_pages.into(),
        })
    }

    /// Returns the expected value of every [`step`]th row; the same for every rung.
    fn expected(&self) -> &[RowReference] {
        let Heads { length, heads, kv_heads, head_dim, .. } = self.heads;
        let num_rows = self.heads.all_heads();
        let row = |row: usize| {
            let (sequence, head) = (row / heads, row % heads);
            let kv_head = sequence * kv_heads + head / self.heads.group();
            let [queries, keys, values] = &self.elements;
            let of_head = |of: &[T::Memory]| {
                wide::<T>(&of[kv_head * length * head_dim..][..self.lens[sequence] as usize * head_dim])
            };
            let start = row * head_dim;
            reference::row(start, &wide::<T>(&queries[start..][..head_dim]), &of_head(keys), &of_head(values))
        };
        let step = step(num_rows * length * head_dim);
        self.expected.get_or_init(|| (0..num_rows).step_by(step).map(row).collect())
    }
}

/// Returns whether a rung uses the paged cache.
fn is_paged(rung: &Rung) -> bool {
    matches!(rung.name, "paged" | "single_launch" | "shipped")
}

impl<T: AttentionElement> Instance for Decode<T> {
    fn reset(&mut self, rung: &Rung) -> Result<(), Error> {
        let cache = if is_paged(rung) { &self.pages } else { &self.contiguous };
        self.cache_bytes = cache.iter().map(|part| (part.len() * size_of::<T::Memory>()) as u64).sum();
        self.shipped = match rung.name {
            "shipped" => {
                let plan = plan(Of::Decode(self.num_pages), self.dtype, self.heads);
                Some(Shipped::new(&self.device, plan, self.guards)?)
            }
            _ => None,
        };
        self.parts.renew(&self.device, "parts", self.guards)?;
        self.output.renew(&self.device, "o", self.guards)
    }

    fn arguments(&mut self, rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error> {
        if let Some(shipped) = &mut self.shipped {
            let [keys, values] = &self.pages;
            let cache = [self.queries.view()?.bytes(), keys.view()?.bytes(), values.view()?.bytes()];
            let lists = [self.lens_on_device.view()?.bytes(), self.table.view()?.bytes()];
            return shipped.arguments(&[&cache[..], &lists].concat(), self.output.view_mut()?.bytes());
        }
        let words: Vec<u8> = words(self.heads).iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut arguments = Arguments::new();
        if launch_idx == 1 {
            arguments = arguments.input(self.parts.view()?).input(self.lens_on_device.view()?);
            return Ok(arguments.output(self.output.view_mut()?).raw(&words, 4));
        }
        let [keys, values] = if is_paged(rung) { &self.pages } else { &self.contiguous };
        arguments = arguments.input(self.queries.view()?).input(keys.view()?).input(values.view()?);
        arguments = arguments.input(self.lens_on_device.view()?);
        if is_paged(rung) {
            arguments = arguments.input(self.table.view()?);
        }
        if rung.name != "one_block" {
            arguments = arguments.output(self.parts.view_mut()?);
        }
        arguments = match rung.name {
            "one_block" => arguments.output(self.output.view_mut()?),
            "single_launch" => arguments.output(self.tickets.view_mut()?).output(self.output.view_mut()?),
            _ => arguments,
        };
        Ok(arguments.raw(&words, 4))
    }

    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error> {
        let (results, mut ok) = results_of(&self.output)?;
        for input in [&self.queries].into_iter().chain(&self.contiguous).chain(&self.pages) {
            ok &= input.is_intact()?;
        }
        for list in [&self.table, &self.lens_on_device, &self.tickets] {
            ok &= list.is_intact()?;
        }
        ok &= self.parts.is_intact()?;
        if let Some(shipped) = &self.shipped {
            ok &= shipped.is_intact()?;
        }
        // What no thread stored is still poison.
        ok &= results.iter().all(|result| result.is_finite());
        let mut max_error = 0.0;
        for row in self.expected() {
            let (error, is_right) =
                row.judge::<T>(&results[row.range()], accuracy_of::<T::Out>(), rung.name == "shipped");
            ok &= is_right;
            max_error = f64::max(max_error, error);
        }
        Ok(Verdict { ok, max_error })
    }

    fn bytes(&self) -> u64 {
        let Heads { kv_heads, head_dim, .. } = self.heads;
        let tokens: usize = self.lens.iter().map(|len| *len as usize).sum();
        let cache = 2 * tokens * kv_heads * head_dim * size_of::<T::Memory>();
        let queries = self.elements[0].len() * (size_of::<T::Memory>() + size_of::<T::Out>());
        (cache + queries) as u64
    }

    fn memory(&self) -> Memory {
        Memory { score_bytes: 0, cache_bytes: self.cache_bytes }
    }
}
