//! Every kernel that ships, in the configurations that plans give it: to be inspected, assembled
//! and tested.

use std::collections::BTreeSet;

use warpfold_device::Profile;
use warpfold_lang::Target;

use crate::plan::{Family, KernelCache, Plan, Planner};
use crate::{
    AnyKernel, Error, attention, conv, delta, digest, experts, fold, gather, gemv, generate, heads, histogram, matmul,
    nms, operations, pooling, reductions, rowwise, sampling, scatter, sort, unique,
};

/// A kernel in one of the configurations that plans give it.
#[derive(Debug, Clone)]
pub(crate) struct Shipped {
    /// The kernel.
    pub(crate) kernel: AnyKernel,
    /// Bytes of loads that a thread has under way at once, where its plan says so.
    pub(crate) in_flight: Option<u64>,
}

/// The target of the GPU that kernels are listed for.
fn target_of(profile: Profile) -> Target {
    let (arch, own) = (profile.arch(), profile.limits());
    let target = Target::new(arch, (9, 0));
    let limits = warpfold_lang::Limits {
        max_threads: own.max_threads_per_block,
        max_shared_bytes: own.shared_bytes_per_block_optin,
        ..target.limits
    };
    Target { limits, ..target }
}

impl Shipped {
    /// The main kernel, which is the last, of a plan for a GPU.
    pub(crate) fn planned<F: Family>(family: &F, problem: &F::Problem, profile: Profile) -> Self {
        let arch = profile.arch();
        let target = Target::new(arch, (8, 0));
        let (limits, kernels) = (profile.limits(), KernelCache::default());
        let plan = family.plan(problem, &Planner::new(&target, &limits, &kernels));
        let mut plan = plan.expect("a listed problem has a plan");
        let main = plan.steps.pop().expect("a listed problem has a launch");
        Self { kernel: main.kernel, in_flight: plan.bytes_in_flight }
    }
}

impl Shipped {
    /// Kernels whose plans do not say what they have under way.
    pub(crate) fn each(kernels: impl IntoIterator<Item = AnyKernel>) -> Vec<Self> {
        kernels.into_iter().map(|kernel| Self { kernel, in_flight: None }).collect()
    }

    /// The kernels of all launches of some plans for an H200.
    pub(crate) fn of_plans(plans: impl FnOnce(&Planner<'_>) -> Vec<Result<Plan, Error>>) -> Vec<Self> {
        let (target, limits, kernels) = (target_of(Profile::H200), Profile::H200.limits(), KernelCache::default());
        let plans = plans(&Planner::new(&target, &limits, &kernels)).into_iter();
        Self::each(plans.flat_map(|plan| plan.expect("a listed problem has a plan").steps).map(|step| step.kernel))
    }
}

/// A kernel and where it belongs.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The kernel.
    pub kernel: AnyKernel,
    /// The operator, `gemv`; of a lesson the ladder and the rung, `reduce/naive`.
    pub place: String,
    /// The block it is launched with.
    pub block: [u32; 3],
    /// Bytes of loads that a thread has under way at once, where its plan says so.
    pub in_flight: Option<u64>,
}

impl Listed {
    /// A kernel whose plan does not say what it has under way.
    #[must_use]
    pub fn new(kernel: AnyKernel, place: &str, block: [u32; 3]) -> Self {
        Self { kernel, place: place.to_owned(), block, in_flight: None }
    }

    /// A kernel in the configuration that a plan gives it.
    #[must_use]
    pub(crate) fn shipped(Shipped { kernel, in_flight }: Shipped, place: &str) -> Self {
        let block = kernel.bounds().required_block().expect("kernels that ship say how large their blocks are");
        Self { in_flight, ..Self::new(kernel, place, block) }
    }
}

/// The kernels of each operator.
const MANIFEST: [(&str, fn() -> Vec<Shipped>); 21] = [
    ("gemv", gemv::kernels),
    ("map", operations::kernels),
    ("histogram", histogram::kernels),
    ("scan", fold::scan_kernels),
    ("rows", rowwise::operators::kernels),
    ("segments", fold::segments_kernels),
    ("gather", gather::kernels),
    ("digest", digest::kernels),
    ("unique", unique::kernels),
    ("generate", generate::kernels),
    ("heads", heads::kernels),
    ("attention", attention::kernels),
    ("delta", delta::kernels),
    ("matmul", matmul::kernels),
    ("conv", conv::kernels),
    ("experts", experts::kernels),
    ("sampling", sampling::kernels),
    ("pooling", pooling::kernels),
    ("sort", sort::kernels),
    ("scatter", scatter::kernels),
    ("nms", nms::kernels),
];

/// Every kernel that ships, operator by operator.
#[must_use]
pub fn kernels() -> Vec<Listed> {
    let of = |(place, kernels): (&'static str, fn() -> Vec<Shipped>)| {
        kernels().into_iter().map(move |shipped| Listed::shipped(shipped, place))
    };
    // Plans of different problems may come to the same kernel.
    let mut seen = BTreeSet::new();
    let mut is_new = |listed: &Listed| seen.insert((listed.place.clone(), listed.kernel.name().to_owned()));
    MANIFEST.into_iter().flat_map(of).chain(few_reductions()).filter(|listed| is_new(listed)).collect()
}

/// A few of the kernels of reductions: all of them are assembled by the tests, but these are looked
/// at.
fn few_reductions() -> impl Iterator<Item = Listed> {
    const NAMES: [&str; 4] =
        ["sum_f32_f32_rows", "argmax_i8_i64_rows", "mean_var_f32_f32_rows", "log_sum_exp_f32_f32_columns"];
    reductions::kernels().into_iter().filter(|listed| NAMES.contains(&listed.kernel.name()))
}
