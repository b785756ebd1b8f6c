//! One file of the hub: resumed where it was cut off, and compared with its size and digest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::Named;
use super::api::{Digest, Hub, RemoteFile};
use crate::failure::Failure;

/// Times that a file is asked for without a byte coming.
const ATTEMPTS: u32 = 4;

/// The pause before another attempt; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes that are written at once.
const CHUNK: usize = 1 << 18;

/// Why an attempt ended.
enum Cut {
    /// Another one may go on.
    Later(String),
    /// It is of no use.
    Never(String),
}

impl Hub {
    /// Brings a file to a place, told how many bytes of it are there.
    pub(super) fn fetch(
        &self,
        named: &Named,
        commit: &str,
        file: &RemoteFile,
        to: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let address = format!("{}/{}/resolve/{commit}/{}", self.endpoint, named.id, file.name);
        let partial = to.with_extension("incomplete");
        let (mut attempt, mut last) = (0, 0);
        loop {
            let there = fs::metadata(&partial).map_or(0, |metadata| metadata.len());
            // A download that gets on is not given up.
            if there > last {
                (attempt, last) = (0, there);
            }
            match self.attempt(&address, &partial, there, file, progress) {
                Ok(()) => break,
                Err(Cut::Later(_)) if attempt + 1 < ATTEMPTS => {
                    std::thread::sleep(PAUSE * 2_u32.pow(attempt));
                    attempt += 1;
                }
                Err(Cut::Later(reason) | Cut::Never(reason)) => {
                    return Err(Failure::run(format!("cannot download {address}: {reason}")));
                }
            }
        }
        let found = digest(&partial, file).map_err(|error| Failure::run(format!("{}: {error}", partial.display())))?;
        let expected = file.digest.name();
        if found != expected {
            // Nothing of it is to be trusted.
            drop(fs::remove_file(&partial));
            return Err(Failure::run(format!("{address}: its digest is {found}, and {expected} by the hub")));
        }
        fs::rename(&partial, to).map_err(|error| Failure::run(format!("cannot write {}: {error}", to.display())))
    }

    fn attempt(
        &self,
        address: &str,
        partial: &Path,
        there: u64,
        file: &RemoteFile,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Cut> {
        let size = file.size;
        if there == size && partial.exists() {
            return Ok(());
        }
        // More than there is: another file's.
        let there = if there > size { 0 } else { there };
        let request = self.get(address);
        let request = if there > 0 { request.header("Range", format!("bytes={there}-")) } else { request };
        let mut answer = request.call().map_err(|error| Cut::Later(error.to_string()))?;
        let begins_at = match answer.status().as_u16() {
            200 => 0,
            206 => there,
            status @ (408 | 429 | 500..) => return Err(Cut::Later(format!("status {status}"))),
            status => return Err(Cut::Never(format!("status {status}"))),
        };
        let write = |error: io::Error| Cut::Never(format!("{}: {error}", partial.display()));
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(begins_at == 0).append(begins_at > 0);
        let mut out = options.open(partial).map_err(write)?;
        let mut done = begins_at;
        let mut body = answer.body_mut().as_reader();
        let mut chunk = vec![0; CHUNK];
        while let read @ 1.. = body.read(&mut chunk).map_err(|error| Cut::Later(error.to_string()))? {
            if read as u64 > size - done {
                drop(fs::remove_file(partial));
                return Err(Cut::Never(format!("it has more than the {size} bytes that the hub says")));
            }
            out.write_all(&chunk[..read]).map_err(write)?;
            done += read as u64;
            progress(done);
        }
        match done == size {
            true => Ok(()),
            false => Err(Cut::Later(format!("it ended after {done} of {size} bytes"))),
        }
    }
}

/// The digest of a file, of the kind that the hub knows it by.
fn digest(path: &Path, file: &RemoteFile) -> io::Result<String> {
    let mut content = File::open(path)?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(match file.digest {
        Digest::Content(_) => {
            let mut hash = Sha256::new();
            io::copy(&mut content, &mut hash)?;
            hex(&hash.finalize())
        }
        Digest::Blob(_) => {
            let mut hash = Sha1::new();
            hash.update(format!("blob {}\0", file.size));
            io::copy(&mut content, &mut hash)?;
            hex(&hash.finalize())
        }
    })
}
