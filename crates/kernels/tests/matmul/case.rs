//! A product to be computed on a device and on the host.

use warpfold_device::{Checks, Counters, Device, Profile};
use warpfold_kernels::matmul::{BATCH_RANK, Code, Epilogue, Matrix, Operands, Plan, Problem, launch};
use warpfold_kernels::{Dtype, Workspace};
use warpfold_lang::{F8E4M3, F8E5M2};

/// Whole numbers small enough that every product and sum is exact, scattered enough that a swapped index shows.
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

/// The position of an element.
fn place(matrix: &Matrix, batch: [u64; BATCH_RANK], row: u64, column: u64) -> usize {
    let batch: i64 = batch.iter().zip(matrix.batch_strides).map(|(place, stride)| *place as i64 * stride).sum();
    let position = matrix.first as i64 + batch + row as i64 * matrix.row_stride + column as i64 * matrix.column_stride;
    position as usize
}

/// Every position of a batch.
fn positions([outer, middle, inner]: [u64; BATCH_RANK]) -> Vec<[u64; BATCH_RANK]> {
    let each = move |i: u64| [i / inner / middle, i / inner % middle, i % inner];
    (0..outer * middle * inner).map(each).collect()
}

pub(crate) struct Case {
    pub(crate) problem: Problem,
    pub(crate) epilogue: Epilogue,
    pub(crate) plan: Option<(Code, u32)>,
    /// What the host makes of a sum and the inputs.
    pub(crate) finish: fn(f64, &[f64]) -> f64,
}

impl Case {
    pub(crate) fn of(problem: Problem) -> Self {
        Self { problem, epilogue: Epilogue::new(), plan: None, finish: |sum, _| sum }
    }

    fn plan(&self, device: &Device) -> Plan {
        let (problem, epilogue) = (self.problem.clone(), self.epilogue.clone());
        match self.plan {
            None => Plan::new(problem, epilogue, device.limits()),
            Some((code, parts)) => Plan::with(problem, epilogue, device.limits(), code, parts),
        }
        .unwrap()
    }
}

/// The elements of a matrix's memory, from 0 to its last.
fn memory(matrix: &Matrix, rows: u64, columns: u64, batch: [u64; BATCH_RANK], seed: usize) -> Vec<f64> {
    let places = positions(batch).into_iter();
    let of = |b| (0..rows).flat_map(move |i| (0..columns).map(move |j| place(matrix, b, i, j)));
    let len = places.flat_map(of).max().map_or(1, |last| last + 1);
    let is_signed = matrix.dtype != Dtype::U8;
    (0..len).map(|i| if is_signed { element(seed, i) } else { element(seed, i).abs() }).collect()
}

/// Runs a case and compares every element, and that nothing else was written: gives what the virtual GPU counted.
#[track_caller]
pub(crate) fn check(device: &Device, case: &Case) -> Vec<Counters> {
    let plan = case.plan(device);
    let Problem { m, n, k, batch, a, b, c, ref inputs, .. } = case.problem;
    let (left, right) = (memory(&a, m, k, batch, 1), memory(&b, k, n, batch, 2));
    let others: Vec<_> = inputs.iter().zip(3..).map(|(input, seed)| memory(input, m, n, batch, seed)).collect();
    let upload = |matrix: &Matrix, values: &[f64]| device.upload(&bytes_of(matrix.dtype, values)).unwrap();
    let (on_a, on_b) = (upload(&a, &left), upload(&b, &right));
    let on_others: Vec<_> = inputs.iter().zip(&others).map(|(input, values)| upload(input, values)).collect();
    let mut expected = vec![f64::NAN; memory(&c, m, n, batch, 0).len() + 4];
    for at in positions(batch) {
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let sum = (0..k).map(|l| left[place(&a, at, i, l)] * right[place(&b, at, l, j)]).sum();
            let more: Vec<_> =
                inputs.iter().zip(&others).map(|(input, values)| values[place(input, at, i, j)]).collect();
            // As the result's type has it.
            expected[place(&c, at, i, j)] = values_of(c.dtype, &bytes_of(c.dtype, &[(case.finish)(sum, &more)]))[0];
        }
    }
    // What is not written stays as it is: every bit set.
    let mut on_c = device.alloc::<u8>(expected.len() * c.dtype.bytes() as usize).unwrap();
    on_c.fill_bytes(0xff).unwrap();
    let views = on_others.iter().map(|buffer| buffer.as_view()).collect();
    let operands = Operands { a: on_a.as_view(), b: on_b.as_view(), inputs: views, c: on_c.as_view_mut() };
    launch(&device.default_stream(), &plan, operands, &mut Workspace::new()).unwrap_or_else(|e| panic!("{plan}: {e}"));
    let untouched = values_of(c.dtype, &vec![0xff; c.dtype.bytes() as usize])[0];
    let found = values_of(c.dtype, &on_c.download().unwrap());
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

/// The device that the environment names, or the virtual H200 under all checks and every GPU there is.
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
