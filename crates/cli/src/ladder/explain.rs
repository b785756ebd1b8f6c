//! `warpfold ladder reduce --explain`: the tree of a reduction, step by step.

use std::fmt::Write;

use serde_json::json;
use warpfold_device::Device;
use warpfold_ladders::reduce::{Addressing, MOST_EXPLAINED, TreeStep, explain};

use crate::Ending;
use crate::failure::Failure;
use crate::output::ReportTo;

/// Default elements of the picture.
const ELEMENTS: [f32; 8] = [3.0, 1.0, 7.0, 0.0, 4.0, 1.0, 6.0, 3.0];

/// Threads of a warp: whose lanes a step leaves idle.
const WARP: usize = 32;

/// Prints the steps of the rungs that are asked for, or of all three trees.
pub(super) fn run(device: &Device, values: &str, rungs: &[String], to: &ReportTo) -> Result<Ending, Failure> {
    to.check_no_page("--explain")?;
    let elements = if values.is_empty() { ELEMENTS.to_vec() } else { parse(values)? };
    let is_asked = |tree: &Addressing| rungs.is_empty() || rungs.iter().any(|rung| rung == tree.rung());
    if let Some(other) = rungs.iter().find(|rung| !Addressing::ALL.iter().any(|tree| tree.rung() == *rung)) {
        let known = Addressing::ALL.map(Addressing::rung).join(", ");
        return Err(Failure::usage(format!("--explain draws the trees of {known}, not of {other}")));
    }
    let trees = Addressing::ALL.into_iter().filter(is_asked);
    let trees = trees.map(|tree| Ok((tree, explain(device, &elements, tree)?)));
    let trees = trees.collect::<Result<Vec<_>, warpfold_ladders::Error>>()?;
    let page: String = trees.iter().map(|(tree, steps)| text(&elements, *tree, steps)).collect();
    let record = json!({
        "device": device.to_string(),
        "elements": elements,
        "trees": trees.iter().map(|(tree, steps)| json!({
            "rung": tree.rung(),
            "steps": steps.iter().map(|step| json!({
                "stride": step.stride,
                "additions": step.additions.iter().map(|add| json!({
                    "thread": add.thread, "to": add.to, "from": add.from,
                })).collect::<Vec<_>>(),
                "tile": step.tile,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    });
    to.write_no_page(&page, &record)?;
    Ok(Ending::Clean)
}

fn parse(values: &str) -> Result<Vec<f32>, Failure> {
    let number = |text: &str| text.trim().parse::<f32>().ok().filter(|x| x.is_finite());
    let elements: Option<Vec<f32>> = values.split(',').map(number).collect();
    elements
        .filter(|elements| elements.len() <= MOST_EXPLAINED)
        .ok_or_else(|| Failure::usage(format!("'{values}' is not up to {MOST_EXPLAINED} numbers such as 3,1,7,0")))
}

fn text(elements: &[f32], tree: Addressing, steps: &[TreeStep]) -> String {
    let mut page = format!("{}: {}\n\n{:>8}  {}\n", tree.rung(), idea(tree), "", row(elements, None));
    let block = elements.len().next_power_of_two();
    for step in steps {
        let _ = writeln!(page, "stride {:<3} {}", step.stride, row(&step.tile, Some(step)));
        let shown = step.additions.iter().take(8).map(|add| format!("t{}: [{}] += [{}]", add.thread, add.to, add.from));
        let rest = step.additions.len().saturating_sub(8);
        let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        let working: std::collections::BTreeSet<_> = step.additions.iter().map(|add| add.thread / WARP).collect();
        let _ = writeln!(
            page,
            "{:>10} {}{rest}; {} of {block} threads in {} warp{}",
            "",
            shown.collect::<Vec<_>>().join(", "),
            step.additions.len(),
            working.len(),
            if working.len() == 1 { "" } else { "s" },
        );
    }
    page.push('\n');
    page
}

fn idea(tree: Addressing) -> &'static str {
    match tree {
        Addressing::Naive => "strides double, and threads that are multiples of twice the stride work",
        Addressing::Interleaved => "strides double, and the first threads work, 2 x stride apart",
        Addressing::Sequential => "strides halve, and the first threads work, side by side",
    }
}

/// A tile; what a step has summed stands out, what no later step reads is a dot.
fn row(tile: &[f32], step: Option<&TreeStep>) -> String {
    let cells = tile.iter().enumerate().take(32).map(|(i, value)| match step {
        None => value.to_string(),
        Some(step) if step.additions.iter().any(|add| add.to == i) => value.to_string(),
        Some(_) => "·".to_owned(),
    });
    let more = if tile.len() > 32 { " …" } else { "" };
    format!("[{}{more}]", cells.collect::<Vec<_>>().join(", "))
}
