//! Fields of a JSON object, with errors that name file and field.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::Error;
use crate::error;
use crate::files::read_small_text;

/// An object of a file.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) path: PathBuf,
    /// Prefix of field names in messages.
    prefix: String,
    object: Map<String, Value>,
}

impl Fields {
    /// The object that a file holds.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(path, &read_small_text(path)?)
    }

    /// The object of a text that stands in this file.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        match serde_json::from_str(text) {
            Ok(Value::Object(object)) => Ok(Self { path: path.to_owned(), prefix: String::new(), object }),
            Ok(_) => Err(error::file(path, "it is not an object")),
            Err(reason) => Err(error::file(path, format!("it is not JSON: {reason}"))),
        }
    }

    pub(crate) fn wrong(&self, name: &str, reason: impl std::fmt::Display) -> Error {
        error::field(&self.path, &format!("{}{name}", self.prefix), reason)
    }

    /// A field that is there and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Returns whether a field is there and null.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        self.object.get(name).is_some_and(Value::is_null)
    }

    /// A field as something, if it is there.
    pub(crate) fn of<T>(&self, name: &str, what: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, Error> {
        let wrong = |value: &Value| self.wrong(name, format!("{value} is not {what}"));
        self.get(name).map(|value| read(value).ok_or_else(|| wrong(value))).transpose()
    }

    /// The names of all fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.object.keys().map(String::as_str)
    }

    pub(crate) fn size(&self, name: &str) -> Result<Option<usize>, Error> {
        self.of(name, "a size", |value| value.as_u64().and_then(|size| usize::try_from(size).ok()))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        self.of(name, "a number", Value::as_f64)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        self.of(name, "true or false", Value::as_bool)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        self.of(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// A token, or a list of them.
    pub(crate) fn tokens(&self, name: &str) -> Result<Option<Vec<u32>>, Error> {
        let token = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        self.of(name, "a token or a list of tokens", |value| match value {
            Value::Array(list) => list.iter().map(token).collect(),
            one => token(one).map(|id| vec![id]),
        })
    }

    pub(crate) fn needed<T>(&self, name: &str, found: Option<T>) -> Result<T, Error> {
        found.ok_or_else(|| self.wrong(name, "it is missing"))
    }

    /// An object inside of this one.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Self>, Error> {
        let object = self.of(name, "an object", |value| value.as_object().cloned())?;
        let prefix = format!("{}{name}.", self.prefix);
        Ok(object.map(|object| Self { path: self.path.clone(), prefix, object }))
    }
}
