//! `warpfold devices`: what kernels can run on.

use clap::Args;
use warpfold_device::{Device, ErrorKind, Profile};

use crate::Ending;
use crate::failure::Failure;
use crate::output;
use crate::table::{Table, grouped};

/// Lists the devices that kernels can run on, with the name that --device takes; a star marks the
/// default.
#[derive(Debug, Args)]
pub(crate) struct Devices {}

impl Devices {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let default = Device::from_env();
        let mut notes = Vec::new();
        let mut devices = cuda(&mut notes);
        devices.extend(Profile::ALL.map(Device::virtual_gpu));
        let mut table = Table::new(["device", "name", "arch", "SMs", "memory", "shared per block", "driver", "PTX"]);
        for device in &devices {
            table.row(row(device, default.as_ref().is_ok_and(|d| d.kind() == device.kind())));
        }
        let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
        output::print(&format!("{}{notes}", table.render()))?;
        default?;
        Ok(Ending::Clean)
    }
}

/// The GPUs that can be used; why others cannot goes to the notes.
fn cuda(notes: &mut Vec<String>) -> Vec<Device> {
    match Device::num_cuda() {
        Ok(count) => (0..count)
            .filter_map(|ordinal| {
                Device::cuda(ordinal).map_err(|error| notes.push(format!("cuda:{ordinal}: {error}"))).ok()
            })
            .collect(),
        Err(error) => {
            notes.push(match error.kind() {
                ErrorKind::NoDriver { reason } => format!("cuda: no NVIDIA driver ({reason})"),
                _ => format!("cuda: {error}"),
            });
            Vec::new()
        }
    }
}

fn row(device: &Device, is_default: bool) -> [String; 8] {
    let limits = device.limits();
    let (major, minor) = device.ptx_version();
    [
        format!("{}{}", device.kind(), if is_default { " *" } else { "" }),
        device.name().to_owned(),
        device.arch().to_string(),
        limits.num_sms.to_string(),
        format!("{} MB", grouped(limits.memory_bytes / 1_000_000)),
        format!("{} KiB", limits.shared_bytes_per_block_optin >> 10),
        device.driver_version().map_or_else(|| "-".to_owned(), |version| format!("CUDA {version}")),
        format!("{major}.{minor}"),
    ]
}
