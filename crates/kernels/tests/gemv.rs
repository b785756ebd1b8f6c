//! Products of matrices and vectors, on every device at hand: every plan, element type and stride.

use half::{bf16, f16};
use warpfold_device::{Buffer, Checks, Device, Element, Profile};
use warpfold_kernels::gemv::{Algorithm, Choice, Gemv, Problem, Product, Reference};
use warpfold_kernels::plan::{Family, Workspace, alignment_of};
use warpfold_kernels::{Dtype, ErrorKind};

/// An element type, on the host.
trait Host: Element {
    const DTYPE: Dtype;
    /// Relative error of an addition in the type that is added in.
    const UNIT_ROUNDOFF: f64;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
    fn bytes(elements: &[Self]) -> Vec<u8>;
    fn all(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! hosts {
    ($($rust:ident $variant:ident $acc:ident |$value:ident| $of:expr, |$this:ident| $back:expr;)*) => {$(
        impl Host for $rust {
            const DTYPE: Dtype = Dtype::$variant;
            const UNIT_ROUNDOFF: f64 = $acc::EPSILON as f64 / 2.0;
            fn of($value: f64) -> Self { $of }
            fn value(self) -> f64 { let $this = self; $back }
            fn bytes(elements: &[Self]) -> Vec<u8> {
                elements.iter().flat_map(|element| element.to_le_bytes()).collect()
            }
            fn all(bytes: &[u8]) -> Vec<Self> {
                let element = |bytes: &[u8]| Self::from_le_bytes(bytes.try_into().expect("whole elements"));
                bytes.chunks_exact(size_of::<Self>()).map(element).collect()
            }
        }
    )*};
}

hosts! {
    f16 F16 f32 |value| f16::from_f64(value), |this| this.to_f64();
    bf16 Bf16 f32 |value| bf16::from_f64(value), |this| this.to_f64();
    f32 F32 f32 |value| value as f32, |this| f64::from(this);
    f64 F64 f64 |value| value, |this| this;
}

/// A matrix with rows any number of elements apart, and a vector, on a device.
struct Case<'a> {
    device: &'a Device,
    product: Product,
    rows: usize,
    columns: usize,
    row_stride: i64,
    /// Bytes of the matrix before its first element, which spoil its alignment.
    shift: usize,
}

impl Case<'_> {
    fn num_results(&self) -> usize {
        if self.product == Product::MatrixVector { self.rows } else { self.columns }
    }

    fn num_factors(&self) -> usize {
        if self.product == Product::MatrixVector { self.columns } else { self.rows }
    }

    /// Where an element lies in the memory of the matrix.
    fn place(&self, row: usize, column: usize) -> usize {
        let lowest = if self.row_stride < 0 { (self.rows - 1) as i64 * -self.row_stride } else { 0 };
        (lowest + row as i64 * self.row_stride) as usize + column
    }

    fn bytes_of_matrix<T: Host>(&self, element: impl Fn(usize, usize) -> f64) -> Vec<u8> {
        let len = if self.rows * self.columns == 0 {
            0
        } else {
            (self.rows - 1) * self.row_stride.unsigned_abs() as usize + self.columns
        };
        let mut elements = vec![T::of(f64::NAN); len];
        for row in 0..self.rows {
            (0..self.columns).for_each(|c| elements[self.place(row, c)] = T::of(element(row, c)));
        }
        [vec![0xff; self.shift], T::bytes(&elements)].concat()
    }

    /// The plan, and the result of its launch.
    fn run<T: Host>(&self, matrix: &impl Fn(usize, usize) -> f64, vector: &impl Fn(usize) -> f64) -> (Choice, Vec<T>) {
        let matrix = self.device.upload(&self.bytes_of_matrix::<T>(matrix)).unwrap();
        let matrix = matrix.view(self.shift..).unwrap();
        let vector: Vec<T> = (0..self.num_factors()).map(|i| T::of(vector(i))).collect();
        let vector: Buffer<u8> = self.device.upload(&T::bytes(&vector)).unwrap();
        let problem = Problem {
            product: self.product,
            dtype: T::DTYPE,
            rows: self.rows as u64,
            columns: self.columns as u64,
            row_stride: self.row_stride,
            alignment: alignment_of([matrix.address(), vector.address()]),
        };
        let mut result = self.device.alloc::<u8>(self.num_results() * size_of::<T>()).unwrap();
        let ready = Gemv.ready(self.device, &problem).unwrap();
        let (inputs, outputs) = ([Some(matrix), Some(vector.as_view())], &mut [result.as_view_mut()]);
        ready.launch(&self.device.default_stream(), &inputs, outputs, &mut Workspace::new()).unwrap();
        let result = result.download().unwrap();
        (Choice::new(problem, self.device.limits()).unwrap(), T::all(&result))
    }

    /// Runs it on numbers whose sums are exact in any order, and compares exactly.
    fn check_exactly<T: Host>(&self) -> Choice {
        // Eighths up to 1 in magnitude: 2^16 products add up to less than 2^18 sixty-fourths of 1.
        let element = |seed: usize, i: usize| ((i * 7919 + seed * 104_729) % 17) as f64 / 8.0 - 1.0;
        let matrix = |row, column| element(1, row * 31 + column);
        let vector = |i| element(2, i);
        let (plan, results) = self.run::<T>(&matrix, &vector);
        self.clean(&plan);
        // A stride of 0 makes all rows the last one that was stored.
        let stored = |row, column| matrix(if self.row_stride == 0 { self.rows - 1 } else { row }, column);
        let expected = Reference::of(self.product, (self.rows, self.columns), stored, vector);
        for (i, (found, expected)) in results.iter().zip(&expected).enumerate() {
            assert_eq!(*found, T::of(expected.sum), "element {i}, {} on {}", plan, self.device);
        }
        assert_eq!(results.len(), expected.len());
        plan
    }

    #[track_caller]
    fn clean(&self, plan: &Choice) {
        for launch in if self.device.is_virtual() { self.device.take_reports() } else { Vec::new() } {
            let findings: Vec<_> = launch.report.findings.iter().map(ToString::to_string).collect();
            assert!(findings.is_empty(), "{plan}: {}", findings.join("\n"));
        }
    }
}

fn devices() -> Vec<Device> {
    let devices = Device::all();
    for device in devices.iter().filter(|device| device.is_virtual()) {
        device.set_checks(Checks::All).unwrap();
    }
    devices
}

const PRODUCTS: [Product; 2] = [Product::MatrixVector, Product::VectorMatrix];

/// Every width of a row that lanes share, none, whole and broken vectors, and many rounds.
const WIDTHS: [usize; 15] = [0, 1, 2, 3, 7, 8, 9, 16, 33, 64, 127, 128, 255, 512, 1031];

fn check_types(case: &Case<'_>) {
    case.check_exactly::<f16>();
    case.check_exactly::<bf16>();
    case.check_exactly::<f32>();
    case.check_exactly::<f64>();
}

#[test]
fn products_are_exact_for_numbers_whose_sums_are_exact() {
    for device in &devices() {
        println!("on {device}");
        for columns in WIDTHS {
            for rows in [0, 1, 5, 32, 67] {
                for product in PRODUCTS {
                    check_types(&Case { device, product, rows, columns, row_stride: columns as i64, shift: 0 });
                }
            }
        }
    }
}

#[test]
fn rows_may_lie_any_number_of_elements_apart() {
    for device in &devices() {
        for row_stride in [-72_i64, -65, -64, 0, 64, 67, 72, 3] {
            for product in PRODUCTS {
                let columns = if row_stride == 0 { 40 } else { 64.min(row_stride.unsigned_abs() as usize) };
                check_types(&Case { device, product, rows: 19, columns, row_stride, shift: 0 });
            }
        }
    }
}

#[test]
fn accesses_are_as_wide_as_rows_and_addresses_allow() {
    for device in &devices() {
        for product in PRODUCTS {
            for (columns, row_stride, shift, bytes) in [
                (40, 44, 0, 8),
                (42, 42, 0, 4),
                (41, 41, 0, 2),
                (40, 40, 8, 8),
                (40, 40, 4, 4),
                (8, 8, 0, 16),
                (4, 4, 0, 8),
            ] {
                let case = Case { device, product, rows: 500, columns, row_stride, shift };
                let plan = case.check_exactly::<f16>();
                assert!(plan.to_string().contains(&format!("{bytes} bytes per access")), "{plan}");
            }
        }
    }
}

#[test]
fn a_matrix_may_begin_at_any_element() {
    for device in &devices() {
        for product in PRODUCTS {
            check_types(&Case { device, product, rows: 9, columns: 264, row_stride: 264, shift: 8 });
            Case { device, product, rows: 9, columns: 264, row_stride: 264, shift: 2 }.check_exactly::<f16>();
            Case { device, product, rows: 9, columns: 264, row_stride: 264, shift: 4 }.check_exactly::<f32>();
        }
    }
}

#[test]
fn few_long_rows_and_columns_are_shared_between_blocks() {
    for device in &devices() {
        for (product, rows, columns) in [
            (Product::MatrixVector, 1, 60_001),
            (Product::MatrixVector, 3, 24_576),
            (Product::VectorMatrix, 60_001, 1),
            (Product::VectorMatrix, 24_577, 3),
            (Product::VectorMatrix, 4_001, 40),
        ] {
            let case = Case { device, product, rows, columns, row_stride: columns as i64, shift: 0 };
            assert!(case.check_exactly::<f32>().num_parts > 1);
            check_types(&case);
        }
    }
}

#[test]
fn many_rows_share_the_loads_of_the_vector() {
    for device in devices().iter().filter(|device| device.is_virtual()) {
        device.set_checks(Checks::None).unwrap();
        for (rows, columns) in [(1 << 17, 5), (300_001, 1)] {
            let product = Product::MatrixVector;
            let case = Case { device, product, rows, columns, row_stride: columns as i64, shift: 0 };
            case.check_exactly::<f32>();
            let aligned = Case { columns: 16, row_stride: 16, rows: 140_003, ..case };
            let plan = aligned.check_exactly::<f32>();
            assert!(matches!(plan.algorithm, Algorithm::Rows(shape) if shape.rows == 2), "{plan}");
        }
    }
}

/// Scattered numbers of many magnitudes and both signs.
fn adversarial(seed: u64, i: u64) -> f64 {
    let z = (i ^ seed << 40).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let magnitude = f64::from((z >> 59) as u32) - 16.0;
    ((z >> 20 & 0xff_ffff) as f64 / 8_388_608.0 - 1.0) * magnitude.exp2()
}

#[test]
fn errors_stay_within_the_bound_that_the_plan_gives() {
    fn check<T: Host>(device: &Device, product_kind: Product, rows: usize, columns: usize) {
        let case = Case { device, product: product_kind, rows, columns, row_stride: columns as i64, shift: 0 };
        // Rounded to the type first: the reference multiplies what the device does.
        let matrix = |r: usize, c: usize| T::of(adversarial(1, (r * columns + c) as u64)).value();
        let vector = |i: usize| T::of(adversarial(2, i as u64)).value();
        let (plan, results) = case.run::<T>(&matrix, &vector);
        let expected = Reference::of(product_kind, (rows, columns), matrix, vector);
        for (i, (found, expected)) in results.iter().zip(expected).enumerate() {
            let Reference { sum, .. } = expected;
            // The reference itself adds in double precision, and halves are rounded once more.
            let of_reference = expected.error_bound(rows.max(columns) as u64, f64::EPSILON / 2.0);
            let rounding = (T::of(sum).value() - sum).abs() * 2.0;
            let bound = expected.error_bound(plan.depth(), T::UNIT_ROUNDOFF) * 1.01 + of_reference + rounding;
            assert!((found.value() - sum).abs() <= bound, "element {i}: {found:?}, expected {sum}, {plan}");
        }
    }
    for device in &devices() {
        for product in PRODUCTS {
            for (rows, columns) in [(40, 1000), (1000, 40), (1, 30_000), (30_000, 1), (64, 64)] {
                check::<bf16>(device, product, rows, columns);
                check::<f32>(device, product, rows, columns);
                check::<f64>(device, product, rows, columns);
            }
        }
    }
}

#[test]
fn results_repeat_bit_for_bit() {
    for device in &devices() {
        for product in PRODUCTS {
            for (rows, columns) in [(1, 40_000), (40_000, 2), (70, 300)] {
                let case = Case { device, product, rows, columns, row_stride: columns as i64, shift: 0 };
                let run = || {
                    let matrix = |r: usize, c: usize| adversarial(1, (r * columns + c) as u64);
                    case.run::<f32>(&matrix, &|i| adversarial(2, i as u64)).1.into_iter().map(f32::to_bits)
                };
                assert!(run().eq(run()), "{rows} x {columns}");
            }
        }
    }
}

#[test]
fn nan_and_infinity_reach_only_their_own_row() {
    for device in &devices() {
        let case = Case { device, product: Product::MatrixVector, rows: 70, columns: 50, row_stride: 52, shift: 0 };
        let matrix = |row: usize, column: usize| match (row, column) {
            (3, 49) => f64::NAN,
            (69, 0) => f64::INFINITY,
            _ => 1.0,
        };
        let (_, results) = case.run::<f32>(&matrix, &|_| 1.0);
        for (row, found) in results.into_iter().enumerate() {
            match row {
                3 => assert!(found.is_nan()),
                69 => assert_eq!(found, f32::INFINITY),
                _ => assert_eq!(found, 50.0, "row {row}"),
            }
        }
    }
}

fn problem(dtype: Dtype, rows: u64, columns: u64) -> Problem {
    Problem { product: Product::MatrixVector, dtype, rows, columns, row_stride: columns as i64, alignment: 16 }
}

#[test]
fn every_plan_has_enough_bytes_under_way() {
    let limits = Device::virtual_gpu(Profile::H200).limits().to_owned();
    for (rows, columns) in [(1 << 20, 4), (8192, 8192), (100, 1 << 20), (1 << 20, 33 * 4)] {
        for product in PRODUCTS {
            let plan = Choice::new(Problem { product, ..problem(Dtype::F32, rows, columns) }, &limits).unwrap();
            println!("{plan}: {} bytes in flight", plan.bytes_in_flight());
            assert!(plan.bytes_in_flight() >= 48 << 10, "{plan}");
        }
    }
}

#[test]
fn plans_say_what_they_do() {
    let limits = Device::virtual_gpu(Profile::H200).limits().to_owned();
    let text = |problem| Choice::new(problem, &limits).unwrap().to_string();
    assert_eq!(
        text(problem(Dtype::F32, 100_000, 1024)),
        "f32 [100000, 1024] x [1024]: 32 lanes take 2 row(s), 1 access(es) of each at a time, 16 bytes per access, 6250 block(s) of 256"
    );
    assert_eq!(
        text(problem(Dtype::F16, 2, 1 << 20)),
        "f16 [2, 1048576] x [1048576]: a block takes 8192 column(s) of a row, 16 bytes per access, 256 block(s) of 256, then the sums of 128 parts"
    );
    let transposed = Problem { product: Product::VectorMatrix, ..problem(Dtype::F64, 0, 7) };
    assert_eq!(
        text(transposed),
        "f64 [0] x [0, 7]: 8 threads side by side take 0 row(s), 8 bytes per access, 1 block(s) of 256"
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::virtual_gpu(Profile::H200);
    let limits = device.limits();
    let error = Choice::new(problem(Dtype::I32, 4, 4), limits).unwrap_err();
    assert_eq!(error.to_string(), "gemv does not take elements of type i32");
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }));

    let ready = Gemv.ready(&device, &problem(Dtype::F32, 4, 4)).unwrap();
    let memory = device.alloc_zeroed::<u8>(64).unwrap();
    let mut result = device.alloc::<u8>(16).unwrap();
    let mut attempt = |matrix: std::ops::Range<usize>, vector: std::ops::Range<usize>| {
        let inputs = [Some(memory.view(matrix).unwrap()), Some(memory.view(vector).unwrap())];
        let launched =
            ready.launch(&device.default_stream(), &inputs, &mut [result.as_view_mut()], &mut Workspace::new());
        launched.map_err(|error| error.to_string())
    };
    assert_eq!(attempt(0..63, 0..16).unwrap_err(), "gemv: matrix needs 64 bytes, not 63");
    assert_eq!(attempt(0..64, 4..20).unwrap_err(), "gemv: vector does not begin at a multiple of 16 bytes");
    attempt(0..64, 0..16).unwrap();
}
