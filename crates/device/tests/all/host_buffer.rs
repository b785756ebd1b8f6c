//! Pinned host memory: asynchronous copies beside kernels, on every device at hand.

use warpfold_device::{Arguments, LaunchConfig};

use crate::support::{PTX, on_every_device, refused};

#[test]
fn host_buffers_carry_data_both_ways() {
    on_every_device(|device| {
        let stream = device.default_stream();
        let (mut there, mut back) = (device.host_buffer::<f64>(3)?, device.host_buffer::<f64>(3)?);
        assert_eq!(there.as_slice()?, [0.0; 3]);
        there.as_mut_slice()?.copy_from_slice(&[1.0, 2.0, 3.0]);
        let mut buffer = device.alloc::<f64>(3)?;
        stream.copy_from_host_async(&mut buffer, &there)?;
        stream.copy_to_host_async(&buffer, &mut back)?;
        assert_eq!(back.as_slice()?, [1.0, 2.0, 3.0]);
        Ok(())
    });
}

#[test]
fn parts_of_a_host_buffer_are_copied_by_themselves() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let mut host = device.host_buffer::<u16>(10)?;
        host.range_mut(2..5)?.copy_from_slice(&[1, 2, 3]);
        let mut buffer = device.alloc_zeroed::<u16>(4)?;
        stream.copy_from_host_async(buffer.view_mut(1..)?, host.view(2..5)?)?;
        stream.copy_to_host_async(&buffer, host.view_mut(6..)?)?;
        assert_eq!(host.range(6..)?, [0, 1, 2, 3]);
        assert_eq!(host.as_slice()?, [0, 0, 1, 2, 3, 0, 0, 1, 2, 3]);
        Ok(())
    });
}

#[test]
fn host_buffers_refuse_ranges_lengths_and_captures_that_do_not_fit() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let mut host = device.host_buffer::<u16>(10)?;
        let mut buffer = device.alloc_zeroed::<u16>(4)?;
        refused(host.view(8..12), "elements 8..12 are outside a buffer of 10 elements");
        refused(host.view_mut(..=10), "elements 0..11 are outside a buffer of 10 elements");
        refused(host.range(11..), "elements 11..10 are outside a buffer of 10 elements");
        refused(stream.copy_from_host_async(&mut buffer, &host), "copy from host: expected 4 elements, found 10");
        refused(stream.copy_to_host_async(&buffer, &mut host), "copy to host: expected 10 elements, found 4");
        let part = host.view(..4)?;
        let captured = stream.capture(|| stream.copy_from_host_async(&mut buffer, part));
        refused(captured, "a copy from the host cannot be captured in a graph");
        Ok(())
    });
}

/// Two copies that nothing but the host buffer orders: the second reads what the first writes.
#[test]
fn copies_of_the_same_host_memory_keep_their_order_from_stream_to_stream() {
    on_every_device(|device| {
        let (one, other) = (device.new_stream()?, device.new_stream()?);
        let len = 1 << 20;
        let mut host = device.host_buffer::<u32>(len)?;
        let mut copy = device.alloc_zeroed::<u32>(len)?;
        for round in 0..10_u8 {
            let mut source = device.alloc::<u32>(len)?;
            source.fill_bytes(round)?;
            one.copy_to_host_async(&source, &mut host)?;
            other.copy_from_host_async(&mut copy, &host)?;
            let expected = u32::from_ne_bytes([round; 4]);
            assert!(copy.download()?.iter().all(|&x| x == expected), "round {round}");
        }
        Ok(())
    });
}

/// The pattern that overlaps copies with kernels: three streams, two halves, and events between
/// them for memory whose order no buffer keeps.
#[test]
fn copies_and_kernels_take_turns_over_halves_by_events() {
    on_every_device(|device| {
        let (len, chunks) = (1 << 16, 12);
        let (up, compute, down) = (device.new_stream()?, device.new_stream()?, device.new_stream()?);
        let kernel = device.load(PTX)?.kernel("scale")?;
        let (mut input, mut output) = (device.host_buffer::<u32>(len * 2)?, device.host_buffer::<u32>(len * chunks)?);
        let mut data = [device.alloc::<u32>(len)?, device.alloc::<u32>(len)?];
        let mut done = Vec::new();
        for chunk in 0..chunks {
            let half = chunk % 2;
            let part = half * len..(half + 1) * len;
            input.range_mut(part.clone())?.fill(chunk as u32 + 1);
            if let Some(event) = chunk.checked_sub(2).and_then(|before| done.get(before)) {
                up.wait(event)?;
            }
            up.copy_from_host_async(&mut data[half], input.view(part)?)?;
            let arguments = Arguments::new().output(&mut data[half]).value(3_u32).value(len as u32);
            compute.launch_raw(&kernel, LaunchConfig::for_elements(len, 256), &arguments)?;
            drop(arguments);
            down.copy_to_host_async(&data[half], output.view_mut(chunk * len..(chunk + 1) * len)?)?;
            done.push(down.record()?);
        }
        for (chunk, found) in output.as_slice()?.chunks(len).enumerate() {
            assert!(found.iter().all(|&x| x == 3 * (chunk as u32 + 1)), "chunk {chunk}: {:?}", &found[..4]);
        }
        done.iter().try_for_each(|event| event.is_complete().map(|reached| assert!(reached)))
    });
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    on_every_device(|device| {
        let (one, other) = (device.new_stream()?, device.new_stream()?);
        let mut data = device.upload(&vec![1_u32; 1 << 20])?;
        let kernel = device.load(PTX)?.kernel("scale")?;
        let arguments = Arguments::new().output(&mut data).value(7_u32).value(1 << 20_u32);
        one.launch_raw(&kernel, LaunchConfig::for_elements(1 << 20, 256), &arguments)?;
        drop(arguments);
        let event = one.record()?;
        other.wait(&event)?;
        let last = other.record()?;
        last.synchronize()?;
        assert!(event.is_complete()?, "the later event is reached");
        assert_eq!(data.download()?, vec![7; 1 << 20]);
        Ok(())
    });
}

/// On a GPU the copy takes some milliseconds, in which neither the host nor another stream waits.
#[test]
fn a_copy_runs_beside_the_host_and_beside_work_of_another_stream() {
    on_every_device(|device| {
        let len = if device.is_virtual() { 1 << 10 } else { 512 << 20 };
        let (copies, compute) = (device.new_stream()?, device.new_stream()?);
        let mut host = device.host_buffer::<u8>(len)?;
        host.as_mut_slice()?.fill(7);
        let (mut copied, mut other) = (device.alloc::<u8>(len)?, device.alloc::<u32>(1000)?);
        device.synchronize()?;
        copies.copy_from_host_async(&mut copied, &host)?;
        let end = copies.record()?;
        compute.fill_bytes(&mut other, 1)?;
        compute.synchronize()?;
        assert_eq!(end.is_complete()?, device.is_virtual(), "the copy of {len} bytes");
        assert_eq!(other.download()?, [0x0101_0101; 1000]);
        // To write waits for the copy.
        host.range_mut(len - 1..)?.fill(8);
        assert!(end.is_complete()?);
        let mut last = [0];
        copies.copy_to_host(copied.view(len - 1..)?, &mut last)?;
        assert_eq!(last, [7]);
        Ok(())
    });
}
