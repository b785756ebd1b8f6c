//! Operations of candle: what they are given, what comes back, and what is refused.

use candle_core::{DType, Device, Result, Tensor, Var};
use warpfold::Dtype;
use warpfold::candle::Op;

fn x() -> Result<Tensor> {
    Tensor::new(&[[1_f32, 2., 3.], [4., 5., 6.]], &Device::Cpu)
}

#[test]
fn operands_may_be_views_and_keep_their_order() -> Result<()> {
    let x = x()?;
    let views = [x.t()?, x.narrow(1, 1, 2)?, x.get(1)?, x.get(0)?.broadcast_as((2, 3))?, x.sum_all()?];
    for view in views {
        let copied = Op::new("copy", |[x]| x.copy()).apply([&view])?;
        assert_eq!((copied.dims(), copied.dtype()), (view.dims(), view.dtype()));
        assert_eq!(copied.flatten_all()?.to_vec1::<f32>()?, view.flatten_all()?.to_vec1::<f32>()?);
    }
    let difference = Op::new("sub", |[x, y]| x.sub(y)).apply([&x, &(&x * 2.0)?])?;
    assert_eq!(difference.to_vec2::<f32>()?, [[-1., -2., -3.], [-4., -5., -6.]]);
    // Operands may have several types.
    let chosen = Op::new("where", |[yes, x, y]| yes.where_cond(x, y)).apply([&x.gt(2.0)?, &x, &(&x * 0.0)?])?;
    assert_eq!(chosen.to_vec2::<f32>()?, [[0., 0., 3.], [4., 5., 6.]]);
    Ok(())
}

#[test]
fn elements_of_every_common_type_go_there_and_back() -> Result<()> {
    use DType as D;
    let small = Tensor::new(&[1_f32, 2., 3.], &Device::Cpu)?;
    for dtype in [D::U8, D::U32, D::I16, D::I32, D::I64, D::BF16, D::F16, D::F32, D::F64] {
        let theirs = small.to_dtype(dtype)?;
        let back = Op::new("copy", |[x]| x.copy()).apply([&theirs])?;
        assert_eq!((back.dtype(), back.to_dtype(D::F32)?.to_vec1::<f32>()?), (dtype, vec![1., 2., 3.]));
    }
    let is_large = Op::new("ge", |[x]| x.ge(2.0)).apply([&small])?;
    assert_eq!((is_large.dtype(), is_large.to_vec1::<u8>()?), (D::U8, vec![0, 1, 1]));
    Ok(())
}

#[test]
fn results_may_have_other_shapes_and_none() -> Result<()> {
    let x = x()?;
    let sum = Op::new("sum", |[x]| x.sum_all()).apply([&x])?;
    assert_eq!((sum.dims(), sum.to_scalar::<f32>()?), (&[][..], 21.0));
    let transposed = Op::new("t", |[x]| x.t()).apply([&x])?;
    assert_eq!(transposed.to_vec2::<f32>()?, [[1., 4.], [2., 5.], [3., 6.]]);
    let empty = Op::new("empty", |[x]| x.narrow(0, 0, 0)).apply([&x])?;
    assert_eq!(empty.dims(), [0, 3]);
    Ok(())
}

#[test]
fn gradients_flow_through_an_operation_that_knows_its_own() -> Result<()> {
    let product = Op::new("mul", |[x, y]| x.mul(y))
        .backward(|[x, y], _product, grad| Ok([Some(y.mul(grad)?), Some(x.mul(grad)?)]));
    let (x, y) = (Var::new(&[2_f32, 3.], &Device::Cpu)?, Var::new(&[5_f32, 7.], &Device::Cpu)?);
    let gradients = (product.apply([&x, &y])? * 10.0)?.sum_all()?.backward()?;
    assert_eq!(gradients.get(&x).expect("x takes part").to_vec1::<f32>()?, [50., 70.]);
    assert_eq!(gradients.get(&y).expect("y takes part").to_vec1::<f32>()?, [20., 30.]);
    let without = Op::new("relu", |[x]| x.relu()).apply([&x])?.sum_all()?.backward().unwrap_err();
    assert!(without.to_string().contains("relu"), "{without}");
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_with_both_sides_words() -> Result<()> {
    let x = x()?;
    let error = Op::new("matmul", |[x, y]| x.matmul(y)).apply([&x, &x]).unwrap_err().to_string();
    assert!(error.contains("inner 3 and 2"), "{error}");
    let error = Op::new("wide", |[x]| x.to_dtype(Dtype::U64)).apply([&x]).unwrap_err().to_string();
    assert!(error.contains("candle has no elements of type u64"), "{error}");
    let error = Op::new("copy", |[x]| x.copy()).apply([&x.to_dtype(DType::F8E4M3)?]).unwrap_err().to_string();
    assert!(error.contains("F8E4M3"), "{error}");
    let other = warpfold::Device::virtual_gpu(warpfold::Profile::A100);
    let elsewhere = warpfold::Tensor::new(&[1_f32], &other).expect("a tensor");
    let error = Op::new("away", move |[_]| Ok(elsewhere.clone())).apply([&x]).unwrap_err().to_string();
    assert!(error.contains("the operands are on"), "{error}");
    Ok(())
}

#[test]
fn tensors_of_the_cpu_run_where_they_are_told_to() -> Result<()> {
    let device = warpfold::Device::virtual_gpu(warpfold::Profile::A100);
    let expected = device.clone();
    let op = Op::new("where", move |[x]| {
        assert_eq!(*x.device(), expected);
        x.exp()
    });
    let ones = op.for_cpu(&device).apply([&x()?.zeros_like()?])?;
    assert_eq!(ones.to_vec2::<f32>()?, [[1.; 3]; 2]);
    Ok(())
}

/// Views of several types on candle's own stream give what they give on the CPU.
#[cfg(feature = "candle-cuda")]
#[test]
fn operations_run_on_candles_own_stream() -> Result<()> {
    let cuda = match Device::new_cuda_with_stream(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("no CUDA device for candle: {error}");
            return Ok(());
        }
    };
    let rows = Tensor::arange(0_f32, 5000.0, &Device::Cpu)?.reshape((50, 100))?;
    let double = Op::new("double", |[x]| {
        assert!(x.device().driver_version().is_some(), "it runs on the GPU");
        x.add(x)
    });
    for dtype in [DType::F32, DType::F16, DType::I64] {
        let theirs = rows.to_dtype(dtype)?;
        let moved = theirs.to_device(&cuda)?;
        for (here, there) in [(theirs.t()?, moved.t()?), (theirs.narrow(1, 3, 7)?, moved.narrow(1, 3, 7)?)] {
            // What candle computes before and after is on the same stream.
            let there = (double.apply([&there])? + &there)?.to_device(&Device::Cpu)?;
            let here = (&here + (&here + &here)?)?;
            let elements = |x: &Tensor| x.flatten_all()?.to_dtype(DType::F32)?.to_vec1::<f32>();
            assert_eq!(elements(&there)?, elements(&here)?);
        }
    }
    let x = Var::from_tensor(&rows.to_device(&cuda)?)?;
    let square = Op::new("square", |[x]| x.sqr()).backward(|[x], _, grad| Ok([Some((x * 2.0)?.mul(grad)?)]));
    let gradients = square.apply([&x])?.sum_all()?.backward()?;
    let gradient = gradients.get(&x).expect("x takes part").to_device(&Device::Cpu)?;
    assert_eq!(gradient.to_vec2::<f32>()?, (rows * 2.0)?.to_vec2::<f32>()?);
    Ok(())
}
