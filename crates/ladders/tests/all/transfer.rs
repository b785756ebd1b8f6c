//! Copies between host and device, and how they overlap.

use std::time::Duration;

use warpfold_device::{Checks, Device, Profile};
use warpfold_ladders::transfer::{Event, Instance, RUNGS, Trace, What, rung, timeline};

#[test]
fn every_way_is_right_and_moves_each_byte_once_each_way() {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(Checks::Deny).expect("a virtual GPU");
    let mut instance = Instance::open(&device, 4096).expect("a vector");
    for rung in RUNGS {
        let trace = instance.run(rung).expect("it runs");
        assert!(trace.is_right, "{}", rung.name);
        assert_eq!(trace.bytes(), 2 * 4 * 4096, "{}", rung.name);
    }
}

/// The order of a rung's calls: `h` to the device, `k` a kernel, `d` to the host, with the
/// stream.
fn order(name: &str) -> String {
    let device = Device::virtual_gpu(Profile::H200);
    let mut instance = Instance::open(&device, 64).expect("a vector");
    let trace = instance.run(rung(name).expect("a rung")).expect("it runs");
    let letter = |what| match what {
        What::ToDevice => 'h',
        What::Kernel => 'k',
        What::ToHost => 'd',
        What::Graph => 'g',
    };
    trace.events.iter().map(|event| format!("{}{} ", letter(event.what), event.stream)).collect()
}

#[test]
fn depth_first_issues_a_chunk_at_a_time_and_breadth_first_a_kind_at_a_time() {
    assert_eq!(order("depth_first"), "h0 k0 d0 h1 k1 d1 h0 k0 d0 h1 k1 d1 ");
    assert_eq!(order("breadth_first"), "h0 h1 k0 k1 d0 d1 h0 h1 k0 k1 d0 d1 ");
}

fn traced(device: &Device, name: &str, len: usize) -> Trace {
    let mut instance = Instance::open(device, len).expect("a vector");
    // The first run of a kernel and of a stream takes longer.
    instance.run(rung(name).expect("a rung")).expect("it runs");
    instance.run(rung(name).expect("a rung")).expect("it runs")
}

#[test]
fn copies_overlap_kernels_where_two_streams_take_turns_and_nowhere_else() {
    let device = Device::virtual_gpu(Profile::H200);
    for rung in RUNGS {
        let trace = traced(&device, rung.name, 64);
        let has_two_streams = ["depth_first", "breadth_first"].contains(&rung.name);
        assert_eq!(trace.overlaps(), has_two_streams, "{}: {:?}", rung.name, trace.steps());
    }
    let last = |name| traced(&device, name, 64).steps().into_iter().max();
    // Twelve operations, one after the other and not.
    assert_eq!(["pageable", "pinned", "depth_first", "breadth_first"].map(last), [11, 11, 6, 6].map(Some));
}

#[test]
fn a_size_that_cannot_be_divided_is_refused() {
    let device = Device::virtual_gpu(Profile::H200);
    assert!(Instance::open(&device, 6).is_err());
    assert!(Instance::open(&device, 0).is_err());
}

#[test]
fn without_times_what_can_run_at_the_same_time_stands_in_the_same_column() {
    let event = |what, stream, chunk| Event { what, stream, chunk, bytes: 0, is_waited_for: false, time: None };
    let events = vec![event(What::ToDevice, 0, 0), event(What::ToDevice, 1, 1), event(What::Kernel, 0, 0)];
    let text = timeline(&Trace { events, is_right: true });
    assert_eq!(text, "stream 0  H0 K0\nstream 1     H1\n");
}

#[test]
fn with_times_a_copy_stands_below_the_kernel_that_it_overlaps() {
    let event = |what, stream, from, to| {
        let time = Some((Duration::from_micros(from), Duration::from_micros(to)));
        Event { what, stream, chunk: stream, bytes: 0, is_waited_for: false, time }
    };
    let events = vec![event(What::Kernel, 0, 0, 48), event(What::ToDevice, 1, 24, 96)];
    let trace = Trace { events, is_right: true };
    assert!(trace.overlaps());
    let text = timeline(&trace);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0].len(), "stream 0  ".len() + 48);
    assert!(lines[1].starts_with(&format!("stream 1  {}H1---", " ".repeat(24))), "{text}");
}
