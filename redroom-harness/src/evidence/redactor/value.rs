//! Held values taken out of typed entries, failing closed: what cannot be taken out alone takes its entry with it.
//!
//! An entry is redacted as JSON and read back. Where its type insists on a field as it was, only that field may stay, and
//! only if it is a number or a field's name. Otherwise nothing stays but what nobody else could have written.

use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redroom_sidecar::wire::{Hit, ModelRequest, ModelTarget, Octets};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Held, REDACTED};
use crate::agent::Turn;
use crate::error::Error;
use crate::evidence::{Change, RecordedToolCall};
use crate::model::Ask;

/// What a withheld entry says of itself.
const WITHHELD: &str = "[redacted]: it held a value that redroom holds where nothing else can stand";
/// How often an entry is read back before it is withheld.
const ATTEMPTS: usize = 256;

/// An entry of the evidence.
pub(crate) trait Withhold: Serialize + DeserializeOwned {
    /// What is left where held values cannot be taken out: numbers, kinds, and which planted secrets it proves.
    fn withheld(&self) -> Self;
}

/// The value without what is held.
pub(super) fn redacted<T: Withhold>(held: &Held, value: T) -> T {
    let Ok(json) = serde_json::to_value(&value) else { return value.withheld() };
    let mut places = Places::default();
    held.json(&mut json.clone(), &mut places);
    if places.kinds.is_empty() {
        return value;
    }
    Settling { held, json, spared: vec![true; places.kinds.len()], attempts: ATTEMPTS, best: None }
        .settle(&places.kinds)
        .unwrap_or_else(|| value.withheld())
}

/// What stands in a place.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Number,
    Key,
}

/// The places of a JSON value where something held stands, in the order in which they are met.
#[derive(Default)]
struct Places {
    kinds: Vec<Kind>,
    /// Places that are left as they are.
    spared: Vec<bool>,
}

impl Places {
    /// Notes a place, and says whether it is to be redacted.
    fn meet(&mut self, kind: Kind) -> bool {
        self.kinds.push(kind);
        !self.spared.get(self.kinds.len() - 1).copied().unwrap_or(false)
    }
}

/// Finds out which places a type lets go of.
struct Settling<'a, T> {
    held: &'a Held,
    json: Value,
    spared: Vec<bool>,
    attempts: usize,
    best: Option<T>,
}

impl<T: Withhold> Settling<'_, T> {
    fn settle(mut self, kinds: &[Kind]) -> Option<T> {
        self.redact(0..kinds.len());
        let text_stays = self.spared.iter().zip(kinds).any(|(spared, kind)| *spared && *kind == Kind::Text);
        self.best.filter(|_| !text_stays)
    }

    /// Redacts these places beside those that are already, or as many of them as the type allows.
    fn redact(&mut self, places: std::ops::Range<usize>) {
        if self.attempts == 0 {
            return;
        }
        self.attempts -= 1;
        self.spared[places.clone()].fill(false);
        if let Some(value) = self.read_back() {
            self.best = Some(value);
            return;
        }
        self.spared[places.clone()].fill(true);
        if places.len() > 1 {
            let middle = places.start.midpoint(places.end);
            self.redact(places.start..middle);
            self.redact(middle..places.end);
        }
    }

    /// The value, if its type can hold all that is left: what reads back as less has lost something.
    fn read_back(&self) -> Option<T> {
        let mut json = self.json.clone();
        self.held.json(&mut json, &mut Places { kinds: Vec::new(), spared: self.spared.clone() });
        let value: T = serde_json::from_value(json.clone()).ok()?;
        (serde_json::to_value(&value).ok()? == json).then_some(value)
    }
}

impl Held {
    /// Redacts JSON in every text, number and key.
    pub(super) fn everything(&self, value: &mut Value) {
        self.json(value, &mut Places::default());
    }

    fn json(&self, value: &mut Value, places: &mut Places) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if self.is_in(number.to_string().as_bytes()) && places.meet(Kind::Number) {
                    *value = REDACTED.into();
                }
            }
            Value::String(text) => {
                if let Some(redacted) = self.text(text)
                    && places.meet(Kind::Text)
                {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item, places)),
            Value::Object(fields) => {
                // Bytes that are no text stand in base64; cut in the middle they would be nothing at all.
                if let (1, Some(Value::String(text))) = (fields.len(), fields.get("base64"))
                    && let Ok(bytes) = STANDARD.decode(text)
                    && let Some(redacted) = self.bytes(&bytes)
                {
                    if places.meet(Kind::Text) {
                        *value = String::from_utf8_lossy(&redacted).into();
                    }
                    return;
                }
                fields.values_mut().for_each(|field| self.json(field, places));
                if fields.keys().any(|key| self.is_in(key.as_bytes())) {
                    for (key, field) in std::mem::take(fields) {
                        let mut key = match self.text(&key) {
                            Some(redacted) if places.meet(Kind::Key) => redacted,
                            _ => key,
                        };
                        // Keys that were told apart by what is held are still several.
                        while fields.contains_key(&key) {
                            key.push('\'');
                        }
                        fields.insert(key, field);
                    }
                }
            }
        }
    }
}

// === what is left of each kind of entry ===

impl Withhold for Hit {
    fn withheld(&self) -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut hit = Hit::new(self.id, self.at_ms, self.protocol, REDACTED.to_owned(), nowhere, self.blocked);
        hit.body_bytes = self.body_bytes;
        hit.truncated = true;
        hit.complete = self.complete;
        hit.status = self.status;
        hit.fault = Some(WITHHELD.to_owned());
        hit.secrets.clone_from(&self.secrets);
        hit.unsearched.clone_from(&self.unsearched);
        hit
    }
}

impl Withhold for ModelRequest {
    fn withheld(&self) -> Self {
        let target = ModelTarget { method: REDACTED.to_owned(), path: WITHHELD.to_owned() };
        let mut request = ModelRequest::new(self.id, self.at_ms, target);
        request.request_bytes = self.request_bytes;
        request.complete = self.complete;
        request.refusal = self.refusal;
        request.status = self.status;
        request.response_bytes = self.response_bytes;
        request.duration_ms = self.duration_ms;
        request.secrets.clone_from(&self.secrets);
        request.unsearched.clone_from(&self.unsearched);
        request
    }
}

impl Withhold for RecordedToolCall {
    fn withheld(&self) -> Self {
        RecordedToolCall {
            id: self.id,
            at_ms: self.at_ms,
            source: self.source,
            tool: REDACTED.to_owned(),
            input: Value::Null,
            tool_use_id: None,
            agent_id: None,
            mcp_server: None,
            claim: self.claim,
            ran: self.ran,
            decision: self.decision,
            reason: None,
            updated_input: None,
            ends_turn: self.ends_turn,
            ignored: None,
            checked: self.checked,
            latency_ms: self.latency_ms,
            error: self.error.as_ref().map(Error::withheld),
            payload: WITHHELD.into(),
            truncated: self.truncated,
            reported: self.reported,
            secrets: self.secrets.clone(),
        }
    }
}

impl Withhold for Ask {
    fn withheld(&self) -> Self {
        Ask::new(self.kind, REDACTED)
    }
}

impl Withhold for Error {
    fn withheld(&self) -> Self {
        Error::new(self.by(), "redacted", WITHHELD)
    }
}

impl Withhold for Turn {
    fn withheld(&self) -> Self {
        Turn {
            index: self.index,
            message: REDACTED.to_owned(),
            final_text: WITHHELD.to_owned(),
            events: Vec::new(),
            events_dropped: self.events_dropped + self.events.len() as u64,
            lines_unread: self.lines_unread,
            cost_usd: self.cost_usd,
            usage: None,
            stop_reason: None,
            limit_hit: self.limit_hit,
            is_error: self.is_error,
            duration: self.duration,
            exit_code: self.exit_code,
            stderr: String::new(),
        }
    }
}

impl Withhold for Change {
    fn withheld(&self) -> Self {
        Change {
            path: WITHHELD.into(),
            kind: self.kind,
            before: None,
            after: None,
            in_workspace: self.in_workspace,
            secrets: self.secrets.clone(),
            unsearched: self.unsearched.clone(),
        }
    }
}

impl Withhold for Octets {
    fn withheld(&self) -> Self {
        WITHHELD.into()
    }
}
