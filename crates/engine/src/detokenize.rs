//! Text from tokens, as they come: only what no later token can change.
//!
//! Bytes wait while they may be the beginning of a character, or of a stop string. All updates
//! together are the text of all bytes, with U+FFFD for what is no UTF-8, cut at the first stop
//! string.

use std::fmt;
use std::sync::Arc;

/// The bytes that tokens stand for.
pub trait Decode: Send + Sync {
    /// Appends the bytes of a token. A token that is unknown has none.
    fn append(&self, token: u32, bytes: &mut Vec<u8>);

    /// Returns whether the token is a control token without text: the end of a sequence, a role.
    fn is_special(&self, token: u32) -> bool;
}

/// The text of one answer.
#[derive(Clone)]
pub struct Detokenizer {
    decode: Arc<dyn Decode>,
    stop: Arc<[String]>,
    include_stop: bool,
    skip_special: bool,
    /// Bytes that were not given out.
    pending: Vec<u8>,
    /// Leading bytes of `pending` in which no stop string may begin.
    exempt: usize,
}

impl fmt::Debug for Detokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detokenizer").field("stop", &self.stop).field("pending", &self.pending).finish_non_exhaustive()
    }
}

/// Text that a token adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// Text that is final.
    pub text: String,
    /// The stop string that ended it, by its place among them.
    pub stopped_by: Option<usize>,
}

impl Detokenizer {
    /// The text of an answer that ends at any of `stop`.
    #[must_use]
    pub fn new(decode: Arc<dyn Decode>, stop: Arc<[String]>, include_stop: bool, skip_special: bool) -> Self {
        Self { decode, stop, include_stop, skip_special, pending: Vec::new(), exempt: 0 }
    }

    /// Adds a token. Without `may_stop` no stop string ends in it, or begins in what is there.
    pub fn push(&mut self, token: u32, may_stop: bool) -> Piece {
        let mut text = String::new();
        let stopped_by = self.push_to(token, may_stop, &mut text);
        Piece { text, stopped_by }
    }

    /// The same, with the text added to `text`; returns the stop string that ended it.
    pub(crate) fn push_to(&mut self, token: u32, may_stop: bool, text: &mut String) -> Option<usize> {
        if !(self.skip_special && self.decode.is_special(token)) {
            self.decode.append(token, &mut self.pending);
        }
        if !may_stop {
            self.exempt = self.pending.len();
        } else if let Some((end, start, stop)) = self.find_stop() {
            self.pending.truncate(if self.include_stop { end } else { start });
            self.finish_to(text);
            return Some(stop);
        }
        let held = self.held_for_stop();
        let len = complete(&self.pending[..self.pending.len() - held]);
        self.take(len, text);
        None
    }

    /// Returns the remaining text at the end of the answer.
    pub fn finish(&mut self) -> String {
        let mut text = String::new();
        self.finish_to(&mut text);
        text
    }

    pub(crate) fn finish_to(&mut self, text: &mut String) {
        self.take(self.pending.len(), text);
    }

    fn take(&mut self, len: usize, text: &mut String) {
        self.exempt = self.exempt.saturating_sub(len);
        text.push_str(&String::from_utf8_lossy(&self.pending[..len]));
        self.pending.drain(..len);
    }

    /// The end, the start and the place of the stop string that ends first; of those, the one that
    /// begins first.
    fn find_stop(&self) -> Option<(usize, usize, usize)> {
        let open = &self.pending[self.exempt..];
        let of_one = |(place, stop): (usize, &String)| {
            let start = open.windows(stop.len()).position(|w| w == stop.as_bytes())? + self.exempt;
            Some((start + stop.len(), start, place))
        };
        self.stop.iter().enumerate().filter_map(of_one).min()
    }

    /// Bytes at the end that may be the beginning of a stop string.
    fn held_for_stop(&self) -> usize {
        let open = &self.pending[self.exempt..];
        let of_one = |stop: &String| {
            let longest = open.len().min(stop.len() - 1);
            (1..=longest).rev().find(|n| open.ends_with(&stop.as_bytes()[..*n])).unwrap_or(0)
        };
        self.stop.iter().map(of_one).max().unwrap_or(0)
    }
}

/// Returns the number of leading bytes that no later byte can change: all but an unfinished
/// character at the end.
fn complete(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        match std::str::from_utf8(rest) {
            Ok(_) => return bytes.len(),
            Err(e) => match e.error_len() {
                Some(len) => rest = &rest[e.valid_up_to() + len..],
                None => return bytes.len() - rest.len() + e.valid_up_to(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tokens are bytes; those above 255 are special.
    struct Bytes;

    impl Decode for Bytes {
        fn append(&self, token: u32, bytes: &mut Vec<u8>) {
            match u8::try_from(token) {
                Ok(byte) => bytes.push(byte),
                Err(_) => bytes.extend(b"<s>"),
            }
        }

        fn is_special(&self, token: u32) -> bool {
            token > 255
        }
    }

    fn detokenizer(stop: &[&str], include_stop: bool) -> Detokenizer {
        let stop = stop.iter().map(|s| (*s).to_owned()).collect();
        Detokenizer::new(Arc::new(Bytes), stop, include_stop, true)
    }

    /// The pieces of a text given byte by byte, up to a stop.
    fn pieces(mut detokenizer: Detokenizer, bytes: &[u8]) -> (Vec<String>, bool) {
        let mut pieces = Vec::new();
        for byte in bytes {
            let piece = detokenizer.push(u32::from(*byte), true);
            pieces.push(piece.text);
            if piece.stopped_by.is_some() {
                return (pieces, true);
            }
        }
        pieces.push(detokenizer.finish());
        (pieces, false)
    }

    #[test]
    fn a_character_comes_when_it_is_whole() {
        let (pieces, _) = pieces(detokenizer(&[], false), "aé€".as_bytes());
        assert_eq!(pieces, ["a", "", "é", "", "", "€", ""]);
    }

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        assert_eq!(pieces(detokenizer(&[], false), b"a\xFFb\xE2\x82").0.concat(), "a\u{FFFD}b\u{FFFD}");
    }

    #[test]
    fn a_stop_string_across_tokens_never_shows() {
        let (texts, is_stopped) = pieces(detokenizer(&["END"], false), b"the ENx END more");
        assert_eq!((texts.concat().as_str(), is_stopped), ("the ENx ", true));
        assert_eq!(texts[..8], ["t", "h", "e", " ", "", "", "ENx", " "]);
        assert_eq!(pieces(detokenizer(&["END"], true), b"the END more").0.concat(), "the END");
    }

    #[test]
    fn the_stop_string_that_ends_first_wins() {
        assert_eq!(
            pieces(detokenizer(&["bcd", "c"], false), b"abcd"),
            (vec!["a".into(), String::new(), "b".into()], true)
        );
    }

    #[test]
    fn a_text_that_ends_in_the_beginning_of_a_stop_string_is_whole() {
        assert_eq!(
            pieces(detokenizer(&["END"], false), b"the EN"),
            (vec!["t".into(), "h".into(), "e".into(), " ".into(), String::new(), String::new(), "EN".into()], false)
        );
    }

    #[test]
    fn no_stop_string_ends_before_it_may() {
        let mut detokenizer = detokenizer(&["ab"], false);
        assert_eq!(detokenizer.push(u32::from(b'a'), false).text, "a");
        assert_eq!(detokenizer.push(u32::from(b'b'), true), Piece { text: "b".into(), stopped_by: None });
    }

    #[test]
    fn special_tokens_are_left_out_or_shown() {
        let mut without = detokenizer(&[], false);
        assert_eq!(without.push(300, true).text, "");
        let mut with = Detokenizer::new(Arc::new(Bytes), Arc::new([]), false, false);
        assert_eq!(with.push(300, true).text, "<s>");
    }

    proptest! {
        #[test]
        fn pieces_are_the_whole_text_cut_at_the_first_stop(bytes in prop::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0xC3), Just(0xA9), Just(0xE2), any::<u8>()], 0..40)) {
            prop_assert_eq!(pieces(detokenizer(&[], false), &bytes).0.concat(), String::from_utf8_lossy(&bytes));
            let (texts, is_stopped) = pieces(detokenizer(&["abb", "ba"], false), &bytes);
            let ends = |len: &usize| [&b"abb"[..], b"ba"].iter().filter(|s| bytes[..*len].ends_with(s)).map(|s| len - s.len()).min();
            let cut = (0..=bytes.len()).find_map(|len| ends(&len));
            prop_assert_eq!(is_stopped, cut.is_some());
            prop_assert_eq!(texts.concat(), String::from_utf8_lossy(&bytes[..cut.unwrap_or(bytes.len())]));
        }
    }
}
