//! Tensor maps: what bulk tensor copies know of a tensor, the rules that a map keeps, and 128 bytes that hold it.
//!
//! Field names and rules are those of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` (CUDA driver API, "Tensor Map
//! Object Management"; PTX ISA, "Tensors"). The bytes are of our own making, as the driver's are not documented: they keep the
//! address as it is, so that what a copy touches can be checked.

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
    F64,
    Bf16,
}

const TYPES: [TensorType; 10] = [
    TensorType::U8,
    TensorType::U16,
    TensorType::U32,
    TensorType::I32,
    TensorType::U64,
    TensorType::I64,
    TensorType::F16,
    TensorType::F32,
    TensorType::F64,
    TensorType::Bf16,
];

impl TensorType {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::Bf16)
    }
}

/// How channels are stored in pieces (PTX ISA, "Interleave layout").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interleave {
    /// All channels of a pixel side by side.
    #[default]
    None,
    /// In slices of 16 bytes of channels: `NC/8HWC8` for 16-bit elements.
    Bytes16,
    /// In slices of 32 bytes.
    Bytes32,
}

/// How 16-byte pieces are permuted in shared memory (PTX ISA, "Swizzling Modes").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MapSwizzle {
    /// As they come.
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

/// How much the second-level cache fetches at once: a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum L2Promotion {
    /// What is asked for.
    #[default]
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

/// What is loaded in place of elements outside of the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fill {
    /// Zero.
    #[default]
    Zero,
    /// A NaN that multiply-adds take as zero; for floating-point types.
    NanRequestZeroFma,
}

/// What one copy moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MapMode {
    /// A box of the tensor.
    Tile {
        /// Its extent in each dimension, in elements.
        box_dims: Vec<u32>,
    },
    /// Pixels of a convolution's input, for one position of its filter.
    Im2col {
        /// The bounding box's lower corner, relative to the tensor's, innermost of the spatial dimensions first.
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
    /// Where the tensor starts.
    pub address: u64,
    /// Elements in each dimension: one to five.
    pub dims: Vec<u64>,
    /// Bytes from one position to the next in each dimension but the innermost.
    pub strides: Vec<u64>,
    /// What one copy moves.
    pub mode: MapMode,
    /// Every how many elements of each dimension are taken.
    pub element_strides: Vec<u32>,
    /// How channels are stored.
    pub interleave: Interleave,
    /// How shared memory is swizzled.
    pub swizzle: MapSwizzle,
    /// A hint.
    pub l2_promotion: L2Promotion,
    /// What is outside.
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
    /// What it may be.
    pub expected: String,
}

fn check(holds: bool, what: impl Into<String>, found: impl ToString, expected: &str) -> Result<(), TensorMapError> {
    if holds {
        return Ok(());
    }
    Err(TensorMapError { what: what.into(), found: found.to_string(), expected: expected.to_owned() })
}

impl TensorMap {
    /// Compares with the rules that the driver keeps.
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
        self.check_inner(box_dims[0] * self.element.bytes(), "the innermost dimension of the box in bytes")
    }

    fn check_inner(&self, bytes: u32, what: &str) -> Result<(), TensorMapError> {
        match self.interleave {
            Interleave::None => {
                check(bytes.is_multiple_of(16), what, bytes, "a multiple of 16")?;
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
        check((1..=256).contains(&channels), "the number of channels a pixel", channels, "1 to 256")?;
        check((1..=1024).contains(&pixels), "the number of pixels a column", pixels, "1 to 1024")?;
        self.check_inner(channels * self.element.bytes(), "the channels of a pixel in bytes")
    }

    /// The first and the last byte that the tensor has, the last one exclusive.
    #[must_use]
    pub fn extent(&self) -> (u64, u64) {
        let steps = self.strides.iter().zip(&self.dims[1..]).map(|(stride, size)| stride * (size - 1));
        let row = self.dims[0] * u64::from(self.element.bytes());
        (self.address, self.address + steps.sum::<u64>() + row)
    }
}

/// Marks the bytes as ours.
const MAGIC: [u8; 4] = *b"wftm";

/// Writes fields one behind the other.
struct Writer([u8; 128], usize);

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
    }
}

/// Reads them back.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, tail) = self.0.split_at(N);
        self.0 = tail;
        head.try_into().expect("as many bytes as were split off")
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }
}

impl TensorMap {
    /// The map as a kernel's parameter.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn encode(&self) -> Result<[u8; 128], TensorMapError> {
        self.check()?;
        let mut to = Writer([0; 128], 0);
        let kind = TYPES.iter().position(|ty| *ty == self.element).expect("the list has every type");
        to.put(&MAGIC);
        to.put(&[kind as u8, self.dims.len() as u8, self.interleave as u8, self.swizzle as u8]);
        to.put(&[self.fill as u8, self.l2_promotion as u8, u8::from(matches!(self.mode, MapMode::Im2col { .. })), 0]);
        to.put(&self.address.to_le_bytes());
        // A dimension of 2^32 does not fit 32 bits; none is 0.
        self.dims.iter().for_each(|size| to.put(&((size - 1) as u32).to_le_bytes()));
        self.strides.iter().for_each(|stride| to.put(&stride.to_le_bytes()));
        self.element_strides.iter().for_each(|stride| to.put(&[*stride as u8]));
        match &self.mode {
            MapMode::Tile { box_dims } => box_dims.iter().for_each(|size| to.put(&(*size as u16).to_le_bytes())),
            MapMode::Im2col { lower, upper, channels_per_pixel, pixels_per_column } => {
                lower.iter().chain(upper).for_each(|offset| to.put(&(*offset as i16).to_le_bytes()));
                to.put(&(*channels_per_pixel as u16).to_le_bytes());
                to.put(&(*pixels_per_column as u16).to_le_bytes());
            }
        }
        Ok(to.0)
    }

    /// The map that [`Self::encode`] wrote.
    ///
    /// # Errors
    /// If the bytes are no map.
    pub fn decode(bytes: &[u8; 128]) -> Result<Self, TensorMapError> {
        let mut from = Reader(bytes);
        let not_ours = || TensorMapError {
            what: "a tensor map".to_owned(),
            found: "128 other bytes".to_owned(),
            expected: "what the virtual GPU encoded".to_owned(),
        };
        let magic: [u8; 4] = from.take();
        let [kind, rank, interleave, swizzle, fill, l2_promotion, im2col, _] = from.take();
        if magic != MAGIC || kind as usize >= TYPES.len() || !(1..=5).contains(&rank) {
            return Err(not_ours());
        }
        let rank = rank as usize;
        let address = u64::from_le_bytes(from.take());
        let dims = (0..rank).map(|_| u64::from(u32::from_le_bytes(from.take())) + 1).collect();
        let strides = (1..rank).map(|_| u64::from_le_bytes(from.take())).collect();
        let element_strides = (0..rank).map(|_| from.byte().into()).collect();
        let mut number = || u16::from_le_bytes(from.take());
        let mode = if im2col == 0 {
            MapMode::Tile { box_dims: (0..rank).map(|_| number().into()).collect() }
        } else {
            let spatial = rank.saturating_sub(2);
            let mut corner = || (0..spatial).map(|_| number().cast_signed().into()).collect();
            let (lower, upper) = (corner(), corner());
            MapMode::Im2col { lower, upper, channels_per_pixel: number().into(), pixels_per_column: number().into() }
        };
        let map = Self {
            element: TYPES[kind as usize],
            address,
            dims,
            strides,
            mode,
            element_strides,
            interleave: *[Interleave::None, Interleave::Bytes16, Interleave::Bytes32]
                .get(interleave as usize)
                .ok_or_else(not_ours)?,
            swizzle: *[MapSwizzle::None, MapSwizzle::Bytes32, MapSwizzle::Bytes64, MapSwizzle::Bytes128]
                .get(swizzle as usize)
                .ok_or_else(not_ours)?,
            l2_promotion: *[L2Promotion::None, L2Promotion::Bytes64, L2Promotion::Bytes128, L2Promotion::Bytes256]
                .get(l2_promotion as usize)
                .ok_or_else(not_ours)?,
            fill: *[Fill::Zero, Fill::NanRequestZeroFma].get(fill as usize).ok_or_else(not_ours)?,
        };
        map.check()?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> TensorMap {
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

    fn image() -> TensorMap {
        TensorMap {
            dims: vec![64, 20, 10, 4, 2],
            strides: vec![128, 128 * 20, 128 * 200, 128 * 800],
            mode: MapMode::Im2col {
                lower: vec![-1, -16, 3],
                upper: vec![1, 15, -2],
                channels_per_pixel: 64,
                pixels_per_column: 1024,
            },
            element_strides: vec![1, 2, 8, 1, 1],
            ..matrix()
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for map in [matrix(), image()] {
            assert_eq!(TensorMap::decode(&map.encode().expect("it keeps the rules")), Ok(map));
        }
        assert!(TensorMap::decode(&[0; 128]).is_err());
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
    }

    #[test]
    fn the_extent_ends_behind_the_last_element() {
        let map = TensorMap { dims: vec![10, 3], strides: vec![32], ..matrix() };
        assert_eq!(map.extent(), (0x1000, 0x1000 + 64 + 20));
    }
}
