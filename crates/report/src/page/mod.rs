//! The page: a template, a style and a script, put together with a report into one file.
//!
//! `page.html` has the places that are filled here; `dom.js` what the other scripts make elements
//! with; `series.js` turns any report into rows of numbers; `main.js` says what stands where.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::drawing::Drawing;
use crate::roofline::Roofline;
use crate::steps::WarpSteps;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// In the order in which they need one another.
const SCRIPTS: [&str; 12] = [
    include_str!("dom.js"),
    include_str!("series.js"),
    include_str!("bars.js"),
    include_str!("diff.js"),
    include_str!("memory.js"),
    include_str!("kernel.js"),
    include_str!("roofline.js"),
    include_str!("timeline.js"),
    include_str!("theatre.js"),
    include_str!("step.js"),
    include_str!("compare.js"),
    include_str!("main.js"),
];

/// No page is larger, if that can be had by leaving out lines of PTX: what a browser opens at once.
const MAX_BYTES: usize = 4_000_000;

/// What a page is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A ladder.
    Ladder,
    /// A ladder whose rungs are no kernels: numbers and a sentence for each.
    Rungs,
    /// One kernel on the virtual GPU.
    Kernel,
    /// Operators.
    Bench,
    /// Clients of a language model.
    Serve,
    /// The steps of an engine.
    Steps,
    /// Copies and kernels on streams, in time or in order.
    Timeline,
}

/// Where a report comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The command that gives it.
    pub command: Option<String>,
    /// When it was made, in seconds since 1970.
    pub unix_seconds: Option<u64>,
}

/// Times that were recorded, for a page of a device that has no clock.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedTimes {
    /// Size, device and day: `with --size 33554432, on NVIDIA H200, 2026-11-23`.
    pub origin: String,
    /// By the rung's name.
    pub rungs: BTreeMap<String, RecordedTime>,
}

/// The time of one rung.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedTime {
    /// The median of its runs.
    pub seconds: f64,
    /// Bytes that any solution moves, per second.
    pub gigabytes_per_second: Option<f64>,
    /// Its bandwidth by that of a copy.
    pub share_of_copy: Option<f64>,
    /// What limits it there.
    pub limited_by: Option<String>,
}

/// A page with pictures: one HTML file that holds its data and needs no network.
///
/// ```
/// use warpfold_report::{About, Kind, Page};
///
/// let data = serde_json::json!({"device": "a GPU", "cases": []});
/// let page = Page::new(Kind::Bench, "sums", &data, &About::default());
/// assert!(page.html().starts_with("<!doctype html>"));
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    kind: Kind,
    title: String,
    /// What it is about, in a line.
    pub subtitle: String,
    /// What came of it, in a line.
    pub verdict: String,
    /// Whether that is good.
    pub is_ok: bool,
    command: Option<String>,
    unix_seconds: Option<u64>,
    version: &'static str,
    data: Value,
    /// Kernels, by the rung or the entry that they are of.
    pub kernels: BTreeMap<String, Vec<Drawing>>,
    /// Rust sources by rung.
    pub sources: BTreeMap<String, String>,
    pub(crate) roofline: Option<Roofline>,
    /// Times of a ladder's rungs that were recorded earlier, on another device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedTimes>,
    /// The steps of a warp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<WarpSteps>,
}

impl Page {
    /// A page of a report in the form that `--report json` has.
    #[must_use]
    pub fn new(kind: Kind, title: &str, data: &impl Serialize, about: &About) -> Self {
        Self {
            kind,
            title: title.to_owned(),
            subtitle: String::new(),
            verdict: String::new(),
            is_ok: true,
            command: about.command.clone(),
            unix_seconds: about.unix_seconds,
            version: env!("CARGO_PKG_VERSION"),
            data: serde_json::json!(data),
            kernels: BTreeMap::new(),
            sources: BTreeMap::new(),
            roofline: None,
            recorded: None,
            steps: None,
        }
    }

    /// The file. Of kernels that would make it larger than 4 MB the PTX without an access to memory
    /// is left out, the longest text first, and the page says so.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = self.clone();
        let mut html = page.filled();
        while html.len() > MAX_BYTES {
            let drawings = page.kernels.values_mut().flatten();
            let Some(largest) = drawings.filter(|d| d.can_shrink()).max_by_key(|d| d.num_bytes()) else { break };
            largest.shrink();
            html = page.filled();
        }
        html
    }

    fn filled(&self) -> String {
        let json = serde_json::to_string(self).expect("a page is made of strings and numbers");
        // The places are looked for in the template alone: what is filled in may hold anything.
        let mut html = String::new();
        let mut rest = TEMPLATE;
        let script = SCRIPTS.concat();
        let title = escaped(&self.title);
        let places = [
            ("<!-- title -->", title.as_str()),
            ("/* style */", STYLE),
            ("<!-- report -->", &in_script(&json)),
            ("/* script */", &script),
        ];
        for (place, text) in places {
            let (before, after) = rest.split_once(place).expect("the template has each place, in this order");
            html.push_str(before);
            html.push_str(text);
            rest = after;
        }
        html + rest
    }
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// JSON within a script element: no text of it can end the element, or open a comment.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><script>alert(1)</script><!-- report -->/* script */";

    #[test]
    fn hostile_text_ends_no_element() {
        let page = Page::new(Kind::Kernel, HOSTILE, &serde_json::json!({"kernel": HOSTILE}), &About::default());
        let html = page.html();
        assert_eq!(html.matches("</script>").count(), 2, "the report and the script");
        assert_eq!(html.matches("</title>").count(), 1);
        assert!(!html.contains("<script>alert"));
    }

    #[test]
    fn the_script_ends_no_element_and_asks_for_nothing() {
        let all = (SCRIPTS.concat() + STYLE).replace("http://www.w3.org/2000/svg", "");
        for word in ["</script", "innerHTML", "fetch(", "http://", "XMLHttpRequest", "import "] {
            assert!(!all.contains(word), "{word}");
        }
    }

    #[test]
    fn the_page_without_data_leaves_room_for_it() {
        let page = Page::new(Kind::Bench, "b", &serde_json::json!({"cases": []}), &About::default());
        assert!(page.html().len() < 100_000, "{}", page.html().len());
    }
}
