//! A ladder's report: as text, as JSON, and what a page draws of it.

mod json;
mod text;

use warpfold_device::{Device, LaunchReport};
use warpfold_kernels::Dtype;
use warpfold_ladders::ladder::{Ladder, LadderReport, Launch, RungReport};
use warpfold_ladders::{rung_source, source_of_path};

pub use json::LadderJson;
pub use text::ladder_text;

use crate::drawing::{Drawing, Shape};
use crate::page::{About, Kind, Page};
use crate::roofline::{self, Figures, Point, Roofline};
use crate::table::grouped;

/// A ladder that was run, and on what.
#[derive(Debug, Clone, Copy)]
pub struct LadderRun<'a> {
    /// The ladder.
    pub ladder: &'a Ladder,
    /// What came of it. Its kernels are drawn, too, if it was run with
    /// [`RunOptions::record`](warpfold_ladders::ladder::RunOptions::record).
    pub report: &'a LadderReport,
    /// The device it ran on.
    pub device: &'a Device,
}

/// A size in the words of a heading: `33,554,432`, `512x512x512`, `1,048,576 elements, columns 32`.
pub(crate) fn problem_size(ladder: &Ladder, size: u64) -> String {
    match ladder.size_text(size) {
        None => grouped(size),
        Some(text) => match text.split_once(" with ") {
            Some((elements, option)) => {
                let elements = elements.parse().map_or_else(|_| elements.to_owned(), grouped);
                format!("{elements} elements, {},", option.replace(" =", ""))
            }
            None => text,
        },
    }
}

/// A page of a ladder. `sources` are the Rust sources of rungs by their names, or files by how
/// their paths end; those of the ladders that come with warpfold are known.
#[must_use]
pub fn ladder_page(run: LadderRun<'_>, sources: &[(&str, &str)], about: &About) -> Page {
    let LadderRun { ladder, report, device } = run;
    let size = problem_size(ladder, report.size);
    let mut page = Page::new(Kind::Ladder, report.ladder, &LadderJson::new(ladder, report), about);
    page.subtitle = format!("{}: {size} {} on {}", ladder.problem, report.dtype, report.device);
    (page.verdict, page.is_ok) = (verdict(report), report.is_ok());
    for rung in &report.rungs {
        let given = sources.iter().find(|(name, _)| *name == rung.name).map(|(_, text)| *text);
        if let Some(source) = given.or_else(|| rung_source(ladder.name, rung.name)) {
            let measured = format!("Measured: warpfold ladder {}", ladder.name);
            let source = source.replace("Measured: see `LADDER` (generated).", &measured);
            page.sources.insert(rung.name.to_owned(), source);
        }
        page.kernels.insert(rung.name.to_owned(), drawings(run, sources, rung));
    }
    page.roofline = roofline_of(report, device);
    page
}

fn verdict(report: &LadderReport) -> String {
    let num = report.rungs.len();
    let right = report.rungs.iter().filter(|rung| rung.ok).count();
    let findings: usize = report.rungs.iter().map(|rung| rung.findings.len()).sum();
    let found = match findings {
        0 => "no findings".to_owned(),
        1 => "1 finding".to_owned(),
        n => format!("{n} findings"),
    };
    format!("{right} of {num} rungs right, {found}.")
}

/// The kernels of a rung, where its launches were recorded.
fn drawings(run: LadderRun<'_>, sources: &[(&str, &str)], rung: &RungReport) -> Vec<Drawing> {
    let Ok(known) = run.ladder.rung(rung.name) else { return Vec::new() };
    let text_of = |file: &str| -> Option<String> {
        let given = sources.iter().find(|(name, _)| is_path_end(file, name)).map(|(_, text)| *text);
        given.or_else(|| source_of_path(run.ladder.name, file)).map(str::to_owned)
    };
    let drawn = |(launch, told): (&Launch, &LaunchReport)| {
        Some(drawing(run, launch, told)?.with_source(&told.report, &text_of))
    };
    known.launches.iter().zip(&rung.launches).filter_map(drawn).collect()
}

/// Whether a path ends in a file's name, with or without folders.
fn is_path_end(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with(['/', '\\']))
}

/// The kernel of one launch; nothing if it cannot be built for the device, on which it ran.
fn drawing(run: LadderRun<'_>, launch: &Launch, told: &LaunchReport) -> Option<Drawing> {
    let (report, device) = (run.report, run.device);
    // Launches are recorded on virtual GPUs, whose texts have lines of source.
    let built = launch.kernel(report.dtype, report.size).build_with_lines(&device.target()).ok()?;
    let shape = Shape {
        arch: device.arch(),
        grid: told.config.grid,
        block: told.config.block,
        dynamic_shared: u32::try_from(built.dynamic_shared_bytes).unwrap_or(u32::MAX),
    };
    Some(Drawing::new(&built.ptx(), &built.entry, &shape, &told.report))
}

/// The roofline of a ladder in figures; `None` where no roof of the device is known. On the virtual
/// GPU operations are counted where the ladder was run with
/// [`RunOptions::record`](warpfold_ladders::ladder::RunOptions::record).
#[must_use]
pub fn ladder_roofline(run: LadderRun<'_>) -> Option<Figures> {
    roofline_of(run.report, run.device).map(Figures::from)
}

fn roofline_of(report: &LadderReport, device: &Device) -> Option<Roofline> {
    let point = |rung: &RungReport| {
        let instructions = rung.launches.iter().flat_map(|launch| &launch.report.instructions);
        let counters = rung.counters.unwrap_or_default();
        let sectors = counters.global_load_sectors + counters.global_store_sectors;
        Point {
            name: rung.name.to_owned(),
            flops: rung.flops.unwrap_or_else(|| roofline::operations(instructions, report.dtype == Dtype::I32)),
            // Without counters, what any solution has to move.
            bytes: if rung.counters.is_some() { 32 * sectors } else { rung.bytes },
            seconds: rung.seconds,
        }
    };
    let points: Vec<Point> = report.rungs.iter().map(point).collect();
    let roofs = roofline::roofs(device.name(), report.dtype, report.copy_gigabytes_per_second)?;
    Some(Roofline { roofs, points })
}
