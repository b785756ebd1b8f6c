//! The pictures of the book: made from runs on the virtual GPU, and committed.
//!
//! `warpfold draw -o docs/book/src/pictures` writes them; here they have to be as they are drawn.

use std::fs;
use std::path::Path;

use warpfold_device::{Device, Profile};
use warpfold_report::PICTURES;

/// The largest file that belongs into a repository of sources.
const MOST_BYTES: usize = 20_000;

/// Units across. Letters are counted as wide as those of a wide typeface.
const WIDTH: f64 = 400.0;

/// The text elements of a picture: class, place, text.
fn texts(svg: &str) -> Vec<(String, f64, String)> {
    let attribute = |element: &str, name: &str| {
        element.split_once(&format!("{name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap_or_default().to_owned())
    };
    let elements = svg.split("<text").skip(1).filter_map(|rest| rest.split_once("</text>"));
    let read = |(element, _): (&str, &str)| {
        let (head, text) = element.split_once('>').expect("an element");
        let x = attribute(head, " x").and_then(|x| x.parse().ok()).expect("a place");
        (attribute(head, "class").unwrap_or_default(), x, text.replace("&lt;", "<").replace("&gt;", ">"))
    };
    elements.map(read).collect()
}

#[test]
fn pictures_are_as_they_are_drawn() {
    let device = Device::virtual_gpu(Profile::H200);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/pictures");
    for picture in PICTURES {
        let (name, svg) = (picture.file, picture.draw(&device).expect("it is drawn"));
        assert!(svg.len() < MOST_BYTES, "{name} has {} bytes", svg.len());
        let kept = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(kept == svg, "{name} is not as it is drawn: warpfold draw -o docs/book/src/pictures writes it");
    }
}

#[test]
fn no_text_leaves_its_picture() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/pictures");
    for file in fs::read_dir(folder).expect("there are pictures") {
        let path = file.expect("readable").path();
        for (class, x, text) in texts(&fs::read_to_string(&path).expect("text")) {
            let words: Vec<&str> = class.split(' ').collect();
            let letter = match () {
                () if words.contains(&"s") => 5.6,
                () if words.contains(&"h") => 7.4,
                () => 6.7,
            };
            let width = letter * text.chars().count() as f64;
            let (left, right) = match () {
                () if words.contains(&"n") => (x - width, x),
                () if words.contains(&"m") => (x - width / 2.0, x + width / 2.0),
                () => (x, x + width),
            };
            assert!(left >= -2.0 && right <= WIDTH + 2.0, "{}: '{text}' from {left} to {right}", path.display());
        }
    }
}
