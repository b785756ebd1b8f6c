//! Non-maximum suppression, on every device at hand, against the one that goes box by box.

use std::cmp::Ordering;

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::ErrorKind;
use warpfold_kernels::nms::{Choice, Nms, Problem};
use warpfold_kernels::plan::{KernelCache, Plan, Planner, Workspace};

/// What non-maximum suppression is, box by box: the indices of the boxes that are kept, in
/// descending order of their scores.
fn nms(boxes: &[[f32; 4]], scores: &[f32], threshold: f32) -> Vec<i64> {
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    // A stable sort keeps the lower index first.
    order.sort_by(|a, b| descending(scores[*a], scores[*b]));
    let mut kept: Vec<usize> = Vec::new();
    for i in order {
        if kept.iter().all(|before| !suppresses(boxes[*before], boxes[i], threshold)) {
            kept.push(i);
        }
    }
    kept.into_iter().map(|i| i as i64).collect()
}

/// The higher score first, NaN last.
fn descending(a: f32, b: f32) -> Ordering {
    b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn suppresses(a: [f32; 4], b: [f32; 4], threshold: f32) -> bool {
    let area = |[x1, y1, x2, y2]: [f32; 4]| (x2 - x1 + 1.0) * (y2 - y1 + 1.0);
    let width = (a[2].min(b[2]) - a[0].max(b[0]) + 1.0).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1]) + 1.0).max(0.0);
    let common = width * height;
    common / (area(a) + area(b) - common) > threshold
}

fn devices() -> Vec<Device> {
    let devices = Device::all();
    for device in devices.iter().filter(|device| device.is_virtual()) {
        device.set_checks(Checks::All).unwrap();
    }
    devices
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks(8).map(|word| i64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// What stands in the output where no result is.
const UNTOUCHED: i64 = -1;

fn planned(device: &Device, choice: Choice, threshold: f32) -> Result<Plan, warpfold_kernels::Error> {
    let (target, kernels) = (device.target(), KernelCache::default());
    let problem = Problem::new(choice.num_boxes.into(), threshold);
    Nms.plan_with(&problem, choice, &Planner::new(&target, device.limits(), &kernels))
}

/// Runs a plan and compares with the reference; gives the indices that are kept.
#[track_caller]
fn check_plan(device: &Device, plan: &Choice, boxes: &[[f32; 4]], scores: &[f32], threshold: f32) -> Vec<i64> {
    let on_device_boxes = device.upload(&bytes(boxes.as_flattened())).unwrap();
    let on_device_scores = device.upload(&bytes(scores)).unwrap();
    let mut indices = device.upload(&vec![0xff_u8; 8 * boxes.len() + 8]).unwrap();
    let mut count = device.alloc::<u8>(8).unwrap();
    if device.is_virtual() {
        drop(device.take_reports());
    }
    let inputs = [Some(on_device_boxes.as_view()), Some(on_device_scores.as_view())];
    let outputs = &mut [indices.as_view_mut(), count.as_view_mut()];
    let ready = planned(device, *plan, threshold).unwrap().ready(device).unwrap();
    ready.launch(&device.default_stream(), &inputs, outputs, &mut Workspace::new()).unwrap();
    for launch in if device.is_virtual() { device.take_reports() } else { Vec::new() } {
        let findings: Vec<_> = launch.report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{plan}: {}", findings.join("\n"));
        let counters = launch.report.counters;
        assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{plan}");
    }
    let expected = nms(boxes, scores, threshold);
    let mut found = words(&indices.download().unwrap());
    assert_eq!(words(&count.download().unwrap()), [expected.len() as i64], "{plan} on {device}");
    let behind = found.split_off(expected.len());
    assert_eq!(found, expected, "{plan} on {device}");
    assert!(behind.iter().all(|index| *index == UNTOUCHED), "{plan} on {device}: {behind:?}");
    found
}

#[track_caller]
fn check(device: &Device, boxes: &[[f32; 4]], scores: &[f32], threshold: f32) -> Vec<i64> {
    check_plan(device, &Choice::new(boxes.len() as u64).unwrap(), boxes, scores, threshold)
}

fn random(i: usize) -> f32 {
    let z = (i as u64).wrapping_add(0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ z >> 31).wrapping_mul(0x94d0_49bb_1331_11eb) >> 40) as f32 / 16_777_216.0
}

/// Boxes of different sizes around some places, and their scores.
fn scene(len: usize, num_places: usize) -> (Vec<[f32; 4]>, Vec<f32>) {
    let of = |i: usize| {
        let place = i % num_places;
        let (x, y) =
            (random(place) * 500.0 + random(i + 1_000) * 12.0, random(place + 77) * 500.0 + random(i + 5_000) * 12.0);
        [x, y, x + 10.0 + random(i + 9_000) * 30.0, y + 10.0 + random(i + 13_000) * 30.0]
    };
    ((0..len).map(of).collect(), (0..len).map(|i| random(i + 40_000)).collect())
}

#[test]
fn what_is_kept_is_what_the_reference_keeps_at_any_number_of_boxes() {
    for device in &devices() {
        println!("on {device}");
        for len in [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 700, 1500] {
            for num_places in [1, 7, 300] {
                let (boxes, scores) = scene(len, num_places);
                for threshold in [0.0, 0.3, 0.7] {
                    check(device, &boxes, &scores, threshold);
                }
            }
        }
    }
}

#[test]
fn parts_of_any_size_keep_the_same() {
    for device in &devices() {
        let (boxes, scores) = scene(1000, 60);
        for groups in [1, 2, 3, 15, 16] {
            let plan = Choice { part: groups * u64::BITS, ..Choice::new(1000).unwrap() };
            check_plan(device, &plan, &boxes, &scores, 0.4);
        }
    }
}

#[test]
fn equal_scores_go_by_index_and_nan_comes_last() {
    let far_apart: Vec<_> = (0..200).map(|i| [i as f32 * 10.0, 0.0, i as f32 * 10.0 + 5.0, 5.0]).collect();
    let special = [f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.0, -f32::NAN, -1.0, 1e-42, -1e-42];
    let scores: Vec<_> = (0..200).map(|i| special[i % special.len()]).collect();
    for device in &devices() {
        let kept = check(device, &far_apart, &scores, 0.5);
        assert_eq!(kept.len(), 200);
        assert_eq!(kept[..2], [3, 13]);
        assert_eq!(kept[60..64], [1, 2, 11, 12]);
        assert_eq!(kept[198..], [190, 196]);
    }
}

#[test]
fn the_overlap_counts_pixels() {
    // Two of three columns in common, each box two wide: 2 x 2 pixels, of which 2 are common, are a
    // third of 6.
    let boxes = [[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0]];
    for device in &devices() {
        assert_eq!(check(device, &boxes, &[0.9, 0.8], 0.34), [0, 1]);
        assert_eq!(check(device, &boxes, &[0.9, 0.8], 0.33), [0]);
        assert_eq!(check(device, &boxes, &[0.8, 0.9], 0.33), [1]);
        // Neighbours without a common pixel, and a box without width that counts one.
        let boxes = [[0.0, 0.0, 1.0, 1.0], [2.0, 0.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]];
        assert_eq!(check(device, &boxes, &[4.0, 3.0, 2.0, 1.0], 0.5), [0, 1, 2]);
        // Equal to the threshold is not above it.
        assert_eq!(check(device, &boxes[2..], &[1.0, 0.0], 1.0), [0, 1]);
    }
}

#[test]
fn a_suppressed_box_suppresses_nothing() {
    // Each overlaps its neighbour only: the second falls to the first, so that the third stays.
    let boxes: Vec<_> = (0..300).map(|i| [i as f32 * 4.0, 0.0, i as f32 * 4.0 + 6.0, 9.0]).collect();
    let scores: Vec<_> = (0..300).map(|i| 1.0 - i as f32 / 512.0).collect();
    for device in &devices() {
        let kept = check(device, &boxes, &scores, 0.25);
        assert_eq!(kept, (0..300).step_by(2).collect::<Vec<_>>());
    }
}

#[test]
fn odd_boxes_follow_the_formula() {
    let odd = [
        [f32::NAN, 0.0, 5.0, 5.0],
        [0.0, 0.0, f32::INFINITY, 5.0],
        [5.0, 5.0, 0.0, 0.0],
        [0.0, 0.0, -1.0, 5.0],
        [0.0, 0.0, 5.0, 5.0],
        [1e30, 1e30, 2e30, 2e30],
        [-3.0, -3.0, 5.0, 5.0],
    ];
    let boxes: Vec<_> = (0..210).map(|i| odd[i * i % odd.len()].map(|side| side + (i / 90) as f32)).collect();
    let scores: Vec<_> = (0..210).map(random).collect();
    for device in &devices() {
        for threshold in [-1.0, 0.0, 0.4, 2.0, f32::NAN, f32::INFINITY] {
            check(device, &boxes, &scores, threshold);
        }
    }
}

#[test]
fn many_boxes_come_in_parts() {
    let plan = Choice::new(16_384).unwrap();
    assert_eq!(plan.to_string(), "16384 boxes: sorted by counting, then 1 part(s) of up to 16384");
    let plan = Choice::new(1 << 20).unwrap();
    assert_eq!(plan.to_string(), "1048576 boxes: sorted by counting, then 2048 part(s) of up to 512");
    let scratch = planned(&Device::virtual_gpu(Profile::H200), plan, 0.5).unwrap().scratch;
    assert!(scratch.iter().sum::<u64>() < 96 << 20, "{scratch:?}");
    assert_eq!(plan.parts().last(), Some(((1 << 20) - 512, 1 << 20)));
    let error = Choice::new(1 << 32).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::virtual_gpu(Profile::H200);
    let plan = Choice::new(2).unwrap();
    let memory = device.alloc_zeroed::<u8>(64).unwrap();
    let (mut indices, mut count) = (device.alloc::<u8>(24).unwrap(), device.alloc::<u8>(8).unwrap());
    let mut attempt = |plan: &Choice, boxes: usize, indices_from: usize| {
        let inputs = [Some(memory.view(..boxes).unwrap()), Some(memory.view(..8).unwrap())];
        let outputs = &mut [indices.view_mut(indices_from..).unwrap(), count.as_view_mut()];
        let ready = planned(&device, *plan, 0.5).and_then(|plan| plan.ready(&device));
        let done =
            ready.and_then(|ready| ready.launch(&device.default_stream(), &inputs, outputs, &mut Workspace::new()));
        done.map_err(|error| error.to_string())
    };
    assert_eq!(attempt(&plan, 31, 0).unwrap_err(), "nms: boxes needs 32 bytes, not 31");
    assert_eq!(attempt(&plan, 32, 4).unwrap_err(), "nms: indices does not begin at a multiple of 8 bytes");
    let halves = Choice { part: 32, ..plan };
    assert_eq!(attempt(&halves, 32, 0).unwrap_err(), "nms: a part has a multiple of 64 boxes, not 32");
    attempt(&plan, 32, 8).unwrap();
    assert_eq!(words(&count.download().unwrap()), [1]);
}
