//! What clients ask for: lengths of prompts and answers, drawn once from a seed, or read of a file.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::Deserialize;

use super::random::Random;
use crate::error::{Error, ErrorKind};

/// A kind of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Conversations: log-normal lengths, prompts of 120 tokens at the median and answers of 200.
    ShareGptLike,
    /// Prompts and answers of fixed lengths.
    Random {
        /// Tokens of a prompt.
        input: usize,
        /// Tokens of an answer.
        output: usize,
    },
    /// Prompts that begin alike, in eight groups.
    Prefix {
        /// Tokens that the prompts of a group share.
        shared: usize,
        /// Tokens of a prompt's own after them.
        own: usize,
        /// Tokens of an answer.
        output: usize,
    },
    /// Of nano-vllm's benchmark: 100 to 1,024 tokens each way, all of them equally likely.
    Nano,
}

/// Groups of prompts that begin alike.
const GROUPS: usize = 8;

/// A request of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Tokens of the answer, which does not end before.
    pub output: usize,
}

/// What a target takes.
#[derive(Debug, Clone)]
pub struct Room {
    /// Tokens that prompts are made of.
    pub alphabet: Vec<u32>,
    /// The longest sequence, prompt and answer together.
    pub max_len: usize,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShareGptLike => f.write_str("sharegpt-like"),
            Self::Random { input, output } => write!(f, "random:{input}/{output}"),
            Self::Prefix { shared, own, output } => write!(f, "prefix:{shared}/{own}/{output}"),
            Self::Nano => f.write_str("nano"),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let reason = "it is not sharegpt-like, random:IN/OUT, prefix:SHARED/OWN/OUT or nano";
        let wrong = || ErrorKind::Workload { name: name.to_owned(), reason: reason.to_owned() };
        let (kind, lens) = name.split_once(':').unwrap_or((name, ""));
        let lens: Vec<usize> = lens
            .split('/')
            .filter(|len| !len.is_empty())
            .map(|len| len.parse().ok().filter(|len| *len > 0))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        match (kind, lens.as_slice()) {
            ("sharegpt-like", []) => Ok(Self::ShareGptLike),
            ("nano", []) => Ok(Self::Nano),
            ("random", []) => Ok(Self::Random { input: 1024, output: 1024 }),
            ("random", [input, output]) => Ok(Self::Random { input: *input, output: *output }),
            ("prefix", []) => Ok(Self::Prefix { shared: 1024, own: 128, output: 128 }),
            ("prefix", [shared, own, output]) => Ok(Self::Prefix { shared: *shared, own: *own, output: *output }),
            _ => Err(wrong().into()),
        }
    }
}

impl Workload {
    /// Draws requests. Lengths beyond the longest sequence are cut, the answer's first.
    #[must_use]
    pub fn draw(self, num: usize, room: &Room, seed: u64) -> Vec<Job> {
        let mut random = Random::new(seed);
        let text = |random: &mut Random, len: usize| -> Vec<u32> {
            (0..len).map(|_| room.alphabet[random.between(0, room.alphabet.len() - 1)]).collect()
        };
        let beginnings: Vec<Vec<u32>> = match self {
            Self::Prefix { shared, .. } => (0..GROUPS).map(|_| text(&mut random, shared)).collect(),
            _ => Vec::new(),
        };
        let job = |i: usize| {
            let (input, output) = self.lens(&mut random);
            let mut prompt = beginnings.get(i % GROUPS).cloned().unwrap_or_default();
            prompt.append(&mut text(&mut random, input));
            cut(Job { prompt, output }, room.max_len)
        };
        (0..num).map(job).collect()
    }

    /// Tokens of a prompt, without what it shares, and of its answer.
    fn lens(self, random: &mut Random) -> (usize, usize) {
        match self {
            Self::ShareGptLike => {
                let len = |random: &mut Random, median, sigma, most| {
                    (random.log_normal(median, sigma) as usize).clamp(4, most)
                };
                (len(random, 120.0, 1.1, 1024), len(random, 200.0, 0.9, 2048))
            }
            Self::Random { input, output } => (input, output),
            Self::Prefix { own, output, .. } => (own, output),
            Self::Nano => (random.between(100, 1024), random.between(100, 1024)),
        }
    }
}

fn cut(mut job: Job, max_len: usize) -> Job {
    job.prompt.truncate(max_len.saturating_sub(1).max(1));
    job.output = job.output.min(max_len.saturating_sub(job.prompt.len()).max(1));
    job
}

/// A line of a file of requests.
#[derive(Debug, Deserialize)]
struct Line {
    prompt_tokens: Vec<u32>,
    max_tokens: usize,
}

/// Requests of a file: one JSON object a line, with `prompt_tokens` and `max_tokens`.
///
/// # Errors
/// If the file cannot be read, or a line is something else.
pub fn of_file(path: &Path, room: &Room) -> Result<Vec<Job>, Error> {
    let wrong = |reason: String| ErrorKind::Workload { name: path.display().to_string(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut jobs = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| wrong(format!("line {}: {error}", i + 1)))?;
        if line.prompt_tokens.is_empty() || line.max_tokens == 0 {
            return Err(wrong(format!("line {}: a prompt or an answer of no tokens", i + 1)).into());
        }
        jobs.push(cut(Job { prompt: line.prompt_tokens, output: line.max_tokens }, room.max_len));
    }
    if jobs.is_empty() { Err(wrong("it has no request".to_owned()).into()) } else { Ok(jobs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room { alphabet: (5..50).collect(), max_len: 4096 }
    }

    #[test]
    fn names_lead_to_workloads_and_back() {
        for name in ["sharegpt-like", "nano", "random:10/20", "prefix:64/8/4"] {
            assert_eq!(name.parse::<Workload>().expect("a name").to_string(), name);
        }
        assert_eq!("random".parse::<Workload>().expect("a name").to_string(), "random:1024/1024");
        for name in ["", "random:1", "random:0/5", "random:a/b", "nano:3", "sharegpt"] {
            let error = name.parse::<Workload>().expect_err("no name").to_string();
            assert!(error.starts_with(&format!("the workload {name}: it is not sharegpt-like")), "{error}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_requests_again() {
        let draw = |seed| Workload::ShareGptLike.draw(50, &room(), seed);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(1).iter().all(|job| (4..=1024).contains(&job.prompt.len()) && (4..=2048).contains(&job.output)));
    }

    #[test]
    fn groups_begin_alike_and_go_on_differently() {
        let jobs = Workload::Prefix { shared: 64, own: 8, output: 4 }.draw(16, &room(), 3);
        assert_eq!(jobs[0].prompt[..64], jobs[8].prompt[..64]);
        assert_ne!(jobs[0].prompt[64..], jobs[8].prompt[64..]);
        assert_ne!(jobs[0].prompt[..64], jobs[1].prompt[..64]);
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let jobs = Workload::Random { input: 5000, output: 5000 }.draw(1, &room(), 0);
        assert_eq!((jobs[0].prompt.len(), jobs[0].output), (4095, 1));
        let jobs = Workload::Random { input: 4000, output: 5000 }.draw(1, &room(), 0);
        assert_eq!((jobs[0].prompt.len(), jobs[0].output), (4000, 96));
    }
}
