//! Arithmetic, comparison and conversion of every type.

use half::{bf16, f16};
use warpfold_lang::{
    Bf16x2, EightBitFloat, Element, F8E4M3, F8E5M2, F16x2, Float, Global, Integer, Kernel, Number, Ordered, Pair,
    Param, Rounding, Scalar, ScalarFloat, Signed, Val, WideFloat, Word, kernel, shfl_down,
};

use super::Case;

/// Gives each value its own place in the output.
macro_rules! store_all {
    ($output:ident: $($value:expr),* $(,)?) => {{
        let values = [$($value),*];
        for (i, value) in values.into_iter().enumerate() {
            $output.at(i).set(value);
        }
    }};
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    macro_rules! each {
        ($make:ident: $($rust:ident)*) => { $(cases.push(Case::new($make::<$rust>(stringify!($rust))));)* };
    }
    each!(arithmetic: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 F16x2 Bf16x2);
    each!(comparison: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64);
    each!(integer: u8 u16 u32 u64 i8 i16 i32 i64);
    each!(signed: i8 i16 i32 i64 f16 bf16 f32 f64 F16x2 Bf16x2);
    each!(signs: i8 i16 i32 i64 f16 bf16 f32 f64);
    each!(word: u32 u64 i32 i64);
    each!(casts: u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64);
    each!(roundings: f16 bf16 f32 f64);
    each!(roots: f32 f64);
    each!(pairs: F16x2 Bf16x2);
    each!(eight_bits: F8E4M3 F8E5M2);
    cases.push(Case::new(bits()));
    each!(functions: f32 f64);
    each!(angles: f32 f64);
    cases.push(Case::new(approximations()));
    cases.push(Case::new(half_functions()));
    cases
}

fn arithmetic<T: Number>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    kernel(format!("arithmetic_{name}"), |input: Global<T>, output: Global<T>| {
        let [a, b, c] = [0, 1, 2].map(|i| input.at(i).get());
        store_all!(output: a + b, a - b, a * b, a.min(b), a.max(b), a.mul_add(b, c), T::ONE.into_val() - a);
        if !matches!(name_of::<T>(), "F16x2" | "Bf16x2") {
            output.at(7).set(a / b);
        }
        output.at(8).set(a.min_nan(b));
        output.at(9).set(a.max_nan(b));
    })
}

fn name_of<T>() -> &'static str {
    std::any::type_name::<T>().rsplit(':').next().unwrap()
}

/// A constant as a value, whatever the type.
trait IntoVal: Scalar {
    fn into_val(self) -> Val<Self> {
        Val::constant(self)
    }
}

impl<T: Scalar> IntoVal for T {}

fn comparison<T: Ordered>(name: &str) -> Kernel<(Global<T>, Global<u32>)> {
    kernel(format!("comparison_{name}"), |input: Global<T>, output: Global<u32>| {
        let [a, b] = [0, 1].map(|i| input.at(i).get());
        let (equal, less) = (a.eq(b), a.lt(b));
        for (i, condition) in
            [equal, a.ne(b), less, a.le(b), a.gt(b), a.ge(b), equal | !less, equal.eq(less)].into_iter().enumerate()
        {
            output.at(i).set(condition.cast::<u32>());
        }
        input.at(2).set((less & !equal).select(a, b));
        input.at(3).set(less.select(T::ONE.into_val(), T::ZERO.into_val()));
        output.at(8).set(less.select(equal, a.ne(T::ZERO.into_val())).cast::<u32>());
    })
}

fn integer<T: Integer>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    kernel(format!("integer_{name}"), |input: Global<T>, output: Global<T>| {
        let [a, b] = [0, 1].map(|i| input.at(i).get());
        let amount = b.cast::<u32>();
        store_all!(output: a % b, a & b, a | b, a ^ b, !a, a << amount, a >> amount, a << 3, a >> 3, a.div_ceil(b));
        if !matches!(name_of::<T>(), "u8" | "i8") {
            output.at(10).set(a.mul_hi(b));
        }
    })
}

fn signs<T: Signed + Ordered>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    kernel(format!("signs_{name}"), |input: Global<T>, output: Global<T>| output.set(input.get().sign()))
}

fn signed<T: Signed>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    kernel(format!("signed_{name}"), |input: Global<T>, output: Global<T>| {
        let a = input.get();
        store_all!(output: -a, a.abs());
    })
}

fn word<T: Word>(name: &str) -> Kernel<(Global<T>, Global<T>, Global<u32>)> {
    kernel(format!("word_{name}"), |input: Global<T>, output: Global<T>, counts: Global<u32>| {
        let [a, b] = [0, 1].map(|i| input.at(i).get());
        let position = b.cast::<u32>();
        store_all!(output: a.brev(), a.bfe(position, 5), a.bfi(b, 3, position));
        store_all!(counts: a.popc(), a.clz(), a.ctz());
    })
}

fn casts<T: Element + Param>(name: &str) -> Kernel<(Global<T>, Global<u8>, T)> {
    kernel(format!("casts_{name}"), |input: Global<T>, output: Global<u8>, scalar: Val<T>| {
        let a = input.get();
        let mut offset = 0;
        macro_rules! casts {
            ($($rust:ident)*) => {$(
                for value in [a, scalar] {
                    output.at(offset).reinterpret::<$rust>().set(value.cast::<$rust>());
                    offset += 8_u32;
                }
            )*};
        }
        casts!(u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64);
        output.at(offset).set(a.cast::<bool>().cast::<u8>());
    })
}

fn roundings<T: ScalarFloat + Param>(name: &str) -> Kernel<(Global<T>, Global<i32>, Global<T>)> {
    kernel(format!("roundings_{name}"), |input: Global<T>, output: Global<i32>, integral: Global<T>| {
        let a = input.get();
        for (i, rounding) in
            [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up].into_iter().enumerate()
        {
            output.at(i).set(a.cast_rounded::<i32>(rounding));
            integral.at(i).set(a.round(rounding));
        }
        integral.at(4).set(output.at(9).get().cast_rounded::<T>(Rounding::Zero));
        output.at(4).set(a.is_nan().cast::<i32>());
        output.at(5).set((a.is_inf() & !a.is_finite()).cast::<i32>());
    })
}

fn roots<T: WideFloat>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    kernel(format!("roots_{name}"), |input: Global<T>, output: Global<T>| {
        let a = input.get();
        store_all!(output: a.sqrt(), a.recip(), a.rsqrt(), a.copysign(input.at(1).get()));
    })
}

fn pairs<P: Pair>(name: &str) -> Kernel<(Global<P>, Global<f32>)>
where
    P::Half: Element,
{
    kernel(format!("pairs_{name}"), |data: Global<P>, wide: Global<f32>| {
        let [low, high] = data.get().unpack();
        data.at(1).set(Val::<P>::pack(high, low));
        data.at(2).set(Val::<P>::splat(low) + Val::<P>::from_f32(wide.get(), 1.5));
        wide.set_vec(data.at(3).get().to_f32());
        data.at(4).set(wide.at(1).get().bitcast::<P>());
    })
}

fn eight_bits<F: EightBitFloat>(name: &str) -> Kernel<(Global<F>, Global<F>, Global<f32>)> {
    kernel(format!("eight_bits_{name}"), |input: Global<F>, output: Global<F>, wide: Global<f32>| {
        let [a, b, c, d] = input.get_vec::<4>().map(|x| x.cast::<f32>());
        wide.set(a + b);
        wide.at(1).reinterpret::<f16>().set(input.at(4).get().cast::<f16>());
        wide.at(2).reinterpret::<bf16>().set(input.at(5).get().cast::<bf16>());
        wide.at(3).reinterpret::<i32>().set(input.at(6).get().cast::<i32>());
        wide.at(4).set(shfl_down(input.at(7).get(), 1).cast::<f32>());
        output.set_vec([a, b, c, d].map(|x| (x * 2.0).cast::<F>()));
        output.at(4).set(c.cast_unsaturated::<F>());
        output.at(5).set(d.cast::<f64>().cast::<F>());
        output.at(6).set(wide.at(5).reinterpret::<bf16>().get().cast::<F>());
        let words = input.at(8).reinterpret::<u32>();
        wide.at(8).set_vec(words.get().unpack_eight_bits::<F>());
        output.at(8).reinterpret::<u32>().set(Val::pack_eight_bits::<F>(wide.at(12).get_vec()));
        output.at(7).set(a.lt(b).select(input.get(), Val::constant(2.0_f32).cast::<F>()));
    })
}

fn bits() -> Kernel<(Global<u32>, Global<i32>, Global<u64>)> {
    kernel("bits", |words: Global<u32>, signed: Global<i32>, wide: Global<u64>| {
        let [a, b, c] = [0, 1, 2].map(|i| words.at(i).get());
        store_all!(words:
            a.funnel_left(b, c), a.funnel_right(b, 7), a.rotate_left(c), a.prmt(b, 0x5410), a.dp4a(b, c),
            a.lop3(b, c, |a, b, c| a & b | !c),
        );
        let [x, y, z] = [0, 1, 2].map(|i| signed.at(i).get());
        signed.set(x.dp4a(y, z));
        wide.set(a.mul_wide(b));
        wide.at(1).set(x.mul_wide(y).bitcast::<u64>());
    })
}

fn functions<T: WideFloat>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    kernel(format!("functions_{name}"), |input: Global<T>, output: Global<T>| {
        let x = input.get();
        store_all!(output:
            x.exp(), x.exp2(), x.expm1(), x.ln(), x.log2(), x.log10(), x.log1p(), x.pow(input.at(1).get()), x.cbrt(), x.sinh(),
            x.cosh(), x.tanh(), x.sigmoid(), x.erf(), x.floor(), x.ceil(), x.fmod(input.at(2).get()),
        );
    })
}

fn angles<T: WideFloat>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    kernel(format!("angles_{name}"), |input: Global<T>, output: Global<T>| {
        let x = input.get();
        let (sine, cosine) = x.sin_cos();
        store_all!(output: x.sin(), x.cos(), sine, cosine, x.tan(), x.asin(), x.acos(), x.atan());
    })
}

fn approximations() -> Kernel<(Global<f32>, Global<f32>)> {
    kernel("approximations", |input: Global<f32>, output: Global<f32>| {
        let x = input.get();
        store_all!(output:
            x.exp_approx(), x.log2_approx(), x.recip_approx(), x.div_approx(3.0), x.sqrt_approx(), x.sin_approx(),
            x.cos_approx(), x.tanh_approx(),
        );
    })
}

fn half_functions() -> Kernel<(Global<f16>, Global<F16x2>)> {
    fn both<T: Float>(data: Global<T>) {
        data.at(1).set(data.get().exp2_approx());
        data.at(2).set(data.get().tanh_approx());
    }
    kernel("half_functions", |single: Global<f16>, pair: Global<F16x2>| {
        both(single);
        both(pair);
    })
}
