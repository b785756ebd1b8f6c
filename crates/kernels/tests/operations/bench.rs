//! Tensors on the host in any arrangement of memory, run through a map under all checks.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::Dtype;
use warpfold_kernels::layout::Layout;
use warpfold_kernels::map::Map;
use warpfold_kernels::plan::{PlanCache, TensorSpec, Workspace};

use crate::operations::value::{Value, decode, encode};

/// How the elements of a tensor lie in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// Side by side, at a multiple of 256 bytes.
    Plain,
    /// Side by side, one element further on.
    Shifted,
    /// The first dimension fastest.
    Turned,
    /// From the last to the first.
    Reversed,
    /// With two elements left out behind each.
    Spread,
}

use Arrangement::{Plain, Reversed, Shifted, Spread, Turned};

impl Arrangement {
    /// Pairs of arrangements of inputs and output.
    pub(crate) const PAIRS: [(Self, Self); 7] = [
        (Plain, Plain),
        (Shifted, Plain),
        (Plain, Shifted),
        (Turned, Plain),
        (Plain, Turned),
        (Reversed, Plain),
        (Spread, Reversed),
    ];

    /// The layout, the position of the first element, and the length of the memory.
    fn place(self, shape: &[usize]) -> (Layout, usize, usize) {
        let (plain, len) = (Layout::contiguous(shape).unwrap(), shape.iter().product::<usize>());
        let scaled = |factor: isize| {
            let strides = plain.strides().iter().map(|stride| stride * factor).collect();
            Layout::new(shape.to_vec(), strides).unwrap()
        };
        match self {
            Plain => (plain, 0, len),
            Shifted => (plain, 1, len + 1),
            Turned => {
                let (mut strides, mut stride) = (Vec::new(), 1);
                for size in shape {
                    strides.push(stride);
                    stride *= (*size).max(1) as isize;
                }
                (Layout::new(shape.to_vec(), strides).unwrap(), 0, len)
            }
            Reversed => (scaled(-1), len.saturating_sub(1), len),
            Spread => (scaled(3), 0, 3 * len),
        }
    }
}

/// Elements in C order.
#[derive(Debug, Clone)]
pub(crate) struct Tensor {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<Value>,
}

impl Tensor {
    pub(crate) fn new(dtype: Dtype, shape: &[usize], values: Vec<Value>) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>(), "as many values as the shape has");
        Self { dtype, shape: shape.to_vec(), values }
    }

    /// The element that stands at the `i`-th position of a larger shape.
    pub(crate) fn repeated(&self, i: usize, shape: &[usize]) -> Value {
        let (mut rest, mut position, mut stride) = (i, 0, 1);
        let missing = shape.len() - self.shape.len();
        for (axis, size) in shape.iter().enumerate().rev() {
            let index = rest % size;
            rest /= size;
            if let Some(own) = axis.checked_sub(missing).map(|axis| self.shape[axis]) {
                position += if own == 1 { 0 } else { index * stride };
                stride *= own;
            }
        }
        self.values[position]
    }
}

/// Where each element lies, in C order.
fn places(layout: &Layout, first: usize) -> Vec<usize> {
    let mut all = vec![first as isize];
    for (size, stride) in layout.shape().iter().zip(layout.strides()) {
        all = all.iter().flat_map(|from| (0..*size as isize).map(move |i| from + i * stride)).collect();
    }
    all.into_iter().map(|place| place as usize).collect()
}

pub(crate) struct Bench {
    pub(crate) device: Device,
    plans: PlanCache,
}

impl Bench {
    /// The virtual GPU with all checks, or the device that the environment names.
    pub(crate) fn new() -> Self {
        if std::env::var_os("WARPFOLD_DEVICE").is_some() {
            let device = Device::from_env().expect("the device that WARPFOLD_DEVICE names is there");
            return Self { device, plans: PlanCache::default() };
        }
        Self::virtual_gpu()
    }

    pub(crate) fn virtual_gpu() -> Self {
        let device = Device::virtual_gpu(Profile::H200);
        device.configure(|options| options.checks = Checks::All).unwrap();
        Self { device, plans: PlanCache::default() }
    }

    /// Runs a map, looks at what it did not have to write, and gives the output's elements in C
    /// order.
    #[track_caller]
    pub(crate) fn run(
        &self,
        map: &Map,
        inputs: &[&Tensor],
        shape: &[usize],
        (from, to): (Arrangement, Arrangement),
    ) -> Vec<Value> {
        let placed: Vec<_> = inputs.iter().map(|input| from.place(&input.shape)).collect();
        let buffers: Vec<_> = inputs
            .iter()
            .zip(&placed)
            .map(|(input, (layout, first, len))| {
                let bytes = input.dtype.bytes() as usize;
                let mut memory = vec![0x5a; len * bytes];
                for (place, value) in places(layout, *first).into_iter().zip(&input.values) {
                    memory[place * bytes..][..bytes].copy_from_slice(&encode(input.dtype, *value));
                }
                self.device.upload(&memory).unwrap()
            })
            .collect();
        let dtype = map.outputs()[0];
        let bytes = dtype.bytes() as usize;
        let (layout, first, len) = to.place(shape);
        let mut output = self.device.upload(&vec![0xa5_u8; len * bytes]).unwrap();
        let views: Vec<_> = (buffers.iter().zip(inputs).zip(&placed))
            .map(|((buffer, input), (_, first, len))| {
                let first = first.min(len) * input.dtype.bytes() as usize;
                Some(buffer.view(first..).unwrap())
            })
            .collect();
        let written = output.view_mut(first.min(len) * bytes..).unwrap();
        let specs = views.iter().flatten().zip(inputs).zip(&placed);
        let specs =
            specs.map(|((view, input), (layout, ..))| TensorSpec::new(input.dtype, layout.clone(), view.address()));
        let result = TensorSpec::new(dtype, layout.clone(), written.address());
        let problem = map.problem(specs.collect(), vec![result]);
        let plan = problem.choose().unwrap();
        let ready = self.plans.get(&self.device, map, problem).unwrap();
        ready
            .launch(&self.device.default_stream(), &views, &mut [written], &mut Workspace::new())
            .unwrap_or_else(|e| panic!("{map:?} {plan:?}: {e}"));
        for report in self.device.take_reports() {
            assert!(report.report.findings.is_empty(), "{map:?} {plan:?}: {:?}", report.report.findings);
        }
        let memory = output.download().unwrap();
        let places = places(&layout, first);
        let mut untouched = vec![true; len];
        places.iter().for_each(|place| untouched[*place] = false);
        for (i, _) in untouched.iter().enumerate().filter(|(_, is)| **is) {
            assert!(memory[i * bytes..][..bytes].iter().all(|byte| *byte == 0xa5), "{map:?} {plan:?} wrote at {i}");
        }
        places.into_iter().map(|place| decode(dtype, &memory[place * bytes..][..bytes])).collect()
    }
}
