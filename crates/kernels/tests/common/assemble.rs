//! Every kernel of a crate assembles with `ptxas`, if there is one: in `PTXAS`, or on the path; and
//! where `NVDISASM` names NVIDIA's disassembler, machine code has the instructions that kernels are
//! written for. A test that includes this module says by `super::all` which kernels there are, and
//! by `super::INSTRUCTIONS` what they are written for.
//!
//! `tests/assembled.txt` records the texts that a release of ptxas has taken, by hash. A sixteenth
//! of these is assembled again, all of them with `WARPFOLD_ALL_TESTS=1`; `UPDATE_SNAPSHOTS=1`
//! writes the record. A text without a line in it is assembled, so an old record costs time only.

#[allow(clippy::duplicate_mod, reason = "two modules of one test program have it")]
#[path = "../../../lang/tests/common/fnv.rs"]
mod fnv;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpfold_kernels::Listed;
use warpfold_lang::{Arch, Target};

use super::{INSTRUCTIONS, all};
use fnv::fnv1a;

const TARGETS: [Target; 2] = [Target::new(Arch::SM_80, (7, 4)), Target::new(Arch::SM_90A, (8, 0))];

#[test]
fn every_kernel_assembles_without_warnings_and_spills_to_the_instructions_it_is_written_for() {
    let named = std::env::var_os("PTXAS");
    let ptxas = PathBuf::from(named.clone().unwrap_or_else(|| OsString::from("ptxas")));
    let Ok(version) = Command::new(&ptxas).arg("--version").output() else {
        assert!(named.is_none(), "PTXAS is set to {}, which does not run", ptxas.display());
        println!("no ptxas found (set PTXAS to name one): nothing was assembled");
        return;
    };
    let tools = Tools {
        ptxas,
        release: String::from_utf8_lossy(&version.stdout).lines().last().unwrap_or_default().to_owned(),
        nvdisasm: std::env::var_os("NVDISASM").map(PathBuf::from),
        record: Record::read(),
    };
    if tools.nvdisasm.is_none() {
        println!("NVDISASM names no disassembler: nothing was looked for in machine code");
    }
    let all = all();
    let instructions = instructions(&all);
    let (next, threads) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, usize::from));
    let work = || {
        let mut complaints = Vec::new();
        while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < all.len()) {
            complaints.extend(TARGETS.iter().filter_map(|target| tools.complaint(&all[i], target, &instructions[i])));
        }
        complaints
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} kernels for {} targets: {}", all.len(), TARGETS.len(), tools.record.write());
}

/// Texts that were assembled without complaint, by the hash of the release, the text and what is
/// looked for in machine code.
struct Record {
    before: BTreeSet<String>,
    /// Those of this run, and how many of them were assembled in it.
    now: Mutex<(BTreeSet<String>, usize)>,
}

impl Record {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/assembled.txt")
    }

    fn read() -> Self {
        let is_whole = ["UPDATE_SNAPSHOTS", "WARPFOLD_ALL_TESTS"].iter().any(|name| std::env::var_os(name).is_some());
        let text = if is_whole { String::new() } else { fs::read_to_string(Self::path()).expect("the record exists") };
        Self { before: text.lines().map(str::to_owned).collect(), now: Mutex::default() }
    }

    /// Returns whether the text of this hash needs no second run.
    fn has(&self, hash: &str) -> bool {
        self.before.contains(hash) && !hash.ends_with('0')
    }

    fn add(&self, hash: String, is_new: bool) {
        let mut now = self.now.lock().expect("no worker panics while it holds the record");
        now.0.insert(hash);
        now.1 += usize::from(is_new);
    }

    /// Writes the record where that is asked for; returns a sentence on this run.
    fn write(&self) -> String {
        let now = self.now.lock().expect("no worker has panicked");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            let lines: Vec<_> = now.0.iter().map(|hash| format!("{hash}\n")).collect();
            fs::write(Self::path(), lines.concat()).expect("the record can be written");
        }
        format!("{} texts without complaint, {} of them assembled in this run", now.0.len(), now.1)
    }
}

/// The instructions that each kernel has to have.
fn instructions(all: &[Listed]) -> Vec<Vec<&'static str>> {
    let mut expected = vec![Vec::new(); all.len()];
    for (start, part, instructions) in INSTRUCTIONS {
        let fits = |listed: &Listed| {
            let rest = listed.kernel.name().strip_prefix(start);
            rest.is_some_and(|rest| rest.contains(part))
        };
        let first = all.iter().position(fits).unwrap_or_else(|| panic!("no kernel {start}…{part}"));
        expected[first].extend_from_slice(instructions);
    }
    expected
}

/// NVIDIA's programs.
struct Tools {
    ptxas: PathBuf,
    /// Version line of ptxas.
    release: String,
    nvdisasm: Option<PathBuf>,
    record: Record,
}

impl Tools {
    /// What ptxas does not like about a kernel, or its machine code lacks.
    fn complaint(&self, listed: &Listed, target: &Target, instructions: &[&str]) -> Option<String> {
        let name = listed.kernel.name();
        let text = match listed.kernel.build(target) {
            Ok(built) => built.ptx(),
            Err(error) if *target == TARGETS[0] && error.is_unsupported() => return None,
            Err(error) => panic!("{error}"),
        };
        let hash = format!("{:016x}", fnv1a(&format!("{}\n{}\n{text}", self.release, instructions.join(" "))));
        if self.record.has(&hash) {
            self.record.add(hash, false);
            return None;
        }
        let file = std::env::temp_dir().join(format!("warpfold-{}-{name}.{}.ptx", std::process::id(), target.arch));
        fs::write(&file, text).expect("the temporary folder can be written");
        let is_read = *target == TARGETS[1] && !instructions.is_empty() && self.nvdisasm.is_some();
        let code = if is_read { file.with_extension("cubin") } else { PathBuf::from("/dev/null") };
        let output = Command::new(&self.ptxas)
            .args(["--gpu-name", &target.arch.to_string(), "--verbose", "--warn-on-spills", "--output-file"])
            .args([&code, &file])
            .output()
            .expect("ptxas was found and runs");
        fs::remove_file(&file).expect("the temporary file is ours");
        let log = String::from_utf8_lossy(&output.stderr);
        let spills = log.contains("bytes spill stores") && !log.contains(" 0 bytes spill stores");
        // Its remarks on `wgmma` that it serialised, registers that it did not exchange, waits that
        // it put in.
        let remarks = ["(C75", "(C76"].iter().any(|code| log.contains(code));
        let is_clean = output.status.success() && !log.contains("warning") && !spills && !remarks;
        let missing = if is_read && is_clean { self.missing(&code, instructions) } else { Vec::new() };
        let what = || format!("{name} ({}) for {}", listed.place, target.arch);
        match (is_clean, missing.is_empty()) {
            (false, _) => Some(format!("{}:\n{log}", what())),
            (true, false) => Some(format!("{}: no {} in machine code", what(), missing.join(", no "))),
            (true, true) => {
                // Without a disassembler, nothing was looked for.
                if is_read || instructions.is_empty() || *target == TARGETS[0] {
                    self.record.add(hash, true);
                }
                None
            }
        }
    }

    /// The instructions that machine code lacks.
    fn missing<'a>(&self, code: &Path, instructions: &[&'a str]) -> Vec<&'a str> {
        let Some(nvdisasm) = &self.nvdisasm else { return Vec::new() };
        let output = Command::new(nvdisasm).arg("--print-code").arg(code).output();
        let output = output.unwrap_or_else(|error| panic!("NVDISASM is set to {}: {error}", nvdisasm.display()));
        fs::remove_file(code).expect("the temporary file is ours");
        assert!(output.status.success(), "{}: {}", nvdisasm.display(), String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        instructions.iter().copied().filter(|instruction| !text.contains(instruction)).collect()
    }
}
