//! Recorded runs, of operators, of ladders and of servers, as Markdown tables: what `BENCHMARKS.md`
//! is made of.

use std::path::Path;

use serde::Deserialize;
use warpfold_ladders::ladder::Ladder;
use warpfold_report::{RecordedTime, RecordedTimes};

use crate::failure::Failure;
use crate::table::{grouped, time};

/// The kinds of record in a file, which may hold several records.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Recorded {
    Operators(Run),
    Ladder(LadderRun),
    AllReduce(AllReduceRun),
    Serve(ServeRun),
}

/// A run as `warpfold bench --report json` writes it, as far as tables show it.
#[derive(Debug, Deserialize)]
struct Run {
    device: String,
    unix_seconds: Option<u64>,
    copy_gigabytes_per_second: Option<f64>,
    cases: Vec<Case>,
}

/// The check that a record mentions: results against a reference, or answers against the same
/// requests alone.
#[derive(Debug, Deserialize)]
struct Answers {
    verified: bool,
}

/// Records from this second on (2026-11-27, UTC) have no figures without a check.
const CHECKED_SINCE: u64 = 1_795_737_600;

/// Returns whether a record predates the checks.
fn is_unchecked(unix_seconds: Option<u64>) -> bool {
    unix_seconds.is_some_and(|seconds| seconds < CHECKED_SINCE)
}

/// The note in tables of such records.
const UNCHECKED: &str = "; recorded before results were checked";

#[derive(Debug, Deserialize)]
struct Case {
    family: String,
    case: String,
    launches: Option<u64>,
    /// Results compared with the reference; a run with differing results is not recorded.
    checked: Option<String>,
    seconds: Option<f64>,
    least_seconds: Option<f64>,
    most_seconds: Option<f64>,
    gigabytes_per_second: Option<f64>,
    share_of_copy: Option<f64>,
    teraflops_per_second: Option<f64>,
    peer: Option<String>,
    speed_of_peer: Option<f64>,
    /// The limit of the case, written into the record by hand.
    limited_by: Option<String>,
}

/// A ladder's run as `warpfold ladder --report json` writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct LadderRun {
    pub(crate) ladder: String,
    device: String,
    unix_seconds: Option<u64>,
    pub(crate) problem: LadderProblem,
    rungs: Vec<Rung>,
    copy_gigabytes_per_second: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LadderProblem {
    /// Elements, or sizes as text.
    size: serde_json::Value,
    pub(crate) dtype: String,
}

#[derive(Debug, Deserialize)]
struct Rung {
    name: String,
    /// Hash of the kernels and launches that were timed.
    fingerprint: Option<String>,
    seconds: Option<f64>,
    gigabytes_per_second: Option<f64>,
    teraflops_per_second: Option<f64>,
    /// The limit of the case.
    limited_by: Option<String>,
}

/// A run of the ladder of several devices.
#[derive(Debug, Deserialize)]
struct AllReduceRun {
    ladder: String,
    devices: Vec<String>,
    unix_seconds: Option<u64>,
    /// Elements of 4 bytes on each device.
    size: u64,
    /// NCCL's version, if it was timed, too.
    nccl: Option<String>,
    rungs: Vec<AllReduceRung>,
}

#[derive(Debug, Deserialize)]
struct AllReduceRung {
    name: String,
    seconds: Option<f64>,
    right: Option<bool>,
}

/// A run as `warpfold bench serve --report json` writes it.
#[derive(Debug, Deserialize)]
struct ServeRun {
    target: String,
    workload: String,
    unix_seconds: Option<u64>,
    answers: Option<Answers>,
    runs: Vec<Load>,
}

#[derive(Debug, Deserialize)]
struct Load {
    concurrency: Option<usize>,
    rate: Option<f64>,
    completed: usize,
    output_tokens_per_second: f64,
    ttft_ms: Quantiles,
    itl_ms: Quantiles,
    e2e_ms: Quantiles,
}

#[derive(Debug, Deserialize)]
struct Quantiles {
    p50: f64,
    p90: f64,
    p99: f64,
}

/// A column's heading, and what stands there of a row.
type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> Option<String>);

/// The tables of recorded runs: one for each family of operators, one for each ladder, one for the
/// loads of a server.
pub(super) fn of_file(path: &Path) -> Result<String, Failure> {
    let refused = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let mut tables = Vec::new();
    for record in serde_json::Deserializer::from_str(&text).into_iter::<Recorded>() {
        let record = record.map_err(|error| refused(format!("not a record of --report json: {error}")))?;
        if let Some(unchecked) = unchecked(&record) {
            return Err(refused(format!("{unchecked} was not checked, or is wrong: a figure needs its check")));
        }
        let table = match &record {
            Recorded::Operators(run) => of_run(run),
            Recorded::Ladder(run) => of_ladder(run),
            Recorded::AllReduce(run) => of_all_reduce(run),
            Recorded::Serve(run) => Some(of_serve(run)),
        };
        let virtual_gpu = || refused("a record of the virtual GPU, which has no times".to_owned());
        tables.push(table.ok_or_else(virtual_gpu)?);
    }
    if tables.is_empty() {
        return Err(refused("an empty file".to_owned()));
    }
    Ok(tables.join("\n"))
}

/// A figure without its check. Ladders print no time of a rung that is not right.
fn unchecked(record: &Recorded) -> Option<&str> {
    match record {
        Recorded::Operators(run) if !is_unchecked(run.unix_seconds) => {
            let mut timed = run.cases.iter().filter(|case| case.seconds.is_some());
            timed.find(|case| case.checked.is_none()).map(|case| case.case.as_str())
        }
        Recorded::Serve(run) if !is_unchecked(run.unix_seconds) => {
            let is_verified = run.answers.as_ref().is_some_and(|answers| answers.verified);
            (!is_verified).then_some(run.target.as_str())
        }
        Recorded::AllReduce(run) => {
            let mut timed = run.rungs.iter().filter(|rung| rung.seconds.is_some());
            timed.find(|rung| rung.right != Some(true)).map(|rung| rung.name.as_str())
        }
        Recorded::Operators(_) | Recorded::Serve(_) | Recorded::Ladder(_) => None,
    }
}

/// Nothing without times.
fn of_run(run: &Run) -> Option<String> {
    run.cases.iter().find(|case| case.seconds.is_some())?;
    let unchecked = if is_unchecked(run.unix_seconds) { UNCHECKED } else { "" };
    let origin = origin(run.unix_seconds, run.copy_gigabytes_per_second);
    let mut text = format!("{}{origin}{unchecked}.\n", run.device);
    let mut families: Vec<&str> = Vec::new();
    for case in &run.cases {
        if !families.contains(&case.family.as_str()) {
            families.push(&case.family);
        }
    }
    let columns: [Column<'_, &Case>; 9] = [
        ("case", &|case| Some(format!("`{}`", case.case))),
        ("launches", &|case| case.launches.filter(|launches| *launches > 1).map(|launches| launches.to_string())),
        ("median", &|case| case.seconds.map(time)),
        ("least to most", &|case| Some(format!("{} to {}", time(case.least_seconds?), time(case.most_seconds?)))),
        ("GB/s", &|case| case.gigabytes_per_second.map(whole)),
        ("of copy", &|case| case.share_of_copy.map(percent)),
        ("TFLOP/s", &|case| case.teraflops_per_second.map(|speed| format!("{speed:.1}"))),
        ("of peer", &|case| Some(format!("{:.3}x {}", case.speed_of_peer?, case.peer.as_deref()?))),
        ("what limits it", &|case| case.limited_by.clone()),
    ];
    for family in families {
        let cases: Vec<&Case> = run.cases.iter().filter(|case| case.family == family).collect();
        text += &format!("\n### {family}\n\n{}", table(&columns, &cases));
    }
    Some(text)
}

/// Nothing without times.
fn of_ladder(run: &LadderRun) -> Option<String> {
    let mut rows = run.cells(None)?;
    rows.iter_mut().skip(1).for_each(|row| row[0] = format!("`{}`", row[0]));
    let (size, dtype) = (run.problem.size(), &run.problem.dtype);
    let of = format!("`warpfold ladder {} --size {size} --dtype {dtype}`, {}", run.ladder, run.origin());
    Some(format!("{of}.\n\n{}", lines(&rows)))
}

/// Nothing without times. The bandwidth of the bus is NCCL's measure: `2 (n - 1) / n` of the bytes
/// of a device, by the time.
fn of_all_reduce(run: &AllReduceRun) -> Option<String> {
    run.rungs.iter().find(|rung| rung.seconds.is_some())?;
    let num = run.devices.len();
    let bytes = 4.0 * run.size as f64 * 2.0 * (num as f64 - 1.0) / num as f64;
    let of_nccl = run.rungs.iter().find(|rung| rung.name == "nccl").and_then(|rung| rung.seconds);
    let columns: [Column<'_, &AllReduceRung>; 4] = [
        ("rung", &|rung| Some(format!("`{}`", rung.name))),
        ("time", &|rung| rung.seconds.map(time)),
        ("GB/s of the bus", &|rung| rung.seconds.map(|seconds| format!("{:.1}", bytes / seconds / 1e9))),
        ("of NCCL", &|rung| Some(format!("{:.2}x", of_nccl? / rung.seconds?))),
    ];
    let device = run.devices[0].split_once(' ').map_or("", |(_, name)| name.trim_matches(['(', ')']));
    let nccl = run.nccl.as_ref().map_or_else(String::new, |version| format!("; NCCL {version}"));
    let of = format!("`warpfold ladder {} --devices {num} --size {}`, {num} x {device}", run.ladder, run.size);
    let rows: Vec<_> = run.rungs.iter().filter(|rung| rung.seconds.is_some()).collect();
    Some(format!("{of}{}{nccl}.\n\n{}", origin(run.unix_seconds, None), table(&columns, &rows)))
}

impl LadderRun {
    /// A row of headings, then one for each rung, or for those of some names: the columns that any
    /// of them has something for. Nothing without times.
    pub(crate) fn cells(&self, names: Option<&[&str]>) -> Option<Vec<Vec<String>>> {
        let first = self.rungs.iter().find_map(|rung| rung.seconds)?;
        let copy = self.copy_gigabytes_per_second;
        let of_copy = |rung: &&Rung| Some(percent(rung.gigabytes_per_second? / copy?));
        let columns: [Column<'_, &Rung>; 7] = [
            ("rung", &|rung| Some(rung.name.clone())),
            ("time", &|rung| rung.seconds.map(time)),
            ("GB/s", &|rung| rung.gigabytes_per_second.map(whole)),
            ("of copy", &of_copy),
            ("TFLOP/s", &|rung| rung.teraflops_per_second.map(|speed| format!("{speed:.1}"))),
            ("speed-up", &|rung| Some(format!("{:.2}x", first / rung.seconds?))),
            ("what limits it", &|rung| rung.limited_by.clone()),
        ];
        let is_asked = |rung: &&Rung| names.is_none_or(|names| names.contains(&rung.name.as_str()));
        Some(cells(&columns, &self.rungs.iter().filter(is_asked).collect::<Vec<_>>()))
    }

    /// Leaves out the times of rungs whose kernels or launches are others by now, at the recorded
    /// size.
    pub(crate) fn drop_others(&mut self, ladder: &Ladder) {
        let size = ladder.parse_size(&self.problem.size()).ok();
        let dtype = ladder.dtypes.iter().find(|dtype| dtype.name() == self.problem.dtype);
        let now = |name: &str| {
            let (rung, dtype) = (ladder.rung(name).ok()?, *dtype?);
            rung.check_dtype(dtype).ok()?;
            Some(rung.fingerprint(dtype, size?))
        };
        self.rungs.retain(|rung| rung.fingerprint.is_some() && rung.fingerprint == now(&rung.name));
    }

    /// Returns whether no rung is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rungs.is_empty()
    }

    /// Returns whether there is a time of a rung.
    pub(crate) fn has(&self, rung: &str) -> bool {
        self.rungs.iter().any(|timed| timed.name == rung && timed.seconds.is_some())
    }

    /// The times for a page.
    pub(crate) fn times(&self) -> RecordedTimes {
        let time = |rung: &Rung| {
            let share_of_copy =
                rung.gigabytes_per_second.zip(self.copy_gigabytes_per_second).map(|(of, copy)| of / copy);
            let gigabytes_per_second = rung.gigabytes_per_second;
            let limited_by = rung.limited_by.clone();
            Some(RecordedTime { seconds: rung.seconds?, gigabytes_per_second, share_of_copy, limited_by })
        };
        RecordedTimes {
            origin: format!("with --size {}, on {}", self.problem.size(), self.origin()),
            rungs: self.rungs.iter().filter_map(|rung| Some((rung.name.clone(), time(rung)?))).collect(),
        }
    }

    /// The device, and when the run was.
    pub(crate) fn origin(&self) -> String {
        self.device.clone() + &origin(self.unix_seconds, self.copy_gigabytes_per_second)
    }
}

impl LadderProblem {
    /// Returns the size in the form that `--size` takes.
    pub(crate) fn size(&self) -> String {
        self.size.as_str().map_or_else(|| self.size.to_string(), str::to_owned)
    }
}

fn of_serve(run: &ServeRun) -> String {
    let quantiles = |of: &Quantiles| Some([of.p50, of.p90, of.p99].map(|ms| format!("{ms:.1}")).join(" / "));
    let load = |load: &Load| match (load.concurrency, load.rate) {
        (Some(concurrency), _) => Some(format!("{concurrency} in flight")),
        (None, rate) => Some(format!("{} per second", rate?)),
    };
    let columns: [Column<'_, Load>; 6] = [
        ("load", &load),
        ("answers", &|load| Some(load.completed.to_string())),
        ("tok/s", &|load| Some(whole(load.output_tokens_per_second))),
        ("TTFT ms p50 / p90 / p99", &|load| quantiles(&load.ttft_ms)),
        ("ITL ms", &|load| quantiles(&load.itl_ms)),
        ("to the end ms", &|load| quantiles(&load.e2e_ms)),
    ];
    let of = format!("`warpfold bench serve --workload {}`, {}", run.workload, run.target);
    let unchecked = if is_unchecked(run.unix_seconds) { UNCHECKED } else { "" };
    format!("{of}{}{unchecked}.\n\n{}", origin(run.unix_seconds, None), table(&columns, &run.runs))
}

/// Headings, then rows: of the columns that any row has something for.
fn cells<T>(columns: &[Column<'_, T>], rows: &[T]) -> Vec<Vec<String>> {
    let columns = columns.iter().filter(|(_, cell)| rows.iter().any(|row| cell(row).is_some())).collect::<Vec<_>>();
    let heading = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    let of_row = |row| columns.iter().map(|(_, cell)| cell(row).unwrap_or_default()).collect();
    std::iter::once(heading).chain(rows.iter().map(of_row)).collect()
}

fn table<T>(columns: &[Column<'_, T>], rows: &[T]) -> String {
    lines(&cells(columns, rows))
}

/// Headings and rows as Markdown.
fn lines(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
    let rule = format!("|{}\n", "---|".repeat(rows[0].len()));
    let (heading, rest) = rows.split_first().expect("headings");
    line(heading) + &rule + &rest.iter().map(line).collect::<String>()
}

/// Formats the date of a run and the copy bandwidth measured with it.
fn origin(unix_seconds: Option<u64>, copy: Option<f64>) -> String {
    let day = unix_seconds.map_or_else(String::new, |seconds| {
        let [year, month, day] = date(seconds);
        format!(", {year}-{month:02}-{day:02}")
    });
    day + &copy.map_or_else(String::new, |copy| format!("; copy {} GB/s", whole(copy)))
}

/// A figure without fractions, its digits in groups of three.
fn whole(figure: f64) -> String {
    grouped(figure.round() as u64)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Year, month and day of a second since 1970, UTC (Howard Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms", `civil_from_days`).
fn date(unix_seconds: u64) -> [u64; 3] {
    let days = unix_seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    [year + era * 400 + u64::from(month <= 2), month, day]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(text: &str) -> Recorded {
        serde_json::from_str(text).expect("a record")
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), [1970, 1, 1]);
        assert_eq!(date(951_782_400), [2000, 2, 29]);
        assert_eq!(date(1_795_392_000), [2026, 11, 23]);
    }

    #[test]
    fn a_record_becomes_a_table_for_each_family() {
        let case = |family: &str| {
            format!(
                r#"{{"family": "{family}", "case": "{family} f32 1024", "launches": 1, "seconds": 2e-6,
                "least_seconds": 1.5e-6, "most_seconds": 2.5e-6, "gigabytes_per_second": 2048.0, "share_of_copy": 0.5,
                "peer": "cuBLAS", "speed_of_peer": 1.25, "limited_by": "memory"}}"#
            )
        };
        let cases = ["sum", "map", "sum"].map(case).join(",");
        let head = r#""device": "a GPU", "unix_seconds": 0, "copy_gigabytes_per_second": 4096.0"#;
        let Recorded::Operators(run) = recorded(&format!("{{{head}, \"cases\": [{cases}]}}")) else { panic!("a run") };
        let text = of_run(&run).expect("times");
        let head = format!("a GPU, 1970-01-01; copy 4,096 GB/s{UNCHECKED}.\n\n### sum\n");
        assert!(text.starts_with(&head), "{text}");
        let row = "| `sum f32 1024` | 2.000 us | 1.500 us to 2.500 us | 2,048 | 50.0 % | 1.250x cuBLAS | memory |";
        assert_eq!(text.lines().filter(|line| *line == row).count(), 2, "{text}");
    }

    #[test]
    fn a_figure_without_its_check_is_no_record() {
        let operators = |more: &str, seconds: u64| {
            let case = format!(r#"{{"family": "sum", "case": "sum f32 8", "seconds": 1e-6{more}}}"#);
            recorded(&format!(r#"{{"device": "a GPU", "unix_seconds": {seconds}, "cases": [{case}]}}"#))
        };
        let serve = |more: &str, seconds: u64| {
            let head = r#""target": "a model", "workload": "nano", "runs": []"#;
            recorded(&format!(r#"{{{head}, "unix_seconds": {seconds}{more}}}"#))
        };
        let (checked, verified) = (r#", "checked": "all""#, r#", "answers": {"verified": true}"#);
        for (record, refused) in [
            (operators("", CHECKED_SINCE - 1), None),
            (operators("", CHECKED_SINCE), Some("sum f32 8")),
            (operators(checked, CHECKED_SINCE), None),
            (serve("", CHECKED_SINCE - 1), None),
            (serve("", CHECKED_SINCE), Some("a model")),
            (serve(r#", "answers": {"verified": false}"#, CHECKED_SINCE), Some("a model")),
            (serve(verified, CHECKED_SINCE), None),
        ] {
            assert_eq!(unchecked(&record), refused, "{record:?}");
        }
    }

    #[test]
    fn a_ladder_becomes_a_table_of_its_rungs() {
        let rung = |name: &str, seconds: f64, speed: f64| {
            format!(r#"{{"name": "{name}", "seconds": {seconds}, "teraflops_per_second": {speed}}}"#)
        };
        let rungs = [rung("naive", 3e-3, 2.0), rung("shared", 1e-3, 6.0)].join(",");
        let head = r#""ladder": "sgemm", "device": "a GPU", "problem": {"size": "8x8x8", "dtype": "f32"}"#;
        let Recorded::Ladder(run) = recorded(&format!("{{{head}, \"rungs\": [{rungs}]}}")) else { panic!("a ladder") };
        let text = of_ladder(&run).expect("times");
        assert!(text.starts_with("`warpfold ladder sgemm --size 8x8x8 --dtype f32`, a GPU.\n\n| rung |"), "{text}");
        assert!(text.ends_with("| `shared` | 1.000 ms | 6.0 | 3.00x |\n"), "{text}");
    }

    #[test]
    fn a_time_is_of_one_kernel_and_launch() {
        let ladder = warpfold_ladders::ladder::ladder("gemv").expect("it is listed");
        let (dtype, size) = (ladder.default_dtype(), 65_536);
        let with_columns = ladder.with_option(size, "columns", 32).expect("there are kernels");
        let print = |size: u64| ladder.rungs[0].fingerprint(dtype, size);
        let reduce = &warpfold_ladders::ladder::ladder("reduce").expect("it is listed");
        let summed = |size| reduce.rungs[0].fingerprint(reduce.default_dtype(), size);
        assert_ne!(summed(size), summed(2 * size), "a launch is part of it");
        assert_ne!(print(size), ladder.rungs[1].fingerprint(dtype, size), "a kernel is part of it");
        let left = |size: &str, kernel: &str| {
            let rung = format!(r#"{{"name": "{}", "seconds": 1e-3{kernel}}}"#, ladder.rungs[0].name);
            let head = format!(r#""ladder": "gemv", "device": "a GPU", "problem": {{"size": {size}, "dtype": "f32"}}"#);
            let Recorded::Ladder(mut run) = recorded(&format!("{{{head}, \"rungs\": [{rung}]}}")) else {
                panic!("one")
            };
            run.drop_others(ladder);
            run.has(ladder.rungs[0].name)
        };
        let kernel = |print: String| format!(r#", "fingerprint": "{print}""#);
        assert!(left("65536", &kernel(print(size))));
        assert!(left(r#""65536 with columns = 32""#, &kernel(print(with_columns))));
        let other = ladder.rungs[1].fingerprint(dtype, size);
        assert!(!left("65536", &kernel(other)), "the kernel of another rung");
        assert!(!left("65536", &kernel("0".repeat(16))), "another kernel");
        assert!(!left("65536", ""), "nobody knows which kernel was timed");
    }

    #[test]
    fn loads_of_a_server_are_rows() {
        let ms = r#"{"mean": 1.0, "p50": 1.0, "p90": 2.0, "p99": 3.0}"#;
        let load = format!(
            r#"{{"concurrency": 8, "completed": 256, "output_tokens_per_second": 1234.4,
            "ttft_ms": {ms}, "itl_ms": {ms}, "e2e_ms": {ms}}}"#
        );
        let head = r#""target": "a model on a GPU", "workload": "nano""#;
        let Recorded::Serve(run) = recorded(&format!("{{{head}, \"runs\": [{load}]}}")) else { panic!("a server") };
        let text = of_serve(&run);
        let row = "| 8 in flight | 256 | 1,234 | 1.0 / 2.0 / 3.0 | 1.0 / 2.0 / 3.0 | 1.0 / 2.0 / 3.0 |\n";
        assert!(text.ends_with(row), "{text}");
    }
}
