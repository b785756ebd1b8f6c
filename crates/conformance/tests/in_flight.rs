//! Plans of operators that memory limits have enough of it under way: at least 48 KiB of loads a multiprocessor of an H200,
//! at the occupancy that the virtual GPU's count of registers leaves (ptxas mostly needs fewer).

use warpfold_kernels::kernels;
use warpfold_lang::Target;
use warpfold_sim::occupancy::{Usage, occupancy};
use warpfold_sim::{Arch, Memory, Program};

/// What an H200 needs to be as fast as its memory: 4.8 TB/s over 132 multiprocessors for 1.3 us.
const ENOUGH: u64 = 48 << 10;

/// Kernels for long rows that lie as they should. Not here: rows too short for several loads, and maps, which have 32 KiB of
/// loads beside as much of stores by measurement (100 % of a copy; more of them less).
const LIMITED_BY_MEMORY: &[&str] = &[
    "sum_f32_f32_rows",
    "cumsum_f32_f32_scan_rows",
    "cumsum_f64_f64_scan_rows",
    "cumsum_u8_u8_scan_rows",
    "cumsum_bf16_bf16_scan_rows",
    "cumsum_i64_i64_scan_columns",
    "cummax_f32_f32_scan_columns",
    "softmax_bf16_on_chip_32x4x8",
    "softmax_bf16_on_chip_512x4x8",
    "softmax_bf16_pieces_128x4x8_8",
    "softmax_bf16_pieces_256x16x8_3",
    "softmax_bf16_pieces_256x32x8_2_5kept_stored",
    "softmax_bf16_pieces_512x24x8_1_stored",
    "softmax_bf16_pieces_2x256x32x8_2_5kept_stored",
    "softmax_bf16_in_shared_256x16x1_2",
    "softmax_bf16_on_chip_8x512x4x8",
    "softmax_bf16_long_8",
    "softmax_f32_on_chip_128x8x4",
    "quantize_bf16_i8_on_chip_128x4x8",
    "gemv_split_f32_to_f32_w4",
    "gemv_columns_f32_to_f32_l32_w4",
    "gemv_rows_f64_l32_r2_u1_w2",
    "histogram_copies_u16_b1024_c4",
];

#[test]
fn plans_have_enough_bytes_under_way() {
    let arch = Arch::SM_90A;
    let target = Target::new(warpfold_lang::Arch { number: arch.number, specific: arch.specific }, (8, 0));
    let all = kernels();
    for name in LIMITED_BY_MEMORY {
        let listed = all.iter().find(|listed| listed.kernel.name() == *name);
        let listed = listed.unwrap_or_else(|| panic!("no kernel is {name}"));
        let in_flight = listed.in_flight.unwrap_or_else(|| panic!("no plan says what {name} has under way"));
        let built = listed.kernel.build(&target).unwrap_or_else(|error| panic!("{name}: {error}"));
        let memory = Memory::new(1 << 30);
        let program = Program::load(&memory, &built.ptx(), arch).unwrap_or_else(|error| panic!("{name}: {error}"));
        let info = program.kernel(&built.entry).expect("the kernel is in its module");
        let threads = listed.block.iter().product();
        let usage = Usage {
            threads,
            registers_per_thread: info.registers,
            static_shared: info.static_shared,
            dynamic_shared: built.dynamic_shared_bytes as u32,
        };
        let bytes = in_flight * u64::from(occupancy(arch, &usage).blocks_per_sm * threads);
        println!("{name}: {in_flight} bytes a thread, {} KiB a multiprocessor", bytes >> 10);
        assert!(bytes >= ENOUGH, "{name} has {bytes} bytes under way");
    }
}
