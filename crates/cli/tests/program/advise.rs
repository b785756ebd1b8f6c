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
