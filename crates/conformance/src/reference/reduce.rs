//! Sums and what is made of them: mean, norms, logarithms, variance, dot.

use super::answer::{Answer, Expected};
use super::array::Value;
use super::axes::Refused;
use super::call::Call;
use super::dtype::Dtype;
use super::exact::{self, Exact};
use super::tolerance;

/// The result of a reduction.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    let lanes = call.lanes_or_all()?;
    let shape = call.shape_of(&lanes).to_vec();
    if call.op == "reproducible-sum" {
        call.only_floats()?;
    }
    if call.op == "dot" {
        return dot(call);
    }
    let dtype = result(call, x.dtype);
    let lane_of = |positions: &Vec<usize>| positions.iter().map(|&p| x.values[p]).collect::<Vec<_>>();
    let all = |dtype: Dtype, f: &dyn Fn(Dtype, &[Value]) -> Answer| {
        Expected::new(dtype, &shape, lanes.positions.iter().map(|p| f(dtype, &lane_of(p))).collect())
    };
    let variance = |dtype: Dtype, lane: &[Value]| variance(dtype, lane, call.options.ddof);
    let deviation = |dtype: Dtype, lane: &[Value]| deviation(dtype, lane, call.options.ddof);
    Ok(match call.op {
        "sum" | "reproducible-sum" => vec![all(dtype, &sum)],
        "prod" => vec![all(dtype, &prod)],
        "mean" => vec![all(dtype, &mean)],
        "l1" => vec![all(dtype, &l1)],
        "l2" => vec![all(dtype, &l2)],
        "sum-squares" => vec![all(dtype, &sum_squares)],
        "log-sum" => vec![all(dtype, &log_sum)],
        "log-sum-exp" => vec![all(dtype, &log_sum_exp)],
        "var" => vec![all(dtype, &variance)],
        "std" => vec![all(dtype, &deviation)],
        _ => vec![all(dtype, &mean), all(dtype, &variance)],
    })
}

/// The integer type of 64 bits that sums and products have: with a sign as the elements.
pub(super) const fn wide(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Bool | Dtype::I8 | Dtype::I16 | Dtype::I32 => Dtype::I64,
        Dtype::U8 | Dtype::U16 | Dtype::U32 => Dtype::U64,
        _ => dtype,
    }
}

/// The type of a result: the input's, of 64 bits for integers, unless the call names one; means,
/// roots and logarithms of integers and bools are `f64`; bools are counted.
fn result(call: &Call<'_>, input: Dtype) -> Dtype {
    let is_sum = matches!(call.op, "sum" | "prod" | "l1" | "sum-squares");
    call.options.dtype.unwrap_or(match input {
        d if d.is_float() => d,
        Dtype::Bool if is_sum => Dtype::I64,
        d if is_sum => wide(d),
        _ => Dtype::F64,
    })
}

/// The elements as floats.
fn floats(lane: &[Value]) -> impl Iterator<Item = f64> + Clone + '_ {
    lane.iter().map(|v| v.float())
}

fn magnitude(lane: &[Value]) -> f64 {
    floats(lane).map(f64::abs).sum()
}

/// A sum so far: exactly, the sum of magnitudes, and of how many.
#[derive(Debug, Clone, Default)]
pub(super) struct Sum {
    exact: Exact,
    whole: i128,
    magnitude: f64,
    len: usize,
}

impl Sum {
    /// Adds an element.
    pub(super) fn add(&mut self, value: Value) {
        match value {
            Value::Int(i) => self.whole += i,
            Value::Float(x) => self.exact.add(x),
        }
        self.magnitude += value.float().abs();
        self.len += 1;
    }

    /// The sum, in the type of the result: integers wrap.
    pub(super) fn answer(&self, dtype: Dtype) -> Answer {
        if !dtype.is_float() {
            return Answer::int(dtype.wrap(self.whole));
        }
        let value = self.exact.value() + self.whole as f64;
        if value.is_finite()
            && value.abs() == self.magnitude
            && value.abs() > 1.001 * dtype.accumulator().format().max()
        {
            // Terms of one sign overflow in every order.
            return Answer::float(f64::INFINITY.copysign(value));
        }
        Answer::near(value, tolerance::sum(dtype, self.len, self.magnitude))
    }
}

fn sum(dtype: Dtype, lane: &[Value]) -> Answer {
    let mut sum = Sum::default();
    lane.iter().for_each(|&v| sum.add(v));
    sum.answer(dtype)
}

/// A product so far: wrapped or rounded, and how far it may have been from one on its way, in
/// powers of two.
#[derive(Debug, Clone)]
pub(super) struct Product {
    whole: i128,
    value: f64,
    reach: f64,
    has_nan: bool,
    len: usize,
}

impl Default for Product {
    fn default() -> Self {
        Self { whole: 1, value: 1.0, reach: 0.0, has_nan: false, len: 0 }
    }
}

impl Product {
    /// Multiplies by an element.
    pub(super) fn multiply(&mut self, value: Value) {
        let x = value.float();
        if let Value::Int(i) = value {
            self.whole = Dtype::I64.wrap_product(self.whole, i);
        }
        self.value *= x;
        self.reach += if x.is_finite() && x != 0.0 { x.abs().log2().abs() } else { 0.0 };
        self.has_nan |= x.is_nan();
        self.len += 1;
    }

    /// The product, in the type of the result: integers wrap.
    pub(super) fn answer(&self, dtype: Dtype) -> Answer {
        if !dtype.is_float() {
            return Answer::int(dtype.wrap(self.whole));
        }
        let limit = if dtype.accumulator() == Dtype::F64 { 1000.0 } else { 120.0 };
        // Beyond it, a part of the product may overflow or vanish before a zero or an infinity
        // meets it. A NaN stays.
        if self.reach >= limit && !self.has_nan {
            return Answer::Anything;
        }
        Answer::near(self.value, tolerance::product(dtype, self.len, self.value))
    }
}

fn prod(dtype: Dtype, lane: &[Value]) -> Answer {
    let mut product = Product::default();
    lane.iter().for_each(|&v| product.multiply(v));
    product.answer(dtype)
}

fn mean(dtype: Dtype, lane: &[Value]) -> Answer {
    let n = lane.len();
    if n == 0 {
        return Answer::float(f64::NAN);
    }
    let value = exact_sum(lane) / n as f64;
    let error = tolerance::sum(dtype, n, magnitude(lane)) / n as f64;
    let rounded = if n == 1 { 0.0 } else { tolerance::units(dtype, 2.0, value) };
    Answer::near(value, error + rounded)
}

fn exact_sum(lane: &[Value]) -> f64 {
    match lane.first() {
        Some(Value::Int(_)) => lane.iter().map(|v| v.int()).sum::<i128>() as f64,
        _ => exact::sum(floats(lane)),
    }
}

fn l1(dtype: Dtype, lane: &[Value]) -> Answer {
    if !dtype.is_float() {
        return Answer::int(dtype.wrap(lane.iter().map(|v| v.int().abs()).sum()));
    }
    let value = exact::sum(floats(lane).map(f64::abs));
    Answer::near(value, tolerance::sum(dtype, lane.len(), value))
}

fn squares(lane: &[Value]) -> f64 {
    let mut sum = Exact::default();
    floats(lane).for_each(|x| sum.add_product(x, x));
    sum.value()
}

fn sum_squares(dtype: Dtype, lane: &[Value]) -> Answer {
    if !dtype.is_float() {
        return Answer::int(dtype.wrap(lane.iter().map(|v| dtype.wrap_product(v.int(), v.int())).sum()));
    }
    let value = squares(lane);
    if value.is_infinite() && floats(lane).all(f64::is_finite) {
        return Answer::Anything;
    }
    Answer::near(value, tolerance::sum_of_products(dtype, lane.len(), value))
}

fn l2(dtype: Dtype, lane: &[Value]) -> Answer {
    let square = squares(lane);
    let value = square.sqrt();
    let error = tolerance::sum_of_products(dtype, lane.len(), square);
    if value.is_infinite() && floats(lane).any(f64::is_infinite) || value.is_nan() {
        return Answer::float(value);
    }
    if !error.is_finite() || value.is_infinite() {
        return Answer::Anything;
    }
    let below = value - (square - error).max(0.0).sqrt();
    let above = (square + error).sqrt() - value;
    Answer::near(value, below.max(above) + tolerance::units(dtype, 1.0, value))
}

fn log_sum(dtype: Dtype, lane: &[Value]) -> Answer {
    let total = exact::sum(floats(lane));
    let error = tolerance::sum(dtype, lane.len(), magnitude(lane));
    if total.is_nan() || total.is_infinite() {
        return Answer::float(total.ln());
    }
    if total.abs() <= 2.0 * error && error > 0.0 {
        return Answer::Anything;
    }
    let value = total.ln();
    Answer::near(value, 2.0 * error / total.abs() + tolerance::logarithm(dtype, value))
}

/// Max + log(sum of exponentials of the distances to it), and the maximum.
pub(super) fn log_sum_exp_of(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    if values.clone().any(f64::is_nan) {
        return (f64::NAN, f64::NAN);
    }
    let max = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if max.is_infinite() {
        return (max, max);
    }
    let total = exact::sum(values.map(|x| (x - max).exp()));
    (max + total.ln(), max)
}

fn log_sum_exp(dtype: Dtype, lane: &[Value]) -> Answer {
    let (value, max) = log_sum_exp_of(floats(lane));
    if !value.is_finite() {
        return Answer::float(value);
    }
    Answer::near(value, tolerance::log_sum_exp(dtype, lane.len(), max))
}

/// Mean, variance around it (over n), and root mean square. NaN for nothing and for what is not
/// finite. The mean is rounded to an `f64`, which shifts the variance by less than the square of
/// half a unit.
pub(super) fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64, f64) {
    let n = values.clone().count() as f64;
    let mean = exact::sum(values.clone()) / n;
    let mut squares = Exact::default();
    let mut rms = 0.0;
    for x in values {
        squares.add_product(x - mean, x - mean);
        rms += x * x;
    }
    (mean, squares.value() / n, (rms / n).sqrt())
}

/// The variance as an answer before any root: value, error.
pub(super) fn variance_with_error(dtype: Dtype, values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count();
    let (_, variance, rms) = moments(values);
    // A square of half the largest number overflows.
    if n as f64 * rms * rms > dtype.accumulator().format().max() / 4.0 {
        return (variance, f64::INFINITY);
    }
    (variance, tolerance::variance(dtype, n, variance, rms))
}

/// With `ddof` taken from the count that it is divided by; where nothing is left, there is no
/// variance.
fn variance_around(dtype: Dtype, lane: &[Value], ddof: usize) -> (f64, f64) {
    let n = lane.len();
    if n <= ddof {
        return (f64::NAN, 0.0);
    }
    let (value, error) = variance_with_error(dtype, floats(lane));
    let factor = n as f64 / (n - ddof) as f64;
    (value * factor, error * factor)
}

fn variance(dtype: Dtype, lane: &[Value], ddof: usize) -> Answer {
    let (value, error) = variance_around(dtype, lane, ddof);
    if value.is_nan() { Answer::float(value) } else { Answer::near(value, error) }
}

fn deviation(dtype: Dtype, lane: &[Value], ddof: usize) -> Answer {
    let (square, error) = variance_around(dtype, lane, ddof);
    let value = square.sqrt();
    let below = value - (square - error).max(0.0).sqrt();
    let above = (square + error).sqrt() - value;
    if value.is_nan() {
        Answer::float(value)
    } else {
        Answer::near(value, below.max(above) + tolerance::units(dtype, 1.0, value))
    }
}

fn dot(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let (x, y) = (call.input(0)?, call.input(1)?);
    if x.shape != y.shape || x.dtype != y.dtype {
        return Refused::because(format!(
            "dot of {:?} {} and {:?} {}",
            x.shape,
            x.dtype.name(),
            y.shape,
            y.dtype.name()
        ));
    }
    let lanes = call.lanes_or_all()?;
    let dtype = call.options.dtype.unwrap_or(x.dtype);
    let pairs = |p: &Vec<usize>| p.iter().map(|&p| (x.values[p], y.values[p])).collect::<Vec<_>>();
    let answers = lanes.positions.iter().map(|p| dot_of(dtype, &pairs(p))).collect();
    Ok(vec![Expected::new(dtype, call.shape_of(&lanes), answers)])
}

/// A sum of products.
pub(super) fn dot_of(dtype: Dtype, pairs: &[(Value, Value)]) -> Answer {
    if !dtype.is_float() {
        let products = pairs.iter().map(|(x, y)| dtype.wrap_product(x.int(), y.int()));
        return Answer::int(dtype.wrap(products.sum()));
    }
    let mut sum = Exact::default();
    let mut magnitude = 0.0;
    for (x, y) in pairs {
        sum.add_product(x.float(), y.float());
        magnitude += (x.float() * y.float()).abs();
    }
    Answer::near(sum.value(), tolerance::sum_of_products(dtype, pairs.len(), magnitude))
}

#[cfg(test)]
mod tests;
