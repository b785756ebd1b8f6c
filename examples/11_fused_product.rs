//! A product of matrices with a user-defined epilogue: the gated layer of a language model, `silu(x
//! W) * (x V)`, whose second half is written in the kernel language and runs on the sums before
//! they are stored.

use warpfold::{Activation, Device, Epilogue, Matmul, Tensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::from_env()?;
    println!("on {device}");
    let (tokens, width, hidden) = (10, 48, 130);
    let some = |seed: usize, len: usize| -> Vec<f32> {
        (0..len).map(|i| ((i * 7919 + seed * 104_729) % 201) as f32 / 100.0 - 1.0).collect()
    };
    let (x, w, v) = (some(1, tokens * width), some(2, width * hidden), some(3, width * hidden));
    let x_of = Tensor::from_slice(&x, &[tokens, width], &device)?;
    let w_of = Tensor::from_slice(&w, &[width, hidden], &device)?;
    let v_of = Tensor::from_slice(&v, &[width, hidden], &device)?;

    // The standard end takes no code: bias, activation and residual are options.
    let scores = Matmul::new().alpha(0.5).activation(Activation::Silu).run(&x_of, &w_of)?;

    // A user-defined one: a closure over the sum, its place, and what stands there in other
    // tensors. It is recorded once.
    let gate = Epilogue::new().with_inputs(1).apply("gate", |sum, _, others| sum * sum.sigmoid() * others[0]);
    let up = x_of.matmul(&v_of)?;
    let gated = Matmul::new().epilogue(&gate, &[&up]).run(&x_of, &w_of)?.to_vec::<f32>()?;

    let dot = |row: usize, matrix: &[f32], column: usize| -> f64 {
        (0..width).map(|l| f64::from(x[row * width + l]) * f64::from(matrix[l * hidden + column])).sum()
    };
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let scores = scores.to_vec::<f32>()?;
    for (i, (gated, score)) in gated.iter().zip(scores).enumerate() {
        let (row, column) = (i / hidden, i % hidden);
        let sum = dot(row, &w, column);
        assert!((f64::from(*gated) - silu(sum) * dot(row, &v, column)).abs() < 1e-3, "row {row}, column {column}");
        assert!((f64::from(score) - silu(0.5 * sum)).abs() < 1e-4, "row {row}, column {column}");
    }
    println!("{} gated values, the first is {:.3}", gated.len(), gated[0]);
    Ok(())
}
