//! Memory, streams and untyped launches, on every device at hand.

use warpfold_device::{Arguments, Buffer, Device, Element, Error, ErrorKind, LaunchConfig, LaunchSite};

use crate::support::{PTX, on_every_device, refused};

#[test]
fn foreign_ptx_runs_with_untyped_arguments() {
    on_every_device(|device| {
        let input: Vec<u32> = (0..1000).collect();
        let mut data = device.upload(&input)?;
        let kernel = device.load(PTX)?.kernel("scale")?;
        let arguments = Arguments::new().output(&mut data).value(2_u32).value(1000_u32);
        device.default_stream().launch_raw(&kernel, LaunchConfig::for_elements(1000, 128), &arguments)?;
        let expected: Vec<u32> = input.iter().map(|x| x * 2).collect();
        assert_eq!(data.download()?, expected);
        Ok(())
    });
}

#[test]
fn what_is_uploaded_comes_back_for_every_element_type() {
    fn check<T: Element>(device: &Device, data: &[T]) -> Result<(), Error> {
        let buffer = device.upload(data)?;
        assert_eq!(buffer.download()?, data, "{}", T::NAME);
        assert_eq!((buffer.len(), buffer.num_bytes()), (data.len(), size_of_val(data)));
        Ok(())
    }
    on_every_device(|device| {
        check(device, &[1_u8, 255])?;
        check(device, &[1_u16, 65_535])?;
        check(device, &[1_u32, u32::MAX])?;
        check(device, &[1_u64, u64::MAX])?;
        check(device, &[-1_i8, 127])?;
        check(device, &[-1_i16, 2])?;
        check(device, &[-1_i32, 2])?;
        check(device, &[-1_i64, 2])?;
        check(device, &[half::f16::from_f32(1.5)])?;
        check(device, &[half::bf16::from_f32(1.5)])?;
        check(device, &[-0.0_f32, f32::INFINITY])?;
        check(device, &[1e300_f64])?;
        check::<f32>(device, &[])
    });
}

#[test]
fn parts_of_a_buffer_are_copied_and_filled_by_themselves() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let mut buffer = device.alloc_zeroed::<u16>(10)?;
        let source = device.upload(&[7_u16, 8, 9])?;
        stream.copy_from_host(buffer.view_mut(1..3)?, &[1, 2])?;
        stream.copy(buffer.view_mut(4..7)?, &source)?;
        stream.fill_bytes(buffer.view_mut(9..)?, 0xff)?;
        assert_eq!(buffer.download()?, [0, 1, 2, 0, 7, 8, 9, 0, 0, 0xffff]);
        let (mut left, right) = buffer.split_at_mut(5)?;
        stream.copy(left.reborrow().slice(..2)?, right.as_view().slice(3..)?)?;
        assert_eq!(buffer.download()?, [0, 0xffff, 2, 0, 7, 8, 9, 0, 0, 0xffff]);
        let mut part = [0; 2];
        stream.copy_to_host(buffer.view(5..7)?, &mut part)?;
        assert_eq!(part, [8, 9]);
        Ok(())
    });
}

/// Each launch doubles, on the next of three streams: any overlap loses a factor.
#[test]
fn a_buffer_keeps_its_order_from_stream_to_stream() {
    on_every_device(|device| {
        let streams = [device.default_stream(), device.new_stream()?, device.new_stream()?];
        let kernel = device.load(PTX)?.kernel("scale")?;
        let len = 1 << 16;
        let mut data = device.alloc::<u32>(len)?;
        data.copy_from(&vec![1; len])?;
        for i in 0..30 {
            let arguments = Arguments::new().output(&mut data).value(2_u32).value(len as u32);
            streams[i % 3].launch_raw(&kernel, LaunchConfig::for_elements(len, 256), &arguments)?;
        }
        assert_eq!(data.download()?, vec![1 << 30; len]);
        Ok(())
    });
}

#[test]
fn lengths_and_ranges_that_do_not_fit_are_refused() {
    on_every_device(|device| {
        let mut buffer: Buffer<i32> = device.alloc_zeroed(4)?;
        refused(buffer.copy_from(&[1]), "copy from host: expected 4 elements, found 1");
        refused(buffer.copy_to(&mut [0; 5]), "copy to host: expected 5 elements, found 4");
        refused(buffer.view(2..5), "elements 2..5 are outside a buffer of 4 elements");
        refused(buffer.view(..=4), "elements 0..5 are outside a buffer of 4 elements");
        let past = device.alloc::<u64>(usize::MAX / 4);
        assert!(matches!(past.expect_err("refused").kind(), ErrorKind::TooLarge { .. }));
        Ok(())
    });
}

#[test]
fn limits_of_device_and_kernel_hold_at_the_launch() {
    on_every_device(|device| {
        let stream = device.default_stream();
        let kernel = device.load(PTX)?.kernel("bounded")?;
        assert_eq!((kernel.info().max_threads, kernel.info().static_shared), (Some(64), 1024));
        refused(
            stream.launch_raw(&kernel, LaunchConfig::new(1, 65), &Arguments::new()),
            "cannot launch kernel bounded (grid 1x1x1, block 65x1x1): 65 threads per block are more than the limit of 64 \
             (the kernel's registers, .maxntid or .reqntid)",
        );
        let limit = device.limits().shared_bytes_per_block_optin;
        let most = LaunchConfig::new(1, 64).dynamic_shared(limit - 1024);
        let e = stream.launch_raw(&kernel, most.dynamic_shared(limit - 1023), &Arguments::new()).expect_err("a byte");
        let site = LaunchSite { kernel: "bounded".to_owned(), grid: [1, 1, 1], block: [64, 1, 1] };
        let (static_bytes, dynamic_bytes) = (1024, limit - 1023);
        assert_eq!(*e.kind(), ErrorKind::TooMuchShared { site, static_bytes, dynamic_bytes, limit });
        stream.launch_raw(&kernel, most, &Arguments::new())?;
        device.synchronize()
    });
}

/// A kernel of clusters of two, and one of any.
const CLUSTERS: &str = ".version 8.0\n.target sm_90\n.address_size 64
.visible .entry pairs() .reqnctapercluster 2 { barrier.cluster.arrive; barrier.cluster.wait; ret; }
.visible .entry any(.param .u64 out) {
    .reg .u32 %r<4>; .reg .u64 %d<2>;
    griddepcontrol.wait;
    ld.param.u64 %d0, [out];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %cluster_nctarank;
    mad.wide.u32 %d1, %r0, 4, %d0;
    st.global.u32 [%d1], %r1;
    griddepcontrol.launch_dependents;
    ret;
}";

#[test]
fn clusters_and_programmatic_launches_are_made_or_refused_alike() {
    on_every_device(|device| {
        let stream = device.default_stream();
        if device.limits().max_cluster_blocks < 2 {
            let kernel = device.load(PTX)?.kernel("bounded")?;
            let plain = LaunchConfig::new(4, 32);
            for (kernel, config) in [(kernel.clone(), plain.cluster(2)), (kernel.programmatic(), plain)] {
                let error = stream.launch_raw(&kernel, config, &Arguments::new()).expect_err("an old device");
                assert!(error.to_string().ends_with("need sm_90 or later"), "{error}");
            }
            return Ok(());
        }
        let module = device.load(CLUSTERS)?;
        let (pairs, any) = (module.kernel("pairs")?, module.kernel("any")?);
        assert_eq!((pairs.info().required_cluster, any.info().required_cluster), (Some([2, 1, 1]), None));
        stream.launch_raw(&pairs, LaunchConfig::new(4, 32), &Arguments::new())?;
        let cannot = "cannot launch kernel pairs (grid 4x1x1, block 32x1x1): ";
        refused(
            stream.launch_raw(&pairs, LaunchConfig::new(4, 32).cluster(4), &Arguments::new()),
            &format!("{cannot}the kernel requires a cluster of [2, 1, 1] (.reqnctapercluster)"),
        );
        refused(
            stream.launch_raw(&pairs, LaunchConfig::new(3, 32), &Arguments::new()),
            &format!(
                "{}the grid is not a multiple of the cluster [2, 1, 1] in every dimension",
                cannot.replace("4x1x1", "3x1x1")
            ),
        );
        for (cluster, config) in [(1, LaunchConfig::new(16, 32)), (4, LaunchConfig::new(16, 32).cluster(4))] {
            let mut out = device.alloc::<u32>(16)?;
            let arguments = Arguments::new().output(&mut out);
            stream.launch_raw(&any, config, &arguments)?;
            stream.launch_raw(&any.clone().programmatic(), config, &arguments)?;
            drop(arguments);
            assert_eq!(out.download()?, [cluster; 16], "on {device}");
        }
        // What a cluster takes of the device decides how many there can be.
        let active = |blocks: u32, shared| {
            any.max_active_clusters(LaunchConfig::new(16, 1024).cluster(blocks).dynamic_shared(shared))
        };
        let (two, eight, full) = (active(2, 0)?, active(8, 0)?, active(2, 227 << 10)?);
        assert!(
            two >= 4 * eight && eight >= 8 && (1..=device.limits().num_sms / 2).contains(&full),
            "{two} {eight} {full}"
        );
        refused(
            any.max_active_clusters(LaunchConfig::new(4, 32)),
            "cannot launch kernel any (grid 4x1x1, block 32x1x1): it has no clusters",
        );
        device.synchronize()
    });
}

#[test]
fn arguments_of_the_wrong_number_are_refused_where_the_device_knows_them() {
    on_every_device(|device| {
        let kernel = device.load(PTX)?.kernel("bounded")?;
        if kernel.info().params.is_some() {
            refused(
                device.default_stream().launch_raw(&kernel, LaunchConfig::new(1, 64), &Arguments::new().value(1_u32)),
                "cannot launch kernel bounded (grid 1x1x1, block 64x1x1): the kernel has 0 parameter(s), 1 were given",
            );
        }
        Ok(())
    });
}

#[test]
fn a_module_variable_has_an_address() {
    on_every_device(|device| {
        let module = device.load(PTX)?;
        let (address, bytes) = module.global("launches").expect("it is declared");
        assert!(address != 0 && bytes == 4);
        assert_eq!(module.global("landings"), None);
        Ok(())
    });
}

#[test]
fn an_unknown_kernel_is_refused_by_name() {
    on_every_device(|device| {
        let e = device.load(PTX)?.kernel("scales").expect_err("no such kernel");
        assert!(matches!(e.kind(), ErrorKind::UnknownKernel { name, .. } if name == "scales"), "{e:?}");
        Ok(())
    });
}

#[test]
fn activities_are_counted_with_the_time_that_the_device_has() {
    on_every_device(|device| {
        let mut data = device.upload(&[1.0_f32; 100])?;
        device.start_activity();
        data.download()?;
        data.download()?;
        data.fill_bytes(0)?;
        let table = device.finish_activity()?;
        assert_eq!(table.iter().map(|row| (row.calls, row.bytes)).max(), Some((2, 800)));
        assert_eq!(table.len(), 2);
        assert!(table.iter().all(|row| row.time.is_none() == device.is_virtual()));
        data.fill_bytes(0)?;
        assert!(device.finish_activity()?.is_empty(), "nothing was started");
        Ok(())
    });
}

#[test]
fn the_compute_capability_agrees_with_the_architecture() {
    on_every_device(|device| {
        let limits = device.limits();
        let (capability, arch) = (limits.compute_capability, device.arch().number);
        assert!(arch <= capability.major * 10 + capability.minor, "{capability} and sm_{arch}");
        assert_eq!(limits.has_wgmma, (capability.major, capability.minor) == (9, 0), "{capability}");
        assert_eq!(limits.max_cluster_blocks > 1, capability.major >= 9, "{capability}");
        Ok(())
    });
}
