//! `shfl.sync` (PTX ISA, "shfl.sync").

use warpfold_ptx::{Instruction, ScalarType as T};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::lanes;
use crate::exec::machine::{Machine, UNDEFINED_VALUE};
use crate::exec::meeting::{predicate, row};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::{ALL_LANES, LANES, blend};
use crate::report::FindingKind;

const UP: u8 = 0;
const DOWN: u8 = 1;
const BFLY: u8 = 2;
const IDX: u8 = 3;

/// `dst` is `a` of the lane selected by `b` and `c`; `dst2` is true if that lane was in range.
struct Shuffle<const MODE: u8>;
impl<const MODE: u8> LaneOp for Shuffle<MODE> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            let a = m.read::<u32>(op.a);
            let (b, c) = (&*m.lanes::<u32>(op.b), &*m.lanes::<u32>(op.c));
            if mask == ALL_LANES
                && let Some((out, in_range)) = whole_warp::<MODE>(&a, b, c)
            {
                if op.dst != NONE {
                    m.write(op.dst, &out, mask);
                }
                m.set_predicate(op.dst2, in_range, mask);
                return;
            }
            let mut out = [0u32; LANES];
            let (mut in_range, mut outside) = (0u32, 0u32);
            for lane in 0..32u32 {
                let (bval, cval) = (b[lane as usize] & 31, c[lane as usize] & 31);
                let segment = c[lane as usize] >> 8 & 31;
                let max = (lane & segment) | (cval & !segment);
                let min = lane & segment;
                let (j, holds) = match MODE {
                    UP => (lane.wrapping_sub(bval), lane as i32 - bval as i32 >= max as i32),
                    DOWN => (lane + bval, lane + bval <= max),
                    BFLY => (lane ^ bval, lane ^ bval <= max),
                    _ => {
                        let j = min | (bval & !segment);
                        (j, j <= max)
                    }
                };
                let from = if holds { j & 31 } else { lane };
                // A lane outside of the mask provides zero, as on an H200 (calibration case
                // `shfl-from-outside`).
                out[lane as usize] = if mask >> from & 1 != 0 { a[from as usize] } else { 0 };
                in_range |= u32::from(holds) << lane;
                outside |= (!(mask >> from) & 1) << lane;
            }
            if outside & mask != 0 && m.checked {
                let lane = (outside & mask).trailing_zeros();
                m.warn_at(op, FindingKind::InvalidSync, lane, UNDEFINED_VALUE.to_owned());
            }
            if op.dst != NONE {
                m.write(op.dst, &out, mask);
            }
            m.set_predicate(op.dst2, in_range, mask);
        }
    }
}

/// Shuffles all lanes, without segments, by one distance or from one lane, the most frequent case;
/// also returns the lanes in range. `None` for other shuffles.
#[inline(always)]
fn whole_warp<const MODE: u8>(a: &[u32; LANES], b: &[u32; LANES], c: &[u32; LANES]) -> Option<([u32; LANES], u32)> {
    let (distance, bound) = (b[0] & 31, c[0]);
    let whole = if MODE == UP { 0 } else { 31 };
    if bound & 0x1f1f != whole || lanes::differing(b, b[0], 0) | lanes::differing(c, bound, 0) != 0 {
        return None;
    }
    let by = distance as usize;
    if MODE == BFLY {
        let mut out = *a;
        // Each bit of the distance exchanges neighbours of its own.
        exchange::<1>(&mut out, by);
        exchange::<2>(&mut out, by);
        exchange::<4>(&mut out, by);
        exchange::<8>(&mut out, by);
        exchange::<16>(&mut out, by);
        return Some((out, ALL_LANES));
    }
    if MODE == IDX {
        return Some(([a[by]; LANES], ALL_LANES));
    }
    // Lanes without a source keep their own values.
    let (keep, start) = if MODE == UP { ((1u32 << distance) - 1, LANES - by) } else { (!(ALL_LANES >> distance), by) };
    let mut twice = [0u32; 2 * LANES];
    twice[..LANES].copy_from_slice(a);
    twice[LANES..].copy_from_slice(a);
    let moved = twice[start..].first_chunk::<LANES>()?;
    Some((blend(keep, a, moved), !keep))
}

/// Exchanges each lane with the one whose number differs in the bit `N`, if `by` has it.
#[inline(always)]
fn exchange<const N: usize>(lanes: &mut [u32; LANES], by: usize) {
    if by & N != 0 {
        let before = *lanes;
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = before[lane ^ N];
        }
    }
}

/// Decodes `shfl.sync.mode.b32 d|p, a, b, c, members`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sync", "up", "down", "bfly", "idx"])?;
    if !inst.has("sync") {
        return Err(d.invalid(inst, "shfl without .sync does not exist since sm_70"));
    }
    d.expect_operands(inst, 5)?;
    let handler = if inst.has("up") {
        d.handler::<Shuffle<UP>>()
    } else if inst.has("down") {
        d.handler::<Shuffle<DOWN>>()
    } else if inst.has("bfly") {
        d.handler::<Shuffle<BFLY>>()
    } else {
        d.handler::<Shuffle<IDX>>()
    };
    let (a, b, c) = (d.src(inst, 1, T::B32)?, d.src(inst, 2, T::B32)?, d.src(inst, 3, T::B32)?);
    let members = d.src(inst, 4, T::B32)?;
    let (dst, dst2) = d.value_and_predicate(inst)?;
    let slots = ([row(a, 1), row(b, 1), row(c, 1)], [row(dst, 1), predicate(dst2)]);
    d.shared_exchange(inst, Op { dst, dst2, a, b, c, ..Op::new(handler) }, members, slots)
}
