//! What GPUs do in a clock, by architecture: the figures that the cost model stands on.

use warpfold_lang::Arch;

use crate::Dtype;

/// Rates of an SM, and of the memory of the board that stands for its architecture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ArchRates {
    /// The architecture, as in `sm_90`: 90.
    arch: u32,
    /// Multiply-adds of `f32` on CUDA cores, per clock and SM.
    f32_fma_per_clock_per_sm: f64,
    /// The same of `f64`.
    f64_fma_per_clock_per_sm: f64,
    /// The same of `i32`.
    i32_fma_per_clock_per_sm: f64,
    /// Multiply-adds of dense f16 and bf16 on tensor cores, per clock and SM. Elements of half the
    /// size have twice as many, and the other way round.
    f16_tensor_fma_per_clock_per_sm: f64,
    /// The part of these that `mma.sync` reaches at most.
    mma_share: f64,
    /// Bytes that a copy moves in a clock of the whole board.
    memory_bytes_per_clock: f64,
}

/// From NVIDIA's papers on its architectures, with data sheets for memory, of which copies reach
/// about nine tenths. In GPUs of workstations the memory differs from board to board: one stands
/// for all.
///
/// | row | FMA and tensor FMA per clock and SM | memory |
/// |---|---|---|
/// | sm_80 | A100 Tensor Core GPU Architecture, table 4: 64, 32, 64 and 1,024 | A100 80 GB: 2.0 TB/s at 1.41 GHz |
/// | sm_86 | GA102 GPU Architecture, "GA10x SM": 128, 2, 64 and 512 | A40: 696 GB/s at 1.74 GHz |
/// | sm_89 | Ada GPU Architecture, "Ada SM": 128, 2, 64 and 512 | L40S: 864 GB/s at 2.52 GHz |
/// | sm_90 | H100 Tensor Core GPU Architecture, table 3: 128, 64, 64 and 2,048 | H200: 4.3 TB/s measured at 1.7 GHz |
///
/// `mma_share` was measured on an H200 (driver 580, 2026-11-20): its other tensor cores are
/// WGMMA's.
const RATES: [ArchRates; 4] = [
    ArchRates {
        arch: 80,
        f32_fma_per_clock_per_sm: 64.0,
        f64_fma_per_clock_per_sm: 32.0,
        i32_fma_per_clock_per_sm: 64.0,
        f16_tensor_fma_per_clock_per_sm: 1024.0,
        mma_share: 1.0,
        memory_bytes_per_clock: 1300.0,
    },
    ArchRates {
        arch: 86,
        f32_fma_per_clock_per_sm: 128.0,
        f64_fma_per_clock_per_sm: 2.0,
        i32_fma_per_clock_per_sm: 64.0,
        f16_tensor_fma_per_clock_per_sm: 512.0,
        mma_share: 1.0,
        memory_bytes_per_clock: 360.0,
    },
    ArchRates {
        arch: 89,
        f32_fma_per_clock_per_sm: 128.0,
        f64_fma_per_clock_per_sm: 2.0,
        i32_fma_per_clock_per_sm: 64.0,
        f16_tensor_fma_per_clock_per_sm: 512.0,
        mma_share: 1.0,
        memory_bytes_per_clock: 310.0,
    },
    ArchRates {
        arch: 90,
        f32_fma_per_clock_per_sm: 128.0,
        f64_fma_per_clock_per_sm: 64.0,
        i32_fma_per_clock_per_sm: 64.0,
        f16_tensor_fma_per_clock_per_sm: 2048.0,
        mma_share: 0.62,
        memory_bytes_per_clock: 2500.0,
    },
];

impl ArchRates {
    /// The row of an architecture; of one that has none, the row of the newest before it.
    pub(crate) fn of(arch: Arch) -> &'static Self {
        let row = RATES.iter().rev().find(|row| row.arch <= arch.number);
        row.unwrap_or(&RATES[0])
    }

    /// Multiply-adds on CUDA cores that are added up in a type.
    pub(super) fn fma_per_clock_per_sm(&self, accumulator: Dtype) -> f64 {
        match accumulator {
            Dtype::F64 => self.f64_fma_per_clock_per_sm,
            Dtype::I32 => self.i32_fma_per_clock_per_sm,
            // Three products of 32 bits and their sums.
            Dtype::I64 => self.i32_fma_per_clock_per_sm / 4.0,
            _ => self.f32_fma_per_clock_per_sm,
        }
    }

    /// Multiply-adds on tensor cores, by WGMMA where there is one, of factors of a type.
    pub(super) fn tensor_fma_per_clock_per_sm(&self, dtype: Dtype) -> f64 {
        self.f16_tensor_fma_per_clock_per_sm * 2.0 / dtype.bytes() as f64
    }

    /// The same by `mma.sync`.
    pub(super) fn mma_fma_per_clock_per_sm(&self, dtype: Dtype) -> f64 {
        self.mma_share * self.tensor_fma_per_clock_per_sm(dtype)
    }

    /// Bytes that a copy moves in a clock.
    pub(crate) const fn memory_bytes_per_clock(&self) -> f64 {
        self.memory_bytes_per_clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_without_rates_takes_those_of_the_one_before_it() {
        let row = |arch: &str| ArchRates::of(arch.parse().expect("an architecture")).arch;
        let found = ["sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120"].map(row);
        assert_eq!(found, [80, 86, 86, 89, 90, 90, 90, 90]);
    }

    #[test]
    fn rows_stand_in_order_and_peaks_are_those_of_the_data_sheets() {
        assert!(RATES.is_sorted_by_key(|row| row.arch));
        // SMs, GHz, TFLOP/s of dense bf16 and of f32 on CUDA cores.
        for (arch, sms, clock, of_bf16, of_f32) in
            [(80, 108.0, 1.41, 312.0, 19.5), (86, 84.0, 1.74, 149.7, 37.4), (89, 142.0, 2.52, 362.0, 91.6)]
        {
            let row = RATES.iter().find(|row| row.arch == arch).expect("a row");
            let tflops = |fma: f64| 2.0 * fma * sms * clock / 1e3;
            for (found, expected) in [
                (tflops(row.tensor_fma_per_clock_per_sm(Dtype::Bf16)), of_bf16),
                (tflops(row.fma_per_clock_per_sm(Dtype::F32)), of_f32),
            ] {
                assert!((found / expected - 1.0).abs() < 0.02, "sm_{arch}: {found}, not {expected}");
            }
        }
    }
}
