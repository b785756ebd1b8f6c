//! Triton's cache: a folder with a kernel's PTX, and a JSON file that says how it is launched.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::host;

/// A kernel as Triton compiled it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compiled {
    /// The PTX.
    pub(super) ptx: PathBuf,
    /// Its launch.
    pub(super) metadata: Metadata,
}

/// The part of Triton's metadata that a launch needs; fields that a version lacks count as unset.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Metadata {
    /// The entry.
    pub(super) name: String,
    /// Warps a block.
    pub(super) num_warps: u32,
    /// Bytes of dynamic shared memory.
    pub(super) shared: u32,
    /// Blocks a cluster.
    #[serde(default = "one")]
    pub(super) num_ctas: u32,
    /// All blocks are resident at once.
    #[serde(default)]
    pub(super) launch_cooperative_grid: bool,
    /// Bytes of global scratch memory a block.
    #[serde(default)]
    global_scratch_size: u64,
    /// Bytes of scratch memory of the profiler a block.
    #[serde(default)]
    profile_scratch_size: u64,
}

const fn one() -> u32 {
    1
}

impl Metadata {
    /// The block: all its threads stand in a row.
    pub(super) fn block(&self) -> [u32; 3] {
        [self.num_warps.saturating_mul(32), 1, 1]
    }

    /// Bytes of the memory that Triton's launcher passes after the kernel's own arguments, for so
    /// many parameters beyond those; a pointer to nothing is null.
    pub(super) fn trailing(&self, missing: usize, blocks: u64) -> Vec<u64> {
        let sizes = [self.global_scratch_size, self.profile_scratch_size];
        sizes.iter().take(missing).map(|size| size.saturating_mul(blocks)).collect()
    }
}

/// The kernel in a cache folder, or the only one below it whose name has `entry` in it.
pub(super) fn find(folder: &Path, entry: Option<&str>) -> Result<Compiled, Failure> {
    let mut found = Vec::new();
    search(folder, 2, &mut found)?;
    found.sort_by(|a, b| a.ptx.cmp(&b.ptx));
    if found.is_empty() {
        return Err(Failure::usage(format!("{} has no kernel that Triton compiled to PTX", folder.display())));
    }
    let fits = |kernel: &&Compiled| entry.is_none_or(|part| kernel.metadata.name.contains(part));
    let fitting: Vec<&Compiled> = found.iter().filter(fits).collect();
    let exact = fitting.iter().filter(|kernel| Some(kernel.metadata.name.as_str()) == entry).collect::<Vec<_>>();
    match (fitting.as_slice(), exact.as_slice()) {
        ([one], _) => Ok((*one).clone()),
        (_, [one]) => Ok((**one).clone()),
        ([], _) => Err(Failure::usage(format!(
            "no kernel named '{}' in {}; there are: {}",
            entry.unwrap_or_default(),
            folder.display(),
            listed(&found.iter().collect::<Vec<_>>())
        ))),
        (several, _) => Err(Failure::usage(format!(
            "{} kernels fit: name one with --entry, or the folder of one: {}",
            several.len(),
            listed(several)
        ))),
    }
}

fn listed(kernels: &[&Compiled]) -> String {
    let one = |kernel: &&Compiled| format!("{} ({})", kernel.metadata.name, kernel.ptx.display());
    kernels.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn search(folder: &Path, depth: u32, found: &mut Vec<Compiled>) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() && depth > 1 {
            search(&path, depth - 1, found)?;
        } else if path.extension().is_some_and(|end| end == "json") {
            // A group file lists the others; a kernel's own has its PTX beside it.
            let ptx = path.with_extension("ptx");
            if host::is_file(&ptx) {
                let text = host::read_to_string(&path).map_err(unreadable)?;
                let metadata = serde_json::from_str(&text)
                    .map_err(|error| Failure::usage(format!("{} is not Triton's: {error}", path.display())))?;
                found.push(Compiled { ptx, metadata });
            }
        }
    }
    Ok(())
}
