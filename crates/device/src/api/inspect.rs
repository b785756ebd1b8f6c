//! Inspection of a kernel on a device: its text, its resources, and its occupancy.

use std::fmt;

use warpfold_lang::{Kernel, Params};
use warpfold_sim as sim;
use warpfold_sim::occupancy::{self, Limiter, Occupancy, Usage};

use crate::api::device::Device;
use crate::{Error, FunctionInfo};

/// A kernel that can be inspected.
pub trait Inspect {
    /// Returns the kernel's text and resources on a device, loading the kernel if necessary.
    ///
    /// ```
    /// use warpfold_device::{Device, Inspect, Profile};
    /// use warpfold_lang::{Global, kernel, thread_idx};
    ///
    /// let fill = kernel("fill", |out: Global<u32>| out.at(thread_idx().x).set(7));
    /// let inspection = fill.inspect(&Device::virtual_gpu(Profile::H200))?;
    /// assert!(inspection.ptx.contains("st.global.u32"));
    /// assert_eq!(inspection.occupancy(256).blocks_per_sm, 8);
    /// println!("{inspection}");
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::prepare`].
    fn inspect(&self, device: &Device) -> Result<Inspection, Error>;
}

impl<Ps: Params> Inspect for Kernel<Ps> {
    fn inspect(&self, device: &Device) -> Result<Inspection, Error> {
        let info = device.prepare(self)?.info().clone();
        let built = super::kernel_cache::build(device, self)?;
        Ok(Inspection {
            ptx: built.ptx(),
            info,
            dynamic_shared: u32::try_from(built.dynamic_shared_bytes).unwrap_or(u32::MAX),
            arch: device.arch(),
            device: device.to_string(),
        })
    }
}

/// A kernel's text and resources on a device; `Display` prints the text, then the rest as comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The text that the device was given.
    pub ptx: String,
    /// Resources as the device reports them.
    pub info: FunctionInfo,
    /// Bytes of dynamic shared memory that the kernel declares.
    pub dynamic_shared: u32,
    /// The architecture of the device.
    pub arch: sim::Arch,
    device: String,
}

impl Inspection {
    /// Occupancy of an SM with blocks of `threads` threads.
    #[must_use]
    pub fn occupancy(&self, threads: u32) -> Occupancy {
        let usage = Usage {
            threads,
            registers_per_thread: self.info.registers,
            static_shared: self.info.static_shared,
            dynamic_shared: self.dynamic_shared,
        };
        occupancy::occupancy(self.arch, &usage)
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ptx, info, dynamic_shared, device, .. } = self;
        writeln!(f, "{}\n", ptx.trim_end())?;
        writeln!(f, "// {} on {device}", info.name)?;
        writeln!(f, "// registers      {} per thread", info.registers)?;
        writeln!(f, "// shared memory  {} bytes static, {dynamic_shared} bytes dynamic", info.static_shared)?;
        let blocks = match info.required_block {
            Some(block) => vec![block.iter().product()],
            None => vec![64, 128, 256, 512, 1024],
        };
        let most = info.max_threads.unwrap_or(u32::MAX);
        for threads in blocks.into_iter().filter(|threads| *threads <= most) {
            let held = self.occupancy(threads);
            let limiters: Vec<&str> = held.limiters.iter().map(limiter).collect();
            writeln!(
                f,
                "// occupancy      {:.1} %: {} blocks of {threads} threads per multiprocessor, limited by {}",
                100.0 * held.occupancy,
                held.blocks_per_sm,
                limiters.join(" and ")
            )?;
        }
        Ok(())
    }
}

fn limiter(limiter: &Limiter) -> &'static str {
    match limiter {
        Limiter::Registers => "registers",
        Limiter::SharedMemory => "shared memory",
        Limiter::Warps => "warps",
        Limiter::Blocks => "blocks",
        _ => "another limit",
    }
}
