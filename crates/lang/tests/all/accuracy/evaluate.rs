//! Evaluates the straight-line f32 PTX of one function, with errors put into the approximate
//! instructions.

use std::collections::HashMap;

use warpfold_lang::{Arch, Global, Target, Val, kernel};
use warpfold_ptx::{Immediate, Instruction, Opcode, Operand};

/// An operand: a register's number or a constant's bits.
#[derive(Clone, Copy)]
enum Source {
    Register(usize),
    Bits(u32),
}

/// An instruction with its registers numbered.
struct Step {
    opcode: Opcode,
    /// The modifiers as text, `rn.f32`.
    form: String,
    destination: usize,
    sources: Vec<Source>,
}

/// The instructions between the load of the argument and the store of the result.
pub(crate) struct Function {
    steps: Vec<Step>,
    argument: usize,
    result: usize,
    num_registers: usize,
    /// How many instructions are approximate.
    pub(crate) num_approximate: usize,
}

impl Function {
    /// Records a function and reads back the PTX that it prints.
    pub(crate) fn record(f: fn(Val<f32>) -> Val<f32>) -> Self {
        let text = kernel("function", move |data: Global<f32>| data.at(1).set(f(data.get())))
            .ptx(&Target::new(Arch::SM_80, (7, 0)))
            .unwrap();
        let module = warpfold_ptx::parse(&text).unwrap();
        let mut function = Self { steps: Vec::new(), argument: 0, result: 0, num_registers: 0, num_approximate: 0 };
        let mut numbers = HashMap::new();
        for instruction in module.function("function").unwrap().instructions() {
            function.add(instruction, &mut numbers);
        }
        function.num_registers = numbers.len();
        function
    }

    fn add(&mut self, instruction: &Instruction, numbers: &mut HashMap<String, usize>) {
        assert!(instruction.guard.is_none(), "straight-line code only");
        let mut source = |operand: &Operand| match operand {
            Operand::Name { name, component: None } => {
                let next = numbers.len();
                Source::Register(*numbers.entry(name.to_string()).or_insert(next))
            }
            Operand::Immediate(Immediate::F32(bits)) => Source::Bits(*bits),
            Operand::Immediate(Immediate::Int(value)) => Source::Bits(*value as i64 as u32),
            other => panic!("not an operand of f32 code: {other:?}"),
        };
        let number = |source| match source {
            Source::Register(number) => number,
            Source::Bits(_) => panic!("expected a register"),
        };
        let operands = &instruction.operands;
        match instruction.opcode {
            Opcode::Ld if instruction.has("param") => {}
            Opcode::Ld => self.argument = number(source(&operands[0])),
            Opcode::St => self.result = number(source(&operands[1])),
            Opcode::Ret => {}
            opcode => {
                let form = instruction.modifiers.join(".");
                self.num_approximate += usize::from(form.starts_with("approx"));
                let destination = number(source(&operands[0]));
                self.steps.push(Step {
                    opcode,
                    form,
                    destination,
                    sources: operands[1..].iter().map(source).collect(),
                });
            }
        }
    }

    /// The result for `x` when approximate instruction `i` errs by `errors[i]` (-1, 0 or 1) times
    /// what it may.
    pub(crate) fn evaluate(&self, x: f32, errors: &[i32]) -> f32 {
        let mut registers = vec![0_u32; self.num_registers];
        registers[self.argument] = x.to_bits();
        let mut errors = errors.iter();
        for step in &self.steps {
            let bits: Vec<u32> = step
                .sources
                .iter()
                .map(|source| match source {
                    Source::Register(number) => registers[*number],
                    Source::Bits(bits) => *bits,
                })
                .collect();
            let error = if step.form.starts_with("approx") { *errors.next().unwrap() } else { 0 };
            registers[step.destination] = execute(step.opcode, &step.form, &bits, error);
        }
        f32::from_bits(registers[self.result])
    }
}

/// PTX semantics of one instruction on bits.
fn execute(opcode: Opcode, form: &str, bits: &[u32], error: i32) -> u32 {
    let f = |i: usize| f32::from_bits(bits[i]);
    let float = |value: f32| value.to_bits();
    match (opcode, form) {
        (Opcode::Add, "rn.f32") => float(f(0) + f(1)),
        (Opcode::Sub, "rn.f32") => float(f(0) - f(1)),
        (Opcode::Mul, "rn.f32") => float(f(0) * f(1)),
        (Opcode::Fma, "rn.f32") => float(f(0).mul_add(f(1), f(2))),
        (Opcode::Neg, "f32") => float(-f(0)),
        (Opcode::Abs, "f32") => float(f(0).abs()),
        (Opcode::Copysign, "f32") => float(f(1).copysign(f(0))),
        (Opcode::Min, "NaN.f32") => float(if f(0).is_nan() || f(1).is_nan() { f32::NAN } else { f(0).min(f(1)) }),
        (Opcode::Max, "NaN.f32") => float(if f(0).is_nan() || f(1).is_nan() { f32::NAN } else { f(0).max(f(1)) }),
        (Opcode::Setp, "lt.f32") => u32::from(f(0) < f(1)),
        (Opcode::Setp, "gt.f32") => u32::from(f(0) > f(1)),
        (Opcode::And, "pred" | "b32") => bits[0] & bits[1],
        (Opcode::Selp, "f32") => bits[if bits[2] == 1 { 0 } else { 1 }],
        (Opcode::Mov, "b32" | "f32") => bits[0],
        (Opcode::Sub, "s32") => bits[0].wrapping_sub(bits[1]),
        (Opcode::Cvt, "rn.f32.s32") => float(bits[0].cast_signed() as f32),
        (Opcode::Ex2, "approx.f32") => perturb(f64::from(f(0)).exp2(), 2 * error),
        (Opcode::Rcp, "approx.f32") => perturb(1.0 / f64::from(f(0)), error),
        // Only used where the result is special, which has no error.
        (Opcode::Lg2, "approx.f32") => perturb(f64::from(f(0)).log2(), 0),
        (opcode, form) => panic!("{}.{form} is not evaluated", opcode.mnemonic()),
    }
}

/// The f32 so many ulp away from the correctly rounded value.
fn perturb(exact: f64, ulps: i32) -> u32 {
    let rounded = exact as f32;
    if rounded == 0.0 || !rounded.is_finite() {
        return rounded.to_bits();
    }
    rounded.to_bits().saturating_add_signed(ulps).min(f32::INFINITY.to_bits() | rounded.to_bits() & 1 << 31)
}
