//! Request logs: one JSON object a line, of a server or of a published trace.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use warpfold_engine::replay::Arrival;

use crate::failure::Failure;
use crate::host;

/// The names that logs have for each field.
const TIME: [&str; 5] = ["time", "timestamp", "arrival_time", "arrived_at", "created"];
const PROMPT: [&str; 5] = ["prompt_tokens", "prompt_len", "input_length", "input_tokens", "input_len"];
const ANSWER: [&str; 5] = ["completion_tokens", "output_length", "output_tokens", "output_len", "answer_tokens"];
const LIMIT: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Objects that may hold the fields: the line itself, or one inside it.
const PLACES: [&str; 5] = ["", "/usage", "/response/usage", "/meta_info", "/out/meta_info"];

/// The unit of times that are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TimeUnit {
    S,
    Ms,
}

/// The requests of a log, with times since the first.
pub(super) fn read(file: &Path, unit: TimeUnit) -> Result<Vec<Arrival>, Failure> {
    let text = host::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    let mut log = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let request = request(line, unit);
        log.push(request.map_err(|reason| Failure::usage(format!("{}:{}: {reason}", file.display(), i + 1)))?);
    }
    let first = log.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
    if log.is_empty() {
        return Err(Failure::usage(format!("{}: there is no request in it", file.display())));
    }
    let since = |(seconds, arrival): (f64, Arrival)| {
        let at = Duration::try_from_secs_f64(seconds - first)
            .map_err(|_| Failure::usage(format!("{}: its times lie too far apart", file.display())))?;
        Ok(Arrival { at, ..arrival })
    };
    log.into_iter().map(since).collect()
}

/// A line: its time in seconds since some beginning, and its lengths.
fn request(line: &str, unit: TimeUnit) -> Result<(f64, Arrival), String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let needed = |what, names: &'static [&'static str]| {
        let none = || format!("no {what}: one of {} is needed", names.join(", "));
        field(&value, names)?.ok_or_else(none)
    };
    let time = needed("time", &TIME)?;
    let number = |seconds: f64| if unit == TimeUnit::Ms { seconds / 1e3 } else { seconds };
    let seconds = time.1.as_f64().map(number).or_else(|| seconds_of(time.1.as_str()?));
    let seconds =
        seconds.ok_or_else(|| format!("{}: {} is neither a number nor a date as RFC 3339 has it", time.0, time.1))?;
    let (prompt, answer) = (needed("length of a prompt", &PROMPT)?, needed("length of an answer", &ANSWER)?);
    let max_tokens = field(&value, &LIMIT)?.filter(|(_, limit)| !limit.is_null()).map(length).transpose()?;
    let (prompt, answer) = (length(prompt)?, length(answer)?);
    if let Some(limit) = max_tokens.filter(|limit| *limit < answer) {
        return Err(format!("an answer of {answer} tokens is longer than its limit, {limit}"));
    }
    Ok((seconds, Arrival { at: Duration::ZERO, prompt, answer, max_tokens }))
}

/// The only field of these names.
fn field<'a>(value: &'a Value, names: &[&'a str]) -> Result<Option<(&'a str, &'a Value)>, String> {
    let all = PLACES.iter().filter_map(|place| value.pointer(place));
    let mut found = all.flat_map(|object| names.iter().filter_map(|name| Some((*name, object.get(*name)?))));
    let Some(first) = found.next() else { return Ok(None) };
    match found.find(|other| other.1 != first.1) {
        None => Ok(Some(first)),
        Some(other) => Err(format!("{} is {} and {} is {}: which counts?", first.0, first.1, other.0, other.1)),
    }
}

// THRESHOLD: longer prompts and answers are refused; tested by
// crates/cli/tests/program/replay.rs::a_line_that_is_no_request_is_refused_with_its_number
/// Most tokens of a prompt or an answer: more than any model takes.
const MOST_TOKENS: u64 = 1 << 24;

/// Tokens of a prompt or an answer.
fn length(field: (&str, &Value)) -> Result<usize, String> {
    let (name, value) = field;
    let length = value.as_u64().filter(|num| (1..=MOST_TOKENS).contains(num));
    length.map(|num| num as usize).ok_or_else(|| format!("{name}: {value} is not a number of tokens from 1"))
}

/// The seconds since 1970 of a date such as 2026-11-27T17:03:09.25+01:00; without a zone of UTC.
fn seconds_of(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', ' '])?;
    let date: Vec<i64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month @ 1..=12, day @ 1..=31] = date[..] else { return None };
    let zone = time.find(['Z', '+', '-']);
    let (clock, zone) = time.split_at(zone.unwrap_or(time.len()));
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_time = (0.0..24.0).contains(&hours) && (0.0..60.0).contains(&minutes) && (0.0..61.0).contains(&seconds);
    if day > days_of_month[month as usize - 1] || !is_time {
        return None;
    }
    let offset = match zone {
        "" | "Z" => 0.0,
        _ => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let offset = hours.parse::<f64>().ok()? * 3600.0 + minutes.parse::<f64>().ok()? * 60.0;
            if zone.starts_with('-') { -offset } else { offset }
        }
    };
    // Years begin in March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(days as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds - offset)
}
