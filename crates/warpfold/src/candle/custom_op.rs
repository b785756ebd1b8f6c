//! An operation as candle calls it.

use candle_core::{CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::{Op, cpu};

/// An operation on these operands.
struct Applied<const N: usize> {
    op: Op<N>,
    /// Keep the memory that the operation borrows, whatever the closure does with what it is given.
    #[cfg(feature = "candle-cuda")]
    operands: [Tensor; N],
}

impl<const N: usize> Applied<N> {
    fn new(op: &Op<N>, operands: [&Tensor; N]) -> Self {
        #[cfg(not(feature = "candle-cuda"))]
        let _ = operands;
        Self {
            op: op.clone(),
            #[cfg(feature = "candle-cuda")]
            operands: operands.map(Clone::clone),
        }
    }

    #[cfg(feature = "candle-cuda")]
    fn on_cuda(&self, storages: [(&CudaStorage, &Layout); N]) -> Result<(CudaStorage, Shape)> {
        super::cuda::forward(&self.op, &self.operands, storages)
    }

    #[cfg(not(feature = "candle-cuda"))]
    fn on_cuda(&self, _: [(&CudaStorage, &Layout); N]) -> Result<(CudaStorage, Shape)> {
        candle_core::bail!("{}: CUDA tensors need the feature `candle-cuda` of warpfold", self.op.name)
    }
}

impl Op<1> {
    /// Applies it.
    ///
    /// # Errors
    /// What the closure gives, and what candle says.
    pub fn apply(&self, [x]: [&Tensor; 1]) -> Result<Tensor> {
        x.apply_op1(Applied::new(self, [x]))
    }
}

impl Op<2> {
    /// Applies it.
    ///
    /// # Errors
    /// What the closure gives, and what candle says.
    pub fn apply(&self, [x, y]: [&Tensor; 2]) -> Result<Tensor> {
        x.apply_op2(y, Applied::new(self, [x, y]))
    }
}

impl Op<3> {
    /// Applies it.
    ///
    /// # Errors
    /// What the closure gives, and what candle says.
    pub fn apply(&self, [x, y, z]: [&Tensor; 3]) -> Result<Tensor> {
        x.apply_op3(y, z, Applied::new(self, [x, y, z]))
    }
}

impl CustomOp1 for Applied<1> {
    fn name(&self) -> &'static str {
        self.op.name
    }

    fn cpu_fwd(&self, x: &CpuStorage, x_layout: &Layout) -> Result<(CpuStorage, Shape)> {
        cpu::forward(&self.op, [(x, x_layout)])
    }

    fn cuda_fwd(&self, x: &CudaStorage, x_layout: &Layout) -> Result<(CudaStorage, Shape)> {
        self.on_cuda([(x, x_layout)])
    }

    fn bwd(&self, x: &Tensor, result: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.op.gradients([x], result, gradient).map(|[x]| x)
    }
}

impl CustomOp2 for Applied<2> {
    fn name(&self) -> &'static str {
        self.op.name
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        cpu::forward(&self.op, [(x, x_layout), (y, y_layout)])
    }

    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        y: &CudaStorage,
        y_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_cuda([(x, x_layout), (y, y_layout)])
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        result: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        self.op.gradients([x, y], result, gradient).map(|[x, y]| (x, y))
    }
}

impl CustomOp3 for Applied<3> {
    fn name(&self) -> &'static str {
        self.op.name
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
        z: &CpuStorage,
        z_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        cpu::forward(&self.op, [(x, x_layout), (y, y_layout), (z, z_layout)])
    }

    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        y: &CudaStorage,
        y_layout: &Layout,
        z: &CudaStorage,
        z_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_cuda([(x, x_layout), (y, y_layout), (z, z_layout)])
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        z: &Tensor,
        result: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        self.op.gradients([x, y, z], result, gradient).map(|[x, y, z]| (x, y, z))
    }
}
