//! Reads an agent that prints its answer, and nothing else.

use super::{ParsedTurn, TURN_FAILED, TurnReader, not_startable};
use crate::error::{By, Error};
use crate::excerpt::Excerpt;

/// How much of an answer is kept, in bytes: this much from its beginning, and as much from its end.
const ANSWER_HALF: usize = 512 * 1024;
/// How much of what it complained is quoted where it failed, in bytes: its end.
const WORDS: usize = 2_000;

/// A reader for agents that print their answer: what comes on standard output is the turn's `final_text`, its first and last
/// 512 KiB. Any exit code but 0 is an error of the turn, with the last 2,000 bytes of standard error, or else of the answer:
/// `agent_not_startable` for 126, 127 and 255 where no answer came, else `turn_failed`.
#[derive(Debug)]
pub struct PlainText {
    name: String,
    answer: Excerpt,
    words: Excerpt,
}

impl PlainText {
    /// A reader for the agent of this name.
    pub fn new(name: impl Into<String>) -> Self {
        PlainText { name: name.into(), answer: Excerpt::new(ANSWER_HALF, ANSWER_HALF), words: Excerpt::new(0, WORDS) }
    }
}

impl TurnReader for PlainText {
    fn out(&mut self, chunk: &[u8]) {
        self.answer.push(chunk);
    }

    fn err(&mut self, chunk: &[u8]) {
        self.words.push(chunk);
    }

    fn end(self: Box<Self>, exit_code: Option<i64>) -> ParsedTurn {
        let (answer, words) = (self.answer.text(), self.words.text());
        let error = match exit_code {
            Some(0) => None,
            Some(126 | 127 | 255) if answer.trim().is_empty() => Some(not_startable(&self.name, exit_code, &words)),
            _ => {
                let how =
                    exit_code.map_or_else(|| "was cut off".to_owned(), |code| format!("ended with exit code {code}"));
                let words = if words.trim().is_empty() { &answer } else { &words };
                let mut last = Excerpt::new(0, WORDS);
                last.push(words.trim().as_bytes());
                let said = last.text();
                let said = if said.is_empty() { "it printed nothing".to_owned() } else { said };
                Some(Error::new(By::Agent, TURN_FAILED, format!("{} {how}: {said}", self.name)))
            }
        };
        ParsedTurn { final_text: answer, is_error: error.is_some(), error, ..ParsedTurn::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(out: &str, err: &str, exit_code: i64) -> ParsedTurn {
        let mut reader = Box::new(PlainText::new("mini"));
        out.as_bytes().chunks(3).for_each(|chunk| reader.out(chunk));
        err.as_bytes().chunks(3).for_each(|chunk| reader.err(chunk));
        reader.end(Some(exit_code))
    }

    #[test]
    fn what_is_printed_is_the_answer() {
        let turn = read("four", "a warning", 0);
        assert_eq!((turn.final_text.as_str(), turn.error, turn.is_error), ("four", None, false));
    }

    #[test]
    fn an_agent_that_fails_is_quoted_with_the_last_that_it_said() {
        let turn = read("", &format!("{}\nfatal: no model", "x".repeat(10_000)), 3);
        let error = turn.error.unwrap();
        assert_eq!(error.code(), TURN_FAILED);
        assert!(error.detail().ends_with("fatal: no model") && error.detail().contains("exit code 3"), "{error}");
        assert!(error.detail().len() < 3_000);
        assert!(read("said on stdout", "", 1).error.unwrap().detail().ends_with("said on stdout"));
    }

    #[test]
    fn one_that_never_spoke_and_could_not_be_run_did_not_start() {
        assert_eq!(read("", "error while loading shared libraries", 127).error.unwrap().code(), "agent_not_startable");
        assert_eq!(read("half an answer", "", 127).error.unwrap().code(), TURN_FAILED);
    }
}
