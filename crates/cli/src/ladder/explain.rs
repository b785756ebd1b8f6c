//! `warpfold ladder reduce --explain`: the serial way, the pairs and the trees, step by step.

use std::fmt::Write;

use serde_json::json;
use warpfold_device::Device;
use warpfold_ladders::reduce::{Addition, Addressing, Combine, MOST_EXPLAINED, TreeStep, explain};

use crate::Ending;
use crate::failure::Failure;
use crate::output::ReportTo;

/// Default elements of the picture.
const ELEMENTS: [f32; 8] = [3.0, 1.0, 7.0, 0.0, 4.0, 1.0, 6.0, 3.0];

/// Threads of a warp: whose lanes a step leaves idle.
const WARP: usize = 32;

/// Options of an explanation.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) values: &'a str,
    pub(super) rungs: &'a [String],
    /// Elements of a block; unless given one block takes all.
    pub(super) block: Option<usize>,
    pub(super) combine: Combine,
}

/// What one block does.
struct Tree {
    addressing: Addressing,
    /// Number of the block; none for the launch that combines what blocks have left.
    block: Option<usize>,
    elements: Vec<f32>,
    steps: Vec<TreeStep>,
}

/// Prints the serial way, the pairs, and the steps of the rungs that are asked for, or of all three
/// trees alone.
pub(super) fn run(device: &Device, asked: &Asked<'_>, to: &ReportTo) -> Result<Ending, Failure> {
    let Asked { values, rungs, block, combine } = *asked;
    to.check_no_page("--explain")?;
    if let Some(block) = block.filter(|block| !block.is_power_of_two() || !(2..=MOST_EXPLAINED).contains(block)) {
        let expected = format!("a power of two from 2 to {MOST_EXPLAINED}");
        return Err(Failure::usage(format!("--block {block} of --explain is not {expected}")));
    }
    let elements = if values.is_empty() { ELEMENTS.to_vec() } else { parse(values)? };
    let is_asked = |tree: &Addressing| rungs.is_empty() || rungs.iter().any(|rung| rung == tree.rung());
    if let Some(other) = rungs.iter().find(|rung| !Addressing::ALL.iter().any(|tree| tree.rung() == *rung)) {
        let known = Addressing::ALL.map(Addressing::rung).join(", ");
        return Err(Failure::usage(format!("--explain draws the trees of {known}, not of {other}")));
    }
    let mut trees = Vec::new();
    for addressing in Addressing::ALL.into_iter().filter(is_asked) {
        let tree = |elements: &[f32], block| {
            let steps = explain(device, elements, addressing, combine)?;
            Ok::<_, warpfold_ladders::Error>(Tree { addressing, block, elements: elements.to_vec(), steps })
        };
        let blocks = elements.chunks(block.unwrap_or(MOST_EXPLAINED)).enumerate();
        let blocks = blocks.map(|(i, elements)| tree(elements, Some(i))).collect::<Result<Vec<_>, _>>()?;
        let left = |block: &Tree| block.steps.last().map_or(block.elements[0], |step| step.tile[0]);
        let results: Vec<f32> = blocks.iter().map(left).collect();
        trees.extend(blocks);
        if results.len() > 1 {
            trees.push(tree(&results, None)?);
        }
    }
    let mut page = if rungs.is_empty() { ways(&elements, combine) } else { String::new() };
    for tree in &trees {
        page += &text(tree, combine, block.is_some_and(|block| block < elements.len()));
    }
    let record = json!({
        "device": device.to_string(),
        "elements": elements,
        "combine": combine.name(),
        "serial": combine.serial(&elements),
        "pairs": combine.pairs(&elements),
        "trees": trees.iter().map(|Tree { addressing, block, elements, steps }| json!({
            "rung": addressing.rung(),
            "block": block,
            "elements": elements,
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

/// Elements after which rows are cut short.
const MOST_SHOWN: usize = 32;

/// The serial way and the vector that pairs make shorter.
fn ways(elements: &[f32], combine: Combine) -> String {
    let listed = |values: &[f32]| {
        let shown = values.iter().take(MOST_SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!("[{shown}{}]", if values.len() > MOST_SHOWN { " …" } else { "" })
    };
    let (name, serial, pairs) = (combine.name(), combine.serial(elements), combine.pairs(elements));
    let mut page = format!("serial: the {name} of the elements up to each, {} steps\n\n", serial.len() - 1);
    for num in 1..=serial.len().min(MOST_SHOWN) {
        let _ = writeln!(page, "{:>8}  {}", "", listed(&serial[..num]));
    }
    let _ = write!(page, "\npairs: neighbours meet at once, {} steps\n\n", pairs.len() - 1);
    for row in &pairs {
        let _ = writeln!(page, "{:>8}  {}", "", listed(row));
    }
    page + "\n"
}

fn parse(values: &str) -> Result<Vec<f32>, Failure> {
    let number = |text: &str| text.trim().parse::<f32>().ok().filter(|x| x.is_finite());
    let elements: Option<Vec<f32>> = values.split(',').map(number).collect();
    elements
        .filter(|elements| elements.len() <= MOST_EXPLAINED)
        .ok_or_else(|| Failure::usage(format!("'{values}' is not up to {MOST_EXPLAINED} numbers such as 3,1,7,0")))
}

fn text(tree: &Tree, combine: Combine, has_blocks: bool) -> String {
    let Tree { addressing, block, elements, steps } = tree;
    let place = match block {
        Some(block) if has_blocks => format!(", block {block}"),
        None => ", second launch: what the blocks have left".to_owned(),
        Some(_) => String::new(),
    };
    let told = if *block == Some(0) { idea(*addressing) } else { "" };
    let colon = if told.is_empty() { "" } else { ": " };
    let mut page = format!("{}{place}{colon}{told}\n\n{:>8}  {}\n", addressing.rung(), "", row(elements, None));
    let block = elements.len().next_power_of_two();
    for step in steps {
        let _ = writeln!(page, "stride {:<3} {}", step.stride, row(&step.tile, Some(step)));
        let meet = |add: &Addition| match combine {
            Combine::Sum => format!("t{}: [{}] += [{}]", add.thread, add.to, add.from),
            Combine::Maximum => format!("t{}: max([{}], [{}])", add.thread, add.to, add.from),
        };
        let shown = step.additions.iter().take(8).map(meet);
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
    let cells = tile.iter().enumerate().take(MOST_SHOWN).map(|(i, value)| match step {
        None => value.to_string(),
        Some(step) if step.additions.iter().any(|add| add.to == i) => value.to_string(),
        Some(_) => "·".to_owned(),
    });
    let more = if tile.len() > MOST_SHOWN { " …" } else { "" };
    format!("[{}{more}]", cells.collect::<Vec<_>>().join(", "))
}
