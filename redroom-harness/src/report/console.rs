//! Hostile text for a terminal: what an agent or a page printed must not move the cursor, colour the verdict, or show a
//! name in another order than it has.
//!
//! Pure: text in, text out.

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

/// Whether a terminal would do something else with it than show it in its place.
fn is_hostile(character: char) -> bool {
    character.is_control() // C0, DEL, C1
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // direction
            | '\u{2028}' | '\u{2029}' // line ends to some
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' // seen by programs only
            | '\u{fffe}' | '\u{ffff}') // no characters, and not allowed in XML
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{visible, visible_line};

    #[test]
    fn escape_sequences_are_written_out() {
        assert_eq!(visible("\x1b[31mred\x1b[0m\x07\r\u{9b}2J"), "\\x1b[31mred\\x1b[0m\\x07\\x0d\\x9b2J");
    }

    #[test]
    fn a_reversed_name_shows_what_reverses_it() {
        assert_eq!(visible("exe.\u{202e}txt.sh"), "exe.\\u{202e}txt.sh");
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
        fn doing_it_twice_changes_nothing(text in hostile_text()) {
            let once = visible(&text).into_owned();
            prop_assert_eq!(visible(&once), once.as_str());
        }
    }
}
