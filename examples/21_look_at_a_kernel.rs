//! Looking at a kernel of yours: what it is on a device, what a launch counted, and that beside
//! each of its lines.

use warpfold_device::{Device, Inspect, LaunchConfig, Profile};
use warpfold_lang::{Global, kernel, shared_named, sync_threads, thread_idx};

fn main() -> Result<(), warpfold_device::Error> {
    // Turns a tile of 32 x 32 in shared memory, and meets itself in the banks.
    let turn = kernel("turn", |data: Global<f32>| {
        let tile = shared_named::<f32>("tile", 1024);
        let (x, y) = (thread_idx().x, thread_idx().y);
        tile.at(y * 32 + x).set(data.at(y * 32 + x).get());
        sync_threads();
        data.at(y * 32 + x).set(tile.at(x * 32 + y).get());
    });

    let device = Device::virtual_gpu(Profile::H200);
    let inspection = turn.inspect(&device)?;
    println!("{inspection}");
    println!("{:.0} % occupancy with this block\n", 100.0 * inspection.occupancy(1024).occupancy);

    device.configure(|options| options.per_instruction = true)?;
    let mut data = device.upload(&Vec::from_iter((0..1024_u16).map(f32::from)))?;
    device.launch(&turn, LaunchConfig::new(1, (32, 32)), (&mut data,))?;
    assert_eq!(data.download()?[1], 32.0);
    let launch = device.last_report().expect("something was launched");
    println!("{launch}");
    println!("{}", warpfold_report::annotated(&inspection.ptx, "turn", &launch.report.instructions));
    assert_eq!(launch.report.counters.shared_load_bank_conflicts, 31 * 32);
    Ok(())
}
