//! Which tools a model's answers call, and which calls' results come back with later requests: read out of the Messages format
//! as it streams by.
//!
//! Of a document it keeps no more than a few short texts, whatever comes.

/// A part of a message that is about a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolBlock {
    /// The model called a tool.
    Use { id: String, name: String },
    /// A call's result.
    Result { id: String, failed: bool },
}

/// Reads the blocks of an answer, streamed or whole.
#[derive(Debug, Default)]
pub(crate) struct AnswerBlocks {
    form: Form,
    document: Document,
    /// The line so far of an answer that is a stream: its first bytes, and how many there were.
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Form {
    #[default]
    Unknown,
    Whole,
    Streamed,
}

/// What a line of a stream starts with that carries an event's data.
const DATA: &[u8] = b"data:";

impl AnswerBlocks {
    /// Takes the next bytes, and gives the calls that are told of in them.
    pub(crate) fn feed(&mut self, bytes: &[u8], found: &mut impl FnMut(ToolBlock)) {
        for &byte in bytes {
            if self.form == Form::Unknown && !byte.is_ascii_whitespace() {
                self.form = if byte == b'{' { Form::Whole } else { Form::Streamed };
            }
            match self.form {
                Form::Unknown => {}
                Form::Whole => self.document.feed(byte, found),
                Form::Streamed => self.stream(byte, found),
            }
        }
    }

    fn stream(&mut self, byte: u8, found: &mut impl FnMut(ToolBlock)) {
        match byte {
            b'\r' => {}
            // An empty line ends an event.
            b'\n' if self.line.is_empty() => self.document = Document::default(),
            b'\n' => self.line.clear(),
            _ if self.line == DATA => self.document.feed(byte, found),
            // One byte more than the mark shows that this is another kind of line.
            _ if self.line.len() <= DATA.len() => self.line.push(byte),
            _ => {}
        }
    }
}

/// Reads the blocks of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBlocks(Document);

impl RequestBlocks {
    /// Takes the next bytes, and gives what stands in the conversation's messages.
    pub(crate) fn feed(&mut self, bytes: &[u8], found: &mut impl FnMut(ToolBlock)) {
        bytes.iter().for_each(|byte| self.0.feed(*byte, found));
    }
}

/// How deep a block lies at most: document, `messages`, message, `content`, block.
const DEPTH: usize = 5;
/// The longest name or value that is kept, in bytes; no field of a block that counts here is longer.
const TOKEN: usize = 512;

/// One JSON document. What is not JSON gives no blocks, or wrong ones, as it would for the agent.
#[derive(Debug, Default)]
struct Document {
    levels: Vec<Level>,
    /// How many more levels are open below the deepest that counts.
    below: usize,
    within: Within,
    /// The text or word that was read last, with its escapes.
    token: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Within {
    #[default]
    Nothing,
    Text,
    Escape,
}

#[derive(Debug, Default)]
struct Level {
    is_list: bool,
    /// The name of the member that is being read.
    name: Option<String>,
    fields: Fields,
}

#[derive(Debug, Default)]
struct Fields {
    kind: Option<String>,
    id: Option<String>,
    name: Option<String>,
    call: Option<String>,
    is_error: bool,
}

impl Document {
    fn feed(&mut self, byte: u8, found: &mut impl FnMut(ToolBlock)) {
        match (self.within, byte) {
            (Within::Text, b'"') => self.within = Within::Nothing,
            (Within::Text, b'\\') => {
                self.keep(byte);
                self.within = Within::Escape;
            }
            (Within::Text, _) => self.keep(byte),
            (Within::Escape, _) => {
                self.keep(byte);
                self.within = Within::Text;
            }
            (Within::Nothing, b'"') => {
                self.token.clear();
                self.within = Within::Text;
            }
            (Within::Nothing, b'{' | b'[') => self.open(byte == b'['),
            (Within::Nothing, b'}' | b']') => self.close(found),
            (Within::Nothing, b':') => {
                let name = self.take();
                if let Some(level) = self.level() {
                    level.name = name;
                }
            }
            (Within::Nothing, b',') => self.value(),
            (Within::Nothing, _) if byte.is_ascii_whitespace() => {}
            (Within::Nothing, _) => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        // One byte more than is allowed marks what was too long.
        if self.below == 0 && self.token.len() <= TOKEN {
            self.token.push(byte);
        }
    }

    fn take(&mut self) -> Option<String> {
        let token = std::mem::take(&mut self.token);
        if token.is_empty() || token.len() > TOKEN {
            return None;
        }
        let token = String::from_utf8(token).ok()?;
        if token.contains('\\') { serde_json::from_str(&format!("\"{token}\"")).ok() } else { Some(token) }
    }

    /// The innermost level, if it counts.
    fn level(&mut self) -> Option<&mut Level> {
        if self.below == 0 { self.levels.last_mut() } else { None }
    }

    fn open(&mut self, is_list: bool) {
        self.token.clear();
        if self.levels.len() < DEPTH {
            self.levels.push(Level { is_list, ..Level::default() });
        } else {
            self.below += 1;
        }
    }

    /// A member's value has ended.
    fn value(&mut self) {
        let value = self.take();
        let Some(level) = self.level() else { return };
        let (Some(name), Some(value)) = (level.name.take(), value) else { return };
        match name.as_str() {
            "type" => level.fields.kind = Some(value),
            "id" => level.fields.id = Some(value),
            "name" => level.fields.name = Some(value),
            "tool_use_id" => level.fields.call = Some(value),
            "is_error" => level.fields.is_error = value == "true",
            _ => {}
        }
    }

    fn close(&mut self, found: &mut impl FnMut(ToolBlock)) {
        if self.below > 0 {
            self.below -= 1;
            return;
        }
        self.value();
        let is_block = self.is_block();
        if let Some(level) = self.levels.pop()
            && is_block
            && let Some(block) = level.fields.block()
        {
            found(block);
        }
    }

    /// Whether the innermost level is a block of the conversation, and not one of somebody's arguments that looks like it.
    fn is_block(&self) -> bool {
        let name = |level: &Level| if level.is_list { Some("[]".to_owned()) } else { level.name.clone() };
        let Some((innermost, above)) = self.levels.split_last() else { return false };
        let path: Option<Vec<String>> = above.iter().map(name).collect();
        let path = path.unwrap_or_default().join("/");
        !innermost.is_list && matches!(path.as_str(), "messages/[]/content/[]" | "content/[]" | "content_block")
    }
}

impl Fields {
    fn block(self) -> Option<ToolBlock> {
        match self.kind.as_deref()? {
            "tool_use" => Some(ToolBlock::Use { id: self.id?, name: self.name? }),
            "tool_result" => Some(ToolBlock::Result { id: self.call?, failed: self.is_error }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn called(id: &str, name: &str) -> ToolBlock {
        ToolBlock::Use { id: id.to_owned(), name: name.to_owned() }
    }

    fn result(id: &str, failed: bool) -> ToolBlock {
        ToolBlock::Result { id: id.to_owned(), failed }
    }

    fn of_answer(text: &str) -> Vec<ToolBlock> {
        let mut blocks = Vec::new();
        AnswerBlocks::default().feed(text.as_bytes(), &mut |block| blocks.push(block));
        blocks
    }

    fn of_request(text: &str) -> Vec<ToolBlock> {
        let mut blocks = Vec::new();
        RequestBlocks::default().feed(text.as_bytes(), &mut |block| blocks.push(block));
        blocks
    }

    /// Looks like a block wherever it stands.
    fn decoy() -> serde_json::Value {
        json!({ "type": "tool_use", "id": "decoy", "name": "Decoy", "content": [{ "type": "tool_use", "id": "decoy", "name": "Decoy" }],
            "text": "{\"type\":\"tool_use\",\"id\":\"decoy\"}\\" })
    }

    #[test]
    fn the_calls_of_a_whole_answer_are_found_and_no_argument_is_one() {
        let answer = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [
            { "type": "text", "text": "look: {\"type\":\"tool_use\"" },
            { "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": decoy() },
            { "input": { "content": [decoy()] }, "name": "Read", "id": "toolu_2", "type": "tool_use" },
            { "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {} },
        ], "stop_reason": "tool_use", "usage": { "content": [{ "a": 1 }] } });
        assert_eq!(of_answer(&answer.to_string()), [called("toolu_1", "Bash"), called("toolu_2", "Read")]);
        assert_eq!(of_answer(&serde_json::to_string_pretty(&answer).unwrap()).len(), 2);
    }

    #[test]
    fn the_calls_of_a_streamed_answer_are_found_as_they_start() {
        let start = json!({ "type": "content_block_start", "index": 1,
            "content_block": { "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} } });
        let delta = json!({ "type": "content_block_delta", "index": 1,
            "delta": { "type": "input_json_delta", "partial_json": decoy().to_string() } });
        for end in ["\n", "\r\n"] {
            let stream = format!(
                ": hello{end}{end}event: ping{end}data: {{\"type\":\"ping\"}}{end}{end}data:{start}{end}{end}\
                 event: content_block_delta{end}data: {delta}{end}{end}data: {{\"broken{end}{end}data: {}{end}{end}",
                start.to_string().replace("_1", "_2")
            );
            assert_eq!(of_answer(&stream), [called("toolu_1", "Bash"), called("toolu_2", "Bash")], "{end:?}");
        }
    }

    #[test]
    fn the_results_of_a_request_are_found_with_their_failures() {
        let request = json!({
            "model": "m", "system": [{ "type": "text", "text": "s" }], "tools": [{ "name": "Bash", "input_schema": decoy() }],
            "messages": [
                { "role": "user", "content": "go" },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} }] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "tool_result", "tool_use_id": "no" }] },
                    { "type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": true },
                    { "tool_use_id": "toolu_3", "type": "tool_result", "is_error": false, "content": "x" },
                ] },
            ],
        });
        let expected =
            [called("toolu_1", "Bash"), result("toolu_1", false), result("toolu_2", true), result("toolu_3", false)];
        assert_eq!(of_request(&request.to_string()), expected);
    }

    #[test]
    fn what_is_too_long_is_no_block_and_takes_no_room() {
        let mut document = Document::default();
        let endless = format!("{}\"{}", "[".repeat(100_000), "x".repeat(100_000));
        endless.bytes().for_each(|byte| document.feed(byte, &mut |_| panic!()));
        assert!(document.levels.len() <= DEPTH && document.token.capacity() <= 2 * TOKEN);
        let id = "x".repeat(TOKEN + 1);
        assert_eq!(of_answer(&json!({ "content": [{ "type": "tool_use", "id": id, "name": "n" }] }).to_string()), []);
    }

    proptest! {
        #[test]
        fn wherever_the_bytes_are_cut_the_blocks_are_the_same(cuts in proptest::collection::vec(0_usize..400, 0..20), id in "\\PC{1,20}") {
            let text = json!({ "content": [{ "type": "tool_use", "id": id, "name": "\"Bäsh\\", "input": decoy() }] }).to_string();
            let mut blocks = Vec::new();
            let mut reader = AnswerBlocks::default();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            let mut from = 0;
            for cut in cuts {
                reader.feed(&text.as_bytes()[from..cut], &mut |block| blocks.push(block));
                from = cut;
            }
            prop_assert_eq!(blocks, [called(&id, "\"Bäsh\\")]);
        }
    }
}
