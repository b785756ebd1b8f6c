//! Errors say which operand or axis does not fit, and both numbers.

use warpfold::{Conv2d, Device, Dtype, Error, NormInputs, Profile, Tensor};

#[track_caller]
fn says<T>(result: Result<T, Error>, expected: &str) {
    let error = result.err().expect("it is refused");
    assert_eq!(error.to_string(), expected);
    // As `fn main() -> Result` and `unwrap` show it.
    assert_eq!(format!("{error:?}"), expected);
}

#[test]
fn errors_name_operand_axis_and_both_numbers() -> Result<(), Error> {
    let device = Device::virtual_gpu(Profile::H200);
    let of = |shape: &[usize]| Tensor::ones(shape, Dtype::F32, &device);
    let x = of(&[2, 3])?;
    says(&x + &of(&[2, 4])?, "shapes [2, 3] and [2, 4] do not fit each other: 3 and 4 in axis -1");
    says(
        &of(&[5, 1, 3])? * &of(&[4, 2, 3])?,
        "shapes [5, 1, 3] and [4, 2, 3] do not fit each other: 5 and 4 in axis -3",
    );
    says(
        x.gt(0.0)?.where_cond(&of(&[3])?, &of(&[4, 3])?),
        "shapes [2, 3] and [4, 3] do not fit each other: 2 and 4 in axis -2",
    );
    says(of(&[5])?.broadcast(1), "shapes [5] and [1] do not fit each other: 5 and 1 in axis -1");
    says(x.broadcast(3), "shapes [2, 3] and [3] do not fit each other: 2 and 1 dimensions");
    says(&x + &x.long()?, "input 1 of add has elements of type i64, not f32: cast one of them");
    says(
        Tensor::cat(&[x.clone(), x.half()?], 0),
        "tensor 1 of cat has elements of type f16, not f32: cast one of them",
    );
    says(x.matmul(&of(&[4, 3])?), "matmul: inner 3 and 4: the left factor is [2, 3], the right [4, 3]");
    says(
        of(&[2, 3, 4])?.matmul(&of(&[5, 4, 6])?),
        "matmul: batches [2] and [5]: the left factor is [2, 3, 4], the right [5, 4, 6]",
    );
    says(x.matmul(&x.t()?.double()?), "the right factor has elements of type f64, not f32: cast one of them");
    says(x.gemv(&of(&[4])?), "gemv: inner 3 and 4: the matrix is [2, 3], the vector [4]");
    says(
        Conv2d::new().run(&of(&[1, 3, 8, 8])?, &of(&[4, 5, 3, 3])?),
        "conv2d: 3 channel(s) of images, and 1 group(s) of 5 of filters: the images are [1, 3, 8, 8], \
         the filters [4, 5, 3, 3]",
    );
    says(
        x.cross_entropy_rows(&Tensor::new(&[0_i64], &device)?, None),
        "cross-entropy: logits [2, 3] take labels [2], not [1]",
    );
    says(x.sum(2), "axis 2 is out of range for 2 dimension(s)");
    says(x.sum([0, 0]), "axis 0 is named twice");
    says(x.narrow(1, 2, 2), "the range 2..4 is not inside axis 1 of 3");
    says(x.i((0, 3)), "i: axis 1 has 3 position(s), and none at 3");
    says(x.reshape((4, ())), "reshape: 6 element(s) of shape [2, 3] are no multiple of 4");
    says(Tensor::from_slice(&[1_f32; 5], &[2, 3], &device), "5 element(s) do not fill the shape [2, 3]");
    says(x.index_select(&Tensor::new(&[0_i64, 2], &device)?, 0), "the index at position 1 names none of 2 row(s)");
    let scale = of(&[4])?;
    let inputs = NormInputs { scale: Some(&scale), ..NormInputs::default() };
    says(x.layer_norm(-1, inputs), "shapes [4] and [3] do not fit each other: 4 and 3 in axis -1");
    Ok(())
}
