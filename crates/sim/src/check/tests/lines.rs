//! Lines of shared memory find what words find.

use super::*;

/// A step by one of four warps: mostly rows of words and broadcasts, in two lines and across them.
fn drawn(next: &mut impl FnMut(u32) -> u32) -> Step {
    let instr = next(6);
    let (step, line) = (if next(3) == 0 { write(instr) } else { read(instr) }, u64::from(next(2)) * 128);
    let (shape, word, lanes) = (next(12), u64::from(next(32)) * 4, next(u32::MAX));
    let step = match shape {
        0..6 => step.at(|lane| line + lane * 4),
        6..9 => read(instr).at(|_| line + word),
        9 => step.at(|lane| line + (31 - lane) * 4),
        10 => step.at(|lane| word + lane * 4),
        _ => step.at(|lane| line + lane * 4).lanes(lanes | 1),
    };
    step.warp(next(4))
}

/// Takes a step by its line if that answers; whether it does.
fn by_line(rig: &mut Rig, step: &Step) -> bool {
    let Access { instr, warp, mask, kind, .. } = step.access;
    let (first, second) = (step.addresses[0] as u32, step.addresses[1] as u32);
    let is_line = second == first + 4 || second == first;
    let access = WarpAccess { instr, warp, reads: kind == Kind::Read, first, is_uniform: second == first };
    mask == ALL && is_line && rig.blocks[0].line_access(access)
}

#[test]
fn lines_find_what_words_find() {
    let mut seed = 1u64;
    let mut next = |below: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) as u32) % below.max(1)
    };
    let (mut answered, mut found) = (0, 0);
    for _ in 0..2000 {
        let (mut lines, mut words) = (Rig::filled(128), Rig::filled(128));
        words.blocks[0].shared.begin_lines(false);
        for _ in 0..40 {
            let event = next(8);
            let warp = next(4);
            let step = drawn(&mut next);
            for (rig, is_quick) in [(&mut lines, true), (&mut words, false)] {
                match event {
                    0 | 1 => rig.sync(0),
                    2 => rig.warp_sync(warp, ALL),
                    3 if warp == 0 => rig.barrier(0, 1, 0b11, 0b11),
                    _ if is_quick && by_line(rig, &step) => answered += 1,
                    _ => rig.shared(&step),
                }
            }
        }
        let told = |rig: &Rig| rig.findings.iter().map(|found| format!("{found:?}")).collect::<Vec<_>>();
        assert_eq!(told(&lines), told(&words));
        found += told(&lines).len();
    }
    assert!(answered > 1000 && found > 1000, "{answered} answered, {found} found");
}
