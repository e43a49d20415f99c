//! Every key that `redroom.toml` may have: its table, what its value may be, and the code of the error where it is not.
//!
//! A list and nothing else. The reader refuses what is not in it; the schema for editors and the page about settings are held
//! against it.

use std::ops::RangeInclusive;

use crate::agent::ClaudeCode;
use crate::limits;
use crate::model::ModelProxy;
use crate::slot::MAX_PARALLEL;

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// The table that it stands in, of the file itself or of a profile; empty for none.
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The code of the error for a value that is of its kind and cannot be.
    pub(super) code: &'static str,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A whole number of this range.
    Whole(u64, u64),
    /// A number of this range, whole or not.
    Number(f64, f64),
    Truth,
    /// A text, which whoever uses it checks.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A table of texts: headers by name.
    Headers,
}

/// All of them, in the order in which the page tells them.
pub(super) const KEYS: [Key; 23] = [
    key("", "parallel", Kind::Whole(1, MAX_PARALLEL as u64), "invalid_parallel"),
    key("", "backend", Kind::OneOf(&["auto", "docker", "jail"]), "invalid_backend"),
    key("", "fake_domain", Kind::Text, "invalid_fake_domain"),
    key("", "catch_all", Kind::Truth, BROKEN),
    key("", "allow_provider_tools", Kind::Texts, "invalid_provider_tool"),
    key("agent", "name", Kind::OneOf(&["claude-code", "shell"]), BROKEN),
    key("agent", "version", Kind::Text, "invalid_agent"),
    key("agent", "model", Kind::Text, "invalid_agent"),
    key("agent", "max_turns", Kind::Whole(1, u32::MAX as u64), "invalid_agent"),
    key("agent", "max_budget_usd", number(&ClaudeCode::BUDGET), "invalid_agent"),
    key("limits", "cpus", number(&limits::CPUS), "invalid_limits"),
    key("limits", "memory", Kind::Text, "invalid_limits"),
    key("limits", "pids", whole(&limits::PIDS), "invalid_limits"),
    key("limits", "file_size", Kind::Text, "invalid_limits"),
    key("limits", "open_files", whole(&limits::OPEN_FILES), "invalid_limits"),
    key("limits", "turn_timeout", whole(&limits::TURN_SECONDS), "invalid_limits"),
    key("model_proxy", "base_url", Kind::Text, "invalid_model_proxy"),
    key("model_proxy", "headers", Kind::Headers, "invalid_model_proxy"),
    key("model_proxy", "ca", Kind::Text, "invalid_model_proxy"),
    key("model_proxy", "silence", whole(&ModelProxy::SILENCE_SECONDS), BROKEN),
    key("tool_call_check", "url", Kind::Text, "invalid_tool_call_check"),
    key("tool_call_check", "headers", Kind::Headers, "invalid_tool_call_check"),
    key("report", "junit", Kind::Text, BROKEN),
];

/// The code of the error of a file that is wrong in itself.
pub(super) const BROKEN: &str = "invalid_config";
/// The table that holds profiles.
pub(super) const PROFILE: &str = "profile";

/// The keys of a table.
pub(super) fn of_table(table: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.table == table)
}

/// The tables, each once.
pub(super) fn tables() -> impl Iterator<Item = &'static str> {
    let first = |(at, key): (usize, &'static Key)| {
        let is_new = !key.table.is_empty() && KEYS[..at].iter().all(|before| before.table != key.table);
        is_new.then_some(key.table)
    };
    KEYS.iter().enumerate().filter_map(first)
}

const fn key(table: &'static str, name: &'static str, kind: Kind, code: &'static str) -> Key {
    Key { table, name, kind, code }
}

const fn whole(range: &RangeInclusive<u64>) -> Kind {
    Kind::Whole(*range.start(), *range.end())
}

const fn number(range: &RangeInclusive<f64>) -> Kind {
    Kind::Number(*range.start(), *range.end())
}
