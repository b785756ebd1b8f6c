//! Predictions as text.

use std::fmt;

use super::{Caches, ClassError, MEASURED_ON, Prediction};

/// Seconds with three digits and a unit.
#[must_use]
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "us"),
        s => (s * 1e9, "ns"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

impl fmt::Display for Prediction {
    /// The range first, then what binds and the parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high, middle) = (time(self.low), time(self.high), time(self.seconds));
        let caches = match self.caches {
            Caches::Warm => "what the L2 keeps of the launch before is there",
            Caches::Cold => "the L2 is cold",
        };
        write!(f, "predicted on {}: {low} to {high}, about {middle} ({caches}); ", self.gpu)?;
        write!(f, "{} binds", self.binds())?;
        if let Some(next) = self.next() {
            write!(f, ", then {next}")?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "  {} block{} per SM, {:.2} waves",
            self.blocks_per_sm,
            if self.blocks_per_sm == 1 { "" } else { "s" },
            self.waves
        )?;
        writeln!(f, "  {}", self.error)?;
        for part in &self.parts {
            writeln!(f, "  {:<18} {:>10}", part.name, time(part.seconds))?;
        }
        Ok(())
    }
}

impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = if self.class == "all" { String::new() } else { format!(" that {} bound", self.class) };
        write!(
            f,
            "median error of {} launches{class}, timed on an {MEASURED_ON}: {:.0} %; nine in ten lie within the range",
            self.launches,
            100.0 * self.median
        )
    }
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        assert_eq!([2.5, 0.0314, 4.07e-6, 9.9e-8].map(time), ["2.50 s", "31.4 ms", "4.07 us", "99.0 ns"]);
    }
}
