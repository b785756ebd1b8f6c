//! The fields of a request's JSON object, taken out one by one: what is left at the end is a field
//! that nobody knows, and the request is refused rather than half obeyed.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::ApiError;

/// Fields that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Fields {
    left: Map<String, Value>,
}

impl Fields {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(left)) => Ok(Self { left }),
            Ok(_) => Err(ApiError::bad_request("the body is no JSON object")),
            Err(error) => Err(ApiError::bad_request(format!("the body is not JSON: {error}"))),
        }
    }

    pub(crate) const fn of(left: Map<String, Value>) -> Self {
        Self { left }
    }

    /// A field's value as it is, which stays to be taken.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.left.get(name).filter(|value| !value.is_null())
    }

    /// A field's value. `null` is as if the field were not there.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        match self.left.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|error| ApiError::field(name, error)),
        }
    }

    /// A field's value, which must be there.
    pub(crate) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        self.take(name)?.ok_or_else(|| ApiError::field(name, "it is required"))
    }

    /// Drops a field if it says what happens anyway.
    pub(crate) fn allow(&mut self, name: &str, is_harmless: impl Fn(&Value) -> bool) {
        if self.left.get(name).is_some_and(is_harmless) {
            self.left.remove(name);
        }
    }

    /// Refuses what is left.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.left.into_iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::field(&name, "the field is unknown or not supported")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(text.as_bytes()).expect("an object")
    }

    #[test]
    fn a_field_that_nobody_takes_is_refused_by_name() {
        let mut some = fields(r#"{"n": 2, "best_of": 3, "user": null}"#);
        assert_eq!(some.take::<usize>("n").expect("a number"), Some(2));
        let error = some.finish().expect_err("best_of is left");
        assert_eq!(error.param.as_deref(), Some("best_of"));
        fields(r#"{"suffix": null}"#).finish().expect("null is nothing");
    }

    #[test]
    fn a_value_of_another_type_is_refused_by_name() {
        for (text, name) in
            [(r#"{"n": "2"}"#, "n"), (r#"{"n": -1}"#, "n"), (r#"{"n": 1.5}"#, "n"), (r#"{"n": []}"#, "n")]
        {
            let error = fields(text).take::<usize>(name).expect_err("it is no count");
            assert_eq!(error.param.as_deref(), Some(name));
        }
        assert!(Fields::parse(b"[1]").is_err() && Fields::parse(b"{").is_err());
        let error = fields("{}").need::<String>("model").expect_err("it is not there");
        assert_eq!(error.message, "model: it is required");
    }

    #[test]
    fn a_value_that_changes_nothing_is_allowed() {
        let mut some = fields(r#"{"a": false, "b": true}"#);
        some.allow("a", |v| *v == false);
        some.allow("b", |v| *v == false);
        assert_eq!(some.finish().expect_err("b is left").param.as_deref(), Some("b"));
    }
}
