//! What a newcomer writes from candle's and PyTorch's documents: 119 lines written down before our
//! names were looked at, each with its value. These 115 compile and are right (of two, `meshgrid`
//! and `median`, the value written down was not the documents'); the others are `shape().dims()`,
//! `diff()`, `repeat_interleave(2)` and `nan_to_num(0.)`.

use warpfold::nn::{self, Module, encoding, loss, ops};
use warpfold::{D, DType, Device, Result, Tensor};

use super::guesses_fourth::device;

/// [[1, 2, 3], [4, 5, 6]]; [[1, 2], [3, 4]]; [3, 1, 2]; [-2, -0.5, 0, 0.5, 2]
struct Inputs {
    device: Device,
    x: Tensor,
    m: Tensor,
    v: Tensor,
    z: Tensor,
}

fn inputs() -> Result<Inputs> {
    let device = device();
    Ok(Inputs {
        x: Tensor::new(&[[1_f32, 2., 3.], [4., 5., 6.]], &device)?,
        m: Tensor::new(&[[1_f32, 2.], [3., 4.]], &device)?,
        v: Tensor::new(&[3_f32, 1., 2.], &device)?,
        z: Tensor::new(&[-2_f32, -0.5, 0., 0.5, 2.], &device)?,
        device,
    })
}

/// A tensor, or a result that has one.
trait Found {
    fn take(self) -> Result<Tensor>;
}

impl Found for Tensor {
    fn take(self) -> Result<Tensor> {
        Ok(self)
    }
}

impl Found for Result<Tensor> {
    fn take(self) -> Result<Tensor> {
        self
    }
}

#[track_caller]
fn near(found: impl Found, expected: &[f64]) {
    let found = found.take().and_then(|found| found.to_dtype(DType::F64)?.flatten_all()?.to_vec::<f64>());
    let found = found.expect("elements");
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
}

#[test]
fn tensors_are_made_as_the_documents_say() -> Result<()> {
    let Inputs { device, x, v, .. } = inputs()?;
    near(Tensor::arange_step(0_f32, 10., 3., &device), &[0., 3., 6., 9.]);
    near(Tensor::full(7_f32, (2, 2), &device), &[7.; 4]);
    near(Tensor::eye(2, DType::F32, &device), &[1., 0., 0., 1.]);
    near(Tensor::from_iter((0..4).map(|i| i as f32), &device), &[0., 1., 2., 3.]);
    near(Tensor::tril2(2, DType::F32, &device), &[1., 0., 1., 1.]);
    near(Tensor::from_slice(&[1_f32, 2., 3., 4.], &[2, 2], &device), &[1., 2., 3., 4.]);
    near(Tensor::zeros_like(&x), &[0.; 6]);
    near(x.zeros_like(), &[0.; 6]);
    near(Tensor::full_like(&x, 2.5), &[2.5; 6]);
    near(Tensor::linspace(0., 1., 5, DType::F32, &device), &[0., 0.25, 0.5, 0.75, 1.]);
    near(Tensor::cat(&[&v, &v], 0), &[3., 1., 2., 3., 1., 2.]);
    near(Tensor::stack(&[&v, &v], 1), &[3., 3., 1., 1., 2., 2.]);
    near(Tensor::hstack(&[&v, &v]), &[3., 1., 2., 3., 1., 2.]);
    near(Tensor::vstack(&[&v, &v]), &[3., 1., 2., 3., 1., 2.]);
    {
        let g = Tensor::meshgrid(&[&v, &v], false)?;
        near(g[0].clone(), &[3., 3., 3., 1., 1., 1., 2., 2., 2.]);
    }
    assert_eq!(Tensor::rand(0_f32, 1., (2, 3), &device)?.dims(), &[2, 3]);
    assert_eq!(x.rand_like(0., 1.)?.dims(), &[2, 3]);
    Ok(())
}

#[test]
fn shapes_and_views_have_the_documents_names() -> Result<()> {
    let Inputs { x, v, .. } = inputs()?;
    assert_eq!(x.dims2()?, (2, 3));
    assert_eq!(x.dim(D::Minus1)?, 3);
    assert_eq!(x.elem_count(), 6);
    assert_eq!(x.rank(), 2);
    assert_eq!(x.dtype(), DType::F32);
    near(x.narrow(1, 1, 2), &[2., 3., 5., 6.]);
    {
        let c = x.chunk(3, 1)?;
        near(c[1].clone(), &[2., 5.]);
    }
    near(x.get(1), &[4., 5., 6.]);
    near(x.get_on_dim(1, 2), &[3., 6.]);
    near(x.flatten_all(), &[1., 2., 3., 4., 5., 6.]);
    near(x.unsqueeze(0)?.squeeze(0), &[1., 2., 3., 4., 5., 6.]);
    near(x.transpose(0, 1), &[1., 4., 2., 5., 3., 6.]);
    near(x.t()?.contiguous(), &[1., 4., 2., 5., 3., 6.]);
    near(x.reshape(((), 2)), &[1., 2., 3., 4., 5., 6.]);
    near(v.broadcast_as((2, 3)), &[3., 1., 2., 3., 1., 2.]);
    near(v.expand((2, 3)), &[3., 1., 2., 3., 1., 2.]);
    near(v.repeat((2, 2)), &[3., 1., 2., 3., 1., 2., 3., 1., 2., 3., 1., 2.]);
    near(x.pad_with_zeros(1, 1, 0), &[0., 1., 2., 3., 0., 4., 5., 6.]);
    near(x.flip(&[1]), &[3., 2., 1., 6., 5., 4.]);
    near(x.roll(1, 1), &[3., 1., 2., 6., 4., 5.]);
    near(x.i((.., 1)), &[2., 5.]);
    near(x.i(1), &[4., 5., 6.]);
    near(x.permute((1, 0)), &[1., 4., 2., 5., 3., 6.]);
    Ok(())
}

#[test]
fn arithmetic_takes_scalars_and_broadcasts() -> Result<()> {
    let Inputs { x, v, z, .. } = inputs()?;
    near(x.affine(2., 1.), &[3., 5., 7., 9., 11., 13.]);
    near(x.broadcast_add(&v), &[4., 3., 5., 7., 6., 8.]);
    near((&x + 1.)?, &[2., 3., 4., 5., 6., 7.]);
    near((1. - &v)?, &[-2., 0., -1.]);
    near(v.powf(2.), &[9., 1., 4.]);
    near(v.sqr()?.sqrt(), &[3., 1., 2.]);
    near(v.recip(), &[1. / 3., 1., 0.5]);
    near(z.relu(), &[0., 0., 0., 0.5, 2.]);
    near(z.elu(1.), &[-0.864_664_7, -0.393_469_3, 0., 0.5, 2.]);
    near(z.clamp(-1_f32, 1_f32), &[-1., -0.5, 0., 0.5, 1.]);
    near(z.maximum(0_f32), &[0., 0., 0., 0.5, 2.]);
    near(z.round(), &[-2., 0., 0., 0., 2.]);
    near(z.gelu_erf(), &[-0.045_500_26, -0.154_268_8, 0., 0.345_731_2, 1.954_499_7]);
    near(z.silu(), &[-0.238_405_8, -0.188_770_3, 0., 0.311_229_7, 1.761_594_2]);
    near(z.sign(), &[-1., -1., 0., 1., 1.]);
    near(v.ge(2_f32)?.to_dtype(DType::F32), &[1., 0., 1.]);
    near(v.eq(&v)?.to_dtype(DType::U8), &[1., 1., 1.]);
    near(v.gt(1.5)?.where_cond(&v, &v.zeros_like()?), &[3., 0., 2.]);
    Ok(())
}

#[test]
fn reductions_and_sorts_have_candles_forms() -> Result<()> {
    let Inputs { x, v, .. } = inputs()?;
    assert_eq!(x.sum_all()?.to_scalar::<f32>()?, 21.);
    near(x.sum((0, 1)), &[21.]);
    near(x.mean(D::Minus1), &[2., 5.]);
    near(x.max_keepdim(1), &[3., 6.]);
    near(x.var(1), &[1., 1.]);
    near(x.argmax(D::Minus1)?.to_dtype(DType::F32), &[2., 2.]);
    near(x.log_sum_exp(1), &[3.407_605_9, 6.407_605_9]);
    near(x.cumsum(1), &[1., 3., 6., 4., 9., 15.]);
    near(v.arg_sort_last_dim(true)?.to_dtype(DType::F32), &[1., 2., 0.]);
    {
        let (s, _) = v.sort_last_dim(false)?;
        near(s, &[3., 2., 1.]);
    }
    Ok(())
}

#[test]
fn products_indices_and_functions_of_layers() -> Result<()> {
    let Inputs { device, x, m, v, z } = inputs()?;
    near(m.matmul(&m), &[7., 10., 15., 22.]);
    near(m.unsqueeze(0)?.broadcast_matmul(&m), &[7., 10., 15., 22.]);
    {
        let ids = Tensor::new(&[1_u32, 0], &device)?;
        near(m.index_select(&ids, 0), &[3., 4., 1., 2.]);
    }
    {
        let ids = Tensor::new(&[[0_u32], [1]], &device)?;
        near(m.gather(&ids, 1), &[1., 4.]);
    }
    {
        let ids = Tensor::new(&[1_u32, 1], &device)?;
        near(m.embedding(&ids), &[3., 4., 3., 4.]);
    }
    {
        let ids = Tensor::new(&[0_u32, 0], &device)?;
        near(m.index_add(&ids, &m, 0), &[5., 8., 3., 4.]);
    }
    near(x.slice_assign(&[0..1, 0..2], &Tensor::zeros((1, 2), DType::F32, &device)?), &[0., 0., 3., 4., 5., 6.]);
    near(ops::softmax(&m, D::Minus1), &[0.268_941_4, 0.731_058_6, 0.268_941_4, 0.731_058_6]);
    near(ops::softmax_last_dim(&m), &[0.268_941_4, 0.731_058_6, 0.268_941_4, 0.731_058_6]);
    near(ops::log_softmax(&m, 1), &[-1.313_261_7, -0.313_261_7, -1.313_261_7, -0.313_261_7]);
    near(ops::leaky_relu(&z, 0.1), &[-0.2, -0.05, 0., 0.5, 2.]);
    near(loss::mse(&v, &v.ones_like()?), &[5. / 3.]);
    near(encoding::one_hot(Tensor::new(&[1_u32, 0], &device)?, 2, 1_f32, 0_f32), &[0., 1., 1., 0.]);
    near(nn::Linear::new(m.clone(), None).forward(&m), &[5., 11., 11., 25.]);
    near(nn::Activation::Silu.forward(&z), &[-0.238_405_8, -0.188_770_3, 0., 0.311_229_7, 1.761_594_2]);
    near(z.apply(&nn::Activation::Relu), &[0., 0., 0., 0.5, 2.]);
    assert_eq!(m.to_vec2::<f32>()?, [[1., 2.], [3., 4.]]);
    assert_eq!(m.i((1, 0))?.to_scalar::<f32>()?, 3.);
    near(m.to_device(&device), &[1., 2., 3., 4.]);
    Ok(())
}

#[test]
fn functions_of_torch_are_methods() -> Result<()> {
    let Inputs { device, x, m, v, z } = inputs()?;
    near(m.mm(&m), &[7., 10., 15., 22.]);
    near(m.mv(&m.i(0)?), &[5., 11.]);
    assert_eq!(v.dot(&v)?.item::<f32>()?, 14.);
    near(v.outer(&m.i(0)?), &[3., 6., 1., 2., 2., 4.]);
    near(m.trace(), &[5.]);
    near(m.diag(), &[1., 4.]);
    near(m.tril(0), &[1., 0., 3., 4.]);
    near(m.masked_fill(&m.gt(2.)?, -1.), &[1., 2., -1., -1.]);
    near(v.topk(2, 0)?.0, &[3., 2.]);
    near(x.std(1), &[1., 1.]);
    near(v.lerp(&v.zeros_like()?, 0.5), &[1.5, 0.5, 1.]);
    near(z.softplus(), &[0.126_928, 0.474_077, 2_f64.ln(), 0.974_077, 2.126_928]);
    near(v.cumprod(0), &[3., 3., 6.]);
    assert!(v.allclose(&v, 1e-5, 1e-8)?);
    near(m.swapaxes(0, 1), &[1., 3., 2., 4.]);
    {
        let u = m.unbind(0)?;
        near(u[1].clone(), &[3., 4.]);
    }
    near(v.cosine_similarity(&v, 0), &[1.]);
    near(x.movedim(0, 1), &[1., 4., 2., 5., 3., 6.]);
    near(Tensor::addmm(&m, &m, &m), &[8., 12., 18., 26.]);
    near(x.flatten(0, 1), &[1., 2., 3., 4., 5., 6.]);
    near(x.median(1)?.0, &[2., 5.]);
    near(v.logical_not()?.to_dtype(DType::F32), &[0., 0., 0.]);
    near(z.hardtanh(-1., 1.), &[-1., -0.5, 0., 0.5, 1.]);
    near(m.pow(2.), &[1., 4., 9., 16.]);
    near(m.addcmul(&m, &m, 0.5), &[1.5, 4., 7.5, 12.]);
    near(m.kron(&Tensor::ones((1, 2), DType::F32, &device)?), &[1., 1., 2., 2., 3., 3., 4., 4.]);
    near(v.view((3, 1)), &[3., 1., 2.]);
    near(v.isnan()?.any_all(), &[0.]);
    Ok(())
}
