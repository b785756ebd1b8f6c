//! A kernel: a name, typed parameters, launch bounds, and the closure that records its body.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpfold_ptx as ptx;

use crate::named::NamedParams;
use crate::params::{Layout, Params, Received};
use crate::recorder::{self, Caller, Subject, with};
use crate::{Error, ErrorKind, Target, intrinsics};

/// A kernel with parameters `Args`, a tuple of [`crate::Param`] types. Cheap to clone.
///
/// The closure is kept and runs once for every call of [`Kernel::build`], so a kernel may look at
/// [`target`] and choose its code by it. What it writes depends on the closure, the bounds and the
/// target only.
pub struct Kernel<Args> {
    recipe: Arc<Recipe>,
    bounds: Bounds,
    args: PhantomData<fn(Args)>,
}

struct Recipe {
    id: u64,
    name: String,
    /// The location of the call to [`kernel()`].
    caller: Caller,
    body: Box<dyn Fn() + Send + Sync>,
}

/// The number of threads per block that the kernel promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Threads {
    /// No promise: the launch decides.
    #[default]
    Free,
    /// At most this many (`.maxntid`).
    Max([u32; 3]),
    /// Exactly this many (`.reqntid`); [`crate::block_dim`] is then a constant.
    Required([u32; 3]),
}

/// Launch bounds that a kernel promises, for register allocation (PTX ISA, "Performance-Tuning
/// Directives").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bounds {
    /// Threads per block.
    pub threads: Threads,
    /// Minimum number of resident blocks per multiprocessor (`.minnctapersm`).
    pub min_blocks: Option<u32>,
    /// Maximum number of registers per thread (`.maxnreg`).
    pub max_registers: Option<u32>,
    /// Cluster size in blocks (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
}

impl Bounds {
    /// The block size of every launch, if the kernel promises one.
    #[must_use]
    pub const fn required_block(&self) -> Option<[u32; 3]> {
        match self.threads {
            Threads::Required(dims) => Some(dims),
            Threads::Free | Threads::Max(_) => None,
        }
    }

    fn check(&self, target: &Target) -> Result<(), ErrorKind> {
        let in_range = |what: &str, value: u32, last: u32| {
            let (what, value_text) = (what.to_owned(), value.to_string());
            let expected = format!("1 to {last}");
            let inside = (1..=last).contains(&value);
            if inside { Ok(()) } else { Err(ErrorKind::OutOfRange { what, value: value_text, expected }) }
        };
        if let Some(registers) = self.max_registers {
            in_range("the cap on registers", registers, target.limits.max_registers)?;
        }
        if let Some(blocks) = self.min_blocks {
            in_range("the number of blocks a multiprocessor", blocks, 32)?;
        }
        if let Some(cluster) = self.cluster {
            let blocks = cluster.iter().fold(1_u32, |product, n| product.saturating_mul(*n));
            in_range("the number of blocks a cluster", blocks, 16)?;
            if !target.has(90, (7, 8)) {
                let (what, arch, ptx_version, target) = ("a cluster".to_owned(), 90, (7, 8), *target);
                return Err(ErrorKind::Unsupported { what, arch, ptx_version, target });
            }
        }
        let (Threads::Max(dims) | Threads::Required(dims)) = self.threads else {
            let needs_threads = self.min_blocks.is_some();
            let misuse = "min_blocks means nothing without max_threads or required_block";
            return if needs_threads { Err(ErrorKind::Misuse(misuse.to_owned())) } else { Ok(()) };
        };
        for (size, last) in dims.into_iter().zip([1024, 1024, 64]) {
            in_range("the size of a block in one dimension", size, last)?;
        }
        let threads = dims.iter().map(|n| u64::from(*n)).product();
        let limit = target.limits.max_threads;
        if threads > u64::from(limit) { Err(ErrorKind::BlockTooLarge { threads, limit }) } else { Ok(()) }
    }
}

/// Threads in up to three dimensions: `256`, `(32, 8)` or `(8, 8, 4)`.
pub trait Dims {
    /// All three, missing ones being 1.
    fn dims(self) -> [u32; 3];
}

impl Dims for u32 {
    fn dims(self) -> [u32; 3] {
        [self, 1, 1]
    }
}

impl Dims for (u32, u32) {
    fn dims(self) -> [u32; 3] {
        [self.0, self.1, 1]
    }
}

impl Dims for (u32, u32, u32) {
    fn dims(self) -> [u32; 3] {
        [self.0, self.1, self.2]
    }
}

/// Makes a kernel of a closure that takes [`crate::Global`] pointers and [`crate::Val`] scalars.
///
/// ```
/// use warpfold_lang::{Global, Kernel, Val, kernel};
/// let fill: Kernel<(Global<f32>, f32)> =
///     kernel("fill", |output: Global<f32>, value: Val<f32>| output.at(warpfold_lang::thread_idx().x).set(value));
/// assert_eq!(fill.layout().bytes, 12);
/// ```
#[track_caller]
pub fn kernel<V: 'static, F: Body<V>>(name: impl Into<String>, body: F) -> Kernel<F::Args> {
    let recipe = Recipe::new(name.into(), Location::caller(), Box::new(move || body.record()));
    Kernel { recipe, bounds: Bounds::default(), args: PhantomData }
}

impl Recipe {
    fn new(name: String, caller: Caller, body: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        static NUM_KERNELS: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { id: NUM_KERNELS.fetch_add(1, Ordering::Relaxed), name, caller, body })
    }

    fn build(&self, bounds: Bounds, target: &Target, with_lines: bool) -> Result<Built, Error> {
        let fail = |kind| Error::new(&self.name, self.caller, kind);
        if !is_identifier(&self.name) {
            return Err(fail(ErrorKind::BadName(self.name.clone())));
        }
        bounds.check(target).map_err(fail)?;
        let body = || {
            (self.body)();
            with(intrinsics::control::ret);
        };
        let subject = Subject { name: &self.name, target, bounds, caller: self.caller, with_lines };
        let recording = recorder::record(subject, &body)?;
        Ok(Built {
            entry: self.name.clone(),
            defined_at: self.caller,
            module: recording.module,
            bounds,
            static_shared_bytes: recording.static_shared_bytes,
            dynamic_shared_bytes: recording.dynamic_shared_bytes,
            waits_for_dependencies: recording.waits_for_dependencies,
        })
    }
}

/// A closure that can be a kernel's body: `Fn(…)` of one to twelve [`Received`] values, or of one
/// structure made by [`params!`](crate::params!).
#[diagnostic::on_unimplemented(
    message = "this closure cannot be a kernel's body",
    note = "expected a `move` closure with 1 to 12 annotated parameters of type `Global<T>` or `Val<T>`, and no result"
)]
pub trait Body<V>: Send + Sync + 'static {
    /// The parameters as the host sees them.
    type Args: Params;
    /// Declares the parameters and runs the closure.
    fn record(&self);
}

macro_rules! bodies {
    ($($value:ident)*) => {
        impl<F, $($value: Received),*> Body<($($value,)*)> for F
        where
            F: Fn($($value),*) + Send + Sync + 'static,
            ($($value::Param,)*): Params,
        {
            type Args = ($($value::Param,)*);
            fn record(&self) {
                let mut position = 0;
                let mut next = || { position += 1; position - 1 };
                self($($value::receive(next())),*);
            }
        }
    };
}

/// Bodies that take one [`params!`](crate::params!) structure.
#[derive(Debug)]
pub struct Named<A>(PhantomData<A>);

impl<A: NamedParams, F: Fn(A) + Send + Sync + 'static> Body<Named<A>> for F {
    type Args = A;

    fn record(&self) {
        self(crate::named::receive::<A>());
    }
}

bodies!(A);
bodies!(A B);
bodies!(A B C);
bodies!(A B C D);
bodies!(A B C D E);
bodies!(A B C D E G);
bodies!(A B C D E G H);
bodies!(A B C D E G H I);
bodies!(A B C D E G H I J);
bodies!(A B C D E G H I J K);
bodies!(A B C D E G H I J K L);
bodies!(A B C D E G H I J K L M);

impl<Args: Params> Kernel<Args> {
    /// The name of its entry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.recipe.name
    }

    /// A number shared only by clones of this kernel (whatever their bounds).
    #[must_use]
    pub fn id(&self) -> u64 {
        self.recipe.id
    }

    /// Its launch bounds.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The layout of the kernel's parameter block.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Args::layout()
    }

    /// Promises a maximum number of threads per block (`.maxntid`).
    #[must_use]
    pub fn max_threads(mut self, threads: impl Dims) -> Self {
        self.bounds.threads = Threads::Max(threads.dims());
        self
    }

    /// Promises the exact number of threads per block of every launch (`.reqntid`).
    #[must_use]
    pub fn required_block(mut self, threads: impl Dims) -> Self {
        self.bounds.threads = Threads::Required(threads.dims());
        self
    }

    /// Limits registers so that at least this many blocks fit on a multiprocessor
    /// (`.minnctapersm`).
    #[must_use]
    pub fn min_blocks(mut self, blocks: u32) -> Self {
        self.bounds.min_blocks = Some(blocks);
        self
    }

    /// Promises the cluster size of every launch: the blocks of a cluster run at the same time and
    /// access each other's shared memory (`.reqnctapercluster`; sm_90). More than 8 blocks do not
    /// fit every device.
    #[must_use]
    pub fn cluster(mut self, blocks: impl Dims) -> Self {
        self.bounds.cluster = Some(blocks.dims());
        self
    }

    /// Limits the number of registers per thread (`.maxnreg`).
    #[must_use]
    pub fn max_registers(mut self, registers: u32) -> Self {
        self.bounds.max_registers = Some(registers);
        self
    }

    /// Records the kernel for a target.
    ///
    /// # Errors
    /// If the target lacks something that the kernel uses, or the kernel breaks a rule of the
    /// language.
    pub fn build(&self, target: &Target) -> Result<Built, Error> {
        self.recipe.build(self.bounds, target, false)
    }

    /// Records the kernel with the line of source that each instruction comes from (`.file` and
    /// `.loc`), so that findings, traps and profilers name lines of Rust. The instructions are
    /// those of [`Self::build`].
    ///
    /// ```
    /// use warpfold_lang::{Arch, Global, Target, kernel, thread_idx};
    /// let fill = kernel("fill", |output: Global<u32>| output.at(thread_idx().x).set(7));
    /// let text = fill.build_with_lines(&Target::new(Arch::SM_80, (8, 0)))?.ptx();
    /// assert!(text.contains(".file 1 \"") && text.contains(".loc 1 "));
    /// # Ok::<(), warpfold_lang::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_with_lines(&self, target: &Target) -> Result<Built, Error> {
        self.recipe.build(self.bounds, target, true)
    }
}

impl<Args: Params> Kernel<Args> {
    /// The PTX text for a target.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn ptx(&self, target: &Target) -> Result<String, Error> {
        Ok(self.build(target)?.ptx())
    }
}

/// PTX ISA, "Identifiers", less the names that PTX or this crate gives a meaning.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || (c == '_' && name.len() > 1))
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
        && !matches!(name, "WARP_SZ" | "vprintf" | "dynamic_shared")
}

impl<Args> Clone for Kernel<Args> {
    fn clone(&self) -> Self {
        Self { recipe: Arc::clone(&self.recipe), bounds: self.bounds, args: PhantomData }
    }
}

impl<Args> fmt::Debug for Kernel<Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.recipe.name).field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// A kernel written for one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The name of its entry function.
    pub entry: String,
    /// The location of the call to [`kernel()`].
    pub defined_at: &'static Location<'static>,
    /// The module that holds it.
    pub module: ptx::Module,
    /// Its launch bounds.
    pub bounds: Bounds,
    /// Shared memory that the module declares, in bytes.
    pub static_shared_bytes: u64,
    /// Shared memory that the launch has to give, in bytes.
    pub dynamic_shared_bytes: u64,
    /// True if it [waits](crate::wait_for_dependencies) for the launches before it, so that it may
    /// begin while they run.
    pub waits_for_dependencies: bool,
}

impl Built {
    /// The PTX text.
    #[must_use]
    pub fn ptx(&self) -> String {
        self.module.to_string()
    }
}

/// The target that the current kernel is being written for.
///
/// # Panics
/// Outside a kernel.
#[must_use]
#[track_caller]
pub fn target() -> Target {
    with(|r| r.target)
}
