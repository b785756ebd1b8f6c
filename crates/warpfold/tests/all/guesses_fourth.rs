//! The next hundred: what a user of candle and PyTorch writes after the guesses of the other files,
//! written down from their documents before our names were looked at, and what the list of the last
//! review had left: names, types, devices, tensors and their elements.

use std::collections::HashMap;

use warpfold::{D, DType, Device, Profile, Result, Tensor, safetensors};

pub(super) fn device() -> Device {
    Device::virtual_gpu(Profile::H200)
}

/// [[1, -2, 3], [-4, 5, -6]]
pub(super) fn x(device: &Device) -> Result<Tensor> {
    Tensor::new(&[[1_f32, -2., 3.], [-4., 5., -6.]], device)
}

#[track_caller]
pub(super) fn check(tensor: &Tensor, shape: &[usize], expected: &[f32]) {
    let found = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.to_vec::<f32>()).expect("elements");
    assert_eq!((tensor.dims(), &found[..]), (shape, expected));
}

#[track_caller]
pub(super) fn near(tensor: &Tensor, expected: &[f32]) {
    let found = tensor.to_dtype(DType::F32).and_then(|tensor| tensor.to_vec::<f32>()).expect("elements");
    assert_eq!(found.len(), expected.len());
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 4e-6 * b.abs().max(1.0);
    assert!(found.iter().zip(expected).all(close), "{found:?} {expected:?}");
}

#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(result: Result<T>, sentence: &str) {
    assert_eq!(result.unwrap_err().to_string(), sentence);
}

#[test]
fn types_have_candles_names() -> Result<()> {
    let device = device();
    let x = Tensor::zeros((2, 3), DType::BF16, &device)?;
    assert_eq!((x.dtype(), x.dtype().size_in_bytes()), (DType::BF16, 2));
    assert!(matches!(x.to_dtype(DType::F32)?.dtype(), DType::F32));
    let name = match x.dtype() {
        DType::BF16 => "bf16",
        _ => "another",
    };
    assert_eq!((name, DType::F32.size_in_bytes(), DType::U8.size_in_bytes()), ("bf16", 4, 1));
    Ok(())
}

#[test]
fn devices_are_asked_as_candles() -> Result<()> {
    let device = device();
    assert!(!device.is_cuda() && device.is_virtual());
    let other = Device::cuda_if_available(0)?;
    assert_eq!(other.is_cuda(), Device::new_cuda(0).is_ok());
    assert!(!device.same_device(&other) && device.same_device(x(&device)?.device()));
    assert_eq!(Device::default().is_cuda(), Device::best().is_cuda());
    device.synchronize()?;
    Ok(())
}

#[test]
fn a_device_has_the_seed_of_its_own_queue() -> Result<()> {
    let device = device();
    let drawn = || Tensor::rand(0_f32, 1., 5, &device)?.to_vec1::<f32>();
    device.set_seed(42)?;
    let (first, second) = (drawn()?, drawn()?);
    assert_ne!(first, second);
    warpfold::Queue::of(&device).set_seed(42);
    assert_eq!((drawn()?, drawn()?), (first.clone(), second));
    // A queue beside it has a seed of its own.
    let beside = warpfold::Queue::of(&device).beside()?;
    device.set_seed(42)?;
    beside.set_seed(42);
    assert_eq!(Tensor::rand(0_f32, 1., 5, &beside)?.to_vec1::<f32>()?, drawn()?);
    Ok(())
}

#[test]
fn tensors_are_made_of_slices_with_the_device_last() -> Result<()> {
    let device = device();
    check(&Tensor::from_slice(&[1_f32, 2., 3., 4.], (2, 2), &device)?, &[2, 2], &[1., 2., 3., 4.]);
    check(&Tensor::from_slice(&[7_i64; 3], 3, &device)?, &[3], &[7.; 3]);
    check(&Tensor::from_slice(&[1_u8, 2], vec![2, 1], &device)?, &[2, 1], &[1., 2.]);
    refused(Tensor::from_slice(&[1_f32], (2, 2), &device), "1 element(s) do not fill the shape [2, 2]");
    Ok(())
}

#[test]
fn the_last_axes_are_named() -> Result<()> {
    let device = device();
    let x = x(&device)?;
    check(&x.sum(D::Minus1)?, &[2], &[2., -5.]);
    check(&x.max_keepdim(D::Minus2)?, &[1, 3], &[1., 5., 3.]);
    check(&x.argmax(D::Minus1)?, &[2], &[2., 1.]);
    check(&x.t()?.transpose(D::Minus1, D::Minus2)?, &[2, 3], &[1., -2., 3., -4., 5., -6.]);
    check(&x.unsqueeze(D::Minus1)?.squeeze(D::Minus1)?.narrow(D::Minus1, 1, 2)?.i(0)?, &[2], &[-2., 3.]);
    check(&Tensor::cat(&[&x, &x], D::Minus1)?.i((1, 2..))?, &[4], &[-6., -4., 5., -6.]);
    check(&x.flatten(0, D::Minus1)?, &[6], &[1., -2., 3., -4., 5., -6.]);
    check(&x.chunk(3, D::Minus1)?[2], &[2, 1], &[3., -6.]);
    check(&x.cumsum(D::Minus1)?, &[2, 3], &[1., -1., 2., -4., 1., -5.]);
    assert_eq!((x.dim(D::Minus1)?, x.dim(D::Minus(2))?), (3, 2));
    near(&x.softmax(D::Minus1)?.sum(D::Minus1)?, &[1., 1.]);
    refused(x.dim(D::Minus(3)), "axis -3 is out of range for 2 dimension(s)");
    Ok(())
}

#[test]
fn an_axis_is_split_by_a_size_or_by_sizes() -> Result<()> {
    let device = device();
    let list = Tensor::arange(0_f32, 5., &device)?;
    let parts = |parts: Vec<Tensor>| parts.iter().map(|part| part.to_vec::<f32>()).collect::<Result<Vec<_>>>();
    assert_eq!(parts(list.split(2, 0)?)?, [vec![0., 1.], vec![2., 3.], vec![4.]]);
    assert_eq!(parts(list.split(&[1, 4], 0)?)?, [vec![0.], vec![1., 2., 3., 4.]]);
    assert_eq!(parts(list.split(&vec![5], -1)?)?, [vec![0., 1., 2., 3., 4.]]);
    refused(list.split(0, 0), "split: parts of no position");
    refused(list.split(&[2, 2], 0), "split: sizes [2, 2] add up to 4, axis 0 has 5");
    Ok(())
}

#[test]
fn special_functions_have_pytorchs_values() -> Result<()> {
    let device = device();
    let x = x(&device)?;
    let v = Tensor::new(&[3_f32, 1., 2.], &device)?;
    let w = Tensor::new(&[4_f32, 0., f32::INFINITY], &device)?;
    check(&v.hypot(&w)?, &[3], &[5., 1., f32::INFINITY]);
    check(&v.zeros_like()?.hypot(&v.zeros_like()?)?, &[3], &[0.; 3]);
    near(&Tensor::new(&[3e20_f32], &device)?.hypot(&Tensor::new(&[4e20_f32], &device)?)?.div(5e20)?, &[1.]);
    near(&Tensor::new(&[0_f32, 2.], &device)?.xlogy(&Tensor::new(&[0_f32, 3.], &device)?)?, &[0., 2.0 * 3_f32.ln()]);
    check(&x.heaviside(0.5)?, &[2, 3], &[1., 0., 1., 0., 1., 0.]);
    check(&v.zeros_like()?.heaviside(0.5)?, &[3], &[0.5; 3]);
    let odd = Tensor::new(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5], &device)?;
    check(&odd.nan_to_num()?, &[4], &[0., f32::MAX, f32::MIN, 1.5]);
    assert_eq!(odd.half()?.nan_to_num()?.float()?.to_vec::<f32>()?, [0., 65504., -65504., 1.5]);
    check(&x.logical_not()?, &[2, 3], &[0.; 6]);
    check(&x.relu()?.logical_not()?, &[2, 3], &[0., 1., 0., 1., 0., 1.]);
    check(&v.bucketize(&Tensor::new(&[1_f32, 2.5], &device)?)?, &[3], &[2., 0., 1.]);
    check(&v.quantile(0.25, 0)?, &[], &[1.5]);
    check(&x.quantile(1., 1)?, &[2], &[3., 5.]);
    refused(v.quantile(1.5, 0), "quantile needs an option 'part' from 0 to 1, not 1.5");
    assert_eq!(x.gt(0.)?.argwhere()?.to_vec2::<i64>()?, [[0, 0], [0, 2], [1, 1]]);
    Ok(())
}

#[test]
fn vectors_and_matrices_have_their_products() -> Result<()> {
    let device = device();
    let v = Tensor::new(&[3_f32, 1., 2.], &device)?;
    check(&v.cross(&Tensor::new(&[1_f32, 0., 0.], &device)?, 0)?, &[3], &[0., 2., -1.]);
    refused(v.narrow(0, 0, 2)?.cross(&v, 0), "cross: axis 0 has 2 and 3 position(s), not 3");
    let points = Tensor::new(&[[0_f32, 0.], [3., 4.]], &device)?;
    check(&points.cdist(&points.i(..1)?)?, &[2, 1], &[0., 5.]);
    let eye = Tensor::eye(2, DType::F32, &device)?;
    let row = Tensor::new(&[[1_f32, 2.]], &device)?;
    check(&eye.kron(&row)?, &[2, 4], &[1., 2., 0., 0., 0., 0., 1., 2.]);
    let a = Tensor::arange(0_f32, 6., &device)?.reshape((2, 3))?;
    check(&a.tensordot(&a.reshape((3, 2))?, 1)?, &[2, 2], &[10., 13., 28., 40.]);
    check(&a.tensordot(&a, 2)?, &[], &[55.]);
    refused(a.tensordot(&a, 1), "tensordot: the last axes [3] and the first axes [2] differ");
    check(&a.rot90(1, (0, 1))?, &[3, 2], &[2., 5., 1., 4., 0., 3.]);
    check(&a.rot90(-1, (0, 1))?, &[3, 2], &[3., 0., 4., 1., 5., 2.]);
    check(&a.rot90(2, (0, 1))?, &[2, 3], &[5., 4., 3., 2., 1., 0.]);
    Ok(())
}

#[test]
fn draws_follow_their_probabilities() -> Result<()> {
    let device = device();
    device.set_seed(1)?;
    let count = 4000;
    let ones = Tensor::ones(count, DType::F32, &device)?;
    let heads = ones.affine(0.3, 0.)?.bernoulli()?.sum_all()?.to_scalar::<f32>()?;
    assert!((heads - 1200.).abs() < 5.0 * (4000_f32 * 0.21).sqrt(), "{heads}");
    let kept = ones.dropout(0.5)?;
    let mean = kept.mean_all()?.to_scalar::<f32>()?;
    assert!((mean - 1.).abs() < 5.0 / 4000_f32.sqrt(), "{mean}");
    check(&ones.narrow(0, 0, 3)?.dropout(0.)?, &[3], &[1.; 3]);
    refused(ones.dropout(1.), "dropout needs an option 'p' from 0 up to, but not, 1, not 1");
    let weights = Tensor::new(&[1_f32, 0., 2., 1.], &device)?;
    let drawn = weights.multinomial(count, true)?.to_vec1::<i64>()?;
    let times = |class| drawn.iter().filter(|drawn| **drawn == class).count() as f64;
    for (class, p) in [(0, 0.25), (1, 0.), (2, 0.5), (3, 0.25)] {
        let deviation = (4000_f64 * p * (1. - p)).sqrt();
        assert!((times(class) - 4000. * p).abs() <= 5. * deviation, "{class}: {}", times(class));
    }
    // The first of two without replacement is drawn as one alone, and never again.
    let pairs = weights.broadcast_as((count, 4))?.multinomial(2, false)?.to_vec2::<i64>()?;
    assert!(pairs.iter().all(|pair| pair[0] != pair[1] && pair[0] != 1 && pair[1] != 1));
    let firsts = pairs.iter().filter(|pair| pair[0] == 2).count() as f64;
    assert!((firsts - 2000.).abs() < 5. * 1000_f64.sqrt(), "{firsts}");
    refused(weights.multinomial(4, false), "multinomial: a row has 3 positive weight(s) of 4, 4 are needed");
    refused((-&weights)?.multinomial(1, true), "multinomial: a weight is negative, infinite or NaN");
    assert_eq!(Tensor::new(&[0_i64, 3], &device)?.multinomial(1, true)?.to_vec1::<i64>()?, [1]);
    Ok(())
}

#[test]
fn named_tensors_go_through_safetensors() -> Result<()> {
    let device = device();
    let path = std::env::temp_dir().join(format!("warpfold_guesses_{}.safetensors", std::process::id()));
    let x = x(&device)?;
    let mut map = HashMap::new();
    map.insert("layer.weight".to_owned(), x.clone());
    map.insert("a \"quoted\"\nname".to_owned(), x.to_dtype(DType::BF16)?.t()?);
    map.insert("flags".to_owned(), x.gt(0.)?);
    map.insert("nothing".to_owned(), Tensor::zeros((0, 3), DType::F64, &device)?);
    map.insert("number".to_owned(), Tensor::new(7_i64, &device)?);
    safetensors::save(&map, &path)?;
    let bytes = std::fs::read(&path).expect("the file");
    for loaded in [safetensors::load(&path, &device)?, safetensors::load_buffer(&bytes, &device)?] {
        assert_eq!(loaded.len(), map.len());
        for (name, tensor) in &loaded {
            let expected = &map[name];
            assert_eq!((tensor.dtype(), tensor.dims()), (expected.dtype(), expected.dims()), "{name}");
            assert_eq!(tensor.to_bytes()?, expected.contiguous()?.to_bytes()?, "{name}");
        }
    }
    x.save_safetensors("x", &path)?;
    check(&safetensors::load(&path, &device)?["x"], &[2, 3], &[1., -2., 3., -4., 5., -6.]);
    std::fs::remove_file(&path).expect("the file");
    refused(safetensors::save([("x", &x), ("x", &x)], "a"), "safetensors: a: 'x' is there twice");
    assert!(safetensors::load("no/such/file", &device).unwrap_err().to_string().contains("no/such/file"));
    Ok(())
}

#[test]
fn headers_are_read_up_to_the_bound_of_the_format() {
    let path = std::env::temp_dir().join(format!("warpfold-header-{}.safetensors", std::process::id()));
    let told = |header_len: u64| {
        // Zeros of no size on a disk.
        std::fs::write(&path, header_len.to_le_bytes()).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8 + header_len).unwrap();
        safetensors::load(&path, &device()).unwrap_err().to_string()
    };
    assert!(told(100_000_000).contains("the header is not that of tensors"));
    assert!(told(100_000_001).contains("the header has 100000001 bytes"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_safetensors_are_refused() -> Result<()> {
    let device = device();
    let file = |header: &str, data: &[u8]| [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
    let told =
        |header: &str, data: &[u8]| safetensors::load_buffer(&file(header, data), &device).unwrap_err().to_string();
    let one = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    check(&safetensors::load_buffer(&file(one, &[0; 8]), &device)?["w"], &[2], &[0., 0.]);
    let spaced = r#" { "__metadata__" : {"format":"pt"} , "\u0077\ud83d\ude00" : { "shape" : [ 1 , 2 ] ,
        "data_offsets":[0,2], "dtype":"U8" } } "#;
    check(&safetensors::load_buffer(&file(spaced, &[1, 2]), &device)?["w😀"], &[1, 2], &[1., 2.]);
    assert!(safetensors::load_buffer(&file("{}", &[]), &device)?.is_empty());
    for (header, data, sentence) in [
        (one, &[0; 4][..], "safetensors: 'w' of [2] f32 is not bytes 0 to 8 of 4"),
        ("{", &[], "safetensors: the header is not that of tensors: '\"' is expected at byte 1"),
        ("{}x", &[], "safetensors: the header is not that of tensors: the end is expected at byte 2"),
        (
            r#"{"w":{"dtype":"C64","shape":[],"data_offsets":[0,8]}}"#,
            &[0; 8],
            "safetensors: 'w' has the type C64, which warpfold has not",
        ),
        (r#"{"w":{"dtype":"F32","shape":[2]}}"#, &[0; 8], "safetensors: 'w' has no pair of data_offsets"),
        (
            r#"{"w":{"dtype":"F32","shape":[3],"data_offsets":[8,4]}}"#,
            &[0; 8],
            "safetensors: 'w' of [3] f32 is not bytes 8 to 4 of 8",
        ),
        (
            r#"{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#,
            &[0; 8],
            "safetensors: the header is not that of tensors: a number is expected at byte 29",
        ),
    ] {
        assert_eq!(told(header, data), sentence);
    }
    refused(safetensors::load_buffer(&[1, 2], &device), "safetensors: 2 bytes have no header");
    refused(
        safetensors::load_buffer(&u64::MAX.to_le_bytes(), &device),
        "safetensors: the header has 18446744073709551615 bytes, the file 8",
    );
    Ok(())
}
