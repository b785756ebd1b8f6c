//! `f64`: tables and what depends on how its bits are laid out. Everything is arithmetic that IEEE
//! 754 rounds.

use super::{Functions, exponential, logarithm, polynomial};
use crate::Val;
use crate::intrinsics::convert;
use crate::recorder::with;
use crate::types::Scalar;

/// The high word of √½.
const SQRT_HALF: i32 = 0x3fe6_a09e;

impl Functions for f64 {
    const DIGITS: u32 = Self::MANTISSA_DIGITS;
    const MIN_EXPONENT: i32 = Self::MIN_EXP - 1;
    const EXP_OVERFLOW: f64 = 709.782_712_893_384;
    const EXP_LIMIT: f64 = 750.0;
    const TANH_LIMIT: f64 = 22.0;
    const ANGLE_LIMIT: f64 = 1_073_741_824.0;
    /// Error 2^-58.
    const EXP: &'static [Self] = &[
        0.500_000_000_000_000_9,
        0.166_666_666_666_664_21,
        0.041_666_666_666_540_66,
        0.008_333_333_333_491_713,
        0.001_388_888_894_120_345_7,
        1.984_126_950_686_209_6e-4,
        2.480_149_536_448_07e-5,
        2.755_758_977_319_218_4e-6,
        2.762_950_809_017_028_4e-7,
        2.499_811_444_375_291_8e-8,
    ];
    /// Error 2^-59.
    const LN: &'static [Self] = &[
        0.666_666_666_666_672_6,
        0.399_999_999_994_569_75,
        0.285_714_287_344_226_2,
        0.222_221_992_906_644_63,
        0.181_835_308_372_411_2,
        0.153_148_321_967_865_35,
        0.147_887_335_000_893_96,
    ];
    /// Error 2^-73.
    const LN_TAIL: &'static [Self] = &[
        0.399_999_999_999_999_97,
        0.285_714_285_714_337_93,
        0.222_222_222_199_932_2,
        0.181_818_185_986_728_78,
        0.153_845_737_169_861_2,
        0.133_357_237_190_750_38,
        0.116_859_330_510_243_3,
        0.119_031_430_356_881_18,
    ];
    /// Error 2^-58.
    const SIN: &'static [Self] = &[
        -0.166_666_666_666_666_3,
        0.008_333_333_333_321_837,
        -1.984_126_982_930_108_1e-4,
        2.755_731_350_576_477e-6,
        -2.505_072_777_075_171_4e-8,
        1.589_498_177_193_231e-10,
    ];
    /// Error 2^-63.
    const COS: &'static [Self] = &[
        0.041_666_666_666_666_644,
        -0.001_388_888_888_888_013,
        2.480_158_729_264_004e-5,
        -2.755_731_513_492_047_6e-7,
        2.087_581_578_277_731_7e-9,
        -1.136_385_624_465_539e-11,
    ];
    /// Error 2^-59.
    const ATAN: &'static [Self] = &[
        -0.333_333_333_333_332_6,
        0.199_999_999_999_672_27,
        -0.142_857_142_813_288_62,
        0.111_111_108_317_857_48,
        -0.090_908_989_719_370_05,
        0.076_920_794_017_910_99,
        -0.066_633_002_057_350_12,
        0.058_491_853_352_078_564,
        -0.050_446_480_146_064_225,
        0.038_189_555_311_443_135,
        -0.018_033_894_291_722_21,
    ];
    /// Error 2^-60.
    const ASIN: &'static [Self] = &[
        0.166_666_666_666_667_18,
        0.074_999_999_999_793_36,
        0.044_642_857_167_918_99,
        0.030_381_942_981_412_79,
        0.022_372_208_265_385_42,
        0.017_351_718_985_114_093,
        0.013_979_671_345_638_598,
        0.011_407_412_650_855_053,
        0.010_736_886_258_291_629,
        0.003_856_315_059_215_152_7,
        0.021_372_214_580_453_34,
        -0.020_561_522_006_125_87,
        0.032_375_569_452_753_48,
    ];

    fn real(value: f64) -> Val<Self> {
        Val::constant(value)
    }

    fn parts(sum: [f64; 3]) -> [Val<Self>; 3] {
        sum.map(Val::constant)
    }

    fn power_of_two(exponent: Val<i32>) -> Val<Self> {
        from_words(Val::constant(0), ((exponent + 1023) << 20).bitcast())
    }

    fn nearest_integer(x: Val<Self>) -> (Val<Self>, Val<i32>) {
        /// 1.5 * 2^52, a unit of whose last place is 1.
        const SHIFT: f64 = 6_755_399_441_055_744.0;
        let shifted = x + SHIFT;
        (shifted - SHIFT, words(shifted)[0].bitcast())
    }

    fn split(x: Val<Self>) -> (Val<i32>, Val<Self>) {
        let [low, high] = words(x);
        let exponent = (high.bitcast::<i32>() - SQRT_HALF) >> 20;
        (exponent, from_words(low, high - (exponent << 20).bitcast::<u32>()))
    }

    fn integer_significand(x: Val<Self>) -> (Val<u64>, Val<i32>) {
        let bits = x.bitcast::<u64>();
        ((bits & 0x000f_ffff_ffff_ffff) | 0x0010_0000_0000_0000, (bits >> 52).cast::<i32>() - 1075)
    }

    fn exp(x: Val<Self>) -> Val<Self> {
        exponential::exp(x, None)
    }

    fn exp2(x: Val<Self>) -> Val<Self> {
        exponential::exp2(x)
    }

    fn ln(x: Val<Self>) -> Val<Self> {
        logarithm::ln(x)
    }

    fn tanh(x: Val<Self>) -> Val<Self> {
        exponential::tanh(x)
    }

    fn sigmoid(x: Val<Self>) -> Val<Self> {
        exponential::sigmoid(x)
    }

    fn erf(x: Val<Self>) -> Val<Self> {
        erf(x)
    }
}

/// The low and the high half.
fn words(x: Val<f64>) -> [Val<u32>; 2] {
    with(|r| convert::unpack(r, f64::TYPE, u32::TYPE, x.raw())).map(Val::from_raw)
}

fn from_words(low: Val<u32>, high: Val<u32>) -> Val<f64> {
    Val::from_raw(with(|r| convert::pack(r, u32::TYPE, f64::TYPE, [low.raw(), high.raw()])))
}

fn erf(x: Val<f64>) -> Val<f64> {
    /// erf(x) = x + x p(x²) for |x| up to 1, relative error 2^-57.
    const SMALL: &[f64] = &[
        0.128_379_167_095_512_56,
        -0.376_126_389_031_835_2,
        0.112_837_916_709_441_85,
        -0.026_866_170_643_111_458,
        0.005_223_977_606_118_389,
        -8.548_325_929_310_665e-4,
        1.205_529_357_679_463_2e-4,
        -1.492_471_230_014_132e-5,
        1.644_713_155_018_765_9e-6,
        -1.620_631_361_072_143_6e-7,
        1.371_097_981_233_394e-8,
        -7.779_467_484_730_134e-10,
    ];
    /// ln(1 - erf(x)) = p(x) for x in [1, 5.93], relative error of erf 2^-57.
    const LARGE: &[f64] = &[
        -5.027_997_243_134_032e-7,
        -1.128_374_089_965_787,
        -0.636_643_625_865_822_5,
        -0.102_703_445_728_401_07,
        0.018_990_190_810_150_808,
        4.106_111_064_154_705_3e-4,
        -0.001_915_925_545_289_531_2,
        7.706_287_023_493_093e-4,
        -1.350_411_451_824_594e-4,
        -2.027_127_030_461_550_6e-5,
        2.282_431_714_837_856e-5,
        -8.667_723_843_075_17e-6,
        2.135_810_859_337_108e-6,
        -3.733_268_942_409_818e-7,
        4.642_603_910_232_362e-8,
        -3.934_545_057_141_859e-9,
        2.045_122_219_448_209_6e-10,
        -4.929_037_461_411_433e-12,
    ];
    let magnitude = x.abs();
    // erf rounds to 1 from here on.
    let limited = magnitude.min(5.93);
    let large = 1.0 - exponential::exp(polynomial(limited, LARGE), None);
    let square = x * x;
    let small = x.mul_add(polynomial(square, SMALL), x);
    // A NaN has no magnitude of 1 or more.
    magnitude.ge(1.0).select(large.copysign(x), small)
}
