//! The same launches, with the same arguments and the same workspace, again and again from a graph,
//! over input that changes: counters and marks are left as the next launch needs them.

use warpfold_device::{Buffer, Stream};
use warpfold_kernels::fold::{Cumulative, ScanOrder, SegmentedFold, scan_of};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{Family, Ready, TensorSpec};
use warpfold_kernels::reductions::{Options, Reduction, fold_of};
use warpfold_kernels::rowwise::operators::{RowOp, Types, operator_of};
use warpfold_kernels::sort::{self, Sort};
use warpfold_kernels::{Dtype, Workspace};

use crate::folds::affine::scattered;
use crate::folds::{clean, spec};

/// So many that blocks share a result, or wait for one another.
const LEN: usize = 300_003;

/// Integers as floats, so few and small that sums of them are exact.
fn numbers(turn: usize) -> Vec<f32> {
    (0..LEN).map(|i| f32::from((scattered(i + turn * LEN) % 16) as u8)).collect()
}

/// Captures a launch from the input to an output of so many bytes, and judges the output of each of
/// three replays.
fn check(
    num_bytes: usize,
    launch: impl Fn(&Stream, &Buffer<f32>, &mut Buffer<u8>, &mut Workspace),
    judge: impl Fn(&[f32], &[u8]),
) {
    for device in crate::folds::devices() {
        let stream = device.new_stream().unwrap();
        let (mut input, mut output) = (device.upload(&numbers(0)).unwrap(), device.alloc::<u8>(num_bytes).unwrap());
        // It is allocated while the stream is captured, and dropped before the graph is launched.
        let mut workspace = Workspace::new();
        let captured = stream.capture(|| {
            launch(&stream, &input, &mut output, &mut workspace);
            Ok::<_, warpfold_device::Error>(())
        });
        let (graph, ()) = captured.unwrap();
        drop(workspace);
        for turn in 1..=3 {
            let numbers = numbers(turn);
            stream.copy_from_host(&mut input, &numbers).unwrap();
            stream.fill_bytes(&mut output, 0xff).unwrap();
            graph.launch().unwrap();
            let mut results = vec![0; num_bytes];
            stream.copy_to_host(&output, &mut results).unwrap();
            judge(&numbers, &results);
        }
        clean(&device);
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn row(address: u64) -> TensorSpec {
    spec(Dtype::F32, &Layout::contiguous(&[LEN]).unwrap(), address)
}

/// Launches a plan from the input to the output.
fn launch(ready: &Ready, stream: &Stream, input: &Buffer<f32>, output: &mut Buffer<u8>, workspace: &mut Workspace) {
    ready.launch(stream, &[Some(input.as_view().bytes())], &mut [output.as_view_mut()], workspace).unwrap();
}

fn fold(reduction: Reduction) -> impl Fn(&Stream, &Buffer<f32>, &mut Buffer<u8>, &mut Workspace) {
    move |stream, input, output, workspace| {
        let fold = fold_of(reduction, &[Dtype::F32], Options::default()).unwrap();
        let problem = fold.problem(vec![row(input.address())], &[0]);
        let ready = fold.ready(stream.device(), &problem).unwrap();
        assert!(ready.plan().tickets > 0, "blocks share the result");
        launch(&ready, stream, input, output, workspace);
    }
}

#[test]
fn sums_that_blocks_share_are_replayed() {
    check(4, fold(Reduction::Sum), |numbers, bytes| assert_eq!(floats(bytes), [numbers.iter().sum::<f32>()]));
}

#[test]
fn positions_that_blocks_share_are_replayed() {
    check(8, fold(Reduction::ArgMax), |numbers, bytes| {
        let largest = numbers.iter().copied().fold(0.0, f32::max);
        let first = numbers.iter().position(|x| *x == largest).unwrap();
        assert_eq!(bytes, (first as i64).to_le_bytes());
    });
}

#[test]
fn marks_are_renewed_and_graphs_keep_theirs() {
    for launches in [1, 2, 3] {
        let scanned = |stream: &Stream, input: &Buffer<f32>, output: &mut Buffer<u8>, workspace: &mut Workspace| {
            *workspace = Workspace::renewing_marks_after(launches);
            let scan = scan_of(Cumulative::Sum, Dtype::F32, None).unwrap();
            // Each reads what the one before has written, in its marks or in new ones.
            let mut between = stream.device().alloc::<u8>(4 * LEN).unwrap();
            for turn in 0..3 {
                let address = if turn == 0 { input.address() } else { between.address() };
                let (from, to) = (vec![row(address)], vec![row(between.address())]);
                let ready = scan.ready(stream.device(), &scan.problem(from, to, 0, ScanOrder::default())).unwrap();
                assert!(ready.plan().marks > 0, "blocks wait for one another");
                match turn {
                    0 => launch(&ready, stream, input, output, workspace),
                    _ => ready
                        .launch(stream, &[Some(between.as_view())], &mut [output.as_view_mut()], workspace)
                        .unwrap(),
                }
                stream.copy(between.as_view_mut(), output.as_view()).unwrap();
            }
        };
        check(4 * LEN, scanned, |numbers, bytes| {
            let mut sums: Vec<f64> = numbers.iter().map(|x| f64::from(*x)).collect();
            for _ in 0..3 {
                let mut sum = 0.0;
                sums.iter_mut().for_each(|x| {
                    sum += *x;
                    *x = sum;
                });
            }
            for (i, (found, sum)) in floats(bytes).into_iter().zip(&sums).enumerate() {
                assert!((f64::from(found) - sum).abs() <= 1e-4 * sum, "{i}: {found} for {sum}");
            }
        });
    }
}

#[test]
fn scratch_that_is_freed_stays_in_its_graph() {
    const SORTED: usize = 1 << 18;
    // Each one needs more than the one before, so nine buffers are asked for and eight are kept.
    let lens = (10..=18).map(|log| 1_usize << log);
    let sorted = |stream: &Stream, input: &Buffer<f32>, output: &mut Buffer<u8>, workspace: &mut Workspace| {
        for len in lens.clone() {
            let problem = sort::Problem { dtype: Dtype::F32, rows: 1, len: len as u64, descending: false };
            let ready = Sort.ready(stream.device(), &problem).unwrap();
            let mut positions = stream.device().alloc::<u8>(8 * len).unwrap();
            let first: usize = lens.clone().take_while(|before| *before < len).map(|before| 4 * before).sum();
            let outputs = &mut [output.view_mut(first..first + 4 * len).unwrap(), positions.as_view_mut()];
            ready.launch(stream, &[Some(input.view(..len).unwrap().bytes())], outputs, workspace).unwrap();
        }
    };
    check(4 * 2 * SORTED, sorted, |numbers, bytes| {
        let found = floats(bytes);
        let mut first = 0;
        for len in lens.clone() {
            let mut expected = numbers[..len].to_vec();
            expected.sort_by(f32::total_cmp);
            assert!(found[first..first + len] == expected, "{len} numbers");
            first += len;
        }
    });
}

#[test]
fn scans_whose_blocks_wait_for_one_another_are_replayed() {
    let scanned = |stream: &Stream, input: &Buffer<f32>, output: &mut Buffer<u8>, workspace: &mut Workspace| {
        let scan = scan_of(Cumulative::Sum, Dtype::F32, None).unwrap();
        let (from, to) = (vec![row(input.address())], vec![row(output.address())]);
        let problem = scan.problem(from, to, 0, ScanOrder::default());
        let ready = scan.ready(stream.device(), &problem).unwrap();
        assert!(ready.plan().marks > 0, "blocks wait for one another");
        launch(&ready, stream, input, output, workspace);
    };
    check(4 * LEN, scanned, |numbers, bytes| {
        let mut sum = 0.0;
        let sums = numbers.iter().map(|x| {
            sum += x;
            sum
        });
        assert!(floats(bytes).into_iter().eq(sums));
    });
}

#[test]
fn segments_that_blocks_share_are_replayed() {
    let folded = |stream: &Stream, input: &Buffer<f32>, output: &mut Buffer<u8>, workspace: &mut Workspace| {
        let fold = fold_of(Reduction::Sum, &[Dtype::F32], Options::default()).unwrap();
        let family = SegmentedFold(&fold);
        let problem = family.problem(vec![row(input.address())], Dtype::I32, 2);
        let ready = family.ready(stream.device(), &problem).unwrap();
        assert!(ready.plan().tickets > 0, "blocks share a result");
        // Nothing, then everything: the last offset is beyond the end.
        let mut offsets = stream.device().alloc::<u8>(12).unwrap();
        stream.fill_bytes(&mut offsets, 0).unwrap();
        stream.fill_bytes(offsets.view_mut(8..).unwrap(), 0x7f).unwrap();
        let inputs = [Some(input.as_view().bytes()), Some(offsets.as_view())];
        ready.launch(stream, &inputs, &mut [output.as_view_mut()], workspace).unwrap();
    };
    check(8, folded, |numbers, bytes| assert_eq!(floats(bytes), [0.0, numbers.iter().sum::<f32>()]));
}

#[test]
fn a_softmax_of_two_launches_is_replayed() {
    let launch = |stream: &Stream, input: &Buffer<f32>, output: &mut Buffer<u8>, workspace: &mut Workspace| {
        let types = Types { rows: &[Dtype::F32], columns: &[] };
        let operator = operator_of(RowOp::Softmax { scale: 1.0 }, types).unwrap();
        let rows = TensorSpec::new(Dtype::F32, Layout::contiguous(&[1, LEN]).unwrap(), input.address());
        let ready = operator.ready(stream.device(), &operator.problem(vec![rows], Vec::new(), 1)).unwrap();
        assert_eq!(ready.plan().steps.len(), 2, "{}", ready.plan());
        let inputs = [Some(input.as_view().bytes())];
        ready.launch(stream, &inputs, &mut [output.as_view_mut()], workspace).unwrap();
    };
    check(4 * LEN, launch, |numbers, bytes| {
        let sum: f64 = numbers.iter().map(|x| f64::from(*x).exp()).sum();
        for (x, y) in numbers.iter().zip(floats(bytes)) {
            let expected = f64::from(*x).exp() / sum;
            assert!((f64::from(y) - expected).abs() <= 1e-5 * expected, "{y} for {expected}");
        }
    });
}
