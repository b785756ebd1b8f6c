//! Errors, with the expected and the found value.

use crate::request::RequestId;

/// The error type of a model's step.
pub type ModelError = Box<dyn std::error::Error + Send + Sync>;

/// An error of the engine, one pointer wide.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    kind: Box<ErrorKind>,
}

impl Error {
    /// Returns the kind of error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind) }
    }
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting that the engine cannot run with.
    #[error("{option}: {reason}")]
    Config {
        /// The option of the program that sets it.
        option: &'static str,
        /// The expected and the found value.
        reason: String,
    },
    /// A field of a request that is outside its range, or does not go with another one.
    #[error("{field}: {reason}")]
    Request {
        /// The field of the request.
        field: &'static str,
        /// The expected and the found value.
        reason: String,
    },
    /// A prompt, or a prompt with its `max_tokens`, beyond the longest sequence that the model
    /// takes.
    #[error(
        "the prompt has {prompt} tokens and at least {new} are to be generated, but a sequence has at most {max_len} \
         (--max-len)"
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that the request wants at least.
        new: usize,
        /// The longest sequence.
        max_len: usize,
    },
    /// A request that the KV cache cannot hold even when it runs alone.
    #[error(
        "the request needs {need} blocks of the KV cache ({need_bytes} bytes) but the cache has {have} \
         ({missing_bytes} bytes are missing): raise --kv-blocks or --kv-bytes, or lower max_tokens or n"
    )]
    TooLarge {
        /// Blocks that it needs in the worst case.
        need: usize,
        /// The same in bytes.
        need_bytes: u64,
        /// Blocks that there are.
        have: usize,
        /// Bytes missing.
        missing_bytes: u64,
    },
    /// There is too little memory for a cache of even one sequence.
    #[error("{missing_bytes} bytes of device memory are missing for the KV cache: {reason}; {advice}")]
    Memory {
        /// Bytes missing.
        missing_bytes: u64,
        /// The arithmetic in words.
        reason: String,
        /// Flags that avoid the error.
        advice: &'static str,
    },
    /// The model has no room for the cache.
    #[error(
        "no room for {num_blocks} blocks on the device and {num_host_blocks} on the host, of {block_bytes} bytes \
         each: {source}; lower --kv-blocks, --kv-bytes or --swap-bytes"
    )]
    Cache {
        /// Blocks on the device, the null block included.
        num_blocks: usize,
        /// Blocks on the host, the null block included.
        num_host_blocks: usize,
        /// Bytes of a block.
        block_bytes: u64,
        /// The error of the model.
        source: ModelError,
    },
    /// Too many requests wait.
    #[error("{waiting} requests wait, and no more than {limit} may: try again later")]
    Overloaded {
        /// Requests that wait.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// The service takes no more requests.
    #[error("the engine takes no more requests: it is shutting down")]
    Stopped,
    /// The model sleeps.
    #[error("the model sleeps, and takes no requests before it is woken")]
    Asleep,
    /// The model failed in a step. All requests that held blocks have ended, and hold none.
    #[error("the model failed in step {step}, and with it {} requests: {source}", failed.len())]
    Model {
        /// The step.
        step: u64,
        /// The requests that ended with it.
        failed: Vec<RequestId>,
        /// The error of the model.
        source: ModelError,
    },
}

/// An error about a field of a request.
pub(crate) fn request(field: &'static str, reason: impl Into<String>) -> Error {
    ErrorKind::Request { field, reason: reason.into() }.into()
}

/// An error about a setting.
pub(crate) fn config(option: &'static str, reason: impl Into<String>) -> Error {
    ErrorKind::Config { option, reason: reason.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide_and_names_the_option() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(config("--budget", "0 is not positive").to_string(), "--budget: 0 is not positive");
    }
}
