//! Scatters against loops over the indices, bit for bit, under all checks.

use warpfold::reductions::Reduction;
use warpfold::{Device, Dtype, Error, ErrorKind, Interpolation, Profile, Tensor};
use warpfold_device::Checks;

fn device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).expect("it is a virtual GPU");
    device
}

#[track_caller]
fn nothing_is_found(device: &Device) {
    let findings: Vec<_> = device.take_reports().into_iter().flat_map(|launch| launch.report.findings).collect();
    assert!(findings.is_empty(), "{findings:?}");
}

fn number(i: usize, seed: u32) -> u32 {
    (i as u32).wrapping_add(seed).wrapping_mul(2_654_435_761).rotate_left(11).wrapping_mul(0x9e37_79b9) >> 8
}

/// Numbers whose sums depend on their order.
fn floats(n: usize, seed: u32) -> Vec<f32> {
    (0..n).map(|i| (number(i, seed) as f32 - 8e6) * 2_f32.powi((number(i, seed + 1) % 40) as i32 - 50)).collect()
}

fn combined(how: Option<Reduction>, held: f32, value: f32) -> f32 {
    match how {
        None => value,
        Some(Reduction::Sum) => held + value,
        Some(Reduction::Product) => held * value,
        Some(Reduction::Max) => held.max(value),
        Some(_) => held.min(value),
    }
}

/// A loop over the indices: from an element of the source to one of the table.
fn reference(table: &[f32], moves: &[(usize, usize)], source: &[f32], how: Option<Reduction>, with: bool) -> Vec<f32> {
    let (mut out, mut is_met) = (table.to_vec(), vec![with; table.len()]);
    for (from, to) in moves {
        out[*to] = if is_met[*to] { combined(how, out[*to], source[*from]) } else { source[*from] };
        is_met[*to] = true;
    }
    out
}

const WAYS: [Option<Reduction>; 5] =
    [None, Some(Reduction::Sum), Some(Reduction::Product), Some(Reduction::Max), Some(Reduction::Min)];

#[track_caller]
fn same_bits(found: &Tensor, expected: &[f32]) {
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&found.to_vec::<f32>().expect("elements")), bits(expected));
}

#[test]
fn elements_are_combined_in_the_order_of_their_indices() {
    let device = device();
    // So few places that runs are long, and so many indices that the sort takes several launches.
    for (shape, size, axis) in [([1, 1, 1], 1, 0), ([5, 3, 4], 2, 0), ([3, 70, 2], 9, 1), ([4, 3, 300], 40, 2)] {
        let mut table_shape = shape;
        table_shape[axis] = size;
        let len = |shape: [usize; 3]| shape.iter().product::<usize>();
        let (table, source) = (floats(len(table_shape), 1), floats(len(shape), 2));
        let indices: Vec<i64> = (0..len(shape)).map(|i| i64::from(number(i, 3)) % size as i64).collect();
        let moves: Vec<(usize, usize)> = (0..len(shape))
            .map(|i| {
                let mut at = [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
                at[axis] = indices[i] as usize;
                (i, (at[0] * table_shape[1] + at[1]) * table_shape[2] + at[2])
            })
            .collect();
        // Every other index counts from the end.
        let signed = indices.iter().zip(0..).map(|(i, n)| if n % 2 == 0 { *i } else { i - size as i64 });
        let signed: Vec<i64> = signed.collect();
        let x = Tensor::from_slice(&table, &table_shape, &device).unwrap();
        let y = Tensor::from_slice(&source, &shape, &device).unwrap();
        let i = Tensor::from_slice(&signed, &shape, &device).unwrap();
        for how in WAYS {
            for with in [true, false] {
                let expected = reference(&table, &moves, &source, how, with);
                let found = match how {
                    None => x.scatter(&i, &y, axis as isize),
                    Some(how) => x.scatter_reduce(&i, &y, axis as isize - 3, how, with),
                };
                same_bits(&found.unwrap(), &expected);
            }
        }
        same_bits(&x.scatter_add(&i, &y, axis as isize).unwrap(), &reference(&table, &moves, &source, WAYS[1], true));
        same_bits(&x, &table);
    }
    nothing_is_found(&device);
}

#[test]
fn parts_are_combined_in_the_order_of_their_indices() {
    let device = device();
    for (shape, count, axis) in
        [([7, 1, 1], 3000, 0), ([4, 5, 3], 11, 1), ([3, 2, 6], 40, 2), ([5, 300, 2], 70, 0), ([2, 3, 0], 4, 0)]
    {
        let mut source_shape = shape;
        source_shape[axis] = count;
        let len = |shape: [usize; 3]| shape.iter().product::<usize>();
        let (table, source) = (floats(len(shape), 4), floats(len(source_shape), 5));
        let indices: Vec<u8> = (0..count).map(|i| (number(i, 6) as usize % shape[axis]) as u8).collect();
        let (inner, outer) = (shape[axis + 1..].iter().product::<usize>(), shape[..axis].iter().product::<usize>());
        let mut moves = Vec::new();
        for (position, index) in indices.iter().enumerate() {
            for (before, behind) in (0..outer).flat_map(|before| (0..inner).map(move |behind| (before, behind))) {
                let at = |size: usize, place: usize| (before * size + place) * inner + behind;
                moves.push((at(count, position), at(shape[axis], usize::from(*index))));
            }
        }
        let x = Tensor::from_slice(&table, &shape, &device).unwrap();
        // Not contiguous, in either axis order.
        let y = Tensor::from_slice(&source, &source_shape, &device).unwrap();
        let y = y.transpose(0, 2).unwrap().contiguous().unwrap().transpose(0, 2).unwrap();
        let i = Tensor::from_slice(&indices, &[count], &device).unwrap();
        let axis = axis as isize;
        same_bits(&x.index_add(&i, &y, axis).unwrap(), &reference(&table, &moves, &source, WAYS[1], true));
        same_bits(&x.index_copy(&i, &y, axis).unwrap(), &reference(&table, &moves, &source, None, true));
        for how in WAYS.into_iter().flatten() {
            let found = x.index_reduce(&i, &y, axis, how, false).unwrap();
            same_bits(&found, &reference(&table, &moves, &source, Some(how), false));
        }
    }
    nothing_is_found(&device);
}

#[test]
fn every_element_type_is_added_and_moved() {
    let device = device();
    let indices = Tensor::new(&[1_i32, 0, 1, 1], &device).unwrap();
    let numbers = Tensor::new(&[3_i32, 5, 7, 100], &device).unwrap();
    for dtype in Dtype::ALL {
        let (x, y) = (numbers.narrow(0, 0, 2).unwrap().cast(dtype).unwrap(), numbers.cast(dtype).unwrap());
        let of = |tensor: Result<Tensor, Error>| tensor.unwrap().cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(
            of(x.scatter(&indices, &y, 0)),
            of(Ok(y.gather_rows(&Tensor::new(&[1_i64, 3], &device).unwrap()).unwrap()))
        );
        let largest = of(Ok(y.clone())).into_iter().fold(0.0, f64::max);
        assert_eq!(of(x.scatter_reduce(&indices, &y, 0, Reduction::Max, true))[1], largest, "{dtype}");
        let expected = match dtype {
            Dtype::Bool => [1.0, 1.0],
            // 5 + 3 + 7 + 96, of which there are multiples of 8 and 16 alone.
            Dtype::F8E4M3 | Dtype::F8E5M2 => [8.0, 112.0],
            _ => [8.0, 115.0],
        };
        assert_eq!(of(x.scatter_add(&indices, &y, 0)), expected, "{dtype}");
    }
    // Many small ones are added in `f32` and rounded once.
    let one = Tensor::ones(1, Dtype::Bf16, &device).unwrap();
    let many = Tensor::zeros(1000, Dtype::I64, &device).unwrap();
    let sum = one.scatter_add(&many, &one.expand(1000).unwrap(), 0).unwrap();
    assert_eq!(sum.cast(Dtype::F32).unwrap().to_vec::<f32>().unwrap(), [1000.0]);
    nothing_is_found(&device);
}

#[test]
fn a_bad_index_is_an_error_that_names_its_position() {
    let device = device();
    let x = Tensor::zeros((3, 2), Dtype::F32, &device).unwrap();
    let ones = Tensor::ones((3, 2), Dtype::F32, &device).unwrap();
    let kind = |result: Result<Tensor, Error>| result.unwrap_err().kind().clone();
    let bad = |position, rows| ErrorKind::IndexOutOfRange { position, rows };
    let i = Tensor::new(&[[0_i64, 0], [1, 3], [-4, 1]], &device).unwrap();
    assert_eq!(kind(x.scatter_add(&i, &ones, 0)), bad(3, 3));
    assert_eq!(
        kind(x.index_add(
            &Tensor::new(&[0_i32, -3, 2], &device).unwrap(),
            &ones.narrow(1, 0, 1).unwrap().expand((3, 3)).unwrap(),
            1
        )),
        bad(1, 2)
    );
    let too_large = Tensor::new(&[0_u64, u64::MAX, 1], &device).unwrap();
    assert_eq!(kind(x.index_copy(&too_large, &ones, 0)), bad(1, 3));
    let elements = Tensor::new(&[[0_u64], [u64::MAX], [1]], &device).unwrap();
    assert_eq!(kind(x.gather(&elements, 1)), bad(1, 2));
    assert_eq!(kind(x.scatter(&elements, &ones, 1)), bad(1, 2));
    // Nothing is named of nothing, and nothing is scattered by no indices.
    let empty = Tensor::zeros((0, 2), Dtype::F32, &device).unwrap();
    assert_eq!(
        kind(empty.index_add(&Tensor::new(&[0_i64], &device).unwrap(), &ones.narrow(0, 0, 1).unwrap(), 0)),
        bad(0, 0)
    );
    let none = Tensor::zeros(0, Dtype::I64, &device).unwrap();
    assert_eq!(ones.index_copy(&none, &empty, 0).unwrap().to_vec::<f32>().unwrap(), [1.0; 6]);
    nothing_is_found(&device);
}

#[test]
fn what_does_not_fit_is_refused_with_both_numbers() {
    let device = device();
    let x = Tensor::zeros((3, 2), Dtype::F32, &device).unwrap();
    let i = Tensor::zeros((3, 2), Dtype::I64, &device).unwrap();
    let row = Tensor::zeros(3, Dtype::I64, &device).unwrap();
    let refused = |result: Result<Tensor, Error>| result.unwrap_err().to_string();
    for (result, expected) in [
        (x.scatter(&row, &x, 0), "scatter: the indices have 1 axes, the tensor has 2"),
        (x.scatter(&i, &x.narrow(0, 0, 2).unwrap(), 0), "scatter: the indices have 3 in axis 0, the source has 2"),
        (
            x.narrow(1, 0, 1).unwrap().scatter_add(&i, &x, 0),
            "scatter_add: the indices have 2 in axis 1, the tensor has 1",
        ),
        (x.scatter(&x, &x, 0), "scatter does not take elements of type f32"),
        (x.scatter(&i, &i, 0), "the source of scatter has elements of type i64, not f32: cast one of them"),
        (x.index_add(&i, &x, 0), "index_add: the indices have 2 axes, one is needed"),
        (x.index_add(&row, &x, 1), "index_add: the source is [3, 2]; these indices along axis 1 take [3, 3]"),
        (x.scatter(&i, &x, 2), "axis 2 is out of range for 2 dimension(s)"),
        (
            x.scatter_reduce(&i, &x, 0, Reduction::Mean, true),
            "scatter: 'mean' does not combine elements: sum, prod, max and min do",
        ),
    ] {
        assert_eq!(refused(result), expected);
    }
}

#[test]
fn the_second_scatter_or_gather_plans_nothing() {
    let device = device();
    let x = Tensor::randn(0_f32, 1.0, (40, 3), &device).unwrap();
    let (i, elements) =
        (Tensor::zeros(40, Dtype::I64, &device).unwrap(), Tensor::zeros((2, 3), Dtype::I64, &device).unwrap());
    let call = || {
        drop(x.index_add(&i, &x, 0).unwrap());
        drop(x.scatter(&elements, &x, 0).unwrap());
        drop(x.gather(&elements, 0).unwrap());
    };
    call();
    let planned = x.queue().plan_counts().planned;
    call();
    assert_eq!(x.queue().plan_counts().planned, planned);
}

/// The place of a source that PyTorch's documentation gives, in `f64`.
fn source_place(i: usize, size: usize, n: usize, align_corners: bool) -> f64 {
    match (align_corners, n) {
        (true, 1) => 0.0,
        (true, _) => i as f64 * (size - 1) as f64 / (n - 1) as f64,
        (false, _) => ((i as f64 + 0.5) * size as f64 / n as f64 - 0.5).max(0.0),
    }
}

#[test]
fn images_are_interpolated_along_each_axis() {
    let device = device();
    for (size, n) in [(1, 5), (5, 1), (4, 4), (4, 7), (7, 3), (3, 12), (10, 9)] {
        for (dtype, bound) in [(Dtype::F32, 1e-5), (Dtype::F64, 1e-12), (Dtype::F16, 4e-3)] {
            let values = floats(2 * 3 * size * 5, 7).into_iter().map(|x| (x * 1e3).fract()).collect::<Vec<_>>();
            let x = Tensor::from_slice(&values, &[2, 3, size, 5], &device).unwrap().cast(dtype).unwrap();
            let values = x.cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap();
            let at = |channel: usize, row: usize, column: usize| values[(channel * size + row) * 5 + column];
            for align_corners in [true, false] {
                let y = x.upsample_bilinear2d(n, 5, align_corners).unwrap();
                assert_eq!(y.shape(), [2, 3, n, 5]);
                for (position, found) in y.cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap().into_iter().enumerate() {
                    let (channel, row, column) = (position / (5 * n), position / 5 % n, position % 5);
                    let place = source_place(row, size, n, align_corners);
                    let (low, weight) = (place.floor() as usize, place.fract());
                    let high = (low + 1).min(size - 1);
                    let expected = at(channel, low, column) * (1.0 - weight) + at(channel, high, column) * weight;
                    assert!((found - expected).abs() <= bound, "{size} to {n}: {found} for {expected}");
                }
            }
            // Channels last, four to an access.
            let last = x.permute((0, 2, 3, 1)).unwrap().contiguous().unwrap();
            let expected = x.interpolate(&[n, 2], Interpolation::Nearest).unwrap();
            let found = last.interpolate_in(&[n, 2], Interpolation::Nearest, warpfold::ImageLayout::Nhwc).unwrap();
            assert_eq!(found.permute((0, 3, 1, 2)).unwrap().to_bytes().unwrap(), expected.to_bytes().unwrap());
            let elements = expected.cast(Dtype::F64).unwrap().to_vec::<f64>().unwrap();
            for (position, found) in elements.into_iter().enumerate() {
                let (channel, row, column) = (position / (2 * n), position / 2 % n, position % 2);
                assert_eq!(found, at(channel, row * size / n, column * 5 / 2), "{size} to {n}");
            }
        }
    }
    let truths = Tensor::new(&[[[1_u8, 0]]], &device).unwrap().cast(Dtype::Bool).unwrap();
    let nearest = truths.upsample_nearest1d(3).unwrap();
    assert_eq!(
        (nearest.dtype(), nearest.cast(Dtype::U8).unwrap().to_vec::<u8>().unwrap()),
        (Dtype::Bool, vec![1, 1, 0])
    );
    let linear = truths.interpolate(&[3], Interpolation::Linear { align_corners: false }).unwrap_err();
    assert!(matches!(linear.kind(), ErrorKind::Unsupported { .. }), "{linear}");
    let flat = truths.squeeze(0).unwrap().upsample_nearest1d(3).unwrap_err();
    assert!(matches!(flat.kind(), ErrorKind::Operand { .. }), "{flat}");
    nothing_is_found(&device);
}
