//! Two inputs, scanned together.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Monoid, Position, Scan, ScanOrder};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::Family;
use warpfold_kernels::{Dtype, Workspace};
use warpfold_lang::Val;

use crate::folds::affine::scattered;
use crate::folds::spec;

#[test]
fn two_inputs_are_scanned_together() {
    // The recurrence h = a * h + b, as state space models have it.
    #[derive(Clone, Copy)]
    struct Recurrence;
    impl Monoid for Recurrence {
        type Item = (Val<i32>, Val<i32>);
        type Acc = (Val<i32>, Val<i32>);
        type Output = Val<i32>;
        const COMMUTES: bool = false;
        fn identity(self) -> Self::Acc {
            (Val::constant(1), Val::constant(0))
        }
        fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
            (left.0 * right.0, left.1.mul_add(right.0, right.1))
        }
        fn lift(self, item: Self::Item, _: Position) -> Self::Acc {
            item
        }
        fn finish(self, acc: Self::Acc, _: Val<u64>) -> Val<i32> {
            acc.1
        }
    }
    let source = Source::one::<i32>(Dtype::I8).zip(Source::one::<i32>(Dtype::I32));
    let scan = Scan::new("recurrence", Recurrence, source, Sink::one::<i32>(Dtype::I32));
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    // One factor for each time, repeated over the channels.
    for (times, channels) in [(5000, 32), (70, 9), (900, 1)] {
        let factors: Vec<i8> = (0..times).map(|i| scattered(i) as i8).collect();
        let addends: Vec<i32> = (0..times * channels).map(|i| scattered(i + 7) as i32).collect();
        let (a, b) = (device.upload(&factors).unwrap(), device.upload(&addends).unwrap());
        let mut output = device.alloc::<i32>(addends.len()).unwrap();
        let layouts = [Layout::new(vec![times, channels], vec![1, 0]), Layout::contiguous(&[times, channels])];
        let layouts = layouts.map(Result::unwrap);
        let from = vec![spec(Dtype::I8, &layouts[0], a.address()), spec(Dtype::I32, &layouts[1], b.address())];
        let to = vec![spec(Dtype::I32, &layouts[1], output.address())];
        let problem = scan.problem(from, to, 0, ScanOrder::default());
        let ready = scan.ready(&device, &problem).unwrap();
        let inputs = [Some(a.as_view().bytes()), Some(b.as_view().bytes())];
        let written = &mut [output.as_view_mut().bytes()];
        ready.launch(&device.default_stream(), &inputs, written, &mut Workspace::new()).unwrap();
        assert!(device.take_reports().iter().all(|report| report.report.findings.is_empty()));
        let results = output.download().unwrap();
        for channel in 0..channels {
            let mut h = 0_i32;
            for time in 0..times {
                h = h.wrapping_mul(i32::from(factors[time])).wrapping_add(addends[time * channels + channel]);
                assert_eq!(results[time * channels + channel], h, "{time} {channel}");
            }
        }
    }
}
