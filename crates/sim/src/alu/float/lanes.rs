//! Loops over lanes whose bodies are too large for a closure: the compiler would not inline it, and
//! the loop would not vectorise. A macro forces inlining.

/// `dst = body` in each lane, the sources read as lanes of their types:
/// `lanes!(m, op, mask, |a: f32, b: f32| -> u32 { … })`. Up to three sources, `op.a` to `op.c`.
///
/// To be used where `op`'s sources and destination are registers of these types' widths, in an
/// `unsafe` block.
macro_rules! lanes {
    ($m:ident, $op:ident, $mask:ident, |$a:ident: $at:ty| -> $dt:ty $body:block) => {
        $crate::alu::float::lanes::lanes!(@ $m, $op, $mask, $dt, $body, $a: $at = a)
    };
    ($m:ident, $op:ident, $mask:ident, |$a:ident: $at:ty, $b:ident: $bt:ty| -> $dt:ty $body:block) => {
        $crate::alu::float::lanes::lanes!(@ $m, $op, $mask, $dt, $body, $a: $at = a, $b: $bt = b)
    };
    (
        $m:ident, $op:ident, $mask:ident,
        |$a:ident: $at:ty, $b:ident: $bt:ty, $c:ident: $ct:ty| -> $dt:ty $body:block
    ) => {
        $crate::alu::float::lanes::lanes!(@ $m, $op, $mask, $dt, $body, $a: $at = a, $b: $bt = b, $c: $ct = c)
    };
    (@ $m:ident, $op:ident, $mask:ident, $dt:ty, $body:block, $($x:ident: $xt:ty = $field:ident),*) => {{
        use $crate::exec::row::{LANES, Lane};
        $(let $x = &*$m.lanes::<<$xt as Lane>::Bits>($op.$field);)*
        let mut out = [<$dt as Lane>::Bits::default(); LANES];
        for lane in 0..LANES {
            $(let $x = <$xt as Lane>::from_bits($x[lane]);)*
            let result: $dt = $body;
            out[lane] = <$dt as Lane>::to_bits(result);
        }
        $m.write($op.dst, &out, $mask);
    }};
}

/// The same for the low half of 32-bit operands, or for both halves if the first argument is true;
/// the body works on `u16`, and the result has 32 bits: `halves!(PACKED, |x = a, y = b| { … })`.
macro_rules! halves {
    ($packed:expr, |$($x:ident = $a:ident),*| $body:block) => {{
        #[allow(clippy::cast_possible_truncation, reason = "the low half is taken")]
        let low: u16 = {
            $(let $x = $a as u16;)*
            $body
        };
        if $packed {
            #[allow(clippy::cast_possible_truncation, reason = "the high half is taken")]
            let high: u16 = {
                $(let $x = ($a >> 16) as u16;)*
                $body
            };
            u32::from(low) | u32::from(high) << 16
        } else {
            u32::from(low)
        }
    }};
}

pub(crate) use {halves, lanes};
