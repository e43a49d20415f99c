//! The beginning and the end of a text that may be endless: what is kept of what a sandbox prints.
//!
//! Knows nothing of who printed it.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of what is pushed, and counts the rest.
#[derive(Clone, Debug)]
pub(crate) struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    left_out: u64,
}

impl Excerpt {
    pub(crate) fn new(head_limit: usize, tail_limit: usize) -> Self {
        Excerpt { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit, left_out: 0 }
    }

    /// The excerpt of a text that is there as a whole: `limit` bytes at most, a quarter of them from its end, and the
    /// line that says what was left out.
    pub(crate) fn of(text: &str, limit: usize) -> String {
        let mut excerpt = Excerpt::new(limit - limit / 4, limit / 4);
        excerpt.push(text.as_bytes());
        excerpt.text()
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let (first, rest) = chunk.split_at(chunk.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(first);
        let kept = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let pushed_out = (self.tail.len() + kept.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..pushed_out);
        self.tail.extend(kept);
        self.left_out += (rest.len() - kept.len() + pushed_out) as u64;
    }

    /// As text, with a line in the middle that says how much was left out. A character that the cut went through is
    /// left out whole.
    pub(crate) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.left_out == 0 {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        let head = whole_characters(&self.head);
        let cut_short = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        let left_out = self.left_out + (self.head.len() - head.len() + cut_short) as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(&tail[cut_short..]));
        format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
    }
}

/// `bytes` without the beginning of a character at their end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let unfinished = bytes.utf8_chunks().last().map_or(0, |chunk| match chunk.invalid() {
        invalid if invalid.first().is_some_and(|lead| *lead >= 0xc0) => invalid.len(),
        _ => 0,
    });
    &bytes[..bytes.len() - unfinished]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Excerpt;

    #[test]
    fn a_short_text_is_kept_whole() {
        let mut excerpt = Excerpt::new(4, 4);
        excerpt.push(b"abc");
        excerpt.push(b"defgh");
        assert_eq!(excerpt.text(), "abcdefgh");
    }

    #[test]
    fn a_long_text_keeps_its_ends_and_says_what_is_missing() {
        let mut excerpt = Excerpt::new(4, 4);
        excerpt.push(b"abcdefghijklmn");
        assert_eq!(excerpt.text(), "abcd\n[… 6 bytes left out …]\nklmn");
    }

    #[test]
    fn a_character_in_the_way_of_a_cut_goes_whole() {
        assert_eq!(Excerpt::of("aaéééééé", 4), "aa\n[… 12 bytes left out …]\n");
    }

    proptest! {
        #[test]
        fn how_the_text_comes_makes_no_difference(text in ".{0,200}", cuts in prop::collection::vec(1usize..20, 1..20)) {
            let mut whole = Excerpt::new(16, 16);
            whole.push(text.as_bytes());
            let mut pieces = Excerpt::new(16, 16);
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(pieces.text(), whole.text());
            let is_spoilt = whole.text().contains('\u{fffd}') && !text.contains('\u{fffd}');
            prop_assert!(!is_spoilt);
        }
    }
}
