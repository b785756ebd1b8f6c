//! From an attention to its launches.

use std::fmt;

use warpfold_device::LaunchConfig;

use super::SEGMENT;
use super::merge::merge;
use super::problem::{Causal, Keys, MaskLayout, Problem, Queries};
use super::simt::{self, Config, attend};
use super::work::Size;
use crate::plan::{Arg, Family, Operand, OperandSpec, Plan, Planner, Step, grid_size};
use crate::{AnyKernel, Dtype, Error};

/// The family of attentions.
///
/// Inputs: queries, keys, values, then what the problem has of mask, sinks (one logit for each query
/// head), `cu_seqlens_q`, `cu_seqlens_k` or `kv_lens`, and the block table. Outputs: results and,
/// where it is asked for, the log-sum-exp (`f32`, `[batch, heads, queries]`, or `[total, heads]`
/// where sequences are packed).
#[derive(Debug, Clone, Copy, Default)]
pub struct Attention;

/// How keys are split over blocks. It decides on speed alone: results have the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Blocks that share the keys of a row.
    pub splits: u64,
    /// Segments that each of them takes: a power of two, unless it takes all.
    pub segments: u64,
}

/// Blocks of a multiprocessor that a launch asks for.
const BLOCKS_PER_SM: u64 = 4;

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA cores, {} part(s) of {} segment(s)", self.splits, self.segments)
    }
}

impl Attention {
    /// Splits keys where there are fewer tiles of rows than blocks fill the device: the largest
    /// power of two of segments that still fills it twice.
    #[must_use]
    pub fn choose(&self, problem: &Problem, planner: &Planner<'_>) -> Choice {
        let segments = problem.max_keys().div_ceil(SEGMENT.into()).max(1);
        let items = tiles(problem) * problem.kv_heads * sequences_of_tiles(problem);
        let wanted = u64::from(planner.limits.num_sms) * 2;
        if segments == 1 || items >= wanted {
            return Choice { splits: 1, segments };
        }
        let parts = (wanted.div_ceil(items.max(1))).min(segments);
        let per_part = 1 << (segments / parts).max(1).ilog2();
        Choice { splits: segments.div_ceil(per_part), segments: per_part }
    }

    /// As [`Family::plan`], with keys split otherwise.
    ///
    /// # Errors
    /// Those of [`Family::plan`].
    pub fn plan_with(&self, problem: &Problem, choice: Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let mut plan = operands(problem).choice(choice);
        if problem.rows() == 0 {
            return Ok(plan);
        }
        let Choice { splits, segments } = choice;
        let items = tiles(problem) * problem.kv_heads * sequences_of_tiles(problem);
        let config = Config::new(problem, splits > 1, segments > 1);
        let resident = u64::from(planner.limits.num_sms) * BLOCKS_PER_SM;
        let grid = grid_size((items * splits).min(resident.max(1)))?;
        let launch = LaunchConfig::new(grid, simt::BLOCK).dynamic_shared(config.shared_bytes());
        let levels = u64::from(segments.next_power_of_two().ilog2()) + 1;
        let state_bytes = 4 * u64::from(config.state_words() * simt::BLOCK);
        let stack =
            if segments > 1 { plan.add_scratch(u64::from(grid) * levels * state_bytes).into() } else { Arg::Null };
        let partials = if splits > 1 {
            let rows = items * splits * u64::from(simt::ROWS);
            plan.add_scratch(4 * rows * u64::from(config.partial_words())).into()
        } else {
            Arg::Null
        };
        let step = |kernel: AnyKernel, launch| {
            let inputs = (0..plan.inputs.len()).map(Operand::Input).collect();
            let lse = if problem.lse { Arg::Pointer(Operand::Output(1)) } else { Arg::Null };
            Step::new(kernel, launch)
                .arg(Arg::Pointers { operands: inputs, len: simt::MAX_INPUTS })
                .arg(Operand::Output(0))
                .arg(lse)
                .arg(stack.clone())
                .arg(partials.clone())
                .words(&sizes(problem, choice, items * splits, levels))
                .words(&strides(problem))
                .words(&floats(problem))
        };
        let main = step(planner.kernel(config.clone(), attend), launch);
        let tree = splits.next_power_of_two().ilog2() + 1;
        let merge = (splits > 1).then(|| {
            let kernel = planner.kernel(Merge(config, tree), |Merge(config, levels)| merge(config, *levels));
            Ok::<_, Error>(step(kernel, LaunchConfig::new(grid_size(items)?, simt::BLOCK)))
        });
        plan.steps.push(main);
        plan.steps.extend(merge.transpose()?);
        Ok(plan)
    }
}

/// What the kernel that merges is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Merge(Config, u32);

impl Family for Attention {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        self.plan_with(problem, self.choose(problem, planner), planner)
    }
}

/// Tiles of rows of each sequence; of all together at most, where they are packed.
fn tiles(problem: &Problem) -> u64 {
    let (group, rows) = (problem.group(), u64::from(simt::ROWS));
    match problem.queries {
        Queries::Dense { len, .. } => (len * group).div_ceil(rows),
        Queries::Packed { batch, total, .. } => (total * group) / rows + batch.min(total),
    }
}

const fn sequences_of_tiles(problem: &Problem) -> u64 {
    match problem.queries {
        Queries::Dense { batch, .. } => batch,
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

fn sizes(problem: &Problem, choice: Choice, items: u64, levels: u64) -> [u32; super::work::SIZES] {
    let mut sizes = [0; super::work::SIZES];
    let mut set = |size: Size, value: u64| sizes[size as usize] = value as u32;
    set(Size::Batch, problem.batch());
    set(Size::Tiles, tiles(problem));
    set(Size::KvHeads, problem.kv_heads);
    set(Size::Group, problem.group());
    if let Queries::Dense { len, .. } = problem.queries {
        set(Size::Queries, len);
    }
    set(Size::Keys, problem.max_keys());
    if let Keys::Paged { page, width, .. } = problem.keys {
        set(Size::Page, page);
        set(Size::Width, width);
    }
    set(Size::Splits, choice.splits);
    set(Size::Segments, choice.segments);
    set(Size::Items, items);
    // A wider one sees every key, and positions with it are numbers of 32 bits.
    set(Size::Window, problem.window.unwrap_or(0).min(1 << 30).into());
    set(Size::MaskKeys, problem.mask.map_or(0, |mask| mask.keys));
    set(Size::Levels, levels);
    sizes
}

fn strides(problem: &Problem) -> [i64; super::work::STRIDES] {
    let [k_strides, v_strides] = problem.keys.strides();
    let (queries, results) = match problem.queries {
        Queries::Dense { strides, out_strides, .. } => (strides, out_strides),
        Queries::Packed { strides: [position, head, element], .. } => {
            let (heads, dim) = (problem.heads as i64, problem.value_dim as i64);
            ([0, head, position, element], [0, dim, heads * dim])
        }
    };
    let mask = problem.mask.map_or([0; 4], |mask| mask.strides);
    let all = [&queries[..], k_strides, v_strides, &results, &mask].concat();
    all.try_into().expect("four, four, four, three and four")
}

fn floats(problem: &Problem) -> [f32; simt::FLOATS] {
    let softcap = problem.softcap_bits.map_or(1.0, f32::from_bits);
    [f32::from_bits(problem.scale_bits), softcap, 1.0 / softcap, f32::from_bits(problem.value_scale_bits)]
}

/// Kernels as they ship, to be assembled and compared: with one part and with several, of every type,
/// and with every option.
pub(crate) fn kernels() -> Vec<AnyKernel> {
    let of = |dtype, kv_dtype, [head_dim, value_dim]: [u64; 2], queries, keys| Problem {
        dtype,
        kv_dtype,
        output: if dtype == Dtype::F8E4M3 { Dtype::F32 } else { dtype },
        heads: 8,
        kv_heads: 2,
        head_dim,
        value_dim,
        queries,
        keys,
        scale_bits: 0.125_f32.to_bits(),
        value_scale_bits: 1.0_f32.to_bits(),
        causal: Some(Causal::BottomRight),
        window: None,
        softcap_bits: None,
        mask: None,
        sinks: None,
        lse: true,
        score: None,
        alignment: 16,
    };
    let strides = |dim: i64| [4096 * 8 * dim, dim, 8 * dim, 1];
    let dense = |dim: i64| Queries::Dense {
        batch: 2,
        len: 4096,
        strides: strides(dim),
        out_strides: [4096 * 8 * dim, dim, 8 * dim],
    };
    let packed = Queries::Packed { batch: 3, total: 64, strides: [8 * 128, 128, 1] };
    let keys = |len, dim: i64| Keys::Dense { len, k_strides: strides(dim), v_strides: strides(dim) };
    let [k_strides, v_strides] = [[16 * 2 * 128, 128, 2 * 128, 1]; 2];
    let paged = Keys::Paged { page: 16, pages: 4096, width: 256, k_strides, v_strides };
    let plain = of(Dtype::F32, Dtype::F32, [64, 64], dense(64), keys(512, 64));
    let mask = Some(MaskLayout { dtype: Dtype::Bool, keys: 4096, strides: [0, 0, 4096, 1] });
    let sinks = Some(Dtype::Bf16);
    let every = Problem {
        causal: None,
        window: Some(100),
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
        every,
    ];
    let of_problem = |problem: &Problem| {
        let tree = problem.max_keys() > SEGMENT.into();
        let whole = attend(&Config::new(problem, false, tree)).into();
        let split = Config::new(problem, true, false);
        let parts: [AnyKernel; 2] = [attend(&split).into(), merge(&split, 3).into()];
        std::iter::once(whole).chain(tree.then_some(parts).into_iter().flatten()).collect::<Vec<_>>()
    };
    problems.iter().flat_map(of_problem).collect()
}
