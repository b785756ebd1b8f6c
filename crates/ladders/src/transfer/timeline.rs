//! A trace as text: a line for each stream, time or order from left to right.

use std::fmt::Write as _;

use super::{Trace, What};

/// Columns of a timeline on a GPU.
const COLUMNS: f64 = 96.0;

/// The timeline of a trace. On a GPU a column is a share of the time; on the virtual GPU, which has
/// no clock, an operation stands in [its step](Trace::steps).
#[must_use]
pub fn timeline(trace: &Trace) -> String {
    let streams = trace.events.iter().map(|event| event.stream + 1).max().unwrap_or(0);
    let scale = trace.duration().map(|whole| COLUMNS / whole.as_secs_f64().max(1e-9));
    let (steps, mut text) = (trace.steps(), String::new());
    for stream in 0..streams {
        let mut line = String::new();
        for (at, event) in trace.events.iter().enumerate().filter(|(_, event)| event.stream == stream) {
            let name = match event.what {
                What::ToDevice => 'H',
                What::Kernel => 'K',
                What::ToHost => 'D',
                What::Graph => 'G',
            };
            let (start, end) = match (scale, event.time) {
                (Some(scale), Some((start, end))) => {
                    let column = |time: std::time::Duration| (time.as_secs_f64() * scale) as usize;
                    (column(start), column(end).max(column(start) + 2))
                }
                _ => (3 * steps[at], 3 * steps[at] + 2),
            };
            while line.len() < start {
                line.push(' ');
            }
            let label = format!("{name}{}", event.chunk);
            let width = end.saturating_sub(line.len()).max(label.len());
            let _ = write!(line, "{label:-<width$}");
        }
        let _ = writeln!(text, "stream {stream}  {}", line.trim_end());
    }
    text
}
