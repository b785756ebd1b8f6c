//! Sums of floats: their bound, their bits, and what they read and write.

use warpfold_device::{Device, Profile};
use warpfold_kernels::fold::{Cumulative, ScanChoice, ScanOrder, scan_of};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::Family;
use warpfold_kernels::{Dtype, Workspace};

use super::bench::lines;
use crate::folds::affine::scattered;
use crate::folds::spec;

/// Floats of both signs over many orders of magnitude.
fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| (f32::from(scattered(i) as u16) - 32_768.0) * 2.0_f32.powi((i * 7 % 41) as i32 - 20)).collect()
}

/// Every sum is off by no more than a rounding for each step that leads to it, of all magnitudes in
/// it.
#[track_caller]
fn check_bound(layout: &Layout, axis: usize, memory: &[f32], results: &[f32], choice: &ScanChoice) {
    for line in lines(layout, axis) {
        let (mut sum, mut magnitudes) = (0.0_f64, 0.0_f64);
        for (from, to) in line {
            let x = f64::from(memory[from as usize]);
            sum += x;
            magnitudes += x.abs();
            let bound = choice.depth() as f64 * f64::from(f32::EPSILON) / 2.0 * magnitudes;
            let error = (f64::from(results[to]) - sum).abs();
            assert!(
                error <= bound,
                "result {to} is {} for {sum}: off by {error}, not {bound}: {choice:?}",
                results[to]
            );
        }
    }
}

/// Virtual GPUs with numbers of workers, and all other devices.
fn devices() -> impl Iterator<Item = (Device, usize)> {
    let others = Device::all().into_iter().filter(|device| !device.is_virtual()).map(|device| (device, 0));
    [1, 4, 3].into_iter().map(|workers| (Device::virtual_gpu(Profile::H200), workers)).chain(others)
}

#[test]
fn sums_of_floats_keep_their_bound_and_their_bits() {
    let scan = scan_of(Cumulative::Sum, Dtype::F32, None).unwrap();
    for (shape, axis) in [(&[300_003][..], 0), (&[40_000, 40], 0), (&[600, 5000], 1), (&[1000, 70], 1)] {
        let layout = Layout::contiguous(shape).unwrap();
        let memory = floats(layout.len());
        let mut before: Option<Vec<u32>> = None;
        // One worker runs one block after the other: a tile that waited for a later one would wait
        // for ever. With more workers than cores blocks overtake each other.
        for (device, workers) in devices() {
            if device.is_virtual() {
                device.configure(|options| options.workers = Some(workers)).unwrap();
            }
            let input = device.upload(&memory).unwrap();
            let mut output = device.alloc::<f32>(layout.len()).unwrap();
            let [from, to] = [input.address(), output.address()].map(|at| vec![spec(Dtype::F32, &layout, at)]);
            let problem = scan.problem(from, to, axis, ScanOrder::default());
            let (choice, ready) = (scan.choose(&problem).unwrap(), scan.ready(&device, &problem).unwrap());
            let mut workspace = Workspace::new();
            for _ in 0..2 {
                output.fill_bytes(0xff).unwrap();
                let (inputs, written) = ([Some(input.as_view().bytes())], &mut [output.as_view_mut().bytes()]);
                ready.launch(&device.default_stream(), &inputs, written, &mut workspace).unwrap();
                let results = output.download().unwrap();
                let bits: Vec<u32> = results.iter().map(|x| x.to_bits()).collect();
                match &before {
                    None => {
                        check_bound(&layout, axis, &memory, &results, &choice);
                        before = Some(bits);
                    }
                    Some(before) => assert!(bits == *before, "{shape:?} on {device} with {workers} workers differs"),
                }
            }
        }
    }
}

#[test]
fn elements_are_read_once_and_results_written_once() {
    let device = Device::virtual_gpu(Profile::H200);
    // One worker runs one block after the other, and no block has to ask twice.
    device.configure(|options| options.workers = Some(1)).unwrap();
    // Tickets, flags and nodes take a few sectors a tile of 512 or, of columns, 256; more, but all
    // of them in L2.
    for (shape, axis, share) in [(&[1 << 18][..], 0, 10), (&[4096, 128], 1, 100), (&[1024, 256], 0, 2)] {
        let scan = scan_of(Cumulative::Sum, Dtype::F32, None).unwrap();
        let layout = Layout::contiguous(shape).unwrap();
        let input = device.upload(&floats(layout.len())).unwrap();
        let mut output = device.alloc::<f32>(layout.len()).unwrap();
        let [from, to] = [input.address(), output.address()].map(|at| vec![spec(Dtype::F32, &layout, at)]);
        let ready = scan.ready(&device, &scan.problem(from, to, axis, ScanOrder::default())).unwrap();
        let (inputs, written) = ([Some(input.as_view().bytes())], &mut [output.as_view_mut().bytes()]);
        ready.launch(&device.default_stream(), &inputs, written, &mut Workspace::new()).unwrap();
        let counters = device.last_report().unwrap().report.counters;
        let sectors = layout.len() as u64 * 4 / 32;
        assert!(counters.global_load_sectors < sectors + sectors / share, "{counters:?}");
        assert!(counters.global_store_sectors < sectors + sectors / share, "{counters:?}");
        assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{counters:?}");
    }
}
