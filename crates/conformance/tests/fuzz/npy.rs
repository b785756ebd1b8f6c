//! `.npy` and `.npz` files: an array or one sentence for any bytes, whatever sizes the header
//! claims.

use crate::mutate::{Luck, bytes};
use crate::{first_seed, rounds, without_panic};

/// Mutants of each file.
const MUTANTS: u64 = 3000;

/// A file of version 1 with this header.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len() + 1).expect("short");
    [b"\x93NUMPY\x01\x00".as_slice(), &length.to_le_bytes(), header.as_bytes(), b"\n", data].concat()
}

fn check(file: &[u8]) {
    let shown = String::from_utf8_lossy(file).into_owned();
    without_panic("the .npy reader", &shown, || {
        let _ = warpfold::npy::parse(file, None);
        let _ = warpfold::npy::parse_npz(file);
    });
}

#[test]
fn any_bytes_are_an_array_or_an_error() {
    let header = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let array = warpfold::npy::parse(&file(&header("(2, 3)"), &[0; 24]), None).expect("an array");
    let archive = warpfold::npy::npz_of([("a", &array), ("b", &array)]).expect("an archive");
    let huge =
        ["(18446744073709551615,)", "(4294967296, 4294967296, 4294967296)", "(1, 99999999999999999999999)", "(-1,)"];
    for shape in huge {
        check(&file(&header(shape), &[0; 24]));
        assert!(warpfold::npy::parse(&file(&header(shape), &[0; 24]), None).is_err(), "{shape}");
    }
    let seeds = [file(&header("(2, 3)"), &[0; 24]), file(&header("()"), &[0; 4]), archive];
    for (n, seed) in (0u64..).zip(&seeds) {
        for k in 0..MUTANTS * rounds() {
            check(&bytes(seed, &mut Luck::new(first_seed() ^ n << 40 ^ k)));
        }
    }
}
