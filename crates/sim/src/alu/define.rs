//! Macros that define operations: tables of names, typed sources and formulas.

/// Declares operations that compute one register from one, two or three in each lane.
///
/// `Add<T: Int>(a: T, b: T) -> T = a.wrapping_add(b);` declares the
/// [`LaneOp`](crate::exec::op::LaneOp) `Add<T>`.
macro_rules! lane_ops {
    ($($(#[$meta:meta])*
    $name:ident $(<$t:ident: $bound:ident>)? ($($x:ident: $ty:ty),+) -> $d:ty = $body:expr;)*) => {$(
        $(#[$meta])*
        pub(super) struct $name $(<$t>(std::marker::PhantomData<$t>))?;
        impl $(<$t: $bound>)? $crate::exec::op::LaneOp for $name $(<$t>)? {
            #[inline(always)]
            unsafe fn run(m: &mut $crate::exec::machine::Machine, op: &$crate::exec::op::Op, mask: u32) {
                // SAFETY: the decoder chose registers of these types' widths.
                unsafe { $crate::alu::define::map!(m, op, mask, $d, $($x: $ty),+; $body) }
            }
        }
    )*};
}

/// Calls the helper for the number of sources.
macro_rules! map {
    ($m:ident, $op:ident, $mask:ident, $d:ty, $x:ident: $a:ty; $body:expr) => {
        $crate::exec::op::map1::<$a, $d>($m, $op, $mask, |$x| $body)
    };
    ($m:ident, $op:ident, $mask:ident, $d:ty, $x:ident: $a:ty, $y:ident: $b:ty; $body:expr) => {
        $crate::exec::op::map2::<$a, $b, $d>($m, $op, $mask, |$x, $y| $body)
    };
    ($m:ident, $op:ident, $mask:ident, $d:ty, $x:ident: $a:ty, $y:ident: $b:ty, $z:ident: $c:ty; $body:expr) => {
        $crate::exec::op::map3::<$a, $b, $c, $d>($m, $op, $mask, |$x, $y, $z| $body)
    };
}

/// The handler of a generic operation for an instruction type:
/// `for_type!(d, inst, ty, Add: U16 = u16, S16 = i16)`. Any other type is an error.
macro_rules! for_type {
    ($d:ident, $inst:ident, $ty:expr, $op:ident: $($variant:ident = $t:ty),+ $(,)?) => {
        match $ty {
            $(warpfold_ptx::ScalarType::$variant => $d.handler::<$op<$t>>(),)+
            other => return Err($crate::alu::wrong_type($d, $inst, other)),
        }
    };
}

pub(crate) use {for_type, lane_ops, map};
