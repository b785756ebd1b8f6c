//! Memory, streams, launches and reports on the virtual GPU.

use std::sync::{Arc, Mutex};

use warpfold_device::{
    ActivityKind, Arguments, Checks, Device, DeviceKind, Error, ErrorKind, FindingKind, LaunchConfig, Profile,
};
use warpfold_lang::{
    Global, Val, block_idx, dynamic_shared, grid_dim, grid_sync, kernel, print, shared_named, sync_threads, thread_idx,
    trap, when,
};

const PTX: &str = include_str!("../ptx/scale.ptx");

fn gpu() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    println!("on {device}");
    device
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, text: &str) {
    assert_eq!(result.expect_err("refused").to_string(), text);
}

fn scale(device: &Device, data: &mut warpfold_device::Buffer<u32>, factor: u32) -> Result<(), Error> {
    let kernel = device.load(PTX)?.kernel("scale")?;
    let len = data.len();
    let arguments = Arguments::new().output(data).value(factor).value(len as u32);
    device.default_stream().launch_raw(&kernel, LaunchConfig::for_elements(len, 128), &arguments)
}

#[test]
fn memory_runs_out_at_the_devices_size_and_comes_back_when_freed() -> Result<(), Error> {
    let device = Device::virtual_gpu_with_memory(Profile::A100, 1 << 20);
    let buffer = device.alloc::<u8>(1 << 19)?;
    let e = device.alloc::<u8>(1 << 20).expect_err("more than is left");
    assert!(matches!(e.kind(), ErrorKind::OutOfMemory { requested: 1_048_576, total: 1_048_576, .. }), "{e:?}");
    drop(buffer);
    assert_eq!(device.free_memory_bytes()?, 1 << 20);
    device.alloc::<u8>(1 << 20).map(drop)
}

#[test]
fn memory_of_another_device_is_refused_by_name() -> Result<(), Error> {
    let (one, other) = (gpu(), gpu());
    assert_ne!(one, other);
    assert_eq!(one, one.clone());
    let mut here = one.alloc_zeroed::<f32>(4)?;
    let mut there = other.alloc_named::<f32>("weights", 4)?;
    let name = one.to_string();
    refused(
        one.default_stream().copy(&mut here, &there),
        &format!("the source is on {name}, but the operation runs on {name}; copy it over through the host first"),
    );
    let kernel = one.load(PTX)?.kernel("scale")?;
    let arguments = Arguments::new().output(&mut there).value(1_u32).value(4_u32);
    refused(
        one.default_stream().launch_raw(&kernel, LaunchConfig::new(1, 32), &arguments),
        &format!(
            "buffer weights (pointer 0 of kernel scale) is on {name}, but the operation runs on {name}; copy it over \
             through the host first"
        ),
    );
    let event = other.default_stream().record()?;
    assert!(matches!(one.default_stream().wait(&event).expect_err("refused").kind(), ErrorKind::MixedDevices { .. }));
    Ok(())
}

#[test]
fn an_unknown_kernel_is_answered_with_those_there_are() -> Result<(), Error> {
    let module = gpu().load(PTX)?;
    let e = module.kernel("scales").expect_err("no such kernel");
    let text = e.to_string();
    assert!(text.starts_with("no kernel named 'scales' in the module; it has: "), "{text}");
    assert!(["scale", "broken", "racy", "bounded"].iter().all(|name| text.contains(name)), "{text}");
    Ok(())
}

#[test]
fn text_that_is_not_ptx_is_refused_with_its_place() {
    let e = gpu().load(".version 8.0\n.target sm_80\n.address_size 64\n.entry {").expect_err("no name");
    assert!(matches!(e.kind(), ErrorKind::Load(warpfold_sim::Error::Syntax(_))), "{e:?}");
}

#[test]
fn a_kernel_that_breaks_fails_the_launch_with_its_name_and_sizes() -> Result<(), Error> {
    let device = gpu();
    let kernel = device.load(PTX)?.kernel("broken")?;
    let config = LaunchConfig::new((2, 3), 32);
    let e = device.default_stream().launch_raw(&kernel, config, &Arguments::new()).expect_err("it writes nowhere");
    let ErrorKind::LaunchFailed { launches, reason } = e.kind() else { panic!("{e:?}") };
    assert_eq!(launches[0].to_string(), "kernel broken (grid 2x3x1, block 32x1x1)");
    assert!(reason.contains("out_of_bounds"), "{reason}");
    let report = device.last_report().expect("a failed launch has a report, too");
    assert!(report.report.aborted && report.report.has_errors());
    Ok(())
}

#[test]
fn a_finding_that_does_not_end_the_run_is_in_the_report_and_names_the_buffer() -> Result<(), Error> {
    let device = gpu();
    device.set_checks(Checks::All)?;
    let kernel = device.load(PTX)?.kernel("racy")?;
    let mut flag = device.alloc_named::<u32>("flag", 1)?;
    flag.fill_bytes(0)?;
    let arguments = Arguments::new().output(&mut flag);
    device.default_stream().launch_raw(&kernel, LaunchConfig::new(2, 1), &arguments)?;
    let report = device.last_report().expect("it ran").report;
    let finding = report.findings.first().expect("two blocks write one word");
    let place = &finding.address.as_ref().expect("it has an address").1;
    assert!(place.contains("flag"), "{place}");
    Ok(())
}

#[test]
fn a_finding_in_a_rust_kernel_names_its_lines_and_what_would_order_them() -> Result<(), Error> {
    let device = gpu();
    device.set_checks(Checks::All)?;
    let reverse = kernel("reverse", |data: Global<i32>| {
        let tile = shared_named::<i32>("tile", 64);
        let thread = thread_idx().x;
        tile.at(thread).set(data.at(thread).get()); // the store
        data.at(thread).set(tile.at(63 - thread).get()); // the load
    });
    let mut data = device.upload(&[1_i32; 64])?;
    device.launch(&reverse, LaunchConfig::new(1, 64), (&mut data,))?;
    let report = device.last_report().expect("it ran").report;
    let line = |mark: &str| {
        let at = include_str!("virtual_gpu.rs").lines().position(|line| line.ends_with(mark)).expect("it is there");
        format!("tests/all/virtual_gpu.rs:{}", at + 1)
    };
    let groups = report.groups();
    let race = groups.first().expect("a race");
    assert_eq!(race.kind.name(), "race");
    assert!(race.variable.as_ref().is_some_and(|name| name.starts_with("tile")), "{race:?}");
    assert!(["// the store", "// the load"].iter().all(|mark| race.lines.iter().any(|at| at.ends_with(&line(mark)))));
    assert!(race.remedy.as_ref().is_some_and(|text| text.contains("__syncthreads()")), "{race:?}");
    assert!(groups[1..].iter().all(|group| group.follows_from == Some(0)), "{groups:?}");
    let text = report.findings[race.findings[0]].to_string();
    assert!(text.contains("tests/all/virtual_gpu.rs:") && text.contains(", tile_0["), "{text}");
    Ok(())
}

/// Scales twice, the second time as a kernel that promises to wait and does not; what happens
/// between the launches, and what is said of the second one.
#[track_caller]
fn findings_behind(
    between: impl FnOnce(&Device, &warpfold_device::Buffer<u32>) -> Result<(), Error>,
) -> Result<Vec<String>, Error> {
    let device = gpu();
    device.set_checks(Checks::All)?;
    let mut data = device.upload(&[1_u32; 64])?;
    scale(&device, &mut data, 2)?;
    between(&device, &data)?;
    let kernel = device.load(PTX)?.kernel("scale")?.programmatic();
    let arguments = Arguments::new().output(&mut data).value(2_u32).value(64_u32);
    device.default_stream().launch_raw(&kernel, LaunchConfig::for_elements(64, 128), &arguments)?;
    let findings = device.last_report().expect("it ran").report.findings;
    Ok(findings.iter().map(|finding| format!("{}, {}", finding.kind.name(), finding.rule)).collect())
}

#[test]
fn a_launch_that_may_overlap_is_found_to_touch_what_nothing_waited_for() -> Result<(), Error> {
    let missing = |verb: &str| {
        let rule = format!("{verb} bytes that a launch before this one writes, which may still run");
        format!("missing_wait, {rule}: no griddepcontrol.wait came before")
    };
    let expected = [missing("reads"), missing("overwrites")];
    assert_eq!(findings_behind(|_, _| Ok(()))?, expected);
    assert_eq!(findings_behind(|device, _| device.default_stream().record().map(drop))?, expected);
    assert_eq!(findings_behind(|device, _| device.alloc::<u32>(1).map(drop))?, expected);
    Ok(())
}

#[test]
fn a_launch_overlaps_no_more_launches_than_are_remembered() -> Result<(), Error> {
    // Others between, on memory of their own, which do not wait either.
    let found_behind = |others: usize| {
        findings_behind(|device, _| {
            let kernel = device.load(PTX)?.kernel("scale")?.programmatic();
            let mut all = (0..others).map(|_| device.alloc::<u32>(64)).collect::<Result<Vec<_>, _>>()?;
            for data in &mut all {
                let arguments = Arguments::new().output(data).value(2_u32).value(0_u32);
                device.default_stream().launch_raw(&kernel, LaunchConfig::for_elements(64, 128), &arguments)?;
            }
            Ok(())
        })
        .map(|found| found.len())
    };
    assert_eq!([found_behind(0)?, found_behind(7)?, found_behind(8)?], [2, 2, 0]);
    Ok(())
}

#[test]
fn a_launch_behind_anything_but_a_launch_overlaps_none() -> Result<(), Error> {
    let none: [String; 0] = [];
    assert_eq!(findings_behind(|device, _| device.synchronize())?, none);
    assert_eq!(findings_behind(|device, _| device.new_stream()?.synchronize())?, none);
    assert_eq!(findings_behind(|device, _| device.default_stream().record()?.synchronize())?, none);
    assert_eq!(findings_behind(|device, _| device.default_stream().wait(&device.new_stream()?.record()?))?, none);
    assert_eq!(findings_behind(|_, data| data.download().map(drop))?, none);
    assert_eq!(findings_behind(|device, _| device.upload(&[0_u8]).map(drop))?, none);
    assert_eq!(findings_behind(|device, _| device.alloc::<u8>(1)?.fill_bytes(0))?, none);
    Ok(())
}

#[test]
fn reports_come_in_order_with_their_launches_and_are_taken_once() -> Result<(), Error> {
    let device = gpu();
    device.configure(|options| options.per_instruction = true)?;
    let mut data = device.upload(&[1_u32; 64])?;
    scale(&device, &mut data, 2)?;
    device.configure(|options| options.per_instruction = false)?;
    scale(&device, &mut data, 2)?;
    let reports = device.take_reports();
    assert_eq!(reports.iter().map(|r| (r.number, r.kernel.as_str())).collect::<Vec<_>>(), [(0, "scale"), (1, "scale")]);
    assert_eq!(reports[0].report.counters, reports[1].report.counters);
    assert_eq!(reports[0].report.counters.global_load_requests, 2, "two of the four warps have elements");
    assert!(!reports[0].report.instructions.is_empty() && reports[1].report.instructions.is_empty());
    assert_eq!(reports[0].config, LaunchConfig::for_elements(64, 128));
    assert!(device.take_reports().is_empty() && device.last_report().is_none());
    Ok(())
}

#[test]
fn activities_are_counted_without_times() -> Result<(), Error> {
    let device = gpu();
    let mut data = device.upload(&[1_u32; 100])?;
    device.start_activity();
    scale(&device, &mut data, 2)?;
    scale(&device, &mut data, 2)?;
    data.download()?;
    data.copy_from(&[0; 100])?;
    data.fill_bytes(0)?;
    let table = device.finish_activity()?;
    let rows: Vec<_> = table.iter().map(|row| (row.kind.clone(), row.calls, row.bytes)).collect();
    assert_eq!(
        rows,
        [
            (ActivityKind::Kernel("scale".to_owned()), 2, 0),
            (ActivityKind::HostToDevice, 1, 400),
            (ActivityKind::DeviceToHost, 1, 400),
            (ActivityKind::Fill, 1, 400),
        ]
    );
    assert!(table.iter().all(|row| row.time.is_none()));
    data.fill_bytes(0)?;
    assert!(device.finish_activity()?.is_empty(), "nothing was started");
    Ok(())
}

#[test]
fn events_order_streams_and_have_no_invented_time() -> Result<(), Error> {
    let device = gpu();
    let (a, b) = (device.new_stream()?, device.new_stream()?);
    let start = a.record()?;
    b.wait(&start)?;
    let end = b.record()?;
    end.synchronize()?;
    assert_eq!(end.elapsed_since(&start)?, None);
    device.synchronize()
}

#[test]
fn the_device_says_what_it_stands_in_for() -> Result<(), Error> {
    let device = Device::parse("virtual:a100")?;
    assert_eq!(device.kind(), DeviceKind::Virtual(Profile::A100));
    assert_eq!(device.to_string(), "virtual:a100 (virtual GPU as A100)");
    assert_eq!(device.limits().num_sms, 108);
    assert_eq!(device.driver_version(), None);
    assert!(device.is_virtual());
    assert_eq!(Device::parse("virtual")?.arch().to_string(), "sm_90a");
    refused(
        Device::parse("virtual:b200"),
        "unknown device 'virtual:b200': expected virtual, virtual:h200, virtual:a100, cuda or cuda:N",
    );
    assert!(matches!(Device::parse("cuda:x").expect_err("no number").kind(), ErrorKind::UnknownDevice(_)));
    assert!(Device::all().iter().any(Device::is_virtual));
    Ok(())
}

#[test]
fn what_only_cuda_has_is_refused_by_kind() {
    let device = gpu();
    assert!(device.cudarc_context().is_none());
    assert!(device.default_stream().cudarc_stream().is_none());
}

#[test]
fn what_a_kernel_prints_goes_to_the_sink_in_block_order() -> Result<(), Error> {
    let device = gpu();
    let printed = Arc::new(Mutex::new(String::new()));
    let sink = printed.clone();
    device.configure(|options| {
        options.output = Some(Arc::new(move |text: &str| sink.lock().expect("no panic holds it").push_str(text)));
    })?;
    let hello = kernel("hello", |base: Val<u32>| print("block %u\n", (base + block_idx().x,)));
    device.launch(&hello, LaunchConfig::new(3, 1), (7,))?;
    assert_eq!(*printed.lock().expect("no panic holds it"), "block 7\nblock 8\nblock 9\n");
    Ok(())
}

#[test]
fn a_trap_fails_the_launch_with_its_name_and_sizes() -> Result<(), Error> {
    let device = gpu();
    let give_up = kernel("give_up", |at: Val<u32>| when(thread_idx().x.eq(at), trap));
    device.launch(&give_up, LaunchConfig::new(1, 32), (32,))?;
    let e = device.launch(&give_up, LaunchConfig::new(1, 32), (5,)).expect_err("thread 5 traps");
    assert!(matches!(e.kind(), ErrorKind::LaunchFailed { .. }), "{e:?}");
    assert!(e.to_string().starts_with("kernel give_up (grid 1x1x1, block 32x1x1) failed: "), "{e}");
    Ok(())
}

#[test]
fn dynamic_shared_memory_of_a_kernel_is_given_by_itself() -> Result<(), Error> {
    let device = gpu();
    let swap = kernel("swap", |data: Global<u32>| {
        let tile = dynamic_shared::<u32>(64);
        let thread = thread_idx().x;
        tile.at(thread).set(data.at(thread).get());
        sync_threads();
        data.at(thread).set(tile.at(63 - thread).get());
    });
    let mut data = device.upload(&(0..64).collect::<Vec<u32>>())?;
    device.launch(&swap, LaunchConfig::new(1, 64), (&mut data,))?;
    assert_eq!(data.download()?, (0..64).rev().collect::<Vec<u32>>());
    Ok(())
}

/// Each block adds to a word, waits for all, and reads it.
fn count_blocks() -> warpfold_lang::Kernel<(Global<u32>, Global<u32>, Global<u32>)> {
    kernel("count_blocks", |count: Global<u32>, barrier: Global<u32>, seen: Global<u32>| {
        for round in 1..=3 {
            when(thread_idx().x.eq(0), || count.reduction().add(1));
            grid_sync(barrier);
            let whole = count.get().eq(grid_dim().x * round);
            when(!whole, || seen.at(block_idx().x).set(round));
            grid_sync(barrier);
        }
    })
}

#[test]
fn blocks_of_a_cooperative_launch_wait_for_one_another_at_the_grids_barrier() -> Result<(), Error> {
    let device = gpu();
    device.set_checks(Checks::Deny)?;
    let (mut count, mut barrier) = (device.alloc_zeroed::<u32>(1)?, device.alloc_zeroed::<u32>(1)?);
    for blocks in [1, 2, 37, 132] {
        count.fill_bytes(0)?;
        let mut seen = device.alloc_zeroed::<u32>(blocks as usize)?;
        let config = LaunchConfig::new(blocks, 64).cooperative();
        // The word is ready for the next launch as it is left.
        device.launch(&count_blocks(), config, (&mut count, &mut barrier, &mut seen))?;
        assert_eq!(seen.download()?, vec![0; blocks as usize], "{blocks} blocks");
        assert_eq!(count.download()?, [3 * blocks]);
    }
    Ok(())
}

#[test]
fn a_cooperative_launch_of_more_blocks_than_are_resident_is_refused() -> Result<(), Error> {
    let device = gpu();
    let mut words = [device.alloc_zeroed::<u32>(1)?, device.alloc_zeroed::<u32>(1)?, device.alloc_zeroed::<u32>(9000)?];
    let [count, barrier, seen] = &mut words;
    let launched = device.launch(&count_blocks(), LaunchConfig::new(5000, 64).cooperative(), (count, barrier, seen));
    refused(
        launched,
        "cannot launch kernel count_blocks (grid 5000x1x1, block 64x1x1): 5000 blocks are too many for a cooperative \
         launch: 4224 are resident at once",
    );
    Ok(())
}

#[test]
fn a_recording_has_the_calls_of_the_driver_and_leaves_out_what_is_not_to_be_recorded() -> Result<(), Error> {
    let device = gpu();
    device.start_activity();
    let mut data = device.upload(&[1_u32, 2, 3])?;
    device.unrecorded(|| data.fill_bytes(0))?;
    scale(&device, &mut data, 3)?;
    drop(data);
    let recorded = device.finish_recording()?;
    let kinds: Vec<_> = recorded.activities.iter().map(|activity| activity.kind.to_string()).collect();
    assert_eq!(kinds, ["scale", "[memcpy host to device]"]);
    let calls: Vec<_> = recorded.calls.iter().map(|call| (call.name, call.calls, call.time)).collect();
    let once = |name| (name, 1, None);
    assert!(
        ["cuLaunchKernelEx", "cuMemAlloc", "cuMemFree", "cuMemcpyHtoDAsync", "cuLibraryLoadData"]
            .into_iter()
            .all(|name| calls.contains(&once(name))),
        "{calls:?}"
    );
    assert!(!calls.iter().any(|call| call.0 == "cuMemsetD8Async") && recorded.timeline.is_empty(), "{calls:?}");
    Ok(())
}

#[test]
fn a_device_that_is_dropped_with_unread_errors_says_so() -> Result<(), Error> {
    const NAME: &str = "virtual_gpu::a_device_that_is_dropped_with_unread_errors_says_so";
    // A child of this test, which drops its device: it has read the reports, or has not.
    if let Ok(reads) = std::env::var("READS_REPORTS") {
        let device = gpu();
        device.set_checks(Checks::All)?;
        let reverse = kernel("reverse", |data: Global<i32>| {
            let (tile, thread) = (shared_named::<i32>("tile", 64), thread_idx().x);
            tile.at(thread).set(data.at(thread).get());
            data.at(thread).set(tile.at(63 - thread).get());
        });
        let mut data = device.upload(&[1_i32; 64])?;
        device.launch(&reverse, LaunchConfig::new(1, 64), (&mut data,))?;
        assert!(reads == "no" || device.last_report().is_some());
        return Ok(());
    }
    let child = |reads: &str| {
        let program = std::env::current_exe().expect("the test's own program");
        let mut command = std::process::Command::new(program);
        let output = command.args([NAME, "--exact", "--nocapture"]).env("READS_REPORTS", reads).output();
        String::from_utf8(output.expect("it runs").stderr).expect("text")
    };
    let said = "warning: a launch on a virtual GPU found errors, and nobody has read the reports; the first: reverse: ";
    assert!(child("no").contains(said), "{}", child("no"));
    assert!(!child("yes").contains("warning"), "{}", child("yes"));
    Ok(())
}

#[test]
fn the_host_may_read_what_a_kernel_or_a_copy_has_written_and_nothing_else() -> Result<(), Error> {
    let device = gpu();
    device.set_checks(Checks::All)?;
    let half = kernel("half", |data: Global<u32>| data.at(thread_idx().x).set(thread_idx().x));
    let mut data = device.alloc_named::<u32>("data", 64)?;
    device.launch(&half, LaunchConfig::new(1, 32), (&mut data,))?;
    device.default_stream().copy_to_host(data.view(..32)?, &mut [0; 32])?;
    let mut other = device.alloc_named::<u32>("other", 64)?;
    other.copy_from_buffer(&data)?;
    device.default_stream().copy_to_host(other.view(8..32)?, &mut [0; 24])?;
    assert_eq!(device.take_reports().iter().map(|launch| launch.report.findings.len()).sum::<usize>(), 0);

    // A copy inside the device writes no more than was written.
    assert_eq!(other.download()?[..33], std::array::from_fn::<u32, 33, _>(|i| i as u32 % 32));
    let reports = device.take_reports();
    let finding = &reports[0].report.findings[0];
    assert_eq!((reports.len(), finding.kind), (1, FindingKind::HostRead));
    let text = finding.to_string();
    assert!(text.contains("other[") && text.contains("the host reads 128 of 256 bytes"), "{text}");

    device.set_checks(Checks::Deny)?;
    let e = data.download().expect_err("half of it is not written");
    assert!(matches!(e.kind(), ErrorKind::HostAccess(_)) && e.to_string().contains("data["), "{e}");
    device.set_checks(Checks::None)?;
    data.download().map(drop)
}
