//! `tensormap.replace`, `tensormap.cp_fenceproxy` and the fences of tensor maps: a map that a
//! kernel makes copies what the same map copies that the host encodes.

use warpfold_sim::{
    Arch, Checks, Error, Fill, FindingKind, Interleave, Launch, MapMode, MapSwizzle, Memory, Options, Program, Report,
    TensorMap, TensorType,
};

use crate::instructions::asynchronous::harness::bytes;
use crate::instructions::asynchronous::tensor::{box_bytes, map, run};

/// Their numbers in `tensormap.replace`.
const TYPES: [TensorType; 13] = [
    TensorType::U8,
    TensorType::U16,
    TensorType::U32,
    TensorType::I32,
    TensorType::U64,
    TensorType::I64,
    TensorType::F16,
    TensorType::F32,
    TensorType::F32Ftz,
    TensorType::F64,
    TensorType::Bf16,
    TensorType::Tf32,
    TensorType::Tf32Ftz,
];

/// Where a kernel changes its map.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Shared,
    Global,
    Generic,
    GenericShared,
}

impl Way {
    fn is_shared(self) -> bool {
        matches!(self, Self::Shared | Self::GenericShared)
    }
}

/// The instructions that make any map of this one; the address of the tensor is in `%tensor`.
fn replaced(wanted: &TensorMap, way: Way) -> String {
    let (space, at) = match way {
        Way::Shared => (".shared::cta", "%s"),
        Way::Global => (".global", "%object"),
        Way::Generic => ("", "%object"),
        Way::GenericShared => ("", "%generic"),
    };
    let one = |field: &str, value: &str| {
        let ty = if field.starts_with("global_address") { "b64" } else { "b32" };
        format!("tensormap.replace.tile.{field}{space}.b1024.{ty} [{at}], {value};\n")
    };
    let kind = TYPES.iter().position(|ty| *ty == wanted.element).unwrap();
    let mut text = one("global_address", "%tensor");
    text += &format!("mov.u32 %v, {};\n", wanted.dims.len() - 1);
    text += &one("rank", "%v");
    text += &one("elemtype", &kind.to_string());
    text += &one("interleave_layout", &(wanted.interleave as u32).to_string());
    text += &one("swizzle_mode", &(wanted.swizzle as u32).to_string());
    text += &one("fill_mode", &(wanted.fill as u32).to_string());
    let mut list = |field: &str, ty: &str, values: Vec<u64>| {
        for (dim, value) in values.iter().enumerate() {
            text += &format!("tensormap.replace.tile.{field}{space}.b1024.{ty} [{at}], {dim}, {value};\n");
        }
    };
    let MapMode::Tile { box_dims } = &wanted.mode else { panic!("a tiled map") };
    list("box_dim", "b32", box_dims.iter().map(|n| u64::from(*n)).collect());
    list("global_dim", "b32", wanted.dims.clone());
    list("global_stride", "b64", wanted.strides.clone());
    list("element_stride", "b32", wanted.element_strides.iter().map(|n| u64::from(*n)).collect());
    text
}

/// The fences between a change and a copy.
fn fences(way: Way) -> [&'static str; 2] {
    let release = if way.is_shared() {
        "bar.warp.sync 0xffffffff;\n\
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%object], [%s], 128;\n"
    } else {
        "@%first fence.proxy.tensormap::generic.release.gpu;\n"
    };
    [release, "@%first fence.proxy.tensormap::generic.acquire.gpu [%object], 128;\n"]
}

/// Loads the box at `at` by the map that `changes` make of `old`; what came, and the report.
fn load(
    old: &[u8; 128],
    way: Way,
    changes: &str,
    fences: [&str; 2],
    wanted: &TensorMap,
    at: &[i32],
    global: &[u8],
) -> Result<(Vec<u8>, Report), Error> {
    let (rank, bytes) = (wanted.dims.len(), box_bytes(wanted));
    let list = at.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    let (space, to) = if way.is_shared() { ("shared", "%s") } else { ("global", "%object") };
    let words: String = (0..32)
        .map(|n| format!("ld.param.u32 %v, [old+{0}];\n@%first st.{space}.u32 [{to}+{0}], %v;\n", 4 * n))
        .collect();
    let changes: String = changes.lines().map(|line| format!("@%first {line}\n")).collect();
    let [release, acquire] = fences;
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .visible .entry copy(.param .align 64 .b8 old[128], .param .u64 tensor, .param .u64 object, .param .u64 output)\n{{\n\
         .shared .align 1024 .b8 tile[{bytes}];\n.shared .align 128 .b8 draft[128];\n.shared .align 8 .b64 bar;\n\
         .reg .b64 %tensor, %object, %out, %generic;\n.reg .b32 %t, %v, %s, %a;\n.reg .pred %first, %p;\n\
         ld.param.u64 %tensor, [tensor];\nld.param.u64 %object, [object];\nld.param.u64 %out, [output];\n\
         mov.u32 %t, %tid.x;\nsetp.eq.u32 %first, %t, 0;\nmov.u32 %s, draft;\nmov.u64 %generic, draft;\ncvta.shared.u64 %generic, %generic;\n\
         {words}{changes}{release}{acquire}\
         @%first mbarrier.init.shared.b64 [bar], 1;\n@%first fence.mbarrier_init.release.cluster;\n\
         @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes};\n\
         @%first cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%object, {{{list}}}], [bar];\n\
         bar.sync 0;\nW: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W;\n\
         shl.b32 %t, %t, 2;\ncvt.u64.u32 %generic, %t;\nadd.u64 %out, %out, %generic;\nmov.u32 %a, tile;\nadd.u32 %a, %a, %t;\n\
         SHOW: setp.ge.u32 %p, %t, {bytes};\n@%p bra DONE;\n\
         ld.shared.u32 %v, [%a];\nst.global.u32 [%out], %v;\nadd.u64 %out, %out, 128;\nadd.u32 %a, %a, 128;\nadd.u32 %t, %t, 128;\nbra SHOW;\n\
         DONE: ret;\n}}\n"
    );
    let memory = Memory::new(1 << 30);
    let program = Program::load(&memory, &text, Arch::SM_90A)?;
    let tensor = memory.allocate(global.len() as u64, "tensor")?;
    memory.write(tensor, global)?;
    let object = memory.allocate(128, "object")?;
    let output = memory.allocate(bytes, "output")?;
    memory.fill(output, 0, bytes)?;
    let params = [&old[..], &tensor.to_le_bytes(), &object.to_le_bytes(), &output.to_le_bytes()].concat();
    let (kernel, grid, block, cluster) = ("copy".into(), [1; 3], [32, 1, 1], [1; 3]);
    let launch =
        Launch { kernel, grid, block, cluster, dynamic_shared: 0, params, cooperative: false, programmatic: false };
    let options = Options { checks: Checks::All, workers: Some(1), ..Options::default() };
    let report = program.launch(&memory, &launch, &options)?;
    let mut data = vec![0; usize::try_from(bytes).unwrap()];
    memory.read(output, &mut data)?;
    Ok((data, report))
}

/// Some map that has nothing in common with those that are made of it.
fn old() -> [u8; 128] {
    let old = TensorMap {
        address: 1 << 20,
        fill: Fill::NanRequestZeroFma,
        swizzle: MapSwizzle::Bytes128,
        element_strides: vec![1, 4],
        ..map(TensorType::Bf16, &[64, 100], &[4096], &[64, 32])
    };
    old.encode().unwrap()
}

#[track_caller]
fn check(wanted: &TensorMap, at: &[i32], ways: &[Way]) {
    let last = wanted.dims.iter().skip(1).zip(&wanted.strides).map(|(dim, stride)| (dim - 1) * stride).sum::<u64>();
    let global = bytes((last + wanted.dims[0] * u64::from(wanted.element.bytes())) as usize, 3);
    let expected = run(wanted, &global, at, &[], None).shared;
    for &way in ways {
        let (came, report) = load(&old(), way, &replaced(wanted, way), fences(way), wanted, at, &global)
            .unwrap_or_else(|e| panic!("{way:?}: {e}"));
        assert!(report.findings.is_empty(), "{wanted:?}, {way:?}: {:#?}", report.findings);
        assert_eq!(came, expected[..came.len()], "{wanted:?}, {way:?}");
    }
}

const WAYS: [Way; 4] = [Way::Shared, Way::Global, Way::Generic, Way::GenericShared];

#[test]
fn every_field_of_a_map_can_be_replaced() {
    let matrix = TensorMap { swizzle: MapSwizzle::Bytes64, ..map(TensorType::F16, &[40, 30], &[96], &[32, 16]) };
    check(&matrix, &[20, 20], &WAYS);
    let fill = TensorMap {
        fill: Fill::NanRequestZeroFma,
        element_strides: vec![1, 3, 2],
        ..map(TensorType::F32, &[16, 20, 10], &[64, 1280], &[8, 7, 5])
    };
    check(&fill, &[12, 15, 7], &WAYS);
    let five = map(TensorType::I32, &[8, 3, 4, 3, 2], &[32, 96, 384, 1152], &[4, 2, 2, 2, 1]);
    check(&five, &[4, 1, 2, 1, 1], &WAYS);
    check(&map(TensorType::U8, &[300], &[], &[64]), &[17], &WAYS);
    let slices = TensorMap {
        interleave: Interleave::Bytes32,
        swizzle: MapSwizzle::Bytes32,
        ..map(TensorType::U8, &[64, 20, 4], &[64, 1280], &[32, 8, 2])
    };
    check(&slices, &[0, 3, 1], &WAYS);
}

#[test]
fn every_element_type_has_its_number() {
    for element in TYPES {
        check(&map(element, &[32, 10], &[256], &[16, 8]), &[4, 1], &[Way::Shared]);
    }
}

#[test]
fn a_changed_map_needs_both_fences_before_it_is_used() {
    let wanted = map(TensorType::F16, &[40, 30], &[96], &[32, 16]);
    let global = bytes(30 * 96, 4);
    for way in [Way::Shared, Way::Global] {
        let [release, acquire] = fences(way);
        // A copy out of shared memory by other means than tensormap.cp_fenceproxy would be one of
        // ordinary stores.
        let released = if way == Way::Global { "" } else { release };
        let mutants: &[[&str; 2]] =
            if way == Way::Global { &[["", acquire], [release, ""], ["", ""]] } else { &[[released, ""]] };
        for &fences in mutants {
            let (_, report) = load(&old(), way, &replaced(&wanted, way), fences, &wanted, &[0, 0], &global).unwrap();
            let kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
            assert_eq!(kinds, [FindingKind::MissingProxyFence], "{way:?} with {fences:?}: {:#?}", report.findings);
        }
    }
}

#[test]
fn fields_that_do_not_go_together_are_found_when_the_map_is_used() {
    let wanted = map(TensorType::F16, &[40, 30], &[96], &[32, 16]);
    let global = bytes(30 * 96, 4);
    for (change, rule) in [
        ("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%s], 0, 0;", "dimension 0 of the box is 0"),
        ("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%s], 1, 70000;", "dimension 1 of the box"),
        ("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%s], 1, 0;", "dimension 1 is 0"),
        ("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%s], 0, 100;", "the stride of dimension 1"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s], 5;", "the number of dimensions is 6"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s], 2;", "of 3 dimensions"),
        ("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%s], 1, 31;", "outside every allocation"),
    ] {
        let changes = replaced(&wanted, Way::Shared) + change;
        let (_, report) = load(&old(), Way::Shared, &changes, fences(Way::Shared), &wanted, &[0, 20], &global).unwrap();
        assert!(report.findings.iter().any(|finding| finding.rule.contains(rule)), "{change}: {:#?}", report.findings);
    }
    let (_, report) =
        load(&[7; 128], Way::Global, &replaced(&wanted, Way::Global), fences(Way::Global), &wanted, &[0, 0], &global)
            .unwrap();
    assert!(report.findings.iter().any(|finding| finding.rule.contains("no tensor map")), "{:#?}", report.findings);
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    let wanted = map(TensorType::F16, &[40, 30], &[96], &[32, 16]);
    for line in [
        "tensormap.replace.tile.rank.global.b1024.b64 [%object], %tensor;",
        "tensormap.replace.tile.global_address.global.b1024.b32 [%object], %v;",
        "tensormap.replace.im2col.rank.global.b1024.b32 [%object], 1;",
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%object], 5, 64;",
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%object], %t, 64;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%object], 13;",
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%object], %v;",
        "tensormap.replace.tile.interleave_layout.global.b1024.b32 [%object], 3;",
        "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%object], 4;",
        "tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%object], 0;",
        "tensormap.replace.tile.fill_mode.global.b1024.b32 [%object], 2;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%object], [%s], 64;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.sync.aligned [%object], [%s], 128;",
        "fence.proxy.tensormap::generic.acquire.gpu [%object], 64;",
        "fence.proxy.tensormap::generic.release;",
        "membar.proxy.async;",
    ] {
        let result = load(&old(), Way::Global, line, ["", ""], &wanted, &[0, 0], &[0; 4096]);
        assert!(matches!(result, Err(Error::Unsupported { .. } | Error::Invalid { .. })), "{line} gave {result:?}");
    }
}
