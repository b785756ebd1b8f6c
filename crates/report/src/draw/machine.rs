//! The machine: processor and GPU, a multiprocessor, a grid, blocks and warps in time, memories.

use warpfold_device::Device;
use warpfold_kernels::Dtype;
use warpfold_ladders::ladder::{RunOptions, ladder, run};
use warpfold_ladders::reduce::{Addressing, Combine, explain};

use super::Error;
use super::canvas::{Canvas, WIDTH};
use crate::ladder::{LadderRun, ladder_roofline};
use crate::table::grouped;

/// Parts of a multiprocessor, each with a scheduler, and what one of them starts in a clock: facts
/// of sm_80 and sm_90 (CUDA C++ Programming Guide, "Compute Capabilities").
const PARTS: i32 = 4;

pub(super) fn cpu_and_gpu(device: &Device) -> Result<String, Error> {
    let limits = device.limits();
    let mut picture = Canvas::new("A CPU spends its area on few fast threads, a GPU on many");
    let mut y = picture.top;
    picture.text(10, y + 10, "h", "CPU");
    picture.text(50, y + 10, "q", "cores predict branches, reorder instructions");
    y += 18;
    for core in 0..4 {
        let x = 10 + 96 * core;
        picture.rect((x, y), (92, 62), "p", "");
        picture.cell((x + 4, y + 4), (52, 30), "k2", "control");
        picture.cell((x + 60, y + 4), (28, 30), "k1", "ALU");
        picture.cell((x + 4, y + 38), (84, 20), "k0", "L1, L2");
    }
    picture.cell((10, y + 66), (380, 18), "k0", "L3: tens of megabytes");
    y += 104;
    picture.text(10, y + 10, "h", "GPU");
    let threads = u64::from(limits.num_sms) * u64::from(limits.max_threads_per_sm);
    let told = format!("{} SMs, {} threads at once", limits.num_sms, grouped(threads));
    picture.text(50, y + 10, "q", &told);
    y += 18;
    for sm in 0..limits.num_sms as i32 {
        let (row, column) = (sm / 22, sm % 22);
        picture.rect((10 + 17 * column + 2 * (column / 11), y + 15 * row), (15, 13), "k1", &format!("SM {sm}"));
    }
    y += 15 * limits.num_sms.div_ceil(22) as i32 + 4;
    picture.cell((10, y), (380, 18), "k0", &format!("L2: {} MB", limits.l2_bytes >> 20));
    picture.cell((10, y + 22), (380, 18), "k0", &format!("global memory: {} GB", limits.memory_bytes / 1_000_000_000));
    Ok(picture.end())
}

pub(super) fn multiprocessor(device: &Device) -> Result<String, Error> {
    let limits = device.limits();
    let mut picture = Canvas::new(&format!("One of the {} SMs of an H200", limits.num_sms));
    let y = picture.top;
    let (parts, warps) = (PARTS as u32, limits.max_threads_per_sm / limits.warp_size);
    for part in 0..PARTS {
        let x = 10 + 96 * part;
        picture.rect((x, y), (92, 196), "p", "");
        let cells = [
            ("k2", 34, "scheduler"),
            ("k0", 34, "registers"),
            ("k1", 40, "32 FP32"),
            ("k3", 28, "tensor core"),
            ("k5", 28, "load, store"),
        ];
        let mut at = y + 4;
        for (class, height, word) in cells {
            let second = match word {
                "scheduler" => format!("{} warps", warps / parts),
                "registers" => grouped(u64::from(limits.registers_per_sm / parts)),
                "32 FP32" => "CUDA cores".to_owned(),
                _ => String::new(),
            };
            picture.rect((x + 4, at), (84, height), class, "");
            picture.text(x + 46, at + if second.is_empty() { height / 2 + 4 } else { 14 }, "m", word);
            if !second.is_empty() {
                picture.text(x + 46, at + 28, "m s", &second);
            }
            at += height + 4;
        }
    }
    let cache = warpfold_sim::occupancy::limits(device.arch()).data_cache_per_sm;
    let kib = |bytes: u32| bytes >> 10;
    let shared = kib(limits.shared_bytes_per_sm);
    picture.cell(
        (10, y + 200),
        (380, 20),
        "k4",
        &format!("{} KiB: L1 and shared memory (up to {shared} KiB)", kib(cache)),
    );
    let mut at = y + 238;
    let told = [
        "each scheduler starts one instruction per clock".to_owned(),
        format!(
            "at most {} threads = {warps} warps, {} blocks",
            grouped(limits.max_threads_per_sm.into()),
            limits.max_blocks_per_sm
        ),
        format!(
            "a block: at most {} threads and {} KiB shared",
            grouped(limits.max_threads_per_block.into()),
            kib(limits.shared_bytes_per_block_optin)
        ),
    ];
    for line in &told {
        picture.text(10, at, "q", line);
        at += 15;
    }
    Ok(picture.end())
}

pub(super) fn grid(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("A launch of grid (3, 2) and block (16, 4): 6 blocks of 64 threads, 2 warps each");
    let y = picture.top;
    picture.text(10, y + 10, "h", "grid");
    for (i, (by, bx)) in (0..2).flat_map(|by| (0..3).map(move |bx| (by, bx))).enumerate() {
        let class = if i == 4 { "k2" } else { "k0" };
        picture.cell((60 + 110 * bx, y + 30 * by), (106, 26), class, &format!("block ({bx}, {by})"));
    }
    picture.text(10, y + 84, "h", "block (1, 1)");
    picture.text(96, y + 84, "q", "threadIdx.x to the right, threadIdx.y down");
    let top = y + 94;
    for thread in 0..64 {
        let (tx, ty) = (thread % 16, thread / 16);
        let class = if thread < 32 { "k1" } else { "k3" };
        picture.cell((10 + 23 * tx, top + 21 * ty), (21, 19), class, &thread.to_string());
    }
    picture.legend(top + 90, &[("k1", "warp 0: threads 0 to 31"), ("k3", "warp 1: threads 32 to 63")]);
    picture.text(10, top + 126, "q s", "number in the block = threadIdx.x + blockDim.x * threadIdx.y");
    Ok(picture.end())
}

/// Blocks that start where one has ended: 4 SMs hold two blocks each.
pub(super) fn waves(_: &Device) -> Result<String, Error> {
    const SMS: usize = 4;
    const SLOTS: usize = 2;
    // The last digits are what they are: blocks of one grid rarely take equally long.
    const LENGTHS: [i32; 19] = [6, 7, 6, 6, 7, 6, 6, 7, 6, 6, 6, 7, 6, 6, 7, 6, 6, 6, 7];
    let mut picture = Canvas::new("19 blocks on 4 SMs of two blocks each: two full waves and a tail");
    let y = picture.top;
    let mut free = [0_i32; SMS * SLOTS];
    for (block, length) in LENGTHS.into_iter().enumerate() {
        // The slot that is free first takes the next block.
        let slot = (0..free.len()).min_by_key(|slot| free[*slot]).expect("there are slots");
        let (x, row) = (52 + 15 * free[slot], slot as i32);
        let class = ["k1", "k3", "k2"][block / (SMS * SLOTS)];
        picture.cell((x, y + 22 * row + 6 * (row / 2)), (15 * length - 2, 19), class, &block.to_string());
        free[slot] += length;
    }
    for sm in 0..SMS as i32 {
        picture.text(44, y + 50 * sm + 26, "n", &format!("SM {sm}"));
    }
    let end = y + 50 * SMS as i32;
    picture.arrow((52, end + 4), (WIDTH - 12, end + 4), "l");
    picture.text(WIDTH - 12, end + 20, "n q", "time");
    picture.legend(end + 26, &[("k1", "first wave"), ("k3", "second"), ("k2", "tail: most of the GPU is idle")]);
    Ok(picture.end())
}

/// Clocks that a load takes here, and instructions that follow it.
const LATENCY: i32 = 12;
const WORK: i32 = 3;

/// Which warp starts an instruction in each clock: each warp loads, waits, and computes.
fn issued(warps: usize, clocks: i32) -> Vec<Option<usize>> {
    let mut ready = vec![0; warps];
    let mut left = vec![0; warps];
    let mut last = warps - 1;
    let mut trace = Vec::new();
    for clock in 0..clocks {
        let turn = (1..=warps).map(|i| (last + i) % warps).find(|warp| ready[*warp] <= clock);
        if let Some(warp) = turn {
            last = warp;
            if left[warp] == 0 {
                (left[warp], ready[warp]) = (WORK, clock + LATENCY);
            } else {
                left[warp] -= 1;
            }
        }
        trace.push(turn);
    }
    trace
}

pub(super) fn latency(_: &Device) -> Result<String, Error> {
    const CLOCKS: i32 = 32;
    let mut picture = Canvas::new("One scheduler: while a warp waits for its load, others compute");
    let mut y = picture.top;
    let classes = ["k1", "k2", "k3", "k5"];
    for warps in [1, 2, 4] {
        let trace = issued(warps, CLOCKS);
        let busy = trace.iter().flatten().count();
        let plural = if warps == 1 { "" } else { "s" };
        picture.text(10, y + 11, "", &format!("{warps} warp{plural}: an instruction in {busy} of {CLOCKS} clocks"));
        y += 18;
        for (clock, turn) in (0..).zip(trace) {
            match turn {
                Some(warp) => picture.cell((10 + 12 * clock, y), (11, 18), classes[warp], &warp.to_string()),
                None => picture.rect((10 + 12 * clock, y), (11, 18), "e", ""),
            }
        }
        y += 32;
    }
    picture.text(10, y, "q", &format!("a load takes {LATENCY} clocks here; {WORK} instructions follow it"));
    picture.text(10, y + 15, "q", "dashed: no warp is ready");
    Ok(picture.end())
}

pub(super) fn memories(device: &Device) -> Result<String, Error> {
    let limits = device.limits();
    let kib = |bytes: u32| format!("{} KiB", bytes >> 10);
    let mut picture = Canvas::new("Who sees which memory");
    let y = picture.top;
    picture.rect((10, y), (380, 188), "p", "");
    picture.text(18, y + 15, "h", "grid");
    for block in 0..2 {
        let x = 18 + 186 * block;
        picture.rect((x, y + 22), (178, 104), "k0", "");
        picture.text(x + 6, y + 36, "h", &format!("block {block}"));
        picture.cell(
            (x + 6, y + 42),
            (166, 20),
            "k4",
            &format!("shared memory, up to {}", kib(limits.shared_bytes_per_block_optin)),
        );
        for thread in 0..2 {
            let at = x + 6 + 84 * thread;
            picture.rect((at, y + 68), (82, 52), "g", "");
            picture.text(at + 5, y + 81, "", &format!("thread {thread}"));
            picture.cell((at + 4, y + 85), (74, 15), "k2", "registers");
            picture.cell((at + 4, y + 102), (74, 15), "k5", "local");
        }
    }
    picture.cell((18, y + 132), (364, 20), "k1", &format!("global memory, {} GB", limits.memory_bytes / 1_000_000_000));
    picture.cell((18, y + 156), (180, 20), "k3", "constant, 64 KiB");
    picture.cell((202, y + 156), (180, 20), "k3", "texture (read only)");
    picture.arrow((200, y + 204), (200, y + 190), "l");
    picture.cell((10, y + 206), (380, 20), "k6", "host: copies over PCIe or NVLink-C2C");
    Ok(picture.end())
}

/// Two trees of 64 elements: which lanes of two warps work in each step.
pub(super) fn divergence(device: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Adding 64 numbers with two warps: lanes at work");
    let mut y = picture.top;
    let elements: Vec<f32> = (1..=64_u8).map(f32::from).collect();
    for (addressing, told) in [
        (Addressing::Naive, "naive: if (tid % (2 * stride) == 0); both ways are taken"),
        (Addressing::Sequential, "sequential: if (tid < stride); warp 1 skips as a whole"),
    ] {
        picture.text(10, y + 10, "s", told);
        y += 16;
        for step in explain(device, &elements, addressing, Combine::Sum)? {
            let works = |thread: usize| step.additions.iter().any(|addition| addition.thread == thread);
            let mut diverges = 0;
            let mut places = [("b", Vec::new()), ("o", Vec::new()), ("p", Vec::new())];
            for warp in 0..2 {
                let at_work = (0..32).filter(|lane| works(32 * warp + lane)).count();
                diverges += usize::from(!matches!(at_work, 0 | 32));
                for lane in 0..32 {
                    let kind = match () {
                        () if works(32 * warp + lane) => 0,
                        () if at_work > 0 => 1,
                        () => 2,
                    };
                    places[kind].1.push((24 + 5 * lane as i32 + 162 * warp as i32, y));
                }
            }
            for (class, places) in &places {
                picture.boxes(places, (4, 12), class);
            }
            picture.text(20, y + 10, "n q s", &step.stride.to_string());
            let word = if diverges > 0 { "diverges" } else { "agrees" };
            picture.text(WIDTH - 4, y + 10, "n q s", word);
            y += 15;
        }
        y += 8;
    }
    picture.legend(y, &[("b", "at work"), ("o", "waits"), ("p", "its warp skips the branch")]);
    Ok(picture.end())
}

/// The roofline of some rungs of `sgemm`.
pub(super) fn roofline(device: &Device) -> Result<String, Error> {
    let of = ladder("sgemm")?;
    let names = ["naive", "coalesced", "shared", "tile_2d"];
    let options = RunOptions { rungs: names.map(str::to_owned).to_vec(), record: Some(0), ..RunOptions::default() };
    let report = run(device, of, of.parse_size("256")?, Dtype::F32, &options)?;
    let figures = ladder_roofline(LadderRun { ladder: of, report: &report, device }).expect("the H200 is known");
    let record = serde_json::json!(figures);
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let (bandwidth, flat) = (number(&record["gigabytes_per_second"]), number(&record["teraflops_per_second"]));
    let mut picture = Canvas::new("Roofline of an H200, f32 on CUDA cores, and what rungs of sgemm may reach");
    let top = picture.top + 8;
    // From 1/32 to 128 operations per byte, from 0.25 to 128 TFLOP/s; a doubling has 28 and 20
    // units.
    let x = |ratio: f64| 40 + ((ratio.log2() + 5.0) * 28.0).round() as i32;
    let y = |tera: f64| top + 180 - ((tera.log2() + 2.0) * 20.0).round() as i32;
    let roof = |ratio: f64| flat.min(ratio * bandwidth / 1e3);
    for power in -5..=7 {
        let ratio = 2_f64.powi(power);
        let word = if power < 0 { format!("1/{}", 2_i32.pow(power.unsigned_abs())) } else { format!("{ratio}") };
        picture.text(x(ratio), top + 196, "m s q", &word);
    }
    for power in [-2, 0, 2, 4, 6] {
        picture.text(34, y(2_f64.powi(power)) + 4, "n s q", &format!("{}", 2_f64.powi(power)));
    }
    picture.line((40, top), (40, top + 182), "l");
    picture.line((40, top + 182), (WIDTH - 10, top + 182), "l");
    let ridge = flat * 1e3 / bandwidth;
    picture.line((x(0.0625), y(roof(0.0625))), (x(ridge), y(flat)), "l");
    picture.line((x(ridge), y(flat)), (x(128.0), y(flat)), "l");
    picture.text(x(0.5) - 8, y(roof(0.5)) - 12, "n s", &format!("{bandwidth} GB/s"));
    picture.text(x(128.0), y(flat) - 6, "n s", &format!("{flat} TFLOP/s"));
    picture.line((x(ridge), y(flat)), (x(ridge), top + 182), "d");
    picture.text(x(ridge) + 4, top + 176, "s q", &format!("ridge: {ridge:.1}"));
    for (i, rung) in (0..).zip(record["rungs"].as_array().expect("rungs")) {
        let ratio = number(&rung["flops_per_byte"]);
        let (x, y) = (x(ratio), y(roof(ratio)));
        picture.rect((x - 4, y - 4), (8, 8), "b", "");
        // The last two stand close: one's name goes lower.
        picture.text(
            x + 8,
            y + if i == 2 { 26 } else { 12 },
            "s",
            &format!("{} {ratio:.2}", rung["name"].as_str().unwrap_or_default()),
        );
    }
    picture.text(WIDTH - 10, top + 212, "n q s", "FLOP per byte of global memory");
    picture.text(46, top + 4, "q s", "TFLOP/s");
    Ok(picture.end())
}
