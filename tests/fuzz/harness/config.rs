//! A settings file: whatever stands in it, it is taken within all limits, or refused in words that do not repeat its values.

use std::path::Path;

use super::draw::Draw;
use crate::model::Player;
use crate::settings::{ConfigFile, Profile, Settings};
use crate::suite::Suite;

/// What may be a key, and has no place in a log.
const VALUE: &str = "sk-held-4711";

pub(super) fn run(data: &[u8]) {
    any_text(&String::from_utf8_lossy(data));
    any_text(&table(&mut Draw::new(data)));
}

fn any_text(text: &str) {
    read(text, None);
    read(text, Some(&Profile { name: "ci".to_owned(), chosen_by: "REDROOM_PROFILE" }));
}

fn read(text: &str, profile: Option<&Profile>) {
    let file = match ConfigFile::parse(Path::new("place/redroom.toml"), text, profile) {
        Ok(file) => file,
        Err(error) if error.code() == "unknown_profile" => {
            assert!(profile.is_some() && !text.contains("[profile.ci]\n"), "{error} of {text}");
            return;
        }
        Err(error) => {
            assert!(error.code().starts_with("invalid_"), "{error}");
            let told = error.detail();
            assert!(told.starts_with("place/redroom.toml"), "{told}");
            // A name that nobody knows is repeated: that is how a slip is found.
            let about_names =
                told.contains("unknown key") || told.contains("unknown field") || told.contains("duplicate");
            // So is the beginning of what has to be one of a few words, or a domain.
            let about_words = ["`backend`", "`agent.name`", "fake_domain"].iter().any(|key| told.contains(key));
            assert!(about_names || about_words || !told.contains(VALUE), "{told} of {text}");
            assert!(told.chars().count() < 1000, "{} characters: {told}", told.chars().count());
            return;
        }
    };
    if let Ok(settings) = Settings::join(Default::default(), Suite::new(), file) {
        let limits = settings.limits.check().unwrap();
        assert!(limits.sandbox.memory >= 32 << 20 && limits.sandbox.file_size >= 1 << 20);
        assert!((0.01..=1024.0).contains(&limits.sandbox.cpus) && limits.turn_timeout.as_secs() <= 24 * 3600);
        assert!((1..=1024).contains(&settings.parallel));
        let domain = &settings.fake_domain;
        assert!(
            domain.contains('.') && domain.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase())
        );
        if let Player::Proxy(proxy) = &settings.player {
            assert!(!format!("{proxy:?}").contains(VALUE), "{proxy:?}");
        }
    }
}

/// A file that is nearly right.
fn table(draw: &mut Draw<'_>) -> String {
    const KEYS: [&str; 20] = [
        "parallel",
        "backend",
        "fake_domain",
        "catch_all",
        "allow_provider_tools",
        "name",
        "version",
        "model",
        "max_turns",
        "base_url",
        "headers",
        "silence",
        "url",
        "cpus",
        "memory",
        "pids",
        "file_size",
        "open_files",
        "turn_timeout",
        "ca",
    ];
    const TABLES: [&str; 9] = [
        "agent",
        "limits",
        "model_proxy",
        "tool_call_check",
        "report",
        "nothing",
        "profile.ci",
        "profile.ci.limits",
        "profile.other.model_proxy",
    ];
    let mut text = String::new();
    while !draw.is_empty() && text.len() < 2000 {
        match draw.below(6) {
            0 => text.push_str(&format!("[{}]\n", TABLES[draw.below(TABLES.len())])),
            _ => {
                let key = KEYS[draw.below(KEYS.len())];
                let value = match draw.below(12) {
                    0 => format!("\"{VALUE}\""),
                    1 => format!("{{ x-api-key = \"{VALUE}\" }}"),
                    2 => format!("[\"{VALUE}\", {VALUE}]"),
                    3 => format!("'{VALUE}, expected {VALUE}'"),
                    4 => VALUE.to_owned(),
                    5 => format!("\"{}g\"", draw.byte()),
                    6 => format!("{}", i64::from(draw.byte()) * i64::from(draw.byte()) - 1000),
                    7 => "\"claude-code\"".to_owned(),
                    8 => "\"http://127.0.0.1:1\"".to_owned(),
                    9 => "true".to_owned(),
                    10 => "1e999".to_owned(),
                    _ => format!("\"{}\"", String::from_utf8_lossy(draw.take(8)).escape_default()),
                };
                text.push_str(&format!("{key} = {value}\n"));
            }
        }
    }
    text
}
