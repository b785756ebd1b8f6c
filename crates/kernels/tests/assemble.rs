//! Every kernel of the crate assembles with `ptxas`, if there is one: in `PTXAS`, or on the path.

use std::path::Path;
use std::process::Command;

use warpfold_kernels::{Listed, Shipped, kernels, reductions};
use warpfold_lang::{Arch, Error, ErrorKind, Target};

const TARGETS: [Target; 2] = [Target::new(Arch::SM_80, (7, 4)), Target::new(Arch::SM_90A, (8, 0))];

#[test]
fn every_kernel_assembles_without_warnings_and_spills() {
    let named = std::env::var_os("PTXAS");
    let ptxas = named.clone().unwrap_or_else(|| "ptxas".into());
    let ptxas = Path::new(&ptxas);
    if Command::new(ptxas).arg("--version").output().is_err() {
        assert!(named.is_none(), "PTXAS is set to {}, which does not run", ptxas.display());
        println!("no ptxas found (set PTXAS to name one): nothing was assembled");
        return;
    }
    let all = all();
    let failures: Vec<_> =
        all.iter().flat_map(|listed| TARGETS.iter().filter_map(|target| complaint(ptxas, listed, target))).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{} kernels assembled for {} targets with {}", all.len(), TARGETS.len(), ptxas.display());
}

/// Those that are listed, and reductions of every monoid beside them.
fn all() -> Vec<Listed> {
    let mut all = kernels();
    for Shipped { kernel, block, in_flight } in reductions::kernels() {
        if all.iter().all(|listed| listed.kernel.name() != kernel.name()) {
            all.push(Listed { kernel, place: "reductions".to_owned(), block: [block, 1, 1], in_flight });
        }
    }
    all
}

/// Whether the kernel wants instructions that the target has not.
fn is_lacking(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported { .. } | ErrorKind::NeedsSpecific { .. })
}

/// What ptxas does not like about a kernel.
fn complaint(ptxas: &Path, listed: &Listed, target: &Target) -> Option<String> {
    let name = listed.kernel.name();
    let text = match listed.kernel.build(target) {
        Ok(built) => built.ptx(),
        Err(error) if *target == TARGETS[0] && is_lacking(&error) => return None,
        Err(error) => panic!("{error}"),
    };
    let file = std::env::temp_dir().join(format!("warpfold-{}-{name}.{}.ptx", std::process::id(), target.arch));
    std::fs::write(&file, text).expect("the temporary folder can be written");
    let output = Command::new(ptxas)
        .args(["--gpu-name", &target.arch.to_string(), "--verbose", "--warn-on-spills", "--output-file", "/dev/null"])
        .arg(&file)
        .output()
        .expect("ptxas was found and runs");
    std::fs::remove_file(&file).expect("the temporary file is ours");
    let log = String::from_utf8_lossy(&output.stderr);
    let spills = log.contains("bytes spill stores") && !log.contains(" 0 bytes spill stores");
    // Its remarks on `wgmma` that it serialised, registers that it did not exchange, waits that it put in.
    let remarks = ["(C75", "(C76"].iter().any(|code| log.contains(code));
    let is_clean = output.status.success() && !log.contains("warning") && !spills && !remarks;
    (!is_clean).then(|| format!("{name} ({}) for {}:\n{log}", listed.place, target.arch))
}
