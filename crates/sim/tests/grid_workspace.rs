//! What the driver hands to cooperative groups: the address of the grid barrier's workspace.

use warpfold_sim::{Arch, Launch, Memory, Options, Program};

const KERNEL: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry arrive(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %envreg1;
    mov.u32 %r2, %envreg2;
    mov.b64 %rd2, {%r2, %r1};
    st.global.u64 [%rd1], %rd2;
    ret;
}
";

fn workspace(cooperative: bool) -> u64 {
    let memory = Memory::new(1 << 20);
    let out = memory.allocate(8, "out").unwrap();
    let program = Program::load(&memory, KERNEL, Arch::SM_80).unwrap();
    let launch = Launch {
        kernel: "arrive".to_owned(),
        grid: [1, 1, 1],
        block: [1, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: out.to_le_bytes().to_vec(),
        cooperative,
        programmatic: false,
    };
    let used = memory.used();
    program.launch(&memory, &launch, &Options::default()).unwrap();
    assert_eq!(memory.used(), used, "the workspace lives as long as the launch");
    let mut bytes = [0; 8];
    memory.read(out, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn a_cooperative_launch_has_a_workspace_for_its_grid_barrier() {
    assert_ne!(workspace(true), 0);
}

#[test]
fn another_launch_has_none_so_that_a_grid_barrier_in_it_traps() {
    assert_eq!(workspace(false), 0);
}
