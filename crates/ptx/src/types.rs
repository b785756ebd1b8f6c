//! Scalar types (PTX ISA, "Fundamental Types" and "Packed Data Types").

macro_rules! scalar_types {
    ($($variant:ident $text:literal $bits:literal),* $(,)?) => {
        /// A scalar or packed type as written after a dot.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each variant is the PTX type of the same name")]
        pub enum ScalarType { $($variant),* }

        impl ScalarType {
            /// Every type.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The type that a modifier names (`"f32"`), if it names one.
            #[must_use]
            pub fn from_modifier(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }

            /// Its name without the dot.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// Its size in bits; a predicate has 1.
            #[must_use]
            pub const fn bits(self) -> u32 {
                match self { $(Self::$variant => $bits),* }
            }
        }
    };
}

scalar_types! {
    Pred "pred" 1,
    B8 "b8" 8, B16 "b16" 16, B32 "b32" 32, B64 "b64" 64, B128 "b128" 128,
    U8 "u8" 8, U16 "u16" 16, U32 "u32" 32, U64 "u64" 64,
    S8 "s8" 8, S16 "s16" 16, S32 "s32" 32, S64 "s64" 64,
    U16x2 "u16x2" 32, S16x2 "s16x2" 32,
    F16 "f16" 16, F16x2 "f16x2" 32, Bf16 "bf16" 16, Bf16x2 "bf16x2" 32,
    Tf32 "tf32" 32, F32 "f32" 32, F32x2 "f32x2" 64, F64 "f64" 64,
    E4m3 "e4m3" 8, E5m2 "e5m2" 8, E4m3x2 "e4m3x2" 16, E5m2x2 "e5m2x2" 16,
    E4m3x4 "e4m3x4" 32, E5m2x4 "e5m2x4" 32,
    TexRef "texref" 64, SamplerRef "samplerref" 64, SurfRef "surfref" 64,
}

impl ScalarType {
    /// Its size in bytes; a predicate takes 1.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Returns true for signed integer types.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64 | Self::S16x2)
    }
}
