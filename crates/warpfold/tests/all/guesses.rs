//! A hundred first guesses: what users of candle and PyTorch write before they read our
//! documentation, taken from theirs (candle-core's `Tensor`, the candle book's cheatsheet,
//! `torch.Tensor`); each compiles, and gives the value that it gives there.

use warpfold::{Device, Dtype, Error, Profile, Queue, Tensor};

fn device() -> Device {
    Device::virtual_gpu(Profile::H200)
}

/// [[1, 2, 3], [4, 5, 6]]
fn x(device: &Device) -> Result<Tensor, Error> {
    Tensor::new(&[[1_f32, 2., 3.], [4., 5., 6.]], device)
}

#[track_caller]
fn check(tensor: &Tensor, shape: &[usize], expected: &[f32]) {
    let found = tensor.to_dtype(Dtype::F32).and_then(|tensor| tensor.to_vec::<f32>()).expect("elements");
    assert_eq!((tensor.dims(), &found[..]), (shape, expected));
}

#[track_caller]
fn near(tensor: &Tensor, expected: &[f32]) {
    let found = tensor.to_vec::<f32>().expect("elements");
    assert_eq!(found.len(), expected.len());
    assert!(
        found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs().max(1.0)),
        "{found:?} {expected:?}"
    );
}

#[test]
fn tensors_are_created() -> Result<(), Error> {
    let device = device();
    check(&Tensor::new(&[1_f32, 2.], &device)?, &[2], &[1., 2.]);
    check(&Tensor::new(vec![vec![1_f32], vec![2.]], &device)?, &[2, 1], &[1., 2.]);
    check(&Tensor::new(7_i64, &device)?, &[], &[7.]);
    check(&Tensor::from_vec(vec![1_u8, 2, 3, 4], (2, 2), &device)?, &[2, 2], &[1., 2., 3., 4.]);
    check(&Tensor::from_slice(&[1_f32, 2.], &[1, 2], &device)?, &[1, 2], &[1., 2.]);
    check(&Tensor::from_iter(0_u32..3, &device)?, &[3], &[0., 1., 2.]);
    check(&Tensor::zeros((2, 3), Dtype::F32, &device)?, &[2, 3], &[0.; 6]);
    check(&Tensor::ones(3, Dtype::I64, &device)?, &[3], &[1.; 3]);
    check(&Tensor::ones(&[2, 1], Dtype::Bool, &device)?, &[2, 1], &[1.; 2]);
    check(&Tensor::full(2.5_f32, (2, 2), &device)?, &[2, 2], &[2.5; 4]);
    check(&Tensor::zeros_like(&x(&device)?)?, &[2, 3], &[0.; 6]);
    check(&x(&device)?.ones_like()?, &[2, 3], &[1.; 6]);
    check(&Tensor::arange(0_f32, 5., &device)?, &[5], &[0., 1., 2., 3., 4.]);
    check(&Tensor::arange(2, 5, &device)?, &[3], &[2., 3., 4.]);
    check(&Tensor::arange_step(0_f32, 1., 0.25, &device)?, &[4], &[0., 0.25, 0.5, 0.75]);
    check(&Tensor::arange_step(5, 0, -2, &device)?, &[3], &[5., 3., 1.]);
    check(&Tensor::arange(5, 2, &device)?, &[0], &[]);
    check(&Tensor::linspace(0., 1., 5, Dtype::F32, &device)?, &[5], &[0., 0.25, 0.5, 0.75, 1.]);
    check(&Tensor::eye(2, Dtype::F32, &device)?, &[2, 2], &[1., 0., 0., 1.]);
    check(&Tensor::tril2(2, Dtype::F32, &device)?, &[2, 2], &[1., 0., 1., 1.]);
    check(&Tensor::triu2(2, Dtype::U8, &device)?, &[2, 2], &[1., 1., 0., 1.]);
    Ok(())
}

#[test]
fn random_numbers_come_from_a_seed() -> Result<(), Error> {
    let device = device();
    let len = 4099;
    let drawn = |seed| -> Result<Vec<Tensor>, Error> {
        Queue::of(&device).set_seed(seed);
        Ok(vec![
            Tensor::rand(-1_f32, 1., len, &device)?,
            Tensor::randn(3_f32, 2., (len,), &device)?,
            Tensor::randn(0_f64, 1., len, &device)?,
            Tensor::rand(0_f64, 1., len, &device)?,
            Tensor::randint(-5, 5, len, &device)?,
            Tensor::ones((3, 5), Dtype::Bf16, &device)?.randn_like(0., 1.)?,
            Tensor::ones((3, 5), Dtype::F16, &device)?.rand_like(0., 1.)?,
        ])
    };
    let (first, again, other) = (drawn(42)?, drawn(42)?, drawn(43)?);
    for ((first, again), other) in first.iter().zip(&again).zip(&other) {
        assert_eq!(first.to_bytes()?, again.to_bytes()?);
        assert_ne!(first.to_bytes()?, other.to_bytes()?);
    }
    assert_ne!(
        Tensor::rand(0_f32, 1., 8, &device)?.to_vec::<f32>()?,
        Tensor::rand(0_f32, 1., 8, &device)?.to_vec::<f32>()?
    );
    let moments = |tensor: &Tensor| -> Result<(f64, f64), Error> {
        let tensor = tensor.to_dtype(Dtype::F64)?;
        Ok((tensor.mean_all()?.to_scalar()?, tensor.var(..)?.to_scalar()?))
    };
    // Five standard errors of the mean of 4099, and what the variance of a variance allows.
    for (tensor, mean, variance) in [
        (&first[0], 0.0, 1.0 / 3.0),
        (&first[1], 3.0, 4.0),
        (&first[2], 0.0, 1.0),
        (&first[3], 0.5, 1.0 / 12.0),
        (&first[4], -0.5, 8.25),
    ] {
        let (found_mean, found_variance) = moments(tensor)?;
        assert!((found_mean - mean).abs() < 5.0 * (variance / len as f64).sqrt(), "{found_mean} {mean}");
        assert!((found_variance / variance - 1.0).abs() < 0.12, "{found_variance} {variance}");
    }
    assert!(first[0].to_vec::<f32>()?.iter().all(|x| (-1.0..1.0).contains(x)));
    assert!((-5..5).all(|i| first[4].to_vec::<i64>().expect("integers").contains(&i)));
    assert!(first[4].to_vec::<i64>()?.iter().all(|i| (-5..5).contains(i)));
    // A shorter tensor of the same draw begins as the longer one.
    Queue::of(&device).set_seed(42);
    assert_eq!(Tensor::rand(-1_f32, 1., 7, &device)?.to_vec::<f32>()?, first[0].to_vec::<f32>()?[..7]);
    Ok(())
}

#[test]
fn arithmetic_is_written_with_operators() -> Result<(), Error> {
    let device = device();
    let (x, y) = (x(&device)?, Tensor::new(&[10_f32, 20., 30.], &device)?);
    check(&(&x + &y)?, &[2, 3], &[11., 22., 33., 14., 25., 36.]);
    check(&(&x - &y)?, &[2, 3], &[-9., -18., -27., -6., -15., -24.]);
    check(&(&x * &y)?, &[2, 3], &[10., 40., 90., 40., 100., 180.]);
    check(&(&y / &x)?, &[2, 3], &[10., 10., 10., 2.5, 4., 5.]);
    check(&(&x % 2.0)?, &[2, 3], &[1., 0., 1., 0., 1., 0.]);
    check(&(&x * 2.0)?, &[2, 3], &[2., 4., 6., 8., 10., 12.]);
    check(&(&x + 1.0)?, &[2, 3], &[2., 3., 4., 5., 6., 7.]);
    check(&(&x - 1)?, &[2, 3], &[0., 1., 2., 3., 4., 5.]);
    check(&(&x / 2.0)?, &[2, 3], &[0.5, 1., 1.5, 2., 2.5, 3.]);
    check(&(2.0 * &x)?, &[2, 3], &[2., 4., 6., 8., 10., 12.]);
    check(&(1.0 - &x)?, &[2, 3], &[0., -1., -2., -3., -4., -5.]);
    check(&(60.0 / &x)?, &[2, 3], &[60., 30., 20., 15., 12., 10.]);
    check(&(-&x)?, &[2, 3], &[-1., -2., -3., -4., -5., -6.]);
    check(&(&x * 2.0 + &y)?, &[2, 3], &[12., 24., 36., 18., 30., 42.]);
    check(&(&x + (&y * 2.0))?, &[2, 3], &[21., 42., 63., 24., 45., 66.]);
    check(&(x.clone() + y.clone())?, &[2, 3], &[11., 22., 33., 14., 25., 36.]);
    check(&(&x * 2.0)?.relu()?, &[2, 3], &[2., 4., 6., 8., 10., 12.]);
    check(&(2 * &x)?.sum(-1)?, &[2], &[12., 30.]);
    check(&((&x - 1.0)? * &y)?.t()?, &[3, 2], &[0., 30., 20., 80., 60., 150.]);
    check(&x.add(&y)?, &[2, 3], &[11., 22., 33., 14., 25., 36.]);
    check(&x.broadcast_mul(&y)?, &[2, 3], &[10., 40., 90., 40., 100., 180.]);
    check(&x.affine(2.0, 1.0)?, &[2, 3], &[3., 5., 7., 9., 11., 13.]);
    let negative_zero = (Tensor::new(&[-0_f32], &device)? * 2.0)?.to_vec::<f32>()?[0];
    assert!(negative_zero.is_sign_negative());
    let i = Tensor::new(&[7_u8, 8], &device)?;
    check(&(&i / 2)?, &[2], &[3., 4.]);
    let error = (&i * 0.5).unwrap_err().to_string();
    assert_eq!(error, "scale needs an option 'alpha' that is a whole number for integers");
    Ok(())
}

#[test]
fn functions_have_the_usual_names() -> Result<(), Error> {
    let device = device();
    let x = Tensor::new(&[-2_f32, 0., 0.5, 4.], &device)?;
    let positive = Tensor::new(&[0.25_f32, 1., 4.], &device)?;
    check(&x.relu()?, &[4], &[0., 0., 0.5, 4.]);
    check(&x.abs()?, &[4], &[2., 0., 0.5, 4.]);
    check(&x.neg()?, &[4], &[2., 0., -0.5, -4.]);
    check(&x.sqr()?, &[4], &[4., 0., 0.25, 16.]);
    check(&positive.sqrt()?, &[3], &[0.5, 1., 2.]);
    check(&positive.rsqrt()?, &[3], &[2., 1., 0.5]);
    check(&positive.recip()?, &[3], &[4., 1., 0.25]);
    near(&x.exp()?, &[-2_f32, 0., 0.5, 4.].map(f32::exp));
    near(&positive.log()?, &[0.25_f32, 1., 4.].map(f32::ln));
    near(&x.sin()?, &[-2_f32, 0., 0.5, 4.].map(f32::sin));
    near(&x.cos()?, &[-2_f32, 0., 0.5, 4.].map(f32::cos));
    near(&x.tanh()?, &[-2_f32, 0., 0.5, 4.].map(f32::tanh));
    near(&x.sigmoid()?, &[-2_f32, 0., 0.5, 4.].map(|x| 1. / (1. + (-x).exp())));
    near(&x.silu()?, &[-2_f32, 0., 0.5, 4.].map(|x| x / (1. + (-x).exp())));
    near(&x.gelu()?, &[-0.045_500_264, 0., 0.345_731_23, 3.999_873_3]);
    near(&x.gelu_erf()?, &x.gelu()?.to_vec::<f32>()?);
    near(&x.erf()?, &[-0.995_322_3, 0., 0.520_499_9, 1.]);
    near(&x.elu(1.0)?, &[(-2_f32).exp() - 1., 0., 0.5, 4.]);
    check(&x.leaky_relu(0.5)?, &[4], &[-1., 0., 0.5, 4.]);
    check(&x.floor()?, &[4], &[-2., 0., 0., 4.]);
    check(&x.ceil()?, &[4], &[-2., 0., 1., 4.]);
    check(&x.round()?, &[4], &[-2., 0., 0., 4.]);
    check(&x.sign()?, &[4], &[-1., 0., 1., 1.]);
    check(&x.powf(2.0)?, &[4], &[4., 0., 0.25, 16.]);
    check(&x.pow(&x.full_like(3)?)?, &[4], &[-8., 0., 0.125, 64.]);
    check(&x.clamp(-1.0, 1.0)?, &[4], &[-1., 0., 0.5, 1.]);
    check(&x.maximum(0.25)?, &[4], &[0.25, 0.25, 0.5, 4.]);
    check(&x.minimum(&x.zeros_like()?)?, &[4], &[-2., 0., 0., 0.]);
    check(&x.eq(&x)?, &[4], &[1.; 4]);
    check(&x.ne(0.0)?, &[4], &[1., 0., 1., 1.]);
    check(&x.gt(0.0)?, &[4], &[0., 0., 1., 1.]);
    check(&x.ge(0)?, &[4], &[0., 1., 1., 1.]);
    check(&x.lt(0.5)?, &[4], &[1., 1., 0., 0.]);
    check(&x.le(0.5)?, &[4], &[1., 1., 1., 0.]);
    check(&x.isnan()?, &[4], &[0.; 4]);
    assert_eq!(x.gt(0.0)?.dtype(), Dtype::Bool);
    Ok(())
}

#[test]
fn reductions_take_an_axis_or_several() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    check(&x.sum(-1)?, &[2], &[6., 15.]);
    check(&x.sum(0)?, &[3], &[5., 7., 9.]);
    check(&x.sum((0, 1))?, &[], &[21.]);
    check(&x.sum(&[0, 1])?, &[], &[21.]);
    check(&x.sum(1..)?, &[2], &[6., 15.]);
    check(&x.sum_keepdim(1)?, &[2, 1], &[6., 15.]);
    check(&x.sum_all()?, &[], &[21.]);
    check(&x.mean(1)?, &[2], &[2., 5.]);
    check(&x.mean_keepdim(0)?, &[1, 3], &[2.5, 3.5, 4.5]);
    check(&x.mean_all()?, &[], &[3.5]);
    check(&x.max(1)?, &[2], &[3., 6.]);
    check(&x.max_keepdim(-1)?, &[2, 1], &[3., 6.]);
    check(&x.min(0)?, &[3], &[1., 2., 3.]);
    check(&x.min_all()?, &[], &[1.]);
    check(&x.var(1)?, &[2], &[1., 1.]);
    check(&x.var_keepdim(1)?, &[2, 1], &[1., 1.]);
    check(&x.argmax(1)?, &[2], &[2., 2.]);
    check(&x.argmin_keepdim(0)?, &[1, 3], &[0., 0., 0.]);
    check(&x.gt(2.0)?.any(0)?, &[3], &[1., 1., 1.]);
    check(&x.gt(2.0)?.all(1)?, &[2], &[0., 1.]);
    check(&x.cumsum(1)?, &[2, 3], &[1., 3., 6., 4., 9., 15.]);
    near(&x.log_sum_exp(1)?, &[3.407_606, 6.407_606]);
    near(&x.softmax(-1)?.i(0)?, &[0.090_030_57, 0.244_728_48, 0.665_240_94]);
    near(&x.log_softmax(1)?.i((0, ..))?, &[-2.407_606, -1.407_606, -0.407_605_96]);
    // The usual composition: rows with a mean of zero.
    check(&(&x - x.mean_keepdim(1)?)?, &[2, 3], &[-1., 0., 1., -1., 0., 1.]);
    Ok(())
}

#[test]
fn shapes_are_asked_for_and_changed() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    assert_eq!((x.dims(), x.shape(), x.rank(), x.elem_count(), x.dim(-1)?), (&[2, 3][..], &[2, 3][..], 2, 6, 3));
    assert_eq!((x.dims2()?, x.flatten_all()?.dims1()?, x.unsqueeze(0)?.dims3()?), ((2, 3), 6, (1, 2, 3)));
    assert_eq!(x.dims1().unwrap_err().to_string(), "dims1: the shape [2, 3] has 2 axes, 1 are asked for");
    check(&x.t()?, &[3, 2], &[1., 4., 2., 5., 3., 6.]);
    check(&x.transpose(0, 1)?, &[3, 2], &[1., 4., 2., 5., 3., 6.]);
    check(&x.permute((1, 0))?, &[3, 2], &[1., 4., 2., 5., 3., 6.]);
    check(&x.permute([1, 0])?, &[3, 2], &[1., 4., 2., 5., 3., 6.]);
    check(&x.reshape((3, 2))?, &[3, 2], &[1., 2., 3., 4., 5., 6.]);
    check(&x.reshape(((), 2))?, &[3, 2], &[1., 2., 3., 4., 5., 6.]);
    check(&x.reshape([-1])?, &[6], &[1., 2., 3., 4., 5., 6.]);
    check(&x.t()?.reshape(6)?, &[6], &[1., 4., 2., 5., 3., 6.]);
    assert!(x.t()?.view(6).is_err(), "a view copies nothing");
    assert_eq!(x.view((3, 2))?.address(), x.address());
    check(&x.unsqueeze(1)?, &[2, 1, 3], &[1., 2., 3., 4., 5., 6.]);
    check(&x.unsqueeze(-1)?.squeeze(-1)?, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    check(&x.squeeze(0)?, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    check(&x.unsqueeze(0)?.flatten(0, 1)?, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    check(&x.unsqueeze(0)?.flatten_from(1)?, &[1, 6], &[1., 2., 3., 4., 5., 6.]);
    check(&x.i(0)?.broadcast_as((2, 3))?, &[2, 3], &[1., 2., 3., 1., 2., 3.]);
    check(&x.i(0)?.expand((2, 3))?, &[2, 3], &[1., 2., 3., 1., 2., 3.]);
    check(&x.i(0)?.repeat(2)?, &[6], &[1., 2., 3., 1., 2., 3.]);
    check(&x.flip(1)?, &[2, 3], &[3., 2., 1., 6., 5., 4.]);
    assert!(x.is_contiguous() && !x.t()?.is_contiguous() && x.t()?.contiguous()?.is_contiguous());
    Ok(())
}

#[test]
fn tensors_are_cut_and_joined() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    check(&x.i((0, ..))?, &[3], &[1., 2., 3.]);
    check(&x.i((.., 1))?, &[2], &[2., 5.]);
    check(&x.i((.., 1..))?, &[2, 2], &[2., 3., 5., 6.]);
    check(&x.i((.., -1))?, &[2], &[3., 6.]);
    check(&x.i((1, 0))?, &[], &[4.]);
    check(&x.i(1..2)?, &[1, 3], &[4., 5., 6.]);
    check(&x.get(1)?, &[3], &[4., 5., 6.]);
    check(&x.narrow(1, 1, 2)?, &[2, 2], &[2., 3., 5., 6.]);
    assert_eq!(x.i((0, 5)).unwrap_err().to_string(), "i: axis 1 has 3 position(s), and none at 5");
    let chunks = x.chunk(2, 1)?;
    check(&chunks[0], &[2, 2], &[1., 2., 4., 5.]);
    check(&chunks[1], &[2, 1], &[3., 6.]);
    check(&x.split(&[1, 2], 1)?[1], &[2, 2], &[2., 3., 5., 6.]);
    check(&Tensor::cat(&[&x, &x], 0)?, &[4, 3], &[1., 2., 3., 4., 5., 6., 1., 2., 3., 4., 5., 6.]);
    check(&Tensor::cat(&[x.t()?, x.i((.., ..2))?.t()?], 0)?, &[5, 2], &[1., 4., 2., 5., 3., 6., 1., 4., 2., 5.]);
    check(&Tensor::cat(&[&x, &x.i((.., ..1))?], -1)?, &[2, 4], &[1., 2., 3., 1., 4., 5., 6., 4.]);
    check(&Tensor::stack(&[&x, &x], 0)?, &[2, 2, 3], &[1., 2., 3., 4., 5., 6., 1., 2., 3., 4., 5., 6.]);
    check(&Tensor::stack(&[x.i(0)?, x.i(1)?], 1)?, &[3, 2], &[1., 4., 2., 5., 3., 6.]);
    check(&x.pad_with_zeros(1, 0, 1)?, &[2, 4], &[1., 2., 3., 0., 4., 5., 6., 0.]);
    let error = Tensor::cat(&[x.clone(), x.t()?], 0).unwrap_err().to_string();
    assert_eq!(error, "cat: tensor 1 has 2 in axis 1, tensor 0 has 3");
    Ok(())
}

#[test]
fn elements_are_chosen_by_tensors() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    let ids = Tensor::new(&[2_u32, 0], &device)?;
    check(&x.index_select(&ids, 1)?, &[2, 2], &[3., 1., 6., 4.]);
    check(&x.index_select(&Tensor::new(&[1_i64], &device)?, 0)?, &[1, 3], &[4., 5., 6.]);
    check(&x.embedding(&Tensor::new(&[[1_u32, 0]], &device)?)?, &[1, 2, 3], &[4., 5., 6., 1., 2., 3.]);
    let places = Tensor::new(&[[0_i64, 2], [1, -1]], &device)?;
    check(&x.gather(&places, 1)?, &[2, 2], &[1., 3., 5., 6.]);
    check(&x.gather(&Tensor::new(&[[1_u8, 0, 1]], &device)?, 0)?, &[1, 3], &[4., 2., 6.]);
    let error = x.gather(&Tensor::new(&[[0_i64], [3]], &device)?, 1).unwrap_err().to_string();
    assert_eq!(error, "the index at position 1 names none of 3 row(s)");
    check(&x.gt(2.0)?.where_cond(&x, &x.zeros_like()?)?, &[2, 3], &[0., 0., 3., 4., 5., 6.]);
    check(&Tensor::new(&[1_u8, 0, 1], &device)?.where_cond(&x, &(-&x)?)?, &[2, 3], &[1., -2., 3., 4., -5., 6.]);
    check(&x.masked_fill(&x.lt(3.0)?, -1.0)?, &[2, 3], &[-1., -1., 3., 4., 5., 6.]);
    let y = Tensor::new(&[[1_f32], [0.], [1.]], &device)?;
    check(&x.matmul(&y)?, &[2, 1], &[4., 10.]);
    Ok(())
}

#[test]
fn elements_come_back_in_rusts_types() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    assert_eq!(x.to_vec2::<f32>()?, [[1., 2., 3.], [4., 5., 6.]]);
    assert_eq!(x.i(0)?.to_vec1::<f32>()?, [1., 2., 3.]);
    assert_eq!(x.unsqueeze(0)?.to_vec3::<f32>()?, [[[1., 2., 3.], [4., 5., 6.]]]);
    assert_eq!(x.sum_all()?.to_scalar::<f32>()?, 21.);
    assert_eq!(
        x.to_scalar::<f32>().unwrap_err().to_string(),
        "to_scalar: the shape [2, 3] has 6 elements, one is asked for"
    );
    assert_eq!(x.to_dtype(Dtype::U8)?.to_vec::<u8>()?, [1, 2, 3, 4, 5, 6]);
    let other = Device::virtual_gpu(Profile::A100);
    let moved = x.to_device(&other)?;
    assert_eq!((moved.device(), moved.to_vec::<f32>()?), (&other, x.to_vec::<f32>()?));
    assert_eq!(format!("{x}"), "[[1. 2. 3.]\n [4. 5. 6.]]");
    Ok(())
}
