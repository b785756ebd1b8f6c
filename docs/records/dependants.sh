#!/bin/bash
# Builds a fresh crate on each peer of docs/comparison.md from nothing, one after the other: crates, processor time, size.
# docs/records/dependants.sh FOLDER [NAME…], in a folder outside of this repository, whose profile would reach them.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:?a folder for the crates}
shift
export CARGO_TARGET_DIR=$folder/target
TIMEFORMAT='%U s of processor time, %S s in the kernel'

tensors() {
    cat <<END
use candle_core::{Device, IndexOp, Tensor};

fn main() -> candle_core::Result<()> {
    let device = $1;
    let x = Tensor::new(&[[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &device)?;
    println!("{x}");
    println!("{}", (&x * 2.0)?.broadcast_sub(&x.mean_keepdim(1)?)?.t()?);
    println!("{}", x.i((.., 1..))?.sum_keepdim(0)?);
    let q = Tensor::randn(0.0_f32, 1.0, (1, 1, 2, 3), &device)?;
    println!("{}", q.matmul(&q.t()?)?.exp()?);
    Ok(())
}
END
}

readme() { # The README's program on tensors.
    sed -n '/^use warpfold::{Attention/,/^}/p' "$root/README.md"
}

twice() {
    cat <<'END'
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};

const TWICE: &str = r#"extern "C" __global__ void twice(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let twice = context.load_module(cudarc::nvrtc::compile_ptx(TWICE)?)?.load_function("twice")?;
    let mut x = stream.clone_htod(&[1.0_f32, 2.0, 3.0])?;
    // SAFETY: the vector has three elements.
    unsafe { stream.launch_builder(&twice).arg(&mut x).arg(&3_i32).launch(LaunchConfig::for_num_elems(3)) }?;
    println!("{:?}", stream.clone_dtoh(&x)?);
    Ok(())
}
END
}

cube() {
    cat <<END
use cubecl::prelude::*;

#[cube(launch_unchecked)]
fn twice<F: Float>(input: &[F], output: &mut [F]) {
    if ABSOLUTE_POS < input.len() {
        output[ABSOLUTE_POS] = input[ABSOLUTE_POS] + input[ABSOLUTE_POS];
    }
}

fn main() {
    let client = <$1 as Runtime>::client(&Default::default());
    let (input, output) = (client.create_from_slice(f32::as_bytes(&[1.0, 2.0, 3.0])), client.empty(12));
    // SAFETY: both have three elements.
    unsafe {
        twice::launch_unchecked::<f32, $1>(
            &client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(32),
            BufferArg::from_raw_parts(input, 3),
            BufferArg::from_raw_parts(output.clone(), 3),
        )
    };
    println!("{:?}", f32::from_bytes(&client.read_one(output).expect("the kernel ran")));
}
END
}

measure() { # NAME DEPENDENCY PROFILE, the program on standard input
    mkdir -p "$folder/$1/src"
    cat >"$folder/$1/src/main.rs"
    printf '[package]\nname = "try-%s"\nedition = "2024"\n[workspace]\n[dependencies]\n%s\n[profile.release]\nstrip = true\n%s\n' \
        "$1" "$2" "$3" >"$folder/$1/Cargo.toml"
    (cd "$folder/$1" && cargo fetch --quiet)
    rm -rf "$CARGO_TARGET_DIR"
    if time (cd "$folder/$1" && cargo build --release --offline >build.log 2>&1); then
        printf '%s: %d crates, %d bytes\n\n' "$1" "$(grep -c '^ *Compiling' "$folder/$1/build.log")" \
            "$(stat -c %s "$CARGO_TARGET_DIR/release/try-$1")"
    else
        printf '%s does not build:\n%s\n\n' "$1" "$(grep -m 1 -A 12 '^error' "$folder/$1/build.log")"
    fi
    rm -rf "$CARGO_TARGET_DIR"
}

one() {
    local local_crate="path = \"$root/crates/warpfold\""
    case $1 in
    cudarc) twice | measure "$1" 'cudarc = { version = "0.19", default-features = false, features = ["std", "driver", "nvrtc", "dynamic-loading", "cuda-13000"] }' '' ;;
    candle) tensors Device::Cpu | measure "$1" 'candle-core = "0.11"' '' ;;
    candle-cuda) tensors 'Device::new_cuda(0)?' | measure "$1" 'candle-core = { version = "0.11", features = ["cuda"] }' '' ;;
    cubecl-cuda) cube cubecl::cuda::CudaRuntime | measure "$1" 'cubecl = { version = "0.11", features = ["cuda"] }' '' ;;
    cubecl-wgpu) cube cubecl::wgpu::WgpuRuntime | measure "$1" 'cubecl = { version = "0.11", features = ["wgpu"] }' '' ;;
    cubecl-cpu) cube cubecl::cpu::CpuRuntime | measure "$1" 'cubecl = { version = "0.11", features = ["cpu"] }' '' ;;
    warpfold) readme | measure "$1" "warpfold = { $local_crate }" 'lto = "off"' ;;
    warpfold-gpu) readme | measure "$1" "warpfold = { $local_crate, default-features = false }" 'lto = "off"' ;;
    *) echo "error: $1 is none of cudarc, candle, candle-cuda, cubecl-{cuda,wgpu,cpu}, warpfold, warpfold-gpu" >&2 && exit 2 ;;
    esac
}

[ $# -gt 0 ] || set -- cudarc candle candle-cuda cubecl-cuda cubecl-wgpu cubecl-cpu warpfold warpfold-gpu
for name in "$@"; do
    one "$name"
done
