//! Hostile text made visible: what an agent or a page said must not move a terminal's cursor, colour the verdict, or show a
//! name in another order than it has, neither on a screen nor in a file that somebody shows on one.
//!
//! Pure: text in, text out. The only place that knows what a terminal obeys.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` with everything that a terminal obeys or hides written out (`\x1b`, `\u{202e}`). Line ends and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

/// As [`visible`], on one line: line ends and tabs are written out, too.
pub(crate) fn visible_line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hostile = |character: char| is_hostile(character) && !stays(character);
    if !text.contains(hostile) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match (hostile(character), u32::from(character)) {
            (false, _) => safe.push(character),
            (true, code) if code < 0x100 => write!(safe, "\\x{code:02x}").unwrap_or_default(),
            (true, code) => write!(safe, "\\u{{{code:x}}}").unwrap_or_default(),
        }
    }
    Cow::Owned(safe)
}

/// JSON that says the same with nothing in it that a terminal obeys: characters that may stand in a string as they are become
/// escapes. Also of text that is no JSON, line by line.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    if is_plain(json.as_bytes()) {
        return Cow::Borrowed(json);
    }
    let hostile = |character: char| is_hostile(character) && !matches!(character, '\n' | '\t');
    if !json.contains(hostile) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if hostile(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(safe, "\\u{unit:04x}").unwrap_or_default();
            }
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// Makes a stream visible that is cut anywhere, on its way into a file: as [`visible`], but that bytes which are no text are
/// written out one by one, and lines may end as on Windows.
#[derive(Debug, Default)]
pub(crate) struct VisibleStream {
    /// The beginning of a character, or a carriage return whose line feed may follow.
    held: Vec<u8>,
}

impl VisibleStream {
    /// Takes the next piece, and gives what is known of it.
    pub(crate) fn feed(&mut self, piece: &[u8], give: impl FnOnce(&[u8])) {
        if self.held.is_empty() && is_plain(piece) {
            return give(piece);
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        let whole = bytes.len() - unfinished(&bytes);
        self.held = bytes.split_off(whole);
        give(&shown(&bytes));
    }

    /// The stream is over: gives what was held back.
    pub(crate) fn end(&mut self, give: impl FnOnce(&[u8])) {
        give(&shown(&std::mem::take(&mut self.held)));
    }
}

/// How many bytes at the end may mean something else with those that follow.
fn unfinished(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last() {
        // A character that breaks off at the end may go on; one that is broken ends there already.
        Some(last) if !last.invalid().is_empty() => {
            let invalid = last.invalid();
            let is_open = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_open { invalid.len() } else { 0 }
        }
        _ => usize::from(bytes.ends_with(b"\r")),
    }
}

fn shown(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (index, line) in chunk.valid().split("\r\n").enumerate() {
            if index > 0 {
                text.push_str("\r\n");
            }
            text.push_str(&visible(line));
        }
        chunk.invalid().iter().for_each(|byte| write!(text, "\\x{byte:02x}").unwrap_or_default());
    }
    text.into_bytes()
}

/// Whether there is nothing but ASCII that is shown, line feeds and tabs. Nearly all evidence is, and a flood is a lot of it: a look
/// at each byte costs a fraction of one at each character, in builds for tests above all.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
}

/// Whether a terminal would do something else with it than show it in its place.
fn is_hostile(character: char) -> bool {
    character.is_control() // C0, DEL, C1
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // direction
            | '\u{2028}' | '\u{2029}' // line ends to some
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' // seen by programs only
            // No room is taken by these; joiners and selectors of emoji have to stay, for scripts need them.
            | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{ffa0}'
            | '\u{fffe}' | '\u{ffff}') // no characters, and not allowed in XML
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{VisibleStream, visible, visible_json, visible_line};

    #[test]
    fn escape_sequences_are_written_out() {
        assert_eq!(visible("\x1b[31mred\x1b[0m\x07\r\u{9b}2J"), "\\x1b[31mred\\x1b[0m\\x07\\x0d\\x9b2J");
    }

    #[test]
    fn a_reversed_name_shows_what_reverses_it() {
        assert_eq!(visible("exe.\u{202e}txt.sh"), "exe.\\u{202e}txt.sh");
    }

    #[test]
    fn what_takes_no_room_on_a_screen_is_written_out() {
        for hidden in "\u{ad}\u{34f}\u{115f}\u{180e}\u{200b}\u{2060}\u{2063}\u{206a}\u{3164}\u{ffa0}\u{e0100}".chars() {
            assert_ne!(visible(&format!("api{hidden}.test")), format!("api{hidden}.test"), "{:x}", u32::from(hidden));
        }
    }

    #[test]
    fn plain_text_in_any_script_stays() {
        let text = "a\tb\nžluťoučký 日本語 👩‍💻 שלום \\x1b";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(visible_line("a\nb\tc"), "a\\x0ab\\x09c");
    }

    fn streamed(pieces: &[&[u8]]) -> String {
        let (mut stream, mut shown) = (VisibleStream::default(), Vec::new());
        pieces.iter().for_each(|piece| stream.feed(piece, |bytes| shown.extend_from_slice(bytes)));
        stream.end(|bytes| shown.extend_from_slice(bytes));
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_stream_shows_what_is_no_text_and_keeps_the_ends_of_lines() {
        for (said, shown) in [
            (&b"\x1b]0;title\x07\x1b[2J"[..], "\\x1b]0;title\\x07\\x1b[2J"),
            (b"one\r\ntwo\rthree\r", "one\r\ntwo\\x0dthree\\x0d"),
            (b"\x9b31m \xc2\x9b31m", "\\x9b31m \\x9b31m"),
            // Half of a pair of UTF-16, as CESU-8 writes it, and a character that breaks off.
            (b"\xed\xa0\xbd \xf0\x9f\x98", "\\xed\\xa0\\xbd \\xf0\\x9f\\x98"),
            ("a\u{2028}b\u{202e}c \u{1f600}".as_bytes(), "a\\u{2028}b\\u{202e}c \u{1f600}"),
        ] {
            assert_eq!(streamed(&[said]), shown);
        }
    }

    #[test]
    fn json_says_the_same_when_it_is_visible() {
        let said = "\u{9b}31m \u{202e} \u{7f} \u{2028} \u{e0041} \u{1f600} \x1b \"\\\n";
        let json = serde_json::json!({"said": said}).to_string();
        let safe = visible_json(&json);
        assert_eq!(visible_line(&safe), safe);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap()["said"], said);
        assert!(safe.contains(r"\u009b31m") && safe.contains('\u{1f600}'), "{safe}");
    }

    fn hostile_text() -> impl Strategy<Value = String> {
        let hostile = prop_oneof![
            proptest::char::range('\0', '\u{9f}'),
            proptest::char::range('\u{200b}', '\u{206f}'),
            any::<char>(),
        ];
        prop::collection::vec(hostile, 0..200).prop_map(String::from_iter)
    }

    fn is_bidi_control(character: char) -> bool {
        "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}"
            .contains(character)
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_left(text in hostile_text()) {
            for character in visible(&text).chars() {
                let code = u32::from(character);
                prop_assert!(code >= 0x20 || character == '\n' || character == '\t', "{code:x}");
                prop_assert!(!(0x7f..=0x9f).contains(&code), "{code:x}");
                prop_assert!(!is_bidi_control(character), "{code:x}");
            }
            prop_assert!(!visible_line(&text).contains(['\n', '\t']));
        }

        #[test]
        fn how_a_stream_is_cut_makes_no_difference(
            pieces in prop::collection::vec(prop_oneof![
                hostile_text().prop_map(String::into_bytes),
                prop::collection::vec(any::<u8>(), 0..20),
                Just(b"\r".to_vec()), Just(b"\n".to_vec()), Just(b"\xf0\x9f".to_vec()),
            ], 0..8),
        ) {
            let whole = pieces.concat();
            let expected = streamed(&[&whole]);
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(streamed(&pieces), expected.as_str());
            prop_assert_eq!(streamed(&whole.chunks(1).collect::<Vec<_>>()), expected.as_str());
            for line in expected.split("\r\n") {
                prop_assert_eq!(visible(line), line);
            }
        }

        #[test]
        fn doing_it_twice_changes_nothing(text in hostile_text()) {
            let once = visible(&text).into_owned();
            prop_assert_eq!(visible(&once), once.as_str());
        }
    }
}
