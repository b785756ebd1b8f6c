//! What an instruction of PTX costs a multiprocessor: issue slots, cycles of a pipe, latency.
//!
//! PTX is not machine code. A row says what ptxas makes of an instruction on Hopper as a rule: a
//! move or a conversion of an address is nothing, 64-bit integers are two instructions, a division
//! is more than a dozen. Rows of divisions, roots, conversions, barriers, integer sums and
//! `mma.sync` are what an H100 did with the loops of fixtures/timing/micro.cu. Divergence needs no
//! row: executions of warps are counted as they were.

use super::gpu::Latencies;

/// Units of a multiprocessor that instructions wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Pipe {
    /// f32, f16x2 and half of the integer products.
    Fma,
    /// Integers, comparisons, logic.
    Alu,
    /// Functions, and conversions that take their unit.
    Special,
    Double,
    /// Loads, stores, shuffles: one instruction a cycle for the whole multiprocessor.
    LoadStore,
    Tensor,
    /// Barriers of blocks: a whole multiprocessor's.
    Barrier,
    /// Issue alone.
    Other,
}

/// Every pipe that has a rate.
pub(super) const PIPES: [(Pipe, &str); 7] = [
    (Pipe::Fma, "fma"),
    (Pipe::Alu, "alu"),
    (Pipe::Special, "special functions"),
    (Pipe::Double, "f64"),
    (Pipe::LoadStore, "loads and stores"),
    (Pipe::Tensor, "tensor cores"),
    (Pipe::Barrier, "barriers"),
];

/// Where a result comes from, for the path of dependent instructions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wait {
    /// So many cycles.
    Cycles(f64),
    /// Global memory, whose latency depends on where the bytes are.
    Global,
}

/// The cost of one execution by a warp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    /// Issue slots.
    pub slots: f64,
    /// The unit.
    pub pipe: Pipe,
    /// Cycles of the unit, of a quarter of a multiprocessor; of a whole one for loads and stores.
    pub cycles: f64,
    /// Until the result is there.
    pub wait: Wait,
}

/// The words of an instruction: mnemonic split at its dots, and operands.
#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    /// `ld`, `global`, `f32`.
    pub parts: Vec<&'a str>,
    /// All that follows the mnemonic.
    pub operands: &'a str,
    /// The guard: `%p1`.
    pub guard: Option<&'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let (guard, rest) = match text.trim().strip_prefix('@') {
            Some(rest) => {
                let (guard, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                (Some(guard.trim_start_matches('!')), rest.trim_start())
            }
            None => (None, text.trim()),
        };
        let (mnemonic, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Self { parts: mnemonic.trim_end_matches(';').split('.').collect(), operands, guard }
    }

    pub(super) fn has(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    fn name(&self) -> &'a str {
        self.parts[0]
    }

    /// The last type among the parts.
    fn bits(&self) -> u32 {
        let bits = |part: &&str| match *part {
            "f16x2" | "bf16x2" => Some(32),
            _ => part.strip_prefix(['u', 's', 'b', 'f'])?.parse().ok(),
        };
        self.parts.iter().rev().find_map(bits).unwrap_or(32)
    }

    fn is_float(&self) -> bool {
        let is = |part: &&str| matches!(*part, "f32" | "f64" | "f16" | "f16x2" | "bf16" | "bf16x2");
        self.parts.iter().skip(1).any(is)
    }

    /// Where control may leave a straight line.
    pub(super) fn ends_line(&self) -> bool {
        matches!(self.name(), "bra" | "brx" | "ret" | "exit" | "call" | "bar" | "barrier" | "trap")
    }

    /// Whether ptxas makes it a line with branches: exact divisions and roots.
    pub(super) fn has_branches(&self) -> bool {
        let is_exact = !self.has("approx") && !self.has("full");
        matches!(self.name(), "div" | "sqrt") && is_exact && self.is_float()
    }

    /// Whether the first operand is no result.
    pub(super) fn has_no_result(&self) -> bool {
        self.ends_line()
            || matches!(self.name(), "st" | "red" | "membar" | "fence" | "cp" | "prefetch" | "stmatrix" | "wgmma")
            || (self.name() == "mbarrier" && !self.has("try_wait") && !self.has("test_wait"))
    }
}

fn cost(slots: f64, pipe: Pipe, cycles: f64, latency: f64) -> Cost {
    Cost { slots, pipe, cycles, wait: Wait::Cycles(latency) }
}

/// The cost of an instruction; `tensor` is what a multiprocessor's tensor cores do a cycle.
pub(super) fn cost_of(words: &Words<'_>, l: &Latencies, tensor: f64) -> Cost {
    let arithmetic = |slots: f64, pipe, cycles| cost(slots, pipe, cycles, l.arithmetic * slots.max(1.0));
    let wide = if words.bits() == 64 { 2.0 } else { 1.0 };
    match words.name() {
        "mma" | "wmma" | "wgmma" => tensor_cost(words, l, tensor),
        "ld" | "ldu" if words.has("param") || words.has("const") => cost(0.0, Pipe::Other, 0.0, 0.0),
        "ld" | "ldu" if words.has("shared") => cost(1.0, Pipe::LoadStore, 1.0, l.shared),
        "ld" | "ldu" => Cost { slots: 1.0, pipe: Pipe::LoadStore, cycles: 1.0, wait: Wait::Global },
        "ldmatrix" => cost(1.0, Pipe::LoadStore, 1.0, l.shared),
        "st" if words.has("param") => cost(0.0, Pipe::Other, 0.0, 0.0),
        "st" | "stmatrix" => cost(1.0, Pipe::LoadStore, 1.0, 0.0),
        "atom" if words.has("shared") => cost(2.0, Pipe::LoadStore, 2.0, 2.0 * l.shared),
        "atom" => cost(1.0, Pipe::LoadStore, 1.0, l.atomic),
        "red" => cost(1.0, Pipe::LoadStore, 1.0, 0.0),
        "cp" => cost(1.0, Pipe::LoadStore, 1.0, 0.0),
        "shfl" => cost(1.0, Pipe::LoadStore, 1.0, l.shared),
        "redux" | "match" => cost(1.0, Pipe::LoadStore, 2.0, l.shared),
        "vote" | "activemask" | "elect" => cost(1.0, Pipe::Alu, 2.0, 2.0 * l.arithmetic),
        "bar" | "barrier" => cost(1.0, Pipe::Barrier, l.barrier_warp, l.barrier),
        "membar" | "fence" => cost(1.0, Pipe::Other, 0.0, if words.has("proxy") { l.barrier } else { l.l2 }),
        "mbarrier" => cost(1.0, Pipe::LoadStore, 1.0, l.shared),
        "mov" | "cvta" | "mapa" | "pragma" => cost(0.0, Pipe::Other, 0.0, 0.0),
        "ret" | "exit" | "bra" | "brx" | "call" => cost(1.0, Pipe::Other, 0.0, 2.0 * l.arithmetic),
        "sin" | "cos" | "tanh" => arithmetic(1.0, Pipe::Special, 8.0),
        "ex2" | "lg2" => cost(2.0, Pipe::Special, 8.0, l.special),
        "rcp" | "rsqrt" | "sqrt" if words.has("approx") => cost(2.0, Pipe::Special, 8.0, l.special),
        "rcp" | "rsqrt" | "sqrt" if words.bits() == 64 => cost(16.0, Pipe::Double, 24.0, 8.0 * l.double),
        "sqrt" => cost(14.0, Pipe::Special, 8.0, 56.0),
        "rcp" | "rsqrt" => cost(8.0, Pipe::Special, 8.0, l.special + 6.0 * l.arithmetic),
        "div" if words.bits() == 64 && words.is_float() => cost(20.0, Pipe::Double, 28.0, 10.0 * l.double),
        "div" | "rem" if words.is_float() && (words.has("approx") || words.has("full")) => {
            cost(4.0, Pipe::Special, 8.0, l.special + 3.0 * l.arithmetic)
        }
        "div" | "rem" if words.is_float() => cost(19.0, Pipe::Fma, 10.0, 58.0),
        "div" | "rem" if words.bits() == 64 => cost(70.0, Pipe::Alu, 90.0, 60.0 * l.arithmetic),
        "div" | "rem" => cost(18.0, Pipe::Alu, 27.0, l.special + 14.0 * l.arithmetic),
        "cvt" => conversion(words, l),
        "mul" | "mad" if !words.is_float() => {
            let slots = if words.has("wide") { 1.0 } else { 3.0 * wide - 2.0 };
            arithmetic(slots, Pipe::Fma, 2.0 * slots)
        }
        "fma" | "mul" | "add" | "sub" | "mad" | "min" | "max" | "neg" | "abs" | "setp" | "set"
            if words.is_float() && words.bits() == 64 =>
        {
            cost(1.0, Pipe::Double, 2.0, l.double)
        }
        "fma" | "mul" | "add" | "sub" | "mad" if words.is_float() => arithmetic(1.0, Pipe::Fma, 1.0),
        "neg" | "abs" if words.is_float() => cost(0.0, Pipe::Other, 0.0, 0.0),
        // ptxas lets the unit of products add, too.
        "add" | "sub" if !words.is_float() && wide == 1.0 => arithmetic(1.0, Pipe::Fma, 1.0),
        "popc" | "clz" | "bfind" | "brev" => cost(1.0, Pipe::Special, 8.0, l.special),
        _ => arithmetic(wide, Pipe::Alu, 2.0 * wide),
    }
}

fn conversion(words: &Words<'_>, l: &Latencies) -> Cost {
    let is = |part: &str| words.parts[1..].contains(&part);
    let is_float = |part: &str| matches!(part, "f16" | "bf16" | "f32" | "f64" | "f16x2" | "bf16x2" | "e4m3x2");
    let (from, to) =
        (words.parts.last().copied().unwrap_or(""), words.parts.iter().rev().nth(1).copied().unwrap_or(""));
    match (is_float(from), is_float(to)) {
        _ if is("f64") => cost(1.0, Pipe::Special, 8.0, l.special),
        // Half and single precision; whole numbers as floats.
        (true, true) if is("f32") || is("f16") || is("bf16") => cost(1.0, Pipe::Alu, 2.0, l.arithmetic),
        (true, true) => cost(1.0, Pipe::Alu, 2.0, l.arithmetic),
        (false, false) => cost(0.5, Pipe::Alu, 1.0, l.arithmetic),
        (false, true) if is("f32") => cost(1.0, Pipe::Alu, 2.0, l.arithmetic),
        _ => cost(1.0, Pipe::Special, 8.0, l.special),
    }
}

/// Products of tensor cores: `m64n256k16`, of which a warp of four has a quarter with `wgmma`.
fn tensor_cost(words: &Words<'_>, l: &Latencies, rate: f64) -> Cost {
    let shape = words.parts.iter().find_map(|part| sizes(part));
    let Some([m, n, k]) =
        shape.filter(|_| words.has("sync") && (words.has("mma") || words.has("mma_async") || words.parts[0] == "mma"))
    else {
        // Loads, stores, fences, waits.
        let is_memory = words.has("load") || words.has("store");
        return cost(
            1.0,
            if is_memory { Pipe::LoadStore } else { Pipe::Other },
            f64::from(u8::from(is_memory)),
            l.shared,
        );
    };
    // Against f16: half the rate for tf32, twice for 8 bits.
    let factor = match () {
        () if words.has("tf32") => 0.5,
        () if ["e4m3", "e5m2", "s8", "u8"].iter().any(|ty| words.has(ty)) => 2.0,
        () if words.has("f64") => 1.0 / 16.0,
        () => 1.0,
    };
    let warps = if words.parts[0] == "wgmma" { 4.0 } else { 1.0 };
    // What `mma.sync` reaches of what `wgmma` does.
    let reached = if words.parts[0] == "wgmma" { 1.0 } else { 0.56 };
    // A warp's product runs on the tensor core of its quarter.
    let cycles = 2.0 * m * n * k / warps / (rate / 4.0 * factor * reached);
    cost(1.0, Pipe::Tensor, cycles, if words.parts[0] == "wgmma" { cycles } else { l.tensor.max(cycles) })
}

fn sizes(part: &str) -> Option<[f64; 3]> {
    let (m, rest) = part.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}
