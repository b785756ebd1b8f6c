//! Arrays in NumPy's `.npy` files (NumPy documentation, "NEP 1 — A simple file format for NumPy
//! arrays") and archives of them (`.npz`), as bytes: in C order and little-endian, whichever way
//! the file has them.

mod header;

mod types;
mod zip;

use std::collections::BTreeMap;
use std::path::Path;

use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::{Queue, Tensor};

/// An array: its elements as bytes, in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// The element type.
    pub dtype: Dtype,
    /// Its sizes, outermost first; empty for a single element.
    pub shape: Vec<u64>,
    /// The elements, little-endian.
    pub data: Vec<u8>,
}

/// Bytes of an array; `None` if no address space holds it.
#[must_use]
pub fn num_bytes(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    // A zero makes the product zero whatever else it has.
    if shape.contains(&0) {
        return Some(0);
    }
    let bytes = shape.iter().try_fold(dtype.bytes(), |product, &n| product.checked_mul(n))?;
    i64::try_from(bytes).ok().map(|_| bytes)
}

/// `4x1024`; `scalar` for no dimension.
#[must_use]
pub fn shape_text(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".to_owned();
    }
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// The arrays of an `.npz` file by their names, without the ending `.npy`.
///
/// # Errors
/// In a sentence, what is wrong with the file.
pub fn parse_npz(file: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    let entry = |(name, data): (String, Vec<u8>)| match parse(&data, None) {
        Ok(array) => Ok((name.strip_suffix(".npy").map(str::to_owned).unwrap_or(name), array)),
        Err(reason) => Err(format!("{name}: {reason}")),
    };
    zip::entries(file)?.into_iter().map(entry).collect()
}

/// An `.npz` file of arrays, as `numpy.savez` writes it: without compression.
///
/// # Errors
/// For more than the 4 GiB that such a file holds.
pub fn npz_of<'a>(arrays: impl IntoIterator<Item = (&'a str, &'a Array)>) -> Result<Vec<u8>, String> {
    zip::file(arrays.into_iter().map(|(name, array)| (format!("{name}.npy"), array.to_npy())))
}

impl Array {
    /// Serialises the tensor as a `.npy` file.
    #[must_use]
    pub fn to_npy(&self) -> Vec<u8> {
        let mut file = header::text(self.dtype, &self.shape);
        file.extend_from_slice(&self.data);
        file
    }
}

/// Files.
impl Tensor {
    /// The array of a `.npy` file.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let path = std::env::temp_dir().join("warpfold_doc.npy");
    /// Tensor::new(&[[1_i32, 2], [3, 4]], &device)?.t()?.write_npy(&path)?;
    /// assert_eq!(Tensor::read_npy(&path, &device)?.to_vec2::<i32>()?, [[1, 3], [2, 4]]);
    /// # std::fs::remove_file(path).ok();
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with the path and what is wrong with it; what the device says.
    pub fn read_npy(path: impl AsRef<Path>, at: impl Into<Queue>) -> Result<Self, Error> {
        let path = path.as_ref();
        let array = parse(&read("read_npy", path)?, None);
        Self::of_array(&at.into(), &array.map_err(|reason| refuse("read_npy", path, &reason))?)
    }

    /// Writes the tensor as a `.npy` file.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with the path and what the system says; what the device says.
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write("write_npy", path.as_ref(), &self.to_array()?.to_npy())
    }

    /// The arrays of an `.npz` file, compressed or not, by their names.
    ///
    /// # Errors
    /// Those of [`Tensor::read_npy`].
    pub fn read_npz(path: impl AsRef<Path>, at: impl Into<Queue>) -> Result<BTreeMap<String, Self>, Error> {
        let (path, queue) = (path.as_ref(), at.into());
        let arrays = parse_npz(&read("read_npz", path)?).map_err(|reason| refuse("read_npz", path, &reason))?;
        arrays.into_iter().map(|(name, array)| Ok((name, Self::of_array(&queue, &array)?))).collect()
    }

    /// Writes tensors with their names as an `.npz` file, without compression.
    ///
    /// # Errors
    /// Those of [`Tensor::write_npy`].
    pub fn write_npz<'a>(
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = (&'a str, &'a Self)>,
    ) -> Result<(), Error> {
        let arrays = tensors.into_iter().map(|(name, tensor)| Ok((name, tensor.to_array()?)));
        let arrays = arrays.collect::<Result<Vec<_>, Error>>()?;
        let file = npz_of(arrays.iter().map(|(name, array)| (*name, array)));
        write("write_npz", path.as_ref(), &file.map_err(|reason| refuse("write_npz", path.as_ref(), &reason))?)
    }

    fn of_array(queue: &Queue, array: &Array) -> Result<Self, Error> {
        let shape: Vec<usize> = array.shape.iter().map(|size| *size as usize).collect();
        Self::from_bytes(queue, array.dtype, &array.data, &shape)
    }

    fn to_array(&self) -> Result<Array, Error> {
        let shape = self.shape().iter().map(|size| *size as u64).collect();
        Ok(Array { dtype: self.dtype(), shape, data: self.to_bytes()? })
    }
}

fn refuse(operator: &'static str, path: &Path, reason: &str) -> Error {
    ErrorKind::Operand { operator, reason: format!("{}: {reason}", path.display()) }.into()
}

fn read(operator: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| refuse(operator, path, &error.to_string()))
}

fn write(operator: &'static str, path: &Path, file: &[u8]) -> Result<(), Error> {
    std::fs::write(path, file).map_err(|error| refuse(operator, path, &error.to_string()))
}

/// The array of a `.npy` file; `meant` is the type that its elements are to be taken for, if that
/// is known apart from the file.
///
/// # Errors
/// In a sentence, what is wrong with the file.
pub fn parse(file: &[u8], meant: Option<Dtype>) -> Result<Array, String> {
    let (header, data) = header::split(file)?;
    let text = &header.type_string;
    // Single bytes without a type: so the package `ml_dtypes` leaves floats of eight bits.
    let unnamed = || meant.filter(|dtype| dtype.bytes() == 1 && text.ends_with("V1")).map(|_| Dtype::U8);
    let dtype = types::of_type_string(text).or_else(unnamed).ok_or_else(|| {
        format!("its elements have type '{text}', expected bool, or integers or floats of 8 to 64 bits")
    })?;
    let expected = num_bytes(dtype, &header.shape);
    if expected != Some(data.len() as u64) {
        let shape = shape_text(&header.shape);
        return Err(format!("{} bytes of data do not make an array of {shape} {dtype}", data.len()));
    }
    let bytes = dtype.bytes() as usize;
    let mut data = if header.fortran_order { in_c_order(data, bytes, &header.shape) } else { data.to_vec() };
    if types::is_big_endian(text) {
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
