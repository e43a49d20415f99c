//! Which tools a model's answers call, and which calls' results come back with later requests: read out of the Messages format
//! as it streams by.
//!
//! Of a document it keeps no more than a few short texts, and the arguments of the calls that an answer makes, whatever comes.

use std::collections::HashMap;

use serde_json::Value;

/// A part of a message that is about a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolBlock {
    /// The model calls a tool.
    Use { id: String, name: String },
    /// With these arguments; none that are too large, or no JSON.
    Input { id: String, input: Option<Value> },
    /// A call's result.
    Result { id: String, failed: bool },
}

/// Reads the blocks of an answer, streamed or whole.
#[derive(Debug)]
pub(crate) struct AnswerBlocks {
    form: Form,
    document: Document,
    /// The line so far of an answer that is a stream: its first bytes, and how many there were.
    line: Vec<u8>,
    /// The calls of a stream whose arguments are still coming: by the place of their block.
    open: HashMap<String, Coming>,
    is_message: bool,
}

/// Arguments that come in pieces.
#[derive(Debug)]
struct Coming {
    id: String,
    /// JSON in a JSON text, as it was sent.
    text: Captured,
}

/// The most calls of one answer whose arguments are awaited at the same time.
const OPEN: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Form {
    #[default]
    Unknown,
    Whole,
    Streamed,
}

/// What a line of a stream starts with that carries an event's data.
const DATA: &[u8] = b"data:";

impl Default for AnswerBlocks {
    fn default() -> Self {
        AnswerBlocks {
            form: Form::default(),
            document: Document { captures: true, ..Document::default() },
            line: Vec::new(),
            open: HashMap::new(),
            is_message: false,
        }
    }
}

impl AnswerBlocks {
    /// Whether it has turned out to be of the form that is read here.
    pub(crate) fn is_message(&self) -> bool {
        self.is_message
    }

    /// Takes the next bytes, and gives the calls that are told of in them.
    pub(crate) fn feed(&mut self, bytes: &[u8], found: &mut impl FnMut(ToolBlock)) {
        for &byte in bytes {
            if self.form == Form::Unknown && !byte.is_ascii_whitespace() {
                self.form = if byte == b'{' { Form::Whole } else { Form::Streamed };
            }
            match self.form {
                Form::Unknown => {}
                Form::Whole => self.whole(byte, found),
                Form::Streamed => self.stream(byte, found),
            }
        }
    }

    fn whole(&mut self, byte: u8, found: &mut impl FnMut(ToolBlock)) {
        match self.document.feed(byte) {
            Some(Part::Use { id, name, input }) => {
                let input = input.and_then(|input| serde_json::from_slice(&input).ok());
                found(ToolBlock::Use { id: id.clone(), name });
                found(ToolBlock::Input { id, input });
            }
            Some(Part::End(fields)) => self.is_message |= fields.kind.as_deref() == Some("message"),
            Some(Part::Result { .. }) | None => {}
        }
    }

    fn stream(&mut self, byte: u8, found: &mut impl FnMut(ToolBlock)) {
        match byte {
            b'\r' => {}
            // An empty line ends an event.
            b'\n' if self.line.is_empty() => self.document = Document { captures: true, ..Document::default() },
            b'\n' => self.line.clear(),
            _ if self.line == DATA => {
                if let Some(part) = self.document.feed(byte) {
                    self.event(part, found);
                }
            }
            // One byte more than the mark shows that this is another kind of line.
            _ if self.line.len() <= DATA.len() => self.line.push(byte),
            _ => {}
        }
    }
}

impl AnswerBlocks {
    fn event(&mut self, part: Part, found: &mut impl FnMut(ToolBlock)) {
        match part {
            Part::Use { id, name, .. } => {
                self.document.used = Some(id.clone());
                found(ToolBlock::Use { id, name });
            }
            Part::Result { .. } => {}
            Part::End(fields) => {
                let used = self.document.used.take();
                let Some(kind) = fields.kind else { return };
                self.is_message |= kind == "message_start";
                let Some(place) = fields.index else { return };
                match kind.as_str() {
                    "content_block_start" => {
                        if let Some(id) = used
                            && self.open.len() < OPEN
                        {
                            self.open.insert(place, Coming { id, text: Captured::default() });
                        }
                    }
                    "content_block_delta" => {
                        if let (Some(coming), Some(piece)) = (self.open.get_mut(&place), fields.piece) {
                            coming.text.extend(piece);
                        }
                    }
                    "content_block_stop" => {
                        if let Some(Coming { id, text }) = self.open.remove(&place) {
                            found(ToolBlock::Input { id, input: text.unwrapped() });
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Reads the blocks of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBlocks(Document);

impl RequestBlocks {
    /// Takes the next bytes, and gives what stands in the conversation's messages.
    pub(crate) fn feed(&mut self, bytes: &[u8], found: &mut impl FnMut(ToolBlock)) {
        for &byte in bytes {
            match self.0.feed(byte) {
                Some(Part::Use { id, name, .. }) => found(ToolBlock::Use { id, name }),
                Some(Part::Result { id, failed }) => found(ToolBlock::Result { id, failed }),
                Some(Part::End(_)) | None => {}
            }
        }
    }
}

/// How deep a block lies at most: document, `messages`, message, `content`, block.
const DEPTH: usize = 5;
/// The longest name or value that is kept, in bytes; no field of a block that counts here is longer.
const TOKEN: usize = 512;
/// The most that is kept of one call's arguments, in bytes as they are sent: what a hook may weigh, twice escaped, and more.
const INPUT: usize = 4 << 20;

/// What is told of in a document.
#[derive(Debug)]
enum Part {
    Use {
        id: String,
        name: String,
        input: Option<Vec<u8>>,
    },
    Result {
        id: String,
        failed: bool,
    },
    /// The document has ended.
    End(Fields),
}

/// Bytes of a document that are kept as they are; none if there were too many.
#[derive(Debug)]
struct Captured(Option<Vec<u8>>);

impl Default for Captured {
    fn default() -> Self {
        Captured(Some(Vec::new()))
    }
}

impl Captured {
    fn push(&mut self, byte: u8) {
        match &mut self.0 {
            Some(bytes) if bytes.len() < INPUT => bytes.push(byte),
            _ => self.0 = None,
        }
    }

    fn extend(&mut self, more: Captured) {
        match (&mut self.0, more.0) {
            (Some(bytes), Some(more)) if bytes.len() + more.len() <= INPUT => bytes.extend(more),
            _ => self.0 = None,
        }
    }

    /// The JSON of what is a JSON text's inside; of nothing, no arguments.
    fn unwrapped(self) -> Option<Value> {
        let text = [b"\"", &self.0?[..], b"\""].concat();
        let text: String = serde_json::from_slice(&text).ok()?;
        if text.is_empty() { Some(Value::Object(serde_json::Map::new())) } else { serde_json::from_str(&text).ok() }
    }
}

/// One JSON document. What is not JSON gives no blocks, or wrong ones, as it would for the agent.
#[derive(Debug, Default)]
struct Document {
    /// Whether arguments are kept.
    captures: bool,
    /// The arguments that are being read, and the level that they began on.
    input: Option<(usize, Captured)>,
    /// The piece of arguments, in a text, that is being read.
    piece: Option<Captured>,
    /// The call that this event of a stream has told of.
    used: Option<String>,
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
    index: Option<String>,
    is_error: bool,
    input: Option<Vec<u8>>,
    piece: Option<Captured>,
}

impl Document {
    fn feed(&mut self, byte: u8) -> Option<Part> {
        if let Some((_, input)) = &mut self.input {
            input.push(byte);
        }
        match (self.within, byte) {
            (Within::Text, b'"') => {
                self.within = Within::Nothing;
                if let Some(piece) = self.piece.take()
                    && let Some(level) = self.level()
                {
                    level.fields.piece = Some(piece);
                }
            }
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
                self.piece = self.is_piece().then(Captured::default);
            }
            (Within::Nothing, b'{' | b'[') => self.open(byte == b'['),
            (Within::Nothing, b'}' | b']') => return self.close(),
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
        None
    }

    fn keep(&mut self, byte: u8) {
        // One byte more than is allowed marks what was too long.
        if self.below == 0 && self.token.len() <= TOKEN {
            self.token.push(byte);
        }
        if let Some(piece) = &mut self.piece {
            piece.push(byte);
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
        if self.captures && self.input.is_none() && !is_list && self.is_input() {
            let mut input = Captured::default();
            input.push(b'{');
            self.input = Some((self.levels.len(), input));
        }
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
            "index" => level.fields.index = Some(value),
            "is_error" => level.fields.is_error = value == "true",
            _ => {}
        }
    }

    fn close(&mut self) -> Option<Part> {
        if self.below > 0 {
            self.below -= 1;
            return None;
        }
        self.value();
        let is_block = self.is_block();
        let level = self.levels.pop()?;
        if let Some((_, input)) = self.input.take_if(|(began, _)| *began == self.levels.len())
            && let Some(block) = self.levels.last_mut()
        {
            block.fields.input = input.0;
        }
        if is_block {
            return level.fields.part();
        }
        match self.levels.last_mut() {
            None => (!level.is_list).then_some(Part::End(level.fields)),
            Some(above) => {
                // What a delta holds counts for its event.
                if let Some(piece) = level.fields.piece
                    && above.name.as_deref() == Some("delta")
                    && self.levels.len() == 1
                {
                    self.levels[0].fields.piece = Some(piece);
                }
                None
            }
        }
    }

    /// Whether the text that begins is a piece of a call's arguments.
    fn is_piece(&self) -> bool {
        let [event, delta] = &self.levels[..] else { return false };
        self.captures
            && self.below == 0
            && event.name.as_deref() == Some("delta")
            && delta.name.as_deref() == Some("partial_json")
    }

    /// Whether the object that begins is a call's arguments.
    fn is_input(&self) -> bool {
        // What lies deeper has no level whose end would be noticed.
        self.below == 0
            && self.levels.len() < DEPTH
            && self.is_block()
            && self.levels.last().is_some_and(|block| block.name.as_deref() == Some("input"))
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
    fn part(self) -> Option<Part> {
        match self.kind.as_deref()? {
            "tool_use" => Some(Part::Use { id: self.id?, name: self.name?, input: self.input }),
            "tool_result" => Some(Part::Result { id: self.call?, failed: self.is_error }),
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

    fn with(id: &str, input: Value) -> ToolBlock {
        ToolBlock::Input { id: id.to_owned(), input: Some(input) }
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
        let expected = [
            called("toolu_1", "Bash"),
            with("toolu_1", decoy()),
            called("toolu_2", "Read"),
            with("toolu_2", json!({ "content": [decoy()] })),
        ];
        assert_eq!(of_answer(&answer.to_string()), expected);
        assert_eq!(of_answer(&serde_json::to_string_pretty(&answer).unwrap()), expected);
        let mut reader = AnswerBlocks::default();
        reader.feed(answer.to_string().as_bytes(), &mut |_| ());
        assert!(reader.is_message());
    }

    #[test]
    fn the_calls_of_a_streamed_answer_are_found_as_they_start() {
        let start = json!({ "type": "content_block_start", "index": 1,
            "content_block": { "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} } });
        let arguments = decoy().to_string();
        let delta = |piece: &str| {
            json!({ "type": "content_block_delta", "index": 1,
            "delta": { "type": "input_json_delta", "partial_json": piece } })
        };
        let (delta, rest) = (delta(&arguments[..30]), delta(&arguments[30..]));
        let stop = json!({ "type": "content_block_stop", "index": 1 });
        for end in ["\n", "\r\n"] {
            let stream = format!(
                ": hello{end}{end}event: ping{end}data: {{\"type\":\"ping\"}}{end}{end}data:{start}{end}{end}\
                 event: content_block_delta{end}data: {delta}{end}{end}data: {rest}{end}{end}data: {stop}{end}{end}\
                 data: {{\"broken{end}{end}data: {second}{end}{end}data: {{\"type\":\"message_start\"}}{end}{end}data: {stop}{end}{end}",
                second = start.to_string().replace("_1", "_2")
            );
            let expected = [
                called("toolu_1", "Bash"),
                with("toolu_1", decoy()),
                called("toolu_2", "Bash"),
                with("toolu_2", json!({})),
            ];
            assert_eq!(of_answer(&stream), expected, "{end:?}");
            let mut reader = AnswerBlocks::default();
            reader.feed(stream.as_bytes(), &mut |_| ());
            assert!(reader.is_message());
            reader = AnswerBlocks::default();
            reader.feed(delta.to_string().as_bytes(), &mut |_| ());
            assert!(!reader.is_message());
        }
    }

    #[test]
    fn arguments_are_read_behind_a_conversation_that_an_answer_quotes() {
        let call = r#"{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "ls" } }"#;
        let answer = format!(r#"{{ "messages": [{{ "content": [{call}] }}], "content": [{call}] }}"#);
        let blocks = of_answer(&answer);
        assert_eq!(blocks.last(), Some(&with("toolu_1", json!({ "command": "ls" }))), "{blocks:?}");
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
        assert!(endless.bytes().all(|byte| document.feed(byte).is_none()));
        assert!(document.levels.len() <= DEPTH && document.token.capacity() <= 2 * TOKEN);
        let mut document = Document { captures: true, ..Document::default() };
        let endless = format!("{{\"content\":[{{\"input\":{{\"a\":\"{}", "x".repeat(INPUT + 1));
        assert!(endless.bytes().all(|byte| document.feed(byte).is_none()));
        assert!(matches!(document.input, Some((_, Captured(None)))));
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
            prop_assert_eq!(blocks, [called(&id, "\"Bäsh\\"), with(&id, decoy())]);
        }
    }
}
