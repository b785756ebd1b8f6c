//! The ladder `hgemm`: from a warp's fragments to the speed of the vendor's library (the steps of "fast.cu",
//! github.com/pranjalssh/fast.cu, and their order, are what it learns from).

mod r01_mma_sync;
mod r02_wgmma_tma;
mod r03_large_tile;
mod r04_producer_consumer;

pub use r01_mma_sync::{MmaSync, mma_sync};
pub use r02_wgmma_tma::{WgmmaTma, wgmma_tma};
pub use r03_large_tile::large_tile;
pub use r04_producer_consumer::producer_consumer;
