//! Row operators in place give the bits that they give elsewhere, or say why not; under every
//! check.

use warpfold::by_name::{self, Options};
use warpfold::{Axes, Device, Dtype, ErrorKind, NormInputs, Profile, Tensor};
use warpfold_device::{Checks, Severity};

fn device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

fn is_clean(device: &Device) {
    for report in device.take_reports() {
        // Information is not an objection: of long rows of 16-bit items it says that records of
        // single bytes were too many.
        let findings: Vec<_> = report.report.findings.iter().filter(|f| f.severity > Severity::Info).collect();
        assert!(findings.is_empty(), "{}: {findings:?}", report.kernel);
    }
}

fn sample(i: usize) -> f32 {
    (((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0) * 3.0
}

fn tensor(device: &Device, seed: usize, dtype: Dtype, shape: &[usize]) -> Tensor {
    let data: Vec<f32> = (0..shape.iter().product()).map(|i| sample(i + 7 * seed)).collect();
    Tensor::from_slice(&data, shape, device).unwrap().cast(dtype).unwrap()
}

#[track_caller]
fn same(got: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(got.shape(), expected.shape(), "{what}");
    assert!(got.to_bytes().unwrap() == expected.to_bytes().unwrap(), "{what}");
}

/// Lengths of rows around every change of plan: lanes, a warp, blocks, clusters, two launches.
const SHAPES: &[&[usize]] = &[&[1], &[5, 3], &[7, 33], &[3, 256], &[33, 1000], &[2, 4099], &[3, 20_000], &[1, 300_007]];

#[test]
fn every_row_operator_in_place_gives_what_it_gives_elsewhere() {
    let device = device();
    let axes = Axes::Of(&[-1]);
    for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F64] {
        for shape in SHAPES {
            let new = || tensor(&device, 0, dtype, shape);
            let (mask, row) = (tensor(&device, 1, dtype, shape), &shape[shape.len() - 1..]);
            let (scale, bias) = (tensor(&device, 2, dtype, row), tensor(&device, 3, dtype, row));
            let x = new();
            let what = |op: &str| format!("{op} {dtype} {shape:?}");

            let mut y = new();
            y.softmax_in_place(axes).unwrap();
            same(&y, &x.softmax(axes).unwrap(), &what("softmax"));
            let mut y = new();
            y.masked_softmax_in_place(&mask, 0.5, axes).unwrap();
            same(&y, &x.masked_softmax(&mask, 0.5, axes).unwrap(), &what("masked softmax"));
            let mut y = new();
            y.log_softmax_in_place(axes).unwrap();
            same(&y, &x.log_softmax(axes).unwrap(), &what("log-softmax"));

            let inputs = NormInputs { scale: Some(&scale), bias: Some(&bias), residual: Some(&mask), eps: None };
            let (mut y, elsewhere) = (new(), x.layer_norm(axes, inputs).unwrap());
            let beside = y.layer_norm_in_place(axes, inputs).unwrap();
            same(&y, &elsewhere.result, &what("layer-norm"));
            same(&beside.stats[0], &elsewhere.mean, &what("mean"));
            same(&beside.stats[1], &elsewhere.rstd, &what("rstd"));
            same(&beside.sum.unwrap(), &elsewhere.sum.unwrap(), &what("sum"));
            let inputs = NormInputs { scale: Some(&scale), ..NormInputs::default() };
            let (mut y, elsewhere) = (new(), x.rms_norm(axes, inputs).unwrap());
            let beside = y.rms_norm_in_place(axes, inputs).unwrap();
            same(&y, &elsewhere.result, &what("rms-norm"));
            same(&beside.stats[0], &elsewhere.rstd, &what("rstd of rms-norm"));
            assert!(beside.sum.is_none());

            let (mut y, (scaled, magnitudes)) = (new(), x.abs_max_scale(axes).unwrap());
            same(&y.abs_max_scale_in_place(axes).unwrap(), &magnitudes, &what("magnitudes"));
            same(&y, &scaled, &what("abs-max-scale"));
            is_clean(&device);
        }
    }
}

#[test]
fn rows_along_other_axes_come_back_to_their_places() {
    let device = device();
    for (shape, axes) in [(&[40, 33][..], &[0][..]), (&[3, 50, 8], &[1]), (&[4, 5, 6], &[0, 2]), (&[4, 5, 6], &[1, 2])]
    {
        let (x, mut y) = (tensor(&device, 0, Dtype::F32, shape), tensor(&device, 0, Dtype::F32, shape));
        y.softmax_in_place(Axes::Of(axes)).unwrap();
        same(&y, &x.softmax(Axes::Of(axes)).unwrap(), &format!("{shape:?} {axes:?}"));
    }
    is_clean(&device);
}

#[test]
fn parts_of_a_larger_tensor_are_changed_in_their_places() {
    let device = device();
    let whole: Vec<f32> = (0..400).map(sample).collect();
    let x = Tensor::from_slice(&whole, &[20, 20], &device).unwrap();
    let softmax = |part: &Tensor| part.softmax(Axes::Of(&[-1])).unwrap().to_vec::<f32>().unwrap();
    // Rows 3 to 6, which lie side by side, and columns 1 to 16, which do not.
    for (axis, range) in [(0, 3..7), (1, 1..17)] {
        let expected = softmax(&x.slice(axis, range.clone()).unwrap());
        let mut part = x.copy().unwrap().slice(axis, range.clone()).unwrap();
        part.softmax_in_place(Axes::Of(&[-1])).unwrap();
        assert_eq!(part.to_vec::<f32>().unwrap(), expected, "{axis} {range:?}");
    }
    is_clean(&device);
}

#[test]
fn what_would_be_wrong_in_place_is_refused() {
    let device = device();
    let axes = Axes::Of(&[-1]);
    let shape = &[6, 10];
    // Others see the memory.
    let mut x = tensor(&device, 0, Dtype::F32, shape);
    let clone = x.clone();
    assert_eq!(*x.softmax_in_place(axes).unwrap_err().kind(), ErrorKind::SharedMemory);
    let shifted = x.clone();
    let refused = x.masked_softmax_in_place(&shifted, 1.0, axes).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::SharedMemory);
    drop((clone, shifted));
    // A scale that is a row of the same memory.
    let scale = x.slice(0, 0..1).unwrap().reshape(&[10]).unwrap();
    let inputs = NormInputs { scale: Some(&scale), ..NormInputs::default() };
    assert_eq!(*x.rms_norm_in_place(axes, inputs).unwrap_err().kind(), ErrorKind::SharedMemory);
    drop(scale);
    x.softmax_in_place(axes).unwrap();
    // One place for several elements.
    let mut repeated = tensor(&device, 0, Dtype::F32, &[1, 10]).broadcast(&[6, 10]).unwrap();
    let refused = repeated.softmax_in_place(axes).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::OverlappingOutput { .. }), "{refused}");
    // A result that does not fit the place.
    let by_name = |name: &str, options: Options| {
        let mut x = tensor(&device, 0, Dtype::F32, shape);
        by_name::find(name).unwrap().run_in_place(&mut x, &[], &options).unwrap_err()
    };
    let refused = by_name("quantize", Options::default());
    assert!(matches!(refused.kind(), ErrorKind::DtypeMismatch { .. }), "{refused}");
    let refused = by_name("sum", Options::default());
    assert!(matches!(refused.kind(), ErrorKind::OptionNotTaken { option: "in-place", .. }), "{refused}");
    let refused = by_name("is-nan", Options::default());
    assert!(matches!(refused.kind(), ErrorKind::DtypeMismatch { .. }), "{refused}");
}

#[test]
fn by_name_elements_and_rows_take_their_own_place() {
    let device = device();
    for (name, others, outputs) in
        [("softmax", 1, 1), ("layer-norm", 0, 3), ("abs-max-scale", 0, 2), ("exp", 0, 1), ("add", 1, 1)]
    {
        let inputs: Vec<Tensor> = (0..=others).map(|i| tensor(&device, i, Dtype::F32, &[5, 70])).collect();
        let options = Options::default();
        let expected = by_name::run(name, &inputs, &options).unwrap();
        let mut first = inputs[0].copy().unwrap();
        let address = first.address();
        let rest = by_name::find(name).unwrap().run_in_place(&mut first, &inputs[1..], &options).unwrap();
        assert_eq!((first.address(), 1 + rest.len()), (address, outputs), "{name}");
        for (got, expected) in std::iter::once(&first).chain(&rest).zip(&expected) {
            same(got, expected, name);
        }
    }
    is_clean(&device);
}
