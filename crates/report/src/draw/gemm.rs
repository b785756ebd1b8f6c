//! Products of matrices: who computes what, who loads what, tiles in tiles, the pipeline.

use warpfold_device::Device;

use super::Error;
use super::canvas::{Canvas, WIDTH};

/// Which elements of `c` the 32 threads of warp 0 compute in the first two rungs.
pub(super) fn who_computes(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("A warp of a 32 x 32 block: what it reads in one step of k, and what it computes");
    let mut y = picture.top;
    for (name, told, by_rows) in [
        ("naive", "threadIdx.x is the row: 32 rows of A, one column of B", true),
        ("coalesced", "threadIdx.x is the column: one row of A, 32 columns of B", false),
    ] {
        picture.text(10, y + 10, "h", name);
        picture.text(10, y + 25, "q s", told);
        y += 34;
        // Each matrix has 8 by 8 boxes of 4 by 4 elements; the block's tile is the first 32 by 32.
        for (matrix, left) in [("A", 20), ("B", 150), ("C", 280)] {
            picture.text(left + 48, y + 8, "m", matrix);
            picture.rect((left, y + 12), (96, 96), "p", "");
        }
        let (k, top) = (40, y + 12);
        let lane = 3;
        for i in 0..32 {
            let place = 3 * i;
            let class = |i| if i == lane { "a" } else { "b" };
            let (a, b, c) = if by_rows { ((k, place), (k, 0), (0, place)) } else { ((k, 0), (place, k), (place, 0)) };
            if by_rows || i == lane {
                picture.rect((20 + a.0, top + a.1), (3, if by_rows { 2 } else { 3 }), class(i), "");
            }
            if by_rows {
                if i == lane {
                    picture.rect((150 + b.1, top + k), (3, 3), class(i), "");
                }
            } else {
                picture.rect((150 + b.0, top + k), (2, 3), class(i), "");
            }
            picture.rect(
                (280 + c.0, top + c.1),
                (if by_rows { 3 } else { 2 }, if by_rows { 2 } else { 3 }),
                class(i),
                "",
            );
        }
        let cost = if by_rows { "A: 32 sectors for 128 bytes" } else { "A: 1 sector, all lanes read one word" };
        picture.text(20, y + 124, "s q", cost);
        let cost = if by_rows { "C: 32 sectors" } else { "B and C: 4 sectors each" };
        picture.text(WIDTH - 20, y + 124, "n s q", cost);
        y += 136;
    }
    picture.legend(y, &[("b", "the warp"), ("a", "its lane 3")]);
    Ok(picture.end())
}

/// Accesses to memory for 16 outputs of products of 7 x 7 matrices, with tiles of a thread: reads
/// of A, B and C and writes of C, times threads.
fn accesses(rows: i32, columns: i32) -> (i32, i32) {
    const K: i32 = 7;
    let of_thread = rows * K + columns * K + 2 * rows * columns;
    (of_thread, 16 / (rows * columns) * of_thread)
}

pub(super) fn seven(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("16 outputs of 7 x 7 matrices: accesses to memory by the tile of a thread");
    let mut y = picture.top;
    for (rows, columns) in [(1, 1), (4, 1), (4, 4)] {
        let (of_thread, all) = accesses(rows, columns);
        let (a, b, c) = (10, 96, 182);
        for (left, matrix) in [(a, "A"), (b, "B"), (c, "C")] {
            picture.text(left + 35, y + 8, "m", matrix);
            let mut places = [("p", Vec::new()), (if matrix == "C" { "k3" } else { "b" }, Vec::new())];
            for place in 0..49 {
                let (row, column) = (place / 7, place % 7);
                let is_read = match matrix {
                    "A" => row < rows,
                    "B" => column < columns,
                    _ => row < rows && column < columns,
                };
                places[usize::from(is_read)].1.push((left + 10 * column, y + 12 + 10 * row));
            }
            for (class, places) in &places {
                picture.boxes(places, (9, 9), class);
            }
        }
        let threads = 16 / (rows * columns);
        let plural = if threads == 1 { "" } else { "s" };
        let lines = [
            format!("{} + {} of A and B,", 7 * rows, 7 * columns),
            format!("{} + {} of C", rows * columns, rows * columns),
            format!("= {of_thread} per thread,"),
            format!("{threads} thread{plural}: {all}"),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        picture.paragraph(264, y + 26, "", &lines);
        y += 94;
    }
    Ok(picture.end())
}

/// Which thread loads which elements of the tiles of `vec4`, in 16 bytes.
pub(super) fn who_loads(_: &Device) -> Result<String, Error> {
    const BLOCK: i32 = 128;
    const DEPTH: i32 = 8;
    let mut picture = Canvas::new("vec4: 256 threads bring tiles of 128 x 8 and 8 x 128, four floats each");
    let y = picture.top;
    picture.text(10, y + 8, "h", "A, 128 rows of 8");
    picture.text(10, y + 23, "s q", "row = tid / 2, col = tid % 2 * 4");
    for (i, row) in [0, 1, 2, 3, 16, 127].into_iter().enumerate() {
        let at = y + 32 + 24 * i as i32;
        picture.text(34, at + 14, "n q s", &row.to_string());
        for group in 0..DEPTH / 4 {
            let thread = row * (DEPTH / 4) + group;
            // A warp has 16 rows.
            let class = if thread < 32 {
                "k1"
            } else if thread < 64 {
                "k3"
            } else {
                "k5"
            };
            picture.cell((40 + 76 * group, at), (74, 20), class, &format!("thread {thread}"));
        }
    }
    picture.text(210, y + 8, "h", "B, 8 rows of 128");
    picture.text(210, y + 23, "s q", "row = tid / 32, col = tid % 32 * 4");
    for row in 0..DEPTH {
        let at = y + 32 + 18 * row;
        picture.text(222, at + 13, "n q s", &row.to_string());
        let first = row * (BLOCK / 4);
        picture.cell(
            (228, at),
            (164, 16),
            ["k1", "k3", "k5", "k2"][row as usize % 4],
            &format!("threads {first} to {}: warp {row}", first + 31),
        );
    }
    let lines = [
        "A warp takes 16 rows of A, 32 bytes of each: a sector per row.",
        "Of B it takes 512 bytes side by side. A is stored transposed:",
        "a step of k needs a column of A, in neighbouring words.",
    ];
    let at = picture.paragraph(10, y + 196, "s", &lines);
    picture.text(10, at + 8, "h", "tile_2d: one float a thread, four times");
    picture.text(10, at + 23, "s q", "A: row = tid / 8 + 32 * i, column = tid % 8");
    for i in 0..4 {
        picture.cell(
            (40, at + 30 + 18 * i),
            (152, 16),
            ["k1", "k3", "k5", "k2"][i as usize],
            &format!("i = {i}: rows {} to {}", 32 * i, 32 * i + 31),
        );
    }
    picture.text(210, at + 42, "s q", "B: row = tid / 128 + 2 * i,");
    picture.text(210, at + 57, "s q", "column = tid % 128");
    picture.text(210, at + 78, "s q", "strides: 32 rows and 2 rows");
    Ok(picture.end())
}

/// A thread's tile of the block's tile, and one step along `k` in registers.
pub(super) fn thread_tile(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("tile_2d: a thread computes 8 x 8 outputs from 8 numbers of A and 8 of B per step");
    let y = picture.top;
    let (a, b, c) = ((14, y + 56), (84, y + 4), (84, y + 56));
    picture.rect(a, (44, 128), "p", "");
    picture.rect(b, (128, 44), "p", "");
    picture.rect(c, (128, 128), "p", "");
    picture.text(a.0, y + 46, "s", "A, 128 x 8");
    picture.text(b.0 + 134, b.1 + 14, "s", "B, 8 x 128");
    picture.text(c.0 + 134, c.1 + 12, "s", "C, 128 x 128: 16 x 16 threads");
    // Thread 37 has rows 16 to 23 and columns 40 to 47; step 2 of the eight along k.
    let (row, column, l) = (37 / 16 * 8, 37 % 16 * 8, 2);
    picture.rect((a.0, a.1 + row), (44, 8), "k2", "");
    picture.rect((b.0 + column, b.1), (8, 44), "k2", "");
    picture.rect((a.0 + 5 * l, a.1 + row), (5, 8), "a", "");
    picture.rect((b.0 + column, b.1 + 5 * l), (8, 5), "a", "");
    picture.rect((c.0 + column, c.1 + row), (8, 8), "b", "");
    let lines = ["thread 37: rows 16 to 23,", "columns 40 to 47", "row = tid / 16 * 8", "column = tid % 16 * 8"];
    picture.paragraph(c.0 + 134, c.1 + 34, "s q", &lines);
    let at = y + 200;
    picture.text(14, at + 8, "h", "step l, in registers");
    for i in 0..8 {
        picture.rect((90, at + 40 + 13 * i), (18, 12), "a", "");
        picture.rect((118 + 19 * i, at + 22), (18, 12), "a", "");
        for j in 0..8 {
            picture.rect((118 + 19 * j, at + 40 + 13 * i), (18, 12), "b", "");
        }
    }
    picture.text(82, at + 96, "n s", "reg_a[8]");
    picture.text(276, at + 32, "s", "reg_b[8]");
    let lines = ["16 loads from", "shared memory,", "64 FMAs:", "0.25 loads per FMA", "(tile 1 x 1: 2)"];
    picture.paragraph(276, at + 62, "s q", &lines);
    Ok(picture.end())
}

/// The tile of a block, of its warps, and of the threads of a warp.
pub(super) fn warps(_: &Device) -> Result<String, Error> {
    let mut picture = Canvas::new("warp_tile: blocks go to SMs, warps to schedulers, a thread's FMAs overlap");
    let y = picture.top;
    picture.text(10, y + 8, "h", "block: 128 x 128");
    for warp in 0..8 {
        let (row, column) = (warp / 2, warp % 2);
        let class = if warp == 3 { "k2" } else { "k0" };
        picture.cell((10 + 66 * column, y + 16 + 34 * row), (64, 32), class, &format!("warp {warp}"));
    }
    picture.text(10, y + 166, "s q", "4 x 2 warps, two per");
    picture.text(10, y + 180, "s q", "scheduler of its SM");
    picture.text(156, y + 8, "h", "warp: 32 x 64, four times 16 x 32");
    // A lane's row is lane / 8 * 4, its column lane % 8 * 4, in each of four quarters.
    for lane in 0..32 {
        let (row, column) = (lane / 8, lane % 8);
        for (quarter, (dy, dx)) in [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().enumerate() {
            let class = if lane == 10 {
                "a"
            } else if quarter == 0 {
                "k1"
            } else {
                "p"
            };
            let place = (156 + 14 * column + 116 * dx, y + 16 + 16 * row + 68 * dy);
            picture.rect(place, (13, 15), class, &format!("lane {lane}"));
            if quarter == 0 && lane != 10 {
                picture.text(place.0 + 7, place.1 + 11, "m s", &lane.to_string());
            }
        }
    }
    picture.text(156, y + 166, "s q", "lane 10, red: 4 x 4 of each quarter,");
    picture.text(156, y + 180, "s q", "64 sums that are independent (ILP)");
    let lines = [
        "row = warp / 2 * 32 + lane / 8 * 4 + {0, 16}",
        "column = warp % 2 * 64 + lane % 8 * 4 + {0, 32}",
        "Eight lanes read 32 columns of B: 128 bytes, no conflict.",
    ];
    picture.paragraph(10, y + 204, "s", &lines);
    let at = y + 246;
    for (depth, (class, told)) in [
        ("k0", "blocks of C, over SMs"),
        ("k4", "steps of 8 along k: global memory → shared memory"),
        ("k2", "warps of the block, over schedulers"),
        ("k5", "l of 8: shared memory → registers"),
        ("k1", "8 x 8 FMAs of a thread"),
    ]
    .into_iter()
    .enumerate()
    {
        let inset = 16 * depth as i32;
        picture.rect((10 + inset, at + 20 * depth as i32), (380 - inset, 18), class, "");
        picture.text(18 + inset, at + 20 * depth as i32 + 13, "s", &format!("for {told}"));
    }
    Ok(picture.end())
}

/// What a block does in time, with a buffer and with two.
pub(super) fn pipeline(_: &Device) -> Result<String, Error> {
    /// Load from global memory, store to shared memory, multiply, wait.
    const LENGTHS: [(&str, i32); 3] = [("k1", 42), ("k2", 14), ("k3", 38)];
    let [load, store, fma] = LENGTHS;
    let mut picture = Canvas::new("A block's main loop, three steps: one buffer in shared memory, and two");
    let y = picture.top;
    let left = 62;
    for (row, name) in (0..).zip(["load", "store", "FMA"]) {
        picture.text(56, y + 30 + 22 * row, "n q", name);
        picture.text(56, y + 140 + 22 * row, "n q", name);
    }
    let bar = |picture: &mut Canvas, x: i32, top: i32| picture.rect((x, top), (2, 66), "a", "barrier");
    picture.text(10, y + 8, "h", "one buffer: two barriers per step, no overlap");
    let mut x = left;
    for step in 0..3 {
        let word = step.to_string();
        picture.cell((x, y + 16), (load.1, 18), load.0, &word);
        picture.cell((x + load.1, y + 38), (store.1, 18), store.0, &word);
        bar(&mut picture, x + load.1 + store.1, y + 16);
        picture.cell((x + load.1 + store.1 + 3, y + 60), (fma.1, 18), fma.0, &word);
        x += load.1 + store.1 + fma.1 + 5;
        bar(&mut picture, x - 1, y + 16);
        x += 3;
    }
    let single = x - left;
    picture.text(10, y + 118, "h", "two buffers: load i + 1 while i is multiplied");
    let mut x = left;
    picture.cell((x, y + 126), (load.1, 18), load.0, "0");
    picture.cell((x + load.1, y + 148), (store.1, 18), store.0, "0");
    x += load.1 + store.1;
    bar(&mut picture, x, y + 126);
    x += 3;
    for step in 0..3 {
        picture.cell((x, y + 170), (fma.1, 18), fma.0, &step.to_string());
        if step < 2 {
            let next = (step + 1).to_string();
            picture.cell((x, y + 126), (load.1, 18), load.0, &next);
            picture.cell((x + load.1, y + 148), (store.1, 18), store.0, &next);
            x += load.1 + store.1;
            bar(&mut picture, x, y + 126);
            x += 3;
        } else {
            x += fma.1;
        }
    }
    let told = format!("{} % of the time, with one barrier per step", 100 * (x - left) / single);
    picture.text(10, y + 212, "", &told);
    picture.text(10, y + 228, "q s", "red: __syncthreads(). A store goes to the buffer that nobody reads.");
    picture.text(10, y + 242, "q s", "Lengths are examples; ladder sgemm counts the barriers.");
    Ok(picture.end())
}
