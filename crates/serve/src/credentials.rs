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
    let bearer = headers.get(header::AUTHORIZATION).map(|value| {
        let value = value.as_bytes();
        let is_bearer = value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        if is_bearer { &value[7..] } else { &[] }
    });
    // Anthropic's clients have a header of their own, and agents may send both.
    let own = headers.get("x-api-key").map(HeaderValue::as_bytes);
    if bearer.or(own).is_none() {
        return refused("an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
    }
    // All keys are compared, and each to its end, so that time tells nothing.
    let find = |presented: &[u8]| {
        keys.iter()
            .enumerate()
            .fold(None, |found, (i, key)| if equal(presented, key.as_bytes()) { Some(i) } else { found })
    };
    let [bearer, own] = [bearer, own].map(|presented| presented.and_then(find));
    bearer.or(own).map_or_else(|| refused("the API key is wrong"), Ok)
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
    use axum::http::HeaderName;

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
    fn the_header_of_anthropics_clients_holds_a_key_too() {
        let keys = ["one".to_owned(), "two".to_owned()];
        let own = |value| (HeaderName::from_static("x-api-key"), HeaderValue::from_static(value));
        assert_eq!(key_of(&HeaderMap::from_iter([own("two")]), &keys), Ok(1));
        assert!(key_of(&HeaderMap::from_iter([own("Bearer two")]), &keys).is_err());
        // One that is right is enough.
        let mut both = headers("Bearer unset");
        both.extend([(Some(own("").0), own("one").1)]);
        assert_eq!(key_of(&both, &keys), Ok(0));
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
