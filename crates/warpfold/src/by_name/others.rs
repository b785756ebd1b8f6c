//! Operators beyond the families: products, losses, rows by index, counts of values.

use warpfold_kernels::reductions::{self, Reduction};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use super::{Choice, Operator, Options, segments};
use crate::{Attended, Attention, HeadLayout, PageLayout, PagedKeys, Pairs, RotaryOptions, Tensor};

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "cross-entropy",
        summary: "logits, labels → loss, log-sum-exp of each row",
        inputs: (2, 2),
        outputs: 2,
        options: &[Choice::IgnoreIndex],
        body: cross_entropy,
    },
    Operator {
        name: "softmax-v",
        summary: "scores [.., S, T], values [.., T, D] → softmax(scores) values",
        inputs: (2, 2),
        outputs: 1,
        options: &[],
        body: softmax_v,
    },
    Operator {
        name: "attention",
        summary: "Q, K, V [B, H, S, D], mask, lengths of keys [B] → softmax(Q Kᵀ scale) V, log-sum-exp of each row",
        inputs: (3, 5),
        outputs: 2,
        options: &[
            Choice::Causal,
            Choice::Scale,
            Choice::Softcap,
            Choice::Window,
            Choice::WindowLeft,
            Choice::WindowRight,
            Choice::Layout,
            Choice::Products,
            Choice::Dtype,
            Choice::ScaleQ,
            Choice::ScaleK,
            Choice::ScaleV,
        ],
        body: attention,
    },
    Operator {
        name: "paged-attention",
        summary: "Q [T, H, D], pages of K, of V, block table, lengths, cu_seqlens_q → attention, log-sum-exp",
        inputs: (5, 6),
        outputs: 2,
        options: &[
            Choice::Causal,
            Choice::Scale,
            Choice::Softcap,
            Choice::Window,
            Choice::WindowLeft,
            Choice::WindowRight,
            Choice::PageLayout,
            Choice::Products,
            Choice::Dtype,
            Choice::ScaleQ,
            Choice::ScaleK,
            Choice::ScaleV,
        ],
        body: paged_attention,
    },
    Operator {
        name: "rotary-embedding",
        summary: "X [B, H, S, D] or [B, S, H D], cosines, sines, positions [B, S] → X turned by its positions",
        inputs: (3, 4),
        outputs: 1,
        options: &[Choice::Interleaved, Choice::RotaryDim, Choice::NumHeads],
        body: rotary_embedding,
    },
    Operator {
        name: "gemv",
        summary: "A [M, K], x [K] → A x [M]; with --transpose x [M] → Aᵀ x [K]",
        inputs: (2, 2),
        outputs: 1,
        options: &[Choice::Transpose],
        body: gemv,
    },
    Operator {
        name: "gather",
        summary: "table [R, ..], indices [n] → rows of the table",
        inputs: (2, 2),
        outputs: 1,
        options: &[],
        body: gather,
    },
    Operator {
        name: "histogram",
        summary: "X (integers) → how often each number below the bins comes, i32",
        inputs: (1, 1),
        outputs: 1,
        options: &[Choice::Bins],
        body: histogram,
    },
    Operator {
        name: "unique-count",
        summary: "X → how many different elements there are",
        inputs: (1, 1),
        outputs: 1,
        options: &[Choice::Axes, Choice::Keepdims],
        body: unique_count,
    },
    Operator {
        name: "unique",
        summary: "X → its distinct elements (or parts along an axis), first positions, which of them each is, counts",
        inputs: (1, 1),
        outputs: 4,
        options: &[Choice::Axes, Choice::Unsorted],
        body: unique,
    },
    Operator {
        name: "sort",
        summary: "X → its elements in order along an axis, the last unless chosen, and their positions",
        inputs: (1, 1),
        outputs: 2,
        options: &[Choice::Axes, Choice::Descending],
        body: sort,
    },
    Operator {
        name: "transpose",
        summary: "X → its axes in reverse, or in the order of --axes",
        inputs: (1, 1),
        outputs: 1,
        options: &[Choice::Axes],
        body: transpose,
    },
    Operator {
        name: "topk",
        summary: "X → the k largest along an axis, their positions",
        inputs: (1, 1),
        outputs: 2,
        options: &[Choice::Axes, Choice::K, Choice::Offsets],
        body: top_k,
    },
    Operator {
        name: "nms",
        summary: "boxes [N, 4], scores [N] → the positions of the boxes that are kept",
        inputs: (2, 2),
        outputs: 1,
        options: &[Choice::Threshold],
        body: nms,
    },
];

fn out_of_range(operator: &Operator, option: &'static str, expected: &str) -> Error {
    ErrorKind::OptionOutOfRange { op: operator.name.to_owned(), option, expected: expected.to_owned() }.into()
}

/// Builds the options that both forms of attention share.
fn attention_of<'a>(operator: &Operator, options: &Options) -> Result<Attention<'a>, Error> {
    let mut attention = match options.causal.as_deref() {
        None => Attention::new(),
        Some("bottom-right") => Attention::new().causal(),
        Some("top-left") => Attention::new().causal_top_left(),
        Some(_) => return Err(out_of_range(operator, "causal", "of bottom-right or top-left")),
    };
    if let Some(scale) = options.scale {
        attention = attention.scale(scale);
    }
    if let Some(softcap) = options.softcap {
        attention = attention.softcap(softcap);
    }
    if let Some(window) = options.window {
        attention = attention.window(window);
    }
    let side = |name: &'static str, keys: Option<i64>| match keys {
        None | Some(-1) => Ok(None),
        Some(keys) => usize::try_from(keys).map(Some).map_err(|_| out_of_range(operator, name, "-1, or 0 and more")),
    };
    if let Some(keys) = side("window-left", options.window_left)? {
        attention = attention.window_left(keys);
    }
    if let Some(keys) = side("window-right", options.window_right)? {
        attention = attention.window_right(keys);
    }
    match options.products.as_deref() {
        None => {}
        Some("f8e4m3") => attention = attention.products(Dtype::F8E4M3),
        Some(_) => return Err(out_of_range(operator, "products", "f8e4m3")),
    }
    if let Some(dtype) = options.dtype {
        attention = attention.output_dtype(dtype);
    }
    let scales = [options.scale_q, options.scale_k, options.scale_v];
    Ok(attention.tensor_scales(scales.map(|scale| scale.unwrap_or(1.0))))
}

/// Bytes are of the type of the queries, where those have eight bits.
fn as_queries(q: &Tensor, tensor: &Tensor) -> Tensor {
    let is_bytes = tensor.dtype() == Dtype::U8 && q.dtype().is_float() && q.dtype().bytes() == 1;
    Tensor { dtype: if is_bytes { q.dtype() } else { tensor.dtype() }, ..tensor.clone() }
}

fn attention(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let layout = match options.layout.as_deref() {
        None | Some("bhsd") => HeadLayout::Bhsd,
        Some("bshd") => HeadLayout::Bshd,
        Some(_) => return Err(out_of_range(operator, "layout", "of bhsd or bshd")),
    };
    let mut attention = attention_of(operator, options)?.layout(layout);
    let is_list = |tensor: &&Tensor| tensor.rank() == 1 && matches!(tensor.dtype(), Dtype::I32 | Dtype::I64);
    let (mask, lens) = match &inputs[3..] {
        [only] if is_list(&only) => (None, Some(only)),
        others => (others.first(), others.get(1)),
    };
    let sequence_axis = if layout == HeadLayout::Bhsd { 2 } else { 1 };
    let most = inputs[1].shape().get(sequence_axis).copied().unwrap_or(0);
    let lens = lens.map(|lens| key_lens(lens, most)).transpose()?;
    if let Some(mask) = mask {
        attention = attention.mask(mask);
    }
    if let Some(lens) = &lens {
        // As in ONNX: the queries are the last of their sequences.
        attention = if options.causal.is_some() { attention.causal() } else { attention }.key_lens(lens);
    }
    let (q, k, v) = (&inputs[0], as_queries(&inputs[0], &inputs[1]), as_queries(&inputs[0], &inputs[2]));
    let Attended { output, lse } = attention.run(q, &k, &v)?;
    Ok(vec![output, lse])
}

/// Checks key lengths against the number of keys, and converts them to `i32`.
fn key_lens(lens: &Tensor, most: usize) -> Result<Tensor, Error> {
    let reason = |reason: String| Error::from(ErrorKind::Operand { operator: "attention", reason });
    let found: Vec<i64> = match lens.dtype() {
        Dtype::I64 => lens.to_vec()?,
        Dtype::I32 => lens.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
        dtype => return Err(ErrorKind::Unsupported { op: "lengths of keys".to_owned(), dtype }.into()),
    };
    if let Some(len) = found.iter().find(|len| !(0..=most as i64).contains(len)) {
        return Err(reason(format!("a sequence has {len} keys, the tensor {most}")));
    }
    let found: Vec<i32> = found.into_iter().map(|len| len as i32).collect();
    Tensor::from_bytes(lens.queue(), Dtype::I32, bytemuck::cast_slice(&found), lens.shape())
}

fn paged_attention(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let page_layout = match options.page_layout.as_deref() {
        None | Some("nhd") => PageLayout::Nhd,
        Some("hnd") => PageLayout::Hnd,
        Some(_) => return Err(out_of_range(operator, "page-layout", "of nhd or hnd")),
    };
    let attention = attention_of(operator, options)?.page_layout(page_layout);
    let (q, k, v) = (&inputs[0], as_queries(&inputs[0], &inputs[1]), as_queries(&inputs[0], &inputs[2]));
    let cache = PagedKeys { keys: &k, values: &v, block_table: &inputs[3], lens: &inputs[4] };
    cache.check(page_layout)?;
    if let Some(offsets) = inputs.get(5) {
        let starts = offsets.to_vec::<i32>()?;
        let total = q.shape().first().map_or(0, |total| *total as i32);
        let rises = starts.first() == Some(&0) && starts.last() == Some(&total);
        if !rises || starts.windows(2).any(|pair| pair[0] > pair[1]) {
            let reason = format!("cu_seqlens_q rises from 0 to the {total} queries, {starts:?} does not");
            return Err(ErrorKind::Operand { operator: "attention", reason }.into());
        }
    }
    let Attended { output, lse } = attention.run_paged(q, cache, inputs.get(5))?;
    Ok(vec![output, lse])
}

fn rotary_embedding(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let reason = |reason: String| Error::from(ErrorKind::Operand { operator: "rotary embedding", reason });
    if let Some(positions) = inputs.get(3) {
        let found = match positions.dtype() {
            Dtype::I32 => positions.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
            Dtype::I64 => positions.to_vec::<i64>()?,
            dtype => return Err(ErrorKind::Unsupported { op: "positions".to_owned(), dtype }.into()),
        };
        let rows = inputs[1].shape().first().copied().unwrap_or(0);
        if let Some(position) = found.iter().find(|position| !(0..rows as i64).contains(position)) {
            return Err(reason(format!("position {position} is not one of the {rows} rows of the cosines")));
        }
    }
    let pairs = if options.interleaved == Some(true) { Pairs::Interleaved } else { Pairs::Halves };
    let options = RotaryOptions { pairs, rotary_dim: options.rotary_dim, num_heads: options.num_heads };
    Ok(vec![inputs[0].rotary_embedding(&inputs[1], &inputs[2], inputs.get(3), options)?])
}

fn nms(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let missing = || ErrorKind::MissingOption { op: operator.name.to_owned(), option: "threshold" };
    Ok(vec![inputs[0].nms(&inputs[1], options.threshold.ok_or_else(missing)? as f32)?])
}

fn top_k(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let op = || operator.name.to_owned();
    let k = options.k.ok_or_else(|| ErrorKind::MissingOption { op: op(), option: "k" })?;
    let axes = options.axes.as_deref().unwrap_or(&[-1]);
    let [axis] = *axes else { return Err(ErrorKind::NotOneAxis { op: op(), found: axes.len() }.into()) };
    if let Some((x, offsets)) = segments::of(operator, inputs, options)? {
        let chosen = reductions::Options { k: Some(k), ..reductions::Options::default() };
        return x.segment_reduce(Reduction::TopK, offsets, chosen);
    }
    let (values, positions) = inputs[0].top_k(k, axis)?;
    Ok(vec![values, positions])
}

fn unique(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let unique = match options.axes.as_deref() {
        None => inputs[0].unique()?,
        Some(&[axis]) => inputs[0].unique_along(axis)?,
        Some(axes) => return Err(ErrorKind::NotOneAxis { op: operator.name.to_owned(), found: axes.len() }.into()),
    };
    let unique = if options.unsorted == Some(true) { unique.in_order_of_occurrence()? } else { unique };
    Ok(vec![unique.values, unique.first_indices, unique.inverse, unique.counts])
}

fn sort(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let axes = options.axes.as_deref().unwrap_or(&[-1]);
    let [axis] = *axes else {
        return Err(ErrorKind::NotOneAxis { op: operator.name.to_owned(), found: axes.len() }.into());
    };
    let descending = options.descending == Some(true);
    let (sorted, positions) = if descending { inputs[0].sort_descending(axis)? } else { inputs[0].sort(axis)? };
    Ok(vec![sorted, positions])
}

fn gemv(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let matrix = if options.transpose == Some(true) && inputs[0].rank() == 2 {
        inputs[0].reverse_axes()?
    } else {
        inputs[0].clone()
    };
    Ok(vec![matrix.gemv(&inputs[1])?])
}

fn gather(_: &Operator, inputs: &[Tensor], _: &Options) -> Result<Vec<Tensor>, Error> {
    Ok(vec![inputs[0].gather_rows(&inputs[1])?])
}

fn histogram(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let missing = || ErrorKind::MissingOption { op: operator.name.to_owned(), option: "bins" };
    Ok(vec![inputs[0].histogram(options.bins.ok_or_else(missing)?)?])
}

fn unique_count(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (x, axes) = (&inputs[0], options.axes_or_all());
    let counts = x.unique_count(axes)?;
    Ok(vec![if options.keepdims == Some(true) { counts.keep_axes(axes, x.rank())? } else { counts }])
}

fn transpose(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let turned = options.axes.as_ref().map_or_else(|| inputs[0].reverse_axes(), |axes| inputs[0].permute(axes))?;
    Ok(vec![turned.contiguous()?])
}

fn cross_entropy(_: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (loss, log_sum) = inputs[0].cross_entropy_rows(&inputs[1], options.ignore_index)?;
    Ok(vec![loss, log_sum])
}

fn softmax_v(_: &Operator, inputs: &[Tensor], _: &Options) -> Result<Vec<Tensor>, Error> {
    Ok(vec![inputs[0].softmax_v(&inputs[1])?])
}
