//! Cost of determinism: a float sum by atomics, whose order differs from run to run, against the
//! shipped sum, whose order is fixed by the shape.

use warpfold_device::LaunchConfig;
use warpfold_kernels::elements::{Place, Run, Source};
use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_kernels::plan::{Arg, Family, Operand, OperandSpec, Plan, Planner, Step};
use warpfold_kernels::{Dtype, Error};
use warpfold_lang::{
    Global, Kernel, Val, block_idx, grid_dim, kernel, range, thread_idx, var, wait_for_dependencies, when,
};

use super::Record;

/// Threads of a block.
const BLOCK: u32 = 256;
/// Neighbouring elements of an access, and accesses of a thread that are under way together.
const WIDTH: u32 = 4;
const UNROLL: u32 = 4;
/// Blocks at most: eight for each multiprocessor of an H200.
const MAX_BLOCKS: u64 = 1056;

/// The family of sums of `f32` by atomics: each block adds what it has to the result. Cleared
/// first, as any such sum must be. The problem is how many elements there are, a multiple of 4.
#[derive(Debug, Clone, Copy)]
pub(super) struct SumByAtomics;

impl Family for SumByAtomics {
    type Problem = u64;

    fn plan(&self, len: &u64, planner: &Planner<'_>) -> Result<Plan, Error> {
        let blocks = len.div_ceil(u64::from(BLOCK * WIDTH * UNROLL)).clamp(1, MAX_BLOCKS) as u32;
        let step = Step::new(planner.kernel("sum by atomics", |_| sum()), LaunchConfig::new(blocks, BLOCK))
            .arg(Operand::Input(0))
            .arg(Operand::Output(0))
            .arg(Arg::value(*len));
        Ok(Plan::new("sum by atomics")
            .input(OperandSpec::new("the elements", len * 4, 16))
            .output(OperandSpec::new("the sum", 4, 4))
            .fill(Operand::Output(0), 4, 0)
            .step(step))
    }
}

/// Grid-stride loops, the shipped fold of a block, and an atomic for each block.
fn sum() -> Kernel<(Global<u8>, Global<f32>, u64)> {
    kernel("sum_by_atomics", |input: Global<u8>, output: Global<f32>, len: Val<u64>| {
        wait_for_dependencies();
        let source = Source::one::<f32>(Dtype::F32);
        let thread = thread_idx().x;
        let step = u64::from(BLOCK * WIDTH);
        let first = block_idx().x.cast::<u64>() * (step * u64::from(UNROLL)) + (thread * WIDTH).cast::<u64>();
        let sum = var(0.0_f32);
        range(first, len, grid_dim().x.cast::<u64>() * (step * u64::from(UNROLL)), |i| {
            let at = |u: u32| i + step * u64::from(u);
            // All loads before the first addition; what is beyond the end is the last four, times 0.
            let loaded: Vec<_> = (0..UNROLL)
                .map(|u| {
                    let is_there = at(u).lt(len);
                    let from = is_there.select(at(u), len - u64::from(WIDTH));
                    let place = Place { pointer: input.at(from * 4_u64), run: Run::Wide };
                    (is_there, source.load(&[place], WIDTH))
                })
                .collect();
            for (is_there, values) in loaded {
                let four = (values[0] + values[1]) + (values[2] + values[3]);
                sum.add_assign(is_there.select(four, Val::constant(0.0_f32)));
            }
        });
        let sum = fold_block(Sum::<f32>::new(), sum.get(), BLOCK);
        when(thread.eq(0), || output.reduction().add(sum));
    })
    .required_block(BLOCK)
}

/// Cost of a sum in fixed order, or of one that is the same in any order, against atomics.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// The sum: `sum f32 1048576`.
    pub case: String,
    /// Its time by that of atomics, on a GPU.
    pub time: Option<f64>,
    /// Its sectors, and its warp instructions, by those of atomics, on the virtual GPU.
    pub counts: Option<[f64; 2]>,
}

/// The costs among records: each sum against the one by atomics that was measured before it.
#[must_use]
pub fn costs(records: &[Record]) -> Vec<Cost> {
    let mut atomics: Option<&Record> = None;
    let mut costs = Vec::new();
    for record in records.iter().filter(|record| record.family == "determinism") {
        if record.case.starts_with("sum by atomics") {
            atomics = Some(record);
        } else if let Some(other) = atomics {
            let time = record.time.zip(other.time);
            let counts = record.counters.zip(other.counters).map(|(mine, other)| {
                let sectors = |c: warpfold_device::Counters| (c.global_load_sectors + c.global_store_sectors) as f64;
                let instructions = |c: warpfold_device::Counters| c.warp_instructions as f64;
                [sectors(mine) / sectors(other).max(1.0), instructions(mine) / instructions(other).max(1.0)]
            });
            let time = time.map(|(mine, other)| mine.median.as_secs_f64() / other.median.as_secs_f64());
            costs.push(Cost { case: record.case.clone(), time, counts });
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use warpfold_device::{Checks, Device, Profile};
    use warpfold_kernels::Workspace;

    use super::*;

    #[test]
    fn the_sum_by_atomics_is_a_sum() {
        let device = Device::virtual_gpu(Profile::H200);
        device.set_checks(Checks::All).unwrap();
        for len in [4_u64, 4096, 100_000] {
            let x = device.upload(&vec![1.0_f32; len as usize]).unwrap();
            let mut sum = device.alloc::<f32>(1).unwrap();
            let ready = SumByAtomics.ready(&device, &len).unwrap();
            let outputs = &mut [sum.as_view_mut().bytes()];
            let inputs = [Some(x.as_view().bytes())];
            ready.launch(&device.default_stream(), &inputs, outputs, &mut Workspace::new()).unwrap();
            assert_eq!(sum.download().unwrap(), [len as f32]);
        }
        assert!(device.take_reports().iter().all(|launch| launch.report.findings.is_empty()));
    }

    #[test]
    fn every_deterministic_sum_has_its_cost() {
        let device = Device::virtual_gpu(Profile::H200);
        let mut records = Vec::new();
        crate::run(&device, &["determinism".to_owned()], |record| records.push(record.clone())).unwrap();
        let costs = costs(&records);
        assert_eq!((records.len() % 3, costs.len() * 3), (0, records.len() * 2));
        for cost in costs {
            let [sectors, instructions] = cost.counts.expect("the virtual GPU counts");
            // The parts of blocks are few beside what is summed.
            assert!((0.9..1.2).contains(&sectors) && instructions < 60.0, "{cost:?}");
        }
    }
}
