//! Layers with norms behind attention and MLP: `x += norm(attention(norm(x)))`,
//! `x += norm(mlp(norm(x)))`, the inner norms where there are some.

use std::borrow::Cow;

use warpfold::Tensor;

use super::Layers;
use crate::Error;
use crate::layers::{Adapted, Embedding, Mlp, Norm, SelfAttention, Step, scaled, sum};

/// The layers of a Gemma or an OLMo 2.
#[derive(Debug)]
pub(super) struct PostNormed {
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    pub(super) embedding_multiplier: f64,
}

/// A layer of them.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Option<Norm>,
    pub(super) attention: SelfAttention,
    pub(super) after_attention: Norm,
    pub(super) mlp_norm: Option<Norm>,
    pub(super) mlp: Mlp,
    pub(super) after_mlp: Norm,
}

impl Layers for PostNormed {
    fn forward(&self, embedding: &Embedding, step: &mut Step<'_>) -> Result<Tensor, Error> {
        let mut x = scaled(embedding.rows(&step.ids)?, self.embedding_multiplier)?;
        for layer in &self.layers {
            let attended = layer.attention.forward(&*normed(layer.attention_norm.as_ref(), &x)?, step)?;
            x = sum(&x, &layer.after_attention.forward(&attended)?)?;
            let inner = layer.mlp.forward(&*normed(layer.mlp_norm.as_ref(), &x)?, &step.adapters)?;
            x = sum(&x, &layer.after_mlp.forward(&inner)?)?;
        }
        Ok(x)
    }

    fn adapted(&mut self) -> Vec<&mut Adapted> {
        self.layers.iter_mut().flat_map(|layer| layer.attention.adapted().chain(layer.mlp.adapted())).collect()
    }

    fn last_norm(&self, rows: &Tensor) -> Result<Tensor, Error> {
        self.norm.forward(rows)
    }
}

fn normed<'a>(norm: Option<&Norm>, x: &'a Tensor) -> Result<Cow<'a, Tensor>, Error> {
    norm.map_or(Ok(Cow::Borrowed(x)), |norm| norm.forward(x).map(Cow::Owned))
}
