//! The figures of NVIDIA's assembler, where there is one.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use warpfold_sim::Arch;

use crate::failure::Failure;
use crate::host;

/// Resource usage of a kernel as ptxas reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figures {
    pub registers: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    pub shared_bytes: u32,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registers, spill_store_bytes, spill_load_bytes, shared_bytes } = self;
        write!(f, "{registers} registers, ")?;
        match (spill_store_bytes, spill_load_bytes) {
            (0, 0) => f.write_str("no spills, ")?,
            (stores, loads) => write!(f, "spills of {stores} bytes stored and {loads} bytes loaded, ")?,
        }
        write!(f, "{shared_bytes} bytes of shared memory")
    }
}

/// Assembles a text with one kernel: its figures, or the first complaint; `None` if there is no
/// ptxas.
pub(super) fn assemble(text: &str, arch: Arch) -> Result<Option<Result<Figures, String>>, Failure> {
    if !host::HAS_PROGRAMS {
        return Ok(None);
    }
    let named = std::env::var_os("PTXAS");
    let program = PathBuf::from(named.clone().unwrap_or_else(|| "ptxas".into()));
    let files = Files::new(text)?;
    let mut command = Command::new(&program);
    command.args(["--verbose", "--gpu-name", &arch.to_string(), "--output-file"]).arg(&files.output).arg(&files.input);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => return Ok(None),
        Err(error) => return Err(Failure::usage(format!("cannot run {} (PTXAS): {error}", program.display()))),
    };
    let log = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let complaint = log.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gives no reason");
        return Ok(Some(Err(complaint.trim().to_owned())));
    }
    Ok(Some(figures(&log).ok_or_else(|| "its log has no figures".to_owned())))
}

/// The text and the room for the result; both go when this goes.
struct Files {
    input: PathBuf,
    output: PathBuf,
}

impl Files {
    fn new(text: &str) -> Result<Self, Failure> {
        let stem = std::env::temp_dir().join(format!("warpfold-inspect-{}", std::process::id()));
        let files = Self { input: stem.with_extension("ptx"), output: stem.with_extension("cubin") };
        std::fs::write(&files.input, text)
            .map_err(|error| Failure::run(format!("cannot write {}: {error}", files.input.display())))?;
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder; there may be no result.
        let _ = std::fs::remove_file(&self.input);
        let _ = std::fs::remove_file(&self.output);
    }
}

/// Reads `0 bytes spill stores, 0 bytes spill loads` and `Used 16 registers, 1024 bytes smem`.
fn figures(log: &str) -> Option<Figures> {
    let before = |label: &str| -> Option<u32> {
        let (number, _) = log.split_once(label)?;
        number.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(Figures {
        registers: before(" registers")?,
        // A kernel without shared memory or a stack has no word about them.
        spill_store_bytes: before(" bytes spill stores").unwrap_or(0),
        spill_load_bytes: before(" bytes spill loads").unwrap_or(0),
        shared_bytes: before(" bytes smem").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_read_from_the_log() {
        let log = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 380 bytes cmem[0]
";
        let expected = Figures { registers: 40, spill_store_bytes: 12, spill_load_bytes: 16, shared_bytes: 1024 };
        assert_eq!(figures(log), Some(expected));
        assert_eq!(
            expected.to_string(),
            "40 registers, spills of 12 bytes stored and 16 bytes loaded, 1024 bytes of shared memory"
        );
    }

    #[test]
    fn a_log_without_shared_memory_has_none() {
        let found = figures("ptxas info    : Used 8 registers, 360 bytes cmem[0]\n").expect("figures");
        assert_eq!(found.to_string(), "8 registers, no spills, 0 bytes of shared memory");
        assert_eq!(figures("nothing"), None);
    }
}
