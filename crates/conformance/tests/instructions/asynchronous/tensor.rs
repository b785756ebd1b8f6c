//! `cp.async.bulk.tensor`: boxes of tensors, with swizzles, edges and strides, against a reference
//! element by element.

use warpfold_sim::{
    Arch, Checks, Fill, FindingKind, Interleave, L2Promotion, Launch, MapMode, MapSwizzle, Memory, Options, Program,
    Report, TensorMap, TensorType,
};

use crate::instructions::asynchronous::harness::bytes;

/// Shared memory of the copies, and how much of it is shown.
const ROOM: usize = 32 * 1024;

pub(crate) fn map(element: TensorType, dims: &[u64], strides: &[u64], box_dims: &[u32]) -> TensorMap {
    TensorMap {
        element,
        address: 0,
        dims: dims.to_vec(),
        strides: strides.to_vec(),
        mode: MapMode::Tile { box_dims: box_dims.to_vec() },
        element_strides: vec![1; dims.len()],
        interleave: Interleave::None,
        swizzle: MapSwizzle::None,
        l2_promotion: L2Promotion::None,
        fill: Fill::Zero,
    }
}

pub(crate) struct Run {
    pub(crate) shared: Vec<u8>,
    global: Vec<u8>,
    report: Report,
}

/// Runs a load of the box at `at` (and, with `stores`, a store of what was loaded to `to`).
pub(crate) fn run(map: &TensorMap, global: &[u8], at: &[i32], offsets: &[u16], to: Option<&[i32]>) -> Run {
    let rank = map.dims.len();
    let list = |values: &[i32]| values.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    let is_im2col = matches!(map.mode, MapMode::Im2col { .. });
    let mode = if is_im2col { "im2col" } else { "tile" };
    let extra = if is_im2col {
        format!(", {{{}}}", offsets.iter().map(u16::to_string).collect::<Vec<_>>().join(", "))
    } else {
        String::new()
    };
    let bytes = box_bytes(map);
    let store = to.map_or(String::new(), |to| {
        let mode = if is_im2col { "im2col_no_offs" } else { "tile" };
        format!(
            "cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group [%map, {{{}}}], [tile];\n\
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
            list(to)
        )
    });
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .visible .entry copy(.param .align 64 .b8 map[128], .param .u64 output)\n{{\n\
         .shared .align 1024 .b8 tile[{ROOM}];\n.shared .align 8 .b64 bar;\n\
         .reg .b64 %map, %out;\n.reg .b32 %i, %v, %a;\n.reg .pred %p;\n\
         mov.b64 %map, map;\ncvta.param.u64 %map, %map;\nld.param.u64 %out, [output];\n\
         prefetch.tensormap [%map];\n\
         mov.u32 %i, 0;\nmov.u32 %a, tile;\n\
         FILL: add.u32 %v, %a, %i;\nst.shared.u32 [%v], 0xcccccccc;\nadd.u32 %i, %i, 4;\nsetp.lt.u32 %p, %i, {ROOM};\n@%p bra FILL;\n\
         mbarrier.init.shared.b64 [bar], 1;\nfence.proxy.async;\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes};\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [tile], [%map, {{{}}}], [bar]{extra};\n\
         W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W;\n\
         {store}\
         mov.u32 %i, 0;\n\
         SHOW: add.u32 %v, %a, %i;\nld.shared.u32 %v, [%v];\nst.global.u32 [%out], %v;\nadd.u64 %out, %out, 4;\n\
         add.u32 %i, %i, 4;\nsetp.lt.u32 %p, %i, {ROOM};\n@%p bra SHOW;\nret;\n}}\n",
        list(at)
    );
    let memory = Memory::new(1 << 30);
    let program = Program::load(&memory, &text, Arch::SM_90A).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let tensor = memory.allocate(global.len() as u64, "tensor").unwrap();
    memory.write(tensor, global).unwrap();
    let output = memory.allocate(ROOM as u64, "output").unwrap();
    let object = TensorMap { address: tensor, ..map.clone() }.encode().unwrap();
    let mut params = object.to_vec();
    params.extend_from_slice(&output.to_le_bytes());
    let launch = Launch {
        kernel: "copy".into(),
        grid: [1; 3],
        block: [1; 3],
        cluster: [1; 3],
        dynamic_shared: 0,
        params,
        cooperative: false,
        programmatic: false,
    };
    let options = Options { checks: Checks::All, workers: Some(1), ..Options::default() };
    let report = program.launch(&memory, &launch, &options).unwrap();
    let mut shared = vec![0; ROOM];
    let mut after = vec![0; global.len()];
    memory.read(output, &mut shared).unwrap();
    memory.read(tensor, &mut after).unwrap();
    Run { shared, global: after, report }
}

/// Elements that a box has in each dimension.
fn steps(map: &TensorMap) -> Vec<u64> {
    let MapMode::Tile { box_dims } = &map.mode else { panic!("a tiled map") };
    let step = |d: usize| if d == 0 { 1 } else { map.element_strides[d] };
    (0..box_dims.len()).map(|d| u64::from(box_dims[d].div_ceil(step(d)))).collect()
}

pub(crate) fn box_bytes(map: &TensorMap) -> u64 {
    match &map.mode {
        MapMode::Tile { .. } => steps(map).iter().product::<u64>() * u64::from(map.element.bytes()),
        MapMode::Im2col { channels_per_pixel, pixels_per_column, .. } => {
            u64::from(channels_per_pixel * pixels_per_column * map.element.bytes())
        }
    }
}

/// Where the swizzle of a 128-byte line puts a byte: 16-byte chunk `c` of line `l` goes to chunk `c
/// ^ (l mod n)`.
fn swizzled(map: &TensorMap, byte: u64) -> usize {
    let (line, chunk, rest) = (byte / 128, byte / 16 % 8, byte % 16);
    let turn = match map.swizzle {
        MapSwizzle::None => 0,
        MapSwizzle::Bytes32 => line & 1,
        MapSwizzle::Bytes64 => line & 3,
        MapSwizzle::Bytes128 => line & 7,
    };
    (line * 128 + (chunk ^ turn) * 16 + rest) as usize
}

/// For each byte of the box in order: where it lies in the tensor, or nothing beyond the edges.
fn sources(map: &TensorMap, at: &[i32]) -> Vec<Option<usize>> {
    let (steps, size) = (steps(map), u64::from(map.element.bytes()));
    let count: u64 = steps.iter().product();
    let mut all = Vec::new();
    for n in 0..count {
        let (mut rest, mut place, mut inside) = (n, 0i64, true);
        for d in 0..steps.len() {
            let index = rest % steps[d];
            rest /= steps[d];
            let step = if d == 0 { 1 } else { u64::from(map.element_strides[d]) };
            let coordinate = i64::from(at[d]) + (index * step) as i64;
            inside &= coordinate >= 0 && coordinate < map.dims[d] as i64;
            place += coordinate * if d == 0 { size as i64 } else { map.strides[d - 1] as i64 };
        }
        all.extend((0..size as i64).map(|b| inside.then_some((place + b) as usize)));
    }
    all
}

/// Loads a box, compares all of shared memory; stores it elsewhere and compares all of the tensor.
#[track_caller]
fn check(map: &TensorMap, at: &[i32], to: &[i32]) {
    let last = map.dims.iter().skip(1).zip(&map.strides).map(|(dim, stride)| (dim - 1) * stride).sum::<u64>();
    let size = (last + map.dims[0] * u64::from(map.element.bytes())) as usize;
    let global = bytes(size, 9);
    let run = run(map, &global, at, &[], Some(to));
    assert!(run.report.findings.is_empty(), "{map:?} at {at:?}: {:#?}", run.report.findings);
    let mut shared = vec![0xcc; ROOM];
    let from = sources(map, at);
    for (n, source) in from.iter().enumerate() {
        shared[swizzled(map, n as u64)] = source.map_or(0, |at| global[at]);
    }
    assert!(run.shared == shared, "shared memory of {map:?} at {at:?}: byte {:?}", first(&run.shared, &shared));
    let mut after = global.clone();
    for (n, place) in sources(map, to).into_iter().enumerate() {
        if let Some(place) = place {
            after[place] = from[n].map_or(0, |at| global[at]);
        }
    }
    assert!(run.global == after, "the tensor of {map:?} stored at {to:?}: byte {:?}", first(&run.global, &after));
}

fn first(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}

#[test]
fn boxes_of_one_to_five_dimensions_are_moved() {
    check(&map(TensorType::U8, &[300], &[], &[64]), &[17], &[100]);
    check(&map(TensorType::Bf16, &[40, 30], &[80], &[16, 8]), &[3, 5], &[20, 11]);
    check(&map(TensorType::F32, &[20, 9, 7], &[80, 720], &[8, 3, 2]), &[4, 2, 3], &[12, 5, 0]);
    check(&map(TensorType::U64, &[6, 5, 4, 3], &[48, 240, 960], &[4, 2, 3, 2]), &[2, 1, 0, 1], &[0, 3, 1, 0]);
    let five = map(TensorType::I32, &[8, 3, 4, 3, 2], &[32, 96, 384, 1152], &[4, 2, 2, 2, 1]);
    check(&five, &[4, 1, 2, 1, 1], &[0, 0, 0, 0, 0]);
}

#[test]
fn what_lies_beyond_the_edges_is_zero_and_is_not_stored() {
    let matrix = map(TensorType::F16, &[40, 30], &[80], &[32, 16]);
    for at in [[-5, -3], [20, 20], [38, 29], [-40, 0], [100, 0], [0, -100], [39, -15]] {
        check(&matrix, &at, &[10, 20]);
        check(&matrix, &[3, 4], &at);
    }
}

#[test]
fn swizzles_permute_chunks_by_their_line() {
    for (swizzle, columns) in [(MapSwizzle::Bytes32, 16), (MapSwizzle::Bytes64, 32), (MapSwizzle::Bytes128, 64)] {
        for rows in [3, 8, 64] {
            let map = TensorMap { swizzle, ..map(TensorType::Bf16, &[200, 100], &[400], &[columns, rows]) };
            check(&map, &[8, 5], &[64, 30]);
            check(&map, &[-3, 97], &[180, -1]);
        }
    }
}

#[test]
fn panels_in_a_third_dimension_fill_one_after_the_other() {
    // 64 columns a panel of a matrix of 192 columns, as one three-dimensional box.
    let map =
        TensorMap { swizzle: MapSwizzle::Bytes128, ..map(TensorType::Bf16, &[64, 50, 3], &[384, 128], &[64, 32, 2]) };
    check(&map, &[0, 10, 1], &[0, 0, 0]);
}

#[test]
fn strides_skip_elements_of_the_outer_dimensions() {
    let strided =
        TensorMap { element_strides: vec![1, 3, 2], ..map(TensorType::F32, &[16, 20, 10], &[64, 1280], &[8, 7, 5]) };
    check(&strided, &[4, 2, 1], &[8, 5, 0]);
    check(&strided, &[4, 15, 7], &[8, -4, 3]);
}

#[test]
fn the_fill_may_be_a_number_that_is_none() {
    let map = TensorMap { fill: Fill::NanRequestZeroFma, ..map(TensorType::F32, &[20, 4], &[80], &[8, 2]) };
    let global = bytes(320, 5);
    let run = run(&map, &global, &[16, 3], &[], None);
    let word = |n: usize| u32::from_le_bytes(run.shared[n * 4..n * 4 + 4].try_into().unwrap());
    assert_eq!(word(0).to_le_bytes(), global[3 * 80 + 64..][..4]);
    assert!((4..16).all(|n| f32::from_bits(word(n)).is_nan()), "{:x?}", (0..16).map(word).collect::<Vec<_>>());
}

#[test]
fn loads_of_rounded_types_round() {
    // Ten bits of fraction are left: of two neighbours the nearer one, of two equally near ones the
    // one whose last bit is 0.
    let rounded = |value: f32| {
        if value.is_nan() {
            return f32::from_bits(0x7fff_e000);
        }
        if value.is_infinite() {
            return value;
        }
        let step = 2f64.powi((f64::from(value.abs()).log2().floor() as i32).max(-126) - 10);
        ((f64::from(value) / step).round_ties_even() * step) as f32
    };
    let map = |element| map(element, &[64], &[], &[64]);
    let mut values: Vec<f32> = bytes(4 * 44, 8).chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    values.extend([
        0.0,
        -0.0,
        1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::MIN_POSITIVE / 3.0,
    ]);
    let ties =
        [0x3f80_1000u32, 0x3f80_3000, 0xbf80_0fff, 0xbf80_1001, 0x3fff_f000, 0x7f7f_ffff, 0x0000_1000, 0x8000_3000];
    values.extend(ties.map(f32::from_bits));
    values.resize(64, 1.5);
    let global: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    type Expected<'a> = &'a dyn Fn(f32) -> f32;
    let cases: [(TensorType, Expected<'_>); 3] =
        [(TensorType::Tf32, &rounded), (TensorType::F32Ftz, &|value| value), (TensorType::Tf32Ftz, &rounded)];
    for (element, expected) in cases {
        let run = run(&map(element), &global, &[0], &[], None);
        assert!(run.report.findings.is_empty(), "{:#?}", run.report.findings);
        for (value, found) in values.iter().zip(run.shared.chunks(4)) {
            let found = f32::from_le_bytes(found.try_into().unwrap());
            assert_eq!(found.to_bits(), expected(*value).to_bits(), "{element:?} of {:#x}", value.to_bits());
        }
    }
}

#[test]
fn columns_of_a_convolution_walk_through_their_box_and_on_to_the_next_image() {
    // A 3x3 filter over images of 9 x 7 pixels with a border of one: the box has the corners -1 and
    // -1.
    let (c, w, h, n) = (16u64, 9i64, 7i64, 2i64);
    let mut map = map(TensorType::F16, &[c, w as u64, h as u64, n as u64], &[2 * c, 2 * c * 9, 2 * c * 63], &[]);
    map.mode =
        MapMode::Im2col { lower: vec![-1, -1], upper: vec![-1, -1], channels_per_pixel: 8, pixels_per_column: 50 };
    let global = bytes(2 * 16 * 126, 6);
    for (offsets, start) in [([0u16, 0], [8, -1, -1, 0]), ([2, 1], [0, 3, 2, 0]), ([1, 2], [8, 7, 5, 0])] {
        let run = run(&map, &global, &start, &offsets, None);
        assert!(run.report.findings.is_empty(), "{:#?}", run.report.findings);
        let (mut x, mut y, mut image) = (i64::from(start[1]), i64::from(start[2]), i64::from(start[3]));
        for pixel in 0..50 {
            let (px, py) = (x + i64::from(offsets[0]), y + i64::from(offsets[1]));
            let inside = (0..w).contains(&px) && (0..h).contains(&py) && image < n;
            for channel in 0..8i64 {
                let place = (((image * h + py) * w + px) * c as i64 + channel + i64::from(start[0])) * 2;
                let expected = if inside { global[place as usize..][..2].to_vec() } else { vec![0, 0] };
                let at = (pixel * 8 + channel as usize) * 2;
                assert_eq!(
                    run.shared[at..at + 2],
                    expected,
                    "pixel {pixel}, channel {channel} of {start:?} + {offsets:?}"
                );
            }
            x += 1;
            // The box holds the upper left corners of the filter: -1 up to w - 2 and h - 2.
            if x > w - 2 {
                (x, y) = (-1, y + 1);
            }
            if y > h - 2 {
                (y, image) = (-1, image + 1);
            }
        }
    }
}

#[test]
fn a_map_that_is_none_or_leads_nowhere_is_found() {
    let good = map(TensorType::F32, &[16, 20], &[64], &[8, 4]);
    let global = bytes(1280, 7);
    let beyond = TensorMap { dims: vec![16, 200], ..good.clone() };
    let report = run(&beyond, &global, &[0, 18], &[], None).report;
    let found =
        |f: &warpfold_sim::Finding| f.kind == FindingKind::OutOfBounds && f.rule.contains("outside every allocation");
    assert!(report.findings.iter().any(found), "{:#?}", report.findings);
}
