//! Gated delta nets against plain loops in double precision, and their bits against themselves;
//! under every check.

use warpfold::{DeltaHeads, DeltaRows, DeltaState, DeltaWeights, Device, Dtype, ErrorKind, Profile, Queue, Tensor};
use warpfold_device::Checks;

fn device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

fn is_clean(device: &Device) {
    for report in device.take_reports() {
        assert!(report.report.findings.is_empty(), "{}: {:?}", report.kernel, report.report.findings);
    }
}

fn sample(i: usize) -> f32 {
    ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0
}

const EPS: f64 = 1e-6;

/// The numbers of a layer, and rows that it takes.
struct Layer {
    heads: DeltaHeads,
    numbers: [Vec<f32>; 4],
}

impl Layer {
    fn new(heads: DeltaHeads) -> Self {
        let some = |first: usize, len: u64| (first..first + len as usize).map(sample).collect::<Vec<_>>();
        let numbers =
            [some(0, heads.channels() * 4), some(7, heads.values), some(70, heads.values), some(90, heads.value_dim)];
        Self { heads, numbers }
    }

    fn weights(&self, device: &Device) -> DeltaWeights {
        let [taps, decays, offsets, scale] = &self.numbers;
        let list = |numbers: &[f32]| Tensor::from_slice(numbers, &[numbers.len()], device).unwrap();
        DeltaWeights {
            taps: Tensor::from_slice(taps, &[taps.len() / 4, 4], device).unwrap(),
            decays: list(decays),
            offsets: list(offsets),
            scale: list(scale),
            eps: EPS,
        }
    }

    /// The rows of a sequence.
    fn rows(&self, sequence: usize, len: usize) -> Vec<f32> {
        (0..len * self.heads.row_len() as usize).map(|i| 2.0 * sample(1000 * sequence + i)).collect()
    }

    /// The results of a sequence, in double precision.
    fn expected(&self, rows: &[f32]) -> Vec<f64> {
        let DeltaHeads { keys, values, key_dim, value_dim } = self.heads;
        let [keys, values, key_dim, value_dim] = [keys, values, key_dim, value_dim].map(|size| size as usize);
        let (channels, row_len) = (self.heads.channels() as usize, self.heads.row_len() as usize);
        let [taps, decays, offsets, scale] = &self.numbers;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let at = |row: usize, i: usize| f64::from(rows[row * row_len + i]);
        let mut matrices = vec![0.0; values * key_dim * value_dim];
        let mut results = Vec::new();
        for row in 0..rows.len() / row_len {
            let mixed: Vec<f64> = (0..channels)
                .map(|channel| {
                    let there = (0..4).filter(|tap| row + tap >= 3);
                    let sum: f64 =
                        there.map(|tap| at(row + tap - 3, channel) * f64::from(taps[4 * channel + tap])).sum();
                    sum * sigmoid(sum)
                })
                .collect();
            let unit = |x: &[f64]| {
                let len = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
                x.iter().map(|x| x / len).collect::<Vec<_>>()
            };
            for head in 0..values {
                let key = head / (values / keys) * key_dim;
                let (q, k) = (unit(&mixed[key..key + key_dim]), unit(&mixed[keys * key_dim + key..][..key_dim]));
                let v = &mixed[2 * keys * key_dim + head * value_dim..][..value_dim];
                let first = channels + values * value_dim;
                let (b, a) = (at(row, first + head), at(row, first + values + head));
                let rate = (a + f64::from(offsets[head])).exp().ln_1p();
                let decay = (-f64::from(decays[head]).exp() * rate).exp();
                let matrix = &mut matrices[head * key_dim * value_dim..][..key_dim * value_dim];
                matrix.iter_mut().for_each(|s| *s *= decay);
                let column = |matrix: &[f64], by: &[f64], j: usize| {
                    by.iter().enumerate().map(|(i, x)| x * matrix[i * value_dim + j]).sum::<f64>()
                };
                for j in 0..value_dim {
                    let change = (v[j] - column(matrix, &k, j)) * sigmoid(b);
                    k.iter().enumerate().for_each(|(i, k)| matrix[i * value_dim + j] += k * change);
                }
                let seen: Vec<f64> = (0..value_dim).map(|j| column(matrix, &q, j) / (key_dim as f64).sqrt()).collect();
                let mean = seen.iter().map(|x| x * x).sum::<f64>() / value_dim as f64;
                results.extend(seen.iter().enumerate().map(|(j, x)| {
                    let z = at(row, channels + head * value_dim + j);
                    x / (mean + EPS).sqrt() * f64::from(scale[j]) * z * sigmoid(z)
                }));
            }
        }
        results
    }
}

/// Runs steps of a state: of each sequence in it its place, its first position and its rows.
fn step(layer: &Layer, weights: &DeltaWeights, state: &mut DeltaState, sequences: &[(i32, usize, &[f32])]) -> Vec<f32> {
    let device = weights.taps.device().clone();
    let row_len = layer.heads.row_len() as usize;
    let list = |numbers: &[i32]| Tensor::from_slice(numbers, &[numbers.len()], &device).unwrap();
    let (mut starts, mut positions, mut all) = (vec![0], Vec::new(), Vec::new());
    for (_, first, rows) in sequences {
        let len = rows.len() / row_len;
        positions.extend((*first..first + len).map(|position| position as i32));
        starts.push(positions.len() as i32);
        all.extend_from_slice(rows);
    }
    let is_single = positions.len() == sequences.len();
    let places = list(&sequences.iter().map(|(place, ..)| *place).collect::<Vec<_>>());
    let (positions, starts) = (list(&positions), list(&starts));
    let x = Tensor::from_slice(&all, &[all.len() / row_len, row_len], &device).unwrap();
    let x = x.cast(state.dtype()).unwrap();
    let starts = (!is_single).then_some(&starts);
    let results = state.run(&x, weights, DeltaRows { positions: &positions, places: &places, starts }).unwrap();
    results.cast(Dtype::F32).unwrap().to_vec().unwrap()
}

fn state(layer: &Layer, dtype: Dtype, device: &Device, places: usize) -> DeltaState {
    DeltaState::new(&Queue::of(device), dtype, layer.heads, places).unwrap()
}

const SHAPES: [DeltaHeads; 4] = [
    DeltaHeads { keys: 1, values: 1, key_dim: 8, value_dim: 8 },
    DeltaHeads { keys: 2, values: 4, key_dim: 32, value_dim: 24 },
    DeltaHeads { keys: 1, values: 2, key_dim: 128, value_dim: 136 },
    DeltaHeads { keys: 1, values: 1, key_dim: 256, value_dim: 16 },
];

#[test]
fn delta_nets_are_those_of_double_precision() {
    let device = device();
    for heads in SHAPES {
        let layer = Layer::new(heads);
        let rows = layer.rows(1, 11);
        let got = step(&layer, &layer.weights(&device), &mut state(&layer, Dtype::F32, &device, 2), &[(1, 0, &rows)]);
        for (i, (got, expected)) in got.iter().zip(layer.expected(&rows)).enumerate() {
            assert!(
                (f64::from(*got) - expected).abs() < 2e-4 * (1.0 + expected.abs()),
                "{heads:?} {i}: {got} for {expected}"
            );
        }
        is_clean(&device);
    }
}

#[test]
fn bits_depend_neither_on_pieces_nor_on_other_sequences() {
    let device = device();
    for (heads, dtype) in SHAPES.into_iter().zip([Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::Bf16]) {
        let layer = Layer::new(heads);
        let (weights, row_len) = (layer.weights(&device), heads.row_len() as usize);
        let whole = |sequence| {
            let rows = layer.rows(sequence, 9);
            step(&layer, &weights, &mut state(&layer, dtype, &device, 1), &[(0, 0, &rows)])
        };
        let [one, two] = [whole(1), whole(2)];
        for pieces in [&[1; 9][..], &[4, 5], &[2, 1, 6], &[8, 1]] {
            // The second one runs beside it, one step behind, in a place that another one had.
            let mut shared = state(&layer, dtype, &device, 3);
            step(&layer, &weights, &mut shared, &[(0, 0, &layer.rows(3, 5))]);
            let (rows, others) = (layer.rows(1, 9), layer.rows(2, 9));
            let (mut got, mut of_other, mut done, mut behind) = (Vec::new(), Vec::new(), 0, 0);
            for len in pieces.iter().copied().chain([0]) {
                let mut sequences = Vec::new();
                if len > 0 {
                    sequences.push((2, done, &rows[done * row_len..(done + len) * row_len]));
                }
                if done > behind {
                    sequences.push((0, behind, &others[behind * row_len..done * row_len]));
                }
                let both = step(&layer, &weights, &mut shared, &sequences);
                let (first, second) = both.split_at(len * heads.values() as usize);
                got.extend_from_slice(first);
                of_other.extend_from_slice(second);
                behind = done;
                done += len;
            }
            assert!(got == one && of_other == two, "{heads:?} {dtype}, {pieces:?}");
        }
        is_clean(&device);
    }
}

#[test]
fn sequences_without_a_place_are_left_out() {
    let device = device();
    let layer = Layer::new(SHAPES[1]);
    let weights = layer.weights(&device);
    let rows = layer.rows(1, 4);
    let len = layer.heads.row_len() as usize;
    let one = |i: usize| &rows[i * len..(i + 1) * len];
    let mut plain = state(&layer, Dtype::F32, &device, 2);
    let mut padded = state(&layer, Dtype::F32, &device, 2);
    for i in 0..4 {
        let expected = step(&layer, &weights, &mut plain, &[(1, i, one(i))]);
        // Places are read on the device, and what padding names is none.
        let got = step(&layer, &weights, &mut padded, &[(1, i, one(i)), (-1, 0, one(0)), (2, 7, one(2))]);
        assert_eq!(got[..expected.len()], expected, "row {i}");
        assert!(got[expected.len()..].iter().all(|x| *x == 0.0));
    }
    is_clean(&device);
}

#[test]
fn wrong_sizes_are_refused() {
    let device = device();
    let good = SHAPES[0];
    for heads in [
        DeltaHeads { key_dim: 512, ..good },
        DeltaHeads { key_dim: 24, ..good },
        DeltaHeads { value_dim: 12, ..good },
        DeltaHeads { keys: 2, values: 3, ..good },
        DeltaHeads { values: 1 << 18, ..good },
    ] {
        let list = |numbers: &[i32]| Tensor::from_slice(numbers, &[numbers.len()], &device).unwrap();
        let ones = |shape: &[usize]| Tensor::filled(&Queue::of(&device), Dtype::F32, 1, shape).unwrap();
        let weights = DeltaWeights {
            taps: ones(&[heads.channels() as usize, 4]),
            decays: ones(&[heads.values as usize]),
            offsets: ones(&[heads.values as usize]),
            scale: ones(&[heads.value_dim as usize]),
            eps: EPS,
        };
        let x = ones(&[1, heads.row_len() as usize]);
        let (positions, places) = (list(&[0]), list(&[0]));
        let mut state = DeltaState::new(&Queue::of(&device), Dtype::F32, heads, 1).unwrap();
        let rows = DeltaRows { positions: &positions, places: &places, starts: None };
        let error = state.run(&x, &weights, rows).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Operand { .. } | ErrorKind::TooLarge { .. }), "{heads:?}: {error}");
    }
}
