//! The cases: operators at the shapes that peers report.

use warpfold_device::Buffer;
use warpfold_kernels::cross_entropy::{self, CrossEntropyLoss};
use warpfold_kernels::fold::{Cumulative, ScanOrder, SegmentedFold, scan_of};
use warpfold_kernels::gemv::{self, Gemv};
use warpfold_kernels::histogram::{self, Histogram};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::operations::{Operation, map_of};
use warpfold_kernels::plan::{Family, Ready, TensorSpec, alignment_of};
use warpfold_kernels::reductions::{self, Reduction};
use warpfold_kernels::rowwise::operators::{Norm, RowOp, Types, operator_of};
use warpfold_kernels::{Dtype, Error, Workspace};

use super::data::filled;
use super::determinism::SumByAtomics;
use warpfold::Queue;

/// The families.
pub const FAMILIES: &[&str] = &[
    "copy",
    "sum",
    "argmax",
    "softmax",
    "norm",
    "scale",
    "cross-entropy",
    "scan",
    "segments",
    "map",
    "gemv",
    "histogram",
    "matmul",
    "quantized",
    "conv",
    "attention",
    "determinism",
];

/// An operator at a shape.
#[derive(Debug, Clone)]
pub struct Case {
    /// The family that it belongs to.
    pub family: &'static str,
    pub(super) dtype: Dtype,
    pub(super) rows: u64,
    pub(super) len: u64,
    pub(super) work: Work,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Within the device's memory, by the driver.
    Copy,
    /// Reduction of each row, or of each column of the transposed matrix.
    Reduce {
        reduction: Reduction,
        along: Along,
    },
    /// Sum of one row by atomics.
    Atomics,
    /// With so many vectors along the rows.
    Rows(RowOp, u64),
    CrossEntropy,
    /// Running sums along each row, or down each column.
    Scan(Along),
    /// The sums of so many segments, of this length or, skewed, half of them in the first one.
    Segments {
        skewed: bool,
    },
    /// Elementwise operation on its inputs.
    Map(Operation),
    /// A copy of the transposed matrix.
    Transpose,
    Gemv,
    Histogram {
        bins: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    Rows,
    Columns,
}

/// Every case; for the virtual GPU the same shapes with fewer rows, and shorter ones where there
/// are few, each once.
pub(super) fn all(is_virtual: bool) -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |family, dtype: Dtype, rows: u64, len: u64, work| {
        let (rows, len) = if is_virtual { (rows.div_ceil(256), len.min(1 << 18)) } else { (rows, len) };
        // A copy by the driver moves no sector that the virtual GPU counts.
        if is_virtual && matches!(work, Work::Copy) {
            return;
        }
        let case = Case { family, dtype, rows, len, work };
        if !cases.iter().any(|other: &Case| other.family == family && other.name() == case.name()) {
            cases.push(case);
        }
    };
    let reduce = |reduction, along| Work::Reduce { reduction, along };
    let sum = reduce(Reduction::Sum, Along::Rows);
    add("copy", Dtype::U8, 1, 1 << 30, Work::Copy);
    for (dtype, len) in [(Dtype::F32, 1 << 28), (Dtype::Bf16, 1 << 29), (Dtype::I8, 1 << 30), (Dtype::F64, 1 << 27)] {
        add("sum", dtype, 1, len, sum);
    }
    for len in [1 << 16, 1 << 20, 1 << 24] {
        add("sum", Dtype::F32, 1, len, sum);
    }
    add("sum", Dtype::F32, 16_384, 16_384, sum);
    add("sum", Dtype::F32, 16_384, 16_384, reduce(Reduction::Sum, Along::Columns));
    add("sum", Dtype::F32, 1 << 22, 64, sum);
    add("sum", Dtype::F32, 1, 1 << 28, reduce(Reduction::Max, Along::Rows));
    add("sum", Dtype::F32, 1, 1 << 28, reduce(Reduction::Variance, Along::Rows));
    add("sum", Dtype::F32, 1, 1 << 28, reduce(Reduction::LogSumExp, Along::Rows));
    for (dtype, len) in [(Dtype::F32, 1 << 28), (Dtype::Bf16, 1 << 29), (Dtype::I8, 1 << 30), (Dtype::F64, 1 << 27)] {
        add("argmax", dtype, 1, len, reduce(Reduction::ArgMax, Along::Rows));
    }
    add("argmax", Dtype::F32, 1, 131_072, reduce(Reduction::ArgMax, Along::Rows));
    let norm = Norm { eps: 1e-5, keep_sum: false };
    for (rows, len) in [
        (32_768, 256),
        (32_768, 1024),
        (32_768, 4096),
        (32_768, 8192),
        (32_768, 16_384),
        (16_384, 32_768),
        (16_384, 65_536),
        (8192, 131_072),
    ] {
        add("softmax", Dtype::Bf16, rows, len, Work::Rows(RowOp::Softmax { scale: 1.0 }, 0));
        add("norm", Dtype::Bf16, rows, len, Work::Rows(RowOp::LayerNorm(norm), 0));
        add("norm", Dtype::Bf16, rows, len, Work::Rows(RowOp::RmsNorm(norm), 0));
    }
    for (rows, len) in [(32_768, 2048), (32_768, 4096), (32_768, 8192), (16_384, 65_536)] {
        add("norm", Dtype::Bf16, rows, len, Work::Rows(RowOp::RmsNorm(norm), 1));
        add("norm", Dtype::Bf16, rows, len, Work::Rows(RowOp::LayerNorm(norm), 2));
    }
    add("softmax", Dtype::F32, 16_384, 16_384, Work::Rows(RowOp::Softmax { scale: 1.0 }, 0));
    add("softmax", Dtype::F32, 1, 131_072, Work::Rows(RowOp::Softmax { scale: 1.0 }, 0));
    add("scale", Dtype::F32, 442_368, 128, Work::Rows(RowOp::AbsMaxScale, 0));
    add("scale", Dtype::Bf16, 32_768, 4096, Work::Rows(RowOp::Quantize { to: Dtype::I8 }, 0));
    add("cross-entropy", Dtype::Bf16, 32_768, 8192, Work::CrossEntropy);
    add("cross-entropy", Dtype::Bf16, 16_384, 65_536, Work::CrossEntropy);
    for (dtype, len) in [(Dtype::F32, 1 << 28), (Dtype::Bf16, 1 << 29), (Dtype::I8, 1 << 30), (Dtype::F64, 1 << 27)] {
        add("scan", dtype, 1, len, Work::Scan(Along::Rows));
    }
    for (rows, len) in [(1, 1 << 20), (1, 1 << 24), (16_384, 16_384), (1 << 18, 1000), (1 << 22, 64)] {
        add("scan", Dtype::F32, rows, len, Work::Scan(Along::Rows));
    }
    for (rows, len) in [(16_384, 16_384), (1 << 22, 64)] {
        add("scan", Dtype::F32, rows, len, Work::Scan(Along::Columns));
    }
    for (rows, len) in [(1 << 26, 4), (1 << 22, 64), (1 << 18, 1024), (1 << 12, 1 << 16), (1, 1 << 28)] {
        add("segments", Dtype::F32, rows, len, Work::Segments { skewed: false });
    }
    add("segments", Dtype::F32, 1 << 22, 64, Work::Segments { skewed: true });
    for operation in [Operation::Copy, Operation::Exp, Operation::Add] {
        add("map", Dtype::F32, 1, 1 << 28, Work::Map(operation));
    }
    add("map", Dtype::Bf16, 1, 1 << 29, Work::Map(Operation::Gelu));
    for dtype in [Dtype::U8, Dtype::F16, Dtype::F32] {
        add("map", dtype, 16_384, 16_384, Work::Transpose);
    }
    add("gemv", Dtype::F32, 16_384, 16_384, Work::Gemv);
    add("gemv", Dtype::Bf16, 32_768, 16_384, Work::Gemv);
    add("gemv", Dtype::F32, 1 << 22, 64, Work::Gemv);
    add("histogram", Dtype::U8, 1, 1 << 28, Work::Histogram { bins: 256 });
    // First by atomics: the others are held against it.
    let lens: &[u64] = if is_virtual { &[1 << 14, 1 << 18] } else { &[1 << 16, 1 << 20, 1 << 24, 1 << 28] };
    for len in lens {
        add("determinism", Dtype::F32, 1, *len, Work::Atomics);
        add("determinism", Dtype::F32, 1, *len, sum);
        add("determinism", Dtype::F32, 1, *len, reduce(Reduction::ReproducibleSum, Along::Rows));
    }
    cases
}

impl Case {
    /// Operator, element type and shape.
    pub(super) fn name(&self) -> String {
        let operator = match self.work {
            Work::Copy => "copy".to_owned(),
            Work::Atomics => "sum by atomics".to_owned(),
            Work::Reduce { reduction, along: Along::Rows } => reduction.to_string(),
            Work::Reduce { reduction, along: Along::Columns } => format!("{reduction} of columns,"),
            Work::Rows(op, 0) => op.name().to_owned(),
            Work::Rows(op, 1) => format!("{} with a scale,", op.name()),
            Work::Rows(op, _) => format!("{} with scale and bias,", op.name()),
            Work::CrossEntropy => "cross-entropy".to_owned(),
            Work::Map(operation) => operation.to_string(),
            Work::Transpose => "transpose".to_owned(),
            Work::Gemv => "gemv".to_owned(),
            Work::Histogram { bins } => format!("histogram of {bins} bins,"),
            Work::Scan(Along::Rows) => "cumsum".to_owned(),
            Work::Scan(Along::Columns) => "cumsum of columns,".to_owned(),
            Work::Segments { skewed: false } => "sum of segments,".to_owned(),
            Work::Segments { skewed: true } => "sum of segments, half in one,".to_owned(),
        };
        let shape = if self.rows == 1 { self.len.to_string() } else { format!("{}x{}", self.rows, self.len) };
        format!("{operator} {} {shape}", self.dtype)
    }

    /// Bytes that any solution has to move.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.rows * self.len;
        let input = all * self.dtype.bytes();
        match self.work {
            Work::Copy => 2 * input,
            Work::Reduce { .. } | Work::Atomics => input,
            Work::Rows(RowOp::Quantize { to }, _) => input + all * to.bytes(),
            Work::Rows(_, vectors) => 2 * input + vectors * self.len * self.dtype.bytes(),
            Work::Scan(_) => 2 * input,
            Work::Segments { .. } => input + self.rows * (8 + self.dtype.bytes()),
            Work::CrossEntropy => input + self.rows * 8,
            Work::Map(operation) => (operation.inputs() as u64 + 1) * input,
            Work::Transpose => 2 * input,
            Work::Gemv => input + (self.rows + self.len) * self.dtype.bytes(),
            Work::Histogram { bins } => input + 4 * bins,
        }
    }

    /// Inputs, outputs and plan on a device.
    pub(super) fn prepare(&self, queue: &Queue) -> Result<Prepared, Error> {
        queue.device().recorded(|| self.planned(queue))
    }

    fn planned(&self, queue: &Queue) -> Result<Prepared, Error> {
        let layout = Layout::contiguous(&[self.rows as usize, self.len as usize])?;
        let input = filled(queue, self.dtype, self.rows * self.len)?;
        let alloc = |dtype: &Dtype, len: u64| alloc(queue, dtype, len);
        let spec = |dtype, buffer: &Buffer<u8>| TensorSpec::new(dtype, layout.clone(), buffer.address());
        Ok(match self.work {
            Work::Copy => Prepared::Copy { output: alloc(&self.dtype, self.rows * self.len)?, input },
            Work::Reduce { reduction, along } => {
                let fold = reductions::fold_of(reduction, &[self.dtype], reductions::Options::default())?;
                let (axis, results) = if along == Along::Rows { (1, self.rows) } else { (0, self.len) };
                let ready = fold.ready(queue.device(), &fold.problem(vec![spec(self.dtype, &input)], &[axis]))?;
                let outputs = fold.outputs().iter().map(|dtype| alloc(dtype, results)).collect::<Result<_, _>>()?;
                Prepared::Planned { ready: Box::new(ready), inputs: vec![input], outputs }
            }
            Work::Atomics => {
                let ready = SumByAtomics.ready(queue.device(), &self.len)?;
                let outputs = vec![alloc(&self.dtype, 1)?];
                Prepared::Planned { ready: Box::new(ready), inputs: vec![input], outputs }
            }
            Work::Scan(along) => {
                let scan = scan_of(Cumulative::Sum, self.dtype, None)?;
                let output = alloc(&scan.outputs()[0], self.rows * self.len)?;
                let axis = if along == Along::Rows { 1 } else { 0 };
                let (from, to) = (vec![spec(self.dtype, &input)], vec![spec(scan.outputs()[0], &output)]);
                let problem = scan.problem(from, to, axis, ScanOrder::default());
                let ready = scan.ready(queue.device(), &problem)?;
                Prepared::Planned { ready: Box::new(ready), inputs: vec![input], outputs: vec![output] }
            }
            Work::Segments { skewed } => self.segments(queue, input, skewed)?,
            Work::Rows(op, vectors) => self.norms(queue, input, op, vectors)?,
            Work::Map(operation) => {
                let map = map_of(operation, &vec![self.dtype; operation.inputs()], &Default::default())?;
                let output = alloc(&map.outputs()[0], self.rows * self.len)?;
                let mut inputs = vec![input];
                for _ in 1..operation.inputs() {
                    inputs.push(filled(queue, self.dtype, self.rows * self.len)?);
                }
                let specs = inputs.iter().map(|input| TensorSpec::new(self.dtype, layout.clone(), input.address()));
                let result = TensorSpec::new(map.outputs()[0], layout.clone(), output.address());
                let problem = map.problem(specs.collect(), vec![result]);
                Prepared::Planned {
                    ready: Box::new(map.ready(queue.device(), &problem)?),
                    inputs,
                    outputs: vec![output],
                }
            }
            Work::Transpose => {
                let map = map_of(Operation::Copy, &[self.dtype], &Default::default())?;
                let output = alloc(&self.dtype, self.rows * self.len)?;
                let shape = vec![self.len as usize, self.rows as usize];
                let turned = Layout::new(shape.clone(), vec![1, self.len as isize])?;
                let from = TensorSpec::new(self.dtype, turned, input.address());
                let to = TensorSpec::new(self.dtype, Layout::contiguous(&shape)?, output.address());
                let ready = map.ready(queue.device(), &map.problem(vec![from], vec![to]))?;
                Prepared::Planned { ready: Box::new(ready), inputs: vec![input], outputs: vec![output] }
            }
            Work::Gemv => {
                let vector = filled(queue, self.dtype, self.len)?;
                let (sizes, strides) = ([self.rows, self.len], [self.len as i64, 1]);
                let alignment = alignment_of([input.address(), vector.address()]);
                let problem = gemv::Problem::of_strides(self.dtype, sizes, strides, alignment);
                let ready = Gemv.ready(queue.device(), &problem.expect("rows lie side by side"))?;
                Prepared::Planned {
                    ready: Box::new(ready),
                    outputs: vec![alloc(&self.dtype, self.rows)?],
                    inputs: vec![input, vector],
                }
            }
            Work::Histogram { bins } => {
                let problem = histogram::Problem { dtype: self.dtype, len: self.rows * self.len, bins };
                let ready = Histogram.ready(queue.device(), &problem)?;
                Prepared::Planned {
                    ready: Box::new(ready),
                    inputs: vec![input],
                    outputs: vec![alloc(&Dtype::I32, bins)?],
                }
            }
            Work::CrossEntropy => {
                let mut labels = alloc(&Dtype::I64, self.rows)?;
                queue.device().unrecorded(|| labels.fill_bytes(0))?;
                let of_labels = TensorSpec::contiguous(Dtype::I64, &[self.rows as usize])?;
                let logits = TensorSpec::new(self.dtype, layout, input.address());
                let problem = cross_entropy::Problem { logits, labels: of_labels, ignored: -100 };
                let ready = CrossEntropyLoss.ready(queue.device(), &problem)?;
                let outputs = vec![alloc(&self.dtype, self.rows)?, alloc(&self.dtype, self.rows)?];
                Prepared::Planned { ready: Box::new(ready), inputs: vec![input, labels], outputs }
            }
        })
    }

    /// Sums of segments of one length, or of as many of which the first has half of all.
    fn segments(&self, queue: &Queue, input: Buffer<u8>, skewed: bool) -> Result<Prepared, Error> {
        let fold = reductions::fold_of(Reduction::Sum, &[self.dtype], reductions::Options::default())?;
        let all = self.rows * self.len;
        let ends = (0..=self.rows).map(|i| segment_end([self.rows, self.len], skewed, i).cast_signed());
        let ends: Vec<i64> = ends.collect();
        let mut offsets = alloc(queue, &Dtype::I64, self.rows + 1)?;
        let copy = || queue.stream().copy_from_host(offsets.as_view_mut(), bytemuck::cast_slice(&ends));
        queue.device().unrecorded(copy)?;
        let row = TensorSpec::new(self.dtype, Layout::contiguous(&[all as usize])?, input.address());
        let family = SegmentedFold(&fold);
        let ready = family.ready(queue.device(), &family.problem(vec![row], Dtype::I64, self.rows as usize))?;
        let outputs = vec![alloc(queue, &fold.outputs()[0], self.rows)?];
        Ok(Prepared::Planned { ready: Box::new(ready), inputs: vec![input, offsets], outputs })
    }

    /// Norms and their like.
    fn norms(&self, queue: &Queue, input: Buffer<u8>, op: RowOp, vectors: u64) -> Result<Prepared, Error> {
        let types = vec![self.dtype; vectors as usize];
        let operator = operator_of(op, Types { rows: &[self.dtype], columns: &types })?;
        let spec = |shape: &[usize]| TensorSpec::contiguous(self.dtype, shape);
        let (rows, len) = (self.rows as usize, self.len as usize);
        let problem = operator.problem(vec![spec(&[rows, len])?], vec![spec(&[len])?; vectors as usize], 1);
        let mut inputs = vec![input];
        for dtype in types {
            inputs.push(filled(queue, dtype, self.len)?);
        }
        let results = operator.results().iter().map(|dtype| alloc(queue, dtype, self.rows * self.len));
        let outputs = results.chain(operator.stats().iter().map(|dtype| alloc(queue, dtype, self.rows)));
        let outputs = outputs.collect::<Result<_, _>>()?;
        Ok(Prepared::Planned { ready: Box::new(operator.ready(queue.device(), &problem)?), inputs, outputs })
    }
}

/// Returns the end of the segment before the `i`-th one.
pub(super) fn segment_end([rows, len]: [u64; 2], skewed: bool, i: u64) -> u64 {
    let all = rows * len;
    let end = match i {
        0 => 0,
        _ if skewed => all / 2 + i * len / 2,
        _ => i * len,
    };
    end.min(all)
}

/// Memory for elements, of any content.
fn alloc(queue: &Queue, dtype: &Dtype, len: u64) -> Result<Buffer<u8>, warpfold_device::Error> {
    let device = queue.device();
    device.unrecorded(|| device.alloc::<u8>((len * dtype.bytes()) as usize))
}

/// A case ready to run, again and again.
pub(super) enum Prepared {
    Copy { input: Buffer<u8>, output: Buffer<u8> },
    Planned { ready: Box<Ready>, inputs: Vec<Buffer<u8>>, outputs: Vec<Buffer<u8>> },
}

impl Prepared {
    /// Enqueues one run.
    pub(super) fn run(&mut self, queue: &Queue, workspace: &mut Workspace) -> Result<(), Error> {
        let stream = queue.stream();
        queue.device().recorded(|| match self {
            Self::Copy { input, output } => Ok(stream.copy(output.as_view_mut(), input.as_view())?),
            Self::Planned { ready, inputs, outputs } => {
                let views: Vec<_> = inputs.iter().map(|input| Some(input.as_view())).collect();
                let mut written: Vec<_> = outputs.iter_mut().map(Buffer::as_view_mut).collect();
                ready.launch(stream, &views, &mut written, workspace)
            }
        })
    }

    /// Returns the buffers that a run writes.
    pub(super) fn outputs(&self) -> Vec<&Buffer<u8>> {
        match self {
            Self::Copy { output, .. } => vec![output],
            Self::Planned { outputs, .. } => outputs.iter().collect(),
        }
    }

    /// Launches of one run.
    pub(super) fn launches(&self) -> u64 {
        match self {
            Self::Planned { ready, .. } => ready.plan().steps.len() as u64,
            _ => 1,
        }
    }
}
