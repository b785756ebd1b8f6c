//! Arrays as `.npy` files (NumPy documentation, "NEP 1 — A simple file format for NumPy arrays"),
//! in C order.

use std::fs;
use std::path::Path;

use super::array::Array;
use super::dtype::Dtype;

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// The bytes of a file with this array.
#[must_use]
pub fn encode(array: &Array) -> Vec<u8> {
    let sizes: String = array.shape.iter().map(|n| format!("{n}, ")).collect();
    // A tuple of one keeps its comma, one of more has none at its end.
    let sizes = if array.shape.len() == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let descr = array.dtype.type_string();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    while !(MAGIC.len() + 2 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend(u16::try_from(header.len()).expect("a short header").to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(array.bytes());
    file
}

/// Writes an array.
///
/// # Panics
///
/// If the file cannot be written: a test has no use for that error.
pub fn write(path: &Path, array: &Array) {
    fs::write(path, encode(array)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Reads an array; bytes are taken for `bytes_as`, as one-byte floats have no name of their own in
/// a file.
///
/// # Errors
///
/// What is wrong with the file, in words.
pub fn read(path: &Path, bytes_as: Dtype) -> Result<Array, String> {
    let file = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    decode(&file, bytes_as).map_err(|reason| format!("{}: {reason}", path.display()))
}

/// Like [`read`], from the file's bytes.
///
/// # Errors
///
/// What is wrong with the bytes, in words.
pub fn decode(file: &[u8], bytes_as: Dtype) -> Result<Array, String> {
    let rest = file.strip_prefix(MAGIC).ok_or("not a .npy file of version 1.0")?;
    let [low, high, rest @ ..] = rest else { return Err("cut off".to_owned()) };
    let len = usize::from(u16::from_le_bytes([*low, *high]));
    let (header, data) = rest.split_at_checked(len).ok_or("header cut off")?;
    let header = std::str::from_utf8(header).map_err(|error| error.to_string())?;
    if !(MAGIC.len() + 2 + len).is_multiple_of(64) || !header.ends_with('\n') {
        return Err(format!("a header of {len} bytes is not padded as NumPy pads it"));
    }
    let after = |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start()).ok_or(format!("no {key}"));
    let descr = after("'descr':")?.split('\'').nth(1).ok_or("no type string")?;
    if !after("'fortran_order':")?.starts_with("False") {
        return Err("Fortran order".to_owned());
    }
    let shape = after("'shape':")?.strip_prefix('(').and_then(|s| s.split_once(')')).ok_or("no shape")?.0;
    let sizes = shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(|s| s.parse().map_err(|_| s.to_owned()));
    let shape: Vec<usize> = sizes.collect::<Result<_, _>>()?;
    let dtype = Dtype::of_type_string(descr).ok_or_else(|| format!("unknown type string '{descr}'"))?;
    let dtype = if dtype == Dtype::U8 { bytes_as } else { dtype };
    let expected = shape.iter().product::<usize>() * dtype.bytes();
    if data.len() != expected {
        return Err(format!("{} bytes of data for {shape:?} {}, expected {expected}", data.len(), dtype.name()));
    }
    Ok(Array::of_bytes(dtype, &shape, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_numpy_writes() {
        let file = encode(&Array::ints(Dtype::I16, &[2], &[1, -2]));
        let header = "\u{1}\0v\0{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }";
        assert!(file[6..].starts_with(header.as_bytes()));
        assert_eq!((file.len(), &file[127..]), (132, [b'\n', 1, 0, 0xfe, 0xff].as_slice()));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for shape in [vec![], vec![0], vec![3], vec![2, 0, 5], vec![4, 1, 2]] {
            for dtype in Dtype::all() {
                let bytes: Vec<u8> = (0..shape.iter().product::<usize>() * dtype.bytes()).map(|i| i as u8).collect();
                let array = Array::of_bytes(dtype, &shape, &bytes);
                let again = decode(&encode(&array), dtype).expect("it was just written");
                assert_eq!((again.dtype, &again.shape, again.bytes()), (dtype, &shape, bytes));
            }
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let file = encode(&Array::ints(Dtype::I32, &[2, 2], &[1, 2, 3, 4]));
        for end in 0..file.len() {
            assert!(decode(&file[..end], Dtype::U8).is_err(), "cut off after {end} bytes");
        }
    }
}
