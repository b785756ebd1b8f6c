//! `warpfold advise`.

use std::fs;

use serde_json::Value;

use crate::support::{folder, refused, warpfold};

/// Each thread stores `out[32 * threadIdx.x]`.
const STRIDED: &str = "\
.version 8.0
.target sm_80
.address_size 64

.visible .entry strided(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 128;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
";

/// The points of the first kernel, by name.
fn points(args: &[&str]) -> impl Fn(&str) -> Value + use<> {
    let outcome = warpfold(&[&["advise", "--report", "json"], args].concat()).ended_with(0);
    let points = outcome.json()[0]["points"].as_array().expect("points").clone();
    move |name| points.iter().find(|point| point["point"] == name).expect("the point").clone()
}

#[test]
fn a_rung_is_told_what_the_next_one_mends() {
    let naive = points(&["reduce/naive", "--size", "10000"]);
    assert_eq!((&naive("divergence")["ok"], &naive("conflicts")["ok"]), (&Value::Bool(false), &Value::Bool(true)));
    assert!(naive("divergence")["instruction"].as_str().expect("a line").contains("bra"));
    let interleaved = points(&["reduce/interleaved", "--size", "10000"]);
    assert_eq!(interleaved("conflicts")["ok"], false);
    assert!(interleaved("conflicts")["instruction"].as_str().expect("a line").contains(".shared"));
    let sequential = points(&["reduce/sequential", "--size", "10000"]);
    assert_eq!(
        (&sequential("conflicts")["ok"], &sequential("coalesced")["ok"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
}

#[test]
fn points_tell_bounds_atomics_reuse_and_narrow_loads_apart() {
    let mend = |point: &Value| point["mend"].as_str().unwrap_or_default().to_owned();
    let conv = points(&["conv/naive"]);
    assert!(mend(&conv("divergence")).contains("bounds"), "{}", conv("divergence"));
    assert!(mend(&conv("reuse")).contains("tile"), "{}", conv("reuse"));
    let histogram = points(&["histogram/plain", "--size", "10000"]);
    assert!(mend(&histogram("atomics")).contains("once per block"), "{}", histogram("atomics"));
    assert_eq!(histogram("reuse")["ok"], true);
    let product = points(&["sgemm/naive", "--size", "64"]);
    assert!(mend(&product("reuse")).contains("tile"), "{}", product("reuse"));
    // The seventh question: four bytes per lane, then 16.
    let [plain, vec4] = ["relu/plain", "relu/vec4"].map(|rung| points(&[rung, "--size", "8192"])("vectorised"));
    assert_eq!((&plain["ok"], plain["number"].as_f64()), (&Value::Bool(false), Some(4.0)), "{plain}");
    assert!(vec4["ok"] == true && vec4["number"].as_f64() > Some(8.0), "{vec4}");
}

/// For each rung what the next one changes, in the word of `first`.
const STEPS: &[(&str, &[&str])] = &[
    ("vector-add", &["one_thread divergence", "one_block occupancy", "grid width", "grid_vec4 "]),
    (
        "reduce",
        &[
            "naive divergence",
            "interleaved conflicts",
            "sequential work",
            "first_add barriers",
            "unroll_last_warp unroll",
            "unroll_all shuffles",
            "shuffle width",
            "vec4 atomics",
            "grid_stride atomics",
            "single_pass ",
        ],
    ),
    ("histogram", &["plain width", "vec4 atomics", "shared conflicts", "copies "]),
    (
        "sgemm",
        &[
            "naive coalesced",
            "coalesced reuse",
            "shared tiles",
            "tile_1d tiles",
            "tile_2d width",
            "vec4 conflicts",
            "warp_tile overlap",
            "double_buffer copies",
            "cp_async conflicts",
            "no_conflicts ",
        ],
    ),
];

#[test]
fn the_first_advice_is_what_the_next_rung_changes() {
    let (mut missed, mut steps) = (Vec::new(), 0);
    for (ladder, rungs) in STEPS {
        let size = if *ladder == "sgemm" { "512" } else { "256K" };
        for step in *rungs {
            let (rung, expected) = step.split_once(' ').expect("a rung and a word");
            let args = ["advise", "--report", "json", &format!("{ladder}/{rung}"), "--size", size];
            let json = warpfold(&args).ended_with(0).json();
            let first = json[0]["first"]["name"].as_str().unwrap_or_default().to_owned();
            // The last rung of a ladder has nothing after it: there the advice is silent.
            assert!(!expected.is_empty() || first.is_empty(), "{ladder}/{rung}: {first}");
            steps += usize::from(!expected.is_empty());
            if first != expected {
                missed.push(format!("{ladder}/{rung}: {first}, the next rung is {expected}"));
            }
        }
    }
    assert!(steps == 24 && missed.len() <= 2, "of {steps} steps missed: {missed:#?}");
}

#[test]
fn a_foreign_kernel_is_told_which_store_is_not_coalesced() {
    let folder = folder("advise_foreign");
    let file = folder.join("strided.ptx");
    fs::write(&file, STRIDED).expect("a file");
    let out = format!("out={},u32,1024", folder.join("out.npy").display());
    let args = ["--entry", "strided", "--grid", "1", "--block", "32", "--arch", "sm_80", "--arg", &out];
    let points = points(&[&[file.to_str().expect("a path")][..], &args].concat());
    let coalesced = points("coalesced");
    // 32 sectors, where 4 would do.
    assert_eq!((&coalesced["ok"], coalesced["number"].as_f64()), (&Value::Bool(false), Some(28.0 / 32.0)));
    assert_eq!(coalesced["line"], 13);
    assert!(points("occupancy")["mend"].as_str().expect("advice").contains("107 of 108 idle"));
}

#[test]
fn what_cannot_be_advised_is_refused() {
    refused(&["advise"], 2, "KERNEL");
    refused(&["advise", "nosuch"], 2, "unknown operation");
    refused(&["advise", "reduce/nosuch"], 2, "no rung");
    refused(&["advise", "reduce/naive", "--size", "-1"], 2, "-1");
    refused(&["advise", "nofile.ptx", "--entry", "k", "--grid", "1", "--block", "1"], 2, "nofile.ptx");
    refused(&["advise", "sum", "--list"], 2, "list");
    let html = warpfold(&["advise", "--report", "html", "-o", "x.html", "reduce/naive"]).ended_with(2);
    assert!(html.stderr.contains("html") && html.stderr.contains("table, json"), "{}", html.stderr);
    let help = warpfold(&["advise", "--help"]).ended_with(0).stdout;
    assert!(!help.contains("html"), "what is refused is not offered: {help}");
}
