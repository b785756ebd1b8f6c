//! The house in order: which crate may use which, what every source file has, where documents
//! point.
//!
//! The rules stand in `ARCHITECTURE.md` and `CONTRIBUTING.md`; what a reviewer would otherwise look
//! for by eye is a scan over the text here, simple on purpose. A new edge between crates starts
//! with a row of [`CRATES`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[path = "house/language.rs"]
mod language;
#[path = "house/thresholds.rs"]
mod thresholds;

/// What a crate may use of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Uses {
    /// Exactly these.
    Only(&'static [&'static str]),
    /// Whatever it likes, because nobody uses it.
    Anything,
}

/// Our crates, from the ground up.
const CRATES: &[(&str, Uses)] = &[
    ("ptx", Uses::Only(&[])),
    ("sim", Uses::Only(&["ptx"])),
    ("lang", Uses::Only(&["ptx"])),
    ("device", Uses::Only(&["lang", "sim"])),
    ("kernels", Uses::Only(&["device", "lang"])),
    ("ladders", Uses::Only(&["collectives", "device", "kernels", "lang"])),
    ("report", Uses::Only(&["device", "kernels", "ladders", "lang", "ptx", "sim"])),
    ("warpfold", Uses::Only(&["device", "kernels", "lang"])),
    ("collectives", Uses::Only(&["device", "kernels", "lang"])),
    ("bench", Uses::Only(&["device", "kernels", "lang"])),
    ("engine", Uses::Only(&[])),
    ("models", Uses::Only(&["collectives", "device", "engine", "kernels"])),
    ("serve", Uses::Only(&["engine", "models"])),
    ("cli", Uses::Anything),
    ("lite", Uses::Anything),
    ("python", Uses::Anything),
    ("web", Uses::Anything),
    ("conformance", Uses::Anything),
];

/// Where `unsafe` may stand: the driver, and the register file, memory and hot loops of the virtual
/// GPU.
const UNSAFE_PLACES: &[&str] = &[
    "crates/bench/src/vendor/",
    "crates/device/src/cuda/",
    "examples/10_foreign_memory.rs",
    "examples/13_graph.rs",
    "crates/warpfold/src/candle/cuda.rs",
    "crates/python/src/dlpack.rs",
    "crates/warpfold/src/dlpack/",
    "crates/warpfold/tests/all/dlpack.rs",
    "crates/sim/src/alu/",
    "crates/sim/src/asynchronous/",
    "crates/sim/src/check/shared/rows.rs",
    "crates/sim/src/exec/",
    "crates/sim/src/memory.rs",
    "crates/sim/src/memory_ops/",
    "crates/sim/src/runtime.rs",
    "crates/sim/src/tensor_ops/",
    "crates/sim/src/undefined/",
    "crates/sim/src/warp_ops/",
    "crates/web/src/page.rs",
];

/// What moves the one position that a file has for all who share it.
const POSITIONS: &[&str] =
    &[".seek(", "SeekFrom", "io::Seek", "Seek,", "Seek}", "seek_read", "seek_write", "try_clone(", "&File", "&'a File"];

/// Where a file may stand beside its position: reads that name theirs, a header that is read before
/// anybody shares the file, and a file that one function opens and reads.
const POSITION_PLACES: &[&str] =
    &["crates/models/src/files/mod.rs", "crates/models/src/files/gguf.rs", "crates/warpfold/src/safetensors/mod.rs"];

/// Longer files say why in their module doc, with the words [`WHY_LONG`].
const LONG_FILE_LINES: usize = 800;
const WHY_LONG: &str = "is long because";

/// Words of `ARCHITECTURE.md`, one sitting, and columns of its lines.
const MAP_WORDS: usize = 2_500;
const MAP_COLUMNS: usize = 120;

/// How far above an `unsafe` block its reason may start.
const REASON_LINES: usize = 6;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository's root exists")
}

/// A file of the repository.
struct File {
    /// From the root, with slashes.
    path: String,
    text: String,
}

impl File {
    /// Its lines with their numbers, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let without_comment = |line| str::split_once(line, "//").map_or(line, |(code, _)| code);
        self.text.lines().map(without_comment).enumerate().map(|(i, line)| (i + 1, line))
    }

    /// Lines of code that hold any of `words`, as `path:line: word`.
    fn hits(&self, words: &[&str]) -> Vec<String> {
        let of_line = |(n, line): (usize, &str)| {
            words.iter().find(|w| line.contains(**w)).map(|w| format!("{}:{n}: {w}", self.path))
        };
        self.code().filter_map(of_line).collect()
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// Whether it is part of a library, not of its tests, examples or the program.
    fn is_library(&self) -> bool {
        self.path.contains("/src/") && !self.is_test() && !self.path.starts_with("crates/cli/")
    }
}

/// Every file below the root whose name ends in `extension`.
fn files(extension: &str) -> Vec<File> {
    let root = root();
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository can be read") {
            let path = entry.expect("a folder of the repository can be read").path();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_symlink() {
                continue; // an example or a licence that a package brings: it is looked at where it is
            }
            if path.is_dir() {
                let is_ours = !name.starts_with('.') && !path.join("CACHEDIR.TAG").exists() && name != "target";
                folders.extend(is_ours.then_some(path));
            } else if path.extension().is_some_and(|e| e == extension) {
                let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let path = path.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Every source file but this one, which names the words that it looks for.
fn sources() -> Vec<File> {
    let mut sources = files("rs");
    sources.retain(|f| f.path.starts_with("crates/") || f.path.starts_with("examples/"));
    sources.retain(|f| f.path != "crates/conformance/tests/house.rs");
    assert!(sources.len() > 100, "only {} source files were found", sources.len());
    sources
}

#[track_caller]
fn nothing(problems: &[String]) {
    assert!(problems.is_empty(), "{} places:\n{}", problems.len(), problems.join("\n"));
}

/// What Cargo prints.
fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Our crates, as Cargo reads their manifests.
fn packages() -> Vec<Value> {
    let printed = cargo(&["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&printed).expect("cargo metadata prints JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

/// The names of a package's examples.
fn examples(package: &Value) -> Vec<String> {
    let targets = package["targets"].as_array().expect("a list of targets").iter();
    targets.filter(|t| t["kind"][0] == "example").map(|t| t["name"].as_str().expect("a name").to_owned()).collect()
}

/// What each of our crates names as a dependency, but for its tests and examples, by crate.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let names = |list: &Value| -> BTreeSet<String> {
        let list = list.as_array().expect("a list").iter().filter(|d| d["kind"] != "dev");
        list.map(|d| d["name"].as_str().expect("a name").to_owned()).collect()
    };
    packages().iter().map(|p| (p["name"].as_str().expect("a name").to_owned(), names(&p["dependencies"]))).collect()
}

fn uses(name: &str) -> Option<Uses> {
    CRATES.iter().find(|(n, _)| *n == name).map(|(_, uses)| *uses)
}

#[test]
fn crates_use_one_another_as_the_table_says() {
    let dependencies = dependencies();
    let names: BTreeSet<_> = dependencies.keys().map(|n| n.strip_prefix("warpfold-").unwrap_or(n)).collect();
    let expected: BTreeSet<_> = CRATES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected, "the crates of the workspace, and those of the table");
    for (name, all) in &dependencies {
        let name = name.strip_prefix("warpfold-").unwrap_or(name);
        let ours: BTreeSet<_> = all.iter().filter_map(|d| d.strip_prefix("warpfold-")).collect();
        match uses(name) {
            Some(Uses::Only(expected)) => assert_eq!(ours, expected.iter().copied().collect(), "{name} uses"),
            Some(Uses::Anything) | None => {}
        }
        let edges: Vec<_> = ours.iter().filter(|d| uses(d) == Some(Uses::Anything)).collect();
        assert!(edges.is_empty(), "{name} uses {edges:?}, which nobody may use");
    }
}

#[test]
fn only_the_device_crate_reaches_the_driver() {
    for (name, all) in dependencies() {
        assert_eq!(all.contains("cudarc"), name == "warpfold-device", "{name} and cudarc");
    }
    // The example of memory that cudarc owns shows how, through what the device crate passes on.
    // So does candle's own stream.
    let passed_on = ["examples/10_foreign_memory.rs", "crates/warpfold/src/candle/cuda.rs"];
    let may = |path: &str| path.starts_with("crates/device/") || passed_on.contains(&path);
    let others: Vec<_> = sources().into_iter().filter(|f| !may(&f.path)).collect();
    nothing(&others.iter().flat_map(|f| f.hits(&["cudarc"])).collect::<Vec<_>>());
}

#[test]
fn documents_state_the_version_of_cudarc_in_the_interface() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("the file exists");
    let manifest = read("crates/device/Cargo.toml");
    let line = manifest.lines().find(|line| line.starts_with("cudarc = ")).expect("the device crate uses it");
    let version = line.split('"').nth(1).expect("a version");
    assert!(line.contains("cuda-13000"), "the driver's interface is fixed: {line}");
    for path in ["crates/warpfold/src/lib.rs", "CONTRIBUTING.md"] {
        assert!(read(path).contains(&format!("at version {version}")), "{path} does not say 'at version {version}'");
    }
}

#[test]
fn only_the_serve_crate_is_asynchronous() {
    for (name, all) in dependencies() {
        let found: Vec<_> = ["tokio", "axum", "hyper"].into_iter().filter(|d| all.contains(*d)).collect();
        assert!(found.is_empty() || name == "warpfold-serve", "{name} uses {found:?}");
    }
}

#[test]
fn the_backends_of_the_device_crate_do_not_know_its_public_types() {
    let backends = ["backend/", "cuda/", "virtual_gpu/"].map(|folder| format!("crates/device/src/{folder}"));
    // It extends the public types by cudarc's.
    let may = ["crates/device/src/cuda/interop.rs"];
    let is_backend = |f: &File| {
        backends.iter().any(|b| f.path.starts_with(b.as_str())) && !may.iter().any(|path| f.path.starts_with(path))
    };
    let backends: Vec<_> = sources().into_iter().filter(is_backend).collect();
    assert!(backends.len() > 15, "only {} files of backends were found", backends.len());
    nothing(&backends.iter().flat_map(|f| f.hits(&["crate::api", "api::"])).collect::<Vec<_>>());
}

#[test]
fn nothing_synchronises_a_whole_context() {
    // It would invalidate captures of other threads: see `Stream::capture`.
    let words = ["cuCtxSynchronize", "ctx::synchronize", "cuda.synchronize("];
    nothing(&sources().iter().filter(|f| f.is_library()).flat_map(|f| f.hits(&words)).collect::<Vec<_>>());
}

#[test]
fn libraries_below_the_devices_know_neither_time_nor_environment() {
    let crates = ["crates/ptx/", "crates/sim/", "crates/lang/", "crates/kernels/", "crates/ladders/"];
    let is_below = |f: &File| f.is_library() && crates.iter().any(|c| f.path.starts_with(c));
    let words = ["Instant", "SystemTime", "std::env", "env::var"];
    nothing(&sources().iter().filter(|f| is_below(f)).flat_map(|f| f.hits(&words)).collect::<Vec<_>>());
}

#[test]
fn a_file_that_is_shared_has_no_position_to_move() {
    let sources = sources();
    let of_programs = sources.iter().filter(|f| f.path.contains("/src/") && !f.is_test());
    let (allowed, others): (Vec<_>, Vec<_>) = of_programs.partition(|f| POSITION_PLACES.contains(&&*f.path));
    assert!(allowed.len() == POSITION_PLACES.len() && allowed.iter().all(|f| !f.hits(POSITIONS).is_empty()));
    nothing(&others.iter().flat_map(|f| f.hits(POSITIONS)).collect::<Vec<_>>());
}

#[test]
fn libraries_neither_print_nor_exit() {
    let words = ["println!", "print!(", "process::exit"];
    nothing(&sources().iter().filter(|f| f.is_library()).flat_map(|f| f.hits(&words)).collect::<Vec<_>>());
}

#[test]
fn every_source_file_opens_with_what_it_is() {
    let opens = |f: &File| f.text.starts_with("//! ");
    nothing(&sources().into_iter().filter(|f| !opens(f)).map(|f| f.path).collect::<Vec<_>>());
}

#[test]
fn a_long_source_file_says_why_it_is_long() {
    let is_explained = |f: &File| {
        let mut doc = f.text.lines().take_while(|line| line.starts_with("//!"));
        f.text.lines().count() <= LONG_FILE_LINES || doc.any(|line| line.contains(WHY_LONG))
    };
    nothing(&sources().into_iter().filter(|f| !is_explained(f)).map(|f| f.path).collect::<Vec<_>>());
}

/// Phrases that no CUDA engineer would search for, and what the field says.
const PHRASES: &[(&str, &str)] = &[
    ("laid anew", "repacked"),
    ("ordinary core", "CUDA core"),
    ("second-level cache", "L2"),
    ("of one's own", "user-defined"),
    ("whoever", "the caller"),
    ("bulk tensor cop", "TMA"),
];

/// Public items of the kernel library at most: who reads its documentation reads all of them.
const KERNELS_PUBLIC_ITEMS: usize = 227;

/// Public items that the file of a public module declares at the left margin or re-exports.
fn public_items(text: &str) -> usize {
    let starts = ["struct ", "enum ", "trait ", "fn ", "type ", "const ", "static "];
    let is_item =
        |line: &&str| line.strip_prefix("pub ").is_some_and(|rest| starts.iter().any(|s| rest.starts_with(s)));
    let exports = text.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let names = exports.flat_map(|names| names.split(',')).filter(|name| name.contains(char::is_alphanumeric));
    text.lines().filter(is_item).count() + names.count()
}

/// The public modules of a file in `folder`, as their files.
fn public_modules<'a>(sources: &'a [File], folder: &str, text: &str) -> Vec<&'a File> {
    let names = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let paths: Vec<_> =
        names.flat_map(|name| [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")]).collect();
    sources.iter().filter(|f| paths.contains(&f.path)).collect()
}

#[test]
fn the_kernel_library_shows_few_public_items() {
    let sources = sources();
    let mut open: Vec<&File> = sources.iter().filter(|f| f.path == "crates/kernels/src/lib.rs").collect();
    let mut counts = Vec::new();
    while let Some(file) = open.pop() {
        counts.push(format!("{} {}", public_items(&file.text), file.path));
        let folder = file.path.strip_suffix("lib.rs").or_else(|| file.path.strip_suffix("mod.rs"));
        open.extend(folder.iter().flat_map(|folder| public_modules(&sources, folder, &file.text)));
    }
    let count = |line: &String| line.split_once(' ').and_then(|(count, _)| count.parse::<usize>().ok()).unwrap_or(0);
    let all: usize = counts.iter().map(count).sum();
    assert!(counts.len() > 20, "only {} public modules were found", counts.len());
    assert!(all < KERNELS_PUBLIC_ITEMS, "{all} public items:\n{}", counts.join("\n"));
}

#[test]
fn sources_and_documents_speak_the_fields_words() {
    let mut places = Vec::new();
    for file in sources().into_iter().chain(files("md")) {
        for (i, line) in file.text.lines().enumerate() {
            let found = PHRASES.iter().filter(|(phrase, _)| line.to_lowercase().contains(phrase));
            places.extend(found.map(|(phrase, say)| format!("{}:{}: {phrase} (say {say})", file.path, i + 1)));
        }
    }
    nothing(&places);
}

#[test]
fn examples_that_documents_run_are_in_a_package() {
    let names: BTreeSet<_> = packages().iter().flat_map(examples).collect();
    let stem = |f: &File| f.path.strip_prefix("examples/")?.strip_suffix(".rs").map(str::to_owned);
    assert_eq!(names, sources().iter().filter_map(stem).collect(), "examples of packages, and files of examples/");
    let mut places = Vec::new();
    for file in sources().into_iter().chain(files("md")) {
        let named = file.text.split("--example ").skip(1);
        let named = named.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
        places.extend(named.filter(|name| !names.contains(*name)).map(|name| format!("{}: {name}", file.path)));
    }
    nothing(&places);
}

#[test]
fn every_published_package_brings_its_readme_licences_and_examples() {
    let packages = packages();
    let published: Vec<_> = packages.iter().filter(|p| p["publish"].is_null()).collect();
    assert_eq!(published.len(), CRATES.len() - 4, "all but `conformance`, `lite`, `python` and `web`");
    let mut missing = Vec::new();
    for package in published {
        let name = package["name"].as_str().expect("a name");
        let list = cargo(&["package", "--list", "--offline", "--allow-dirty", "--package", name]);
        let files: BTreeSet<_> = list.lines().map(|line| line.replace('\\', "/")).collect();
        let examples = examples(package).into_iter().map(|name| format!("examples/{name}.rs"));
        let wanted = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"].map(str::to_owned).into_iter().chain(examples);
        missing.extend(wanted.filter(|file| !files.contains(file)).map(|file| format!("{name}: {file}")));
        let says = |key: &str| package[key].as_str().is_some_and(|text| !text.is_empty());
        let absent = ["description", "license", "readme", "rust_version"].into_iter().filter(|key| !says(key));
        missing.extend(absent.map(|key| format!("{name}: {key}")));
        if package["metadata"]["docs"]["rs"].is_null() {
            missing.push(format!("{name}: settings of docs.rs"));
        }
        // What a registry asks for: a version beside each path.
        let dependencies = package["dependencies"].as_array().expect("a list").iter().filter(|d| d["kind"] != "dev");
        let loose = dependencies.filter(|d| !d["path"].is_null() && d["req"] == "*");
        missing.extend(loose.map(|d| format!("{name}: a version of {}", d["name"])));
    }
    nothing(&missing);
}

/// Columns of a document's prose. Tables and what is run are as wide as they are.
const DOCUMENT_COLUMNS: usize = 120;

#[test]
fn documents_are_wrapped() {
    let is_wide = |line: &&str| !line.trim_start().starts_with('|') && line.chars().count() > DOCUMENT_COLUMNS;
    let is_page = |f: &File| f.path.starts_with("docs/") || ["README.md", "CONTRIBUTING.md"].contains(&f.path.as_str());
    let of_file =
        |f: File| prose(&f.text).filter(is_wide).map(|line| format!("{}: {line}", f.path)).collect::<Vec<_>>();
    let pages: Vec<_> = files("md").into_iter().filter(is_page).collect();
    assert!(pages.len() > 20, "only {} pages were found", pages.len());
    nothing(&pages.into_iter().flat_map(of_file).collect::<Vec<_>>());
}

/// Columns of a comment, but for tables and code. Rungs are left out: each opens with five lines.
const COMMENT_COLUMNS: usize = 100;

#[test]
fn comments_are_wrapped() {
    let is_wide = |line: &&str| {
        let text = line.trim_start();
        let is_table_or_code = text.contains(['|', ';', '{']) || text.starts_with("//!    ") || text.contains("/// //");
        let is_example = text.starts_with("///    ");
        // The name of a test cannot be wrapped.
        let is_path = text.contains(".rs::");
        text.starts_with("//") && line.chars().count() > COMMENT_COLUMNS && !is_table_or_code && !is_example && !is_path
    };
    let of_file =
        |f: File| f.text.lines().filter(is_wide).map(|line| format!("{}: {line}", f.path)).collect::<Vec<_>>();
    let is_rung = |f: &File| f.path.starts_with("crates/ladders/src/") && f.path.contains("/r");
    nothing(&sources().into_iter().filter(|f| !is_rung(f)).flat_map(of_file).collect::<Vec<_>>());
}

#[test]
fn tests_are_named_as_sentences() {
    nothing(&sources().iter().flat_map(|f| f.hits(&["fn test_"])).collect::<Vec<_>>());
}

/// The file that a `#[path = "…/src/FILE"]` of a crate's tests names.
fn included(line: &str) -> Option<&str> {
    line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]")?.split_once("/src/").map(|(_, file)| file)
}

/// Whether a file is one of those, or of the module whose `mod.rs` is.
fn is_included(file: &str, included: &[&str]) -> bool {
    included
        .iter()
        .any(|path| *path == file || path.strip_suffix("mod.rs").is_some_and(|folder| file.starts_with(folder)))
}

#[test]
fn tests_in_a_library_that_has_no_test_build_are_run_by_its_tests() {
    let (sources, manifests) = (sources(), files("toml"));
    let of_crates = manifests.iter().filter(|f| f.path.starts_with("crates/") && f.path.ends_with("/Cargo.toml"));
    let mut lost = Vec::new();
    for manifest in of_crates.filter(|f| f.text.contains("\ntest = false\n")) {
        let root = manifest.path.trim_end_matches("Cargo.toml");
        let (src, tests) = (format!("{root}src/"), format!("{root}tests/"));
        let of_tests = sources.iter().filter(|f| f.path.starts_with(&tests));
        let included: Vec<_> = of_tests.flat_map(|f| f.text.lines().filter_map(included)).collect();
        let with_tests = sources.iter().filter(|f| f.path.starts_with(&src) && f.text.contains("\n#[cfg(test)]\n"));
        let is_lost = |f: &&File| !is_included(f.path.trim_start_matches(&src), &included);
        lost.extend(
            with_tests.filter(is_lost).map(|f| format!("{}: no file below {tests} has it as a module", f.path)),
        );
    }
    nothing(&lost);
}

#[test]
fn nothing_is_left_for_later() {
    let mut places = Vec::new();
    for file in sources() {
        places.extend(file.hits(&["todo!(", "unimplemented!(", "dbg!("]));
        let is_numbered = |line: &str| line.split("TODO").skip(1).all(|rest| rest.starts_with("(#"));
        let notes = file.text.lines().enumerate().filter(|(_, line)| !is_numbered(line));
        places.extend(notes.map(|(i, _)| format!("{}:{}: a TODO without the number of an issue", file.path, i + 1)));
    }
    nothing(&places);
}

#[test]
fn unsafe_code_stands_only_where_it_is_allowed() {
    let starts = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait"];
    let mut others = sources();
    others.retain(|f| !UNSAFE_PLACES.iter().any(|p| f.path.starts_with(p)));
    nothing(&others.iter().flat_map(|f| f.hits(&starts)).collect::<Vec<_>>());
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    let mut places = Vec::new();
    for file in sources() {
        let lines: Vec<_> = file.text.lines().collect();
        for (n, _) in file.code().filter(|(_, line)| line.contains("unsafe {") || line.contains("unsafe impl")) {
            let near = &lines[n.saturating_sub(REASON_LINES + 1)..n];
            if !near.iter().any(|line| line.contains("// SAFETY: ")) {
                places.push(format!("{}:{n}", file.path));
            }
        }
    }
    nothing(&places);
}

/// The lines of a document that are not in a block of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Targets of the Markdown links of a document.
fn links(text: &str) -> Vec<&str> {
    prose(text).flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next())).collect()
}

/// What a document quotes in backticks.
fn quoted(text: &str) -> Vec<&str> {
    prose(text).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for document in files("md") {
        let folder = root().join(&document.path).parent().expect("a file has a folder").to_owned();
        for link in links(&document.text) {
            let is_outside = link.contains("://") || link.starts_with("mailto:") || link.starts_with('#');
            let file = link.split('#').next().unwrap_or_default();
            if !is_outside && !folder.join(file).exists() {
                broken.push(format!("{}: {link}", document.path));
            }
        }
    }
    nothing(&broken);
}

#[test]
fn files_that_documents_name_exist() {
    let places = ["crates/", "fixtures/", "examples/", ".ci/"];
    let is_path =
        |text: &&str| places.iter().any(|p| text.starts_with(p)) && !text.contains(['<', '*', '…', '{', ' ', '$', 'N']);
    let mut missing = Vec::new();
    for document in files("md") {
        let paths = quoted(&document.text).into_iter().filter(is_path);
        missing.extend(paths.filter(|p| !root().join(p).exists()).map(|p| format!("{}: {p}", document.path)));
    }
    nothing(&missing);
}

#[test]
fn the_map_can_be_read_in_one_sitting() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map exists");
    let invariants = map.lines().filter(|line| line.starts_with("- **Invariant:")).count();
    let words = map.split_whitespace().count();
    assert!(words <= MAP_WORDS, "ARCHITECTURE.md has {words} words");
    let wide = map.lines().filter(|line| line.chars().count() > MAP_COLUMNS);
    assert_eq!(wide.collect::<Vec<_>>(), [""; 0], "lines of ARCHITECTURE.md are too wide");
    assert!(invariants >= 8, "ARCHITECTURE.md states {invariants} invariants");
}

#[test]
fn the_scans_find_what_they_look_for() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let source = file("crates/ptx/src/a.rs", "let a = 1;\nlet b = now(); // before()\n");
    assert_eq!(source.hits(&["now("]), ["crates/ptx/src/a.rs:2: now("]);
    assert_eq!(source.hits(&["before("]), Vec::<String>::new());
    assert!(source.is_library() && !file("crates/cli/src/a.rs", "").is_library());
    assert!(file("crates/sim/src/check/tests/a.rs", "").is_test());
    let module =
        "//! A.\npub use a::{\n    B, C,\n};\npub(crate) use d::E;\npub mod f;\npub const fn g() {}\nfn h() {}\n";
    assert_eq!(public_items(module), 3);
    let named = [included("#[path = \"../../src/a/mod.rs\"]"), included("#[path = \"../b.rs\"]")];
    assert_eq!(named, [Some("a/mod.rs"), None]);
    assert!(is_included("a/b.rs", &["a/mod.rs"]) && !is_included("ab.rs", &["a/mod.rs", "b.rs"]));
    let document = "see [a](b.md#c) and `d`\n```\n[x](y) `z`\n```\n`e`";
    assert_eq!(links(document), ["b.md#c"]);
    assert_eq!(quoted(document), ["d", "e"]);
}
