//! `wgmma`: every type, all layouts of operands; [`rules`] has that it is asynchronous, and what
//! this forbids.

mod rules;

use warpfold_conformance::instructions::Random;

use crate::instructions::tensor::harness::{Proof, Register, vector};
use crate::instructions::tensor::number::Ty;
use crate::instructions::tensor::shared_matrix::{Major, Placement};

/// An instruction.
#[derive(Debug, Clone, Copy)]
struct Form {
    n: usize,
    a: Ty,
    b: Ty,
    d: Ty,
    modifier: &'static str,
    /// Where A is; registers if nowhere in shared memory.
    a_at: Option<Placement>,
    b_at: Placement,
    scale_a: i32,
    scale_b: i32,
    adds: bool,
}

const M: usize = 64;

type Matrix = Vec<Vec<f64>>;

fn matrix(rows: usize, columns: usize, mut f: impl FnMut() -> f64) -> Matrix {
    (0..rows).map(|_| (0..columns).map(|_| f()).collect()).collect()
}

/// Row and column of element `i` of D of a thread: figure "WGMMA register fragment layout for
/// accumulator matrix D".
fn d_position(thread: usize, i: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    (16 * warp + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2)
}

/// Row and column of element `e` of register `r` of A: the figures for A of 64-bit, 32-bit, …
/// elements, of which a register holds `per`.
fn a_position(thread: usize, r: usize, e: usize, per: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    (16 * warp + lane / 4 + 8 * (r % 2), per * (lane % 4) + e + 4 * per * (r / 2))
}

impl Form {
    fn k(&self) -> usize {
        256 / self.a.bits() as usize
    }

    fn d_registers(&self) -> usize {
        self.n / if self.d == Ty::F16 { 4 } else { 2 }
    }

    fn name(&self) -> String {
        let (before, after) = if self.a == Ty::B1 { ("", ".and.popc") } else { (self.modifier, "") };
        let types = format!("{}.{}.{}", self.d.name(), self.a.name(), self.b.name());
        format!("wgmma.mma_async.sync.aligned.m64n{}k{}{before}.{types}{after}", self.n, self.k())
    }

    /// The instruction alone, with operands `%da %db %adds`.
    fn line(&self) -> String {
        let a = if self.a_at.is_some() { "%da".into() } else { vector("a", 4) };
        let mut line = format!("{} {}, {a}, %db, %adds", self.name(), vector("d", self.d_registers()));
        if !self.a.is_integer() {
            line += &format!(", {}, {}", self.scale_a, self.scale_b);
        }
        if matches!(self.a, Ty::F16 | Ty::Bf16) {
            for placement in self.a_at.iter().chain([&self.b_at]) {
                line += if placement.major == Major::Mn { ", 1" } else { ", 0" };
            }
        }
        line + ";\n"
    }

    /// Lines that make the descriptors and `scale-d`.
    fn prologue(&self) -> String {
        let make = |name: &str, placement: &Placement| {
            format!(
                "shr.u32 %word, %tile, 4;\ncvt.u64.u32 {name}, %word;\nadd.u64 {name}, {name}, {:#x};\n",
                placement.descriptor()
            )
        };
        ".reg .b64 %da, %db;\n.reg .pred %adds;\n".to_owned()
            + &self.a_at.as_ref().map(|a| make("%da", a)).unwrap_or_default()
            + &make("%db", &self.b_at)
            + &format!("setp.ne.u32 %adds, {}, 0;\n", u32::from(self.adds))
    }

    /// The proof with operands in place, and no lines.
    fn proof(&self, a: &Matrix, b: &Matrix, d: &Matrix) -> Proof {
        let (k, bits) = (self.k(), self.a.bits() as usize);
        let mut end = self.b_at.end(self.n, k, bits);
        let mut inputs = Vec::new();
        if let Some(placement) = &self.a_at {
            end = end.max(placement.end(M, k, bits));
        } else {
            let per = 32 / bits;
            for r in 0..4 {
                let word = |thread| {
                    (0..per).fold(0, |word, e| {
                        let (row, column) = a_position(thread, r, e, per);
                        word | self.a.encode(a[row][column]) << (e * bits)
                    })
                };
                inputs.push(Register { name: format!("a{r}"), bits: 32, values: (0..128).map(word).collect() });
            }
        }
        let mut shared = vec![0; end];
        if let Some(placement) = &self.a_at {
            placement.write(&mut shared, (M, k, bits), |m, k| self.a.encode(a[m][k]));
        }
        self.b_at.write(&mut shared, (self.n, k, bits), |n, k| self.b.encode(b[k][n]));
        let per = 32 / self.d.bits() as usize;
        for r in 0..self.d_registers() {
            let word = |thread| {
                (0..per).fold(0, |word, e| {
                    let (row, column) = d_position(thread, r * per + e);
                    word | self.d.encode(d[row][column]) << (e * self.d.bits() as usize)
                })
            };
            inputs.push(Register { name: format!("d{r}"), bits: 32, values: (0..128).map(word).collect() });
        }
        let outputs = (0..self.d_registers()).map(|r| (format!("d{r}"), 32)).collect();
        Proof { lines: String::new(), warps: 4, inputs, outputs, shared }
    }

    /// D as bits, of the registers that a run left.
    fn read(&self, values: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let mut d = vec![vec![0; self.n]; M];
        let per = 32 / self.d.bits() as usize;
        for (r, threads) in values.iter().enumerate() {
            for (thread, word) in threads.iter().enumerate() {
                for e in 0..per {
                    let (row, column) = d_position(thread, r * per + e);
                    d[row][column] = word >> (e * self.d.bits() as usize) & (u64::MAX >> (64 - self.d.bits()));
                }
            }
        }
        d
    }

    #[track_caller]
    fn run(&self, a: &Matrix, b: &Matrix, d: &Matrix) -> Vec<Vec<u64>> {
        let mut proof = self.proof(a, b, d);
        proof.lines = format!(
            "{}wgmma.fence.sync.aligned;\n{}wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
            self.prologue(),
            self.line()
        );
        self.read(&proof.run().values)
    }

    /// An element of `A B`, and the sum of the magnitudes of its terms.
    fn product(&self, a: &Matrix, b: &Matrix, row: usize, column: usize) -> (f64, f64) {
        let sign = f64::from(self.scale_a * self.scale_b);
        let terms = (0..self.k()).map(|k| sign * a[row][k] * b[k][column]);
        terms.fold((0.0, 0.0), |(sum, magnitude), term| (sum + term, magnitude + term.abs()))
    }

    #[track_caller]
    fn check_small_integers(&self, seed: u64) {
        let mut random = Random::new(seed);
        let a = matrix(M, self.k(), || integer(&mut random, self.a.small()));
        let b = matrix(self.k(), self.n, || integer(&mut random, self.b.small()));
        let d = matrix(M, self.n, || integer(&mut random, (-100, 100)));
        let found = self.run(&a, &b, &d);
        for row in 0..M {
            for column in 0..self.n {
                let start = if self.adds { d[row][column] } else { 0.0 };
                let expected = self.product(&a, &b, row, column).0 + start;
                let expected = self.d.encode(self.d.round(expected));
                assert_eq!(found[row][column], expected, "{self:?} at {row}, {column}");
            }
        }
    }
}

fn integer(random: &mut Random, (low, high): (i32, i32)) -> f64 {
    let range = usize::try_from(high - low + 1).expect("a range");
    f64::from(low) + random.below(range) as f64
}

fn uniform(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
}

/// The types of A, B and D that exist.
fn types() -> Vec<(Ty, Ty, Ty)> {
    use Ty as T;
    let mut all = vec![
        (T::F16, T::F16, T::F32),
        (T::F16, T::F16, T::F16),
        (T::Bf16, T::Bf16, T::F32),
        (T::Tf32, T::Tf32, T::F32),
    ];
    for (a, b) in [(T::E4m3, T::E4m3), (T::E4m3, T::E5m2), (T::E5m2, T::E4m3), (T::E5m2, T::E5m2)] {
        all.extend([(a, b, T::F32), (a, b, T::F16)]);
    }
    for (a, b) in [(T::S8, T::S8), (T::S8, T::U8), (T::U8, T::S8), (T::U8, T::U8), (T::B1, T::B1)] {
        all.push((a, b, T::S32));
    }
    all
}

/// A form with dense operands; A before B in shared memory.
fn form((a, b, d): (Ty, Ty, Ty), n: usize, majors: [Major; 2], units: [usize; 2], a_in_registers: bool) -> Form {
    let (bits, k) = (a.bits() as usize, 256 / a.bits() as usize);
    let a_at = Placement::dense(0, majors[0], units[0], M, bits);
    let start = if a_in_registers { 0 } else { a_at.end(M, k, bits) };
    let b_at = Placement::dense(start, majors[1], units[1], n, bits);
    let a_at = (!a_in_registers).then_some(a_at);
    Form { n, a, b, d, modifier: "", a_at, b_at, scale_a: 1, scale_b: 1, adds: true }
}

#[test]
fn every_type_is_exact_on_small_integers() {
    let mut random = Random::new(7);
    for types in types() {
        for n in [8, 16, 24, 32, 48, 64, 128, 208, 256] {
            for a_in_registers in [false, true] {
                let has_majors = matches!(types.0, Ty::F16 | Ty::Bf16);
                let mut any = |n: usize| random.below(n);
                let majors = [(); 2].map(|()| if has_majors && any(2) == 1 { Major::Mn } else { Major::K });
                let units = [(); 2].map(|()| [1, 2, 4, 8][any(4)]);
                let mut form = form(types, n, majors, units, a_in_registers);
                form.adds = any(4) != 0;
                if !types.0.is_integer() {
                    (form.scale_a, form.scale_b) = ([1, -1][any(2)], [1, -1][any(2)]);
                }
                form.check_small_integers(n as u64);
            }
        }
    }
}

#[test]
fn every_number_of_columns_works() {
    for n in (8..=256).step_by(8) {
        form((Ty::Bf16, Ty::Bf16, Ty::F32), n, [Major::K; 2], [8; 2], false).check_small_integers(n as u64);
    }
    for n in (48..=256).step_by(16) {
        form((Ty::S8, Ty::U8, Ty::S32), n, [Major::K; 2], [8; 2], true).check_small_integers(n as u64);
    }
}

#[test]
fn every_layout_of_every_operand_is_read() {
    for a_major in [Major::K, Major::Mn] {
        for b_major in [Major::K, Major::Mn] {
            for a_units in [1, 2, 4, 8] {
                for b_units in [1, 2, 4, 8] {
                    let types = (Ty::F16, Ty::F16, Ty::F32);
                    let form = form(types, 96, [a_major, b_major], [a_units, b_units], false);
                    form.check_small_integers((a_units * 10 + b_units) as u64);
                }
            }
        }
    }
    for units in [1, 2, 4, 8] {
        for types in [(Ty::Tf32, Ty::Tf32, Ty::F32), (Ty::E4m3, Ty::E5m2, Ty::F32), (Ty::B1, Ty::B1, Ty::S32)] {
            form(types, 32, [Major::K; 2], [units; 2], false).check_small_integers(units as u64);
        }
    }
}

#[test]
fn strides_may_leave_gaps() {
    let types = (Ty::Bf16, Ty::Bf16, Ty::F32);
    for (major, units, leading, stride) in [
        (Major::K, 1, 128, 256),
        (Major::K, 1, 144, 1536),
        (Major::K, 2, 16, 512),
        (Major::K, 8, 16, 2048),
        (Major::Mn, 1, 256, 512),
        (Major::Mn, 1, 128, 256),
        (Major::Mn, 4, 512, 2048),
        (Major::Mn, 8, 1024, 4096),
    ] {
        let mut form = form(types, 64, [Major::K, major], [8, units], false);
        form.b_at = Placement { leading, stride, ..form.b_at };
        form.check_small_integers(11);
    }
}

#[test]
fn a_pattern_may_start_off_its_boundary_with_a_base_offset() {
    for units in [2, 4, 8] {
        for line in 1..8 {
            let mut form = form((Ty::Bf16, Ty::Bf16, Ty::F32), 32, [Major::K; 2], [units; 2], false);
            form.b_at.start += 128 * line;
            form.check_small_integers(line as u64);
        }
    }
}

/// An atom of 128 bytes is read by four instructions, whose descriptors differ by 32 bytes.
#[test]
fn a_swizzled_atom_is_read_in_steps_of_k() {
    let mut random = Random::new(9);
    let wide = Placement::dense(0, Major::K, 8, M, 16);
    let b_wide = Placement { start: 8192, ..wide };
    let a = matrix(M, 64, || integer(&mut random, (-8, 8)));
    let b = matrix(64, 64, || integer(&mut random, (-8, 8)));
    let base = Form { b_at: b_wide, ..form((Ty::Bf16, Ty::Bf16, Ty::F32), 64, [Major::K; 2], [8; 2], false) };
    let mut proof = base.proof(&matrix(M, 16, || 0.0), &matrix(16, 64, || 0.0), &matrix(M, 64, || 0.0));
    wide.write(&mut proof.shared, (M, 64, 16), |m, k| Ty::Bf16.encode(a[m][k]));
    b_wide.write(&mut proof.shared, (64, 64, 16), |n, k| Ty::Bf16.encode(b[k][n]));
    proof.lines = base.prologue() + "wgmma.fence.sync.aligned;\n";
    for _ in 0..4 {
        proof.lines += &(base.line() + "add.u64 %da, %da, 2;\nadd.u64 %db, %db, 2;\n");
    }
    proof.lines += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    let found = base.read(&proof.run().values);
    for row in 0..M {
        for column in 0..64 {
            let expected: f64 = (0..64).map(|k| a[row][k] * b[k][column]).sum();
            assert_eq!(Ty::F32.decode(found[row][column]), expected, "at {row}, {column}");
        }
    }
}

#[test]
fn random_products_stay_within_the_error_of_a_sum() {
    for (seed, types) in types().into_iter().enumerate().filter(|(_, types)| !types.0.is_integer()) {
        let form = form(types, 40, [Major::K; 2], [8, 4], seed % 2 == 0);
        let mut random = Random::new(seed as u64);
        let a = matrix(M, form.k(), || form.a.round(uniform(&mut random)));
        let b = matrix(form.k(), form.n, || form.b.round(uniform(&mut random)));
        let d = matrix(M, form.n, || form.d.round(uniform(&mut random)));
        let found = form.run(&a, &b, &d);
        let rounding = if form.d == Ty::F16 { 2f64.powi(-11) } else { 0.0 };
        // `wgmma` of 8-bit floats keeps 13 bits after the point of the largest exponent.
        let of_a_term = if form.a.bits() == 8 { 2f64.powi(-13) } else { f64::from(f32::EPSILON) };
        for row in 0..M {
            for column in 0..form.n {
                let (product, magnitude) = form.product(&a, &b, row, column);
                let (expected, found) = (product + d[row][column], form.d.decode(found[row][column]));
                let bound = (form.k() as f64 * of_a_term + rounding) * (magnitude + d[row][column].abs());
                assert!((found - expected).abs() <= bound, "{form:?}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn infinities_and_nans_go_where_arithmetic_takes_them() {
    for types in [(Ty::F16, Ty::F16, Ty::F32), (Ty::Bf16, Ty::Bf16, Ty::F32), (Ty::E5m2, Ty::E5m2, Ty::F32)] {
        let form = form(types, 16, [Major::K; 2], [8; 2], false);
        let (mut a, b, d) = (matrix(M, form.k(), || 1.0), matrix(form.k(), 16, || 1.0), matrix(M, 16, || 1.0));
        a[20][3] = f64::INFINITY;
        a[21][3] = f64::NEG_INFINITY;
        a[22][5] = f64::NAN;
        (a[23][1], a[23][2]) = (f64::INFINITY, f64::NEG_INFINITY);
        let found = form.run(&a, &b, &d);
        assert_eq!(f32::from_bits(found[20][7] as u32), f32::INFINITY);
        assert_eq!(f32::from_bits(found[21][7] as u32), f32::NEG_INFINITY);
        assert_eq!([found[22][7], found[23][7]], [0x7fff_ffff; 2], "a NaN is the canonical one");
        assert_eq!(f32::from_bits(found[24][7] as u32), form.k() as f32 + 1.0);
    }
}

#[test]
fn integer_sums_wrap_or_saturate() {
    for modifier in ["", ".satfinite"] {
        let form = Form { modifier, ..form((Ty::U8, Ty::U8, Ty::S32), 16, [Major::K; 2], [4; 2], true) };
        let ones = || 1.0;
        let start = i32::MAX - 5;
        let found = form.run(&matrix(M, 32, ones), &matrix(32, 16, ones), &matrix(M, 16, || f64::from(start)));
        let expected = if modifier.is_empty() { start.wrapping_add(32) } else { i32::MAX };
        assert!(found.iter().flatten().all(|bits| *bits as u32 as i32 == expected), "{modifier}");
    }
}
