//! Texts of a run without what is another at every run, and without the values of its secrets.

use std::sync::Arc;

use redroom_sidecar::search::{Match, SecretSet, redact_secrets};
use redroom_sidecar::wire::Octets;
use serde_json::Value;

use crate::evidence::RunResult;

/// Names and values.
type Values = Arc<[(String, Vec<u8>)]>;

/// What was planted in a run, to be taken out of its snapshot. Not stored; two results do not differ by it.
#[derive(Clone, Default)]
pub(crate) struct KnownSecrets(Option<Values>);

impl KnownSecrets {
    /// Names and values, the longest first, for one may hold another.
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>) -> Self {
        let mut secrets: Vec<_> = secrets.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        secrets.sort_by_key(|(name, value)| (std::cmp::Reverse(value.len()), name.clone()));
        KnownSecrets(Some(secrets.into()))
    }
}

impl PartialEq for KnownSecrets {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.iter().flat_map(|secrets| secrets.iter()).map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// Stands for a text of a result whose secrets are not known any more.
const UNKNOWN: &str = "[text]";
/// Stands for a body that is no text.
const BYTES: &str = "[bytes]";
const ID: &str = "[id]";
const TIME: &str = "[time]";
/// Ports from here on are given by the system.
const GIVEN_PORTS: u32 = 32768;
/// A line of a secret's that is as long as this is not there by chance.
const LINE: usize = 16;
/// What [`redact_secrets`] writes, and what stands in its place where it was there before.
const REDACTED: &str = "[redacted]";
const REDACTED_BEFORE: &str = "\u{e000}";

/// What is taken out of the texts of one run.
pub(super) struct Words {
    secrets: Option<Values>,
    all: SecretSet,
    /// The lines of those that have several, by the name of their secret.
    lines: Vec<(String, String)>,
    /// Made at random for this run.
    random: Vec<String>,
    version: Option<String>,
}

impl Words {
    pub(super) fn of(result: &RunResult) -> Self {
        let secrets = result.known_secrets.0.clone();
        let known = secrets.iter().flat_map(|secrets| secrets.iter());
        let all = SecretSet::new(known.map(|(name, value)| (name.as_str(), value)));
        let lines = secrets.iter().flat_map(|secrets| secrets.iter()).flat_map(lines).collect();
        // An agent may say what it wants of its agents: what is no word of chance stays.
        let agents = result.tool_calls.iter().filter_map(|call| call.agent_id.clone()).filter(|id| is_of_chance(id));
        let random = agents.chain([result.id.clone()]).collect();
        // `1` would be found by chance.
        let version = Some(result.agent.version.clone()).filter(|version| version.matches('.').count() >= 2);
        Words { secrets, all, lines, random, version }
    }

    pub(super) fn text(&self, text: &str) -> String {
        self.without_parts(&self.named(text))
    }

    /// Without whole secrets, and without chance.
    fn named(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let Some(secrets) = &self.secrets else { return UNKNOWN.to_owned() };
        let mut plain = text.to_owned();
        if !self.all.search(text.as_bytes()).is_empty() {
            for (name, value) in secrets.iter() {
                if let Ok(value) = std::str::from_utf8(value) {
                    plain = plain.replace(value, &format!("[{name}]"));
                }
            }
            plain = plain.replace(REDACTED, REDACTED_BEFORE);
            for (name, value) in secrets.iter() {
                plain = named_whole(&redact_secrets(&plain, [value]), name);
            }
            plain = plain.replace(REDACTED_BEFORE, REDACTED);
            // Packed, or spread over what cannot be taken apart.
            if let Some(held) = held(&self.all.search(plain.as_bytes())) {
                return held;
            }
        }
        for name in &self.random {
            plain = plain.replace(name, ID);
        }
        if let Some(version) = &self.version {
            plain = plain.replace(version, "[version]");
        }
        without_chance(&plain)
    }

    /// Without the lines of secrets: a diff shows a few of a file's.
    fn without_parts(&self, text: &str) -> String {
        self.lines.iter().fold(text.to_owned(), |plain, (name, line)| plain.replace(line, &format!("[{name}]")))
    }

    /// The name of a host, whose labels may be the pieces of a secret.
    pub(super) fn host(&self, host: &str) -> String {
        let shown = self.text(host);
        held(&self.all.search_name(&shown.split('.').collect::<Vec<_>>()).matches).unwrap_or(shown)
    }

    /// The lines of a diff. Between the lines of a file stand their signs there: so a secret that is longer than a line is looked
    /// for in what each file was, and in what it has become.
    pub(super) fn diff(&self, diff: &str) -> Vec<String> {
        const HEAD: &str = "diff --git ";
        if self.secrets.is_none() {
            return self.text(diff).lines().map(str::to_owned).collect();
        }
        let heads = diff.match_indices(HEAD).map(|(at, _)| at).filter(|&at| at == 0 || diff[..at].ends_with('\n'));
        let ends: Vec<usize> = heads.chain([diff.len()]).collect();
        let mut shown = Vec::new();
        let mut start = 0;
        for end in ends {
            let change = &diff[start..end];
            start = end;
            let head = change.find('\n').filter(|_| change.starts_with(HEAD)).map_or(0, |at| at + 1);
            let (head, content) = change.split_at(head);
            let content = self.named(content);
            let side = |sign| -> String {
                content
                    .lines()
                    .filter_map(|line| line.strip_prefix([' ', sign]))
                    .flat_map(|line| [line, "\n"])
                    .collect()
            };
            let found = ['-', '+'].map(|sign| self.all.search(side(sign).as_bytes())).concat();
            let content = held(&found).unwrap_or_else(|| self.without_parts(&content));
            shown.extend(self.text(head).lines().chain(content.lines()).map(str::to_owned));
        }
        shown
    }

    /// Objects that git names by their content, times included, are one.
    pub(super) fn path(&self, path: &str) -> String {
        match path.split_once("/.git/objects/") {
            Some((above, _)) => self.text(&format!("{above}/.git/objects/{ID}")),
            None => self.text(path),
        }
    }

    pub(super) fn body(&self, body: &Octets) -> String {
        match std::str::from_utf8(body.as_bytes()) {
            Ok(text) if !text.contains(|char: char| char.is_control() && !char.is_whitespace()) => self.text(text),
            _ => BYTES.to_owned(),
        }
    }

    pub(super) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (self.text(name), self.value(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Value::Number(number) if self.text(&number.to_string()) != number.to_string() => {
                self.text(&number.to_string()).into()
            }
            other => other.clone(),
        }
    }
}

/// What a secret of several lines may be known by in part; not the heads that all keys have.
fn lines((name, value): &(String, Vec<u8>)) -> Vec<(String, String)> {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    let lines = text.lines().map(str::trim).filter(|line| line.len() >= LINE && !line.starts_with("-----"));
    let lines = lines.map(|line| (name.clone(), line.to_owned()));
    if text.contains('\n') { lines.collect() } else { Vec::new() }
}

/// Whether this looks like a name that a machine made up: letters and digits without a sense.
fn is_of_chance(name: &str) -> bool {
    let is_in = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    name.len() >= 6 && name.chars().all(is_in) && name.contains(|char: char| char.is_ascii_digit())
}

/// What stands for a text that holds secrets which cannot be taken out of it.
fn held(found: &[Match]) -> Option<String> {
    let mut names: Vec<&str> = found.iter().map(|found| &*found.secret).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| format!("[holds {}]", names.join(", ")))
}

/// The name in place of what was redacted, with all that is written together with it: where a secret begins and ends in the middle of
/// an encoding's characters, those beside it are another with every value.
fn named_whole(text: &str, name: &str) -> String {
    let is_of_encoding = |char: char| char.is_ascii_alphanumeric() || matches!(char, '+' | '/' | '=' | '-' | '_');
    let mut parts = text.split(REDACTED);
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        named.truncate(named.trim_end_matches(is_of_encoding).len());
        named.push_str(&format!("[{name}]"));
        named.push_str(part.trim_start_matches(is_of_encoding));
    }
    named
}

/// What was found at the start of a text: so much of it stays, so much after that is replaced, and by what.
struct Chance {
    kept: usize,
    replaced: usize,
    by: &'static str,
}

fn without_chance(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(next) = rest.chars().next() {
        if let Some(Chance { kept, replaced, by }) = (!in_word).then(|| chance(rest)).flatten() {
            plain.push_str(&rest[..kept]);
            plain.push_str(by);
            rest = &rest[kept + replaced..];
            continue;
        }
        in_word = next.is_ascii_alphanumeric();
        plain.push(next);
        rest = &rest[next.len_utf8()..];
    }
    plain
}

fn chance(text: &str) -> Option<Chance> {
    let whole = |length: usize, by| Chance { kept: 0, replaced: length, by };
    const UUID: usize = 36;
    if text.get(..UUID).is_some_and(is_uuid) {
        return Some(whole(UUID, ID));
    }
    if let Some(length) = timestamp(text) {
        return Some(whole(length, TIME));
    }
    numbered(text).or_else(|| port(text))
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// The length of a time such as `2026-12-01T07:52:43.123Z` or `2026-12-01 07:52:43 +0000`.
fn timestamp(text: &str) -> Option<usize> {
    const FORM: &[u8; 19] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let fits = bytes.get(..FORM.len())?.iter().zip(FORM).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b' ' | b'_'),
        other => byte == other,
    });
    if !fits {
        return None;
    }
    let mut length = FORM.len();
    if let Some(fraction) = text[length..].strip_prefix('.') {
        length += 1 + run_of(fraction, |char| char.is_ascii_digit());
    }
    let zone = text[length..].trim_start_matches(' ');
    let spaces = text[length..].len() - zone.len();
    if zone.starts_with('Z') {
        length += spaces + 1;
    } else if let Some(offset) = zone.strip_prefix(['+', '-']) {
        let digits = run_of(offset, |char| char.is_ascii_digit() || char == ':');
        if digits >= 4 {
            length += spaces + 1 + digits;
        }
    }
    Some(length)
}

/// Whether a character belongs to a number.
type IsOfNumber = fn(char) -> bool;

/// What stands before a number of the machine's or of chance, how that number is written, and what stands for it.
const NUMBERED: [(&str, IsOfNumber, &str); 8] = [
    // Ids that models, and scripts in their place, give.
    ("toolu_", |char| char.is_ascii_alphanumeric(), ID),
    ("msg_", |char| char.is_ascii_alphanumeric(), ID),
    ("call_", |char| char.is_ascii_alphanumeric(), ID),
    // A user of the machine, and processes of it.
    ("/tmp/claude-", |char| char.is_ascii_digit(), ID),
    ("/tmp/cc-socks/", |char| char.is_ascii_digit(), ID),
    ("bash: line 1: ", |char| char.is_ascii_digit() || char == ' ', ID),
    ("duration_ms: ", |char| char.is_ascii_digit(), TIME),
    // What curl puts between the parts of a form.
    ("------------------------", |char| char.is_ascii_hexdigit() || char == '-', ID),
];

fn numbered(text: &str) -> Option<Chance> {
    NUMBERED.iter().find_map(|(before, is_of_number, by)| {
        let number = text.strip_prefix(before)?;
        let length = run_of(number, is_of_number);
        // A word is no number, and what follows `call_` may be a name.
        let least = if before.ends_with('_') { 8 } else { 1 };
        let is_one = length >= least && number[..length].contains(|char: char| char.is_ascii_digit());
        is_one.then_some(Chance { kept: before.len(), replaced: length, by })
    })
}

fn port(text: &str) -> Option<Chance> {
    ["localhost:", "127.0.0.1:", "[::1]:"].iter().find_map(|host| {
        let number = text.strip_prefix(host)?;
        let length = run_of(number, |char| char.is_ascii_digit());
        let is_given = number[..length].parse::<u32>().is_ok_and(|port| (GIVEN_PORTS..=65535).contains(&port));
        is_given.then_some(Chance { kept: host.len(), replaced: length, by: "[port]" })
    })
}

fn run_of(text: &str, is_in: impl Fn(char) -> bool) -> usize {
    text.find(|char| !is_in(char)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(secrets: &[(&str, &str)]) -> Words {
        let secrets: Vec<_> =
            secrets.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        let secrets = KnownSecrets::new(secrets.iter().map(|(name, value)| (name, value))).0.unwrap();
        let all = SecretSet::new(secrets.iter().map(|(name, value)| (name.as_str(), value)));
        let lines = secrets.iter().flat_map(lines).collect();
        Words {
            secrets: Some(secrets),
            all,
            lines,
            random: vec!["a1b2c3d4e5".to_owned()],
            version: Some("2.1.332".to_owned()),
        }
    }

    #[test]
    fn what_is_another_at_every_run_is_replaced_and_nothing_else() {
        let words = words(&[]);
        for (text, plain) in [
            ("run 0b6e2a44-6a3c-4a58-9d0b-0d7b8a3a9f10, by a1b2c3d4e5", "run [id], by [id]"),
            ("at 2026-12-01T07:52:43.123Z: done", "at [time]: done"),
            ("at 2026-12-01 07:52:43 +0000\n", "at [time]\n"),
            ("2026-12-01 07:52:43 3 files", "[time] 3 files"),
            ("toolu_rr0a1b2c3d and msg_01abcdefgh", "toolu_[id] and msg_[id]"),
            ("call_2nd msg_template call_sites", "call_2nd msg_template call_sites"),
            ("http://127.0.0.1:43567/x localhost:40000", "http://127.0.0.1:[port]/x localhost:[port]"),
            ("http://localhost:8080/ example.test:40000", "http://localhost:8080/ example.test:40000"),
            ("/tmp/claude-1000/x bash: line 1:    17 Killed", "/tmp/claude-[id]/x bash: line 1: [id]Killed"),
            ("claude 2.1.332", "claude [version]"),
            ("--------------------------6f1", "------------------------[id]"),
            ("-------------------------- of a table", "-------------------------- of a table"),
            ("Zürich 2026-12-01 is a day, 1234 a number", "Zürich 2026-12-01 is a day, 1234 a number"),
            ("x0b6e2a44-6a3c-4a58-9d0b-0d7b8a3a9f10", "x0b6e2a44-6a3c-4a58-9d0b-0d7b8a3a9f10"),
            ("", ""),
        ] {
            assert_eq!(words.text(text), plain);
        }
    }

    #[test]
    fn a_secret_goes_by_its_name_in_every_disguise() {
        let words = words(&[("token", "PLATYPUS-7731"), ("longer", "PLATYPUS-7731-KINGFISHER")]);
        for (text, plain) in [
            ("T=PLATYPUS-7731;", "T=[token];"),
            ("T=PLATYPUS-7731-KINGFISHER", "T=[longer]"),
            ("as QVBJX1RPS0VOPVBMQVRZUFVTLTc3MzEK, packed", "as [token], packed"),
            ("UExBVFlQVVMtNzczMQ==", "[token]"),
            ("504c4154595055532d37373331 [redacted]", "[token] [redacted]"),
        ] {
            assert_eq!(words.text(text), plain);
        }
        let input = serde_json::json!({ "command": "echo PLATYPUS-7731", "PLATYPUS-7731": [1, true] });
        assert_eq!(words.value(&input), serde_json::json!({ "command": "echo [token]", "[token]": [1, true] }));
    }

    #[test]
    fn a_secret_of_several_lines_goes_by_its_name_in_part_too() {
        let lines: Vec<String> = (0..20).map(|line| format!("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{line:02}")).collect();
        let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
        let words = words(&[("key", &key)]);
        let diff = format!("@@ -8,2 +8,2 @@\n {}\n-{}\n+short\n", lines[7], lines[8]);
        assert_eq!(words.diff(&diff), ["@@ -8,2 +8,2 @@", " [key]", "-[key]", "+short"]);
        assert_eq!(words.text("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
    }

    #[test]
    fn only_names_that_look_like_chance_count_as_such() {
        for (name, is) in [("a1b2c3d4e5", true), ("a1b2c", false), ("curl -sS 1", false), ("workspace", false)] {
            assert_eq!(is_of_chance(name), is, "{name}");
        }
    }

    #[test]
    fn what_packs_a_secret_is_not_shown_at_all() {
        let words = words(&[("token", "PLATYPUS-7731")]);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packed, b"T=PLATYPUS-7731\n").unwrap();
        let packed = packed.finish().unwrap();
        let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &packed);
        assert_eq!(words.text(&format!("body {text} end")), "[holds token]");
        assert_eq!(words.body(&packed.into()), "[bytes]");
        assert_eq!(words.body(&b"plain\n".to_vec().into()), "plain\n");
    }

    #[test]
    fn without_the_values_no_text_is_shown() {
        let words = Words { secrets: None, ..words(&[]) };
        assert_eq!((words.text("PLATYPUS-7731").as_str(), words.text("").as_str()), ("[text]", ""));
        assert_eq!(words.path("/workspace/x"), "[text]");
    }

    #[test]
    fn objects_of_a_repository_are_one() {
        assert_eq!(words(&[]).path("/workspace/.git/objects/ab/cdef"), "/workspace/.git/objects/[id]");
    }
}
