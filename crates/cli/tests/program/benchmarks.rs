//! `BENCHMARKS.md` holds what the program prints of the records.

use std::path::Path;

use crate::support::warpfold;

#[test]
fn benchmarks_are_the_tables_of_the_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("BENCHMARKS.md")).expect("the page");
    let mut shown = Vec::new();
    for part in page.split("<!-- warpfold bench --markdown ").skip(1) {
        let (name, rest) = part.split_once(" -->\n").expect("a record's name");
        let (tables, _) = rest.split_once("\n<!-- end of the record -->").expect("the record's end");
        let path = root.join(name);
        let printed = warpfold(&["bench", "--markdown", path.to_str().expect("a path")]).ended_with(0);
        assert_eq!(printed.stdout.trim(), tables, "{name}: print it anew");
        shown.push(path.file_name().expect("a file").to_owned());
    }
    let records = std::fs::read_dir(root.join("docs/records")).expect("records").map(|file| file.expect("a file"));
    let mut records: Vec<_> =
        records.map(|file| file.file_name()).filter(|name| name.to_string_lossy().ends_with(".json")).collect();
    records.sort();
    shown.sort();
    assert_eq!(shown, records, "each record is shown once");
}
