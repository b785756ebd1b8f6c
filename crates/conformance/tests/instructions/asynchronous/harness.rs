//! One launch of a kernel with one input and one output buffer.

use warpfold_sim::{Arch, Checks, Error, Launch, Memory, Options, Program, Report};

/// What to run: the body of a kernel `proof(input, output)`, with both addresses in `%in` and
/// `%out`.
pub(crate) struct Proof<'a> {
    /// Instructions, and declarations of registers and shared variables.
    pub(crate) body: &'a str,
    /// Threads.
    pub(crate) threads: u32,
    /// What the input buffer holds.
    pub(crate) input: &'a [u8],
    /// Bytes of the output buffer.
    pub(crate) output_bytes: usize,
}

impl Proof<'_> {
    fn text(&self) -> String {
        format!(
            ".version 8.3\n.target sm_90a\n.address_size 64\n\
             .visible .entry proof(.param .u64 input, .param .u64 output)\n{{\n\
             .reg .b64 %in, %out;\n.reg .b32 %t;\n\
             ld.param.u64 %in, [input];\nld.param.u64 %out, [output];\nmov.u32 %t, %tid.x;\n{}\nret;\n}}\n",
            self.body
        )
    }

    /// Runs it; the output buffer, and the report.
    pub(crate) fn run(&self, options: &Options) -> Result<(Vec<u8>, Report), Error> {
        let memory = Memory::new(1 << 30);
        let program = Program::load(&memory, &self.text(), Arch::SM_90A)?;
        let input = memory.allocate(self.input.len() as u64, "input")?;
        memory.write(input, self.input)?;
        let output = memory.allocate(self.output_bytes as u64, "output")?;
        memory.fill(output, 0xa5, self.output_bytes as u64)?;
        let launch = Launch {
            kernel: "proof".into(),
            grid: [1, 1, 1],
            block: [self.threads, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            params: [input.to_le_bytes(), output.to_le_bytes()].concat(),
            cooperative: false,
            programmatic: false,
        };
        let report = program.launch(&memory, &launch, options)?;
        let mut data = vec![0; self.output_bytes];
        memory.read(output, &mut data)?;
        Ok((data, report))
    }

    /// Runs it under all checks, which must report nothing.
    #[track_caller]
    pub(crate) fn output(&self) -> Vec<u8> {
        let (output, report) = self.run(&checked()).unwrap_or_else(|e| panic!("{e}\n{}", self.text()));
        assert!(report.findings.is_empty(), "{:?}\n{}", report.findings, self.text());
        let (unchecked, _) = self.run(&Options { workers: Some(1), ..Options::default() }).unwrap();
        assert_eq!(output, unchecked, "checks change the result of\n{}", self.text());
        output
    }
}

/// All checks, on one worker.
pub(crate) fn checked() -> Options {
    Options { checks: Checks::All, workers: Some(1), ..Options::default() }
}

/// Bytes that differ from their neighbours and from those of other seeds.
pub(crate) fn bytes(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 11) as u8
    })
    .take(count)
    .collect()
}
