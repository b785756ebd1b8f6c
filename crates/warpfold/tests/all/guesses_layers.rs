//! Layers, losses and images as candle and PyTorch write them: `candle_nn`, `torch.nn.functional`.

use warpfold::nn::{self, Embedding, LayerNorm, Linear, Module, VarBuilder};
use warpfold::{DType, NormInputs, Result, Tensor};

use super::guesses_fourth::{check, device, near, refused, x};

#[test]
fn convolutions_take_candles_arguments() -> Result<()> {
    let device = device();
    let image = Tensor::arange(0_f32, 16., &device)?.reshape((1, 1, 4, 4))?;
    let filter = Tensor::arange(0_f32, 4., &device)?.reshape((1, 1, 2, 2))?;
    check(&image.conv2d(&filter, 1, 2, 1, 1)?, &[1, 1, 3, 3], &[0., 8., 6., 28., 54., 22., 12., 14., 0.]);
    let signal = image.reshape((1, 2, 8))?;
    let pair = Tensor::new(&[[[1_f32, -1.]], [[1., 1.]]], &device)?;
    let found = signal.conv1d(&pair, 0, 3, 2, 2)?;
    check(&found, &[1, 2, 2], &[-2., -2., 18., 24.]);
    refused(image.conv2d(&filter, 1 << 40, 1, 1, 1), "conv2d: 1099511627776 pixels");
    let small = image.narrow(2, 0, 2)?.narrow(3, 0, 2)?;
    let transposed = small.conv_transpose2d(&filter, 1, 1, 2, 1)?;
    check(&transposed, &[1, 1, 3, 3], &[0., 2., 3., 4., 0., 5., 12., 10., 15.]);
    let dilated = small.conv_transpose2d(&filter, 0, 0, 1, 2)?;
    check(&dilated, &[1, 1, 4, 4], &[0., 0., 0., 1., 0., 0., 4., 5., 0., 2., 0., 3., 8., 10., 12., 15.]);
    let two = Tensor::arange(0_f32, 8., &device)?;
    let found = two.reshape((1, 2, 2, 2))?.conv_transpose2d(&two.reshape((2, 1, 2, 2))?, 0, 0, 2, 1)?;
    let expected = [16., 20., 20., 26., 24., 28., 32., 38., 24., 32., 28., 38., 40., 48., 48., 58.];
    check(&found, &[1, 1, 4, 4], &expected);
    refused(small.conv_transpose2d(&filter, 0, 2, 2, 1), "conv_transpose2d: a stride of 2 and an output padding of 2");
    Ok(())
}

#[test]
fn pools_stand_side_by_side_unless_a_stride_is_said() -> Result<()> {
    let device = device();
    let image = Tensor::arange(0_f32, 16., &device)?.reshape((1, 1, 4, 4))?;
    check(&image.max_pool2d(2)?, &[1, 1, 2, 2], &[5., 7., 13., 15.]);
    check(&image.avg_pool2d((2, 2))?, &[1, 1, 2, 2], &[2.5, 4.5, 10.5, 12.5]);
    check(&image.max_pool2d_with_stride(3, 1)?, &[1, 1, 2, 2], &[10., 11., 14., 15.]);
    check(&image.avg_pool2d_with_stride((4, 1), (1, 3))?, &[1, 1, 1, 2], &[6., 9.]);
    let channels = Tensor::arange(0_f32, 8., &device)?.reshape((1, 4, 1, 2))?;
    let shuffled = channels.pixel_shuffle(2)?;
    check(&shuffled, &[1, 1, 2, 4], &[0., 2., 1., 3., 4., 6., 5., 7.]);
    check(&shuffled.pixel_unshuffle(2)?, &[1, 4, 1, 2], &[0., 1., 2., 3., 4., 5., 6., 7.]);
    refused(channels.pixel_shuffle(3), "pixel_shuffle: 4 channel(s) are no multiple of 3 * 3");
    refused(channels.pixel_unshuffle(2), "pixel_unshuffle: 1 and 2 pixels are no multiples of 2");
    Ok(())
}

#[test]
fn losses_are_means() -> Result<()> {
    let device = device();
    let x = x(&device)?;
    let v = Tensor::new(&[3_f32, 1., 2.], &device)?;
    let labels = Tensor::new(&[2_i64, 1], &device)?;
    let by_hand = |row: [f32; 3], label: usize| row.map(f32::exp).iter().sum::<f32>().ln() - row[label];
    let (first, second) = (by_hand([1., -2., 3.], 2), by_hand([-4., 5., -6.], 1));
    near(&x.cross_entropy(&labels)?, &[(first + second) / 2.]);
    near(&x.log_softmax(1)?.nll_loss(&labels)?, &[(first + second) / 2.]);
    let one_ignored = Tensor::new(&[2_i64, -100], &device)?;
    near(&x.cross_entropy(&one_ignored)?, &[first]);
    near(&x.log_softmax(1)?.nll_loss(&one_ignored)?, &[first]);
    near(&x.cross_entropy(&Tensor::new(&[2_u32, 1], &device)?)?, &[(first + second) / 2.]);
    near(&v.smooth_l1_loss(&v.zeros_like()?, 2.)?, &[3.25 / 3.]);
    let p = Tensor::new(&[0.2_f32, 0.9], &device)?;
    near(&p.binary_cross_entropy(&Tensor::new(&[0_f32, 1.], &device)?)?, &[-(0.8_f32.ln() + 0.9_f32.ln()) / 2.]);
    near(&p.zeros_like()?.binary_cross_entropy(&p.ones_like()?)?, &[100.]);
    let target = Tensor::new(&[0.5_f32, 0.25, 0.], &device)?;
    let sum = 0.5 * (0.5_f32.ln() + 1.) + 0.25 * (0.25_f32.ln() + 1.);
    near(&v.ones_like()?.neg()?.kl_div(&target)?, &[sum / 3.]);
    Ok(())
}

#[test]
fn norms_and_activations_are_functions_too() -> Result<()> {
    let device = device();
    let x = x(&device)?;
    let (weight, bias) = (Tensor::new(&[1_f32, 2., 3.], &device)?, Tensor::new(&[0.5_f32, 0., 0.], &device)?);
    let rms = [14_f32 / 3., 77. / 3.].map(|mean| (mean + 1e-5).sqrt());
    let expected = [1., -4., 9.].map(|x: f32| x / rms[0]).into_iter().chain([-4., 10., -18.].map(|x: f32| x / rms[1]));
    let expected: Vec<f32> = expected.collect();
    near(&x.rms_norm(&weight, 1e-5)?, &expected);
    near(&nn::ops::rms_norm(&x, &weight, 1e-5_f32)?, &expected);
    let inputs = NormInputs { scale: Some(&weight), ..NormInputs::default() };
    near(&x.rms_norm(-1, inputs)?.result, &expected);
    near(&x.rms_norm(1, inputs)?.rstd, &rms.map(f32::recip));
    let normed = x.layer_norm(-1, NormInputs { scale: Some(&weight), bias: Some(&bias), ..NormInputs::default() })?;
    near(&nn::ops::layer_norm(&x, &weight, &bias, 1e-5_f32)?, &normed.result.to_vec::<f32>()?);
    near(&LayerNorm::new(weight.clone(), bias, 1e-5).forward(&x)?, &normed.result.to_vec::<f32>()?);
    near(&nn::ops::softmax(&x, 1)?.sum(1)?, &[1., 1.]);
    assert!(nn::ops::softmax_last_dim(&x)?.equal(&x.softmax(-1)?)?);
    assert!(nn::ops::log_softmax(&x, 0)?.equal(&x.log_softmax(0)?)?);
    let halves = Tensor::new(&[1_f32, 0., 3., 4.], &device)?;
    near(&nn::ops::swiglu(&halves)?, &[3. / (1. + (-1_f32).exp()), 0.]);
    refused(nn::ops::swiglu(&weight), "swiglu: axis -1 has 3 position(s), which have no half");
    check(&nn::ops::leaky_relu(&x, 0.5)?, &[2, 3], &[1., -1., 3., -2., 5., -3.]);
    near(&nn::ops::silu(&nn::ops::sigmoid(&x.zeros_like()?)?)?, &[0.5 / (1. + (-0.5_f32).exp()); 6]);
    check(&nn::ops::dropout(&weight, 0.)?, &[3], &[1., 2., 3.]);
    check(&x.affine(0., 3.)?.hard_sigmoid()?, &[2, 3], &[1.; 6]);
    Ok(())
}

#[test]
fn layers_take_their_weights_by_name() -> Result<()> {
    let device = device();
    let tensors = [
        ("model.embed.weight", Tensor::arange(0_f32, 6., &device)?.reshape((3, 2))?),
        ("model.layers.0.weight", Tensor::new(&[[1_f32, -1.]], &device)?),
        ("model.layers.0.bias", Tensor::new(&[0.5_f32], &device)?),
        ("model.norm.weight", Tensor::new(&[2_f32, 2.], &device)?),
        ("model.norm.bias", Tensor::new(&[1_f32, 1.], &device)?),
    ];
    let path = std::env::temp_dir().join(format!("warpfold_layers_{}.safetensors", std::process::id()));
    warpfold::safetensors::save(tensors.iter().map(|(name, tensor)| (*name, tensor)), &path)?;
    let weights = VarBuilder::from_safetensors(&[&path], DType::F32, &device)?.pp("model");
    std::fs::remove_file(&path).expect("the file");
    let embedding = nn::embedding(3, 2, weights.pp("embed"))?;
    let ids = Tensor::new(&[[2_u32, 0]], &device)?;
    let rows = embedding.forward(&ids)?;
    check(&rows, &[1, 2, 2], &[4., 5., 0., 1.]);
    let linear = nn::linear(2, 1, weights.pp("layers").pp(0))?;
    check(&rows.apply(&linear)?, &[1, 2, 1], &[-0.5, -0.5]);
    check(&nn::linear_no_bias(2, 1, weights.pp("layers.0"))?.forward(&rows)?, &[1, 2, 1], &[-1., -1.]);
    check(&rows.apply(&|x: &Tensor| x.relu())?.detach(), &[1, 2, 2], &[4., 5., 0., 1.]);
    near(&nn::layer_norm(2, 1e-12, weights.pp("norm"))?.forward(&rows)?, &[-1., 3., -1., 3.]);
    near(&nn::rms_norm(2, 0., weights.pp("norm"))?.forward(&rows.i((0, 1))?)?, &[0., 2. * 2_f32.sqrt()]);
    assert!(weights.contains_tensor("norm.weight") && !weights.contains_tensor("norm"));
    assert_eq!(weights.dtype(), DType::F32);
    assert_eq!((linear.weight().dims(), linear.bias().map(Tensor::dims)), (&[1, 2][..], Some(&[1][..])));
    assert_eq!(embedding.embeddings().dims(), [3, 2]);
    refused(weights.pp("norm").get(3, "weight"), "weights: 'model.norm.weight' is [2], not [3]");
    refused(weights.get((), "head"), "weights: there is no tensor 'model.head'");
    refused(Embedding::new(ids, 3), "embedding: the table is [1, 2], not rows of 3");
    let half = VarBuilder::from_tensors([("w".to_owned(), rows)], DType::F16, &device);
    assert_eq!(half.get((1, 2, 2), "w")?.dtype(), DType::F16);
    let layer = Linear::new(half.get((1, 2, 2), "w")?.i(0)?, None);
    assert!(layer.forward(&half.get((1, 2, 2), "w")?.narrow(2, 0, 1)?).is_err());
    Ok(())
}

#[test]
fn attention_is_a_function_of_three_tensors() -> Result<()> {
    let device = device();
    let queries = Tensor::zeros((1, 1, 1, 2), DType::F32, &device)?;
    let keys = Tensor::ones((1, 1, 2, 2), DType::F32, &device)?;
    let values = Tensor::new(&[[[[1_f32, 2.], [3., 4.]]]], &device)?;
    near(&queries.scaled_dot_product_attention(&keys, &values)?, &[2., 3.]);
    Ok(())
}
