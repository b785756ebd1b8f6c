//! Graphs, and what goes on beside a capture, on every device at hand.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use warpfold_device::{Arguments, Buffer, Device, Error, Function, Graph, LaunchConfig, Profile, Stream};

use crate::support::{PTX, on_every_device, refused};

/// `data[i] *= factor`
fn scale(stream: &Stream, kernel: &Function, data: &mut Buffer<u32>, factor: u32) -> Result<(), Error> {
    let len = data.len();
    let arguments = Arguments::new().output(data).value(factor).value(len as u32);
    stream.launch_raw(kernel, LaunchConfig::for_elements(len, 128), &arguments)
}

#[test]
fn a_graph_does_again_what_was_captured_and_keeps_what_it_needs() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let mut data = device.upload(&[0_u32; 1000])?;
        let capture = |data: &mut Buffer<u32>| {
            stream.capture(|| {
                // Kernel and buffers are of this capture alone.
                let kernel = device.load(PTX)?.kernel("scale")?;
                let (mut ones, mut copy) = (device.alloc::<u32>(1000)?, device.alloc::<u32>(1000)?);
                stream.fill_bytes(&mut ones, 1)?;
                stream.copy(&mut copy, &ones)?;
                stream.copy(&mut *data, &copy)?;
                let arguments = Arguments::new().output(data).value(3_u32).value(1000_u32);
                stream.launch_raw(&kernel, LaunchConfig::for_elements(1000, 128), &arguments)
            })
        };
        let (graph, ()) = capture(&mut data)?;
        assert_eq!(data.download()?, [0; 1000], "nothing is done yet");
        for _ in 0..3 {
            data.fill_bytes(0xff)?;
            graph.launch()?;
            assert_eq!(data.download()?, [0x0303_0303; 1000]);
        }
        Ok(())
    });
}

#[test]
fn what_a_graph_cannot_hold_is_refused_and_the_stream_goes_on() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let mut data = device.upload(&[1_u32; 4])?;
        let default = device.default_stream().capture(|| Ok::<_, Error>(()));
        refused(default, "work of the default stream cannot be captured in a graph");
        let copy = stream.capture(|| stream.copy_from_host(&mut data, &[2; 4]));
        refused(copy, "a copy from the host cannot be captured in a graph");
        refused(stream.capture(|| stream.record()), "an event cannot be captured in a graph");
        refused(stream.capture(|| stream.synchronize()), "waiting for the stream cannot be captured in a graph");
        let inner = stream.capture(|| stream.capture(|| Ok::<_, Error>(())));
        refused(inner, "a capture cannot be captured in a graph");
        stream.copy_from_host(&mut data, &[3; 4])?;
        assert_eq!(data.download()?, [3; 4]);
        Ok(())
    });
}

#[test]
fn memory_of_a_capture_is_refused_to_other_streams_while_it_lasts() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let mut data = device.upload(&[1_u32; 4])?;
        let refusal = "memory that other streams use meanwhile cannot be captured in a graph";
        let (graph, ()) = stream.capture(|| {
            stream.fill_bytes(&mut data, 2)?;
            refused(data.download(), refusal);
            refused(data.fill_bytes(3), refusal);
            Ok::<_, Error>(())
        })?;
        assert_eq!(data.download()?, [1; 4]);
        graph.launch()?;
        assert_eq!(data.download()?, [0x0202_0202; 4]);
        Ok(())
    });
}

#[test]
fn memory_that_was_used_before_a_capture_is_freed_during_it() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let mut copy = device.alloc::<u32>(1 << 20)?;
        let (read, mut written) = (device.alloc_zeroed::<u32>(1 << 20)?, device.alloc::<u32>(1 << 20)?);
        stream.copy(&mut copy, &read)?;
        stream.fill_bytes(&mut written, 1)?;
        let before = device.free_memory_bytes()?;
        let (graph, ()) = stream.capture(|| {
            drop((read, written));
            // A driver keeps what is freed in a pool; the virtual GPU shows it at once.
            let freed = device.free_memory_bytes()?.saturating_sub(before);
            assert!(freed == 8 << 20 || !device.is_virtual(), "{freed}");
            stream.fill_bytes(&mut copy, 7)
        })?;
        graph.launch()?;
        assert_eq!(copy.download()?, vec![0x0707_0707; 1 << 20]);
        Ok(())
    });
}

#[test]
fn what_a_graph_only_reads_may_be_read_by_other_streams_meanwhile() {
    on_every_device(|device| {
        let (stream, other) = (device.new_stream()?, device.new_stream()?);
        let (mut weights, mut out) = (device.alloc::<u32>(1000)?, device.alloc::<u32>(1000)?);
        // Written on the stream that is captured next.
        stream.fill_bytes(&mut weights, 5)?;
        let (graph, ()) = stream.capture(|| {
            stream.copy(&mut out, &weights)?;
            let mut read = vec![0; 1000];
            other.copy_to_host(&weights, &mut read)?;
            assert_eq!(read, [0x0505_0505; 1000]);
            let refusal = "memory that other streams use meanwhile cannot be captured in a graph";
            refused(other.fill_bytes(&mut weights, 1), refusal);
            Ok::<_, Error>(())
        })?;
        other.fill_bytes(&mut weights, 6)?;
        graph.launch()?;
        assert_eq!(out.download()?, [0x0606_0606; 1000]);
        Ok(())
    });
}

#[test]
fn a_captured_stream_belongs_to_its_thread() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let (mut data, mut other) = (device.upload(&[1_u32; 4])?, device.upload(&[2_u32; 4])?);
        let (graph, ()) = stream.capture(|| {
            stream.fill_bytes(&mut data, 3)?;
            thread::scope(|scope| {
                let refusal = "work of another thread cannot be captured in a graph";
                let there = scope.spawn(|| {
                    refused(stream.fill_bytes(&mut other, 4), refusal);
                    refused(stream.synchronize(), refusal);
                    refused(stream.record(), refusal);
                    refused(stream.copy_from_host(&mut other, &[5; 4]), refusal);
                    // Its own stream is its own.
                    let own = device.new_stream()?;
                    own.fill_bytes(&mut other, 6)
                });
                there.join().expect("no assertion failed")
            })
        })?;
        graph.launch()?;
        assert_eq!((data.download()?, other.download()?), (vec![0x0303_0303; 4], vec![0x0606_0606; 4]));
        stream.fill_bytes(&mut other, 7)?;
        assert_eq!(other.download()?, [0x0707_0707; 4]);
        Ok(())
    });
}

#[test]
fn a_stream_that_cudarc_knows_is_captured_as_one_stream() {
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let Some(known) = stream.cudarc_stream() else { return Ok(()) };
        let same = Stream::from_cudarc(device, known)?;
        refused(stream.capture(|| same.synchronize()), "waiting for the stream cannot be captured in a graph");
        let mut data = device.upload(&[1_u32; 4])?;
        let (graph, ()) = stream.capture(|| {
            let mut ones = device.alloc::<u32>(4)?;
            same.fill_bytes(&mut ones, 1)?;
            same.copy(&mut data, &ones)
        })?;
        // What is freed would be reused.
        let _others = [device.alloc_zeroed::<u32>(4)?, device.alloc_zeroed::<u32>(4)?];
        graph.launch()?;
        assert_eq!(data.download()?, [0x0101_0101; 4]);
        let default = device.default_stream().cudarc_stream().expect("a GPU");
        let default = Stream::from_cudarc(device, default)?.capture(|| Ok::<_, Error>(()));
        refused(default, "work of the default stream cannot be captured in a graph");
        Ok(())
    });
}

#[test]
fn a_graph_is_launched_and_dropped_on_other_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Graph>();
    on_every_device(|device| {
        let stream = device.new_stream()?;
        let kernel = device.load(PTX)?.kernel("scale")?;
        let mut data = device.upload(&[1_u32; 1000])?;
        let (graph, ()) = stream.capture(|| scale(&stream, &kernel, &mut data, 3))?;
        drop(kernel);
        thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| graph.launch()));
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        thread::spawn(move || graph.launch().map(|()| drop(graph))).join().expect("no panic")?;
        assert_eq!(data.download()?, [3_u32.pow(5); 1000]);
        Ok(())
    });
}

/// Everything that the contract of `Stream::capture` allows other threads, over and over while this
/// one captures: a driver that gives up a capture makes it an error.
#[test]
fn other_threads_work_as_they_like_while_a_stream_is_captured() {
    on_every_device(|device| {
        // The driver has one lock for a context, at which nine busy threads queue.
        let rounds = 10;
        let (is_over, start) = (AtomicBool::new(false), Barrier::new(WORK.len() + 1));
        thread::scope(|scope| {
            let others: Vec<_> = WORK
                .iter()
                .map(|(what, work)| {
                    let (is_over, start) = (&is_over, &start);
                    scope.spawn(move || {
                        start.wait();
                        let mut times = 0;
                        while !is_over.load(Ordering::Relaxed) || times == 0 {
                            work(device, times).unwrap_or_else(|e| panic!("{what}: {e}"));
                            times += 1;
                        }
                        println!("  {times} times: {what}");
                    })
                })
                .collect();
            start.wait();
            let captured = (0..rounds).try_for_each(|round| capture_once(device, round));
            is_over.store(true, Ordering::Relaxed);
            let panicked = others.into_iter().map(|thread| thread.join().is_err()).filter(|panicked| *panicked).count();
            assert_eq!((captured, panicked), (Ok(()), 0));
        });
        device.synchronize()
    });
}

/// Captures four launches with kernels and buffers of this capture alone, and launches them twice.
fn capture_once(device: &Device, round: usize) -> Result<(), Error> {
    let stream = device.new_stream()?;
    let len = 1000 + round;
    let mut data = device.upload(&vec![1_u32; len])?;
    let (graph, ()) = stream.capture(|| {
        let kernel = device.load(&text(round))?.kernel("scale")?;
        let mut copy = device.alloc::<u32>(len)?;
        for factor in 2..4 {
            scale(&stream, &kernel, &mut data, factor)?;
            stream.copy(&mut copy, &data)?;
            thread::yield_now();
            scale(&stream, &kernel, &mut copy, 1)?;
        }
        Ok::<_, Error>(())
    })?;
    graph.launch()?;
    graph.launch()?;
    assert_eq!(data.download()?, vec![36; len], "round {round}");
    Ok(())
}

/// PTX that differs from that of other rounds.
fn text(round: usize) -> String {
    format!("{PTX}\n// {round}")
}

type Work = fn(&Device, usize) -> Result<(), Error>;

const WORK: [(&str, Work); 8] = [
    ("load, launch and unload a module", |device, round| {
        let kernel = device.load(&text(round))?.kernel("scale")?;
        let mut data = device.upload(&[2_u32; 100])?;
        scale(&device.default_stream(), &kernel, &mut data, 5)?;
        drop(kernel);
        assert_eq!(data.download()?, [10; 100]);
        Ok(())
    }),
    ("allocate and free", |device, round| {
        let buffers: Vec<_> = (0..8).map(|i| device.alloc_zeroed::<u8>(1 << (10 + (i + round) % 8))).collect();
        buffers.into_iter().try_for_each(|buffer| buffer.map(drop))
    }),
    ("copy on a new stream", |device, _| {
        let stream = device.new_stream()?;
        let (source, mut copy) = (device.upload(&[7_u32; 5000])?, device.alloc(5000)?);
        stream.copy(&mut copy, &source)?;
        let mut found = [0; 5000];
        stream.copy_to_host(&copy, &mut found)?;
        assert_eq!(found, [7; 5000]);
        Ok(())
    }),
    ("copy pinned memory", |device, round| {
        let stream = device.new_stream()?;
        let (mut there, mut back) = (device.host_buffer::<u32>(3000)?, device.host_buffer::<u32>(3000)?);
        there.as_mut_slice()?.fill(round as u32);
        let mut buffer = device.alloc(3000)?;
        stream.copy_from_host_async(&mut buffer, &there)?;
        stream.copy_to_host_async(&buffer, &mut back)?;
        assert_eq!(back.as_slice()?, [round as u32; 3000]);
        Ok(())
    }),
    ("synchronise the device", |device, _| device.synchronize()),
    ("wait for events of two streams", |device, _| {
        let (one, other) = (device.new_stream()?, device.new_stream()?);
        let mut data = device.alloc::<u32>(100)?;
        one.fill_bytes(&mut data, 1)?;
        let event = one.record()?;
        other.wait(&event)?;
        other.fill_bytes(&mut data, 2)?;
        let later = other.record()?;
        later.synchronize()?;
        assert!(event.is_complete()? && later.is_complete()?);
        later.elapsed_since(&event).map(|time| assert_eq!(time.is_none(), device.is_virtual()))
    }),
    ("capture and launch a graph", |device, round| capture_once(device, 10_000 + round % 100)),
    ("fill on the default stream", |device, _| {
        let mut data = device.alloc::<u32>(100)?;
        data.fill_bytes(9)?;
        data.copy_from(&[1; 100])?;
        device.default_stream().synchronize()
    }),
];

#[test]
fn a_capture_that_fails_or_panics_leaves_the_stream_as_it_was() {
    let device = Device::virtual_gpu(Profile::H200);
    let stream = device.new_stream().expect("a stream");
    let mut data = device.upload(&[1_u32; 4]).expect("a buffer");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture::<(), Error>(|| panic!("in the middle"))
    }));
    assert!(panicked.is_err());
    let failed = stream.capture(|| stream.fill_bytes(&mut data, 5).and_then(|()| data.copy_to(&mut [0; 3])));
    refused(failed, "copy to host: expected 3 elements, found 4");
    stream.fill_bytes(&mut data, 6).expect("nothing is captured");
    assert_eq!(data.download().expect("it is there"), [0x0606_0606; 4]);
}
