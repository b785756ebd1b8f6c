//! A device under all checks, and reductions run on it.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::fold::{Choice, Fold};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{Family, TensorSpec};
use warpfold_kernels::reductions::{self, Options, Reduction};
use warpfold_kernels::{Dtype, Workspace};

use crate::reductions::host::{Value, decode, encode};

pub(crate) struct Bench {
    pub(crate) device: Device,
    workspace: Workspace,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(Profile::H200)
    }

    pub(crate) fn of(profile: Profile) -> Self {
        let device = Device::virtual_gpu(profile);
        device.configure(|options| options.checks = Checks::All).unwrap();
        Self { device, workspace: Workspace::new() }
    }

    /// Reduces tensors of one layout that begin `first` elements into memory; one list of results
    /// an output.
    pub(crate) fn reduce(
        &mut self,
        (reduction, options): (Reduction, Options),
        dtype: Dtype,
        inputs: &[&[Value]],
        (layout, first): (&Layout, usize),
        axes: &[usize],
    ) -> Vec<(Dtype, Vec<Value>)> {
        let fold = reductions::fold_of(reduction, &vec![dtype; inputs.len()], options).unwrap();
        self.fold(&fold, &vec![dtype; inputs.len()], inputs, (layout, first), axes).1
    }

    /// The same with a fold, and what was chosen.
    pub(crate) fn fold(
        &mut self,
        fold: &Fold,
        dtypes: &[Dtype],
        inputs: &[&[Value]],
        (layout, first): (&Layout, usize),
        axes: &[usize],
    ) -> (Choice, Vec<(Dtype, Vec<Value>)>) {
        let bytes = inputs.iter().zip(dtypes).map(|(values, dtype)| encode(*dtype, values));
        let buffers: Vec<_> = bytes.map(|bytes| self.device.upload(&bytes).unwrap()).collect();
        let views = buffers.iter().zip(dtypes);
        let views: Vec<_> = views.map(|(b, dtype)| b.view(first * dtype.bytes() as usize..).unwrap()).collect();
        let specs = views.iter().zip(dtypes).map(|(v, dtype)| TensorSpec::new(*dtype, layout.clone(), v.address()));
        let problem = fold.problem(specs.collect(), axes);
        let (choice, ready) = (fold.choose(&problem).unwrap(), fold.ready(&self.device, &problem).unwrap());
        let kept = layout.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        let results: usize = kept.map(|(_, size)| *size).product();
        let sizes = fold.outputs().iter().zip(fold.lens()).map(|(d, len)| results * d.bytes() as usize * *len as usize);
        let mut outputs: Vec<_> = sizes.map(|size| self.device.alloc::<u8>(size).unwrap()).collect();
        let mut written: Vec<_> = outputs.iter_mut().map(|output| output.as_view_mut()).collect();
        let (stream, views) = (self.device.default_stream(), views.into_iter().map(Some).collect::<Vec<_>>());
        ready.launch(&stream, &views, &mut written, &mut self.workspace).unwrap_or_else(|e| panic!("{e}: {choice:?}"));
        for report in self.device.take_reports() {
            assert!(report.report.findings.is_empty(), "{choice:?}: {:?}", report.report.findings);
        }
        let outputs = fold.outputs().iter().zip(&outputs);
        (choice, outputs.map(|(dtype, output)| (*dtype, decode(*dtype, &output.download().unwrap()))).collect())
    }
}

/// Elements repeated for a matrix whose columns (or rows) are all the same.
pub(crate) fn tiled(values: &[Value], copies: usize, across: bool) -> (Vec<Value>, Layout, usize) {
    let n = values.len();
    if across {
        let all = values.iter().flat_map(|value| std::iter::repeat_n(*value, copies)).collect();
        (all, Layout::contiguous(&[n, copies]).unwrap(), 0)
    } else {
        (values.repeat(copies), Layout::contiguous(&[copies, n]).unwrap(), 1)
    }
}
