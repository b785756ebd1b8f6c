//! Finding a race: threads of a block reverse their elements through shared memory, and somebody
//! forgot the barrier.
//!
//! Hardware runs such a kernel without a word, and is often right. The virtual GPU names both
//! accesses by their lines in this file, and what would order them.

use warpfold_device::{Checks, Device, LaunchConfig, Profile};
use warpfold_lang::{Global, Kernel, kernel, shared_named, sync_threads, thread_idx};

/// Whether the kernel waits for its block between writing and reading.
#[derive(Debug, Clone, Copy)]
enum Barrier {
    Forgotten,
    There,
}

fn reverse(barrier: Barrier) -> Kernel<(Global<i32>,)> {
    kernel("reverse", move |data: Global<i32>| {
        let tile = shared_named::<i32>("tile", 64);
        let thread = thread_idx().x;
        tile.at(thread).set(data.at(thread).get());
        if let Barrier::There = barrier {
            sync_threads();
        }
        data.at(thread).set(tile.at(63 - thread).get());
    })
    .required_block(64)
}

fn main() -> Result<(), warpfold_device::Error> {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(Checks::All)?;
    for barrier in [Barrier::Forgotten, Barrier::There] {
        let mut data = device.upload(&Vec::from_iter(0..64))?;
        device.launch(&reverse(barrier), LaunchConfig::new(1, 64), (&mut data,))?;
        let report = device.last_report().map(|launch| launch.report).unwrap_or_default();
        let groups = report.groups();
        println!("barrier {barrier:?}: {} cause(s)", groups.iter().filter(|g| g.follows_from.is_none()).count());
        for group in groups {
            println!("  {}", report.findings[group.findings[0]]);
            if let Some(remedy) = group.remedy {
                println!("    what would put it right: {remedy}");
            }
        }
    }
    Ok(())
}
