//! Predicted times of a ladder's rungs.

use serde::Serialize;
use warpfold_ladders::ladder::LadderReport;
use warpfold_sim::predict::{MEASURED_ON, Machine, NoPrediction};

use crate::failure::Failure;
use crate::json::Prediction;
use crate::table::{Table, time};

/// The predicted time of a rung: of its launches, one behind the other.
#[derive(Debug, Serialize)]
pub(super) struct Predicted {
    rung: &'static str,
    seconds: f64,
    low_seconds: f64,
    high_seconds: f64,
    /// What binds in the longest launch, and what would next.
    binds: &'static str,
    next: Option<&'static str>,
    /// The median error that was measured of launches of its class.
    median_error: f64,
    launches: Vec<Prediction>,
}

/// The predictions of the rungs that came to their end.
pub(super) fn of(report: &LadderReport, machine: &Machine) -> Result<Vec<Predicted>, Failure> {
    let mut all = Vec::new();
    for rung in &report.rungs {
        let launches: Result<Vec<_>, _> = rung.launches.iter().map(|told| told.report.predict(machine)).collect();
        let launches = match launches {
            // The rung's failure says why.
            Err(NoPrediction::Aborted) => continue,
            launches => launches.map_err(|error| Failure::usage(format!("rung {}: {error}", rung.name)))?,
        };
        let Some(longest) = launches.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds)) else { continue };
        all.push(Predicted {
            rung: rung.name,
            seconds: launches.iter().map(|one| one.seconds).sum(),
            low_seconds: launches.iter().map(|one| one.low).sum(),
            high_seconds: launches.iter().map(|one| one.high).sum(),
            binds: longest.binds(),
            next: longest.next(),
            median_error: longest.error.median,
            launches: launches.iter().map(Prediction::from).collect(),
        });
    }
    Ok(all)
}

/// As a table.
pub(super) fn text(predicted: &[Predicted]) -> String {
    let mut table = Table::new(["predicted, not measured", "from", "about", "to", "binds", "then", "median error"]);
    for one in predicted {
        table.row([
            one.rung.to_owned(),
            time(one.low_seconds),
            time(one.seconds),
            time(one.high_seconds),
            one.binds.to_owned(),
            one.next.unwrap_or("-").to_owned(),
            format!("{:.0} %", 100.0 * one.median_error),
        ]);
    }
    let table = table.render();
    format!("{table}of the size and the grids that ran here; the error is what an {MEASURED_ON} showed of what binds\n")
}
