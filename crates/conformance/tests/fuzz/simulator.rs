//! The loader and the virtual GPU: programs that are hostile but PTX end, within their limit, with
//! a report or an error.

use std::time::{Duration, Instant};

use warpfold_conformance::corpus::{Case, Folder, run_with};
use warpfold_sim::{Arch, Checks, Launch, Memory, Options, Program, Stream};

use crate::mutate::{Luck, ptx};
use crate::{first_seed, found, most_bytes, rounds, seeds, without_panic};

/// Mutants of each kernel.
const MUTANTS: u64 = 4;
/// Warp instructions that a mutant may execute.
const LIMIT: u64 = 50_000;
/// What so many take at most, on a slow and busy host.
const LONGEST: Duration = Duration::from_secs(60);

fn launch(case: &Case, checks: Checks) {
    let start = Instant::now();
    without_panic("the virtual GPU", &case.text, || {
        let options = Options {
            checks,
            workers: Some(1),
            patience: 20_000,
            limit: LIMIT,
            stream: Some(Stream::default()),
            output: Some(std::sync::Arc::new(|_| {})),
            ..Options::default()
        };
        let _ = run_with(case, &options);
    });
    let took = start.elapsed();
    assert!(took < LONGEST, "{took:?}, with a limit of {LIMIT} warp instructions, for:\n{}", case.text);
}

/// The most memory that the process has held, where the host tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn hostile_programs_end_within_their_limit() {
    let cases = [Folder::Pass, Folder::Fault].into_iter().flat_map(|folder| Case::all(folder).expect("a corpus"));
    for (n, case) in (0u64..).zip(cases) {
        for k in 0..MUTANTS * rounds() {
            let mut luck = Luck::new(first_seed() ^ n << 20 ^ k);
            let mutant = Case { text: ptx(&case.text, &mut luck), ..case.clone() };
            launch(&mutant, if k % 2 == 0 { Checks::All } else { Checks::None });
        }
    }
    if let Some(peak) = peak_bytes() {
        // The memory of a launch is bounded, and so is what the checks keep of it.
        let most = most_bytes();
        assert!(peak < most, "the process has held {peak} bytes, more than {most} (FUZZ_BYTES)");
    }
}

#[test]
fn an_endless_loop_of_barriers_in_one_warp_ends_at_the_limit() {
    let (_, text) = found().into_iter().find(|(name, _)| name.contains("endless_barriers")).expect("it is there");
    let memory = Memory::new(1 << 20);
    let program = Program::load(&memory, &text, Arch::SM_90A).expect("valid");
    for checks in [Checks::None, Checks::All] {
        let options = Options { checks, workers: Some(1), limit: LIMIT, ..Options::default() };
        let launch = Launch {
            kernel: "endless".to_owned(),
            grid: [1, 1, 1],
            block: [32, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            params: Vec::new(),
            cooperative: false,
            programmatic: false,
        };
        let report = program.launch(&memory, &launch, &options).expect("it runs");
        let first = report.findings.first().expect("it is endless");
        assert!(report.aborted && first.rule.contains("the limit of a launch"), "{first}");
    }
}

#[test]
fn any_module_is_loaded_or_refused() {
    let load = |text: &str| {
        without_panic("the loader", text, || {
            let memory = Memory::new(16 << 20);
            let _ = Program::load(&memory, text, Arch::SM_90A);
        });
    };
    found().iter().for_each(|(_, text)| load(text));
    for (n, (_, text)) in (0u64..).zip(seeds()) {
        for k in 0..4 * rounds() {
            load(&ptx(&text, &mut Luck::new(first_seed() ^ n << 24 ^ k)));
        }
    }
}
