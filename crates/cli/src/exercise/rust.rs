//! A kernel in Rust, built: one file, and the kernel language, which is built once.
//!
//! What runs is a small program that records the kernel and prints its PTX, which this program then
//! judges: so only `warpfold-lang` and `warpfold-ptx` are compiled, without optimization, and after
//! that a file takes a second. A judge in that program would need the simulator and the ladders, a
//! hundred times as much to compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use warpfold_device::{Device, LaunchConfig, Profile};

use super::check::Built;
use crate::failure::Failure;

/// The package of the small program.
const MANIFEST: &str = r#"[package]
name = "exercise"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
half = "2"
warpfold-lang = DEPENDENCY

[profile.dev]
debug = false
"#;

/// The small program.
const MAIN: &str = r#"//! Prints the kernel of an exercise: its name, its launch, its PTX.

#[path = PATH]
mod exercise;

fn main() {
    let target = warpfold_lang::Target::new(warpfold_lang::Arch { number: NUMBER, specific: SPECIFIC }, VERSION);
    match exercise::solution().build_with_lines(&target) {
        Ok(built) => {
            println!("{} {}", built.entry, built.dynamic_shared_bytes);
            println!("{:?}\n{:?}", exercise::GRID, exercise::BLOCK);
            println!("{}", PLAN.replace('\n', ";"));
            print!("{}", built.ptx());
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}
"#;

/// Builds the file's `solution`, and takes its launch.
pub(crate) fn build(has_plan: bool, file: &Path, folder: &Path, source: Option<&Path>) -> Result<Built, Failure> {
    let project = folder.join(".warpfold/judge");
    let failed = |e: std::io::Error| Failure::run(format!("{}: {e}", project.display()));
    let file = file.canonicalize().map_err(failed)?;
    fs::create_dir_all(project.join("src")).map_err(failed)?;
    let target = Device::virtual_gpu(Profile::H200).target();
    let main = MAIN
        .replace("NUMBER", &target.arch.number.to_string())
        .replace("SPECIFIC", &target.arch.specific.to_string())
        .replace("VERSION", &format!("{:?}", target.ptx_version))
        .replace("PATH", &format!("{:?}", file.display().to_string()))
        .replace("PLAN", if has_plan { "exercise::PLAN" } else { "\"\"" });
    let checkout = checkout(source)?;
    let dependency = match &checkout {
        Some(checkout) => format!("{{ path = {:?} }}", checkout.join("crates/lang").display().to_string()),
        None => format!("{:?}", concat!("=", env!("CARGO_PKG_VERSION"))),
    };
    write(&project.join("Cargo.toml"), &MANIFEST.replace("DEPENDENCY", &dependency)).map_err(failed)?;
    write(&project.join("src/main.rs"), &main).map_err(failed)?;
    // The versions that this program was tested with.
    if let (Some(checkout), lock) = (&checkout, project.join("Cargo.lock"))
        && !lock.exists()
    {
        fs::copy(checkout.join("Cargo.lock"), lock).map_err(failed)?;
    }
    if !project.join("target").exists() {
        eprintln!("The kernel language is built, once …");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--manifest-path"]).arg(project.join("Cargo.toml"));
    command.arg("--target-dir").arg(project.join("target"));
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|e| {
        Failure::run(format!("cargo: {e}; https://rustup.rs brings it, and PTX of any compiler is judged without it"))
    })?;
    if !output.status.success() {
        return Err(Failure::usage(format!("{} does not build", file.display())));
    }
    parse(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
        Failure::usage("GRID and BLOCK are expected to be arrays of three numbers, and the file to print nothing")
    })
}

/// Reads what the small program prints.
pub(super) fn parse(printed: &str) -> Option<Built> {
    let mut lines = printed.splitn(5, '\n');
    let (entry, shared) = lines.next()?.split_once(' ')?;
    let mut dims = || serde_json::from_str::<[u32; 3]>(lines.next()?).ok();
    let config = LaunchConfig::new(dims()?, dims()?).dynamic_shared(shared.parse().ok()?);
    let plan = lines.next()?.to_owned();
    Some(Built { entry: entry.to_owned(), config, plan, ptx: lines.next()?.to_owned() })
}

/// The checkout that holds the kernel language, if there is one.
fn checkout(source: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let has_language = |folder: &Path| folder.join("crates/lang/Cargo.toml").is_file();
    match source {
        Some(source) if has_language(source) => source.canonicalize().map(Some).map_err(Failure::usage),
        Some(source) => Err(Failure::usage(format!("--source {}: no checkout of warpfold", source.display()))),
        None => {
            let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            Ok(own.canonicalize().ok().filter(|own| has_language(own)))
        }
    }
}

/// Writes a file that has other content: what is the same is not built again.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let is_same = fs::read_to_string(path).is_ok_and(|found| found == text);
    if is_same { Ok(()) } else { fs::write(path, text) }
}
