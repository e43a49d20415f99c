//! Whether a program can be run at all: what its first words and its exit code say.

use super::NOT_STARTABLE;
use crate::error::{By, Call, Error, Result};
use crate::excerpt::Excerpt;

/// How much of what a program printed is quoted, in bytes.
const WORDS: usize = 2_000;

/// What a command printed, and how it ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Printed<'a> {
    /// As in [`crate::backend::ExecEnd`].
    pub exit_code: Option<i64>,
    /// Standard output.
    pub out: &'a [u8],
    /// Standard error, and the backend's own words.
    pub err: &'a [u8],
}

/// The version that was asked for, if it is a word of what was printed.
pub(super) fn version_of(name: &str, asked: &str, printed: &Printed<'_>) -> Result<String> {
    let out = String::from_utf8_lossy(printed.out);
    if printed.exit_code != Some(0) {
        let words = [printed.out, printed.err].concat();
        return Err(not_startable(name, printed.exit_code, &String::from_utf8_lossy(&words)));
    }
    let apart = |character: char| character.is_whitespace() || "()[],;:/".contains(character);
    if out.split(apart).any(|word| word == asked || word.strip_prefix('v') == Some(asked)) {
        return Ok(asked.to_owned());
    }
    let detail =
        format!("asked for {name} {asked}, but the program says {}; name the version that the program is", said(&out));
    Err(Error::new(By::Agent, "agent_version_mismatch", detail))
}

/// What a program says of its version.
pub(super) fn said(text: &str) -> String {
    match text.trim() {
        "" => "nothing".to_owned(),
        text => format!("`{}`", Excerpt::of(text, 200)),
    }
}

/// The program was not run, or not to its first word: it is missing, of another machine kind, lacks a library, or ended at
/// once.
pub(crate) fn not_startable(name: &str, exit_code: Option<i64>, words: &str) -> Error {
    let words = match words.trim() {
        "" => "it printed nothing".to_owned(),
        words => Excerpt::of(words, WORDS),
    };
    let code = exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let detail = format!(
        "{name} did not start (exit code {code}); its program must be there, for Linux and this processor, with every \
         library that it needs: in a jail those are this machine's: {words}"
    );
    Error::new(By::Agent, NOT_STARTABLE, detail).with_call(Call {
        command: Some(name.to_owned()),
        exit_code,
        ..Call::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(exit_code: i64, out: &str) -> Result<String> {
        version_of("mini", "1.2", &Printed { exit_code: Some(exit_code), out: out.as_bytes(), err: b"its last words" })
    }

    #[test]
    fn a_version_is_a_word_of_what_was_printed() {
        for out in ["1.2\n", "mini 1.2", "mini v1.2 (beta)", "mini/1.2"] {
            assert_eq!(version(0, out).unwrap(), "1.2", "{out}");
        }
        for out in ["", "1.20", "11.2", "mini 1.2.3"] {
            assert_eq!(version(0, out).unwrap_err().code(), "agent_version_mismatch", "{out}");
        }
    }

    #[test]
    fn a_program_that_does_not_start_is_told_with_its_last_words() {
        let error = version(127, "").unwrap_err();
        assert_eq!((error.by(), error.code()), (By::Agent, NOT_STARTABLE));
        assert!(error.detail().contains("its last words") && error.detail().contains("127"), "{error}");
        assert_eq!(error.call().and_then(|call| call.exit_code), Some(127));
    }
}
