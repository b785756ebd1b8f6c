//! Hello from every thread: the device's printf.

use warpfold_device::{Device, LaunchConfig};
use warpfold_lang::{Global, block_idx, kernel, print, thread_idx};

fn main() -> Result<(), warpfold_device::Error> {
    let hello = kernel("hello", |threads: Global<u32>| {
        print("hello from block %u, thread %u\n", (block_idx().x, thread_idx().x));
        threads.reduction().add(1);
    });

    let device = Device::from_env()?;
    let mut threads = device.alloc_zeroed::<u32>(1)?;
    device.launch(&hello, LaunchConfig::new(2, 4), (&mut threads,))?;
    println!("{} threads on {device}", threads.download()?[0]);
    Ok(())
}
