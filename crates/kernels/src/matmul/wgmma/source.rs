//! What TMA loads as tiles of a factor: a matrix, or for a convolution pixels (im2col) and filters.

use warpfold_lang::{
    Cursor, Element, Multiplicand, Operand, Pipeline, Swizzle, TensorMap, Tile, Tiles, Val, fence_async,
    linear_thread_idx, range, tiles,
};

use crate::matmul::operand_major::OperandMajor;
use crate::matmul::simt::divide;
use crate::matmul::tile_scheduler::TileWork;

/// How filters walk over images with channels last: what the kernel knows when it is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Im2col {
    /// Bytes of a row of a stage, one swizzle long: 32, 64 or 128.
    pub row_bytes: u32,
    /// Stages of the sums that the channels of a filter's element take.
    pub stages_of_channels: u32,
    /// Elements of a filter's row.
    pub filter_width: u32,
    /// From position to position: down and across.
    pub stride: [u32; 2],
    /// Zeros before the image.
    pub padding: [u32; 2],
    /// From element to element of the filter.
    pub dilation: [u32; 2],
    /// Whether the result's channels are planes, so that rows of the product are pixels of image
    /// after image.
    pub has_planes: bool,
}

impl Im2col {
    /// As part of a kernel's name.
    pub(super) fn key(&self) -> String {
        let Self { row_bytes, stages_of_channels, filter_width, .. } = self;
        let Self { stride: [u, v], padding: [a, b], dilation: [d, e], has_planes, .. } = self;
        let planes = if *has_planes { "_planes" } else { "" };
        format!("conv{row_bytes}_{stages_of_channels}_{filter_width}_s{u}x{v}_p{a}x{b}_d{d}x{e}{planes}")
    }

    /// How a stage's tiles are swizzled.
    pub(super) const fn swizzle(&self) -> Swizzle {
        match self.row_bytes {
            32 => Swizzle::Bytes32,
            64 => Swizzle::Bytes64,
            _ => Swizzle::Bytes128,
        }
    }
}

/// A factor: how it is copied, and how it is multiplied.
pub(super) struct Factor<T> {
    pub(super) map: TensorMap<T>,
    pub(super) major: OperandMajor,
    stages: Tiles<T>,
    panels: u32,
    source: Source,
}

/// What a factor is.
pub(super) enum Source {
    /// A matrix; strides in the dimensions of a batch, if there is one.
    Matrix(Vec<Val<i64>>),
    /// The pixels that an element of the filters meets, one for each line: images by a map in
    /// im2col mode (PTX ISA, "Im2col mode"). Height and width of the result.
    Pixels(Im2col, [Val<u32>; 2]),
    /// Filters, one per line: channels, elements, filters.
    Filters(Im2col),
}

/// The first line of a copy.
#[derive(Clone, Copy)]
pub(super) struct Line {
    number: Val<u32>,
    /// Of pixels: the corner of what the filter sees there, across and down, and the image.
    pixel: Option<[Val<u32>; 3]>,
}

/// Where a copy arrives: a stage's barrier, and the blocks of the cluster that it goes to, if to
/// several.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) pipeline: Pipeline,
    pub(super) at: Cursor,
    pub(super) blocks: Option<u16>,
}

/// Where a copy goes.
#[derive(Clone, Copy)]
pub(super) enum CopyTarget {
    /// To a stage.
    Stage(Arrival),
    /// To L2: of matrices only.
    Cache,
}

impl<T: Multiplicand> Factor<T> {
    pub(super) fn new(
        map: TensorMap<T>,
        major: OperandMajor,
        [stages, panels]: [u32; 2],
        [lines, depth]: [u32; 2],
        source: Source,
    ) -> Self {
        let (rows, columns) = if major == OperandMajor::K { (lines, depth) } else { (depth, lines) };
        let swizzle = match &source {
            Source::Matrix(_) => Swizzle::Bytes128,
            Source::Pixels(im2col, _) | Source::Filters(im2col) => im2col.swizzle(),
        };
        Self { map, major, stages: tiles(stages * panels, rows, columns, swizzle), panels, source }
    }

    /// A panel of the stage at which a thread is.
    pub(super) fn panel(&self, at: Cursor, panel: u32) -> Tile<T> {
        self.stages.at(if self.panels == 1 { at.stage() } else { at.stage() * self.panels + panel })
    }

    /// The first panel of the first stage: what a copy to nowhere looks like.
    pub(super) fn first_panel(&self) -> Tile<T> {
        self.stages.at(0)
    }

    /// The room of the stages for tiles of other elements, when nothing reads or copies any more.
    pub(super) fn lend<U: Element>(&self, num: u32, rows: u32, columns: u32, swizzle: Swizzle) -> Tiles<U> {
        self.stages.lend(num, rows, columns, swizzle)
    }

    /// Makes all lines of every stage from one on zero, by all threads of the block: no copy brings
    /// them.
    pub(super) fn clear_from(&self, first: u32, threads: u32) {
        let piece = 16 / T::BYTES;
        for stage in 0..self.stages.len() {
            let tile = self.stages.at(stage);
            let pieces = tile.columns() / piece;
            range(linear_thread_idx(), (tile.rows() - first) * pieces, threads, |i| {
                let place = tile.at(i / pieces + first, i % pieces * piece);
                place.reinterpret::<u32>().set_vec([0_u32; 4]);
            });
        }
        fence_async();
    }

    pub(super) fn lines_from(&self, tile: Tile<T>, first: Val<u32>, num: u32) -> Tile<T> {
        if self.major == OperandMajor::K { tile.rows_from(first, num) } else { tile.columns_from(first, num) }
    }

    /// The line with a number: once for all steps, since it divides.
    pub(super) fn line(&self, number: Val<u32>) -> Line {
        let pixel = match &self.source {
            Source::Pixels(im2col, [height, width]) => {
                let (rest, across) = divide(number, *width);
                let (image, down) = divide(rest, *height);
                let start = |place: Val<u32>, i: usize| place * im2col.stride[i] - im2col.padding[i];
                Some([start(across, 1), start(down, 0), image])
            }
            Source::Matrix(_) | Source::Filters(_) => None,
        };
        Line { number, pixel }
    }

    /// Copies lines from one on and steps from `step` on, as many as a place has, to there or
    /// elsewhere.
    pub(super) fn copy(
        &self,
        to: Tile<T>,
        Line { number: line, pixel }: Line,
        step: Val<u32>,
        work: &TileWork,
        target: CopyTarget,
    ) {
        match &self.source {
            Source::Matrix(batch) => {
                let (row, column) = if self.major == OperandMajor::K { (line, step) } else { (step, line) };
                for (right, panel) in to.panels() {
                    let place = [column + right, row];
                    if batch.is_empty() {
                        self.load(panel, place, target);
                        continue;
                    }
                    // Where the matrix repeats, its map has one position.
                    let dim = |dim: usize| batch[dim].eq(0).select(0_u32, work.position.each[dim]);
                    self.load(panel, [place[0], place[1], dim(2), dim(1), dim(0)], target);
                }
            }
            Source::Pixels(im2col, _) => {
                let corner = pixel.expect("lines of pixels have one");
                self.copy_pixels(to, corner, step, im2col, target);
            }
            Source::Filters(im2col) => {
                let (element, channels) = divide_by(step / to.columns(), im2col.stages_of_channels);
                let (_, panel) = to.panels().next().expect("a tile has a panel");
                self.load(panel, [channels * to.columns(), element, line], target);
            }
        }
    }

    /// One element of the filter: the box begins at the pixel of the first line, and the copy walks
    /// on by itself.
    fn copy_pixels(
        &self,
        to: Tile<T>,
        [across, down, image]: [Val<u32>; 3],
        step: Val<u32>,
        im2col: &Im2col,
        target: CopyTarget,
    ) {
        let (element, channels) = divide_by(step / to.columns(), im2col.stages_of_channels);
        let (r, s) = divide_by(element, im2col.filter_width);
        let offset = |place: Val<u32>, i: usize| (place * im2col.dilation[i]).cast::<u16>();
        let at = [channels * to.columns(), across, down, image];
        let (_, panel) = to.panels().next().expect("a tile has a panel");
        let CopyTarget::Stage(Arrival { pipeline, at: stage, blocks: None }) = target else {
            unreachable!("pixels go to a stage of one block")
        };
        let barrier = pipeline.full(stage);
        self.map.load_im2col(panel, at, [offset(s, 1), offset(r, 0)], barrier);
    }

    fn load<const D: usize>(&self, panel: warpfold_lang::Shared<T>, at: [Val<u32>; D], target: CopyTarget) {
        match target {
            CopyTarget::Cache => self.map.prefetch_box(at),
            CopyTarget::Stage(Arrival { pipeline, at: stage, blocks: None }) => {
                self.map.load(panel, at, pipeline.full(stage))
            }
            CopyTarget::Stage(Arrival { pipeline, at: stage, blocks: Some(blocks) }) => {
                self.map.load_multicast(panel, at, pipeline.full(stage), blocks);
            }
        }
    }
}

/// [`divide`] by a number that the kernel is built for.
fn divide_by(number: Val<u32>, by: u32) -> (Val<u32>, Val<u32>) {
    if by == 1 { (number, Val::constant(0)) } else { divide(number, by.val()) }
}
