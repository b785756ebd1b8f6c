//! Options of an operator.

use warpfold_kernels::Dtype;

use crate::Axes;

macro_rules! options {
    ($($(#[$doc:meta])* $choice:ident $name:literal $field:ident: $ty:ty;)*) => {
        /// One of the options.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Choice {
            $($(#[$doc])* $choice,)*
        }

        impl Choice {
            /// Returns the name on the command line: `keepdims`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$choice => $name,)*
                }
            }
        }

        /// The options of an operator; what is not chosen is left to it.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Options {
            $($(#[$doc])* pub $field: Option<$ty>,)*
        }

        impl Options {
            /// Iterates over the options that are set.
            pub fn chosen(&self) -> impl Iterator<Item = Choice> {
                [$((self.$field.is_some(), Choice::$choice)),*].into_iter().filter(|entry| entry.0).map(|entry| entry.1)
            }
        }
    };
}

options! {
    /// Axes to work along; negative ones count from the end.
    Axes "axes" axes: Vec<isize>;
    /// Keep folded axes, of size 1.
    Keepdims "keepdims" keepdims: bool;
    /// Small number added to denominators to avoid a division by zero.
    Eps "eps" eps: f64;
    /// Take the last of equal elements, not the first.
    Last "last" last: bool;
    /// Number of largest elements to return.
    K "k" k: usize;
    /// Each result without its own element.
    Exclusive "exclusive" exclusive: bool;
    /// From the end.
    Reverse "reverse" reverse: bool;
    /// The result's element type.
    Dtype "dtype" dtype: Dtype;
    /// Pass over NaN.
    IgnoreNan "ignore-nan" ignore_nan: bool;
    /// Correction of a variance: its divisor is the count minus this number.
    Ddof "ddof" ddof: usize;
    /// First the mean, then the distances from it.
    TwoPass "two-pass" two_pass: bool;
    /// Bins of a histogram.
    Bins "bins" bins: usize;
    /// Overlap above which a box is suppressed.
    Threshold "threshold" threshold: f64;
    /// The label that has no loss.
    IgnoreIndex "ignore-index" ignore_index: i64;
    /// The matrix by its columns.
    Transpose "transpose" transpose: bool;
    /// The factor.
    Alpha "alpha" alpha: f64;
    /// The addend.
    Beta "beta" beta: f64;
    /// The left matrix by its columns.
    TransposeA "transpose-a" transpose_a: bool;
    /// The right matrix by its columns.
    TransposeB "transpose-b" transpose_b: bool;
    /// An input after the matrices has scales of the left one: one number, or one for each row.
    ScaleA "scale-a" scale_a: bool;
    /// The next input has scales of the right one: one number, or one for each column.
    ScaleB "scale-b" scale_b: bool;
    /// The next input has one number that the result is multiplied by.
    ScaleResult "scale-result" scale_result: bool;
    /// The last input is a bias.
    Bias "bias" bias: bool;
    /// Activation applied to the result: relu, gelu, gelu-tanh, silu, sigmoid or tanh.
    Activation "activation" activation: String;
    /// Pixels from one position of a filter to the next: one number, or one down and one across.
    Stride "stride" stride: Vec<usize>;
    /// Zeros on either side of an image, likewise.
    Padding "padding" padding: Vec<usize>;
    /// Pixels from one element of a filter to the next, likewise.
    Dilation "dilation" dilation: Vec<usize>;
    /// Groups of channels.
    Groups "groups" groups: usize;
    /// Alignment of the causal mask: bottom-right or top-left.
    Causal "causal" causal: String;
    /// The factor of scores.
    Scale "scale" scale: f64;
    /// Soft cap of the scores.
    Softcap "softcap" softcap: f64;
    /// Keys that a query sees.
    Window "window" window: usize;
    /// Keys that a query sees before its own position at most; -1 for all.
    WindowLeft "window-left" window_left: i64;
    /// Keys that a query sees after its own position at most; -1 for all.
    WindowRight "window-right" window_right: i64;
    /// Order of tokens and heads in a page: nhd or hnd.
    PageLayout "page-layout" page_layout: String;
    /// Pairs are neighbours, not those at the same place of both halves.
    Interleaved "interleaved" interleaved: bool;
    /// Elements of a head that are turned.
    RotaryDim "rotary-dim" rotary_dim: usize;
    /// Heads of a tensor of three axes.
    NumHeads "num-heads" num_heads: usize;
    /// The scale of the queries.
    ScaleQ "scale-q" scale_q: f64;
    /// The scale of the keys.
    ScaleK "scale-k" scale_k: f64;
    /// The scale of the values.
    ScaleV "scale-v" scale_v: f64;
    /// Input type of the tensor cores: f8e4m3.
    Products "products" products: String;
    /// Memory layout of images (nchw or nhwc) or of heads (bhsd or bshd).
    Layout "layout" layout: String;
    /// Initial value of a reduction: added to a sum, compared with a maximum.
    Initial "initial" initial: f64;
    /// The last input says where segments begin.
    Offsets "offsets" offsets: bool;
    /// Elements of a window: one number, or one per axis.
    Kernel "kernel" kernel: Vec<usize>;
    /// Windows that share the axes evenly, likewise.
    OutputSize "output-size" output_size: Vec<usize>;
    /// Factors by which axes grow, likewise.
    ScaleFactor "scale-factor" scale_factor: Vec<f64>;
    /// A last window may leave the padded image.
    CeilMode "ceil-mode" ceil_mode: bool;
    /// A mean counts padding.
    CountIncludePad "count-include-pad" count_include_pad: bool;
    /// The exponent of a norm.
    P "p" p: usize;
    /// Meaning of the positions that a pooling returns: tensor, column-major or channel.
    Indices "indices" indices: String;
    /// Keep values in the order of their first occurrence.
    Unsorted "unsorted" unsorted: bool;
    /// The largest first.
    Descending "descending" descending: bool;
    /// Reduction of scatters into the same element: sum, prod, max or min.
    Reduce "reduce" reduce: String;
    /// The element itself is not among what is combined.
    ExcludeSelf "exclude-self" exclude_self: bool;
    /// Interpolation mode: nearest, nearest-exact, linear or cubic.
    Mode "mode" mode: String;
    /// The centres of the first and last elements stay where they are, not the edges.
    AlignCorners "align-corners" align_corners: bool;
    /// The bits of a row do not depend on the rows beside it.
    BatchInvariant "batch-invariant" batch_invariant: bool;
}

impl Options {
    /// The axes to fold: all unless chosen.
    #[must_use]
    pub fn axes_or_all(&self) -> Axes<'_> {
        self.axes.as_deref().map_or(Axes::All, Axes::Of)
    }

    /// The axes to work along: the last unless chosen.
    #[must_use]
    pub fn axes_or_last(&self) -> Axes<'_> {
        Axes::Of(self.axes.as_deref().unwrap_or(&[-1]))
    }
}
