//! Running PTX that was not written here: text as `nvcc --ptx` prints it, with arguments whose
//! types nobody knows.

use warpfold_device::{Arguments, Device, LaunchConfig};

const PTX: &str = "
.version 7.0
.target sm_80
.address_size 64

// __global__ void saxpy(float a, const float *x, float *y, int n)
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;

    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra $done;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.s32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd7], %f4;
$done:
    ret;
}
";

fn main() -> Result<(), warpfold_device::Error> {
    let device = Device::from_env()?;
    let saxpy = device.load(PTX)?.kernel("saxpy")?;
    let x = device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
    let mut y = device.upload(&[0.5_f32; 4])?;

    let arguments = Arguments::new().value(10.0_f32).input(&x).output(&mut y).value(4_u32);
    device.default_stream().launch_raw(&saxpy, LaunchConfig::for_elements(4, 128), &arguments)?;
    drop(arguments);

    println!("{:?} on {device}", y.download()?);
    if let Some(launch) = device.last_report() {
        let counters = launch.report.counters;
        println!("{} warp instructions, {} load requests", counters.warp_instructions, counters.global_load_requests);
    }
    Ok(())
}
