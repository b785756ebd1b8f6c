//! What the hundreds of `guesses` and `guesses_next` left: fifty names of candle, burn, ndarray and
//! PyTorch that a newcomer wrote at first contact, and what a wrong guess is told.

use warpfold::{Device, Dtype, Error, Interpolation, Profile, Tensor};

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

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, sentence: &str) {
    assert_eq!(result.unwrap_err().to_string(), sentence);
}

#[test]
fn masks_are_combined_with_operators() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    check(&(x.gt(1.0)? & x.lt(5.0)?)?, &[2, 3], &[0., 1., 1., 1., 0., 0.]);
    check(&(&x.le(1.0)? | &x.ge(5.0)?)?, &[2, 3], &[1., 0., 0., 0., 1., 1.]);
    check(&(x.gt(1.0)? ^ x.gt(5.0)?)?, &[2, 3], &[0., 1., 1., 1., 1., 0.]);
    check(&(!x.gt(2.0)?)?, &[2, 3], &[1., 1., 0., 0., 0., 0.]);
    check(&x.masked_select(&(x.gt(1.0)? & x.lt(5.0))?)?, &[3], &[2., 3., 4.]);
    check(&x.masked_select(&Tensor::new(&[0_u8, 1, 0], &device)?)?, &[2], &[2., 5.]);
    check(&x.masked_select(&x.gt(9.0)?)?, &[0], &[]);
    assert_eq!(x.gt(4.0)?.nonzero()?.to_vec2::<i64>()?, [[1, 1], [1, 2]]);
    assert_eq!(x.gt(9.0)?.nonzero()?.dims(), [0, 2]);
    Ok(())
}

#[test]
fn division_rounds_down_and_numbers_are_counted() -> Result<(), Error> {
    let device = device();
    let signed = Tensor::new(&[7_i32, -7, 6, -6], &device)?;
    check(&signed.floor_divide(3)?, &[4], &[2., -3., 2., -2.]);
    check(&signed.remainder(3)?, &[4], &[1., 2., 0., 0.]);
    check(&signed.remainder(-3)?, &[4], &[-2., -1., 0., 0.]);
    check(&signed.float()?.floor_divide(2.0)?, &[4], &[3., -4., 3., -3.]);
    check(&signed.float()?.remainder(4.0)?, &[4], &[3., 1., 2., 2.]);
    check(&Tensor::new(&[7_u8, 8], &device)?.floor_divide(3)?, &[2], &[2., 2.]);
    check(&signed.powi(2)?, &[4], &[49., 49., 36., 36.]);
    let (a, b) = (Tensor::new(&[0_f32, 1000.], &device)?, Tensor::new(&[0_f32, 1000.], &device)?);
    near(&a.logaddexp(&b)?, &[2_f32.ln(), 1000.0 + 2_f32.ln()]);
    check(&Tensor::new(&[1_i64, 3, 1], &device)?.bincount()?, &[4], &[0., 2., 0., 1.]);
    refused(signed.bincount(), "bincount: integers of 0 or more are counted, not -7");
    let holed = Tensor::new(&[[1_f32, f32::NAN, 3.], [f32::NAN, f32::NAN, 5.]], &device)?;
    check(&holed.nansum(1)?, &[2], &[4., 5.]);
    check(&holed.nanmean(1)?, &[2], &[2., 5.]);
    Ok(())
}

#[test]
fn products_are_written_by_the_names_of_axes() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    check(&Tensor::einsum("ij,kj->ik", &[&x, &x])?, &[2, 2], &[14., 32., 32., 77.]);
    check(&Tensor::einsum("ij,kj", &[&x, &x])?, &[2, 2], &[14., 32., 32., 77.]);
    check(&Tensor::einsum("ij->ji", &[&x])?, &[3, 2], &[1., 4., 2., 5., 3., 6.]);
    check(&Tensor::einsum("ij -> i", &[&x])?, &[2], &[6., 15.]);
    check(&Tensor::einsum("ij->", &[&x])?, &[], &[21.]);
    check(&Tensor::einsum("ij,ij->i", &[&x, &x])?, &[2], &[14., 77.]);
    check(&Tensor::einsum("ij,ij->ij", &[&x, &x])?, &[2, 3], &[1., 4., 9., 16., 25., 36.]);
    check(&Tensor::einsum("i,j->ji", &[x.i((.., 0))?, x.i(0)?])?, &[3, 2], &[1., 4., 2., 8., 3., 12.]);
    check(&Tensor::einsum("ij,jk,kl->il", &[&x, &x.t()?, &x])?, &[2, 3], &[142., 188., 234., 340., 449., 558.]);
    let queries = Tensor::arange(0_f32, 24., &device)?.reshape((1, 3, 2, 4))?;
    let scores = Tensor::einsum("bqhd,bkhd->bhqk", &[&queries, &queries])?;
    let by_hand = queries.transpose(1, 2)?.matmul(&queries.permute((0, 2, 3, 1))?)?;
    assert!(scores.equal(&by_hand)?);
    refused(Tensor::einsum("ij,jk->ik", &[&x, &x]), "einsum: 'j' is 3 in factor 0 and 2 in factor 1");
    refused(Tensor::einsum("ij,jk->ik", &[&x]), "einsum: 'ij,jk' names 2 factor(s), there are 1");
    refused(Tensor::einsum("ijk->i", &[&x]), "einsum: factor 0 has 3 name(s) and the shape [2, 3]");
    refused(Tensor::einsum("ii->i", &[&x]), "einsum: 'i' stands twice in 'ii': take the diagonal before");
    refused(Tensor::einsum("ij->k", &[&x]), "einsum: no factor has the 'k' of the result");
    assert!(Tensor::einsum("...i->i", &[&x]).is_err());
    Ok(())
}

#[test]
fn axes_are_turned_padded_and_put_on_diagonals() -> Result<(), Error> {
    let device = device();
    let x = x(&device)?;
    check(&x.pad(&[1, 0], 9.0)?, &[2, 4], &[9., 1., 2., 3., 9., 4., 5., 6.]);
    check(&x.pad(&[0, 0, 1, 0], -1)?, &[3, 3], &[-1., -1., -1., 1., 2., 3., 4., 5., 6.]);
    check(&x.pad_with_same(1, 1, 2)?.i(0)?, &[6], &[1., 1., 2., 3., 3., 3.]);
    refused(x.pad(&[1], 0), "pad: two numbers per axis are expected for at most 2 axes, not 1");
    check(&x.fliplr()?, &[2, 3], &[3., 2., 1., 6., 5., 4.]);
    check(&x.flipud()?, &[2, 3], &[4., 5., 6., 1., 2., 3.]);
    check(&x.diff(1)?, &[2, 2], &[1.; 4]);
    check(&x.i(0)?.diff(-1)?.diff(0)?.diff(0)?, &[0], &[]);
    check(&x.i((0, ..2))?.diag()?, &[2, 2], &[1., 0., 0., 2.]);
    check(&x.diag()?, &[2], &[1., 5.]);
    check(&x.diag_embed()?.sum(-1)?, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
    check(&x.take(&Tensor::new(&[[5_i64, 0]], &device)?)?, &[1, 2], &[6., 1.]);
    let places = Tensor::new(&[[2_i64], [0]], &device)?;
    check(&x.take_along_dim(&places, 1)?, &[2, 1], &[3., 4.]);
    check(&x.index_fill(&Tensor::new(&[0_u32, 2], &device)?, 7, 1)?, &[2, 3], &[7., 2., 7., 7., 5., 7.]);
    check(&x.select_scatter(&Tensor::zeros(2, Dtype::F32, &device)?, -1, 1)?, &[2, 3], &[1., 0., 3., 4., 0., 6.]);
    let zigzag = Tensor::new(&[3_f32, 1., 4., 1.], &device)?;
    let (median, position) = zigzag.median(0)?;
    assert_eq!((median.item::<f32>()?, position.item::<i64>()?), (1., 3));
    assert_eq!(zigzag.kthvalue(4, 0)?.0.item::<f32>()?, 4.);
    refused(zigzag.kthvalue(5, 0), "kthvalue: axis 0 has 4 element(s), and no 5th smallest");
    assert_eq!((x.size(-1)?, x.t()?.stride(), x.nbytes()), (3, &[1_isize, 3][..], 24));
    Ok(())
}

#[test]
fn layers_have_pytorchs_names() -> Result<(), Error> {
    let device = device();
    let image = Tensor::arange(0_f32, 16., &device)?.reshape((1, 1, 4, 4))?;
    check(&image.max_pool2d(2)?, &[1, 1, 2, 2], &[5., 7., 13., 15.]);
    check(&image.max_pool2d_with_stride((2, 1), (2, 3))?, &[1, 1, 2, 2], &[4., 7., 12., 15.]);
    check(&image.avg_pool2d([2, 2])?, &[1, 1, 2, 2], &[2.5, 4.5, 10.5, 12.5]);
    check(&image.adaptive_avg_pool2d(1)?, &[1, 1, 1, 1], &[7.5]);
    check(&image.adaptive_max_pool2d((2, 1))?, &[1, 1, 2, 1], &[7., 15.]);
    let signal = image.reshape((1, 1, 16))?;
    check(&signal.max_pool1d(4)?, &[1, 1, 4], &[3., 7., 11., 15.]);
    check(&signal.avg_pool1d(8)?, &[1, 1, 2], &[3.5, 11.5]);
    let filter = Tensor::new(&[[[-1_f32, 0., 1.]]], &device)?;
    check(&signal.conv1d(&filter, 0, 1, 1, 1)?, &[1, 1, 14], &[2.; 14]);
    let (two, one) = (Tensor::new(&[2_f32, 2.], &device)?, Tensor::new(&[1_f32, 1.], &device)?);
    let pairs = Tensor::new(&[[[1_f32, 3.], [0., 4.]]], &device)?;
    check(&pairs.group_norm(2, Some(&two), Some(&one), 0.0)?, &[1, 2, 2], &[-1., 3., -1., 3.]);
    check(&pairs.batch_norm(&two, &(&one * 4.0)?, None, Some(&one), 0.0)?, &[1, 2, 2], &[0.5, 1.5, 0., 2.]);
    refused(pairs.group_norm(3, None, None, 0.0), "group-norm: 3 group(s) do not divide 2 channels");
    let values = Tensor::new(&[-2_f32, 1., 0., 4.], &device)?;
    near(&values.celu(2.0)?, &[2.0 * ((-1_f32).exp() - 1.0), 1., 0., 4.]);
    check(&values.prelu(&Tensor::new(0.5_f32, &device)?)?, &[4], &[-1., 1., 0., 4.]);
    near(&values.glu(0)?, &[-1., 1.0 / (1.0 + (-4_f32).exp())]);
    refused(values.narrow(0, 0, 3)?.glu(0), "glu: axis 0 has 3 position(s), which have no half");
    check(&values.huber_loss(&values.zeros_like()?, 1.0)?, &[], &[(1.5 + 0.5 + 3.5) / 4.0]);
    near(&values.narrow(0, 2, 1)?.binary_cross_entropy_with_logits(&one.narrow(0, 0, 1)?)?, &[2_f32.ln()]);
    Ok(())
}

/// The weight of cubic convolution at a distance, as Keys has it with a = -3/4.
fn cubic(distance: f64) -> f64 {
    let a = -0.75;
    match distance {
        d if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d * d + 1.0,
        d => a * (d.powi(3) - 5.0 * d * d + 8.0 * d - 4.0),
    }
}

#[test]
fn images_are_interpolated_by_factors_and_by_cubes() -> Result<(), Error> {
    let device = device();
    let signal = Tensor::new(&[[[1_f32, 2., 3., 4., 5.]]], &device)?;
    check(&signal.interpolate_by(&[1.5], Interpolation::Nearest)?, &[1, 1, 7], &[1., 1., 2., 3., 3., 4., 5.]);
    // As PyTorch: exactly twice as many are two of each, whatever factor said so.
    let twice = signal.interpolate_by(&[2.1], Interpolation::Nearest)?;
    check(&twice, &[1, 1, 10], &[1., 1., 2., 2., 3., 3., 4., 4., 5., 5.]);
    check(&signal.interpolate(&[2], Interpolation::NearestExact)?, &[1, 1, 2], &[2., 4.]);
    check(&signal.interpolate_by(&[0.5], Interpolation::NearestExact)?, &[1, 1, 2], &[2., 4.]);
    let linear = Interpolation::Linear { align_corners: false };
    check(&signal.interpolate_by(&[0.5], linear)?, &[1, 1, 2], &[1.5, 3.5]);
    check(&signal.interpolate(&[2], linear)?, &[1, 1, 2], &[1.75, 4.25]);
    let row = Tensor::arange(0_f32, 8., &device)?.reshape((1, 1, 1, 8))?;
    let doubled = row.upsample_bicubic2d(1, 16, false)?.to_vec::<f32>()?;
    for (i, found) in doubled.iter().enumerate() {
        let source = (i as f64 + 0.5) * 0.5 - 0.5;
        let parts = (-1..3).map(|tap| {
            let at = source.floor() + f64::from(tap);
            at.clamp(0.0, 7.0) * cubic((source - at).abs())
        });
        let expected: f64 = parts.sum();
        assert!((f64::from(*found) - expected).abs() < 1e-5, "{i}: {found} {expected}");
    }
    near(&row.upsample_bicubic2d(1, 8, true)?, &[0., 1., 2., 3., 4., 5., 6., 7.]);
    refused(signal.interpolate_by(&[0.1], linear), "pooling: a factor of 0.1 leaves nothing of 5 element(s) in axis 2");
    refused(
        signal.interpolate_by(&[f64::NAN], linear),
        "pooling: a factor is a positive number and not too large, not NaN",
    );
    Ok(())
}

#[test]
fn digits_are_chosen_as_of_a_number() -> Result<(), Error> {
    let device = device();
    let thirds = Tensor::new(&[[1_f32, 2.], [10., 200.]], &device)?.div(3.0)?;
    assert_eq!(format!("{thirds:.2}"), "[[ 0.33  0.67]\n [ 3.33 66.67]]");
    assert_eq!(format!("{:.0}", thirds.i((1, 1))?), "67");
    assert_eq!(format!("{:.3}", Tensor::new(&[1_i32, 20], &device)?), "[ 1 20]");
    Ok(())
}

#[test]
fn everything_goes_to_other_threads_and_into_boxed_errors() {
    fn is_shared<T: Send + Sync + std::fmt::Debug>() {}
    is_shared::<Tensor>();
    is_shared::<Device>();
    is_shared::<warpfold::Queue>();
    is_shared::<Error>();
    is_shared::<warpfold::device::Graph>();
    is_shared::<warpfold::device::Buffer<f32>>();
    let failed = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        x(&device())?.matmul(&x(&device())?)?;
        Ok(())
    };
    let error = failed().unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}
