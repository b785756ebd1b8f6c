//! Every kernel of this crate, in the configurations that it ships: to be inspected, assembled and tested.

use crate::ladder::LADDERS;
use crate::{AnyKernel, conv, fold, gather, gemv, histogram, map, matmul, nms, operations, reductions, rowwise};

/// A kernel and where it belongs.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The kernel.
    pub kernel: AnyKernel,
    /// The ladder and the rung that it is, or the operator: `reduce/naive`, `gemv`.
    pub place: String,
    /// The block it is launched with.
    pub block: [u32; 3],
}

/// Every kernel, ladder by ladder, each rung for each element type.
#[must_use]
pub fn kernels() -> Vec<Listed> {
    let mut list = Vec::new();
    for ladder in LADDERS {
        for rung in ladder.rungs {
            let place = format!("{}/{}", ladder.name, rung.name);
            for launch in rung.launches {
                let block = (launch.config)(ladder.default_size).block;
                let kernels = ladder.dtypes.iter().map(|dtype| (launch.kernel)(*dtype));
                list.extend(kernels.map(|kernel| Listed { kernel, place: place.clone(), block }));
            }
        }
    }
    let shipped = [
        ("gemv", [gemv::BLOCK, 1, 1], gemv::kernels()),
        ("map", [map::BLOCK, 1, 1], operations::kernels()),
        ("gather", [gather::BLOCK, 1, 1], gather::kernels()),
    ];
    for (place, block, kernels) in shipped {
        list.extend(kernels.into_iter().map(|kernel| Listed { kernel, place: place.to_owned(), block }));
    }
    let of_blocks = [
        ("histogram", histogram::kernels()),
        ("scan", fold::scan_kernels()),
        ("segments", fold::segments_kernels()),
        ("rows", rowwise::operators::kernels()),
        ("reductions", few_reductions()),
        ("matmul", matmul::kernels()),
        ("conv", conv::kernels()),
    ];
    for (place, kernels) in of_blocks {
        let listed = |(kernel, block)| Listed { kernel, place: place.to_owned(), block: [block, 1, 1] };
        list.extend(kernels.into_iter().map(listed));
    }
    list.extend(nms::kernels().into_iter().map(|(block, kernel)| Listed { kernel, place: "nms".to_owned(), block }));
    list
}

/// A few of the kernels of reductions: all of them are assembled by the tests, but these are looked at.
fn few_reductions() -> Vec<(AnyKernel, u32)> {
    const NAMES: [&str; 4] =
        ["sum_f32_f32_rows", "argmax_i8_i64_rows", "mean_var_f32_f32_rows", "log_sum_exp_f32_f32_columns"];
    reductions::kernels().into_iter().filter(|(kernel, _)| NAMES.contains(&kernel.name())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kernel_has_a_name_of_its_own() {
        let list = kernels();
        let names: BTreeSet<_> = list.iter().map(|listed| listed.kernel.name().to_owned()).collect();
        assert_eq!(names.len(), list.len());
    }
}
