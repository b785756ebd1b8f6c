//! Element types of eight bits, and architectures.

use warpfold_lang::{Arch, F8E4M3, F8E5M2, Target};

#[test]
fn the_formats_have_the_values_of_their_standard() {
    let e4m3 = |bits| F8E4M3::from_bits(bits).to_f32();
    assert_eq!(
        [0x01, 0x07, 0x08, 0x38, 0x7e, 0xfe].map(e4m3),
        [1.0 / 512.0, 7.0 / 512.0, 1.0 / 64.0, 1.0, 448.0, -448.0]
    );
    let e5m2 = |bits| F8E5M2::from_bits(bits).to_f32();
    assert_eq!(
        [0x01, 0x04, 0x3c, 0x7b, 0xfc].map(e5m2),
        [1.0 / 65536.0, 1.0 / 16384.0, 1.0, 57344.0, f32::NEG_INFINITY]
    );
    assert!(e4m3(0xff).is_nan() && e5m2(0x7d).is_nan());
}

#[test]
fn overflow_saturates_or_does_not() {
    let e4m3 = [464.0, 465.0, -1e30, f32::INFINITY];
    assert_eq!(e4m3.map(|x| F8E4M3::from_f32(x).to_bits()), [0x7e, 0x7e, 0xfe, 0x7e]);
    assert_eq!(e4m3.map(|x| F8E4M3::from_f32_unsaturated(x).to_bits()), [0x7e, 0x7f, 0x7f, 0x7f]);
    let e5m2 = [61439.0, 61440.0, -1e30, f32::INFINITY];
    assert_eq!(e5m2.map(|x| F8E5M2::from_f32(x).to_bits()), [0x7b, 0x7b, 0xfb, 0x7b]);
    assert_eq!(e5m2.map(|x| F8E5M2::from_f32_unsaturated(x).to_bits()), [0x7b, 0x7c, 0xfc, 0x7c]);
}

#[test]
fn architectures_parse_as_they_print() {
    for text in ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_100a", "sm_120"] {
        assert_eq!(text.parse::<Arch>().expect("a known form").to_string(), text);
    }
    for text in ["", "80", "sm_", "sm_75", "sm_80a", "sm_90b", "compute_90"] {
        let error = text.parse::<Arch>().expect_err("not an architecture");
        assert!(error.to_string().contains(&format!("'{text}'")), "{error}");
    }
}

#[test]
fn a_target_has_what_is_no_newer_than_itself() {
    let target = Target::new(Arch::SM_89, (8, 3));
    assert!(target.has(89, (8, 3)) && target.has(80, (7, 8)) && target.has(80, (8, 0)));
    assert!(!target.has(90, (7, 0)) && !target.has(80, (8, 4)) && !target.has(80, (9, 0)));
}
