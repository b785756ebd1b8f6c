//! Proofs of single PTX instructions: the virtual GPU against a reference, bit for bit.
//!
//! A proof is one call of [`check`]: a line of PTX, what its registers hold, and the reference as a
//! closure over raw bits. By convention the inputs of the line are the registers `a b c d e`, its
//! results `x y z`. Every element is one thread of one launch, so that a proof covers all
//! combinations of the edge values of its inputs ([`kind`]) and some thousands of random ones.
//! [`run`] is for proofs that choose their own inputs (all 65,536 values of an f16) or judge the
//! results themselves (within an error bound).
//!
//! References are written without the simulator's code: wide integers, loops over bits, a
//! soft-float crate.

mod kernel;
pub mod kind;
mod random;

pub use kernel::run;
pub use kind::Kind;
pub use random::Random;

/// Random combinations on top of those of edge values.
const RANDOM_ELEMENTS: usize = 1024;

/// Combinations of edge values above which [`combinations`] draws instead of listing them all.
const MOST_EDGES: usize = 8192;

/// Proves an instruction on edge values and random ones.
///
/// # Panics
/// If the text does not load or run, or a result differs from the reference's.
#[track_caller]
pub fn check<const I: usize, const O: usize>(
    text: &str,
    inputs: [Kind; I],
    results: [Kind; O],
    reference: impl Fn([u64; I]) -> [u64; O],
) {
    check_on(text, inputs, results, &combinations(inputs), reference);
}

/// Proves an instruction on chosen inputs.
///
/// # Panics
/// If the text does not load or run, or a result differs from the reference's.
#[track_caller]
pub fn check_on<const I: usize, const O: usize>(
    text: &str,
    inputs: [Kind; I],
    results: [Kind; O],
    elements: &[[u64; I]],
    reference: impl Fn([u64; I]) -> [u64; O],
) {
    let found = run(text, inputs, results, elements).unwrap_or_else(|error| panic!("`{text}`: {error}"));
    let mut failures = 0;
    let mut report = String::new();
    for (element, found) in elements.iter().zip(&found) {
        let expected = reference(*element);
        let expected: [u64; O] = std::array::from_fn(|i| expected[i] & results[i].mask());
        if *found != expected {
            failures += 1;
            if failures <= 4 {
                report += &format!(
                    "\n  of {}: {}, not {}",
                    hex(element, &inputs),
                    hex(found, &results),
                    hex(&expected, &results)
                );
            }
        }
    }
    assert!(failures == 0, "`{text}` is wrong for {failures} of {} inputs:{report}", elements.len());
}

/// The elements that [`check`] proves: edge values of each input with those of the others, then
/// random values.
#[must_use]
pub fn combinations<const I: usize>(inputs: [Kind; I]) -> Vec<[u64; I]> {
    let edges = inputs.map(Kind::edges);
    let all = edges.iter().map(Vec::len).product::<usize>();
    let mut random = Random::new(0x5eed);
    let mut elements = Vec::new();
    for n in 0..all.min(MOST_EDGES) {
        let mut rest = n;
        elements.push(std::array::from_fn(|i| {
            let len = edges[i].len();
            if all > MOST_EDGES {
                return edges[i][random.below(len)];
            }
            let index = rest % len;
            rest /= len;
            edges[i][index]
        }));
    }
    for _ in 0..RANDOM_ELEMENTS {
        elements.push(std::array::from_fn(|i| inputs[i].random(&mut random)));
    }
    elements
}

fn hex(values: &[u64], kinds: &[Kind]) -> String {
    let words: Vec<_> = values
        .iter()
        .zip(kinds)
        .map(|(v, kind)| format!("{v:#0width$x}", width = 2 + kind.bits().div_ceil(4) as usize))
        .collect();
    words.join(" ")
}
