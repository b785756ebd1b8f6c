//! Which kernel computes a convolution.

use std::fmt;

use warpfold_device::{LaunchConfig, Limits};

use super::geometry::Geometry;
use super::lay::Laying;
use super::patch_tile::{self, PatchTile};
use super::problem::{Problem, refused};
use super::sight::Sight;
use super::{direct, implicit, patches, planes, tensor, warps};
use crate::matmul::{self, Ending, Epilogue, MmaTile, Tile, WgmmaTile};
use crate::{Dtype, Error};

/// The kernel of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A thread an output.
    Direct,
    /// Tiles of a product of filters and pixels, on ordinary cores.
    Implicit(Tile),
    /// The same of planes, over one element of the filters after the other.
    Planes(Tile),
    /// Patches of the images under all elements of the filters, on ordinary cores.
    Patches(PatchTile),
    /// Tiles of a product of pixels and filters, on tensor cores, by warps.
    Mma(MmaTile),
    /// The same by warpgroups.
    Wgmma(WgmmaTile),
}

/// How a convolution is computed: a value to look at, to compare, and to replace by another with [`Plan::with`].
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What it is for.
    pub problem: Problem,
    /// What is done to the sums.
    pub epilogue: Epilogue,
    /// The kernel.
    pub code: Code,
    /// Multiprocessors of the device: as many blocks as stay, where blocks take tile after tile.
    num_sms: u32,
}

/// Filters of a group from which on tiles are worth their loads.
const LEAST_FILTERS: u64 = 4;

/// How many times the clocks of a product a convolution takes whose every element is looked for: 1.2 to 1.8 times (`f32`,
/// all problems of the catalogue, H200, driver 580, 2026-11-20).
const GATHERING: f64 = 1.5;

impl Plan {
    /// Chooses: a thread an output for groups of few filters, else what the cost model of products says is the fastest, with
    /// what it costs to lay images and filters so that tensor cores take them.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for element types without kernels,
    /// [`ErrorKind::Operand`](crate::ErrorKind::Operand) for sizes that do not fit each other or the kernels.
    pub fn new(problem: Problem, epilogue: Epilogue, limits: &Limits) -> Result<Self, Error> {
        problem.check()?;
        if problem.filters / problem.groups < LEAST_FILTERS {
            return Self::with(problem, epilogue, limits, Code::Direct);
        }
        let product = problem.product(problem.groups);
        // Sums go in whole steps.
        let gathered = matmul::Problem { k: product.k.next_multiple_of(Tile::LARGE.depth.into()), ..product };
        let (clocks, tile) = matmul::simt_tile(&gathered, limits)?;
        let mut choices = vec![(GATHERING * clocks, Code::Implicit(tile))];
        choices.extend(planes::choice(&problem, limits)?.map(|(clocks, tile)| (clocks, Code::Planes(tile))));
        choices.extend(patch_tile::choice(&problem, limits).map(|(clocks, tile)| (clocks, Code::Patches(tile))));
        if warps::is_possible(&problem, limits) {
            let (clocks, tile) = warps::choice(&problem, limits)?;
            choices.push((clocks, Code::Mma(tile)));
        }
        if tensor::is_possible(&problem, limits) {
            let (clocks, tile) = tensor::choice(&problem, limits)?;
            choices.push((clocks, Code::Wgmma(tile)));
        }
        let (_, code) = choices.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is always one");
        Self::with(problem, epilogue, limits, code)
    }

    /// The plan with a kernel of one's own choice.
    ///
    /// # Errors
    /// Those of [`Plan::new`], and [`ErrorKind::Operand`](crate::ErrorKind::Operand) for a tile that breaks a rule.
    pub fn with(problem: Problem, epilogue: Epilogue, limits: &Limits, code: Code) -> Result<Self, Error> {
        problem.check()?;
        matmul::check_epilogue(&epilogue, accumulator(problem.dtype))?;
        let (expected, found) = (epilogue.num_inputs(), problem.num_inputs);
        if expected != found || found > 2 {
            return Err(refused(format!(
                "the epilogue ({epilogue}) takes {expected} input(s), not {found}; at most 2"
            )));
        }
        let is_possible = match code {
            Code::Direct => Ok(true),
            Code::Implicit(tile) => tile.validate().map(|()| true),
            Code::Planes(tile) => tile.validate().map(|()| planes::is_possible(&problem, tile)),
            Code::Patches(tile) => tile.validate().map(|()| patch_tile::is_possible(&problem, tile, limits)),
            Code::Mma(tile) => tile.validate().map(|()| warps::is_possible(&problem, limits)),
            Code::Wgmma(tile) => tile.validate().map(|()| tensor::is_possible(&problem, limits)),
        };
        if !is_possible.map_err(refused)? {
            return Err(refused(format!("{problem} is none for such a kernel, or not on this device")));
        }
        let plan = Self { problem, epilogue, code, num_sms: limits.num_sms.max(1) };
        if plan.num_blocks() > i32::MAX as u64 {
            return Err(refused(format!("{} is more than a grid has blocks for", plan.problem)));
        }
        Ok(plan)
    }

    /// The type that products are added up in.
    pub(super) fn accumulator(&self) -> Dtype {
        accumulator(self.problem.dtype)
    }

    /// The product that the kernel computes.
    pub(super) fn product(&self) -> matmul::Problem {
        match self.code {
            Code::Direct | Code::Patches(_) => self.problem.product(1),
            Code::Implicit(_) => self.problem.product(self.problem.groups),
            Code::Planes(_) => planes::product(&self.problem),
            Code::Mma(_) => warps::product(&self.problem),
            Code::Wgmma(_) => tensor::product(&self.problem),
        }
    }

    fn num_blocks(&self) -> u64 {
        match self.code {
            Code::Direct => self.problem.num_results().div_ceil(direct::BLOCK.into()),
            Code::Implicit(tile) | Code::Planes(tile) => self.tiles(tile.rows, tile.columns),
            Code::Patches(tile) => patch_tile::num_blocks(&self.problem, tile, self.num_sms),
            Code::Mma(tile) => self.tiles(tile.rows(), tile.columns()),
            Code::Wgmma(tile) => {
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

    /// The launch that lays images and filters anew, where there is one.
    pub(super) fn laying(&self) -> Option<Laying> {
        let laying = match self.code {
            Code::Planes(_) => Some(planes::laying(&self.problem)),
            Code::Wgmma(_) => {
                Some(Sight::of(&self.problem)).filter(Sight::is_laid).map(|sight| sight.laying(&self.problem))
            }
            Code::Direct | Code::Implicit(_) | Code::Patches(_) | Code::Mma(_) => None,
        };
        laying.filter(|laying| laying.bytes() != [0; 2])
    }

    /// Bytes between the launches: images and filters that are laid anew.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.laying().map_or(0, |laying| laying.bytes().iter().sum())
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        match self.code {
            Code::Direct => direct::BLOCK,
            Code::Implicit(tile) | Code::Planes(tile) => tile.threads(),
            Code::Patches(tile) => tile.threads(),
            Code::Mma(tile) => tile.threads(),
            Code::Wgmma(tile) => tile.threads(),
        }
    }

    /// The launch; none where there is no result.
    #[must_use]
    pub fn launch(&self) -> Option<LaunchConfig> {
        let blocks = self.num_blocks();
        let shared = match self.code {
            // Those for tensor cores say themselves what they need.
            Code::Direct | Code::Mma(_) | Code::Wgmma(_) => 0,
            Code::Implicit(tile) | Code::Planes(tile) => tile.shared_bytes(self.accumulator().bytes() as u32),
            Code::Patches(tile) => patch_tile::shared_bytes(&self.problem, tile) as u32,
        };
        (blocks > 0).then(|| LaunchConfig::new(blocks as u32, self.threads()).dynamic_shared(shared))
    }

    pub(super) fn ending(&self) -> Ending {
        Ending::new(&self.product(), &self.epilogue)
    }

    pub(super) fn direct(&self) -> direct::Configuration {
        let Problem { dtype, filters, groups, .. } = self.problem;
        let geometry = Geometry::of(&self.problem);
        direct::Configuration { dtype, geometry, filters: (filters / groups) as u32, ending: self.ending() }
    }

    pub(super) fn planes(&self, tile: Tile) -> planes::Configuration {
        let geometry = Geometry::of(&self.problem);
        planes::Configuration { geometry, tile, filters: self.problem.filters as u32, ending: self.ending() }
    }

    pub(super) fn patches(&self, tile: PatchTile) -> patches::Configuration {
        let Problem { dtype, filters, .. } = self.problem;
        let geometry = Geometry::of(&self.problem);
        patches::Configuration { dtype, geometry, tile, filters: filters as u32, ending: self.ending() }
    }

    pub(super) fn implicit(&self, tile: Tile) -> implicit::Configuration {
        let geometry = Geometry::of(&self.problem);
        let is_last = geometry.order == super::Order::ChannelsLast;
        // Channels of a pixel lie side by side only where they come last; those of all groups do then.
        let wide_pixels = is_last && geometry.channels.is_multiple_of(4);
        let wide_filters = geometry.depth().is_multiple_of(4);
        let wide = [wide_pixels, wide_filters];
        implicit::Configuration { dtype: self.problem.dtype, geometry, tile, wide, ending: self.ending() }
    }
}

fn accumulator(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.problem)?;
        match self.code {
            Code::Direct => write!(f, "a thread an output")?,
            Code::Implicit(tile) => write!(f, "tiles of {tile}, gathered")?,
            Code::Planes(tile) => write!(f, "tiles of {tile}, filters laid anew first")?,
            Code::Patches(tile) => write!(f, "patches under tiles of {tile}")?,
            Code::Mma(tile) => write!(f, "tiles of {tile}, on tensor cores")?,
            Code::Wgmma(tile) => {
                let laid = self.laying().map_or("", |_| ", laid anew first");
                write!(f, "tiles of {tile}, on tensor cores{laid}")?;
            }
        }
        write!(f, ", {} block(s) of {}", self.num_blocks(), self.threads())
    }
}
