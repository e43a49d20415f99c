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
mod tests;
