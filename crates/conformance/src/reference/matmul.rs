//! Products of matrices: NumPy's `matmul`, with what ONNX's `Gemm` has beside it, a bias and an
//! activation.
//!
//! Sums are promised in some order, not in a tree: |error| <= (n + 64) u sum|ab| with the unit
//! roundoff of the type that is added in (Higham, section 3.1; 64 for the parts of a split sum).
//! The choices that NumPy leaves open: integers of up to 32 bits add up in i32, modulo 2^32;
//! eight-bit floats give f32.

use super::answer::{Answer, Expected};
use super::array::{Array, Value};
use super::axes::Refused;
use super::call::{Call, Options};
use super::dtype::Dtype;
use super::exact::Exact;
use super::tolerance;
use super::unary;

/// A sum with the error that it may have.
#[derive(Clone, Copy)]
pub(super) struct Near {
    pub value: f64,
    pub error: f64,
}

/// A sum of products in any order.
pub(super) fn chain(dtype: Dtype, pairs: impl Iterator<Item = (Value, Value)>) -> Near {
    let (mut sum, mut magnitude, mut len) = (Exact::default(), 0.0, 0);
    for (x, y) in pairs {
        sum.add_product(x.float(), y.float());
        magnitude += (x.float() * y.float()).abs();
        len += 1;
    }
    Near { value: sum.value(), error: tolerance::chain_of_products(dtype, len, magnitude) }
}

impl Near {
    /// Times a factor, plus an addend that is exact; each rounds once.
    pub(super) fn then(self, dtype: Dtype, factor: f64, addend: f64) -> Self {
        let product = factor * self.value;
        let value = product + addend;
        let eps = tolerance::epsilon(dtype);
        let once = if factor == 1.0 { 0.0 } else { eps * product.abs() };
        let twice = if addend == 0.0 { 0.0 } else { eps * (value.abs() + product.abs()) };
        Self { value, error: self.error * factor.abs() + once + twice }
    }

    /// An activation: none of them is steeper than 1.2.
    pub(super) fn activated(self, name: Option<&str>, dtype: Dtype) -> Answer {
        let Some(name) = name else { return Answer::near(self.value, self.error) };
        match unary::of_float(name, dtype.accumulator(), self.value) {
            Answer::Near { value, error } => Answer::near(value, error + 1.2 * self.error),
            Answer::Exactly(value) | Answer::WithSign(value) => Answer::near(value.float(), 1.2 * self.error),
            other => other,
        }
    }
}

/// The activations by name.
pub(super) const ACTIVATIONS: [&str; 6] = ["relu", "gelu", "gelu-tanh", "silu", "sigmoid", "tanh"];

/// An array as a batch of matrices.
struct Matrices<'a> {
    array: &'a Array,
    batch: Vec<usize>,
    rows: usize,
    columns: usize,
    is_turned: bool,
}

impl Matrices<'_> {
    fn at(&self, batch: &[usize], row: usize, column: usize) -> Value {
        let missing = batch.len() - self.batch.len();
        let flat = self
            .batch
            .iter()
            .zip(&batch[missing..])
            .fold(0, |flat, (size, place)| flat * size + if *size == 1 { 0 } else { *place });
        let (row, column, width) = if self.is_turned { (column, row, self.rows) } else { (row, column, self.columns) };
        self.array.values[flat * self.rows * self.columns + row * width + column]
    }
}

fn matrices(array: &Array, is_turned: bool, is_left: bool) -> Option<Matrices<'_>> {
    let (batch, rows, columns, is_turned) = match &array.shape[..] {
        [] => return None,
        [k] if is_left => (Vec::new(), 1, *k, false),
        [k] => (Vec::new(), *k, 1, false),
        [batch @ .., rows, columns] if is_turned => (batch.to_vec(), *columns, *rows, true),
        [batch @ .., rows, columns] => (batch.to_vec(), *rows, *columns, false),
    };
    Some(Matrices { array, batch, rows, columns, is_turned })
}

fn broadcast(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    (0..rank)
        .map(|axis| match (size(left, axis), size(right, axis)) {
            (1, n) => Some(n),
            (n, m) => (m == 1 || n == m).then_some(n),
        })
        .collect()
}

/// An element of an array that is broadcast to a shape of which `place` is a position.
fn element(array: &Array, place: &[usize]) -> f64 {
    let missing = place.len() - array.shape.len();
    let flat = array
        .shape
        .iter()
        .zip(&place[missing..])
        .fold(0, |flat, (size, place)| flat * size + if *size == 1 { 0 } else { *place });
    array.values[flat].float()
}

/// A scale of lines, as an array that can be broadcast to the result; nothing if it does not fit.
fn as_lines(scale: &Array, lines: [usize; 2], full: &[usize]) -> Option<Array> {
    let shape = match &scale.shape[..] {
        shape if shape.iter().all(|size| *size == 1) => vec![],
        [len] => lines.contains(len).then(|| lines.to_vec())?,
        [.., rows, columns] if [*rows, *columns].iter().zip(lines).all(|(size, most)| [1, most].contains(size)) => {
            scale.shape.clone()
        }
        _ => return None,
    };
    let fits = scale.dtype == Dtype::F32 && broadcast(&shape, full).is_some_and(|shape| shape == full);
    fits.then(|| Array { shape, ..scale.clone() })
}

/// The position of an element in C order.
pub(super) fn place_of(shape: &[usize], flat: usize) -> Vec<usize> {
    let mut rest = flat;
    let mut place: Vec<usize> = shape.iter().rev().map(|size| (rest % size, rest /= size).0).collect();
    place.reverse();
    place
}

/// The type of a result.
fn result(asked: Option<Dtype>, of: Dtype) -> Dtype {
    asked.unwrap_or(match of {
        Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::I32 => Dtype::I32,
        Dtype::U16 | Dtype::U32 => Dtype::I64,
        Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::F32,
        dtype => dtype,
    })
}

/// Returns the type or option that integer products do not support.
fn not_of_integers(dtype: Dtype, options: &Options) -> Option<&'static str> {
    let activation = options.activation.as_deref();
    let numbers = [options.alpha, options.beta];
    match () {
        () if dtype == Dtype::Bool => Some("truths that are not added up"),
        () if dtype == Dtype::U64 && activation.is_some() => Some("an activation of sums without sign"),
        () if numbers.into_iter().flatten().any(|number| number.fract() != 0.0) => Some("fractions of integers"),
        () if activation.is_some_and(|name| name != "relu") => Some("an activation of integers"),
        () if options.scale_a || options.scale_b || options.scale_result => Some("scales of integers"),
        () => None,
    }
}

/// The result of a product.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let options = call.options;
    let flags = [options.scale_a, options.scale_b, options.scale_result, options.bias];
    let num_named = flags.iter().filter(|flag| **flag).count();
    let (matrices_of, named) = call.inputs.split_at(call.inputs.len().saturating_sub(num_named));
    let mut named = named.iter().copied();
    let [scale_a, scale_b, scale_result, bias] = flags.map(|flag| if flag { named.next() } else { None });
    let (a, b, c) = match matrices_of {
        [a, b] => (*a, *b, None),
        [a, b, c] => (*a, *b, Some(*c)),
        _ => return Refused::because("matmul takes two matrices and one more tensor"),
    };
    let refused = |why: &str| Refused::because(format!("matmul of {:?} and {:?}: {why}", a.shape, b.shape));
    let activation = options.activation.as_deref();
    if activation.is_some_and(|name| !ACTIVATIONS.contains(&name)) {
        return refused("no such activation");
    }
    if options.beta.is_some() && c.is_none() {
        return refused("beta without a third input");
    }
    let (Some(left), Some(right)) = (matrices(a, options.transpose_a, true), matrices(b, options.transpose_b, false))
    else {
        return refused("no axes");
    };
    if left.columns != right.rows || a.dtype != b.dtype {
        return refused("they do not fit each other");
    }
    let Some(batch) = broadcast(&left.batch, &right.batch) else { return refused("batches do not fit each other") };
    let mut shape = batch.clone();
    shape.extend((a.shape.len() > 1).then_some(left.rows));
    shape.extend((b.shape.len() > 1).then_some(right.columns));
    let is_whole = !a.dtype.is_float();
    let dtype = result(options.dtype, a.dtype);
    if is_whole && let Some(why) = not_of_integers(a.dtype, options) {
        return refused(why);
    }
    for more in [c, bias].into_iter().flatten() {
        if broadcast(&more.shape, &shape).as_ref() != Some(&shape) {
            return refused("an input that does not fit the result");
        }
    }
    let full: Vec<usize> = batch.iter().copied().chain([left.rows, right.columns]).collect();
    let scales = [(scale_a, [left.rows, 1]), (scale_b, [1, right.columns]), (scale_result, [1, 1])];
    let mut shaped = Vec::new();
    for (scale, lines) in scales {
        match scale.map(|scale| as_lines(scale, lines, &full)) {
            Some(None) => return refused("a scale that does not fit"),
            found => shaped.push(found.flatten()),
        }
    }
    let answer = |flat: usize| {
        let at = place_of(&full, flat);
        let [at_batch @ .., row, column] = &at[..] else { unreachable!("a result has rows and columns") };
        let pairs = (0..left.columns).map(|l| (left.at(at_batch, *row, l), right.at(at_batch, l, *column)));
        // The place in the result, without the axes that vectors do not have.
        let place = place_of(&shape, flat);
        let more = |array: Option<&Array>| array.map_or(0.0, |array| element(array, &place));
        if is_whole {
            let sum = pairs.map(|(x, y)| x.int() * y.int()).sum::<i128>();
            let alpha = options.alpha.unwrap_or(1.0) as i128;
            let sum = alpha * sum + options.beta.unwrap_or(1.0) as i128 * more(c) as i128 + more(bias) as i128;
            let is_narrow = matches!(a.dtype, Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::I32);
            let sum = if is_narrow { Dtype::I32 } else { Dtype::I64 }.wrap(sum);
            return Answer::int(dtype.wrap(if activation.is_some() { sum.max(0) } else { sum }));
        }
        let scale = |which: usize| shaped[which].as_ref().map_or(1.0, |scale| element(scale, &at));
        let sum = chain(a.dtype, pairs).then(a.dtype, scale(0), 0.0).then(a.dtype, scale(1), 0.0);
        let sum = sum.then(a.dtype, options.alpha.unwrap_or(1.0), 0.0);
        let sum = sum.then(a.dtype, 1.0, options.beta.unwrap_or(1.0) * more(c));
        match sum.then(a.dtype, 1.0, more(bias)).activated(activation, a.dtype) {
            Answer::Near { value, error } if scale_result.is_some() => {
                let Near { value, error } = Near { value, error }.then(a.dtype, scale(2), 0.0);
                Answer::near(value, error)
            }
            answer => answer,
        }
    };
    let answers = (0..full.iter().product()).map(answer).collect();
    Ok(vec![Expected::new(dtype, &shape, answers)])
}

#[cfg(test)]
mod tests {
    use super::super::call::Options;
    use super::*;

    #[track_caller]
    fn check(inputs: &[&Array], options: Options, shape: &[usize], values: &[f64]) {
        let outputs = expected(&Call { op: "matmul", inputs, options: &options }).expect("a result");
        assert_eq!(outputs[0].check(&Array::floats(Dtype::F32, shape, values)), Ok(()));
    }

    #[test]
    fn products_are_those_of_numpy() {
        let a = Array::floats(Dtype::F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let x = Array::floats(Dtype::F32, &[2], &[10.0, 1.0]);
        let stack = Array::floats(Dtype::F32, &[2, 2, 1], &[1.0, 0.0, 0.0, 1.0]);
        let plain = Options::default;
        check(&[&a, &a], plain(), &[2, 2], &[7.0, 10.0, 15.0, 22.0]);
        check(&[&a, &x], plain(), &[2], &[12.0, 34.0]);
        check(&[&x, &a], plain(), &[2], &[13.0, 24.0]);
        check(&[&x, &x], plain(), &[], &[101.0]);
        check(&[&a, &stack], plain(), &[2, 2, 1], &[1.0, 3.0, 2.0, 4.0]);
        check(&[&a, &a], Options { transpose_a: true, ..plain() }, &[2, 2], &[10.0, 14.0, 14.0, 20.0]);
        let layer =
            Options { alpha: Some(2.0), beta: Some(-1.0), bias: true, activation: Some("relu".to_owned()), ..plain() };
        check(&[&a, &a, &a, &x], layer, &[2, 2], &[23.0, 19.0, 37.0, 41.0]);
        let none = Array::floats(Dtype::F32, &[1, 0], &[]);
        let none_below = Array::floats(Dtype::F32, &[0, 2], &[]);
        check(&[&none, &none_below], plain(), &[1, 2], &[0.0, 0.0]);
    }
}
