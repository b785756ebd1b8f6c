//! All-reduces over the GPUs of this machine: `cargo bench -p warpfold-collectives --bench
//! collectives`.
//!
//! Prints microseconds a call by the host's clock, of 20 calls in a graph and of calls one by one,
//! for messages of 1 KiB to 1 GiB of f32, and the bus bandwidth as NCCL's tests count it. Each size
//! is checked against the sum first. Arguments: the number of GPUs (all by default), and options as
//! `staged=BLOCKSxTHREADS`, `direct=BLOCKSxTHREADS`, `from=BYTES`, `most=BYTES`. Without GPUs it
//! says so.

use std::sync::Barrier;
use std::time::Instant;

use warpfold_collectives::{Communicator, Error, Group, PeerOptions, Reduce};
use warpfold_device::Device;

const CALLS: usize = 20;

/// Microseconds a call: in a graph, and one by one.
fn times(rank: &Communicator, bytes: usize, barrier: &Barrier) -> Result<(f64, f64), Error> {
    let (device, len) = (rank.device(), bytes / 4);
    let stream = device.new_stream()?;
    let input: Vec<f32> = (0..len).map(|i| ((i * 7 + rank.rank() * 3) % 5) as f32).collect();
    let mut data = device.upload(&input)?;
    rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?;
    rank.synchronize(&stream)?;
    let sum = |i: usize| (0..rank.size()).map(|rank| ((i * 7 + rank * 3) % 5) as f32).sum::<f32>();
    let wrong = data.download()?.iter().enumerate().filter(|(i, found)| **found != sum(*i)).count();
    assert_eq!(wrong, 0, "of {len} elements on rank {}", rank.rank());
    let mut data = device.alloc_zeroed::<f32>(len)?;
    let (graph, ()) =
        stream.capture(|| (0..CALLS).try_for_each(|_| rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)))?;
    let rounds = if bytes > 64 << 20 { 2 } else { 10 };
    let mut least = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        rank.launch(&graph)?;
        stream.synchronize()?;
        barrier.wait();
        let start = Instant::now();
        (0..4).try_for_each(|_| rank.launch(&graph))?;
        stream.synchronize()?;
        least.0 = least.0.min(start.elapsed().as_secs_f64() * 1e6 / (4 * CALLS) as f64);
        barrier.wait();
        let start = Instant::now();
        for _ in 0..CALLS {
            rank.all_reduce_in_place(&stream, Reduce::Sum, &mut data)?;
        }
        stream.synchronize()?;
        least.1 = least.1.min(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
    }
    rank.synchronize(&stream)?;
    Ok(least)
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let found = Device::num_cuda().unwrap_or(0);
    let ranks = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(found);
    if ranks < 2 || ranks > found {
        println!("{found} GPUs, and a group has 2 or more: nothing is timed");
        return Ok(());
    }
    let devices = (0..ranks).map(Device::cuda).collect::<Result<Vec<_>, _>>()?;
    let mut options = PeerOptions::of(&devices[0]);
    let mut most = 1 << 30;
    for argument in &arguments {
        let Some((name, value)) = argument.split_once('=') else { continue };
        let number = |text: &str| text.parse::<usize>().expect("a number");
        let (first, second) = value.split_once('x').unwrap_or((value, "0"));
        match name {
            "staged" => (options.blocks, options.threads) = (number(first) as u32, number(second) as u32),
            "direct" => (options.direct.blocks, options.direct.threads) = (number(first) as u32, number(second) as u32),
            "from" => options.direct.from_bytes = number(value),
            "stage" => options.stage_bytes = number(value),
            "most" => most = number(value),
            _ => panic!("unknown option {name}"),
        }
    }
    println!("{ranks} x {}, {options:?}", devices[0].name());
    println!("{:>12} {:>12} {:>12} {:>10}", "bytes", "graph, us", "one, us", "bus, GB/s");
    let barrier = Barrier::new(ranks);
    let sizes: Vec<usize> = [10, 13, 16, 18, 19, 20, 21, 22, 24, 26, 28, 30]
        .into_iter()
        .map(|log| 1_usize << log)
        .filter(|b| *b <= most)
        .collect();
    Group::new(devices)?.with_options(options).run(|rank| -> Result<(), Error> {
        for &bytes in &sizes {
            let (graph, one) = times(rank, bytes, &barrier)?;
            if rank.rank() == 0 {
                let bus = 2.0 * (ranks - 1) as f64 / ranks as f64 * bytes as f64 / graph / 1e3;
                println!("{bytes:>12} {graph:>12.2} {one:>12.2} {bus:>10.1}");
            }
        }
        Ok(())
    })?;
    Ok(())
}
