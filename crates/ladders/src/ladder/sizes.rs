//! Size of a ladder's problem: a number of elements, up to three numbers such as `m`, `n`, `k`, or
//! the tokens and heads of attention.

use super::heads::HeadSizes;
use crate::{Error, ErrorKind};

/// Meaning of a ladder's size.
#[derive(Debug, Clone, Copy)]
pub enum Sizes {
    /// A number of elements, up to the ladder's `max_size`.
    Elements,
    /// A number of elements, up to the ladder's `max_size`, and one more number that an option
    /// sets.
    With(SizeOption),
    /// Three numbers, each from 1 on, packed into one by [`pack`].
    Numbers(Numbers),
    /// Tokens and heads of attention.
    Heads(HeadSizes),
}

/// One more number beside the number of elements: the columns of a matrix, the elements of a
/// thread.
#[derive(Debug, Clone, Copy)]
pub struct SizeOption {
    /// Name on the command line, without its dashes: `columns`.
    pub name: &'static str,
    /// Its value unless said.
    pub default: usize,
    /// Returns whether there are kernels for a value; below 2^20.
    pub accepts: fn(usize) -> bool,
    /// The accepted values: `2, 4 or 8`.
    pub expected: &'static str,
}

/// Bits of the elements of a size with an option; above them lies the option's value, or 0.
const ELEMENT_BITS: u32 = 40;

/// The elements of a size, whose option it may have or not.
#[must_use]
pub const fn elements_of(size: u64) -> usize {
    (size & ((1 << ELEMENT_BITS) - 1)) as usize
}

impl SizeOption {
    /// The option's value in a size.
    #[must_use]
    pub const fn of(&self, size: u64) -> usize {
        match size >> ELEMENT_BITS {
            0 => self.default,
            value => value as usize,
        }
    }

    /// The option's value, where the size has one of its own.
    #[must_use]
    pub const fn given(&self, size: u64) -> Option<usize> {
        match size >> ELEMENT_BITS {
            0 => None,
            value => Some(value as usize),
        }
    }

    /// So many elements with a value, which the option has to accept.
    #[must_use]
    pub const fn with(&self, elements: usize, value: usize) -> u64 {
        elements_of(elements as u64) as u64 | ((value as u64) << ELEMENT_BITS)
    }

    /// The size with another value.
    pub(super) fn set(&self, size: u64, value: usize) -> Result<u64, Error> {
        if !(self.accepts)(value) {
            let text = format!("--{} {value}", self.name);
            return Err(ErrorKind::BadSize { text, expected: self.expected }.into());
        }
        Ok(self.with(elements_of(size), value))
    }
}

/// A number as users write it: `33_554_432`, `33,554,432`, `32M` for 32 x 2^20, `1e6`.
///
/// ```
/// use warpfold_ladders::ladder::number;
/// assert_eq!([number("64K"), number("1.5e3"), number("many")], [Some(65_536), Some(1500), None]);
/// ```
#[must_use]
pub fn number(text: &str) -> Option<usize> {
    let text: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits(&text) {
        return text.parse().ok();
    }
    if let Some((mantissa, exponent)) = text.split_once(['e', 'E']) {
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent: usize = Some(exponent).filter(|e| is_digits(e))?.parse().ok()?;
        if !is_digits(whole) || !(fraction.is_empty() || is_digits(fraction)) || fraction.len() > exponent {
            return None;
        }
        let scale = 10_usize.checked_pow((exponent - fraction.len()).try_into().ok()?)?;
        return format!("{whole}{fraction}").parse::<usize>().ok()?.checked_mul(scale);
    }
    let (digits, unit) = text.split_at(text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at))?);
    let shift = match unit {
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    let digits = Some(digits).filter(|digits| is_digits(digits))?;
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

/// The numbers that a ladder takes instead of a number of elements.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// The written form: `N or MxNxK`.
    pub form: &'static str,
    /// All of them, made from those that were written; nothing if they are too many or too few.
    pub complete: fn(&[usize]) -> Option<[usize; 3]>,
    /// The most that each may be; below 2^20.
    pub most: [usize; 3],
    /// Number of sizes that are printed: the last ones may be unused.
    pub shown: usize,
    /// Explanation of the sizes, for a line below the problem; none where they are
    /// self-explanatory.
    pub told: fn([usize; 3]) -> Option<String>,
}

/// Bits of a packed number.
const BITS: u32 = 20;

/// Three numbers as one. They are below 2^20.
///
/// ```
/// use warpfold_ladders::ladder::{pack, unpack};
/// assert_eq!(unpack(pack([300, 200, 70])), [300, 200, 70]);
/// ```
#[must_use]
pub const fn pack(numbers: [usize; 3]) -> u64 {
    let [a, b, c] = numbers;
    assert!(a >> BITS == 0 && b >> BITS == 0 && c >> BITS == 0, "a packed number is below 2^20");
    ((a as u64) << (2 * BITS)) | ((b as u64) << BITS) | c as u64
}

/// The three numbers that [`pack`] took.
#[must_use]
pub const fn unpack(size: u64) -> [usize; 3] {
    let low = (1 << BITS) - 1;
    [(size >> (2 * BITS)) as usize, ((size >> BITS) & low) as usize, (size & low) as usize]
}

impl Sizes {
    /// Returns the number of elements, if the size is one.
    pub(super) fn elements(&self, size: u64) -> Option<usize> {
        match self {
            Self::Elements | Self::With(_) => Some(elements_of(size)),
            Self::Numbers(_) | Self::Heads(_) => None,
        }
    }

    /// A size as a user writes it: `33_554_432`, `32M`, `1e6`, `300x200x70`.
    pub(super) fn parse(&self, text: &str) -> Result<u64, Error> {
        let bad = |expected: &'static str| Error::from(ErrorKind::BadSize { text: text.to_owned(), expected });
        match self {
            Self::With(option) if text.contains(" with ") => {
                let (elements, value) = text.split_once(" with ").ok_or_else(|| bad("a number of elements"))?;
                let value = value.strip_prefix(option.name).and_then(|value| value.trim_start().strip_prefix('='));
                let value = value.and_then(|value| number(value.trim())).ok_or_else(|| bad(option.expected))?;
                option.set(self.parse(elements)?, value)
            }
            Self::Elements | Self::With(_) => number(text)
                .map(|size| size as u64)
                .filter(|size| *size >> ELEMENT_BITS == 0)
                .ok_or_else(|| bad("a number of elements such as 1000, 64K, 32M or 1e6")),
            Self::Heads(sizes) => sizes.parse(text),
            Self::Numbers(Numbers { form, complete, most, .. }) => {
                let numbers: Option<Vec<usize>> = text.split('x').map(number).collect();
                let numbers = numbers.and_then(|numbers| complete(&numbers)).ok_or_else(|| bad(form))?;
                let fits = numbers.iter().zip(most).all(|(number, most)| (1..=*most).contains(number));
                if fits { Ok(pack(numbers)) } else { Err(bad(form)) }
            }
        }
    }

    /// A size as the form has it: `512x512x512`; nothing for a number of elements.
    pub(super) fn text(&self, size: u64) -> Option<String> {
        match self {
            Self::Elements => None,
            Self::With(option) if option.given(size).is_none() => None,
            Self::With(option) => Some(format!("{} with {} = {}", elements_of(size), option.name, option.of(size))),
            Self::Heads(sizes) => Some(sizes.text(size)),
            Self::Numbers(Numbers { shown, .. }) => {
                Some(unpack(size)[..*shown].iter().map(ToString::to_string).collect::<Vec<_>>().join("x"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUBE: Sizes = Sizes::Numbers(Numbers {
        form: "N or MxNxK",
        complete: |numbers| match *numbers {
            [n] => Some([n; 3]),
            [m, n, k] => Some([m, n, k]),
            _ => None,
        },
        most: [4096; 3],
        shown: 3,
        told: |_| None,
    });

    #[test]
    fn a_size_is_a_number_or_several() {
        assert_eq!(Sizes::Elements.parse("33_554_432").expect("a number"), 33_554_432);
        assert_eq!(CUBE.parse("512").expect("one number"), pack([512; 3]));
        assert_eq!(CUBE.text(CUBE.parse("300x200x70").expect("three numbers")).expect("it has numbers"), "300x200x70");
        for bad in ["", "x", "5x5", "0", "4097", "-1", "1x2x3x4", "12a"] {
            assert!(CUBE.parse(bad).is_err(), "{bad}");
        }
        assert!(Sizes::Elements.parse("5x5").is_err());
    }

    #[test]
    fn numbers_have_groups_units_and_exponents() {
        let parsed = |text: &str| Sizes::Elements.parse(text).ok();
        for (text, expected) in [
            ("1M", 1 << 20),
            ("64k", 65_536),
            ("2G", 1 << 31),
            ("1e6", 1_000_000),
            ("1.5e3", 1500),
            ("33,554,432", 33_554_432),
        ] {
            assert_eq!(parsed(text), Some(expected), "{text}");
        }
        for bad in ["M", "1.5", "1e", "e6", "1.55e1", "1e99", "-1", "1T", "1é", "99999999999999999999", "1.e3.e"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
        assert_eq!(CUBE.parse("1Kx5x1e2").expect("three numbers"), pack([1024, 5, 100]));
    }

    #[test]
    fn an_option_travels_with_the_elements() {
        let option = SizeOption { name: "factor", default: 2, accepts: |n| [2, 4].contains(&n), expected: "2 or 4" };
        let with = Sizes::With(option);
        let size = with.parse("1000").expect("a number");
        assert_eq!((with.elements(size), option.of(size), with.text(size)), (Some(1000), 2, None));
        let other = option.set(size, 4).expect("it is taken");
        assert_eq!((with.elements(other), option.of(other)), (Some(1000), 4));
        assert_eq!(with.text(other).as_deref(), Some("1000 with factor = 4"));
        assert_eq!(with.parse("1000 with factor = 4").expect("its own text"), other);
        assert!(with.parse("1000 with factor = 3").is_err() && with.parse("1000 with rows = 4").is_err());
        assert!(option.set(size, 3).is_err());
    }
}
