//! Convolution as ONNX's `Conv` and PyTorch's `conv2d` have it, and with channels behind the pixels
//! as in NHWC libraries.

use super::answer::Expected;
use super::array::Value;
use super::axes::Refused;
use super::call::Call;
use super::matmul::{ACTIVATIONS, chain, place_of};

/// Images, or filters: how many, channels, height, width, and where the channels lie.
struct Stack<'a> {
    values: &'a [Value],
    sizes: [usize; 4],
    is_last: bool,
}

impl<'a> Stack<'a> {
    fn of(values: &'a [Value], shape: &[usize], is_last: bool) -> Option<Self> {
        let &[n, a, b, c] = shape else { return None };
        let sizes = if is_last { [n, c, a, b] } else { [n, a, b, c] };
        Some(Self { values, sizes, is_last })
    }

    fn at(&self, n: usize, channel: usize, row: usize, column: usize) -> Value {
        let [_, c, h, w] = self.sizes;
        let position = if self.is_last {
            ((n * h + row) * w + column) * c + channel
        } else {
            ((n * c + channel) * h + row) * w + column
        };
        self.values[position]
    }
}

/// The result of a convolution.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let options = call.options;
    call.only_floats()?;
    let (x, filters, bias) = match (call.inputs, options.bias) {
        ([x, filters], false) => (*x, *filters, None),
        ([x, filters, bias], true) => (*x, *filters, Some(*bias)),
        _ => return Refused::because("conv2d takes images, filters and a bias"),
    };
    let refused = |why: &str| Refused::because(format!("conv2d of {:?} and {:?}: {why}", x.shape, filters.shape));
    let is_last = match options.layout.as_deref() {
        None | Some("nchw") => false,
        Some("nhwc") => true,
        Some(_) => return refused("no such layout"),
    };
    let both = |numbers: &Option<Vec<usize>>, default: usize| match numbers.as_deref() {
        None => Some([default; 2]),
        Some([one]) => Some([*one; 2]),
        Some([down, across]) => Some([*down, *across]),
        Some(_) => None,
    };
    let window = (both(&options.stride, 1), both(&options.padding, 0), both(&options.dilation, 1));
    let (Some(stride), Some(padding), Some(dilation)) = window else { return refused("a window in two directions") };
    let activation = options.activation.as_deref();
    if activation.is_some_and(|name| !ACTIVATIONS.contains(&name)) {
        return refused("no such activation");
    }
    if super::dtype::Dtype::TINY_FLOATS.contains(&x.dtype) || x.dtype != filters.dtype {
        return refused("types");
    }
    let stacks = (Stack::of(&x.values, &x.shape, is_last), Stack::of(&filters.values, &filters.shape, is_last));
    let (Some(images), Some(weights)) = stacks else { return refused("four axes") };
    let ([n, channels, height, width], [k, of_group, r, s]) = (images.sizes, weights.sizes);
    let groups = options.groups.unwrap_or(1);
    if groups == 0 || of_group * groups != channels || k % groups != 0 {
        return refused("groups");
    }
    let result_size = |size: usize, filter: usize, i: usize| {
        let reach = filter.checked_sub(1)? * dilation[i] + 1;
        Some((size + 2 * padding[i]).checked_sub(reach)?.checked_div(stride[i])? + 1)
    };
    let (Some(p), Some(q)) = (result_size(height, r, 0), result_size(width, s, 1)) else { return refused("no room") };
    if dilation.contains(&0) || height == 0 || width == 0 {
        return refused("nothing to walk on");
    }
    let dtype = options.dtype.unwrap_or(x.dtype);
    if bias.is_some_and(|bias| bias.shape != [k] || bias.dtype != dtype) {
        return refused("a bias");
    }
    let shape = if is_last { [n, p, q, k] } else { [n, k, p, q] };
    let answer = |flat: usize| {
        let place = place_of(&shape, flat);
        let [image, filter, row, column] =
            if is_last { [place[0], place[3], place[1], place[2]] } else { [place[0], place[1], place[2], place[3]] };
        // Padding is zeros, which are multiplied like any number.
        let pairs = (0..of_group * r * s).map(|l| {
            let (channel, tap_row, tap_column) = (l / s / r, l / s % r, l % s);
            let y = (row * stride[0] + tap_row * dilation[0]).checked_sub(padding[0]).filter(|y| *y < height);
            let x = (column * stride[1] + tap_column * dilation[1]).checked_sub(padding[1]).filter(|x| *x < width);
            let of_image = match (y, x) {
                (Some(y), Some(x)) => images.at(image, filter / (k / groups) * of_group + channel, y, x),
                _ => Value::Float(0.0),
            };
            (of_image, weights.at(filter, channel, tap_row, tap_column))
        });
        let addend = bias.map_or(0.0, |bias| bias.values[filter].float());
        chain(x.dtype, pairs).then(x.dtype, 1.0, addend).activated(activation, x.dtype)
    };
    let answers = (0..shape.iter().product()).map(answer).collect();
    Ok(vec![Expected::new(dtype, &shape, answers)])
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::super::dtype::Dtype;
    use super::*;

    #[test]
    fn windows_walk_as_in_pytorch() {
        let image = Array::floats(Dtype::F32, &[1, 1, 3, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let filter = Array::floats(Dtype::F32, &[1, 1, 2, 2], &[1.0, 0.0, 0.0, -1.0]);
        let run = |options: Options| {
            let call = Call { op: "conv2d", inputs: &[&image, &filter], options: &options };
            expected(&call).map(|mut outputs| outputs.remove(0))
        };
        #[track_caller]
        fn check(found: Result<Expected, Refused>, shape: &[usize], values: &[f64]) {
            assert_eq!(found.expect("a result").check(&Array::floats(Dtype::F32, shape, values)), Ok(()));
        }
        check(run(Options::default()), &[1, 1, 2, 2], &[-4.0; 4]);
        let strided = Options { stride: Some(vec![2]), padding: Some(vec![1]), ..Options::default() };
        check(run(strided), &[1, 1, 2, 2], &[-1.0, -3.0, -7.0, -4.0]);
        check(run(Options { dilation: Some(vec![2]), ..Options::default() }), &[1, 1, 1, 1], &[-8.0]);
        assert!(run(Options { dilation: Some(vec![3]), ..Options::default() }).is_err());
        assert!(run(Options { groups: Some(2), ..Options::default() }).is_err());
    }
}
