//! The page of what loads, `docs/models.md`, from the names and formats that the code has.

use std::fmt::Write as _;
use std::path::Path;

use crate::Architecture;
use crate::files::{Blocks, Format};

/// Documentation of an architecture: models, the fixture with answers of numpy, and the reference
/// of numpy itself.
fn told(architecture: Architecture, name: &str) -> [&'static str; 3] {
    let is_half = name.ends_with("ForConditionalGeneration");
    match architecture {
        Architecture::Llama => {
            ["Llama 2, 3, 3.1, 3.2 (text), SmolLM2, shipped tales", "llama", "transformers (SmolLM2)"]
        }
        Architecture::Mistral if is_half => {
            ["Mistral Small 3.1 and 3.2, the half that reads and writes", "mistral3", "transformers"]
        }
        Architecture::Mistral => ["Mistral 7B, Mistral Small 3", "mistral", ""],
        Architecture::Qwen2 => ["Qwen2, Qwen2.5", "qwen2", ""],
        Architecture::Qwen3 => ["Qwen3", "qwen3", ""],
        Architecture::Mixtral => ["Mixtral", "mixtral", ""],
        Architecture::Qwen3Moe => ["Qwen3-30B-A3B and its like", "qwen3_moe", ""],
        Architecture::Gemma3 if is_half => ["Gemma 3 4B, 12B, 27B, the half that reads and writes", "gemma3", ""],
        Architecture::Gemma3 => ["Gemma 3 270M, 1B", "gemma3", ""],
        Architecture::Phi3 => ["Phi-3, Phi-4 and Phi-4-mini; longrope's long list", "phi3", "transformers"],
        Architecture::Glm => ["GLM-4 9B of 2024 (`-hf`)", "glm", "transformers"],
        Architecture::Glm4 => ["GLM-4 9B and 32B, GLM-Z1 (0414)", "glm4", "transformers"],
        Architecture::SmolLm3 => ["SmolLM3", "smollm3", "transformers"],
        Architecture::Gemma2 => ["Gemma 2", "gemma2", "transformers"],
        Architecture::Qwen3Next if is_half => {
            ["Qwen3.5 with experts, the half that reads and writes", "qwen3_5_moe", "transformers"]
        }
        Architecture::Qwen3Next if name.starts_with("Qwen3_5") => {
            ["Qwen3.5 with experts, text alone", "qwen3_5_moe", "transformers"]
        }
        Architecture::Qwen3Next => ["Qwen3-Next-80B-A3B, without its MTP head", "qwen3_next", "transformers"],
        Architecture::Qwen35 if is_half => {
            ["Qwen3.5 (dense), the half that reads and writes", "qwen3_5", "transformers"]
        }
        Architecture::Qwen35 => ["Qwen3.5 (dense), text alone", "qwen3_5", "transformers"],
        Architecture::Granite => ["Granite 3 (dense)", "granite", "transformers"],
        Architecture::Olmo2 => ["OLMo 2", "olmo2", "transformers"],
        Architecture::GptOss => ["gpt-oss 20b, 120b, with experts in MXFP4", "gpt_oss", "transformers"],
        Architecture::Olmo3 => ["OLMo 3", "olmo3", "transformers"],
    }
}

/// Describes a safetensors format by the name of its fixture.
fn format_of(fixture: &str) -> [&'static str; 2] {
    match fixture {
        "awq" => ["AWQ, 4 bits, `gemm`", ""],
        "gptq" => ["GPTQ, 4 bits", ""],
        "gptq_sym" => ["the same, symmetric", ""],
        "gptq_act_order" => ["GPTQ, 4 bits, act-order (`desc_act`), `gptq_v2`", ""],
        "gptq_8" => ["GPTQ, 8 bits", ""],
        "gptq_2" => ["GPTQ, 2 bits", ""],
        "int4" => ["compressed-tensors, 4 bits of groups (`pack-quantized`)", "compressed-tensors 0.20"],
        "int4_zeros" => ["the same with zero points and `g_idx`", "compressed-tensors 0.20, but for `g_idx`"],
        "int8_packed" => ["compressed-tensors, 8 bits of rows (`pack-quantized`)", "compressed-tensors 0.20"],
        "int8" => ["compressed-tensors, 8 bits of rows (`int-quantized`)", "compressed-tensors 0.20"],
        "fp8_tensor" => ["fp8 (e4m3), a scale for all", "compressed-tensors 0.20"],
        "fp8_channel" => ["fp8, a scale a row", "compressed-tensors 0.20"],
        "fp8_block" => ["fp8, a scale a block", "compressed-tensors 0.20"],
        "mxfp4" => ["compressed-tensors, MXFP4", "compressed-tensors 0.20"],
        "nvfp4" => ["compressed-tensors, NVFP4", "compressed-tensors 0.20"],
        "nvfp4_modelopt" => ["ModelOpt, NVFP4", ""],
        "nf4" => ["bitsandbytes, nf4", "bitsandbytes 0.50"],
        "nf4_nested" => ["the same with scales of 8 bits (`double_quant`)", "bitsandbytes 0.50"],
        other => panic!("nobody says what {other} is"),
    }
}

const HEAD: &str = "# What loads

A model is a folder as Hugging Face has it (`config.json`, safetensors, `tokenizer.json`), a GGUF file, a name in the
local cache of the hub, or `hf:OWNER/NAME`, which comes from the hub. What is not here is refused by an error that names
the file and the field. This page is written by a test (`crates/models/src/registry.rs`) from the names that the program
has.

## Architectures

Each has a model of random weights in `fixtures/models` whose answers numpy computed, in float64; the last column says
what else numpy's own were compared with. Adapters are low-rank ones (`--lora`). 32-bit, 16-bit and bf16 arithmetic, on
one device each.

| `architectures` | models | in GGUF | devices that share it | adapters | fixture | numpy compared with |
|---|---|---|---|---|---|---|
";

const FORMATS: &str = "
Qwen3-Next and Qwen3.5 keep a state of each running sequence (gated delta nets) beside the keys and values of every
fourth layer. It is counted in the sizes (`--max-seqs` of them), has no prefix cache, is recomputed instead of swapped
after a preemption, and cannot go back from a wrong guess: `--swap-bytes`, `--speculate`, `--draft`, beams and several
devices are refused. Answers have the same bits alone, in a batch, and however a prompt is cut; two layers of
Qwen3-Next-80B's widths with 32 experts have one set of bits on an H100 and on the virtual GPU (2026-11-28). Quantized
matrices that files have of queries and gates together are refused, too; Qwen3-Next-80B as bf16 (163 GB) is larger than
an H200.

## Weights in safetensors

F32, F16, BF16, and these. They are converted when they are loaded; activations are never quantized, whatever a
configuration says of them. A matrix of each is compared with numpy's, bit by bit, and wrong ones are refused.

| format | numpy compared with |
|---|---|
";

const GGUF: &str = "
## Weights in GGUF

F32, F16, BF16, and blocks that devices [may keep as they are](weights.md), each compared with the package `gguf`:
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (name, architecture) in Architecture::NAMES {
        let [models, fixture, compared] = told(architecture, name);
        let has_experts = matches!(architecture, Architecture::GptOss | Architecture::Mixtral | Architecture::Qwen3Moe);
        let is_half = name.ends_with("ForConditionalGeneration");
        let gguf = Architecture::GGUF_NAMES.iter().find(|(_, of)| *of == architecture && !is_half);
        let gguf = match gguf {
            // A llama with experts.
            None if architecture == Architecture::Mixtral => "`llama`".to_owned(),
            found => found.map_or_else(String::new, |(name, _)| format!("`{name}`")),
        };
        let is_hybrid = matches!(architecture, Architecture::Qwen3Next | Architecture::Qwen35);
        let adapters = match () {
            () if is_hybrid => "outputs of attention, MLP",
            () if has_experts => "attention",
            () => "all",
        };
        let devices = if is_hybrid { "1" } else { "1, 2, 4, 8" };
        writeln!(page, "| `{name}` | {models} | {gguf} | {devices} | {adapters} | {fixture} | {compared} |")
            .expect("a text");
    }
    page.push_str(FORMATS);
    for (fixture, _) in crate::files::formats_of_fixtures() {
        let [format, compared] = format_of(&fixture);
        writeln!(page, "| {format} | {compared} |").expect("a text");
    }
    page.push_str(GGUF);
    let names = Blocks::ALL.map(|(_, name, blocks)| {
        assert!(Format::Blocks(blocks).block_len() > 1);
        name
    });
    writeln!(page, "{}.", names.join(", ")).expect("a text");
    page
}

#[test]
fn the_page_of_what_loads_is_what_the_names_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    let page = page();
    for (name, architecture) in Architecture::NAMES {
        let [_, fixture, _] = told(architecture, name);
        let golden = path.with_file_name(format!("../fixtures/models/{fixture}/golden.json"));
        assert!(golden.exists(), "{name}: {}", golden.display());
    }
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/models.md is old (UPDATE_SNAPSHOTS=1 writes it)");
}
