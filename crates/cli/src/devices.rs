//! `warpfold devices`: what kernels can run on.

use clap::Args;
use warpfold_collectives::link_speed;
use warpfold_device::{Device, DeviceKind, ErrorKind, Profile};

use crate::Ending;
use crate::failure::Failure;
use crate::table::{Table, grouped};
use crate::{output, smi};

/// Lists the devices that kernels can run on, with the name that --device takes; a star marks the
/// default. Between GPUs it shows how each reaches the memory of the others: NVLink, peer access
/// over PCIe, or only through the host.
#[derive(Debug, Args)]
pub(crate) struct Devices {
    /// Prints all that is known of each device, as deviceQuery does, and of a GPU its clocks, load,
    /// power and temperature, as nvidia-smi says.
    #[arg(long)]
    query: bool,
    /// Measures the links between GPUs, in each direction: copies, reads by a kernel, and the
    /// latency of one read.
    #[arg(long)]
    links: bool,
}

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
        let links = links(&devices, self.links)?;
        if self.query {
            let all: Vec<String> = devices.iter().map(query).collect::<Result<_, _>>()?;
            output::print(&format!("{}{notes}{links}", all.join("\n")))?;
        } else {
            output::print(&format!("{}{notes}{links}", table.render()))?;
        }
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

/// Formats the links between GPUs, if there are several.
fn links(devices: &[Device], is_measured: bool) -> Result<String, Failure> {
    let gpus: Vec<&Device> = devices.iter().filter(|device| !device.is_virtual()).collect();
    if gpus.len() < 2 {
        let none = format!("\nlinks: there are {} GPUs, and a link has two\n", gpus.len());
        return Ok(if is_measured { none } else { String::new() });
    }
    let pairs = |is_each_way: bool| {
        let all = (0..gpus.len()).flat_map(|a| (0..gpus.len()).map(move |b| (a, b)));
        all.filter(move |(a, b)| a < b || (is_each_way && a != b))
    };
    if !is_measured {
        let line = |(a, b): (usize, usize)| -> Result<String, Failure> {
            Ok(format!("{} - {}: {}\n", gpus[a].kind(), gpus[b].kind(), gpus[a].link_to(gpus[b])?))
        };
        return Ok(format!("\nlinks\n{}", pairs(false).map(line).collect::<Result<String, _>>()?));
    }
    let mut table = Table::new(["device", "reads from", "link", "copy, GB/s", "kernel reads, GB/s", "latency, ns"]);
    for (a, b) in pairs(true) {
        let (to, from) = (gpus[a], gpus[b]);
        let link = to.link_to(from)?;
        let speed = if link.has_peer_access() { link_speed(to, from).map_err(Failure::run)? } else { None };
        let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        table.row([
            to.kind().to_string(),
            from.kind().to_string(),
            link.to_string(),
            of(speed.map(|speed| speed.copy / 1e9)),
            of(speed.map(|speed| speed.read / 1e9)),
            speed.map_or_else(|| "-".to_owned(), |speed| speed.latency.as_nanos().to_string()),
        ]);
    }
    Ok(format!("\n{}", table.render()))
}

/// All that is known of a device, a line each.
fn query(device: &Device) -> Result<String, Failure> {
    let limits = device.limits();
    let (major, minor) = device.ptx_version();
    let sizes = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
    let is = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let arch = device.arch();
    let data_cache = warpfold_sim::occupancy::limits(arch).data_cache_per_sm;
    let driver = device.driver_version().map_or_else(|| "none".to_owned(), |version| format!("CUDA {version}"));
    let lines = [
        ("name", device.name().to_owned()),
        ("compute capability", limits.compute_capability.to_string()),
        ("kernels are built for", device.arch().to_string()),
        ("driver", driver),
        ("newest PTX", format!("{major}.{minor}")),
        ("global memory, bytes", grouped(limits.memory_bytes)),
        ("free, bytes", grouped(device.free_memory_bytes()?)),
        ("L2, bytes", grouped(limits.l2_bytes)),
        ("multiprocessors (SMs)", limits.num_sms.to_string()),
        ("registers per SM", grouped(limits.registers_per_sm.into())),
        ("shared memory per SM, bytes", grouped(limits.shared_bytes_per_sm.into())),
        ("shared memory per block, bytes", grouped(limits.shared_bytes_per_block.into())),
        ("with opt-in, bytes", grouped(limits.shared_bytes_per_block_optin.into())),
        ("L1 and shared memory per SM, bytes", grouped(data_cache.into())),
        ("warp size", limits.warp_size.to_string()),
        ("threads per SM at most", limits.max_threads_per_sm.to_string()),
        ("blocks per SM at most", limits.max_blocks_per_sm.to_string()),
        ("threads per block at most", limits.max_threads_per_block.to_string()),
        ("block at most", sizes(limits.max_block)),
        ("grid at most", sizes(limits.max_grid)),
        ("blocks a cluster at most", limits.max_cluster_blocks.to_string()),
        ("tensor cores by mma.sync", is(limits.has_mma)),
        ("tensor cores by wgmma", is(limits.has_wgmma)),
    ];
    let peaks = warpfold_report::peaks(device.name()).map_or_else(Vec::new, |peaks| {
        vec![
            ("memory, GB/s (data sheet)", format!("{}", peaks.gigabytes_per_second)),
            ("CUDA cores, f32, TFLOP/s", format!("{}", peaks.f32_teraflops)),
            ("tensor cores, bf16, TFLOP/s", format!("{}", peaks.half_teraflops)),
        ]
    });
    let now = match device.kind() {
        DeviceKind::Cuda { ordinal } => smi::lines(ordinal, device.name(), Device::num_cuda().unwrap_or(0)),
        _ => Vec::new(),
    };
    let lines: String =
        lines.iter().chain(&peaks).chain(&now).map(|(name, value)| format!("  {name:<36}{value}\n")).collect();
    Ok(format!("{}\n{lines}", device.kind()))
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
