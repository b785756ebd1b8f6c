//! Every kernel that ships, in the configurations that plans give it: to be inspected, assembled
//! and tested.

use std::collections::BTreeSet;

use warpfold_device::Profile;
use warpfold_lang::{Arch, Target};

use crate::plan::{Family, KernelCache, Planner};
use crate::{
    AnyKernel, attention, conv, digest, experts, fold, gather, gemv, generate, heads, histogram, matmul, nms,
    operations, pooling, reductions, rowwise, sampling, scatter, sort, unique,
};

/// A kernel in one of the configurations that plans give it.
#[derive(Debug, Clone)]
pub(crate) struct Shipped {
    /// The kernel.
    pub(crate) kernel: AnyKernel,
    /// The threads of its blocks.
    pub(crate) block: u32,
    /// Bytes of loads that a thread has under way at once, where its plan says so.
    pub(crate) in_flight: Option<u64>,
}

/// The target of the GPU that kernels are listed for.
pub(crate) fn target_of(profile: Profile) -> Target {
    let (arch, own) = (profile.arch(), profile.limits());
    let target = Target::new(Arch { number: arch.number, specific: arch.specific }, (9, 0));
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
        let target = Target::new(Arch { number: arch.number, specific: arch.specific }, (8, 0));
        let (limits, kernels) = (profile.limits(), KernelCache::default());
        let plan = family.plan(problem, &Planner::new(&target, &limits, &kernels));
        let mut plan = plan.expect("a listed problem has a plan");
        let main = plan.steps.pop().expect("a listed problem has a launch");
        Self { kernel: main.kernel, block: main.config.block[0], in_flight: plan.bytes_in_flight }
    }
}

impl From<(AnyKernel, u32)> for Shipped {
    fn from((kernel, block): (AnyKernel, u32)) -> Self {
        Self { kernel, block, in_flight: None }
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
    pub(crate) fn shipped(Shipped { kernel, block, in_flight }: Shipped, place: &str) -> Self {
        Self { in_flight, ..Self::new(kernel, place, [block, 1, 1]) }
    }
}

/// Every kernel that ships, operator by operator.
#[must_use]
pub fn kernels() -> Vec<Listed> {
    let mut list = Vec::new();
    let of_plans = [
        ("gemv", gemv::kernels()),
        ("map", operations::kernels()),
        ("histogram", histogram::kernels()),
        ("scan", fold::scan_kernels()),
        ("rows", rowwise::operators::kernels()),
        ("segments", fold::segments_kernels()),
    ];
    for (place, kernels) in of_plans {
        list.extend(kernels.into_iter().map(|shipped| Listed::shipped(shipped, place)));
    }
    list.extend(few_reductions());
    let gather = gather::kernels().into_iter();
    list.extend(gather.map(|kernel| Listed::new(kernel, "gather", [gather::BLOCK, 1, 1])));
    let digest = digest::kernels().into_iter();
    list.extend(digest.map(|kernel| Listed::new(kernel, "digest", [digest::BLOCK, 1, 1])));
    list.extend(unique::kernels().into_iter().map(|kernel| Listed::new(kernel, "unique", [unique::BLOCK, 1, 1])));
    let generate = generate::kernels().into_iter();
    list.extend(generate.map(|kernel| Listed::new(kernel, "generate", [generate::BLOCK, 1, 1])));
    let heads = heads::kernels().into_iter();
    list.extend(heads.map(|kernel| Listed::new(kernel, "heads", [heads::BLOCK, 1, 1])));
    let of_blocks = [
        ("attention", attention::kernels()),
        ("matmul", matmul::kernels()),
        ("conv", conv::kernels()),
        ("experts", experts::kernels()),
        ("sampling", sampling::kernels()),
        ("pooling", pooling::kernels()),
        ("sort", sort::kernels()),
        ("scatter", scatter::kernels()),
    ];
    for (place, kernels) in of_blocks {
        list.extend(kernels.into_iter().map(|(kernel, block)| Listed::new(kernel, place, [block, 1, 1])));
    }
    list.extend(nms::kernels().into_iter().map(|(block, kernel)| Listed::new(kernel, "nms", block)));
    // Plans of different problems may come to the same kernel.
    let mut seen = BTreeSet::new();
    list.retain(|listed| seen.insert((listed.place.clone(), listed.kernel.name().to_owned())));
    list
}

/// A few of the kernels of reductions: all of them are assembled by the tests, but these are looked
/// at.
fn few_reductions() -> impl Iterator<Item = Listed> {
    const NAMES: [&str; 4] =
        ["sum_f32_f32_rows", "argmax_i8_i64_rows", "mean_var_f32_f32_rows", "log_sum_exp_f32_f32_columns"];
    reductions::kernels().into_iter().filter(|listed| NAMES.contains(&listed.kernel.name()))
}
