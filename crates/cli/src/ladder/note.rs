//! The note before a problem that takes minutes on the virtual GPU.

use warpfold_ladders::ladder as ladders;

/// Floating-point operations that every rung does within seconds on the virtual GPU.
const QUICK_FLOPS: u64 = 1 << 30;

/// Returns the note before the first rung of a problem that takes minutes on the virtual GPU.
pub(super) fn note(ladder: &ladders::Ladder, size: u64, now: &ladders::Progress) -> Option<String> {
    let is_first = now.rung_idx == 0 && now.blocks.is_none() && size != ladder.default_size;
    let flops = now.flops.filter(|flops| is_first && *flops > QUICK_FLOPS)?;
    let text = |size| ladder.size_text(size).unwrap_or_else(|| size.to_string());
    let (name, size, default) = (ladder.name, text(size), text(ladder.default_size));
    let work = format!("{:.1} GFLOP for each of {} rung(s)", flops as f64 / 1e9, now.num_rungs);
    Some(format!("{name} {size}: {work} take the virtual GPU minutes; the default, {default}, takes seconds\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_minutes_is_announced_with_one_of_seconds() {
        let conv = ladders::ladder("conv").expect("there is a ladder");
        let size = conv.parse_size("5").expect("a problem");
        let first =
            ladders::Progress { rung: "naive", rung_idx: 0, num_rungs: 5, blocks: None, flops: Some(10_500_000_000) };
        let expected = "conv 5x1: 10.5 GFLOP for each of 5 rung(s) take the virtual GPU minutes; the default, 2x8, takes seconds\n";
        assert_eq!(note(conv, size, &first).as_deref(), Some(expected));
        for quiet in [
            ladders::Progress { rung_idx: 1, ..first },
            ladders::Progress { blocks: Some((1, 2)), ..first },
            ladders::Progress { flops: Some(1 << 20), ..first },
            ladders::Progress { flops: None, ..first },
        ] {
            assert_eq!(note(conv, size, &quiet), None);
        }
        let hgemm = ladders::ladder("hgemm").expect("there is a ladder");
        let first = ladders::Progress { rung: "mma_sync", flops: Some(1_207_959_552), ..first };
        assert_eq!(note(hgemm, hgemm.default_size, &first), None, "the default is what takes seconds");
    }
}
