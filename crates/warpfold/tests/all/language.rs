//! What language models are made of: mixtures of experts, heads on their way to a paged cache.

use half::bf16;
use warpfold::{
    Axes, CacheRotary, CacheShape, Device, Dtype, Error, ErrorKind, ExpertMatrices, ExpertSlots, ExpertWeights,
    Experts, Mxfp4, NewHeads, NewTokens, NormInputs, PageLayout, PagedCache, Pairs, Profile, Queue, RotaryOptions,
    Tensor,
};
use warpfold_device::Checks;

/// A virtual GPU that looks at everything.
fn checked() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(Checks::All).expect("checks");
    device
}

#[track_caller]
fn is_clean(device: &Device) {
    for report in device.take_reports() {
        let findings: Vec<_> = report.report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}

/// Numbers from -1 to 1 in steps of 1/64, which every float holds.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729) % 129) as f32 / 64.0 - 1.0).collect()
}

fn tensor(device: &Device, dtype: Dtype, values: &[f32], shape: &[usize]) -> Result<Tensor, Error> {
    Tensor::from_slice(values, shape, device)?.cast(dtype)
}

/// Rows, hidden elements, inner elements, experts, experts of a row.
struct Sizes([usize; 5]);

impl Sizes {
    fn run(&self, device: &Device, dtype: Dtype, logits: &[f32], weights: ExpertWeights) -> Result<Vec<f32>, Error> {
        self.run_as(device, dtype, logits, weights, false)
    }

    fn run_as(
        &self,
        device: &Device,
        dtype: Dtype,
        logits: &[f32],
        weights: ExpertWeights,
        is_packed: bool,
    ) -> Result<Vec<f32>, Error> {
        let Self([rows, hidden, inner, num, chosen]) = *self;
        let of = |seed, shape: &[usize]| tensor(device, dtype, &numbers(shape.iter().product(), seed), shape);
        let experts = Experts {
            gate_up: of(1, &[num, 2 * inner, hidden])?.into(),
            down: of(2, &[num, hidden, inner])?.into(),
            chosen,
            weights,
            biases: None,
        };
        let experts = if is_packed { experts.packed(dtype)? } else { experts };
        let logits = Tensor::from_slice(logits, &[rows, num], device)?;
        experts.run(&of(3, &[rows, hidden])?, &logits, &of(4, &[rows, hidden])?)?.cast(Dtype::F32)?.to_vec()
    }

    /// Results, and what the magnitudes of their terms sum to.
    fn expected(&self, logits: &[f32], weights: ExpertWeights) -> Vec<[f64; 2]> {
        let Self([rows, hidden, inner, num, chosen]) = *self;
        let of = |seed, len| numbers(len, seed).into_iter().map(f64::from).collect::<Vec<_>>();
        let (gate_up, down) = (of(1, num * 2 * inner * hidden), of(2, num * hidden * inner));
        let (x, residual) = (of(3, rows * hidden), of(4, rows * hidden));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut out: Vec<_> = residual.into_iter().map(|x| [x, x.abs()]).collect();
        for row in 0..rows {
            let logits: Vec<f64> = logits[row * num..][..num].iter().map(|x| f64::from(*x)).collect();
            let mut order: Vec<usize> = (0..num).collect();
            order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
            let all: f64 = logits.iter().map(|x| x.exp()).sum();
            let of_chosen: f64 = order[..chosen].iter().map(|e| logits[*e].exp()).sum();
            let total = if weights == ExpertWeights::Normalized { of_chosen } else { all };
            for e in &order[..chosen] {
                let x = &x[row * hidden..][..hidden];
                let line = |i: usize| dot(&gate_up[(e * 2 * inner + i) * hidden..][..hidden], x);
                let gated = (0..inner).map(|i| line(i) / (1.0 + (-line(i)).exp()) * line(inner + i));
                let gated: Vec<f64> = gated.collect();
                for column in 0..hidden {
                    let (share, line) = (logits[*e].exp() / total, &down[(e * hidden + column) * inner..][..inner]);
                    let of_line = line.iter().zip(&gated).map(|(a, b)| (a * b).abs()).sum::<f64>();
                    let [sum, magnitude] = &mut out[row * hidden + column];
                    (*sum, *magnitude) = (*sum + share * dot(line, &gated), *magnitude + share * of_line);
                }
            }
        }
        out
    }
}

#[track_caller]
fn check_experts(sizes: [usize; 5], dtype: Dtype, weights: ExpertWeights, bound: f64) {
    let (device, [rows, _, _, num, _]) = (checked(), sizes);
    // Several experts of a row are as likely.
    let logits: Vec<f32> = numbers(rows * num, 5).iter().map(|x| (x * 4.0).round() / 2.0).collect();
    let reference = Sizes(sizes).expected(&logits, weights);
    for is_packed in [false, true] {
        let found = Sizes(sizes).run_as(&device, dtype, &logits, weights, is_packed).expect("it runs");
        for (i, (found, [expected, all])) in found.iter().zip(&reference).enumerate() {
            let error = (f64::from(*found) - expected).abs();
            assert!(error <= bound * all, "element {i} of {sizes:?}: {found}, not {expected}, packed: {is_packed}");
        }
    }
    is_clean(&device);
}

#[test]
fn experts_are_those_of_the_reference_around_every_boundary() {
    check_experts([1, 8, 4, 1, 1], Dtype::F32, ExpertWeights::Normalized, 1e-5);
    check_experts([3, 32, 20, 5, 3], Dtype::F32, ExpertWeights::Share, 1e-5);
    check_experts([9, 33, 7, 4, 2], Dtype::F32, ExpertWeights::Normalized, 1e-5);
    check_experts([40, 24, 40, 3, 1], Dtype::F32, ExpertWeights::Normalized, 1e-5);
    check_experts([17, 16, 8, 40, 8], Dtype::F32, ExpertWeights::Share, 1e-5);
    check_experts([5, 264, 48, 6, 2], Dtype::Bf16, ExpertWeights::Normalized, 1.0 / 128.0);
    check_experts([1, 136, 72, 3, 2], Dtype::F16, ExpertWeights::Share, 1.0 / 512.0);
}

#[test]
fn packed_experts_have_the_bits_of_a_row_alone_in_every_tile() {
    let device = checked();
    // Lines, and pieces along K, that are not full.
    let [hidden, inner, num, chosen] = [136, 72, 3, 2];
    let of = |seed, shape: &[usize]| tensor(&device, Dtype::Bf16, &numbers(shape.iter().product(), seed), shape);
    let (gate_up, down) = (of(1, &[num, 2 * inner, hidden]).unwrap(), of(2, &[num, hidden, inner]).unwrap());
    let (weights, biases) = (ExpertWeights::Normalized, None);
    let experts = Experts { gate_up: gate_up.clone().into(), down: down.into(), chosen, weights, biases };
    let experts = experts.packed(Dtype::Bf16).unwrap();
    let ExpertMatrices::Packed(packed) = &experts.gate_up else { panic!("an H200 has WGMMA") };
    assert_eq!(packed.to_matrix().unwrap().to_bytes().unwrap(), gate_up.to_bytes().unwrap());
    // Tiles of 128, 64, 32, 16 and 8 rows.
    let (x, logits) = (of(3, &[160, hidden]).unwrap(), of(5, &[160, num]).unwrap().cast(Dtype::F32).unwrap());
    let run = |rows: usize| {
        let [x, logits] = [&x, &logits].map(|tensor| tensor.slice(0, ..rows).unwrap());
        experts.run(&x, &logits, &x).unwrap().to_vec::<bf16>().unwrap()
    };
    let all = run(160);
    for rows in [70, 33, 17, 9, 4, 1] {
        assert_eq!(run(rows), all[..rows * hidden], "{rows} rows");
    }
    // Biases choose another gate than the one that weights are packed for.
    let biases = Some([of(6, &[num, 2 * inner]).unwrap(), of(7, &[num, hidden]).unwrap()]);
    let error = Experts { biases, ..experts.clone() }.run(&x, &logits, &x).unwrap_err().to_string();
    assert!(error.contains("packed for another product or gate"), "{error}");
    // Parts of the experts, as several devices have them.
    let slots = |part: std::ops::Range<usize>| {
        let [gate_up, down] = [(1, 2 * inner, hidden), (2, hidden, inner)].map(|(seed, lines, columns)| {
            of(seed, &[num, lines, columns]).unwrap().slice(0, part.clone()).unwrap().contiguous().unwrap().into()
        });
        let own = Experts { gate_up, down, chosen, weights, biases: None }.packed(Dtype::Bf16).unwrap();
        own.slots(part.start, &x, &logits).unwrap()
    };
    let (first, second) = (slots(0..1), slots(1..3));
    let bits = |slots: &ExpertSlots| slots.results.to_vec::<f32>().unwrap();
    let sums = bits(&first).into_iter().zip(bits(&second)).map(|(a, b)| f32::from_bits(a.to_bits() + b.to_bits()));
    let results = tensor(&device, Dtype::F32, &sums.collect::<Vec<_>>(), &[160, chosen, hidden]).unwrap();
    let sum = ExpertSlots { results, shares: first.shares }.sum(&x).unwrap();
    assert_eq!(sum.to_vec::<bf16>().unwrap(), all);
    is_clean(&device);
}

#[test]
fn a_row_of_experts_has_the_same_bits_alone_and_among_others() {
    let device = checked();
    let Sizes([_, hidden, inner, num, chosen]) = Sizes([0, 40, 24, 5, 2]);
    let of = |seed, shape: &[usize]| tensor(&device, Dtype::Bf16, &numbers(shape.iter().product(), seed), shape);
    let (gate_up, down) = (of(1, &[num, 2 * inner, hidden]).unwrap(), of(2, &[num, hidden, inner]).unwrap());
    let experts = Experts {
        gate_up: gate_up.into(),
        down: down.into(),
        chosen,
        weights: ExpertWeights::Normalized,
        biases: None,
    };
    let (x, logits) = (of(3, &[37, hidden]).unwrap(), of(5, &[37, num]).unwrap().cast(Dtype::F32).unwrap());
    let all = experts.run(&x, &logits, &x).unwrap().to_vec::<bf16>().unwrap();
    for row in [0, 11, 36] {
        let [x, logits] = [&x, &logits].map(|tensor| tensor.slice(0, row..=row).unwrap());
        let alone = experts.run(&x, &logits, &x).unwrap().to_vec::<bf16>().unwrap();
        assert_eq!(alone, all[row * hidden..][..hidden], "row {row}");
    }
}

#[test]
fn experts_of_4_bits_have_the_bits_of_their_numbers() {
    let device = checked();
    let [hidden, inner, num, chosen] = [64, 96, 5, 2];
    let bytes =
        |len: usize, seed: usize| -> Vec<u8> { (0..len).map(|i| ((i * 7919 + seed * 104_729) >> 3) as u8).collect() };
    let weights = |lines: usize, columns: usize, seed: usize| {
        let codes = bytes(num * lines * columns / 2, seed);
        // Some are far below the smallest normal number, and some above 1.
        let scales: Vec<u8> = bytes(num * lines * columns / 32, seed + 1)
            .into_iter()
            .map(|byte| if byte == 7 { byte % 2 } else { 118 + byte % 11 })
            .collect();
        let codes = Tensor::from_slice(&codes, &[num, lines, columns / 2], &device).unwrap();
        Mxfp4::new(codes, Tensor::from_slice(&scales, &[num, lines, columns / 32], &device).unwrap()).unwrap()
    };
    let (gate_up, down) = (weights(2 * inner, hidden, 1), weights(hidden, inner, 2));
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F16] {
        let of = |seed, shape: &[usize]| tensor(&device, dtype, &numbers(shape.iter().product(), seed), shape).unwrap();
        let biases = || Some([of(6, &[num, 2 * inner]), of(7, &[num, hidden])]);
        let (x, logits) = (of(3, &[13, hidden]), of(5, &[13, num]).cast(Dtype::F32).unwrap());
        for biases in [None, biases()] {
            for is_packed in [false, true] {
                let run = |gate_up: ExpertMatrices, down: ExpertMatrices| {
                    let weights = ExpertWeights::Normalized;
                    let experts = Experts { gate_up, down, chosen, weights, biases: biases.clone() };
                    let experts = if is_packed { experts.packed(dtype).unwrap() } else { experts };
                    experts.run(&x, &logits, &x).unwrap().to_bytes().unwrap()
                };
                let matrices = [&gate_up, &down].map(|weights| weights.to_matrix(dtype).unwrap());
                let [of_gate_up, of_down] = matrices.map(Into::into);
                let found = run(gate_up.clone().into(), down.clone().into());
                assert_eq!(found, run(of_gate_up, of_down), "{dtype}, packed: {is_packed}");
            }
        }
    }
    let mixed = Experts {
        gate_up: gate_up.clone().into(),
        down: down.to_matrix(Dtype::F32).unwrap().into(),
        chosen,
        weights: ExpertWeights::Share,
        biases: None,
    };
    let (x, logits) = (tensor(&device, Dtype::F32, &[0.0; 64], &[1, hidden]), [0.0_f32; 5]);
    let (x, logits) = (x.unwrap(), Tensor::from_slice(&logits, &[1, num], &device).unwrap());
    let error = mixed.run(&x, &logits, &x).unwrap_err().to_string();
    assert!(error.contains("stored in another way"), "{error}");
    is_clean(&device);
}

#[test]
fn numbers_of_4_bits_are_those_of_the_specification() {
    let device = checked();
    let magnitudes = [0.0_f64, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    // All codes with each scale but that of NaN.
    let codes: Vec<u8> = (0..255).flat_map(|_| [0x10_u8, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe].repeat(2)).collect();
    let scales: Vec<u8> = (0..255).collect();
    let codes = Tensor::from_slice(&codes, (255, 16), &device).unwrap();
    let weights = Mxfp4::new(codes, Tensor::from_slice(&scales, (255, 1), &device).unwrap()).unwrap();
    let found = weights.to_matrix(Dtype::F32).unwrap().to_vec::<f32>().unwrap();
    for (i, found) in found.into_iter().enumerate() {
        let (scale, code) = (i / 32, i % 16);
        let sign = if code < 8 { 1.0 } else { -1.0 };
        // Zeros have no sign.
        let sign = if code == 8 { 1.0 } else { sign };
        let expected = sign * magnitudes[code % 8] * 2_f64.powi(scale as i32 - 127);
        assert_eq!(found.to_bits(), (expected as f32).to_bits(), "code {code} with scale {scale}");
        assert_eq!(bf16::from_f32(found).to_f32().to_bits(), found.to_bits(), "a bf16 has it");
    }
    let [codes, scales] = [(2, 24), (2, 1)].map(|shape| Tensor::zeros(shape, Dtype::U8, &device).unwrap());
    let error = Mxfp4::new(codes, scales).unwrap_err().to_string();
    assert!(error.contains("not in groups of 16 bytes"), "{error}");
    is_clean(&device);
}

#[test]
fn slots_of_experts_on_several_devices_sum_to_the_bits_of_all_experts() {
    let device = checked();
    let [hidden, inner, num, chosen] = [40, 24, 6, 3];
    let of = |seed, shape: &[usize]| tensor(&device, Dtype::Bf16, &numbers(shape.iter().product(), seed), shape);
    let matrices = [of(1, &[num, 2 * inner, hidden]).unwrap(), of(2, &[num, hidden, inner]).unwrap()];
    let [gate_up, down] = matrices.clone().map(Into::into);
    let all = Experts { gate_up, down, chosen, weights: ExpertWeights::Share, biases: None };
    let (x, logits) = (of(3, &[11, hidden]).unwrap(), of(5, &[11, num]).unwrap().cast(Dtype::F32).unwrap());
    let expected = all.run(&x, &logits, &x).unwrap().to_vec::<bf16>().unwrap();
    // Of 1, 3 and 2 experts.
    let mut found = vec![0_u32; 11 * chosen * hidden];
    let mut shares = None;
    for part in [0..1, 1..4, 4..6] {
        let [gate_up, down] = matrices.each_ref().map(|of| of.slice(0, part.clone()).unwrap().into());
        let own = Experts { gate_up, down, ..all.clone() }.slots(part.start, &x, &logits).unwrap();
        let bits = own.results.to_vec::<f32>().unwrap();
        found.iter_mut().zip(bits).for_each(|(sum, x)| *sum += x.to_bits());
        shares = Some(own.shares);
    }
    let found: Vec<f32> = found.into_iter().map(f32::from_bits).collect();
    let results = tensor(&device, Dtype::F32, &found, &[11, chosen, hidden]).unwrap();
    let slots = ExpertSlots { results, shares: shares.unwrap() };
    assert_eq!(slots.sum(&x).unwrap().to_vec::<bf16>().unwrap(), expected);
    let wrong = slots.sum(&x.slice(0, ..10).unwrap()).unwrap_err().to_string();
    assert!(wrong.contains("the residual have the shape [10, 40], not [11, 40]"), "{wrong}");
    let beyond = all.slots(1, &x, &logits).unwrap_err().to_string();
    assert!(beyond.contains("6 experts from 1 on are not among 6"), "{beyond}");
    is_clean(&device);
}

#[test]
fn experts_that_do_not_fit_are_refused() {
    let device = checked();
    let refused = |sizes| Sizes(sizes).run(&device, Dtype::F32, &[0.0; 6], ExpertWeights::Share).unwrap_err();
    assert!(matches!(refused([2, 8, 4, 3, 4]).kind(), ErrorKind::Operand { .. }));
    assert!(matches!(refused([2, 8, 4, 3, 0]).kind(), ErrorKind::Operand { .. }));
}

/// Queries and a cache, after new tokens were written to it in one launch and one by one.
#[track_caller]
fn check_heads(dtype: Dtype, [heads, kv_heads, dim]: [usize; 3], is_normed: bool) {
    let (tokens, device) = (5, checked());
    let queue = Queue::of(&device);
    let all = heads + 2 * kv_heads;
    let product = tensor(&device, dtype, &numbers(tokens * all * dim, 1), &[tokens, all, dim]).unwrap();
    let slots = Tensor::from_slice(&[9_i32, -1, 3, 4, 400], &[tokens], &device).unwrap();
    let positions = Tensor::from_slice(&[0_i32, 1, 6, 3, 2], &[tokens], &device).unwrap();
    let table = |seed| Tensor::from_slice(&numbers(7 * dim / 2, seed), &[7, dim / 2], &device).unwrap();
    let (cos, sin) = (table(2), table(3));
    let scale = |seed| Tensor::from_slice(&numbers(dim, seed), &[dim], &device).unwrap();
    let scales = [scale(4), scale(5)];
    let shape = CacheShape { pages: 4, page: 4, kv_heads, head_dim: dim, value_dim: dim };
    let cache = || {
        let mut cache = PagedCache::new(&queue, dtype, shape, PageLayout::Nhd).unwrap();
        let zeros = Tensor::filled(&queue, dtype, 0, &[16, kv_heads, dim]).unwrap();
        let slots = Tensor::from_slice(&(0..16).collect::<Vec<i32>>(), &[16], &device).unwrap();
        cache.write(NewTokens { keys: &zeros, values: &zeros, slots: &slots }, None).unwrap();
        cache
    };
    let mut together = cache();
    let norms = is_normed.then_some(([&scales[0], &scales[1]], 1e-6));
    let new = NewHeads { product: &product, slots: &slots, positions: &positions, angles: [&cos, &sin], norms };
    let queries = together.write_heads(new).unwrap();

    let mut apart = cache();
    let normed = |x: Tensor, scale: &Tensor| match is_normed {
        false => x,
        true => {
            let inputs = NormInputs { scale: Some(scale), eps: Some(1e-6), ..NormInputs::default() };
            x.rms_norm(Axes::Of(&[-1]), inputs).unwrap().result
        }
    };
    let q = normed(product.slice(1, ..heads).unwrap(), &scales[0]);
    let k = normed(product.slice(1, heads..heads + kv_heads).unwrap(), &scales[1]);
    let v = product.slice(1, heads + kv_heads..).unwrap();
    let options = RotaryOptions { num_heads: Some(heads), ..RotaryOptions::default() };
    let of_one = positions.reshape(&[1, tokens]).unwrap();
    let q = q.reshape(&[1, tokens, heads * dim]).unwrap();
    let q = q.rotary_embedding(&cos, &sin, Some(&of_one), options).unwrap();
    let rotary = CacheRotary { cos: &cos, sin: &sin, positions: &positions, pairs: Pairs::Halves, queries: None };
    apart.write(NewTokens { keys: &k, values: &v, slots: &slots }, Some(rotary)).unwrap();

    // A sum of squares in another order may round a norm otherwise.
    let bound = if is_normed { 2.0 * if dtype == Dtype::F32 { 1e-6 } else { 0.01 } } else { 0.0 };
    let values = |tensor: &Tensor| tensor.cast(Dtype::F32).unwrap().to_vec::<f32>().unwrap();
    let pairs = [(&queries, &q), (together.keys(), apart.keys()), (together.values(), apart.values())];
    for (found, expected) in pairs {
        for (i, (found, expected)) in values(found).into_iter().zip(values(expected)).enumerate() {
            assert!((found - expected).abs() <= bound, "{i} of {dtype}, {dim}: {found}, not {expected}");
        }
    }
    is_clean(&device);
}

#[test]
fn heads_in_one_launch_are_those_of_norm_rotation_and_write() {
    for dim in [2, 6, 24, 64, 80, 128, 256] {
        check_heads(Dtype::F32, [3, 1, dim], false);
        check_heads(Dtype::F32, [2, 2, dim], true);
    }
    check_heads(Dtype::Bf16, [4, 2, 128], true);
    check_heads(Dtype::F16, [4, 2, 64], false);
}

#[test]
fn heads_that_do_not_fit_the_cache_are_refused() {
    let device = checked();
    let shape = CacheShape { pages: 1, page: 4, kv_heads: 2, head_dim: 8, value_dim: 8 };
    let mut cache = PagedCache::new(&Queue::of(&device), Dtype::F32, shape, PageLayout::Nhd).unwrap();
    let of = |shape: &[usize]| Tensor::filled(&Queue::of(&device), Dtype::F32, 0, shape).unwrap();
    let list = Tensor::from_slice(&[0_i32], &[1], &device).unwrap();
    let mut refused = |product: &[usize], table: &[usize]| {
        let (product, table) = (of(product), of(table));
        let new = NewHeads { product: &product, slots: &list, positions: &list, angles: [&table; 2], norms: None };
        cache.write_heads(new).unwrap_err()
    };
    for (product, table) in [([1, 4, 8], [3, 4]), ([1, 6, 4], [3, 4]), ([2, 6, 8], [3, 4]), ([1, 6, 8], [3, 8])] {
        assert!(matches!(refused(&product, &table).kind(), ErrorKind::Operand { .. }), "{product:?}, {table:?}");
    }
}
