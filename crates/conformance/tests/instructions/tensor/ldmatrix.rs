//! `ldmatrix`, `stmatrix`, `movmatrix`: which element goes where, what it costs, what is found.

use warpfold_conformance::instructions::Random;
use warpfold_sim::{Checks, FindingKind};

use crate::instructions::tensor::harness::{Proof, Register, vector};

/// Rows of shared memory that the matrices are drawn from, 16 bytes each.
const POOL: usize = 128;

/// Addresses of the rows that the lanes name: distinct, in no order.
fn row_addresses(random: &mut Random) -> Vec<u64> {
    let mut rows: Vec<u64> = (0..POOL as u64).collect();
    for i in 0..32 {
        let j = i + random.below(POOL - i);
        rows.swap(i, j);
    }
    rows[..32].iter().map(|row| row * 16).collect()
}

fn element(shared: &[u8], address: u64, column: usize) -> u64 {
    let at = usize::try_from(address).expect("small") + 2 * column;
    u64::from(u16::from_le_bytes([shared[at], shared[at + 1]]))
}

fn image(random: &mut Random) -> Vec<u8> {
    (0..POOL * 16).map(|_| random.bits() as u8).collect()
}

fn addresses(values: Vec<u64>) -> Register {
    Register { name: "p".into(), bits: 32, values }
}

/// What the address operand is, and the line before that makes it.
const SPACES: [(&str, &str, &str); 3] = [
    (".shared", "p", ""),
    (".shared::cta", "p", ""),
    ("", "%offset", "cvt.u64.u32 %offset, p;\ncvta.shared.u64 %offset, %offset;\n"),
];

#[test]
fn ldmatrix_gives_each_lane_its_elements() {
    let mut random = Random::new(1);
    for (space, operand, before) in SPACES {
        for count in [1, 2, 4] {
            for trans in ["", ".trans"] {
                let (shared, rows) = (image(&mut random), row_addresses(&mut random));
                let proof = Proof {
                    lines: format!(
                        "add.u32 p, p, %tile;\n{before}ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {}, [{operand}];",
                        vector("d", count)
                    ),
                    inputs: vec![addresses(rows.clone())],
                    outputs: (0..count).map(|j| (format!("d{j}"), 32)).collect(),
                    shared: shared.clone(),
                    ..Proof::default()
                };
                let outcome = proof.run();
                for j in 0..count {
                    for lane in 0..32 {
                        // Figure "ldmatrix fragment layout": row lane / 4, columns 2 (lane % 4) and
                        // the next; transposed likewise.
                        let at = |i: usize| {
                            let (row, column) = (lane / 4, lane % 4 * 2 + i);
                            let (row, column) = if trans.is_empty() { (row, column) } else { (column, row) };
                            element(&shared, rows[8 * j + row], column)
                        };
                        assert_eq!(
                            outcome.values[j][lane],
                            at(0) | at(1) << 16,
                            "x{count}{trans}, matrix {j}, lane {lane}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn stmatrix_is_the_inverse_of_ldmatrix() {
    let mut random = Random::new(2);
    for (space, operand, before) in SPACES {
        for count in [1, 2, 4] {
            for trans in ["", ".trans"] {
                let (shared, rows) = (image(&mut random), row_addresses(&mut random));
                let mut inputs = vec![addresses(rows.clone())];
                for j in 0..count {
                    let values = (0..32).map(|_| random.bits() & 0xffff_ffff).collect();
                    inputs.push(Register { name: format!("r{j}"), bits: 32, values });
                }
                let proof = Proof {
                    lines: format!(
                        "add.u32 p, p, %tile;\n{before}stmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 [{operand}], {};",
                        vector("r", count)
                    ),
                    inputs: inputs.clone(),
                    shared: shared.clone(),
                    ..Proof::default()
                };
                let mut expected = shared;
                for j in 0..count {
                    for lane in 0..32 {
                        for i in 0..2 {
                            let (row, column) = (lane / 4, lane % 4 * 2 + i);
                            let (row, column) = if trans.is_empty() { (row, column) } else { (column, row) };
                            let at = usize::try_from(rows[8 * j + row]).expect("small") + 2 * column;
                            let value = (inputs[1 + j].values[lane] >> (16 * i)) as u16;
                            expected[at..at + 2].copy_from_slice(&value.to_le_bytes());
                        }
                    }
                }
                assert_eq!(proof.run().shared, expected, "x{count}{trans}{space}");
            }
        }
    }
}

#[test]
fn movmatrix_transposes() {
    let mut random = Random::new(3);
    let values: Vec<u64> = (0..32).map(|_| random.bits() & 0xffff_ffff).collect();
    let proof = Proof {
        lines: "movmatrix.sync.aligned.m8n8.trans.b16 d, a;".into(),
        inputs: vec![Register { name: "a".into(), bits: 32, values: values.clone() }],
        outputs: vec![("d".into(), 32)],
        ..Proof::default()
    };
    let at = |row: usize, column: usize| values[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff;
    let expected: Vec<u64> =
        (0..32).map(|lane| at(lane % 4 * 2, lane / 4) | at(lane % 4 * 2 + 1, lane / 4) << 16).collect();
    assert_eq!(proof.run().values, [expected]);
}

/// Wavefronts and conflicts of the loads and stores of four matrices whose rows lie at these
/// addresses.
fn cost(rows: impl Fn(u64) -> u64) -> [(u64, u64); 2] {
    let inputs = vec![addresses((0..32).map(rows).collect())];
    let run = |line: &str, outputs: Vec<(String, u32)>| {
        let lines = format!("add.u32 p, p, %tile;\n{line}");
        let shared = vec![1; 32 * 256];
        let with = Proof { lines, inputs: inputs.clone(), outputs, shared, ..Proof::default() };
        let without = Proof { lines: "mov.b32 d0, 0;".into(), ..with.clone() };
        let (with, without) = (with.run().report.counters, without.run().report.counters);
        (
            (
                with.shared_load_wavefronts - without.shared_load_wavefronts,
                with.shared_load_bank_conflicts - without.shared_load_bank_conflicts,
            ),
            (
                with.shared_store_wavefronts - without.shared_store_wavefronts,
                with.shared_store_bank_conflicts - without.shared_store_bank_conflicts,
            ),
        )
    };
    let outputs: Vec<(String, u32)> = (0..4).map(|i| (format!("d{i}"), 32)).collect();
    let load = run("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {d0, d1, d2, d3}, [p];", outputs.clone()).0;
    let store = run("stmatrix.sync.aligned.m8n8.x4.shared.b16 [p], {d0, d1, d2, d3};", outputs).1;
    [load, store]
}

#[test]
fn each_matrix_is_a_phase_of_eight_rows() {
    assert_eq!(cost(|lane| lane * 16), [(4, 0); 2], "rows side by side");
    assert_eq!(cost(|lane| lane * 144), [(4, 0); 2], "rows padded by 16 bytes");
    assert_eq!(cost(|lane| lane * 128), [(32, 28); 2], "rows in the same banks");
    assert_eq!(cost(|lane| lane * 128 + (lane % 8) * 16), [(4, 0); 2], "rows swizzled");
    assert_eq!(cost(|lane| lane * 32), [(8, 4); 2], "every second row");
}

#[track_caller]
fn finding(lines: &str, kind: FindingKind) {
    let lane: Vec<u64> = (0..32).map(|lane| lane * 16).collect();
    let outputs: Vec<(String, u32)> = (0..4).map(|i| (format!("d{i}"), 32)).collect();
    let proof = Proof {
        lines: format!("add.u32 p, p, %tile;\n{lines}"),
        inputs: vec![addresses(lane)],
        outputs,
        shared: vec![0; 512],
        ..Proof::default()
    };
    let report = proof.try_run(Checks::All).expect("it runs").report;
    assert!(report.findings.iter().any(|f| f.kind == kind), "{lines}: {:?}", report.findings);
}

#[test]
fn wrong_addresses_and_races_are_found() {
    let load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {d0, d1, d2, d3}, [p];";
    let store = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [p], {d0, d1, d2, d3};";
    for line in [load, store] {
        finding(&line.replace("[p]", "[p+16]"), FindingKind::OutOfBounds);
        finding(&line.replace("[p]", "[p+8]"), FindingKind::Misaligned);
    }
    finding(&format!("st.shared.b32 [p+4], 7;\n{load}").replace("[p]", "[%tile]"), FindingKind::WarpSync);
    finding(&format!("{store}\nld.shared.b32 d0, [%tile+256];"), FindingKind::WarpSync);
}
