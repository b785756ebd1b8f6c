//! Tiles, and what architectures multiply in a clock.

#[path = "../../src/matmul/mma/tile.rs"]
mod mma_tile;
#[path = "../../src/matmul/rates.rs"]
mod rates;
#[path = "../../src/matmul/wgmma/tile.rs"]
mod wgmma_tile;
