//! Tensors as NumPy prints arrays: columns in line, the middle of long ones left out.

use std::fmt;

use half::{bf16, f16};
use warpfold_kernels::{Dtype, Error};

use crate::Tensor;

/// Columns of a line (NumPy, `printoptions`: linewidth, threshold, edgeitems, precision).
const LINE: usize = 75;
/// Elements from which on the middle is left out.
const THRESHOLD: usize = 1000;
/// Elements that are shown at each end then.
const EDGE: usize = 3;
/// Digits after the point at most.
const PRECISION: usize = 8;

impl fmt::Display for Tensor {
    /// The elements as NumPy prints them. Copies from the device what is shown, and waits for it;
    /// what the device says instead stands in `<` and `>`. With a precision (`{x:.2}`) floats have
    /// so many digits after the point, and no exponent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match words(self, f.precision()) {
            Ok(shown) => f.write_str(&shown),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

fn words(tensor: &Tensor, precision: Option<usize>) -> Result<String, Error> {
    if tensor.is_empty() {
        return Ok("[]".to_owned());
    }
    let is_short = tensor.len() <= THRESHOLD;
    let edge = |size: usize| if is_short || size <= 2 * EDGE { size } else { 2 * EDGE };
    let mut shown = tensor.clone();
    for axis in 0..tensor.rank() {
        let size = tensor.shape()[axis];
        if edge(size) < size {
            let parts = [shown.slice(axis as isize, ..EDGE)?, shown.slice(axis as isize, size - EDGE..)?];
            shown = Tensor::cat(&parts, axis as isize)?;
        }
    }
    let (bytes, is_single) = (shown.to_bytes()?, tensor.rank() == 0);
    let cells = match (precision, values(shown.dtype(), &bytes)) {
        (Some(digits), Some(values)) => fixed(&values, digits),
        _ => cells(shown.dtype(), &bytes, is_single),
    };
    let page = Page { shape: tensor.shape(), shown: shown.shape(), cells: &cells };
    Ok(page.nested(0, 0, " ", LINE))
}

/// The words of a tensor, and how they are nested.
struct Page<'a> {
    shape: &'a [usize],
    /// The shape of what is shown of it.
    shown: &'a [usize],
    cells: &'a [String],
}

impl Page<'_> {
    /// The text of the part from a cell on, `depth` axes inside.
    fn nested(&self, depth: usize, first: usize, indent: &str, width: usize) -> String {
        let left = self.shape.len() - depth;
        if left == 0 {
            return self.cells[first].clone();
        }
        let (count, step) = (self.shown[depth], self.shown[depth + 1..].iter().product::<usize>());
        let is_cut = count < self.shape[depth];
        let deeper = format!("{indent} ");
        let word = |i: usize| self.nested(depth + 1, first + i * step, &deeper, width - 1);
        let mut words: Vec<String> = (0..count).map(word).collect();
        if is_cut {
            words.insert(EDGE, "...".to_owned());
        }
        let text = if left == 1 {
            lines(&words, indent, width)
        } else {
            let gap = "\n".repeat(left - 1);
            words.iter().map(|word| format!("{indent}{word}")).collect::<Vec<_>>().join(&gap)
        };
        format!("[{}]", &text[indent.len()..])
    }
}

/// Words with a blank between them, as many on a line as there is room for.
fn lines(words: &[String], indent: &str, width: usize) -> String {
    let (mut text, mut line) = (String::new(), indent.to_owned());
    for (i, word) in words.iter().enumerate() {
        // The last word of all may stand before the bracket's column.
        let limit = if i + 1 == words.len() { width } else { width - 1 };
        if line.len() + word.len() > limit && line.len() > indent.len() {
            text.push_str(line.trim_end());
            text.push('\n');
            indent.clone_into(&mut line);
        }
        line.push_str(word);
        if i + 1 < words.len() {
            line.push(' ');
        }
    }
    text + &line
}

/// Every element as a word; all of one width, but for a single number.
fn cells(dtype: Dtype, bytes: &[u8], is_single: bool) -> Vec<String> {
    let plain = match dtype {
        Dtype::Bool => bytes.iter().map(|byte| if *byte == 0 { "False" } else { "True" }.to_owned()).collect(),
        Dtype::U8 => bytes.iter().map(u8::to_string).collect(),
        Dtype::U16 => integers::<u16>(bytes),
        Dtype::U32 => integers::<u32>(bytes),
        Dtype::U64 => integers::<u64>(bytes),
        Dtype::I8 => integers::<i8>(bytes),
        Dtype::I16 => integers::<i16>(bytes),
        Dtype::I32 => integers::<i32>(bytes),
        Dtype::I64 => integers::<i64>(bytes),
        Dtype::F64 => return floats(&numbers::<f64>(bytes), is_single, |x, e| shortest(x, e, |d| d.parse() == Ok(x))),
        Dtype::F32 => {
            let of = |x: f64, e: bool| shortest(x, e, |digits| digits.parse::<f32>() == Ok(x as f32));
            return floats(&wide(numbers::<f32>(bytes), f64::from), is_single, of);
        }
        Dtype::F16 => {
            let of = |x: f64, e: bool| shortest(x, e, |d| d.parse().is_ok_and(|d: f64| f16::from_f64(d).to_f64() == x));
            return floats(&wide(numbers::<f16>(bytes), f16::to_f64), is_single, of);
        }
        Dtype::Bf16 => {
            let of =
                |x: f64, e: bool| shortest(x, e, |d| d.parse().is_ok_and(|d: f64| bf16::from_f64(d).to_f64() == x));
            return floats(&wide(numbers::<bf16>(bytes), bf16::to_f64), is_single, of);
        }
        Dtype::F8E4M3 | Dtype::F8E5M2 => {
            let values: Vec<f64> = bytes.iter().map(|byte| of_f8(dtype, *byte)).collect();
            return floats(&values, is_single, |x, e| shortest(x, e, |digits| digits.parse() == Ok(x)));
        }
    };
    let width = plain.iter().map(String::len).max().unwrap_or(0);
    plain.into_iter().map(|word: String| if is_single { word } else { format!("{word:>width$}") }).collect()
}

/// Floats as the widest; of other types nothing.
fn values(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    match dtype {
        Dtype::F64 => Some(numbers(bytes)),
        Dtype::F32 => Some(wide(numbers::<f32>(bytes), f64::from)),
        Dtype::F16 => Some(wide(numbers::<f16>(bytes), f16::to_f64)),
        Dtype::Bf16 => Some(wide(numbers::<bf16>(bytes), bf16::to_f64)),
        Dtype::F8E4M3 | Dtype::F8E5M2 => Some(bytes.iter().map(|byte| of_f8(dtype, *byte)).collect()),
        Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => None,
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => None,
    }
}

/// Every number with so many digits after the point; all of one width.
fn fixed(values: &[f64], digits: usize) -> Vec<String> {
    let word = |x: &f64| if x.is_nan() { "nan".to_owned() } else { format!("{x:.digits$}") };
    let words: Vec<String> = values.iter().map(word).collect();
    let width = words.iter().map(String::len).max().unwrap_or(0);
    words.into_iter().map(|word| format!("{word:>width$}")).collect()
}

fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

fn integers<T: bytemuck::AnyBitPattern + ToString>(bytes: &[u8]) -> Vec<String> {
    numbers::<T>(bytes).iter().map(T::to_string).collect()
}

fn wide<T>(numbers: Vec<T>, of: impl Fn(T) -> f64) -> Vec<f64> {
    numbers.into_iter().map(of).collect()
}

/// An eight-bit float.
fn of_f8(dtype: Dtype, byte: u8) -> f64 {
    if dtype == Dtype::F8E5M2 {
        return f16::from_bits(u16::from(byte) << 8).to_f64();
    }
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
    let magnitude = match exponent {
        _ if byte & 0x7f == 0x7f => f64::NAN,
        0 => fraction * 2.0_f64.powi(-9),
        _ => (1.0 + fraction / 8.0) * 2.0_f64.powi(exponent - 7),
    };
    if byte >> 7 == 1 { -magnitude } else { magnitude }
}

/// The digits of a finite number, as few as tell it from its neighbours but no more than
/// [`PRECISION`] after the point; with an exponent or without.
fn shortest(x: f64, exponent: bool, is_it: impl Fn(&str) -> bool) -> String {
    let short = (0..PRECISION).map(|digits| format!("{x:.digits$e}")).find(|text| is_it(text));
    if exponent {
        return short.unwrap_or_else(|| format!("{x:.PRECISION$e}"));
    }
    // Seventeen digits tell any two numbers apart.
    let all = short.or_else(|| (PRECISION..17).map(|digits| format!("{x:.digits$e}")).find(|text| is_it(text)));
    let exact: f64 = all.and_then(|text| text.parse().ok()).unwrap_or(x);
    let text = format!("{exact}");
    match text.split_once('.') {
        Some((_, fraction)) if fraction.len() > PRECISION => {
            format!("{exact:.PRECISION$}").trim_end_matches('0').to_owned()
        }
        _ => text,
    }
}

fn floats(values: &[f64], is_single: bool, digits: impl Fn(f64, bool) -> String) -> Vec<String> {
    let sizes = || values.iter().filter(|x| x.is_finite() && **x != 0.0).map(|x| x.abs());
    let (largest, smallest) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
    let exponent = if is_single {
        // A number by itself, as Python writes it.
        largest >= 1e16 || (smallest < 1e-4 && largest > 0.0)
    } else {
        largest >= 1e8 || (largest > 0.0 && (smallest < 1e-4 || largest / smallest > 1000.0))
    };
    let parts: Vec<Option<[String; 3]>> =
        values.iter().map(|x| x.is_finite().then(|| split(&digits(*x, exponent)))).collect();
    let longest = |part: usize| parts.iter().flatten().map(|parts| parts[part].len()).max().unwrap_or(0);
    let (fraction, power) = (longest(1), longest(2).max(3));
    let written = |(x, parts): (&f64, &Option<[String; 3]>)| match parts {
        None if x.is_nan() => "nan".to_owned(),
        None => if *x > 0.0 { "inf" } else { "-inf" }.to_owned(),
        Some([whole, digits, _]) if is_single && !exponent => {
            format!("{whole}.{}", if digits.is_empty() { "0" } else { digits })
        }
        Some([whole, digits, _]) if !exponent => format!("{whole}.{digits:<fraction$}"),
        Some([whole, digits, exponent]) if is_single => {
            let point = if digits.is_empty() { "" } else { "." };
            format!("{whole}{point}{digits}e{exponent}")
        }
        Some([whole, digits, exponent]) => {
            let sign = &exponent[..1];
            format!("{whole}.{digits:0<fraction$}e{sign}{:0>1$}", &exponent[1..], power - 1)
        }
    };
    let words: Vec<String> = values.iter().zip(&parts).map(written).collect();
    let width = words.iter().map(String::len).max().unwrap_or(0);
    words.into_iter().map(|word| if is_single { word } else { format!("{word:>width$}") }).collect()
}

/// The digits before and after the point, and the exponent with its sign.
fn split(text: &str) -> [String; 3] {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (sign, power) = exponent.strip_prefix('-').map_or(('+', exponent), |power| ('-', power));
    [whole.to_owned(), fraction.to_owned(), format!("{sign}{power:0>2}")]
}
