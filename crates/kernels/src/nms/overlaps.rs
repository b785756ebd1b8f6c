//! A bit for each pair of boxes: whether the first, if it is kept, suppresses the second.

use warpfold_lang::{
    Global, Shared, Val, block_idx, kernel, range, shared_named, sync_threads, thread_idx, var, wait_for_dependencies,
    when,
};

use super::{GROUP, NmsArgs};
use crate::AnyKernel;

/// Block `x, y` leaves the `x`-th word of the `y`-th 64 boxes, both from the first box on: bit `b`
/// of word `w` of box `i` is for the pair `i` and `64 w + b`. Words left of the diagonal are left
/// out, bits left of it are 0.
pub(super) fn overlaps() -> AnyKernel {
    let body = |args: NmsArgs| {
        let NmsArgs { sorted: boxes, suppressed, bits, num_boxes, num_words, first, threshold, .. } = args;
        wait_for_dependencies();
        // Shared-memory map
        let others = [0; 4].map(|_| shared_named::<f32>("others", GROUP));
        // Roles
        let thread = thread_idx().x;
        let (word, group) = (first / GROUP + block_idx().x, first / GROUP + block_idx().y);
        when(word.ge(group), || {
            // Load
            let other = word * GROUP + thread;
            let theirs = load(boxes, other, other.lt(num_boxes));
            others.iter().zip(theirs).for_each(|(others, side)| others.at(thread).set(side));
            sync_threads();
            // Compare
            let i = group * GROUP + thread;
            when(i.lt(num_boxes), || {
                let found = var(0_u64);
                let is_alive = ((suppressed.at(group).get() >> thread) & 1).eq(0);
                when(is_alive, || {
                    let mine = load(boxes, i, Val::constant(true));
                    found.set(pairs(mine, others, threshold));
                    // Of its own group a box suppresses only those after it.
                    when(word.eq(group), || found.set(found.get() & (Val::constant(!1_u64) << thread)));
                });
                // Epilogue
                bits.at((i - first).mul_wide(num_words)).at(word).set(found);
            });
        });
    };
    kernel("nms_overlaps", body).required_block(GROUP).into()
}

fn load(boxes: Global<f32>, i: Val<u32>, condition: Val<bool>) -> [Val<f32>; 4] {
    boxes.at(i.mul_wide(4)).get_vec_or::<4>(0.0, condition)
}

/// A bit for each of the other boxes.
fn pairs(mine: [Val<f32>; 4], others: [Shared<f32>; 4], threshold: Val<f32>) -> Val<u64> {
    let area = |[x1, y1, x2, y2]: [Val<f32>; 4]| (x2 - x1 + 1.0) * (y2 - y1 + 1.0);
    let my_area = area(mine);
    let found = var(0_u64);
    range(0_u32, GROUP, 4_u32, |first| {
        for n in 0..4_u32 {
            let other = others.map(|side| side.at(first).at(n).get());
            let width = (mine[2].min(other[2]) - mine[0].max(other[0]) + 1.0).max(0.0);
            let height = (mine[3].min(other[3]) - mine[1].max(other[1]) + 1.0).max(0.0);
            let common = width * height;
            let overlap = common / (my_area + area(other) - common);
            found.set(found.get() | (overlap.gt(threshold).cast::<u64>() << (first + n)));
        }
    });
    found.get()
}
