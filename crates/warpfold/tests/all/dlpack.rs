//! DLPack both ways on the virtual GPU, whose memory is the CPU's: addresses, strides, and memory
//! that is given back once.
#![allow(unsafe_code, reason = "the test is the other library")]

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use warpfold::dlpack::abi::{
    DataType, Device as DlDevice, Form, Managed, ManagedVersioned, Tensor as DlTensor, Version,
};
use warpfold::dlpack::{Exported, abi};
use warpfold::{Device, Dtype, Error, Profile, Tensor};

fn device() -> Device {
    Device::virtual_gpu(Profile::H200)
}

static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn give_back(managed: *mut Managed) {
    // SAFETY: `theirs` leaked it, and its context counts the calls of its deleter.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: the context is a counter that lives for the program.
    unsafe { &*managed.context.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

/// A tensor of another library.
fn theirs(
    data: *mut c_void,
    dtype: DataType,
    shape: &mut [i64],
    strides: Option<&mut [i64]>,
    device: DlDevice,
    counter: &'static AtomicUsize,
) -> Exported<Managed> {
    let tensor = DlTensor {
        data,
        device,
        ndim: shape.len() as i32,
        dtype,
        shape: shape.as_mut_ptr(),
        strides: strides.map_or(null_mut(), |strides| strides.as_mut_ptr()),
        byte_offset: 0,
    };
    let managed = Managed::new(tensor, std::ptr::from_ref(counter).cast_mut().cast(), give_back);
    // SAFETY: every caller's memory outlives the tensor that is made of it.
    unsafe { Exported::from_raw(NonNull::from(Box::leak(Box::new(managed)))) }
}

const CPU: DlDevice = DlDevice { kind: abi::CPU, id: 0 };

#[test]
fn others_see_the_memory_itself() -> Result<(), Error> {
    let device = device();
    let x = Tensor::new(&[[1_f32, 2., 3.], [4., 5., 6.]], &device)?;
    let exported: Exported<ManagedVersioned> = x.flip(1)?.t()?.to_dlpack()?;
    let dl = *exported.tensor();
    assert_eq!((exported.shape(), exported.strides()), (&[3, 2][..], Some(&[-1, 3][..])));
    assert_eq!((dl.device, dl.dtype), (CPU, DataType { code: 2, bits: 32, lanes: 1 }));
    assert_eq!(exported.tensor().byte_offset, 0);
    let first = dl.data.cast::<f32>();
    // SAFETY: the elements that shape and strides name are there until `exported` is dropped.
    let found = unsafe { [*first, *first.offset(-1), *first.offset(-2), *first.offset(3)] };
    assert_eq!(found, [3., 2., 1., 6.]);
    // SAFETY: as above, and no kernel runs.
    unsafe { *first = 30. };
    drop(exported);
    assert_eq!(x.to_vec::<f32>()?, [1., 2., 30., 4., 5., 6.]);
    Ok(())
}

#[test]
fn what_is_exported_outlives_the_tensor() -> Result<(), Error> {
    let device = device();
    let before = device.allocated_bytes();
    let exported: Exported<Managed> = Tensor::ones(1000, Dtype::F64, &device)?.to_dlpack()?;
    assert_eq!(device.allocated_bytes(), before + 8000);
    let raw = exported.into_raw();
    // SAFETY: it was just handed out, and nobody else has it.
    let back = Tensor::from_dlpack(unsafe { Exported::from_raw(raw) }, &device)?;
    assert_eq!(back.sum_all()?.to_scalar::<f64>()?, 1000.);
    drop(back);
    assert_eq!(device.allocated_bytes(), before, "the exported memory is given back");
    Ok(())
}

#[test]
fn memory_of_others_is_given_back_once() -> Result<(), Error> {
    let device = device();
    let mut data: Vec<i16> = (0..12).collect();
    let (mut shape, mut strides) = ([2, 3], [6, -2]);
    let first = data[4..].as_mut_ptr().cast();
    let int16 = DataType { code: 0, bits: 16, lanes: 1 };
    let exported = theirs(first, int16, &mut shape, Some(&mut strides), CPU, &GIVEN_BACK);
    let x = Tensor::from_dlpack(exported, &device)?;
    assert_eq!(x.to_vec2::<i16>()?, [[4, 2, 0], [10, 8, 6]]);
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 1);
    let contiguous = theirs(data.as_mut_ptr().cast(), int16, &mut shape, None, CPU, &GIVEN_BACK);
    assert_eq!(Tensor::from_dlpack(contiguous, &device)?.to_vec::<i16>()?, [0, 1, 2, 3, 4, 5]);
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 2);
    let mut shape = [0, 3];
    let empty = theirs(null_mut(), int16, &mut shape, None, CPU, &GIVEN_BACK);
    assert_eq!(Tensor::from_dlpack(empty, &device)?.dims(), [0, 3]);
    assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 3);
    Ok(())
}

#[test]
fn what_is_not_taken_says_why_and_is_given_back() {
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    let device = device();
    let mut data = [0_u64; 4];
    let pointer: *mut c_void = data.as_mut_ptr().cast();
    let float = DataType { code: 2, bits: 32, lanes: 1 };
    let mut refused = 0;
    let mut check = |data, dtype, shape: &mut [i64], device_of, reason: &str| {
        let error = Tensor::from_dlpack(theirs(data, dtype, shape, None, device_of, &REFUSED), &device).unwrap_err();
        assert_eq!(error.to_string(), format!("from_dlpack: {reason}"));
        refused += 1;
        assert_eq!(REFUSED.load(Ordering::Relaxed), refused);
    };
    let complex = DataType { code: 5, bits: 64, lanes: 1 };
    check(pointer, complex, &mut [2], CPU, "elements of code 5, 64 bits and 1 lane(s) are none of ours");
    check(pointer, float, &mut [-2], CPU, "a size of -2");
    let gpu = DlDevice { kind: abi::CUDA, id: 1 };
    let on = "the queue is on virtual:h200 (virtual GPU as H200)";
    check(pointer, float, &mut [2], gpu, &format!("its memory is on device 1 of DLPack's kind 2, {on}"));
    let odd: *mut c_void = pointer.cast::<u8>().wrapping_add(1).cast();
    let reason = format!("memory at {odd:p} is not aligned to elements of type f32");
    check(odd, float, &mut [2], CPU, &reason);
}

#[test]
fn structures_of_another_major_version_are_refused() -> Result<(), Error> {
    let device = device();
    let exported: Exported<ManagedVersioned> = Tensor::ones(2, Dtype::F32, &device)?.to_dlpack()?;
    let mut raw = exported.into_raw();
    // SAFETY: nobody else has the structure.
    unsafe { raw.as_mut().version = Version { major: 2, minor: 0 } };
    // SAFETY: as above.
    let error = Tensor::from_dlpack(unsafe { Exported::from_raw(raw) }, &device).unwrap_err();
    assert_eq!(error.to_string(), "from_dlpack: it has version 2 of DLPack, expected 1");
    Ok(())
}
