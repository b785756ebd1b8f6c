//! Loaded PTX and its kernels.

use std::sync::Arc;

use crate::api::device::Device;
use crate::backend::launch;
use crate::backend::{BackendFunction, BackendModule, FunctionInfo, LaunchConfig, LaunchSite};
use crate::{Error, ErrorKind};

/// PTX text loaded on a device. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Module {
    device: Device,
    imp: Arc<dyn BackendModule>,
}

impl Module {
    pub(crate) fn new(device: Device, imp: Arc<dyn BackendModule>) -> Self {
        Self { device, imp }
    }

    /// The kernel (`.entry`) with this name.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownKernel`](crate::ErrorKind::UnknownKernel).
    pub fn kernel(&self, name: &str) -> Result<Function, Error> {
        let imp = self.imp.clone().function(name)?;
        let info = imp.info().clone();
        Ok(Function::new(self.device.clone(), Arc::new(Prepared { imp, info, dynamic_shared: 0 })))
    }

    /// Device address and size in bytes of a module variable.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.imp.global(name)
    }

    /// The device of the module.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

/// A kernel loaded on a device. Keeps its module loaded; cheap to clone.
#[derive(Debug, Clone)]
pub struct Function {
    device: Device,
    prepared: Arc<Prepared>,
}

/// A kernel ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) imp: Arc<dyn BackendFunction>,
    /// Resources as the device reports them, and what the kernel itself promises.
    pub(crate) info: FunctionInfo,
    /// Bytes of dynamic shared memory that every launch gets at least.
    pub(crate) dynamic_shared: u32,
}

impl Function {
    pub(crate) fn new(device: Device, prepared: Arc<Prepared>) -> Self {
        Self { device, prepared }
    }

    pub(crate) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Resources and properties of the function.
    #[must_use]
    pub fn info(&self) -> &FunctionInfo {
        &self.prepared.info
    }

    /// Declares for foreign PTX what [is known](FunctionInfo::programmatic) of kernels in the
    /// language: that every thread executes `griddepcontrol.wait` before it accesses global memory
    /// (sm_90 and later).
    #[must_use]
    pub fn programmatic(self) -> Self {
        let mut prepared = Arc::unwrap_or_clone(self.prepared);
        prepared.info.programmatic = true;
        Self { prepared: Arc::new(prepared), ..self }
    }

    /// Replaces the function's code by other code with the same entry and parameters, to try a
    /// variant: launches keep their dynamic shared memory, and all known properties of the kernel.
    ///
    /// # Errors
    /// As [`Device::load`] and [`Module::kernel`].
    pub fn rewritten(&self, ptx: &str) -> Result<Self, Error> {
        let imp = self.device.load(ptx)?.imp.function(&self.info().name)?;
        let prepared = Prepared { imp, ..Prepared::clone(&self.prepared) };
        Ok(Self { device: self.device.clone(), prepared: Arc::new(prepared) })
    }

    /// The device of the function.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Maximum number of clusters resident at once with this configuration; 0 if none fits. The
    /// virtual GPU uses its estimate of the registers, and one of several possible layouts of SMs
    /// in the GPCs of such devices.
    ///
    /// # Errors
    /// [`InvalidLaunch`](crate::ErrorKind::InvalidLaunch) for a launch without clusters or one that
    /// the device refuses.
    pub fn max_active_clusters(&self, config: LaunchConfig) -> Result<u32, Error> {
        let config = LaunchConfig { dynamic_shared: config.dynamic_shared.max(self.prepared.dynamic_shared), ..config };
        let info = self.info();
        launch::check(&config, info, self.device.limits())?;
        match config.cluster.or(info.required_cluster) {
            Some(cluster) => self.prepared.imp.max_active_clusters(&LaunchConfig { cluster: Some(cluster), ..config }),
            None => {
                let (site, reason) = (LaunchSite::new(&info.name, &config), "it has no clusters".to_owned());
                Err(ErrorKind::InvalidLaunch { site, reason }.into())
            }
        }
    }
}
