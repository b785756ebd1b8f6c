//! GGUF, version 3: metadata of keys and values, then tensors, then bytes.
//!
//! The layout is that of `ggml/docs/gguf.md` (llama.cpp). Every count and length is compared with
//! what is left of the file before anything is allocated by it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::blocks::Blocks;
use super::{Entry, Format, Storage, checked_len, open};
use crate::Error;
use crate::error;

/// The part of a file before its weights.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// Bytes of the file.
    pub(crate) len: u64,
    pub(crate) metadata: BTreeMap<String, Value>,
    /// Tensors by the names of Hugging Face.
    pub(crate) entries: Vec<(String, Entry)>,
}

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
}

/// Types of values, as the file numbers them.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Type {
    Int { bytes: usize, signed: bool },
    F32,
    F64,
    Bool,
    Text,
    Array,
}

impl Type {
    fn of(number: u32) -> Option<Self> {
        let int = |bytes, signed| Some(Self::Int { bytes, signed });
        match number {
            0 => int(1, false),
            1 => int(1, true),
            2 => int(2, false),
            3 => int(2, true),
            4 => int(4, false),
            5 => int(4, true),
            6 => Some(Self::F32),
            7 => Some(Self::Bool),
            8 => Some(Self::Text),
            9 => Some(Self::Array),
            10 => int(8, false),
            11 => int(8, true),
            12 => Some(Self::F64),
            _ => None,
        }
    }

    /// Bytes that a value has at least.
    const fn least_bytes(self) -> u64 {
        match self {
            Self::Int { bytes, .. } => bytes as u64,
            Self::F32 => 4,
            Self::F64 | Self::Text => 8,
            Self::Bool => 1,
            Self::Array => 12,
        }
    }
}

/// Reads a header.
pub(crate) fn header(path: &Path) -> Result<Header, Error> {
    let (file, len) = open(path)?;
    let mut cursor = Cursor { path, reader: BufReader::new(&file), at: 0, len };
    if cursor.bytes::<4>()? != *b"GGUF" {
        return Err(error::file(path, "it does not begin with \"GGUF\""));
    }
    let version = cursor.u32()?;
    if version != 3 && version != 2 {
        return Err(error::unsupported(path, format!("version {version} of GGUF; 2 and 3 are read")));
    }
    let num_tensors = cursor.count(24)?;
    let num_values = cursor.count(12)?;
    let mut metadata = BTreeMap::new();
    for _ in 0..num_values {
        let key = cursor.text()?;
        let value = cursor.value()?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(error::field(path, &key, "it is there twice"));
        }
    }
    let tensors = (0..num_tensors).map(|_| cursor.tensor()).collect::<Result<Vec<_>, _>>()?;
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(Value::Int(n @ 1..=0x10000)) if n & (n - 1) == 0 => *n as u64,
        Some(other) => return Err(error::field(path, "general.alignment", format!("{other:?} is not a power of two"))),
    };
    let data = cursor.at.next_multiple_of(alignment);
    let mut entries = Vec::new();
    for mut entry in tensors {
        let name = hugging_face_name(&entry.stored_name, architecture(&metadata)).ok_or_else(|| {
            error::tensor(path, &entry.stored_name, "no architecture of this program has such a tensor")
        })?;
        let start = entry.start.checked_add(data);
        entry.start = start.ok_or_else(|| error::tensor(path, &entry.stored_name, "it begins beyond the file"))?;
        entries.push((name, entry));
    }
    Ok(Header { path: path.to_owned(), file, len, metadata, entries })
}

fn architecture(metadata: &BTreeMap<String, Value>) -> &str {
    match metadata.get("general.architecture") {
        Some(Value::Text(name)) => name,
        _ => "",
    }
}

/// A read position in a file.
struct Cursor<'a> {
    path: &'a Path,
    reader: BufReader<&'a File>,
    at: u64,
    len: u64,
}

impl Cursor<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let at = self.at;
        self.reader
            .read_exact(bytes)
            .map_err(|_| error::file(self.path, format!("it ends in its header, after byte {at}")))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// A number of things of at least `least_bytes` each, for which the file has room.
    fn count(&mut self, least_bytes: u64) -> Result<usize, Error> {
        let count = self.u64()?;
        let left = self.len.saturating_sub(self.at);
        if count > left / least_bytes {
            let reason = format!("{count} entries at byte {} do not fit the {left} bytes that are left", self.at);
            return Err(error::file(self.path, reason));
        }
        Ok(count as usize)
    }

    fn text(&mut self) -> Result<String, Error> {
        let len = self.count(1)?;
        let mut bytes = vec![0; len];
        self.fill(&mut bytes)?;
        // Tokens of a byte-level vocabulary are text; what is none keeps its place.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn value_type(&mut self) -> Result<Type, Error> {
        let number = self.u32()?;
        Type::of(number).ok_or_else(|| error::file(self.path, format!("a value has type {number} of 0 to 12")))
    }

    fn value(&mut self) -> Result<Value, Error> {
        match self.value_type()? {
            Type::Array => self.array(),
            Type::Int { bytes, signed } => Ok(Value::Int(self.int(bytes, signed)?)),
            Type::F32 => Ok(Value::Float(f32::from_le_bytes(self.bytes()?).into())),
            Type::F64 => Ok(Value::Float(f64::from_le_bytes(self.bytes()?))),
            Type::Bool => Ok(Value::Bool(self.bytes::<1>()? != [0])),
            Type::Text => Ok(Value::Text(self.text()?)),
        }
    }

    fn array(&mut self) -> Result<Value, Error> {
        let of = self.value_type()?;
        let count = self.count(of.least_bytes())?;
        match of {
            Type::Text => Ok(Value::Texts((0..count).map(|_| self.text()).collect::<Result<_, _>>()?)),
            Type::F32 => Ok(Value::Floats(
                (0..count).map(|_| Ok(f32::from_le_bytes(self.bytes()?))).collect::<Result<_, Error>>()?,
            )),
            Type::Int { bytes, signed } => {
                Ok(Value::Ints((0..count).map(|_| self.int(bytes, signed)).collect::<Result<_, _>>()?))
            }
            Type::Bool => Ok(Value::Ints((0..count).map(|_| self.int(1, false)).collect::<Result<_, _>>()?)),
            Type::F64 | Type::Array => {
                Err(error::unsupported(self.path, "metadata with lists of lists, or of 64-bit floats"))
            }
        }
    }

    fn int(&mut self, bytes: usize, signed: bool) -> Result<i64, Error> {
        let mut word = [0; 8];
        self.fill(&mut word[..bytes])?;
        let unused = 64 - 8 * bytes as u32;
        let value = u64::from_le_bytes(word) << unused;
        let value = if signed { value as i64 >> unused } else { (value >> unused) as i64 };
        Ok(value)
    }

    fn tensor(&mut self) -> Result<Entry, Error> {
        let stored_name = self.text()?;
        let rank = self.u32()?;
        if rank > 4 {
            return Err(error::tensor(self.path, &stored_name, format!("it has {rank} dimensions, not up to 4")));
        }
        let sizes = (0..rank).map(|_| self.u64()).collect::<Result<Vec<_>, _>>()?;
        let sizes: Vec<u64> = sizes.into_iter().rev().collect();
        let kind = self.u32()?;
        let start = self.u64()?;
        let Some(format) = format_of(kind) else {
            let names = Blocks::ALL.map(|(_, name, _)| name).join(", ");
            let reason = format!("its format has number {kind}, not that of F32, F16, BF16, {names}");
            return Err(error::tensor(self.path, &stored_name, reason));
        };
        let Some((shape, _)) = checked_len(&sizes) else {
            return Err(error::tensor(self.path, &stored_name, format!("its shape {sizes:?} is too large")));
        };
        let row = shape.last().copied().unwrap_or(1);
        if row % format.block_len() != 0 {
            let reason = format!("rows of {row} elements are not whole blocks of {}", format.block_len());
            return Err(error::tensor(self.path, &stored_name, reason));
        }
        Ok(Entry {
            file: 0,
            stored_name,
            shape,
            format,
            start,
            storage: Storage::Plain,
            made_of: None,
            quantized: None,
        })
    }
}

/// The format with this `ggml_type`, if it is read.
fn format_of(kind: u32) -> Option<Format> {
    match kind {
        0 => Some(Format::F32),
        1 => Some(Format::F16),
        30 => Some(Format::Bf16),
        _ => Blocks::ALL.iter().find(|(number, ..)| *number == kind).map(|(.., blocks)| Format::Blocks(*blocks)),
    }
}

/// `blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`.
///
/// Matrices of all experts of a layer, which are one tensor, are `mlp.experts.gate_proj` and the
/// like.
fn hugging_face_name(name: &str, architecture: &str) -> Option<String> {
    let (is_gemma, is_gpt_oss) = (architecture.starts_with("gemma"), architecture == "gpt-oss");
    match name {
        "token_embd.weight" => return Some("model.embed_tokens.weight".to_owned()),
        "output_norm.weight" => return Some("model.norm.weight".to_owned()),
        "output.weight" => return Some("lm_head.weight".to_owned()),
        "rope_freqs.weight" => return Some(name.to_owned()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let (part, kind) = rest.rsplit_once('.')?;
    let part = match part {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_norm" if is_gemma => "pre_feedforward_layernorm",
        "ffn_norm" => "post_attention_layernorm",
        "attn_sinks" if kind == "weight" => return Some(format!("model.layers.{layer}.self_attn.sinks")),
        "post_attention_norm" if is_gemma || is_gpt_oss => "post_attention_layernorm",
        "post_ffw_norm" if is_gemma => "post_feedforward_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "ffn_gate_inp" if is_gpt_oss => "mlp.router",
        "ffn_gate_inp" if architecture == "llama" => "block_sparse_moe.gate",
        "ffn_gate_inp" => "mlp.gate",
        "ffn_gate_exps" => "mlp.experts.gate_proj",
        "ffn_up_exps" => "mlp.experts.up_proj",
        "ffn_down_exps" => "mlp.experts.down_proj",
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{part}.{kind}"))
}
