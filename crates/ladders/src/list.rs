//! Every kernel of a ladder, and beside them those that ship: to be inspected, assembled and
//! tested.

use warpfold_kernels::{Listed, kernels};

use crate::ladder::LADDERS;

/// The kernels of every rung, ladder by ladder, for each element type. What a ladder shares with
/// the library is among them.
#[must_use]
pub fn rungs() -> Vec<Listed> {
    let mut list = Vec::new();
    for ladder in LADDERS {
        for rung in ladder.rungs {
            let place = format!("{}/{}", ladder.name, rung.name);
            for launch in rung.launches {
                let block = (launch.config)(ladder.default_size).block;
                let dtypes = launch.dtypes.unwrap_or(ladder.dtypes);
                let kernels = dtypes.iter().flat_map(|dtype| launch.kernels(*dtype));
                list.extend(kernels.map(|kernel| Listed::new(kernel, &place, block)));
            }
        }
    }
    list
}

/// Every kernel: those of the [rungs], then those that [ship](warpfold_kernels::kernels).
#[must_use]
pub fn all_kernels() -> Vec<Listed> {
    rungs().into_iter().chain(kernels()).collect()
}
