//! Approximate functions of the virtual GPU beside what an H200 gave for all 2^32 inputs: the same
//! hashes.
//!
//! `fixtures/hardware/hashes.bin`: for each of [`FUNCTIONS`] 4,096 sums, little-endian, each of the
//! hashes of 256 threads, each of 4,096 inputs one after the other. With `WARPFOLD_ALL_INPUTS` set
//! every sum is compared, which takes an hour; otherwise a few are.

use std::path::Path;

use warpfold_sim::{Arch, Launch, Memory, Options, Program};

const FUNCTIONS: [&str; 15] = [
    "ex2.approx.ftz.f32",
    "ex2.approx.f32",
    "lg2.approx.ftz.f32",
    "lg2.approx.f32",
    "rcp.approx.ftz.f32",
    "rcp.approx.f32",
    "rsqrt.approx.ftz.f32",
    "rsqrt.approx.f32",
    "sqrt.approx.ftz.f32",
    "sqrt.approx.f32",
    "sin.approx.ftz.f32",
    "sin.approx.f32",
    "cos.approx.ftz.f32",
    "cos.approx.f32",
    "tanh.approx.f32",
];

/// Sums of a function.
const SUMS: usize = 4096;
/// Threads whose hashes are added.
const THREADS: u64 = 256;

/// Each thread hashes its 4,096 inputs, from 2^20 times `range` on.
fn kernel(function: &str) -> String {
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n\
         .visible .entry hashes(.param .u64 to, .param .u32 range)\n{{\n\
         .reg .b32 %x, %end, %y, %m;\n.reg .b64 %to, %at, %hash, %wide;\n.reg .pred %p;\n\
         ld.param.u64 %to, [to];\nld.param.u32 %x, [range];\nshl.b32 %x, %x, 8;\n\
         mov.u32 %y, %tid.x;\nmul.wide.u32 %at, %y, 8;\nadd.u64 %to, %to, %at;\n\
         add.u32 %x, %x, %y;\nshl.b32 %x, %x, 12;\nadd.u32 %end, %x, 4096;\nmov.u64 %hash, 0;\n\
         $next:\n{function} %y, %x;\n\
         and.b32 %m, %y, 0x7fffffff;\nsetp.gt.u32 %p, %m, 0x7f800000;\nselp.b32 %y, 0x7fffffff, %y, %p;\n\
         cvt.u64.u32 %wide, %y;\nxor.b64 %hash, %hash, %wide;\nmul.lo.u64 %hash, %hash, 0x100000001b3;\n\
         add.u32 %x, %x, 1;\nsetp.ne.u32 %p, %x, %end;\n@%p bra $next;\n\
         st.global.u64 [%to], %hash;\nret;\n}}\n"
    )
}

/// The sum of hashes of a range of 2^20 inputs.
fn sum(memory: &Memory, program: &Program, to: u64, range: u32) -> u64 {
    let launch = Launch {
        kernel: "hashes".into(),
        grid: [1, 1, 1],
        block: [THREADS as u32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: to.to_le_bytes().into_iter().chain(range.to_le_bytes()).collect(),
        cooperative: false,
        programmatic: false,
    };
    program.launch(memory, &launch, &Options::default()).expect("a launch");
    let mut data = vec![0; 8 * THREADS as usize];
    memory.read(to, &mut data).expect("in bounds");
    let words = data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    words.fold(0, u64::wrapping_add)
}

#[test]
fn approximate_functions_have_the_bits_of_an_h200() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hardware/hashes.bin");
    let expected = std::fs::read(path).expect("the file of sums");
    assert_eq!(expected.len(), FUNCTIONS.len() * SUMS * 8);
    let compares_all = std::env::var_os("WARPFOLD_ALL_INPUTS").is_some();
    for (n, function) in FUNCTIONS.iter().enumerate() {
        let memory = Memory::new(1 << 20);
        let program = Program::load(&memory, &kernel(function), Arch::SM_90A).expect("a kernel");
        let to = memory.allocate(8 * THREADS, "hashes").expect("room");
        // Ranges around 1, 2^-126 and 2^127, negative numbers, what is no number, and some between.
        let some = [0x000, 0x007, 0x00b, 0x3e9, 0x3f3, 0x3f8, 0x3fd, 0x404, 0x7ec, 0x7ff, 0xbf5, 0xc2f, 0xffb];
        let ranges: Vec<u32> =
            if compares_all { (0..SUMS as u32).collect() } else { some.into_iter().skip(n % 3).step_by(3).collect() };
        let mut differ = Vec::new();
        for range in ranges {
            let at = (n * SUMS + range as usize) * 8;
            let expected = u64::from_le_bytes(expected[at..][..8].try_into().expect("eight bytes"));
            if sum(&memory, &program, to, range) != expected {
                differ.push(format!("{range:#05x}"));
            }
        }
        assert!(differ.is_empty(), "{function}: inputs from {} * 2^20", differ.join(", "));
    }
}
