//! What requests present: a key, an origin.

use std::hint::black_box;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::error::ApiError;

/// The number of the key that a request presents, 0 if none is asked for.
pub(crate) fn key_of(headers: &HeaderMap, keys: &[String]) -> Result<usize, ApiError> {
    if keys.is_empty() {
        return Ok(0);
    }
    let refused = |message| {
        let error = ApiError::new(StatusCode::UNAUTHORIZED, message);
        Err(ApiError { code: Some("invalid_api_key"), ..error })
    };
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return refused("an API key is needed: Authorization: Bearer KEY");
    };
    let value = value.as_bytes();
    let is_bearer = value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    let presented = if is_bearer { &value[7..] } else { &[] };
    // All keys are compared, and each to its end, so that time tells nothing.
    let found = keys
        .iter()
        .enumerate()
        .fold(None, |found, (i, key)| if equal(presented, key.as_bytes()) { Some(i) } else { found });
    found.map_or_else(|| refused("the API key is wrong"), Ok)
}

/// Whether two texts are equal, in a time that depends on the length of the first one only.
fn equal(presented: &[u8], key: &[u8]) -> bool {
    let mut difference = presented.len() ^ key.len();
    for (i, byte) in presented.iter().enumerate() {
        let expected = if key.is_empty() { 0 } else { key[i % key.len()] };
        difference |= black_box(usize::from(byte ^ expected));
    }
    difference == 0
}

/// The origin, if it is one of those that may read answers.
pub(crate) fn allow(origin: &HeaderValue, allowed: &[String]) -> Option<HeaderValue> {
    let is_allowed = allowed.iter().any(|a| a == "*" || a.as_bytes() == origin.as_bytes());
    is_allowed.then(|| origin.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_key_is_known_by_its_number() {
        let keys = ["one".to_owned(), "two".to_owned()];
        assert_eq!(key_of(&headers("Bearer two"), &keys), Ok(1));
        assert_eq!(key_of(&headers("bearer one"), &keys), Ok(0));
        assert_eq!(key_of(&HeaderMap::new(), &[]), Ok(0));
        for wrong in ["Bearer tw", "Bearer twoo", "Bearer twotwo", "Bearer ", "Basic two", "two", "Bearer"] {
            let error = key_of(&headers(wrong), &keys).expect_err("it is no key");
            assert_eq!((error.status.as_u16(), error.code), (401, Some("invalid_api_key")), "{wrong}");
        }
        assert!(key_of(&HeaderMap::new(), &keys).is_err());
    }

    #[test]
    fn origins_are_compared_as_a_whole() {
        let origin = HeaderValue::from_static("http://a.example");
        assert_eq!(allow(&origin, &[]), None);
        assert_eq!(allow(&origin, &["http://a.example.org".to_owned()]), None);
        assert_eq!(allow(&origin, &["http://a.example".to_owned()]), Some(origin.clone()));
        assert_eq!(allow(&origin, &["*".to_owned()]), Some(origin));
    }
}
