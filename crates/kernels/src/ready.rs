//! A planned launch with everything that does not change from call to call.

use warpfold_device::{Function, LaunchConfig};

/// A kernel that is loaded, its launch, its sizes and strides as it takes them, and what it needs of a workspace. Whoever
/// keeps it launches again without planning: see how `warpfold` does.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The loaded kernel.
    pub function: Function,
    /// The launch.
    pub config: LaunchConfig,
    /// The bytes of its last parameter.
    pub parameters: Vec<u8>,
    /// 8-byte words of workspace.
    pub workspace_words: u64,
    /// Counters.
    pub tickets: u64,
}
