//! Kernels whose blocks walk over what is left when a grid has no more of them: fewer blocks give
//! the same.

use warpfold_kernels::Dtype;
use warpfold_kernels::digest::{self, Digest};
use warpfold_kernels::generate::{self, Generate, Sequence};
use warpfold_kernels::operations::Number;
use warpfold_kernels::plan::{Family, KernelCache, Plan, Planner, TensorSpec, Workspace};
use warpfold_kernels::reductions::Reduction;
use warpfold_kernels::scatter::{self, Scatter};
use warpfold_kernels::unique::{self, UniqueTables};

use crate::operations::bench::Bench;

/// What a plan writes to outputs that hold something before.
fn run(bench: &Bench, plan: Plan, inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let device = &bench.device;
    let inputs: Vec<_> = inputs.iter().map(|bytes| device.upload(bytes).unwrap()).collect();
    let mut outputs: Vec<_> = outputs.iter().map(|bytes| device.upload(bytes).unwrap()).collect();
    let views: Vec<_> = inputs.iter().map(|input| Some(input.as_view())).collect();
    let mut written: Vec<_> = outputs.iter_mut().map(|output| output.as_view_mut()).collect();
    let ready = plan.ready(device).unwrap();
    ready.launch(&device.default_stream(), &views, &mut written, &mut Workspace::new()).unwrap();
    for report in device.take_reports() {
        assert!(report.report.findings.is_empty(), "{:?}", report.report.findings);
    }
    outputs.iter().map(|output| output.download().unwrap()).collect()
}

/// The results of a plan whose last launch has the blocks that it wants, and of the same with so
/// many along an axis of the grid.
fn both<F: Family>(
    bench: &Bench,
    (family, problem): (&F, &F::Problem),
    [axis, fewer]: [usize; 2],
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
) -> [Vec<Vec<u8>>; 2] {
    let (target, kernels) = (bench.device.target(), KernelCache::default());
    let planned = || family.plan(problem, &Planner::new(&target, bench.device.limits(), &kernels)).unwrap();
    let (plan, mut few) = (planned(), planned());
    let grid = &mut few.steps.last_mut().unwrap().config.grid;
    assert!(grid[axis] > 2 * fewer as u32, "{grid:?}");
    grid[axis] = fewer as u32;
    [plan, few].map(|plan| run(bench, plan, inputs, outputs))
}

#[test]
fn parts_beyond_the_grid_are_scattered_by_the_blocks_that_there_are() {
    let bench = Bench::new();
    let part = 2000;
    let problem = scatter::Problem {
        dtype: Dtype::F32,
        indices: Dtype::I64,
        table: vec![7, part],
        axis: 0,
        shape: vec![9],
        combine: Some(Reduction::Sum),
        include_table: true,
    };
    let indices: Vec<u8> = (0..9_i64).flat_map(|i| (i * i % 7).to_le_bytes()).collect();
    let source: Vec<u8> = (0..9 * part).flat_map(|i| ((i % 91) as f32 / 8.0).to_le_bytes()).collect();
    let outputs = [vec![0; 4 * 7 * part], vec![0xff; 8]];
    let [wanted, few] = both(&bench, (&Scatter, &problem), [1, 3], &[indices, source], &outputs);
    assert!(wanted == few && wanted[0].iter().any(|byte| *byte != 0));
}

#[test]
fn elements_beyond_the_grid_are_looked_up_by_the_blocks_that_there_are() {
    let bench = Bench::new();
    let problem = unique::Problem { dtype: Dtype::I32, rows: 1, row_len: 5000 };
    let elements: Vec<u8> = (0..5000_i32).flat_map(|i| (i * i % 1201).to_le_bytes()).collect();
    let table = vec![0; 8 * problem.words_per_row().unwrap() as usize];
    let results = both(&bench, (&UniqueTables, &problem), [0, 3], &[elements], &[table]);
    // Which word of a table an element takes depends on who comes first.
    let different = results.map(|outputs| {
        let mut words: Vec<[u8; 8]> = outputs[0].chunks_exact(8).map(|word| word.try_into().unwrap()).collect();
        words.sort_unstable();
        words.retain(|word| *word != [0; 8]);
        words
    });
    assert!(different[0] == different[1]);
    assert_eq!(
        different[0].len(),
        (0..5000_i32).map(|i| i * i % 1201).collect::<std::collections::BTreeSet<_>>().len()
    );
}

#[test]
fn elements_beyond_the_grid_are_generated_by_the_blocks_that_there_are() {
    let bench = Bench::new();
    let sequence = Sequence::Arithmetic { start: Number::from(3), step: Number::from(7) };
    let problem = generate::Problem::new(sequence, Dtype::I64, 20_000).unwrap();
    let [wanted, few] = both(&bench, (&Generate, &problem), [0, 3], &[], &[vec![0; 8 * 20_000]]);
    assert!(wanted == few);
    let last = i64::from_le_bytes(wanted[0][8 * 19_999..].try_into().unwrap());
    assert_eq!(last, 3 + 7 * 19_999);
}

#[test]
fn elements_beyond_the_grid_are_digested_by_the_blocks_that_there_are() {
    let bench = Bench::new();
    // In groups, and one by one.
    for first in [0, 1] {
        let spec = TensorSpec::contiguous(Dtype::U16, &[16_384]).unwrap();
        let problem = digest::Problem::new(&spec, first, &[1]).unwrap();
        let elements: Vec<u8> = (0..2 * 16_384_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let expected = Digest::of_bytes(&elements, 2, first);
        let [wanted, few] = both(&bench, (&Digest, &problem), [0, 3], &[elements], &[vec![0; 8]]);
        assert_eq!([&wanted[0], &few[0]], [&expected.to_le_bytes()[..]; 2], "from {first} on");
    }
}
