//! Guesses of next tokens without a second model: what followed the last occurrence of the last
//! tokens (prompt lookup).
//!
//! A guess is one more row of the batch. The row before it draws its token as it would without the
//! guess, from the same logits and with the noise of the same position; if that is the guessed
//! token, the guess's row counts as well. So the answer is the same, bit for bit, and only the
//! number of steps differs.

use crate::config::Speculation;

/// The guesses for what follows `tokens`, at most `most` of them.
pub(crate) fn drafts(tokens: &[u32], speculation: Speculation, most: usize) -> &[u32] {
    let len = tokens.len();
    for num in (speculation.min_match..=speculation.max_match.min(len.saturating_sub(1))).rev() {
        let last = &tokens[len - num..];
        let found = (0..len - num).rev().find(|start| &tokens[*start..start + num] == last);
        if let Some(start) = found {
            let guess = &tokens[start + num..];
            return &guess[..guess.len().min(speculation.num_drafts).min(most)];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn guesses(tokens: &[u32], most: usize, expected: &[u32]) {
        let speculation = Speculation { min_match: 2, max_match: 3, num_drafts: 3 };
        assert_eq!(drafts(tokens, speculation, most), expected);
    }

    #[test]
    fn the_longest_and_latest_match_is_continued() {
        guesses(&[1, 2, 3, 4, 1, 2], 9, &[3, 4, 1]);
        guesses(&[1, 2, 3, 4, 1, 2], 1, &[3]);
        guesses(&[1, 2, 3, 1, 2, 4, 1, 2], 9, &[4, 1, 2]);
        guesses(&[7, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2], 9, &[3, 8, 1]);
        guesses(&[1, 2, 3], 9, &[]);
        guesses(&[5, 5, 5], 9, &[5]);
        guesses(&[5], 9, &[]);
    }
}
