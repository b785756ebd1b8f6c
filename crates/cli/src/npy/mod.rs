//! Arrays in NumPy's `.npy` files (NumPy documentation, "NEP 1 — A simple file format for NumPy
//! arrays"), as bytes: in C order and little-endian, whichever way the file has them. What the
//! bytes mean is for the kernel to know.

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

/// Reads an array; `meant` is the type that its elements are to be taken for, if that is known
/// apart from the file.
pub(crate) fn read(path: &Path, meant: Option<Dtype>) -> Result<Array, Failure> {
    let file =
        std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    parse(&file, meant).map_err(|reason| Failure::usage(format!("{}: {reason}", path.display())))
}

/// Writes an array.
pub(crate) fn write(path: &Path, array: &Array) -> Result<(), Failure> {
    let mut file = header::text(array.dtype, &array.shape);
    file.extend_from_slice(&array.data);
    std::fs::write(path, file).map_err(|error| Failure::run(format!("cannot write {}: {error}", path.display())))
}

fn parse(file: &[u8], meant: Option<Dtype>) -> Result<Array, String> {
    let (header, data) = header::split(file)?;
    let text = &header.type_string;
    // Single bytes without a type: so the package `ml_dtypes` leaves floats of eight bits.
    let unnamed = || meant.filter(|dtype| dtype.bytes() == 1 && text.ends_with("V1")).map(|_| Dtype::U8);
    let dtype = dtype::of_type_string(text).or_else(unnamed).ok_or_else(|| {
        format!("its elements have type '{text}', expected bool, or integers or floats of 8 to 64 bits")
    })?;
    let expected = num_bytes(dtype, &header.shape);
    if expected != Some(data.len() as u64) {
        let shape = shape_text(&header.shape);
        return Err(format!("{} bytes of data do not make an array of {shape} {dtype}", data.len()));
    }
    let bytes = dtype.bytes() as usize;
    let mut data = if header.fortran_order { in_c_order(data, bytes, &header.shape) } else { data.to_vec() };
    if dtype::is_big_endian(text) {
        data.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
    }
    Ok(Array { dtype, shape: header.shape, data })
}

/// Elements that lie with the neighbours of the first dimension side by side, the other way round.
fn in_c_order(data: &[u8], bytes: usize, shape: &[u64]) -> Vec<u8> {
    let next = |stride: &mut usize, size: &u64| Some(std::mem::replace(stride, *stride * *size as usize));
    let strides = shape.iter().scan(bytes, next);
    let places = shape.iter().zip(strides).fold(vec![0], |places, (size, stride)| {
        places.iter().flat_map(|place| (0..*size as usize).map(move |i| place + i * stride)).collect()
    });
    places.iter().flat_map(|place| &data[*place..][..bytes]).copied().collect()
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
        assert_eq!(parse(&file(1, header, &data), None), Ok(expected.clone()));
        assert_eq!(parse(&file(3, header, &data), None), Ok(expected));
    }

    #[test]
    fn other_orders_of_elements_and_bytes_are_turned_round() {
        let data: Vec<u8> = (0..24).collect();
        let of = |descr: &str, fortran: &str, shape: &str| {
            let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}}}");
            parse(&file(1, &header, &data), None).expect("an array").data
        };
        assert_eq!(of("|u1", "True", "(2, 3, 4)")[..6], [0, 6, 12, 18, 2, 8]);
        assert_eq!(of("<i2", "True", "(3, 4)")[..8], [0, 1, 6, 7, 12, 13, 18, 19]);
        assert_eq!(of(">f4", "False", "(6,)")[..8], [3, 2, 1, 0, 7, 6, 5, 4]);
        assert_eq!(of(">i2", "True", "(3, 4)")[..8], [1, 0, 7, 6, 13, 12, 19, 18]);
        assert_eq!(of("<i2", "True", "(12,)"), data, "one dimension has one order");
        assert_eq!(of(">i1", "False", "(24,)"), data, "single bytes have none");
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
                assert_eq!(parse(&file, None), Ok(array));
            }
        }
    }

    #[track_caller]
    fn refused(file: &[u8], reason: &str) {
        assert_eq!(parse(file, None), Err(reason.to_owned()));
    }

    #[test]
    fn a_header_may_be_longer_than_two_bytes_can_count() {
        let shape = vec![1; 40_000];
        let mut file = header::text(Dtype::U8, &shape);
        assert_eq!((file[6], file.len() % 64), (2, 0));
        file.push(7);
        assert_eq!(parse(&file, None), Ok(Array { dtype: Dtype::U8, shape, data: vec![7] }));
    }

    #[test]
    fn damaged_files_are_refused_or_read_and_never_panic() {
        let whole = file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", &[0; 24]);
        for end in 0..whole.len() {
            assert!(parse(&whole[..end], None).is_err(), "cut off after {end} bytes");
        }
        for position in 0..whole.len() {
            for byte in [0, b'\'', b'(', b')', b'{', b',', b'9', 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[position] = byte;
                if let Ok(array) = parse(&damaged, None) {
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
            &of("'>c8'", "False", "(3,)"),
            "its elements have type '>c8', expected bool, or integers or floats of 8 to 64 bits",
        );
        let bytes = of("'<V1'", "False", "(24,)");
        refused(&bytes, "its elements have type '<V1', expected bool, or integers or floats of 8 to 64 bits");
        assert_eq!(parse(&bytes, Some(Dtype::F8E4M3)).map(|array| array.dtype), Ok(Dtype::U8));
        assert!(parse(&bytes, Some(Dtype::F16)).is_err(), "no byte is an f16");
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
