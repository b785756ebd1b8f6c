//! Demangling of C++ and Rust symbols.

/// Demangles a symbol, including its parameters: `scale(float*, int)` for `_Z5scalePfi`; other
/// symbols are returned as they are.
///
/// ```
/// use warpfold_sim::demangled;
/// assert_eq!(demangled("_Z5scalePfi"), "scale(float*, int)");
/// assert_eq!(demangled("add_kernel"), "add_kernel");
/// ```
#[must_use]
pub fn demangled(symbol: &str) -> String {
    if symbol.starts_with("_Z")
        && let Ok(name) = cpp_demangle::Symbol::new(symbol)
        && let Ok(text) = name.demangle()
        && !is_of_rust(symbol)
    {
        return text;
    }
    rustc_demangle::try_demangle(symbol).map_or_else(|_| symbol.to_owned(), |name| format!("{name:#}"))
}

/// Returns true for Rust's legacy mangling, which is C++'s with a hash at the end.
fn is_of_rust(symbol: &str) -> bool {
    symbol.strip_suffix('E').and_then(|rest| rest.rsplit_once("17h")).is_some_and(|(_, hash)| hash.len() == 16)
}

/// The last part of a demangled name, without parameters and scopes: `tile` for
/// `transpose(float*)::tile`, `scale<float>` for `void scale<float>(float*)`.
#[must_use]
pub fn short_name(symbol: &str) -> String {
    let whole = demangled(symbol);
    if whole == symbol {
        return whole;
    }
    // Parameters, scopes and a template's result type are distinguished at the outermost nesting
    // level.
    let (mut depth, mut start, mut end) = (0_u32, 0, whole.len());
    let bytes = whole.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' if depth == 0 => {
                // `(anonymous namespace)::` and what stands in a function go on after it.
                end = if end == whole.len() { at } else { end };
                depth += 1;
            }
            b'(' | b'<' | b'{' => depth += 1,
            b')' | b'>' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) != Some(&b':') => (start, end) = (at + 1, whole.len()),
            b' ' if depth == 0 && end == whole.len() => start = at + 1,
            _ => {}
        }
    }
    whole.get(start..end).filter(|name| !name.is_empty()).unwrap_or(&whole).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_cpp_and_rust_read_as_written() {
        assert_eq!(demangled("_Z9transposePKfPf"), "transpose(float const*, float*)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvC6_123foo3bar"), "123foo::bar");
        for plain in ["tile", "_Z", "_Znonsense", "_R", "", "matmul_kernel"] {
            assert_eq!(demangled(plain), plain);
        }
    }

    #[test]
    fn a_short_name_is_the_last_part() {
        assert_eq!(short_name("_ZZ9transposePKfPfE4tile"), "tile");
        assert_eq!(short_name("_Z5scaleIfEvPT_"), "scale<float>");
        assert_eq!(short_name("_ZN2ns5scaleIfEEvPT_"), "scale<float>");
        assert_eq!(short_name("_ZN12_GLOBAL__N_14tileE"), "tile");
        assert_eq!(short_name("plain(name"), "plain(name");
    }
}
