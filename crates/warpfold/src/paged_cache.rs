//! The paged KV cache: keys and values of many sequences in pages, and writes of new ones.

use std::ops::Range;
use std::sync::Arc;

use warpfold_device::{HostBuffer, Stream};
use warpfold_kernels::heads::{Cache, Heads, Pairs, Problem, Queries, Rotary, Source};
use warpfold_kernels::plan::TensorSpec;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::Allocated;
use crate::{PageLayout, PagedKeys, Queue, Tensor};

/// A pool of pages of keys and of values, which one owner writes.
///
/// A token's *slot* is `page · tokens of a page + place in the page`. Slots, lengths and block
/// tables are read on the device, so that a captured graph can be launched again with others. What
/// is in slots that no sequence has is never looked at, whatever it is.
///
/// ```
/// use warpfold::{Attention, CacheShape, Device, Dtype, NewTokens, PageLayout, PagedCache, Profile, Queue, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let queue = Queue::of(&device);
/// let shape = CacheShape { pages: 4, page: 16, kv_heads: 1, head_dim: 2, value_dim: 2 };
/// let mut cache = PagedCache::new(&queue, Dtype::F32, shape, PageLayout::Nhd)?;
/// // Two tokens of a sequence whose first page is number 3.
/// let k = Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 1.0], &[2, 1, 2], &device)?;
/// let v = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 1, 2], &device)?;
/// let slots = Tensor::from_slice(&[48_i64, 49], &[2], &device)?;
/// cache.write(NewTokens { keys: &k, values: &v, slots: &slots }, None)?;
///
/// let table = Tensor::from_slice(&[3_i32], &[1, 1], &device)?;
/// let lens = Tensor::from_slice(&[2_i32], &[1], &device)?;
/// let q = Tensor::from_slice(&[100.0_f32, 0.0], &[1, 1, 2], &device)?;
/// let attended = Attention::new().run_paged(&q, cache.pages(&table, &lens), None)?;
/// assert_eq!(attended.output.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug)]
pub struct PagedCache {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
    pub(crate) layout: PageLayout,
    pub(crate) shape: CacheShape,
    pub(crate) scales: [f64; 2],
}

/// The sizes of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Pages of the pool.
    pub pages: usize,
    /// Tokens of a page.
    pub page: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a key.
    pub head_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
}

/// Keys and values of new tokens, and where they go.
#[derive(Debug, Clone, Copy)]
pub struct NewTokens<'a> {
    /// `[tokens, heads, head size]`.
    pub keys: &'a Tensor,
    /// `[tokens, heads, head size of the values]`.
    pub values: &'a Tensor,
    /// The slot of each token, `[tokens]` of `i32` or `i64`. A token whose slot is negative or
    /// beyond the pool is not written. No two tokens have the same.
    pub slots: &'a Tensor,
}

/// Rotary embedding of keys before they are cached, and of the queries beside them.
#[derive(Debug)]
pub struct CacheRotary<'a> {
    /// Cosines: a row for each position, a column for each pair of elements of a head that is
    /// turned.
    pub cos: &'a Tensor,
    /// Sines, likewise.
    pub sin: &'a Tensor,
    /// The position of each token, `[tokens]` of `i32` or `i64`.
    pub positions: &'a Tensor,
    /// The pairing of a head's elements.
    pub pairs: Pairs,
    /// Queries `[tokens, heads, head size]` that are turned in their place; their memory is theirs
    /// alone.
    pub queries: Option<&'a mut Tensor>,
}

impl PagedCache {
    /// A cache of any content.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a type that is no float of up to 32 bits; what the device
    /// says.
    pub fn new(queue: &Queue, dtype: Dtype, shape: CacheShape, layout: PageLayout) -> Result<Self, Error> {
        if !dtype.is_float() || dtype == Dtype::F64 {
            return Err(ErrorKind::Unsupported { op: "a cache".to_owned(), dtype }.into());
        }
        let CacheShape { pages, page, kv_heads, head_dim, value_dim } = shape;
        let of = |dim: usize| {
            let sizes = match layout {
                PageLayout::Nhd => [pages, page, kv_heads, dim],
                PageLayout::Hnd => [pages, kv_heads, page, dim],
            };
            Ok::<_, Error>(Allocated::new(queue, dtype, &sizes)?.finish())
        };
        Ok(Self { keys: of(head_dim)?, values: of(value_dim)?, layout, shape, scales: [1.0; 2] })
    }

    /// With scales of keys and values, by which new ones are divided: for 8-bit floats.
    /// [`Attention::tensor_scales`](crate::Attention::tensor_scales) takes them back.
    ///
    /// # Errors
    /// [`ErrorKind::OptionOutOfRange`] unless both are above 0.
    pub fn with_scales(self, scales: [f64; 2]) -> Result<Self, Error> {
        if scales.iter().all(|scale| *scale > 0.0 && scale.is_finite()) {
            return Ok(Self { scales, ..self });
        }
        let (op, expected) = ("cache write".to_owned(), "above 0".to_owned());
        Err(ErrorKind::OptionOutOfRange { op, option: "scale", expected }.into())
    }

    /// The pages of keys.
    #[must_use]
    pub const fn keys(&self) -> &Tensor {
        &self.keys
    }

    /// The pages of values.
    #[must_use]
    pub const fn values(&self) -> &Tensor {
        &self.values
    }

    /// Returns the order of tokens and heads in a page.
    #[must_use]
    pub const fn layout(&self) -> PageLayout {
        self.layout
    }

    /// The scales of keys and values.
    #[must_use]
    pub const fn scales(&self) -> [f64; 2] {
        self.scales
    }

    /// Returns the pages that sequences with these block tables and lengths attend to.
    /// [`Attention`](crate::Attention) is to be told the layout and the scales.
    #[must_use]
    pub const fn pages<'a>(&'a self, block_table: &'a Tensor, lens: &'a Tensor) -> PagedKeys<'a> {
        PagedKeys { keys: &self.keys, values: &self.values, block_table, lens }
    }

    /// Writes new tokens to their slots, in one launch; with `rotary` keys are turned on the way,
    /// and queries where they are: the bits are those of [`Tensor::rotary_embedding`] before.
    /// Positions outside of the tables are taken for the first or the last.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other, [`ErrorKind::DtypeMismatch`]
    /// and [`ErrorKind::Unsupported`] for element types, [`ErrorKind::SharedMemory`] where others
    /// see the cache or the queries.
    pub fn write(&mut self, tokens: NewTokens<'_>, rotary: Option<CacheRotary<'_>>) -> Result<(), Error> {
        let NewTokens { keys, values, slots } = tokens;
        let CacheShape { kv_heads, head_dim, value_dim, .. } = self.shape;
        let num = slots.len();
        expect("slots", slots, &[num])?;
        expect("keys", keys, &[num, kv_heads, head_dim])?;
        expect("values", values, &[num, kv_heads, value_dim])?;
        values.expect_dtype("the values", keys.dtype())?;
        let (keys, values, slots) =
            (keys.with_columns_together()?, values.with_columns_together()?, slots.contiguous()?);
        let mut inputs = vec![keys, values, slots];
        let mut queries = None;
        let rotary = match rotary {
            None => None,
            Some(CacheRotary { cos, sin, positions, pairs, queries: turned }) => {
                let (problem, tensors) = of_rotary([cos, sin, positions], pairs, num)?;
                inputs.extend(tensors);
                queries = turned;
                Some(problem)
            }
        };
        if let Some(queries) = &queries {
            let heads = queries.shape().get(1).copied().unwrap_or(0);
            expect("queries", queries, &[num, heads, head_dim])?;
            queries.expect_dtype("the queries", inputs[0].dtype())?;
            if queries.layout().strides()[2] != 1 {
                return Err(refused("the elements of a query do not lie side by side".to_owned()));
            }
        }
        let source = Source::Tensors {
            queries: queries.as_deref().map(|queries| Queries::InPlace(queries.spec())),
            keys_and_values: Some([0, 1].map(|i| inputs[i].spec())),
        };
        let problem = Problem { source, rotary, cache: Some(self.cache_of(inputs[2].spec())) };
        let views: Vec<_> = inputs.iter().map(|tensor| tensor.memory_view().map(Some)).collect::<Result<_, _>>()?;
        let queue = inputs[0].queue();
        let written = queries.into_iter().chain([&mut self.keys, &mut self.values]);
        let mut outputs = written.map(Tensor::view_mut).collect::<Result<Vec<_>, _>>()?;
        queue.run(&Heads, problem, &views, &mut outputs)
    }

    /// Describes the cache and the written slots to the planner.
    pub(crate) fn cache_of(&self, slots: TensorSpec) -> Cache {
        let order = if self.layout == PageLayout::Nhd { [0, 1, 2, 3] } else { [0, 2, 1, 3] };
        let pages = [&self.keys, &self.values]
            .map(|tensor| TensorSpec { layout: tensor.layout().permute(&order), ..tensor.spec() });
        Cache { slots, pages, scale_bits: self.scales.map(|scale| (scale as f32).to_bits()) }
    }
}

/// Whole pages, for forks and swapping.
impl PagedCache {
    /// Copies a page of keys and values to another one of the pool.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for a page that is not in the pool, [`ErrorKind::SharedMemory`] where
    /// others see the cache.
    pub fn copy_page(&mut self, from: u32, to: u32) -> Result<(), Error> {
        for tensor in [&mut self.keys, &mut self.values] {
            let [source, target] = [page_bytes(tensor, from)?, page_bytes(tensor, to)?];
            if from == to {
                continue;
            }
            let stream = tensor.queue.stream().clone();
            let memory = Arc::get_mut(&mut tensor.memory).ok_or(ErrorKind::SharedMemory)?;
            let middle = source.start.max(target.start);
            let (low, high) = memory.split_at_mut(middle)?;
            let within = |range: Range<usize>| range.start - middle..range.end - middle;
            match source.start < middle {
                true => stream.copy(high.slice(within(target))?, low.as_view().slice(source)?)?,
                false => stream.copy(low.slice(target)?, high.as_view().slice(within(source))?)?,
            }
        }
        Ok(())
    }

    /// Copies a page to parts of a pinned buffer, one of keys and one of values, on a stream that
    /// may be another than the tensors' own: what uses the pages there waits for it. Returns before
    /// it is done.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for a page that is not in the pool; what the device says of the
    /// parts.
    pub fn page_to_host(
        &self,
        stream: &Stream,
        from: u32,
        to: [Range<usize>; 2],
        host: &mut HostBuffer<u8>,
    ) -> Result<(), Error> {
        for (tensor, part) in [&self.keys, &self.values].into_iter().zip(to) {
            let page = tensor.memory.view(page_bytes(tensor, from)?)?;
            stream.copy_to_host_async(page, host.view_mut(part)?)?;
        }
        Ok(())
    }

    /// Copies parts of a pinned buffer to a page, one of keys and one of values, as
    /// [`PagedCache::page_to_host`] does.
    ///
    /// # Errors
    /// Those of [`PagedCache::page_to_host`], and [`ErrorKind::SharedMemory`] where others see the
    /// cache.
    pub fn page_from_host(
        &mut self,
        stream: &Stream,
        from: [Range<usize>; 2],
        host: &HostBuffer<u8>,
        to: u32,
    ) -> Result<(), Error> {
        for (tensor, part) in [&mut self.keys, &mut self.values].into_iter().zip(from) {
            let page = page_bytes(tensor, to)?;
            let memory = Arc::get_mut(&mut tensor.memory).ok_or(ErrorKind::SharedMemory)?;
            stream.copy_from_host_async(memory.view_mut(page)?, host.view(part)?)?;
        }
        Ok(())
    }
}

/// The bytes of a page; pages lie side by side in either layout.
fn page_bytes(tensor: &Tensor, page: u32) -> Result<Range<usize>, Error> {
    let pages = tensor.shape()[0];
    if page as usize >= pages {
        return Err(refused(format!("page {page} is not one of {pages}")));
    }
    let bytes = tensor.len() / pages * tensor.dtype.bytes() as usize;
    Ok(page as usize * bytes..(page as usize + 1) * bytes)
}

/// Returns the planner's description of a rotary embedding, with positions, cosines and sines as
/// kernels read them.
fn of_rotary([cos, sin, positions]: [&Tensor; 3], pairs: Pairs, tokens: usize) -> Result<(Rotary, [Tensor; 3]), Error> {
    let [rows, columns] = *cos.shape() else {
        return Err(refused(format!("cosines have 2 axes, not {}", cos.rank())));
    };
    expect("sines", sin, &[rows, columns])?;
    sin.expect_dtype("the table of sines", cos.dtype())?;
    expect("positions", positions, &[tokens])?;
    let (positions, cos, sin) = (positions.contiguous()?, cos.with_columns_together()?, sin.with_columns_together()?);
    let rotary =
        Rotary { pairs, dim: 2 * columns as u64, tables: [cos.spec(), sin.spec()], positions: Some(positions.spec()) };
    Ok((rotary, [positions, cos, sin]))
}

fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "cache write", reason }.into()
}

fn expect(name: &str, tensor: &Tensor, expected: &[usize]) -> Result<(), Error> {
    if tensor.shape() == expected {
        return Ok(());
    }
    Err(refused(format!("{name} have the shape {:?}, not {expected:?}", tensor.shape())))
}
