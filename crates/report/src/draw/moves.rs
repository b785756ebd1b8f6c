//! Single operators and what moves: lanes of a gemv, suppressed boxes, copies that overlap,
//! allocations, a ring of devices.

use warpfold_device::Device;
use warpfold_kernels::plan::{PlanCache, Workspace};
use warpfold_kernels::{Error as KernelError, nms};
use warpfold_ladders::all_reduce::{self, Counts};
use warpfold_ladders::allocation;
use warpfold_ladders::transfer::{self, What};

use super::Error;
use super::canvas::Canvas;
use super::measured::bars_svg;
use crate::table::grouped;

/// The elements of the first request of a warp, by rung: row, column, and the elements of a lane.
type Lanes = fn(i32) -> (i32, i32, i32);

pub(super) fn gemv_lanes(_: &Device) -> Result<String, Error> {
    let rungs: [(&str, &str, Lanes); 4] = [
        ("one_thread_a_row", "lane t reads row t: 32 rows, 32 sectors", |lane| (lane, 0, 1)),
        ("sgemv_k32", "32 lanes read 32 columns of one row: 4 sectors", |lane| (0, lane, 1)),
        ("sgemv_k128", "a lane reads 4 columns at once: 128 of one row", |lane| (0, 4 * lane, 4)),
        ("sgemv_k16", "lanes 0 to 15 read one row, 16 to 31 the next", |lane| (lane / 16, 4 * (lane % 16), 4)),
    ];
    let mut picture = Canvas::new("gemv: what a warp reads of the first 4 rows and 32 columns by its first load");
    let mut y = picture.top;
    for (name, told, of) in rungs {
        picture.text(10, y + 10, "h", name);
        picture.text(10, y + 24, "q s", told);
        y += 30;
        let place = |row: i32, column: i32| (24 + 11 * column, y + 13 * row);
        let all: Vec<_> = (0..128).map(|i| place(i / 32, i % 32)).collect();
        picture.boxes(&all, (10, 12), "p");
        let seen = |lane: &i32| {
            let (row, column, _) = of(*lane);
            row < 4 && column < 32
        };
        for lane in (0..32).filter(seen) {
            let (row, column, num) = of(lane);
            let read: Vec<_> = (column..column + num).map(|column| place(row, column)).collect();
            picture.boxes(&read, (10, 12), ["k1", "k2"][(lane % 2) as usize]);
        }
        for lane in (0..32).filter(seen) {
            let (row, column, num) = of(lane);
            if num > 1 || lane % 8 == 0 || row > 0 {
                let (x, top) = place(row, column);
                picture.text(x + 1, top + 10, "s", &lane.to_string());
            }
        }
        y += 62;
    }
    picture.text(24, y, "q s", "numbers are lanes; neighbouring lanes have two colours");
    Ok(picture.end())
}

/// Boxes of the picture, `x1, y1, x2, y2`, with their scores.
const BOXES: [([f32; 4], f32); 5] = [
    ([10.0, 10.0, 89.0, 69.0], 0.9),
    ([18.0, 16.0, 97.0, 79.0], 0.8),
    ([60.0, 30.0, 149.0, 99.0], 0.7),
    ([66.0, 24.0, 155.0, 93.0], 0.6),
    ([120.0, 70.0, 189.0, 119.0], 0.5),
];

/// What two boxes share, by what they cover together.
fn overlap(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let area = |b: &[f32; 4]| (b[2] - b[0] + 1.0) * (b[3] - b[1] + 1.0);
    let side = |i: usize| (a[i + 2].min(b[i + 2]) - a[i].max(b[i]) + 1.0).max(0.0);
    let shared = side(0) * side(1);
    shared / (area(a) + area(b) - shared)
}

/// The boxes that the operator keeps.
fn kept(device: &Device, threshold: f32) -> Result<Vec<i64>, KernelError> {
    let flat: Vec<f32> = BOXES.iter().flat_map(|(corners, _)| *corners).collect();
    let scores: Vec<f32> = BOXES.iter().map(|(_, score)| *score).collect();
    let (boxes, scores) = (device.upload(&flat)?, device.upload(&scores)?);
    let (mut indices, mut count) = (device.alloc::<i64>(BOXES.len())?, device.alloc::<i64>(1)?);
    let ready = PlanCache::default().get(device, &nms::Nms, nms::Problem::new(BOXES.len() as u64, threshold))?;
    let inputs = &[Some(boxes.as_view().bytes()), Some(scores.as_view().bytes())];
    let outputs = &mut [indices.as_view_mut().bytes(), count.as_view_mut().bytes()];
    ready.launch(&device.default_stream(), inputs, outputs, &mut Workspace::new())?;
    Ok(indices.download()?[..count.download()?[0] as usize].to_vec())
}

pub(super) fn suppression(device: &Device) -> Result<String, Error> {
    let kept = kept(device, 0.5).expect("five boxes are no problem for the virtual GPU");
    let is_kept = |i: usize| kept.contains(&(i as i64));
    let mut picture =
        Canvas::new("Five boxes by score, and the shares that pairs overlap by; over 0.50 the later one goes");
    let y = picture.top;
    for (i, (corners, score)) in BOXES.iter().enumerate() {
        let [x1, y1, x2, y2] = corners.map(|corner| corner as i32);
        let class = if is_kept(i) { "l" } else { "e" };
        for (from, to) in [((x1, y1), (x2, y1)), ((x2, y1), (x2, y2)), ((x1, y2), (x2, y2)), ((x1, y1), (x1, y2))] {
            picture.line((from.0, y + from.1 - 8), (to.0, y + to.1 - 8), class);
        }
        let place = [(x1 + 3, y1 + 4), (x1 + 3, y2 - 12), (x2 - 24, y2 - 12), (x2 - 24, y1 + 4), (x2 - 34, y2 - 12)][i];
        picture.text(place.0, y + place.1, "s", &format!("{} {score}", ["A", "B", "C", "D", "E"][i]));
    }
    let (left, side) = (228, 32);
    for (i, name) in (0..).zip(["A", "B", "C", "D", "E"]) {
        picture.text(left + side * i + 15, y + 6, "m s q", name);
        picture.text(left - 6, y + 24 + 20 * i, "n s q", name);
        for (j, (other, _)) in (0..).zip(&BOXES) {
            let at = (left + side * j, y + 10 + 20 * i);
            if j <= i {
                picture.rect(at, (side - 2, 18), "p", "");
                continue;
            }
            let share = overlap(&BOXES[i as usize].0, other);
            let class = if share > 0.5 { "k4" } else { "k0" };
            picture.cell(at, (side - 2, 18), class, &format!("{share:.2}"));
        }
        let told = if is_kept(i as usize) { ("k3", "kept") } else { ("k4", "gone") };
        picture.cell((left + side * i, y + 114), (side - 2, 18), told.0, told.1);
    }
    Ok(picture.end())
}

pub(super) fn overlapped_copies(device: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Four chunks through a GPU: each engine by step, if all steps take equally long");
    let mut y = picture.top;
    let mut instance = transfer::Instance::open(device, 1 << 12)?;
    for name in ["pinned", "depth_first", "breadth_first"] {
        let trace = instance.run(transfer::rung(name)?)?;
        assert!(trace.is_right, "a picture of {name}");
        let steps = trace.steps();
        let all = steps.iter().max().map_or(0, |last| last + 1);
        picture.text(10, y + 10, "h", name);
        picture.text(112, y + 10, "q s", &format!("{all} steps"));
        for (row, engine) in (0..).zip(["copy in", "kernel", "copy out"]) {
            picture.text(58, y + 30 + 20 * row, "n s q", engine);
            picture.rect((64, y + 18 + 20 * row), (324, 18), "p", "");
        }
        for (event, step) in trace.events.iter().zip(&steps) {
            let row = match event.what {
                What::ToDevice => 0,
                What::Kernel | What::Graph => 1,
                What::ToHost => 2,
            };
            let class = ["k1", "k2"][event.stream];
            let at = (64 + 27 * *step as i32, y + 18 + 20 * row);
            picture.cell(at, (26, 18), class, &event.chunk.to_string());
        }
        y += 90;
    }
    picture.legend(y, &[("k1", "stream 0"), ("k2", "stream 1"), ("p", "the engine is idle")]);
    Ok(picture.end())
}

pub(super) fn allocations(device: &Device) -> Result<String, Error> {
    let all = allocation::compare(device, &allocation::requests(1000))?;
    let values = all.map(|outcome| (outcome.name, outcome.allocations as f64));
    Ok(bars_svg("Scratch memory of 1,000 calls: allocations of the driver", &values))
}

/// Devices of the pictures.
const RANKS: usize = 4;

pub(super) fn ring(_: &Device) -> Result<String, Error> {
    let mut picture =
        Canvas::new("A ring of 4 devices: each box is a part of the vector, and how many devices' numbers are in it");
    let y = picture.top;
    let mut held = [[1; RANKS]; RANKS];
    for step in 0..=2 * (RANKS - 1) {
        let at = y + 14 + 26 * step as i32;
        if step > 0 {
            let before = held;
            for (rank, parts) in held.iter_mut().enumerate() {
                // What the rank before sends goes one part back with each step.
                let from = (rank + RANKS - 1) % RANKS;
                let part = (from + 2 * RANKS + 1 - step) % RANKS;
                parts[part] = if step < RANKS { before[from][part] + parts[part] } else { before[from][part] };
            }
        }
        let told = match step {
            0 => "start".to_owned(),
            step if step < RANKS => format!("add {step}"),
            step => format!("pass {}", step + 1 - RANKS),
        };
        picture.text(52, at + 14, "n s q", &told);
        for (rank, parts) in held.iter().enumerate() {
            let x = 60 + 84 * rank as i32;
            if step == 0 {
                picture.text(x + 38, y + 8, "m s", &format!("device {rank}"));
            }
            for (part, num) in (0..).zip(parts) {
                let class = ["k0", "k1", "k2", "k3"][*num as usize - 1];
                picture.cell((x + 19 * part, at), (18, 20), class, &num.to_string());
            }
        }
    }
    assert!(held.iter().flatten().all(|num| *num == RANKS as i32), "every part has all: {held:?}");
    picture.text(60, y + 210, "q s", "each device sends one part a step to the next one");
    Ok(picture.end())
}

pub(super) fn all_reduces(device: &Device) -> Result<String, Error> {
    let warpfold_device::DeviceKind::Virtual(profile) = device.kind() else {
        unreachable!("pictures are of a run here")
    };
    let mut instance = all_reduce::Instance::open(&Device::virtual_peers(profile, RANKS), 4096)?;
    let mut picture = Canvas::new("The sum of 4,096 f32 on 4 devices: steps, and what the busiest device gets");
    let y = picture.top;
    picture.text(150, y + 8, "q s", "steps");
    picture.text(196, y + 8, "q s", "bytes");
    for (i, rung) in (0..).zip(all_reduce::RUNGS) {
        let counts: Counts = instance.run(rung)?;
        assert!(counts.is_right, "a picture of {}", rung.name);
        let (at, bytes) = (y + 14 + 22 * i, counts.busiest_device());
        picture.text(140, at + 13, "n", rung.name);
        picture.text(158, at + 13, "", &counts.steps.to_string());
        picture.rect((190, at), (140, 16), "p", "");
        picture.rect((190, at), ((bytes * 140 / 49_152) as i32, 16), "b", "");
        picture.text(336, at + 13, "s", &grouped(bytes));
    }
    Ok(picture.end())
}
