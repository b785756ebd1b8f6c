//! The sizes of a convolution in the rungs' kernels: images `n c h w`, filters `k r s`, strides,
//! padding.

use half::{bf16, f16};
use warpfold_lang::{Array, Global, Multiplicand, Shared, Val};

use crate::row::RowElement;

/// Words of the sizes: `n c h w k r s u v p q`, in the order of the catalogue, then height and
/// width of the result.
pub const WORDS: usize = 13;

/// An element type that tensor cores multiply, in `f32`: f16, bf16, and f32 as tf32.
pub trait Factor: RowElement + Multiplicand<Sum = f32> {
    /// Begins to copy 16 bytes; zeros where the condition does not hold.
    fn copy_piece(from: Global<Self>, to: Shared<Self>, condition: Val<bool>);
}

macro_rules! factors {
    ($($factor:ty, $elements:literal;)*) => {$(
        impl Factor for $factor {
            #[track_caller]
            fn copy_piece(from: Global<Self>, to: Shared<Self>, condition: Val<bool>) {
                to.copy_async_or_zero::<$elements>(from, condition);
            }
        }
    )*};
}

factors! {
    f32, 4;
    f16, 8;
    bf16, 8;
}

/// The sizes, while a kernel is recorded.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    words: Array<u32, WORDS>,
}

/// Position in an image that a pixel of the result reads.
#[derive(Clone, Copy)]
pub(super) struct Place {
    image: Val<u32>,
    /// The pixel in the result's channel.
    pixel: Val<u32>,
    corner: [Val<i32>; 2],
}

impl Shape {
    pub(super) fn of(words: Array<u32, WORDS>) -> Self {
        Self { words }
    }

    /// Filters: rows of the product.
    pub(super) fn filters(self) -> Val<u32> {
        self.words.at(4)
    }

    /// Elements of a filter: the length of a sum.
    pub(super) fn depth(self) -> Val<u32> {
        self.channels() * self.words.at(5) * self.words.at(6)
    }

    /// Channels of an image.
    pub(super) fn channels(self) -> Val<u32> {
        self.words.at(1)
    }

    /// Elements of a filter's channel.
    pub(super) fn elements(self) -> Val<u32> {
        self.words.at(5) * self.words.at(6)
    }

    /// Pixels of the result's channel.
    fn pixels_of_image(self) -> Val<u32> {
        self.words.at(11) * self.words.at(12)
    }

    /// Pixels of all images: columns of the product.
    pub(super) fn pixels(self) -> Val<u32> {
        self.words.at(0) * self.pixels_of_image()
    }

    /// Returns the position that a column of the product reads.
    pub(super) fn place(self, column: Val<u32>) -> Place {
        let image = column / self.pixels_of_image();
        let pixel = column % self.pixels_of_image();
        let corner = [pixel / self.words.at(12), pixel % self.words.at(12)];
        let corner =
            [0, 1].map(|i| (corner[i] * self.words.at(7 + i)).cast::<i32>() - self.words.at(9 + i).cast::<i32>());
        Place { image, pixel, corner }
    }

    /// Loads the input of a filter's element: zero outside the image, and where the condition does
    /// not hold.
    pub(super) fn get<T: RowElement>(self, x: Global<T>, at: Place, l: Val<u32>, condition: Val<bool>) -> Val<f32> {
        let [channels, height, width] = [1, 2, 3].map(|word| self.words.at(word));
        let (rest, column) = (l / self.words.at(6), l % self.words.at(6));
        let (channel, row) = (rest / self.words.at(5), rest % self.words.at(5));
        let row = (at.corner[0] + row.cast::<i32>()).cast::<u32>();
        let column = (at.corner[1] + column.cast::<i32>()).cast::<u32>();
        let position = ((at.image * channels + channel) * height + row) * width + column;
        // Of a number below 0 the bits are those of a large one.
        x.at(position).get_or(T::ZERO, condition & row.lt(height) & column.lt(width)).cast()
    }

    /// Begins to copy the piece of channels that a step begins, of images whose channels are behind
    /// the pixels; zeros where they are not there.
    pub(super) fn copy_channels<T: Factor>(self, x: Global<T>, at: Place, l: Val<u32>, to: Shared<T>) {
        let [images, channels, height, width] = [0, 1, 2, 3].map(|word| self.words.at(word));
        let (element, channel) = (l / channels, l % channels);
        let row = (at.corner[0] + (element / self.words.at(6)).cast::<i32>()).cast::<u32>();
        let column = (at.corner[1] + (element % self.words.at(6)).cast::<i32>()).cast::<u32>();
        let is_there = at.image.lt(images) & row.lt(height) & column.lt(width) & l.lt(self.depth());
        let position = ((at.image * height + row) * width + column) * channels + channel;
        T::copy_piece(x.at(position), to, is_there);
    }

    /// Begins to copy a piece of a filter's weights; zeros where they are not there.
    pub(super) fn copy_weights<T: Factor>(self, weights: Global<T>, filter: Val<u32>, l: Val<u32>, to: Shared<T>) {
        let is_there = filter.lt(self.filters()) & l.lt(self.depth());
        T::copy_piece(weights.at(filter * self.depth() + l), to, is_there);
    }

    /// The position of an element of the result.
    pub(super) fn output(self, filter: Val<u32>, at: Place) -> Val<u32> {
        (at.image * self.filters() + filter) * self.pixels_of_image() + at.pixel
    }

    /// Returns the im2col offsets of an element of a filter's channel: across and down.
    pub(super) fn offsets(self, element: Val<u32>) -> [Val<u16>; 2] {
        let width = self.words.at(6);
        [element % width, element / width].map(Val::cast::<u16>)
    }

    /// Stores the sums of a tile that begins at a pixel and a filter, neighbours of a row each,
    /// where they are inside, with the filters side by side.
    pub(super) fn set_pairs<T: Factor>(
        self,
        y: Global<T>,
        pixel: Val<u32>,
        filter: Val<u32>,
        pairs: impl IntoIterator<Item = (Val<u32>, Val<u32>, [Val<f32>; 2])>,
    ) {
        for (row, column, pair) in pairs {
            let (pixel, filter) = (pixel + row, filter + column);
            for (filter, sum) in [filter, filter + 1].into_iter().zip(pair) {
                let is_inside = pixel.lt(self.pixels()) & filter.lt(self.filters());
                y.at(pixel * self.filters() + filter).set_if(sum.cast::<T>(), is_inside);
            }
        }
    }
}

impl Place {
    /// The first pixel under the filter with a channel, as a copy in im2col mode takes it:
    /// innermost dimension first.
    pub(super) fn coordinates(self, channel: Val<u32>) -> [Val<u32>; 4] {
        let [down, across] = self.corner.map(Val::cast::<u32>);
        [channel, across, down, self.image]
    }
}
