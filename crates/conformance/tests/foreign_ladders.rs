//! Each rung written in CUDA C++ and compiled by nvcc stands in for the rung of the library: the
//! same arguments, a right result, and the same traffic.

use warpfold_conformance::foreign::fixtures;
use warpfold_device::{Counters, Device, Function, Profile};
use warpfold_kernels::Dtype;
use warpfold_ladders::ladder::{Guards, Instance, Rung, ladder};

/// What a kernel does to memory and how often its blocks wait. Instructions differ: two compilers
/// chose them.
fn traffic(c: &Counters) -> [(&'static str, u64); 16] {
    [
        ("shared load requests", c.shared_load_requests),
        ("shared load wavefronts", c.shared_load_wavefronts),
        ("shared load bank conflicts", c.shared_load_bank_conflicts),
        ("shared store requests", c.shared_store_requests),
        ("shared store wavefronts", c.shared_store_wavefronts),
        ("shared store bank conflicts", c.shared_store_bank_conflicts),
        ("global load requests", c.global_load_requests),
        ("global load sectors", c.global_load_sectors),
        ("global load bytes", c.global_load_bytes),
        ("global store requests", c.global_store_requests),
        ("global store sectors", c.global_store_sectors),
        ("global store bytes", c.global_store_bytes),
        ("global atomics", c.global_atomics),
        ("shared atomics", c.shared_atomics),
        ("local requests", c.local_requests),
        ("barriers", c.barriers),
    ]
}

/// Launches one kernel as the rung, judges its result, and tells its traffic.
#[track_caller]
fn run(device: &Device, instance: &mut dyn Instance, rung: &Rung, size: u64, function: &Function) -> Counters {
    drop(device.take_reports());
    instance.reset(rung).expect("the data fits the device");
    let arguments = instance.arguments(rung, 0).expect("the device tells addresses");
    let launched = device.default_stream().launch_raw(function, (rung.launches[0].config)(size), &arguments);
    launched.unwrap_or_else(|e| panic!("{} of {size}: {e}", function.info().name));
    drop(arguments);
    let verdict = instance.verdict(rung).expect("the result can be read");
    assert!(verdict.ok, "{} of {size}: wrong by {}", function.info().name, verdict.max_error);
    device.last_report().expect("a launch leaves a report").report.counters
}

/// Compares every rung of a ladder with the entry of its name in nvcc's text, for both
/// architectures.
#[track_caller]
fn check(name: &str, file: &str, dtype: Dtype, sizes: &[u64]) {
    let device = Device::virtual_gpu(Profile::H200);
    let ladder = ladder(name).expect("the ladder exists");
    for arch in ["sm_80", "sm_90a"] {
        let path = fixtures().join(format!("nvcc/{file}.{arch}.ptx"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let module = device.load(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for &size in sizes {
            let mut instance = (ladder.open)(&device, dtype, size, Guards::Bands).expect("the data fits the device");
            for rung in ladder.rungs {
                let own = rung.launches[0].kernel(dtype, size).prepare(&device).expect("the rung builds");
                let foreign = module.kernel(rung.name).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let own = run(&device, &mut *instance, rung, size, &own);
                let foreign = run(&device, &mut *instance, rung, size, &foreign);
                assert_eq!(traffic(&foreign), traffic(&own), "{name} {} of {size}, {arch}", rung.name);
            }
        }
    }
}

/// Around a warp, a block, two blocks; not a multiple of four; many blocks.
const SIZES: [u64; 9] = [0, 1, 31, 255, 256, 513, 1023, 10_007, 1 << 18];

#[test]
fn nvcc_adds_vectors_with_the_traffic_of_the_ladder() {
    check("vector-add", "vector_add", Dtype::F32, &SIZES);
}

#[test]
fn nvcc_reduces_with_the_traffic_of_the_ladder() {
    check("reduce", "reduce", Dtype::I32, &SIZES);
}

#[test]
fn nvcc_reduces_in_one_block_with_the_traffic_of_the_lessons() {
    check("reduce-lessons", "reduce_lessons", Dtype::F32, &[0, 1, 33, 777, 2047, 2048]);
}
