//! Cases that a stored value decides.

use super::case::{Case, Model, Probe, Rule};

const fn model(name: &'static str, predicts: u64) -> Model {
    Model { name, predicts }
}

const fn value(body: &'static str, inputs: [u64; 2]) -> Probe {
    Probe::Value { body, inputs }
}

/// A quiet NaN of `.f32` with something in its payload.
const NAN32: u64 = 0x7fc1_2345;
/// A quiet NaN of `.f64` with something in its payload.
const NAN64: u64 = 0x7ff8_0000_0001_2345;
const ONE32: u64 = 0x3f80_0000;
const ONE64: u64 = 0x3ff0_0000_0000_0000;
const INFINITY64: u64 = 0x7ff0_0000_0000_0000;

/// The cases.
pub const CASES: &[Case] = &[
    Case {
        name: "nan-f32",
        question: "Does `add.f32` keep the payload of a NaN?",
        probe: value("add.f32 x, a, b;\ncvt.u64.u32 wx, x;", [NAN32, ONE32]),
        models: &[model("one canonical NaN", 0x7fff_ffff), model("payload kept", NAN32)],
        virtual_gpu: "one canonical NaN",
        source: "crates/sim/src/alu/float/finish.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "nan-f64",
        question: "Does `add.f64` keep the payload of a NaN?",
        probe: value("add.f64 wx, wa, wb;", [NAN64, ONE64]),
        models: &[model("payload kept", NAN64), model("one canonical NaN", 0xfff8_0000_0000_0000)],
        virtual_gpu: "payload kept",
        source: "crates/sim/src/alu/float/finish.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "nan-f64-invalid",
        question: "Which NaN is infinity minus infinity in `.f64`?",
        probe: value("sub.f64 wx, wa, wb;", [INFINITY64, INFINITY64]),
        models: &[model("negative", 0xfff8_0000_0000_0000), model("positive", 0x7ff8_0000_0000_0000)],
        virtual_gpu: "negative",
        source: "crates/sim/src/alu/float/finish.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "nan-to-f16",
        question: "What does `cvt.rn.f16.f32` make of a NaN?",
        probe: value("cvt.rn.f16.f32 h, a;\ncvt.u64.u16 wx, h;", [NAN32, 0]),
        models: &[model("canonical 0x7fff", 0x7fff), model("payload cut", 0x7e09)],
        virtual_gpu: "canonical 0x7fff",
        source: "crates/sim/src/alu/convert/float.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "nan-f64-to-s32",
        question: "What does `cvt.rni.s32.f64` make of a NaN?",
        probe: value("cvt.rni.s32.f64 x, wa;\ncvt.u64.u32 wx, x;", [NAN64, 0]),
        models: &[model("smallest integer", 0x8000_0000), model("zero", 0)],
        virtual_gpu: "smallest integer",
        source: "crates/sim/src/alu/convert/to_integer.rs",
        rule: Rule::Isa("cvt: NaN inputs of float-to-integer conversions"),
    },
    Case {
        name: "min-of-zeros",
        question: "Is -0 smaller than +0 for `min.f32`?",
        probe: value("min.f32 x, a, b;\ncvt.u64.u32 wx, x;", [0, 0x8000_0000]),
        models: &[model("-0 is smaller", 0x8000_0000), model("equal, the first wins", 0)],
        virtual_gpu: "-0 is smaller",
        source: "crates/sim/src/alu/float/minmax.rs",
        rule: Rule::Isa("min: +0.0 > -0.0 where both inputs are zero"),
    },
    Case {
        // (1 - 2^-24) * 2^-126 is a tie between the smallest normal number and the subnormal below
        // it; with an exponent of any size it would need no rounding and stay below the normal
        // numbers.
        name: "ftz-at-the-edge",
        question: "Does `mul.ftz.f32` flush a product that only rounding lifts to the smallest normal number?",
        probe: value("mul.rn.ftz.f32 x, a, b;\ncvt.u64.u32 wx, x;", [0x3f7f_ffff, 0x0080_0000]),
        models: &[model("tested after rounding, kept", 0x0080_0000), model("tested before, flushed", 0)],
        virtual_gpu: "tested before, flushed",
        source: "crates/sim/src/alu/float/finish.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "rcp-of-subnormal",
        question: "Does `rcp.approx.f32` without `.ftz` see a subnormal number?",
        probe: value("rcp.approx.f32 x, a;\ncvt.u64.u32 wx, x;", [0x0040_0000, 0]),
        models: &[model("2^127", 0x7f00_0000), model("flushed, infinity", 0x7f80_0000)],
        virtual_gpu: "2^127",
        source: "crates/sim/src/alu/float/approx.rs",
        rule: Rule::Isa("rcp: subnormal numbers are supported"),
    },
    Case {
        name: "ex2-to-subnormal",
        question: "Does `ex2.approx.f32` without `.ftz` give a subnormal number?",
        probe: value("ex2.approx.f32 x, a;\ncvt.u64.u32 wx, x;", [0xc302_0000, 0]),
        models: &[model("2^-130", 0x0008_0000), model("flushed to zero", 0)],
        virtual_gpu: "2^-130",
        source: "crates/sim/src/alu/float/approx.rs",
        rule: Rule::Isa("ex2: subnormal numbers are supported"),
    },
    Case {
        name: "tanh-of-20",
        question: "Does `tanh.approx.f32` reach 1 for large inputs?",
        probe: value("tanh.approx.f32 x, a;\nsetp.eq.f32 p, x, 0f3f800000;\nselp.u64 wx, 1, 0, p;", [0x41a0_0000, 0]),
        models: &[model("exactly 1", 1), model("stays below", 0)],
        virtual_gpu: "exactly 1",
        source: "crates/sim/src/alu/float/unit/mod.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "div-full",
        question: "For how many n of 1 to 32 is `div.full.f32` of n by 41 the nearest number?",
        probe: value(
            "add.u32 y, lane, 1;\ncvt.rn.f32.u32 y, y;\ndiv.full.f32 x, y, a;\ndiv.rn.f32 z, y, a;\n\
             setp.eq.f32 p, x, z;\nvote.sync.ballot.b32 x, p, 0xffffffff;\npopc.b32 x, x;\ncvt.u64.u32 wx, x;",
            [0x4224_0000, 0],
        ),
        models: &[model("rounded quotient", 32), model("product with the rounded reciprocal", DIV_FULL_PRODUCTS)],
        virtual_gpu: "product with the rounded reciprocal",
        source: "crates/sim/src/alu/float/divide.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "div-by-zero",
        question: "What is `div.u32` of 5 by 0?",
        probe: value("div.u32 x, a, b;\ncvt.u64.u32 wx, x;", [5, 0]),
        models: &[model("all ones", 0xffff_ffff), model("zero", 0)],
        virtual_gpu: "all ones",
        source: "crates/sim/src/alu/integer/divide.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "rem-by-zero",
        question: "What is `rem.u32` of 5 by 0?",
        probe: value("rem.u32 x, a, b;\ncvt.u64.u32 wx, x;", [5, 0]),
        models: &[model("all ones", 0xffff_ffff), model("the dividend", 5), model("zero", 0)],
        virtual_gpu: "all ones",
        source: "crates/sim/src/alu/integer/divide.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "atomic-flush-global",
        question: "Does `atom.global.add.f32` flush a subnormal sum?",
        probe: value(
            "setp.eq.u32 p, lane, 0;\n@p st.global.u32 [cell], b;\n@p atom.global.add.f32 y, [cell], a;\n\
             @p atom.global.or.b32 x, [cell], 0;\ncvt.u64.u32 wx, x;",
            [0x0040_0000, 0x0020_0000],
        ),
        models: &[model("flushed", 0), model("kept", 0x0060_0000)],
        virtual_gpu: "flushed",
        source: "crates/sim/src/memory_ops/atomic.rs",
        rule: Rule::Isa("atom: add.f32 on global memory flushes subnormal inputs and results"),
    },
    Case {
        name: "atomic-flush-shared",
        question: "Does `atom.shared.add.f32` flush a subnormal sum?",
        probe: value(
            "setp.eq.u32 p, lane, 0;\n@p st.shared.u32 [tile], b;\n@p atom.shared.add.f32 y, [tile], a;\n\
             @p atom.shared.or.b32 x, [tile], 0;\ncvt.u64.u32 wx, x;",
            [0x0040_0000, 0x0020_0000],
        ),
        models: &[model("kept", 0x0060_0000), model("flushed", 0)],
        virtual_gpu: "kept",
        source: "crates/sim/src/memory_ops/atomic.rs",
        rule: Rule::Isa("atom: add.f32 on shared memory does not flush"),
    },
    Case {
        // Lane n adds n, so that the assembler cannot sum over the warp first. Counts lanes whose
        // ticket is the sum of the lanes below.
        name: "ticket-order-global",
        question: "In which order are the lanes of an `atom.global.add` to one address served?",
        probe: value(
            "atom.global.add.u32 x, [cell], lane;\nsub.u32 y, lane, 1;\nmul.lo.u32 y, y, lane;\nshr.u32 y, y, 1;\n\
             setp.eq.u32 p, x, y;\nvote.sync.ballot.b32 x, p, 0xffffffff;\npopc.b32 x, x;\ncvt.u64.u32 wx, x;",
            [0, 0],
        ),
        models: &[model("lane order", 32), model("reverse order", 0)],
        virtual_gpu: "lane order",
        source: "crates/sim/src/memory_ops/atomic.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "store-winner",
        question: "Which lane's value stays when all lanes store to one shared word?",
        probe: value(
            "st.volatile.shared.u32 [tile], lane;\nbar.warp.sync 0xffffffff;\nld.volatile.shared.u32 x, [tile];\n\
             cvt.u64.u32 wx, x;",
            [0, 0],
        ),
        models: &[model("the highest lane", 31), model("the lowest lane", 0)],
        virtual_gpu: "the lowest lane",
        source: "crates/sim/src/memory_ops/shared.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "reconvergence",
        question: "Which lanes does `activemask` see behind an if and else that both use atomics?",
        probe: value(
            "setp.lt.u32 p, lane, 16;\n@p bra low;\natom.global.max.u32 x, [cell], lane;\nbra join;\nlow:\n\
             atom.global.add.u32 x, [cell], lane;\njoin:\nactivemask.b32 x;\ncvt.u64.u32 wx, x;",
            [0, 0],
        ),
        models: &[model("all, the arms rejoin", 0xffff_ffff), model("the arm's own", 0x0000_ffff)],
        virtual_gpu: "all, the arms rejoin",
        source: "crates/sim/src/decode/cfg.rs",
        rule: Rule::Hardware,
    },
    Case {
        name: "shfl-from-outside",
        question: "What does `shfl.sync` give from a lane outside of its mask?",
        probe: value(
            "add.u32 y, lane, 100;\nmov.u32 x, 7;\nsetp.ge.u32 p, lane, 16;\n@p bra join;\n\
             shfl.sync.idx.b32 x, y, 20, 31, 0xffff;\njoin:\ncvt.u64.u32 wx, x;",
            [0, 0],
        ),
        models: &[model("that lane's register", 120), model("the lane's own value", 100), model("zero", 0)],
        virtual_gpu: "zero",
        source: "crates/sim/src/warp_ops/shuffle.rs",
        rule: Rule::Hardware,
    },
];

/// Number of n from 1 to 32 for which the product n * rn(1 / 41) rounds to the number nearest to
/// `n / 41`.
const DIV_FULL_PRODUCTS: u64 = 19;
