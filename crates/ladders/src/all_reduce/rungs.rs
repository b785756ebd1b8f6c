//! The ways to reduce a vector over devices, from naive to shipped.

use super::{How, Instance, Move, Rung, Way, one_shot};
use crate::Error;

/// The ways in order.
pub const RUNGS: &[Rung] = &[
    Rung {
        name: "through_rank_0",
        changed: "Every device sends its vector to rank 0, one after the other, and gets the sum back the same way",
        powers_of_two: false,
        way: Way::Steps(through_rank_0),
    },
    Rung {
        name: "tree",
        changed: "Pairs add at the same time, then pairs of pairs; the sum goes back down the same tree",
        powers_of_two: false,
        way: Way::Steps(tree),
    },
    Rung {
        name: "ring",
        changed: "A part of the vector for each device goes round, so that all links are busy all the time",
        powers_of_two: false,
        way: Way::Steps(ring),
    },
    Rung {
        name: "halving_doubling",
        changed: "As few bytes as the ring, in as few steps as the tree: partners exchange halves, then quarters",
        powers_of_two: true,
        way: Way::Steps(halving_doubling),
    },
    Rung {
        name: "one_shot",
        changed: "One kernel a device reads all vectors through peer memory: one step, for more bytes; in rank order",
        powers_of_two: false,
        way: Way::Call(one_shot),
    },
];

fn through_rank_0(all: &mut Instance) -> Result<(), Error> {
    let whole = 0..all.len;
    for from in 1..all.num_devices() {
        all.step(&[Move { from, to: 0, part: whole.clone(), how: How::Add }])?;
    }
    for to in 1..all.num_devices() {
        all.step(&[Move { from: 0, to, part: whole.clone(), how: How::Replace }])?;
    }
    Ok(())
}

fn tree(all: &mut Instance) -> Result<(), Error> {
    let n = all.num_devices();
    let levels: Vec<usize> = (0..).map(|level| 1 << level).take_while(|&distance| distance < n).collect();
    let pairs = |distance: usize| (0..n).step_by(2 * distance).map(move |low| (low, low + distance));
    let real = |distance: usize| pairs(distance).filter(move |&(_, high)| high < n);
    for &distance in &levels {
        let up = |(to, from)| Move { from, to, part: 0..all.len, how: How::Add };
        let moves: Vec<_> = real(distance).map(up).collect();
        all.step(&moves)?;
    }
    for &distance in levels.iter().rev() {
        let down = |(from, to)| Move { from, to, part: 0..all.len, how: How::Replace };
        let moves: Vec<_> = real(distance).map(down).collect();
        all.step(&moves)?;
    }
    Ok(())
}

fn ring(all: &mut Instance) -> Result<(), Error> {
    let n = all.num_devices();
    for (round, how) in (1..n).map(|round| (round, How::Add)).chain((0..n - 1).map(|round| (round, How::Replace))) {
        // Device d sends to the next one the part that it got in the round before.
        let part = |device: usize| match how {
            How::Add => device + n - (round - 1),
            How::Replace => device + 1 + n - round,
        };
        let turn = |from: usize| Move { from, to: (from + 1) % n, part: all.part(part(from)), how };
        let moves: Vec<_> = (0..n).map(turn).collect();
        all.step(&moves)?;
    }
    Ok(())
}

fn halving_doubling(all: &mut Instance) -> Result<(), Error> {
    let n = all.num_devices();
    // Halving: of the range that a device and its partner share, each keeps one half.
    let mut ranges = vec![0..all.len; n];
    let mut history = Vec::new();
    let mut distance = n / 2;
    while distance > 0 {
        let keep = |device: usize| {
            let range = &ranges[device];
            let middle = range.start + range.len() / 2;
            if device & distance == 0 { range.start..middle } else { middle..range.end }
        };
        let kept: Vec<_> = (0..n).map(keep).collect();
        let exchange = |to: usize| Move { from: to ^ distance, to, part: kept[to].clone(), how: How::Add };
        let moves: Vec<_> = (0..n).map(exchange).collect();
        all.step(&moves)?;
        history.push((distance, std::mem::replace(&mut ranges, kept)));
        distance /= 2;
    }
    // Doubling: the same partners give each other what they have, from near to far.
    while let Some((distance, whole)) = history.pop() {
        let exchange =
            |to: usize| Move { from: to ^ distance, to, part: ranges[to ^ distance].clone(), how: How::Replace };
        let moves: Vec<_> = (0..n).map(exchange).collect();
        all.step(&moves)?;
        ranges = whole;
    }
    Ok(())
}
