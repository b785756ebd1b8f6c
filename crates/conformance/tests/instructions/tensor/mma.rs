//! `mma.sync`: every shape and type.

use warpfold_conformance::instructions::Random;

use crate::instructions::tensor::harness::{Proof, Register, vector};
use crate::instructions::tensor::layout::{self, Layout};
use crate::instructions::tensor::number::Ty;

/// An instruction.
#[derive(Debug, Clone, Copy)]
struct Form {
    m: usize,
    k: usize,
    a: Ty,
    b: Ty,
    c: Ty,
    /// `.satfinite`, or the operation on bits.
    modifier: &'static str,
}

const N: usize = 8;

/// A matrix by row.
pub(crate) type Matrix = Vec<Vec<f64>>;

pub(crate) fn matrix(rows: usize, columns: usize, mut f: impl FnMut() -> f64) -> Matrix {
    (0..rows).map(|_| (0..columns).map(|_| f()).collect()).collect()
}

/// Every form but those of `m8n8k4.f16`, which are in [`crate::instructions::tensor::quads`].
fn forms() -> Vec<Form> {
    use Ty as T;
    let mut all = Vec::new();
    let mut add = |shapes: &[(usize, usize)], a: Ty, b: Ty, c: Ty, modifier: &'static str| {
        all.extend(shapes.iter().map(|&(m, k)| Form { m, k, a, b, c, modifier }));
    };
    for c in [T::F32, T::F16] {
        add(&[(16, 8), (16, 16)], T::F16, T::F16, c, "");
        for a in [T::E4m3, T::E5m2] {
            for b in [T::E4m3, T::E5m2] {
                add(&[(16, 16), (16, 32)], a, b, c, "");
            }
        }
    }
    add(&[(16, 8), (16, 16)], T::Bf16, T::Bf16, T::F32, "");
    add(&[(16, 4), (16, 8)], T::Tf32, T::Tf32, T::F32, "");
    add(&[(8, 4), (16, 4), (16, 8), (16, 16)], T::F64, T::F64, T::F64, "");
    for modifier in ["", ".satfinite"] {
        for (a, b) in [(T::S8, T::S8), (T::S8, T::U8), (T::U8, T::S8), (T::U8, T::U8)] {
            add(&[(8, 16), (16, 16), (16, 32)], a, b, T::S32, modifier);
        }
        for (a, b) in [(T::S4, T::S4), (T::S4, T::U4), (T::U4, T::S4), (T::U4, T::U4)] {
            add(&[(8, 32), (16, 32), (16, 64)], a, b, T::S32, modifier);
        }
    }
    for modifier in [".xor.popc", ".and.popc"] {
        add(&[(8, 128), (16, 128), (16, 256)], T::B1, T::B1, T::S32, modifier);
    }
    all
}

impl Form {
    /// The line, with operands `d0 a0 b0 c0` and so on.
    fn line(&self) -> String {
        let Self { m, k, a, b, c, modifier } = *self;
        let (before, after) = if modifier.ends_with("popc") { ("", modifier) } else { (modifier, "") };
        let [a_count, b_count, c_count] = self.counts();
        format!(
            "mma.sync.aligned.m{m}n8k{k}.row.col{before}.{c}.{a}.{b}.{c}{after} {}, {}, {}, {};",
            vector("d", c_count),
            vector("a", a_count),
            vector("b", b_count),
            vector("c", c_count),
            a = a.name(),
            b = b.name(),
            c = c.name(),
        )
    }

    /// Registers of A, B, and C.
    fn counts(&self) -> [usize; 3] {
        let registers = |elements: usize, ty: Ty| elements / 32 * ty.bits() as usize / register_bits(ty) as usize;
        [registers(self.m * self.k, self.a), registers(self.k * N, self.b), registers(self.m * N, self.c)]
    }

    /// Runs it: the bits of D.
    #[track_caller]
    fn run(&self, a: &Matrix, b: &Matrix, c: &Matrix) -> Vec<Vec<u64>> {
        let [a_count, b_count, c_count] = self.counts();
        let mut inputs = registers("a", a_count, self.a, layout::a(self.m, self.k, self.a.bits()), a);
        inputs.extend(registers("b", b_count, self.b, layout::b(self.k, self.b.bits()), b));
        inputs.extend(registers("c", c_count, self.c, layout::c, c));
        let bits = register_bits(self.c);
        let outputs = (0..c_count).map(|i| (format!("d{i}"), bits)).collect();
        let outcome = Proof { lines: self.line(), inputs, outputs, ..Proof::default() }.run();
        let per_register = (bits / self.c.bits()) as usize;
        let mut d = vec![vec![0; N]; self.m];
        for (register, lanes) in outcome.values.iter().enumerate() {
            for (lane, word) in lanes.iter().enumerate() {
                for e in 0..per_register {
                    let (row, column) = layout::c(lane, register * per_register + e);
                    let mask = u64::MAX >> (64 - self.c.bits());
                    d[row][column] = word >> (e as u32 * self.c.bits()) & mask;
                }
            }
        }
        d
    }

    /// The sum of products of one element of D without C, and the sum of their magnitudes.
    fn product(&self, a: &Matrix, b: &Matrix, row: usize, column: usize) -> (f64, f64) {
        let terms = (0..self.k).map(|k| {
            let (x, y) = (a[row][k], b[k][column]);
            match self.modifier {
                ".xor.popc" => f64::from(u8::from((x != 0.0) != (y != 0.0))),
                _ => x * y,
            }
        });
        terms.fold((0.0, 0.0), |(sum, magnitude), term| (sum + term, magnitude + term.abs()))
    }
}

fn register_bits(ty: Ty) -> u32 {
    ty.bits().max(32)
}

/// A matrix in registers.
pub(crate) fn registers(prefix: &str, count: usize, ty: Ty, layout: Layout, matrix: &Matrix) -> Vec<Register> {
    let bits = register_bits(ty);
    let per_register = (bits / ty.bits()) as usize;
    let word = |register: usize, lane: usize| {
        (0..per_register).fold(0, |word, e| {
            let (row, column) = layout(lane, register * per_register + e);
            word | ty.encode(matrix[row][column]) << (e as u32 * ty.bits())
        })
    };
    let values = |register| (0..32).map(|lane| word(register, lane)).collect();
    (0..count).map(|i| Register { name: format!("{prefix}{i}"), bits, values: values(i) }).collect()
}

pub(crate) fn integer(random: &mut Random, (low, high): (i32, i32)) -> f64 {
    let range = usize::try_from(high - low + 1).expect("a range");
    f64::from(low) + random.below(range) as f64
}

fn uniform(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

#[test]
fn products_of_small_integers_are_exact_in_every_shape_and_type() {
    for (seed, form) in forms().into_iter().enumerate() {
        let mut random = Random::new(seed as u64);
        let a = matrix(form.m, form.k, || integer(&mut random, form.a.small()));
        let b = matrix(form.k, N, || integer(&mut random, form.b.small()));
        let c = matrix(form.m, N, || integer(&mut random, (-100, 100)));
        let d = form.run(&a, &b, &c);
        for row in 0..form.m {
            for column in 0..N {
                let expected = form.product(&a, &b, row, column).0 + c[row][column];
                // Sums of f16 above 2048 are rounded once.
                let expected = form.c.encode(form.c.round(expected));
                assert_eq!(d[row][column], expected, "{} at {row}, {column}", form.line());
            }
        }
    }
}

#[test]
fn random_products_stay_within_the_error_of_a_sum() {
    for (seed, form) in forms().into_iter().enumerate().filter(|(_, form)| !form.c.is_integer()) {
        let mut random = Random::new(1000 + seed as u64);
        let a = matrix(form.m, form.k, || form.a.round(uniform(&mut random)));
        let b = matrix(form.k, N, || form.b.round(uniform(&mut random)));
        let c = matrix(form.m, N, || form.c.round(uniform(&mut random)));
        let d = form.run(&a, &b, &c);
        let unit = match form.c {
            Ty::F64 => f64::EPSILON,
            Ty::F16 => f64::from(f32::EPSILON) + 2f64.powi(-11) / form.k as f64,
            _ => f64::from(f32::EPSILON),
        };
        for row in 0..form.m {
            for column in 0..N {
                let (product, magnitude) = form.product(&a, &b, row, column);
                let (expected, found) = (product + c[row][column], form.c.decode(d[row][column]));
                let bound = form.k as f64 * unit * (magnitude + c[row][column].abs());
                assert!((found - expected).abs() <= bound, "{}: {found}, not {expected}", form.line());
            }
        }
    }
}

#[test]
fn integer_sums_wrap_or_saturate() {
    for form in forms().into_iter().filter(|f| f.c == Ty::S32) {
        let top = form.a.small().1;
        let a = matrix(form.m, form.k, || f64::from(top));
        let b = matrix(form.k, N, || f64::from(form.b.small().1));
        let c = matrix(form.m, N, || f64::from(i32::MAX - 3));
        let d = form.run(&a, &b, &c);
        for row in 0..form.m {
            for column in 0..N {
                let product = form.product(&a, &b, row, column).0 as i32;
                let start = i32::MAX - 3;
                let sum = if form.modifier == ".satfinite" {
                    start.saturating_add(product)
                } else {
                    start.wrapping_add(product)
                };
                assert_eq!(
                    d[row][column] as i32,
                    [sum, c[row][column] as i32][usize::from(product == 0)],
                    "{}",
                    form.line()
                );
            }
        }
    }
}

#[test]
fn infinities_and_nans_go_where_arithmetic_takes_them() {
    for form in forms().into_iter().filter(|f| !f.c.is_integer()) {
        let mut a = matrix(form.m, form.k, || 1.0);
        let mut b = matrix(form.k, N, || 1.0);
        let c = matrix(form.m, N, || 0.0);
        a[1][2] = f64::NAN;
        let has_infinity = form.a != Ty::E4m3 && form.b != Ty::E4m3;
        if has_infinity {
            a[2][1] = f64::INFINITY;
            a[3][1] = f64::INFINITY;
            b[1][4] = 0.0;
            a[3][3] = f64::NEG_INFINITY;
        }
        let d = form.run(&a, &b, &c);
        for (row, line) in d.iter().enumerate().take(form.m) {
            for (column, bits) in line.iter().enumerate().take(N) {
                let found = form.c.decode(*bits);
                let expected = form.product(&a, &b, row, column).0;
                assert!(
                    found == expected || found.is_nan() && expected.is_nan(),
                    "{}: {found}, not {expected}",
                    form.line()
                );
            }
        }
        let nan = match form.c {
            Ty::F32 => 0x7fff_ffff,
            Ty::F16 => 0x7fff,
            _ => continue,
        };
        assert_eq!(d[1][0], nan, "{}: a NaN is the canonical one", form.line());
    }
}

#[test]
fn sums_of_doubles_are_rounded_as_the_instruction_says() {
    const ULP: f64 = f64::EPSILON;
    // 1 + 2^-60 and 1 - 2^-60, by the first of the products; the others add nothing.
    for (sign, modifier, expected) in [
        (1.0, "", 1.0),
        (1.0, ".rn", 1.0),
        (1.0, ".rz", 1.0),
        (1.0, ".rm", 1.0),
        (1.0, ".rp", 1.0 + ULP),
        (-1.0, ".rn", 1.0),
        (-1.0, ".rz", 1.0 - ULP / 2.0),
        (-1.0, ".rm", 1.0 - ULP / 2.0),
        (-1.0, ".rp", 1.0),
    ] {
        for m in [8, 16] {
            let form = Form { m, k: 4, a: Ty::F64, b: Ty::F64, c: Ty::F64, modifier };
            let a = (0..m).map(|_| vec![sign * 2f64.powi(-30), 0.0, 0.0, 0.0]).collect();
            let d = form.run(&a, &matrix(4, N, || 2f64.powi(-30)), &matrix(m, N, || 1.0));
            assert!(d.iter().flatten().all(|bits| f64::from_bits(*bits) == expected), "{}", form.line());
        }
    }
    let text = "wmma.mma.sync.aligned.row.col.m8n8k4.rp.f64.f64.f64.f64 {d0, d1}, {a0}, {b0}, {c0, c1};";
    let all = |name: &str, value: f64| Register { name: name.into(), bits: 64, values: vec![value.to_bits(); 32] };
    let inputs = vec![all("a0", 2f64.powi(-30)), all("b0", 2f64.powi(-30)), all("c0", 1.0), all("c1", 1.0)];
    let outputs = vec![("d0".into(), 64), ("d1".into(), 64)];
    let outcome = Proof { lines: text.into(), inputs, outputs, ..Proof::default() }.run();
    // Four products, each of which is rounded up.
    assert_eq!(outcome.values, vec![vec![(1.0 + 4.0 * ULP).to_bits(); 32]; 2]);
}

#[test]
fn a_destination_may_be_an_operand() {
    let lines = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {c0, c1, c2, c3}, {c0, c1}, {c2}, {c0, c1, c2, c3};";
    let inputs: Vec<Register> =
        (0..4).map(|i| Register { name: format!("c{i}"), bits: 32, values: vec![0x3c00_3c00; 32] }).collect();
    let outputs = (0..4).map(|i| (format!("c{i}"), 32)).collect();
    let outcome = Proof { lines: lines.into(), inputs, outputs, ..Proof::default() }.run();
    let expected = u64::from((8.0 + f32::from_bits(0x3c00_3c00)).to_bits());
    assert_eq!(outcome.values, vec![vec![expected; 32]; 4]);
}
