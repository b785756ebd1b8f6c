//! Keys, descriptions of tensors, and errors.

use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{Key, TensorSpec};
use warpfold_kernels::{Dtype, Error, ErrorKind};

#[test]
fn keys_are_equal_for_equal_values_of_one_type() {
    assert_eq!(Key::of((1_u32, "a")), Key::of((1_u32, "a")));
    assert_ne!(Key::of(1_u32), Key::of(2_u32));
    assert_ne!(Key::of(1_u32), Key::of(1_u64));
}

#[test]
fn a_unique_key_equals_its_clones_alone() {
    let key = Key::unique();
    assert_eq!(key, key.clone());
    assert_ne!(key, Key::unique());
}

#[test]
fn bytes_are_counted_from_the_first_element_upwards() {
    let spec = |shape: &[usize], strides: &[isize], address| {
        let layout = Layout::new(shape.to_vec(), strides.to_vec()).expect("few dimensions");
        TensorSpec::new(Dtype::F32, layout, address)
    };
    assert_eq!(spec(&[3, 4], &[4, 1], 0).bytes(), 48);
    assert_eq!(spec(&[3, 4], &[-8, 2], 0).bytes(), 28);
    assert_eq!(spec(&[3, 4], &[0, 0], 0).bytes(), 4);
    assert_eq!(spec(&[3, 0], &[4, 1], 0).bytes(), 0);
    assert_eq!([0, 4, 12, 40, 64].map(|address| spec(&[1], &[1], address).alignment()), [16, 4, 4, 8, 16]);
}

#[test]
fn debug_prints_the_sentence_with_axis_and_both_sizes() {
    let error = Error::from(ErrorKind::ShapeMismatch { left: vec![2, 3, 4], right: vec![2, 5, 1] });
    assert_eq!(format!("{error:?}"), "shapes [2, 3, 4] and [2, 5, 1] do not fit each other: 3 and 5 in axis -2");
}

#[test]
fn an_error_is_one_pointer_wide() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}
