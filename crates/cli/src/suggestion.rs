//! Suggests a similar name for an unknown one.

/// `; did you mean 'reduce'?`, where one of the names is close enough to what was written.
pub(crate) fn did_you_mean<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    closest(written, names).map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

fn closest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace(['_', ' '], "-");
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let ranked = names.into_iter().map(|name| (distance(&written, &plain(name)), name));
    // A third of the letters may be wrong, and at least one.
    ranked
        .min()
        .filter(|(distance, name)| *distance <= (name.chars().count().min(written.len()) / 3).max(1))
        .map(|r| r.1)
}

/// Letters to add, to take away, to replace or to swap with the next.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let names = ["vector-add", "reduce", "softmax", "sgemm", "relu"];
        for (written, meant) in [
            ("reduec", "reduce"),
            ("vector_add", "vector-add"),
            ("Softmax", "softmax"),
            ("sgem", "sgemm"),
            ("rleu", "relu"),
        ] {
            assert_eq!(did_you_mean(written, names), format!("; did you mean '{meant}'?"));
        }
        for written in ["stairs", "", "x"] {
            assert_eq!(did_you_mean(written, names), "", "{written}");
        }
    }
}
