//! Arguments as a kernel takes them: arrays in device memory, parameter bytes, and what is saved
//! afterwards.

use std::path::{Path, PathBuf};

use warpfold_device::{Activity, ActivityKind, ApiCall, Recorded};
use warpfold_ptx::ScalarType;
use warpfold_report::OutputElements;
use warpfold_sim::{Finding, KernelInfo, Memory, ParamInfo, short_name};

use super::spec::Spec;
use warpfold_kernels::Dtype;

use crate::failure::Failure;
use crate::host;
use crate::npy::{self, Array};

/// The arguments of a launch.
#[derive(Debug)]
pub(super) struct Bindings {
    params: Vec<u8>,
    outputs: Vec<Output>,
    arrays: Vec<Placed>,
    /// Bytes of each array that was copied to the device.
    uploads: Vec<u64>,
    allocations: u64,
}

/// An array in memory, as findings name it.
#[derive(Debug)]
pub(super) struct Placed {
    /// Its name.
    pub(super) name: String,
    /// Bytes of an element.
    pub(super) element_bytes: u32,
    /// Its dimensions.
    pub(super) shape: Vec<u64>,
}

/// An array that is saved after the run.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    dtype: Dtype,
    shape: Vec<u64>,
    address: u64,
    bytes: u64,
}

impl Bindings {
    /// Reads inputs, places arrays in memory, and lays out the parameters; `text` is the PTX of the
    /// kernel.
    pub(super) fn make(memory: &Memory, kernel: &KernelInfo, text: &str, specs: &[Spec]) -> Result<Self, Failure> {
        check_count(kernel, specs)?;
        let types = scalar_types(text, &kernel.name);
        let mut this = Self {
            params: vec![0; kernel.param_bytes as usize],
            outputs: Vec::new(),
            arrays: Vec::new(),
            uploads: Vec::new(),
            allocations: 0,
        };
        for (i, (param, spec)) in kernel.params.iter().zip(specs).enumerate() {
            let ty = types.get(i).copied().flatten();
            check_type(i, param, ty, spec)?;
            let bytes = this.bytes_of(memory, spec)?;
            let start = param.offset as usize;
            this.params[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(this)
    }

    /// The parameter bytes.
    pub(super) fn params(&self) -> &[u8] {
        &self.params
    }

    /// The arrays in memory.
    pub(super) fn arrays(&self) -> &[Placed] {
        &self.arrays
    }

    /// Saves the outputs, and says what was saved.
    pub(super) fn save(&self, memory: &Memory) -> Result<Vec<String>, Failure> {
        self.outputs.iter().map(|output| output.save(memory)).collect()
    }

    /// An element of an output: the array's name, the element's linear index, and its address.
    pub(super) fn element(&self, array: &str, index: &[u64]) -> Result<(String, u64, u64), Failure> {
        let is_it =
            |output: &&Output| name(&output.path) == array || output.path.file_stem().is_some_and(|s| s == array);
        let output = self.outputs.iter().find(is_it).ok_or_else(|| {
            let names: Vec<String> = self.outputs.iter().map(|output| name(&output.path)).collect();
            Failure::usage(format!("--step: no output is called {array}; outputs: {}", names.join(", ")))
        })?;
        let outside =
            || Failure::usage(format!("--step: {array} of {} has no such element", npy::shape_text(&output.shape)));
        let linear = match index {
            [at] => *at,
            _ if index.len() != output.shape.len() => return Err(outside()),
            _ => {
                let mut linear = 0;
                for (at, size) in index.iter().zip(&output.shape) {
                    if at >= size {
                        return Err(outside());
                    }
                    linear = linear * size + at;
                }
                linear
            }
        };
        let bytes = output.dtype.bytes();
        if linear >= output.bytes / bytes {
            return Err(outside());
        }
        Ok((name(&output.path), linear, output.address + linear * bytes))
    }

    /// So many elements of each output, around the wanted one where it is one of its.
    pub(super) fn seen(&self, most: u64, wanted: Option<&(String, u64)>) -> Vec<SeenOutput> {
        let of = |output: &Output| {
            let element_bytes = output.dtype.bytes();
            let num = output.bytes / element_bytes;
            let wanted = wanted.filter(|(array, _)| *array == name(&output.path)).map_or(0, |(_, at)| *at);
            let first = wanted.saturating_sub(most / 2).min(num.saturating_sub(most));
            SeenOutput {
                name: name(&output.path),
                dtype: output.dtype,
                shape: output.shape.clone(),
                first,
                len: num.min(most),
                address: output.address + first * element_bytes,
                element_bytes,
            }
        };
        self.outputs.iter().map(of).collect()
    }

    /// Returns the findings of copying the outputs to the host.
    pub(super) fn unwritten(&self, memory: &Memory) -> Result<Vec<Finding>, Failure> {
        let findings = self.outputs.iter().filter(|output| output.bytes > 0);
        let findings = findings.map(|output| memory.host_read(output.address, output.bytes).map_err(Failure::from));
        findings.filter_map(Result::transpose).collect()
    }

    /// Records the device's work for one launch of the kernel: the uploads, the launch, the
    /// downloads.
    pub(super) fn traffic(&self, kernel: &str) -> Recorded {
        let activity = |kind, calls: usize, bytes| Activity { kind, calls: calls as u64, bytes, time: None };
        let (to, from) = (self.uploads.iter().sum(), self.outputs.iter().map(|output| output.bytes).sum());
        let activities = vec![
            activity(ActivityKind::Kernel(kernel.to_owned()), 1, 0),
            activity(ActivityKind::HostToDevice, self.uploads.len(), to),
            activity(ActivityKind::DeviceToHost, self.outputs.len(), from),
        ];
        let calls = [
            ("cuLaunchKernelEx", 1),
            ("cuMemAlloc", self.allocations),
            ("cuMemcpyDtoHAsync", self.outputs.len() as u64),
            ("cuMemcpyHtoDAsync", self.uploads.len() as u64),
            ("cuLibraryLoadData", 1),
        ];
        Recorded {
            activities: activities.into_iter().filter(|activity| activity.calls > 0).collect(),
            calls: calls
                .into_iter()
                .filter(|(_, calls)| *calls > 0)
                .map(|(name, calls)| ApiCall { name, calls, time: None })
                .collect(),
            timeline: Vec::new(),
        }
    }

    fn bytes_of(&mut self, memory: &Memory, spec: &Spec) -> Result<Vec<u8>, Failure> {
        match spec {
            Spec::Scalar { bytes, .. } | Spec::Bytes(bytes) => Ok(bytes.clone()),
            Spec::Scratch(0) => Ok(vec![0; 8]),
            Spec::Scratch(bytes) => Ok(memory.allocate(*bytes, "scratch")?.to_le_bytes().into()),
            Spec::Tensor(tensor) => {
                let (address, dtype, shape) = self.place(memory, &tensor.array)?;
                Ok(tensor.encode(address, dtype, &shape).map_err(Failure::usage)?.into())
            }
            Spec::Struct(all) => {
                let mut bytes = vec![0; usize::try_from(all.bytes).expect("offsets have 32 bits")];
                for (start, field) in &all.fields {
                    let field = self.bytes_of(memory, field)?;
                    let start = usize::try_from(*start).expect("offsets have 32 bits");
                    bytes[start..start + field.len()].copy_from_slice(&field);
                }
                Ok(bytes)
            }
            Spec::In(_) | Spec::Out { .. } | Spec::InOut { .. } => Ok(self.place(memory, spec)?.0.to_le_bytes().into()),
        }
    }

    /// Places an array in memory: its address, its type and its shape.
    fn place(&mut self, memory: &Memory, spec: &Spec) -> Result<(u64, Dtype, Vec<u64>), Failure> {
        self.allocations += 1;
        match spec {
            Spec::In(path) => {
                let array = npy::read(path, None)?;
                self.uploads.push(array.data.len() as u64);
                self.known(path, array.dtype, &array.shape);
                let address = upload(memory, path, &array)?;
                memory.protect(address)?;
                Ok((address, array.dtype, array.shape))
            }
            Spec::Out { path, dtype, shape } => {
                check_writable(path)?;
                let bytes = npy::num_bytes(*dtype, shape).expect("the argument's form was checked");
                let address = memory.allocate(bytes, &name(path))?;
                self.known(path, *dtype, shape);
                self.output(path, *dtype, shape, address);
                Ok((address, *dtype, shape.clone()))
            }
            Spec::InOut { from, to } => {
                check_writable(to)?;
                let array = npy::read(from, None)?;
                self.uploads.push(array.data.len() as u64);
                let address = upload(memory, from, &array)?;
                self.known(from, array.dtype, &array.shape);
                self.output(to, array.dtype, &array.shape, address);
                Ok((address, array.dtype, array.shape))
            }
            Spec::Scalar { .. } | Spec::Bytes(_) | Spec::Tensor(_) | Spec::Struct(_) | Spec::Scratch(_) => {
                unreachable!("not an array")
            }
        }
    }

    fn known(&mut self, path: &Path, dtype: Dtype, shape: &[u64]) {
        let element_bytes = u32::try_from(dtype.bytes()).expect("elements have few bytes");
        self.arrays.push(Placed { name: name(path), element_bytes, shape: shape.to_owned() });
    }

    fn output(&mut self, path: &Path, dtype: Dtype, shape: &[u64], address: u64) {
        let bytes = npy::num_bytes(dtype, shape).expect("it is in memory");
        self.outputs.push(Output { path: path.to_owned(), dtype, shape: shape.to_owned(), address, bytes });
    }
}

/// Elements of an output that a page shows.
#[derive(Debug)]
pub(super) struct SeenOutput {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    /// Linear index of the first element.
    first: u64,
    /// Number of elements.
    pub(super) len: u64,
    /// Address of the first element.
    pub(super) address: u64,
    /// Bytes of an element.
    pub(super) element_bytes: u64,
}

impl SeenOutput {
    /// Reads the elements after a run.
    pub(super) fn read(&self, memory: &Memory) -> Result<OutputElements, Failure> {
        let mut data = vec![0; usize::try_from(self.len * self.element_bytes).expect("few elements")];
        memory.read(self.address, &mut data)?;
        let bits = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Ok(OutputElements {
            name: self.name.clone(),
            dtype: self.dtype.name(),
            shape: self.shape.clone(),
            first: self.first,
            address: self.address,
            element_bytes: self.element_bytes,
            bits: data.chunks(usize::try_from(self.element_bytes).expect("few bytes")).map(bits).collect(),
        })
    }
}

impl Output {
    fn save(&self, memory: &Memory) -> Result<String, Failure> {
        let bytes = usize::try_from(self.bytes).expect("it is in memory");
        let mut data = vec![0; bytes];
        memory.read(self.address, &mut data)?;
        // What PTX writes is bits: a `bf16` goes to NumPy as the integer that holds it.
        let dtype = if self.dtype == Dtype::Bf16 { Dtype::U16 } else { self.dtype };
        npy::write(&self.path, &Array { dtype, shape: self.shape.clone(), data })?;
        let (path, shape, dtype) = (self.path.display(), npy::shape_text(&self.shape), self.dtype);
        Ok(format!("{path} ({shape} {dtype})"))
    }
}

fn upload(memory: &Memory, path: &Path, array: &Array) -> Result<u64, Failure> {
    let address = memory.allocate(array.data.len() as u64, &name(path))?;
    memory.write(address, &array.data)?;
    Ok(address)
}

/// Returns the name of a file's array in findings.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Says now what would be said after a long run.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !host::is_folder(folder) {
        return Err(Failure::usage(format!("cannot write {}: {} is not a folder", path.display(), folder.display())));
    }
    if host::is_folder(path) {
        return Err(Failure::usage(format!("cannot write {}: it is a folder", path.display())));
    }
    Ok(())
}

fn check_count(kernel: &KernelInfo, specs: &[Spec]) -> Result<(), Failure> {
    if kernel.params.len() == specs.len() {
        return Ok(());
    }
    let list: Vec<String> =
        kernel.params.iter().map(|p| format!("{}: {}", p.name, bytes_text(p.bytes.into()))).collect();
    let list = if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) };
    Err(Failure::usage(format!(
        "kernel {} has {} parameter{}{list}, but {} --arg {} given",
        short_name(&kernel.name),
        kernel.params.len(),
        if kernel.params.len() == 1 { "" } else { "s" },
        specs.len(),
        if specs.len() == 1 { "is" } else { "are" },
    )))
}

fn bytes_text(bytes: u64) -> String {
    format!("{bytes} byte{}", if bytes == 1 { "" } else { "s" })
}

fn check_type(index: usize, param: &ParamInfo, ty: Option<ScalarType>, spec: &Spec) -> Result<(), Failure> {
    let (what, bytes) = match spec {
        Spec::In(_) | Spec::Out { .. } | Spec::InOut { .. } => ("the address of an array".to_owned(), 8),
        Spec::Scalar { text, bytes, .. } => (text.clone(), bytes.len() as u64),
        Spec::Bytes(bytes) => ("bytes=".to_owned(), bytes.len() as u64),
        Spec::Tensor(_) => ("a tensor map".to_owned(), 128),
        Spec::Struct(all) => ("struct=".to_owned(), all.bytes),
        Spec::Scratch(_) => ("the address of scratch memory".to_owned(), 8),
    };
    let number = index + 1;
    if u64::from(param.bytes) != bytes {
        return Err(Failure::usage(format!(
            "parameter {number} ({}) takes {}, but {what} has {}",
            param.name,
            bytes_text(param.bytes.into()),
            bytes_text(bytes)
        )));
    }
    let is_float = ty.is_some_and(|ty| matches!(ty, ScalarType::F32 | ScalarType::F64));
    let is_integer = ty.is_some_and(is_integer);
    let fits = match spec {
        Spec::In(_) | Spec::Out { .. } | Spec::InOut { .. } => !is_float,
        Spec::Scalar { is_float: float, .. } => !(if *float { is_integer } else { is_float }),
        Spec::Bytes(_) | Spec::Tensor(_) | Spec::Struct(_) | Spec::Scratch(_) => true,
    };
    if fits {
        return Ok(());
    }
    let declared = ty.map(|ty| ty.to_string()).unwrap_or_default();
    Err(Failure::usage(format!(
        "parameter {number} ({}) is declared as {declared} of {}, but {what} is given",
        param.name,
        bytes_text(param.bytes.into()),
    )))
}

fn is_integer(ty: ScalarType) -> bool {
    use ScalarType as T;
    matches!(ty, T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64)
}

/// The types of the parameters that are single elements.
fn scalar_types(text: &str, kernel: &str) -> Vec<Option<ScalarType>> {
    let Ok(module) = warpfold_ptx::parse(text) else { return Vec::new() };
    let Some(function) = module.function(kernel) else { return Vec::new() };
    function.params.iter().map(|p| (p.dims.is_empty() && p.vector == 1).then_some(p.ty)).collect()
}
