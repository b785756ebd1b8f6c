//! Implicit im2col: tiles of the matrix that filters are multiplied with, gathered from the image.
//! The matrix itself is never in memory.

use warpfold_lang::{Global, Val};

use super::geometry::{Geometry, Tap};
use crate::Dtype;
use crate::elements;
use crate::matmul::{Accumulator, LoadUnit, TileLoader, Unit, Units};

/// An image at a block's place in the batch, as kernels see it.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    /// The first element of the group's first channel.
    pub(super) first: Global<u8>,
    /// From one channel, row, column to the next.
    pub(super) strides: [Val<i32>; 3],
    /// Height and width.
    pub(super) size: [Val<u32>; 2],
}

impl Image {
    /// `n` neighbouring channels from a filter's element on, where its corner is there; zeros
    /// outside the image, and where `more` does not hold.
    pub(super) fn get<A: Accumulator>(
        &self,
        corner: [Val<i32>; 2],
        tap: Tap,
        more: Option<Val<bool>>,
        n: u32,
    ) -> Vec<Val<A>> {
        let dilation = self.geometry.window.dilation;
        let [row, column] = [0, 1].map(|i| corner[i] + (tap.place[i] * dilation[i]).cast::<i32>());
        // Of a number below 0 the bits are those of a large one.
        let inside = row.cast::<u32>().lt(self.size[0]) & column.cast::<u32>().lt(self.size[1]);
        let inside = more.map_or(inside, |more| inside & more);
        let [of_channel, of_row, of_column] = self.strides;
        let offset = tap.channel.cast::<i32>() * of_channel + row * of_row + column * of_column;
        // Outside, the first element is loaded instead of none.
        let offset = inside.select::<i32>(offset, 0).cast::<i64>() * self.dtype.bytes() as i64;
        let values = elements::load::<A, _>(self.dtype, self.first.at(offset), n, n > 1);
        values.into_iter().map(|value| inside.select::<A>(value, A::ZERO)).collect()
    }
}

/// The pixels of a block's tile of the result, as the main loop takes them.
pub(super) struct Pixels<A: Accumulator> {
    image: Image,
    units: Units<A>,
    /// The corner of each unit's pixel. Beyond the last pixel it is the last: what comes of it is
    /// not stored.
    corners: Vec<[Val<i32>; 2]>,
    /// Neighbouring channels of a load.
    width: u32,
    has_rest: bool,
}

impl<A: Accumulator> Pixels<A> {
    /// The pixels from `first` on, of `num_pixels` in rows of `row`.
    pub(super) fn new(
        image: Image,
        units: Units<A>,
        [first, num_pixels, row]: [Val<u32>; 3],
        width: u32,
        has_rest: bool,
    ) -> Self {
        let corner = |unit: &Unit| image.geometry.corner((first + unit.line).min(num_pixels - 1), row);
        let corners = units.units.iter().map(corner).collect();
        Self { image, units, corners, width, has_rest }
    }
}

impl<A: Accumulator> TileLoader<A> for Pixels<A> {
    fn units(&self) -> &Units<A> {
        &self.units
    }

    fn tile_at(&self, step: Val<u32>) -> LoadUnit<'_, A> {
        Box::new(move |index, _| {
            let l = step + self.units.units[index].deep;
            let more = self.has_rest.then(|| l.lt(self.image.geometry.depth()));
            Some(self.image.get(self.corners[index], self.image.geometry.tap(l), more, self.width))
        })
    }
}
