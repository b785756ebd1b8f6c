//! The parameters of the kernels of this folder.

use warpfold_lang::{Kernel, Scalar, Strided, Val, params};

use super::problem::Problem;
use crate::layout::Layout;
use crate::matmul::{EpilogueArgs, Problem as Product, ProductSizes};
use crate::plan::{Operand, Planned, TensorSpec};

params! {
    /// Parameters of a convolution.
    pub(super) struct ConvArgs {
        /// Images, channels, rows, columns.
        images: Strided<4>,
        /// Filters, their elements.
        filters: Strided<2>,
        /// Elements from one group to the next.
        group_of_images: i64, group_of_filters: i64,
        /// Pixels of a row, and of a channel, of the result.
        result_width: u32, result_pixels: u32,
        product: ProductSizes,
        end: EpilogueArgs,
    }
}

/// A kernel of this folder.
pub(super) type Convolution = Kernel<ConvArgs>;

impl ConvArgs {
    /// Rows and columns of the product.
    pub(super) fn lines(&self) -> [Val<u32>; 2] {
        [self.product.m.get(), self.product.n.get()]
    }

    /// Where an image's channels of a group begin, in elements.
    pub(super) fn image(&self, group: Val<i64>, image: Val<i64>) -> Val<i64> {
        group * self.group_of_images + image * self.images.stride(0)
    }

    /// Elements of an image from one channel, row, column to the next.
    pub(super) fn steps<T: Scalar>(&self) -> [Val<T>; 3] {
        [1, 2, 3].map(|dim| self.images.stride(dim).cast())
    }
}

/// The arguments of a convolution as a product.
pub(super) fn args_of(
    problem: &Problem,
    product: &Product,
    [images, filters]: [Operand; 2],
    inputs: &[Operand],
) -> ConvArgs<Planned> {
    let Problem { dtype, layout, images: num, channels, size: [height, width], filters: num_filters, groups, .. } =
        *problem;
    let ([c, h, w], depth) = (layout.steps(channels, [height, width]), problem.depth());
    let tensor = |shape: &[u64], strides: &[u64]| {
        let shape = shape.iter().map(|size| *size as usize).collect();
        let strides = strides.iter().map(|stride| *stride as isize).collect();
        TensorSpec::new(dtype, Layout::new(shape, strides).expect("the problem was checked"), 0)
    };
    let [_, result_width] = problem.result_size();
    ConvArgs {
        images: tensor(&[num, channels, height, width], &[channels * height * width, c, h, w]).at(images),
        filters: tensor(&[num_filters, depth], &[depth, 1]).at(filters),
        group_of_images: (channels / groups * c) as i64,
        group_of_filters: (num_filters / groups * depth) as i64,
        result_width: result_width as u32,
        result_pixels: problem.num_pixels() as u32,
        product: product.sizes(product.k, 1),
        end: product.end(Operand::Output(0), inputs),
    }
}
