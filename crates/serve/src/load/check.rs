//! Answers that are checked: some requests are sent alone, before, between and after the runs that
//! are timed, and must say the same.
//!
//! A server that is fast because its answers are wrong looks like a fast server. So a
//! [`Check`] asks a few requests of its own before the first run and after the last one, and a few
//! of each run again, alone, with their seeds: with sampling that depends on the request alone,
//! none of it may differ. Asked again are beginnings: an answer that is cut has the tokens of the
//! whole one.

use super::{Job, Load, Room, Run, Timeline, Workload};

/// Requests that are asked again of each run, and that are asked before and after all of them; no
/// more than a run has.
const ASKED: usize = 4;
/// Tokens of an answer that is asked for alone; no more than the longest answer of a run has.
const TOKENS: usize = 32;
/// Tokens of a prompt that belongs to no run; no more than the longest prompt of a run has.
const PROMPT: usize = 64;
/// Draws the prompts that belong to no run: they are the same for every run of a model.
const SEED: u64 = 0x7761_7270;

/// Answers that must not change while runs are timed.
#[derive(Debug)]
pub struct Check {
    probes: Vec<Job>,
    before: Vec<Timeline>,
    compared: usize,
    differences: Vec<String>,
}

/// What came of a [`Check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// A digest of the answers to the requests that belong to no run: equal for equal models and
    /// lengths, wherever they run.
    pub digest: u64,
    /// Answers that were compared.
    pub compared: usize,
    /// What differed, a line each.
    pub differences: Vec<String>,
}

impl Check {
    /// Asks for the answers that are to stay, one after the other: requests no longer than those of
    /// the first run, so that a short run is not outlasted by its check.
    #[must_use]
    pub fn begin(load: &Load, room: &Room, jobs: &[Job]) -> Self {
        let input = jobs.iter().map(|job| job.prompt.len()).max().unwrap_or(1).min(PROMPT);
        let output = jobs.iter().map(|job| job.output).max().unwrap_or(1).min(TOKENS);
        let probes = Workload::Random { input, output }.draw(jobs.len().min(ASKED), room, SEED);
        let before = probes.iter().map(|job| load.alone(job, SEED)).collect();
        Self { probes, before, compared: 0, differences: Vec::new() }
    }

    /// Asks some requests of a run again, alone: the first, the last and some between.
    pub fn compare(&mut self, load: &Load, jobs: &[Job], run: &Run) {
        let last = jobs.len().saturating_sub(1);
        let mut picked: Vec<usize> = (0..ASKED).map(|i| i * last / (ASKED - 1)).collect();
        picked.dedup();
        for i in picked.into_iter().filter(|i| *i < run.timelines.len()) {
            let cut = Job { output: jobs[i].output.min(TOKENS), ..jobs[i].clone() };
            let alone = load.alone(&cut, load.seed_of(i));
            self.judge(format_args!("request {i}, alone and in its run"), &alone, &run.timelines[i]);
        }
    }

    /// Asks for the answers that had to stay.
    #[must_use]
    pub fn end(mut self, load: &Load) -> Verdict {
        let after: Vec<Timeline> = self.probes.iter().map(|job| load.alone(job, SEED)).collect();
        let before = std::mem::take(&mut self.before);
        for (i, (before, after)) in before.iter().zip(&after).enumerate() {
            self.judge(format_args!("request {i} of the check, before and after"), before, after);
        }
        let digest = before.iter().fold(digest(0, b"answers"), |sum, timeline| digest(sum, &timeline.answer));
        Verdict { digest, compared: self.compared, differences: self.differences }
    }

    /// Compares an answer with one that begins with it, or is the same.
    fn judge(&mut self, which: std::fmt::Arguments<'_>, cut: &Timeline, whole: &Timeline) {
        self.compared += 1;
        if let Some(error) = cut.error.as_ref().or(whole.error.as_ref()) {
            self.differences.push(format!("{which}: {error}"));
        } else if cut.output == 0 || !whole.answer.starts_with(&cut.answer) {
            let same = cut.answer.iter().zip(&whole.answer).take_while(|(a, b)| a == b).count();
            self.differences.push(format!("{which}: other answers from byte {same} on"));
        }
    }
}

/// FNV-1a of 64 bits, of what was before and of bytes with their length.
fn digest(before: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let len = (bytes.len() as u64).to_le_bytes();
    let start = before ^ 0xcbf2_9ce4_8422_2325;
    len.iter().chain(bytes).fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME))
}
