//! Divisions by what is known before a launch, as multiplications.

/// What makes a division of a number below 2^31 by `size` a multiplication and a shift: the factor
/// in the low word, the shift in the high one (T. Granlund, P. Montgomery, "Division by Invariant
/// Integers using Multiplication", 1994).
pub(crate) fn reciprocal(size: u64) -> u64 {
    if size >= 1 << 31 {
        return 0;
    }
    let shift = u64::from(size.max(1).next_power_of_two().ilog2());
    let factor = ((1_u128 << 32) * ((1 << shift) - u128::from(size)) / u128::from(size.max(1)) + 1) as u64;
    factor | shift << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_and_a_shift_divide_every_position_below_31_bits() {
        let sizes = (1..2000_u64).chain((0..31).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for size in sizes.filter(|size| (1..1 << 31).contains(size)) {
            let divisor = reciprocal(size);
            let (factor, shift) = (divisor & 0xffff_ffff, divisor >> 32);
            let multiples = [1, 2, 3, (1 << 31) / size].map(|n| n * size);
            let around = multiples.into_iter().flat_map(|n| [n.saturating_sub(1), n, n + 1]);
            for n in around.chain([0, (1 << 31) - 1]).filter(|n| *n < 1 << 31) {
                let sum = ((n * factor) >> 32) + n;
                assert!(sum < 1 << 32);
                assert_eq!(sum >> shift, n / size, "{n} / {size}");
            }
        }
    }
}
