//! Errors of models: which file, which field or tensor, and what was expected.

use std::fmt;
use std::path::{Path, PathBuf};

use warpfold_engine::ModelError;

/// An error of this crate, one pointer wide.
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

impl From<warpfold::Error> for Error {
    fn from(error: warpfold::Error) -> Self {
        ErrorKind::Tensors(error).into()
    }
}

impl From<warpfold_collectives::Error> for Error {
    fn from(error: warpfold_collectives::Error) -> Self {
        ErrorKind::Group(error).into()
    }
}

impl From<warpfold_device::Error> for Error {
    fn from(error: warpfold_device::Error) -> Self {
        warpfold::Error::from(error).into()
    }
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The expected and the found value.
        reason: String,
    },
    /// A tensor that is missing, or not what the model needs.
    #[error("{}: tensor {tensor}: {reason}", path.display())]
    Tensor {
        /// The file, or the folder where no file has it.
        path: PathBuf,
        /// Its name in the file.
        tensor: String,
        /// The expected and the found value.
        reason: String,
    },
    /// Weights on a device that are not those of the files.
    #[error("{}: tensor {tensor}: the device does not hold what the file says: {reason}", path.display())]
    Weights {
        /// The folder, or the file.
        path: PathBuf,
        /// The name of the tensor, as Hugging Face has it.
        tensor: String,
        /// The expected and the found value.
        reason: String,
    },
    /// A field of a configuration that is missing or wrong.
    #[error("{}: {field}: {reason}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// The expected and the found value.
        reason: String,
    },
    /// Something real that this crate does not do.
    #[error("{}: not supported: {what}", path.display())]
    Unsupported {
        /// The file that asks for it.
        path: PathBuf,
        /// The unsupported feature.
        what: String,
    },
    /// A text that cannot be made into tokens.
    #[error("the text cannot be tokenized: {0}")]
    Tokenize(String),
    /// A chat template that cannot be parsed, or refuses a conversation.
    #[error("the chat template says: {0}")]
    Template(String),
    /// A grammar or a JSON schema that cannot be used.
    #[error("the grammar cannot be used: {0}")]
    Grammar(String),
    /// A batch that the engine should not have sent.
    #[error("the batch is wrong: {0}")]
    Batch(String),
    /// A model that cannot be split over so many devices.
    #[error("{count} devices cannot share the model: it has {found} {what}")]
    Split {
        /// Devices.
        count: usize,
        /// The thing to split.
        what: &'static str,
        /// The number found.
        found: usize,
    },
    /// Another of the devices that share a model failed, or they cannot work together.
    #[error(transparent)]
    Group(warpfold_collectives::Error),
    /// A tensor operator or the device failed.
    #[error(transparent)]
    Tensors(warpfold::Error),
}

/// Converts an error that a model reported through the engine's interface.
pub(crate) fn of_model(source: ModelError) -> Error {
    match source.downcast::<Error>() {
        Ok(error) => *error,
        Err(other) => ErrorKind::Batch(other.to_string()).into(),
    }
}

pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<'_> {
    move |source| ErrorKind::Read { path: path.to_owned(), source }.into()
}

pub(crate) fn file(path: &Path, reason: impl fmt::Display) -> Error {
    ErrorKind::File { path: path.to_owned(), reason: reason.to_string() }.into()
}

pub(crate) fn tensor(path: &Path, tensor: &str, reason: impl fmt::Display) -> Error {
    ErrorKind::Tensor { path: path.to_owned(), tensor: tensor.to_owned(), reason: reason.to_string() }.into()
}

pub(crate) fn field(path: &Path, field: &str, reason: impl fmt::Display) -> Error {
    ErrorKind::Field { path: path.to_owned(), field: field.to_owned(), reason: reason.to_string() }.into()
}

pub(crate) fn unsupported(path: &Path, what: impl fmt::Display) -> Error {
    ErrorKind::Unsupported { path: path.to_owned(), what: what.to_string() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide_and_names_file_and_tensor() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = tensor(Path::new("a/model.safetensors"), "lm_head.weight", "it is missing");
        assert_eq!(error.to_string(), "a/model.safetensors: tensor lm_head.weight: it is missing");
    }
}
