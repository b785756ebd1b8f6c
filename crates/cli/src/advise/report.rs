//! The checklist on paper, and as JSON.

use serde::Serialize;

use super::next::{Change, change};
use super::points::{Point, points};
use super::subject::Subject;
use crate::table::wrapped;

/// The points of each kernel.
pub(super) fn text(subjects: &[Subject]) -> String {
    let size = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    let mut page = String::new();
    for subject in subjects {
        let (grid, block) = (size(subject.grid), size(subject.block));
        let points = points(subject, subjects.len());
        let open = points.iter().filter(|point| !point.is_fine).count();
        page += &format!("{} on the virtual GPU ({}): grid {grid}, block {block}\n\n", subject.kernel, subject.arch);
        points.iter().for_each(|point| page += &paragraph(point));
        page += &match (change(subject, &points), open) {
            (Some(change), _) => first(&change),
            (None, 0) => "\nnothing to fix\n\n".to_owned(),
            (None, 1) => "\n1 point to fix\n\n".to_owned(),
            (None, n) => format!("\n{n} points to fix\n\n"),
        };
    }
    page.truncate(page.trim_end_matches('\n').len());
    page + "\n"
}

/// The change to make first.
fn first(change: &Change) -> String {
    let text = wrapped(&change.text, &" ".repeat(18));
    let place = change.place.as_ref().map_or_else(String::new, |place| format!("{:18}{place}\n", ""));
    format!("\nfirst {:<10}  {}{place}\n", change.name, text.trim_start())
}

fn paragraph(point: &Point) -> String {
    let mark = if point.is_fine { "ok  " } else { "fix " };
    let mut text = format!("{mark}  {:<10}  {}\n", point.name, point.found);
    if let Some((line, instruction)) = &point.line {
        text += &format!("{:18}line {line}: {instruction}\n", "");
    }
    if let Some(mend) = &point.mend {
        text += &wrapped(mend, &" ".repeat(18));
    }
    text
}

#[derive(Debug, Serialize)]
struct Json<'a> {
    kernel: &'a str,
    arch: String,
    grid: [u32; 3],
    block: [u32; 3],
    launches: u64,
    points: Vec<JsonPoint>,
    /// The change to make first.
    first: Option<JsonChange>,
}

#[derive(Debug, Serialize)]
struct JsonChange {
    name: &'static str,
    text: String,
    place: Option<String>,
}

#[derive(Debug, Serialize)]
struct JsonPoint {
    point: &'static str,
    ok: bool,
    number: f64,
    found: String,
    line: Option<u32>,
    instruction: Option<String>,
    mend: Option<String>,
}

/// The points as JSON.
pub(super) fn json(subjects: &[Subject]) -> impl Serialize + '_ {
    let of = |point: Point| JsonPoint {
        point: point.name,
        ok: point.is_fine,
        number: point.number,
        found: point.found,
        line: point.line.as_ref().map(|(line, _)| *line),
        instruction: point.line.map(|(_, text)| text),
        mend: point.mend,
    };
    subjects
        .iter()
        .map(|subject| (subject, points(subject, subjects.len())))
        .map(|(subject, points)| Json {
            kernel: &subject.kernel,
            arch: subject.arch.to_string(),
            grid: subject.grid,
            block: subject.block,
            launches: subject.launches,
            first: change(subject, &points).map(|Change { name, text, place }| JsonChange { name, text, place }),
            points: points.into_iter().map(of).collect(),
        })
        .collect::<Vec<_>>()
}
