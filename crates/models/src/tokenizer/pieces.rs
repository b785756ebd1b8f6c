//! The bytes of a token, from the way in which vocabularies spell them.

use serde_json::Value;

/// Encoding of bytes in a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// A character for each byte (GPT-2): printable ones are themselves, the others from U+0100 on.
    ByteLevel,
    /// Text with U+2581 for spaces, and `<0x0A>` for bytes (SentencePiece).
    SentencePiece,
}

impl Spelling {
    /// The spelling that a decoder of `tokenizer.json` undoes.
    pub(super) fn of(decoder: &Value) -> Option<Self> {
        match decoder["type"].as_str()? {
            "ByteLevel" => Some(Self::ByteLevel),
            "Metaspace" | "ByteFallback" => Some(Self::SentencePiece),
            "Sequence" => decoder["decoders"].as_array()?.iter().find_map(Self::of),
            _ => None,
        }
    }

    /// The bytes of a token that was added to the vocabulary. It is a text as it is, but a decoder
    /// of spaces does not tell it from the others: Gemma's runs of spaces are added.
    pub(super) fn added(self, text: &str) -> Vec<u8> {
        match self {
            Self::ByteLevel => text.as_bytes().to_vec(),
            Self::SentencePiece => self.bytes(text),
        }
    }

    /// The bytes of a token.
    pub(super) fn bytes(self, text: &str) -> Vec<u8> {
        match self {
            Self::ByteLevel => {
                let mut utf8 = [0; 4];
                text.chars()
                    .flat_map(|c| match byte_of(c) {
                        Some(byte) => vec![byte],
                        None => c.encode_utf8(&mut utf8).as_bytes().to_vec(),
                    })
                    .collect()
            }
            Self::SentencePiece => match hex_byte(text) {
                Some(byte) => vec![byte],
                None => text.replace('\u{2581}', " ").into_bytes(),
            },
        }
    }
}

/// Returns whether GPT-2 represents a byte by the character of the same code point.
const fn is_itself(byte: u8) -> bool {
    matches!(byte, 33..=126 | 161..=172 | 174..=255)
}

/// The byte that a character stands for.
fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        n @ 0..256 => Some(n as u8).filter(|byte| is_itself(*byte)),
        n => (0..=u8::MAX).filter(|byte| !is_itself(*byte)).nth((n - 256) as usize),
    }
}

/// The byte of `<0x0A>`.
fn hex_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character() {
        let spelled = |byte: u8| match is_itself(byte) {
            true => char::from(byte),
            false => {
                let before = (0..byte).filter(|b| !is_itself(*b)).count();
                char::from_u32(256 + before as u32).expect("a character")
            }
        };
        for byte in 0..=u8::MAX {
            assert_eq!(Spelling::ByteLevel.bytes(&spelled(byte).to_string()), [byte]);
        }
        assert_eq!(Spelling::ByteLevel.bytes("Ġthe"), b" the");
    }

    #[test]
    fn sentence_pieces_have_spaces_and_bytes() {
        assert_eq!(Spelling::SentencePiece.bytes("\u{2581}the"), b" the");
        assert_eq!(Spelling::SentencePiece.bytes("<0x0A>"), b"\n");
        assert_eq!(Spelling::SentencePiece.bytes("<0x0>"), b"<0x0>");
        assert_eq!(Spelling::SentencePiece.added("\u{2581}\u{2581}"), b"  ");
        assert_eq!(Spelling::ByteLevel.added("\u{e9}"), "\u{e9}".as_bytes());
    }
}
