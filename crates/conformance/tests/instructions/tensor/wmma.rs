//! `wmma`: loads, products and stores, by what they do to memory; which lane holds what is not
//! said.

use warpfold_conformance::instructions::Random;
use warpfold_sim::{Checks, FindingKind};

use crate::instructions::tensor::harness::{Proof, Register, vector};
use crate::instructions::tensor::number::Ty;

/// A product.
#[derive(Debug, Clone, Copy)]
struct Form {
    m: usize,
    n: usize,
    k: usize,
    ab: Ty,
    c: Ty,
    d: Ty,
    modifier: &'static str,
    /// Whether A, B, C and D are row-major.
    row_major: [bool; 4],
    /// `.shared`, `.global` or nothing.
    space: &'static str,
    /// What the stride is beyond the default; none: it is left out.
    gap: Option<usize>,
}

/// A matrix in memory.
#[derive(Debug, Clone, Copy)]
struct Stored {
    start: usize,
    rows: usize,
    columns: usize,
    ty: Ty,
    row_major: bool,
    stride: usize,
}

impl Stored {
    fn bit(&self, row: usize, column: usize) -> usize {
        let (lead, minor) = if self.row_major { (row, column) } else { (column, row) };
        self.start * 8 + (lead * self.stride + minor) * self.ty.bits() as usize
    }

    fn end(&self) -> usize {
        let bits = self.bit(self.rows - 1, self.columns - 1) + self.ty.bits() as usize;
        bits.div_ceil(8).next_multiple_of(128)
    }

    fn write(&self, image: &mut [u8], values: &[Vec<f64>]) {
        for (row, values) in values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let (bits, at) = (self.ty.encode(*value), self.bit(row, column));
                for i in 0..self.ty.bits() as usize {
                    image[(at + i) / 8] |= ((bits >> i & 1) as u8) << ((at + i) % 8);
                }
            }
        }
    }

    fn read(&self, image: &[u8], row: usize, column: usize) -> u64 {
        let at = self.bit(row, column);
        (0..self.ty.bits() as usize).fold(0, |v, i| v | u64::from(image[(at + i) / 8] >> ((at + i) % 8) & 1) << i)
    }
}

fn default_stride(rows: usize, columns: usize, row_major: bool) -> usize {
    if row_major { columns } else { rows }
}

impl Form {
    fn stored(&self) -> [Stored; 4] {
        let Self { m, n, k, .. } = *self;
        let sizes = [(m, k, self.ab), (k, n, self.ab), (m, n, self.c), (m, n, self.d)];
        let mut start = 0;
        std::array::from_fn(|i| {
            let ((rows, columns, ty), row_major) = (sizes[i], self.row_major[i]);
            let stride = default_stride(rows, columns, row_major) + self.gap.unwrap_or(0);
            let stored = Stored { start, rows, columns, ty, row_major, stride };
            start = stored.end();
            stored
        })
    }

    /// Registers of A, B, C and D, from the tables of the ISA.
    fn counts(&self) -> [usize; 4] {
        let sums = |ty: Ty| match ty {
            Ty::F16 => 4,
            _ => self.m * self.n / 32,
        };
        let (a, b) = match (self.ab, self.m, self.n) {
            (Ty::F16, ..) => (8, 8),
            (Ty::Bf16, 16, _) | (Ty::Tf32, ..) => (4, 4),
            (Ty::Bf16, 8, _) => (2, 8),
            (Ty::Bf16, ..) => (8, 2),
            (Ty::S8 | Ty::U8, 16, _) => (2, 2),
            (Ty::S8 | Ty::U8, 8, _) => (1, 4),
            (Ty::S8 | Ty::U8, ..) => (4, 1),
            _ => (1, 1),
        };
        [a, b, sums(self.c), sums(self.d)]
    }

    fn lines(&self) -> String {
        let shape = format!("m{}n{}k{}", self.m, self.n, self.k);
        let layout = |i: usize| if self.row_major[i] { "row" } else { "col" };
        let (counts, stored) = (self.counts(), self.stored());
        let types = [self.ab, self.ab, self.c, self.d];
        let mut text = String::from(".reg .b64 %p;\n");
        let bits = |i: usize| types[i].bits().max(32);
        for (i, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            text += &format!(".reg .b{} {name}<8>;\n", bits(i));
        }
        let address = |i: usize| match self.space {
            ".global" => format!("add.u64 %p, %image, {};\n", stored[i].start),
            "" => {
                format!("add.u32 %word, %tile, {};\ncvt.u64.u32 %p, %word;\ncvta.shared.u64 %p, %p;\n", stored[i].start)
            }
            _ => format!("add.u32 %word, %tile, {};\ncvt.u64.u32 %p, %word;\n", stored[i].start),
        };
        let stride = |i: usize| self.gap.map(|_| format!(", {}", stored[i].stride)).unwrap_or_default();
        for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
            text += &address(i);
            let (layout, ty, r) = (layout(i), types[i].name(), vector(name, counts[i]));
            text +=
                &format!("wmma.load.{name}.sync.aligned.{layout}.{shape}{}.{ty} {r}, [%p]{};\n", self.space, stride(i));
        }
        let (before, after) = if self.modifier.ends_with("popc") { (self.modifier, "") } else { ("", self.modifier) };
        let [a, b] = [layout(0), layout(1)];
        let types_of = match self.ab {
            Ty::F16 => format!("{}.{}", self.d.name(), self.c.name()),
            ab => format!("{}.{ab}.{ab}.{}", self.d.name(), self.c.name(), ab = ab.name()),
        };
        let operands: Vec<String> =
            [("d", 3), ("a", 0), ("b", 1), ("c", 2)].iter().map(|(name, i)| vector(name, counts[*i])).collect();
        text += &format!("wmma.mma{before}.sync.aligned.{a}.{b}.{shape}.{types_of}{after} {};\n", operands.join(", "));
        text += &address(3);
        let (layout, d) = (layout(3), vector("d", counts[3]));
        text + &format!(
            "wmma.store.d.sync.aligned.{layout}.{shape}{}.{} [%p], {d}{};\n",
            self.space,
            self.d.name(),
            stride(3)
        )
    }

    #[track_caller]
    fn check(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut integers = |rows: usize, columns: usize, (low, high): (i32, i32)| -> Vec<Vec<f64>> {
            let range = usize::try_from(high - low + 1).expect("a range");
            (0..rows).map(|_| (0..columns).map(|_| f64::from(low) + random.below(range) as f64).collect()).collect()
        };
        let a = integers(self.m, self.k, self.ab.small());
        let b = integers(self.k, self.n, self.ab.small());
        let c = integers(self.m, self.n, (-100, 100));
        let stored = self.stored();
        let mut shared = vec![0; stored[3].end()];
        for (stored, values) in stored.iter().zip([&a, &b, &c]) {
            stored.write(&mut shared, values);
        }
        let outcome = Proof { lines: self.lines(), shared, ..Proof::default() };
        // Results in global memory are overwritten when shared memory is copied back.
        let outcome = if self.space == ".global" {
            let copied = format!(
                "bar.sync 0;\nshl.b32 %at, %tid, 2;\n$again:\nsetp.lt.u32 %more, %at, {};\n@!%more bra $again_done;\n\
                 cvt.u64.u32 %offset, %at;\nadd.u64 %offset, %image, %offset;\nadd.u32 %at, %at, %tile;\n\
                 ld.global.b32 %word, [%offset];\nst.shared.b32 [%at], %word;\nsub.u32 %at, %at, %tile;\n\
                 add.u32 %at, %at, 128;\nbra $again;\n$again_done:\n",
                outcome.shared.len()
            );
            Proof { lines: outcome.lines.clone() + &copied, ..outcome }.run()
        } else {
            outcome.run()
        };
        for row in 0..self.m {
            for column in 0..self.n {
                let product: f64 = (0..self.k)
                    .map(|k| match self.modifier {
                        ".xor.popc" => f64::from(u8::from(a[row][k] != b[k][column])),
                        _ => a[row][k] * b[k][column],
                    })
                    .sum();
                let expected = self.d.encode(self.d.round(product + c[row][column]));
                assert_eq!(stored[3].read(&outcome.shared, row, column), expected, "{self:?} at {row}, {column}");
            }
        }
    }
}

/// Every shape and type.
fn forms() -> Vec<Form> {
    let mut all = Vec::new();
    let mut add = |sizes: &[(usize, usize, usize)], ab: Ty, c: Ty, d: Ty, modifier: &'static str| {
        for &(m, n, k) in sizes {
            let row_major = [true, false, true, true];
            all.push(Form { m, n, k, ab, c, d, modifier, row_major, space: ".shared", gap: None });
        }
    };
    let large = [(16, 16, 16), (8, 32, 16), (32, 8, 16)];
    for (c, d) in [(Ty::F32, Ty::F32), (Ty::F16, Ty::F16), (Ty::F16, Ty::F32), (Ty::F32, Ty::F16)] {
        add(&large, Ty::F16, c, d, "");
    }
    add(&large, Ty::Bf16, Ty::F32, Ty::F32, "");
    add(&[(16, 16, 8)], Ty::Tf32, Ty::F32, Ty::F32, "");
    add(&[(8, 8, 4)], Ty::F64, Ty::F64, Ty::F64, "");
    for modifier in ["", ".satfinite"] {
        for ty in [Ty::S8, Ty::U8] {
            add(&large, ty, Ty::S32, Ty::S32, modifier);
        }
        for ty in [Ty::S4, Ty::U4] {
            add(&[(8, 8, 32)], ty, Ty::S32, Ty::S32, modifier);
        }
    }
    for modifier in [".xor.popc", ".and.popc"] {
        add(&[(8, 8, 128)], Ty::B1, Ty::S32, Ty::S32, modifier);
    }
    all
}

#[test]
fn matrices_are_loaded_multiplied_and_stored_in_every_layout() {
    for (seed, form) in forms().into_iter().enumerate() {
        for layouts in 0..16 {
            let mut row_major = [0, 1, 2, 3].map(|i| layouts >> i & 1 == 0);
            if form.ab.bits() < 8 {
                (row_major[0], row_major[1]) = (true, false);
            }
            Form { row_major, ..form }.check(seed as u64 * 16 + layouts);
        }
    }
}

#[test]
fn matrices_may_be_parts_of_larger_ones_in_any_space() {
    for (seed, form) in forms().into_iter().enumerate() {
        for space in [".shared", ".shared::cta", ".global", ""] {
            for gap in [None, Some(0), Some(128)] {
                Form { space, gap, ..form }.check(seed as u64);
            }
        }
    }
}

#[test]
fn wmma_beyond_memory_is_found() {
    let proof = Proof {
        lines: "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {d0, d1, d2, d3, d4, d5, d6, d7}, [%tile], 24;"
            .into(),
        outputs: (0..8).map(|i| (format!("d{i}"), 32)).collect(),
        shared: vec![1; 512],
        ..Proof::default()
    };
    let report = proof.try_run(Checks::All).expect("it runs").report;
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::OutOfBounds), "{:?}", report.findings);
}

#[test]
fn registers_of_a_fragment_may_be_scaled() {
    let half = u64::from(half::f16::from_f32(0.5).to_bits());
    let pair = half | half << 16;
    let scale: String = (0..8).map(|i| format!("mul.f16x2 a{i}, a{i}, s;\n")).collect();
    let (a, d) = (vector("a", 8), vector("d", 8));
    let proof = Proof {
        lines: format!(
            ".reg .b32 a<8>, d<8>;\nwmma.load.a.sync.aligned.col.m8n32k16.shared.f16 {a}, [%tile];\n{scale}\
             mov.b32 d0, 0;\nmov.b32 d1, 0;\nmov.b32 d2, 0;\nmov.b32 d3, 0;\nmov.b32 d4, 0;\nmov.b32 d5, 0;\nmov.b32 d6, 0;\nmov.b32 d7, 0;\n\
             .reg .b32 b<8>;\nwmma.load.b.sync.aligned.row.m8n32k16.shared.f16 {b}, [%tile];\n\
             wmma.mma.sync.aligned.col.row.m8n32k16.f32.f32 {d}, {a}, {b}, {d};\nbar.sync 0;\n\
             wmma.store.d.sync.aligned.row.m8n32k16.shared.f32 [%tile], {d};",
            b = vector("b", 8)
        ),
        inputs: vec![Register { name: "s".into(), bits: 32, values: vec![pair; 32] }],
        shared: [0x00, 0x3c].repeat(512),
        ..Proof::default()
    };
    let shared = proof.run().shared;
    assert!(shared.chunks_exact(4).all(|word| f32::from_le_bytes(word.try_into().expect("four bytes")) == 8.0));
}
