//! Recorded runs as Markdown tables: what `BENCHMARKS.md` is made of.

use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

/// A run as `--report json` writes it, as far as tables show it.
#[derive(Debug, Deserialize)]
struct Run {
    device: String,
    unix_seconds: Option<u64>,
    copy_gigabytes_per_second: Option<f64>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    family: String,
    case: String,
    launches: u64,
    seconds: Option<f64>,
    least_seconds: Option<f64>,
    most_seconds: Option<f64>,
    gigabytes_per_second: Option<f64>,
    share_of_copy: Option<f64>,
    teraflops_per_second: Option<f64>,
    peer: Option<String>,
    speed_of_peer: Option<f64>,
}

/// The tables of a recorded run: one for each family that it has.
pub(super) fn of_file(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let run: Run = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{}: not a record of `bench --report json`: {error}", path.display()))
    })?;
    if run.cases.iter().all(|case| case.seconds.is_none()) {
        let reason = "a record of the virtual GPU, which has no times";
        return Err(Failure::usage(format!("{}: {reason}", path.display())));
    }
    Ok(tables(&run))
}

fn tables(run: &Run) -> String {
    let mut text = run.device.clone();
    if let Some(seconds) = run.unix_seconds {
        let [year, month, day] = date(seconds);
        let _ = write!(text, ", {year}-{month:02}-{day:02}");
    }
    if let Some(copy) = run.copy_gigabytes_per_second {
        let _ = write!(text, "; copy {} GB/s", copy.round());
    }
    text.push_str(".\n");
    let mut families: Vec<&str> = Vec::new();
    for case in &run.cases {
        if !families.contains(&case.family.as_str()) {
            families.push(&case.family);
        }
    }
    for family in families {
        let cases: Vec<&Case> = run.cases.iter().filter(|case| case.family == family).collect();
        let _ = write!(text, "\n### {family}\n\n{}", table(&cases));
    }
    text
}

fn table(cases: &[&Case]) -> String {
    let mut text = "| case | launches | median | least to most | GB/s | of copy | TFLOP/s | of peer |\n".to_owned();
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    let micros = |seconds: Option<f64>| seconds.map_or_else(String::new, |seconds| format!("{:.2}", seconds * 1e6));
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    for case in cases {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} us | {} to {} | {} | {} | {} | {} |",
            case.case,
            case.launches,
            micros(case.seconds),
            micros(case.least_seconds),
            micros(case.most_seconds),
            or_empty(case.gigabytes_per_second.map(|speed| format!("{speed:.0}"))),
            or_empty(case.share_of_copy.map(|share| format!("{:.1} %", 100.0 * share))),
            or_empty(case.teraflops_per_second.map(|speed| format!("{speed:.1}"))),
            or_empty(case.speed_of_peer.map(|times| {
                format!("{times:.3}x {}", case.peer.as_deref().unwrap_or_default()).trim_end().to_owned()
            })),
        );
    }
    text
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

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), [1970, 1, 1]);
        assert_eq!(date(951_782_400), [2000, 2, 29]);
        assert_eq!(date(1_795_392_000), [2026, 11, 23]);
    }

    #[test]
    fn a_record_becomes_a_table_for_each_family() {
        let case = |family: &str| Case {
            family: family.to_owned(),
            case: format!("{family} f32 1024"),
            launches: 1,
            seconds: Some(2e-6),
            least_seconds: Some(1.5e-6),
            most_seconds: Some(2.5e-6),
            gigabytes_per_second: Some(2048.0),
            share_of_copy: Some(0.5),
            teraflops_per_second: None,
            peer: Some("cuBLAS".to_owned()),
            speed_of_peer: Some(1.25),
        };
        let run = Run {
            device: "a GPU".to_owned(),
            unix_seconds: Some(0),
            copy_gigabytes_per_second: Some(4096.0),
            cases: vec![case("sum"), case("map"), case("sum")],
        };
        let text = tables(&run);
        assert!(text.starts_with("a GPU, 1970-01-01; copy 4096 GB/s.\n\n### sum\n"), "{text}");
        let row = "| `sum f32 1024` | 1 | 2.00 us | 1.50 to 2.50 | 2048 | 50.0 % |  | 1.250x cuBLAS |";
        assert_eq!(text.lines().filter(|line| *line == row).count(), 2, "{text}");
    }
}
