//! From a thread's codes to its weights, in registers.

use warpfold_lang::{Pointer, Space, Val};

use super::layout::{RowWords, STEPS, access_words};
use super::scheme::{Offset, Scale, Scheme};

/// Which codes of a piece a thread has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Which warp of the four.
    pub(super) warp: Val<u32>,
    /// Which lane: four for each of the warp's eight rows.
    pub(super) lane: Val<u32>,
}

/// What is kept of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zeros {
    /// Their sign, which is that of the scale.
    Signed,
    /// Nothing, as for sums of products: those of zeros alone have no sign. The zero of codes is
    /// then subtracted with the multiplication by the scale, which has to be finite.
    Unsigned,
}

/// A thread's codes and scales of a piece, of one row.
pub(super) struct Decoder {
    scheme: Scheme,
    /// The words of each plane.
    planes: Vec<Vec<Val<u32>>>,
    scales: Vec<Val<f32>>,
    offsets: Vec<Val<f32>>,
    /// What codes become before they are multiplied.
    number: Number,
}

/// A code as an `f32`.
#[derive(Debug, Clone, Copy)]
enum Number {
    /// Itself, less its zero.
    Plain,
    /// Itself and a power of two, which an offset takes away again: exactly, as it has few digits.
    /// The bits of the power, and which byte of them the code takes.
    Above(u32, u32),
}

impl Number {
    /// The smallest power of two in whose fraction a byte of a code lies.
    const fn above(bits: u32) -> Self {
        // Less than 8 bits lie below the exponent in the third byte: of 2^7; 8 in the second: of
        // 2^15.
        if bits < 8 { Self::Above(0x4300_0000, 2) } else { Self::Above(0x4700_0000, 1) }
    }
}

/// Two pairs of neighbours of a step of 16.
pub(super) type Pairs = [[Val<f32>; 2]; 2];

impl Decoder {
    /// Loads what the thread at a place has of a piece.
    pub(super) fn load<S: Space>(
        scheme: Scheme,
        piece: Pointer<u8, S>,
        Place { warp, lane }: Place,
        zeros: Zeros,
    ) -> Self {
        let layout = scheme.piece();
        let planes = scheme.planes().iter().zip(layout.planes).map(|(bits, start)| {
            let (access, num) = (access_words(*bits), bits / access_words(*bits));
            let first = (warp * (32 * num) + lane) * (4 * access);
            let loads = (0..num).flat_map(|i| words_at(piece.at(first).at(start + 128 * access * i), access));
            loads.collect()
        });
        let planes = planes.collect();
        let row = warp * 8 + (lane >> 2);
        let words = |RowWords { start, words }: RowWords| words_at(piece.at(row * (4 * words)).at(start), words);
        let shared = (layout.shared.words > 0).then(|| words(layout.shared)[0]);
        let [of_scales, of_offsets] = [0, 16].map(|shift| shared.map(|word| half(word, shift)));
        let (scale_words, groups) = (words(layout.scales), scheme.groups() as usize);
        let scales = (0..groups).map(|i| match scheme.scale {
            Scale::Half => half(scale_words[i / 2], 16 * (i as u32 % 2)),
            Scale::Byte => byte(scale_words[i / 4], i as u32 % 4).cast::<f32>() * of_scales.expect("bytes have it"),
            Scale::SignedByte => {
                let byte = scale_words[i / 4].bitcast::<i32>().bfe(8 * (i as u32 % 4), 8_u32);
                byte.cast::<f32>() * of_scales.expect("bytes have it")
            }
            Scale::Exponent => power_of_two(byte(scale_words[i / 4], i as u32 % 4)),
        });
        let scales: Vec<Val<f32>> = scales.collect();
        let is_plain = zeros == Zeros::Signed || scheme.offset != Offset::None || scheme.table.is_some();
        let number = if is_plain { Number::Plain } else { Number::above(scheme.bits) };
        let offsets = match (scheme.offset, number) {
            (Offset::None, Number::Plain) => Vec::new(),
            (Offset::None, Number::Above(power, _)) => {
                let shift = f32::from_bits(power) + f32::from(scheme.zero);
                scales.iter().map(|scale| *scale * -shift).collect()
            }
            (Offset::Half, _) => {
                let words = words(layout.offsets);
                (0..groups).map(|i| half(words[i / 2], 16 * (i as u32 % 2))).collect()
            }
            (Offset::Zero, _) => {
                let words = words(layout.offsets);
                (0..groups).map(|i| byte(words[i / 4], i as u32 % 4).cast::<f32>()).collect()
            }
            (Offset::Byte, _) => {
                let (words, of_all) = (words(layout.offsets), -of_offsets.expect("bytes have it"));
                (0..groups).map(|i| byte(words[i / 4], i as u32 % 4).cast::<f32>() * of_all).collect()
            }
        };
        Self { scheme, planes, scales, offsets, number }
    }

    /// The weights of a step of 16, in `f32`: those at `2 c`, `2 c + 1` and those at `2 c + 8`,
    /// `2 c + 9`.
    pub(super) fn step(&self, step: u32) -> Pairs {
        assert!(step < STEPS, "a piece has {STEPS} steps");
        let group = (16 * step / self.scheme.group) as usize;
        let numbers = self.numbers(step);
        [0, 2].map(|first| [0, 1].map(|i| self.weight(numbers[first + i], group)))
    }

    fn weight(&self, number: Val<f32>, group: usize) -> Val<f32> {
        match self.offsets.get(group) {
            Some(zero) if self.scheme.offset == Offset::Zero => (number - *zero) * self.scales[group],
            // The product is exact, so that this rounds as a product and a sum do.
            Some(offset) => number.mul_add(self.scales[group], *offset),
            None => number * self.scales[group],
        }
    }

    /// The codes of a step, as numbers that are multiplied by a scale.
    fn numbers(&self, step: u32) -> [Val<f32>; 4] {
        if let Number::Above(power, byte) = self.number {
            let codes = self.codes(step);
            // Bytes 4 to 7 are those of the power, of which 4 is 0.
            let choice = |i: u32| 0x7654 & !(0xf << (4 * byte)) | i << (4 * byte);
            return [0, 1, 2, 3].map(|i| codes.prmt(power, choice(i)).bitcast());
        }
        let (codes, zero) = match self.scheme.table {
            Some(table) => (self.looked_up(table, step), 128),
            None => (self.codes(step), self.scheme.zero),
        };
        // A byte below the exponent of 2^23 is 2^23 and itself.
        const BASE: u32 = 0x4b00_0000;
        let shift = f32::from_bits(BASE) + f32::from(zero);
        [0, 1, 2, 3].map(|i: u32| codes.prmt(BASE, 0x7440 + i).bitcast::<f32>() - shift)
    }

    /// The four codes of a step, one in each byte.
    fn codes(&self, step: u32) -> Val<u32> {
        let mut shift = 0;
        let fields = self.scheme.planes().iter().zip(&self.planes).map(|(bits, words)| {
            let word = words[(step * bits / 8) as usize];
            let mask = ((1_u32 << bits) - 1) << shift;
            // To the place that the plane has in a code.
            let (from, to) = (step % (8 / bits) * bits, shift);
            shift += bits;
            let moved = if from >= to { shifted_right(word, from - to) } else { word << (to - from) };
            if *bits == 8 { moved } else { moved & (mask * 0x0101_0101) }
        });
        fields.reduce(|low, high| low | high).expect("there is a plane")
    }

    /// The values of a table that the codes of a step choose, plus 128, one in each byte.
    fn looked_up(&self, table: [i8; 16], step: u32) -> Val<u32> {
        let word = |i: usize| {
            let four = table[4 * i..4 * i + 4].iter().rev();
            four.fold(0_u32, |word, value| word << 8 | (i32::from(*value) + 128) as u32)
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(word);
        let choice = shifted_right(self.planes[0][(step / 2) as usize], 16 * (step % 2));
        // A digit chooses of eight bytes; its upper bit chooses from which eight.
        let digits = choice & 0x7777;
        let [lower, upper] = [[a, b], [c, d]].map(|[low, high]| Val::constant(low).prmt(high, digits));
        lower.prmt(upper, ((choice >> 1) & 0x4444) | 0x3210)
    }
}

fn shifted_right(word: Val<u32>, by: u32) -> Val<u32> {
    if by == 0 { word } else { word >> by }
}

pub(super) fn words_at<S: Space>(place: Pointer<u8, S>, num: u32) -> Vec<Val<u32>> {
    let place = place.reinterpret::<u32>();
    match num {
        0 => Vec::new(),
        1 => vec![place.get()],
        2 => place.get_vec::<2>().to_vec(),
        4 => place.get_vec::<4>().to_vec(),
        num => unreachable!("no list has {num} words"),
    }
}

/// The `f16` in a word from a bit on.
fn half(word: Val<u32>, shift: u32) -> Val<f32> {
    let bits = if shift == 0 { word & 0xffff } else { word >> shift };
    bits.cast::<u16>().bitcast::<half::f16>().cast()
}

fn byte(word: Val<u32>, number: u32) -> Val<u32> {
    word.bfe(8 * number, 8_u32)
}

/// `2^(exponent - 128)`, also below the normal numbers.
fn power_of_two(exponent: Val<u32>) -> Val<f32> {
    exponent.lt(2).select(Val::constant(0x0020_0000_u32) << exponent, (exponent - 1) << 23).bitcast()
}
