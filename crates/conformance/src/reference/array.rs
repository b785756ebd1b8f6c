//! A small array on the host whose elements are exact numbers.

use super::dtype::Dtype;

/// One element. Every number of every type is one of these without rounding.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// An integer, or a bool as 0 or 1.
    Int(i128),
    /// A float, widened.
    Float(f64),
}

impl Value {
    /// Converts to a float; integers beyond 2^53 are rounded.
    #[must_use]
    pub fn float(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Float(x) => x,
        }
    }

    /// The integer.
    ///
    /// # Panics
    ///
    /// A float is no integer.
    #[must_use]
    pub fn int(self) -> i128 {
        match self {
            Self::Int(i) => i,
            Self::Float(x) => panic!("{x} is no integer"),
        }
    }

    /// Returns whether it is a NaN.
    #[must_use]
    pub fn is_nan(self) -> bool {
        matches!(self, Self::Float(x) if x.is_nan())
    }

    /// Returns whether it counts as true: everything but zero.
    #[must_use]
    pub fn is_true(self) -> bool {
        match self {
            Self::Int(i) => i != 0,
            Self::Float(x) => x != 0.0,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(i128::from(value))
    }
}

/// An array in C order.
#[derive(Debug, Clone)]
pub struct Array {
    /// The element type.
    pub dtype: Dtype,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// The elements.
    pub values: Vec<Value>,
}

impl Array {
    /// An array of these elements, each rounded or wrapped to what `dtype` has.
    ///
    /// # Panics
    ///
    /// If the shape asks for another number of elements.
    #[must_use]
    pub fn new(dtype: Dtype, shape: &[usize], values: impl IntoIterator<Item = Value>) -> Self {
        let values: Vec<_> = values.into_iter().map(|v| fit(dtype, v)).collect();
        assert_eq!(values.len(), shape.iter().product::<usize>(), "elements for the shape {shape:?}");
        Self { dtype, shape: shape.to_vec(), values }
    }

    /// Floats, rounded to `dtype`.
    #[must_use]
    pub fn floats(dtype: Dtype, shape: &[usize], values: &[f64]) -> Self {
        Self::new(dtype, shape, values.iter().map(|&x| Value::Float(x)))
    }

    /// Integers, wrapped to `dtype`.
    #[must_use]
    pub fn ints(dtype: Dtype, shape: &[usize], values: &[i128]) -> Self {
        Self::new(dtype, shape, values.iter().map(|&i| Value::Int(i)))
    }

    /// Its elements as little-endian bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let width = self.dtype.bytes();
        self.values.iter().flat_map(|&v| bits(self.dtype, v).to_le_bytes()[..width].to_vec()).collect()
    }

    /// An array from its elements' little-endian bytes.
    ///
    /// # Panics
    ///
    /// If the bytes do not fill the shape.
    #[must_use]
    pub fn of_bytes(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Self {
        let values = bytes.chunks(dtype.bytes()).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            of_bits(dtype, u64::from_le_bytes(word))
        });
        let values: Vec<_> = values.collect();
        assert_eq!(values.len(), shape.iter().product::<usize>(), "elements for the shape {shape:?}");
        Self { dtype, shape: shape.to_vec(), values }
    }
}

/// Converts a value of the same kind to `dtype`: rounded, wrapped, or 0 and 1.
#[must_use]
pub fn fit(dtype: Dtype, value: Value) -> Value {
    match value {
        Value::Float(x) => Value::Float(dtype.format().round(x)),
        Value::Int(i) if dtype == Dtype::Bool => Value::from(i != 0),
        Value::Int(i) => Value::Int(dtype.wrap(i)),
    }
}

/// The bits of an element.
#[must_use]
pub fn bits(dtype: Dtype, value: Value) -> u64 {
    match value {
        Value::Int(i) => i as u64 & (u64::MAX >> (64 - 8 * dtype.bytes())),
        Value::Float(x) => dtype.format().bits(x),
    }
}

fn of_bits(dtype: Dtype, bits: u64) -> Value {
    match dtype {
        d if d.is_float() => Value::Float(d.format().value(bits)),
        // A bool of any other byte than 0 or 1 stays visible as what it is.
        Dtype::Bool => Value::Int(i128::from(bits)),
        d => Value::Int(d.wrap(i128::from(bits))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_survives_its_bytes() {
        for dtype in Dtype::all() {
            let values = [0.0, 1.0, 2.5, 1.0, 0.0, 77.0];
            let array = if dtype.is_float() {
                Array::floats(dtype, &[2, 3], &values)
            } else {
                Array::ints(dtype, &[2, 3], &values.map(|x| -(x as i128)))
            };
            let again = Array::of_bytes(dtype, &[2, 3], &array.bytes());
            let all = |a: &Array| a.values.iter().map(|&v| bits(dtype, v)).collect::<Vec<_>>();
            assert_eq!(all(&array), all(&again), "{dtype:?}");
        }
    }

    #[test]
    fn bytes_are_little_endian() {
        assert_eq!(Array::ints(Dtype::I16, &[2], &[1, -2]).bytes(), [1, 0, 0xfe, 0xff]);
        assert_eq!(Array::floats(Dtype::F32, &[1], &[1.0]).bytes(), 1f32.to_le_bytes());
        assert_eq!(Array::floats(Dtype::Bf16, &[1], &[1.0]).bytes(), [0x80, 0x3f]);
        assert_eq!(Array::floats(Dtype::F8E4M3, &[2], &[1.0, -448.0]).bytes(), [0x38, 0xfe]);
    }
}
