//! The next hundred first guesses, after those of `guesses`: what is left of candle-core's and
//! PyTorch's methods where an operator exists. Each compiles, and gives the value that it gives
//! there.

use warpfold::{Device, Dtype, Error, Profile, Tensor};

fn device() -> Device {
    Device::virtual_gpu(Profile::H200)
}

/// [[1, 2, 3], [4, 5, 6]]
fn x(device: &Device) -> Result<Tensor, Error> {
    Tensor::new(&[[1_f32, 2., 3.], [4., 5., 6.]], device)
}

#[track_caller]
fn check(tensor: &Tensor, shape: &[usize], expected: &[f32]) {
    let found = tensor.float().and_then(|tensor| tensor.to_vec::<f32>()).expect("elements");
    assert_eq!((tensor.dims(), &found[..]), (shape, expected));
}

#[track_caller]
fn near(tensor: &Tensor, expected: &[f32]) {
    let found = tensor.to_vec::<f32>().expect("elements");
    assert_eq!(found.len(), expected.len());
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-6 * b.abs().max(1.0);
    assert!(found.iter().zip(expected).all(close), "{found:?} {expected:?}");
}

#[test]
fn operations_of_two_sides_have_all_their_names() -> Result<(), Error> {
    let device = device();
    let (x, y) = (x(&device)?, Tensor::new(&[2_f32, 2., 6.], &device)?);
    check(&x.broadcast_maximum(&y)?, &[2, 3], &[2., 2., 6., 4., 5., 6.]);
    check(&x.broadcast_minimum(&y)?, &[2, 3], &[1., 2., 3., 2., 2., 6.]);
    check(&x.broadcast_pow(&y)?.i((0, ..2))?, &[2], &[1., 4.]);
    check(&x.broadcast_eq(&y)?, &[2, 3], &[0., 1., 0., 0., 0., 1.]);
    check(&x.broadcast_ne(&y)?, &[2, 3], &[1., 0., 1., 1., 1., 0.]);
    check(&x.broadcast_lt(&y)?, &[2, 3], &[1., 0., 1., 0., 0., 0.]);
    check(&x.broadcast_le(&y)?, &[2, 3], &[1., 1., 1., 0., 0., 1.]);
    check(&x.broadcast_gt(&y)?, &[2, 3], &[0., 0., 0., 1., 1., 0.]);
    check(&x.broadcast_ge(&y)?, &[2, 3], &[0., 1., 0., 1., 1., 1.]);
    check(&x.subtract(1.0)?.multiply(&y)?.divide(2.0)?, &[2, 3], &[0., 1., 6., 3., 4., 15.]);
    check(&x.fmod(2.0)?, &[2, 3], &[1., 0., 1., 0., 1., 0.]);
    check(&x.less(&y)?, &[2, 3], &[1., 0., 1., 0., 0., 0.]);
    check(&x.less_equal(2.0)?, &[2, 3], &[1., 1., 0., 0., 0., 0.]);
    check(&x.greater(5)?, &[2, 3], &[0., 0., 0., 0., 0., 1.]);
    check(&x.greater_equal(5)?, &[2, 3], &[0., 0., 0., 0., 1., 1.]);
    check(&x.not_equal(5)?, &[2, 3], &[1., 1., 1., 1., 0., 1.]);
    let holed = Tensor::new(&[f32::NAN, 1., 3.], &device)?;
    check(&holed.fmax(2.0)?, &[3], &[2., 2., 3.]);
    check(&holed.fmin(2.0)?, &[3], &[2., 1., 2.]);
    let bits = Tensor::new(&[12_i32, 10], &device)?;
    check(&bits.bitwise_and(6)?, &[2], &[4., 2.]);
    check(&bits.bitwise_or(6)?, &[2], &[14., 14.]);
    check(&bits.bitwise_xor(6)?, &[2], &[10., 12.]);
    check(&bits.bitwise_not()?, &[2], &[-13., -11.]);
    check(&bits.bitwise_left_shift(2)?, &[2], &[48., 40.]);
    check(&bits.bitwise_right_shift(1)?, &[2], &[6., 5.]);
    check(&x.clip(2.0, 5.0)?, &[2, 3], &[2., 2., 3., 4., 5., 5.]);
    check(&x.clamp_min(3.0)?, &[2, 3], &[3., 3., 3., 4., 5., 6.]);
    check(&x.clamp_max(3.0)?, &[2, 3], &[1., 2., 3., 3., 3., 3.]);
    check(&x.lerp(&(&x * 3.0)?, 0.5)?, &[2, 3], &[2., 4., 6., 8., 10., 12.]);
    check(&x.addcmul(&x, &y, 0.5)?, &[2, 3], &[2., 4., 12., 8., 10., 24.]);
    check(&x.isclose(&x.add(0.001)?, 0.0, 0.01)?, &[2, 3], &[1.; 6]);
    assert!(x.allclose(&x.add(1e-6)?, 1e-5, 1e-8)? && !x.allclose(&y, 1e-5, 1e-8)?);
    assert!(x.equal(&x.clone())? && !x.equal(&x.t()?)? && !holed.equal(&holed)?);
    Ok(())
}

#[test]
fn activations_are_there() -> Result<(), Error> {
    let device = device();
    let values = [-4_f32, -0.5, 0., 2., 100.];
    let x = Tensor::new(&values, &device)?;
    let of = |f: fn(f64) -> f64| values.map(|x| f(f64::from(x)) as f32);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    check(&x.absolute()?, &[5], &[4., 0.5, 0., 2., 100.]);
    check(&x.negative()?, &[5], &[4., 0.5, 0., -2., -100.]);
    check(&x.relu6()?, &[5], &[0., 0., 0., 2., 6.]);
    check(&x.hardtanh(-1.0, 1.0)?, &[5], &[-1., -0.5, 0., 1., 1.]);
    near(&x.hardsigmoid()?, &[0., 2.5 / 6., 0.5, 5. / 6., 1.]);
    near(&x.hardswish()?, &[0., -1.25 / 6., 0., 10. / 6., 100.]);
    near(&x.swish()?, &of(|x| x / (1.0 + (-x).exp())));
    near(&x.softplus()?, &values.map(|x| softplus(f64::from(x)) as f32));
    near(&x.log_sigmoid()?, &values.map(|x| -softplus(-f64::from(x)) as f32));
    near(&x.softsign()?, &of(|x| x / (1.0 + x.abs())));
    near(&x.mish()?, &values.map(|x| (f64::from(x) * softplus(f64::from(x)).tanh()) as f32));
    near(&x.selu()?.narrow(0, 0, 4)?, &[-1.725_898_5, -0.691_758_1, 0., 2.101_402]);
    near(&x.narrow(0, 0, 4)?.sinh()?, &[-4_f32, -0.5, 0., 2.].map(f32::sinh));
    near(&x.narrow(0, 0, 4)?.cosh()?, &[-4_f32, -0.5, 0., 2.].map(f32::cosh));
    check(&(&x / 8.0)?.frac()?, &[5], &[-0.5, -0.0625, 0., 0.25, 0.5]);
    near(&Tensor::new(&[1.256_f32, -2.344], &device)?.round_to(2)?, &[1.26, -2.34]);
    check(&Tensor::new(&[1256_f32], &device)?.round_to(-2)?, &[1], &[1300.]);
    near(&x.narrow(0, 2, 2)?.softmin(-1)?, &[0.880_797, 0.119_203]);
    check(&Tensor::new(&[[3_f32, 4.]], &device)?.normalize(1)?, &[1, 2], &[0.6, 0.8]);
    let (a, b) = (Tensor::new(&[[3_f32, 4.]], &device)?, Tensor::new(&[[4_f32, 3.]], &device)?);
    near(&a.cosine_similarity(&b, 1)?, &[0.96]);
    check(&a.mse_loss(&b)?, &[], &[1.]);
    check(&a.l1_loss(&b)?, &[], &[1.]);
    Ok(())
}

#[test]
fn reductions_scans_and_orders_have_pytorchs_names() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    check(&x.prod(1)?, &[2], &[6., 120.]);
    check(&x.amax(0)?, &[3], &[4., 5., 6.]);
    check(&x.amin_keepdim(1)?, &[2, 1], &[1., 4.]);
    check(&x.l2_norm(1)?.square()?.round()?, &[2], &[14., 77.]);
    near(&x.logsumexp(1)?, &[3.407_606, 6.407_606]);
    check(&x.std(1)?, &[2], &[1., 1.]);
    check(&x.std_keepdim(0)?.sqr()?.round_to(3)?, &[1, 3], &[4.5; 3]);
    check(&x.var_all()?, &[], &[3.5]);
    near(&x.std_all()?, &[3.5_f32.sqrt()]);
    let (variance, mean) = x.var_mean(1)?;
    check(&variance, &[2], &[1., 1.]);
    check(&mean, &[2], &[2., 5.]);
    let (low, high) = x.aminmax(0)?;
    check(&low, &[3], &[1., 2., 3.]);
    check(&high, &[3], &[4., 5., 6.]);
    let zigzag = Tensor::new(&[3_f32, 1., 4., 1., 5.], &device)?;
    check(&zigzag.cummax(0)?, &[5], &[3., 3., 4., 4., 5.]);
    check(&zigzag.cummin(0)?, &[5], &[3., 1., 1., 1., 1.]);
    check(&zigzag.argsort(0)?, &[5], &[1., 3., 0., 2., 4.]);
    check(&zigzag.argsort_descending(-1)?, &[5], &[4., 2., 0., 1., 3.]);
    check(&zigzag.sort_last_dim(true)?.0, &[5], &[1., 1., 3., 4., 5.]);
    check(&zigzag.arg_sort_last_dim(false)?, &[5], &[4., 2., 0., 1., 3.]);
    let (values, positions) = zigzag.topk(2, 0)?;
    check(&values, &[2], &[5., 4.]);
    check(&positions, &[2], &[4., 2.]);
    Ok(())
}

#[test]
fn axes_are_moved_taken_apart_and_repeated() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    let turned = &[1., 4., 2., 5., 3., 6.];
    check(&x.swapaxes(0, 1)?, &[3, 2], turned);
    check(&x.swapdims(-1, -2)?, &[3, 2], turned);
    check(&x.movedim(0, -1)?, &[3, 2], turned);
    assert_eq!(Tensor::zeros((2, 3, 4), Dtype::F32, &device)?.moveaxis(2, 0)?.dims(), [4, 2, 3]);
    assert_eq!(Tensor::zeros((2, 3, 4), Dtype::F32, &device)?.movedim(0, 1)?.dims(), [3, 2, 4]);
    check(&x.t()?.ravel()?, &[6], turned);
    assert_eq!(x.ravel()?.unflatten(0, (3, 2))?.dims(), [3, 2]);
    assert_eq!(x.view_as(&x.t()?.contiguous()?)?.address(), x.address());
    check(&x.reshape_as(&x.t()?)?, &[3, 2], &[1., 2., 3., 4., 5., 6.]);
    check(&x.i(0)?.expand_as(&x)?, &[2, 3], &[1., 2., 3., 1., 2., 3.]);
    check(&x.i(0)?.broadcast_to((2, 3))?, &[2, 3], &[1., 2., 3., 1., 2., 3.]);
    check(&x.i(0)?.broadcast_left(2)?, &[2, 3], &[1., 2., 3., 1., 2., 3.]);
    check(&x.select(1, -1)?, &[2], &[3., 6.]);
    check(&x.get_on_dim(0, 1)?, &[3], &[4., 5., 6.]);
    let error = x.select(1, 3).unwrap_err().to_string();
    assert_eq!(error, "select: axis 1 has 3 position(s), and none at 3");
    let columns = x.unbind(1)?;
    check(&columns[2], &[2], &[3., 6.]);
    check(&x.unfold(1, 2, 1)?, &[2, 2, 2], &[1., 2., 2., 3., 4., 5., 5., 6.]);
    assert!(x.unfold(1, 4, 1).is_err() && x.unfold(1, 2, 0).is_err());
    check(&x.diagonal()?, &[2], &[1., 5.]);
    check(&x.trace()?, &[], &[6.]);
    check(&x.tril(0)?, &[2, 3], &[1., 0., 0., 4., 5., 0.]);
    check(&x.tril(1)?, &[2, 3], &[1., 2., 0., 4., 5., 6.]);
    check(&x.triu(0)?, &[2, 3], &[1., 2., 3., 0., 5., 6.]);
    check(&x.triu(-1)?.unsqueeze(0)?.triu(1)?, &[1, 2, 3], &[0., 2., 3., 0., 0., 6.]);
    check(&x.roll(1, 1)?, &[2, 3], &[3., 1., 2., 6., 4., 5.]);
    check(&x.roll(-4, 1)?, &[2, 3], &[2., 3., 1., 5., 6., 4.]);
    check(&x.roll(2, 0)?, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    check(&x.repeat_interleave(2, 0)?.i((.., 0))?, &[4], &[1., 1., 4., 4.]);
    check(&x.i(0)?.tile((2, 2))?, &[2, 6], &[1., 2., 3., 1., 2., 3., 1., 2., 3., 1., 2., 3.]);
    check(&x.flip([0, 1])?, &[2, 3], &[6., 5., 4., 3., 2., 1.]);
    check(&x.flip(&[1])?, &[2, 3], &[3., 2., 1., 6., 5., 4.]);
    Ok(())
}

#[test]
fn tensors_are_joined_and_made_in_more_ways() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    check(&x.slice_scatter(&x.zeros_like()?.narrow(1, 0, 2)?, 1, 1)?, &[2, 3], &[1., 0., 0., 4., 0., 0.]);
    check(&Tensor::concat(&[&x, &x.i(..1)?], 0)?.i((2, ..))?, &[3], &[1., 2., 3.]);
    check(&Tensor::hstack(&[x.i(0)?, x.i(1)?])?, &[6], &[1., 2., 3., 4., 5., 6.]);
    assert_eq!(Tensor::hstack(&[&x, &x])?.dims(), [2, 6]);
    check(&Tensor::vstack(&[x.i(0)?, x.i(1)?])?, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let grid = Tensor::meshgrid(&[Tensor::arange(0, 2, &device)?, Tensor::arange(0, 3, &device)?], false)?;
    check(&grid[0], &[2, 3], &[0., 0., 0., 1., 1., 1.]);
    check(&grid[1], &[2, 3], &[0., 1., 2., 0., 1., 2.]);
    check(&Tensor::new(&[2_u32, 0], &device)?.one_hot(3)?, &[2, 3], &[0., 0., 1., 1., 0., 0.]);
    let mut shuffled = Tensor::randperm(100, &device)?.to_vec::<i64>()?;
    assert_ne!(shuffled, Vec::from_iter(0..100));
    shuffled.sort_unstable();
    assert_eq!(shuffled, Vec::from_iter(0..100));
    assert_eq!(Tensor::empty((2, 3), Dtype::F16, &device)?.dims(), [2, 3]);
    assert_eq!((x.empty_like()?.dims(), x.empty_like()?.dtype()), (&[2, 3][..], Dtype::F32));
    Ok(())
}

#[test]
fn elements_are_put_where_tensors_and_ranges_say() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    let (to, y) = (Tensor::new(&[[2_i64, 0], [1, 1]], &device)?, Tensor::new(&[[10_f32, 20.], [30., 40.]], &device)?);
    check(&x.scatter(&to, &y, 1)?, &[2, 3], &[20., 2., 10., 4., 40., 6.]);
    check(&x.scatter_add(&to, &y, 1)?, &[2, 3], &[21., 2., 13., 4., 75., 6.]);
    check(&x.zeros_like()?.scatter_add(&to.narrow(0, 1, 1)?, &y, 0)?, &[2, 3], &[0., 0., 0., 10., 20., 0.]);
    let rows = Tensor::new(&[0_u32, 0], &device)?;
    check(&x.index_add(&rows, &x, 0)?, &[2, 3], &[6., 9., 12., 4., 5., 6.]);
    check(&x.index_add(&Tensor::new(&[2_u8, 0], &device)?, &y, -1)?, &[2, 3], &[21., 2., 13., 44., 5., 36.]);
    check(&x.index_copy(&rows, &x, 0)?, &[2, 3], &[4., 5., 6., 4., 5., 6.]);
    let zeros = Tensor::zeros((2, 2), Dtype::F32, &device)?;
    check(&x.slice_assign(&[0..2, 1..3], &zeros)?, &[2, 3], &[1., 0., 0., 4., 0., 0.]);
    check(&x.slice_assign(&[.., ..], &x.i(0)?)?, &[2, 3], &[1., 2., 3., 1., 2., 3.]);
    check(&x.slice_assign((.., -1), &zeros.i(0)?)?, &[2, 3], &[1., 2., 0., 4., 5., 0.]);
    check(&x.slice_assign(1..1, &Tensor::zeros((0, 3), Dtype::F32, &device)?)?, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    let error = x.slice_assign(0..1, &zeros).unwrap_err().to_string();
    assert_eq!(error, "shapes [2, 2] and [1, 3] do not fit each other: 2 and 3 in axis -1");
    let image = x.unsqueeze(0)?.unsqueeze(0)?;
    let doubled = [1., 1., 2., 2., 3., 3., 4., 4., 5., 5., 6., 6.];
    check(&image.upsample_nearest2d(2, 6)?, &[1, 1, 2, 6], &doubled);
    check(&image.interpolate2d(1, 2)?, &[1, 1, 1, 2], &[1., 2.]);
    check(&x.unsqueeze(0)?.upsample_nearest1d(6)?, &[1, 2, 6], &doubled);
    check(&x.unsqueeze(0)?.interpolate1d(6)?, &[1, 2, 6], &doubled);
    check(&image.upsample_bilinear2d(3, 3, true)?, &[1, 1, 3, 3], &[1., 2., 3., 2.5, 3.5, 4.5, 4., 5., 6.]);
    check(&image.upsample_bilinear2d(1, 3, false)?, &[1, 1, 1, 3], &[2.5, 3.5, 4.5]);
    Ok(())
}

#[test]
fn products_are_called_as_in_pytorch() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    let square = [14., 32., 32., 77.];
    check(&x.mm(&x.t()?)?, &[2, 2], &square);
    check(&x.unsqueeze(0)?.bmm(&x.t()?.unsqueeze(0)?)?, &[1, 2, 2], &square);
    check(&x.mv(&x.i(0)?)?, &[2], &[14., 32.]);
    check(&x.i(0)?.dot(&x.i(1)?)?, &[], &[32.]);
    check(&x.i((0, ..2))?.outer(&x.i(1)?)?, &[2, 3], &[4., 5., 6., 8., 10., 12.]);
    check(&x.unsqueeze(0)?.broadcast_matmul(&x.t()?)?, &[1, 2, 2], &square);
    check(&Tensor::ones((2, 2), Dtype::F32, &device)?.addmm(&x, &x.t()?)?, &[2, 2], &[15., 33., 33., 78.]);
    check(&x.linear(&x, None)?, &[2, 2], &square);
    check(&x.linear(&x, Some(&Tensor::new(&[1_f32, 2.], &device)?))?, &[2, 2], &[15., 34., 33., 79.]);
    let error = x.mm(&x).unwrap_err().to_string();
    assert_eq!(error, "matmul: inner 3 and 2: the left factor is [2, 3], the right [2, 3]");
    let error = x.bmm(&x).unwrap_err().to_string();
    assert_eq!(error, "bmm: the left operand [2, 3] has 2 axes, not 3");
    Ok(())
}

#[test]
fn types_are_changed_by_their_names() -> Result<(), Error> {
    let x = x(&device())?;
    let types = [
        (x.float()?, Dtype::F32),
        (x.double()?, Dtype::F64),
        (x.half()?, Dtype::F16),
        (x.bfloat16()?, Dtype::Bf16),
        (x.int()?, Dtype::I32),
        (x.long()?, Dtype::I64),
        (x.short()?, Dtype::I16),
        (x.byte()?, Dtype::U8),
        (x.bool()?, Dtype::Bool),
        (x.type_as(&x.long()?)?, Dtype::I64),
    ];
    for (tensor, dtype) in types {
        assert_eq!(tensor.dtype(), dtype);
        assert_eq!(tensor.i((0, 0))?.float()?.item::<f32>()?, 1.0);
    }
    assert_eq!((x.ndim(), x.nelement(), x.i((1, 2))?.to_vec0::<f32>()?), (2, 6, 6.0));
    Ok(())
}
