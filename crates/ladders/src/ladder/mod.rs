//! Ladders: one problem, solved by kernels in order, each a small change to the one before.
//!
//! A [`Ladder`] is a list of [`Rung`]s: kernels with their launches, mostly one ([`Launch`]), how
//! the blocks' results become one ([`Finish`]), what changed, and what the change is claimed to buy
//! ([`Claim`]). The list drives everything: [`run`] and the program that prints its report, the
//! tests that hold each claim against the counters, the check that every kernel assembles. A rung
//! is added by one file in the operator's `ladder/` and one entry in its list.
//!
//! The size of a problem is its number of elements, or a few numbers as one ([`Sizes`], [`Heads`]).
//! A problem that has rows divides its elements by [`Rows`].

mod arrays;
mod claim;
mod data;
mod heads;
mod instance;
mod kept;
mod output;
mod report;
mod rows;
mod run;
mod sizes;
mod timing;

use warpfold_device::{Device, LaunchConfig};
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Arch, Target};

pub use arrays::Arrays;
pub use claim::{Change, Claim, Measured, Metric};
pub use data::samples;
pub use heads::{HeadOptions, HeadSizes, Heads};
pub use instance::{Guards, Instance, Memory, Verdict};
pub use kept::broken_claims;
pub(crate) use output::Guarded;
pub use report::{Absent, LadderReport, RungReport};
pub use rows::Rows;
pub(crate) use run::ONE_BLOCK_MOST;
pub use run::{Progress, ProgressFn, RunOptions, run};
pub use sizes::{Numbers, SizeOption, Sizes, elements_of, number, pack, unpack};
pub use timing::copy_gigabytes_per_second;

use crate::{Error, ErrorKind};

/// Every ladder.
pub const LADDERS: &[&Ladder] = &[
    &crate::vector_add::LADDER,
    &crate::elementwise::RELU,
    &crate::elementwise::SIGMOID,
    &crate::dot::LADDER,
    &crate::reduce::LADDER,
    &crate::reduce::LESSONS,
    &crate::groups::LADDER,
    &crate::scan::LADDER,
    &crate::softmax::LADDER,
    &crate::softmax::VECTOR,
    &crate::norm::LADDER,
    &crate::norm::RMS,
    &crate::scale::LADDER,
    &crate::gemv::LADDER,
    &crate::histogram::LADDER,
    &crate::gemm::LADDER,
    &crate::hgemm::LADDER,
    &crate::conv::LADDER,
    &crate::attention::LADDER,
    &crate::attention::DECODE,
];

/// The ladder of this name.
///
/// # Errors
/// [`ErrorKind::UnknownLadder`].
pub fn ladder(name: &str) -> Result<&'static Ladder, Error> {
    LADDERS.iter().copied().find(|ladder| ladder.name == name).ok_or_else(|| {
        let known = LADDERS.iter().map(|ladder| ladder.name).collect::<Vec<_>>().join(", ");
        ErrorKind::UnknownLadder { name: name.to_owned(), known }.into()
    })
}

/// One problem and its kernels, from the first that comes to mind to the one that is shipped.
#[derive(Debug)]
pub struct Ladder {
    /// Name on the command line: `reduce`.
    pub name: &'static str,
    /// The problem in a sentence.
    pub problem: &'static str,
    /// Meaning of a size: elements, or several numbers as one.
    pub sizes: Sizes,
    /// The size unless said.
    pub default_size: u64,
    /// Elements at most, where a size is a number of elements.
    pub max_size: u64,
    /// The element types that its kernels are made for; the first is taken unless another is asked
    /// for.
    pub dtypes: &'static [Dtype],
    /// The kernels in order.
    pub rungs: &'static [Rung],
    /// Makes the data of a problem on a device, of an element type of the ladder.
    pub open: fn(&Device, Dtype, u64, Guards) -> Result<Box<dyn Instance>, Error>,
}

/// The most elements that kernels take which count positions, and one step of a loop beyond them,
/// in 32 bits.
pub(crate) const MAX_SIZE_OF_U32: u64 = 1 << 31;

/// Elements unless said on the virtual GPU.
const VIRTUAL_ELEMENTS: u64 = 1 << 20;

impl Ladder {
    /// The rung of this name.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownRung`].
    pub fn rung(&self, name: &str) -> Result<&'static Rung, Error> {
        self.rungs.iter().find(|rung| rung.name == name).ok_or_else(|| {
            let known = self.rungs.iter().map(|rung| rung.name).collect::<Vec<_>>().join(", ");
            ErrorKind::UnknownRung { ladder: self.name, name: name.to_owned(), known }.into()
        })
    }

    /// The element type unless another is asked for.
    #[must_use]
    pub const fn default_dtype(&self) -> Dtype {
        self.dtypes[0]
    }

    /// Checks that there are kernels for an element type.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeOfLadder`].
    pub fn check_dtype(&self, dtype: Dtype) -> Result<(), Error> {
        if !self.dtypes.contains(&dtype) {
            return Err(ErrorKind::DtypeOfLadder { ladder: self.name, dtype, known: self.dtypes }.into());
        }
        Ok(())
    }

    /// A size as a user writes it.
    ///
    /// # Errors
    /// [`ErrorKind::BadSize`].
    pub fn parse_size(&self, text: &str) -> Result<u64, Error> {
        self.sizes.parse(text)
    }

    /// A size with other numbers of tokens and heads.
    ///
    /// # Errors
    /// [`ErrorKind::NoHeads`] for a ladder that is not about attention; [`ErrorKind::BadSize`].
    pub fn with_heads(&self, size: u64, options: &HeadOptions) -> Result<u64, Error> {
        match self.sizes {
            _ if *options == HeadOptions::default() => Ok(size),
            Sizes::Heads(sizes) => sizes.with(size, options),
            Sizes::Elements | Sizes::With(_) | Sizes::Numbers(_) => {
                Err(ErrorKind::NoHeads { ladder: self.name }.into())
            }
        }
    }

    /// A size with another value of the ladder's [option](SizeOption).
    ///
    /// # Errors
    /// [`ErrorKind::NoOption`] for a ladder without an option of this name; [`ErrorKind::BadSize`].
    pub fn with_option(&self, size: u64, option: &'static str, value: usize) -> Result<u64, Error> {
        match self.sizes {
            Sizes::With(known) if known.name == option => known.set(size, value),
            _ => Err(ErrorKind::NoOption { ladder: self.name, option }.into()),
        }
    }

    /// A size that is more than a number of elements, as a user writes it.
    #[must_use]
    pub fn size_text(&self, size: u64) -> Option<String> {
        self.sizes.text(size)
    }

    /// Returns the meaning of a size whose numbers are not self-explanatory: that of a convolution.
    #[must_use]
    pub fn size_details(&self, size: u64) -> Option<String> {
        match self.sizes {
            Sizes::Numbers(numbers) => (numbers.told)(unpack(size)),
            Sizes::Elements | Sizes::With(_) | Sizes::Heads(_) => None,
        }
    }

    /// The size unless said on a device: on the virtual GPU what ends within some seconds, on a GPU
    /// what takes more than its launches.
    #[must_use]
    pub fn default_size_on(&self, device: &Device) -> u64 {
        match self.sizes {
            Sizes::Elements | Sizes::With(_) if device.is_virtual() => self.default_size.min(VIRTUAL_ELEMENTS),
            Sizes::Heads(sizes) if !device.is_virtual() => sizes.on_gpu.pack(),
            _ => self.default_size,
        }
    }

    /// Checks that so many elements are not too many.
    ///
    /// # Errors
    /// [`ErrorKind::TooManyElements`].
    pub fn check_size(&self, size: u64) -> Result<(), Error> {
        let elements = self.sizes.elements(size).map(|elements| elements as u64);
        if let Some(size) = elements.filter(|elements| *elements > self.max_size) {
            return Err(ErrorKind::TooManyElements { ladder: self.name, size, limit: self.max_size }.into());
        }
        Ok(())
    }
}

/// One solution of a ladder's problem.
#[derive(Debug)]
pub struct Rung {
    /// Name in the catalogue: `interleaved`.
    pub name: &'static str,
    /// The change from the previous rung, in a sentence without its full stop.
    pub changed: &'static str,
    /// Claimed changes of the counters from the previous rung.
    pub claims: &'static [Claim],
    /// Its kernels, launched one behind the other.
    pub launches: &'static [Launch],
    /// Combination of the blocks' results.
    pub finish: Finish,
}

impl Rung {
    /// Checks that it has kernels for an element type of its ladder.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeOfRung`].
    pub fn check_dtype(&self, dtype: Dtype) -> Result<(), Error> {
        let fewer = self.launches.iter().filter_map(|launch| launch.dtypes);
        match fewer.into_iter().find(|dtypes| !dtypes.contains(&dtype)) {
            Some(known) => Err(ErrorKind::DtypeOfRung { rung: self.name, dtype, known }.into()),
            None => Ok(()),
        }
    }

    /// Blocks of its launches for so many elements.
    #[must_use]
    pub fn num_blocks(&self, size: u64) -> u64 {
        self.launches.iter().map(|launch| launch.num_blocks(size)).sum()
    }

    /// Hash of its kernels and launches for a size: it changes with the PTX text (for `sm_90a`),
    /// the grid, the block, the shared memory or the cluster of any launch. A recorded time is that
    /// of a fingerprint.
    ///
    /// # Panics
    /// If the rung has no kernel for the element type ([`check_dtype`](Rung::check_dtype)).
    #[must_use]
    pub fn fingerprint(&self, dtype: Dtype, size: u64) -> String {
        let mut text = String::new();
        for launch in self.launches {
            let built = launch.kernel(dtype, size).build(&FINGERPRINTED).expect("sm_90a runs every kernel");
            text.push_str(&format!("{}\n{:?}\n", built.ptx(), (launch.config)(size)));
        }
        // FNV-1a, which is the same in every version of Rust.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }

    /// Operations from input to result: launches, clearing memory before, adding on the host
    /// behind.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.launches.len() as u64 + self.finish.steps()
    }
}

/// The target whose text a fingerprint is of: records are made on Hopper.
const FINGERPRINTED: Target = Target::new(Arch::SM_90A, (8, 0));

/// A kernel of a rung, and how it is launched.
#[derive(Debug)]
pub struct Launch {
    kernel: KernelOf,
    /// The launch for so many elements.
    pub config: fn(u64) -> LaunchConfig,
    /// The element types that there are kernels for, where those are fewer than the ladder's.
    pub dtypes: Option<&'static [Dtype]>,
}

/// Selection of a kernel's code.
#[derive(Debug)]
enum KernelOf {
    Dtype(fn(Dtype) -> AnyKernel),
    /// And which sizes have kernels of their own.
    Size(fn(Dtype, u64) -> AnyKernel, &'static [u64]),
}

impl Launch {
    /// A launch of one kernel for all sizes.
    #[must_use]
    pub const fn new(kernel: fn(Dtype) -> AnyKernel, config: fn(u64) -> LaunchConfig) -> Self {
        Self { kernel: KernelOf::Dtype(kernel), config, dtypes: None }
    }

    /// A launch whose kernel depends on the size as well; `sizes` has one for each kernel.
    #[must_use]
    pub const fn sized(
        kernel: fn(Dtype, u64) -> AnyKernel,
        sizes: &'static [u64],
        config: fn(u64) -> LaunchConfig,
    ) -> Self {
        Self { kernel: KernelOf::Size(kernel, sizes), config, dtypes: None }
    }

    /// The launch, for some of the ladder's element types alone.
    #[must_use]
    pub const fn only(self, dtypes: &'static [Dtype]) -> Self {
        Self { dtypes: Some(dtypes), ..self }
    }

    /// The kernel for an element type and a size of the ladder.
    #[must_use]
    pub fn kernel(&self, dtype: Dtype, size: u64) -> AnyKernel {
        match self.kernel {
            KernelOf::Dtype(kernel) => kernel(dtype),
            KernelOf::Size(kernel, _) => kernel(dtype, size),
        }
    }

    /// Every kernel for an element type.
    pub(crate) fn kernels(&self, dtype: Dtype) -> Vec<AnyKernel> {
        match self.kernel {
            KernelOf::Dtype(kernel) => vec![kernel(dtype)],
            KernelOf::Size(kernel, sizes) => sizes.iter().map(|size| kernel(dtype, *size)).collect(),
        }
    }

    /// Its blocks for so many elements.
    #[must_use]
    pub fn num_blocks(&self, size: u64) -> u64 {
        (self.config)(size).grid.iter().map(|n| u64::from(*n)).product()
    }
}

/// Combination of the blocks' results. For a sum it also determines the arguments of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// There is nothing to finish: what threads, warps or blocks leave are results.
    Nothing,
    /// One block leaves one result. Takes the input, which it may overwrite, the result, the
    /// length.
    OneBlock,
    /// Each block leaves its result, and the host adds them. Takes the input, an output of one
    /// element a block, the length.
    Host,
    /// Each block adds its result to one word by an atomic, which has to be zero before. The order
    /// of the blocks is that of time: sums of floats may differ from run to run. Takes the input,
    /// that word, the length.
    Atomic,
    /// The last block adds the results of all, in their order, and readies the counter for the next
    /// launch. Takes the input, an output of one element a block, the result, the counter, the
    /// length.
    LastBlock,
    /// Blocks tell one another through memory that has to be zero before.
    Cleared,
    /// Blocks read what others leave without waiting for it: a race, shown for what it is. The
    /// result is right by luck alone, and the checks have to refute the rung.
    Race,
}

impl Finish {
    /// Operations beside the launches: clearing memory before, adding on the host behind.
    const fn steps(self) -> u64 {
        match self {
            Self::Nothing | Self::OneBlock | Self::LastBlock => 0,
            Self::Host | Self::Atomic | Self::Cleared | Self::Race => 1,
        }
    }
}
