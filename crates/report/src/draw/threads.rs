//! Threads and their elements: partitions, indices, the butterfly, transformation and reduction.

use warpfold_device::Device;

use super::Error;
use super::canvas::Canvas;

/// Colours of blocks or threads.
const KINDS: [&str; 4] = ["k1", "k2", "k3", "k5"];

/// A vector of 24 elements: by one thread, by a block of four, by six blocks of four.
pub(super) fn partitions(_: &Device) -> Result<String, Error> {
    const LEN: i32 = 24;
    let mut picture = Canvas::new("Who adds element i of 24: the first three rungs of vector-add");
    let mut y = picture.top;
    let rungs = [
        ("one_thread <<<1, 1>>>", "thread 0 takes all, one after the other", 1, 1),
        ("one_block <<<1, 4>>>", "thread t takes t, t + 4, … (stride blockDim.x)", 1, 4),
        ("grid <<<6, 4>>>", "i = blockIdx.x * blockDim.x + threadIdx.x", 6, 4),
    ];
    for (name, told, blocks, threads) in rungs {
        picture.text(10, y + 10, "h", name);
        picture.text(10, y + 25, "q", told);
        y += 32;
        for i in 0..LEN {
            let (block, thread) = (i / threads % blocks, i % threads);
            let class = if blocks > 1 { KINDS[block as usize % 4] } else { KINDS[thread as usize] };
            picture.cell((10 + 16 * (i % LEN) - i / 12, y), (15, 18), class, &thread.to_string());
            if blocks > 1 && thread == 0 {
                picture.text(10 + 16 * i, y + 30, "q s", &format!("block {block}"));
            }
        }
        y += if blocks > 1 { 44 } else { 30 };
    }
    picture.text(10, y, "q", "numbers: threads of their block");
    Ok(picture.end())
}

/// Global x and y, and the number of a thread, in a grid of blocks of 4 by 3 threads.
pub(super) fn indices(_: &Device) -> Result<String, Error> {
    const BLOCK: [i32; 2] = [4, 3];
    let mut picture = Canvas::new("grid (2, 2), block (4, 3): threads at their global x and y");
    let y = picture.top + 14;
    for (gy, gx) in (0..2 * BLOCK[1]).flat_map(|gy| (0..2 * BLOCK[0]).map(move |gx| (gy, gx))) {
        let block = gy / BLOCK[1] * 2 + gx / BLOCK[0];
        let (x, at) = (34 + 44 * gx + 6 * (gx / BLOCK[0]), y + 24 * gy + 6 * (gy / BLOCK[1]));
        let in_block = gy % BLOCK[1] * BLOCK[0] + gx % BLOCK[0];
        let class = if (gx, gy) == (5, 4) { "a" } else { KINDS[block as usize] };
        picture.rect((x, at), (42, 22), class, "");
        let word = format!("{}", block * BLOCK[0] * BLOCK[1] + in_block);
        picture.text(x + 21, at + 15, if class == "a" { "m w" } else { "m" }, &word);
        if gy == 0 {
            picture.text(x + 21, y - 4, "m q s", &gx.to_string());
        }
        if gx == 0 {
            picture.text(28, at + 15, "n q s", &gy.to_string());
        }
    }
    let [gx, gy, block, tx, ty] = [5, 4, 3, 1, 1];
    let lines = [
        "x = blockIdx.x * blockDim.x + threadIdx.x".to_owned(),
        "y = blockIdx.y * blockDim.y + threadIdx.y".to_owned(),
        "block = blockIdx.x + gridDim.x * blockIdx.y".to_owned(),
        "number = block * (blockDim.x * blockDim.y)".to_owned(),
        "            + blockDim.x * threadIdx.y + threadIdx.x".to_owned(),
        format!("red: block (1, 1) = {block}, thread ({tx}, {ty}), x {gx}, y {gy}, number 41"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    picture.paragraph(10, y + 172, "s", &lines);
    Ok(picture.end())
}

/// What `__shfl_xor_sync` gives eight lanes, mask after mask.
fn butterfly_rows(mut values: [i32; 8]) -> Vec<(usize, [i32; 8])> {
    let mut rows = Vec::new();
    for mask in [4, 2, 1] {
        values = std::array::from_fn(|lane| values[lane] + values[lane ^ mask]);
        rows.push((mask, values));
    }
    rows
}

pub(super) fn butterfly(_: &Device) -> Result<String, Error> {
    const FIRST: [i32; 8] = [3, 1, 7, 0, 4, 1, 6, 3];
    let mut picture = Canvas::new("Butterfly of eight lanes: each adds what lane ^ mask has, and all end with the sum");
    let y = picture.top;
    let x = |lane: usize| 66 + 41 * lane as i32;
    for (lane, value) in FIRST.into_iter().enumerate() {
        picture.text(x(lane) + 16, y + 8, "m s", &lane.to_string());
        picture.text(x(lane) + 16, y + 20, "m q s", &format!("{lane:03b}"));
        picture.cell((x(lane), y + 26), (32, 20), "k1", &value.to_string());
    }
    picture.text(58, y + 8, "n q s", "lane");
    picture.text(58, y + 40, "n", "value");
    let y = y + 12;
    for (step, (mask, values)) in (0..).zip(butterfly_rows(FIRST)) {
        let from = y + 34 + 66 * step;
        picture.text(58, from + 32, "n", &format!("xor {mask:03b}"));
        for lane in 0..8 {
            picture.arrow((x(lane ^ mask) + 16, from + 1), (x(lane) + 16, from + 45), "l");
        }
        for (lane, value) in values.into_iter().enumerate() {
            let class = if step == 2 { "k3" } else { "k1" };
            picture.cell((x(lane), from + 46), (32, 20), class, &value.to_string());
        }
    }
    let lines = ["A warp has five steps: masks 16, 8, 4, 2, 1. With mask 16", "lane 1 = 00001 meets lane 17 = 10001."];
    picture.paragraph(10, y + 252, "q s", &lines);
    Ok(picture.end())
}

pub(super) fn map_and_reduce(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("Transformation and reduction: what a thread owns");
    let mut y = picture.top;
    let values = [5, 2, 8, 1];
    picture.text(10, y + 10, "h", "transformation");
    picture.text(128, y + 10, "q s", "y[i] = 2 * x[i]: a thread per element, alone");
    y += 18;
    for (i, value) in (0..).zip(values) {
        let x = 30 + 90 * i;
        picture.cell((x, y), (60, 20), "k1", &value.to_string());
        picture.arrow((x + 30, y + 20), (x + 30, y + 44), "l");
        picture.text(x + 36, y + 36, "q s", &format!("thread {i}"));
        picture.cell((x, y + 45), (60, 20), "k3", &(2 * value).to_string());
    }
    y += 88;
    picture.text(10, y + 10, "h", "reduction");
    picture.text(128, y + 10, "q s", "fewer threads in each step, which wait");
    y += 18;
    let mut row: Vec<i32> = values.to_vec();
    let mut width = 90;
    loop {
        let class = if row.len() == 1 { "k3" } else { "k1" };
        for (i, value) in (0..).zip(&row) {
            picture.cell((width / 2 - 15 + width * i, y), (60, 20), class, &value.to_string());
        }
        if row.len() == 1 {
            break;
        }
        for i in 0..row.len() as i32 {
            let to = width + width * 2 * (i / 2) - 15 + 30;
            picture.arrow((width / 2 + 15 + width * i, y + 20), (to, y + 44), "l");
        }
        row = row.chunks(2).map(|pair| pair.iter().sum()).collect();
        for i in 0..row.len() as i32 {
            picture.text(width - 15 + width * 2 * i + 66, y + 60, "q s", &format!("thread {i}"));
        }
        (y, width) = (y + 45, 2 * width);
    }
    Ok(picture.end())
}
