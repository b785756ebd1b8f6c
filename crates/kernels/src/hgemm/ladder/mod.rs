//! The ladder `hgemm`: from a warp's fragments to the speed of the vendor's library (the steps of "fast.cu",
//! github.com/pranjalssh/fast.cu, and their order, are what it learns from).

mod r01_mma_sync;
mod r02_wgmma_tma;
mod r03_large_tile;
mod r04_producer_consumer;
mod r05_two_consumers;
mod r06_persistent;
mod r07_multicast;
mod r08_tma_store;
mod r09_tile_order;

pub use r01_mma_sync::{MmaSync, mma_sync};
pub use r02_wgmma_tma::{WgmmaTma, wgmma_tma};
pub use r03_large_tile::large_tile;
pub use r04_producer_consumer::producer_consumer;
pub use r05_two_consumers::two_consumers;
pub use r06_persistent::persistent;
pub use r07_multicast::multicast;
pub use r08_tma_store::{TmaStore, tma_store};
pub use r09_tile_order::tile_order;
