//! Small pictures as SVG, for documents: a ladder's bars, and one warp's access.
//!
//! Where a [`Page`](crate::Page) can be opened, it shows more. Colours are those of the page, in
//! light and dark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use warpfold_ladders::ladder::{Ladder, LadderReport, Metric};
use warpfold_sim::{MemorySpace, WarpAccess};

use crate::table::grouped;

const WIDTH: u32 = 720;
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1a1c20}.q{fill:#5a6068}.n{text-anchor:end}.m{text-anchor:middle;font-size:9px}\
.g{fill:#fff}.p{fill:#eceef1}.b{fill:#0072b2}.a{fill:#b83e00}.o{fill:#e8c48f}.w{fill:#fff}\
@media(prefers-color-scheme:dark){text{fill:#e8e9ec}.q{fill:#a5abb5}.g{fill:#16181c}.p{fill:#2a2e36}.b{fill:#56b4e9}\
.a{fill:#ff8a4c}.o{fill:#7a5417}.w{fill:#000}}";

/// A metric of the rungs of a ladder that was run on the virtual GPU, as bars; `None` where no rung
/// has counters.
#[must_use]
pub fn ladder_svg(ladder: &Ladder, report: &LadderReport, metric: Metric) -> Option<String> {
    let values: Vec<(&str, f64)> =
        report.rungs.iter().filter_map(|rung| Some((rung.name, metric.of(&rung.measured()?)))).collect();
    let size = ladder.size_text(report.size).unwrap_or_else(|| grouped(report.size as u64));
    let title = format!("{}, {size} {}: {metric}", ladder.name, report.dtype);
    (!values.is_empty()).then(|| bars_svg(&title, &values))
}

/// Numbers with their names, as bars.
#[must_use]
pub fn bars_svg(title: &str, values: &[(&str, f64)]) -> String {
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut picture = Picture::new(title, 40 + 22 * values.len() as u32);
    for (i, &(name, value)) in values.iter().enumerate() {
        let y = 34 + 22 * i as u32;
        picture.text(150, y + 12, "n", name);
        picture.rect((160, y), (420, 16), "p", "");
        let width = if most > 0.0 { (420.0 * value / most).round() as u32 } else { 0 };
        picture.rect((160, y), (width, 16), "b", "");
        picture.text(590, y + 12, "", &metric_text(value));
    }
    picture.end()
}

fn metric_text(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value as u64) } else { format!("{value:.3}") }
}

/// One warp's access: lanes by bank for shared memory, lanes on lines and sectors for global
/// memory.
#[must_use]
pub fn access_svg(title: &str, access: &WarpAccess) -> String {
    match access.space {
        MemorySpace::Shared => banks(title, access),
        MemorySpace::Global => ruler(title, access),
    }
}

/// The words of an access, each with the lanes that ask for it.
fn words(access: &WarpAccess) -> BTreeMap<u64, Vec<usize>> {
    let mut words: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for lane in (0..32).filter(|lane| access.mask >> lane & 1 != 0) {
        let first = access.addresses[lane] / 4;
        for word in first..first + u64::from(access.bytes.div_ceil(4)) {
            words.entry(word).or_default().push(lane);
        }
    }
    words
}

/// `0–3,7` for lanes in order.
fn lanes(lanes: &[usize]) -> String {
    match lanes {
        [first, .., last] if last - first + 1 == lanes.len() => format!("{first}–{last}"),
        _ => lanes.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}

const CELL: u32 = 20;
const LEFT: u32 = 60;

fn banks(title: &str, access: &WarpAccess) -> String {
    let mut columns = vec![Vec::new(); 32];
    words(access).into_iter().for_each(|(word, of)| columns[(word % 32) as usize].push((word, of)));
    let deepest = columns.iter().map(Vec::len).max().unwrap_or_default();
    let told = format!("{title}: {deepest} word{} of one bank at once", if deepest == 1 { "" } else { "s" });
    let mut picture = Picture::new(&told, 56 + (CELL - 4) * deepest as u32);
    picture.text(LEFT - 8, 40, "n q", "bank");
    for (bank, column) in columns.iter().enumerate() {
        let x = LEFT + CELL * bank as u32;
        picture.text(x + CELL / 2, 40, "m q", &bank.to_string());
        for (i, (word, of)) in column.iter().enumerate() {
            let y = 46 + (CELL - 4) * i as u32;
            picture.rect((x + 1, y), (CELL - 2, CELL - 6), if i > 0 { "a" } else { "b" }, &format!("word {word}"));
            picture.text(x + CELL / 2, y + 11, "m w", &lanes(of));
        }
    }
    picture.end()
}

/// Lines of memory that a picture has room for.
const MOST_LINES: usize = 8;

fn ruler(title: &str, access: &WarpAccess) -> String {
    let words = words(access);
    let sectors: BTreeSet<u64> = words.keys().map(|word| word / 8).collect();
    let lines: Vec<u64> = sectors.iter().map(|sector| sector / 4).collect::<BTreeSet<_>>().into_iter().collect();
    let (asked, fetched) = (4 * words.len(), 32 * sectors.len());
    let told = format!(
        "{title}: {asked} bytes asked for, {} sectors fetched, {} % used",
        sectors.len(),
        100 * asked / fetched.max(1)
    );
    let shown = lines.len().min(MOST_LINES);
    let more = lines.len() - shown;
    let mut picture = Picture::new(&told, 44 + CELL * (shown as u32 + u32::from(more > 0)));
    for (i, line) in lines.iter().take(shown).enumerate() {
        let y = 34 + CELL * i as u32;
        picture.text(LEFT - 8, y + 13, "n q", &format!("+{:x}", (line - lines[0]) * 128));
        for place in 0..32 {
            let word = line * 32 + place;
            let of = words.get(&word);
            let class = match of {
                Some(_) => "b",
                None if sectors.contains(&(word / 8)) => "o",
                None => "p",
            };
            // A wider gap where a sector begins.
            let x = LEFT + (CELL - 1) * place as u32 + 4 * (place as u32 / 8);
            picture.rect((x, y), (CELL - 2, CELL - 4), class, "");
            if let Some(of) = of {
                picture.text(x + CELL / 2, y + 12, "m w", &lanes(of));
            }
        }
    }
    if more > 0 {
        picture.text(LEFT, 34 + CELL * shown as u32 + 13, "q", &format!("and {more} lines more"));
    }
    picture.end()
}

/// An SVG that grows by elements.
struct Picture(String);

impl Picture {
    fn new(title: &str, height: u32) -> Self {
        let title = escaped(title);
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\">\
             <title>{title}</title><style>{STYLE}</style>\n\
             <rect class=\"g\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/><text x=\"12\" y=\"20\">{title}</text>\n"
        ))
    }

    fn rect(&mut self, (x, y): (u32, u32), (width, height): (u32, u32), class: &str, title: &str) {
        let end = if title.is_empty() { "/>".to_owned() } else { format!("><title>{}</title></rect>", escaped(title)) };
        let _ =
            writeln!(self.0, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{end}");
    }

    fn text(&mut self, x: u32, y: u32, class: &str, text: &str) {
        let _ = writeln!(self.0, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(text));
    }

    fn end(self) -> String {
        self.0 + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
