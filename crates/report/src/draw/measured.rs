//! What a run counted: a ladder's bars, one warp's access, a roofline, spans of time.

use std::collections::{BTreeMap, BTreeSet};

use warpfold_ladders::ladder::{Ladder, LadderReport, Metric};
use warpfold_sim::{MemorySpace, WarpAccess};

use super::canvas::Canvas;
use crate::ladder::problem_size;
use crate::table::grouped;

/// A metric of the rungs of a ladder that was run on the virtual GPU, as bars; `None` where no rung
/// has counters.
#[must_use]
pub fn ladder_svg(ladder: &Ladder, report: &LadderReport, metric: Metric) -> Option<String> {
    let values: Vec<(&str, f64)> =
        report.rungs.iter().filter_map(|rung| Some((rung.name, metric.of(&rung.measured()?)))).collect();
    let size = problem_size(ladder, report.size);
    let title = format!("{}, {size} {}: {metric}", ladder.name, report.dtype);
    (!values.is_empty()).then(|| bars_svg(&title, &values))
}

/// Numbers with their names, as bars.
#[must_use]
pub fn bars_svg(title: &str, values: &[(&str, f64)]) -> String {
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut picture = Canvas::new(title);
    for (i, &(name, value)) in (0..).zip(values) {
        let y = picture.top + 20 * i;
        picture.text(112, y + 12, "n", name);
        picture.rect((118, y), (196, 15), "p", "");
        let width = if most > 0.0 { (196.0 * value / most).round() as i32 } else { 0 };
        picture.rect((118, y), (width, 15), "b", "");
        picture.text(320, y + 12, "", &metric_text(value));
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

/// Words of 4 bytes in a row of a picture, and the size of their boxes.
const WORDS: u64 = 16;
const CELL: i32 = 21;
const LEFT: i32 = 52;

fn banks(title: &str, access: &WarpAccess) -> String {
    let mut columns = vec![Vec::new(); 32];
    words(access).into_iter().for_each(|(word, of)| columns[(word % 32) as usize].push((word, of)));
    let deepest = columns.iter().map(Vec::len).max().unwrap_or_default();
    let told = format!("{title}: {deepest} word{} of one bank at once", if deepest == 1 { "" } else { "s" });
    let mut picture = Canvas::new(&told);
    for (half, columns) in (0..).zip(columns.chunks(WORDS as usize)) {
        let top = picture.top + half * (34 + 17 * deepest as i32);
        picture.text(LEFT - 8, top + 10, "n q", "bank");
        for (bank, column) in (0..).zip(columns) {
            let x = LEFT + CELL * bank;
            picture.text(x + CELL / 2, top + 10, "m q s", &(half * WORDS as i32 + bank).to_string());
            for (i, (word, of)) in (0..).zip(column) {
                let y = top + 16 + 17 * i;
                picture.rect((x + 1, y), (CELL - 2, 15), if i > 0 { "a" } else { "b" }, &format!("word {word}"));
                picture.text(x + CELL / 2, y + 11, "m s w", &lanes(of));
            }
        }
    }
    picture.end()
}

/// Rows of memory that a picture has room for.
const MOST_ROWS: usize = 8;

fn ruler(title: &str, access: &WarpAccess) -> String {
    let words = words(access);
    let sectors: BTreeSet<u64> = words.keys().map(|word| word / 8).collect();
    let rows: Vec<u64> = sectors.iter().map(|sector| sector / 2).collect::<BTreeSet<_>>().into_iter().collect();
    let (asked, fetched) = (4 * words.len(), 32 * sectors.len());
    let told = format!(
        "{title}: {asked} bytes asked for, {} sectors fetched, {} % used",
        sectors.len(),
        100 * asked / fetched.max(1)
    );
    let shown = rows.len().min(MOST_ROWS);
    let mut picture = Canvas::new(&told);
    let top = picture.top;
    for (i, row) in (0..).zip(rows.iter().take(shown)) {
        let y = top + CELL * i;
        picture.text(LEFT - 8, y + 13, "n q", &format!("+{:x}", (row - rows[0]) * 64));
        for place in 0..WORDS {
            let word = row * WORDS + place;
            let of = words.get(&word);
            let class = match of {
                Some(_) => "b",
                None if sectors.contains(&(word / 8)) => "o",
                None => "p",
            };
            // A wider gap where a sector begins.
            let x = LEFT + (CELL - 1) * place as i32 + 6 * (place as i32 / 8);
            picture.rect((x, y), (CELL - 2, CELL - 4), class, "");
            if let Some(of) = of {
                picture.text(x + CELL / 2, y + 12, "m s w", &lanes(of));
            }
        }
    }
    let mut y = top + CELL * shown as i32;
    if rows.len() > shown {
        picture.text(LEFT, y + 13, "q", &format!("and {} rows of 64 bytes more", rows.len() - shown));
        y += CELL;
    }
    if sectors.len() * 8 > words.len() {
        picture.legend(y + 4, &[("b", "used, with its lane"), ("o", "fetched, not used")]);
    }
    picture.end()
}
