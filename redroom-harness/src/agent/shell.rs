//! An agent without a model: each message is a shell script. For tests of redroom itself, and to see what it does.

use async_trait::async_trait;

use super::{Agent, ParsedTurn, Program, ProgramSources, Progress, ToolHook, TurnCommand, TurnInput, TurnReader};
use crate::error::Result;
use crate::excerpt::Excerpt;

/// How much of a script's output is kept as its answer: this much from its beginning, and as much from its end.
const ANSWER_HALF: usize = 512 * 1024;

/// Reads the whole of its input before it runs any of it: a script may be longer than an argument can be, and a command
/// in it that reads its own input finds the end, not the rest of the script.
const RUN_INPUT: &str = r#"eval -- "$(cat)""#;

/// An agent for which a message is a bash script: no model, no key, no program to fetch.
///
/// What the script prints is the turn's `final_text`: the first and the last 512 KiB. A script that ends with another exit
/// code than 0 is no error of the turn: the code is the script's result, and stands in `exit_code`. Each message is a
/// process of its own: files stay, variables do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shell;

impl Shell {
    /// The shell.
    pub fn new() -> Self {
        Shell
    }
}

#[async_trait]
impl Agent for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn program(&self, _: &ProgramSources, _: Progress<'_>) -> Result<Program> {
        Ok(Program::new(self.name(), self.version()))
    }

    fn hook(&self) -> ToolHook {
        ToolHook::Voluntary
    }

    fn turn(&self, turn: &TurnInput<'_>) -> TurnCommand {
        TurnCommand::new(["bash", "-c", RUN_INPUT]).stdin(turn.message)
    }

    fn reader(&self) -> Box<dyn TurnReader> {
        Box::new(Answer(Excerpt::new(ANSWER_HALF, ANSWER_HALF)))
    }
}

struct Answer(Excerpt);

impl TurnReader for Answer {
    fn out(&mut self, chunk: &[u8]) {
        self.0.push(chunk);
    }

    fn err(&mut self, _: &[u8]) {}

    fn end(self: Box<Self>, _: Option<i64>) -> ParsedTurn {
        ParsedTurn { final_text: self.0.text(), ..ParsedTurn::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Output, Stdio};

    use super::{Agent, Shell, TurnInput};

    fn run(message: &str) -> Output {
        let turn = Shell.turn(&TurnInput { session: "s", index: 0, message });
        let mut child = Command::new(&turn.argv[0])
            .args(&turn.argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&turn.stdin).unwrap();
        child.wait_with_output().unwrap()
    }

    fn answer(message: &str) -> String {
        let output = run(message);
        let mut reader = Shell.reader();
        output.stdout.chunks(7).for_each(|chunk| reader.out(chunk));
        reader.end(output.status.code().map(i64::from)).final_text
    }

    #[test]
    fn a_message_is_a_script_and_what_it_prints_the_answer() {
        assert_eq!(answer("x=1\ncat <<END\nx is $x\nEND\nprintf '%s' \"it's\""), "x is 1\nit's");
    }

    #[test]
    fn a_command_that_reads_its_input_does_not_swallow_the_script() {
        assert_eq!(answer("cat > /dev/null\nread line || echo none\necho ended"), "none\nended\n");
    }

    #[test]
    fn a_long_message_and_one_that_starts_with_a_hyphen_arrive_whole() {
        assert_eq!(answer(&format!(": {}\necho ended", "x".repeat(300_000))), "ended\n");
        assert!(String::from_utf8_lossy(&run("-do it").stderr).contains("-do"));
    }

    #[test]
    fn another_exit_code_than_nought_is_no_error_of_the_turn() {
        assert_eq!(run("exit 3").status.code(), Some(3));
        let parsed = Shell.reader().end(Some(3));
        assert_eq!((parsed.error, parsed.is_error), (None, false));
    }

    #[test]
    fn endless_output_keeps_its_ends() {
        let mut reader = Shell.reader();
        reader.out(b"first");
        (0..64).for_each(|_| reader.out(&[b'x'; 65_536]));
        reader.out(b"last");
        let text = reader.end(Some(0)).final_text;
        assert!(text.starts_with("first") && text.ends_with("last") && text.len() < 1_100_000, "{}", text.len());
    }
}
