//! A kernel runs, its results are right, and its counters are what arithmetic says.

#[path = "first_kernel/limits.rs"]
mod limits;
#[path = "first_kernel/steps.rs"]
mod steps;

use warpfold_sim::{Arch, Launch, Memory, Options, Program};

const KERNEL: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 in, .param .u64 out, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p, %r5, %r1;
    @%p bra DONE;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.u32 %r2, [%rd4];
    add.s32 %r2, %r2, %r2;
    add.s64 %rd5, %rd2, %rd3;
    st.global.u32 [%rd5], %r2;
DONE:
    ret;
}
";

#[test]
fn a_kernel_doubles_its_input() {
    let n = 1000u32;
    let memory = Memory::new(1 << 20);
    let input: Vec<u8> = (0..n).flat_map(u32::to_le_bytes).collect();
    let a = memory.allocate(u64::from(n) * 4, "in").unwrap();
    let b = memory.allocate(u64::from(n) * 4, "out").unwrap();
    memory.write(a, &input).unwrap();
    let program = Program::load(&memory, KERNEL, Arch::SM_90A).unwrap();
    let mut params = Vec::new();
    params.extend(a.to_le_bytes());
    params.extend(b.to_le_bytes());
    params.extend(n.to_le_bytes());
    let launch = Launch {
        kernel: "scale".to_owned(),
        grid: [4, 1, 1],
        block: [256, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params,
        cooperative: false,
        programmatic: false,
    };
    let report = program.launch(&memory, &launch, &Options::default()).unwrap();
    let mut out = vec![0; n as usize * 4];
    memory.read(b, &mut out).unwrap();
    let values: Vec<u32> = out.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    assert!(values.iter().enumerate().all(|(i, &v)| v as usize == 2 * i));
    assert_eq!(report.counters.global_load_requests, 32);
    assert_eq!(report.counters.global_load_sectors, 125);
    assert_eq!(report.counters.branches, 32);
    assert_eq!(report.counters.divergent_branches, 1);
    assert!(report.findings.is_empty());
}
