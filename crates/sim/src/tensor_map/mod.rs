//! Tensor maps (`CUtensorMap`): the descriptor that TMA copies read, its rules, and its 128 bytes.
//!
//! Field names and rules are those of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` (CUDA
//! driver API, "Tensor Map Object Management"; PTX ISA, "Tensors"). [`object`] has the bytes.

#[cfg(feature = "machine")]
pub(crate) mod object;

/// The element type of a tensor map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the type of the same name")]
pub enum TensorType {
    U8,
    U16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    /// `f32` whose subnormal numbers are zeros where copies add them up.
    F32Ftz,
    F64,
    Bf16,
    /// `f32` that is rounded to the ten bits of a TF32's fraction when it is loaded.
    Tf32,
    /// Both.
    Tf32Ftz,
}

impl TensorType {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Returns true for floating-point types.
    #[must_use]
    pub const fn is_float(self) -> bool {
        match self {
            Self::F16 | Self::F32 | Self::F32Ftz | Self::F64 | Self::Bf16 | Self::Tf32 | Self::Tf32Ftz => true,
            Self::U8 | Self::U16 | Self::U32 | Self::I32 | Self::U64 | Self::I64 => false,
        }
    }

    #[cfg(feature = "machine")]
    /// Converts the elements in `bytes` as a load does.
    ///
    /// NOTE: documents do not say how TF32 is rounded, nor what is flushed. An H200 rounds to
    /// nearest, ties to even, makes one NaN of all, and loads subnormal numbers as they are through
    /// every type: only sums flush them (driver 580, 2026-11-21).
    pub(crate) fn loaded(self, bytes: &mut [u8]) {
        if !matches!(self, Self::Tf32 | Self::Tf32Ftz) {
            return;
        }
        for element in bytes.as_chunks_mut::<4>().0 {
            let bits = u32::from_le_bytes(*element);
            let value = f32::from_bits(bits);
            let rounded = match value {
                _ if value.is_nan() => 0x7fff_e000,
                _ if value.is_infinite() => bits,
                _ => (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff,
            };
            *element = rounded.to_le_bytes();
        }
    }
}

/// Interleaved layout of channels (PTX ISA, "Interleave layout").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interleave {
    /// All channels of a pixel side by side.
    #[default]
    None,
    /// Slices of 16 bytes of channels: `NC/8HWC8` for 16-bit elements.
    Bytes16,
    /// Slices of 32 bytes.
    Bytes32,
}

/// Swizzle of 16-byte chunks in shared memory (PTX ISA, "Swizzling Modes").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MapSwizzle {
    /// No swizzle.
    #[default]
    None,
    /// Over rows of 32 bytes.
    Bytes32,
    /// Over rows of 64 bytes.
    Bytes64,
    /// Over rows of 128 bytes.
    Bytes128,
}

impl MapSwizzle {
    /// The longest inner row of a box.
    const fn row_bytes(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Bytes32 => Some(32),
            Self::Bytes64 => Some(64),
            Self::Bytes128 => Some(128),
        }
    }
}

/// Size of L2 fetches (`CUtensorMapL2promotion`): a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum L2Promotion {
    /// No promotion.
    #[default]
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

/// Value of elements outside of the tensor (`CUtensorMapFloatOOBfill`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fill {
    /// Zero.
    #[default]
    Zero,
    /// A NaN that multiply-adds take as zero; for floating-point types.
    NanRequestZeroFma,
}

/// Mode of a map: tiled or im2col.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MapMode {
    /// A box of the tensor.
    Tile {
        /// Its extent in each dimension, in elements.
        box_dims: Vec<u32>,
    },
    /// Pixels of a convolution's input, for one position of its filter.
    Im2col {
        /// The bounding box's lower corner, relative to the tensor's, innermost of the spatial
        /// dimensions first.
        lower: Vec<i32>,
        /// Its upper corner, relative to the tensor's.
        upper: Vec<i32>,
        /// Channels a pixel.
        channels_per_pixel: u32,
        /// Pixels.
        pixels_per_column: u32,
    },
}

/// A tensor in global memory as bulk copies see it. Dimensions stand innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The element type.
    pub element: TensorType,
    /// Address of the tensor.
    pub address: u64,
    /// Elements in each dimension: one to five.
    pub dims: Vec<u64>,
    /// Bytes from one position to the next in each dimension but the innermost.
    pub strides: Vec<u64>,
    /// Mode of the map: tiled or im2col.
    pub mode: MapMode,
    /// Every how many elements of each dimension are taken.
    pub element_strides: Vec<u32>,
    /// Interleaved layout of the channels.
    pub interleave: Interleave,
    /// Swizzle of shared memory.
    pub swizzle: MapSwizzle,
    /// A hint.
    pub l2_promotion: L2Promotion,
    /// Value of elements out of bounds.
    pub fill: Fill,
}

/// Why there is no such tensor map.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found}, expected {expected}")]
pub struct TensorMapError {
    /// The field.
    pub what: String,
    /// Its value.
    pub found: String,
    /// The values that are allowed.
    pub expected: String,
}

fn check(holds: bool, what: impl Into<String>, found: impl ToString, expected: &str) -> Result<(), TensorMapError> {
    if holds {
        return Ok(());
    }
    Err(TensorMapError { what: what.into(), found: found.to_string(), expected: expected.to_owned() })
}

/// A copy fits the shared memory of a multiprocessor. The driver's documents do not say so; an
/// H200's takes 228 KiB and no more (driver 580, 2026-11-21).
fn check_shared(bytes: u64) -> Result<(), TensorMapError> {
    check(bytes <= 228 << 10, "what one copy moves in bytes", bytes, "at most 233472")
}

impl TensorMap {
    /// Compares with the rules that the driver keeps, and with one of its documents that it does
    /// not: 32 bytes of swizzle for channels in slices of 32 bytes.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let rank = self.dims.len();
        check((1..=5).contains(&rank), "the number of dimensions", rank, "1 to 5")?;
        let interleaved = self.interleave != Interleave::None;
        check(!interleaved || rank >= 3, "the number of dimensions", rank, "3 to 5 with interleaved channels")?;
        self.check_place()?;
        for (dim, stride) in self.element_strides.iter().enumerate() {
            check((1..=8).contains(stride), format!("the element stride of dimension {dim}"), stride, "1 to 8")?;
        }
        check(
            self.element_strides.len() == rank,
            "the number of element strides",
            self.element_strides.len(),
            "one a dimension",
        )?;
        let fill_fits = self.fill == Fill::Zero || self.element.is_float();
        check(fill_fits, "the fill", "NaN", "zero for integers")?;
        match &self.mode {
            MapMode::Tile { box_dims } => self.check_tile(box_dims),
            MapMode::Im2col { lower, upper, channels_per_pixel, pixels_per_column } => {
                self.check_im2col([lower, upper], *channels_per_pixel, *pixels_per_column)
            }
        }
    }

    fn check_place(&self) -> Result<(), TensorMapError> {
        let align = if self.interleave == Interleave::Bytes32 { 32 } else { 16 };
        let expected = format!("a multiple of {align}");
        check(self.address.is_multiple_of(align), "the address", format!("{:#x}", self.address), &expected)?;
        for (dim, size) in self.dims.iter().enumerate() {
            check((1..=1 << 32).contains(size), format!("dimension {dim}"), size, "1 to 2^32")?;
        }
        check(
            self.strides.len() + 1 == self.dims.len(),
            "the number of strides",
            self.strides.len(),
            "one a dimension but the innermost",
        )?;
        for (dim, stride) in self.strides.iter().enumerate() {
            let expected = format!("a multiple of {align} bytes below 2^40");
            let fits = stride.is_multiple_of(align) && *stride < 1 << 40;
            check(fits, format!("the stride of dimension {}", dim + 1), stride, &expected)?;
        }
        Ok(())
    }

    fn check_tile(&self, box_dims: &[u32]) -> Result<(), TensorMapError> {
        check(
            box_dims.len() == self.dims.len(),
            "the number of dimensions of the box",
            box_dims.len(),
            "that of the tensor",
        )?;
        for (dim, size) in box_dims.iter().enumerate() {
            check((1..=256).contains(size), format!("dimension {dim} of the box"), size, "1 to 256")?;
        }
        let row = box_dims[0] * self.element.bytes();
        self.check_inner(row, "the innermost dimension of the box in bytes")?;
        // As the driver counts, though a copy moves the last step of an odd box, too.
        let rows = box_dims[1..].iter().zip(&self.element_strides[1..]).map(|(size, step)| u64::from(size / step));
        check_shared(u64::from(row) * rows.product::<u64>())
    }

    fn check_inner(&self, bytes: u32, what: &str) -> Result<(), TensorMapError> {
        check(bytes.is_multiple_of(16), what, bytes, "a multiple of 16")?;
        match self.interleave {
            Interleave::None => {
                let Some(most) = self.swizzle.row_bytes() else { return Ok(()) };
                check(bytes <= most, what, bytes, &format!("at most the {most} of the swizzle"))
            }
            Interleave::Bytes16 => Ok(()),
            Interleave::Bytes32 => {
                let expected = "32 bytes with channels in slices of 32 bytes";
                check(self.swizzle == MapSwizzle::Bytes32, "the swizzle", format!("{:?}", self.swizzle), expected)
            }
        }
    }

    fn check_im2col(&self, corners: [&Vec<i32>; 2], channels: u32, pixels: u32) -> Result<(), TensorMapError> {
        let rank = self.dims.len();
        check(rank >= 3, "the number of dimensions", rank, "3 to 5 for im2col")?;
        let bits = [15, 7, 4][rank - 3];
        let (least, most) = (-(1 << bits), (1 << bits) - 1);
        for corner in corners {
            check(corner.len() == rank - 2, "the length of a corner", corner.len(), "one a spatial dimension")?;
            for offset in corner {
                let expected = format!("{least} to {most} with {rank} dimensions");
                check((least..=most).contains(offset), "an offset of a corner", offset, &expected)?;
            }
        }
        for ((size, lower), upper) in self.dims[1..].iter().zip(corners[0]).zip(corners[1]) {
            let pixels = i128::from(*size) + i128::from(*upper) - i128::from(*lower);
            check(pixels > 0, "the pixels between the corners", pixels, "one at least in each dimension")?;
        }
        check((1..=256).contains(&channels), "the number of channels a pixel", channels, "1 to 256")?;
        check((1..=1024).contains(&pixels), "the number of pixels a column", pixels, "1 to 1024")?;
        self.check_inner(channels * self.element.bytes(), "the channels of a pixel in bytes")?;
        check_shared(u64::from(channels * self.element.bytes()) * u64::from(pixels))
    }

    /// The first and the last byte that the tensor has, the last one exclusive, of a map that keeps
    /// the rules; the largest address if it ends after that.
    #[must_use]
    pub fn extent(&self) -> (u64, u64) {
        let row = self.dims[0].saturating_mul(self.element.bytes().into());
        let steps = self.strides.iter().zip(&self.dims[1..]).map(|(stride, size)| stride.saturating_mul(size - 1));
        (self.address, steps.fold(self.address.saturating_add(row), u64::saturating_add))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(super) fn matrix() -> TensorMap {
        TensorMap {
            element: TensorType::Bf16,
            address: 0x1000,
            dims: vec![1 << 32, 70],
            strides: vec![1 << 34],
            mode: MapMode::Tile { box_dims: vec![64, 128] },
            element_strides: vec![1, 1],
            interleave: Interleave::None,
            swizzle: MapSwizzle::Bytes128,
            l2_promotion: L2Promotion::Bytes256,
            fill: Fill::NanRequestZeroFma,
        }
    }

    pub(super) fn image() -> TensorMap {
        TensorMap {
            dims: vec![64, 20, 10, 4, 2],
            strides: vec![128, 128 * 20, 128 * 200, 128 * 800],
            mode: MapMode::Im2col {
                lower: vec![-1, -16, 3],
                upper: vec![1, 15, 2],
                channels_per_pixel: 64,
                pixels_per_column: 1024,
            },
            element_strides: vec![1, 2, 8, 1, 1],
            ..matrix()
        }
    }

    #[test]
    #[rustfmt::skip]
    fn each_rule_is_kept() {
        let broken: [(&str, fn(&mut TensorMap)); 14] = [
            ("address", |map| map.address = 8),
            ("dimensions", |map| map.dims.clear()),
            ("dimension 1", |map| map.dims[1] = 0),
            ("dimension 0", |map| map.dims[0] = (1 << 32) + 1),
            ("number of strides", |map| map.strides.push(16)),
            ("stride of dimension 1", |map| map.strides[0] = 8),
            ("stride of dimension 1", |map| map.strides[0] = 1 << 40),
            ("element stride", |map| map.element_strides[1] = 9),
            ("number of element strides", |map| map.element_strides.truncate(1)),
            ("dimension 0 of the box", |map| map.mode = MapMode::Tile { box_dims: vec![512, 1] }),
            ("in bytes", |map| map.mode = MapMode::Tile { box_dims: vec![12, 1] }),
            ("in bytes", |map| map.mode = MapMode::Tile { box_dims: vec![128, 1] }),
            ("the fill", |map| map.element = TensorType::U16),
            ("with interleaved", |map| map.interleave = Interleave::Bytes16),
        ];
        for (text, breaks) in broken {
            let mut map = matrix();
            breaks(&mut map);
            let error = map.encode().expect_err(text).to_string();
            assert!(error.contains(text), "{error}, expected one about {text}");
        }
        let mut map = image();
        map.mode = MapMode::Im2col { lower: vec![0, 0, 16], upper: vec![0; 3], channels_per_pixel: 64, pixels_per_column: 1 };
        assert!(map.encode().is_err());
        let mut map = image();
        map.mode = MapMode::Im2col { lower: vec![0, 1, 0], upper: vec![0, -9, 0], channels_per_pixel: 64, pixels_per_column: 1 };
        assert!(map.encode().expect_err("an empty box").to_string().contains("between the corners is 0"));
    }

    #[test]
    fn the_extent_ends_behind_the_last_element() {
        let map = TensorMap { dims: vec![10, 3], strides: vec![32], ..matrix() };
        assert_eq!(map.extent(), (0x1000, 0x1000 + 64 + 20));
        let map = TensorMap { dims: vec![10, 1 << 32], strides: vec![(1 << 40) - 16], ..matrix() };
        assert_eq!(map.extent(), (0x1000, u64::MAX));
    }

    #[test]
    fn loads_round_as_the_type_says() {
        let check = |element: TensorType, before: u32, after: u32| {
            let mut bytes = before.to_le_bytes();
            element.loaded(&mut bytes);
            assert_eq!(u32::from_le_bytes(bytes), after, "{element:?} {before:#x}");
        };
        for element in [TensorType::Tf32, TensorType::Tf32Ftz] {
            // Ties go to even, carries reach the exponent, infinities stay, and a NaN is the one of
            // all.
            check(element, 0x3f80_1000, 0x3f80_0000);
            check(element, 0x3f80_3000, 0x3f80_4000);
            check(element, 0xbf80_1001, 0xbf80_2000);
            check(element, 0x3fff_ffff, 0x4000_0000);
            check(element, 0x7f80_0001, 0x7fff_e000);
            check(element, 0xffff_ffff, 0x7fff_e000);
            check(element, 0x0000_1001, 0x0000_2000);
            check(element, 0xff80_0000, 0xff80_0000);
        }
        check(TensorType::Tf32, 0x8040_0000, 0x8040_0000);
        check(TensorType::Tf32Ftz, 0x8040_0000, 0x8040_0000);
        check(TensorType::F32Ftz, 0x0000_0001, 0x0000_0001);
        check(TensorType::F32Ftz, 0x3f80_1001, 0x3f80_1001);
        check(TensorType::F32, 0x0000_0001, 0x0000_0001);
    }
}
