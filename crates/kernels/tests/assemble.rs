//! Every kernel that ships assembles, and becomes the instructions that it is written for.

#[path = "common/assemble.rs"]
mod assembler;

use warpfold_kernels::{Listed, kernels, reductions};

/// What machine code for sm_90a must have: how a kernel's name begins, what else is in it, the
/// instructions. Each row is for the first kernel that it fits.
const INSTRUCTIONS: &[(&str, &str, &[&str])] = &[
    ("matmul_wgmma", "_once_b_bf16w", &["HGMMA.", ".BF16", "UTMALDG.", "UTMAPF.L2", "UTMASTG."]),
    ("matmul_wgmma", "_bf16_kk_copied_bf16w", &["HGMMA.", ".BF16", "UTMALDG.", "UTMASTG."]),
    ("matmul_wgmma", "_bf16_mnmn", &["HGMMA.", ".BF16", "UTMALDG.", "UTMASTG."]),
    ("matmul_wgmma", "_bf16_kk_batch", &["HGMMA.", "UTMALDG.5D", "UTMASTG.5D"]),
    ("matmul_wgmma", "_f16_kk", &["HGMMA.", "UTMALDG."]),
    ("matmul_wgmma", "_f32_kk", &["HGMMA.", ".TF32", "UTMALDG."]),
    ("matmul_wgmma", "_f8e4m3_", &["QGMMA.", ".E4M3", "UTMALDG.", "UTMASTG."]),
    ("matmul_wgmma", "_f8e5m2_", &["QGMMA.", ".E5M2", "UTMALDG."]),
    ("matmul_wgmma", "_i8_", &["IGMMA.", ".S8", "UTMALDG."]),
    ("matmul_wgmma", "_u8_", &["IGMMA.", ".U8", "UTMALDG."]),
    ("matmul_wgmma", "_bf16_kk_copied_conv", &["HGMMA.", ".BF16", "UTMALDG.", "IM2COL", "UTMASTG."]),
    ("matmul_wgmma", "_f16_kk_copied_conv", &["HGMMA.", "UTMALDG.", "IM2COL"]),
    ("matmul_wgmma", "_f32_kk_conv", &["HGMMA.", ".TF32", "UTMALDG.", "IM2COL"]),
    ("attention_wgmma", "_q_kv16_bf16_bf16_128_128_packed_paged", &["HGMMA.", ".BF16", "UTMALDG.4D"]),
    ("attention_wgmma", "_q_kv128_f16_f16_128_128_causal", &["HGMMA.", "UTMALDG.4D"]),
    ("attention_wgmma", "_bf16_bf16_256_256_", &["HGMMA.", ".BF16", "UTMALDG.4D"]),
    ("attention_wgmma", "_f8e4m3_f8e4m3_128_128_", &["QGMMA.", ".E4M3", "UTMALDG.4D"]),
    ("attention_wgmma", "_bf16_f8e4m3_", &["HGMMA.", ".BF16", "UTMALDG.4D"]),
    (
        "attention_swapped",
        "_bf16_f8e4m3_128_128_",
        &["HGMMA.64x8x16", ".BF16", "UTMALDG.4D", "LDSM.16.M88.4", "LDSM.16.MT88.4", "STSM.16.MT88.4", "HMUL2.BF16"],
    ),
    ("matmul_quantized_q4_g32_z8_h", "_bf16_weights", &["HGMMA.", ".BF16", "UTMALDG.", "UBLKCP"]),
    ("matmul_quantized_q4_g32_z0_b_ob_64x128", "", &["HGMMA.", ".BF16", "UTMALDG.", "UBLKCP"]),
    ("matmul_mma", "_bf16_k16", &["HMMA.16816.F32.BF16", "LDGSTS."]),
    ("matmul_mma", "_f16_k16", &["HMMA.16816.F32 ", "LDGSTS."]),
    ("matmul_mma", "_f32_k16", &["HMMA.", ".TF32"]),
    ("matmul_mma", "_i8_k16", &["IMMA.16832.S8"]),
    ("matmul_mma", "_u8_k16", &["IMMA.16832.U8"]),
    ("conv_mma", "_bf16_", &["HMMA.16816.F32.BF16", "LDGSTS."]),
    ("conv_mma", "_f16_", &["HMMA.16816.F32 ", "LDGSTS."]),
    ("conv_mma", "_f32_", &["HMMA.", ".TF32", "LDGSTS."]),
    ("attention_mma", "_bf16_bf16_", &["HMMA.16816.F32.BF16", "LDGSTS.", "LDSM.16.M88.4", "LDSM.16.MT88.4"]),
    ("attention_mma", "_f16_f16_", &["HMMA.16816.F32 ", "LDGSTS."]),
];

/// Those that are listed, and reductions of every monoid beside them.
fn all() -> Vec<Listed> {
    let mut all = kernels();
    for reduction in reductions::kernels() {
        if all.iter().all(|listed| listed.kernel.name() != reduction.kernel.name()) {
            all.push(reduction);
        }
    }
    all
}
