//! The forms of `--arg`.

use std::path::PathBuf;

use warpfold_kernels::Dtype;

use super::tensor::Tensor;
use crate::npy;

/// One argument as the command line gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spec {
    /// `in=PATH.npy`
    In(PathBuf),
    /// `out=PATH.npy,DTYPE,SHAPE`
    Out { path: PathBuf, dtype: Dtype, shape: Vec<u64> },
    /// `inout=IN.npy,OUT.npy`
    InOut { from: PathBuf, to: PathBuf },
    /// A number: its little-endian bytes, its type, and whether that is a float.
    Scalar { text: String, bytes: Vec<u8>, is_float: bool },
    /// `bytes=HEX`
    Bytes(Vec<u8>),
    /// `tensormap=ARRAY;box=SHAPE`
    Tensor(Tensor),
    /// `struct=FORM;FORM`
    Struct(Struct),
    /// Device memory that a compiler's launcher gives its kernels; null if it has no bytes.
    Scratch(u64),
}

/// A parameter that is a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Struct {
    /// Each field and where it starts.
    pub(super) fields: Vec<(u64, Spec)>,
    /// Bytes of the structure.
    pub(super) bytes: u64,
}

impl Struct {
    fn parse(text: &str) -> Result<Self, String> {
        let (mut fields, mut end, mut align) = (Vec::new(), 0_u64, 1);
        for field in text.split(';') {
            let (form, rest) = field.split_once('=').ok_or_else(|| format!("'{field}' is not a field: FORM=…"))?;
            let (offset, form) = match form.split_once(':') {
                Some((offset, form)) => {
                    let offset = offset.parse::<u32>().map_err(|_| format!("'{offset}' is not an offset in bytes"))?;
                    (Some(u64::from(offset)), form)
                }
                None => (None, form),
            };
            let spec = Spec::parse(&format!("{form}={rest}"))?;
            let (bytes, size) = match &spec {
                Spec::In(_) | Spec::Out { .. } | Spec::InOut { .. } => (8, 8),
                Spec::Scalar { bytes, .. } => (bytes.len() as u64, bytes.len() as u64),
                Spec::Bytes(bytes) => (bytes.len() as u64, 1),
                Spec::Tensor(_) | Spec::Struct(_) | Spec::Scratch(_) => {
                    return Err(format!("'{form}=' cannot be a field of a structure"));
                }
            };
            let start = offset.unwrap_or(end.next_multiple_of(size));
            if start < end {
                return Err(format!("the field at {start} begins before the one before it ends, at {end}"));
            }
            (end, align) = (start + bytes, align.max(size));
            fields.push((start, spec));
        }
        Ok(Self { fields, bytes: end.next_multiple_of(align) })
    }
}

impl Spec {
    /// Reads a form.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let forms = "in=PATH.npy, out=PATH.npy,DTYPE,SHAPE, inout=IN.npy,OUT.npy, i32=, u32=, i64=, u64=, f32=, f64=, \
                     bytes=HEX, tensormap=ARRAY;box=SHAPE or struct=FORM;FORM";
        let (form, value) = text.split_once('=').ok_or_else(|| format!("expected {forms}"))?;
        match form {
            "in" => Ok(Self::In(path(value)?)),
            "out" => out(value),
            "inout" => {
                let (from, to) = value.split_once(',').ok_or("expected inout=IN.npy,OUT.npy")?;
                if to.contains(',') {
                    return Err("expected inout=IN.npy,OUT.npy: two paths without commas in them".to_owned());
                }
                Ok(Self::InOut { from: path(from)?, to: path(to)? })
            }
            "bytes" => Ok(Self::Bytes(hex(value)?)),
            "tensormap" => Ok(Self::Tensor(Tensor::parse(value)?)),
            "struct" => Ok(Self::Struct(Struct::parse(value)?)),
            "i32" => integer(text, value, i32::to_le_bytes),
            "u32" => integer(text, value, u32::to_le_bytes),
            "i64" => integer(text, value, i64::to_le_bytes),
            "u64" => integer(text, value, u64::to_le_bytes),
            "f32" => float(text, value, f32::to_le_bytes),
            "f64" => float(text, value, f64::to_le_bytes),
            other => Err(format!("unknown form '{other}=': expected {forms}")),
        }
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path is missing".to_owned()) } else { Ok(text.into()) }
}

fn out(value: &str) -> Result<Spec, String> {
    // A shape is written 4x1024 or 4,1024; what stands before its numbers is the type.
    let parts: Vec<&str> = value.split(',').collect();
    let is_sizes = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let first = parts.iter().rposition(|part| !is_sizes(part)).unwrap_or(0);
    // A last part that is no number stands in the place of the shape, and is refused as one.
    let first = first.min(parts.len().saturating_sub(2));
    if first == 0 {
        return Err("expected out=PATH.npy,DTYPE,SHAPE such as out=y.npy,f32,4x1024".to_owned());
    }
    let (file, dtype, shape) = (parts[..first].join(","), parts[first], parts[first + 1..].join("x"));
    let sizes: Result<Vec<u64>, _> = shape.split('x').map(str::parse).collect();
    let shape = sizes.map_err(|_| format!("'{shape}' is not a shape: expected sizes such as 4x1024"))?;
    let dtype: Dtype = dtype.parse().map_err(|error: warpfold_kernels::Error| error.to_string())?;
    if npy::num_bytes(dtype, &shape).is_none() {
        return Err(format!("an array of {} {dtype} is larger than any address space", npy::shape_text(&shape)));
    }
    Ok(Spec::Out { path: path(&file)?, dtype, shape })
}

fn integer<T: Whole, const N: usize>(text: &str, value: &str, bytes: fn(T) -> [u8; N]) -> Result<Spec, String> {
    let number = T::read(value).ok_or_else(|| format!("'{value}' is not an integer of {} bits", 8 * N))?;
    Ok(Spec::Scalar { text: text.to_owned(), bytes: bytes(number).into(), is_float: false })
}

fn float<T: std::str::FromStr, const N: usize>(
    text: &str,
    value: &str,
    bytes: fn(T) -> [u8; N],
) -> Result<Spec, String> {
    let number = value.parse().map_err(|_| format!("'{value}' is not a number"))?;
    Ok(Spec::Scalar { text: text.to_owned(), bytes: bytes(number).into(), is_float: true })
}

/// Whole numbers, decimal or as `0x` and hexadecimal digits.
trait Whole: Sized {
    fn read(text: &str) -> Option<Self>;
}

macro_rules! whole {
    ($($number:ty),*) => {$(
        impl Whole for $number {
            fn read(text: &str) -> Option<Self> {
                match text.strip_prefix("0x") {
                    Some(digits) => Self::from_str_radix(digits, 16).ok(),
                    None => text.parse().ok(),
                }
            }
        }
    )*};
}

whole!(i32, u32, i64, u64);

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let values: Option<Vec<u32>> = digits.chars().map(|c| c.to_digit(16)).collect();
    let values = values.filter(|v| v.len().is_multiple_of(2) && !v.is_empty());
    let values =
        values.ok_or_else(|| format!("'{text}' is not pairs of hexadecimal digits, in the order of memory"))?;
    Ok(values.chunks(2).map(|pair| (16 * pair[0] + pair[1]) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn scalar(text: &str, expected: &[u8]) {
        match Spec::parse(text) {
            Ok(Spec::Scalar { bytes, .. } | Spec::Bytes(bytes)) => assert_eq!(bytes, expected),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn numbers_become_little_endian_bytes() {
        scalar("i32=-2", &[0xfe, 0xff, 0xff, 0xff]);
        scalar("u32=0x10", &[16, 0, 0, 0]);
        scalar("u64=1", &[1, 0, 0, 0, 0, 0, 0, 0]);
        scalar("i64=-1", &[0xff; 8]);
        scalar("f32=1", &1.0_f32.to_le_bytes());
        scalar("f64=-2.5e3", &(-2500.0_f64).to_le_bytes());
        scalar("bytes=01fF", &[1, 255]);
    }

    #[test]
    fn arrays_name_their_files() {
        assert_eq!(Spec::parse("in=a,b.npy"), Ok(Spec::In("a,b.npy".into())));
        let expected = Spec::Out { path: "a,b.npy".into(), dtype: Dtype::Bf16, shape: vec![4, 1024] };
        assert_eq!(Spec::parse("out=a,b.npy,bf16,4x1024"), Ok(expected.clone()));
        assert_eq!(Spec::parse("out=a,b.npy,bf16,4,1024"), Ok(expected));
        let expected = Spec::InOut { from: "a.npy".into(), to: "b.npy".into() };
        assert_eq!(Spec::parse("inout=a.npy,b.npy"), Ok(expected));
    }

    #[test]
    fn fields_of_a_structure_lie_at_multiples_of_their_size() {
        let Ok(Spec::Struct(all)) = Spec::parse("struct=i32=1;in=a.npy;out=b.npy,f32,4;bytes=01;40:u32=7") else {
            panic!("it is a structure")
        };
        assert_eq!(all.fields.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 8, 16, 24, 40]);
        assert_eq!(all.bytes, 48);
        assert_eq!(all.fields[1].1, Spec::In("a.npy".into()));
    }

    #[track_caller]
    fn refused(text: &str, reason: &str) {
        let error = Spec::parse(text).expect_err(text);
        assert!(error.contains(reason), "{text}: {error}");
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        refused("x.npy", "expected in=PATH.npy");
        refused("i8=1", "unknown form 'i8='");
        refused("in=", "a path is missing");
        refused("out=y.npy", "expected out=PATH.npy,DTYPE,SHAPE");
        refused("out=y.npy,f12,4", "unknown element type 'f12'");
        refused("out=y.npy,f32,4x", "'4x' is not a shape");
        refused("out=y.npy,f32,-4", "'-4' is not a shape");
        refused("out=y.npy,f64,4294967296x4294967296", "larger than any address space");
        refused("inout=a.npy", "expected inout=IN.npy,OUT.npy");
        refused("inout=a.npy,b.npy,c.npy", "without commas");
        refused("struct=", "'' is not a field");
        refused("struct=struct=i32=1", "'struct=' cannot be a field");
        refused("struct=i64=1;4:i32=1", "the field at 4 begins before");
        refused("struct=x:i32=1", "'x' is not an offset");
        refused("u32=-1", "'-1' is not an integer of 32 bits");
        refused("i32=4294967295", "is not an integer of 32 bits");
        refused("f32=one", "'one' is not a number");
        for text in ["bytes=", "bytes=123", "bytes=zz", "bytes=+1"] {
            refused(text, "pairs of hexadecimal digits");
        }
    }
}
