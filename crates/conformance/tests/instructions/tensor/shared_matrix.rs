//! Matrices in shared memory as `wgmma` reads them, from the canonical layouts of the PTX ISA
//! ("Canonical Layouts").

/// Which way neighbouring elements run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Major {
    K,
    Mn,
}

/// How a matrix lies: everything that its descriptor says, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) start: usize,
    pub(crate) major: Major,
    /// Units of 16 bytes that a swizzled row has: 1, 2, 4, 8.
    pub(crate) units: usize,
    pub(crate) leading: usize,
    pub(crate) stride: usize,
}

impl Placement {
    /// A placement without gaps, for `mn` rows or columns and elements of `bits` bits; K is 32
    /// bytes.
    pub(crate) fn dense(start: usize, major: Major, units: usize, mn: usize, bits: usize) -> Self {
        let t = 128 / bits;
        let (leading, stride) = match (major, units) {
            // Two columns of units, one behind the other.
            (Major::K, 1) => (mn * 16, 128),
            (Major::K, _) => (0, 8 * units * 16),
            (Major::Mn, 1) => (mn.div_ceil(t) * 128, 128),
            (Major::Mn, _) => (2 * 8 * units * 16, 8 * units * 16),
        };
        Self { start, major, units, leading, stride }
    }

    /// Bytes up to the end.
    pub(crate) fn end(&self, mn: usize, k: usize, bits: usize) -> usize {
        let last = (0..mn).flat_map(|i| (0..k).map(move |k| (i, k))).map(|(i, k)| self.bit(i, k, bits) / 8).max();
        last.map_or(0, |last| (last + 1).next_multiple_of(1024))
    }

    /// The descriptor, for a tile variable at address 0.
    pub(crate) fn descriptor(&self) -> u64 {
        let field = |x: usize| ((x & 0x3ffff) >> 4) as u64;
        let mode = match self.units {
            1 => 0,
            8 => 1,
            4 => 2,
            _ => 3,
        };
        let pattern = if self.units == 1 { 0 } else { (self.start >> 7) as u64 & 7 };
        field(self.start) | field(self.leading) << 16 | field(self.stride) << 32 | pattern << 49 | mode << 62
    }

    /// The position of an element in bits. The canonical layouts are in elements, `T` of them in
    /// 128 bits.
    pub(crate) fn bit(&self, mn: usize, k: usize, bits: usize) -> usize {
        let t = 128 / bits;
        let (leading, stride) = (self.leading * 8 / bits, self.stride * 8 / bits);
        let w = self.units;
        let element = match (self.major, w) {
            // ((8,m),(T,2k)):((1T,SBO),(1,LBO))
            (Major::K, 1) => mn % 8 * t + mn / 8 * stride + k % t + k / t * leading,
            // ((8,m),(T,2k)):((wT,SBO),(1,T))
            (Major::K, _) => mn % 8 * w * t + mn / 8 * stride + k % t + k / t * t,
            // ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
            (Major::Mn, 1) => mn % t + mn / t * stride + k % 8 * t + k / 8 * leading,
            // ((T,w,m),(8,k)):((1,T,LBO),(wT,SBO))
            (Major::Mn, _) => mn % t + mn / t % w * t + mn / t / w * leading + k % 8 * w * t + k / 8 * stride,
        };
        // Swizzle<log2 w, 4, 3> on byte offsets from the start of the pattern.
        let byte = element * bits / 8;
        let swizzled = byte ^ (byte >> 3 & ((w - 1) << 4));
        (self.start + swizzled) * 8 + element * bits % 8
    }

    /// Writes a matrix.
    pub(crate) fn write(
        &self,
        image: &mut [u8],
        (mn, k, bits): (usize, usize, usize),
        element: impl Fn(usize, usize) -> u64,
    ) {
        for i in 0..mn {
            for j in 0..k {
                let (at, value) = (self.bit(i, j, bits), element(i, j));
                if bits < 8 {
                    let mask = ((1u8 << bits) - 1) << (at % 8);
                    image[at / 8] = image[at / 8] & !mask | (value as u8) << (at % 8);
                } else {
                    image[at / 8..][..bits / 8].copy_from_slice(&value.to_le_bytes()[..bits / 8]);
                }
            }
        }
    }
}
