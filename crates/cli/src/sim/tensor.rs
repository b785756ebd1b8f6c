//! `--arg tensormap=…`: an array as TMA sees it.
//!
//! The form is `tensormap=ARRAY;box=SHAPE` and further fields, where ARRAY is `in=`, `out=`
//! or `inout=`. Shapes are written as everywhere on the command line, outermost dimension first.

use warpfold_kernels::Dtype;
use warpfold_sim::{Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMap, TensorType};

use super::spec::Spec;

/// A tensor map as the command line gives it; dimensions stand innermost first, as in a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tensor {
    /// The array.
    pub(super) array: Box<Spec>,
    element: Option<TensorType>,
    dims: Option<Vec<u64>>,
    strides: Option<Vec<u64>>,
    steps: Option<Vec<u32>>,
    box_dims: Option<Vec<u32>>,
    lower: Option<Vec<i32>>,
    upper: Option<Vec<i32>>,
    channels: Option<u32>,
    pixels: Option<u32>,
    swizzle: MapSwizzle,
    interleave: Interleave,
    l2_promotion: L2Promotion,
    fill: Fill,
}

const FORM: &str = "tensormap=ARRAY;box=SHAPE (or ;lower=;upper=;channels=;pixels=), then ;dims= ;strides= ;steps= ;swizzle=32|64|128 \
                    ;interleave=16|32 ;l2=64|128|256 ;fill=nan ;type=tf32 (or another)";

/// Element types by their names; those that are not an array's own say what loads make of its
/// elements.
const TYPES: [(&str, TensorType); 13] = [
    ("u8", TensorType::U8),
    ("u16", TensorType::U16),
    ("u32", TensorType::U32),
    ("i32", TensorType::I32),
    ("u64", TensorType::U64),
    ("i64", TensorType::I64),
    ("f16", TensorType::F16),
    ("bf16", TensorType::Bf16),
    ("f32", TensorType::F32),
    ("f32_ftz", TensorType::F32Ftz),
    ("f64", TensorType::F64),
    ("tf32", TensorType::Tf32),
    ("tf32_ftz", TensorType::Tf32Ftz),
];

impl Tensor {
    /// Reads what follows `tensormap=`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut fields = text.split(';');
        let array = match Spec::parse(fields.next().unwrap_or_default()) {
            Ok(array @ (Spec::In(_) | Spec::Out { .. } | Spec::InOut { .. })) => Box::new(array),
            Ok(_) => return Err("a tensor map takes an array: in=, out= or inout=".to_owned()),
            Err(error) => return Err(error),
        };
        let mut this = Self {
            array,
            element: None,
            dims: None,
            strides: None,
            steps: None,
            box_dims: None,
            lower: None,
            upper: None,
            channels: None,
            pixels: None,
            swizzle: MapSwizzle::None,
            interleave: Interleave::None,
            l2_promotion: L2Promotion::None,
            fill: Fill::Zero,
        };
        let mut names = Vec::new();
        for field in fields {
            let (name, value) = field.split_once('=').ok_or_else(|| format!("'{field}': expected {FORM}"))?;
            this.set(name, value)?;
            if names.contains(&name) {
                return Err(format!("'{name}=' stands there twice"));
            }
            names.push(name);
        }
        // A box, or all that columns need: not a part of both.
        let of_columns = [this.lower.is_some(), this.upper.is_some(), this.channels.is_some(), this.pixels.is_some()];
        if of_columns != [this.box_dims.is_none(); 4] {
            return Err(format!("expected {FORM}"));
        }
        Ok(this)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "box" => self.box_dims = Some(list(value)?),
            "dims" => self.dims = Some(list(value)?),
            "strides" => self.strides = Some(list(value)?),
            "steps" => self.steps = Some(list(value)?),
            "lower" => self.lower = Some(list(value)?),
            "upper" => self.upper = Some(list(value)?),
            "channels" => self.channels = Some(number(value)?),
            "pixels" => self.pixels = Some(number(value)?),
            "swizzle" => {
                let known = [("32", MapSwizzle::Bytes32), ("64", MapSwizzle::Bytes64), ("128", MapSwizzle::Bytes128)];
                self.swizzle = one_of(name, value, &known)?;
            }
            "interleave" => {
                self.interleave = one_of(name, value, &[("16", Interleave::Bytes16), ("32", Interleave::Bytes32)])?;
            }
            "l2" => {
                let known =
                    [("64", L2Promotion::Bytes64), ("128", L2Promotion::Bytes128), ("256", L2Promotion::Bytes256)];
                self.l2_promotion = one_of(name, value, &known)?;
            }
            "type" => self.element = Some(one_of(name, value, &TYPES)?),
            "fill" => self.fill = one_of(name, value, &[("nan", Fill::NanRequestZeroFma), ("zero", Fill::Zero)])?,
            other => return Err(format!("unknown field '{other}=': expected {FORM}")),
        }
        Ok(())
    }

    /// The map of an array at an address, as a kernel takes it.
    pub(super) fn encode(&self, address: u64, dtype: Dtype, shape: &[u64]) -> Result<[u8; 128], String> {
        let own = element(dtype)?;
        let element = self.element.unwrap_or(own);
        if element.bytes() != own.bytes() {
            return Err(format!("type= has elements of {} bytes, the array's have {}", element.bytes(), own.bytes()));
        }
        let dims = self.dims.clone().unwrap_or_else(|| shape.iter().rev().copied().collect());
        let dense = || {
            let size = u64::from(element.bytes());
            let steps = dims.iter().scan(size, |bytes, dim| {
                *bytes = bytes.saturating_mul(*dim);
                Some(*bytes)
            });
            steps.take(dims.len().saturating_sub(1)).collect()
        };
        let mode = match (&self.box_dims, &self.lower, &self.upper, self.channels, self.pixels) {
            (None, Some(lower), Some(upper), Some(channels_per_pixel), Some(pixels_per_column)) => {
                let (lower, upper) = (lower.clone(), upper.clone());
                MapMode::Im2col { lower, upper, channels_per_pixel, pixels_per_column }
            }
            (box_dims, ..) => MapMode::Tile { box_dims: box_dims.clone().unwrap_or_default() },
        };
        let map = TensorMap {
            element,
            address,
            strides: self.strides.clone().unwrap_or_else(dense),
            element_strides: self.steps.clone().unwrap_or_else(|| vec![1; dims.len()]),
            dims,
            mode,
            interleave: self.interleave,
            swizzle: self.swizzle,
            l2_promotion: self.l2_promotion,
            fill: self.fill,
        };
        map.encode().map_err(|error| error.to_string())
    }
}

fn element(dtype: Dtype) -> Result<TensorType, String> {
    Ok(match dtype {
        Dtype::U8 | Dtype::I8 => TensorType::U8,
        Dtype::U16 | Dtype::I16 => TensorType::U16,
        Dtype::U32 => TensorType::U32,
        Dtype::I32 => TensorType::I32,
        Dtype::U64 => TensorType::U64,
        Dtype::I64 => TensorType::I64,
        Dtype::F16 => TensorType::F16,
        Dtype::Bf16 => TensorType::Bf16,
        Dtype::F32 => TensorType::F32,
        Dtype::F64 => TensorType::F64,
        #[allow(unreachable_patterns, reason = "the library may know more types than tensor maps do")]
        other => return Err(format!("a tensor map has no elements of type {other}")),
    })
}

fn one_of<T: Copy>(name: &str, value: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(text, _)| *text == value).map(|(_, v)| *v);
    found.ok_or_else(|| {
        let known: Vec<_> = known.iter().map(|(text, _)| *text).collect();
        format!("{name}={value}: expected {}", known.join(", "))
    })
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not such a number"))
}

/// `4x8x16`, innermost first.
fn list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    text.split('x').rev().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_described_outermost_first() {
        let tensor = Tensor::parse("in=a.npy;box=16x64;swizzle=128;l2=256").unwrap();
        assert_eq!(*tensor.array, Spec::In("a.npy".into()));
        let expected = TensorMap {
            element: TensorType::Bf16,
            address: 0x1000,
            dims: vec![200, 30],
            strides: vec![400],
            mode: MapMode::Tile { box_dims: vec![64, 16] },
            element_strides: vec![1, 1],
            interleave: Interleave::None,
            swizzle: MapSwizzle::Bytes128,
            l2_promotion: L2Promotion::Bytes256,
            fill: Fill::Zero,
        };
        assert_eq!(tensor.encode(0x1000, Dtype::Bf16, &[30, 200]), Ok(expected.encode().unwrap()));
    }

    #[test]
    fn columns_of_a_convolution_have_corners() {
        let tensor = Tensor::parse("in=x.npy;lower=-1x-1;upper=0x-1;channels=8;pixels=64").unwrap();
        assert!(tensor.encode(0, Dtype::F16, &[2, 7, 9, 16]).is_ok());
        assert!(tensor.encode(0, Dtype::F16, &[2, 7]).is_err());
    }

    #[track_caller]
    fn refused(text: &str, reason: &str) {
        let error = Tensor::parse(text).expect_err(text);
        assert!(error.contains(reason), "{text}: {error}");
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        refused("u32=1;box=4", "takes an array");
        refused("in=a.npy", "expected tensormap=");
        refused("in=a.npy;box=4;lower=1;upper=1;channels=4;pixels=4", "expected tensormap=");
        refused("in=a.npy;box=4;lower=1", "expected tensormap=");
        refused("in=a.npy;box=4;pixels=4", "expected tensormap=");
        refused("in=a.npy;box=4;box=8", "'box=' stands there twice");
        refused("in=a.npy;box=4;type=f8", "type=f8: expected u8, ");
        refused("in=a.npy;box=4x-1", "'-1' is not such a number");
        refused("in=a.npy;box=4;swizzle=16", "expected 32, 64, 128");
        refused("in=a.npy;box=4;colour=red", "unknown field 'colour='");
        let rows = Tensor::parse("in=a.npy;box=4x6").unwrap();
        assert!(rows.encode(0, Dtype::F32, &[8, 8]).unwrap_err().contains("multiple of 16"));
        let singles = Tensor::parse("in=a.npy;box=4x8;type=tf32").unwrap();
        assert!(singles.encode(0, Dtype::F32, &[8, 8]).is_ok());
        assert!(
            singles.encode(0, Dtype::F16, &[8, 8]).unwrap_err().contains("elements of 4 bytes, the array's have 2")
        );
    }
}
