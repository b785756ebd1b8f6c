//! A mixture of experts: each row goes through the few gated MLPs that its router chose.
//!
//! `y = residual + Σ_s w_s · down_{e_s}(silu(gate_{e_s} x) · up_{e_s} x)`, where `e_0, e_1, …` are
//! the experts with the largest logits of the row, of equals the lower first, and `w_s` their
//! softmax over all experts, divided by the sum over the chosen ones where the model says so.
//! [`Gating`] says what else may stand between the products.
//!
//! **The bits of a row depend on that row and on the weights alone.** Slots are added from the
//! first to the last. No atomics. Where weights are [packed](PackExperts), rows that chose an
//! expert are copied side by side and multiplied on tensor cores, K in steps of 16, in order
//! (`grouped`). Else a product is a dot product of one warp in an order that follows from its
//! length (`dots`), and rows of one expert share the weights that a warp loads: many times slower,
//! on every device and for `f32`, too.
//!
//! Start with [`Problem`]. Launches: `route` chooses, `group` lists the rows of each expert, `rows`
//! copies them (packed), `dots` or `grouped` multiplies twice, `combine` adds.
//!
//! Where experts are on several devices, each plans the launches before `combine` for those that
//! it has, and `combine` alone for slots of all: together they give the bits of one device.
//! `adapters` takes `group` and `dots` for low-rank adapters.

mod adapters;
mod dots;
mod grouped;
mod mxfp4;
mod pack;
mod route;

use warpfold_device::LaunchConfig;

use crate::matmul::quantized::{Stages, THREADS};
use crate::matmul::{Matrix, tensor_layout, tensor_map};
use crate::plan::{Family, Operand, OperandSpec, Plan, Planned, Planner, Step, grid_size, grid_size_y};
use crate::{AnyKernel, Dtype, Error, ErrorKind, Shipped};
use dots::{CombineArgs, Dots, DotsArgs, DotsConfig, TILE, WARPS, combine, dots};
use grouped::{GroupedArgs, GroupedConfig, RowsArgs};
use route::{RouteArgs, group, route};

pub use adapters::{Adapters, AdaptersProblem};
pub use mxfp4::Mxfp4Numbers;
pub use pack::{ExpertLines, PackExperts, PackProblem};

/// The family of mixtures of experts. Inputs: rows `[rows, hidden]`, logits of the router `[rows,
/// experts]` of `f32`, weights `[own, 2 · inner, hidden]` (those of the gate, then those of `up`)
/// and `[own, hidden, inner]`, the residual `[rows, hidden]`. Output: `[rows, hidden]`. All without
/// gaps. Weights as [`ExpertFormat::Mxfp4`] are codes, and their scales are inputs behind both.
///
/// With some of the experts there is no residual, and the outputs are what slots give, `[rows,
/// chosen, hidden]` of `f32`, zero where the expert is elsewhere, and their weights, `[rows,
/// chosen]` of `f32`. With none these are the inputs, and the residual.
#[derive(Debug, Clone, Copy, Default)]
pub struct Experts;

/// How many of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of rows, weights and results: `f32`, `f16` or `bf16`.
    pub dtype: Dtype,
    /// Rows.
    pub rows: u64,
    /// Elements of a row.
    pub hidden: u64,
    /// Elements of a row inside of an expert.
    pub inner: u64,
    /// Experts that the router chooses from.
    pub experts: u64,
    /// The first of those that are here.
    pub first: u64,
    /// Number of those that are here.
    pub own: u64,
    /// True if slots are added here: with all experts here, or with none, where other devices
    /// multiplied. Without it, and with some experts, slots are results.
    pub sums: bool,
    /// Experts of a row.
    pub chosen: u64,
    /// What the weights of the chosen experts sum to.
    pub weights: Weights,
    /// The function between the products of an expert.
    pub gating: Gating,
    /// Storage of the weights.
    pub format: ExpertFormat,
    /// Whether they are [packed](PackExperts), for tensor cores.
    pub packed: bool,
    /// A power of two that all addresses are multiples of, in bytes.
    pub alignment: u64,
}

/// What the weights of the chosen experts sum to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// To 1.
    Normalized,
    /// To their share among all experts.
    Share,
}

/// The function between the two products of an expert, of the gate `g` and of `u`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gating {
    /// `silu(g) · u`. The lines of all gates come before those of all `u`.
    Silu,
    /// `min(g, 7) · sigmoid(1.702 min(g, 7)) · (clamp(u, -7, 7) + 1)`, as gpt-oss has it. Lines of
    /// gates and of `u` come in turns, and every product has a bias: `[own, 2 · inner]` and `[own,
    /// hidden]` are inputs behind the weights.
    Clamped,
}

/// Storage of the weights of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExpertFormat {
    /// In the type of the rows.
    Plain,
    /// As [MXFP4](Mxfp4Numbers). The bits of the result are those of the same numbers in the type
    /// of the rows.
    Mxfp4,
}

impl ExpertFormat {
    /// Bytes of so many weights of a type, and of their scales.
    fn bytes(self, weights: u64, dtype: Dtype) -> [u64; 2] {
        match self {
            Self::Plain => [weights * dtype.bytes(), 0],
            Self::Mxfp4 => [weights / 2, weights / Mxfp4Numbers::GROUP],
        }
    }
}

/// Threads of a block of the kernels here.
pub(crate) const BLOCK: u32 = 32 * WARPS;

impl Problem {
    fn check(&self) -> Result<(), Error> {
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "experts", reason }.into());
        if !matches!(self.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(ErrorKind::Unsupported { op: "experts".to_owned(), dtype: self.dtype }.into());
        }
        if self.chosen == 0 || self.chosen > self.experts {
            return refused(format!("{} of {} experts are chosen", self.chosen, self.experts));
        }
        let (first, own, experts) = (self.first, self.own, self.experts);
        if first.checked_add(own).is_none_or(|end| end > experts) {
            return refused(format!("{own} experts from {first} on are not among {experts}"));
        }
        if self.sums && ![0, experts].contains(&own) {
            return refused(format!("slots are added with all experts or with none, not with {own} of {experts}"));
        }
        if self.format == ExpertFormat::Mxfp4 {
            if let Some(size) = [self.hidden, self.inner].iter().find(|size| !size.is_multiple_of(Mxfp4Numbers::GROUP))
            {
                return refused(format!("rows of {size} weights are not in groups of {}", Mxfp4Numbers::GROUP));
            }
            if !self.alignment.is_multiple_of(16) {
                return refused(format!("rows at multiples of {} bytes, not of 16", self.alignment));
            }
        }
        if self.packed
            && (self.dtype == Dtype::F32
                || self.own * self.inner == 0
                || [self.hidden, self.inner].iter().any(|size| !size.is_multiple_of(8)))
        {
            let Self { dtype, hidden, inner, .. } = self;
            return refused(format!("packed weights of {hidden} x {inner} are not multiplied by {dtype}"));
        }
        let most = [self.rows.saturating_mul(self.chosen), self.experts, self.hidden, 2 * self.inner];
        match most.into_iter().find(|size| *size > 1 << 30) {
            Some(size) => Err(ErrorKind::TooLarge { what: "a mixture of experts", size, limit: 1 << 30 }.into()),
            None => Ok(()),
        }
    }

    /// Neighbours that a lane loads at once, of rows of so many elements.
    fn width(&self, len: u64) -> u32 {
        let fits = |width: &u64| {
            let bytes = width * self.dtype.bytes();
            len.is_multiple_of(*width) && bytes <= 16 && self.alignment.is_multiple_of(bytes)
        };
        [8_u64, 4, 2].into_iter().find(fits).unwrap_or(1) as u32
    }

    /// Adds the launches that choose and multiply.
    fn multiply(
        &self,
        plan: &mut Plan,
        planner: &Planner<'_>,
        inputs: Inputs,
        outputs: [Operand; 2],
    ) -> Result<(), Error> {
        let (Inputs { x, logits, gate_up, down, scales, biases }, [results, shares]) = (inputs, outputs);
        let Self { dtype, rows, hidden, inner, experts, first, own, chosen, weights, gating, format, .. } = *self;
        let (bytes, slots) = (dtype.bytes(), rows * chosen);
        let [ids, order] = [4 * slots; 2].map(|bytes| plan.add_scratch(bytes));
        let starts = plan.add_scratch(4 * (own + 2));
        let gated = plan.add_scratch((slots * inner * bytes).max(bytes));
        // Routing.
        let args = RouteArgs::<Planned> {
            logits,
            ids,
            shares,
            order,
            starts,
            rows: rows as u32,
            experts: experts as u32,
            chosen: chosen as u32,
            first: first as u32,
        };
        let kernel = planner.kernel(Kernel::Route(weights), Kernel::make);
        let launch = LaunchConfig::new(grid_size(rows.div_ceil(WARPS.into()))?, BLOCK);
        plan.steps.push(Step::new(kernel, launch).with(args)?);
        // One more than there are: where it would begin, the slots of the last one end.
        let args = RouteArgs::<Planned> { experts: own as u32 + 1, ..args };
        let kernel = planner.kernel(Kernel::Group, Kernel::make);
        plan.steps.push(Step::new(kernel, LaunchConfig::new(grid_size(own + 1)?, 32)).with(args)?);
        if self.packed {
            return self.multiply_packed(plan, planner, &inputs, results, Lists { order, starts, gated });
        }
        // Products: each expert may end with a tile that is not full.
        let tiles = grid_size((slots / u64::from(TILE) + own.min(slots)).max(1))?;
        let mut multiply = |dots: Dots, [x, weights, results]: [Operand; 3], columns: u64, len: u64| {
            let config = DotsConfig { dtype, dots, gating, format, width: self.width(len) };
            let of = |both: Option<[Operand; 2]>| both.map(|both| both[usize::from(dots == Dots::Down)]);
            // THRESHOLD: columns beyond the grid in y are refused; tested by
            // crates/kernels/tests/parts/plans.rs::experts_wider_than_a_grid_are_refused
            let across = grid_size_y(columns.div_ceil(config.columns().into()).max(1))?;
            let args = DotsArgs::<Planned> {
                x,
                weights,
                scales: of(scales),
                bias: of(biases),
                results,
                order,
                starts,
                experts: own as u32,
                chosen: chosen as u32,
                columns: columns as u32,
                len: len as u32,
            };
            let kernel = planner.kernel(Kernel::Dots(config), Kernel::make);
            plan.steps.push(Step::new(kernel, LaunchConfig::new((tiles, across), BLOCK)).with(args)?);
            Ok::<_, Error>(())
        };
        multiply(Dots::Gated, [x, gate_up, gated], inner, hidden)?;
        multiply(Dots::Down, [gated, down, results], hidden, inner)
    }
}

/// What routing has left in scratch memory, and room between the products.
#[derive(Clone, Copy)]
struct Lists {
    order: Operand,
    starts: Operand,
    gated: Operand,
}

impl Problem {
    /// How the weights of a product are packed.
    fn pack(&self, dots: Dots) -> PackProblem {
        let Self { hidden, inner, own, gating, format, .. } = *self;
        let (lines, shape) = match dots {
            Dots::Gated => (ExpertLines::of_gate(gating), [own, 2 * inner, hidden]),
            Dots::Down => (ExpertLines::Outputs, [own, hidden, inner]),
        };
        PackProblem { format, lines, shape, is_back: false }
    }

    /// Adds the launches that multiply by packed weights.
    fn multiply_packed(
        &self,
        plan: &mut Plan,
        planner: &Planner<'_>,
        inputs: &Inputs,
        results: Operand,
        lists: Lists,
    ) -> Result<(), Error> {
        let Self { dtype, rows, hidden, inner, own, chosen, gating, format, .. } = *self;
        let (Lists { order, starts, gated }, slots) = (lists, rows * chosen);
        if !planner.limits.has_wgmma {
            let reason = "packed weights are for devices with WGMMA".to_owned();
            return Err(ErrorKind::Operand { operator: "experts", reason }.into());
        }
        // Rows in the order of slots, if there are several.
        let (x, of_x) = if rows == 1 {
            (inputs.x, 1)
        } else {
            let to = plan.add_scratch(slots * hidden * dtype.bytes());
            let args = RowsArgs::<Planned> {
                x: inputs.x,
                to,
                order,
                starts,
                experts: own as u32,
                chosen: chosen as u32,
                units: (hidden * dtype.bytes() / 16) as u32,
            };
            let kernel = planner.kernel(Kernel::Rows, Kernel::make);
            plan.steps.push(Step::new(kernel, LaunchConfig::new(grid_size(slots)?, BLOCK)).with(args)?);
            (to, slots)
        };
        let tile = GroupedConfig::rows(self);
        // Each expert may end with a tile that is not full.
        let tiles = (slots / u64::from(tile) + own.min(slots)).max(1);
        let products =
            [(Dots::Gated, x, of_x, inputs.gate_up, gated), (Dots::Down, gated, slots, inputs.down, results)];
        for (dots, x, of_x, weights, results) in products {
            let pack = self.pack(dots);
            let (columns, k) = if dots == Dots::Gated { (inner, hidden) } else { (hidden, inner) };
            let (blocks, pieces) = (pack.blocks(), pack.pieces());
            let stages = Stages { pieces: format.pieces(), rows: tile, halves: 2, num: 0 };
            let of_sm = (own.min(slots) * blocks).div_ceil(u64::from(planner.limits.num_sms.max(1)));
            let stages = stages.for_blocks(of_sm, pieces);
            let one_row = dots == Dots::Gated && rows == 1;
            let layout = tensor_layout(&Matrix::rows(dtype, k), [of_x, k], None, [tile, 128]);
            let args = GroupedArgs::<Planned> {
                weights,
                x: tensor_map(x, layout, dtype),
                bias: inputs.biases.map(|both| both[usize::from(dots == Dots::Down)]),
                results,
                order,
                starts,
                experts: own as u32,
                slots: slots as u32,
                columns: columns as u32,
                blocks: blocks as u32,
                pieces: pieces as u32,
            };
            let config = GroupedConfig { dtype, dots, gating, stages, one_row };
            let kernel = planner.kernel(Kernel::Grouped(config), Kernel::make);
            plan.steps.push(Step::new(kernel, LaunchConfig::new(grid_size(tiles * blocks)?, THREADS)).with(args)?);
        }
        Ok(())
    }
}

impl Family for Experts {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let Problem { dtype, rows, hidden, inner, experts, own, sums, chosen, .. } = *problem;
        let (bytes, slots) = (dtype.bytes(), rows * chosen);
        let mut plan = Plan::new("experts")
            .choice(format_args!("{chosen} of {experts} experts, {own} here, {TILE} rows of one at a time"));
        let mut read =
            |name, elements: u64, bytes: u64| plan.add_input(OperandSpec::new(name, elements * bytes, bytes));
        let (of_gate_up, of_down, alignment) = if problem.packed {
            let [of_gate_up, of_down] = [Dots::Gated, Dots::Down].map(|dots| [problem.pack(dots).bytes(), 0]);
            (of_gate_up, of_down, 16)
        } else {
            let [of_gate_up, of_down] = [2, 1].map(|n| problem.format.bytes(own * n * inner * hidden, dtype));
            (of_gate_up, of_down, if problem.format == ExpertFormat::Mxfp4 { 4 } else { bytes })
        };
        let multiplied = (own > 0 || !sums).then(|| Inputs {
            x: read("the rows", rows * hidden, bytes),
            logits: read("the logits", rows * experts, 4),
            gate_up: read("the weights of gate and up", of_gate_up[0] / alignment, alignment),
            down: read("the weights of down", of_down[0] / alignment, alignment),
            scales: (problem.format == ExpertFormat::Mxfp4 && !problem.packed).then(|| {
                let scales = read("the scales of gate and up", of_gate_up[1], 1);
                [scales, read("the scales of down", of_down[1], 1)]
            }),
            biases: (problem.gating == Gating::Clamped).then(|| {
                let of_gate_up = read("the biases of gate and up", own * 2 * inner, bytes);
                [of_gate_up, read("the biases of down", own * hidden, bytes)]
            }),
        });
        let given = multiplied.is_none().then(|| [read(SLOTS, slots * hidden, 4), read(SHARES, slots, 4)]);
        let residual = sums.then(|| read("the residual", rows * hidden, bytes));
        let mut write =
            |name, elements: u64, bytes: u64| plan.add_output(OperandSpec::new(name, elements * bytes, bytes));
        let output = sums.then(|| write("the results", rows * hidden, bytes));
        let left = (!sums).then(|| [write(SLOTS, slots * hidden, 4), write(SHARES, slots, 4)]);
        if rows == 0 || hidden == 0 {
            return Ok(plan);
        }
        let [results, shares] =
            given.or(left).unwrap_or_else(|| [hidden, 1].map(|len| plan.add_scratch(4 * slots * len)));
        if let Some(inputs) = multiplied {
            problem.multiply(&mut plan, planner, inputs, [results, shares])?;
        }
        let (Some(residual), Some(output)) = (residual, output) else {
            return Ok(plan.fill(results, 4 * slots * hidden, 0));
        };
        // Sum.
        let args = CombineArgs::<Planned> {
            slots: results,
            shares,
            residual,
            results: output,
            elements: rows * hidden,
            hidden: hidden as u32,
            chosen: chosen as u32,
        };
        let kernel = planner.kernel(Kernel::Combine(dtype), Kernel::make);
        let launch = LaunchConfig::new(grid_size((rows * hidden).div_ceil(BLOCK.into()))?, BLOCK);
        Ok(plan.step(Step::new(kernel, launch).with(args)?))
    }
}

/// Operands of the products.
#[derive(Clone, Copy)]
struct Inputs {
    x: Operand,
    logits: Operand,
    gate_up: Operand,
    down: Operand,
    scales: Option<[Operand; 2]>,
    biases: Option<[Operand; 2]>,
}

/// Operands as errors name them.
const SLOTS: &str = "what slots give";
const SHARES: &str = "the weights of slots";

/// The kernels of this folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kernel {
    Route(Weights),
    Group,
    Dots(DotsConfig),
    Rows,
    Grouped(GroupedConfig),
    /// And whether it is the way back.
    Pack(ExpertFormat, ExpertLines, bool),
    Combine(Dtype),
    Mxfp4Numbers(Dtype),
}

impl Kernel {
    fn make(&self) -> AnyKernel {
        match self {
            Self::Route(weights) => route(*weights),
            Self::Group => group(),
            Self::Dots(config) => dots(config),
            Self::Rows => grouped::rows(),
            Self::Grouped(config) => grouped::make(config),
            Self::Pack(format, lines, is_back) => pack::kernel_of(*format, *lines, *is_back),
            Self::Combine(dtype) => combine(*dtype),
            Self::Mxfp4Numbers(dtype) => mxfp4::kernel_of(*dtype),
        }
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let of = |dots, gating, format| Kernel::Dots(DotsConfig { dtype: Dtype::Bf16, dots, gating, format, width: 8 });
    let with = |dots, gating| of(dots, gating, ExpertFormat::Plain);
    let listed = [
        Kernel::Route(Weights::Normalized),
        Kernel::Route(Weights::Share),
        with(Dots::Gated, Gating::Silu),
        with(Dots::Down, Gating::Silu),
        with(Dots::Gated, Gating::Clamped),
        with(Dots::Down, Gating::Clamped),
        Kernel::Combine(Dtype::Bf16),
        Kernel::Group,
        of(Dots::Gated, Gating::Clamped, ExpertFormat::Mxfp4),
        of(Dots::Down, Gating::Clamped, ExpertFormat::Mxfp4),
        Kernel::Mxfp4Numbers(Dtype::Bf16),
    ];
    let mut all: Vec<Shipped> = Shipped::each(listed.iter().map(Kernel::make));
    // Packed: one row, few and many, of numbers and of codes.
    let packed = |rows, gating, format| Problem {
        dtype: Dtype::Bf16,
        rows,
        hidden: 2880,
        inner: 2880,
        experts: 32,
        first: 0,
        own: 32,
        sums: true,
        chosen: 4,
        weights: Weights::Normalized,
        gating,
        format,
        packed: true,
        alignment: 16,
    };
    let problems = [1, 8, 1024].into_iter().flat_map(|rows| {
        let codes = packed(rows, Gating::Clamped, ExpertFormat::Mxfp4);
        [codes, packed(rows, Gating::Silu, ExpertFormat::Plain)]
    });
    let problems: Vec<Problem> = problems.collect();
    all.extend(Shipped::of_plans(|planner| {
        let products = problems.iter().map(|problem| Experts.plan(problem, planner));
        let packs = problems[..2].iter().flat_map(|problem| {
            let packs = [Dots::Gated, Dots::Down].map(|dots| problem.pack(dots));
            let both = |pack: PackProblem| [false, true].map(|is_back| PackProblem { is_back, ..pack });
            packs.into_iter().flat_map(both).map(|pack| PackExperts.plan(&pack, planner)).collect::<Vec<_>>()
        });
        products.chain(packs).collect()
    }));
    all
}
