//! Attention over contiguous, packed and paged keys and values.

use warpfold_kernels::attention::{self as kernel, Causal, Keys, MaskLayout, Problem, Queries, Score};
use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

/// Axis order of a tensor of heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadLayout {
    /// `[batch, heads, length, head size]`.
    #[default]
    Bhsd,
    /// `[batch, length, heads, head size]`.
    Bshd,
}

/// Order of tokens and heads in a page of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageLayout {
    /// `[pages, tokens of a page, heads, head size]`.
    #[default]
    Nhd,
    /// `[pages, heads, tokens of a page, head size]`.
    Hnd,
}

/// `softmax(q kᵀ · scale) v`, with what is done to scores. Queries may have more heads than keys: a
/// multiple, neighbours sharing a head of keys.
///
/// **The bits of a row depend on its query and its keys alone**: not on the batch, on how queries
/// are chunked, on how keys lie in pages, nor on how the device splits them (see
/// [`warpfold_kernels::attention`]). Scores and sums are `f32`.
///
/// A score is `s = scale · q·k`; then a function of the user's ([`Attention::score`]); then
/// `softcap · tanh(s / softcap)`; then the mask is added. A row that sees no key is 0, and its
/// log-sum-exp minus infinity.
///
/// ```
/// use warpfold::{Attention, Device, Profile, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// // One head, two queries, two keys of two elements.
/// let q = Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 1.0], &[1, 1, 2, 2], &device)?;
/// let v = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2], &device)?;
/// let attended = Attention::new().causal().run(&q, &q, &v)?;
/// assert_eq!(attended.output.to_vec::<f32>()?[..2], [1.0, 2.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Attention<'a> {
    scale: Option<f64>,
    causal: Option<Causal>,
    window: Option<usize>,
    window_left: Option<usize>,
    window_right: Option<usize>,
    softcap: Option<f64>,
    mask: Option<&'a Tensor>,
    sinks: Option<&'a Tensor>,
    score: Option<Score>,
    layout: HeadLayout,
    page_layout: PageLayout,
    key_lens: Option<&'a Tensor>,
    tensor_scales: [f64; 3],
    products: Option<Dtype>,
    output_dtype: Option<Dtype>,
}

/// The results of attention.
#[derive(Debug, Clone)]
pub struct Attended {
    /// The output, in the shape of the queries with the head size of the values. Of the queries'
    /// type (of 8-bit queries `f32`), unless [`Attention::output_dtype`] says otherwise.
    pub output: Tensor,
    /// The logarithm of the sum of exponentials of each row, `f32`: `[batch, heads, length]`, or
    /// `[total, heads]` of packed queries.
    pub lse: Tensor,
}

/// The keys and values of a paged cache.
#[derive(Debug, Clone, Copy)]
pub struct PagedKeys<'a> {
    /// Pages of keys.
    pub keys: &'a Tensor,
    /// Pages of values.
    pub values: &'a Tensor,
    /// The pages of each sequence, in order: `[batch, width]` of `i32`.
    pub block_table: &'a Tensor,
    /// Keys of each sequence: `[batch]` of `i32`.
    pub lens: &'a Tensor,
}

impl Tensor {
    /// Attention of these queries, `[batch, heads, length, size]`: PyTorch's function of this name
    /// without a mask. [`Attention`] has masks, windows, scales and the rest.
    ///
    /// # Errors
    /// Those of [`Attention::run`].
    pub fn scaled_dot_product_attention(&self, keys: &Self, values: &Self) -> Result<Self, Error> {
        Ok(Attention::new().run(self, keys, values)?.output)
    }
}

impl<'a> Attention<'a> {
    /// Every query sees every key; the scale is `1 / sqrt(head size)`.
    #[must_use]
    pub fn new() -> Self {
        Self { tensor_scales: [1.0; 3], ..Self::default() }
    }

    /// The factor of scores.
    #[must_use]
    pub fn scale(self, scale: f64) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// A query sees no later keys; the last query sees the last key, as with a cache.
    #[must_use]
    pub fn causal(self) -> Self {
        Self { causal: Some(Causal::BottomRight), ..self }
    }

    /// A query sees no later keys; the first query sees the first key.
    #[must_use]
    pub fn causal_top_left(self) -> Self {
        Self { causal: Some(Causal::TopLeft), ..self }
    }

    /// A query sees so many keys up to its own position; without a causal mask so many on either
    /// side, its own among both.
    #[must_use]
    pub fn window(self, window: usize) -> Self {
        Self { window: Some(window), ..self }
    }

    /// A query sees at most so many keys before its own position, instead of those of
    /// [`window`](Self::window).
    ///
    /// ```
    /// use warpfold::{Attention, Device, Tensor};
    ///
    /// let device = Device::best();
    /// let x = Tensor::randn(0.0_f32, 1.0, (1, 1, 4, 8), &device)?;
    /// // Keys 1 and 2 before a query, and all after it.
    /// let one = Attention::new().window_left(2).run(&x, &x, &x)?.output;
    /// // No key after a query is a causal mask.
    /// let causal = Attention::new().window_left(2).window_right(0).run(&x, &x, &x)?.output;
    /// assert_eq!(causal.to_vec::<f32>()?, Attention::new().causal().window(3).run(&x, &x, &x)?.output.to_vec()?);
    /// assert_ne!(one.to_vec::<f32>()?, causal.to_vec::<f32>()?);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn window_left(self, keys: usize) -> Self {
        Self { window_left: Some(keys), ..self }
    }

    /// A query sees at most so many keys after its own position, and none with a causal mask.
    #[must_use]
    pub fn window_right(self, keys: usize) -> Self {
        Self { window_right: Some(keys), ..self }
    }

    /// Scores are kept below a number: `softcap · tanh(score / softcap)`.
    #[must_use]
    pub fn softcap(self, softcap: f64) -> Self {
        Self { softcap: Some(softcap), ..self }
    }

    /// A mask that repeats to `[batch, heads, queries, keys]`: floats are added to scores, of
    /// truths those that are false hide a key. Keys beyond the last that a mask has are hidden.
    #[must_use]
    pub fn mask(self, mask: &'a Tensor) -> Self {
        Self { mask: Some(mask), ..self }
    }

    /// One more logit for each query head, `[heads]`, which takes part in the sum and has no value.
    #[must_use]
    pub fn sinks(self, sinks: &'a Tensor) -> Self {
        Self { sinks: Some(sinks), ..self }
    }

    /// Sets the number of keys of each sequence, `[batch]` of `i32`: [`Attention::run`] sees no
    /// others, and the last query of a causal attention sees the last of them. Read on the device;
    /// more keys than there are count as all of them.
    #[must_use]
    pub fn key_lens(self, lens: &'a Tensor) -> Self {
        Self { key_lens: Some(lens), ..self }
    }

    /// A function of scores: see [`Score`].
    #[must_use]
    pub fn score(self, score: &Score) -> Self {
        Self { score: Some(score.clone()), ..self }
    }

    /// Sets the axis order of queries, keys, values and the output.
    #[must_use]
    pub fn layout(self, layout: HeadLayout) -> Self {
        Self { layout, ..self }
    }

    /// Sets the order of tokens and heads in a page.
    #[must_use]
    pub fn page_layout(self, page_layout: PageLayout) -> Self {
        Self { page_layout, ..self }
    }

    /// Sets the per-tensor scales of 8-bit queries, keys and values.
    #[must_use]
    pub fn tensor_scales(self, [queries, keys, values]: [f64; 3]) -> Self {
        Self { tensor_scales: [queries, keys, values], ..self }
    }

    /// Sets the input type of the tensor cores: `f8e4m3`, for queries, keys and values of that type
    /// on Hopper. Products of them are exact, as without it, but weights are rounded to `f8e4m3`,
    /// too: a result is off by up to 1/16 of the largest value, mostly by much less. What it
    /// depends on is the same. Without it, 8-bit queries are computed in `f32` on CUDA cores.
    ///
    /// ```
    /// use warpfold::{Attention, Device, Dtype, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::randn(0.0_f32, 1.0, (1, 1, 70, 32), &device)?.cast(Dtype::F8E4M3)?;
    /// let attention = Attention::new().causal().products(Dtype::F8E4M3).output_dtype(Dtype::Bf16);
    /// assert_eq!(attention.run(&x, &x, &x)?.output.dtype(), Dtype::Bf16);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn products(self, dtype: Dtype) -> Self {
        Self { products: Some(dtype), ..self }
    }

    /// The type of the output: `f32`, `f16`, `bf16` or one of eight bits.
    #[must_use]
    pub fn output_dtype(self, dtype: Dtype) -> Self {
        Self { output_dtype: Some(dtype), ..self }
    }

    /// Attends to keys and values of four axes.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for shapes that do not fit each other and head sizes above 256,
    /// [`ErrorKind::Unsupported`] for element types, [`ErrorKind::OptionOutOfRange`].
    pub fn run(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Attended, Error> {
        let (q, k, v) = (self.by_heads("queries", q)?, self.by_heads("keys", k)?, self.by_heads("values", v)?);
        let ([batch, heads, len, dim], [_, kv_heads, num_keys, _], [.., value_dim]) = (sizes(&q), sizes(&k), sizes(&v));
        expect("keys", sizes(&k), [batch, kv_heads, num_keys, dim])?;
        expect("values", sizes(&v), [batch, kv_heads, num_keys, value_dim])?;
        let shape = match self.layout {
            HeadLayout::Bhsd => [batch, heads, len, value_dim],
            HeadLayout::Bshd => [batch, len, heads, value_dim],
        };
        let out = self.output(&q, &shape)?;
        let (row, of_sequence) = (value_dim as i64, (len * heads * value_dim) as i64);
        let out_strides = match self.layout {
            HeadLayout::Bhsd => [of_sequence, len as i64 * row, row],
            HeadLayout::Bshd => [of_sequence, row, heads as i64 * row],
        };
        let queries = Queries::Dense { batch: batch as u64, len: len as u64, strides: strides(&q), out_strides };
        let (k_strides, v_strides) = (strides(&k), strides(&v));
        let keys = match self.key_lens {
            None => Keys::Dense { len: num_keys as u64, k_strides, v_strides },
            Some(lens) => {
                expect("key lengths", [list("key lengths", lens)?], [batch])?;
                Keys::Padded { len: num_keys as u64, k_strides, v_strides }
            }
        };
        let mask_keys = |mask: &Tensor| mask.shape().last().copied().filter(|keys| (2..num_keys).contains(keys));
        let broadcast = |mask: &Tensor| mask.broadcast(&[batch, heads, len, mask_keys(mask).unwrap_or(num_keys)]);
        let mask = self.mask.map(broadcast).transpose()?;
        let problem = self.problem([&q, &k, &v], [heads, kv_heads], queries, keys, mask.as_ref())?;
        let lists: Vec<&Tensor> = self.key_lens.into_iter().collect();
        self.attend(problem, &[&q, &k, &v], mask.as_ref(), &lists, out, &[batch, heads, len])
    }

    /// Attends with sequences one after the other: queries `[total, heads, head size]`, keys and
    /// values `[total, heads, head size]`. `cu_seqlens_q` and `cu_seqlens_k` (`[batch + 1]` of
    /// `i32`) say where each begins; they are read on the device. No sequence has more than
    /// `max_keys` keys.
    ///
    /// # Errors
    /// Those of [`Attention::run`].
    pub fn run_packed(
        &self,
        [q, k, v]: [&Tensor; 3],
        cu_seqlens_q: &Tensor,
        cu_seqlens_k: &Tensor,
        max_keys: usize,
    ) -> Result<Attended, Error> {
        let ([total, heads, dim], [keys, kv_heads, _], [.., value_dim]) =
            (three("queries", q)?, three("keys", k)?, three("values", v)?);
        expect("keys", three("keys", k)?, [keys, kv_heads, dim])?;
        expect("values", three("values", v)?, [keys, kv_heads, value_dim])?;
        let batch = self.batch_of("cu_seqlens_q", cu_seqlens_q)?;
        expect("cu_seqlens_k", [list("cu_seqlens_k", cu_seqlens_k)?], [batch + 1])?;
        let out = self.output(q, &[total, heads, value_dim])?;
        let of = |tensor: &Tensor| {
            let [token, head, element] = strides::<3>(tensor);
            [0, head, token, element]
        };
        let keys = Keys::Packed { total: keys as u64, max_len: max_keys as u64, k_strides: of(k), v_strides: of(v) };
        let problem = self.problem([q, k, v], [heads, kv_heads], packed(q, batch, total), keys, None)?;
        self.attend(problem, &[q, k, v], None, &[cu_seqlens_q, cu_seqlens_k], out, &[total, heads])
    }

    /// Attends to a paged cache: queries `[total, heads, head size]` of sequences one after the
    /// other, where `cu_seqlens_q` (`[batch + 1]` of `i32`) says where each begins; without it each
    /// has one query. Block table and lengths are read on the device, so that a captured graph can
    /// be launched again with others; page numbers are taken as they are ([`PagedKeys::check`]
    /// looks at them).
    ///
    /// # Errors
    /// Those of [`Attention::run`].
    pub fn run_paged(
        &self,
        q: &Tensor,
        cache: PagedKeys<'_>,
        cu_seqlens_q: Option<&Tensor>,
    ) -> Result<Attended, Error> {
        let [total, heads, dim] = three("queries", q)?;
        let pages = PagedShape::of(self.page_layout, cache)?;
        let PagedShape { batch, kv_heads, value_dim, .. } = pages;
        expect("keys", [pages.head_dim], [dim])?;
        let given = match cu_seqlens_q {
            Some(list) => self.batch_of("cu_seqlens_q", list)?,
            None => total,
        };
        expect("kv_lens", [batch], [given])?;
        let out = self.output(q, &[total, heads, value_dim])?;
        let queries = match cu_seqlens_q {
            Some(_) => packed(q, batch, total),
            None => {
                let [token, head, element] = strides::<3>(q);
                let (row, of_head) = ((heads * value_dim) as i64, value_dim as i64);
                let (strides, out_strides) = ([token, head, 0, element], [row, of_head, 0]);
                Queries::Dense { batch: batch as u64, len: 1, strides, out_strides }
            }
        };
        let problem = self.problem([q, cache.keys, cache.values], [heads, kv_heads], queries, pages.keys(), None)?;
        let lists: Vec<&Tensor> = cu_seqlens_q.into_iter().chain([cache.lens, cache.block_table]).collect();
        self.attend(problem, &[q, cache.keys, cache.values], None, &lists, out, &[total, heads])
    }

    /// A tensor of heads as `[batch, heads, length, head size]`.
    fn by_heads(&self, name: &str, tensor: &Tensor) -> Result<Tensor, Error> {
        if tensor.rank() != 4 {
            return Err(refused(format!("{name} have 4 axes, not {}", tensor.rank())));
        }
        match self.layout {
            HeadLayout::Bhsd => Ok(tensor.clone()),
            HeadLayout::Bshd => tensor.permute(&[0, 2, 1, 3]),
        }
    }

    fn batch_of(&self, name: &str, offsets: &Tensor) -> Result<usize, Error> {
        list(name, offsets)?.checked_sub(1).ok_or_else(|| refused(format!("{name} has at least one element")))
    }

    fn output(&self, q: &Tensor, shape: &[usize]) -> Result<Allocated, Error> {
        Allocated::new(q.queue(), self.dtype_of_output(q), shape)
    }

    fn dtype_of_output(&self, q: &Tensor) -> Dtype {
        self.output_dtype.unwrap_or(if q.dtype().bytes() == 1 { Dtype::F32 } else { q.dtype() })
    }

    fn problem(
        &self,
        [q, k, v]: [&Tensor; 3],
        [heads, kv_heads]: [usize; 2],
        queries: Queries,
        keys: Keys,
        mask: Option<&Tensor>,
    ) -> Result<Problem, Error> {
        let out_of_range = |option, expected: &str| {
            Error::from(ErrorKind::OptionOutOfRange {
                op: "attention".to_owned(),
                option,
                expected: expected.to_owned(),
            })
        };
        let (head_dim, value_dim) = (k.shape()[k.rank() - 1], v.shape()[v.rank() - 1]);
        v.expect_dtype("the values", k.dtype())?;
        if k.dtype() != q.dtype() && k.dtype().bytes() != 1 {
            let operand = "the keys".to_owned();
            return Err(ErrorKind::DtypeMismatch { operand, found: k.dtype(), expected: q.dtype() }.into());
        }
        let [scale_q, scale_k, scale_v] = self.tensor_scales;
        let scale = self.scale.unwrap_or_else(|| 1.0 / (head_dim.max(1) as f64).sqrt()) * scale_q * scale_k;
        if !scale.is_finite() {
            return Err(out_of_range("scale", "a finite number"));
        }
        if !scale_v.is_finite() {
            return Err(out_of_range("scale-v", "a finite number"));
        }
        if self.softcap.is_some_and(|softcap| !(softcap > 0.0 && softcap.is_finite())) {
            return Err(out_of_range("softcap", "above 0"));
        }
        let limited = |keys: usize| i32::try_from(keys).ok().map(i32::unsigned_abs);
        let window = self.window.map(|window| limited(window).filter(|window| *window > 0));
        if window == Some(None) {
            return Err(out_of_range("window", "from 1 to 2147483647"));
        }
        let window = window.flatten().map(|window| window - 1);
        let [left, right] = [self.window_left, self.window_right].map(|keys| keys.map(limited));
        if left == Some(None) || right == Some(None) {
            return Err(out_of_range("a side of the window", "from 0 to 2147483647"));
        }
        if let Some(mask) = mask {
            let is_fine = mask.dtype() == Dtype::Bool || mask.dtype().is_float() && mask.dtype() != Dtype::F64;
            if !is_fine {
                return Err(ErrorKind::Unsupported { op: "a mask of attention".to_owned(), dtype: mask.dtype() }.into());
            }
        }
        if let Some(sinks) = self.sinks {
            expect("sinks", [list_of("sinks", sinks, sinks.dtype())?], [heads])?;
        }
        Ok(Problem {
            dtype: q.dtype(),
            kv_dtype: k.dtype(),
            output: self.dtype_of_output(q),
            products: self.products,
            heads: heads as u64,
            kv_heads: kv_heads as u64,
            head_dim: head_dim as u64,
            value_dim: value_dim as u64,
            queries,
            keys,
            scale_bits: (scale as f32).to_bits(),
            value_scale_bits: (scale_v as f32).to_bits(),
            causal: self.causal,
            window_left: left.flatten().or(window),
            window_right: right.flatten().or(window).filter(|_| self.causal.is_none()),
            softcap_bits: self.softcap.map(|softcap| (softcap as f32).to_bits()),
            mask: mask.map(|mask| MaskLayout {
                dtype: mask.dtype(),
                keys: mask.shape()[3] as u64,
                strides: strides(mask),
            }),
            sinks: self.sinks.map(Tensor::dtype),
            lse: true,
            score: self.score.clone(),
            alignment: alignment_of([q.address(), k.address(), v.address()]),
        })
    }

    fn attend(
        &self,
        problem: Problem,
        tensors: &[&Tensor],
        mask: Option<&Tensor>,
        lists: &[&Tensor],
        mut output: Allocated,
        rows: &[usize],
    ) -> Result<Attended, Error> {
        let queue = tensors[0].queue();
        let mut lse = Allocated::new(queue, Dtype::F32, rows)?;
        let inputs = tensors.iter().copied().chain(mask).chain(self.sinks).chain(lists.iter().copied());
        let inputs: Vec<_> = inputs.map(|tensor| tensor.memory_view().map(Some)).collect::<Result<_, _>>()?;
        let outputs = &mut [output.buffer.as_view_mut(), lse.buffer.as_view_mut()];
        queue.run(&kernel::Attention, problem, &inputs, outputs)?;
        Ok(Attended { output: output.finish(), lse: lse.finish() })
    }
}

/// The sizes of a cache.
struct PagedShape {
    batch: usize,
    kv_heads: usize,
    head_dim: usize,
    value_dim: usize,
    keys: Keys,
}

impl PagedShape {
    fn of(layout: PageLayout, cache: PagedKeys<'_>) -> Result<Self, Error> {
        let order: [isize; 4] = match layout {
            PageLayout::Nhd => [0, 2, 1, 3],
            PageLayout::Hnd => [0, 1, 2, 3],
        };
        let by_heads = |name: &str, tensor: &Tensor| {
            if tensor.rank() != 4 {
                return Err(refused(format!("pages of {name} have 4 axes, not {}", tensor.rank())));
            }
            tensor.permute(&order)
        };
        let (k, v) = (by_heads("keys", cache.keys)?, by_heads("values", cache.values)?);
        let ([pages, kv_heads, page, head_dim], [.., value_dim]) = (sizes(&k), sizes(&v));
        expect("pages of values", sizes(&v), [pages, kv_heads, page, value_dim])?;
        cache.block_table.expect_dtype("the block table", Dtype::I32)?;
        let [batch, width] = *cache.block_table.shape() else {
            return Err(refused(format!("the block table has 2 axes, not {}", cache.block_table.rank())));
        };
        if !cache.block_table.layout().is_contiguous() {
            return Err(refused("the rows of the block table lie side by side".to_owned()));
        }
        expect("kv_lens", [list("kv_lens", cache.lens)?], [batch])?;
        let keys = Keys::Paged {
            page: page as u64,
            pages: pages as u64,
            width: width as u64,
            k_strides: strides(&k),
            v_strides: strides(&v),
        };
        Ok(Self { batch, kv_heads, head_dim, value_dim, keys })
    }

    fn keys(&self) -> Keys {
        self.keys.clone()
    }
}

impl PagedKeys<'_> {
    /// Looks at lengths and block table on the host: whether each sequence has pages for all its
    /// keys, and those are in the pool. Waits for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] that names the sequence.
    pub fn check(&self, layout: PageLayout) -> Result<(), Error> {
        let PagedShape { keys, .. } = PagedShape::of(layout, *self)?;
        let Keys::Paged { page, pages, width, .. } = keys else { unreachable!("these are pages") };
        let (lens, table) = (self.lens.to_vec::<i32>()?, self.block_table.to_vec::<i32>()?);
        for (sequence, len) in lens.iter().enumerate() {
            let most = page * width;
            let Some(len) = u64::try_from(*len).ok().filter(|len| *len <= most) else {
                return Err(refused(format!("sequence {sequence} has {len} keys, its row of the block table {most}")));
            };
            let row = &table[sequence * width as usize..][..len.div_ceil(page.max(1)) as usize];
            if let Some(id) = row.iter().find(|id| u64::try_from(**id).map_or(true, |id| id >= pages)) {
                return Err(refused(format!("sequence {sequence} has page {id}, the pool {pages} pages")));
            }
        }
        Ok(())
    }
}

fn packed(q: &Tensor, batch: usize, total: usize) -> Queries {
    Queries::Packed { batch: batch as u64, total: total as u64, strides: strides(q) }
}

fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "attention", reason }.into()
}

fn sizes(tensor: &Tensor) -> [usize; 4] {
    tensor.shape().try_into().expect("tensors of heads have four axes")
}

fn strides<const N: usize>(tensor: &Tensor) -> [i64; N] {
    let strides: Vec<i64> = tensor.layout().strides().iter().map(|stride| *stride as i64).collect();
    strides.try_into().expect("the axes were counted")
}

fn three(name: &str, tensor: &Tensor) -> Result<[usize; 3], Error> {
    tensor.shape().try_into().map_err(|_| refused(format!("packed {name} have 3 axes, not {}", tensor.rank())))
}

fn list(name: &str, tensor: &Tensor) -> Result<usize, Error> {
    list_of(name, tensor, Dtype::I32)
}

fn list_of(name: &str, tensor: &Tensor, dtype: Dtype) -> Result<usize, Error> {
    tensor.expect_dtype(name, dtype)?;
    match (tensor.shape(), tensor.layout().is_contiguous()) {
        ([len], true) => Ok(*len),
        _ => Err(refused(format!("{name} is a list without gaps, not {:?}", tensor.shape()))),
    }
}

fn expect<const N: usize>(name: &str, found: [usize; N], expected: [usize; N]) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(refused(format!("{name} have the shape {found:?}, not {expected:?}")))
}
