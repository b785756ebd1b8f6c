//! The quick way of adding products beside the plain one: the same bits.

use super::*;
use crate::exec::row::LANES;
use crate::tensor_ops::element::f16;
use crate::tensor_ops::product::{Scratch, columns_of, round_to_f16};

/// Random words (SplitMix64).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
    }
}

/// Distribution of the random words of operands.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the quick way is that of x86-64"))]
#[derive(Debug, Clone, Copy)]
enum Tile {
    /// Any bits: infinities, NaNs, subnormal numbers.
    Any,
    /// Signs and fractions, exponents near the middle.
    Even,
    /// The largest fractions with one exponent and one sign: the largest sums.
    Largest,
    /// A few elements other than zero.
    Sparse,
    /// Zeros.
    Zero,
    /// The least exponents.
    Small,
}

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the quick way is that of x86-64"))]
const TILES: [Tile; 6] = [Tile::Any, Tile::Even, Tile::Largest, Tile::Sparse, Tile::Zero, Tile::Small];

/// A type, its bits, those of its fraction, and its bias.
const TYPES: [(Element, u32, u32, u32); 5] = [
    (Element::F16, 16, 10, 15),
    (Element::Bf16, 16, 7, 127),
    (Element::Tf32, 32, 23, 127),
    (Element::E4m3, 8, 3, 7),
    (Element::E5m2, 8, 2, 15),
];

/// One element.
fn element(tile: Tile, (_, bits, fraction, bias): (Element, u32, u32, u32), random: &mut Random) -> u32 {
    let (word, exponents) = (random.word(), random.word());
    let with = |exponent: u32| {
        let sign = word >> 31 << (bits - 1);
        sign | exponent << fraction | word & ((1 << fraction) - 1)
    };
    match tile {
        Tile::Any => word >> (32 - bits),
        Tile::Even => with(bias - 3 + exponents % 6),
        Tile::Largest => bias << fraction | ((1 << fraction) - 1),
        Tile::Sparse if exponents % 5 != 0 => word >> 31 << (bits - 1),
        Tile::Sparse => with(bias - 1 + exponents % 3),
        Tile::Zero => 0,
        Tile::Small => with(exponents % 4),
    }
}

fn block(tile: Tile, ty: (Element, u32, u32, u32), random: &mut Random) -> [[u32; LANES]; 2] {
    [(); 2]
        .map(|()| [(); LANES].map(|()| (0..32 / ty.1).fold(0, |all, p| all | element(tile, ty, random) << (p * ty.1))))
}

/// Accumulators of a precision: of the size of the products, larger, smaller, any, zero.
fn accumulators(precision: Precision, kind: u32, random: &mut Random) -> Square {
    [(); 8].map(|()| {
        [(); 8].map(|()| {
            let word = random.word();
            let near = |exponent: u32| f32::from_bits(word & 0x807f_ffff | exponent << 23);
            let number = match kind {
                0 => near(127 + random.word() % 8),
                1 => near(127 + 12 + random.word() % 4),
                2 => near(127 - 12 - random.word() % 20),
                3 => f32::from_bits(word),
                4 => f32::from_bits(word & 0x8000_0000),
                _ => 4.0f32.next_down() * 64.0,
            };
            if precision == Precision::Half { f16(round_to_f16(number)) } else { number }
        })
    })
}

fn bits(sums: &Square) -> Vec<u32> {
    sums.as_flattened().iter().map(|sum| canonical(*sum)).collect()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_quick_step_gives_the_bits_of_the_plain_one() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return;
    }
    let mut random = Random(7);
    for ty in TYPES {
        for (arch, by) in [(Arch::SM_90A, By::Mma), (Arch::SM_90A, By::Wgmma), (Arch::SM_80, By::Mma)] {
            let depth = 256 / ty.1;
            let rule = Rule::of(arch, by, [ty.0; 2], depth);
            for precision in [Precision::Single, Precision::Half] {
                let (mut quick, mut tiles) = (0, 0);
                for a in TILES {
                    for b in TILES {
                        for kind in 0..6 {
                            let mut scratch = Scratch::default();
                            let sign = random.word() & 1 != 0;
                            scratch.set_a(ty.0, 0, &block(a, ty, &mut random), 8, sign, Some(&rule));
                            scratch.set_b(ty.0, &columns_of(&block(b, ty, &mut random)), 8, Some(&rule));
                            let before = accumulators(precision, kind, &mut random);
                            for columns in [0..depth as usize, 0..usize::from(rule.products), 4..8, 3..depth as usize] {
                                if columns.len() > usize::from(rule.products) && !rule.in_halves {
                                    continue;
                                }
                                let factors = scratch.factors(0);
                                let (mut mine, mut plain) = (before, before);
                                rule.plain_step(&factors, columns.clone(), precision, &mut plain);
                                // SAFETY: the host has the instructions.
                                let is_done =
                                    unsafe { avx2::step(&rule, &factors, columns.clone(), precision, &mut mine) };
                                (quick, tiles) = (quick + u32::from(is_done), tiles + 1);
                                let expected = if is_done { &plain } else { &before };
                                assert_eq!(bits(&mine), bits(expected), "{ty:?} {by:?} {a:?} {b:?} {kind} {columns:?}");
                            }
                        }
                    }
                }
                assert!(quick * 3 > tiles && quick < tiles, "{ty:?}: {quick} of {tiles}");
            }
        }
    }
}

#[test]
fn whole_products_do_not_depend_on_the_way_of_their_steps() {
    let mut random = Random(11);
    for ty in TYPES {
        for (arch, by) in [(Arch::SM_90A, By::Mma), (Arch::SM_90A, By::Wgmma), (Arch::SM_80, By::Mma)] {
            let depth = 256 / ty.1;
            let rule = Rule::of(arch, by, [ty.0; 2], depth);
            for kind in 0..6 {
                let mut scratch = Scratch::default();
                scratch.set_a(ty.0, 1, &block(Tile::Even, ty, &mut random), 8, false, Some(&rule));
                scratch.set_b(ty.0, &columns_of(&block(Tile::Even, ty, &mut random)), 8, Some(&rule));
                let before = accumulators(Precision::Single, kind, &mut random);
                let (mut mine, mut plain) = (before, before);
                let (factors, precision) = (scratch.factors(1), Precision::Single);
                rule.add(&factors, depth as usize, precision, &mut mine);
                if rule.in_halves {
                    let mut products = [[0.0; 8]; 8];
                    for half in [0..16, 16..32] {
                        rule.plain_step(&factors, half, precision, &mut products);
                    }
                    for (sum, product) in plain.as_flattened_mut().iter_mut().zip(products.as_flattened()) {
                        *sum += product;
                    }
                } else {
                    for first in (0..depth as usize).step_by(rule.products.into()) {
                        rule.plain_step(&factors, first..first + usize::from(rule.products), precision, &mut plain);
                    }
                }
                assert_eq!(bits(&mine), bits(&plain), "{ty:?} {by:?} {kind}");
            }
        }
    }
}
