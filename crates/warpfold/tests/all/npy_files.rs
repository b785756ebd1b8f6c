//! Files as NumPy writes them, damaged ones, and what is not ours.

use warpfold::Dtype;
use warpfold::npy::{Array, num_bytes, parse};

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
            let file = array.to_npy();
            assert!((file.len() - array.data.len()).is_multiple_of(64), "the data is aligned");
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
    let array = Array { dtype: Dtype::U8, shape: vec![1; 40_000], data: vec![7] };
    let file = array.to_npy();
    assert_eq!((file[6], file.len() % 64), (2, 1));
    assert_eq!(parse(&file, None), Ok(array));
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
    refused(&of("[('a', '<f4')]", "False", "(6,)"), "its header is malformed: expected a string at `[('a', '<f4')]`");
}
