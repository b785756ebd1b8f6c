//! Pages that play the steps of an engine: `generate --report html`, `bench serve --report html`.

use std::fs;

use crate::pictures::open;
use crate::support::{folder, refused, warpfold};

#[test]
fn a_page_of_generate_has_block_tables_with_their_tokens() {
    let folder = folder("a_page_of_generate");
    let file = folder.join("tale.html");
    let to = file.display().to_string();
    let args = ["generate", "warpfold-tales", "Once upon a time", "The wolf", "--device", "virtual", "--max-tokens"];
    let more = ["3", "--block-size", "4", "--max-seqs", "1", "--report", "html", "-o", &to];
    let told = warpfold(&[&args[..], &more[..]].concat()).ended_with(0);
    assert!(told.stdout.lines().count() >= 2, "answers are printed as without a page: {}", told.stdout);
    assert!(fs::metadata(&file).expect("written").len() < 300_000);
    refused(&["generate", "warpfold-tales", "a", "--report", "html"], 2, "--output");
    refused(&["generate", "warpfold-tales", "a", "-o", &to], 2, "--report html");
    let Some(mut page) = open("a_page_of_generate", &file) else { return };
    page.expect("document.querySelectorAll('#theatre .act').length", 1);
    // One runs, the other waits for its seat.
    page.expect("document.querySelector('#theatre').textContent.includes('seats: 1 needed, 0 free')", true);
    let filled = "[...document.querySelectorAll('.slot.filled')].map((slot) => slot.textContent).join('')";
    page.expect(&format!("{filled}.startsWith('Once upon a time')"), true);
    let before = page.value(filled);
    page.value("[...document.querySelectorAll('#theatre button')].at(-1).click()");
    assert_ne!(page.value(filled), before);
    page.is_content();
}

#[test]
fn a_page_of_beams_has_the_tokens_of_each() {
    let file = folder("a_page_of_beams").join("beams.html");
    let to = file.display().to_string();
    let args = ["generate", "warpfold-tales", "The wolf said to the", "--device", "virtual", "--max-tokens", "3"];
    let more = ["--beam", "2", "--block-size", "4", "--report", "html", "-o", &to];
    warpfold(&[&args[..], &more[..]].concat()).ended_with(0);
    let Some(mut page) = open("a_page_of_beams", &file) else { return };
    page.value("[...document.querySelectorAll('#theatre button')].at(-1).click()");
    // Both sequences have all that they computed, and none an unknown token.
    page.expect("document.querySelectorAll('.tokens').length >= 2", true);
    page.expect("[...document.querySelectorAll('.slot.filled')].every((slot) => slot.textContent !== '·')", true);
    page.is_content();
}

#[test]
fn a_page_of_bench_serve_plays_the_engine_beside_its_numbers() {
    let file = folder("a_page_of_bench_serve").join("serve.html");
    let to = file.display().to_string();
    let load = ["--requests", "1", "--concurrency", "1", "--workload", "random:2/1"];
    let bench = ["bench", "serve", "--device", "virtual", "--report", "html", "-o", &to];
    warpfold(&[&bench[..], &load].concat()).ended_with(0);
    let Some(mut page) = open("a_page_of_bench_serve", &file) else { return };
    page.expect("document.querySelectorAll('#theatre .act').length", 1);
    page.expect("document.querySelectorAll('#bench .bar').length > 0", true);
    page.is_content();
}
