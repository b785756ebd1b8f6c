//! `--report html`: pages as their reader meets them, in a real browser where there is one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::findings::floats;
use crate::support::{folder, ptx, refused, warpfold};

/// Gathers what a page complains of.
const WATCH: &str = "window.problems = [];
    for (const kind of ['error', 'unhandledrejection', 'securitypolicyviolation'])
        addEventListener(kind, (e) => problems.push(`${kind}: ${e.message ?? e.reason ?? e.violatedDirective}`), true);
    for (const kind of ['error', 'warn']) console[kind] = (...words) => problems.push(words.join(' '));";

/// A page of a file; nothing without a browser.
pub(crate) fn open(test: &str, file: &Path) -> Option<Browser> {
    let mut browser = Browser::open(test, "about:blank")?;
    browser.call("Page.enable", json!({}));
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}));
    browser.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
    browser.wait_for("document.readyState === 'complete' && document.querySelector('#version')?.textContent");
    Some(browser)
}

impl Browser {
    #[track_caller]
    pub(crate) fn expect(&mut self, expression: &str, expected: impl Into<Value>) {
        assert_eq!(self.value(expression), expected.into(), "{expression}");
    }

    /// Chooses a value of a list, as a reader does.
    fn choose(&mut self, selector: &str, value: &str) {
        self.value(&format!(
            "{{ const e = document.querySelector('{selector}'); e.value = '{value}'; e.dispatchEvent(new Event('change')); e.value }}"
        ));
    }

    fn click(&mut self, selector: &str) {
        self.value(&format!("document.querySelector('{selector}').click()"));
    }

    /// Nothing was complained of, and each control and picture has a name for those who do not see.
    #[track_caller]
    pub(crate) fn is_content(&mut self) {
        self.expect("problems", json!([]));
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let roles = ["button", "checkbox", "combobox", "slider", "spinbutton", "image", "img", "link"];
        let nodes = tree["nodes"].as_array().expect("a tree");
        let text = |node: &Value, key: &str| node[key]["value"].as_str().unwrap_or_default().to_owned();
        let controls: Vec<_> = nodes.iter().filter(|node| roles.contains(&text(node, "role").as_str())).collect();
        assert!(controls.len() > 3, "{}", controls.len());
        for node in controls {
            assert!(!text(node, "name").is_empty() || node["ignored"] == true, "a control without a name: {node}");
        }
    }

    /// Gives a file to the page, dropped or chosen.
    fn give(&mut self, name: &str, text: &str, event: &str) {
        let file = format!("new File([{}], '{name}')", json!(text));
        let deliver = match event {
            "drop" => "document.dispatchEvent(new DragEvent('drop', {dataTransfer: all, cancelable: true}))",
            _ => {
                "const e = document.getElementById('other'); e.files = all.files; e.dispatchEvent(new Event('change'))"
            }
        };
        self.value(&format!("{{ const all = new DataTransfer(); all.items.add({file}); {deliver}; 0 }}"));
    }
}

fn path(folder: &Path, name: &str) -> (PathBuf, String) {
    let file = folder.join(name);
    let text = file.to_str().expect("UTF-8").to_owned();
    (file, text)
}

#[test]
fn a_page_of_unrolled_kernels_keeps_their_accesses() {
    let (file, to) = path(&folder("a_page_of_unrolled_kernels"), "sgemm.html");
    let rungs = ["--rung", "tile_2d", "--rung", "no_conflicts"];
    let ladder = ["ladder", "sgemm", "--device", "virtual", "--size", "128", "--report", "html", "-o", &to];
    warpfold(&[&ladder[..], &rungs].concat()).ended_with(0);
    let html = fs::read_to_string(&file).expect("written");
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
    let (_, rest) = html.split_once("id=\"report\">").expect("a report");
    let report: serde_json::Value =
        serde_json::from_str(rest.split("</script>").next().expect("its end")).expect("JSON");
    for rung in ["tile_2d", "no_conflicts"] {
        let kernel = &report["kernels"][rung][0];
        let accesses = kernel["accesses"].as_object().expect("accesses");
        assert!(accesses.len() > 20, "{rung}: {}", accesses.len());
        assert!(
            accesses.values().flat_map(|list| list.as_array().expect("a list")).any(|one| one["space"] == "shared")
        );
        assert!(!kernel["functions"].as_array().expect("text").is_empty(), "{rung}");
    }
}

#[test]
fn a_ladders_page_draws_it_and_every_control_works() {
    let folder = folder("a_ladders_page");
    let (file, to) = path(&folder, "reduce.html");
    let ladder = ["ladder", "reduce", "--device", "virtual", "--size", "4096", "--check", "all"];
    warpfold(&[&ladder[..], &["--report", "html", "-o", &to]].concat()).ended_with(0);
    assert!(fs::metadata(&file).expect("written").len() < 300_000);
    let Some(mut page) = open("a_ladders_page", &file) else { return };
    page.expect("document.title", "reduce");
    page.expect("document.getElementById('verdict').textContent", "10 of 10 rungs right, no findings.");
    // It opens on times that were recorded on a GPU, and says so.
    page.expect("document.getElementById('metric').value", "recorded_microseconds");
    page.expect("document.getElementById('recorded').textContent.includes('NVIDIA H200')", true);
    // The switch of the counter.
    page.expect("document.querySelectorAll('.bars button').length", 10);
    let value = "[...document.querySelectorAll('.bars button')].map((b) => b.querySelector('.value').textContent)";
    page.choose("#metric", "shared_store_bank_conflicts");
    page.expect(&format!("{value}[0]"), "0");
    page.expect(&format!("Number({value}[1].replaceAll(',', '')) > 100"), true);
    page.expect("document.querySelector('.bar.most .name').textContent", "interleaved");
    // The scale.
    page.choose("#metric", "warp_instructions");
    let width = "document.querySelectorAll('.bars .fill')[8].style.width";
    let linear = page.value(width);
    page.click("#log");
    assert_ne!(page.value(width), linear);
    // A rung, by mouse and keyboard.
    page.value("document.querySelectorAll('.bars button')[1].click()");
    page.expect("document.querySelector('#rung h2').textContent", "interleaved");
    let press = json!({"type": "keyDown", "key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40});
    page.call("Input.dispatchKeyEvent", press);
    page.wait_for("document.querySelector('#rung h2').textContent === 'sequential'");
    page.expect("document.activeElement.querySelector('.name').textContent", "sequential");
    // The difference of the sources.
    page.expect("document.querySelectorAll('.diff .plus').length > 3", true);
    page.expect("document.querySelectorAll('.diff .minus').length > 3", true);
    let short = page.value("document.querySelectorAll('.diff span').length");
    page.click("#whole");
    let whole = page.value("document.querySelectorAll('.diff span').length");
    assert!(whole.as_u64() > short.as_u64(), "{whole} {short}");
    // The kernel: stripes, banks, the tile, the slider.
    page.value("document.querySelectorAll('.bars button')[1].click()");
    page.expect("document.querySelectorAll('.source td.heat').length > 20", true);
    page.expect("document.querySelectorAll('.banks tbody tr').length > 2", true);
    page.expect("document.querySelectorAll('.banks tbody tr:first-child td').length", 32);
    page.value("[...document.querySelectorAll('.source tr')].find((r) => /st\\.shared.*◂/.test(r.textContent) && Number(r.cells[3].textContent) > 0).click()");
    page.expect("document.querySelector('.access h3').textContent.startsWith('One warp')", true);
    page.expect("document.querySelectorAll('.tile td.used').length > 0", true);
    page.value("{ const e = document.querySelector('.nth'); e.value = 2; e.dispatchEvent(new Event('input')); 0 }");
    page.expect("document.querySelector('.access output').textContent.startsWith('2 of')", true);
    page.expect("document.querySelector('.access .alarm').textContent.includes('bank conflicts')", true);
    page.choose(".width", "33");
    page.expect("document.querySelector('.tile tr').cells.length", 34);
    page.value(
        "[...document.querySelectorAll('.source tr')].find((r) => /ld\\.global.*◂/.test(r.textContent)).click()",
    );
    page.expect("document.querySelectorAll('.ruler td.used').length", 32);
    page.expect("document.querySelector('.access').textContent.includes('4 sectors in 1 line,')", true);
    // The Rust beside it: a line of either leads to the other.
    page.expect("document.querySelector('.source-pane tr.file').textContent", "ladder/r02_interleaved.rs");
    page.expect("document.querySelectorAll('.source-pane td.heat').length > 5", true);
    page.value("[...document.querySelectorAll('.source-pane tr')].find((r) => r.textContent.includes('mine.add_assign')).click()");
    page.expect(
        "document.querySelector('.source-pane tr[aria-selected]').textContent.includes('mine.add_assign')",
        true,
    );
    page.expect("document.querySelectorAll('.PTX-pane tr[data-from]').length > 2", true);
    page.expect("document.querySelector('.access code').textContent.includes('shared')", true);
    page.value("[...document.querySelectorAll('.PTX-pane tr')].find((r) => /bar\\.sync/.test(r.textContent)).click()");
    page.expect(
        "document.querySelector('.source-pane tr[aria-selected]').textContent.includes('sync_threads()')",
        true,
    );
    // The roofline and the colours.
    page.expect("document.querySelectorAll('#roofline circle').length", 10);
    let ground = "getComputedStyle(document.body).backgroundColor";
    page.click("#theme");
    page.expect(ground, "rgb(255, 255, 255)");
    page.click("#theme");
    page.expect(ground, "rgb(22, 24, 28)");
    // Paper.
    let pdf = page.call("Page.printToPDF", json!({}));
    assert!(pdf["data"].as_str().expect("a file").len() > 10_000);
    page.is_content();
}

#[test]
fn a_kernels_page_lights_both_lines_of_a_race() {
    let folder = folder("a_kernels_page");
    let (file, to) = path(&folder, "race.html");
    let kernel = ptx("race");
    let args = ["sim", &kernel, "--entry", "race", "--grid", "1", "--block", "64", "--check", "all"];
    let out = format!("out={},u32,64", folder.join("out.npy").display());
    warpfold(&[&args[..], &["--arg", &out, "--report", "html", "-o", &to]].concat()).ended_with(1);
    let Some(mut page) = open("a_kernels_page", &file) else { return };
    page.expect("document.querySelectorAll('.finding').length > 0", true);
    page.expect("document.querySelectorAll('tr.lit').length", 0);
    // Both directions of the race and what follows from it are one finding, with the remedy.
    page.expect("document.querySelectorAll('.finding').length", 1);
    let said = "document.querySelector('.finding').textContent";
    for part in ["what would put it right: ", "in 2 pairs of instructions", "follows from it: host read at out[0]"] {
        page.expect(&format!("{said}.includes({part:?})"), true);
    }
    page.click(".finding");
    page.expect("document.querySelectorAll('tr.lit').length", 2);
    page.expect("document.querySelector('.finding').getAttribute('aria-pressed')", "true");
    page.expect("document.querySelectorAll('.gauge').length", 4);
    // A line by keyboard.
    page.value(
        "[...document.querySelectorAll('.source tr[tabindex]')].find((r) => r.textContent.includes('ret')).focus()",
    );
    page.call(
        "Input.dispatchKeyEvent",
        json!({"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}),
    );
    page.wait_for("document.querySelector('.access').textContent.includes('accesses no memory')");
    let line = "Number(document.activeElement.cells[0].textContent)";
    let last = page.value(line);
    page.call(
        "Input.dispatchKeyEvent",
        json!({"type": "keyDown", "key": "ArrowUp", "code": "ArrowUp", "windowsVirtualKeyCode": 38}),
    );
    page.wait_for(&format!("{line} < {last}"));
    page.is_content();
}

#[test]
fn a_page_of_cuda_has_its_source_with_both_lines_of_a_race() {
    let folder = folder("a_page_of_cuda");
    let (file, to) = path(&folder, "transpose.html");
    let kernel = format!("{}/tests/program/source/transpose.ptx", env!("CARGO_MANIFEST_DIR"));
    let input = floats(&folder, "in.npy", "(32, 32)", 1024);
    let arrays = [format!("in={}", input.display()), format!("out={},f32,32,32", folder.join("out.npy").display())];
    let args = ["sim", &kernel, "--entry", "transpose", "--grid", "1", "--block", "32x8x1", "--check", "all"];
    let more = ["--arg", &arrays[0], "--arg", &arrays[1], "--report", "html", "-o", &to];
    warpfold(&[&args[..], &more].concat()).ended_with(1);
    assert!(fs::metadata(&file).expect("written").len() < 300_000);
    let Some(mut page) = open("a_page_of_cuda", &file) else { return };
    page.expect("document.querySelector('.source-pane tr.file').textContent.endsWith('transpose.cu')", true);
    // Reads of what nobody has written come beside the race.
    page.value("[...document.querySelectorAll('.finding')].find((f) => f.textContent.includes('race')).click()");
    let lit = "[...document.querySelectorAll('.source-pane tr.lit')].map((r) => r.cells[5].textContent.trim())";
    page.expect(
        lit,
        json!(["tile[y][threadIdx.x] = in[y * N + threadIdx.x];", "out[y * N + threadIdx.x] = tile[threadIdx.x][y];"]),
    );
    page.expect("document.querySelectorAll('.PTX-pane tr.lit').length", 2);
    // Executions, inactive lanes, conflicts and sectors are columns of both.
    let heads = "[...document.querySelectorAll('.source-pane th[scope=col]')].map((h) => h.textContent)";
    page.expect(heads, json!(["line", "executions", "inactive lanes", "bank conflicts", "sectors", "source"]));
    let of_store = "[...document.querySelectorAll('.source-pane tr')].find((r) => r.textContent.includes('tile[y]'))";
    page.expect(&format!("{of_store}.cells[4].textContent"), "128");
    page.value(&format!("{of_store}.focus()"));
    page.value(&format!("{of_store}.click()"));
    page.expect("document.querySelectorAll('.PTX-pane tr[data-from]').length >= 8", true);
    page.is_content();
}

#[test]
fn two_reports_are_compared_on_one_page() {
    let folder = folder("two_reports");
    let (file, to) = path(&folder, "a.html");
    let (other, other_to) = path(&folder, "b.json");
    let ladder = |size, form, to| {
        let args = ["ladder", "reduce", "--rung", "naive", "--rung", "interleaved", "--device", "virtual"];
        warpfold(&[&args[..], &["--size", size, "--report", form, "-o", to]].concat()).ended_with(0);
    };
    ladder("4096", "html", &to);
    ladder("8192", "json", &other_to);
    let (a, b) = (fs::read_to_string(&file).expect("written"), fs::read_to_string(&other).expect("written"));
    let Some(mut page) = open("two_reports", &file) else { return };
    page.give("b.json", &b, "drop");
    page.wait_for("document.querySelectorAll('#comparison .bar').length === 2");
    page.expect("document.querySelector('#comparison .change').textContent.startsWith('▼ 2.00x less')", true);
    page.give("a.html", &a, "change");
    page.wait_for("document.querySelector('#comparison .change').textContent === 'as before'");
    for (name, text) in [("noise.json", "{\"x\": 1}"), ("noise.html", "<p>hello"), ("noise.txt", "noise")] {
        page.give(name, text, "drop");
        page.wait_for(&format!("document.querySelector('[role=alert]')?.textContent.startsWith('{name} cannot')"));
    }
    page.is_content();
}

#[test]
fn pages_of_measurements_draw_them_and_every_control_works() {
    let folder = folder("pages_of_measurements");
    let kinds: [(&str, &[&str]); 2] = [
        ("bench.html", &["bench", "scale", "--device", "virtual"]),
        (
            "serve.html",
            &[
                "bench",
                "serve",
                "--workload",
                "random:4/2",
                "--requests",
                "1",
                "--concurrency",
                "1,2",
                "--device",
                "virtual",
            ],
        ),
    ];
    for (name, command) in kinds {
        let (file, to) = path(&folder, name);
        warpfold(&[command, &["--report", "html", "-o", &to]].concat()).ended_with(0);
        assert!(fs::metadata(&file).expect("written").len() < 300_000);
        let Some(mut page) = open(name, &file) else { return };
        page.expect("document.querySelectorAll('#bench .bars .fill').length >= 2", true);
        let shown = "document.querySelector('#bench .bars').textContent";
        let (first, keys) = (page.value(shown), page.value("document.querySelectorAll('#metric option').length"));
        assert!(keys.as_u64().is_some_and(|keys| keys > 3), "{keys}");
        let other = page.value("document.querySelector('#metric option:not([selected])').value");
        page.choose("#metric", other.as_str().expect("a key"));
        assert_ne!(page.value(shown), first, "{name}");
        page.click("#log");
        page.click("summary");
        page.expect("document.querySelector('details').open", true);
        page.click("#theme");
        // A page that is dropped on itself changed nothing.
        let text = fs::read_to_string(&file).expect("written");
        page.give(name, &text, "drop");
        page.wait_for("document.querySelector('#comparison .change')?.textContent === 'as before'");
        page.is_content();
    }
}

#[test]
fn ladders_without_kernels_and_copies_have_a_page_too() {
    let folder = folder("ladders_without_kernels");
    let kinds: [(&str, &[&str], usize, &str); 5] = [
        ("serving.html", &["ladder", "serving", "--size", "12"], 8, "steps"),
        ("allocation.html", &["ladder", "allocation", "--size", "50"], 3, "allocations"),
        ("all_reduce.html", &["ladder", "all_reduce", "--size", "64"], 5, "steps"),
        ("devices.html", &["ladder", "reduce", "--devices", "2", "--size", "1024"], 3, "bytes"),
        ("copies.html", &["bench", "transfer", "--sizes", "1024,4096"], 10, "bytes"),
    ];
    for (name, command, num, key) in kinds {
        let (file, to) = path(&folder, name);
        let device = ["--device", "virtual", "--report", "html", "-o", &to];
        warpfold(&[command, &device].concat()).ended_with(0);
        assert!(fs::metadata(&file).expect("written").len() < 2_000_000);
        let Some(mut page) = open(name, &file) else { return };
        page.expect("document.getElementById('metric').value", key);
        page.expect("document.querySelector('.bars').querySelectorAll('.fill').length", num);
        page.expect("document.querySelector('.bars .fill').style.width !== '0.00%'", true);
        page.expect("document.getElementById('verdict').className", "verdict");
        page.click("#log");
        page.click("summary");
        page.click("#theme");
        // The JSON report of the same run, dropped on the page, changed nothing.
        let json = warpfold(&[command, &["--device", "virtual", "--report", "json"]].concat()).ended_with(0).stdout;
        page.give("same.json", &json, "drop");
        page.wait_for("document.querySelector('#comparison .change')?.textContent === 'as before'");
        page.is_content();
    }
    let Some(mut page) = open("serving_blocks", &folder.join("serving.html")) else { return };
    page.choose("#blocks-metric", "slots internal_fragmentation");
    page.expect("document.querySelectorAll('#blocks .bars .fill').length", 8);
    page.expect(
        "document.querySelector('#ladder table').textContent.includes('blocks are given when they are needed')",
        true,
    );
}

#[test]
fn hostile_text_stays_text() {
    let folder = folder("hostile_text");
    let text = fs::read_to_string(ptx("conflicts")).expect("there");
    let hostile =
        "// </script><script>problems.push('it ran')</script><!-- <img src=x onerror=problems.push('it, too')>";
    let text = text.replacen("\n{", &format!("\n{{\n    {hostile}\n"), 1);
    let (kernel, kernel_path) = path(&folder, "hostile<b>.ptx");
    fs::write(&kernel, text).expect("written");
    let (file, to) = path(&folder, "hostile.html");
    let args = ["sim", &kernel_path, "--entry", "conflicts", "--grid", "1", "--block", "32", "--shared", "256"];
    warpfold(&[&args[..], &["--report", "html", "-o", &to]].concat()).ended_with(0);
    let Some(mut page) = open("hostile_text", &file) else { return };
    page.expect("document.querySelector('.source').textContent.includes('</script><script>')", true);
    page.expect("document.querySelectorAll('img, b').length", 0);
    // What the page counts of one access is what the virtual GPU counted of it.
    let data = "JSON.parse(document.getElementById('report').textContent).data.counters";
    let text = "document.querySelector('.access .alarm').textContent";
    page.expect(&format!("{text}.startsWith({data}.shared_store_wavefronts + ' wavefronts: ')"), true);
    page.is_content();
}

#[test]
fn a_page_needs_a_file_to_go_to() {
    refused(&["ladder", "reduce", "--report", "html"], 2, "-o FILE.html");
    refused(&["bench", "copy", "--report", "html"], 2, "-o FILE.html");
    refused(&["ladder", "serving", "--report", "html"], 2, "-o FILE.html");
    refused(&["bench", "transfer", "--report", "html"], 2, "-o FILE.html");
    refused(&["ladder", "reduce", "--explain", "--report", "html", "-o", "/tmp/x.html"], 2, "--explain has no page");
    refused(&["ladder", "reduce", "--profile", "--report", "html", "-o", "/tmp/x.html"], 2, "--profile has no picture");
    let tiny = ["ladder", "reduce", "--rung", "naive", "--size", "64", "--device", "virtual"];
    refused(&[&tiny[..], &["-o", "/nowhere/at/all.txt"]].concat(), 2, "cannot write");
}

#[test]
fn a_page_of_copies_draws_what_runs_at_the_same_time() {
    let folder = folder("a_page_of_copies");
    let (file, to) = path(&folder, "transfer.html");
    let ladder = ["ladder", "transfer", "--device", "virtual", "--size", "4096"];
    warpfold(&[&ladder[..], &["--report", "html", "-o", &to]].concat()).ended_with(0);
    let Some(mut page) = open("a_page_of_copies", &file) else { return };
    page.expect("document.getElementById('verdict').textContent", "6 of 6 rungs right; in 2 a copy overlaps a kernel.");
    page.expect("document.querySelectorAll('.timeline').length", 6);
    let x = |rung: usize, what: &str, at: usize| {
        format!("document.querySelectorAll('.timeline')[{rung}].querySelectorAll('.{what}')[{at}].getAttribute('x')")
    };
    // In two streams the second copy stands below the first kernel, in one behind the copy back.
    let [kernel, copy] = [x(3, "Kernel", 0), x(3, "ToDevice", 1)].map(|x| page.value(&x));
    assert_eq!(kernel, copy);
    let [back, copy] = [x(1, "ToHost", 0), x(1, "ToDevice", 1)].map(|x| page.value(&x));
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    assert!(number(&copy) > number(&back), "{copy} {back}");
    page.choose("#metric", "steps");
    page.is_content();
}

#[test]
fn a_page_of_serving_plays_its_steps_under_four_policies() {
    let (file, to) = path(&folder("a_page_of_serving"), "serving.html");
    warpfold(&["ladder", "serving", "--size", "12", "--device", "virtual", "--report", "html", "-o", &to])
        .ended_with(0);
    let size = fs::metadata(&file).expect("written").len();
    assert!(size < 4_000_000, "{size} bytes");
    let Some(mut page) = open("a_page_of_serving", &file) else { return };
    let names = "[...document.querySelectorAll('#theatre .act h3')].map((h) => h.textContent).join()";
    page.expect(names, "static,orca,vllm-v0,continuous");
    let waiting = "[...document.querySelectorAll('#theatre .act')].map((a) => a.querySelector('tbody tr:nth-child(3)').textContent)";
    let first = page.value(waiting);
    page.value("{ const e = document.getElementById('step'); e.value = '30'; e.dispatchEvent(new Event('input')); 0 }");
    assert_ne!(page.value(waiting), first);
    page.expect("document.querySelectorAll('#theatre .block.held').length > 3", true);
    page.choose("#act-0", "paged");
    page.expect(names, "paged,orca,vllm-v0,continuous");
    page.value("[...document.querySelectorAll('#theatre button')].at(-1).click()");
    page.expect("document.querySelector('#theatre output').textContent.startsWith('step 31 of')", true);
    page.is_content();
}
