//! Element types as NumPy names them in files.

use warpfold_kernels::Dtype;

/// Returns the type string of a `.npy` header. NumPy has no `bf16`: it stands there as the package
/// `ml_dtypes` writes it; floats of eight bits stand as plain bytes, since their own name there
/// does not tell the formats apart.
pub(super) fn type_string(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "|b1",
        Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => "|u1",
        Dtype::I8 => "|i1",
        Dtype::U16 => "<u2",
        Dtype::I16 => "<i2",
        Dtype::U32 => "<u4",
        Dtype::I32 => "<i4",
        Dtype::U64 => "<u8",
        Dtype::I64 => "<i8",
        Dtype::F16 => "<f2",
        Dtype::Bf16 => "<V2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
    }
}

/// The type of a type string, if it is one of ours.
pub(super) fn of_type_string(text: &str) -> Option<Dtype> {
    // Single bytes have no order, and neither have plain bytes; some writers give them one.
    let (order, rest) = text.split_at_checked(1)?;
    let is_known = if has_order(rest) { "<>" } else { "|<>=" }.contains(order);
    Dtype::ALL.into_iter().find(|dtype| is_known && type_string(*dtype)[1..] == *rest)
}

/// Returns whether elements are big-endian.
pub(super) fn is_big_endian(text: &str) -> bool {
    text.strip_prefix('>').is_some_and(has_order)
}

fn has_order(rest: &str) -> bool {
    !rest.ends_with('1') && rest != "V2"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_again_by_its_type_string() {
        for dtype in Dtype::ALL {
            let stored = if matches!(dtype, Dtype::F8E4M3 | Dtype::F8E5M2) { Dtype::U8 } else { dtype };
            assert_eq!(of_type_string(type_string(dtype)), Some(stored));
        }
        assert_eq!(of_type_string("<i1"), Some(Dtype::I8));
        assert_eq!(of_type_string("|V2"), Some(Dtype::Bf16));
        assert_eq!(of_type_string(">f4"), Some(Dtype::F32));
        assert_eq!([">f4", "<f4", ">i1", ">V2"].map(is_big_endian), [true, false, false, false]);
    }

    #[test]
    fn other_types_are_not_ours() {
        for text in ["|f4", "<c8", "|O", "|V3", "<f16", "", "é1"] {
            assert_eq!(of_type_string(text), None, "{text}");
        }
    }
}
