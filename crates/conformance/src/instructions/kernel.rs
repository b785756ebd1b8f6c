//! The kernel around an instruction under proof, and its launch.

use warpfold_sim::{Arch, Error, Launch, Memory, Options, Program};

use super::Kind;

/// Every input and result of every element has this many bytes.
const SLOT: usize = 8;

const BLOCK: u32 = 256;

/// Runs a line of PTX for each element, one a thread: inputs in `a b c d e`, results in `x y z`, as
/// raw bits.
///
/// # Errors
/// If the virtual GPU does not load or launch the kernel.
///
/// # Panics
/// If there are more inputs or results than names, or the run reports a finding.
pub fn run<const I: usize, const O: usize>(
    text: &str,
    inputs: [Kind; I],
    results: [Kind; O],
    elements: &[[u64; I]],
) -> Result<Vec<[u64; O]>, Error> {
    let (in_bytes, out_bytes) = ((elements.len() * I * SLOT) as u64, (elements.len() * O * SLOT) as u64);
    let memory = Memory::new(in_bytes + out_bytes + (1 << 20));
    let program = Program::load(&memory, &kernel(text, &inputs, &results), Arch::SM_90A)?;
    let values = memory.allocate(in_bytes.max(1), "inputs")?;
    let data: Vec<u8> = elements.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    memory.write(values, &data)?;
    let found = memory.allocate(out_bytes, "results")?;
    memory.fill(found, 0xa5, out_bytes)?;

    let count = u32::try_from(elements.len()).expect("fewer than 2^32 elements");
    let mut params = Vec::new();
    params.extend_from_slice(&values.to_le_bytes());
    params.extend_from_slice(&found.to_le_bytes());
    params.extend_from_slice(&count.to_le_bytes());
    let launch = Launch {
        kernel: "proof".into(),
        grid: [count.div_ceil(BLOCK), 1, 1],
        block: [BLOCK, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params,
        cooperative: false,
        programmatic: false,
    };
    let report = program.launch(&memory, &launch, &Options { workers: Some(1), ..Options::default() })?;
    assert!(report.findings.is_empty(), "`{text}`: {:?}", report.findings);

    let mut data = vec![0; elements.len() * O * SLOT];
    memory.read(found, &mut data)?;
    let slot = |at: usize| u64::from_le_bytes(data[at * SLOT..][..SLOT].try_into().expect("eight bytes"));
    Ok((0..elements.len()).map(|n| std::array::from_fn(|i| slot(n * O + i) & results[i].mask())).collect())
}

/// The text of the kernel.
fn kernel(line: &str, inputs: &[Kind], results: &[Kind]) -> String {
    let mut text = String::from(
        ".version 8.5\n.target sm_90a\n.address_size 64\n\n\
         .visible .entry proof(.param .u64 inputs, .param .u64 results, .param .u32 count)\n{\n\
         .reg .pred %done;\n.reg .b16 %narrow;\n.reg .b32 %i, %block, %size, %count, %word;\n.reg .b64 %in, %out, %offset;\n",
    );
    let names = || "abcde".chars().zip(inputs).chain("xyz".chars().zip(results));
    assert!(inputs.len() <= 5 && results.len() <= 3, "five inputs and three results have names");
    for (name, kind) in names() {
        text += &format!(".reg .{} {name};\n", register_type(*kind));
    }
    text += &format!(
        "ld.param.u64 %in, [inputs];\nld.param.u64 %out, [results];\nld.param.u32 %count, [count];\n\
         mov.u32 %i, %tid.x;\nmov.u32 %block, %ctaid.x;\nmov.u32 %size, %ntid.x;\nmad.lo.u32 %i, %block, %size, %i;\n\
         setp.ge.u32 %done, %i, %count;\n@%done bra $end;\n\
         mul.wide.u32 %offset, %i, {};\nadd.u64 %in, %in, %offset;\n\
         mul.wide.u32 %offset, %i, {};\nadd.u64 %out, %out, %offset;\n",
        inputs.len() * SLOT,
        results.len() * SLOT,
    );
    for (n, (name, kind)) in "abcde".chars().zip(inputs).enumerate() {
        let at = n * SLOT;
        text += &match kind {
            Kind::Pred => format!("ld.global.u8 %narrow, [%in+{at}];\nsetp.ne.u16 {name}, %narrow, 0;\n"),
            kind => format!("ld.global.b{} {name}, [%in+{at}];\n", kind.bits()),
        };
    }
    text += &format!("{line}\n");
    for (n, (name, kind)) in "xyz".chars().zip(results).enumerate() {
        let at = n * SLOT;
        text += &match kind {
            Kind::Pred => format!("selp.u32 %word, 1, 0, {name};\nst.global.b32 [%out+{at}], %word;\n"),
            kind => format!("st.global.b{} [%out+{at}], {name};\n", kind.bits()),
        };
    }
    text + "$end:\nret;\n}\n"
}

fn register_type(kind: Kind) -> String {
    match kind {
        Kind::Pred => "pred".into(),
        kind => format!("b{}", kind.bits().max(16)),
    }
}
