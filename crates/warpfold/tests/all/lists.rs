//! Folds to lists, the largest few of rows and of segments, and inputs that are missing.

use warpfold::kernels::elements::{Sink, Source};
use warpfold::kernels::fold::{Fold, Scan, ScanOrder, Sum, TopK};
use warpfold::lang::Val;
use warpfold::reductions::{Options, Reduction};
use warpfold::{Axes, Device, Dtype, ErrorKind, Profile, Tensor};
use warpfold_device::Checks;

#[test]
fn a_fold_to_lists_has_an_axis_for_each() {
    let device = Device::virtual_gpu(Profile::H200);
    let x = Tensor::from_slice(&[3, 9, 1, 7, 8, 2], &[2, 3], &device).unwrap();
    let sink = Sink::<[Val<i32>; 2]>::list(Dtype::I32, 2).after(|list: [(Val<i32>, Val<u64>); 2]| list.map(|e| e.0));
    let fold = Fold::new("largest_two", TopK::<i32, 2>::new(), Source::one::<i32>(Dtype::I32), sink);
    let lists = &x.fold(&fold, Axes::Of(&[1])).unwrap()[0];
    assert_eq!((lists.shape(), lists.to_vec::<i32>().unwrap()), (&[2, 2][..], vec![9, 3, 8, 7]));
}

#[test]
fn inputs_are_counted_before_anyone_looks_at_their_types() {
    let device = Device::virtual_gpu(Profile::H200);
    let x = Tensor::from_slice(&[3, 9, 1, 7], &[4], &device).unwrap();
    let offsets = Tensor::from_slice(&[0, 4], &[2], &device).unwrap();
    let source = || Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::F32)).map(|(x, y)| x * y);
    let dot = Fold::new("dot", Sum::<f32>::new(), source(), Sink::one::<f32>(Dtype::F32));
    let dots = Scan::new("dots", Sum::<f32>::new(), source(), Sink::one::<f32>(Dtype::F32));
    for result in [x.fold(&dot, Axes::All), x.segment_fold(&dot, &offsets), x.scan_by(&dots, 0, ScanOrder::default())] {
        let error = result.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NumInputs { least: 2, most: 2, found: 1, .. }), "{error}");
    }
    let error = x.fold_with(&x, &dot, Axes::All).unwrap_err();
    assert_eq!(error.to_string(), "input 0 of the fold has elements of type i32, not f32: cast one of them");
}

#[test]
fn the_largest_few_of_each_segment_are_an_axis_behind_the_segments() {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    let x = Tensor::from_slice(&[3.0_f32, 9.0, 1.0, 7.0, 8.0], &[5], &device).unwrap();
    let offsets = Tensor::from_slice(&[0_i64, 3, 4, 4, 5], &[5], &device).unwrap();
    for k in [1, 2] {
        let options = Options { k: Some(k), ..Options::default() };
        let lists = x.segment_reduce(Reduction::TopK, &offsets, options).unwrap();
        assert_eq!(lists[0].shape(), [4, k]);
        let (values, positions) = (lists[0].to_vec::<f32>().unwrap(), lists[1].to_vec::<i64>().unwrap());
        let expected =
            [[(9.0, 1), (3.0, 0)], [(7.0, 0), (f32::NAN, -1)], [(f32::NAN, -1); 2], [(8.0, 0), (f32::NAN, -1)]];
        let expected = expected.iter().flat_map(|list| &list[..k]);
        for ((expected, value), position) in expected.zip(values).zip(positions) {
            assert!(expected.0 == value || expected.0.is_nan() && value.is_nan(), "{value} for {expected:?}");
            assert_eq!(expected.1, position);
        }
    }
    let findings = device.take_reports().into_iter().flat_map(|launch| launch.report.findings).count();
    assert_eq!(findings, 0);
}

/// The `k` largest of each segment, and what stands for those that there are not.
fn largest(x: &[i32], ends: &[i32], k: usize, nothing: i32) -> (Vec<i32>, Vec<i64>) {
    let of_segment = |pair: &[i32]| {
        let mut all: Vec<(i32, i64)> = x[pair[0] as usize..pair[1] as usize].iter().copied().zip(0..).collect();
        all.sort_by_key(|(value, _)| std::cmp::Reverse(*value));
        all.resize(k, (nothing, -1));
        all
    };
    ends.windows(2).flat_map(of_segment).unzip()
}

#[test]
fn lists_of_any_length_are_those_of_short_ones_and_go_on() {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    let x: Vec<i32> = (0..700_i32).map(|i| i.wrapping_mul(7919) % 50 - 25).collect();
    let ends = [3, 3, 40, 41, 300, 690];
    for (k, nothing) in [(1, i32::MIN), (16, i32::MIN), (17, i32::MIN), (100, i32::MIN), (500, i32::MIN)] {
        let tensor = Tensor::from_slice(&x, &[x.len()], &device).unwrap();
        let offsets = Tensor::from_slice(&ends, &[ends.len()], &device).unwrap();
        let options = Options { k: Some(k), ..Options::default() };
        let lists = tensor.segment_reduce(Reduction::TopK, &offsets, options).unwrap();
        assert_eq!(lists[0].shape(), [5, k]);
        let found = (lists[0].to_vec::<i32>().unwrap(), lists[1].to_vec::<i64>().unwrap());
        assert_eq!(found, largest(&x, &ends, k, nothing), "k = {k}");
    }
    // Floats that there are not are NaN, and tensors and lists of segments may be empty.
    let few = Tensor::from_slice(&[1.0_f32, 2.0], &[2], &device).unwrap();
    let options = Options { k: Some(20), ..Options::default() };
    let of = |x: &Tensor, ends: &[i64]| {
        let offsets = Tensor::from_slice(ends, &[ends.len()], &device).unwrap();
        x.segment_reduce(Reduction::TopK, &offsets, options).unwrap()
    };
    let lists = of(&few, &[0, 2]);
    let values = lists[0].to_vec::<f32>().unwrap();
    assert!(values[..2] == [2.0, 1.0] && values[2..].iter().all(|x| x.is_nan()), "{values:?}");
    let empty = Tensor::from_slice::<f32>(&[], &[0], &device).unwrap();
    assert_eq!(of(&empty, &[0, 0])[1].to_vec::<i64>().unwrap(), [-1; 20]);
    assert_eq!(of(&few, &[1])[0].shape(), [0, 20]);
    let findings = device.take_reports().into_iter().flat_map(|launch| launch.report.findings).count();
    assert_eq!(findings, 0);
}
