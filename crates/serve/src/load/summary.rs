//! What clients saw, in figures.

use std::time::Duration;

use serde::Serialize;

/// What one client saw of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Tokens of the prompt.
    pub input: usize,
    /// Tokens of the answer.
    pub output: usize,
    /// What it says: the tokens of an engine's, as words of 32 bits; the text of a server's.
    pub answer: Vec<u8>,
    /// When tokens came, since the request was sent.
    pub arrivals: Vec<Duration>,
    /// When the answer ended.
    pub end: Duration,
    /// Why there was no whole answer.
    pub error: Option<String>,
}

/// Times at the quantiles that people compare, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Their mean.
    pub mean: f64,
    /// Half of them are less.
    pub p50: f64,
    /// Nine of ten are less.
    pub p90: f64,
    /// All but one of a hundred are less.
    pub p99: f64,
}

/// Times that an answer should keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// To the first token.
    pub ttft: Duration,
    /// Per token after it, in the mean.
    pub per_token: Duration,
}

/// A run in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Requests that were answered in full.
    pub completed: usize,
    /// The others.
    pub failed: usize,
    /// The first error, if there was one.
    pub error: Option<String>,
    /// From the first request to the end of the last one.
    pub seconds: f64,
    /// Tokens of the prompts that were answered.
    pub input_tokens: usize,
    /// Tokens of their answers.
    pub output_tokens: usize,
    /// Answers per second.
    pub requests_per_second: f64,
    /// Generated tokens per second.
    pub output_tokens_per_second: f64,
    /// All tokens per second.
    pub total_tokens_per_second: f64,
    /// Answers per second that keep the goal, if there is one.
    pub goodput: Option<f64>,
    /// Time to the first token.
    pub ttft_ms: Quantiles,
    /// Time between arrivals of tokens.
    pub itl_ms: Quantiles,
    /// Mean time per token after the first one.
    pub tpot_ms: Quantiles,
    /// Time to the end.
    pub e2e_ms: Quantiles,
}

impl Quantiles {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        // The nearest rank: a value that somebody saw.
        let at = |share: f64| {
            let rank = (share * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Self { mean, p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Timeline {
    /// The mean time per token after the first one, if there are two.
    fn per_token(&self) -> Option<Duration> {
        let first = self.arrivals.first()?;
        let rest = u32::try_from(self.output.checked_sub(1)?).ok().filter(|rest| *rest > 0)?;
        Some((self.end - *first) / rest)
    }

    fn keeps(&self, goal: Goal) -> bool {
        let is_soon = self.arrivals.first().is_some_and(|first| *first <= goal.ttft);
        is_soon && self.per_token().is_none_or(|time| time <= goal.per_token)
    }
}

impl Summary {
    /// The figures of a run that took `wall`.
    #[must_use]
    pub fn of(timelines: &[Timeline], wall: Duration, goal: Option<Goal>) -> Self {
        let whole: Vec<&Timeline> = timelines.iter().filter(|t| t.error.is_none()).collect();
        let seconds = wall.as_secs_f64();
        let per_second = |count: usize| count as f64 / seconds.max(f64::MIN_POSITIVE);
        let input_tokens = whole.iter().map(|t| t.input).sum();
        let output_tokens = whole.iter().map(|t| t.output).sum();
        let gaps = |t: &&Timeline| t.arrivals.windows(2).map(|pair| ms(pair[1] - pair[0])).collect::<Vec<_>>();
        Self {
            completed: whole.len(),
            failed: timelines.len() - whole.len(),
            error: timelines.iter().find_map(|t| t.error.clone()),
            seconds,
            input_tokens,
            output_tokens,
            requests_per_second: per_second(whole.len()),
            output_tokens_per_second: per_second(output_tokens),
            total_tokens_per_second: per_second(input_tokens + output_tokens),
            goodput: goal.map(|goal| per_second(whole.iter().filter(|t| t.keeps(goal)).count())),
            ttft_ms: Quantiles::of(whole.iter().filter_map(|t| t.arrivals.first().copied().map(ms)).collect()),
            itl_ms: Quantiles::of(whole.iter().flat_map(gaps).collect()),
            tpot_ms: Quantiles::of(whole.iter().filter_map(|t| t.per_token().map(ms)).collect()),
            e2e_ms: Quantiles::of(whole.iter().map(|t| ms(t.end)).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_list() {
        let quantiles = Quantiles::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(quantiles, Quantiles { mean: 50.5, p50: 50.0, p90: 90.0, p99: 99.0 });
        assert_eq!(Quantiles::of(vec![3.0]), Quantiles { mean: 3.0, p50: 3.0, p90: 3.0, p99: 3.0 });
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
    }

    #[test]
    fn a_run_is_summed_up() {
        let at = Duration::from_millis;
        let timeline = |first: u64| Timeline {
            answer: Vec::new(),
            input: 10,
            output: 3,
            arrivals: vec![at(first), at(first + 10), at(first + 30)],
            end: at(first + 30),
            error: None,
        };
        let failed = Timeline { error: Some("503".to_owned()), ..Timeline::default() };
        let goal = Goal { ttft: at(100), per_token: at(20) };
        let run = [timeline(50), timeline(150), failed];
        let summary = Summary::of(&run, Duration::from_secs(2), Some(goal));
        assert_eq!((summary.completed, summary.failed, summary.error.as_deref()), (2, 1, Some("503")));
        assert_eq!((summary.input_tokens, summary.output_tokens), (20, 6));
        assert_eq!((summary.output_tokens_per_second, summary.total_tokens_per_second), (3.0, 13.0));
        assert_eq!(summary.goodput, Some(0.5));
        assert_eq!((summary.ttft_ms.p50, summary.ttft_ms.p99), (50.0, 150.0));
        assert_eq!((summary.itl_ms.p50, summary.itl_ms.p90), (10.0, 20.0));
        assert_eq!(summary.tpot_ms.mean, 15.0);
        assert_eq!(summary.e2e_ms.p99, 180.0);
    }
}
