//! Typed launches and the kernel cache, on every device at hand.

use warpfold_device::{Device, Error, KernelCounts, LaunchConfig, Profile};
use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};

/// `out[i] = a * x[i] + y[i]`.
fn saxpy() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, f32, u32)> {
    kernel("saxpy", |x: Global<f32>, y: Global<f32>, out: Global<f32>, a: Val<f32>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || out.at(i).set(x.at(i).get() * a + y.at(i).get()));
    })
}

fn devices() -> Vec<Device> {
    let devices = Device::all();
    for device in &devices {
        println!("on {device}");
    }
    devices
}

#[test]
fn a_kernel_takes_buffers_views_and_scalars() -> Result<(), Error> {
    for device in devices() {
        let saxpy = saxpy();
        let x = device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
        let y = device.upload(&[10.0_f32, 20.0, 30.0])?;
        let mut out = device.alloc_zeroed::<f32>(5)?;
        let part = out.view_mut(1..4)?;
        device.launch(&saxpy, LaunchConfig::for_elements(3, 32), (x.view(1..)?, &y, part, 2.0, 3))?;
        assert_eq!(out.download()?, [0.0, 14.0, 26.0, 38.0, 0.0]);
    }
    Ok(())
}

#[test]
fn a_kernel_is_built_and_loaded_once_for_each_device() -> Result<(), Error> {
    for device in devices() {
        let kernel = saxpy();
        let x = device.upload(&[1.0_f32; 8])?;
        let mut out = device.alloc::<f32>(8)?;
        for _ in 0..3 {
            device.launch(&kernel, LaunchConfig::new(1, 32), (&x, &x, &mut out, 1.0, 8))?;
        }
        assert_eq!(device.kernel_counts(), KernelCounts { built: 1, loaded: 1 });
        device.launch(&kernel.clone(), LaunchConfig::new(1, 32), (&x, &x, &mut out, 1.0, 8))?;
        assert_eq!(device.kernel_counts(), KernelCounts { built: 1, loaded: 1 });
        // A kernel made anew is written anew, but its text is known.
        device.prepare(&saxpy())?;
        assert_eq!(device.kernel_counts(), KernelCounts { built: 2, loaded: 1 });
        // Other bounds are another configuration.
        device.prepare(&kernel.max_threads(128))?;
        assert_eq!(device.kernel_counts(), KernelCounts { built: 3, loaded: 2 });
    }
    Ok(())
}

#[test]
fn a_kernel_that_requires_a_block_refuses_others() -> Result<(), Error> {
    for device in devices() {
        let kernel = saxpy().required_block(64);
        let x = device.upload(&[1.0_f32; 8])?;
        let mut out = device.alloc::<f32>(8)?;
        let e = device.launch(&kernel, LaunchConfig::new(1, 32), (&x, &x, &mut out, 1.0, 8)).expect_err("32, not 64");
        assert_eq!(
            e.to_string(),
            "cannot launch kernel saxpy (grid 1x1x1, block 32x1x1): the kernel requires a block of [64, 1, 1] \
             (.reqntid)"
        );
        device.launch(&kernel, LaunchConfig::new(1, 64), (&x, &x, &mut out, 1.0, 8))?;
    }
    Ok(())
}

#[test]
fn a_buffer_of_another_device_is_refused() -> Result<(), Error> {
    let (one, other) = (Device::virtual_gpu(Profile::A100), Device::virtual_gpu(Profile::H200));
    let x = one.upload(&[1.0_f32; 8])?;
    let mut out = other.alloc_named::<f32>("out", 8)?;
    let e = one.launch(&saxpy(), LaunchConfig::new(1, 32), (&x, &x, &mut out, 1.0, 8)).expect_err("two devices");
    assert_eq!(
        e.to_string(),
        "buffer out (pointer 2 of kernel saxpy) is on virtual:h200 (virtual GPU as H200), but the operation runs on \
         virtual:a100 (virtual GPU as A100); copy it over through the host first"
    );
    Ok(())
}
