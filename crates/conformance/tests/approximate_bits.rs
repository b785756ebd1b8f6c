//! Approximate functions of the virtual GPU beside what an H200 gave for all 2^32 inputs: the same
//! hashes.
//!
//! `fixtures/hardware/hashes.bin`: for each of [`FUNCTIONS`] 4,096 sums, little-endian, each of the
//! hashes of 256 threads, each of 4,096 inputs one after the other. With `WARPFOLD_ALL_INPUTS` set
//! every sum is compared, a quarter of an hour of processor time; otherwise a few are.

use std::path::Path;

use warpfold_device::{Arguments, Device, LaunchConfig, Profile};
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
    let wrong: Vec<String> = std::thread::scope(|threads| {
        let one = |(n, function)| compare((n, function), &expected, compares_all);
        let all: Vec<_> = FUNCTIONS.into_iter().enumerate().map(|of| threads.spawn(move || one(of))).collect();
        all.into_iter().filter_map(|one| one.join().expect("no function panics")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The ranges of a function whose sums differ, if any do.
fn compare((n, function): (usize, &str), expected: &[u8], compares_all: bool) -> Option<String> {
    let memory = Memory::new(1 << 20);
    let program = Program::load(&memory, &kernel(function), Arch::SM_90A).expect("a kernel");
    let to = memory.allocate(8 * THREADS, "hashes").expect("room");
    // Ranges around 1, 2^-126 and 2^127, negative numbers, what is no number, and some between.
    let some = [0x000, 0x007, 0x00b, 0x3e9, 0x3f3, 0x3f8, 0x3fd, 0x404, 0x7ec, 0x7ff, 0xbf5, 0xc2f, 0xffb];
    let ranges: Vec<u32> =
        if compares_all { (0..SUMS as u32).collect() } else { some.into_iter().skip(n % 3).step_by(3).collect() };
    let count = ranges.len();
    let mut differ = Vec::new();
    for range in ranges {
        let at = (n * SUMS + range as usize) * 8;
        let expected = u64::from_le_bytes(expected[at..][..8].try_into().expect("eight bytes"));
        if sum(&memory, &program, to, range) != expected {
            differ.push(format!("{range:#05x}"));
        }
    }
    println!("{function}: {} of {count} sums differ", differ.len());
    (!differ.is_empty()).then(|| format!("{function}: inputs from {} * 2^20", differ.join(", ")))
}

/// Functions that have too many inputs to hash them all: with the bits of an input.
const SAMPLED: [(&str, u32); 9] = [
    ("div.approx.f32 %y, %x, %z", 32),
    ("div.approx.ftz.f32 %y, %x, %z", 32),
    ("div.full.f32 %y, %x, %z", 32),
    ("div.full.ftz.f32 %y, %x, %z", 32),
    ("rsqrt.approx.f64 %y, %x", 64),
    ("rsqrt.approx.ftz.f64 %y, %x", 64),
    ("rcp.approx.ftz.f64 %y, %x", 64),
    ("ex2.approx.ftz.bf16x2 %y, %x", 32),
    ("tanh.approx.f16x2 %y, %x", 32),
];

/// Results of random bits, and of the least, largest and special numbers, on a device.
fn sampled(device: &Device, (instruction, bits): (&str, u32)) -> Vec<u64> {
    const INPUTS: u32 = 1 << 14;
    let ptx = format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n\
         .visible .entry sampled(.param .u64 from, .param .u64 to)\n{{\n\
         .reg .b{bits} %x, %z, %y;\n.reg .b64 %from, %to, %at;\n.reg .b32 %i, %block;\n\
         ld.param.u64 %from, [from];\nld.param.u64 %to, [to];\n\
         mov.u32 %i, %tid.x;\nmov.u32 %block, %ctaid.x;\nmad.lo.u32 %i, %block, 256, %i;\n\
         mul.wide.u32 %at, %i, 8;\nadd.u64 %to, %to, %at;\nmul.wide.u32 %at, %i, 16;\nadd.u64 %from, %from, %at;\n\
         ld.global.b{bits} %x, [%from];\nld.global.b{bits} %z, [%from+8];\n\
         {instruction};\nst.global.b{bits} [%to], %y;\nret;\n}}\n"
    );
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state ^ state >> 29
    };
    let special = [0, 1, 0x7f_ffff, 0x80_0000, 0x7f80_0000, 0x7fc0_0000, 0x8000_0000, 0x3f80_0000, 0xff80_0000_u64];
    let widened = |bits32: u64| if bits == 64 { f64::from(f32::from_bits(bits32 as u32)).to_bits() } else { bits32 };
    let numbers =
        (0..2 * INPUTS).map(|i| if i % 16 < 2 { widened(special[(random() % 9) as usize]) } else { random() });
    let from = device.upload(&numbers.collect::<Vec<u64>>()).expect("numbers");
    let mut to = device.upload(&vec![0_u64; INPUTS as usize]).expect("room");
    let kernel = device.load(&ptx).and_then(|module| module.kernel("sampled")).expect("a kernel");
    let arguments = Arguments::new().input(&from).output(&mut to);
    device.default_stream().launch_raw(&kernel, LaunchConfig::new(INPUTS / 256, 256), &arguments).expect("a launch");
    to.download().expect("results")
}

/// Of NaNs hardware gives one.
#[test]
fn sampled_functions_have_the_bits_of_each_gpu_at_hand() {
    let expected = SAMPLED.map(|function| sampled(&Device::virtual_gpu(Profile::H200), function));
    // They are not all the same number.
    assert!(expected.iter().all(|results| results.iter().any(|result| *result != results[0])));
    for device in Device::all().into_iter().filter(|device| !device.is_virtual()) {
        let mut wrong = Vec::new();
        for (function, expected) in SAMPLED.into_iter().zip(&expected) {
            let found = sampled(&device, function);
            let differ: Vec<_> = found.iter().zip(expected).enumerate().filter(|(_, (a, b))| a != b).collect();
            println!("{}: {} of {} differ", function.0, differ.len(), found.len());
            let some = differ.iter().take(4).map(|(i, (a, b))| format!("{i}: {a:#x} for {b:#x}"));
            wrong.extend(some.map(|one| format!("{}: {one}", function.0)));
        }
        assert!(wrong.is_empty(), "{device}:\n{}", wrong.join("\n"));
    }
}
