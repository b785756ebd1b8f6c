//! Tests of the encoder's own interface: types that no Rust type names, and maps that are refused.
//! On a GPU the driver encodes, so these tests compare [`warpfold_sim::TensorMap`] with it.

use warpfold_sim::{Arch, Fill, Interleave, MapMode, MapSwizzle, TensorMap, TensorType};

use crate::{Arguments, Device, LaunchConfig, TensorLayout};

/// Copies 64 elements of 4 bytes through a map.
const COPY: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 result)
{
    .reg .pred %not_first, %there;
    .reg .b32 %thread, %at, %bar, %word, %zero;
    .reg .b64 %map, %out, %offset;
    .shared .align 128 .b8 tile[256];
    .shared .align 8 .b64 full;
    mov.b64 %map, map;
    cvta.param.u64 %map, %map;
    ld.param.u64 %out, [result];
    mov.u32 %thread, %tid.x;
    mov.u32 %at, tile;
    mov.u32 %bar, full;
    mov.u32 %zero, 0;
    setp.ne.u32 %not_first, %thread, 0;
    @%not_first bra $join;
    mbarrier.init.shared.b64 [%bar], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;
    cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%map, {%zero}], [%bar];
$join:
    bar.sync 0;
$wait:
    mbarrier.try_wait.parity.shared.b64 %there, [%bar], 0;
    @!%there bra $wait;
    mul.wide.u32 %offset, %thread, 4;
    add.u64 %out, %out, %offset;
    shl.b32 %thread, %thread, 2;
    add.u32 %at, %at, %thread;
    ld.shared.b32 %word, [%at];
    st.global.b32 [%out], %word;
    ret;
}
";

fn hoppers() -> impl Iterator<Item = Device> {
    Device::all().into_iter().filter(|device| device.arch() == Arch::SM_90A)
}

fn map(element: TensorType, address: u64, layout: TensorLayout) -> TensorMap {
    let TensorLayout { dims, strides, mode, element_strides, interleave, swizzle, l2_promotion, fill } = layout;
    TensorMap { element, address, dims, strides, mode, element_strides, interleave, swizzle, l2_promotion, fill }
}

#[test]
fn loads_through_maps_of_rounded_types_give_the_same_bits_on_every_device() {
    let tie = |bits: u32| [bits, bits + 0xfff, bits + 0x1000, bits + 0x1001, bits + 0x1fff];
    let mut elements: Vec<u32> = [0x3f80_0000, 0x3f80_2000, 0xbf80_0000, 0xbf80_2000, 0x7f7f_e000, 0x0080_0000]
        .into_iter()
        .flat_map(tie)
        .chain([0, 0x8000_0000, 1, 0x8000_0001, 0x0000_1000, 0x0000_1001, 0x0000_3000, 0x007f_ffff, 0x8040_0000])
        .chain([0x7f80_0000, 0xff80_0000, 0x7f80_0001, 0x7fc0_0000, 0xffff_ffff, 0x7fff_f000, 0x3dcc_cccd])
        .collect();
    elements.resize(64, 0x4049_0fdb);
    for device in hoppers() {
        for element in [TensorType::F32, TensorType::F32Ftz, TensorType::Tf32, TensorType::Tf32Ftz] {
            let input = device.upload(&elements).unwrap();
            let layout = TensorLayout::tiled(&[64], &[], &[64], MapSwizzle::None);
            let map = map(element, input.as_view().address(), layout);
            let bytes = device.backend().encode_tensor_map(&map).unwrap();
            let mut output = device.alloc::<u32>(64).unwrap();
            let copy = device.load(COPY).unwrap().kernel("copy").unwrap();
            let arguments = Arguments::new().raw(&bytes, 64).output(&mut output);
            device.default_stream().launch_raw(&copy, LaunchConfig::new(1, 64), &arguments).unwrap();
            let wrong: Vec<String> = output
                .download()
                .unwrap()
                .into_iter()
                .zip(&elements)
                .filter(|(found, bits)| *found != loaded(element, **bits))
                .map(|(found, bits)| format!("{bits:#010x} became {found:#010x}, not {:#010x}", loaded(element, *bits)))
                .collect();
            assert!(wrong.is_empty(), "{element:?} on {device}:\n{}", wrong.join("\n"));
        }
    }
}

/// Value of an element after a load.
fn loaded(element: TensorType, bits: u32) -> u32 {
    let value = f32::from_bits(bits);
    if !matches!(element, TensorType::Tf32 | TensorType::Tf32Ftz) || value.is_infinite() {
        return bits;
    }
    if value.is_nan() {
        return 0x7fff_e000;
    }
    let (low, down) = (bits & 0x1fff, bits & !0x1fff);
    if low > 0x1000 || low == 0x1000 && down & 0x2000 != 0 { down + 0x2000 } else { down }
}

#[test]
fn the_same_maps_are_refused_on_every_device() {
    type Change = fn(&mut TensorMap);
    let columns = |lower: i32, upper: i32, channels_per_pixel: u32, pixels_per_column: u32| {
        let (lower, upper) = (vec![lower, 0], vec![upper, 0]);
        MapMode::Im2col { lower, upper, channels_per_pixel, pixels_per_column }
    };
    let tiles: &[(&str, bool, Change)] = &[
        ("as it is", true, |_| {}),
        ("a place of 8 bytes", false, |map| map.address += 8),
        ("no elements", false, |map| map.dims[1] = 0),
        ("2^32 elements", true, |map| map.dims[1] = 1 << 32),
        ("more elements", false, |map| map.dims[1] = (1 << 32) + 1),
        ("a stride of 8 bytes", false, |map| map.strides[0] = 8),
        ("a stride of 2^40", false, |map| map.strides[0] = 1 << 40),
        ("a stride below 2^40", true, |map| map.strides[0] = (1 << 40) - 16),
        ("rows that overlap", true, |map| map.strides[0] = 16),
        ("rows that are one", true, |map| map.strides[0] = 0),
        ("no box", false, |map| map.mode = MapMode::Tile { box_dims: vec![32, 0, 1] }),
        ("a box of 257", false, |map| map.mode = MapMode::Tile { box_dims: vec![32, 257, 1] }),
        ("a box of 256", true, |map| map.mode = MapMode::Tile { box_dims: vec![32, 256, 1] }),
        ("228 KiB", true, |map| map.mode = MapMode::Tile { box_dims: vec![32, 228, 16] }),
        ("more than 228 KiB", false, |map| map.mode = MapMode::Tile { box_dims: vec![32, 229, 16] }),
        ("more than 228 KiB in steps of two", true, |map| {
            (map.mode, map.element_strides[2]) = (MapMode::Tile { box_dims: vec![32, 228, 33] }, 2);
        }),
        ("a row of 8 bytes", false, |map| map.mode = MapMode::Tile { box_dims: vec![4, 8, 1] }),
        ("a row of 24 bytes", false, |map| map.mode = MapMode::Tile { box_dims: vec![12, 8, 1] }),
        ("a row beyond its swizzle", false, |map| map.swizzle = MapSwizzle::Bytes32),
        ("a row as its swizzle", true, |map| map.swizzle = MapSwizzle::Bytes64),
        ("a step of 9", false, |map| map.element_strides[1] = 9),
        ("a step of 8", true, |map| map.element_strides[1] = 8),
        ("no step", false, |map| map.element_strides[1] = 0),
        ("a step of the innermost", true, |map| map.element_strides[0] = 2),
        ("an integer NaN", false, |map| (map.element, map.fill) = (TensorType::U16, Fill::NanRequestZeroFma)),
        ("a NaN", true, |map| map.fill = Fill::NanRequestZeroFma),
        ("a NaN of a double", true, |map| {
            (map.element, map.fill) = (TensorType::F64, Fill::NanRequestZeroFma);
            map.mode = MapMode::Tile { box_dims: vec![8, 8, 1] };
        }),
        ("slices of 16 bytes", true, |map| map.interleave = Interleave::Bytes16),
        ("8 bytes of slices", false, |map| {
            (map.interleave, map.mode) = (Interleave::Bytes16, MapMode::Tile { box_dims: vec![4, 8, 1] });
        }),
        ("slices of 32 bytes", true, |map| (map.interleave, map.swizzle) = (Interleave::Bytes32, MapSwizzle::Bytes32)),
        ("slices of 32 bytes at 16", false, |map| {
            (map.interleave, map.swizzle) = (Interleave::Bytes32, MapSwizzle::Bytes32);
            map.address += 16;
        }),
        ("strides of slices of 32 bytes", false, |map| {
            (map.interleave, map.swizzle) = (Interleave::Bytes32, MapSwizzle::Bytes32);
            map.strides[0] = 16 * 65;
        }),
    ];
    let images: &[(&str, bool, MapMode)] = &[
        ("columns", true, columns(-1, 1, 32, 64)),
        ("a box of one pixel", true, columns(7, 0, 32, 1)),
        ("more than 228 KiB", false, columns(0, 0, 256, 457)),
        ("228 KiB", true, columns(0, 0, 256, 456)),
        ("a corner below", false, columns(-129, 0, 32, 64)),
        ("a corner above", false, columns(0, 128, 32, 64)),
        ("an empty box", false, columns(0, -8, 32, 64)),
        ("a box less than empty", false, columns(8, -8, 32, 64)),
        ("no channels", false, columns(0, 0, 0, 64)),
        ("256 channels", true, columns(0, 0, 256, 64)),
        ("257 channels", false, columns(0, 0, 257, 64)),
        ("no pixels", false, columns(0, 0, 32, 0)),
        ("1024 pixels", true, columns(0, 0, 32, 1024)),
        ("1025 pixels", false, columns(0, 0, 32, 1025)),
        ("channels of 8 bytes", false, columns(0, 0, 4, 64)),
    ];
    for device in hoppers() {
        let memory = device.alloc::<u8>(1 << 20).unwrap();
        let address = memory.as_view().address();
        let mut wrong = Vec::new();
        let mut check = |name: &str, expected: bool, map: &TensorMap| {
            let found = device.backend().encode_tensor_map(map);
            if found.is_ok() != expected {
                wrong.push(format!("{name}: {:?}", found.err().map(|error| error.to_string())));
            }
        };
        let tiled = TensorLayout::tiled(&[64, 32, 4], &[64 * 2, 64 * 2 * 32], &[32, 8, 1], MapSwizzle::None);
        for (name, expected, change) in tiles {
            let mut map = map(TensorType::Bf16, address, tiled.clone());
            change(&mut map);
            check(name, *expected, &map);
        }
        let strides = [64 * 2, 64 * 2 * 8, 64 * 2 * 64];
        let image = TensorLayout::tiled(&[64, 8, 8, 2], &strides, &[], MapSwizzle::None);
        for (name, expected, mode) in images {
            let mut map = map(TensorType::Bf16, address, image.clone());
            map.mode = mode.clone();
            check(name, *expected, &map);
        }
        assert!(wrong.is_empty(), "on {device}:\n{}", wrong.join("\n"));
    }
}
