//! Which kernel computes a convolution: eligibility, and the cost model's choice.

use std::fmt;

use warpfold_device::{LaunchConfig, Limits};
use warpfold_lang::Arch;

use super::geometry::Geometry;
use super::patch_tile::{self, PatchTile};
use super::problem::{Problem, refused};
use super::tensor_core_layout::TensorCoreLayout;
use super::{direct, implicit, mma, patches, planes, wgmma};
use crate::Error;
use crate::matmul::{self, EpilogueKey, MmaTile, Tile, WgmmaTile};
use crate::plan::grid_size;
use crate::repack::ChannelsLast;

/// The kernel that convolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A thread per output.
    Direct,
    /// Tiles of a product of filters and pixels, on CUDA cores.
    Implicit(Tile),
    /// The same of planes, over one element of the filters after the other.
    Planes(Tile),
    /// Patches of the images under all elements of the filters, on CUDA cores.
    Patches(PatchTile),
    /// Tiles of a product of pixels and filters, on tensor cores, by `mma.sync`.
    Mma(MmaTile),
    /// The same by WGMMA.
    Wgmma(WgmmaTile),
}

/// How a convolution is computed: a value to look at, to compare, and to replace by another with
/// [`Choice::with`].
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What it is for.
    pub problem: Problem,
    /// The kernel.
    pub algorithm: Algorithm,
    /// SMs of the device: as many blocks as stay, where blocks take tile after tile.
    num_sms: u32,
}

// THRESHOLD: fewer filters of a group have a thread for each output; tested by
// crates/kernels/tests/conv/plans.rs::groups_of_few_filters_have_a_thread_for_each_output
/// Filters of a group from which on tiles are worth their loads.
const LEAST_FILTERS: u64 = 4;

/// How many times the clocks of a product a convolution takes whose every element is looked for:
/// 1.2 to 1.8 times (`f32`, all problems of the catalogue, H200, driver 580, 2026-11-20).
const GATHERING: f64 = 1.5;

impl Choice {
    /// Chooses: a thread per output for groups of few filters, else what the cost model of products
    /// says is the fastest, with what it costs to lay images and filters so that tensor cores take
    /// them.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for element types without kernels,
    /// [`ErrorKind::Operand`](crate::ErrorKind::Operand) for sizes that do not fit each other or
    /// the kernels.
    pub fn new(problem: Problem, arch: Arch, limits: &Limits) -> Result<Self, Error> {
        problem.check()?;
        if problem.filters / problem.groups < LEAST_FILTERS {
            return Self::with(problem, limits, Algorithm::Direct);
        }
        let product = problem.product(problem.groups);
        // Sums go in whole steps.
        let gathered = matmul::Problem { k: product.k.next_multiple_of(Tile::LARGE.depth.into()), ..product };
        let (clocks, tile) = matmul::simt_tile(&gathered, arch, limits)?;
        let mut choices = vec![(GATHERING * clocks, Algorithm::Implicit(tile))];
        choices.extend(planes::choice(&problem, arch, limits)?.map(|(clocks, tile)| (clocks, Algorithm::Planes(tile))));
        let patches = patch_tile::choice(&problem, limits);
        choices.extend(patches.map(|(clocks, tile)| (clocks, Algorithm::Patches(tile))));
        if mma::is_possible(&problem, limits) {
            let (clocks, tile) = mma::choice(&problem, arch, limits)?;
            choices.push((clocks, Algorithm::Mma(tile)));
        }
        if wgmma::is_possible(&problem, limits) {
            let (clocks, tile) = wgmma::choice(&problem, arch, limits)?;
            choices.push((clocks, Algorithm::Wgmma(tile)));
        }
        let (_, algorithm) = choices.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is always one");
        Self::with(problem, limits, algorithm)
    }

    /// The choice of a caller: this kernel.
    ///
    /// # Errors
    /// Those of [`Choice::new`], and [`ErrorKind::Operand`](crate::ErrorKind::Operand) for a tile
    /// that breaks a rule.
    pub fn with(problem: Problem, limits: &Limits, algorithm: Algorithm) -> Result<Self, Error> {
        problem.check()?;
        let is_possible = match algorithm {
            Algorithm::Direct => Ok(true),
            Algorithm::Implicit(tile) => tile.validate().map(|()| true),
            Algorithm::Planes(tile) => tile.validate().map(|()| planes::is_possible(&problem, tile)),
            Algorithm::Patches(tile) => tile.validate().map(|()| patch_tile::is_possible(&problem, tile, limits)),
            Algorithm::Mma(tile) => tile.validate().map(|()| mma::is_possible(&problem, limits)),
            Algorithm::Wgmma(tile) => tile.validate().map(|()| wgmma::is_possible(&problem, limits)),
        };
        if !is_possible.map_err(refused)? {
            return Err(refused(format!("{problem} is none for such a kernel, or not on this device")));
        }
        let choice = Self { problem, algorithm, num_sms: limits.num_sms.max(1) };
        grid_size(choice.num_blocks())?;
        Ok(choice)
    }

    /// The product that the kernel computes.
    pub(super) fn product(&self) -> matmul::Problem {
        match self.algorithm {
            Algorithm::Direct | Algorithm::Patches(_) => self.problem.product(1),
            Algorithm::Implicit(_) => self.problem.product(self.problem.groups),
            Algorithm::Planes(_) => planes::product(&self.problem),
            Algorithm::Mma(_) => mma::product(&self.problem),
            Algorithm::Wgmma(_) => wgmma::product(&self.problem),
        }
    }

    fn num_blocks(&self) -> u64 {
        match self.algorithm {
            Algorithm::Direct => self.problem.num_results().div_ceil(direct::BLOCK.into()),
            Algorithm::Implicit(tile) | Algorithm::Planes(tile) => self.tiles(tile.rows, tile.columns),
            Algorithm::Patches(tile) => patch_tile::num_blocks(&self.problem, tile, self.num_sms),
            Algorithm::Mma(tile) => self.tiles(tile.rows(), tile.columns()),
            Algorithm::Wgmma(tile) => {
                let product = self.product();
                let down = product.m.div_ceil((tile.cluster * tile.rows()).into());
                let clusters = down * product.n.div_ceil(tile.columns.into());
                clusters.min((self.num_sms / tile.cluster).max(1).into()) * u64::from(tile.cluster)
            }
        }
    }

    fn tiles(&self, rows: u32, columns: u32) -> u64 {
        let product = self.product();
        product.m.div_ceil(rows.into()) * product.n.div_ceil(columns.into()) * product.num_products()
    }

    /// How images and filters are repacked first, where they are.
    pub(super) fn repack(&self) -> Option<ChannelsLast> {
        let repack = match self.algorithm {
            Algorithm::Planes(_) => Some(planes::repack(&self.problem)),
            Algorithm::Wgmma(_) => Some(TensorCoreLayout::of(&self.problem))
                .filter(TensorCoreLayout::needs_repack)
                .map(|tc_layout| tc_layout.repack(&self.problem)),
            Algorithm::Direct | Algorithm::Implicit(_) | Algorithm::Patches(_) | Algorithm::Mma(_) => None,
        };
        repack.filter(|repack| repack.bytes() != [0; 2])
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        match self.algorithm {
            Algorithm::Direct => direct::BLOCK,
            Algorithm::Implicit(tile) | Algorithm::Planes(tile) => tile.threads(),
            Algorithm::Patches(tile) => tile.threads(),
            Algorithm::Mma(tile) => tile.threads(),
            Algorithm::Wgmma(tile) => tile.threads(),
        }
    }

    /// The launch; none where there is no result.
    #[must_use]
    pub fn launch(&self) -> Option<LaunchConfig> {
        let blocks = self.num_blocks();
        let shared = match self.algorithm {
            // Those for tensor cores say themselves what they need.
            Algorithm::Direct | Algorithm::Mma(_) | Algorithm::Wgmma(_) => 0,
            Algorithm::Implicit(tile) | Algorithm::Planes(tile) => {
                tile.shared_bytes(self.problem.accumulator().bytes() as u32)
            }
            Algorithm::Patches(tile) => patch_tile::shared_bytes(&self.problem, tile) as u32,
        };
        (blocks > 0).then(|| LaunchConfig::new(blocks as u32, self.threads()).dynamic_shared(shared))
    }

    pub(super) fn epilogue_key(&self) -> EpilogueKey {
        EpilogueKey::new(&self.product())
    }

    pub(super) fn direct(&self) -> direct::DirectConfig {
        let Problem { dtype, filters, groups, .. } = self.problem;
        let geometry = Geometry::of(&self.problem);
        direct::DirectConfig { dtype, geometry, filters: (filters / groups) as u32, epilogue: self.epilogue_key() }
    }

    pub(super) fn planes(&self, tile: Tile) -> planes::PlanesConfig {
        let geometry = Geometry::of(&self.problem);
        planes::PlanesConfig { geometry, tile, filters: self.problem.filters as u32, epilogue: self.epilogue_key() }
    }

    pub(super) fn patches(&self, tile: PatchTile) -> patches::PatchesConfig {
        let Problem { dtype, filters, .. } = self.problem;
        let geometry = Geometry::of(&self.problem);
        patches::PatchesConfig { dtype, geometry, tile, filters: filters as u32, epilogue: self.epilogue_key() }
    }

    pub(super) fn implicit(&self, tile: Tile) -> implicit::ImplicitConfig {
        let geometry = Geometry::of(&self.problem);
        let is_last = geometry.order == super::Order::ChannelsLast;
        // Channels of a pixel lie side by side only where they come last; those of all groups do
        // then.
        let wide_pixels = is_last && geometry.channels.is_multiple_of(4);
        let wide_filters = geometry.depth().is_multiple_of(4);
        let wide = [wide_pixels, wide_filters];
        implicit::ImplicitConfig { dtype: self.problem.dtype, geometry, tile, wide, epilogue: self.epilogue_key() }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.problem)?;
        match self.algorithm {
            Algorithm::Direct => write!(f, "a thread per output")?,
            Algorithm::Implicit(tile) => write!(f, "tiles of {tile}, gathered")?,
            Algorithm::Planes(tile) => write!(f, "tiles of {tile}, filters repacked first")?,
            Algorithm::Patches(tile) => write!(f, "patches under tiles of {tile}")?,
            Algorithm::Mma(tile) => write!(f, "tiles of {tile}, on tensor cores")?,
            Algorithm::Wgmma(tile) => {
                let repacked = self.repack().map_or("", |_| ", repacked first");
                write!(f, "tiles of {tile}, on tensor cores{repacked}")?;
            }
        }
        write!(f, ", {} block(s) of {}", self.num_blocks(), self.threads())
    }
}
