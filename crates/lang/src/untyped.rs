//! Operations on values without their types, in the kernel being recorded.
//!
//! What is generic over the type of a value is compiled again for every type, in every crate that
//! uses it. So it hands the type on as a value, to one of these functions, which are compiled once.
//! Each is one intrinsic on the current recorder.

use warpfold_ptx::StateSpace;

use crate::intrinsics::atomic::{self, AtomicOp, Semantics};
use crate::intrinsics::f8::{self, Overflow};
use crate::intrinsics::math::{self, Function};
use crate::intrinsics::matrix::{self, Product};
use crate::intrinsics::memory::{self, Location};
use crate::intrinsics::warp::{self, Combine, Members, Shuffle};
use crate::intrinsics::{Binary, Comparison, arithmetic, bits, compare, convert, logic};
use crate::memory::{Order, Scope};
use crate::recorder::{Raw, Recorder, Reg, Symbol, with};
use crate::types::{Format, Type};
use crate::{ErrorKind, Rounding};

/// Functions that pass their arguments on to an intrinsic of the current recorder.
macro_rules! on_the_recorder {
    ($($intrinsic:path: $name:ident($($argument:ident: $ty:ty),*) $(-> $result:ty)?;)*) => {$(
        #[track_caller]
        #[inline(never)]
        pub(crate) fn $name($($argument: $ty),*) $(-> $result)? {
            with(|r| $intrinsic(r, $($argument),*))
        }
    )*};
}

on_the_recorder! {
    arithmetic::binary: binary(op: Binary, ty: Type, a: Raw, b: Raw) -> Raw;
    arithmetic::fma: fma(ty: Type, a: Raw, b: Raw, c: Raw) -> Raw;
    arithmetic::abs: abs(ty: Type, a: Raw) -> Raw;
    arithmetic::neg: neg(ty: Type, a: Raw) -> Raw;
    arithmetic::mul_hi: mul_hi(ty: Type, a: Raw, b: Raw) -> Raw;
    compare::compare: compare(comparison: Comparison, ty: Type, a: Raw, b: Raw) -> Raw;
    compare::unordered: unordered(ty: Type, a: Raw, b: Raw) -> Raw;
    compare::select: select(ty: Type, condition: Raw, yes: Raw, no: Raw) -> Raw;
    logic::shift: shift(left: bool, ty: Type, a: Raw, amount: Raw) -> Raw;
    logic::not: not(ty: Type, a: Raw) -> Raw;
    bits::popc: popc(ty: Type, a: Raw) -> Raw;
    bits::clz: clz(ty: Type, a: Raw) -> Raw;
    bits::reverse: reverse_bits(ty: Type, a: Raw) -> Raw;
    bits::extract: extract_bits(ty: Type, a: Raw, position: Raw, length: Raw) -> Raw;
    bits::insert: insert_bits(ty: Type, field: Raw, into: Raw, position: Raw, length: Raw) -> Raw;
    convert::convert: convert(from: Type, to: Type, a: Raw, rounding: Option<Rounding>) -> Raw;
    convert::bitcast: bitcast(from: Type, to: Type, a: Raw) -> Raw;
    convert::round: round(ty: Type, a: Raw, rounding: Rounding) -> Raw;
    convert::pack: pack(half: Type, ty: Type, parts: [Raw; 2]) -> Raw;
    convert::unpack: unpack(ty: Type, half: Type, a: Raw) -> [Raw; 2];
    convert::pair_from_f32: pair_from_f32(ty: Type, low: Raw, high: Raw) -> Raw;
    convert::copy: copy(ty: Type, a: Raw) -> Reg;
    convert::assign: assign(ty: Type, reg: Reg, a: Raw);
    f8::encode: encode(format: Format, a: Raw, overflow: Overflow) -> Raw;
    f8::decode_word: decode_word(format: Format, word: Raw) -> [Raw; 4];
    f8::encode_word: encode_word(format: Format, values: [Raw; 4]) -> Raw;
    math::function: function(function: Function, ty: Type, a: Raw) -> Raw;
    math::copysign: copysign(ty: Type, a: Raw, sign: Raw) -> Raw;
    warp::shuffle: shuffle(mode: Shuffle, ty: Type, a: Raw, lane: Raw, members: Members) -> Raw;
    warp::match_any: match_any(ty: Type, a: Raw, mask: Raw) -> Raw;
    warp::match_all: match_all(ty: Type, a: Raw, mask: Raw) -> (Raw, Raw);
    warp::redux: redux(combine: Combine, ty: Type, a: Raw, mask: Raw) -> Raw;
    memory::element: element(location: Location, bytes: u32, index_ty: Type, index: Raw) -> Location;
    memory::whole_address: whole_address(location: Location) -> Raw;
    matrix::load_matrices: load_matrices(from: Location, transposed: bool) -> [Raw; 4];
    matrix::store_matrices: store_matrices(to: Location, matrices: &[Raw], transposed: bool);
    matrix::mma: mma(product: Product, sums: [Reg; 4], a: &[Raw; 4], b: &[Raw; 2]);
    memory::load_ordered: load_ordered(location: Location, order: Order, scope: Scope, ty: Type) -> Raw;
    memory::store_ordered: store_ordered(location: Location, order: Order, scope: Scope, ty: Type, value: Raw);
    memory::prefetch: prefetch(location: Location);
    memory::array: array(space: StateSpace, ty: Type, len: u64, name: &str) -> Symbol;
    memory::dynamic_shared: dynamic_shared(align: u32, bytes: u64) -> Location;
    memory::load_param: load_param(position: usize, offset: i64, ty: Type) -> Raw;
    atomic::atom: atom(op: AtomicOp, semantics: Semantics, location: Location, ty: Type, operands: &[Raw]) -> Raw;
    atomic::red: red(op: AtomicOp, semantics: Semantics, location: Location, ty: Type, operand: Raw);
    Recorder::fail: fail(kind: ErrorKind);
}

/// Returns the current value of a register.
#[track_caller]
#[inline(never)]
pub(crate) fn read(ty: Type, reg: Reg) -> Raw {
    Raw::Reg(copy(ty, Raw::Reg(reg)))
}

/// A register of a type, without a value yet.
#[track_caller]
#[inline(never)]
pub(crate) fn register(ty: Type) -> Reg {
    with(|r| r.register(ty.register()))
}
