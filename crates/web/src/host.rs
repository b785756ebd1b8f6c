//! The surroundings of the program in a page: files in memory, streams that are collected, the
//! page's clock, one thread. `crates/cli/src/host.rs` has those of an operating system.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::failure::Failure;
use crate::page;

/// A command's words and files, and all that it leaves.
#[derive(Debug, Default)]
pub(crate) struct PageHost {
    pub(crate) arguments: Vec<String>,
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    /// Files that the command has written.
    pub(crate) written: Vec<PathBuf>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

thread_local! {
    static HOST: RefCell<PageHost> = RefCell::default();
}

/// Puts a host in the place of the one that is there, which it returns.
pub(crate) fn exchange(host: PageHost) -> PageHost {
    HOST.replace(host)
}

fn with<R>(f: impl FnOnce(&mut PageHost) -> R) -> R {
    HOST.with_borrow_mut(f)
}

/// No other program can be run.
pub(crate) const HAS_PROGRAMS: bool = false;

/// The words after the program's name.
pub(crate) fn arguments() -> impl Iterator<Item = String> {
    with(|host| host.arguments.clone()).into_iter()
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> Option<u64> {
    Some(page::unix_seconds() as u64)
}

/// A point in time, with the functions of the standard library's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant(f64);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(page::milliseconds())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_secs_f64((page::milliseconds() - self.0).max(0.0) / 1e3)
    }
}

/// Reads a file.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    with(|host| host.files.get(path.as_ref()).cloned()).ok_or_else(|| {
        let known = "a page has files that the book's commands read, and those that its commands wrote";
        io::Error::new(io::ErrorKind::NotFound, known)
    })
}

/// Reads a file of text.
pub(crate) fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a file. There are no folders, and so none that are missing.
pub(crate) fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let path = path.as_ref();
    with(|host| {
        host.files.insert(path.to_owned(), contents.as_ref().to_vec());
        if !host.written.iter().any(|written| written == path) {
            host.written.push(path.to_owned());
        }
    });
    Ok(())
}

/// Makes a folder, of which a page has none.
pub(crate) fn create_dir_all(_path: impl AsRef<Path>) -> io::Result<()> {
    Ok(())
}

/// Returns whether a file is there.
pub(crate) fn is_file(path: &Path) -> bool {
    with(|host| host.files.contains_key(path))
}

/// Returns whether files may be written to a folder.
pub(crate) fn is_folder(path: &Path) -> bool {
    !is_file(path) && path.extension().is_none()
}

/// Refuses what needs threads: a page has one.
pub(crate) fn check_threads() -> Result<(), Failure> {
    Err(Failure::usage("each of several devices takes a thread, of which a page in a browser has one"))
}

/// Refuses a time limit, which needs a thread that watches.
pub(crate) fn set_after(_time: Duration) -> Result<Arc<AtomicBool>, Failure> {
    Err(Failure::usage("a page in a browser has no thread that watches the time: its button Stop ends a run"))
}

/// A collected stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OutputStream {
    Out,
    Error,
}

pub(crate) fn stdout() -> OutputStream {
    OutputStream::Out
}

pub(crate) fn stderr() -> OutputStream {
    OutputStream::Error
}

impl Write for OutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        with(|host| match self {
            Self::Out => host.stdout.extend_from_slice(bytes),
            Self::Error => host.stderr.extend_from_slice(bytes),
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard input, which is empty.
pub(crate) fn stdin() -> impl Read {
    io::empty()
}
