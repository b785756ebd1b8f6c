//! The size of a problem of attention: tokens, heads, sequences, as one number.

use crate::{Error, ErrorKind};

/// Sizes of an attention problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Tokens of a sequence: its queries and keys, or its keys at most.
    pub length: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values, which divide the query heads.
    pub kv_heads: usize,
    /// Elements of a head: 64 or 128.
    pub head_dim: usize,
    /// Sequences.
    pub sequences: usize,
    /// Applies a causal mask.
    pub causal: bool,
}

/// Numbers that replace those of a size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeadOptions {
    /// See [`Heads::length`].
    pub length: Option<usize>,
    /// See [`Heads::heads`]. Heads of keys are as many, unless they are given as well.
    pub heads: Option<usize>,
    /// See [`Heads::kv_heads`].
    pub kv_heads: Option<usize>,
    /// See [`Heads::head_dim`].
    pub head_dim: Option<usize>,
    /// See [`Heads::sequences`].
    pub sequences: Option<usize>,
    /// Sets [`Heads::causal`].
    pub causal: bool,
}

/// The sizes that a ladder of attention takes.
#[derive(Debug, Clone, Copy)]
pub struct HeadSizes {
    /// Default for numbers that a size omits.
    pub default: Heads,
    /// Offers a causal form.
    pub has_causal: bool,
    /// On a GPU, where the sizes above are over before they have begun.
    pub on_gpu: Heads,
}

/// Forms of sizes, with and without a causal form.
const FORMS: [&str; 2] = [
    "LENGTHxHEADSxKV_HEADSxHEAD_DIMxSEQUENCES, the last ones left out or not, with LENGTH below 2^20, KV_HEADS a divisor \
     of HEADS, HEAD_DIM 64 or 128, and at most 65535 heads of all sequences",
    "LENGTHxHEADSxKV_HEADSxHEAD_DIMxSEQUENCES, the last ones left out or not, and perhaps -causal, with LENGTH below \
     2^20, KV_HEADS a divisor of HEADS, HEAD_DIM 64 or 128, and at most 65535 heads of all sequences",
];

/// Bits of each number, the lowest first: causal, elements of a head, heads of keys, heads,
/// sequences, tokens.
const BITS: [u32; 6] = [1, 8, 11, 11, 11, 20];

impl Heads {
    /// Packs the sizes into a ladder's size.
    #[must_use]
    pub const fn pack(self) -> u64 {
        let numbers = [self.causal as usize, self.head_dim, self.kv_heads, self.heads, self.sequences, self.length];
        let (mut size, mut shift, mut i) = (0, 0, 0);
        while i < BITS.len() {
            assert!(numbers[i] >> BITS[i] == 0, "a number of the size has too many bits");
            size |= (numbers[i] as u64) << shift;
            shift += BITS[i];
            i += 1;
        }
        size
    }

    /// Unpacks the result of [`pack`](Self::pack).
    #[must_use]
    pub const fn unpack(size: u64) -> Self {
        let (mut numbers, mut shift, mut i) = ([0; BITS.len()], 0, 0);
        while i < BITS.len() {
            numbers[i] = ((size >> shift) & ((1 << BITS[i]) - 1)) as usize;
            shift += BITS[i];
            i += 1;
        }
        let [causal, head_dim, kv_heads, heads, sequences, length] = numbers;
        Self { length, heads, kv_heads, head_dim, sequences, causal: causal == 1 }
    }

    /// Query heads that share one of keys.
    #[must_use]
    pub const fn group(self) -> usize {
        self.heads / self.kv_heads
    }

    /// Query heads of all sequences.
    #[must_use]
    pub const fn all_heads(self) -> usize {
        self.heads * self.sequences
    }

    fn is_valid(self, has_causal: bool) -> bool {
        let Self { length, heads, kv_heads, head_dim, sequences, causal } = self;
        let small = |number: usize| (1..1 << 11).contains(&number);
        (1..1 << 20).contains(&length)
            && [heads, kv_heads, sequences].into_iter().all(small)
            && heads.is_multiple_of(kv_heads)
            && [64, 128].contains(&head_dim)
            && self.all_heads() < 1 << 16
            && (has_causal || !causal)
    }
}

impl HeadSizes {
    fn checked(&self, heads: Heads, text: impl FnOnce() -> String) -> Result<u64, Error> {
        let expected = FORMS[usize::from(self.has_causal)];
        let bad = || ErrorKind::BadSize { text: text(), expected };
        if heads.is_valid(self.has_causal) { Ok(heads.pack()) } else { Err(bad().into()) }
    }

    /// A size as a user writes it: `300`, `256x8x2`, `256x8x2x64-causal`.
    pub(super) fn parse(&self, text: &str) -> Result<u64, Error> {
        let (numbers, causal) = text.strip_suffix("-causal").map_or((text, false), |numbers| (numbers, true));
        let number = |text: &str| text.replace('_', "").parse::<usize>().ok();
        let numbers: Option<Vec<usize>> = numbers.split('x').map(number).collect();
        let at = |i: usize| numbers.as_ref().and_then(|numbers| numbers.get(i).copied());
        // What is no number, or one too many, is no size.
        let length = at(0).filter(|_| at(5).is_none()).unwrap_or(0);
        let options = HeadOptions {
            length: Some(length),
            heads: at(1),
            kv_heads: at(2),
            head_dim: at(3),
            sequences: at(4),
            causal,
        };
        self.checked(self.default.with(&options), || text.to_owned())
    }

    /// A size with other numbers.
    pub(super) fn with(&self, size: u64, options: &HeadOptions) -> Result<u64, Error> {
        let heads = Heads::unpack(size).with(options);
        self.checked(heads, || heads.to_string())
    }

    /// Formats a size as [`parse`](Self::parse) takes it.
    pub(super) fn text(&self, size: u64) -> String {
        Heads::unpack(size).to_string()
    }
}

impl Heads {
    fn with(self, options: &HeadOptions) -> Self {
        let kv_heads = options.kv_heads.or(options.heads).unwrap_or(self.kv_heads);
        Self {
            length: options.length.unwrap_or(self.length),
            heads: options.heads.unwrap_or(self.heads),
            kv_heads,
            head_dim: options.head_dim.unwrap_or(self.head_dim),
            sequences: options.sequences.unwrap_or(self.sequences),
            causal: options.causal || self.causal,
        }
    }
}

impl std::fmt::Display for Heads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { length, heads, kv_heads, head_dim, sequences, causal } = self;
        let causal = if *causal { "-causal" } else { "" };
        write!(f, "{length}x{heads}x{kv_heads}x{head_dim}x{sequences}{causal}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Heads = Heads { length: 256, heads: 8, kv_heads: 2, head_dim: 64, sequences: 3, causal: false };

    #[test]
    fn a_size_of_heads_is_read_back_as_it_was_written() {
        let sizes = HeadSizes { default: DEFAULT, on_gpu: DEFAULT, has_causal: true };
        for (text, whole) in [
            ("300", "300x8x2x64x3"),
            ("1x6", "1x6x6x64x3"),
            ("77x6x3x128", "77x6x3x128x3"),
            ("1048575x6x3x128x1-causal", "1048575x6x3x128x1-causal"),
        ] {
            let size = sizes.parse(text).expect("it is a size");
            assert_eq!(sizes.text(size), whole);
            assert_eq!(sizes.parse(whole).expect("so is the whole of it"), size);
        }
        for bad in ["", "x", "0", "5x0", "5x4x3", "5x4x4x96", "5x4x4x64x20000", "5x4x4x64x1x1", "1048576", "-causal"] {
            assert!(sizes.parse(bad).is_err(), "{bad}");
        }
        let full = HeadSizes { has_causal: false, ..sizes };
        assert!(full.parse("5").is_ok() && full.parse("5-causal").is_err());
    }

    #[test]
    fn options_replace_numbers_of_a_size() {
        let sizes = HeadSizes { default: DEFAULT, on_gpu: DEFAULT, has_causal: true };
        let options = HeadOptions { heads: Some(12), causal: true, ..HeadOptions::default() };
        let size = sizes.with(DEFAULT.pack(), &options).expect("it is a size");
        assert_eq!(sizes.text(size), "256x12x12x64x3-causal");
        let options = HeadOptions { heads: Some(12), kv_heads: Some(5), ..HeadOptions::default() };
        assert!(sizes.with(DEFAULT.pack(), &options).is_err());
    }
}
