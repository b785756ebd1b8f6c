//! safetensors: a JSON header of names, types, shapes and offsets, then bytes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Entry, Format, Storage, checked_len, read_small};
use crate::Error;
use crate::error;

// THRESHOLD: longer headers are refused; tested by
// crates/models/src/files/tests.rs::headers_are_read_up_to_the_bound_of_the_format
/// The longest header that is read; the format's own bound.
const MAX_HEADER_BYTES: u64 = 100_000_000;

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files of a folder: one, or those that an index names.
pub(super) fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let index = folder.join("model.safetensors.index.json");
    if !index.exists() {
        return Ok(vec![folder.join("model.safetensors")]);
    }
    let text = read_small(&index)?;
    let parsed: Index = serde_json::from_slice(&text).map_err(|e| error::file(&index, format!("not an index: {e}")))?;
    let names: std::collections::BTreeSet<_> = parsed.weight_map.into_values().collect();
    // A shard lies beside its index: a name must not lead out of the folder.
    if let Some(name) = names.iter().find(|name| Path::new(name).file_name() != Some(std::ffi::OsStr::new(name))) {
        return Err(error::file(&index, format!("{name:?} is not the name of a file beside it")));
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// The tensors of a file.
pub(super) fn entries(
    path: &Path,
    mut file: impl Read,
    len: u64,
    number: usize,
) -> Result<Vec<(String, Entry)>, Error> {
    let mut word = [0; 8];
    file.read_exact(&mut word).map_err(|_| error::file(path, format!("{len} bytes have no header")))?;
    let header_len = u64::from_le_bytes(word);
    if header_len > MAX_HEADER_BYTES.min(len - 8) {
        return Err(error::file(path, format!("the header has {header_len} bytes, the file {len}")));
    }
    let mut header = vec![0; header_len as usize];
    file.read_exact(&mut header).map_err(error::read(path))?;
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&header).map_err(|e| error::file(path, format!("the header is not JSON: {e}")))?;
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors
        .map(|(name, value)| {
            let tensor = Tensor::deserialize(value).map_err(|e| error::tensor(path, &name, e))?;
            let entry = entry(path, &name, &tensor, 8 + header_len, number)?;
            Ok((name, entry))
        })
        .collect()
}

fn entry(path: &Path, name: &str, tensor: &Tensor, data: u64, file: usize) -> Result<Entry, Error> {
    let format = match tensor.dtype.as_str() {
        "F32" => Format::F32,
        "F16" => Format::F16,
        "BF16" => Format::Bf16,
        "F8_E4M3" => Format::F8E4M3,
        "U8" | "F8_E8M0" => Format::U8,
        "I8" => Format::I8,
        "I32" | "U32" => Format::I32,
        "I64" => Format::I64,
        other => {
            let reason = format!("its type is {other}, not F32, F16, BF16, F8_E4M3, F8_E8M0, U8, I8, I32 or I64");
            return Err(error::tensor(path, name, reason));
        }
    };
    let [start, end] = tensor.data_offsets;
    let sizes = checked_len(&tensor.shape);
    let Some((shape, len)) = sizes else {
        return Err(error::tensor(path, name, format!("its shape {:?} is too large", tensor.shape)));
    };
    let bytes = (len * format.block_bytes()) as u64;
    if end.checked_sub(start) != Some(bytes) {
        let reason = format!("it lies in bytes {start} to {end}, but its shape {shape:?} takes {bytes}");
        return Err(error::tensor(path, name, reason));
    }
    let start = start.checked_add(data).ok_or_else(|| error::tensor(path, name, "it begins beyond the file"))?;
    Ok(Entry {
        file,
        stored_name: name.to_owned(),
        shape,
        format,
        start,
        storage: Storage::Plain,
        made_of: None,
        quantized: None,
    })
}
