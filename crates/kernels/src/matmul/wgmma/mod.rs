//! Products by warpgroups, from tiles that bulk copies bring (sm_90a).

mod ahead;
mod consume;
mod exchange;
mod kernel;
mod maps;
mod produce;
mod rings;
mod source;
mod store;
mod tile;

pub use kernel::{Wgmma, WgmmaConfiguration, wgmma};
pub use maps::Lying;
pub(super) use maps::{has_kernel, is_fine, layout};
pub use source::Walk;
pub use tile::WgmmaTile;
