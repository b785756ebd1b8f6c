//! Products with a gate: every tile that has one, and the launch of its own where there is none.

use warpfold_device::{Device, Profile};
use warpfold_kernels::matmul::{
    Activation, Algorithm, BatchInvariance, Choice, Epilogue, Matmul, Matrix, Problem, WgmmaTile,
};
use warpfold_kernels::plan::{Family, KernelCache, Plan, Planner, Workspace};
use warpfold_kernels::{Dtype, Error};

use super::case::{checked, choose, choose_with, on_every_device, on_every_device_and};

/// A product with weights that lie as steps.
fn gated(dtype: Dtype, to: Dtype, activation: Activation, [m, n, k]: [u64; 3]) -> Problem {
    Problem {
        b: Matrix::rows(dtype, k).transposed(),
        c: Matrix::rows(to, n / 2),
        epilogue: Epilogue::new().gate(activation),
        batch_invariance: BatchInvariance::On,
        ..Problem::new(dtype, m, n, k)
    }
}

fn rounded(dtype: Dtype, value: f32) -> f32 {
    match dtype {
        Dtype::Bf16 => half::bf16::from_f32(value).to_f32(),
        Dtype::F16 => half::f16::from_f32(value).to_f32(),
        _ => value,
    }
}

fn bytes_of(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    let one = |value: &f32| match dtype {
        Dtype::Bf16 => half::bf16::from_f32(*value).to_le_bytes().to_vec(),
        Dtype::F16 => half::f16::from_f32(*value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    values.iter().flat_map(one).collect()
}

/// Whole numbers, whose sums are exact.
fn numbers(seed: usize, len: u64) -> Vec<f32> {
    (0..len as usize).map(|i| ((i * 7919 + seed * 104_729) % 7) as f32 - 3.0).collect()
}

/// What a plan makes of whole numbers, with four elements behind it.
fn run(device: &Device, problem: &Problem, plan: Plan) -> Vec<u8> {
    let Problem { m, n, k, a, c, .. } = *problem;
    let (left, right) = (numbers(1, m * k), numbers(2, n * k));
    let (left, right) = (bytes_of(a.dtype, &left), bytes_of(a.dtype, &right));
    let (left, right) = (device.upload(&left).unwrap(), device.upload(&right).unwrap());
    let mut result = device.alloc::<u8>(((m * n / 2 + 4) * c.dtype.bytes()) as usize).unwrap();
    result.fill_bytes(0xff).unwrap();
    let ready = plan.ready(device).unwrap();
    let views = [Some(left.as_view()), Some(right.as_view())];
    let outputs = &mut [result.as_view_mut()];
    ready.launch(&device.default_stream(), &views, outputs, &mut Workspace::new()).unwrap();
    for launch in device.take_reports() {
        let findings: Vec<_> = launch.report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}: {}", ready.plan(), findings.join("\n"));
    }
    result.download().unwrap()
}

/// Runs a product of whole numbers whose gate is a ReLU, which is exact but for the roundings.
#[track_caller]
fn check(device: &Device, problem: &Problem, plan: Plan) {
    let Problem { m, n, k, c, .. } = *problem;
    let (left, right, text) = (numbers(1, m * k), numbers(2, n * k), plan.to_string());
    let sum = |row: u64, column: u64| {
        let terms = (0..k).map(|l| left[(row * k + l) as usize] * right[(column * k + l) as usize]);
        rounded(c.dtype, terms.sum())
    };
    let of_row = |row| {
        (0..n / 2).map(move |column| {
            let gate = column / 8 * 16 + column % 8;
            (row, gate)
        })
    };
    let results = (0..m).flat_map(of_row).map(|(row, gate)| sum(row, gate).max(0.0) * sum(row, gate + 8));
    let results: Vec<f32> = results.collect();
    let mut expected = bytes_of(c.dtype, &results);
    expected.resize(expected.len() + 4 * c.dtype.bytes() as usize, 0xff);
    let found = run(device, problem, plan);
    let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    // A product with 0 may be of either sign.
    let is_zero = |at: usize| results.get(at / c.dtype.bytes() as usize).is_some_and(|result| *result == 0.0);
    if let Some(at) = wrong.filter(|at| !is_zero(*at)) {
        panic!("{text}: byte {at} of {problem} is {}, not {}", found[at], expected[at]);
    }
}

fn plan_with(device: &Device, problem: &Problem, tile: WgmmaTile) -> Result<Plan, Error> {
    let (target, kernels) = (device.target(), KernelCache::default());
    let choice: Choice = choose_with(device, problem.clone(), (Algorithm::Wgmma(tile), 1))?;
    Matmul.plan_with(&choice, &Planner::new(&target, device.limits(), &kernels))
}

fn plan(device: &Device, problem: &Problem) -> Result<Plan, Error> {
    let (target, kernels) = (device.target(), KernelCache::default());
    Matmul.plan(problem, &Planner::new(&target, device.limits(), &kernels))
}

#[test]
fn every_tile_multiplies_a_gate_with_what_stands_beside_it() {
    on_every_device_and(Profile::H200, |device| {
        let waves = [(64, 4096), (128, 8192)].map(|(rows, columns)| WgmmaTile::wave(rows, columns, 132, 32));
        let few = [WgmmaTile::DEEP, WgmmaTile::DEEP_APART, WgmmaTile::APART, WgmmaTile::APART_NARROW];
        let mut num = 0;
        for tile in WgmmaTile::ALL.into_iter().chain(few).chain(waves) {
            for (m, n) in [(5, 32), (130, 272)] {
                for (dtype, to) in [(Dtype::Bf16, Dtype::Bf16), (Dtype::F16, Dtype::F32)] {
                    let problem = gated(dtype, to, Activation::Relu, [m, n, 96]);
                    let Ok(plan) = plan_with(device, &problem, tile) else { continue };
                    check(device, &problem, plan);
                    num += 1;
                }
            }
        }
        assert!(num >= 40, "only {num} of 52 plans are possible");
    });
}

#[test]
fn a_gate_is_exact_whatever_kernel_is_chosen() {
    on_every_device(|device| {
        for m in [1, 8, 9, 33, 64, 65, 129] {
            for dtype in [Dtype::Bf16, Dtype::F16, Dtype::F32] {
                let problem = gated(dtype, dtype, Activation::Relu, [m, 96, 64]);
                check(device, &problem, plan(device, &problem).unwrap());
            }
        }
    });
    let device = checked(Profile::A100);
    let problem = gated(Dtype::Bf16, Dtype::Bf16, Activation::Relu, [9, 96, 64]);
    let apart = plan(&device, &problem).unwrap();
    assert_eq!(apart.steps.len(), 2, "{apart}");
    check(&device, &problem, apart);
}

#[test]
fn a_gate_in_the_epilogue_and_one_by_itself_have_the_same_bits() {
    let (hopper, ampere) = (checked(Profile::H200), checked(Profile::A100));
    for activation in [Activation::Silu, Activation::GeluTanh] {
        // Sums of whole numbers are the same in any order.
        let problem = gated(Dtype::Bf16, Dtype::Bf16, activation, [17, 64, 32]);
        let (one, two) = (plan(&hopper, &problem).unwrap(), plan(&ampere, &problem).unwrap());
        assert_eq!((one.steps.len(), two.steps.len()), (1, 2));
        assert_eq!(run(&hopper, &problem, one), run(&ampere, &problem, two));
    }
}

#[test]
fn what_has_no_gate_is_refused() {
    let device = checked(Profile::H200);
    let whole = || gated(Dtype::Bf16, Dtype::Bf16, Activation::Silu, [8, 64, 2048]);
    assert!(plan(&device, &whole()).is_ok());
    assert!(plan(&device, &Problem { n: 56, ..whole() }).is_err(), "half a pair of groups");
    let more = Epilogue::new().gate(Activation::Silu).scale(2.0);
    assert!(plan(&device, &Problem { epilogue: more, ..whole() }).is_err(), "another step");
    let integers = Problem { epilogue: whole().epilogue, ..Problem::new(Dtype::I8, 8, 64, 64) };
    assert!(plan(&device, &integers).is_err(), "sums of integers");
    assert!(plan(&device, &whole().in_batch([2])).is_err(), "a batch");
    let turned = Algorithm::SwapAb(WgmmaTile::swap_ab(16, 1));
    assert!(choose_with(&device, whole(), (turned, 1)).is_err(), "rows stand in columns");
    let planned = Problem { batch_invariance: BatchInvariance::Off, ..whole() };
    assert!(matches!(choose(&device, planned).unwrap().algorithm, Algorithm::Wgmma(tile) if tile.split == 1));
}
