//! The 128 bytes of a tensor map, and `tensormap.replace` on them (PTX ISA, "tensormap.replace").
//!
//! They are of our own making, as the driver's are not documented. Each field has its place
//! whatever the rank, so that single ones can be replaced in any order; whether they make a map
//! together is asked when a copy uses it. A kernel may also begin with 128 zeros, as Triton does:
//! they are a map of one dimension without elements until fields are replaced.

use super::{Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMap, TensorMapError, TensorType, check};

/// Bytes of a map.
pub(crate) const BYTES: usize = 128;

/// Magic number of the format.
const MAGIC: [u8; 4] = *b"wftm";

const KIND: usize = 4;
/// Offset of the rank minus one, as in `tensormap.replace`.
const RANK: usize = 5;
const INTERLEAVE: usize = 6;
const SWIZZLE: usize = 7;
const FILL: usize = 8;
const IS_IM2COL: usize = 10;
const ADDRESS: usize = 12;
const DIMS: usize = 20;
const STRIDES: usize = 60;
const ELEMENT_STRIDES: usize = 92;
/// Offset of the box; for im2col, of the corners, the channels and the pixels.
const MODE: usize = 97;

/// Element types in the order of their numbers in `tensormap.replace`.
const TYPES: [TensorType; 13] = [
    TensorType::U8,
    TensorType::U16,
    TensorType::U32,
    TensorType::I32,
    TensorType::U64,
    TensorType::I64,
    TensorType::F16,
    TensorType::F32,
    TensorType::F32Ftz,
    TensorType::F64,
    TensorType::Bf16,
    TensorType::Tf32,
    TensorType::Tf32Ftz,
];
const INTERLEAVES: [Interleave; 3] = [Interleave::None, Interleave::Bytes16, Interleave::Bytes32];
const SWIZZLES: [MapSwizzle; 4] = [MapSwizzle::None, MapSwizzle::Bytes32, MapSwizzle::Bytes64, MapSwizzle::Bytes128];
const FILLS: [Fill; 2] = [Fill::Zero, Fill::NanRequestZeroFma];
const PROMOTIONS: [L2Promotion; 4] =
    [L2Promotion::None, L2Promotion::Bytes64, L2Promotion::Bytes128, L2Promotion::Bytes256];

/// Field that `tensormap.replace` replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    GlobalAddress,
    Rank,
    BoxDim,
    GlobalDim,
    GlobalStride,
    ElementStride,
    ElementType,
    Interleave,
    Swizzle,
    Fill,
}

impl Field {
    /// All fields, by their PTX names.
    pub(crate) const ALL: [(&str, Self); 10] = [
        ("global_address", Self::GlobalAddress),
        ("rank", Self::Rank),
        ("box_dim", Self::BoxDim),
        ("global_dim", Self::GlobalDim),
        ("global_stride", Self::GlobalStride),
        ("element_stride", Self::ElementStride),
        ("elemtype", Self::ElementType),
        ("interleave_layout", Self::Interleave),
        ("swizzle_mode", Self::Swizzle),
        ("fill_mode", Self::Fill),
    ];

    /// Returns true for 64-bit fields.
    pub(crate) const fn is_wide(self) -> bool {
        matches!(self, Self::GlobalAddress | Self::GlobalStride)
    }

    /// Returns true for fields with one value per dimension.
    pub(crate) const fn is_ordinal(self) -> bool {
        matches!(self, Self::BoxDim | Self::GlobalDim | Self::GlobalStride | Self::ElementStride)
    }

    /// Number of its values, if they are numbered and part of the instruction.
    pub(crate) const fn choices(self) -> Option<usize> {
        match self {
            Self::ElementType => Some(TYPES.len()),
            Self::Interleave => Some(INTERLEAVES.len()),
            Self::Swizzle => Some(SWIZZLES.len()),
            Self::Fill => Some(FILLS.len()),
            Self::GlobalAddress
            | Self::Rank
            | Self::BoxDim
            | Self::GlobalDim
            | Self::GlobalStride
            | Self::ElementStride => None,
        }
    }
}

fn not_ours() -> TensorMapError {
    TensorMapError {
        what: "a tensor map".to_owned(),
        found: "128 other bytes".to_owned(),
        expected: "what the virtual GPU encoded".to_owned(),
    }
}

/// The bytes of a map.
struct Object<'a>(&'a mut [u8; BYTES]);

impl Object<'_> {
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&bytes);
    }

    fn put_dim(&mut self, dim: usize, size: u64) {
        self.put(DIMS + dim * 8, size.to_le_bytes());
    }

    fn put_stride(&mut self, dim: usize, bytes: u64) {
        self.put(STRIDES + dim * 8, bytes.to_le_bytes());
    }

    /// Stores an element stride; one that does not fit becomes a stride that no map can have.
    fn put_element_stride(&mut self, dim: usize, stride: u64) {
        self.0[ELEMENT_STRIDES + dim] = u8::try_from(stride).unwrap_or(u8::MAX);
    }

    /// Stores a box size; one that does not fit becomes a size that no box can have.
    fn put_box(&mut self, dim: usize, size: u64) {
        self.put(MODE + dim * 2, u16::try_from(size).unwrap_or(u16::MAX).to_le_bytes());
    }
}

fn number<const N: usize>(bytes: &[u8; BYTES], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("as many bytes as were asked for")
}

impl TensorMap {
    /// Encodes the map as a kernel parameter.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn encode(&self) -> Result<[u8; BYTES], TensorMapError> {
        self.check()?;
        let mut bytes = [0; BYTES];
        let mut to = Object(&mut bytes);
        let kind = TYPES.iter().position(|ty| *ty == self.element).expect("the list has every type");
        to.put(0, MAGIC);
        to.put(KIND, [kind as u8, (self.dims.len() - 1) as u8, self.interleave as u8, self.swizzle as u8]);
        to.put(FILL, [self.fill as u8, self.l2_promotion as u8, u8::from(matches!(self.mode, MapMode::Im2col { .. }))]);
        to.put(ADDRESS, self.address.to_le_bytes());
        // Dimensions beyond the rank have one element, in case the rank is replaced.
        for dim in 0..5 {
            to.put_dim(dim, self.dims.get(dim).copied().unwrap_or(1));
            to.put_element_stride(dim, self.element_strides.get(dim).copied().unwrap_or(1).into());
        }
        self.strides.iter().enumerate().for_each(|(dim, stride)| to.put_stride(dim, *stride));
        match &self.mode {
            MapMode::Tile { box_dims } => {
                (0..5).for_each(|dim| to.put_box(dim, box_dims.get(dim).copied().unwrap_or(1).into()));
            }
            MapMode::Im2col { lower, upper, channels_per_pixel, pixels_per_column } => {
                let corners = lower.iter().chain(upper).map(|offset| *offset as i16);
                let sizes = [*channels_per_pixel as i16, *pixels_per_column as i16];
                for (n, number) in corners.chain(sizes).enumerate() {
                    to.put(MODE + n * 2, number.to_le_bytes());
                }
            }
        }
        Ok(bytes)
    }

    /// Decodes a map that [`Self::encode`] wrote, with later replacements.
    ///
    /// # Errors
    /// If the bytes are no map.
    pub fn decode(bytes: &[u8; BYTES]) -> Result<Self, TensorMapError> {
        let [kind, rank, interleave, swizzle, fill, l2_promotion, im2col] = number(bytes, KIND);
        if number(bytes, 0) != MAGIC || kind as usize >= TYPES.len() {
            return Err(not_ours());
        }
        let rank = rank as usize + 1;
        check(rank <= 5, "the number of dimensions", rank, "1 to 5")?;
        let short = |n: usize| u16::from_le_bytes(number(bytes, MODE + n * 2));
        let mode = if im2col == 0 {
            MapMode::Tile { box_dims: (0..rank).map(|dim| short(dim).into()).collect() }
        } else {
            let spatial = rank.saturating_sub(2);
            let corner = |from: usize| (from..from + spatial).map(|n| short(n).cast_signed().into()).collect();
            MapMode::Im2col {
                lower: corner(0),
                upper: corner(spatial),
                channels_per_pixel: short(spatial * 2).into(),
                pixels_per_column: short(spatial * 2 + 1).into(),
            }
        };
        let map = Self {
            element: TYPES[kind as usize],
            address: u64::from_le_bytes(number(bytes, ADDRESS)),
            dims: (0..rank).map(|dim| u64::from_le_bytes(number(bytes, DIMS + dim * 8))).collect(),
            strides: (0..rank - 1).map(|dim| u64::from_le_bytes(number(bytes, STRIDES + dim * 8))).collect(),
            mode,
            element_strides: bytes[ELEMENT_STRIDES..ELEMENT_STRIDES + rank].iter().map(|n| u32::from(*n)).collect(),
            interleave: *INTERLEAVES.get(interleave as usize).ok_or_else(not_ours)?,
            swizzle: *SWIZZLES.get(swizzle as usize).ok_or_else(not_ours)?,
            l2_promotion: *PROMOTIONS.get(l2_promotion as usize).ok_or_else(not_ours)?,
            fill: *FILLS.get(fill as usize).ok_or_else(not_ours)?,
        };
        map.check()?;
        Ok(map)
    }
}

/// Replaces a field of the map in `bytes`: for fields with several values, that of dimension
/// `ordinal`. The other fields need not be consistent with it. Bytes that are all zero become a
/// map.
///
/// # Errors
/// If the bytes are neither that nor a map in tiled mode.
#[allow(clippy::cast_possible_truncation, reason = "the decoder checked the numbers of choices")]
pub(crate) fn replace(bytes: &mut [u8; BYTES], field: Field, ordinal: usize, value: u64) -> Result<(), TensorMapError> {
    if *bytes == [0; BYTES] {
        Object(bytes).put(0, MAGIC);
    }
    if number(bytes, 0) != MAGIC {
        return Err(not_ours());
    }
    check(bytes[IS_IM2COL] == 0, "the mode of the tensor map", "im2col", "tiled mode")?;
    let mut to = Object(bytes);
    match field {
        Field::GlobalAddress => to.put(ADDRESS, value.to_le_bytes()),
        Field::Rank => to.0[RANK] = u8::try_from(value).unwrap_or(u8::MAX),
        Field::BoxDim => to.put_box(ordinal, value),
        Field::GlobalDim => to.put_dim(ordinal, value),
        Field::GlobalStride if ordinal < 4 => to.put_stride(ordinal, value),
        // The outermost dimension has no stride.
        Field::GlobalStride => {}
        Field::ElementStride => to.put_element_stride(ordinal, value),
        Field::ElementType => to.0[KIND] = value as u8,
        Field::Interleave => to.0[INTERLEAVE] = value as u8,
        Field::Swizzle => to.0[SWIZZLE] = value as u8,
        Field::Fill => to.0[FILL] = value as u8,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{image, matrix};
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for map in [matrix(), image()] {
            assert_eq!(TensorMap::decode(&map.encode().expect("it keeps the rules")), Ok(map));
        }
        assert!(TensorMap::decode(&[0; 128]).is_err());
    }

    #[test]
    fn every_field_can_be_replaced_by_itself() {
        let mut bytes = matrix().encode().expect("it keeps the rules");
        let wanted = TensorMap {
            element: TensorType::Tf32,
            address: 0x4_0000,
            dims: vec![40, 30, 20],
            strides: vec![256, 8192],
            mode: MapMode::Tile { box_dims: vec![8, 5, 3] },
            element_strides: vec![1, 2, 3],
            interleave: Interleave::None,
            swizzle: MapSwizzle::Bytes32,
            fill: Fill::Zero,
            ..matrix()
        };
        let lists = [(Field::GlobalDim, [40, 30, 20]), (Field::BoxDim, [8, 5, 3]), (Field::ElementStride, [1, 2, 3])];
        for (field, values) in lists {
            (0..3).for_each(|dim| replace(&mut bytes, field, dim, values[dim]).expect("it is a map"));
        }
        let singles =
            [(Field::GlobalAddress, 0x4_0000), (Field::ElementType, 11), (Field::Swizzle, 1), (Field::Fill, 0)];
        for (field, value) in singles.into_iter().chain([(Field::Interleave, 0), (Field::Rank, 2)]) {
            replace(&mut bytes, field, 0, value).expect("it is a map");
        }
        replace(&mut bytes, Field::GlobalStride, 0, 256).expect("it is a map");
        replace(&mut bytes, Field::GlobalStride, 1, 8192).expect("it is a map");
        assert_eq!(TensorMap::decode(&bytes), Ok(wanted));
        assert!(replace(&mut [1; BYTES], Field::Rank, 0, 1).is_err());
        let mut columns = image().encode().expect("it keeps the rules");
        assert!(replace(&mut columns, Field::Rank, 0, 1).is_err());
    }

    #[test]
    fn zeros_become_a_map_by_replacing_every_field() {
        let mut bytes = [0; BYTES];
        let mut set = |field, dim, value| replace(&mut bytes, field, dim, value).expect("zeros may become a map");
        set(Field::GlobalAddress, 0, 0x4_0000);
        assert!(TensorMap::decode(&bytes).is_err(), "a map without elements");
        let mut set = |field, dim, value| replace(&mut bytes, field, dim, value).expect("it is one now");
        set(Field::Rank, 0, 1);
        for (dim, (size, part)) in [(0, (64, 32)), (1, (16, 8))] {
            set(Field::GlobalDim, dim, size);
            set(Field::BoxDim, dim, part);
            set(Field::ElementStride, dim, 1);
        }
        set(Field::GlobalStride, 0, 128);
        set(Field::ElementType, 0, 6);
        set(Field::Swizzle, 0, 2);
        let wanted = TensorMap {
            element: TensorType::F16,
            address: 0x4_0000,
            dims: vec![64, 16],
            strides: vec![128],
            mode: MapMode::Tile { box_dims: vec![32, 8] },
            element_strides: vec![1, 1],
            interleave: Interleave::None,
            swizzle: MapSwizzle::Bytes64,
            l2_promotion: L2Promotion::None,
            fill: Fill::Zero,
        };
        assert_eq!(TensorMap::decode(&bytes), Ok(wanted));
    }

    #[test]
    fn what_no_field_can_hold_makes_no_map() {
        for (field, value) in
            [(Field::Rank, 5), (Field::Rank, 1 << 20), (Field::BoxDim, 1 << 16), (Field::GlobalDim, 0)]
        {
            let mut bytes = matrix().encode().expect("it keeps the rules");
            replace(&mut bytes, field, 0, value).expect("it is a map");
            assert!(TensorMap::decode(&bytes).is_err(), "{field:?} {value}");
        }
    }
}
