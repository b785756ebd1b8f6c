//! From an attention to its launches.

use half::{bf16, f16};
use warpfold_device::{LaunchConfig, Limits, Profile, TensorLayout};
use warpfold_lang::F8E4M3;

use super::args::{AttentionArgs, HeadsArgs};
use super::choice::{Algorithm, Choice, Order, items, num_segments, rows_per_head, suits_tensor_cores};
use super::config::AttentionConfig;
use super::copy_rows::wide;
use super::factor::LOG2_LARGEST_E4M3_WEIGHT;
use super::merge::merge;
use super::mma::{self, MmaConfig, MmaTile, attend_mma};
use super::problem::{Causal, Keys, MaskLayout, Problem, Queries};
use super::simt::{self, attend};
use super::swapped::{SwappedArgs, SwappedConfig, SwappedTile, attend_swapped};
use super::wgmma::{self, MappedArgs, MappedKeys, WgmmaConfig, WgmmaTile, attend_wgmma, mapped_keys, maps};
use crate::matmul::tensor_map;
use crate::plan::{Family, MemoryMap, Operand, OperandSpec, Plan, Planned, Planner, Step, grid_size, within_limit};
use crate::{AnyKernel, Dtype, Error, ErrorKind, Shipped};

/// The family of attentions.
///
/// Inputs: queries, keys, values, then what the problem has of mask, sinks (one logit for each
/// query head), `cu_seqlens_q`, `cu_seqlens_k` or `kv_lens`, and the block table. Outputs: results
/// and, where it is asked for, the log-sum-exp (`f32`, `[batch, heads, queries]`, or `[total,
/// heads]` where sequences are packed).
#[derive(Debug, Clone, Copy, Default)]
pub struct Attention;

impl Attention {
    /// What [`Family::plan`] takes.
    #[must_use]
    pub fn choose(&self, problem: &Problem, planner: &Planner<'_>) -> Choice {
        Choice::new(problem, planner)
    }

    /// As [`Family::plan`], with keys split otherwise.
    ///
    /// # Errors
    /// Those of [`Family::plan`].
    pub fn plan_with(&self, problem: &Problem, choice: Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let is_narrow = matches!(choice.algorithm, Algorithm::Wgmma(WgmmaTile { element_bytes: 1, .. }));
        if problem.products.is_some() && !is_narrow {
            let reason = "products of 8-bit floats need Hopper's tensor cores (sm_90a)".to_owned();
            return Err(ErrorKind::Operand { operator: "attention", reason }.into());
        }
        let mut plan = operands(problem).choice(choice);
        if problem.rows() == 0 {
            return Ok(plan);
        }
        let Choice { algorithm, splits, segments, order, single_launch } = choice;
        let merges = single_launch && splits > 1;
        if merges && algorithm == Algorithm::Simt {
            let reason = "CUDA cores merge parts in a launch of its own".to_owned();
            return Err(ErrorKind::Operand { operator: "attention", reason }.into());
        }
        let has_segments = segments > 1 && order == Order::Segments;
        let (items, rows) = (items(problem, algorithm), algorithm.rows());
        let config = AttentionConfig {
            merges,
            ..AttentionConfig::new(problem, rows, algorithm.wide(), splits > 1, has_segments)
        };
        if config.pairs && algorithm != Algorithm::Simt {
            plan.outputs[0].alignment = if config.quads { 16 } else { 2 * problem.output.bytes() };
        }
        let num_sms = u64::from(planner.limits.num_sms).max(1);
        let grid = grid_size((items * splits).min(num_sms * algorithm.blocks_per_sm()))?;
        let kernel = Shape::new(problem, &config, algorithm, planner);
        let has_states = has_segments && splits == 1 && kernel.state_words > 0;
        let states = has_states.then(|| plan.add_scratch(4 * u64::from(grid) * u64::from(kernel.state_words)));
        let of_segment = problem.rows() * u64::from(config.partial_words());
        let partials = (splits > 1).then(|| plan.add_scratch(4 * num_segments(problem) * of_segment));
        let counter = (algorithm != Algorithm::Simt).then_some(Operand::Tickets);
        let args = AttentionArgs { states, partials, counter, ..args(problem, choice, items * splits)? };
        let uncounted = AttentionArgs { counter: None, ..args };
        let merge = (splits > 1 && !merges).then(|| {
            let kernel = planner.kernel(Merge(config), |Merge(config)| merge(config));
            Step::new(kernel, LaunchConfig::new(grid_size(items)?, simt::BLOCK)).with(uncounted)
        });
        let launch = LaunchConfig::new(grid, kernel.threads).dynamic_shared(kernel.shared_bytes);
        let main = Step::new(kernel.kernel, launch);
        let main = match kernel.maps {
            TensorMaps::None => main.with(args),
            TensorMaps::Swapped([k, v]) => main.with(SwappedArgs { k, v, common: args }),
            TensorMaps::Wgmma([q, k, v]) => main.with(MappedArgs { q, k, v, common: args }),
        };
        plan.tickets = u64::from(algorithm != Algorithm::Simt) + if merges { items } else { 0 };
        plan.steps.push(main?);
        plan.steps.extend(merge.transpose()?);
        Ok(plan)
    }
}

/// The main kernel, with what its launch needs to know.
struct Shape {
    kernel: AnyKernel,
    threads: u32,
    shared_bytes: u32,
    state_words: u32,
    maps: TensorMaps,
}

/// Tensor maps that the main kernel takes.
enum TensorMaps {
    None,
    /// Keys and values.
    Swapped([MemoryMap; 2]),
    /// Queries, keys and values.
    Wgmma([Option<MemoryMap>; 3]),
}

impl Shape {
    fn new(problem: &Problem, config: &AttentionConfig, algorithm: Algorithm, planner: &Planner<'_>) -> Self {
        let tile = match algorithm {
            Algorithm::Wgmma(tile) => tile,
            Algorithm::Swapped(tile) => {
                let (config, layouts) = swapped_config(problem, config.clone(), tile);
                let [k, v] = layouts;
                let map = |input, layout| tensor_map(Operand::Input(input), layout, problem.kv_dtype);
                let AttentionConfig { head_dim, value_dim, .. } = config.common;
                return Self {
                    kernel: planner.kernel(config.clone(), make_swapped),
                    threads: SwappedTile::THREADS,
                    shared_bytes: tile.shared_bytes([head_dim, value_dim], config.common.folds()),
                    state_words: 0,
                    maps: TensorMaps::Swapped([map(1, k), map(2, v)]),
                };
            }
            Algorithm::Mma(tile) => {
                let config = mma_config(problem, config.clone(), tile);
                return Self {
                    kernel: planner.kernel(config.clone(), make_mma),
                    threads: tile.threads(),
                    shared_bytes: tile.shared_bytes(config.common.head_dim, config.common.value_dim),
                    state_words: mma::state_words_of_block(&config),
                    maps: TensorMaps::None,
                };
            }
            Algorithm::Simt => {
                return Self {
                    kernel: planner.kernel(config.clone(), attend),
                    threads: simt::BLOCK,
                    shared_bytes: simt::shared_bytes(config),
                    state_words: simt::state_words_of_block(config),
                    maps: TensorMaps::None,
                };
            }
        };
        let (config, [queries, keys, values]) = wgmma_config(problem, config.clone(), tile);
        let map = |input, layout: Option<TensorLayout>| {
            layout.map(|layout| tensor_map(Operand::Input(input), layout, problem.dtype))
        };
        Self {
            kernel: planner.kernel(config.clone(), make_wgmma),
            threads: tile.threads(),
            shared_bytes: tile.shared_bytes(config.common.head_dim, config.common.value_dim),
            state_words: wgmma::state_words_of_block(&config),
            maps: TensorMaps::Wgmma([map(0, queries), map(1, keys), map(2, values)]),
        }
    }
}

fn wgmma_config(
    problem: &Problem,
    common: AttentionConfig,
    tile: WgmmaTile,
) -> (WgmmaConfig, [Option<TensorLayout>; 3]) {
    let maps = maps(problem, tile);
    let (maps_keys, [keys, values]) = match maps.keys {
        Some(MappedKeys { keys, values, of_box }) => (Some(of_box), [Some(keys), values]),
        None => (None, [None, None]),
    };
    let is_plain = is_plain(problem);
    let config = WgmmaConfig { common, tile, maps_queries: maps.queries.is_some(), maps_keys, is_plain };
    (config, [maps.queries, keys, values])
}

/// Input of [`SwappedTile::choose`] for keys that TMA can read.
fn swapped_config(problem: &Problem, common: AttentionConfig, tile: SwappedTile) -> (SwappedConfig, [TensorLayout; 2]) {
    let mapped = mapped_keys(problem, (1, tile.keys), true).expect("TMA reads keys and values of a swapped product");
    let values = mapped.values.expect("values were asked for");
    let config = SwappedConfig { common, tile, box_keys: mapped.of_box, is_plain: is_plain(problem) };
    (config, [mapped.keys, values])
}

fn make_swapped(config: &SwappedConfig) -> AnyKernel {
    match config.common.dtype {
        Dtype::F16 => attend_swapped::<f16>(config).into(),
        _ => attend_swapped::<bf16>(config).into(),
    }
}

/// Whether scores are products times a scale above zero, and masks follow from positions.
fn is_plain(problem: &Problem) -> bool {
    let scale = f32::from_bits(problem.scale_bits);
    problem.softcap_bits.is_none() && problem.mask.is_none() && problem.score.is_none() && scale > 0.0
}

pub(super) fn mma_tile(problem: &Problem, limits: &Limits) -> MmaTile {
    MmaTile::choose([problem.head_dim, problem.value_dim].map(|dim| dim as u32), is_plain(problem), limits)
}

fn mma_config(problem: &Problem, common: AttentionConfig, tile: MmaTile) -> MmaConfig {
    MmaConfig { is_plain: is_plain(problem), common, tile }
}

fn make_mma(config: &MmaConfig) -> AnyKernel {
    match config.common.dtype {
        Dtype::F16 => attend_mma::<f16>(config).into(),
        _ => attend_mma::<bf16>(config).into(),
    }
}

fn make_wgmma(config: &WgmmaConfig) -> AnyKernel {
    match config.common.dtype {
        Dtype::F8E4M3 => attend_wgmma::<F8E4M3>(config).into(),
        Dtype::F16 => attend_wgmma::<f16>(config).into(),
        _ => attend_wgmma::<bf16>(config).into(),
    }
}

/// What the kernel that merges is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Merge(AttentionConfig);

impl Family for Attention {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        self.plan_with(problem, self.choose(problem, planner), planner)
    }
}

// THRESHOLD: heads of more bytes go by sections; tested by
// crates/conformance/tests/attention/options.rs::heads_whose_keys_l2_does_not_hold_at_once_are_those_that_they_are_alone
/// Bytes of keys and values that the L2 is trusted to hold: either half of Hopper's has a copy of
/// its own.
const HELD_BYTES: u64 = 20 << 20;

/// Heads of keys, of all sequences, whose keys and values the L2 holds: about equal shares of all.
fn section(problem: &Problem) -> u64 {
    let heads = problem.batch() * problem.kv_heads;
    let bytes = problem.max_keys() * (problem.head_dim + problem.value_dim) * problem.kv_dtype.bytes();
    heads.div_ceil((heads * bytes).div_ceil(HELD_BYTES).clamp(1, heads.max(1)))
}

/// Tiles of rows of each sequence, where all have the same number of queries.
fn tiles(problem: &Problem, algorithm: Algorithm) -> u64 {
    match problem.queries {
        Queries::Dense { len, .. } => (len * problem.group()).div_ceil(algorithm.rows().into()),
        Queries::Packed { .. } => 1,
    }
}

fn operands(problem: &Problem) -> Plan {
    let reach = |dims: &[(u64, i64)]| {
        if dims.iter().any(|(size, _)| *size == 0) {
            return 0;
        }
        // With a stride below zero elements lie before the address, where nothing counts bytes.
        1 + dims.iter().map(|(size, stride)| (size - 1) * stride.max(&0).unsigned_abs()).sum::<u64>()
    };
    let Problem { dtype, kv_dtype, output, heads, kv_heads, head_dim, value_dim, .. } = *problem;
    let batch = problem.batch();
    let zip = |sizes: &[u64], strides: &[i64]| {
        sizes.iter().copied().zip(strides.iter().copied()).collect::<Vec<(u64, i64)>>()
    };
    let (queries, results) = match &problem.queries {
        Queries::Dense { len, strides, out_strides, .. } => {
            let results = zip(&[batch, heads, *len], out_strides);
            (zip(&[batch, heads, *len, head_dim], strides), [results, vec![(value_dim, 1)]].concat())
        }
        Queries::Packed { total, strides, .. } => {
            (zip(&[*total, heads, head_dim], strides), vec![(total * heads * value_dim, 1)])
        }
    };
    let sizes = match problem.keys {
        Keys::Dense { len, .. } | Keys::Padded { len, .. } => [batch, kv_heads, len],
        Keys::Packed { total, .. } => [1, kv_heads, total],
        Keys::Paged { page, pages, .. } => [pages, kv_heads, page],
    };
    let [k_strides, v_strides] = problem.keys.strides();
    let of_kv = |dim: u64, strides: &[i64; 4]| reach(&zip(&[&sizes[..], &[dim]].concat(), strides)) * kv_dtype.bytes();
    let alignment = problem.alignment;
    let mut plan = Plan::new("attention")
        .input(OperandSpec::new("the queries", reach(&queries) * dtype.bytes(), alignment.max(dtype.bytes())))
        .input(OperandSpec::new("the keys", of_kv(head_dim, k_strides), alignment))
        .input(OperandSpec::new("the values", of_kv(value_dim, v_strides), alignment));
    if let Some(MaskLayout { dtype, keys, strides }) = problem.mask {
        let len = match problem.queries {
            Queries::Dense { len, .. } => len,
            Queries::Packed { total, .. } => total,
        };
        let bytes = reach(&zip(&[batch, heads, len, keys], &strides)) * dtype.bytes();
        plan = plan.input(OperandSpec::new("the mask", bytes, dtype.bytes()));
    }
    if let Some(dtype) = problem.sinks {
        plan = plan.input(OperandSpec::new("the sinks", heads * dtype.bytes(), dtype.bytes()));
    }
    if matches!(problem.queries, Queries::Packed { .. }) {
        plan = plan.input(OperandSpec::new("cu_seqlens_q", 4 * (batch + 1), 4));
    }
    plan = match problem.keys {
        Keys::Dense { .. } => plan,
        Keys::Packed { .. } => plan.input(OperandSpec::new("cu_seqlens_k", 4 * (batch + 1), 4)),
        Keys::Padded { .. } => plan.input(OperandSpec::new("kv_lens", 4 * batch, 4)),
        Keys::Paged { width, .. } => plan.input(OperandSpec::new("kv_lens", 4 * batch, 4)).input(OperandSpec::new(
            "the block table",
            4 * batch * width,
            4,
        )),
    };
    plan = plan.output(OperandSpec::new("the results", reach(&results) * output.bytes(), output.bytes()));
    if problem.lse {
        plan = plan.output(OperandSpec::new("the log-sum-exp", 4 * problem.rows(), 4));
    }
    plan
}

// THRESHOLD: a size that a kernel takes as 32 bits is refused from 2^31 on; tested by
// crates/kernels/tests/parts/plans.rs::sizes_that_attention_takes_as_32_bits_are_refused_beyond_them
/// The arguments but for scratch memory.
fn args(problem: &Problem, choice: Choice, num_items: u64) -> Result<AttentionArgs<Planned>, Error> {
    let size = |value: u64| within_limit("a size of an attention", value);
    // A wider one sees every key, and positions with it are numbers of 32 bits.
    let window = |window: Option<u32>| window.unwrap_or(0).min(1 << 30);
    let mut inputs = (3..).map(Operand::Input);
    let mut input = |is_there: bool| if is_there { inputs.next() } else { None };
    let heads =
        |memory, [sequence, head, position, element]: [i64; 4]| HeadsArgs { memory, sequence, head, position, element };
    let (is_packed, queries, q, out) = match problem.queries {
        Queries::Dense { len, strides, out_strides: [b, h, s], .. } => (false, len, strides, [b, h, s, 1]),
        Queries::Packed { strides: [position, head, element], .. } => {
            let (heads, dim) = (problem.heads as i64, problem.value_dim as i64);
            (true, 0, [0, head, position, element], [0, dim, heads * dim, 1])
        }
    };
    let [k, v] = problem.keys.strides();
    let (page, width) = match problem.keys {
        Keys::Paged { page, width, .. } => (page, width),
        _ => (0, 0),
    };
    let softcap = problem.softcap_bits.map_or(1.0, f32::from_bits);
    // Weights of 8-bit floats go further than to 1.
    let largest = if problem.products.is_some() { 2_f32.powi(LOG2_LARGEST_E4M3_WEIGHT) } else { 1.0 };
    Ok(AttentionArgs {
        q: heads(Operand::Input(0), q),
        k: heads(Operand::Input(1), *k),
        v: heads(Operand::Input(2), *v),
        mask: problem.mask.and_then(|mask| Some(heads(input(true)?, mask.strides))),
        sinks: input(problem.sinks.is_some()),
        cu_queries: input(is_packed),
        key_lens: input(!matches!(problem.keys, Keys::Dense { .. })),
        block_table: input(matches!(problem.keys, Keys::Paged { .. })),
        out: heads(Operand::Output(0), out),
        lse: problem.lse.then_some(Operand::Output(1)),
        states: None,
        partials: None,
        counter: None,
        batch: size(problem.batch())?,
        tiles: size(tiles(problem, choice.algorithm))?,
        kv_heads: size(problem.kv_heads)?,
        group: size(problem.group())?,
        queries: size(queries)?,
        keys: size(problem.max_keys())?,
        page: size(page)?,
        width: size(width)?,
        splits: size(choice.splits)?,
        segments: size(choice.segments)?,
        items: size(num_items)?,
        window_left: window(problem.window_left),
        window_right: window(problem.window_right),
        mask_keys: size(problem.mask.map_or(0, |mask| mask.keys))?,
        rows: size(problem.rows())?,
        section: size(section(problem))?,
        scale: f32::from_bits(problem.scale_bits),
        value_scale: f32::from_bits(problem.value_scale_bits) / largest,
        softcap,
        softcap_reciprocal: 1.0 / softcap,
    })
}

/// Shared memory of a block on Hopper.
const HOPPER_SHARED_BYTES: u32 = 227 << 10;

/// Kernels as they ship, with the threads of their blocks, to be assembled and compared: with one
/// part and with several, of every type, and with every option.
pub(crate) fn kernels() -> Vec<Shipped> {
    let of = |dtype, kv_dtype, dims, queries, keys| Problem {
        kv_dtype,
        causal: Some(Causal::BottomRight),
        lse: true,
        ..Problem::new(dtype, [8, 2], dims, queries, keys)
    };
    let strides = |dim: i64| [4096 * 8 * dim, dim, 8 * dim, 1];
    let dense = |dim: i64| Queries::Dense {
        batch: 2,
        len: 4096,
        strides: strides(dim),
        out_strides: [4096 * 8 * dim, dim, 8 * dim],
    };
    let packed = Queries::Packed { batch: 3, total: 64, strides: [8 * 128, 128, 1] };
    let few = Queries::Packed { batch: 3, total: 3, strides: [8 * 128, 128, 1] };
    let keys = |len, dim: i64| Keys::Dense { len, k_strides: strides(dim), v_strides: strides(dim) };
    let pages = |dim: i64| {
        let [k_strides, v_strides] = [[16 * 2 * dim, dim, 2 * dim, 1]; 2];
        Keys::Paged { page: 16, pages: 4096, width: 256, k_strides, v_strides }
    };
    let paged = pages(128);
    let plain = of(Dtype::F32, Dtype::F32, [64, 64], dense(64), keys(512, 64));
    let mask = Some(MaskLayout { dtype: Dtype::Bool, keys: 4096, strides: [0, 0, 4096, 1] });
    let sinks = Some(Dtype::Bf16);
    let every = Problem {
        causal: None,
        window_left: Some(99),
        window_right: Some(99),
        softcap_bits: Some(30.0_f32.to_bits()),
        mask,
        sinks,
        ..of(Dtype::Bf16, Dtype::Bf16, [40, 80], dense(40), keys(4096, 40))
    };
    let problems = [
        plain,
        of(Dtype::F16, Dtype::F16, [128, 128], dense(128), keys(4096, 128)),
        of(Dtype::Bf16, Dtype::Bf16, [256, 256], dense(256), keys(512, 256)),
        of(Dtype::Bf16, Dtype::Bf16, [128, 128], packed.clone(), paged.clone()),
        of(Dtype::Bf16, Dtype::F8E4M3, [128, 128], packed.clone(), paged.clone()),
        of(Dtype::F8E4M3, Dtype::F8E4M3, [128, 128], packed, paged),
        every.clone(),
    ];
    let on_cuda_cores = |problem: &Problem| {
        let segments = num_segments(problem) > 1;
        let config = |split| AttentionConfig::new(problem, simt::ROWS, simt::wide, split, segments);
        let split = config(true);
        let parts: [AnyKernel; 2] = [attend(&split).into(), merge(&split).into()];
        let parts = segments.then_some(parts).into_iter().flatten();
        std::iter::once(attend(&config(false)).into()).chain(parts).collect()
    };
    // Parts differ from the whole in little else than where their states go: one of a kind is
    // shown.
    let is_decode = |problem: &Problem| matches!(problem.keys, Keys::Paged { .. }) && problem.kv_dtype == problem.dtype;
    let on_tensor_cores = |problem: &Problem| {
        let segments = num_segments(problem) > 1;
        let tile = |split: bool| {
            WgmmaTile::choose(problem, rows_per_head(problem), [segments && !split, false], HOPPER_SHARED_BYTES)
        };
        let config = |split| {
            let common = AttentionConfig::new(problem, tile(split).rows(), wide, split, segments);
            make_wgmma(&wgmma_config(problem, common, tile(split)).0)
        };
        let merged = || {
            let tile = WgmmaTile { consumers: 1, ping_pong: false, ..tile(true) };
            let common =
                AttentionConfig { merges: true, ..AttentionConfig::new(problem, tile.rows(), wide, true, segments) };
            make_wgmma(&wgmma_config(problem, common, tile).0)
        };
        if segments && is_decode(problem) { vec![config(false), config(true), merged()] } else { vec![config(false)] }
    };
    let by_mma = |problem: &Problem| {
        let segments = num_segments(problem) > 1;
        let limits = Profile::A100.limits();
        let tile = mma_tile(problem, &limits);
        let config = |split| {
            let common = AttentionConfig::new(problem, tile.rows(), wide, split, segments);
            make_mma(&mma_config(problem, common, tile))
        };
        let merged = || {
            let common =
                AttentionConfig { merges: true, ..AttentionConfig::new(problem, tile.rows(), wide, true, segments) };
            make_mma(&mma_config(problem, common, tile))
        };
        if segments && is_decode(problem) { vec![config(false), config(true), merged()] } else { vec![config(false)] }
    };
    let of_problem = |problem: &Problem| {
        let cuda_cores: Vec<AnyKernel> = on_cuda_cores(problem);
        let of_tensor_cores = || [on_tensor_cores(problem), by_mma(problem)].concat();
        let tensor_cores = if suits_tensor_cores(problem) { of_tensor_cores() } else { Vec::new() };
        cuda_cores.into_iter().chain(tensor_cores)
    };
    // Products of 8-bit floats, by TMA where it can be and by threads.
    let narrow = |dim: i64, keys_of: Keys| Problem {
        products: Some(Dtype::F8E4M3),
        output: Dtype::Bf16,
        ..of(Dtype::F8E4M3, Dtype::F8E4M3, [dim as u64; 2], dense(dim), keys_of)
    };
    let odd = Problem { alignment: 1, ..narrow(80, keys(4096, 80)) };
    let [small_pages, large] = [narrow(64, pages(64)), narrow(256, keys(4096, 256))];
    let of_bytes = [narrow(128, keys(4096, 128)), small_pages, large, odd];
    // Few rows over a cache of 8-bit floats.
    let swapped = |problem: &Problem, split: bool, merges: bool| {
        let (rows, segments) = (rows_per_head(problem), num_segments(problem) > 1);
        let tile = SwappedTile::choose(problem, rows, [segments && !split, false], HOPPER_SHARED_BYTES);
        let tile = tile.expect("a swapped product is possible");
        let common = AttentionConfig { merges, ..AttentionConfig::new(problem, tile.rows, wide, split, segments) };
        make_swapped(&swapped_config(problem, common, tile).0)
    };
    let cached = of(Dtype::Bf16, Dtype::F8E4M3, [128, 128], few.clone(), pages(128));
    let four = Queries::Packed { batch: 3, total: 12, strides: [8 * 256, 256, 1] };
    let of_wide = of(Dtype::F16, Dtype::F8E5M2, [256, 256], four, pages(256));
    let of_all = Problem {
        kv_dtype: Dtype::F8E4M3,
        head_dim: 64,
        value_dim: 96,
        queries: few,
        keys: pages(96),
        ..every.clone()
    };
    let cached = [
        (&cached, false, false),
        (&cached, true, false),
        (&cached, true, true),
        (&of_wide, false, false),
        (&of_all, true, false),
    ];
    let cached: Vec<_> = cached.into_iter().map(|(problem, split, merges)| swapped(problem, split, merges)).collect();
    // By `mma.sync` also small heads, of which a multiprocessor holds more blocks, and wide ones
    // whose results take half of the registers.
    let small = of(Dtype::Bf16, Dtype::Bf16, [64, 64], dense(64), keys(4096, 64));
    let small_with_all = Problem { head_dim: 64, value_dim: 64, ..every };
    let packed = Queries::Packed { batch: 3, total: 64, strides: [8 * 256, 256, 1] };
    let wide = of(Dtype::Bf16, Dtype::F8E4M3, [256, 256], packed, pages(256));
    let wide_of_segments = of(Dtype::F16, Dtype::F16, [256, 256], dense(256), keys(4096, 256));
    let more = [small, small_with_all, wide, wide_of_segments];
    let problems = problems.iter().flat_map(of_problem).chain(of_bytes.iter().flat_map(on_tensor_cores));
    Shipped::each(problems.chain(more.iter().flat_map(by_mma)).chain(cached))
}
