//! Text to tokens and back.
//!
//! Encoding is that of the `tokenizers` crate, from `tokenizer.json` or from the vocabulary of a
//! GGUF file (`gguf`). Decoding is by a table of the bytes of each token (`pieces`), because a
//! stream needs bytes and not words: the engine's detokenizer puts them together.

mod gguf;
mod pieces;

use std::fmt;
use std::path::Path;

use warpfold_engine::Decode;

use crate::Error;
use crate::error::{self, ErrorKind};
use crate::files::gguf::Header;
use crate::files::read_small;

/// A vocabulary and its rules.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The bytes of each token.
    pieces: Vec<Box<[u8]>>,
    is_special: Vec<bool>,
    /// Token before every text, unless the rules of `inner` add it.
    bos: Option<u32>,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("len", &self.pieces.len()).field("bos", &self.bos).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// The tokenizer of a folder: its `tokenizer.json`.
    ///
    /// # Errors
    /// If the file is missing, is not one, or decodes in a way that is not known.
    pub fn of_folder(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("tokenizer.json");
        Self::of_json(&path, &read_small(&path)?)
    }

    /// The tokenizer that a `tokenizer.json` says.
    pub(crate) fn of_json(path: &Path, json: &[u8]) -> Result<Self, Error> {
        Self::new(path, json, None)
    }

    /// The tokenizer of a GGUF file.
    pub(crate) fn of_gguf(header: &Header) -> Result<Self, Error> {
        let gguf::Vocabulary { json, bos } = gguf::vocabulary(header)?;
        Self::new(&header.path, json.to_string().as_bytes(), bos)
    }

    fn new(path: &Path, json: &[u8], bos: Option<u32>) -> Result<Self, Error> {
        let wrong = |reason: String| error::file(path, format!("it is not a tokenizer: {reason}"));
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(|e| wrong(e.to_string()))?;
        // Files keep how texts were cut and filled up in training. A prompt is neither, as in
        // transformers.
        inner.with_truncation(None).map_err(|e| wrong(e.to_string()))?.with_padding(None);
        let value: serde_json::Value = serde_json::from_slice(json).map_err(|e| wrong(e.to_string()))?;
        let spelling = pieces::Spelling::of(&value["decoder"])
            .ok_or_else(|| error::unsupported(path, format!("a decoder of {}", value["decoder"]["type"])))?;
        let (mut pieces, mut is_special) = (Vec::new(), Vec::new());
        let added = inner.get_added_tokens_decoder();
        let mut vocabulary: Vec<(String, u32)> = inner.get_vocab(true).into_iter().collect();
        vocabulary.sort_unstable_by_key(|(_, id)| *id);
        // Ids come from a file: a table of them is as long as its largest, which no vocabulary has.
        let most = 1 << 20;
        for (text, id) in &vocabulary {
            let id = *id as usize;
            if id >= most {
                return Err(wrong(format!("token {text:?} has id {id}, the most is {}", most - 1)));
            }
            if pieces.len() <= id {
                pieces.resize_with(id + 1, Box::default);
                is_special.resize(id + 1, false);
            }
            let added = added.get(&(id as u32));
            is_special[id] = added.is_some_and(|token| token.special);
            pieces[id] = match added {
                Some(token) => spelling.added(&token.content).into(),
                None => spelling.bytes(text).into(),
            };
        }
        Ok(Self { inner, pieces, is_special, bos })
    }

    /// Tokens: ids are below this.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The token that is spelled so, if there is one.
    #[must_use]
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes of the longest token.
    #[must_use]
    pub fn longest_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).max().unwrap_or(0)
    }

    /// The tokens of a text, with those that the model wants before and after.
    ///
    /// # Errors
    /// [`ErrorKind::Tokenize`] with what the `tokenizers` crate says.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self.inner.encode(text, true).map_err(|e| ErrorKind::Tokenize(e.to_string()))?;
        Ok(self.bos.into_iter().chain(encoding.get_ids().iter().copied()).collect())
    }

    /// The tokens of a text in which the marks of the model stand already, as a chat template
    /// writes it.
    ///
    /// # Errors
    /// [`ErrorKind::Tokenize`] with what the `tokenizers` crate says.
    pub fn encode_marked(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self.inner.encode(text, false).map_err(|e| ErrorKind::Tokenize(e.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of tokens; bytes that are no text become U+FFFD.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        ids.iter().for_each(|id| self.append(*id, &mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Decode for Tokenizer {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        bytes.extend(self.pieces.get(token as usize).into_iter().flat_map(|piece| piece.iter()));
    }

    fn is_special(&self, token: u32) -> bool {
        self.is_special.get(token as usize).copied().unwrap_or(false)
    }
}
