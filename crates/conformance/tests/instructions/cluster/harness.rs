//! A kernel around some lines of PTX, run in clusters; each thread leaves one number.

use warpfold_sim::{Arch, Checks, Error, Launch, Memory, Options, Program, Report};

/// The sizes of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
}

impl Sizes {
    /// Blocks in a row, in clusters of so many.
    pub(crate) fn row(blocks: u32, threads: u32, cluster: u32) -> Self {
        Self { grid: [blocks, 1, 1], block: [threads, 1, 1], cluster: [cluster, 1, 1] }
    }

    pub(crate) fn threads(&self) -> usize {
        self.grid.iter().chain(&self.block).map(|&n| n as usize).product()
    }
}

/// The text of a kernel with some directives, which runs `body` and stores `%result`. The body
/// knows `%thread` (its linear index in the block), `%rank`, a shared variable `tile` of 1,024
/// words of 4 bytes, scratch registers `%r0`…, `%d0`…, `%p0`….
pub(crate) fn text(target: &str, directives: &str, body: &str) -> String {
    format!(
        ".version 8.3
.target {target}
.address_size 64

.shared .align 16 .b8 tile[4096];

.visible .entry proof(.param .u64 output) {directives}
{{
    .reg .u32 %thread, %rank, %block, %size, %result, %r<32>;
    .reg .u64 %out, %d<16>;
    .reg .f32 %f<8>;
    .reg .pred %p<8>;

    mov.u32 %r0, %tid.z;
    mov.u32 %r1, %ntid.y;
    mov.u32 %r2, %tid.y;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %thread, %r0, %r1, %r2;
    mov.u32 %r0, %ctaid.z;
    mov.u32 %r1, %nctaid.y;
    mov.u32 %r2, %ctaid.y;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    mov.u32 %r1, %nctaid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %block, %r0, %r1, %r2;
    mov.u32 %r0, %ntid.x;
    mov.u32 %r1, %ntid.y;
    mul.lo.u32 %size, %r0, %r1;
    mov.u32 %r0, %ntid.z;
    mul.lo.u32 %size, %size, %r0;
    mov.u32 %result, 0;
{body}
    mad.lo.u32 %block, %block, %size, %thread;
    ld.param.u64 %out, [output];
    cvta.to.global.u64 %out, %out;
    mad.wide.u32 %out, %block, 4, %out;
    st.global.u32 [%out], %result;
    ret;
}}
"
    )
}

/// Loads and launches a text on an architecture, with every check; gives what the threads left, and
/// the report.
pub(crate) fn launch(text: &str, arch: Arch, sizes: Sizes) -> Result<(Vec<u32>, Report), Error> {
    let memory = Memory::new(1 << 24);
    let program = Program::load(&memory, text, arch)?;
    let bytes = sizes.threads() as u64 * 4;
    let output = memory.allocate(bytes, "output")?;
    memory.fill(output, 0xa5, bytes)?;
    let launch = Launch {
        kernel: "proof".into(),
        grid: sizes.grid,
        block: sizes.block,
        cluster: sizes.cluster,
        dynamic_shared: 0,
        params: output.to_le_bytes().to_vec(),
        cooperative: false,
        programmatic: false,
    };
    let report = program.launch(&memory, &launch, &Options { checks: Checks::All, ..Options::default() })?;
    let mut data = vec![0; sizes.threads() * 4];
    memory.read(output, &mut data)?;
    Ok((data.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect(), report))
}

/// What the threads of a body leave on sm_90a; the checks find nothing.
#[track_caller]
pub(crate) fn run(body: &str, sizes: Sizes) -> Vec<u32> {
    let (values, report) =
        launch(&text("sm_90a", "", body), Arch::SM_90A, sizes).unwrap_or_else(|e| panic!("{body}: {e}"));
    assert!(report.findings.is_empty(), "{body}: {:?}", report.findings);
    values
}

/// A barrier of the cluster.
pub(crate) const SYNC: &str = "barrier.cluster.arrive; barrier.cluster.wait;\n";
