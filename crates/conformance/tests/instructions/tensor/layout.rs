//! The fragment layouts of `mma`, one formula for each table of the PTX ISA ("Matrix Fragments for
//! mma"), written as there.

/// Row and column of element `i` of a lane.
pub(crate) type Layout = fn(usize, usize) -> (usize, usize);

fn group(lane: usize) -> usize {
    lane >> 2
}

fn thread(lane: usize) -> usize {
    lane % 4
}

/// A of a shape whose elements have `bits` bits.
pub(crate) fn a(m: usize, k: usize, bits: u32) -> Layout {
    match (m, k, bits) {
        (8, 4, 64) => |lane, _| (group(lane), thread(lane)),
        (8, 16, 8) => |lane, i| (group(lane), thread(lane) * 4 + i),
        (8, 32, 4) => |lane, i| (group(lane), thread(lane) * 8 + i),
        (8, 128, 1) => |lane, i| (group(lane), thread(lane) * 32 + i),
        (16, 4, _) => |lane, i| (group(lane) + if i == 1 { 8 } else { 0 }, thread(lane)),
        (16, 8, 16) => |lane, i| (group(lane) + if i < 2 { 0 } else { 8 }, thread(lane) * 2 + (i & 1)),
        (16, 8, _) => |lane, i| {
            let row = group(lane) + if i == 0 || i == 2 { 0 } else { 8 };
            (row, thread(lane) + if i < 2 { 0 } else { 4 })
        },
        (16, 16, 16) => |lane, i| {
            let row = group(lane) + if i < 2 || (4..6).contains(&i) { 0 } else { 8 };
            (row, thread(lane) * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
        },
        (16, 16, 64) => |lane, i| {
            if i % 2 == 0 { (group(lane), i * 2 + thread(lane)) } else { (group(lane) + 8, i * 2 - 2 + thread(lane)) }
        },
        (16, 16, 8) => |lane, i| (group(lane) + if i < 4 { 0 } else { 8 }, thread(lane) * 4 + (i & 3)),
        (16, 32, 4) => |lane, i| (group(lane) + if i < 8 { 0 } else { 8 }, thread(lane) * 8 + (i & 7)),
        (16, 32, 8) => |lane, i| {
            let row = group(lane) + if i < 4 || (8..12).contains(&i) { 0 } else { 8 };
            (row, thread(lane) * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
        },
        (16, 64, 4) => |lane, i| {
            let row = group(lane) + if i < 8 || (16..24).contains(&i) { 0 } else { 8 };
            (row, thread(lane) * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
        },
        (16, 128, 1) => |lane, i| (group(lane) + if i < 32 { 0 } else { 8 }, thread(lane) * 32 + (i & 0x1f)),
        (16, 256, 1) => |lane, i| {
            let row = group(lane) + if i < 32 || (64..96).contains(&i) { 0 } else { 8 };
            (row, thread(lane) * 32 + (i & 0x1f) + if i < 64 { 0 } else { 128 })
        },
        _ => panic!("no table for A of m{m}n8k{k} with {bits} bits"),
    }
}

/// B of a shape whose elements have `bits` bits.
pub(crate) fn b(k: usize, bits: u32) -> Layout {
    match (k, bits) {
        (4, _) => |lane, _| (thread(lane), group(lane)),
        (8, 16) => |lane, i| (thread(lane) * 2 + i, group(lane)),
        (8, _) => |lane, i| (thread(lane) + if i == 0 { 0 } else { 4 }, group(lane)),
        (16, 16) => |lane, i| (thread(lane) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, group(lane)),
        (16, 64) => |lane, i| (thread(lane) + i * 4, group(lane)),
        (16, 8) => |lane, i| (thread(lane) * 4 + i, group(lane)),
        (32, 4) => |lane, i| (thread(lane) * 8 + (i & 7), group(lane)),
        (32, 8) => |lane, i| (thread(lane) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, group(lane)),
        (64, 4) => |lane, i| (thread(lane) * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, group(lane)),
        (128, 1) => |lane, i| (thread(lane) * 32 + i, group(lane)),
        (256, 1) => |lane, i| (thread(lane) * 32 + (i & 0x1f) + if i < 32 { 0 } else { 128 }, group(lane)),
        _ => panic!("no table for B of n8k{k} with {bits} bits"),
    }
}

/// C and D of every shape.
pub(crate) fn c(lane: usize, i: usize) -> (usize, usize) {
    (group(lane) + if i < 2 { 0 } else { 8 }, thread(lane) * 2 + (i & 1))
}
