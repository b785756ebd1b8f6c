//! Products, convolutions and histograms are planned once, and are captured in graphs.

use half::bf16;
use warpfold::{Conv2d, Device, Error, ImageLayout, Matmul, Profile, Queue, Tensor};

fn number(i: usize) -> f32 {
    ((i * 7919) % 7) as f32 - 3.0
}

fn tensor(queue: &Queue, shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product()).map(number).collect();
    Tensor::from_slice(&elements, shape, queue.device()).unwrap().on(queue)
}

fn halves(queue: &Queue, shape: &[usize]) -> Tensor {
    let elements: Vec<bf16> = (0..shape.iter().product()).map(|i| bf16::from_f32(number(i))).collect();
    Tensor::from_slice(&elements, shape, queue.device()).unwrap().on(queue)
}

type Operator = Box<dyn Fn() -> Result<Tensor, Error>>;

/// An operator of each way through the families, with the launches that it takes.
fn operators(queue: &Queue) -> Vec<(&'static str, usize, Operator)> {
    let queue = queue.clone();
    let (left, right) = (tensor(&queue, &[33, 40]), tensor(&queue, &[40, 20]));
    let (long, deep) = (tensor(&queue, &[4, 8192]), tensor(&queue, &[8192, 8]));
    let (wide, weights) = (halves(&queue, &[64, 512]), halves(&queue, &[256, 512]).reverse_axes().unwrap());
    let (odd, thin) = (tensor(&queue, &[641, 643]), tensor(&queue, &[643, 655]));
    let vector = tensor(&queue, &[40]);
    let column = tensor(&queue, &[40, 2]).slice(1, ..1).unwrap();
    let batches = [tensor(&queue, &[2, 1, 2, 1, 5, 6]), tensor(&queue, &[1, 2, 1, 2, 6, 7])];
    let (images, filters) = (tensor(&queue, &[2, 3, 9, 9]), tensor(&queue, &[5, 3, 3, 3]));
    let (planes, bank) = (tensor(&queue, &[64, 64, 28, 28]), tensor(&queue, &[64, 64, 3, 3]));
    let (pixels, last) = (halves(&queue, &[2, 9, 9, 16]), halves(&queue, &[24, 3, 3, 16]));
    let integers = Tensor::from_slice(&[3_i32; 5000], &[5000], queue.device()).unwrap().on(&queue);
    let (of_gemv, rows) = (vector.clone(), left.clone());
    vec![
        ("matmul", 1, Box::new(move || left.matmul(&right))),
        ("matmul split", 2, Box::new(move || long.matmul(&deep))),
        ("matmul bf16", 1, Box::new(move || wide.matmul(&weights))),
        ("matmul repacked for TMA", 3, Box::new(move || Matmul::new().tf32().run(&odd, &thin))),
        ("matmul of a vector", 1, {
            let (matrix, vector) = (rows.clone(), vector.clone());
            Box::new(move || matrix.matmul(&vector))
        }),
        ("matmul of a repacked vector", 2, {
            let matrix = rows.clone();
            Box::new(move || matrix.matmul(&column))
        }),
        ("matmul of many batches", 3, Box::new(move || batches[0].matmul(&batches[1]))),
        ("gemv", 1, Box::new(move || rows.gemv(&of_gemv))),
        ("conv2d", 1, Box::new(move || images.conv2d(&filters, 0, 1, 1, 1))),
        ("conv2d repacked", 2, Box::new(move || Conv2d::new().tf32().run(&planes, &bank))),
        ("conv2d bf16", 1, Box::new(move || Conv2d::new().layout(ImageLayout::Nhwc).run(&pixels, &last))),
        ("histogram", 1, Box::new(move || integers.histogram(10))),
    ]
}

#[test]
fn the_second_call_of_a_product_plans_nothing() {
    let device = Device::virtual_gpu(Profile::H200);
    let queue = Queue::new(device.default_stream());
    for (name, launches, operator) in operators(&queue) {
        drop(device.take_reports());
        let first = operator().unwrap();
        let kernels: Vec<_> = device.take_reports().into_iter().map(|launch| launch.kernel).collect();
        assert_eq!(kernels.len(), launches, "{name}: {kernels:?}");
        let before = queue.plan_counts();
        let second = operator().unwrap();
        let after = queue.plan_counts();
        assert_eq!((after.planned, after.found), (before.planned, before.found + 1), "{name}");
        assert_eq!(first.to_bytes().unwrap(), second.to_bytes().unwrap(), "{name}");
    }
}

#[test]
fn a_slice_elsewhere_in_memory_has_the_plan_of_the_first() {
    let device = Device::virtual_gpu(Profile::H200);
    let queue = Queue::new(device.default_stream());
    let (rows, weights) = (tensor(&queue, &[64, 40]), tensor(&queue, &[40, 20]));
    let product = |first: usize| rows.slice(0, first..first + 16).unwrap().matmul(&weights).unwrap();
    product(0);
    let before = queue.plan_counts();
    product(16);
    assert_eq!(queue.plan_counts().planned, before.planned);
}

#[test]
fn products_are_captured_in_a_graph() {
    let device = Device::virtual_gpu(Profile::H200);
    let queue = Queue::new(device.new_stream().unwrap());
    for (name, _, operator) in operators(&queue) {
        let expected = operator().unwrap().to_bytes().unwrap();
        let (graph, result) = queue.stream().capture(&operator).unwrap_or_else(|error| panic!("{name}: {error}"));
        graph.launch().unwrap();
        assert_eq!(result.to_bytes().unwrap(), expected, "{name}");
        graph.launch().unwrap();
        assert_eq!(result.to_bytes().unwrap(), expected, "{name}");
    }
}
