//! A kernel of one block around the lines under proof: registers by lane and shared memory go in,
//! and come back.

use warpfold_sim::{Arch, Checks, Error, Finding, Launch, Memory, Options, Program, Report};

/// Every register of every thread has this many bytes in memory.
const SLOT: usize = 8;

/// A register of all threads.
#[derive(Debug, Clone)]
pub(crate) struct Register {
    pub(crate) name: String,
    pub(crate) bits: u32,
    /// By thread.
    pub(crate) values: Vec<u64>,
}

/// What to run, and on what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proof {
    /// Lines of PTX; shared memory starts at the variable `tile`, `%tid` is the thread.
    pub(crate) lines: String,
    /// Warps of the block; one if it is zero.
    pub(crate) warps: usize,
    pub(crate) inputs: Vec<Register>,
    /// Name and bits.
    pub(crate) outputs: Vec<(String, u32)>,
    /// What `tile` holds at the start, a multiple of 4 bytes.
    pub(crate) shared: Vec<u8>,
}

/// What a run leaves.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// By output, by thread.
    pub(crate) values: Vec<Vec<u64>>,
    pub(crate) shared: Vec<u8>,
    pub(crate) report: Report,
}

impl Proof {
    fn threads(&self) -> usize {
        32 * self.warps.max(1)
    }

    /// The text of the kernel.
    pub(crate) fn text(&self) -> String {
        let shared = self.shared.len().max(4);
        let mut text = format!(
            ".version 8.7\n.target sm_90a\n.address_size 64\n\n\
             .visible .entry proof(.param .u64 inputs, .param .u64 results, .param .u64 image)\n{{\n\
             .shared .align 1024 .b8 tile[{shared}];\n\
             .reg .pred %more;\n.reg .b32 %tid, %at, %word, %tile;\n.reg .b64 %in, %out, %image, %offset;\n",
        );
        let inputs = self.inputs.iter().map(|r| (r.name.as_str(), r.bits));
        let outputs = self.outputs.iter().map(|(name, bits)| (name.as_str(), *bits));
        let mut declared = Vec::new();
        for (name, bits) in inputs.clone().chain(outputs.clone()) {
            if !declared.contains(&name) {
                text += &format!(".reg .b{bits} {name};\n");
                declared.push(name);
            }
        }
        text += &format!(
            "ld.param.u64 %in, [inputs];\nld.param.u64 %out, [results];\nld.param.u64 %image, [image];\n\
             mov.u32 %tid, %tid.x;\nmov.u32 %tile, tile;\nmul.wide.u32 %offset, %tid, {SLOT};\n\
             add.u64 %in, %in, %offset;\nadd.u64 %out, %out, %offset;\n",
        );
        text += &self.copy("load", "ld.global.b32 %word, [%offset];\nst.shared.b32 [%at], %word;\n");
        // What ordinary stores wrote is read through the asynchronous proxy.
        text += if self.lines.contains("wgmma") { "fence.proxy.async;\n" } else { "" };
        text += "bar.sync 0;\n";
        for (n, (name, bits)) in inputs.enumerate() {
            text += &format!("ld.global.b{bits} {name}, [%in+{}];\n", n * SLOT * self.threads());
        }
        text += &format!("{}\nbar.sync 0;\n", self.lines);
        for (n, (name, bits)) in outputs.enumerate() {
            text += &format!("st.global.b{bits} [%out+{}], {name};\n", n * SLOT * self.threads());
        }
        text += &self.copy("store", "ld.shared.b32 %word, [%at];\nst.global.b32 [%offset], %word;\n");
        text + "ret;\n}\n"
    }

    /// A loop over the words of shared memory.
    fn copy(&self, label: &str, body: &str) -> String {
        let threads = self.threads();
        format!(
            "shl.b32 %at, %tid, 2;\n${label}:\nsetp.lt.u32 %more, %at, {};\n@!%more bra ${label}_done;\n\
             cvt.u64.u32 %offset, %at;\nadd.u64 %offset, %image, %offset;\nadd.u32 %at, %at, %tile;\n{body}\
             sub.u32 %at, %at, %tile;\nadd.u32 %at, %at, {};\nbra ${label};\n${label}_done:\n",
            self.shared.len(),
            threads * 4,
        )
    }

    /// Runs it.
    pub(crate) fn try_run(&self, checks: Checks) -> Result<Outcome, Error> {
        let threads = self.threads();
        let memory = Memory::new(1 << 26);
        let program = Program::load(&memory, &self.text(), Arch::SM_90A)?;
        let bytes = |registers: usize| ((registers * threads * SLOT).max(SLOT)) as u64;
        let inputs = memory.allocate(bytes(self.inputs.len()), "inputs")?;
        memory.fill(inputs, 0, bytes(self.inputs.len()))?;
        for (n, register) in self.inputs.iter().enumerate() {
            assert_eq!(register.values.len(), threads, "{} has a value for each thread", register.name);
            let data: Vec<u8> = register.values.iter().flat_map(|v| v.to_le_bytes()).collect();
            memory.write(inputs + (n * threads * SLOT) as u64, &data)?;
        }
        let results = memory.allocate(bytes(self.outputs.len()), "results")?;
        memory.fill(results, 0, bytes(self.outputs.len()))?;
        let image = memory.allocate(self.shared.len().max(4) as u64, "image")?;
        memory.write(image, &self.shared)?;
        let launch = Launch {
            kernel: "proof".into(),
            grid: [1, 1, 1],
            block: [u32::try_from(threads).expect("a block"), 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            params: [inputs, results, image].iter().flat_map(|a| a.to_le_bytes()).collect(),
            cooperative: false,
            programmatic: false,
        };
        let options = Options { workers: Some(1), checks, ..Options::default() };
        let report = program.launch(&memory, &launch, &options)?;
        let mut data = vec![0; self.outputs.len() * threads * SLOT];
        memory.read(results, &mut data)?;
        let slot = |at: usize| u64::from_le_bytes(data[at * SLOT..][..SLOT].try_into().expect("eight bytes"));
        let values = (0..self.outputs.len()).map(|n| (0..threads).map(|t| slot(n * threads + t)).collect()).collect();
        let mut shared = vec![0; self.shared.len()];
        memory.read(image, &mut shared)?;
        Ok(Outcome { values, shared, report })
    }

    /// Runs it without checks and with all of them, and expects no findings and the same results.
    #[track_caller]
    pub(crate) fn run(&self) -> Outcome {
        let run = |checks| self.try_run(checks).unwrap_or_else(|error| panic!("{}\n{error}", self.text()));
        let (plain, checked) = (run(Checks::None), run(Checks::All));
        for outcome in [&plain, &checked] {
            assert!(outcome.report.findings.is_empty(), "{}\n{}", self.lines, list(&outcome.report.findings));
        }
        assert_eq!(plain.values, checked.values, "{}: the checks change results", self.lines);
        assert_eq!(plain.shared, checked.shared, "{}: the checks change shared memory", self.lines);
        plain
    }
}

/// Findings, one a line.
pub(crate) fn list(findings: &[Finding]) -> String {
    findings.iter().map(|f| format!("{f}\n")).collect()
}

/// `{p0, p1, …}`
pub(crate) fn vector(prefix: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}
