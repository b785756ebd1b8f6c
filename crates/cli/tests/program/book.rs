//! The commands of the book, run as its reader runs them.
//!
//! A block of `console` has a command after `$ `, which goes on after a `\` at the end of its line,
//! and lines that its output has, in this order; `…` stands for any others. `console,exits-with-1`
//! says how it ends, if not with 0.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{finish, folder, program, refused, warpfold};

/// A command, how it ends, and what it shows.
struct Block {
    command: Vec<String>,
    code: i32,
    shown: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn chapters() -> Vec<(String, String)> {
    let files = fs::read_dir(root().join("docs/book/src")).expect("there is a book");
    let paths =
        files.map(|file| file.expect("readable").path()).filter(|path| path.extension().is_some_and(|e| e == "md"));
    let mut all: Vec<_> =
        paths.map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("text"))).collect();
    all.sort();
    all
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for part in text.split("```console").skip(1) {
        let (info, rest) = part.split_once('\n').expect("a block has lines");
        let body = rest.split_once("```").expect("a block ends").0.replace("\\\n", " ");
        let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty());
        let command = lines.next().and_then(|line| line.strip_prefix("$ warpfold ")).expect("a command of the program");
        blocks.push(Block {
            command: command.split_whitespace().map(str::to_owned).collect(),
            code: info.strip_prefix(",exits-with-").map_or(0, |code| code.parse().expect("a number")),
            shown: lines.filter(|line| *line != "…").map(str::to_owned).collect(),
        });
    }
    blocks
}

#[test]
fn every_command_of_the_book_does_what_it_shows() {
    fs::create_dir_all(root().join("target/book")).expect("a folder for what commands write");
    let mut num = 0;
    for (chapter, text) in chapters() {
        for Block { command, code, shown } in blocks(&text) {
            let args: Vec<&str> = command.iter().map(String::as_str).collect();
            let outcome = finish(program(&args).current_dir(root())).ended_with(code);
            let mut rest = outcome.stdout.as_str();
            for line in shown {
                let at =
                    rest.find(&line).unwrap_or_else(|| panic!("{chapter}: {command:?} shows no '{line}':\n{rest}"));
                rest = &rest[at + line.len()..];
            }
            num += 1;
        }
    }
    assert!(num >= 4, "{num} commands");
}

#[test]
fn a_hundred_terms_have_a_command_each() {
    let text = fs::read_to_string(root().join("docs/book/src/glossary.md")).expect("there is a glossary");
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| term "));
    let commands: Vec<&str> = rows.map(|row| row.rsplit('`').nth(1).expect("a command")).collect();
    assert!(commands.len() >= 100, "{} terms", commands.len());
    // A third of them, all with WARPFOLD_ALL_TESTS=1.
    let every = if std::env::var_os("WARPFOLD_ALL_TESTS").is_some() { 1 } else { 3 };
    for command in commands.iter().step_by(every) {
        let args: Vec<&str> = command.strip_prefix("warpfold ").expect("the program").split_whitespace().collect();
        finish(program(&args).current_dir(root())).ended_with(0);
    }
}

#[test]
fn every_chapter_is_in_the_table_of_contents_and_among_the_programs_that_are_compiled() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("there");
    let (contents, compiled) = (read("docs/book/src/SUMMARY.md"), read("crates/report/src/book.rs"));
    for (chapter, _) in chapters().iter().filter(|(chapter, _)| !chapter.ends_with("SUMMARY.md")) {
        let name = Path::new(chapter).file_name().expect("a file").to_string_lossy().into_owned();
        assert!(contents.contains(&name) && compiled.contains(&name), "{name}");
    }
}

#[test]
fn the_readme_shows_what_the_ladder_prints() {
    let text = fs::read_to_string(root().join("README.md")).expect("there is a README");
    let shown = text.split_once("A ladder's table").and_then(|(_, rest)| rest.split("```").nth(1)).expect("a block");
    let args =
        ["ladder", "reduce", "--size", "65536", "--device", "virtual", "--rung", "naive", "--rung", "interleaved"];
    let printed = finish(program(&args).current_dir(root())).ended_with(0).stdout;
    // Columns are as wide as all ten rungs want them.
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    for line in shown.lines().map(words).filter(|line| !line.is_empty()) {
        assert!(words(&printed).contains(&line), "'{line}' is not in\n{printed}");
    }
    for picture in ["docs/race.png", "docs/reduce.png"] {
        let bytes = fs::metadata(root().join(picture)).expect("there is a picture").len();
        assert!(text.contains(picture) && bytes < 100_000, "{picture}: {bytes} bytes");
    }
}

#[test]
fn the_pictures_of_serving_are_as_they_are_drawn() {
    let names = warpfold(&["draw", "--list"]).ended_with(0).stdout;
    let of_engine: Vec<&str> = names
        .lines()
        .filter(|name| ["batching", "chunked", "serving"].iter().any(|part| name.starts_with(part)))
        .collect();
    assert_eq!(of_engine.len(), 6, "{of_engine:?}");
    let folder = folder("the_pictures_of_serving_are_as_they_are_drawn");
    let to = folder.display().to_string();
    warpfold(&[&["draw", "-o", &to], &of_engine[..]].concat()).ended_with(0);
    for name in names.lines() {
        let kept = fs::read_to_string(root().join(format!("docs/book/src/pictures/{name}.svg")));
        let kept = kept.unwrap_or_else(|error| panic!("{name}: {error}"));
        if of_engine.contains(&name) {
            let drawn = fs::read_to_string(folder.join(format!("{name}.svg"))).expect("it was drawn");
            assert!(kept == drawn, "{name}: warpfold draw -o docs/book/src/pictures writes it");
        }
    }
    refused(&["draw"], 2, "--output");
    refused(&["draw", "batchin", "-o", &to], 2, "did you mean 'batching'?");
}

#[test]
fn every_picture_is_in_the_book_and_the_book_has_no_other() {
    let names = warpfold(&["draw", "--list"]).ended_with(0).stdout;
    let text: String = chapters().into_iter().map(|(_, text)| text).collect();
    for name in names.lines() {
        assert!(text.contains(&format!("](pictures/{name}.svg)")), "{name} is in no chapter");
    }
    for part in text.split("](pictures/").skip(1) {
        let name = part.split(".svg)").next().unwrap_or_default();
        assert!(names.lines().any(|known| known == name), "{name} is not drawn");
    }
}
