//! Models of every architecture with random weights, written as safetensors and as GGUF.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    F32,
    F16,
    Bf16,
    F8,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q4K,
    Q6K,
}

impl Kind {
    /// Its elements and bytes of a block, where those have halves as scales, its number in GGUF and
    /// its name in safetensors.
    const fn row(self) -> (usize, usize, &'static [usize], u32, &'static str) {
        match self {
            Self::F32 => (1, 4, &[], 0, "F32"),
            Self::F16 => (1, 2, &[0], 1, "F16"),
            Self::Bf16 => (1, 2, &[], 30, "BF16"),
            Self::F8 => (1, 1, &[], u32::MAX, "F8_E4M3"),
            Self::Q8_0 => (32, 34, &[0], 8, ""),
            Self::Q4_0 => (32, 18, &[0], 2, ""),
            Self::Q4_1 => (32, 20, &[0, 2], 3, ""),
            Self::Q5_0 => (32, 22, &[0], 6, ""),
            Self::Q4K => (256, 144, &[0, 2], 12, ""),
            Self::Q6K => (256, 210, &[208], 14, ""),
        }
    }

    pub(super) const fn block_len(self) -> usize {
        self.row().0
    }

    pub(super) const fn block_bytes(self) -> usize {
        self.row().1
    }

    /// Random elements, all of them finite: so many bytes of blocks.
    fn random(self, len: usize, seed: u64) -> Vec<u8> {
        let (block_len, block_bytes, halves, ..) = self.row();
        let num_bytes = len / block_len * block_bytes;
        let mut bytes: Vec<u8> =
            (0..num_bytes.div_ceil(8) as u64).flat_map(|i| random(seed, i).to_le_bytes()).collect();
        bytes.truncate(num_bytes);
        for block in bytes.chunks_exact_mut(block_bytes) {
            // Exponents whose highest bit is not set: below 2, and neither infinite nor NaN. Those
            // of 8 bits are from 2^-15 on, so that an f16 has them.
            halves.iter().for_each(|at| block[at + 1] &= 0xbf);
            match self {
                Self::F32 => block[3] = block[3] & 0x87 | 0x38,
                Self::Bf16 => block[1] = block[1] & 0x87 | 0x38,
                Self::F8 if block[0] & 0x7f == 0x7f => block[0] ^= 1,
                _ => {}
            }
        }
        bytes
    }
}

/// A random word (SplitMix64).
fn random(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What 8-bit floats are multiplied by.
#[derive(Debug, Clone)]
pub(super) struct Scales {
    pub(super) file: PathBuf,
    pub(super) start: usize,
    pub(super) shape: [usize; 2],
    /// Rows and columns that share one.
    pub(super) block: [usize; 2],
}

/// A tensor that was written, by its name in Hugging Face's files.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) file: PathBuf,
    /// Its first byte there.
    pub(super) start: usize,
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
    pub(super) scales: Option<Scales>,
    /// Heads whose rows are in llama.cpp's order.
    pub(super) paired_heads: Option<usize>,
    /// Whether 1 was added before it was stored.
    pub(super) is_plus_one: bool,
}

/// A model in files, which are gone with it.
#[derive(Debug)]
pub(super) struct Written {
    /// What is opened.
    pub(super) path: PathBuf,
    folder: PathBuf,
    pub(super) tensors: BTreeMap<String, Tensor>,
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// How the scales of 8-bit floats are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    All,
    Rows,
    /// 16 rows by 32 columns.
    Blocks,
}

/// How the weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Plain(Kind),
    /// Matrices of layers as 8-bit floats, all else as bf16.
    Scaled(Sharing),
}

/// A model's sizes.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// As `config.json` says it, without `ForCausalLM`.
    pub(super) architecture: &'static str,
    pub(super) vocab: usize,
    pub(super) hidden: usize,
    pub(super) intermediate: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) is_tied: bool,
}

const EXPERTS: usize = 4;

impl Model {
    /// One of eight heads that share two of keys and values.
    pub(super) fn small(architecture: &'static str) -> Self {
        let (vocab, hidden, intermediate) = (64, 64, 128);
        Self { architecture, vocab, hidden, intermediate, layers: 2, heads: 8, kv_heads: 2, head_dim: 8, is_tied: true }
    }

    pub(super) fn has_experts(&self) -> bool {
        ["Mixtral", "Qwen3Moe"].contains(&self.architecture)
    }

    /// Biases, where an architecture does not always or never have them.
    fn has_biases(&self) -> bool {
        self.architecture == "Llama" && !self.is_tied
    }

    /// Names and shapes.
    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let Self { vocab, hidden, intermediate, heads, kv_heads, head_dim, .. } = *self;
        let mut all =
            vec![("model.embed_tokens".to_owned(), vec![vocab, hidden]), ("model.norm".to_owned(), vec![hidden])];
        if !self.is_tied {
            all.push(("lm_head".to_owned(), vec![vocab, hidden]));
        }
        let mut biases = Vec::new();
        for layer in 0..self.layers {
            let mut add =
                |name: &str, shape: &[usize]| all.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            add("input_layernorm", &[hidden]);
            add("post_attention_layernorm", &[hidden]);
            for (part, heads) in [("q", heads), ("k", kv_heads), ("v", kv_heads)] {
                add(&format!("self_attn.{part}_proj"), &[heads * head_dim, hidden]);
                if self.architecture == "Qwen2" || self.has_biases() {
                    biases.push((format!("model.layers.{layer}.self_attn.{part}_proj.bias"), vec![heads * head_dim]));
                }
            }
            add("self_attn.o_proj", &[hidden, heads * head_dim]);
            if self.has_biases() {
                biases.push((format!("model.layers.{layer}.self_attn.o_proj.bias"), vec![hidden]));
            }
            if ["Qwen3", "Qwen3Moe", "Gemma3"].contains(&self.architecture) {
                add("self_attn.q_norm", &[head_dim]);
                add("self_attn.k_norm", &[head_dim]);
            }
            if self.architecture == "Gemma3" {
                add("pre_feedforward_layernorm", &[hidden]);
                add("post_feedforward_layernorm", &[hidden]);
            }
            if !self.has_experts() {
                add("mlp.gate_proj", &[intermediate, hidden]);
                add("mlp.up_proj", &[intermediate, hidden]);
                add("mlp.down_proj", &[hidden, intermediate]);
                continue;
            }
            let (mixture, [gate, up, down]) = match self.architecture {
                "Mixtral" => ("block_sparse_moe", ["w1", "w3", "w2"]),
                _ => ("mlp", ["gate_proj", "up_proj", "down_proj"]),
            };
            add(&format!("{mixture}.gate"), &[EXPERTS, hidden]);
            for expert in 0..EXPERTS {
                let mut add = |part: &str, shape: &[usize]| add(&format!("{mixture}.experts.{expert}.{part}"), shape);
                add(gate, &[intermediate, hidden]);
                add(up, &[intermediate, hidden]);
                add(down, &[hidden, intermediate]);
            }
        }
        let weights = all.into_iter().map(|(name, shape)| (format!("{name}.weight"), shape));
        weights.chain(biases).collect()
    }

    fn config(&self) -> String {
        let Self { architecture, vocab, hidden, intermediate, layers, heads, kv_heads, head_dim, is_tied } = self;
        let (has_biases, activation) =
            (self.has_biases(), if *architecture == "Gemma3" { "gelu_pytorch_tanh" } else { "silu" });
        format!(
            r#"{{"architectures": ["{architecture}ForCausalLM"], "hidden_size": {hidden}, "vocab_size": {vocab},
            "intermediate_size": {intermediate}, "moe_intermediate_size": {intermediate},
            "num_hidden_layers": {layers}, "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads},
            "head_dim": {head_dim}, "num_experts": {EXPERTS}, "num_local_experts": {EXPERTS},
            "num_experts_per_tok": 2, "hidden_act": "{activation}", "attention_bias": {has_biases},
            "max_position_embeddings": 128, "tie_word_embeddings": {is_tied}, "eos_token_id": 0}}"#
        )
    }

    /// Writes a folder, of several files where `files` is more than 1.
    pub(super) fn safetensors(&self, stored: Stored, files: usize) -> Written {
        let folder = folder();
        fs::write(folder.join("config.json"), self.config()).expect("a file");
        let mut parts: Vec<Part> = (0..files).map(|number| Part::new(&folder, number, files)).collect();
        let mut tensors = BTreeMap::new();
        for (number, (name, shape)) in self.tensors().into_iter().enumerate() {
            let is_scaled = shape.len() == 2 && name.contains("layers.") && !name.contains("gate.weight");
            let kind = match stored {
                Stored::Plain(kind) => kind,
                Stored::Scaled(_) => {
                    if is_scaled {
                        Kind::F8
                    } else {
                        Kind::Bf16
                    }
                }
            };
            // Neighbours are not in one file.
            let at = number % files;
            let start = parts[at].add(&name, kind, &shape, number as u64);
            let scales = match stored {
                Stored::Scaled(sharing) if is_scaled => {
                    let (kind, scales, block) = match sharing {
                        Sharing::All => ("weight_scale", [1, 1], [shape[0], shape[1]]),
                        Sharing::Rows => ("weight_scale", [shape[0], 1], [1, shape[1]]),
                        Sharing::Blocks => {
                            ("weight_scale_inv", [shape[0].div_ceil(16), shape[1].div_ceil(32)], [16, 32])
                        }
                    };
                    let name = format!("{}{kind}", name.strip_suffix("weight").expect("a weight"));
                    let of = (number + 1) % files;
                    let start = parts[of].add(&name, Kind::F32, &scales, 1000 + number as u64);
                    Some(Scales { file: parts[of].path.clone(), start, shape: scales, block })
                }
                _ => None,
            };
            let file = parts[at].path.clone();
            tensors.insert(name, Tensor { file, start, kind, shape, scales, paired_heads: None, is_plus_one: false });
        }
        let mut map = String::new();
        let mut headers = BTreeMap::new();
        for part in &parts {
            headers.insert(part.path.clone(), part.write());
            let name = part.path.file_name().and_then(|name| name.to_str()).expect("a name");
            part.names.iter().for_each(|tensor| write!(map, r#""{tensor}":"{name}","#).expect("a text"));
        }
        if files > 1 {
            let index = format!(r#"{{"weight_map":{{{}}}}}"#, map.trim_end_matches(','));
            fs::write(folder.join("model.safetensors.index.json"), index).expect("a file");
        }
        for tensor in tensors.values_mut() {
            tensor.start += headers[&tensor.file];
            tensor.scales.iter_mut().for_each(|scales| scales.start += headers[&scales.file]);
        }
        Written { path: folder.clone(), folder, tensors }
    }

    /// Writes a GGUF file.
    pub(super) fn gguf(&self, kind: Kind) -> Written {
        let folder = folder();
        let path = folder.join("model.gguf");
        let name = self.architecture.to_lowercase();
        let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        let list = |of: u32, len: usize, items: Vec<u8>| {
            [&9_u32.to_le_bytes()[..], &of.to_le_bytes(), &(len as u64).to_le_bytes(), &items].concat()
        };
        let tokens: Vec<u8> = (0..self.vocab).flat_map(|token| text(&format!("<{token}>"))).collect();
        let mut values = vec![
            ("general.architecture".to_owned(), [8_u32.to_le_bytes().to_vec(), text(&name)].concat()),
            ("tokenizer.ggml.model".to_owned(), [8_u32.to_le_bytes().to_vec(), text("gpt2")].concat()),
            ("tokenizer.ggml.tokens".to_owned(), list(8, self.vocab, tokens)),
            ("tokenizer.ggml.merges".to_owned(), list(8, 0, Vec::new())),
        ];
        let sizes = [
            ("embedding_length", self.hidden),
            ("block_count", self.layers),
            ("feed_forward_length", self.intermediate),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("context_length", 128),
        ];
        let size = |(key, size): (&str, usize)| {
            (format!("{name}.{key}"), [4_u32.to_le_bytes(), (size as u32).to_le_bytes()].concat())
        };
        values.extend(sizes.map(size));
        let (mut infos, mut data, mut tensors) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (number, (name, shape)) in self.tensors().into_iter().enumerate() {
            let kind = if shape.len() == 1 { Kind::F32 } else { kind };
            data.resize(data.len().next_multiple_of(32), 0);
            let start = data.len();
            data.append(&mut kind.random(shape.iter().product(), number as u64));
            infos.extend(text(&self.gguf_name(&name)));
            infos.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|size| infos.extend((*size as u64).to_le_bytes()));
            infos.extend(kind.row().3.to_le_bytes());
            infos.extend((start as u64).to_le_bytes());
            let heads = [("q_proj", self.heads), ("k_proj", self.kv_heads)];
            let paired_heads = heads.into_iter().find(|(part, _)| self.architecture == "Llama" && name.contains(part));
            let is_plus_one = self.architecture == "Gemma3" && name.ends_with("norm.weight");
            let paired_heads = paired_heads.map(|(_, heads)| heads);
            let tensor = Tensor { file: path.clone(), start, kind, shape, scales: None, paired_heads, is_plus_one };
            tensors.insert(name, tensor);
        }
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend((tensors.len() as u64).to_le_bytes());
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|(key, value)| bytes.extend([text(key), value.clone()].concat()));
        bytes.append(&mut infos);
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        tensors.values_mut().for_each(|tensor| tensor.start += bytes.len());
        bytes.append(&mut data);
        fs::write(&path, bytes).expect("a file");
        Written { path, folder, tensors }
    }

    /// What llama.cpp calls a tensor.
    fn gguf_name(&self, name: &str) -> String {
        let is_gemma = self.architecture == "Gemma3";
        let renamed = name.replace("model.layers.", "blk.").replace("model.embed_tokens", "token_embd");
        let renamed = renamed.replace("model.norm", "output_norm").replace("lm_head", "output");
        let after = if is_gemma { "post_attention_norm" } else { "ffn_norm" };
        let parts = [
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", after),
            ("pre_feedforward_layernorm", "ffn_norm"),
            ("post_feedforward_layernorm", "post_ffw_norm"),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("self_attn.q_norm", "attn_q_norm"),
            ("self_attn.k_norm", "attn_k_norm"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
        ];
        parts.into_iter().fold(renamed, |name, (theirs, own)| name.replace(theirs, own))
    }
}

/// A file of safetensors in the making.
struct Part {
    path: PathBuf,
    header: String,
    data: Vec<u8>,
    names: Vec<String>,
}

impl Part {
    fn new(folder: &Path, number: usize, files: usize) -> Self {
        let name = match files {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{:05}-of-{files:05}.safetensors", number + 1),
        };
        Self { path: folder.join(name), header: String::new(), data: Vec::new(), names: Vec::new() }
    }

    /// Adds random elements; gives the first of their bytes.
    fn add(&mut self, name: &str, kind: Kind, shape: &[usize], seed: u64) -> usize {
        let start = self.data.len();
        self.data.append(&mut kind.random(shape.iter().product(), seed));
        let (comma, end, dtype) = (if start == 0 { "" } else { "," }, self.data.len(), kind.row().4);
        write!(
            self.header,
            r#"{comma}"{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        )
        .expect("a text");
        self.names.push(name.to_owned());
        start
    }

    /// Writes the file; gives the bytes before the data.
    fn write(&self) -> usize {
        let header = format!("{{{}}}", self.header);
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &self.data].concat();
        fs::write(&self.path, bytes).expect("a file");
        8 + header.len()
    }
}

/// A folder of its own.
fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("warpfold-weights-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
