//! Whole numbers that follow from sizes: `(n + 255) / 256`, `cdiv(n, 256) * m`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A number of a task, or the expression that it follows from.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    /// A whole number.
    Integer(i64),
    /// A float, of a scalar argument.
    Float(f64),
    /// An expression of sizes.
    Expression(String),
}

/// The sizes of a case by their names.
pub(super) type Sizes = BTreeMap<String, i64>;

impl Number {
    /// The whole number for some sizes.
    pub(super) fn integer(&self, sizes: &Sizes) -> Result<i64, String> {
        match self {
            Self::Integer(number) => Ok(*number),
            Self::Float(number) => Err(format!("{number} is not a whole number")),
            Self::Expression(text) => evaluate(text, sizes),
        }
    }

    /// The number as a float.
    pub(super) fn float(&self, sizes: &Sizes) -> Result<f64, String> {
        match self {
            Self::Float(number) => Ok(*number),
            other => other.integer(sizes).map(|number| number as f64),
        }
    }
}

fn evaluate(text: &str, sizes: &Sizes) -> Result<i64, String> {
    let mut reader = Reader { rest: text, sizes, depth: 0 };
    let value = reader.sum().and_then(|value| {
        let rest = reader.rest.trim();
        if rest.is_empty() { Ok(value) } else { Err(format!("'{rest}' is left over")) }
    });
    value.map_err(|reason| format!("'{text}': {reason}"))
}

/// Parentheses in parentheses at most.
const DEPTH: u32 = 50;

/// An expression that is read from left to right.
struct Reader<'a> {
    rest: &'a str,
    sizes: &'a Sizes,
    depth: u32,
}

impl Reader<'_> {
    fn takes(&mut self, sign: char) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("'{sign}' is expected before '{}'", self.rest)) }
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        loop {
            let next = if self.takes('+') {
                value.checked_add(self.product()?)
            } else if self.takes('-') {
                value.checked_sub(self.product()?)
            } else {
                return Ok(value);
            };
            value = next.ok_or("too large")?;
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.atom()?;
        loop {
            let next = if self.takes('*') {
                value.checked_mul(self.atom()?)
            } else if self.takes('/') {
                value.checked_div_euclid(self.atom()?)
            } else if self.takes('%') {
                value.checked_rem_euclid(self.atom()?)
            } else {
                return Ok(value);
            };
            value = next.ok_or("too large, or divided by zero")?;
        }
    }

    fn atom(&mut self) -> Result<i64, String> {
        if self.takes('(') {
            self.depth += 1;
            if self.depth > DEPTH {
                return Err("too many parentheses".to_owned());
            }
            let value = self.sum()?;
            self.depth -= 1;
            self.expect(')')?;
            return Ok(value);
        }
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map_err(|_| format!("'{word}' is not a whole number"));
        }
        if ["cdiv", "min", "max"].contains(&word) && self.takes('(') {
            let a = self.sum()?;
            self.expect(',')?;
            let b = self.sum()?;
            self.expect(')')?;
            return match word {
                "min" => Ok(a.min(b)),
                "max" => Ok(a.max(b)),
                _ if b > 0 => Ok(a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)),
                _ => Err(format!("cdiv by {b}")),
            };
        }
        self.sizes.get(word).copied().ok_or_else(|| format!("no size is called '{word}'"))
    }
}
