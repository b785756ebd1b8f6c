//! Every rung assembles, and becomes the instructions that it is written for.

#[path = "../../../kernels/tests/common/assemble.rs"]
mod common;

use warpfold_ladders::rungs as all;

/// What machine code for sm_90a must have: how a kernel's name begins, what else is in it, the
/// instructions. Each row is for the first kernel that it fits.
const INSTRUCTIONS: &[(&str, &str, &[&str])] = &[
    ("hgemm_mma_sync_bf16", "", &["HMMA.16816.F32.BF16", "LDSM."]),
    ("hgemm_mma_sync_f16", "", &["HMMA.16816.F32 "]),
    ("hgemm_wgmma_tma", "_bf16", &["HGMMA.", ".BF16", "UTMALDG.2D"]),
    ("hgemm_wgmma_tma", "_f16", &["HGMMA.", "UTMALDG.2D"]),
    ("hgemm_large_tile", "", &["HGMMA.", "UTMALDG.2D"]),
    ("hgemm_producer_consumer", "", &["HGMMA.", "UTMALDG.2D"]),
    ("hgemm_two_consumers", "", &["HGMMA.", "UTMALDG.2D", "USETMAXREG."]),
    ("hgemm_persistent", "", &["HGMMA.", "UTMALDG.2D", "USETMAXREG."]),
    ("hgemm_multicast", "", &["HGMMA.", "UTMALDG.2D.MULTICAST"]),
    ("hgemm_tma_store", "", &["HGMMA.", "UTMALDG.2D.MULTICAST", "UTMASTG.2D"]),
    ("hgemm_tile_order", "", &["HGMMA.", "UTMALDG.2D.MULTICAST", "UTMASTG.2D"]),
    ("attention_mma_sync_bf16", "", &["HMMA.16816.F32.BF16", "LDSM.", "LDGSTS."]),
    ("attention_mma_sync_f16", "", &["HMMA.16816.F32 "]),
    ("attention_wgmma", "_bf16", &["HGMMA.", ".BF16", "UTMALDG.3D"]),
    ("attention_warp_specialized", "", &["HGMMA.", "UTMALDG.3D", "USETMAXREG."]),
    ("attention_overlap", "", &["HGMMA.", "UTMALDG.3D", "USETMAXREG."]),
    ("attention_ping_pong", "", &["HGMMA.", "UTMALDG.3D", "USETMAXREG.", "BAR.ARV"]),
    ("attention_persistent", "", &["HGMMA.", "UTMALDG.3D", "USETMAXREG.", "BAR.ARV"]),
    ("conv_wgmma_im2col", "", &["HGMMA.", "UTMALDG.", "IM2COL"]),
];
