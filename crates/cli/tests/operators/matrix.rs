//! Matrix times vector, and softmax weights times values.

use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::F32;

use crate::data::Fill;
use crate::suite::Suite;

#[test]
fn gemv_of_every_shape_both_ways() {
    let mut suite = Suite::new("gemv");
    let fills = [Fill::Even, Fill::Small, Fill::Wide, Fill::Cancelling, Fill::Special, Fill::Offset];
    let mut turn = 0;
    for m in [0, 1, 2, 31, 33, 64, 257] {
        for k in [0, 1, 3, 16, 17, 31, 32, 33, 64, 100, 128, 129, 256, 1025] {
            for transpose in [false, true] {
                turn += 1;
                for dtype in [F32, Dtype::FLOATS[turn % 4]] {
                    let (a, x) = (fills[turn % 6], fills[turn / 6 % 6]);
                    let a = suite.input(dtype, &[m, k], a, 1);
                    let x = suite.input(dtype, &[if transpose { m } else { k }], x, 2);
                    suite.add("gemv", &[&a, &x], Options { transpose, ..Options::default() });
                }
            }
        }
    }
    for (m, k) in [(2, 30_001), (30_001, 2)] {
        for transpose in [false, true] {
            let a = suite.input(F32, &[m, k], Fill::Even, 1);
            let x = suite.input(F32, &[if transpose { m } else { k }], Fill::Even, 2);
            suite.add("gemv", &[&a, &x], Options { transpose, ..Options::default() });
        }
    }
    suite.run();
}

#[test]
fn softmax_v_of_every_shape() {
    let mut suite = Suite::new("softmax_v");
    let outers: [&[usize]; 4] = [&[], &[2], &[2, 3], &[1]];
    let mut turn = 0;
    for (s, t, d) in
        [(1, 1, 1), (3, 5, 7), (4, 32, 32), (5, 33, 16), (2, 100, 64), (1, 257, 65), (3, 1025, 8), (7, 7, 128)]
    {
        for outer in outers {
            for dtype in Dtype::FLOATS {
                turn += 1;
                let of = |last: [usize; 2]| [outer, &last[..]].concat();
                let fill = [Fill::Even, Fill::Small, Fill::Offset, Fill::Wide][turn % 4];
                let (scores, v) =
                    (suite.input(dtype, &of([s, t]), fill, 1), suite.input(dtype, &of([t, d]), Fill::Even, 2));
                suite.add("softmax-v", &[&scores, &v], Options::default());
            }
        }
    }
    suite.run();
}
