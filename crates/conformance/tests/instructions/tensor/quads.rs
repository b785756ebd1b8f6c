//! `mma.m8n8k4` of `.f16`: four products, in the layouts of its own tables.

use warpfold_conformance::instructions::Random;

use crate::instructions::tensor::harness::{Proof, vector};
use crate::instructions::tensor::layout::Layout;
use crate::instructions::tensor::mma::{integer, matrix, registers};
use crate::instructions::tensor::number::Ty;

/// Products of the instruction, one below the other: of A, C and D the rows, of B the columns.
const PRODUCTS: usize = 4;

/// Product, and whether the lane is in the high group.
fn group(lane: usize) -> (usize, bool) {
    (lane % 16 / 4, lane >= 16)
}

fn high(lane: usize) -> usize {
    if group(lane).1 { 4 } else { 0 }
}

/// A row-major; the lines of B column-major.
fn along(lane: usize, i: usize) -> (usize, usize) {
    (group(lane).0 * 8 + lane % 4 + high(lane), i)
}

/// A column-major; the lines of B row-major.
fn across(lane: usize, i: usize) -> (usize, usize) {
    (group(lane).0 * 8 + i % 4 + high(lane), lane % 4)
}

fn turned(layout: (usize, usize)) -> (usize, usize) {
    (layout.1, layout.0)
}

fn halves(lane: usize, i: usize) -> (usize, usize) {
    along(lane, i)
}

fn singles(lane: usize, i: usize) -> (usize, usize) {
    let row = (lane & 0b1) + (i & 0b10) + high(lane);
    (group(lane).0 * 8 + row, (i & 0b100) + (lane & 0b10) + (i & 0b1))
}

#[test]
fn four_products_are_exact_in_every_layout_and_type() {
    let sums = |ty| if ty == Ty::F16 { (4, 32, halves as Layout) } else { (8, 32, singles as Layout) };
    let mut random = Random::new(884);
    for (d_type, c_type) in [(Ty::F32, Ty::F32), (Ty::F32, Ty::F16), (Ty::F16, Ty::F16)] {
        for (a_name, a_layout) in [("row", along as Layout), ("col", across)] {
            let of_b: [(&str, Layout); 2] =
                [("col", |lane, i| turned(along(lane, i))), ("row", |lane, i| turned(across(lane, i)))];
            for (b_name, b_layout) in of_b {
                let a = matrix(8 * PRODUCTS, 4, || integer(&mut random, (-9, 9)));
                let b = matrix(4, 8 * PRODUCTS, || integer(&mut random, (-9, 9)));
                let c = matrix(8 * PRODUCTS, 8, || integer(&mut random, (-99, 99)));
                let ((d_count, d_bits, d_layout), (c_count, _, c_layout)) = (sums(d_type), sums(c_type));
                let line = format!(
                    "mma.sync.aligned.m8n8k4.{a_name}.{b_name}.{}.f16.f16.{} {}, {}, {}, {};",
                    d_type.name(),
                    c_type.name(),
                    vector("d", d_count),
                    vector("a", 2),
                    vector("b", 2),
                    vector("c", c_count),
                );
                let mut inputs = registers("a", 2, Ty::F16, a_layout, &a);
                inputs.extend(registers("b", 2, Ty::F16, b_layout, &b));
                inputs.extend(registers("c", c_count, c_type, c_layout, &c));
                let outputs = (0..d_count).map(|i| (format!("d{i}"), d_bits)).collect();
                let outcome = Proof { lines: line.clone(), inputs, outputs, ..Proof::default() }.run();
                let per_register = (32 / d_type.bits()) as usize;
                let mut seen = 0;
                for lane in 0..32 {
                    for i in 0..8 {
                        let (row, column) = d_layout(lane, i);
                        let word = outcome.values[i / per_register][lane] >> (i % per_register * 16);
                        let found = d_type.decode(word & (u64::MAX >> (64 - d_type.bits())));
                        let product: f64 = (0..4).map(|k| a[row][k] * b[k][row / 8 * 8 + column]).sum();
                        assert_eq!(found, product + c[row][column], "{line} at {row}, {column}");
                        seen += 1;
                    }
                }
                assert_eq!(seen, PRODUCTS * 64);
            }
        }
    }
}
