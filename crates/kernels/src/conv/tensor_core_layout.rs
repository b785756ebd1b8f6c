//! The layout in which TMA reads images and filters for tensor cores: as they are, or repacked.
//!
//! TMA in im2col mode takes channels last, in pieces of 16 bytes. A stage of K has 128 bytes of a
//! pixel's channels, however few there are. So where channels are few, a row of the filter counts
//! as one element, whose channels are those of all its pixels together: a tensor map whose pixels
//! overlap describes that. Rows of the images then need their zeros in memory, since the copy does
//! not see where a row ends.

use super::problem::{Layout, Problem};
use crate::plan::TensorSpec;
use crate::repack::{ChannelsLast, RepackConfig};

/// Bytes of a row of a stage at most.
const ROW_BYTES: u64 = 128;
/// What starts and steps of copies are multiples of.
const PIECE_BYTES: u64 = 16;

/// Images and filters as tensor cores see them. Sizes are counted in elements and pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TensorCoreLayout {
    element_bytes: u64,
    images: [u64; 2],
    filters: [u64; 2],
    filter: [u64; 2],
    /// Channels in memory.
    channels: u64,
    /// Channels of a pixel as the product sees them.
    line: u64,
    /// Pixels of a row of the images in memory, and of a row of a filter.
    widths: [u64; 2],
    /// Zeros before a row of the images.
    left: u64,
    is_merged: bool,
    needs_repack: bool,
}

impl TensorCoreLayout {
    /// The one of fewest stages; images and filters that lie as copies need them are left where
    /// they are unless that halves the stages.
    pub(super) fn of(problem: &Problem) -> Self {
        let plain = Self::plain(problem);
        let Some(merged) = Self::merged(problem) else { return plain };
        let (stages, fewer) = (plain.stage_bytes(), merged.stage_bytes());
        let is_better = if merged.needs_repack && !plain.needs_repack { 2 * fewer <= stages } else { fewer < stages };
        if is_better { merged } else { plain }
    }

    /// Each element of the filter by itself.
    fn plain(problem: &Problem) -> Self {
        let Problem { layout, images, channels, size, filters, filter, .. } = *problem;
        let element_bytes = problem.dtype.bytes();
        let padded = channels.next_multiple_of(PIECE_BYTES / element_bytes);
        Self {
            element_bytes,
            images: [images, size[0]],
            filters: [filters, filter[0]],
            filter,
            channels: padded,
            line: padded,
            widths: [size[1], filter[1]],
            left: 0,
            is_merged: false,
            needs_repack: layout == Layout::Nchw || padded != channels,
        }
    }

    /// A row of the filter as one element, if its pixels lie side by side.
    fn merged(problem: &Problem) -> Option<Self> {
        let Problem { layout, channels, size, filter, window, .. } = *problem;
        if window.dilation[1] != 1 || filter[1] == 1 {
            return None;
        }
        let plain = Self::plain(problem);
        let piece = PIECE_BYTES / plain.element_bytes;
        // From one pixel of the result to the next there are whole pieces.
        let of_step = piece / piece.min(1 << u64::from(window.stride[1]).trailing_zeros().min(4));
        // A repack writes 8 bytes at least.
        let padded = channels.next_multiple_of(of_step.max(8 / plain.element_bytes));
        let padded = if padded * plain.element_bytes == 8 { padded } else { channels.next_multiple_of(piece) };
        let whole = |width: u64| (width..).find(|width| (width * padded).is_multiple_of(piece)).unwrap_or(width);
        let padding = u64::from(window.padding[1]);
        let widths = [whole(size[1] + 2 * padding), whole(filter[1])];
        let needs_repack = layout == Layout::Nchw || padded != channels || widths != [size[1], filter[1]];
        Some(Self {
            filter: [filter[0], 1],
            channels: padded,
            // Not the zeros of filters: beside them lie pixels, which need not be finite.
            line: filter[1] * padded,
            widths,
            left: padding,
            is_merged: true,
            needs_repack,
            ..plain
        })
    }

    /// Whether images and filters are repacked.
    pub(super) const fn needs_repack(&self) -> bool {
        self.needs_repack
    }

    /// Whether a row of the filter counts as one element.
    pub(super) const fn is_merged(&self) -> bool {
        self.is_merged
    }

    /// Height and width of a filter.
    pub(super) const fn filter(&self) -> [u64; 2] {
        self.filter
    }

    /// Channels in memory.
    pub(super) const fn channels(&self) -> u64 {
        self.channels
    }

    /// Pixels of a row of the images in memory.
    pub(super) const fn width(&self) -> u64 {
        self.widths[0]
    }

    /// Elements from one element of a filter to the next.
    pub(super) const fn filter_pitch(&self) -> u64 {
        if self.is_merged { self.widths[1] * self.channels } else { self.channels }
    }

    /// Channels of a pixel as the product sees them.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// Bytes of a row of a stage.
    pub(super) fn row_bytes(&self) -> u32 {
        (self.line * self.element_bytes).next_power_of_two().clamp(32, ROW_BYTES) as u32
    }

    /// Stages of the channels of a filter's element.
    pub(super) fn stages(&self) -> u64 {
        (self.line * self.element_bytes).div_ceil(self.row_bytes().into())
    }

    fn stage_bytes(&self) -> u64 {
        self.filter[0] * self.filter[1] * self.stages() * u64::from(self.row_bytes())
    }

    /// Steps of the sums.
    pub(super) fn depth(&self) -> u64 {
        self.stage_bytes() / self.element_bytes
    }

    /// Pixels of images and filters in memory.
    pub(super) fn pixels(&self) -> [u64; 2] {
        let [of_images, of_filters] = [self.images, self.filters].map(|sizes| sizes.iter().product::<u64>());
        [of_images * self.widths[0], of_filters * self.widths[1]]
    }

    /// Bytes of images and filters in memory.
    pub(super) fn bytes(&self) -> [u64; 2] {
        self.pixels().map(|pixels| pixels * self.channels * self.element_bytes)
    }

    /// The launch that repacks them.
    pub(super) fn repack(&self, problem: &Problem) -> ChannelsLast {
        let Problem { dtype, layout, images, channels, size, filters, filter, .. } = *problem;
        let tensor = |num: u64, size: [u64; 2]| {
            let [c, h, w] = layout.steps(channels, size);
            let shape = [num, channels, size[0], size[1]].map(|size| size as usize).to_vec();
            let strides = [channels * size[0] * size[1], c, h, w].map(|stride| stride as isize).to_vec();
            TensorSpec::new(dtype, crate::layout::Layout::new(shape, strides).expect("a problem is counted"), 0)
        };
        ChannelsLast {
            config: RepackConfig {
                element_bytes: self.element_bytes as u32,
                channels: channels as u32,
                padded: self.channels as u32,
            },
            tensors: [tensor(images, size), tensor(filters, filter)],
            widths: self.widths,
            left: self.left,
            pixels: self.pixels(),
        }
    }
}
