//! Tensors with names in safetensors files: a JSON header of types, shapes and offsets, then bytes.
//!
//! [`load`] reads each tensor's bytes from the file and hands them to the device; [`load_buffer`]
//! takes them from where they lie in memory. `header` reads the JSON. Deliberately absent: memory
//! maps, which would need `unsafe` and fault where another process truncates a file; shards, whose
//! index `warpfold-models` reads.

mod header;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use warpfold_kernels::{Dtype, Error, ErrorKind};

use self::header::Entry;
use crate::{Queue, Tensor};

// THRESHOLD: longer headers are refused; tested by
// crates/warpfold/tests/all/guesses_fourth.rs::headers_are_read_up_to_the_bound_of_the_format
/// The longest header that is read: the format's own bound.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The tensors of a file, by their names.
///
/// ```
/// use warpfold::{Device, Profile, Tensor, safetensors};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let path = std::env::temp_dir().join("warpfold_doc.safetensors");
/// let weight = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
/// safetensors::save([("weight", &weight), ("bias", &weight.i(0)?)], &path)?;
/// let tensors = safetensors::load(&path, &device)?;
/// assert_eq!(tensors["weight"].to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(tensors["bias"].dims(), [2]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Operand`] with the path and what is wrong with it; what the device says.
pub fn load(path: impl AsRef<Path>, at: impl Into<Queue>) -> Result<BTreeMap<String, Tensor>, Error> {
    let (path, queue) = (path.as_ref(), at.into());
    let refused = |reason: String| refused(&format!("{}: {reason}", path.display()));
    let mut file = File::open(path).map_err(|e| refused(e.to_string()))?;
    let len = file.metadata().map_err(|e| refused(e.to_string()))?.len();
    let (start, entries) = entries(&mut file, len).map_err(refused)?;
    let mut bytes = Vec::new();
    let mut tensor = |entry: &Entry| {
        let [first, end] = entry.data_offsets;
        bytes.resize((end - first) as usize, 0);
        let read = file.seek(SeekFrom::Start(start + first)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(|e| refused(format!("'{}': {e}", entry.name)))?;
        Tensor::from_bytes(&queue, entry.dtype, &bytes, &entry.shape)
    };
    entries.iter().map(|entry| Ok((entry.name.clone(), tensor(entry)?))).collect()
}

/// The tensors of a file that is in memory already, by their names: its bytes go to the device from
/// where they lie.
///
/// # Errors
/// Those of [`load`].
pub fn load_buffer(file: &[u8], at: impl Into<Queue>) -> Result<BTreeMap<String, Tensor>, Error> {
    let queue = at.into();
    let (start, entries) = entries(&mut &file[..], file.len() as u64).map_err(|reason| refused(&reason))?;
    let data = &file[start as usize..];
    let tensor = |entry: &Entry| {
        let [first, end] = entry.data_offsets.map(|offset| offset as usize);
        Tensor::from_bytes(&queue, entry.dtype, &data[first..end], &entry.shape)
    };
    entries.iter().map(|entry| Ok((entry.name.clone(), tensor(entry)?))).collect()
}

/// Writes tensors with their names: pairs, or a map of them.
///
/// # Errors
/// [`ErrorKind::Operand`] for a name that is there twice, and with what the system says; what the
/// device says.
pub fn save<N: AsRef<str>, T: Borrow<Tensor>>(
    tensors: impl IntoIterator<Item = (N, T)>,
    path: impl AsRef<Path>,
) -> Result<(), Error> {
    let path = path.as_ref();
    let failed = |e: io::Error| refused(&format!("{}: {e}", path.display()));
    let mut tensors: Vec<(N, T)> = tensors.into_iter().collect();
    // Wide elements first, so that each begins at a multiple of its size.
    tensors.sort_by(|(name, tensor), (other_name, other)| {
        let bytes = |tensor: &T| std::cmp::Reverse(tensor.borrow().dtype().bytes());
        (bytes(tensor), name.as_ref()).cmp(&(bytes(other), other_name.as_ref()))
    });
    let described: Vec<(&str, &Tensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_ref(), tensor.borrow())).collect();
    let mut names: Vec<&str> = described.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(refused(&format!("{}: '{}' is there twice", path.display(), pair[0])));
    }
    let header = header::text(&described);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(header.as_bytes()).map_err(failed)?;
    for (_, tensor) in described {
        file.write_all(&tensor.to_bytes()?).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

impl Tensor {
    /// Writes the tensor alone, with a name, as a safetensors file.
    ///
    /// # Errors
    /// Those of [`save`].
    pub fn save_safetensors(&self, name: impl AsRef<str>, path: impl AsRef<Path>) -> Result<(), Error> {
        save([(name, self)], path)
    }
}

/// Reads the offset of the data and the entries, each checked to lie within the data and to match
/// the length of its shape.
fn entries(file: &mut impl Read, len: u64) -> Result<(u64, Vec<Entry>), String> {
    let mut word = [0; 8];
    file.read_exact(&mut word).map_err(|_| format!("{len} bytes have no header"))?;
    let header_len = u64::from_le_bytes(word);
    if header_len > MAX_HEADER_BYTES.min(len.saturating_sub(8)) {
        return Err(format!("the header has {header_len} bytes, the file {len}"));
    }
    let mut text = vec![0; header_len as usize];
    file.read_exact(&mut text).map_err(|e| e.to_string())?;
    let entries = header::parse(&text)?;
    let data_len = len - 8 - header_len;
    for Entry { name, dtype, shape, data_offsets: [first, end] } in &entries {
        let bytes = shape.iter().try_fold(dtype.bytes(), |bytes, size| bytes.checked_mul(*size as u64));
        if end.checked_sub(*first).is_none_or(|found| Some(found) != bytes) || *end > data_len {
            return Err(format!("'{name}' of {shape:?} {dtype} is not bytes {first} to {end} of {data_len}"));
        }
    }
    Ok((8 + header_len, entries))
}

fn refused(reason: &str) -> Error {
    ErrorKind::Operand { operator: "safetensors", reason: reason.to_owned() }.into()
}

/// Returns the format's name of an element type.
fn type_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "BOOL",
        Dtype::U8 => "U8",
        Dtype::U16 => "U16",
        Dtype::U32 => "U32",
        Dtype::U64 => "U64",
        Dtype::I8 => "I8",
        Dtype::I16 => "I16",
        Dtype::I32 => "I32",
        Dtype::I64 => "I64",
        Dtype::F16 => "F16",
        Dtype::Bf16 => "BF16",
        Dtype::F8E4M3 => "F8_E4M3",
        Dtype::F8E5M2 => "F8_E5M2",
        Dtype::F32 => "F32",
        Dtype::F64 => "F64",
    }
}
