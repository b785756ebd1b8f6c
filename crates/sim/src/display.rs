//! Reports as text, for `println!`.

use std::fmt;

use crate::{Counters, Report};

impl fmt::Display for Counters {
    /// Prints the counters that are not zero, one per line, with ratios per request.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let per = |sectors, requests| Some((share(sectors, requests), "per request"));
        let rows: [(&str, u64, Option<(f64, &str)>); 17] = [
            ("warp instructions", self.warp_instructions, None),
            (
                "thread instructions",
                self.thread_instructions,
                Some((share(self.thread_instructions, self.warp_instructions), "of 32 lanes active")),
            ),
            ("branches", self.branches, None),
            ("divergent branches", self.divergent_branches, None),
            ("shared load wavefronts", self.shared_load_wavefronts, None),
            ("shared load bank conflicts", self.shared_load_bank_conflicts, None),
            ("shared store wavefronts", self.shared_store_wavefronts, None),
            ("shared store bank conflicts", self.shared_store_bank_conflicts, None),
            ("global load requests", self.global_load_requests, None),
            ("global load sectors", self.global_load_sectors, per(self.global_load_sectors, self.global_load_requests)),
            ("global store requests", self.global_store_requests, None),
            (
                "global store sectors",
                self.global_store_sectors,
                per(self.global_store_sectors, self.global_store_requests),
            ),
            ("local requests", self.local_requests, None),
            ("global atomics", self.global_atomics, None),
            ("shared atomics", self.shared_atomics, None),
            ("barriers", self.barriers, None),
            ("warp synchronizations", self.warp_syncs, None),
        ];
        for (name, count, note) in rows.into_iter().filter(|(_, count, _)| *count > 0) {
            write!(f, "{name:<28} {:>16}", grouped(count))?;
            if let Some((value, what)) = note {
                write!(f, "  {value:.1} {what}")?;
            }
            writeln!(f)?;
        }
        match self.l1_hit_rate() {
            Some(rate) => writeln!(f, "{:<28} {:>14.2} %", "L1 hit rate", rate * 100.0),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    /// Prints the counters that are not zero, then the findings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.counters)?;
        match self.findings.len() {
            0 => writeln!(f, "no findings")?,
            1 => writeln!(f, "1 finding")?,
            n => writeln!(f, "{n} findings")?,
        }
        self.findings.iter().try_for_each(|finding| writeln!(f, "  {finding}"))?;
        if self.aborted {
            writeln!(f, "the run ended there, as hardware would have ended it")?;
        }
        Ok(())
    }
}

/// Formats a count with thousands separators: `4587520` as `4,587,520`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_is_not_zero() {
        let counters = Counters {
            warp_instructions: 1200,
            thread_instructions: 38_400,
            global_load_requests: 8,
            global_load_sectors: 32,
            ..Counters::default()
        };
        let expected = "\
warp instructions                       1,200
thread instructions                    38,400  32.0 of 32 lanes active
global load requests                        8
global load sectors                        32  4.0 per request
no findings
";
        assert_eq!(Report { counters, ..Report::default() }.to_string(), expected);
    }
}
