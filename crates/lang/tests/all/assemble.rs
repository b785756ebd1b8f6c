//! Every kernel of the suite assembles with `ptxas`, if there is one: in `PTXAS`, or on the path.

use std::path::Path;
use std::process::{Command, Output};

use crate::suite::{SM_80, SM_90A, cases};
use warpfold_lang::Target;

fn assemble(ptxas: &Path, name: &str, target: &Target, text: &str) -> Output {
    let file = std::env::temp_dir().join(format!("warpfold-lang-{}-{name}.{}.ptx", std::process::id(), target.arch));
    std::fs::write(&file, text).expect("the temporary folder can be written");
    let output = Command::new(ptxas)
        .args(["--gpu-name", &target.arch.to_string(), "--verbose", "--warn-on-spills", "--output-file", "/dev/null"])
        .arg(&file)
        .output()
        .expect("ptxas was found and runs");
    std::fs::remove_file(&file).expect("the temporary file is ours");
    output
}

#[test]
fn every_kernel_assembles_without_warnings_and_spills() {
    let named = std::env::var_os("PTXAS");
    let ptxas = named.clone().unwrap_or_else(|| "ptxas".into());
    let ptxas = Path::new(&ptxas);
    if Command::new(ptxas).arg("--version").output().is_err() {
        assert!(named.is_none(), "PTXAS is set to {}, which does not run", ptxas.display());
        eprintln!("no ptxas found (set PTXAS to name one): nothing was assembled");
        return;
    }
    let mut failures = Vec::new();
    for target in [SM_80, SM_90A] {
        for case in cases(&target) {
            let output = assemble(ptxas, &case.name, &target, &case.build(&target).ptx());
            let log = String::from_utf8_lossy(&output.stderr);
            let spills = log.contains("bytes spill stores") && !log.contains(" 0 bytes spill stores");
            // Such as C7510: products of a warpgroup that are waited for one by one.
            let remarks = ["(C75", "(C76"].iter().any(|code| log.contains(code));
            if !output.status.success() || log.contains("warning") || remarks || spills {
                failures.push(format!("{} for {}:\n{log}", case.name, target.arch));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
