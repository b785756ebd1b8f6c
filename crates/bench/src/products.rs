//! Products of matrices: timed in turns with the vendor's library where it is installed, on the
//! same data.

use std::time::Duration;

use warpfold_device::{Buffer, Device, Stream};
use warpfold_kernels::matmul::{F32Math, Matmul, Matrix, Problem};
use warpfold_kernels::plan::Family;
use warpfold_kernels::{Dtype, Error, Workspace};

use super::check::{Sample, compare, of_sum, spread};
use super::data::{Elements, filled};
use super::measure::{counted, wait_for};
use super::{Peer, Record, Time};
use crate::vendor::{Cublas, CublasLt, CublasProduct, CublasTypes};
use warpfold::Queue;

/// Rounds whose median counts.
const ROUNDS: usize = 9;

/// A product at a shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Product {
    dtype: Dtype,
    f32_math: F32Math,
    sizes: [u64; 3],
    /// The right matrix is transposed, as the weights of a layer are.
    is_transposed: bool,
}

/// Every case; for the virtual GPU smaller ones, each once.
pub(super) fn all(is_virtual: bool) -> Vec<Product> {
    let mut products = Vec::new();
    let mut add = |dtype, f32_math, sizes: [u64; 3], is_transposed| {
        let sizes = if is_virtual { sizes.map(|size| size.div_ceil(16)) } else { sizes };
        let product = Product { dtype, f32_math, sizes, is_transposed };
        if !products.contains(&product) {
            products.push(product);
        }
    };
    let full = F32Math::Ieee;
    for size in [2048, 4096, 8192, 16_384] {
        add(Dtype::Bf16, full, [size; 3], true);
    }
    for size in [4096, 8192] {
        add(Dtype::F16, full, [size; 3], true);
    }
    add(Dtype::Bf16, full, [8192; 3], false);
    for rows in [1, 16, 64, 128, 256, 512] {
        add(Dtype::Bf16, full, [rows, 8192, 8192], true);
    }
    for rows in [16, 64, 128] {
        add(Dtype::Bf16, full, [rows, 4096, 14_336], true);
    }
    for rows in [64, 128] {
        add(Dtype::Bf16, full, [rows, 28_672, 8192], true);
    }
    for size in [1024, 4096, 8192] {
        add(Dtype::F32, full, [size; 3], false);
    }
    add(Dtype::F32, full, [8192; 3], true);
    for size in [4096, 8192] {
        add(Dtype::F32, F32Math::Tf32, [size; 3], true);
    }
    for size in [4096, 8192] {
        add(Dtype::F8E4M3, full, [size; 3], true);
    }
    add(Dtype::I8, full, [8192; 3], true);
    products
}

impl Product {
    fn result(self) -> Dtype {
        match self.dtype {
            Dtype::I8 => Dtype::I32,
            Dtype::F8E4M3 => Dtype::Bf16,
            dtype => dtype,
        }
    }

    fn name(self) -> String {
        let [m, n, k] = self.sizes;
        let dtype = if self.f32_math == F32Math::Tf32 { "tf32".to_owned() } else { self.dtype.to_string() };
        let right = if self.is_transposed { format!("[{n}, {k}]T") } else { format!("[{k}, {n}]") };
        format!("matmul {dtype} [{m}, {k}] {right}")
    }

    fn problem(self) -> Problem {
        let [m, n, k] = self.sizes;
        let c = Matrix::rows(self.result(), n);
        let b = if self.is_transposed { Matrix::rows(self.dtype, k).transposed() } else { Matrix::rows(self.dtype, n) };
        Problem { b, c, f32_math: self.f32_math, ..Problem::new(self.dtype, m, n, k) }
    }

    /// Results at corners and between, by dot products in double precision.
    fn samples(self) -> Vec<Sample> {
        let [m, n, k] = self.sizes;
        let (a, b) = (Elements::new(self.dtype, m * k), Elements::new(self.dtype, k * n));
        let dot = |[i, j]: [u64; 2]| {
            let right = |l| b.at(if self.is_transposed { j * k + l } else { l * n + j });
            let terms = (0..k).map(|l| a.at(i * k + l) * right(l));
            let [sum, magnitudes] = terms.fold([0.0; 2], |[sum, all], term| [sum + term, all + term.abs()]);
            let error = match (self.dtype, self.f32_math) {
                // Elements of 10 digits.
                (Dtype::F32, F32Math::Tf32) => magnitudes * 2_f64.powi(-10),
                // Sums of 13 digits, as tensor cores add 8-bit floats.
                (Dtype::F8E4M3, _) => magnitudes * 2_f64.powi(-11),
                (dtype, _) => of_sum(dtype, magnitudes),
            };
            Sample::new(self.result(), i * n + j, sum, error)
        };
        spread(m, 5).flat_map(|i| spread(n, 5).map(move |j| [i, j])).map(dot).collect()
    }

    fn peer(self) -> Option<CublasProduct> {
        let types = match (self.dtype, self.f32_math) {
            (Dtype::F32, F32Math::Ieee) => CublasTypes::F32,
            (Dtype::F32, F32Math::Tf32) => CublasTypes::Tf32,
            (Dtype::F16, _) => CublasTypes::F16,
            (Dtype::Bf16, _) => CublasTypes::Bf16,
            (Dtype::I8, _) => CublasTypes::I8,
            (Dtype::F8E4M3, _) => CublasTypes::F8E4M3,
            _ => return None,
        };
        let [m, n, k] = self.sizes.map(|size| size as usize);
        Some(CublasProduct { m, n, k, b_is_transposed: self.is_transposed, types })
    }
}

/// The vendor's library that has a product.
enum Library {
    Cublas(Cublas, CublasProduct),
    CublasLt(CublasLt),
}

impl Library {
    fn load(stream: &Stream, product: CublasProduct) -> Option<Self> {
        match product.types {
            CublasTypes::F8E4M3 => CublasLt::load(stream, product).map(Self::CublasLt),
            _ => Cublas::load(stream).map(|library| Self::Cublas(library, product)),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Cublas(..) => "cuBLAS",
            Self::CublasLt(_) => "cublasLt",
        }
    }

    fn multiply(&mut self, Prepared { a, b, c }: &mut Prepared) -> Result<(), Error> {
        let (a, b, mut c) = (a.as_view(), b.as_view(), c.as_view_mut());
        let done = match self {
            Self::Cublas(library, product) => library.multiply(*product, &a, &b, &mut c),
            Self::CublasLt(library) => library.multiply(&a, &b, &mut c),
        };
        Ok(done?)
    }
}

/// Inputs and result of a run.
struct Prepared {
    a: Buffer<u8>,
    b: Buffer<u8>,
    c: Buffer<u8>,
}

pub(super) fn measure(device: &Device, product: Product) -> Result<Record, Error> {
    let queue = Queue::new(device.default_stream());
    let [m, n, k] = product.sizes;
    let problem = product.problem();
    let ready = device.recorded(|| Matmul.ready(device, &problem))?;
    let bytes = (m * k + k * n) * product.dtype.bytes() + m * n * product.result().bytes();
    let mut workspace = Workspace::new();
    // As many copies as no cache holds.
    let copies = if device.is_virtual() { 1 } else { (512_u64 << 20).div_ceil(bytes).clamp(1, 16) };
    let prepare = |_| {
        Ok(Prepared {
            a: filled(&queue, product.dtype, m * k)?,
            b: filled(&queue, product.dtype, k * n)?,
            c: device.alloc::<u8>((m * n * product.result().bytes()) as usize)?,
        })
    };
    let mut prepared = (0..copies).map(prepare).collect::<Result<Vec<_>, Error>>()?;
    drop(device.take_reports());
    let mut ours = |Prepared { a, b, c }: &mut Prepared| {
        let inputs = [Some(a.as_view()), Some(b.as_view())];
        device.recorded(|| ready.launch(queue.stream(), &inputs, &mut [c.as_view_mut()], &mut workspace))
    };
    ours(&mut prepared[0])?;
    let launches = ready.plan().steps.len() as u64;
    let record = Record::new("matmul", product.name(), [bytes, launches], Some(problem.flops()));
    if device.is_virtual() {
        let (counters, _) = counted(device);
        let checked = Some(compare(&queue, [vec![&prepared[0].c]], &product.samples())?);
        return Ok(Record { counters: Some(counters), checked, ..record });
    }
    let mut library = product.peer().and_then(|peer| Library::load(queue.stream(), peer));
    // About ten milliseconds a round.
    let runs = (8_000_000_000_000 / problem.flops().max(1)).clamp(3, 100) as usize;
    let (mut times, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        times.push(round(&queue, runs, &mut prepared, &mut ours)?);
        if let Some(library) = &mut library {
            peers.push(round(&queue, runs, &mut prepared, &mut |prepared| library.multiply(prepared))?);
        }
    }
    let peer = library.map(|library| Peer { name: library.name(), time: summary(peers) });
    // The peer's results are not ours.
    round(&queue, prepared.len(), &mut prepared, &mut ours)?;
    let checked = Some(compare(&queue, prepared.iter().map(|prepared| vec![&prepared.c]), &product.samples())?);
    Ok(Record { time: Some(summary(times)), peer, checked, ..record })
}

/// The time of a run, of so many in a row.
pub(super) fn round<P>(
    queue: &Queue,
    runs: usize,
    prepared: &mut [P],
    run: &mut dyn FnMut(&mut P) -> Result<(), Error>,
) -> Result<Duration, Error> {
    wait_for(queue, 4_000_000)?;
    let start = queue.stream().record()?;
    let num = prepared.len();
    for i in 0..runs {
        run(&mut prepared[i % num])?;
    }
    let end = queue.stream().record()?;
    Ok(end.elapsed_since(&start)?.unwrap_or_default() / runs as u32)
}

/// Summarises the rounds after the first, which warms up.
pub(super) fn summary(times: Vec<Duration>) -> Time {
    let mut times = times[1..].to_vec();
    times.sort_unstable();
    let (least, most) = (times[0], times[times.len() - 1]);
    Time { median: times[times.len() / 2].max(Duration::from_nanos(1)), least, most }
}
