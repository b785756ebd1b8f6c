//! Products with weights of few bits: timed in turns with the bf16 product whose bits they have, at
//! the shapes of the layers of a model of 8 billion weights.

use half::{bf16, f16};
use warpfold_device::{Buffer, Device};
use warpfold_kernels::matmul::quantized::{self, Dequantize, Offset, PackedShape, Piece, Quantized, Scale, Scheme};
use warpfold_kernels::matmul::{BatchInvariance, Matmul, Matrix, Problem};
use warpfold_kernels::plan::{Family, Ready};
use warpfold_kernels::{Dtype, Error, Workspace};

use super::check::{Sample, compare, of_sum, spread};
use super::data::{Elements, filled};
use super::measure::counted;
use super::products::{round, summary};
use super::{Peer, Record};
use warpfold::Queue;

/// Rounds whose median counts.
const ROUNDS: usize = 9;

/// Formats of weights, as llama.cpp calls them.
const SCHEMES: [(&str, Scheme); 5] = [
    ("Q4_0", Scheme::symmetric(4, 8)),
    ("Q4_1", Scheme { zero: 0, offset: Offset::Half, ..Scheme::symmetric(4, 8) }),
    ("Q4_K", Scheme { zero: 0, scale: Scale::Byte, offset: Offset::Byte, ..Scheme::symmetric(4, 8) }),
    ("Q6_K", Scheme { bits: 6, group: 16, zero: 32, scale: Scale::SignedByte, ..Scheme::symmetric(4, 8) }),
    ("Q8_0", Scheme::symmetric(8, 128)),
];

/// A product at a shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    name: &'static str,
    scheme: Scheme,
    sizes: [u64; 3],
}

/// Every case; for the virtual GPU smaller ones, each once.
pub(super) fn all(is_virtual: bool) -> Vec<Product> {
    let mut products = Vec::new();
    for (name, scheme) in SCHEMES {
        // Queries, keys and values; the output; gate and up; down.
        for [n, k] in [[6144, 4096], [4096, 4096], [28_672, 4096], [4096, 14_336]] {
            let more: &[u64] = if name == "Q4_0" || name == "Q4_K" { &[4, 64, 128, 256, 512] } else { &[] };
            for rows in [1, 8, 16].iter().chain(more) {
                let sizes = if is_virtual { [rows.div_ceil(8), n / 16, k / 16] } else { [*rows, n, k] };
                products.push(Product { name, scheme, sizes });
            }
        }
    }
    products.sort_by_key(|product| (product.name, product.sizes));
    products.dedup_by_key(|product| (product.name, product.sizes));
    products
}

/// Weights that the host knows.
fn fill(scheme: Scheme, row: usize, number: usize, piece: &mut Piece) {
    let word = |i: usize| {
        let word = ((row * 8191 + number) * 131 + i) as u32;
        (word.wrapping_mul(2_654_435_761) ^ word >> 5) >> 7
    };
    let half = |i: usize| f16::from_f32((word(i) % 97 + 1) as f32 / 8192.0).to_bits();
    piece.codes = std::array::from_fn(|i| (word(i) % (1 << scheme.bits)) as u8);
    piece.scales = std::array::from_fn(|i| match scheme.scale {
        Scale::Half => half(200 + i),
        _ => (word(200 + i) % 64) as u16,
    });
    piece.offsets = std::array::from_fn(|i| match scheme.offset {
        Offset::Half => half(300 + i),
        _ => (word(300 + i) % 64) as u16,
    });
    piece.shared = [half(400), half(401)];
}

impl Product {
    fn name(self) -> String {
        let [m, n, k] = self.sizes;
        format!("quantized {} [{m}, {k}] [{n}, {k}]T", self.name)
    }

    fn shape(self) -> PackedShape {
        PackedShape { rows: self.sizes[1], columns: self.sizes[2] }
    }

    /// The product with a matrix of bf16.
    fn problem(self) -> Problem {
        let [m, n, k] = self.sizes;
        let b = Matrix::rows(Dtype::Bf16, k).transposed();
        let batch_invariance = BatchInvariance::On;
        Problem { b, batch_invariance, weights: true, ..Problem::new(Dtype::Bf16, m, n, k) }
    }

    fn bytes(self) -> u64 {
        let [m, n, k] = self.sizes;
        self.shape().bytes(self.scheme) + 2 * m * (n + k)
    }

    /// Results at corners and between, by dot products in double precision.
    fn samples(self) -> Vec<Sample> {
        let [m, n, k] = self.sizes;
        let a = Elements::new(Dtype::Bf16, m * k);
        let weights = |row: u64| -> Vec<f64> {
            let piece = |number: u64| {
                let mut piece = Piece::default();
                fill(self.scheme, row as usize, number as usize, &mut piece);
                self.scheme.weights(&piece)
            };
            let all = (0..k.div_ceil(Piece::LEN as u64)).flat_map(piece);
            all.map(|weight| bf16::from_f32(weight).to_f64()).take(k as usize).collect()
        };
        let of_column = |column: u64| {
            let weights = weights(column);
            let of_row = |row: u64| {
                let terms = (0..k).zip(&weights).map(|(l, weight)| a.at(row * k + l) * weight);
                let [sum, magnitudes] = terms.fold([0.0; 2], |[sum, all], term| [sum + term, all + term.abs()]);
                Sample::new(Dtype::Bf16, row * n + column, sum, of_sum(Dtype::Bf16, magnitudes))
            };
            spread(m, 5).map(of_row).collect::<Vec<_>>()
        };
        spread(n, 9).flat_map(of_column).collect()
    }
}

/// Inputs and result of a run, and the same of the bf16 product.
struct Prepared {
    a: Buffer<u8>,
    packed: Buffer<u8>,
    matrix: Buffer<u8>,
    c: Buffer<u8>,
}

pub(super) fn measure(device: &Device, product: Product) -> Result<Record, Error> {
    let queue = Queue::new(device.default_stream());
    let (scheme, shape, [m, n, k]) = (product.scheme, product.shape(), product.sizes);
    let problem = product.problem();
    let quantized = quantized::Problem::new(problem.clone(), scheme);
    let ready = device.recorded(|| Quantized.ready(device, &quantized))?;
    let mut workspace = Workspace::new();
    let packed = scheme.pack(shape, |row, number, piece| fill(scheme, row, number, piece));
    let decode = Dequantize.ready(device, &(scheme, shape, Dtype::Bf16))?;
    // As many copies as no cache holds.
    let copies = if device.is_virtual() { 1 } else { (512_u64 << 20).div_ceil(product.bytes()).clamp(1, 64) };
    let mut prepared = Vec::new();
    for _ in 0..copies {
        let mut one = Prepared {
            a: filled(&queue, Dtype::Bf16, m * k)?,
            packed: device.upload(&packed)?,
            matrix: device.alloc::<u8>(2 * (n * k) as usize)?,
            c: device.alloc::<u8>(2 * (m * n) as usize)?,
        };
        decode.launch(
            queue.stream(),
            &[Some(one.packed.as_view())],
            &mut [one.matrix.as_view_mut()],
            &mut workspace,
        )?;
        prepared.push(one);
    }
    queue.stream().synchronize()?;
    drop(device.take_reports());
    let mut run = |ready: &Ready, is_packed: bool, prepared: &mut Prepared| {
        let Prepared { a, packed, matrix, c } = prepared;
        let inputs = [Some(a.as_view()), Some(if is_packed { packed.as_view() } else { matrix.as_view() })];
        device.recorded(|| ready.launch(queue.stream(), &inputs, &mut [c.as_view_mut()], &mut workspace))
    };
    run(&ready, true, &mut prepared[0])?;
    let record = Record::new(
        "quantized",
        product.name(),
        [product.bytes(), ready.plan().steps.len() as u64],
        Some(problem.flops()),
    );
    if device.is_virtual() {
        let (counters, _) = counted(device);
        let checked = Some(compare(&queue, [vec![&prepared[0].c]], &product.samples())?);
        return Ok(Record { counters: Some(counters), checked, ..record });
    }
    let other = Matmul.ready(device, &problem)?;
    // About ten milliseconds a round.
    let runs = (20_000_000_000 / product.bytes().max(problem.flops() / 200)).clamp(3, 300) as usize;
    let (mut times, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        times.push(round(&queue, runs, &mut prepared, &mut |prepared| run(&ready, true, prepared))?);
        peers.push(round(&queue, runs, &mut prepared, &mut |prepared| run(&other, false, prepared))?);
    }
    // The other's results are not ours.
    round(&queue, prepared.len(), &mut prepared, &mut |prepared| run(&ready, true, prepared))?;
    let checked = Some(compare(&queue, prepared.iter().map(|prepared| vec![&prepared.c]), &product.samples())?);
    let peer = Some(Peer { name: "bf16", time: summary(peers) });
    Ok(Record { time: Some(summary(times)), peer, checked, ..record })
}
