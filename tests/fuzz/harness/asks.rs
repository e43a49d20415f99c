//! A model request's body: read in one way or refused, and what it asks of the provider is told within bounds.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::draw::Draw;
use crate::model::{AskKind, Asks, of_body};

const PATHS: [&str; 4] = ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/elsewhere"];

pub(super) fn run(data: &[u8]) {
    let mut draw = Draw::new(data);
    let path = PATHS[draw.below(PATHS.len())];
    let body = draw.rest();
    let mut asks = Asks::default();
    let taken = of_body(path, body, &mut asks).is_ok();
    assert!(asks.iter().count() <= 100 && asks.iter().all(|ask| ask.name.chars().count() <= 200));
    if !taken {
        return;
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    Once.deserialize(&mut reader).and_then(|()| reader.end()).expect("what was taken can be read in one way only");
    let body: Value = serde_json::from_slice(body).unwrap();
    // Whatever is called a tool of a provider's, at the place where tools are, as lenient readers read names.
    let tools = called(&body, "tools").filter_map(Value::as_array).flatten();
    let kinds = tools
        .flat_map(|tool| called(tool, "type"))
        .filter_map(Value::as_str)
        .filter(|kind| kind.starts_with("web_search_2025"));
    for kind in kinds.take(50) {
        let name: String = kind.chars().take(200).collect();
        let known = |ask: &crate::model::Ask| ask.kind == AskKind::ProviderTool && ask.name == name;
        assert!(asks.iter().any(known) || asks.is_overflown(), "{name:?} is not among {asks:?}");
    }
}

/// What stands under a name, in any letters and with or without signs between its words.
fn called<'a>(value: &'a Value, name: &'static str) -> impl Iterator<Item = &'a Value> {
    let folded = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let fields = value.as_object().into_iter().flatten();
    fields.filter(move |(called, _)| folded(called) == name).map(|(_, value)| value)
}

/// JSON in which no object has a name twice.
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Once)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut names = std::collections::HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("twice"));
            }
            fields.next_value_seed(Once)?;
        }
        Ok(())
    }
}
