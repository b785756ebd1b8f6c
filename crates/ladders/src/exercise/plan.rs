//! Plans of exercises: what the host issues to streams, a line each.
//!
//! `1 in 2` copies part 2 to the device in stream 1, `1 run 2` runs the kernel on it, `1 out 2`
//! brings its result back; `1 record 5` and `2 wait 5` let stream 2 wait for what stream 1 was
//! given before. The order that holds on hardware is that of streams and events alone, and each of
//! three engines (a copy each way, kernels) does one thing at a time: both are judged here, as the
//! virtual GPU itself does everything in the order of the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The streams of a plan.
pub(super) const STREAMS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    In,
    Run,
    Out,
    Record,
    Wait,
}

/// A line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) stream: usize,
    pub(super) what: What,
    /// Part, or event.
    pub(super) at: usize,
}

/// `1 run 2`
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.stream, format!("{:?}", self.what).to_lowercase(), self.at)
    }
}

/// Reads a plan; says which line cannot be read.
pub(super) fn parse(text: &str, parts: usize) -> Result<Vec<Step>, String> {
    let lines = text.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty());
    let step = |line: &str| {
        let [stream, what, at] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        let what = [What::In, What::Run, What::Out, What::Record, What::Wait]
            .into_iter()
            .find(|known| format!("{known:?}").eq_ignore_ascii_case(what))?;
        let (stream, at) = (stream.parse().ok()?, at.parse().ok()?);
        let is_part = matches!(what, What::In | What::Run | What::Out);
        (stream < STREAMS && (!is_part || at < parts)).then_some(Step { stream, what, at })
    };
    let unread = |line: &str| {
        format!(
            "the plan's line '{line}' is none of 'S in P', 'S run P', 'S out P', 'S record E', 'S wait E' with streams S below {STREAMS} and parts P below {parts}"
        )
    };
    lines.map(|line| step(line).ok_or_else(|| unread(line))).collect()
}

/// Steps of time that a plan takes if each operation takes one.
///
/// Fails for an operation that nothing orders after what it needs.
pub(super) fn num_steps(plan: &[Step]) -> Result<u64, String> {
    let mut streams = vec![(BTreeSet::new(), 0); STREAMS];
    let mut engines = [0_u64; 3];
    let mut events = BTreeMap::new();
    for step in plan {
        let (before, time) = &mut streams[step.stream];
        let (engine, needed) = match step.what {
            What::Record => {
                events.insert(step.at, (before.clone(), *time));
                continue;
            }
            What::Wait => {
                let (also, until) =
                    events.get(&step.at).ok_or_else(|| format!("'{step}': nothing has recorded event {}", step.at))?;
                before.extend(also.iter().copied());
                *time = (*time).max(*until);
                continue;
            }
            What::In => (0, None),
            What::Run => (1, Some("in")),
            What::Out => (2, Some("run")),
        };
        if let Some(needed) = needed.filter(|_| !before.contains(&(engine - 1, step.at))) {
            return Err(format!(
                "'{step}' may begin before '{needed} {}' has ended: neither a stream nor an event orders the two",
                step.at
            ));
        }
        *time = engines[engine].max(*time) + 1;
        engines[engine] = *time;
        before.insert((engine, step.at));
    }
    Ok(engines.into_iter().max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{num_steps, parse};

    #[track_caller]
    fn check(plan: &str, expected: Result<u64, &str>) {
        let found = parse(plan, 2).and_then(|plan| num_steps(&plan));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} {expected:?}"),
        }
    }

    #[test]
    fn streams_and_events_order_what_engines_do() {
        check("0 in 0; 0 run 0; 0 out 0; 0 in 1; 0 run 1; 0 out 1", Ok(6));
        check("0 in 0; 0 run 0; 0 out 0; 1 in 1; 1 run 1; 1 out 1", Ok(4));
        check("0 in 0; 1 run 0", Err("'1 run 0' may begin before 'in 0' has ended"));
        check("0 in 0; 0 record 7; 1 wait 7; 1 run 0; 1 out 0", Ok(3));
        // An event is what was before it.
        check("0 record 7; 0 in 0; 1 wait 7; 1 run 0", Err("may begin before"));
        check("0 wait 7", Err("nothing has recorded event 7"));
        check("0 in 2", Err("the plan's line '0 in 2' is none of"));
        check("0 go 1", Err("the plan's line '0 go 1' is none of"));
        check("", Ok(0));
    }
}
