//! Which algorithm computes a product, with which tile, in how many parts of K.

use std::fmt;

use warpfold_device::{LaunchConfig, Limits};
use warpfold_lang::Arch;

use super::algorithm::Algorithm;
use super::cost::{self, CostInput};
use super::eligibility::{
    FEW_ROWS, can_swap_ab, few_blocks, has_room, is_promoted, majors_of, pieces, pieces_of, stands, suits_end,
    suits_tile, suits_tree, tma_majors,
};
use super::epilogue::Epilogue;
use super::epilogue_writer::EpilogueKey;
use super::load::Load;
use super::mma::{MmaProductConfig, MmaTile};
use super::operand_major::OperandMajor;
use super::problem::{BATCH_RANK, Matrix, Problem, refused};
use super::rates::ArchRates;
use super::simt::SimtConfig;
use super::split_k_reduce;
use super::tile::Tile;
use super::wgmma::{self, WgmmaProductConfig, WgmmaTile};
use crate::plan::grid_size;
use crate::{Dtype, Error};

/// How a product is computed by tiles: a value to look at, to compare, and to replace by another
/// with [`Choice::with`].
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What it is for.
    pub problem: Problem,
    /// The kernel.
    pub algorithm: Algorithm,
    /// Products of a part of the sums; all of them unless the sums are split.
    pub part: u64,
    /// Parts; the sums of several are added by a second launch, in the order of the parts.
    pub num_parts: u32,
    /// Clocks, by the cost model.
    pub clocks: f64,
    /// The part of the device's peak that this is, by the cost model.
    pub share_of_peak: f64,
    /// SMs of the device: as many blocks as stay, where blocks take tile after tile.
    num_sms: u32,
}

// THRESHOLD: parts are longer; tested by
// crates/kernels/tests/parts/choices.rs::sums_are_split_into_few_parts_of_enough_products
/// The most parts that sums are split into.
const MAX_PARTS: u64 = 64;

/// Bytes of a factor that no L2 keeps beside others from launch to launch. Told that they come
/// once, it keeps the other factor better: of 64 rows of 8,192 x 8,192 weights that is 0.7 us in 37
/// (H200, 2026-11-21).
const READ_ONCE_BYTES: u64 = 32 << 20;

// THRESHOLD: shorter sums are not split; tested by
// crates/kernels/tests/parts/choices.rs::sums_are_split_into_few_parts_of_enough_products
/// Products that a part has at least: fewer are not worth the traffic of their sums.
const LEAST_PART: u64 = 128;

impl Choice {
    /// Chooses the kernel that the cost model says is the fastest.
    ///
    /// ```
    /// use warpfold_device::{Device, Profile};
    /// use warpfold_kernels::Dtype;
    /// use warpfold_kernels::matmul::{Choice, Problem};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let choose = |problem| Choice::new(problem, device.target().arch, device.limits());
    /// let large = choose(Problem::new(Dtype::F32, 8192, 8192, 8192))?;
    /// assert_eq!(large.num_parts, 1);
    /// let narrow = choose(Problem::new(Dtype::F32, 64, 64, 65536))?;
    /// assert!(narrow.num_parts > 1);
    /// println!("{large}\n{narrow}");
    /// # Ok::<(), warpfold_kernels::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`](crate::ErrorKind::DtypeMismatch),
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for element types without kernels,
    /// [`ErrorKind::Operand`](crate::ErrorKind::Operand) for sizes beyond the kernels' and inputs
    /// that are not those of the epilogue;
    /// [`ErrorKind::OptionOutOfRange`](crate::ErrorKind::OptionOutOfRange) for integers times
    /// numbers that are not whole.
    pub fn new(problem: Problem, arch: Arch, limits: &Limits) -> Result<Self, Error> {
        let work = check(&problem, arch, limits)?;
        // Sums that are not split are one chain whatever the tile.
        let is_whole = problem.has_fixed_order() || problem.epilogue.gate_activation().is_some();
        let most = if is_whole { 1 } else { (problem.k / LEAST_PART).clamp(1, MAX_PARTS) };
        let simt = Tile::ALL.into_iter().filter(|tile| has_room(*tile, work.accumulator)).map(Algorithm::Simt);
        let wgmma: Vec<_> = match tma_majors(&problem, limits) {
            Some(majors) => {
                let of_trees = if problem.k_parts > 1 { &WgmmaTile::OF_TREES[..] } else { &[] };
                let tiles = WgmmaTile::ALL.iter().chain(of_trees).copied();
                let tiles = tiles.filter(|tile| suits_tile(*tile, problem.a.dtype, majors));
                let tiles = tiles.filter(|tile| tile.split == 1 && !tile.once || stands(*tile, &problem, limits));
                let all = tiles.map(Algorithm::Wgmma).chain(few_blocks(&problem, majors, limits));
                all.filter(|algorithm| suits_tree(*algorithm, &problem)).collect()
            }
            None => Vec::new(),
        };
        let mma = match pieces(&problem, limits) {
            Some(_) => MmaTile::ALL.map(Algorithm::Mma).to_vec(),
            None => Vec::new(),
        };
        // Each way adds in an order of its own: rows that shall not depend on their number all go
        // the same one.
        let is_free = !problem.has_fixed_order();
        let takes_mma = wgmma.is_empty() || is_free;
        let takes_simt = (wgmma.is_empty() && mma.is_empty()) || is_free;
        let algorithms = simt.filter(|_| takes_simt).chain(mma.into_iter().filter(|_| takes_mma)).chain(wgmma);
        let algorithms = algorithms.filter(|algorithm| suits_end(algorithm, &problem));
        let candidates = algorithms.flat_map(|algorithm| {
            let splits = match algorithm.own_parts() {
                Some(parts) => vec![parts],
                None => (0..=most.ilog2()).map(|i| 1_u64 << i).collect(),
            };
            splits
                .into_iter()
                .map(|num_parts| (algorithm.clocks(&work, num_parts), algorithm, num_parts))
                .collect::<Vec<_>>()
        });
        let best = candidates.min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, algorithm, num_parts) = best.ok_or_else(|| refused(format!("no tile has a gate for {problem}")))?;
        Self::made(problem, work, (algorithm, num_parts as u32))
    }

    /// The choice of a caller: this kernel, and this many parts.
    ///
    /// # Errors
    /// Those of [`Choice::new`]; [`ErrorKind::Operand`](crate::ErrorKind::Operand) for a tile that
    /// breaks a rule, and for parts where none are possible.
    pub fn with(
        problem: Problem,
        arch: Arch,
        limits: &Limits,
        algorithm: Algorithm,
        num_parts: u32,
    ) -> Result<Self, Error> {
        let work = check(&problem, arch, limits)?;
        algorithm.validate().map_err(refused)?;
        let is_possible = match algorithm {
            Algorithm::Wgmma(tile) => {
                tma_majors(&problem, limits).is_some_and(|majors| suits_tile(tile, problem.a.dtype, majors))
            }
            Algorithm::SwapAb(tile) => tma_majors(&problem, limits).is_some() && can_swap_ab(tile, &problem),
            Algorithm::Mma(_) => pieces(&problem, limits).is_some(),
            Algorithm::Simt(_) => true,
        };
        let is_gated = problem.epilogue.gate_activation().is_some();
        if !is_possible || !suits_end(&algorithm, &problem) || (is_gated && num_parts > 1) {
            return Err(refused(format!("{algorithm} is not possible for the layout of {problem}, or the device")));
        }
        // The blocks of a tile add parts of a tree in its order; all other parts have one of their own.
        let is_of_tree = problem.k_parts > 1 && algorithm.own_parts() == Some(num_parts.into());
        let is_in_order = num_parts == 1 || is_of_tree || !problem.has_fixed_order();
        if num_parts == 0 || !is_in_order || !suits_tree(algorithm, &problem) {
            return Err(refused(format!("{num_parts} parts are not possible")));
        }
        Self::made(problem, work, (algorithm, num_parts))
    }

    fn made(problem: Problem, work: CostInput, (algorithm, num_parts): (Algorithm, u32)) -> Result<Self, Error> {
        let (part, num_parts) = algorithm.parts(&problem, num_parts.into());
        if algorithm.own_parts().is_some_and(|own| own != num_parts) {
            return Err(refused(format!("{algorithm}: {num_parts} part(s) of {problem} are not one for each block")));
        }
        let num_parts = num_parts as u32;
        let clocks = algorithm.clocks(&work, num_parts.into());
        let share_of_peak = algorithm.share_of_peak(&work, clocks);
        let num_sms = work.num_sms as u32;
        let choice = Self { problem, algorithm, part, num_parts, clocks, share_of_peak, num_sms };
        grid_size(choice.num_blocks().unwrap_or(u64::MAX))?;
        Ok(choice)
    }

    fn num_blocks(&self) -> Option<u64> {
        let [rows, columns] = self.algorithm.sides();
        let tiles = self.problem.m.div_ceil(rows.into()).checked_mul(self.problem.n.div_ceil(columns.into()))?;
        tiles.checked_mul(self.problem.num_products())?.checked_mul(self.num_parts.into())
    }

    /// The type that products are added up in.
    pub(super) fn accumulator(&self) -> Dtype {
        self.problem.accumulator().expect("plans are made for types that have one")
    }

    /// The launch that multiplies; none where there is no result.
    #[must_use]
    pub fn launch(&self) -> Option<LaunchConfig> {
        let blocks = self.num_blocks().filter(|blocks| *blocks > 0)?;
        Some(match self.algorithm {
            Algorithm::Simt(tile) => {
                let bytes = tile.shared_bytes(self.accumulator().bytes() as u32);
                LaunchConfig::new(blocks as u32, tile.threads()).dynamic_shared(bytes)
            }
            // It says itself what shared memory it needs, as that of warpgroups does.
            Algorithm::Mma(tile) => LaunchConfig::new(blocks as u32, tile.threads()),
            Algorithm::Wgmma(tile) | Algorithm::SwapAb(tile) => {
                let Problem { m, n, .. } = self.multiplied();
                let tiles = m.div_ceil((tile.cluster * tile.rows()).into())
                    * n.div_ceil(tile.columns.into())
                    * self.problem.num_products();
                let clusters = match self.algorithm.own_parts() {
                    // Blocks come as others go: the slowest SM then does less.
                    Some(_) => tiles,
                    None if tile.once => tiles * u64::from(self.num_parts),
                    None => (tiles * u64::from(self.num_parts)).min(u64::from(self.num_sms / tile.cluster).max(1)),
                };
                LaunchConfig::new(clusters as u32 * tile.cluster * tile.split, tile.threads())
            }
        })
    }

    /// Whether a second launch adds the sums of the parts.
    pub(super) const fn has_reduce(&self) -> bool {
        self.num_parts > 1 && self.algorithm.own_parts().is_none()
    }

    /// The launch that adds the sums of the parts, if there are several and the first one does not.
    #[must_use]
    pub fn fold(&self) -> Option<LaunchConfig> {
        self.has_reduce().then(|| split_k_reduce::launch(self.num_results(), self.problem.n)).flatten()
    }

    /// Elements of the result.
    #[must_use]
    pub fn num_results(&self) -> u64 {
        self.problem.m * self.problem.n * self.problem.num_products()
    }

    /// Bytes of the sums between the two launches.
    pub(super) fn sums_bytes(&self) -> u64 {
        u64::from(self.num_parts) * self.num_results() * self.accumulator().bytes()
    }

    /// The additions that a sum goes through at most: its share of the error bound.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.part.min(self.problem.k) + u64::from(self.num_parts)
    }

    /// The problem of the launch that multiplies: where the sums are split, its result are sums in
    /// scratch memory.
    pub(super) fn multiplied(&self) -> Problem {
        if matches!(self.algorithm, Algorithm::SwapAb(_)) {
            return self.problem.swapped();
        }
        if !self.has_reduce() {
            return self.problem.clone();
        }
        let Problem { m, n, batch, .. } = self.problem;
        let c = Matrix::packed(self.accumulator(), [m, n], batch);
        Problem { c, inputs: Vec::new(), epilogue: Epilogue::new(), ..self.problem.clone() }
    }

    /// What decides on the code of a kernel for CUDA cores.
    pub(super) fn simt_config(&self, tile: Tile) -> SimtConfig {
        let first = self.multiplied();
        let Problem { m, n, k, a, b, .. } = first;
        let loads = [Load::of(&a, m, k), Load::of(&b.transposed(), n, k)];
        let has_rest = !k.is_multiple_of(tile.depth.into());
        SimtConfig { tile, loads, has_rest, epilogue: EpilogueKey::new(&first) }
    }

    /// What decides on the code of a `mma.sync` kernel.
    pub(super) fn mma_config(&self, tile: MmaTile) -> MmaProductConfig {
        let first = self.multiplied();
        let dtype = first.a.dtype;
        let pieces = pieces_of(&first).expect("plans with warps are made for factors that they can copy");
        let has_rest = !first.k.is_multiple_of(tile.depth(dtype.bytes() as u32).into());
        MmaProductConfig { dtype, tile, pieces, has_rest, epilogue: EpilogueKey::new(&first) }
    }

    /// What decides on the code of a WGMMA kernel.
    pub(super) fn wgmma_config(&self, tile: WgmmaTile) -> WgmmaProductConfig {
        let first = self.multiplied();
        let Problem { m, n, a, c, batch, .. } = first;
        let is_gated = first.epilogue.gate_activation().is_some();
        // Copies store whole groups of 16 bytes: on an H200 they overwrite what follows a row that
        // ends inside of one.
        let is_copied = matches!(c.dtype, Dtype::F16 | Dtype::Bf16)
            && n.is_multiple_of(8)
            && tile.panel_of(if is_gated { tile.columns / 2 } else { tile.columns }).is_some()
            && wgmma::is_for_tma(&c, m, n, batch)
            && c.batch_strides_differ(batch);
        let majors = majors_of(&first).expect("plans with warpgroups are made for factors that copies bring");
        WgmmaProductConfig {
            dtype: a.dtype,
            tile,
            majors,
            is_batch: first.num_products() > 1,
            is_ragged: first.has_ragged_parts(),
            copied: is_copied.then_some(c.dtype),
            is_promoted: is_promoted(a.dtype),
            im2col: None,
            rows: if majors[0] == OperandMajor::K {
                // Blocks one below the other take as many each, where copies of results keep to
                // them.
                let sharing = if tile.consumers == 1 { tile.cluster } else { 1 };
                m.div_ceil(sharing.into()).next_multiple_of(8).min(tile.rows().into()) as u32
            } else {
                tile.rows()
            },
            read_once: [(m, n), (n, m)].map(|(lines, others)| {
                let bytes = lines * first.k * a.dtype.bytes();
                first.num_products() == 1 && others <= FEW_ROWS && bytes >= READ_ONCE_BYTES
            }),
            parts: first.k_parts as u32 / tile.split,
            weights: first.weights && tile.split == 1 && !first.has_ragged_parts(),
            epilogue: EpilogueKey::new(&first),
        }
    }
}

/// The tile of CUDA cores that the cost model takes for a product whose sums are not split, and its
/// clocks.
pub(crate) fn simt_tile(problem: &Problem, arch: Arch, limits: &Limits) -> Result<(f64, Tile), Error> {
    let work = work_of(problem, arch, limits)?;
    let tiles = Tile::ALL.into_iter().filter(|tile| has_room(*tile, work.accumulator));
    Ok(least(tiles.map(|tile| (cost::clocks(&work, tile, 1), tile))))
}

/// That of warps on tensor cores, for factors of this many bytes that are gathered, some of them
/// again and again.
pub(crate) fn mma_tile(problem: &Problem, factors: u64, arch: Arch, limits: &Limits) -> Result<(f64, MmaTile), Error> {
    let work = CostInput { factors, ..work_of(problem, arch, limits)? };
    Ok(least(MmaTile::ALL.into_iter().map(|tile| (cost::warp_clocks(&work, tile, 1), tile))))
}

/// That of WGMMA.
pub(crate) fn wgmma_tile(
    problem: &Problem,
    factors: u64,
    arch: Arch,
    limits: &Limits,
) -> Result<(f64, WgmmaTile), Error> {
    let work = CostInput { factors, ..work_of(problem, arch, limits)? };
    Ok(least(WgmmaTile::OF_CONVOLUTIONS.into_iter().map(|tile| (cost::tensor_clocks(&work, tile, 1), tile))))
}

/// What costs the fewest clocks.
fn least<T>(costs: impl Iterator<Item = (f64, T)>) -> (f64, T) {
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are tiles")
}

fn work_of(problem: &Problem, arch: Arch, limits: &Limits) -> Result<CostInput, Error> {
    let Problem { m, n, k, a, .. } = *problem;
    let (accumulator, products) = (problem.accumulator()?, problem.num_products());
    let (num_sms, rates) = (limits.num_sms.max(1).into(), ArchRates::of(arch));
    let factors = [m, n].iter().map(|lines| lines.saturating_mul(k)).fold(0, u64::saturating_add);
    let factors = factors.saturating_mul(products).saturating_mul(a.dtype.bytes());
    Ok(CostInput { m, n, k, products, dtype: a.dtype, accumulator, factors, num_sms, rates })
}

fn check(problem: &Problem, arch: Arch, limits: &Limits) -> Result<CostInput, Error> {
    problem.check()?;
    if !problem.is_walked() {
        return Err(refused(format!("a batch has {BATCH_RANK} dimensions at most once it is merged: {problem}")));
    }
    work_of(problem, arch, limits)
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: tiles of {}", self.problem, self.algorithm)?;
        if let Some(launch) = self.launch() {
            write!(f, ", {} block(s) of {}", launch.grid[0], self.algorithm.threads())?;
        }
        if self.num_parts > 1 {
            write!(f, ", {} parts of {} products, then their sums", self.num_parts, self.part)?;
        }
        if self.problem.k_parts > 1 {
            write!(f, ", {} parts of k in a tree", self.problem.k_parts)?;
        }
        if !self.problem.epilogue.steps().is_empty() {
            write!(f, ", {}", self.problem.epilogue)?;
        }
        write!(f, "; {:.0} clocks expected, {:.0} % of peak", self.clocks, 100.0 * self.share_of_peak)
    }
}
