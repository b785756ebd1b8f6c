//! What a run tells: as text, as JSON, and as a page with pictures in one file.
//!
//! Start with [`Page`]: what is drawn of a ladder, of a kernel, of measurements. [`ladder_text`]
//! and [`ladder_page`] print and draw any [`Ladder`](warpfold_ladders::ladder::Ladder), yours too
//! (`examples/20_own_ladder.rs`); [`annotated`] and [`Drawing`] are about one kernel. [`json`] has
//! what reports have in common; [`PICTURES`], [`ladder_svg`] and [`access_svg`] draw for documents.
//!
//! The page is `page/`: HTML, CSS and JavaScript by hand, one file a picture, put together here. It
//! holds its data as JSON, so that two reports can be compared on one page. Text of the report only
//! ever becomes text nodes there. Deliberately absent: files, clocks and devices. Who calls writes,
//! and says when it was.

mod annotate;
#[cfg(doctest)]
mod book;
mod draw;
mod drawing;
pub mod json;
mod ladder;
mod origin;
mod page;
mod roofline;
mod steps;
pub mod table;

pub use annotate::annotated;
pub use draw::{PICTURES, Picture, SlotChart, SlotState, access_svg, bars_svg, ladder_svg, slots_svg};
pub use drawing::{Drawing, Shape};
pub use ladder::{LadderJson, LadderRun, ladder_page, ladder_roofline, ladder_text};
pub use page::{About, Kind, Page, RecordedTime, RecordedTimes};
pub use roofline::{Figures, Peaks, peaks};
pub use steps::{OutputElements, WarpSteps};
