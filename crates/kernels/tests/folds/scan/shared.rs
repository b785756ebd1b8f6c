//! Axes whose tiles blocks share: rows and columns, and trees of every height.

use warpfold_device::Checks;
use warpfold_kernels::Dtype;
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::{Monoid, Position, Scan, ScanOrder};
use warpfold_kernels::layout::Layout;
use warpfold_lang::Val;

use crate::folds::affine::{Affine, scattered};

use super::bench::{Bench, affine, compare, expected, orders};

#[test]
fn long_axes_are_shared_by_blocks() {
    for mut bench in Bench::all() {
        for (shape, axis) in [
            (&[100_003][..], 0),
            (&[100_000], 0),
            (&[3, 20_001], 1),
            (&[2, 40_000], 1),
            (&[5000, 65], 0),
            (&[2, 3000, 48], 1),
            (&[600, 300], 0),
            (&[600, 300], 1),
            (&[8, 2048], 1),
            (&[40, 3, 400], 0),
            (&[300, 3], 0),
            (&[20, 100, 51], 1),
        ] {
            bench.check(&Layout::contiguous(shape).unwrap(), 0, axis);
        }
        // Large ones in one order only.
        let scan = bench.affine.clone();
        for (turn, (shape, axis)) in
            [(&[512, 4100][..], 1), (&[512, 2049], 1), (&[600, 600], 1), (&[171, 130, 65], 1), (&[64, 66, 512], 1)]
                .into_iter()
                .enumerate()
        {
            let order = orders()[turn % 4];
            let layout = Layout::contiguous(shape).unwrap();
            let memory: Vec<u32> = (0..layout.len()).map(scattered).collect();
            let results = bench.run(&scan, &layout, &memory, 0, axis, order);
            let by_loop = expected(&layout, &memory, 0, axis, order.direction, |items| affine(items, order.prefix));
            compare(&results, &by_loop, &format!("{shape:?} {order:?}"));
        }
        for kind in [
            "lanes wide One",
            "lanes wide Loop",
            "block narrow Loop",
            "block narrow Split",
            "block wide Loop",
            "block wide Split",
            "columns narrow Loop",
            "columns narrow Split",
            "columns wide Loop",
        ] {
            assert!(bench.kinds.contains(kind), "no plan was {kind}: {:#?}", bench.kinds);
        }
    }
}

#[derive(Clone, Copy)]
struct Wide;

impl Monoid for Wide {
    type Item = Val<u32>;
    type Acc = [(Val<u32>, Val<u32>); 8];
    type Output = Val<u32>;
    const COMMUTES: bool = false;

    fn identity(self) -> Self::Acc {
        [Affine.identity(); 8]
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        std::array::from_fn(|i| Affine.combine(left[i], right[i]))
    }

    fn lift(self, item: Val<u32>, position: Position) -> Self::Acc {
        [Affine.lift(item, position); 8]
    }

    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Val<u32> {
        acc.into_iter().map(|acc| Affine.finish(acc, count)).reduce(|all, one| all & one).expect("there are eight")
    }
}

#[test]
fn more_tiles_than_a_group_of_groups_has_are_scanned_in_order() {
    for mut bench in Bench::all() {
        // A third of a million elements; other tests watch the same kernels.
        if bench.device.is_virtual() {
            bench.device.set_checks(Checks::None).unwrap();
        }
        // Two bytes a thread are too few to be copied in the background, so tiles are small.
        let scan = Scan::new("wide", Wide, Source::one::<u32>(Dtype::U16), Sink::one::<u32>(Dtype::U16));
        for (shape, axis, first) in [(&[256 * 1100 + 9][..], 0, 1), (&[16 * 1060 + 3, 17], 0, 0)] {
            let layout = Layout::contiguous(shape).unwrap();
            let memory: Vec<u16> = (0..layout.len() + first).map(|i| scattered(i) as u16).collect();
            let order = ScanOrder::default();
            let results = bench.run(&scan, &layout, &memory, first, axis, order);
            let by_loop = expected(&layout, &memory, first, axis, order.direction, |items| {
                let wide: Vec<u32> = items.iter().map(|item| u32::from(*item)).collect();
                affine(&wide, order.prefix).into_iter().map(|x| x as u16).collect()
            });
            assert!(results == by_loop, "{shape:?}");
        }
        assert_eq!(bench.kinds.iter().collect::<Vec<_>>(), ["block narrow Split", "columns narrow Split"]);
    }
}
