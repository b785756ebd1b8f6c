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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Event;
    use std::time::Duration;

    #[test]
    fn without_times_what_can_run_at_the_same_time_stands_in_the_same_column() {
        let event = |what, stream, chunk| Event { what, stream, chunk, bytes: 0, is_waited_for: false, time: None };
        let events = vec![event(What::ToDevice, 0, 0), event(What::ToDevice, 1, 1), event(What::Kernel, 0, 0)];
        let text = timeline(&Trace { events, is_right: true });
        assert_eq!(text, "stream 0  H0 K0\nstream 1     H1\n");
    }

    #[test]
    fn with_times_a_copy_stands_below_the_kernel_that_it_overlaps() {
        let event = |what, stream, from, to| {
            let time = Some((Duration::from_micros(from), Duration::from_micros(to)));
            Event { what, stream, chunk: stream, bytes: 0, is_waited_for: false, time }
        };
        let events = vec![event(What::Kernel, 0, 0, 48), event(What::ToDevice, 1, 24, 96)];
        let trace = Trace { events, is_right: true };
        assert!(trace.overlaps());
        let text = timeline(&trace);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].len(), "stream 0  ".len() + 48);
        assert!(lines[1].starts_with(&format!("stream 1  {}H1---", " ".repeat(24))), "{text}");
    }
}
