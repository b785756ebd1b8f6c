//! Convolution.

use warpfold_conformance::reference::call::Options;
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::dtype::Dtype::F32;

use crate::data::Fill;
use crate::suite::Suite;

/// Images and filters: images, channels, height, width; filters, channels of a group, height,
/// width.
type Shapes = ([usize; 4], [usize; 4]);

/// A shape with its channels behind the pixels.
fn last([n, c, h, w]: [usize; 4]) -> [usize; 4] {
    [n, h, w, c]
}

fn add(suite: &mut Suite, dtype: Dtype, (x, w): Shapes, fill: Fill, options: Options) {
    for layout in [None, Some("nchw"), Some("nhwc")] {
        let is_last = layout == Some("nhwc");
        let (x, w) = if is_last { (last(x), last(w)) } else { (x, w) };
        let (x, w) = (suite.input(dtype, &x, fill, 1), suite.input(dtype, &w, fill, 2));
        let options = Options { layout: layout.map(str::to_owned), ..options.clone() };
        suite.add("conv2d", &[&x, &w], options);
    }
}

#[test]
fn conv2d_of_every_shape_and_window() {
    let mut suite = Suite::new("conv2d");
    let shapes: [Shapes; 7] = [
        ([2, 3, 9, 8], [5, 3, 3, 3]),
        ([1, 4, 7, 7], [8, 4, 1, 1]),
        ([3, 8, 5, 6], [4, 8, 2, 3]),
        ([1, 1, 12, 1], [2, 1, 4, 1]),
        ([0, 3, 9, 8], [5, 3, 3, 3]),
        ([1, 16, 6, 6], [33, 16, 3, 3]),
        ([1, 3, 2, 2], [1, 3, 3, 3]),
    ];
    let windows: [[Option<Vec<usize>>; 3]; 6] = [
        [None, None, None],
        [Some(vec![2]), Some(vec![1]), None],
        [Some(vec![1, 2]), Some(vec![0, 3]), Some(vec![2, 1])],
        [None, Some(vec![2]), Some(vec![2])],
        [Some(vec![3, 3]), None, None],
        [Some(vec![1, 2, 3]), None, None],
    ];
    let fills = [Fill::Even, Fill::Small, Fill::Special, Fill::Wide, Fill::Offset];
    for (turn, shapes) in shapes.into_iter().enumerate() {
        for (i, [stride, padding, dilation]) in windows.iter().cloned().enumerate() {
            let options = Options { stride, padding, dilation, ..Options::default() };
            add(&mut suite, F32, shapes, fills[(turn + i) % 5], options);
        }
    }
    suite.run();
}

#[test]
fn conv2d_of_every_type_in_groups() {
    let mut suite = Suite::new("conv2d_types");
    for dtype in Dtype::all() {
        for (groups, shapes) in [
            (1, ([2, 4, 5, 5], [6, 4, 3, 3])),
            (2, ([2, 4, 5, 5], [6, 2, 3, 3])),
            (4, ([1, 4, 6, 5], [4, 1, 3, 3])),
            (4, ([1, 4, 6, 5], [8, 1, 2, 2])),
            (3, ([1, 4, 6, 5], [6, 1, 2, 2])),
        ] {
            let options = Options { groups: Some(groups), padding: Some(vec![1]), ..Options::default() };
            add(&mut suite, dtype, shapes, Fill::Small, options);
        }
    }
    suite.run();
}

#[test]
fn conv2d_with_bias_and_activation() {
    let mut suite = Suite::new("conv2d_epilogues");
    for (turn, name) in ["relu", "gelu", "gelu-tanh", "silu", "sigmoid", "tanh", "swish"].into_iter().enumerate() {
        for dtype in [F32, Dtype::Bf16, Dtype::F64] {
            let (x, w) =
                (suite.input(dtype, &[2, 4, 5, 6], Fill::Even, 1), suite.input(dtype, &[7, 4, 2, 2], Fill::Even, 2));
            let bias = suite.input(dtype, &[if turn == 3 { 6 } else { 7 }], Fill::Even, 3);
            let options = Options { bias: true, activation: Some(name.to_owned()), ..Options::default() };
            suite.add("conv2d", &[&x, &w, &bias], options.clone());
            suite.add("conv2d", &[&x, &w], Options { bias: false, ..options });
        }
    }
    suite.run();
}
