//! `sim --report html --step`: a warp, instruction by instruction.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::pictures::open;
use crate::support::{Outcome, folder, npy, refused, warpfold};

/// The interleaved reduction as nvcc compiled it, of two blocks of 64, with more options.
fn interleaved(folder: &Path, more: &[&str]) -> Outcome {
    let file = format!("{}/../../fixtures/nvcc/reduce.sm_80.ptx", env!("CARGO_MANIFEST_DIR"));
    let path = |name: &str| folder.join(name).display().to_string();
    let data: Vec<u8> = (0..512_i32).flat_map(i32::to_le_bytes).collect();
    fs::write(path("x.npy"), npy("<i4", "(512,)", &data)).expect("written");
    let specs = [format!("in={}", path("x.npy")), format!("out={},i32,2", path("sums.npy"))];
    let launch = ["--entry", "interleaved", "--grid", "2", "--block", "256", "--arg", "u32=512"];
    let (last, launch) = (&launch[6..], &launch[..6]);
    let args = [&["sim", &file][..], launch, &["--arg", &specs[0], "--arg", &specs[1]], last, more].concat();
    warpfold(&args)
}

/// The report in a page.
fn report(file: &Path) -> Value {
    let page = fs::read_to_string(file).expect("written");
    let (_, rest) = page.split_once("id=\"report\">").expect("the report");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

#[test]
fn a_page_steps_through_the_warp_that_stored_an_element() {
    let folder = folder("a_page_steps");
    let file = folder.join("steps.html");
    let to = file.display().to_string();
    interleaved(&folder, &["--report", "html", "-o", &to, "--step=sums[1]"]).ended_with(0);
    let report = report(&file);
    let steps = &report["steps"];
    assert_eq!((&steps["block"][0], &steps["warp"]), (&Value::from(1), &Value::from(0)));
    let output = &steps["outputs"][0];
    let sum: u64 = (256..512).sum();
    assert_eq!((&output["name"], &output["bits"][1]), (&"sums.npy".into(), &sum.into()));
    // The store of the element is the step at which the page begins, by lane 0 of block 1.
    let writer = &output["writers"][1];
    assert_eq!((&writer[0], &writer[2], &writer[4]), (&1.into(), &0.into(), &steps["start"]));
    let at = &steps["steps"][steps["start"].as_u64().expect("a step") as usize];
    let instruction = &steps["instructions"][at["at"].as_u64().expect("an instruction") as usize];
    assert!(instruction[1].as_str().is_some_and(|text| text.contains("st.global")), "{instruction}");
    assert!(instruction[2].as_str().is_some_and(|place| place.starts_with("reduce.cu:")), "{instruction}");
    let Some(mut page) = open("a_page_steps", &file) else { return };
    let told = "document.querySelector('#steps output').textContent";
    let start = page.value(told);
    page.value("[...document.querySelectorAll('#steps button')].find((b) => b.textContent.includes('back')).click()");
    assert_ne!(page.value(told), start);
    page.value("document.querySelectorAll('#outputs .elements button')[1].click()");
    page.value("document.querySelector('#outputs p button').click()");
    page.expect(told, start);
    // A word of shared memory, and who stored it.
    page.value("document.querySelector('#shared td[title]').click()");
    page.expect("document.querySelector('#shared p').textContent.includes('was stored by lane')", true);
    page.expect("document.querySelectorAll('.lane.on').length", 1);
    page.is_content();
}

#[test]
fn an_element_that_a_bulk_copy_wrote_leads_back_to_the_store_of_its_word() {
    let folder = folder("steps_of_bulk_copies");
    let path = |name: &str| folder.join(name).display().to_string();
    let data: Vec<u8> = (0..1024_i32).flat_map(i32::to_le_bytes).collect();
    fs::write(path("x.npy"), npy("<i4", "(1024,)", &data)).expect("written");
    let file = format!("{}/../../fixtures/nvcc/hopper.sm_90a.ptx", env!("CARGO_MANIFEST_DIR"));
    let specs = [format!("in={}", path("x.npy")), format!("out={},i32,1024", path("y.npy"))];
    let to = path("steps.html");
    let launch = ["--entry", "bulk_copy", "--grid", "1", "--block", "128", "--arg", &specs[0], "--arg", &specs[1]];
    warpfold(&[&["sim", &file][..], &launch, &["--report", "html", "-o", &to, "--step=y[37]"]].concat()).ended_with(0);
    let report = report(Path::new(&to));
    let steps = &report["steps"];
    let text = |step: &Value| {
        let at = &steps["steps"][step.as_u64().expect("a step") as usize]["at"];
        steps["instructions"][at.as_u64().expect("an instruction") as usize][1].to_string()
    };
    let output = &steps["outputs"][0];
    let writer = &output["writers"][37];
    assert_eq!((&output["bits"][37], &writer[4]), (&38.into(), &steps["start"]));
    assert!(text(&steps["start"]).contains("cp.async.bulk.global"), "{steps}");
    // What brought the tile is a store of the step that issued it.
    let copy = steps["stores"].as_array().and_then(|all| all.iter().find(|store| store[2]["bytes"] == 4096));
    assert!(text(&copy.expect("the copy")[3]).contains("cp.async.bulk.shared"), "{steps}");
    let Some(mut page) = open("steps_of_bulk_copies", Path::new(&to)) else { return };
    page.value("document.querySelectorAll('#outputs .elements button')[37].click()");
    page.value("document.querySelector('#outputs p button').click()");
    let told = "document.querySelector('#shared p').textContent";
    page.expect(&format!("/^Word \\d+ was stored by lane 5 of warp 1, line \\d+/.test({told})"), true);
    page.expect("document.querySelectorAll('#shared td.picked').length", 1);
    page.is_content();
}

#[test]
fn steps_that_no_page_can_have_are_refused() {
    let folder = folder("steps_refused");
    let to = folder.join("steps.html").display().to_string();
    let html = ["--report", "html", "-o", &to];
    for (more, part) in [
        (&["--step"][..], "--step is a picture"),
        (&[&html[..], &["--step=2/0"]].concat(), "there are 2 blocks of 8 warps"),
        (&[&html[..], &["--step=sums[2]"]].concat(), "no such element"),
        (&[&html[..], &["--step=no[0]"]].concat(), "no output is called no"),
        (&[&html[..], &["--step", "--steps", "20001"]].concat(), "is not from 1 to 20000"),
        (&[&html[..], &["--step", "--steps", "0"]].concat(), "is not from 1 to 20000"),
    ] {
        let outcome = interleaved(&folder, more).ended_with(2);
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    refused(&["sim", "x.ptx", "--grid", "1", "--step=what"], 2, "neither BLOCK/WARP");
    interleaved(&folder, &[&html[..], &["--step", "--steps", "20000"]].concat()).ended_with(0);
}
