//! A kernel whose parameter types are forgotten: to be printed, assembled, loaded and listed beside
//! others.

use std::fmt;
use std::sync::Arc;

use warpfold_device::{Device, Function};
use warpfold_lang::{Bounds, Built, Kernel, Params, Target};

/// A [`Kernel`] of any parameters. Cheap to clone.
#[derive(Clone)]
pub struct AnyKernel {
    kernel: Arc<dyn Erased>,
}

trait Erased: Send + Sync {
    fn id(&self) -> u64;
    fn name(&self) -> &str;
    fn bounds(&self) -> &Bounds;
    fn build(&self, target: &Target) -> Result<Built, warpfold_lang::Error>;
    fn build_with_lines(&self, target: &Target) -> Result<Built, warpfold_lang::Error>;
    fn prepare(&self, device: &Device) -> Result<Function, warpfold_device::Error>;
}

impl<Ps: Params> Erased for Kernel<Ps> {
    fn id(&self) -> u64 {
        Self::id(self)
    }

    fn name(&self) -> &str {
        Self::name(self)
    }

    fn bounds(&self) -> &Bounds {
        Self::bounds(self)
    }

    fn build(&self, target: &Target) -> Result<Built, warpfold_lang::Error> {
        Self::build(self, target)
    }

    fn build_with_lines(&self, target: &Target) -> Result<Built, warpfold_lang::Error> {
        Self::build_with_lines(self, target)
    }

    fn prepare(&self, device: &Device) -> Result<Function, warpfold_device::Error> {
        device.prepare(self)
    }
}

impl<Ps: Params + 'static> From<Kernel<Ps>> for AnyKernel {
    fn from(kernel: Kernel<Ps>) -> Self {
        Self { kernel: Arc::new(kernel) }
    }
}

impl AnyKernel {
    /// A number that its clones have and no other kernel.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.kernel.id()
    }

    /// The name of its entry.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kernel.name()
    }

    /// Its launch bounds.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        self.kernel.bounds()
    }

    /// Records the kernel for a target.
    ///
    /// # Errors
    /// As [`Kernel::build`].
    pub fn build(&self, target: &Target) -> Result<Built, warpfold_lang::Error> {
        self.kernel.build(target)
    }

    /// The same with lines of source, as virtual GPUs are given it.
    ///
    /// # Errors
    /// As [`Kernel::build_with_lines`].
    pub fn build_with_lines(&self, target: &Target) -> Result<Built, warpfold_lang::Error> {
        self.kernel.build_with_lines(target)
    }

    /// Builds it and loads it, unless the device has it already.
    ///
    /// # Errors
    /// As [`Device::prepare`].
    pub fn prepare(&self, device: &Device) -> Result<Function, warpfold_device::Error> {
        self.kernel.prepare(device)
    }
}

impl fmt::Debug for AnyKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyKernel").field(&self.name()).finish()
    }
}
