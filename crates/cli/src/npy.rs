//! Arrays in NumPy's files, with the program's errors; the library reads and writes them.

use std::path::Path;

use warpfold::Dtype;
use warpfold::npy::parse;
pub(crate) use warpfold::npy::{Array, num_bytes, shape_text};

use crate::failure::Failure;
use crate::host;

/// Reads an array; `meant` is the type that its elements are to be taken for, if that is known
/// apart from the file.
pub(crate) fn read(path: &Path, meant: Option<Dtype>) -> Result<Array, Failure> {
    let file = host::read(path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    parse(&file, meant).map_err(|reason| {
        let hint = if file.starts_with(b"PK") { "; it is an archive (.npz?): unpack it first" } else { "" };
        Failure::usage(format!("{}: {reason}{hint}", path.display()))
    })
}

/// Writes an array.
pub(crate) fn write(path: &Path, array: &Array) -> Result<(), Failure> {
    host::write(path, array.to_npy()).map_err(|error| Failure::run(format!("cannot write {}: {error}", path.display())))
}
