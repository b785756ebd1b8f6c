//! Text tables: columns as wide as their widest cell.

pub use warpfold_sim::grouped;

/// A table; the first column stands on the left, the others on the right.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

#[derive(Debug)]
enum Row {
    Cells(Vec<String>),
    Text(String),
}

/// Columns that fit a terminal.
const WIDTH: usize = 118;

impl Table {
    /// A table with this heading.
    #[must_use]
    pub fn new<const N: usize>(heading: [&str; N]) -> Self {
        let mut table = Self::default();
        table.row(heading.map(str::to_owned));
        table
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(Row::Cells(cells.into()));
    }

    /// Adds text below the latest row, indented and wrapped.
    pub fn text(&mut self, text: &str) {
        self.rows.push(Row::Text(wrapped(text, "    ")));
    }

    /// The table as lines.
    #[must_use]
    pub fn render(&self) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            match row {
                Row::Text(lines) => text.push_str(lines),
                Row::Cells(cells) => {
                    let aligned = cells.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
                        0 => format!("{cell:<width$}"),
                        _ => format!("{cell:>width$}"),
                    });
                    text.push_str(aligned.collect::<Vec<_>>().join("  ").trim_end());
                    text.push('\n');
                }
            }
        }
        text
    }
}

/// Text in lines that fit a terminal, each after `indent`.
#[must_use]
pub fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from(indent);
    for word in text.split_whitespace() {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from(indent);
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}

/// A time with four digits.
///
/// ```
/// assert_eq!(warpfold_report::table::time(3.1184e-3), "3.118 ms");
/// ```
#[must_use]
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    let places = if value < 10.0 {
        3
    } else if value < 100.0 {
        2
    } else {
        1
    };
    format!("{value:.places$} {unit}")
}

/// `part` of `whole`, to one decimal place; a dash where there is no whole.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["name", "n"]);
        table.row(["a".to_owned(), "1000".to_owned()]);
        table.text("why");
        assert_eq!(table.render(), "name     n\na     1000\n    why\n");
    }

    #[test]
    fn long_text_is_wrapped_at_words() {
        let text = wrapped(&"word ".repeat(30), "  ");
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  word")), "{text}");
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 4_587_520].map(grouped), ["0", "999", "1,000", "4,587,520"]);
    }

    #[test]
    fn a_ratio_to_nothing_is_no_number() {
        assert_eq!((ratio(9, 2), ratio(0, 0)), ("4.5".to_owned(), "-".to_owned()));
    }
}
