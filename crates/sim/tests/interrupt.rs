//! A run ends soon once it is interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpfold_sim::{Arch, Checks, Error, Launch, Memory, Options, Program};

/// The first half of the blocks ends at once, the others never.
const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry half(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x;
    setp.lt.u32 %p1, %r1, 4;
    @%p1 bra done;
again:
    atom.global.add.u32 %r2, [%rd1], 1;
    bra again;
done:
    ret;
}
";

#[test]
fn an_interrupted_run_says_how_far_it_came_and_a_later_one_is_not_affected() -> Result<(), Error> {
    let memory = Memory::new(1 << 20);
    let out = memory.allocate(4, "out")?;
    memory.fill(out, 0, 4)?;
    let program = Program::load(&memory, PTX, Arch::SM_80)?;
    let interrupt = Arc::new(AtomicBool::new(false));
    let launch = |blocks| Launch {
        kernel: "half".to_owned(),
        grid: [blocks, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: out.to_le_bytes().to_vec(),
        cooperative: false,
        programmatic: false,
    };
    for (checks, workers) in [(Checks::None, 1), (Checks::All, 2)] {
        let interrupt = Arc::clone(&interrupt);
        let options =
            Options { checks, workers: Some(workers), interrupt: Some(Arc::clone(&interrupt)), ..Options::default() };
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                interrupt.store(true, Ordering::Relaxed);
            });
            program.launch(&memory, &launch(8), &options)
        });
        let error = result.expect_err("it never ends by itself");
        assert!(matches!(error, Error::Interrupted { blocks: 8, done: 0..=4, .. }), "{error}");
        assert!(error.to_string().starts_with("kernel half was interrupted after "), "{error}");
        interrupt.store(false, Ordering::Relaxed);
        assert!(!program.launch(&memory, &launch(4), &options)?.aborted);
    }
    Ok(())
}
