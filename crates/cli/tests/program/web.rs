//! The book in a browser: commands, exercises and the playground show what the terminal shows.
//!
//! WARPFOLD_WEB names the folder that `deploy/web.py` made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::browser::Browser;
use crate::support::{Outcome, finish};

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("WARPFOLD_WEB").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: WARPFOLD_WEB names no folder of deploy/web.py");
    }
    folder.map(|folder| folder.canonicalize().expect("WARPFOLD_WEB is a folder"))
}

/// A page of the folder, from the file system.
fn open(test: &str, folder: &Path, page: &str) -> Option<Browser> {
    let mut browser = Browser::open(&format!("web-{test}"), &url(folder, page))?;
    browser.wait_for("document.readyState === 'complete' && document.querySelector('main')");
    Some(browser)
}

fn url(folder: &Path, page: &str) -> String {
    format!("file://{}/{page}", folder.display())
}

/// Leaves a page for another.
fn go_to(browser: &mut Browser, folder: &Path, page: &str) {
    browser.call("Page.navigate", serde_json::json!({"url": url(folder, page)}));
    browser.wait_for(&format!("document.readyState === 'complete' && location.href.endsWith('/{page}')"));
}

/// The program on one core, whose virtual GPU then has one worker, as in a page.
fn on_one_core(words: &[&str]) -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new("taskset");
    command.args(["-c", "0", env!("CARGO_BIN_EXE_warpfold")]).args(words);
    finish(command.env_remove("WARPFOLD_DEVICE").env_remove("PTXAS").current_dir(root))
}

/// Presses the button of a place of the page; returns the exit code and what is printed.
fn pressed(browser: &mut Browser, place: &str) -> (String, String) {
    let done = browser.value(&format!(
        "(async () => {{
            const place = {place};
            place.querySelector('button.run').click();
            while (!place.querySelector('.output').dataset.code) await new Promise((wake) => setTimeout(wake, 20));
            const printed = [...place.querySelectorAll('.terminal span:not(.error)')].map((span) => span.textContent);
            return [place.querySelector('.output').dataset.code, printed.join('') + place.querySelector('.status').textContent];
        }})()"
    ));
    let text = |i: usize| done[i].as_str().expect("a text").to_owned();
    (text(0), text(1))
}

#[test]
fn every_command_of_the_book_shows_in_a_page_what_it_shows_in_a_terminal() {
    let Some(folder) = folder() else { return };
    // Where commands of the book write, as they do in its own test.
    fs::create_dir_all(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/book")).expect("made");
    let mut num = 0;
    let mut pages: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|file| file.expect("readable").path()).collect();
    pages.retain(|page| {
        fs::read_to_string(page).is_ok_and(|text| text.contains("data-command"))
            && page.extension().is_some_and(|end| end == "html")
    });
    pages.sort();
    let Some(mut browser) = open("book", &folder, "index.html") else { return };
    for page in pages {
        let name = page.file_name().expect("a file").to_string_lossy().into_owned();
        go_to(&mut browser, &folder, &name);
        let commands =
            browser.value("[...document.querySelectorAll('[data-command]')].map((place) => place.dataset.command)");
        for (i, command) in commands.as_array().expect("commands").iter().enumerate() {
            let command = command.as_str().expect("a command");
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            let (code, mut shown) = pressed(&mut browser, &format!("document.querySelectorAll('[data-command]')[{i}]"));
            let status = shown.rfind("exit code ").unwrap_or_else(|| panic!("{name}: {command}: {shown}"));
            shown.truncate(status);
            // What GPUs the machine has is not the page's to say.
            if words[0] != "devices" {
                let expected = on_one_core(&words);
                assert_eq!(code, expected.code.to_string(), "{name}: {command}:\n{shown}");
                // The ladder of sums goes on over devices, for which a page has no threads.
                let expected = match expected.stdout.find("\nreduce: the sum of ") {
                    Some(end) if words[..2] == ["ladder", "reduce"] => &expected.stdout[..end],
                    _ => &expected.stdout,
                };
                assert!(shown == expected, "{name}: {command}: the page shows\n{shown}\nand the terminal\n{expected}");
            }
            num += 1;
        }
    }
    assert!(num > 30, "{num} commands");
}

#[test]
fn reports_of_ladders_are_the_same_in_a_page_to_the_last_bit() {
    let Some(folder) = folder() else { return };
    let Some(mut browser) = open("reports", &folder, "index.html") else { return };
    for command in [
        "ladder histogram --size 9000 --check all",
        "ladder sgemm --size 130x70x70",
        "ladder hgemm --size 130x300x200",
        "ladder attention --size 130x2x1x64x1-causal",
        "ladder norm --size 30000 --dtype bf16",
        "ladder sigmoid --size 5000 --dtype f16",
        "ladder reduce --size 4096 --dtype f32 --rung naive --rung single_pass",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--device", "virtual", "--report", "json"]).collect();
        let outcome = browser.value(&format!("warpfold.command({})", serde_json::json!(words)));
        let expected = on_one_core(&words).ended_with(0);
        assert!(
            outcome["code"] == 0 && outcome["stdout"] == expected.stdout,
            "{command}:\n{outcome}\n{}",
            expected.stdout
        );
    }
}

#[test]
fn an_exercise_takes_ptx_in_a_page() {
    let Some(folder) = folder() else { return };
    let Some(mut browser) = open("exercise", &folder, "one-thread.html") else { return };
    browser.value("document.querySelector('[data-exercise=twice] button').click()");
    browser.wait_for("document.querySelector('[data-exercise=twice] textarea')");
    let place = "document.querySelector('[data-exercise=twice]')";
    let (code, shown) = pressed(&mut browser, place);
    assert!(code == "1" && shown.contains("twice: not yet") && shown.contains("[ ] the result is wrong"), "{shown}");
    // Each thread doubles four elements; the last ones are left over.
    let body = "mul.lo.u32 %r6, %r5, 4; add.u32 %r7, %r6, 3; mul.wide.u32 %rd3, %r6, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
        setp.ge.u32 %p2, %r7, %r1; @%p2 bra tail;
        ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
        add.f32 %f1, %f1, %f1; add.f32 %f2, %f2, %f2; add.f32 %f3, %f3, %f3; add.f32 %f4, %f4, %f4;
        st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4}; bra done;
        tail: setp.ge.u32 %p2, %r6, %r1; @%p2 bra done;
        ld.global.f32 %f1, [%rd4]; add.f32 %f1, %f1, %f1; st.global.f32 [%rd5], %f1;
        add.u32 %r6, %r6, 1; add.u64 %rd4, %rd4, 4; add.u64 %rd5, %rd5, 4; bra tail;";
    browser.value(&format!(
        "{place}.querySelector('textarea').value = {place}.querySelector('textarea').value.replace(/ *\\/\\/ This thread.*/, {});
        {place}.querySelector('[aria-label=grid]').value = '98'",
        serde_json::json!(body)
    ));
    let (code, shown) = pressed(&mut browser, place);
    assert!(code == "0" && shown.contains("twice: passed"), "{shown}");
}

#[test]
fn the_playground_shows_counters_findings_and_pictures() {
    let Some(folder) = folder() else { return };
    let Some(mut browser) = open("playground", &folder, "playground.html") else { return };
    let example = "document.getElementById('example')";
    browser
        .value(&format!("{example}.value = 'a race in shared memory'; {example}.dispatchEvent(new Event('change'))"));
    browser.wait_for("document.getElementById('kernel').value === 'race' && document.getElementById('parameters').children.length === 1");
    browser.value("document.querySelector('#form button.run').click()");
    browser.wait_for("document.querySelector('#output iframe')");
    let text = browser.value("document.getElementById('output').innerText");
    let text = text.as_str().expect("a text");
    for part in ["warp instructions", "error: race in kernel race", "exit code 1"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert_eq!(
        browser.value("document.getElementById('line').textContent.startsWith('warpfold sim kernel.ptx')"),
        true
    );
    assert_eq!(browser.value("document.querySelector('iframe').srcdoc.includes('<!doctype html>')"), true);
}
