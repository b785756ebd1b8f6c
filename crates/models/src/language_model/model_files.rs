//! The files of a model, opened, and how they become a model on a device.

use std::collections::VecDeque;
use std::path::Path;

use warpfold::{Arena, DrawRows, Dtype, Queue};

use super::{Drawn, LanguageModel, Pinned};
use crate::adapter::AdapterRoom;
use crate::error::{self, ErrorKind};
use crate::files::{Blocks, Checkpoint, HeadOrder, Storage, gguf};
use crate::graphs::Graphs;
use crate::layers::{BY_KEY, Loader, Shard, part_of_key, rows_of_head, rows_of_part};
use crate::network::Network;
use crate::weights::Placed;
use crate::{
    Architecture, ChatTemplate, Error, ModelConfig, PoolingDefaults, RopeScaling, SamplingDefaults, Tokenizer,
    WeightsDigest, config, template,
};

/// Rounding of weights to blocks of 32 with one scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// 8 bits, and a scale of 16: GGUF's `Q8_0`.
    Int8,
    /// 4 bits, and a scale of 16: GGUF's `Q4_0`.
    Int4,
}

impl Rounding {
    const fn blocks(self) -> Blocks {
        match self {
            Self::Int8 => Blocks::Q8_0,
            Self::Int4 => Blocks::Q4_0,
        }
    }
}

/// A model's files, opened: what it is and how it reads, without its weights.
#[derive(Debug)]
pub struct ModelFiles {
    config: ModelConfig,
    tokenizer: Option<Tokenizer>,
    template: template::Source,
    defaults: SamplingDefaults,
    pooling: PoolingDefaults,
    pub(crate) checkpoint: Checkpoint,
    /// Compares weights with the files after loading.
    is_verified: bool,
    /// Quantized weights stay packed.
    is_packed: bool,
    /// Adapters that models have room for.
    adapters: Option<AdapterRoom>,
}

impl ModelFiles {
    /// Opens a folder as Hugging Face has it, or a GGUF file.
    ///
    /// # Errors
    /// If a file is missing, is not what it should be, or asks for what is not supported.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            let (config, quantization, defaults) = config::of_folder(path)?;
            let has_tokenizer = path.join("tokenizer.json").exists();
            let tokenizer = has_tokenizer.then(|| Tokenizer::of_folder(path)).transpose()?;
            let template = template::of_folder(path)?;
            let mut checkpoint = Checkpoint::open_folder(path)?.recognize(quantization)?.text_half()?.under_model();
            cut(&mut checkpoint, &config)?;
            if let Some(order) = config.head_order() {
                set_order(&mut checkpoint, &config, order);
            }
            let in_numbers = "model.layers.0.mlp.experts.gate_up_proj";
            if config.architecture == Architecture::GptOss && checkpoint.has(in_numbers) {
                let reason = "experts of gpt-oss are read as MXFP4 (…_blocks, …_scales), not as numbers";
                return Err(error::tensor(checkpoint.path(), in_numbers, reason));
            }
            return Ok(Self {
                config,
                tokenizer,
                template,
                defaults,
                pooling: PoolingDefaults::of_folder(path)?,
                checkpoint,
                is_verified: false,
                is_packed: false,
                adapters: None,
            });
        }
        let header = gguf::header(path)?;
        let template = template::of_gguf(&header)?;
        let (mut config, tokenizer) = (config::of_gguf(&header)?, Tokenizer::of_gguf(&header)?);
        let mut checkpoint = Checkpoint::of_gguf(header)?;
        restore(&mut checkpoint, &mut config)?;
        let defaults = SamplingDefaults::default();
        Ok(Self {
            config,
            tokenizer: Some(tokenizer),
            template,
            defaults,
            pooling: PoolingDefaults::default(),
            checkpoint,
            is_verified: false,
            is_packed: false,
            adapters: None,
        })
    }

    pub(crate) fn of_parts(
        config: ModelConfig,
        tokenizer: Tokenizer,
        template: template::Source,
        defaults: SamplingDefaults,
        checkpoint: Checkpoint,
    ) -> Self {
        Self {
            config,
            tokenizer: Some(tokenizer),
            template,
            defaults,
            pooling: PoolingDefaults::default(),
            checkpoint,
            is_verified: false,
            is_packed: false,
            adapters: None,
        }
    }

    /// The same files, of which every load compares what lies on the device with the files, which
    /// are read once more for it; models then have a [`weights_digest`](LanguageModel::weights_digest).
    ///
    /// ```
    /// use warpfold::{Device, Profile, Queue};
    /// use warpfold_models::ModelFiles;
    ///
    /// fn main() -> Result<(), warpfold_models::Error> {
    ///     let files = ModelFiles::shipped()?.verified();
    ///     let devices = Device::virtual_peers(Profile::H200, 2);
    ///     let one = files.load(&Queue::of(&devices[0]), files.dtype(), &mut |_, _| ())?;
    ///     let two = files.load_parallel(&devices, files.dtype(), &mut |_, _| ())?;
    ///     assert!(one.weights_digest().is_some());
    ///     assert_eq!(one.weights_digest(), two.weights_digest());
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn verified(self) -> Self {
        Self { is_verified: true, ..self }
    }

    /// The same files, of which every load leaves weights of few bits as they are stored (the
    /// blocks of GGUF, integers with one zero point and scales that an `f16` has, MXFP4), in
    /// another order. Answers are those of the weights as `dtype`, bit by bit.
    /// Matrices of other formats, and those whose parts of K are no whole blocks where several
    /// devices share their sums, are converted.
    #[must_use]
    pub fn packed(mut self) -> Self {
        self.checkpoint.find_schemes();
        Self { is_packed: true, ..self }
    }

    /// The same files, whose matrices of layers are rounded to fewer bits as they are read, and
    /// then are as though the files had them so. Embeddings, the head, norms, routers and experts
    /// stay as they are, and so do matrices of few bits and those whose rows are not whole blocks
    /// of 32.
    ///
    /// ```
    /// use warpfold_models::{ModelFiles, Rounding};
    ///
    /// # fn main() -> Result<(), warpfold_models::Error> {
    /// let files = ModelFiles::shipped()?;
    /// let bytes = files.weight_bytes(files.dtype());
    /// let rounded = files.rounded(Rounding::Int8)?.packed();
    /// assert!(rounded.weight_bytes(rounded.dtype()) < bytes);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no matrix to round.
    pub fn rounded(mut self, to: Rounding) -> Result<Self, Error> {
        match self.checkpoint.quantize(to.blocks()) {
            0 => {
                let reason = "rounding of weights of which none are numbers in whole blocks of 32".to_owned();
                Err(error::unsupported(self.checkpoint.path(), reason))
            }
            _ => Ok(self),
        }
    }

    /// The same files, whose models have room for adapters ([`Request::adapter`]). Answers of
    /// requests without one are the same, bit by bit.
    ///
    /// [`Request::adapter`]: warpfold_engine::Request::adapter
    #[must_use]
    pub fn with_adapters(self, room: AdapterRoom) -> Self {
        // Whole vectors of four, whatever is asked for.
        let rank = room.rank.clamp(1, AdapterRoom::MOST_RANK).next_multiple_of(8);
        Self { adapters: (room.adapters > 0).then_some(AdapterRoom { rank, ..room }), ..self }
    }

    pub(crate) fn adapters(&self) -> Option<AdapterRoom> {
        self.adapters
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.is_packed
    }

    pub(crate) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Returns the model's configuration.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Returns the sampling parameters for requests that set none.
    #[must_use]
    pub fn sampling_defaults(&self) -> &SamplingDefaults {
        &self.defaults
    }

    /// How it wants prompts to become embeddings, where nobody says otherwise.
    #[must_use]
    pub fn pooling_defaults(&self) -> PoolingDefaults {
        self.pooling
    }

    /// Its tokenizer, if there is one.
    #[must_use]
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// The tokenizer alone, once the weights are loaded.
    #[must_use]
    pub fn into_tokenizer(self) -> Option<Tokenizer> {
        self.tokenizer
    }

    /// Its chat template, if there is one.
    ///
    /// # Errors
    /// If the template cannot be parsed.
    pub fn chat_template(&self) -> Result<Option<ChatTemplate>, Error> {
        self.template.parse()
    }

    /// Another chat template for the model.
    ///
    /// # Errors
    /// If the template cannot be parsed.
    pub fn chat_template_of(&self, source: &str) -> Result<ChatTemplate, Error> {
        self.template.parse_other(source)
    }

    /// The type that the weights are stored in: `bf16` for quantized ones.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        let format = self.checkpoint.format("model.embed_tokens.weight");
        format.and_then(|format| format.dtype()).unwrap_or(Dtype::Bf16)
    }

    /// Bytes that the weights take on a device in `dtype`, norms left out. Experts for tensor cores
    /// lie in whole blocks of 64 lines and 128 steps: of gpt-oss they take 2 % more.
    #[must_use]
    pub fn weight_bytes(&self, dtype: Dtype) -> u64 {
        let packed = if self.is_packed { self.checkpoint.packed_elements_and_bytes() } else { [0; 2] };
        (self.checkpoint.num_elements() - packed[0]) * dtype.bytes() + packed[1]
    }

    /// Brings the weights to a device, to compute in `dtype`: `f32`, `f16` or `bf16`. `progress` is
    /// told the bytes that were read of the files, and those of all weights there.
    ///
    /// # Errors
    /// If a tensor is missing or has another shape, or the device has no room;
    /// [`ErrorKind::Weights`](crate::ErrorKind::Weights) of [verified](Self::verified) files.
    pub fn load(
        &self,
        queue: &Queue,
        dtype: Dtype,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LanguageModel, Error> {
        let (mut model, placed) = self.load_shard(queue, dtype, None, progress)?;
        model.weights_digest = self.compare(&[placed])?;
        Ok(model)
    }

    /// Loads the weights alone; returns their bytes on the device, too, and where they lie if they
    /// are to be verified.
    fn network(
        &self,
        config: &ModelConfig,
        queue: &Queue,
        dtype: Dtype,
        shard: Option<&Shard>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Network, u64, Vec<Placed>), Error> {
        let mut loader = Loader::new(&self.checkpoint, queue, dtype, progress)?;
        loader.shard = shard;
        loader.is_packed = self.is_packed;
        loader.adapters = self.adapters.filter(|_| shard.is_none());
        loader.placed = self.is_verified.then(Vec::new);
        let network = Network::load(config, &mut loader)?;
        // Products read weights without a wait for what wrote them.
        queue.stream().synchronize()?;
        Ok((network, loader.loaded_bytes, loader.placed.take().unwrap_or_default()))
    }

    /// Gives a model these weights in the place of its own, which are freed then: both must fit,
    /// unless it sleeps.
    pub(super) fn load_into(&self, model: &mut LanguageModel) -> Result<(), Error> {
        let refused = |reason: &str| ErrorKind::Batch(format!("other weights are not taken: {reason}"));
        if let Some(reason) = model.keeps_weights() {
            return Err(refused(reason).into());
        }
        if self.config != model.config || self.is_packed != model.is_packed {
            return Err(refused("they are of a model with another configuration").into());
        }
        let (network, weight_bytes, placed) =
            self.network(&self.config, &model.queue, model.dtype, None, &mut |_, _| ())?;
        let weights_digest = self.compare(&[placed])?;
        // Captured steps read the old ones.
        model.graphs.iter_mut().for_each(Graphs::clear);
        model.queue.stream().synchronize()?;
        (model.network, model.weight_bytes, model.weights_digest) = (Some(network), weight_bytes, weights_digest);
        Ok(())
    }

    /// Compares what lies on devices with the files, if that is asked for.
    pub(crate) fn compare(&self, placed: &[Vec<Placed>]) -> Result<Option<WeightsDigest>, Error> {
        self.is_verified.then(|| WeightsDigest::of(&self.checkpoint, placed)).transpose()
    }

    /// Variant of [`ModelFiles::load`] for one of several devices: its shard, and the addresses of
    /// the weights if they are to be verified.
    pub(crate) fn load_shard(
        &self,
        queue: &Queue,
        dtype: Dtype,
        shard: Option<Shard>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(LanguageModel, Vec<Placed>), Error> {
        let config = &shard.as_ref().map_or_else(|| self.config.clone(), |shard| shard.config(&self.config));
        // A stream of the model's own: that of the device cannot be captured.
        let queue = &queue.beside()?;
        let (network, weight_bytes, placed) = self.network(config, queue, dtype, shard.as_ref(), progress)?;
        let drawn = Drawn { words: Drawn::room(queue, Drawn::WORDS)?, stride: 2 };
        let model = LanguageModel {
            config: config.clone(),
            queue: queue.clone(),
            dtype,
            network: Some(network),
            weight_bytes,
            weights_digest: None,
            is_packed: self.is_packed,
            adapters: self.adapters.filter(|_| shard.is_none()),
            cache: None,
            arena: Arena::default(),
            graphs: Some(Graphs::new(shard.is_none())),
            ahead: None,
            pinned: [Pinned::empty(queue)?, Pinned::empty(queue)?],
            drawn,
            running: VecDeque::new(),
            draws: DrawRows::default(),
            shard,
        };
        Ok((model, placed))
    }
}

/// Cuts what Phi and GLM have as one tensor into the matrices of Llama.
fn cut(checkpoint: &mut Checkpoint, config: &ModelConfig) -> Result<(), Error> {
    cut_gates(checkpoint, config)?;
    let is_phi = config.architecture == Architecture::Phi3;
    if !is_phi && !matches!(config.architecture, Architecture::Glm | Architecture::Glm4) {
        return Ok(());
    }
    for layer in 0..config.num_layers {
        let of = |part: &str| format!("model.layers.{layer}.{part}_proj.weight");
        let (queries, kv, inner) = (config.query_len(), config.kv_len(), config.intermediate);
        let heads = [("self_attn.q", queries), ("self_attn.k", kv), ("self_attn.v", kv)];
        if is_phi {
            checkpoint.cut(&of("self_attn.qkv"), &heads.map(|(part, rows)| (of(part), rows)))?;
        }
        checkpoint.cut(&of("mlp.gate_up"), &["mlp.gate", "mlp.up"].map(|part| (of(part), inner)))?;
    }
    Ok(())
}

/// Cuts what hybrids have of each head together: queries and gates, and what goes into a delta net.
fn cut_gates(checkpoint: &mut Checkpoint, config: &ModelConfig) -> Result<(), Error> {
    for layer in (0..config.num_layers).filter(|_| config.has_attention_gate) {
        cut_experts(checkpoint, config, &format!("model.layers.{layer}.mlp.experts"))?;
        let Some((_, heads)) = config.delta_of(layer) else {
            let prefix = format!("model.layers.{layer}.self_attn");
            let parts = (0..config.num_heads).flat_map(|head| rows_of_head(&prefix, head));
            let parts: Vec<_> = parts.map(|name| (format!("{name}.weight"), config.head_dim)).collect();
            checkpoint.cut(&format!("{prefix}.q_proj.weight"), &parts)?;
            continue;
        };
        let prefix = format!("model.layers.{layer}.linear_attn");
        checkpoint.join_axes(&format!("{prefix}.conv1d.weight"), false);
        if checkpoint.has(&format!("{prefix}.in_proj_qkv.weight")) {
            continue;
        }
        for (all, parts) in BY_KEY {
            let of_key = |key| {
                let of =
                    |part: &&str| (format!("{}.weight", part_of_key(&prefix, part, key)), rows_of_part(heads, part));
                parts.iter().map(of).collect::<Vec<_>>()
            };
            let parts: Vec<_> = (0..heads.keys).flat_map(of_key).collect();
            checkpoint.cut(&format!("{prefix}.{all}.weight"), &parts)?;
        }
    }
    Ok(())
}

/// Cuts the matrices of a layer's experts, of which Qwen3.5's files have all in two tensors.
fn cut_experts(checkpoint: &mut Checkpoint, config: &ModelConfig, prefix: &str) -> Result<(), Error> {
    let [both, down] = ["gate_up_proj", "down_proj"].map(|part| format!("{prefix}.{part}"));
    let Some(experts) = config.experts.as_ref().filter(|_| checkpoint.has(&both)) else { return Ok(()) };
    for (all, parts, rows) in
        [(both, &["gate_proj", "up_proj"][..], experts.inner), (down, &["down_proj"], config.hidden)]
    {
        let of = |expert| parts.iter().map(move |part| (format!("{prefix}.{expert}.{part}.weight"), rows));
        checkpoint.join_axes(&all, false);
        checkpoint.cut(&all, &(0..experts.num).flat_map(of).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Says in which order files have the rows of heads that turn.
fn set_order(checkpoint: &mut Checkpoint, config: &ModelConfig, order: HeadOrder) {
    for layer in 0..config.num_layers {
        let prefix = format!("model.layers.{layer}.self_attn");
        let parts = ["q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias", "q_norm.weight", "k_norm.weight"];
        let cut = (0..config.num_heads).filter(|_| config.has_attention_gate);
        let cut = cut.map(|head| format!("{}.weight", rows_of_head(&prefix, head)[0]));
        for name in parts.map(|part| format!("{prefix}.{part}")).into_iter().chain(cut) {
            checkpoint.set_storage(&name, Storage::HeadRows(order));
        }
    }
}

/// Names the matrices of experts, of which llama.cpp has one tensor for each part of a layer.
fn restore_experts(checkpoint: &mut Checkpoint, config: &ModelConfig) -> Result<(), Error> {
    let num = config.experts.as_ref().map_or(0, |experts| experts.num);
    let is_mixtral = config.architecture == Architecture::Mixtral;
    let names = if is_mixtral { ["w1", "w3", "w2"] } else { ["gate_proj", "up_proj", "down_proj"] };
    let mixture = if is_mixtral { "block_sparse_moe" } else { "mlp" };
    for layer in 0..config.num_layers {
        for (part, name) in ["gate_proj", "up_proj", "down_proj"].into_iter().zip(names) {
            let all = format!("model.layers.{layer}.mlp.experts.{part}");
            checkpoint.join_axes(&format!("{all}.weight"), false);
            checkpoint.join_axes(&format!("{all}.bias"), true);
            if config.architecture != Architecture::GptOss {
                let rows = checkpoint.shape(&format!("{all}.weight")).map_or(0, |shape| shape[0]);
                let of = |expert: usize| format!("model.layers.{layer}.{mixture}.experts.{expert}.{name}.weight");
                let parts: Vec<_> = (0..num).map(|expert| (of(expert), rows / num)).collect();
                checkpoint.cut(&format!("{all}.weight"), &parts)?;
            }
        }
    }
    Ok(())
}

/// Says how llama.cpp's tensors differ from Hugging Face's, and reads the divisors of angles that
/// its files have as a tensor.
fn restore(checkpoint: &mut Checkpoint, config: &mut ModelConfig) -> Result<(), Error> {
    // No key says whether there are biases: they are there or not.
    let has_bias = |part: &str| checkpoint.has(&format!("model.layers.0.{part}.bias"));
    config.has_qkv_bias |= has_bias("self_attn.q_proj");
    config.has_output_bias |= has_bias("self_attn.o_proj");
    if let Some(part) = ["gate_proj", "up_proj", "down_proj"].iter().find(|part| has_bias(&format!("mlp.{part}"))) {
        return Err(error::unsupported(checkpoint.path(), format!("biases in the MLP ({part})")));
    }
    if config.experts.is_some() {
        restore_experts(checkpoint, config)?;
    }
    let is_gemma = matches!(config.architecture, Architecture::Gemma2 | Architecture::Gemma3);
    if matches!(config.architecture, Architecture::Llama | Architecture::Mixtral) {
        let head_dim = config.head_dim;
        set_order(checkpoint, config, HeadOrder { head_dim, rotated: head_dim, has_adjacent_pairs: true });
    }
    for layer in 0..config.num_layers {
        let of = |part: &str| format!("model.layers.{layer}.{part}.weight");
        if is_gemma {
            let inner = ["self_attn.q_norm", "self_attn.k_norm", "input_layernorm", "post_attention_layernorm"];
            let outer = ["pre_feedforward_layernorm", "post_feedforward_layernorm"];
            inner.iter().chain(&outer).for_each(|part| checkpoint.set_storage(&of(part), Storage::PlusOne));
        }
    }
    if is_gemma {
        checkpoint.set_storage("model.norm.weight", Storage::PlusOne);
    }
    if checkpoint.has("rope_freqs.weight") {
        let bytes = checkpoint.read("rope_freqs.weight", &[config.head_dim / 2], Dtype::F32)?;
        let factors: Vec<f32> = bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        if factors.iter().any(|factor| !(*factor > 0.0 && factor.is_finite())) {
            let path = checkpoint.path();
            return Err(error::tensor(path, "rope_freqs.weight", "a divisor of angles is not positive"));
        }
        config.rope.scaling = RopeScaling::Factors(factors);
    }
    Ok(())
}
