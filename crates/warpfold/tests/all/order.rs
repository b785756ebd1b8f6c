//! Sorted and distinct elements, scans of segments, and what a reduction starts with, against the
//! host, under all checks.

use half::{bf16, f16};
use warpfold::by_name::{self, Options};
use warpfold::{
    Axes, Cumulative, Device, Direction, Dtype, ErrorKind, Prefix, Profile, ScanOrder, Tensor, TensorElement,
};
use warpfold_device::Checks;
use warpfold_kernels::reductions::{self, Reduction};

fn checked() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(Checks::All).unwrap();
    device
}

#[track_caller]
fn clean(device: &Device) {
    let findings = device.take_reports().into_iter().flat_map(|launch| launch.report.findings);
    assert_eq!(findings.map(|finding| finding.to_string()).collect::<Vec<_>>(), Vec::<String>::new());
}

fn scattered(i: usize) -> usize {
    (i + 1).wrapping_mul(2_654_435_761) >> 7
}

/// Whole numbers of a type, some of them equal.
fn elements(device: &Device, dtype: Dtype, shape: &[usize]) -> Tensor {
    // The host compares as `f64`, which has no number close to 2^64.
    let least = if dtype == Dtype::U64 { 0 } else { -20 };
    let all: Vec<i64> = (0..shape.iter().product()).map(|i| scattered(i) as i64 % 100 + least).collect();
    Tensor::from_slice(&all, shape, device).unwrap().cast(dtype).unwrap()
}

/// The host's stable order.
fn order(x: &[f64], descending: bool) -> Vec<i64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|a, b| if descending { x[*b].total_cmp(&x[*a]) } else { x[*a].total_cmp(&x[*b]) });
    order.into_iter().map(|i| i as i64).collect()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(Dtype::F64).unwrap().to_vec().unwrap()
}

#[test]
fn rows_of_every_length_and_type_are_sorted() {
    let device = checked();
    let all = [Dtype::F32, Dtype::I8, Dtype::U16, Dtype::I64, Dtype::F64, Dtype::Bf16, Dtype::U64, Dtype::F8E5M2];
    for (len, dtype) in [1, 2, 31, 33, 1023, 1024, 1025, 2100].into_iter().zip(all) {
        let x = elements(&device, dtype, &[3, len]);
        for descending in [false, true] {
            let sorted = if descending { x.sort_descending(1) } else { x.sort(1) };
            let (values, positions) = sorted.unwrap();
            assert_eq!(values.dtype(), dtype);
            let (values, positions) = (numbers(&values), positions.to_vec::<i64>().unwrap());
            for (row, x) in numbers(&x).chunks(len).enumerate() {
                let expected = order(x, descending);
                assert_eq!(positions[row * len..][..len], expected, "{len} {dtype}");
                let moved: Vec<f64> = expected.iter().map(|i| x[*i as usize]).collect();
                assert_eq!(values[row * len..][..len], moved, "{len} {dtype}");
            }
        }
    }
    let (values, _) = elements(&device, Dtype::I32, &[0, 5]).sort(0).unwrap();
    assert_eq!(values.shape(), [0, 5]);
    clean(&device);
}

/// Sorts two rows of this length, and compares with the host's stable order by `key`: bits and
/// positions.
fn check_bits<T: TensorElement>(
    device: &Device,
    len: usize,
    descending: bool,
    element: impl Fn(u64) -> T,
    key: impl Fn(&T) -> i128,
) {
    // Any bits, some of them twice or more.
    let bits = |i: usize| ((i % (len / 2 + 7)) as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let all: Vec<T> = (0..2 * len).map(|i| element(bits(i))).collect();
    let x = Tensor::from_slice(&all, &[2, len], device).unwrap();
    let (values, positions) = if descending { x.sort_descending(1) } else { x.sort(1) }.unwrap();
    let (bytes, sorted, positions) =
        (x.to_bytes().unwrap(), values.to_bytes().unwrap(), positions.to_vec::<i64>().unwrap());
    let size = bytes.len() / (2 * len);
    for row in 0..2 {
        let mut expected: Vec<usize> = (0..len).collect();
        let key = |i: &usize| key(&all[row * len + i]);
        expected.sort_by(|a, b| if descending { key(b).cmp(&key(a)) } else { key(a).cmp(&key(b)) });
        let found = &positions[row * len..][..len];
        let differs = found.iter().zip(&expected).position(|(found, expected)| *found != *expected as i64);
        assert_eq!(differs, None, "{} {len}, descending: {descending}", x.dtype());
        for (i, from) in expected.into_iter().enumerate() {
            let [from, to] = [from, i].map(|i| (row * len + i) * size..(row * len + i + 1) * size);
            assert_eq!(bytes[from], sorted[to], "{} {len} at {i}", x.dtype());
        }
    }
}

/// A float's place in the order: zeros are equal, and so are NaN, above all.
fn key_of(x: f64) -> i128 {
    let bits = (x + 0.0).to_bits() as i64;
    if x.is_nan() { i128::MAX } else { (bits ^ ((bits >> 63) as u64 >> 1) as i64).into() }
}

#[test]
fn long_rows_of_every_type_are_sorted_on_both_sides_of_the_bound() {
    let device = checked();
    for len in [8192, 8193] {
        check_bits(&device, len, false, |bits| f32::from_bits((bits >> 32) as u32), |x| key_of((*x).into()));
    }
    // Whole tiles, and one element less.
    check_bits(&device, 12_288, true, |bits| (bits >> 56) as u8, |x| (*x).into());
    check_bits(&device, 12_287, false, |bits| (bits >> 56) as i8, |x| (*x).into());
    check_bits(&device, 8193, true, |bits| (bits >> 48) as i16, |x| (*x).into());
    check_bits(&device, 8193, true, |bits| f16::from_bits((bits >> 48) as u16), |x| key_of((*x).into()));
    check_bits(&device, 8193, false, |bits| bf16::from_bits((bits >> 48) as u16), |x| key_of((*x).into()));
    check_bits(&device, 8193, true, |bits| bits as i64, |x| (*x).into());
    check_bits(&device, 8193, false, f64::from_bits, |x| key_of(*x));
    for dtype in [Dtype::F8E4M3, Dtype::F8E5M2] {
        let x = elements(&device, dtype, &[8193]);
        assert_eq!(x.argsort(0).unwrap().to_vec::<i64>().unwrap(), order(&numbers(&x), false), "{dtype}");
    }
    clean(&device);
}

#[test]
fn nan_is_above_all_and_zeros_are_equal() {
    let device = checked();
    let x = [f32::NAN, 0.0, f32::INFINITY, -0.0, -1.0, f32::NAN, 0.0];
    let x = Tensor::from_slice(&x, &[7], &device).unwrap();
    assert_eq!(x.sort(0).unwrap().1.to_vec::<i64>().unwrap(), [4, 1, 3, 6, 2, 0, 5]);
    assert_eq!(x.sort_descending(0).unwrap().1.to_vec::<i64>().unwrap(), [0, 5, 2, 1, 3, 6, 4]);
    let unique = x.unique().unwrap();
    assert_eq!(unique.counts.to_vec::<i64>().unwrap(), [1, 3, 1, 2]);
    assert_eq!(unique.first_indices.to_vec::<i64>().unwrap(), [4, 1, 2, 0]);
    clean(&device);
}

#[test]
fn lists_of_any_length_are_what_sorting_gives() {
    let device = checked();
    let x = elements(&device, Dtype::I32, &[2, 50, 3]);
    let whole = x.sort_descending(1).unwrap();
    for k in [0, 1, 16, 17, 50] {
        let (values, positions) = x.top_k(k, 1).unwrap();
        assert_eq!((values.shape(), positions.shape()), (&[2, k, 3][..], &[2, k, 3][..]));
        let [values, expected] = [&values, &whole.0.slice(1, ..k).unwrap()].map(numbers);
        assert_eq!(values, expected);
        let [positions, expected] = [&positions, &whole.1.slice(1, ..k).unwrap()].map(numbers);
        assert_eq!(positions, expected);
    }
    assert!(matches!(x.top_k(51, 1).unwrap_err().kind(), ErrorKind::OptionOutOfRange { option: "k", .. }));
    clean(&device);
}

#[test]
fn distinct_elements_come_with_positions_and_counts() {
    let device = checked();
    for len in [0, 1, 70, 1500] {
        let x = elements(&device, Dtype::I16, &[len]);
        let host = x.to_vec::<i16>().unwrap();
        let mut values = host.clone();
        values.sort_unstable();
        values.dedup();
        let first = |value: &i16| host.iter().position(|x| x == value).unwrap() as i64;
        let count = |value: &i16| host.iter().filter(|x| *x == value).count() as i64;
        let unique = x.unique().unwrap();
        let lists = |values: &[i16]| {
            let place = |x: &i16| values.iter().position(|value| value == x).unwrap() as i64;
            let inverse: Vec<i64> = host.iter().map(place).collect();
            (values.to_vec(), values.iter().map(first).collect(), inverse, values.iter().map(count).collect())
        };
        let of = |unique: &warpfold::Unique| {
            let list = |tensor: &Tensor| tensor.to_vec::<i64>().unwrap();
            let (firsts, inverse) = (list(&unique.first_indices), list(&unique.inverse));
            (unique.values.to_vec::<i16>().unwrap(), firsts, inverse, list(&unique.counts))
        };
        assert_eq!(of(&unique), lists(&values));
        values.sort_by_key(first);
        assert_eq!(of(&unique.in_order_of_occurrence().unwrap()), lists(&values));
    }
    clean(&device);
}

#[test]
fn distinct_parts_along_an_axis() {
    let device = checked();
    let x = [1.0_f32, 0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 1.0, 2.0];
    let columns = Tensor::from_slice(&x, &[3, 3], &device).unwrap().unique_along(1).unwrap();
    assert_eq!(columns.values.to_vec::<f32>().unwrap(), [0.0, 1.0, 0.0, 0.0, 1.0, 2.0]);
    assert_eq!(columns.values.shape(), [3, 2]);
    assert_eq!(columns.inverse.to_vec::<i64>().unwrap(), [1, 0, 1]);
    assert_eq!(columns.counts.to_vec::<i64>().unwrap(), [1, 2]);
    let as_they_come = columns.in_order_of_occurrence().unwrap();
    assert_eq!(as_they_come.values.to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 0.0, 2.0, 1.0]);
    // Parts of two axes are compared in their own order, not in that of the exchanged axes.
    let x = [0_i32, 0, 1, 0, 1, 0, 0, 0];
    let parts = Tensor::from_slice(&x, &[2, 2, 2], &device).unwrap().unique_along(2).unwrap();
    assert_eq!(parts.values.to_vec::<i32>().unwrap(), [0, 0, 0, 1, 0, 1, 0, 0]);
    clean(&device);
}

#[test]
fn each_segment_is_scanned_by_itself() {
    let device = checked();
    for (len, offsets) in
        [(9, vec![0_i64, 3, 3, 4, 9]), (5000, vec![0, 1, 40, 2100, 2101, 4999, 5000]), (0, vec![0, 0])]
    {
        let host: Vec<i32> = (0..len).map(|i| scattered(i) as i32 % 50).collect();
        let x = Tensor::from_slice(&host, &[len], &device).unwrap();
        let of = Tensor::from_slice(&offsets, &[offsets.len()], &device).unwrap();
        for prefix in [Prefix::Inclusive, Prefix::Exclusive] {
            for direction in [Direction::Forward, Direction::Reverse] {
                let mut expected = Vec::new();
                for pair in offsets.windows(2) {
                    let mut segment: Vec<i64> =
                        host[pair[0] as usize..pair[1] as usize].iter().map(|x| i64::from(*x)).collect();
                    let mut sum = 0;
                    let mut visit = |x: &mut i64| {
                        let before = sum;
                        sum += *x;
                        *x = if prefix == Prefix::Inclusive { sum } else { before };
                    };
                    match direction {
                        Direction::Forward => segment.iter_mut().for_each(&mut visit),
                        Direction::Reverse => segment.iter_mut().rev().for_each(&mut visit),
                    }
                    expected.extend(segment);
                }
                let order = ScanOrder { prefix, direction };
                let got = x.segment_scan(Cumulative::Sum, &of, order, None).unwrap();
                assert_eq!(got.to_vec::<i64>().unwrap(), expected, "{offsets:?} {order:?}");
            }
        }
    }
    clean(&device);
}

#[test]
fn a_reduction_may_start_with_a_number() {
    let device = checked();
    let of = |op: &str, x: &Tensor, initial: f64| {
        let options = Options { axes: Some(vec![-1]), initial: Some(initial), ..Options::default() };
        by_name::run(op, std::slice::from_ref(x), &options)
    };
    let x = Tensor::from_slice(&[1_i8, 2, 3, 100, 100, 100], &[2, 3], &device).unwrap();
    assert_eq!(of("sum", &x, -5.0).unwrap()[0].to_vec::<i64>().unwrap(), [1, 295]);
    assert_eq!(of("prod", &x, 2.0).unwrap()[0].to_vec::<i64>().unwrap(), [12, 2_000_000]);
    assert_eq!(of("max", &x, 50.0).unwrap()[0].to_vec::<i8>().unwrap(), [50, 100]);
    let nothing = x.slice(1, ..0).unwrap();
    assert_eq!(of("min", &nothing, 7.0).unwrap()[0].to_vec::<i8>().unwrap(), [7, 7]);
    let none = by_name::run("max", std::slice::from_ref(&nothing), &Options::default()).unwrap_err();
    assert!(matches!(none.kind(), ErrorKind::Empty(_)), "{none}");
    for bad in [0.5, 128.0, f64::INFINITY, f64::NAN] {
        let error = of("max", &x, bad).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OptionOutOfRange { option: "initial", .. }), "{error}");
    }
    let floats = nothing.cast(Dtype::F32).unwrap();
    assert_eq!(of("max", &floats, f64::NEG_INFINITY).unwrap()[0].to_vec::<f32>().unwrap(), [f32::NEG_INFINITY; 2]);
    clean(&device);
}

#[test]
fn the_largest_and_the_sum_of_exponentials_come_of_one_read() {
    let device = checked();
    let row: Vec<f32> = (0..3000).map(|i| scattered(i) as f32 % 7.0 - 3.0).collect();
    let x = Tensor::from_slice(&row, &[1, 3000], &device).unwrap();
    drop(device.take_reports());
    let both = x.reduce(Reduction::MaxSumExp, Axes::Of(&[1]), reductions::Options::default()).unwrap();
    let reports = device.take_reports();
    let sectors: u64 = reports.iter().map(|launch| launch.report.counters.global_load_sectors).sum();
    assert!((375..400).contains(&sectors), "{sectors} sectors, where the row has 375");
    let sum: f64 = row.iter().map(|x| f64::from(x - 3.0).exp()).sum();
    let [largest, got] = [0, 1].map(|i| both[i].to_vec::<f32>().unwrap()[0]);
    assert_eq!(largest, row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    assert!((f64::from(got) / (sum * f64::from(3.0 - largest).exp()) - 1.0).abs() < 1e-5, "{got}");
}
