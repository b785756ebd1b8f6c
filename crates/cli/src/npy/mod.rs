//! Arrays in NumPy's `.npy` files (NumPy documentation, "NEP 1 — A simple file format for NumPy arrays"): C order,
//! little-endian, as bytes. What the bytes mean is for the kernel to know.

mod header;

use std::path::Path;

use warpfold_kernels::Dtype;

use crate::dtype;
use crate::failure::Failure;

/// An array: its elements as bytes, in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array {
    /// The element type.
    pub dtype: Dtype,
    /// Its sizes, outermost first; empty for a single element.
    pub shape: Vec<u64>,
    /// The elements.
    pub data: Vec<u8>,
}

/// Bytes of an array; `None` if no address space holds it.
pub(crate) fn num_bytes(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    // A zero makes the product zero whatever else it has.
    if shape.contains(&0) {
        return Some(0);
    }
    let bytes = shape.iter().try_fold(dtype.bytes(), |product, &n| product.checked_mul(n))?;
    i64::try_from(bytes).ok().map(|_| bytes)
}

/// `4x1024`; `scalar` for no dimension.
pub(crate) fn shape_text(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".to_owned();
    }
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// Reads an array.
pub(crate) fn read(path: &Path) -> Result<Array, Failure> {
    let file =
        std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    parse(&file).map_err(|reason| Failure::usage(format!("{}: {reason}", path.display())))
}

/// Writes an array.
pub(crate) fn write(path: &Path, array: &Array) -> Result<(), Failure> {
    let mut file = header::text(array.dtype, &array.shape);
    file.extend_from_slice(&array.data);
    std::fs::write(path, file).map_err(|error| Failure::run(format!("cannot write {}: {error}", path.display())))
}

fn parse(file: &[u8]) -> Result<Array, String> {
    let (header, data) = header::split(file)?;
    let dtype = dtype::of_type_string(&header.type_string).ok_or_else(|| {
        format!(
            "its elements have type '{}', expected bool, or little-endian integers or floats of 8 to 64 bits",
            header.type_string
        )
    })?;
    if header.fortran_order && header.shape.len() > 1 {
        return Err("it is in Fortran order, expected C order (numpy.ascontiguousarray makes it so)".to_owned());
    }
    let expected = num_bytes(dtype, &header.shape);
    if expected != Some(data.len() as u64) {
        let shape = shape_text(&header.shape);
        return Err(format!("{} bytes of data do not make an array of {shape} {dtype}", data.len()));
    }
    Ok(Array { dtype, shape: header.shape, data: data.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut file = b"\x93NUMPY".to_vec();
        file.extend([version, 0]);
        match version {
            1 => file.extend(u16::try_from(header.len()).expect("short").to_le_bytes()),
            _ => file.extend(u32::try_from(header.len()).expect("short").to_le_bytes()),
        }
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn an_array_is_read_as_numpy_writes_it() {
        let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }      \n";
        let data: Vec<u8> = (0..12).collect();
        let expected = Array { dtype: Dtype::I16, shape: vec![2, 3], data: data.clone() };
        assert_eq!(parse(&file(1, header, &data)), Ok(expected.clone()));
        assert_eq!(parse(&file(3, header, &data)), Ok(expected));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for shape in [vec![], vec![0], vec![3], vec![2, 0, 5], vec![4, 1, 2]] {
            for dtype in ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64"] {
                let dtype: Dtype = dtype.parse().expect("a type");
                let bytes = num_bytes(dtype, &shape).expect("small");
                let array = Array { dtype, shape: shape.clone(), data: (0..bytes).map(|i| i as u8).collect() };
                let mut file = header::text(dtype, &shape);
                assert!(file.len().is_multiple_of(64), "the data is aligned");
                file.extend(&array.data);
                assert_eq!(parse(&file), Ok(array));
            }
        }
    }

    #[track_caller]
    fn refused(file: &[u8], reason: &str) {
        assert_eq!(parse(file), Err(reason.to_owned()));
    }

    #[test]
    fn a_header_may_be_longer_than_two_bytes_can_count() {
        let shape = vec![1; 40_000];
        let mut file = header::text(Dtype::U8, &shape);
        assert_eq!((file[6], file.len() % 64), (2, 0));
        file.push(7);
        assert_eq!(parse(&file), Ok(Array { dtype: Dtype::U8, shape, data: vec![7] }));
    }

    #[test]
    fn damaged_files_are_refused_or_read_and_never_panic() {
        let whole = file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", &[0; 24]);
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err(), "cut off after {end} bytes");
        }
        for position in 0..whole.len() {
            for byte in [0, b'\'', b'(', b')', b'{', b',', b'9', 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[position] = byte;
                if let Ok(array) = parse(&damaged) {
                    assert_eq!(num_bytes(array.dtype, &array.shape), Some(array.data.len() as u64));
                }
            }
        }
    }

    #[test]
    fn what_is_no_array_of_ours_is_refused() {
        refused(b"", "it is not a .npy file");
        refused(b"\x93NUMPY\x01\x00\xff\xff{", "its header is cut off");
        refused(&file(9, "{}", b""), "it has .npy version 9, expected 1 to 3");
        let of = |descr: &str, fortran: &str, shape: &str| {
            file(1, &format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"), &[0; 24])
        };
        refused(
            &of("'>f4'", "False", "(6,)"),
            "its elements have type '>f4', expected bool, or little-endian integers or floats of 8 to 64 bits",
        );
        refused(
            &of("'<f4'", "True", "(2, 3)"),
            "it is in Fortran order, expected C order (numpy.ascontiguousarray makes it so)",
        );
        assert!(parse(&of("'<f4'", "True", "(6,)")).is_ok(), "one dimension has one order");
        refused(&of("'<f4'", "False", "(7,)"), "24 bytes of data do not make an array of 7 f32");
        refused(
            &of("'<f4'", "False", "(4294967296, 4294967296, 2)"),
            "24 bytes of data do not make an array of 4294967296x4294967296x2 f32",
        );
        refused(
            &of("[('a', '<f4')]", "False", "(6,)"),
            "its header is malformed: expected a string at `[('a', '<f4')]`",
        );
    }
}
