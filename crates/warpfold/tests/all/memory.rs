//! Slices of tensors, and memory that is taken again.

use std::ops::Bound;

use warpfold::{Arena, Axes, Device, ErrorKind, Profile, Queue, Tensor};

#[test]
fn ranges_that_end_behind_all_numbers_are_refused() {
    let x = Tensor::from_slice(&[1.0_f32, 2.0], &[2], &Device::virtual_gpu(Profile::H200)).unwrap();
    let refused = |range: (Bound<usize>, Bound<usize>)| x.slice(0, range).unwrap_err().kind().clone();
    for range in [
        (Bound::Unbounded, Bound::Included(usize::MAX)),
        (Bound::Excluded(usize::MAX), Bound::Unbounded),
        (Bound::Included(1), Bound::Excluded(0)),
    ] {
        assert!(matches!(refused(range), ErrorKind::SliceOutOfRange { .. }), "{range:?}");
    }
    assert_eq!(x.slice(0, ..=1).unwrap().shape(), [2]);
}

#[test]
fn tensors_take_the_place_of_dropped_ones_of_their_size_only_while_memory_is_reused() {
    let device = Device::virtual_gpu(Profile::H200);
    let (queue, arena) = (Queue::new(device.new_stream().expect("a stream")), Arena::default());
    let x = Tensor::from_slice(&[1.0_f32; 64], &[8, 8], &device).expect("a tensor").on(&queue);
    let sum = || x.sum(Axes::Of(&[1])).expect("a sum");
    let address = queue.reuse(&arena, || sum().address());
    assert_eq!(arena.free_bytes(), 256);
    queue.reuse(&arena, || {
        let (first, second) = (sum(), sum());
        assert_eq!(first.address(), address);
        assert_ne!(second.address(), address);
        assert_eq!(first.to_vec::<f32>().expect("elements"), [8.0; 8]);
    });
    assert_eq!(arena.free_bytes(), 512);
    assert_ne!(sum().address(), address);
    assert_eq!(arena.free_bytes(), 512);
}
