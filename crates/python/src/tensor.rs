//! Tensors: shapes, views, bytes in and out. Operators come by name.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warpfold::{Distribution, Dtype, Error, Queue};

use crate::device::Device;
use crate::errors::{of_tensors, raise};
use crate::wait::interruptible;

/// A tensor of a device.
#[pyclass(frozen, module = "warpfold._native")]
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) tensor: warpfold::Tensor,
    pub(crate) device: Py<Device>,
}

/// An element type by its name.
pub(crate) fn dtype(py: Python<'_>, name: &str) -> PyResult<Dtype> {
    name.parse().map_err(|error: Error| of_tensors(py, &error))
}

impl Tensor {
    /// A view of it, or what the view's errors say.
    fn view(
        &self,
        py: Python<'_>,
        view: impl FnOnce(&warpfold::Tensor) -> Result<warpfold::Tensor, Error>,
    ) -> PyResult<Self> {
        let tensor = view(&self.tensor).map_err(|error| of_tensors(py, &error))?;
        Ok(Self { tensor, device: self.device.clone_ref(py) })
    }

    /// Variant of [`Self::view`] for operations that may take long.
    fn run(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&warpfold::Tensor) -> Result<warpfold::Tensor, Error> + Send,
    ) -> PyResult<Self> {
        let interrupt = Arc::clone(&self.device.get().interrupt);
        let made = interruptible(py, &interrupt, || work(&self.tensor))?;
        Ok(Self { tensor: made.map_err(|error| of_tensors(py, &error))?, device: self.device.clone_ref(py) })
    }
}

#[pymethods]
impl Tensor {
    /// A tensor of bytes in C order.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        device: Py<Device>,
        dtype_name: &str,
        bytes: &Bound<'_, PyAny>,
        shape: Vec<usize>,
    ) -> PyResult<Self> {
        let (dtype, bytes) = (dtype(py, dtype_name)?, PyBuffer::<u8>::get(bytes)?.to_vec(py)?);
        let queue = Queue::of(&device.get().device);
        let made = py.detach(|| warpfold::Tensor::from_bytes(&queue, dtype, &bytes, &shape));
        Ok(Self { tensor: made.map_err(|error| of_tensors(py, &error))?, device })
    }

    /// A tensor of one number.
    #[staticmethod]
    fn full(py: Python<'_>, device: Py<Device>, dtype_name: &str, number: f64, shape: Vec<usize>) -> PyResult<Self> {
        let dtype = dtype(py, dtype_name)?;
        let queue = Queue::of(&device.get().device);
        let made = py.detach(|| warpfold::Tensor::filled(&queue, dtype, number, &shape));
        Ok(Self { tensor: made.map_err(|error| of_tensors(py, &error))?, device })
    }

    /// Random numbers: 'uniform' from `a` up to `b`, 'normal' of mean `a` and deviation `b`, or
    /// 'integers' from `a` up to `b`.
    #[staticmethod]
    fn random(
        py: Python<'_>,
        device: Py<Device>,
        distribution: &str,
        a: f64,
        b: f64,
        dtype_name: &str,
        shape: Vec<usize>,
    ) -> PyResult<Self> {
        let distribution = match distribution {
            "uniform" => Distribution::Uniform { low: a, high: b },
            "normal" => Distribution::Normal { mean: a, std: b },
            _ => Distribution::Integers { low: a as i64, high: b as i64 },
        };
        let (dtype, queue) = (dtype(py, dtype_name)?, Queue::of(&device.get().device));
        let interrupt = Arc::clone(&device.get().interrupt);
        let made = interruptible(py, &interrupt, || warpfold::Tensor::random(distribution, dtype, shape, &queue))?;
        Ok(Self { tensor: made.map_err(|error| of_tensors(py, &error))?, device })
    }

    /// The tensors one after the other along an axis.
    #[staticmethod]
    fn cat(py: Python<'_>, tensors: Vec<Py<Self>>, axis: isize) -> PyResult<Self> {
        let Some(first) = tensors.first() else {
            return Err(raise(py, "ArgumentError", "cat takes tensors; none is given"));
        };
        let device = first.get().device.clone_ref(py);
        let interrupt = Arc::clone(&device.get().interrupt);
        let parts: Vec<_> = tensors.iter().map(|tensor| tensor.get().tensor.clone()).collect();
        let made = interruptible(py, &interrupt, || warpfold::Tensor::cat(&parts, axis))?;
        Ok(Self { tensor: made.map_err(|error| of_tensors(py, &error))?, device })
    }

    /// The element at the index that each index says along an axis.
    fn gather(&self, py: Python<'_>, indices: &Self, axis: isize) -> PyResult<Self> {
        self.run(py, |tensor| tensor.gather(&indices.tensor, axis))
    }

    /// The elements as bytes in C order.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let interrupt = Arc::clone(&self.device.get().interrupt);
        let bytes = interruptible(py, &interrupt, || self.tensor.to_bytes())?;
        Ok(PyBytes::new(py, &bytes.map_err(|error| of_tensors(py, &error))?))
    }

    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.tensor.shape().to_vec()
    }

    /// Strides in elements.
    #[getter]
    fn strides(&self) -> Vec<isize> {
        self.tensor.layout().strides().to_vec()
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype().name()
    }

    #[getter]
    fn is_contiguous(&self) -> bool {
        self.tensor.layout().is_contiguous()
    }

    /// The device address of the first element.
    #[getter]
    fn address(&self) -> u64 {
        self.tensor.address()
    }

    #[getter]
    fn device(&self, py: Python<'_>) -> Py<Device> {
        self.device.clone_ref(py)
    }

    fn permute(&self, py: Python<'_>, axes: Vec<isize>) -> PyResult<Self> {
        self.view(py, |tensor| tensor.permute(&axes))
    }

    fn slice(&self, py: Python<'_>, axis: isize, start: usize, end: usize) -> PyResult<Self> {
        self.view(py, |tensor| tensor.slice(axis, start..end))
    }

    fn flip(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        self.view(py, |tensor| tensor.flip(axis))
    }

    /// Another shape of the same memory; an error where strides cannot say it.
    fn view_as(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        self.view(py, |tensor| tensor.view(&shape))
    }

    /// Another shape: a view where strides can say it, else a copy.
    fn reshape(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        self.run(py, |tensor| tensor.reshape(&shape))
    }

    fn broadcast(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        self.view(py, |tensor| tensor.broadcast(&shape))
    }

    fn unsqueeze(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        self.view(py, |tensor| tensor.unsqueeze(axis))
    }

    fn contiguous(&self, py: Python<'_>) -> PyResult<Self> {
        self.run(py, warpfold::Tensor::contiguous)
    }
}
