//! Poolings of every kind, type and layout against loops, under all checks.

use warpfold::{Device, Dtype, ErrorKind, ImageLayout, Pool, PoolIndices, Profile, Tensor};
use warpfold_device::Checks;

/// A pooling of `[N, C, H, W]` as loops see it.
#[derive(Clone, Copy)]
struct Case {
    size: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    before: [usize; 2],
    after: [usize; 2],
    ceil: bool,
}

const IMAGES: usize = 2;

const CASES: [Case; 7] = [
    Case { size: [5, 7], ..PLAIN },
    Case { size: [9, 8], window: [3, 3], stride: [2, 2], before: [1, 1], after: [1, 1], ..PLAIN },
    Case { size: [6, 11], window: [3, 2], stride: [1, 3], dilation: [2, 3], before: [2, 0], after: [0, 3], ..PLAIN },
    Case { size: [7, 10], window: [3, 4], stride: [3, 3], ceil: true, ..PLAIN },
    Case { size: [4, 4], window: [3, 3], stride: [2, 2], before: [1, 1], after: [1, 1], ceil: true, ..PLAIN },
    // As many elements as are unrolled, and one more.
    Case { size: [7, 13], window: [4, 8], stride: [2, 1], before: [1, 2], after: [3, 2], ..PLAIN },
    Case { size: [8, 15], window: [3, 11], stride: [4, 1], before: [1, 5], after: [2, 2], ..PLAIN },
];

const PLAIN: Case =
    Case { size: [4, 4], window: [2, 2], stride: [1, 1], dilation: [1, 1], before: [0, 0], after: [0, 0], ceil: false };

impl Case {
    fn windows(&self, axis: usize) -> usize {
        let extent = (self.window[axis] - 1) * self.dilation[axis] + 1;
        let free = self.size[axis] + self.before[axis] + self.after[axis] - extent;
        let stride = self.stride[axis];
        if !self.ceil {
            return free / stride + 1;
        }
        let windows = free.div_ceil(stride) + 1;
        if (windows - 1) * stride >= self.size[axis] + self.before[axis] { windows - 1 } else { windows }
    }

    /// Places under a window along an axis, and how many of the window are before the end of the
    /// padding.
    fn under(&self, axis: usize, window: usize) -> (Vec<usize>, usize) {
        let start = (window * self.stride[axis]) as isize - self.before[axis] as isize;
        let all = (0..self.window[axis]).map(|tap| start + (tap * self.dilation[axis]) as isize);
        let (size, end) = (self.size[axis] as isize, (self.size[axis] + self.after[axis]) as isize);
        let inside = all.clone().filter(|at| (0..size).contains(at)).map(|at| at as usize).collect();
        (inside, all.filter(|at| *at < end).count())
    }

    fn pool(&self, pool: Pool) -> Pool {
        let padding = [self.before, self.after].concat();
        let pool = pool.stride(&self.stride).dilation(&self.dilation).padding(&padding);
        if self.ceil { pool.ceil() } else { pool }
    }
}

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

/// Quarters without order, among them equal ones.
fn pixels(len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 2_654_435_761) >> 5) as u8 as i8 as f64 / 4.0).collect()
}

fn image(device: &Device, dtype: Dtype, pixels: &[f64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(pixels, shape, device).unwrap().cast(dtype).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(Dtype::F64).unwrap().to_vec().unwrap()
}

/// What each window gives: of an image `[N, C, H, W]`, from its places and how many are counted.
fn loops<T>(case: &Case, channels: usize, f: impl Fn(usize, &[usize], usize) -> T) -> Vec<T> {
    let ([height, width], mut results) = (case.size, Vec::new());
    for plane in 0..IMAGES * channels {
        for row in 0..case.windows(0) {
            for column in 0..case.windows(1) {
                let ((rows, down), (columns, across)) = (case.under(0, row), case.under(1, column));
                let first = plane * height * width;
                let places = rows.iter().flat_map(|r| columns.iter().map(move |c| first + r * width + c));
                results.push(f(plane, &places.collect::<Vec<_>>(), down * across));
            }
        }
    }
    results
}

#[test]
fn the_largest_of_each_window_and_its_position() {
    let device = checked();
    for (case, dtype) in
        CASES.iter().zip([Dtype::F32, Dtype::I8, Dtype::F16, Dtype::U8, Dtype::Bf16, Dtype::I64, Dtype::F32])
    {
        let x = pixels(IMAGES * 3 * case.size[0] * case.size[1]);
        let x = numbers(&image(&device, dtype, &x, &[x.len()]));
        let images = image(&device, dtype, &x, &[IMAGES, 3, case.size[0], case.size[1]]);
        let best = |places: &[usize]| places.iter().copied().reduce(|a, b| if x[b] > x[a] { b } else { a }).unwrap();
        let pool = case.pool(Pool::max(&case.window));
        let (values, positions) = pool.run_with_indices(&images).unwrap();
        let expected = loops(case, 3, |_, places, _| x[best(places)]);
        assert_eq!(numbers(&values), expected);
        assert_eq!(numbers(&pool.run(&images).unwrap()), expected);
        assert_eq!(positions.to_vec::<i64>().unwrap(), loops(case, 3, |_, places, _| best(places) as i64));
        let in_channel = pool.clone().indices(PoolIndices::Channel).run_with_indices(&images).unwrap().1;
        let plane = case.size[0] * case.size[1];
        let expected = loops(case, 3, |_, places, _| (best(places) % plane) as i64);
        assert_eq!(in_channel.to_vec::<i64>().unwrap(), expected);
        assert_eq!(values.dtype(), dtype);
    }
    clean(&device);
}

#[test]
fn means_and_norms_of_floats() {
    let device = checked();
    for (case, dtype) in
        CASES.iter().zip([Dtype::F32, Dtype::F64, Dtype::F32, Dtype::F64, Dtype::F32, Dtype::F32, Dtype::F64])
    {
        let x = pixels(IMAGES * 2 * case.size[0] * case.size[1]);
        let images = image(&device, dtype, &x, &[IMAGES, 2, case.size[0], case.size[1]]);
        let near = |pool: Pool, expected: &dyn Fn(&[usize], usize) -> f64| {
            let got = numbers(&case.pool(pool).run(&images).unwrap());
            let expected = loops(case, 2, |_, places, count| expected(places, count));
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(expected) {
                assert!((got - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{got} for {expected}");
            }
        };
        let sum = |places: &[usize]| places.iter().map(|place| x[*place]).sum::<f64>();
        near(Pool::mean(&case.window), &|places, _| sum(places) / places.len() as f64);
        near(Pool::mean(&case.window).count_padding(), &|places, count| sum(places) / count as f64);
        for p in [1, 2, 3] {
            let power = |place: &usize| x[*place].abs().powi(p);
            let norm = |places: &[usize]| places.iter().map(power).sum::<f64>().powf(1.0 / f64::from(p));
            near(Pool::norm(p as u32, &case.window), &|places, _| norm(places));
        }
    }
    clean(&device);
}

#[test]
fn channels_may_be_last_and_are_taken_several_at_a_time() {
    let device = checked();
    for (case, channels) in CASES.iter().zip([8, 16, 3, 4, 8, 1, 16]) {
        for dtype in [Dtype::F32, Dtype::Bf16, Dtype::I8] {
            let [height, width] = case.size;
            let x = pixels(IMAGES * channels * height * width);
            let first = image(&device, dtype, &x, &[IMAGES, channels, height, width]);
            let last = first.permute(&[0, 2, 3, 1]).unwrap();
            let pool = case.pool(Pool::max(&case.window));
            let expected = pool.run(&first).unwrap().permute(&[0, 2, 3, 1]).unwrap();
            for images in [last.copy().unwrap(), last] {
                let got = pool.clone().layout(ImageLayout::Nhwc).run(&images).unwrap();
                assert_eq!((got.shape(), numbers(&got)), (expected.shape(), numbers(&expected)));
            }
        }
    }
    clean(&device);
}

#[test]
fn adaptive_windows_share_the_image() {
    let device = checked();
    let x: Vec<f64> = (0..30).map(f64::from).collect();
    let images = image(&device, Dtype::F32, &x, &[1, 1, 5, 6]);
    let windows = |size: usize, n: usize, i: usize| i * size / n..((i + 1) * size).div_ceil(n);
    for (down, across) in [(1, 1), (2, 3), (3, 4), (5, 6), (7, 2)] {
        let mut means = Vec::new();
        for (row, column) in (0..down).flat_map(|row| (0..across).map(move |column| (row, column))) {
            let places: Vec<f64> = windows(5, down, row)
                .flat_map(|r| windows(6, across, column).map(move |c| (6 * r + c) as f64))
                .collect();
            means.push(places.iter().sum::<f64>() / places.len() as f64);
        }
        let got = Pool::adaptive_mean(&[down, across]).run(&images).unwrap();
        assert_eq!((got.shape(), numbers(&got)), (&[1, 1, down, across][..], means));
    }
    clean(&device);
}

#[test]
fn a_nan_is_the_largest_and_nothing_has_no_position() {
    let device = checked();
    let x = Tensor::from_slice(&[1.0_f32, f32::NAN, 3.0, -f32::INFINITY], &[1, 1, 4], &device).unwrap();
    let (values, positions) = Pool::max(&[2]).run_with_indices(&x).unwrap();
    let values = values.to_vec::<f32>().unwrap();
    assert!(values[0].is_nan() && values[1].is_nan() && values[2] == 3.0, "{values:?}");
    assert_eq!(positions.to_vec::<i64>().unwrap(), [1, 1, 2]);
    // The second window has one element before the image and one after it.
    let one = Tensor::from_slice(&[-f32::INFINITY], &[1, 1, 1], &device).unwrap();
    let pool = Pool::max(&[2]).dilation(&[2]).padding(&[1]);
    let (values, positions) = pool.run_with_indices(&one).unwrap();
    assert_eq!((values.to_vec::<f32>().unwrap(), positions.to_vec::<i64>().unwrap()), (vec![-f32::INFINITY], vec![-1]));
    let (values, positions) = Pool::max(&[1]).run_with_indices(&one).unwrap();
    assert_eq!((values.to_vec::<f32>().unwrap(), positions.to_vec::<i64>().unwrap()), (vec![-f32::INFINITY], vec![0]));
    clean(&device);
}

#[test]
fn what_has_no_result_is_refused() {
    let device = Device::virtual_gpu(Profile::H200);
    let x = Tensor::from_slice(&[1.0_f32; 16], &[1, 1, 4, 4], &device).unwrap();
    let whole = x.cast(Dtype::I32).unwrap();
    for pool in [
        Pool::max(&[5]),
        Pool::max(&[0]),
        Pool::max(&[2, 2, 2]),
        Pool::max(&[2]).stride(&[0]),
        Pool::max(&[2]).padding(&[2]),
        Pool::max(&[2]).padding(&[1, 1, 1]),
        Pool::norm(0, &[2]),
    ] {
        let error = pool.run(&x).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Operand { operator: "pooling", .. }), "{error}");
    }
    assert!(matches!(Pool::mean(&[2]).run(&whole).unwrap_err().kind(), ErrorKind::Unsupported { .. }));
    assert!(matches!(Pool::mean(&[2]).run_with_indices(&x).unwrap_err().kind(), ErrorKind::Operand { .. }));
    let flat = x.reshape(&[4, 4]).unwrap();
    assert!(matches!(Pool::max(&[2]).run(&flat).unwrap_err().kind(), ErrorKind::Operand { .. }));
}
