//! The surroundings of the program: streams, files, a clock, threads. A page in a browser has
//! others (`crates/web/src/host.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use std::fs::{create_dir_all, read, read_to_string, write};
pub(crate) use std::io::{stderr, stdin, stdout};
pub(crate) use std::time::Instant;

use crate::failure::Failure;

/// Other programs can be run.
pub(crate) const HAS_PROGRAMS: bool = true;

/// The words after the program's name.
pub(crate) fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> Option<u64> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|now| now.as_secs())
}

/// Returns whether a file is there.
pub(crate) fn is_file(path: &std::path::Path) -> bool {
    path.is_file()
}

/// Returns whether a folder is there.
pub(crate) fn is_folder(path: &std::path::Path) -> bool {
    path.is_dir()
}

/// Checks that there are threads, which a group of devices needs.
pub(crate) const fn check_threads() -> Result<(), Failure> {
    Ok(())
}

/// A flag that is set after some time.
pub(crate) fn set_after(time: Duration) -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::downgrade(&flag);
    std::thread::spawn(move || {
        std::thread::sleep(time);
        if let Some(flag) = set.upgrade() {
            flag.store(true, Ordering::Relaxed);
        }
    });
    Ok(flag)
}
