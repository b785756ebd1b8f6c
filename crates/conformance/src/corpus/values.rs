//! Lists of values as header lines write them: numbers and generators.

/// The type of a buffer's elements or of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
}

impl Width {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "u8" => Ok(Self::U8),
            "u16" => Ok(Self::U16),
            "u32" => Ok(Self::U32),
            "u64" => Ok(Self::U64),
            other => Err(format!("unknown type '{other}': expected u8, u16, u32 or u64")),
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 => 4,
            Self::U64 => 8,
        }
    }

    fn maximum(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }
}

/// One element of a list; `None` may hold anything.
pub type Element = Option<u64>;

/// Parses a list of numbers and generators, all of which have to fit `width`.
pub(super) fn parse_list(text: &str, width: Width) -> Result<Vec<Element>, String> {
    let mut list = Vec::new();
    for item in split_arguments(text)? {
        list.extend(parse_item(item)?);
    }
    if let Some(large) = list.iter().flatten().find(|&&v| v > width.maximum()) {
        return Err(format!("{large} does not fit {width:?}"));
    }
    Ok(list)
}

fn parse_item(item: &str) -> Result<Vec<Element>, String> {
    let Some((name, rest)) = item.split_once('(') else {
        return Ok(vec![Some(parse_number(item)?)]);
    };
    let inner = rest.strip_suffix(')').ok_or_else(|| format!("'{item}' lacks a closing parenthesis"))?;
    let arguments = split_arguments(inner)?;
    match (name.trim(), arguments.as_slice()) {
        ("iota", [n]) => iota(n, "0", "1"),
        ("iota", [n, first]) => iota(n, first, "1"),
        ("iota", [n, first, step]) => iota(n, first, step),
        ("repeat", [value, n]) => Ok(vec![Some(parse_number(value)?); parse_count(n)?]),
        ("unspecified", [n]) => Ok(vec![None; parse_count(n)?]),
        ("running", [list]) => running(&parse_item(list)?),
        ("interleave", lists) => interleave(lists),
        _ => Err(format!("no generator takes the form '{item}'")),
    }
}

fn iota(n: &str, first: &str, step: &str) -> Result<Vec<Element>, String> {
    let signed = |text: &str| text.parse::<i64>().map_err(|_| format!("'{text}' is not a whole number"));
    let (first, step) = (signed(first)?, signed(step)?);
    let mut list = Vec::new();
    let mut next = first;
    for _ in 0..parse_count(n)? {
        list.push(Some(u64::try_from(next).map_err(|_| format!("iota reaches {next}, below zero"))?));
        next += step;
    }
    Ok(list)
}

fn running(list: &[Element]) -> Result<Vec<Element>, String> {
    let mut sum = 0;
    let mut sums = Vec::new();
    for element in list {
        sum += element.ok_or("running sums of unspecified elements")?;
        sums.push(Some(sum));
    }
    Ok(sums)
}

fn interleave(lists: &[&str]) -> Result<Vec<Element>, String> {
    let lists = lists.iter().map(|list| parse_item(list)).collect::<Result<Vec<_>, _>>()?;
    let length = lists.first().map_or(0, Vec::len);
    if lists.iter().any(|list| list.len() != length) {
        return Err("interleave needs lists of one length".to_owned());
    }
    Ok((0..length).flat_map(|i| lists.iter().map(move |list| list[i])).collect())
}

pub(super) fn parse_number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("'{}' is not a number", text.trim()))
}

pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    text.trim().parse().map_err(|_| format!("'{}' is not a count", text.trim()))
}

/// Splits at the commas outside parentheses.
fn split_arguments(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (position, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| format!("'{text}' closes too many parentheses"))?,
            ',' if depth == 0 => {
                parts.push(text[start..position].trim());
                start = position + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[u64]) {
        let expected: Vec<Element> = expected.iter().copied().map(Some).collect();
        assert_eq!(parse_list(text, Width::U32), Ok(expected));
    }

    #[test]
    fn generators_expand() {
        check("7", &[7]);
        check("1, 2,3", &[1, 2, 3]);
        check("iota(3), iota(2, 9), iota(3, 6, -3)", &[0, 1, 2, 9, 10, 6, 3, 0]);
        check("repeat(5, 3)", &[5, 5, 5]);
        check("interleave(iota(2), repeat(9, 2))", &[0, 9, 1, 9]);
        check("running(iota(4, 1))", &[1, 3, 6, 10]);
        assert_eq!(parse_list("1, unspecified(2)", Width::U8), Ok(vec![Some(1), None, None]));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", "x", "iota()", "iota(2, 0, -1)", "interleave(iota(2), iota(3))", "iota(2", "iota(2))", "256"] {
            assert!(parse_list(text, Width::U8).is_err(), "{text:?} was accepted");
        }
    }
}
