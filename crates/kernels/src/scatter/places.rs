//! The kernel that makes places of a table of indices: what is sorted.

use warpfold_lang::{Global, block_idx, kernel, params, thread_idx, var, wait_for_dependencies, when};

use super::{BLOCK, RANK};
use crate::elements::{load_position, store};
use crate::{AnyKernel, Dtype};

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PlacesConfig {
    /// The type of the indices.
    pub(super) indices: Dtype,
    /// The type of the places: without a sign, and with room for one that no table has.
    pub(super) keys: Dtype,
    /// Indices of as many axes as the table: their own position counts, too.
    pub(super) by_element: bool,
}

params! {
    /// Parameters of the kernel.
    pub(super) struct PlaceArgs {
        indices: Global<u8>, count: u64, bad_position: Global<u64>,
        /// The places.
        keys: Global<u8>,
        /// Of the table's axis that indices count along.
        size: u64,
        /// From one position of it to the next.
        stride: u64,
        /// Sizes of the indices, and from one position of an axis to the next in the table.
        shape: [u64; RANK], steps: [u64; RANK],
        /// Of the indices.
        last_axis: u32,
    }
}

pub(super) fn kernel_of(config: &PlacesConfig) -> AnyKernel {
    let PlacesConfig { indices: dtype, keys: key_type, by_element } = *config;
    let body = move |args: PlaceArgs| {
        let PlaceArgs { indices, keys, bad_position, count, size, stride, shape, steps, last_axis } = args;
        wait_for_dependencies();
        // Contract: a thread for each index.
        let i = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        when(i.lt(count), || {
            let position = load_position(dtype, indices.at(i * dtype.bytes()), size);
            let is_there = position.lt(size);
            when(!is_there, || bad_position.reduction().min(i));
            let place = var(position * stride);
            if by_element {
                let rest = var(i);
                for axis in (0..RANK).rev() {
                    when(last_axis.ge(axis as u32), || {
                        let quotient = rest.get() / shape.at(axis);
                        let coordinate = rest.get() - quotient * shape.at(axis);
                        place.update(|place| place + coordinate * steps.at(axis));
                        rest.set(quotient);
                    });
                }
            }
            // Above all places of a table.
            let key = is_there.select::<u64>(place.get(), u64::MAX);
            store(key_type, keys.at(i * key_type.bytes()), &[key], false);
        });
    };
    let kind = if by_element { "elements" } else { "parts" };
    kernel(format!("scatter_places_{kind}_{dtype}_{key_type}"), body).required_block(BLOCK).into()
}
