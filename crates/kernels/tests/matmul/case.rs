//! A product to be computed on a device and on the host.

use warpfold_device::{Checks, Counters, Device, Profile};
use warpfold_kernels::matmul::{Algorithm, Choice, Matmul, Matrix, Problem};
use warpfold_kernels::plan::{Family, KernelCache, Plan, Planner, Workspace};
use warpfold_kernels::{Dtype, Error};
use warpfold_lang::{F8E4M3, F8E5M2};

/// Whole numbers small enough that every product and sum is exact, scattered enough that a swapped
/// index shows.
fn element(seed: usize, i: usize) -> f64 {
    ((i * 7919 + seed * 104_729) % 15) as f64 - 7.0
}

/// The bytes of whole numbers in a type.
fn bytes_of(dtype: Dtype, values: &[f64]) -> Vec<u8> {
    let one = |value: &f64| match dtype {
        Dtype::F16 => half::f16::from_f64(*value).to_le_bytes().to_vec(),
        Dtype::Bf16 => half::bf16::from_f64(*value).to_le_bytes().to_vec(),
        Dtype::F32 => (*value as f32).to_le_bytes().to_vec(),
        Dtype::F64 => value.to_le_bytes().to_vec(),
        Dtype::I32 => (*value as i32).to_le_bytes().to_vec(),
        Dtype::I8 => (*value as i8).to_le_bytes().to_vec(),
        Dtype::U8 => (value.abs() as u8).to_le_bytes().to_vec(),
        Dtype::F8E4M3 => vec![F8E4M3::from_f32(*value as f32).to_bits()],
        Dtype::F8E5M2 => vec![F8E5M2::from_f32(*value as f32).to_bits()],
        _ => panic!("no numbers of {dtype}"),
    };
    values.iter().flat_map(one).collect()
}

fn values_of(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    let one = |bytes: &[u8]| match dtype {
        Dtype::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        Dtype::Bf16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        Dtype::I32 => i32::from_le_bytes(bytes.try_into().unwrap()).into(),
        _ => panic!("no numbers of {dtype}"),
    };
    bytes.chunks(dtype.bytes() as usize).map(one).collect()
}

/// The sizes of a matrix and of its batch.
type Sizes = (u64, u64, [u64; Matrix::MAX_BATCH_RANK]);

/// The position of an element, counted from the one that is first in memory.
fn place(
    matrix: &Matrix,
    (rows, columns, batch): Sizes,
    at: [u64; Matrix::MAX_BATCH_RANK],
    row: u64,
    column: u64,
) -> usize {
    let sizes = batch.into_iter().chain([rows, columns]);
    let places = at.into_iter().chain([row, column]);
    let strides = matrix.batch_strides.into_iter().chain([matrix.row_stride, matrix.column_stride]);
    let walk = |((size, place), stride): ((u64, u64), i64)| {
        let from_lowest = if stride < 0 { size - 1 - place } else { place };
        from_lowest * stride.unsigned_abs()
    };
    sizes.zip(places).zip(strides).map(walk).sum::<u64>() as usize
}

/// Every position of a batch.
fn positions(batch: [u64; Matrix::MAX_BATCH_RANK]) -> Vec<[u64; Matrix::MAX_BATCH_RANK]> {
    let each = |mut i: u64| {
        let mut at = [0; Matrix::MAX_BATCH_RANK];
        for (place, size) in at.iter_mut().zip(batch).rev() {
            (*place, i) = (i % size, i / size);
        }
        at
    };
    (0..batch.iter().product()).map(each).collect()
}

pub(crate) struct Case {
    pub(crate) problem: Problem,
    /// What multiplies, in how many parts; what the family chooses otherwise.
    pub(crate) algorithm: Option<(Algorithm, u32)>,
    /// What the host makes of a sum and the inputs.
    pub(crate) finish: fn(f64, &[f64]) -> f64,
}

impl Case {
    pub(crate) fn of(problem: Problem) -> Self {
        Self { problem, algorithm: None, finish: |sum, _| sum }
    }

    fn plan(&self, device: &Device) -> Plan {
        let (target, kernels) = (device.target(), KernelCache::default());
        let planner = Planner::new(&target, device.limits(), &kernels);
        match self.algorithm {
            None => Matmul.plan(&self.problem, &planner),
            Some(algorithm) => {
                Matmul.plan_with(&choose_with(device, self.problem.clone(), algorithm).unwrap(), &planner)
            }
        }
        .unwrap()
    }
}

/// The tiles that the cost model takes.
pub(crate) fn choose(device: &Device, problem: Problem) -> Result<Choice, Error> {
    Choice::new(problem, device.target().arch, device.limits())
}

/// Tiles of the caller choice.
pub(crate) fn choose_with(device: &Device, problem: Problem, algorithm: (Algorithm, u32)) -> Result<Choice, Error> {
    Choice::with(problem, device.target().arch, device.limits(), algorithm.0, algorithm.1)
}

/// The PTX of a choice's kernels.
pub(crate) fn ptx_of(device: &Device, choice: &Choice) -> Vec<String> {
    ptx_of_plan(device, |planner| Matmul.plan_with(choice, planner))
}

/// The PTX of the kernels that compute a problem, repacks among them.
pub(crate) fn ptx_of_problem(device: &Device, problem: &Problem) -> Vec<String> {
    ptx_of_plan(device, |planner| Matmul.plan(problem, planner))
}

fn ptx_of_plan(device: &Device, plan: impl FnOnce(&Planner<'_>) -> Result<Plan, Error>) -> Vec<String> {
    let (target, kernels) = (device.target(), KernelCache::default());
    let plan = plan(&Planner::new(&target, device.limits(), &kernels)).unwrap();
    let build = |kernel: &warpfold_kernels::AnyKernel| kernel.build(&target).unwrap().ptx().to_owned();
    plan.steps.iter().map(|step| build(&step.kernel)).collect()
}

/// The elements of a matrix's memory, from the first to the last.
fn memory(matrix: &Matrix, sizes: Sizes, seed: usize) -> Vec<f64> {
    let places = positions(sizes.2).into_iter();
    let of = |b| (0..sizes.0).flat_map(move |i| (0..sizes.1).map(move |j| place(matrix, sizes, b, i, j)));
    let len = places.flat_map(of).max().map_or(1, |last| last + 1);
    let is_signed = matrix.dtype != Dtype::U8;
    (0..len).map(|i| if is_signed { element(seed, i) } else { element(seed, i).abs() }).collect()
}

/// Bytes before a matrix, so that it is aligned as it says and no better.
fn before(matrix: &Matrix) -> usize {
    if matrix.alignment < 16 { matrix.alignment as usize } else { 0 }
}

/// Runs a case and compares every element, and that nothing else was written: gives what the
/// virtual GPU counted.
#[track_caller]
pub(crate) fn check(device: &Device, case: &Case) -> Vec<Counters> {
    let plan = case.plan(device);
    let Problem { m, n, k, batch, a, b, c, ref inputs, .. } = case.problem;
    let [of_a, of_b, of_c] = [(m, k, batch), (k, n, batch), (m, n, batch)];
    let (left, right) = (memory(&a, of_a, 1), memory(&b, of_b, 2));
    let others: Vec<_> = inputs.iter().zip(3..).map(|(input, seed)| memory(input, of_c, seed)).collect();
    let upload = |matrix: &Matrix, values: &[f64]| {
        device.upload(&[vec![0xff; before(matrix)], bytes_of(matrix.dtype, values)].concat()).unwrap()
    };
    let factors = [(&a, upload(&a, &left)), (&b, upload(&b, &right))];
    let on_others = inputs.iter().zip(&others).map(|(input, values)| (input, upload(input, values)));
    let memories: Vec<_> = factors.into_iter().chain(on_others).collect();
    let mut expected = vec![f64::NAN; memory(&c, of_c, 0).len() + 4];
    for at in positions(batch) {
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let sum = (0..k).map(|l| left[place(&a, of_a, at, i, l)] * right[place(&b, of_b, at, l, j)]).sum();
            let more: Vec<_> =
                inputs.iter().zip(&others).map(|(input, values)| values[place(input, of_c, at, i, j)]).collect();
            // As the result's type has it.
            expected[place(&c, of_c, at, i, j)] =
                values_of(c.dtype, &bytes_of(c.dtype, &[(case.finish)(sum, &more)]))[0];
        }
    }
    // What is not written stays as it is: every bit set.
    let mut on_c = device.alloc::<u8>(before(&c) + expected.len() * c.dtype.bytes() as usize).unwrap();
    on_c.fill_bytes(0xff).unwrap();
    let views: Vec<_> = memories.iter().map(|(matrix, buffer)| Some(buffer.view(before(matrix)..).unwrap())).collect();
    let ready = plan.ready(device).unwrap();
    let plan = ready.plan();
    let outputs = &mut [on_c.view_mut(before(&c)..).unwrap()];
    let launched = ready.launch(&device.default_stream(), &views, outputs, &mut Workspace::new());
    launched.unwrap_or_else(|e| panic!("{plan}: {e}"));
    let untouched = values_of(c.dtype, &vec![0xff; c.dtype.bytes() as usize])[0];
    let found = values_of(c.dtype, &on_c.download().unwrap()[before(&c)..]);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let expected = if expected.is_nan() { untouched } else { *expected };
        assert!(found.to_bits() == expected.to_bits() || found == &expected, "{plan}: {found} at {i}, not {expected}");
    }
    let reports = device.take_reports().into_iter().map(|launch| launch.report);
    let counters = reports.map(|report| {
        let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{plan}: {}", findings.join("\n"));
        report.counters
    });
    counters.collect()
}

/// A virtual GPU under all checks.
pub(crate) fn checked(profile: Profile) -> Device {
    let device = Device::virtual_gpu(profile);
    device.set_checks(Checks::All).unwrap();
    device
}

/// The device that the environment names, or the virtual H200 under all checks and every GPU there
/// is.
pub(crate) fn on_every_device(test: impl Fn(&Device)) {
    on_every_device_and(Profile::H200, test);
}

/// The same with a profile of one's choice for the virtual GPU.
pub(crate) fn on_every_device_and(profile: Profile, test: impl Fn(&Device)) {
    if std::env::var_os("WARPFOLD_DEVICE").is_some() {
        return test(&Device::from_env().expect("the device that WARPFOLD_DEVICE names is there"));
    }
    test(&checked(profile));
    Device::all().into_iter().filter(|device| !device.is_virtual()).for_each(|device| test(&device));
}
