//! Serving: prefill and decode, slots over steps, split and merge, the waste of slots, queues.

use warpfold_device::Device;

use super::Error;
use super::canvas::{Canvas, WIDTH};

pub(super) fn prefill(_: &Device) -> Result<String, Error> {
    const WORDS: [&str; 8] = ["The", "king", "had", "a", "son", "who", "slept", "."];
    const PROMPT: usize = 4;
    let mut picture = Canvas::new("Prefill takes the prompt at once, decoding a row per step");
    let y = picture.top;
    for step in 0..4_usize {
        let at = y + 34 * step as i32;
        let num = PROMPT + step;
        picture.text(52, at + 15, "n", &format!("step {}", step + 1));
        for (i, word) in WORDS.iter().take(num).enumerate() {
            let class = match step {
                0 => "k2",
                _ if i + 1 == num => "k1",
                _ => "k0",
            };
            picture.cell((58 + 42 * i as i32, at), (40, 22), class, word);
        }
        picture.text(62 + 42 * num as i32, at + 15, "q s", &format!("→ {}", WORDS[num]));
    }
    picture
        .legend(y + 140, &[("k2", "prompt, computed now"), ("k1", "a token, computed now"), ("k0", "from the cache")]);
    Ok(picture.end())
}

/// What a slot of a batch does in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// Nobody has it.
    Free,
    /// Its request has ended, or is padded: rows are computed, or room is held, for nothing.
    Gap,
    /// It computes rows of the prompt of this request.
    Prompt(u64),
    /// It computes one row, which gives this request a token.
    Token(u64),
    /// It computes the row that gives this request its last token.
    Last(u64),
}

/// Slots of a batch over steps, as [`slots_svg`] draws them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotChart {
    /// Its heading.
    pub name: String,
    /// What is told beside it.
    pub told: String,
    /// For each slot what it does in each step.
    pub slots: Vec<Vec<SlotState>>,
    /// The rows that each step computes.
    pub rows: Vec<usize>,
}

/// Slots over steps, a chart below the other, with the same scale.
///
/// ```
/// use warpfold_report::{SlotChart, SlotState, slots_svg};
/// let slots = vec![vec![SlotState::Prompt(1), SlotState::Token(1), SlotState::Last(1)]];
/// let chart = SlotChart { name: "alone".to_owned(), told: String::new(), slots, rows: vec![3, 1, 1] };
/// assert!(slots_svg("One request", &[chart]).contains("alone"));
/// ```
#[must_use]
pub fn slots_svg(title: &str, charts: &[SlotChart]) -> String {
    let mut picture = Canvas::new(title);
    let mut y = picture.top;
    let steps = charts.iter().map(|chart| chart.rows.len()).max().unwrap_or(1).max(1);
    let width = ((WIDTH - 56) / steps as i32).min(26);
    for chart in charts {
        picture.text(10, y + 9, "h", &chart.name);
        picture.text(10, y + 23, "q s", &chart.told);
        y += 30;
        for (slot, states) in (1..).zip(&chart.slots) {
            picture.text(40, y + 13, "n s q", &format!("slot {slot}"));
            for (step, state) in (0..).zip(states) {
                let (class, word) = match state {
                    SlotState::Free => ("p", String::new()),
                    SlotState::Gap => ("o", String::new()),
                    SlotState::Prompt(request) => ("k2", request.to_string()),
                    SlotState::Token(request) => ("k1", request.to_string()),
                    SlotState::Last(request) => ("k4", request.to_string()),
                };
                picture.cell((46 + width * step, y), (width - 1, 18), class, &word);
            }
            y += 20;
        }
        picture.text(40, y + 10, "n s q", "rows");
        for (step, rows) in (0..).zip(&chart.rows) {
            picture.text(46 + width * step + width / 2, y + 10, "m s q", &rows.to_string());
        }
        y += 26;
    }
    let words = [
        ("k2", "prompt of request n"),
        ("k1", "a token"),
        ("k4", "its last token"),
        ("o", "gap: held for nothing"),
        ("p", "nobody waits"),
    ];
    picture.legend(y, &words);
    picture.end()
}

pub(super) fn selective(_: &Device) -> Result<String, Error> {
    /// Tokens that the cache has, and rows of this step.
    const REQUESTS: [(&str, usize, i32); 4] = [("x1", 3, 1), ("x2", 1, 1), ("x3", 0, 2), ("x4", 0, 3)];
    let mut picture = Canvas::new("Selective batching: all rows together but for attention");
    let y = picture.top;
    let rows: i32 = REQUESTS.iter().map(|(_, _, rows)| rows).sum();
    let classes = ["k1", "k2", "k3", "k5"];
    let stack = |picture: &mut Canvas, top: i32| {
        let mut row = 0;
        for ((name, _, num), class) in REQUESTS.into_iter().zip(classes) {
            for _ in 0..num {
                picture.cell((90 + 32 * row, top), (31, 20), class, name);
                row += 1;
            }
        }
        picture.text(90 + 32 * rows + 6, top + 14, "", &format!("[{rows}, H]"));
    };
    stack(&mut picture, y);
    picture.text(84, y + 14, "n s q", "rows");
    picture.arrow((200, y + 22), (200, y + 38), "l");
    picture.cell((90, y + 40), (223, 20), "k0", "norm, QKV projection: one product");
    picture.arrow((200, y + 62), (200, y + 78), "l");
    picture.text(84, y + 90, "n s q", "split");
    let mut x = 14;
    for ((name, cached, num), class) in REQUESTS.into_iter().zip(classes) {
        picture.rect((x, y + 98), (90, 58), class, "");
        picture.text(x + 45, y + 113, "m", &format!("attention {name}"));
        picture.text(x + 45, y + 130, "m s", &format!("Q [{num}, d]"));
        picture.text(x + 45, y + 146, "m s", &format!("K, V [{}, d]", cached as i32 + num));
        x += 95;
    }
    picture.text(84, y + 172, "n s q", "merge");
    picture.arrow((200, y + 160), (200, y + 178), "l");
    stack(&mut picture, y + 182);
    picture.arrow((200, y + 204), (200, y + 220), "l");
    picture.cell((90, y + 222), (223, 20), "k0", "output projection, norm, MLP");
    let lines =
        ["x1 and x2 decode, with 3 and 1 tokens in the cache;", "x3 and x4 begin, with prompts of 2 and 3 tokens."];
    picture.paragraph(10, y + 262, "s q", &lines);
    Ok(picture.end())
}

/// Slots of contiguous memory for a request: filled, to be filled, never to be filled.
pub(super) fn waste(_: &Device) -> Result<String, Error> {
    const A: [i32; 3] = [10, 6, 2032];
    const B: [i32; 3] = [5, 3, 504];
    const BETWEEN: i32 = 128;
    let mut picture = Canvas::new("Slots reserved for the longest answer: A may have 2,048 tokens, B 512");
    let y = picture.top;
    let total: i32 = A.iter().chain(&B).sum::<i32>() + BETWEEN;
    let strip = |picture: &mut Canvas, x: &mut i32, slots: i32, class: &str, title: &str| {
        // What is too small to be seen has three units.
        let width = (360 * slots / total).max(3);
        picture.rect((*x, y + 20), (width, 30), class, title);
        *x += width;
    };
    let mut x = 14;
    let begin = x;
    for (slots, class) in A.into_iter().zip(["b", "k3", "o"]) {
        strip(&mut picture, &mut x, slots, class, &format!("{slots} slots"));
    }
    let middle = x;
    strip(&mut picture, &mut x, BETWEEN, "a", "external fragmentation");
    let second = x;
    for (slots, class) in B.into_iter().zip(["b", "k3", "o"]) {
        strip(&mut picture, &mut x, slots, class, &format!("{slots} slots"));
    }
    picture.text(begin, y + 12, "", "request A: 2,048 slots");
    picture.text(second, y + 12, "", "B: 512");
    picture.text((middle + second) / 2, y + 64, "m s q", &BETWEEN.to_string());
    let mut at = y + 84;
    for (class, told) in [
        ("b", format!("filled: {} + {} hold keys and values", A[0], B[0])),
        ("k3", format!("reserved: {} + {} will be filled later", A[1], B[1])),
        ("o", format!("internal: {} + {} will never be filled", A[2], B[2])),
        ("a", format!("external: {BETWEEN} between them, too few for a third")),
    ] {
        picture.rect((14, at), (14, 12), class, "");
        picture.text(36, at + 10, "", &told);
        at += 19;
    }
    let used = f64::from(A[0] + B[0]) * 100.0 / f64::from(total);
    picture.text(14, at + 12, "", &format!("{used:.1} % of these slots hold anything."));
    picture.text(14, at + 34, "h", "The same two with blocks of 16");
    let mut x = 14;
    for (request, filled) in [("A", A[0]), ("B", B[0])] {
        for slot in 0..16 {
            let class = if slot < filled { "b" } else { "k3" };
            picture.rect((x, at + 44), (10, 18), class, "");
            x += 11;
        }
        picture.text(x - 176, at + 76, "s q", &format!("{request}: one block, {} of 16 slots filled", filled));
        x += 12;
    }
    Ok(picture.end())
}

/// Three queues, and what moves a request between them.
pub(super) fn queues(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Three queues and the reasons to move");
    let y = picture.top;
    picture.cell((10, y + 40), (90, 40), "k2", "waiting");
    picture.cell((190, y + 40), (90, 40), "k1", "running");
    picture.cell((190, y + 150), (90, 40), "k5", "swapped");
    picture.cell((330, y + 40), (60, 40), "k3", "ended");
    picture.arrow((55, y + 8), (55, y + 38), "l");
    picture.text(62, y + 20, "s", "add");
    picture.arrow((101, y + 52), (188, y + 52), "l");
    picture.text(144, y + 34, "m s", "seat, budget");
    picture.text(144, y + 47, "m s", "and blocks");
    picture.arrow((188, y + 70), (101, y + 70), "l");
    picture.text(144, y + 84, "m s", "no block:");
    picture.text(144, y + 97, "m s", "recompute");
    picture.arrow((281, y + 60), (328, y + 60), "l");
    picture.text(304, y + 52, "m s", "end");
    picture.arrow((215, y + 81), (215, y + 148), "l");
    picture.arrow((255, y + 148), (255, y + 81), "l");
    picture.text(208, y + 118, "n s", "no block: swap out");
    picture.text(262, y + 118, "s", "blocks free: swap in");
    let lines = [
        "A step asks of the first that waits: is there a seat? Do its rows",
        "fit the budget? Are there blocks beside the watermark? One no:",
        "it waits, and so do those after it. A prompt that no cache could",
        "hold (never) is refused when it comes.",
    ];
    picture.paragraph(10, y + 216, "s q", &lines);
    Ok(picture.end())
}
