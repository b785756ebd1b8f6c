//! Times every way to run an attention, for the constants of its plan: needs a GPU.
//!
//! `cargo bench -p warpfold-bench --bench attention -- cuda:0 prefill:128:32:8:4096 …` prints for
//! each shape (`prefill` or `causal`, of f8e4m3 `prefill8` or `causal8`, head size, query heads,
//! heads of keys, length; `decode` with the batch as a sixth number) the time of each choice, in
//! turns, and marks the planned one; where blocks share keys, merged by the last of them and by
//! another launch. `left` is the kernel without the tree of segments: what the fixed order costs.

use std::time::Duration;

use warpfold_bench::attention::Shape;
use warpfold_device::Device;
use warpfold_kernels::Workspace;
use warpfold_kernels::attention::{Algorithm, Attention, Choice, Order, WgmmaTile, segment_keys};
use warpfold_kernels::plan::{KernelCache, Planner};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [device, shapes @ ..] = arguments.as_slice() else {
        println!("nothing to time: give a device and shapes, such as cuda:0 causal:128:32:8:4096");
        return;
    };
    let device = Device::parse(device).expect("the device is there");
    for shape in shapes {
        let shape: Shape = shape.parse().expect("a shape");
        time_all(&device, shape);
    }
}

fn time_all(device: &Device, shape: Shape) {
    let problem = shape.problem();
    let (target, kernels) = (device.target(), KernelCache::default());
    let planner = Planner::new(&target, device.limits(), &kernels);
    let planned = Attention.choose(&problem, &planner);
    let mut choices = vec![planned];
    if let Algorithm::Wgmma(tile) = planned.algorithm {
        let most = if tile.keys == 128 && problem.head_dim <= 64 && tile.element_bytes == 2 { 3 } else { 2 };
        let room = device.limits().shared_bytes_per_block_optin;
        // Few rows need one warpgroup, many at least two.
        for consumers in tile.consumers.min(2)..=if tile.consumers == 1 { 1 } else { most } {
            for blocks in 1..=if consumers == 1 { 2 } else { 1 } {
                for stages in [2, 3, 4, 5, 6, 8] {
                    for (ping_pong, keeps_states) in [(false, false), (true, false), (false, true), (true, true)] {
                        let other = WgmmaTile { consumers, blocks, stages, ping_pong, keeps_states, ..tile };
                        let bytes = other.shared_bytes(problem.head_dim as u32, problem.value_dim as u32);
                        let is_possible = bytes + 1024 * blocks <= room / blocks;
                        if is_possible && (!ping_pong || consumers == 2) {
                            choices.push(Choice { algorithm: Algorithm::Wgmma(other), ..planned });
                        }
                    }
                }
            }
        }
    }
    let segments = problem.max_keys().div_ceil(segment_keys(problem.head_dim, problem.value_dim).into());
    choices.push(Choice { splits: 1, segments, order: Order::OneSegment, ..planned });
    for per_part in [1, 2, 3, 4, 6, 8, 16].into_iter().filter(|per_part| *per_part < segments) {
        // Merged by the last block, and by another launch.
        for single_launch in [true, false] {
            choices.push(Choice { splits: segments.div_ceil(per_part), segments: per_part, single_launch, ..planned });
        }
    }
    let plan = Attention.plan_with(&problem, planned, &planner).expect("a plan for the shape");
    let mut memory = shape.memory(device, &plan).expect("memory for the shape");
    let mut workspace = Workspace::new();
    println!("{shape} on {device}");
    for choice in choices {
        let ready = Attention.plan_with(&problem, choice, &planner).and_then(|plan| plan.ready(device));
        let time: Result<Duration, _> = ready.and_then(|ready| Ok(memory.time(&ready, &mut workspace)?.median));
        let mark = if choice == planned { "*" } else { " " };
        match time {
            Ok(time) => {
                let flops = shape
                    .flops()
                    .map_or_else(String::new, |f| format!("{:.0} TFLOP/s", f as f64 / time.as_secs_f64() / 1e12));
                let speed = shape.bytes() as f64 / time.as_secs_f64() / 1e9;
                println!("{mark} {:9.2} us {speed:6.0} GB/s {flops:>13}  {choice}", time.as_secs_f64() * 1e6);
            }
            Err(error) => println!("{mark} {choice}: {error}"),
        }
    }
}
