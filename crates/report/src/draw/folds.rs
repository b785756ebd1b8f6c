//! Reductions and rows: a serial walk, a vector that shrinks, trees, blocks, the online softmax.

use warpfold_device::Device;
use warpfold_ladders::reduce::{Addressing, Combine, explain};

use super::Error;
use super::canvas::Canvas;

/// The numbers of the lecture that the origins follow.
const NUMBERS: [f32; 10] = [5.0, 2.0, 8.0, 1.0, 9.0, 3.0, 7.0, 4.0, 6.0, 0.0];

/// Step by step: the largest so far.
pub(super) fn serial(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Serial maximum of 5, 2, 8, 1: one comparison after the other");
    let y = picture.top;
    let numbers = &NUMBERS[..4];
    let largest = Combine::Maximum.serial(numbers);
    for (step, number) in (0..).zip(numbers) {
        let at = y + 26 * step;
        picture.text(64, at + 14, "n", &format!("step {}", step + 1));
        for (i, so_far) in (0..=step).zip(&largest) {
            let class = if i == step { "k3" } else { "k0" };
            picture.cell((74 + 34 * i, at), (32, 20), class, &so_far.to_string());
        }
        let told = match step {
            0 => "the first is the largest so far".to_owned(),
            _ if *number > largest[step as usize - 1] => format!("{number} is larger: keep it"),
            _ => format!("{number} is not larger"),
        };
        picture.text(84 + 34 * (step + 1), at + 14, "q", &told);
    }
    Ok(picture.end())
}

pub(super) fn parallel(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Parallel maximum: pairs meet at once, and 10 numbers take 4 steps, not 9");
    let y = picture.top;
    let mut places: Vec<i32> = (0..10).map(|i| 14 + 38 * i).collect();
    let rows = Combine::Maximum.pairs(&NUMBERS);
    for (step, row) in (0..).zip(&rows) {
        let at = y + 46 * step;
        for (x, number) in places.iter().zip(row) {
            picture.cell((*x, at), (32, 20), if row.len() == 1 { "k3" } else { "k1" }, &number.to_string());
        }
        if row.len() > 1 {
            let next: Vec<i32> = places.chunks(2).map(|pair| pair.iter().sum::<i32>() / pair.len() as i32).collect();
            for (i, x) in places.iter().enumerate() {
                picture.arrow((x + 16, at + 20), (next[i / 2] + 16, at + 45), "l");
            }
            places = next;
        }
    }
    Ok(picture.end())
}

/// Three blocks of eight, then their sums.
pub(super) fn blocks(device: &Device) -> Result<String, Error> {
    let mut picture =
        Canvas::new("24 elements: three blocks of eight leave a sum each, and a second launch adds those");
    let y = picture.top;
    let mut sums = Vec::new();
    for block in 0..3 {
        let elements: Vec<f32> = (0..8).map(|i| ((8 * block + i) * 7 % 10) as f32).collect();
        let x = |i: usize| 8 + 130 * block + 16 * i as i32;
        picture.text(x(0), y + 8, "q s", &format!("block {block}"));
        for (i, element) in elements.iter().enumerate() {
            picture.cell((x(i), y + 12), (15, 18), "k1", &element.to_string());
        }
        let mut before = elements.clone();
        for (row, step) in (0..).zip(explain(device, &elements, Addressing::Naive, Combine::Sum)?) {
            let at = y + 52 + 40 * row;
            for addition in &step.additions {
                picture.line((x(addition.to) + 7, at - 22), (x(addition.to) + 7, at), "l");
                picture.line((x(addition.from) + 7, at - 22), (x(addition.to) + 9, at), "l");
                let value = step.tile[addition.to];
                let class = if step.additions.len() == 1 { "k3" } else { "k2" };
                let width = if value > 99.0 { 24 } else { 17 };
                picture.cell((x(addition.to), at), (width, 18), class, &value.to_string());
            }
            before.clone_from(&step.tile);
        }
        sums.push(before[0]);
        picture.arrow((x(0) + 8, y + 150), (170 + 30 * block, y + 184), "l");
    }
    for (i, sum) in (0..).zip(&sums) {
        picture.cell((156 + 30 * i, y + 184), (28, 18), "k3", &sum.to_string());
    }
    picture.text(250, y + 197, "", &format!("→ {}", sums.iter().sum::<f32>()));
    picture.text(10, y + 197, "q", "the second launch");
    Ok(picture.end())
}

/// The tree of an addressing over eight elements, by thread.
fn tree(device: &Device, addressing: Addressing, title: &str) -> Result<String, Error> {
    const ELEMENTS: [f32; 8] = [3.0, 1.0, 7.0, 0.0, 4.0, 1.0, 6.0, 3.0];
    let mut picture = Canvas::new(title);
    let y = picture.top;
    let x = |i: usize| 58 + 42 * i as i32;
    for (i, element) in ELEMENTS.iter().enumerate() {
        picture.text(x(i) + 16, y + 8, "m q s", &format!("[{i}]"));
        picture.cell((x(i), y + 12), (32, 20), "k1", &element.to_string());
    }
    for (row, step) in (0..).zip(explain(device, &ELEMENTS, addressing, Combine::Sum)?) {
        let at = y + 32 + 56 * row;
        picture.text(52, at + 40, "n q s", &format!("stride {}", step.stride));
        for addition in &step.additions {
            picture.arrow((x(addition.from) + 16, at), (x(addition.to) + 22, at + 29), "l");
            picture.arrow((x(addition.to) + 16, at), (x(addition.to) + 16, at + 29), "l");
        }
        for i in 0..ELEMENTS.len() {
            let class = match step.additions.iter().find(|addition| addition.to == i) {
                Some(_) if step.additions.len() == 1 => "k3",
                Some(_) => "k2",
                None => "p",
            };
            picture.cell((x(i), at + 30), (32, 20), class, &step.tile[i].to_string());
        }
        for addition in &step.additions {
            picture.text(x(addition.to) + 34, at + 44, "q s", &format!("t{}", addition.thread));
        }
    }
    picture.legend(y + 210, &[("k2", "a sum, beside it its thread"), ("p", "no longer read")]);
    Ok(picture.end())
}

pub(super) fn tree_naive(device: &Device) -> Result<String, Error> {
    tree(device, Addressing::Naive, "naive: strides double, every second thread works, then every fourth")
}

pub(super) fn tree_interleaved(device: &Device) -> Result<String, Error> {
    tree(device, Addressing::Interleaved, "interleaved: the first threads work, their elements 2 x stride apart")
}

pub(super) fn tree_sequential(device: &Device) -> Result<String, Error> {
    tree(device, Addressing::Sequential, "sequential: strides halve, the first threads work side by side")
}

/// Threads at work by step, with one element a thread and with two.
pub(super) fn idle(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("256 threads in a block: who works in which step");
    let mut y = picture.top;
    for (name, told, first) in [
        ("sequential", "each thread loads one element: half are idle at once", 128),
        ("first_add", "each thread loads two and adds them: half as many blocks", 256),
    ] {
        picture.text(10, y + 10, "h", name);
        picture.text(10, y + 24, "q s", told);
        y += 32;
        let mut working = first;
        while working > 0 {
            picture.text(40, y + 10, "n s", &working.to_string());
            picture.rect((46, y), (340, 12), "p", "");
            picture.rect((46, y), ((340 * working / 256).max(1), 12), "b", "");
            (y, working) = (y + 15, working / 2);
        }
        y += 12;
    }
    Ok(picture.end())
}

/// The largest element and the sum of exponentials after each element.
fn online(elements: &[f64]) -> Vec<(f64, f64)> {
    let mut state = (f64::NEG_INFINITY, 0.0);
    let push = |x: &f64| {
        let (m, d) = state;
        let larger = x.max(m);
        state = (larger, if d == 0.0 { 1.0 } else { d * (m - larger).exp() + (x - larger).exp() });
        state
    };
    elements.iter().map(push).collect()
}

pub(super) fn online_softmax(_: &Device) -> Result<String, Error> {
    const ROW: [f64; 6] = [1.0, 3.0, 2.0, 5.0, 4.0, 5.0];
    let mut picture = Canvas::new("Online softmax: one pass keeps the maximum m and the sum d of exp(x - m)");
    let y = picture.top;
    let told = |y: i32, name: &str, picture: &mut Canvas| picture.text(34, y + 14, "n", name);
    for (row, name) in (0..).zip(["x", "m", "d"]) {
        told(y + 26 * row, name, &mut picture);
    }
    let states = online(&ROW);
    for (i, (m, d)) in states.iter().enumerate() {
        let x = 44 + 58 * i as i32;
        let is_new = i == 0 || states[i - 1].0 < *m;
        picture.cell((x, y), (54, 20), "k1", &ROW[i].to_string());
        picture.cell((x, y + 26), (54, 20), if is_new { "k2" } else { "k0" }, &m.to_string());
        picture.cell((x, y + 52), (54, 20), if is_new { "k2" } else { "k0" }, &format!("{d:.3}"));
        if is_new && i > 0 {
            picture.text(x + 27, y + 86, "m q s", &format!("d * e^{}", states[i - 1].0 - m));
        }
    }
    picture.text(44, y + 104, "q s", "orange: a larger element; the old sum is scaled down");
    let (left, right) = (online(&ROW[..3])[2], online(&ROW[3..])[2]);
    let at = y + 118;
    picture.text(10, at + 12, "", "two halves");
    picture.cell((90, at), (110, 22), "k1", &format!("m {}, d {:.3}", left.0, left.1));
    picture.cell((220, at), (110, 22), "k1", &format!("m {}, d {:.3}", right.0, right.1));
    picture.arrow((145, at + 22), (190, at + 43), "l");
    picture.arrow((275, at + 22), (230, at + 43), "l");
    let m = left.0.max(right.0);
    let d = left.1 * (left.0 - m).exp() + right.1 * (right.0 - m).exp();
    picture.cell((155, at + 44), (110, 22), "k3", &format!("m {m}, d {d:.3}"));
    picture.text(272, at + 59, "q s", "as the pass above");
    assert!((d - states[5].1).abs() < 1e-12, "the halves make the whole");
    Ok(picture.end())
}
