//! A ladder's report for people: a row per rung, and the sentence that explains it.

use warpfold_device::Counters;
use warpfold_ladders::ladder::{Ladder, LadderReport, RungReport};

use super::problem_size;
use crate::table::{Table, grouped, ratio, time};

/// A ladder's report as a table: a row per rung, and below it the sentence that explains it.
#[must_use]
pub fn ladder_text(ladder: &Ladder, report: &LadderReport) -> String {
    let size = problem_size(ladder, report.size);
    let details = ladder.size_details(report.size).map_or_else(String::new, |details| format!("{details}\n"));
    let (name, problem) = (report.ladder, ladder.problem);
    let mut page = format!("{name}: {problem}\n{size} {} on {}\n{details}\n", report.dtype, report.device);
    let has_times = report.rungs.iter().any(|rung| rung.seconds.is_some());
    let has_operations = report.rungs.iter().any(|rung| rung.teraflops_per_second.is_some());
    let has_l1 = report.rungs.iter().any(|rung| l1_hit_rate(rung).is_some());
    let mut table = match (has_times, has_operations) {
        (true, true) => Table::new(["rung", "result", "time", "TFLOP/s", "speed-up"]),
        (true, false) => timed_heading(),
        (false, _) => counted_heading(has_l1),
    };
    for rung in &report.rungs {
        if has_operations {
            table.row(computed(report, rung));
        } else if has_times {
            table.row(timed(report, rung));
        } else {
            table.row(counted(rung, has_l1));
        }
        table.text(&rung.sentence);
        rung.failure.iter().for_each(|failure| table.text(failure));
        rung.findings.iter().for_each(|finding| table.text(&finding.to_string()));
    }
    page.push_str(&table.render());
    page.push('\n');
    for absent in &report.absent {
        page.push_str(&format!("{} was not run: {}\n", absent.name, absent.reason));
    }
    page.push_str(&match report.copy_gigabytes_per_second {
        Some(bandwidth) => format!("a copy within the device's memory reaches {bandwidth:.1} GB/s\n"),
        None => "the virtual GPU counts what hardware would do; it has no clock, so there are no times\n".to_owned(),
    });
    if report.rungs.iter().any(|rung| rung.is_race) {
        page.push_str(
            "race: a rung that is known to race, in a run that showed it nowhere (--check all, or a larger --size, may); \
             refuted: a check or the result has shown it\n",
        );
    }
    if report
        .rungs
        .iter()
        .filter_map(|rung| rung.counters.as_ref())
        .any(|c| c.branches == c.divergent_branches && c.branches > 0)
    {
        page.push_str("branch efficiency: branches after which a warp stays together; 0 % where the only branch picks the lane that stores\n");
    }
    if has_l1 {
        page.push_str("L1 hits: sectors of loads and stores that a model of the cache has, cold when a block begins (docs/findings.md)\n");
    }
    page
}

fn counted_heading(has_l1: bool) -> Table {
    let mut table = Table::new(["", "", "bank conflicts", "", "sectors per", "request", "lanes", "branch", "", "warp"]);
    let heading =
        ["rung", "result", "loads", "stores", "loads", "stores", "at work", "efficiency", "barriers", "instructions"];
    let l1 = has_l1.then_some("L1 hits");
    table.row(heading.into_iter().chain(l1).map(str::to_owned).collect::<Vec<_>>());
    table
}

fn l1_hit_rate(rung: &RungReport) -> Option<f64> {
    rung.counters.as_ref().and_then(Counters::l1_hit_rate)
}

fn counted(rung: &RungReport, has_l1: bool) -> Vec<String> {
    let c = rung.counters.unwrap_or_default();
    let mut cells = vec![
        rung.name.to_owned(),
        result(rung).to_owned(),
        grouped(c.shared_load_bank_conflicts),
        grouped(c.shared_store_bank_conflicts),
        ratio(c.global_load_sectors, c.global_load_requests),
        ratio(c.global_store_sectors, c.global_store_requests),
        warp_efficiency(&c),
        branch_efficiency(&c),
        grouped(c.barriers),
        grouped(c.warp_instructions),
    ];
    if has_l1 {
        cells.push(l1_hit_rate(rung).map_or_else(|| "-".to_owned(), |rate| format!("{:.2} %", rate * 100.0)));
    }
    cells
}

/// Lanes at work, of those that the warps' instructions have.
fn warp_efficiency(c: &Counters) -> String {
    if c.warp_instructions == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * c.thread_instructions as f64 / (32 * c.warp_instructions) as f64)
}

/// Branches after which a warp stayed together, of all (nvprof's `branch_efficiency`).
fn branch_efficiency(c: &Counters) -> String {
    if c.branches == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * (c.branches - c.divergent_branches) as f64 / c.branches as f64)
}

fn timed_heading() -> Table {
    Table::new(["rung", "result", "time", "GB/s", "speed-up", "of copy"])
}

fn timed(report: &LadderReport, rung: &RungReport) -> [String; 6] {
    let cell = |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), text);
    [
        rung.name.to_owned(),
        result(rung).to_owned(),
        cell(rung.seconds, time),
        cell(rung.gigabytes_per_second, |bandwidth| format!("{bandwidth:.1}")),
        cell(report.speedup(rung), |times| format!("{times:.2}x")),
        cell(report.share_of_copy(rung), |share| format!("{:.1} %", 100.0 * share)),
    ]
}

/// Of a problem that operations take the time of.
fn computed(report: &LadderReport, rung: &RungReport) -> [String; 5] {
    let [name, result, time, _, speedup, _] = timed(report, rung);
    let operations = rung.teraflops_per_second.map_or_else(|| "-".to_owned(), |speed| format!("{speed:.2}"));
    [name, result, time, operations, speedup]
}

fn result(rung: &RungReport) -> &'static str {
    if rung.is_race {
        return if rung.ok && rung.findings.is_empty() { "race" } else { "refuted" };
    }
    match (&rung.failure, rung.ok) {
        (Some(_), _) => "FAILED",
        (None, true) => "right",
        (None, false) => "WRONG",
    }
}

#[cfg(test)]
mod tests {
    use warpfold_kernels::Dtype;
    use warpfold_ladders::ladder::{self, Memory};

    use super::*;

    fn rung(name: &'static str, seconds: Option<f64>, failure: Option<&str>) -> RungReport {
        let bytes = 134_217_728;
        RungReport {
            name,
            ok: failure.is_none(),
            max_error: 0.0,
            seconds,
            bytes,
            gigabytes_per_second: seconds.map(|seconds| bytes as f64 / seconds / 1e9),
            flops: None,
            teraflops_per_second: None,
            counters: None,
            findings: Vec::new(),
            launches: Vec::new(),
            failure: failure.map(str::to_owned),
            is_race: false,
            blocks: 1,
            steps: 1,
            memory: Memory::default(),
            sentence: format!("What {name} changes."),
        }
    }

    #[test]
    fn a_gpu_has_times_speed_ups_and_its_share_of_the_copy_bandwidth() {
        let report = LadderReport {
            ladder: "reduce",
            device: "cuda:0 (a GPU)".to_owned(),
            size: 33_554_432,
            dtype: Dtype::I32,
            copy_gigabytes_per_second: Some(600.0),
            absent: Vec::new(),
            rungs: vec![
                rung("naive", Some(3.1184e-3), None),
                rung("vec4", Some(0.4e-3), None),
                rung("shuffle", None, Some("it fell")),
            ],
        };
        let expected = "\
reduce: the sum of a vector
33,554,432 i32 on cuda:0 (a GPU)

rung     result      time   GB/s  speed-up  of copy
naive     right  3.118 ms   43.0     1.00x    7.2 %
    What naive changes.
vec4      right  400.0 us  335.5     7.80x   55.9 %
    What vec4 changes.
shuffle  FAILED         -      -         -        -
    What shuffle changes.
    it fell

a copy within the device's memory reaches 600.0 GB/s
";
        assert_eq!(ladder_text(ladder::ladder("reduce").expect("there is one"), &report), expected);
    }
}
