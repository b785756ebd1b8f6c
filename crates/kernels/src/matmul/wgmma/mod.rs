//! Products by warpgroups, from tiles that bulk copies bring (sm_90a).

mod exchange;
mod kernel;
mod maps;
mod source;
mod tile;

pub use kernel::{Wgmma, WgmmaConfiguration, wgmma};
pub use maps::Lying;
pub(super) use maps::{has_kernel, is_fine, layout};
pub use source::Walk;
pub use tile::WgmmaTile;
