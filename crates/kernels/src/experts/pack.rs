//! Weights of experts as the tensor cores' kernel (`grouped`) reads them: the pieces of
//! [`quantized`](crate::matmul::quantized), of codes or of numbers, one expert after the other.

use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, block_idx, kernel, params, thread_idx, when};

use super::{ExpertFormat, Gating, Kernel, Mxfp4Numbers};
use crate::kernel_name::KernelName;
use crate::matmul::quantized::{BLOCK_ROWS, DEPTH, PIECE_ROWS, Pieces, Scheme};
use crate::overlap::overlap_launches;
use crate::plan::{Family, Operand, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// Threads of a block, which packs a piece.
const THREADS: u32 = 128;

/// The family that lays the matrices of experts out for tensor cores. Inputs: the matrices,
/// `[own, lines, columns]`, and of MXFP4 their scales. Output: [`PackProblem::bytes`]. Or the other
/// way round.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackExperts;

/// The matrices of experts, all of one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PackProblem {
    /// Storage of the matrices.
    pub format: ExpertFormat,
    /// Which lines stand beside each other.
    pub lines: ExpertLines,
    /// Experts, lines of each, columns.
    pub shape: [u64; 3],
    /// Whether packed matrices are unpacked.
    pub is_back: bool,
}

/// The order of the lines of an expert's matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExpertLines {
    /// Each line is an output of its own.
    Outputs,
    /// All gates, then all they are multiplied with.
    GatesFirst,
    /// A gate and what it is multiplied with, in turns.
    InTurns,
}

impl ExpertLines {
    /// The order of the lines of gate and up.
    #[must_use]
    pub const fn of_gate(gating: Gating) -> Self {
        match gating {
            Gating::Silu => Self::GatesFirst,
            Gating::Clamped => Self::InTurns,
        }
    }

    /// Blocks of 64 packed lines.
    fn blocks(self, lines: u64) -> u64 {
        match self {
            Self::Outputs => lines.div_ceil(BLOCK_ROWS.into()),
            Self::GatesFirst | Self::InTurns => (lines / 2).div_ceil(u64::from(BLOCK_ROWS) / 2),
        }
    }
}

impl ExpertFormat {
    /// What a packed piece holds.
    pub(super) const fn pieces(self) -> Pieces {
        match self {
            Self::Plain => Pieces::Numbers,
            Self::Mxfp4 => Pieces::Codes(Scheme::MXFP4),
        }
    }
}

impl PackProblem {
    /// Blocks of 64 packed lines of an expert.
    pub(super) fn blocks(&self) -> u64 {
        self.lines.blocks(self.shape[1])
    }

    /// Pieces of a block along K.
    pub(super) const fn pieces(&self) -> u64 {
        self.shape[2].div_ceil(DEPTH as u64)
    }

    /// Bytes of the packed weights.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape[0] * self.blocks() * 2 * self.pieces() * u64::from(self.format.pieces().bytes())
    }

    fn check(&self) -> Result<(), Error> {
        let [_, lines, columns] = self.shape;
        let group = if self.format == ExpertFormat::Mxfp4 { Mxfp4Numbers::GROUP } else { 8 };
        if !columns.is_multiple_of(group) || self.lines != ExpertLines::Outputs && !lines.is_multiple_of(2) {
            let reason = format!("{lines} lines of {columns} weights are not packed");
            return Err(ErrorKind::Operand { operator: "packed experts", reason }.into());
        }
        match self.shape.into_iter().find(|size| *size > 1 << 30) {
            Some(size) => Err(ErrorKind::TooLarge { what: "a mixture of experts", size, limit: 1 << 30 }.into()),
            None => Ok(()),
        }
    }
}

params! {
    /// Parameters of the kernel.
    pub(super) struct PackArgs {
        weights: Global<u8>, scales: Option<Global<u8>>, packed: Global<u8>,
        /// Of an expert: lines, columns, blocks of lines; of a block: pieces along K.
        lines: u32, columns: u32, blocks: u32, pieces: u32,
    }
}

/// A block a piece: a thread has what a lane of the tensor cores' left factor has of it.
pub(super) fn kernel_of(format: ExpertFormat, order: ExpertLines, is_back: bool) -> AnyKernel {
    let body = move |args: PackArgs| {
        let PackArgs { weights, scales, packed, lines, columns, blocks, pieces } = args;
        overlap_launches();
        let piece_bytes = format.pieces().bytes();
        let to = packed.at(block_idx().x.mul_wide(piece_bytes));
        let (rest, piece) = (block_idx().x / pieces, block_idx().x % pieces);
        let (rest, half) = (rest >> 1, rest & 1);
        let (expert, block) = (rest / blocks, rest % blocks);
        let (warp, lane) = (thread_idx().x >> 5, thread_idx().x & 31);
        let (group, c) = (lane >> 2, lane & 3);
        // Row `16 w + 8 h + g` of a block is row `g` of warp `w` in the half `h`.
        let (line, is_there) = match order {
            ExpertLines::Outputs => {
                let line = block * BLOCK_ROWS + warp * 16 + half * 8 + group;
                (line, line.lt(lines))
            }
            ExpertLines::GatesFirst | ExpertLines::InTurns => {
                let output = block * (BLOCK_ROWS / 2) + warp * 8 + group;
                let line = if order == ExpertLines::InTurns { output * 2 + half } else { half * (lines >> 1) + output };
                (line, output.lt(lines >> 1))
            }
        };
        let line = expert.mul_wide(lines) + line.cast::<u64>();
        let first = piece * DEPTH;
        // Column of the first of two neighbours of a step, or of those 8 on.
        let place = |step: u32, on: u32| first + (16 * step + 8 * on) + c * 2;
        // A lane's fields of two steps.
        let fields = |two: u32| [[2 * two, 0], [2 * two, 1], [2 * two + 1, 0], [2 * two + 1, 1]];
        match format {
            ExpertFormat::Plain => {
                let words = weights.at((line * columns.cast::<u64>()) * 2_u64);
                let word = |[step, on]: [u32; 2]| {
                    let at = place(step, on);
                    (words.at(at.mul_wide(2_u32)).reinterpret::<u32>(), is_there & at.lt(columns))
                };
                let to = to.at(warp * (PIECE_ROWS / 4 * DEPTH * 2) + lane * 16);
                for two in 0..DEPTH / 32 {
                    let (to, places) = (to.at(512 * two).reinterpret::<u32>(), fields(two));
                    if is_back {
                        for (number, place) in to.get_vec::<4>().into_iter().zip(places) {
                            let (word, is_there) = word(place);
                            when(is_there, || word.set(number));
                        }
                    } else {
                        to.set_vec(places.map(word).map(|(word, is_there)| word.get_or(0, is_there)));
                    }
                }
            }
            ExpertFormat::Mxfp4 => {
                let codes = weights.at(line * (columns >> 1).cast::<u64>());
                let byte = |[step, on]: [u32; 2]| {
                    let at = place(step, on);
                    (codes.at((at >> 1).cast::<u64>()), is_there & at.lt(columns))
                };
                let words = to.at(thread_idx().x * 16).reinterpret::<u32>();
                // Four scales of a row, a byte each.
                let (at, of_line) = (first / Mxfp4Numbers::GROUP as u32 + c, columns / Mxfp4Numbers::GROUP as u32);
                let scale = scales.at(line * of_line.cast::<u64>() + at.cast::<u64>());
                let (packed, has_scale) =
                    (to.at(Scheme::MXFP4.scales_at()).at((warp * 8 + group) * 4 + c), at.lt(of_line));
                if is_back {
                    for (two, word) in (0..).zip(words.get_vec::<4>()) {
                        for (i, field) in (0_u32..).zip(fields(two)) {
                            let (byte, is_there) = byte(field);
                            when(is_there, || byte.set((word >> (8 * i)).cast::<u8>()));
                        }
                    }
                    when(is_there & has_scale, || scale.set(packed.get()));
                } else {
                    let word = |two: u32| {
                        let moved = (0_u32..).zip(fields(two)).map(|(i, field)| {
                            let (byte, is_there) = byte(field);
                            byte.get_or(0, is_there).cast::<u32>() << (8 * i)
                        });
                        moved.reduce(|word, byte| word | byte).expect("four")
                    };
                    words.set_vec([0, 1, 2, 3].map(word));
                    packed.set(scale.get_or(0, is_there & has_scale));
                }
            }
        }
    };
    let stored = if format == ExpertFormat::Mxfp4 { "mxfp4" } else { "numbers" };
    let order = match order {
        ExpertLines::Outputs => "outputs",
        ExpertLines::GatesFirst => "gates_first",
        ExpertLines::InTurns => "in_turns",
    };
    kernel(
        String::from(KernelName::new(if is_back { "experts_unpack" } else { "experts_pack" }).part(stored).part(order)),
        body,
    )
    .required_block(THREADS)
    .into()
}

/// The launch, whose operands are matrices with their scales, and packed ones.
fn step(
    problem: &PackProblem,
    [weights, packed]: [Operand; 2],
    scales: Option<Operand>,
    planner: &Planner<'_>,
) -> Result<Option<Step>, Error> {
    let PackProblem { format, lines, shape: [own, num_lines, columns], is_back } = *problem;
    let (blocks, pieces) = (problem.blocks(), problem.pieces());
    let grid = own * blocks * 2 * pieces;
    if grid == 0 {
        return Ok(None);
    }
    let args = PackArgs::<Planned> {
        weights,
        scales,
        packed,
        lines: num_lines as u32,
        columns: columns as u32,
        blocks: blocks as u32,
        pieces: pieces as u32,
    };
    let kernel = planner.kernel(Kernel::Pack(format, lines, is_back), Kernel::make);
    Ok(Some(Step::new(kernel, LaunchConfig::new(grid_size(grid)?, THREADS)).with(args)?))
}

impl PackProblem {
    /// The operands: matrices, their scales, packed ones.
    fn operands(&self) -> (OperandSpec, Option<OperandSpec>, OperandSpec) {
        let [weights, scales] = self.format.bytes(self.shape.iter().product(), Dtype::Bf16);
        let scales = (self.format == ExpertFormat::Mxfp4).then(|| OperandSpec::new("the scales", scales, 1));
        let packed = OperandSpec::new("the packed weights", self.bytes(), 16);
        (OperandSpec::new("the weights", weights, 16), scales, packed)
    }

    fn choice(&self) -> String {
        let [own, lines, columns] = self.shape;
        format!("{own} matrices of {lines} x {columns}")
    }
}

impl Family for PackExperts {
    type Problem = PackProblem;

    fn plan(&self, problem: &PackProblem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let (weights, scales, packed) = problem.operands();
        let mut plan = Plan::new(if problem.is_back { "unpack" } else { "pack" }).choice(problem.choice());
        let (operands, scales) = if problem.is_back {
            let packed = plan.add_input(packed);
            let weights = plan.add_output(weights);
            ([weights, packed], scales.map(|scales| plan.add_output(scales)))
        } else {
            let weights = plan.add_input(weights);
            let scales = scales.map(|scales| plan.add_input(scales));
            ([weights, plan.add_output(packed)], scales)
        };
        plan.steps.extend(step(problem, operands, scales, planner)?);
        Ok(plan)
    }
}
