//! Checked launches keep to the views that they are given.

use warpfold_device::{Arguments, Checks, Device, Error, LaunchConfig, Profile};
use warpfold_lang::{Global, Kernel, kernel, thread_idx};

fn checked() -> Result<Device, Error> {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(Checks::All)?;
    Ok(device)
}

/// The rules that the last launch broke.
fn rules(device: &Device) -> Vec<String> {
    let report = device.last_report().expect("something was launched").report;
    report.findings.into_iter().map(|finding| finding.rule).collect()
}

fn copy() -> Kernel<(Global<u32>, Global<u32>)> {
    kernel("copy", |from: Global<u32>, to: Global<u32>| to.at(thread_idx().x).set(from.at(thread_idx().x).get()))
}

const OUTSIDE: &str = "leaves the parts of a buffer that the launch was given";
const READ_ONLY: &str = "writes an argument that was passed to be read only";

#[test]
fn a_store_through_an_argument_that_was_passed_to_be_read_is_found() -> Result<(), Error> {
    let device = checked()?;
    let stores = kernel("stores", |data: Global<u32>| data.at(thread_idx().x).set(1_u32));
    let data = device.upload(&[7_u32; 32])?;
    device.launch(&stores, LaunchConfig::new(1, 32), (&data,))?;
    assert_eq!(rules(&device), [READ_ONLY]);
    let mut data = data;
    device.launch(&stores, LaunchConfig::new(1, 32), (&mut data,))?;
    assert_eq!(rules(&device), [""; 0]);
    Ok(())
}

#[test]
fn an_access_inside_the_buffer_and_outside_the_view_is_found() -> Result<(), Error> {
    let device = checked()?;
    let from = device.upload(&(0..64).collect::<Vec<u32>>())?;
    let mut to = device.alloc_zeroed::<u32>(64)?;
    let config = LaunchConfig::new(1, 32);
    device.launch(&copy(), config, (from.view(..32)?, to.view_mut(32..)?))?;
    assert_eq!(rules(&device), [""; 0]);
    device.launch(&copy(), config, (from.view(1..32)?, &mut to))?;
    assert_eq!(rules(&device), [OUTSIDE]);
    device.launch(&copy(), config, (&from, to.view_mut(..31)?))?;
    assert_eq!(rules(&device), [OUTSIDE]);
    Ok(())
}

#[test]
fn all_parts_that_a_launch_is_given_count_together() -> Result<(), Error> {
    let device = checked()?;
    let mut data = device.upload(&[3_u32; 64])?;
    let (from, to) = data.split_at_mut(32)?;
    device.launch(&copy(), LaunchConfig::new(1, 32), (from.as_view(), to))?;
    assert_eq!(rules(&device), [""; 0]);
    // The limits end with their launch.
    let (mut all, _) = data.split_at_mut(64)?;
    let fill = kernel("fill", |data: Global<u32>| data.at(thread_idx().x).set(9_u32));
    device.launch(&fill, LaunchConfig::new(1, 64), (&mut all,))?;
    assert_eq!(rules(&device), [""; 0]);
    Ok(())
}

#[test]
fn a_buffer_of_which_a_parameter_holds_another_address_is_not_judged() -> Result<(), Error> {
    let device = checked()?;
    let data = device.upload(&[3_u32; 64])?;
    let ptx = "
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry stores(.param .u64 part, .param .u64 place)
        {
            .reg .u64 %at;
            ld.param.u64 %at, [place];
            cvta.to.global.u64 %at, %at;
            st.global.u32 [%at], 1;
            ret;
        }";
    let stores = device.load(ptx)?.kernel("stores")?;
    for (place, expected) in [(data.address() + 128, &[][..]), (data.address(), &[READ_ONLY])] {
        let arguments = Arguments::new().input(data.view(..32)?).value(place);
        device.default_stream().launch_raw(&stores, LaunchConfig::new(1, 1), &arguments)?;
        assert_eq!(rules(&device), expected);
    }
    Ok(())
}
