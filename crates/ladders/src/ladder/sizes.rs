//! What the size of a ladder's problem is: a number of elements, up to three numbers such as `m`,
//! `n`, `k`, or the tokens and heads of attention.

use super::heads::HeadSizes;
use crate::{Error, ErrorKind};

/// What a ladder's size says.
#[derive(Debug, Clone, Copy)]
pub enum Sizes {
    /// A number of elements, up to the ladder's `max_size`.
    Elements,
    /// Three numbers, each from 1 on, packed into one by [`pack`].
    Numbers(Numbers),
    /// Tokens and heads of attention.
    Heads(HeadSizes),
}

/// The numbers that a ladder takes instead of a number of elements.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// How they are written: `N or MxNxK`.
    pub form: &'static str,
    /// All of them, made from those that were written; nothing if they are too many or too few.
    pub complete: fn(&[usize]) -> Option<[usize; 3]>,
    /// The most that each may be; below 2^20.
    pub most: [usize; 3],
    /// How many of them are printed: the last ones may mean nothing.
    pub shown: usize,
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
pub const fn pack(numbers: [usize; 3]) -> usize {
    let [a, b, c] = numbers;
    assert!(a >> BITS == 0 && b >> BITS == 0 && c >> BITS == 0, "a packed number is below 2^20");
    (a << (2 * BITS)) | (b << BITS) | c
}

/// The three numbers that [`pack`] took.
#[must_use]
pub const fn unpack(size: usize) -> [usize; 3] {
    let low = (1 << BITS) - 1;
    [size >> (2 * BITS), (size >> BITS) & low, size & low]
}

impl Sizes {
    /// A size as a user writes it: `33_554_432`, `512`, `300x200x70`.
    pub(super) fn parse(&self, text: &str) -> Result<usize, Error> {
        let number = |text: &str| text.replace('_', "").parse::<usize>().ok();
        let bad = |expected: &'static str| Error::from(ErrorKind::BadSize { text: text.to_owned(), expected });
        match self {
            Self::Elements => number(text).ok_or_else(|| bad("a number of elements")),
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
    pub(super) fn text(&self, size: usize) -> Option<String> {
        match self {
            Self::Elements => None,
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
}
