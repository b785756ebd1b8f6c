//! Memory accesses of an instruction, read from its text.

use warpfold_sim::InstructionCounters;

/// Bytes that a lane asks for, of an access as PTX spells it: `ld.global.v4.f32` asks for 16.
pub(super) fn bytes_a_lane(text: &str) -> Option<u64> {
    let mnemonic = text.split_whitespace().find(|word| word.contains('.'))?;
    let mut parts = mnemonic.split('.');
    if mnemonic.starts_with("cp.async") {
        // cp.async.ca.shared.global [to], [from], 16: the size is the third operand.
        return text.rsplit(',').find_map(|part| part.trim().trim_end_matches(';').parse().ok());
    }
    let vector = parts.clone().find_map(|part| part.strip_prefix('v')?.parse::<u64>().ok()).unwrap_or(1);
    let bits: u64 = parts.rfind(|part| !part.is_empty())?.strip_prefix(['b', 'u', 's', 'f'])?.parse().ok()?;
    Some(vector * bits.div_ceil(8))
}

/// Sectors beyond those that the bytes asked for need: 32 bytes each, and one per request at least.
pub(super) fn excess_sectors(i: &InstructionCounters) -> u64 {
    let Some(bytes) = bytes_a_lane(&i.text) else { return 0 };
    i.sectors.saturating_sub((i.active_lanes * bytes).div_ceil(32).max(i.executions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_says_how_many_bytes_it_asks_for() {
        let cases = [
            ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];", Some(16)),
            ("@%p1 st.global.u8 [%rd1], %rs1;", Some(1)),
            ("ld.global.nc.L1::no_allocate.b64 %rd1, [%rd2];", Some(8)),
            ("cp.async.cg.shared.global [%r1], [%rd1], 16;", Some(16)),
            ("bar.sync 0;", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(bytes_a_lane(text), bytes, "{text}");
        }
    }
}
