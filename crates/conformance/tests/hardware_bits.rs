//! Tensor cores of the virtual GPU beside what an H200 gave: the same bits.
//!
//! `fixtures/hardware/mma_TYPE.bin` holds tiles, seven kinds of numbers in turn (even, spread,
//! cancelling, absorbed, subnormal, single bits, wide), each as registers of A, B, C and D of all
//! lanes, in words of 32 bits, little-endian. `fixtures/README.md` says how they were made.

use std::path::{Path, PathBuf};

use warpfold_sim::{Arch, Launch, Memory, Options, Program};

/// An instruction, the file of its tiles, and how many registers A, B and C have.
struct Case {
    file: &'static str,
    shape: &'static str,
    registers: [usize; 3],
}

const CASES: [Case; 6] = [
    Case { file: "mma_f16", shape: "m16n8k16.row.col.f32.f16.f16.f32", registers: [4, 2, 4] },
    Case { file: "mma_bf16", shape: "m16n8k16.row.col.f32.bf16.bf16.f32", registers: [4, 2, 4] },
    Case { file: "mma_tf32", shape: "m16n8k8.row.col.f32.tf32.tf32.f32", registers: [4, 2, 4] },
    Case { file: "mma_f16acc", shape: "m16n8k16.row.col.f16.f16.f16.f16", registers: [4, 2, 2] },
    Case { file: "mma_e4m3", shape: "m16n8k32.row.col.f32.e4m3.e4m3.f32", registers: [4, 2, 4] },
    Case { file: "mma_e5m2", shape: "m16n8k32.row.col.f32.e5m2.e5m2.f32", registers: [4, 2, 4] },
];

/// Bytes of a register of all lanes.
const REGISTER: usize = 128;

/// Tiles from another folder, if a run asks for it: more than the repository holds.
fn folder() -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hardware");
    std::env::var_os("WARPFOLD_HARDWARE_BITS").map_or(ours, PathBuf::from)
}

/// `{p0, p1, …}`
fn vector(prefix: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A warp multiplies its tile: registers come from `tiles`, those of D go to `results`.
fn kernel(shape: &str, target: &str, [a, b, c]: [usize; 3]) -> String {
    let declared: String = [("a", a), ("b", b), ("c", c), ("d", c)]
        .iter()
        .flat_map(|(name, count)| (0..*count).map(move |i| format!(".reg .b32 {name}{i};\n")))
        .collect();
    let names = [("a", a), ("b", b), ("c", c)];
    let loads: String = (names.iter().flat_map(|(name, count)| (0..*count).map(move |i| format!("{name}{i}"))))
        .enumerate()
        .map(|(at, register)| format!("ld.global.b32 {register}, [%from+{}];\n", at * REGISTER))
        .collect();
    let stores: String = (0..c).map(|i| format!("st.global.b32 [%to+{}], d{i};\n", i * REGISTER)).collect();
    format!(
        ".version 8.7\n.target {target}\n.address_size 64\n\
         .visible .entry products(.param .u64 tiles, .param .u64 results)\n{{\n{declared}\
         .reg .b32 %lane, %tile;\n.reg .b64 %from, %to, %at;\n\
         ld.param.u64 %from, [tiles];\nld.param.u64 %to, [results];\n\
         mov.u32 %lane, %tid.x;\nmov.u32 %tile, %ctaid.x;\n\
         mul.wide.u32 %at, %tile, {};\nadd.u64 %from, %from, %at;\n\
         mul.wide.u32 %at, %tile, {};\nadd.u64 %to, %to, %at;\n\
         mul.wide.u32 %at, %lane, 4;\nadd.u64 %from, %from, %at;\nadd.u64 %to, %to, %at;\n\
         {loads}mma.sync.aligned.{shape} {}, {}, {}, {};\n{stores}ret;\n}}\n",
        (a + b + 2 * c) * REGISTER,
        c * REGISTER,
        vector("d", c),
        vector("a", a),
        vector("b", b),
        vector("c", c),
    )
}

/// The registers of D of all tiles.
fn multiply(shape: &str, (target, arch): (&str, Arch), registers: [usize; 3], tiles: &[u8]) -> Vec<u32> {
    let [a, b, c] = registers;
    let count = tiles.len() / ((a + b + 2 * c) * REGISTER);
    let bytes = (count * c * REGISTER) as u64;
    let memory = Memory::new(tiles.len() as u64 + bytes + (1 << 20));
    let program = Program::load(&memory, &kernel(shape, target, registers), arch).expect("a kernel");
    let from = memory.allocate(tiles.len() as u64, "tiles").expect("room");
    memory.write(from, tiles).expect("in bounds");
    let to = memory.allocate(bytes, "results").expect("room");
    let launch = Launch {
        kernel: "products".into(),
        grid: [u32::try_from(count).expect("a grid"), 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: [from, to].iter().flat_map(|at| at.to_le_bytes()).collect(),
        cooperative: false,
        programmatic: false,
    };
    program.launch(&memory, &launch, &Options::default()).expect("a launch");
    let mut data = vec![0; count * c * REGISTER];
    memory.read(to, &mut data).expect("in bounds");
    data.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
}

#[test]
fn products_of_tensor_cores_have_the_bits_of_an_h200() {
    for Case { file, shape, registers } in CASES {
        let tiles = std::fs::read(folder().join(file).with_extension("bin")).expect("a file of tiles");
        let [a, b, c] = registers;
        let bytes = (a + b + 2 * c) * REGISTER;
        assert!(tiles.len() >= 28 * bytes && tiles.len().is_multiple_of(bytes), "{file}");
        let found = multiply(shape, ("sm_90a", Arch::SM_90A), registers, &tiles);
        let expected = tiles.chunks_exact(bytes).flat_map(|tile| tile[(a + b + c) * REGISTER..].chunks_exact(4));
        let pairs = found.iter().zip(expected).enumerate();
        let differ: Vec<_> = pairs
            .filter_map(|(at, (found, word))| {
                let expected = u32::from_le_bytes(word.try_into().expect("four bytes"));
                (*found != expected).then(|| format!("word {at}: {found:#010x}, not {expected:#010x}"))
            })
            .collect();
        let first = differ.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(differ.is_empty(), "{shape}: {} of {} words differ\n{first}", differ.len(), found.len());
        assert!(found.iter().any(|&word| word != 0));
    }
}

/// A tile whose registers of A, B and C are the same in all lanes.
fn tile_of(a: [u32; 4], b: [u32; 2], c: f32) -> Vec<u8> {
    let words = a.into_iter().chain(b).chain([c.to_bits(); 4]).chain([0; 4]);
    words.flat_map(|word| std::iter::repeat_n(word.to_le_bytes(), 32).flatten()).collect()
}

/// Every element of A is 2^-13.
#[test]
fn an_a100_takes_eight_products_at_once_and_keeps_a_bit_less() {
    const SMALL: u32 = 0x0800_0800;
    let shape = "m16n8k16.row.col.f32.f16.f16.f32";
    let of = |arch, b: u32, c| multiply(shape, arch, [4, 2, 4], &tile_of([SMALL; 4], [b; 2], c))[0];
    let (hopper, ampere) = (("sm_90a", Arch::SM_90A), ("sm_80", Arch::SM_80));
    // Products of 2^-25, the sum of which is 2^-21: only 25 bits hold them.
    let product = 0x0c00_0c00;
    assert_eq!(f32::from_bits(of(hopper, product, 1.0)), 1.0 + 2f32.powi(-21));
    assert_eq!(f32::from_bits(of(ampere, product, 1.0)), 1.0);
    // Products of 2^-24 are held by both.
    let product = 0x1000_1000;
    assert_eq!(f32::from_bits(of(hopper, product, 1.0)), 1.0 + 2f32.powi(-20));
    assert_eq!(f32::from_bits(of(ampere, product, 1.0)), 1.0 + 2f32.powi(-20));
}
