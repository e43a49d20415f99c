//! A request's body, walked once: no tree is built, whatever comes.
//!
//! Where a body's words stand decides what they mean, in the Messages format and in those of OpenAI alike; what is in
//! somebody's arguments, results or schemas means nothing. Names are compared as the most lenient readers do.

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::policy::undated;
use super::{AskKind, Asks};

/// The most names that an object may have.
const MOST_NAMES: usize = 10_000;
/// The longest text that is looked at, in characters.
const LONGEST_TEXT: usize = 1024;

/// Fields of a tool that make it the provider's whatever its type says: Gemini's form, which gateways take in other formats too.
const PROVIDER_FIELDS: [(&str, &str); 9] = [
    ("googlesearch", "google_search"),
    ("googlesearchretrieval", "google_search_retrieval"),
    ("googlemaps", "google_maps"),
    ("enterprisewebsearch", "enterprise_web_search"),
    ("urlcontext", "url_context"),
    ("codeexecution", "code_execution"),
    ("computeruse", "computer_use"),
    ("filesearch", "file_search"),
    ("retrieval", "retrieval"),
];
/// Settings of a request that make the provider, or a gateway, search and connect.
const PROVIDER_SETTINGS: [(&str, &str); 5] = [
    ("websearchoptions", "web_search_options"),
    ("plugins", "plugins"),
    ("searchparameters", "search_parameters"),
    ("enablesearch", "enable_search"),
    ("datasources", "data_sources"),
];
/// Settings with which a gateway is told to ask somebody else than it was set up for.
const OTHER_HOSTS: [&str; 3] = ["apibase", "baseurl", "userconfig"];

/// The format of a request, by its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Messages,
    Chat,
    Responses,
    /// An endpoint that nobody here knows: what is the agent's own in any format is its own.
    Unknown,
}

impl Wire {
    fn of(path: &str) -> Self {
        let path = path.trim_end_matches('/');
        if path.ends_with("/chat/completions") {
            Wire::Chat
        } else if path.ends_with("/responses") {
            Wire::Responses
        } else if ["/messages", "/messages/count_tokens", "/messages/batches"].iter().any(|end| path.ends_with(end)) {
            Wire::Messages
        } else {
            Wire::Unknown
        }
    }

    /// Whether a tool of this type is run by whoever asks. What nobody here knows is not.
    fn runs_here(self, kind: &str) -> bool {
        let messages = || kind == "custom" || matches!(undated(kind), Some("bash" | "text_editor" | "memory"));
        let chat = || matches!(kind, "function" | "custom");
        // A namespace holds tools, and they are looked at.
        let responses = || chat() || matches!(kind, "local_shell" | "apply_patch" | "namespace");
        match self {
            Wire::Messages => messages(),
            Wire::Chat => chat(),
            Wire::Responses => responses(),
            Wire::Unknown => messages() || responses(),
        }
    }
}

/// Adds what a body asks that was sent to `path` (without query).
///
/// # Errors
///
/// Why it cannot be read as every reader would, in words that go on a sentence about the body.
pub(crate) fn of_body(path: &str, body: &[u8], asks: &mut Asks) -> Result<(), String> {
    let end = |name: &str| path.trim_end_matches('/').ends_with(name);
    if end("/batches") {
        asks.add(AskKind::Batch, "batches");
    }
    if end("/files") || end("/uploads") {
        asks.add(AskKind::Files, "files");
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let walk = Walk { wire: Wire::of(path), place: Place::Root, asks };
    let root = walk.deserialize(&mut json).and_then(|root| json.end().map(|()| root));
    match root {
        Ok(Seen::Object) => Ok(()),
        Ok(_) => Err("is no JSON object".to_owned()),
        Err(error) => Err(format!("is not JSON that can be read in one way only ({error})")),
    }
}

/// Where in a request something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The request itself.
    Root,
    /// The tools that the model may call.
    Tools,
    /// Servers that the provider is to connect to.
    Servers,
    /// A batch's requests.
    Requests,
    /// A message, a part of one, or a list of those.
    Conversation,
    /// Where a part of a message has its content from.
    Source,
    /// An address, or an object with one.
    Address,
    /// A file of a message.
    File,
    /// The name of the model that is to answer, or a list of them.
    Model,
    /// Arguments, results, schemas, settings.
    Elsewhere,
}

impl Place {
    /// Where what stands under a (folded) name is.
    fn below(self, name: &str) -> Self {
        match (self, name) {
            // What some gateways mix into the request itself.
            (Place::Root, "extrabody" | "fallbacks") => Place::Root,
            (Place::Root, "model" | "models") => Place::Model,
            (Place::Root | Place::Tools | Place::Conversation, "tools") => Place::Tools,
            (Place::Root, "mcpservers") => Place::Servers,
            (Place::Root, "requests") => Place::Requests,
            (Place::Root, "messages" | "system" | "input" | "instructions" | "contents") => Place::Conversation,
            (Place::Requests, "params" | "body") => Place::Root,
            (Place::Conversation, "content" | "output" | "parts") => Place::Conversation,
            (Place::Source, "content") => Place::Conversation,
            (Place::Conversation, "source") => Place::Source,
            (Place::Conversation, "imageurl" | "videourl" | "audiourl" | "fileurl" | "documenturl" | "fileuri") => {
                Place::Address
            }
            (Place::Conversation, "file" | "filedata") => Place::File,
            _ => Place::Elsewhere,
        }
    }
}

/// What a value was, as far as it can matter.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    /// Null, false, an empty list: as if it were not there.
    Nothing,
    Text(String),
    Object,
    Something,
}

impl Seen {
    fn text(&self) -> Option<&str> {
        match self {
            Seen::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// What stands under the names of an object that matter where it stands. A name can be there more than once, in other letters.
#[derive(Default)]
struct Fields(Vec<(String, Seen)>);

impl Fields {
    /// The names that matter in any place, beside those of the tables above.
    const NAMES: [&str; 17] = [
        "type",
        "id",
        "role",
        "name",
        "function",
        "functiondeclarations",
        "url",
        "fileid",
        "fileurl",
        "fileuri",
        "mcpservers",
        "container",
        "prompt",
        "previousresponseid",
        "conversation",
        "cachedcontent",
        "requests",
    ];

    fn matters(name: &str) -> bool {
        let told = |(known, _): &(&str, &str)| *known == name;
        Self::NAMES.contains(&name)
            || name == "apikey"
            || OTHER_HOSTS.contains(&name)
            || PROVIDER_FIELDS.iter().any(told)
            || PROVIDER_SETTINGS.iter().any(told)
    }

    fn note(&mut self, name: String, seen: Seen) {
        if Self::matters(&name) && seen != Seen::Nothing {
            self.0.push((name, seen));
        }
    }

    fn all(&self, wanted: &str) -> impl Iterator<Item = &Seen> {
        self.0.iter().filter(move |(name, _)| name == wanted).map(|(_, seen)| seen)
    }

    fn text(&self, wanted: &str) -> &str {
        self.all(wanted).find_map(Seen::text).unwrap_or_default()
    }

    fn has(&self, wanted: &str) -> bool {
        self.all(wanted).next().is_some()
    }
}

/// A value under way.
struct Walk<'a> {
    wire: Wire,
    place: Place,
    asks: &'a mut Asks,
}

impl Walk<'_> {
    /// What an object asks, now that all of it is known.
    fn judge(self, fields: &Fields) {
        let Walk { wire, place, asks } = self;
        match place {
            Place::Root => of_root(fields, asks),
            Place::Tools => of_tool(wire, fields, asks),
            // One without an address has the list that it stands in tell of it.
            Place::Servers => {
                fields.all("url").for_each(|url| asks.add(AskKind::McpServers, url.text().unwrap_or("?")))
            }
            Place::Conversation => {
                if fields.has("fileid") {
                    asks.add(AskKind::FileSource, fields.text("fileid"));
                }
                if fields.all("type").any(|kind| kind.text() == Some("item_reference")) {
                    asks.add(AskKind::StoredState, "item_reference");
                }
                // A reference's type may be left out: all else that has an id says what it is.
                if fields.has("id") && !fields.has("type") && !fields.has("role") {
                    asks.add(AskKind::StoredState, "item_reference");
                }
            }
            Place::Source => of_source(fields, asks),
            Place::Address => of_address(fields.text("url"), asks),
            Place::File => {
                if fields.has("fileid") {
                    asks.add(AskKind::FileSource, fields.text("fileid"));
                }
                for name in ["fileurl", "fileuri", "url"] {
                    fields.all(name).for_each(|url| of_address(url.text().unwrap_or("?"), asks));
                }
            }
            Place::Requests | Place::Model | Place::Elsewhere => {}
        }
    }

    /// What a text asks by itself, where an object could stand.
    fn judge_text(self, text: &str) {
        match self.place {
            Place::Tools => self.asks.add(AskKind::ProviderTool, text),
            Place::Servers => self.asks.add(AskKind::McpServers, text),
            Place::Address => of_address(text, self.asks),
            // OpenRouter's way to have any model search.
            Place::Model if text.ends_with(":online") => self.asks.add(AskKind::ProviderTool, "online"),
            _ => {}
        }
    }
}

fn of_tool(wire: Wire, fields: &Fields, asks: &mut Asks) {
    let mut is_told = false;
    for kind in fields.all("type") {
        is_told = true;
        match kind.text() {
            Some(kind) if wire.runs_here(kind) => {}
            kind => asks.add(AskKind::ProviderTool, kind.unwrap_or("?")),
        }
    }
    for (name, told) in PROVIDER_FIELDS {
        if fields.has(name) {
            is_told = true;
            asks.add(AskKind::ProviderTool, told);
        }
    }
    // A tool of the agent's own has a name, or holds what has one.
    if !is_told && !["name", "function", "functiondeclarations"].iter().any(|name| fields.has(name)) {
        asks.add(AskKind::ProviderTool, "?");
    }
}

fn of_root(fields: &Fields, asks: &mut Asks) {
    if fields.has("mcpservers") {
        asks.add(AskKind::McpServers, "mcp_servers");
    }
    if fields.has("container") {
        asks.add(AskKind::Container, fields.text("container"));
    }
    if fields.has("requests") {
        asks.add(AskKind::Batch, "requests");
    }
    for name in OTHER_HOSTS {
        fields.all(name).for_each(|host| asks.add(AskKind::Host, host.text().unwrap_or("?")));
    }
    if fields.has("apikey") {
        asks.add(AskKind::Credentials, "api_key");
    }
    for (name, told) in PROVIDER_SETTINGS {
        if fields.has(name) {
            asks.add(AskKind::ProviderTool, told);
        }
    }
    for (name, told) in [
        ("previousresponseid", "previous_response_id"),
        ("conversation", "conversation"),
        ("cachedcontent", "cached_content"),
    ] {
        if fields.has(name) {
            asks.add(AskKind::StoredState, told);
        }
    }
    // A text is a prompt; an object names one that is kept, with tools of its own.
    if fields.all("prompt").any(|prompt| *prompt == Seen::Object) {
        asks.add(AskKind::StoredState, "prompt");
    }
}

/// What is in the request needs nobody; what names another place does, whatever it calls itself.
fn of_source(fields: &Fields, asks: &mut Asks) {
    if fields.has("fileid") || fields.all("type").any(|kind| kind.text() == Some("file")) {
        asks.add(AskKind::FileSource, fields.text("fileid"));
    }
    fields.all("url").for_each(|url| of_address(url.text().unwrap_or("?"), asks));
    for kind in fields.all("type") {
        match kind.text() {
            Some("base64" | "text" | "content" | "file" | "url") => {}
            kind => asks.add(AskKind::UrlSource, kind.unwrap_or("?")),
        }
    }
}

fn of_address(address: &str, asks: &mut Asks) {
    let inline = address.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    if !inline && !address.is_empty() {
        asks.add(AskKind::UrlSource, address);
    }
}

/// A name as the most lenient readers compare it: in any letter case, with or without the signs between its words.
fn folded(name: &str) -> String {
    let fold = |letter: char| match letter {
        '_' | '-' => None,
        // What Go's reader takes for the letters of English.
        '\u{17f}' => Some('s'),
        '\u{212a}' => Some('k'),
        letter => Some(letter.to_ascii_lowercase()),
    };
    name.chars().filter_map(fold).collect()
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Seen;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Seen, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Seen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Seen, E> {
        Ok(Seen::Nothing)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Seen, E> {
        Ok(if value { Seen::Something } else { Seen::Nothing })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Seen, E> {
        Ok(Seen::Something)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Seen, E> {
        Ok(Seen::Something)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Seen, E> {
        Ok(Seen::Something)
    }

    fn visit_str<E>(self, text: &str) -> Result<Seen, E> {
        // Longer ones are told by their beginning; none of the words that are known is as long.
        let text = text.char_indices().nth(LONGEST_TEXT).map_or(text, |(end, _)| &text[..end]);
        self.judge_text(text);
        Ok(Seen::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Seen, A::Error> {
        let mut seen = Seen::Nothing;
        while let Some(item) =
            items.next_element_seed(Walk { wire: self.wire, place: self.place, asks: &mut *self.asks })?
        {
            if item != Seen::Nothing || seen != Seen::Nothing {
                seen = Seen::Something;
            }
        }
        Ok(seen)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        let mut names = HashSet::new();
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            let folded = folded(&name);
            let below = self.place.below(&folded);
            let seen = map.next_value_seed(Walk { wire: self.wire, place: below, asks: &mut *self.asks })?;
            fields.note(folded, seen);
            if !names.insert(name) {
                return Err(de::Error::custom("a name stands twice in one object"));
            }
            if names.len() > MOST_NAMES {
                return Err(de::Error::custom("an object has more names than redroom reads"));
            }
        }
        self.judge(&fields);
        Ok(Seen::Object)
    }
}
