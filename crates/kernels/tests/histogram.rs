//! Histograms, on every device at hand: every plan, type of values, length and alignment.

use warpfold_device::{Checks, Device, Profile, View, ViewMut};
use warpfold_kernels::histogram::{Algorithm, Choice, Histogram, Problem};
use warpfold_kernels::plan::{Family, Workspace};
use warpfold_kernels::{Dtype, Error, ErrorKind};

const INTEGERS: [Dtype; 8] =
    [Dtype::U8, Dtype::I8, Dtype::U16, Dtype::I16, Dtype::U32, Dtype::I32, Dtype::U64, Dtype::I64];

/// The bytes of a value, and the value that they stand for.
fn bytes_of(dtype: Dtype, value: i128) -> (Vec<u8>, i128) {
    macro_rules! of {
        ($rust:ty) => {
            ((value as $rust).to_le_bytes().to_vec(), i128::from(value as $rust))
        };
    }
    match dtype {
        Dtype::U8 => of!(u8),
        Dtype::I8 => of!(i8),
        Dtype::U16 => of!(u16),
        Dtype::I16 => of!(i16),
        Dtype::U32 => of!(u32),
        Dtype::I32 => of!(i32),
        Dtype::U64 => of!(u64),
        Dtype::I64 => of!(i64),
        other => unreachable!("{other} is no integer type"),
    }
}

fn devices() -> Vec<Device> {
    let devices = Device::all();
    for device in devices.iter().filter(|device| device.is_virtual()) {
        device.set_checks(Checks::All).unwrap();
    }
    devices
}

/// Scattered values, mostly within the bins, with both ends of the type's range among them.
fn scattered(i: usize, bins: usize) -> i128 {
    match i % 97 {
        13 => -1,
        14 => i128::MAX,
        15 => i128::MIN >> 1,
        16 => bins as i128,
        17 => i128::from(i64::MIN),
        _ => (i.wrapping_mul(2_654_435_761) >> 7).rem_euclid(bins + 3) as i128,
    }
}

/// Counts values by the plan of a problem.
fn count(device: &Device, problem: Problem, values: View<'_, u8>, counts: ViewMut<'_, u8>) -> Result<(), Error> {
    let ready = Histogram.ready(device, &problem)?;
    ready.launch(&device.default_stream(), &[Some(values)], &mut [counts], &mut Workspace::new())
}

#[track_caller]
fn check(device: &Device, dtype: Dtype, bins: usize, shift: usize, values: impl IntoIterator<Item = i128>) -> Choice {
    let values: Vec<_> = values.into_iter().map(|value| bytes_of(dtype, value)).collect();
    let bytes: Vec<u8> = vec![0; shift].into_iter().chain(values.iter().flat_map(|(bytes, _)| bytes.clone())).collect();
    let problem = Problem { dtype, len: values.len() as u64, bins: bins as u64 };
    let plan = Choice::new(problem, device.limits()).unwrap();
    let input = device.upload(&bytes).unwrap();
    // Four bytes on either side, which no count may touch.
    let mut counts = device.upload(&vec![0xa5_u8; 4 * bins + 8]).unwrap();
    if device.is_virtual() {
        drop(device.take_reports());
    }
    let output = counts.view_mut(4..4 + 4 * bins).unwrap();
    count(device, problem, input.view(shift..).unwrap(), output).unwrap();
    let at = format!("{plan}, shifted by {shift}, on {device}");
    for report in if device.is_virtual() { device.take_reports() } else { Vec::new() } {
        let findings: Vec<_> = report.report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{at}: {}", findings.join("\n"));
    }
    let counts = counts.download().unwrap();
    let (guards, counts) = ([&counts[..4], &counts[4 * bins + 4..]], &counts[4..4 * bins + 4]);
    assert_eq!(guards, [[0xa5; 4]; 2], "{at}");
    let counts: Vec<i32> = counts.chunks(4).map(|count| i32::from_le_bytes(count.try_into().unwrap())).collect();
    assert_eq!(counts, Histogram::reference(values.iter().map(|(_, value)| *value), bins), "{at}");
    plan
}

#[test]
fn counts_are_exact_for_every_integer_type_and_length() {
    for device in &devices() {
        println!("on {device}");
        for dtype in INTEGERS {
            for len in [0, 1, 2, 15, 16, 17, 31, 255, 1000, 8191, 20_011] {
                for bins in [1, 2, 100, 256] {
                    check(device, dtype, bins, 0, (0..len).map(|i| scattered(i, bins)));
                }
            }
        }
    }
}

#[test]
fn values_may_begin_at_any_multiple_of_their_size() {
    for device in &devices() {
        for dtype in INTEGERS {
            for shift in (0..16).step_by(dtype.bytes() as usize) {
                for len in [1, 9, 40, 3001] {
                    check(device, dtype, 77, shift, (0..len).map(|i| scattered(i, 77)));
                }
            }
        }
    }
}

#[test]
fn any_number_of_bins_is_counted() {
    for device in &devices() {
        for (bins, len, expected) in [
            (0, 1000, None),
            (8, 1, Some(Algorithm::Copies(4))),
            (4000, 100_000, Some(Algorithm::Copies(4))),
            (8000, 100_000, Some(Algorithm::Copies(2))),
            (10_000, 200_000, Some(Algorithm::Copies(1))),
            (30_000, 400_000, Some(Algorithm::Copies(1))),
            (30_000, 50_000, Some(Algorithm::Global)),
            (100_000, 1_000_000, Some(Algorithm::Global)),
        ] {
            let plan = check(device, Dtype::I32, bins, 0, (0..len).map(|i| scattered(i, bins)));
            if device.is_virtual() {
                assert_eq!(plan.launch.map(|_| plan.algorithm), expected, "{plan}");
            }
        }
    }
}

#[test]
fn types_that_reach_fewer_bins_leave_the_others_empty() {
    for device in &devices() {
        for dtype in [Dtype::U8, Dtype::I8, Dtype::I16] {
            let plan = check(device, dtype, 70_000, 0, (0..5000).map(|i| scattered(i, 70_000)));
            assert!(plan.limit <= 1 << 15);
        }
    }
}

#[test]
fn equal_values_are_all_counted_and_no_two_lanes_meet_in_a_bank() {
    for device in &devices() {
        let plan = check(device, Dtype::U8, 256, 3, (0..100_000).map(|_| 200));
        assert_eq!(plan.algorithm, Algorithm::Copies(32));
    }
    let device = Device::virtual_gpu(Profile::H200);
    for (dtype, bins) in [(Dtype::U8, 256), (Dtype::I8, 100)] {
        let values: Vec<u8> = (0..50_000).flat_map(|i| bytes_of(dtype, scattered(i, bins) % 300).0).collect();
        let input = device.upload(&values).unwrap();
        let mut counts = device.alloc::<u8>(4 * bins).unwrap();
        let problem = Problem { dtype, len: 50_000, bins: bins as u64 };
        let plan = Choice::new(problem, device.limits()).unwrap();
        count(&device, problem, input.as_view(), counts.as_view_mut()).unwrap();
        let counters = device.last_report().unwrap().report.counters;
        assert!(counters.shared_atomics > 0);
        assert_eq!(counters.shared_atomic_bank_conflicts, 0, "{plan}");
        assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{plan}");
    }
}

#[test]
fn adding_the_copies_of_a_bin_never_conflicts() {
    let device = Device::virtual_gpu(Profile::H200);
    let input = device.upload(&vec![0_u8; 200_000]).unwrap();
    for (dtype, bins) in [
        (Dtype::U8, 100),
        (Dtype::U8, 256),
        (Dtype::U16, 100),
        (Dtype::U16, 5000),
        (Dtype::U16, 9000),
        (Dtype::U16, 18_000),
    ] {
        let mut counts = device.alloc::<u8>(4 * bins).unwrap();
        let problem = Problem { dtype, len: 100_000, bins: bins as u64 };
        let plan = Choice::new(problem, device.limits()).unwrap();
        count(&device, problem, input.as_view(), counts.as_view_mut()).unwrap();
        let counters = device.last_report().unwrap().report.counters;
        assert_eq!(counters.shared_load_bank_conflicts + counters.shared_store_bank_conflicts, 0, "{plan}");
    }
}

#[test]
fn every_plan_has_enough_bytes_under_way() {
    let device = Device::virtual_gpu(Profile::H200);
    for bins in [10, 256, 1000, 10_000, 1 << 20] {
        for dtype in INTEGERS {
            let plan = Choice::new(Problem { dtype, len: 1 << 30, bins }, device.limits()).unwrap();
            let bytes = plan.bytes_in_flight(device.limits());
            println!("{plan}: {bytes} bytes in flight");
            assert!(bytes >= 48 << 10, "{plan}: {bytes}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::virtual_gpu(Profile::H200);
    let plan = |dtype, len, bins| Choice::new(Problem { dtype, len, bins }, device.limits());
    let error = plan(Dtype::F32, 4, 4).unwrap_err();
    assert_eq!(error.to_string(), "histogram does not take elements of type f32");
    for (len, bins) in [(4, (1 << 31) + 1), (1 << 31, 4)] {
        let error = plan(Dtype::U8, len, bins).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    }
    plan(Dtype::U8, (1 << 31) - 1, 1 << 31).unwrap();

    let problem = Problem { dtype: Dtype::I32, len: 4, bins: 4 };
    let memory = device.alloc_zeroed::<u8>(32).unwrap();
    let mut counts = device.alloc::<u8>(16).unwrap();
    let mut attempt = |values: std::ops::Range<usize>| {
        let values = memory.view(values).unwrap();
        count(&device, problem, values, counts.as_view_mut()).map_err(|error| error.to_string())
    };
    assert_eq!(attempt(0..15).unwrap_err(), "histogram: values needs 16 bytes, not 15");
    assert_eq!(attempt(2..32).unwrap_err(), "histogram: values does not begin at a multiple of 4 bytes");
    attempt(4..20).unwrap();
    assert_eq!(i32::from_le_bytes(counts.download().unwrap()[..4].try_into().unwrap()), 4);
}

#[test]
fn plans_say_what_they_do() {
    let device = Device::virtual_gpu(Profile::H200);
    let text = |len, bins| Choice::new(Problem { dtype: Dtype::U8, len, bins }, device.limits()).unwrap().to_string();
    assert_eq!(
        text(1 << 26, 256),
        "67108864 u8 in 256 bin(s): 32 count(s) of each bin in shared memory, 264 block(s) of 1024"
    );
    assert_eq!(text(0, 256), "0 u8 in 256 bin(s): nothing to count");
}
