//! Tables of `redroom.toml`, read key by key: what is not in the list of keys is refused with the nearest that is, and whatever
//! is wrong is told with its place, and without its value, which may be a key to something: but for numbers, words of which there
//! are a few, and the fake domain, of which the beginning is told.
//!
//! Knows which keys there are, and nothing of what they mean.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::settings::keys::{BROKEN, KEYS, Key, Kind, PROFILE, of_table, tables};
use crate::visible::visible_line;

/// The most that is told of a word that somebody wrote, and of what the parser says, in characters.
const WORD: usize = 64;
const SAID: usize = 200;

/// The most that a list, a table of headers, or all profiles may hold.
const MOST: usize = 256;

/// Where a key stands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    file: PathBuf,
    line: usize,
    column: usize,
    /// With its table, and the profile if it is one's.
    key: String,
}

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// A file that is being read.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

/// A table of it, of which nothing unknown is left.
pub(super) struct Table<'a> {
    source: Source<'a>,
    /// What stands before the names of its keys.
    prefix: String,
    /// Which keys it may have.
    table: &'static str,
    place: Place,
    entries: DeTable<'a>,
}

impl<'a> Source<'a> {
    /// Reads the file's own table.
    ///
    /// # Errors
    ///
    /// `invalid_config`: what is no TOML, or a key that does not exist.
    pub(super) fn read(self) -> Result<Table<'a>> {
        let root = DeTable::parse(self.text).map_err(|error| {
            // Where something has no end, its end is where it was missed.
            let at = error.span().map_or(self.text.len(), |span| span.start);
            let message = short(error.message(), SAID);
            self.place(at, String::new()).wrong(BROKEN, &format!("this is no TOML: {message}"))
        })?;
        Table::open(self, String::new(), "", self.place(0, String::new()), root.into_inner())
    }

    fn place(&self, at: usize, key: String) -> Place {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        let (line, column) =
            (before.matches('\n').count() + 1, line.trim_start_matches('\u{feff}').chars().count() + 1);
        Place { file: self.path.to_owned(), line, column, key }
    }
}

impl<'a> Table<'a> {
    fn open(
        source: Source<'a>,
        prefix: String,
        table: &'static str,
        place: Place,
        entries: DeTable<'a>,
    ) -> Result<Self> {
        let is_root = table.is_empty();
        let known = |name: &str| {
            of_table(table).any(|key| key.name == name)
                || is_root && (tables().any(|known| known == name) || prefix.is_empty() && name == PROFILE)
        };
        let unknown = entries.keys().filter(|key| !known(key.get_ref())).min_by_key(|key| key.span().start);
        if let Some(key) = unknown {
            let place = source.place(key.span().start, String::new());
            return Err(place.wrong(BROKEN, &unknown_key(key.get_ref(), &prefix, table)));
        }
        Ok(Table { source, prefix, table, place, entries })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{}", self.prefix, shown(name))
    }

    /// Takes a value out, with its place and what the list of keys says of it.
    fn take(&mut self, name: &'static str) -> Option<(Place, &'static Key, DeValue<'a>)> {
        let value = self.entries.remove(name)?;
        let key = of_table(self.table).find(|key| key.name == name);
        debug_assert!(key.is_some(), "{name} is not in the list of keys");
        let place = self.source.place(value.span().start, self.key(name));
        Some((place, key?, value.into_inner()))
    }

    /// A table below this one.
    pub(super) fn table(&mut self, name: &'static str) -> Result<Option<Table<'a>>> {
        let Some(value) = self.entries.remove(name) else { return Ok(None) };
        let place = self.source.place(value.span().start, self.key(name));
        let DeValue::Table(entries) = value.into_inner() else { return Err(place.wrong(BROKEN, "must be a table")) };
        Table::open(self.source, format!("{}.", place.key), name, place, entries).map(Some)
    }

    /// The profiles, each a table like the file's own.
    pub(super) fn profiles(&mut self) -> Result<Vec<(String, Table<'a>)>> {
        let Some(value) = self.entries.remove(PROFILE) else { return Ok(Vec::new()) };
        let place = self.source.place(value.span().start, PROFILE.to_owned());
        let no_table = |place: &Place| {
            place.wrong(BROKEN, "must be a table: write the settings of a profile below [profile.NAME]")
        };
        let DeValue::Table(profiles) = value.into_inner() else { return Err(no_table(&place)) };
        place.hold(profiles.len())?;
        let mut read = Vec::new();
        for (name, value) in profiles {
            let place = self.source.place(name.span().start, format!("{PROFILE}.{}", shown(name.get_ref())));
            let name = name.into_inner().into_owned();
            if !is_profile_name(&name) {
                return Err(place.wrong(BROKEN, "can be no profile: a name has 1 to 64 letters, digits, `-` and `_`"));
            }
            let DeValue::Table(entries) = value.into_inner() else { return Err(no_table(&place)) };
            read.push((name, Table::open(self.source, format!("{}.", place.key), "", place, entries)?));
        }
        Ok(read)
    }

    pub(super) fn whole(&mut self, name: &'static str) -> Result<Option<u64>> {
        let Some((place, key, value)) = self.take(name) else { return Ok(None) };
        let number = value.as_integer().map(|number| i128::from_str_radix(number.as_str(), number.radix()));
        match (key.kind, number) {
            (Kind::Whole(least, most), Some(Ok(number)))
                if (i128::from(least)..=i128::from(most)).contains(&number) =>
            {
                Ok(u64::try_from(number).ok())
            }
            (_, Some(Ok(number))) => Err(place.wrong(key.code, &format!("must be {}, and it is {number}", key.kind))),
            (_, Some(Err(_))) => Err(place.wrong(key.code, &format!("must be {}, and it is far out of it", key.kind))),
            (_, None) => Err(place.wrong_kind(key, &value)),
        }
    }

    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<f64>> {
        let Some((place, key, value)) = self.take(name) else { return Ok(None) };
        let number = match &value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => {
                i128::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            _ => return Err(place.wrong_kind(key, &value)),
        };
        match (key.kind, number) {
            (Kind::Number(least, most), Some(number)) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => {
                let number = number.map_or_else(|| "far out of it".to_owned(), |number| number.to_string());
                Err(place.wrong(key.code, &format!("must be {}, and it is {}", key.kind, short(&number, WORD))))
            }
        }
    }

    pub(super) fn truth(&mut self, name: &'static str) -> Result<Option<bool>> {
        let Some((place, key, value)) = self.take(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| place.wrong_kind(key, &value))
    }

    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<Placed<String>>> {
        let Some((place, key, value)) = self.take(name) else { return Ok(None) };
        let DeValue::String(text) = value else { return Err(place.wrong_kind(key, &value)) };
        if let Kind::OneOf(words) = key.kind
            && !words.contains(&&*text)
        {
            let meant = nearest(&text, words.iter().copied()).map(|word| format!("; did you mean {word:?}?"));
            let why = format!("must be {}, and it is {:?}{}", key.kind, short(&text, WORD), meant.unwrap_or_default());
            return Err(place.wrong(key.code, &why));
        }
        Ok(Some(Placed { value: text.into_owned(), place }))
    }

    /// A text without which the table says nothing.
    pub(super) fn needed_text(&mut self, name: &'static str) -> Result<Placed<String>> {
        let place = Place { key: self.key(name), ..self.place.clone() };
        let kind = of_table(self.table).find(|key| key.name == name).map_or(Kind::Text, |key| key.kind);
        self.text(name)?.ok_or_else(|| place.wrong(BROKEN, &format!("is missing: it must be {kind}")))
    }

    pub(super) fn texts(&mut self, name: &'static str) -> Result<Option<Vec<Placed<String>>>> {
        let Some((place, key, value)) = self.take(name) else { return Ok(None) };
        let DeValue::Array(values) = value else { return Err(place.wrong_kind(key, &value)) };
        place.hold(values.len())?;
        let mut texts = Vec::new();
        for value in values {
            let place = self.source.place(value.span().start, place.key.clone());
            match value.into_inner() {
                DeValue::String(text) => texts.push(Placed { value: text.into_owned(), place }),
                other => return Err(place.wrong_kind(key, &other)),
            }
        }
        Ok(Some(texts))
    }

    /// Headers by name.
    pub(super) fn headers(&mut self, name: &'static str) -> Result<Vec<(String, Placed<String>)>> {
        let Some((place, key, value)) = self.take(name) else { return Ok(Vec::new()) };
        let DeValue::Table(values) = value else { return Err(place.wrong_kind(key, &value)) };
        place.hold(values.len())?;
        let mut headers = Vec::new();
        for (name, value) in values {
            let name = name.into_inner().into_owned();
            let place = self.source.place(value.span().start, format!("{}.{}", place.key, shown(&name)));
            match value.into_inner() {
                DeValue::String(text) => headers.push((name, Placed { value: text.into_owned(), place })),
                other => {
                    return Err(place.wrong(BROKEN, &format!("must be text in quotes, and it is {}", kind(&other))));
                }
            }
        }
        Ok(headers)
    }

    /// That what is left is nothing: every key of the list has been asked for.
    pub(super) fn end(self) {
        debug_assert!(self.entries.is_empty(), "nobody reads {:?}", self.entries.keys().next());
    }
}

impl Place {
    /// An error about what stands here.
    pub(super) fn wrong(&self, code: &'static str, why: &str) -> Error {
        let key = if self.key.is_empty() { String::new() } else { format!("`{}` ", self.key) };
        Error::redroom(code, format!("{self}: {key}{why}"))
    }

    fn wrong_kind(&self, key: &Key, value: &DeValue<'_>) -> Error {
        self.wrong(BROKEN, &format!("must be {}, and it is {}", key.kind, kind(value)))
    }

    /// That so many can be held.
    fn hold(&self, entries: usize) -> Result<()> {
        if entries <= MOST {
            return Ok(());
        }
        Err(self.wrong(BROKEN, &format!("holds {entries} entries, and may hold {MOST}")))
    }

    /// An error of whoever checked what stands here, with its place.
    pub(super) fn explain(&self, error: Error) -> Error {
        error.map_detail(|detail| match detail.starts_with(&self.key) {
            true => format!("{self}: {detail}"),
            false => format!("{self}: `{}`: {detail}", self.key),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", visible_line(&self.file.to_string_lossy()), self.line, self.column)
    }
}

/// In the words of people who know TOML.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Kind::Number(least, most) => write!(f, "a number from {least} to {most}"),
            Kind::Truth => f.write_str("true or false"),
            Kind::Text => f.write_str("text in quotes"),
            Kind::Texts => f.write_str("a list of texts in quotes"),
            Kind::Headers => f.write_str("a table of texts in quotes"),
            Kind::OneOf(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                match words.split_last() {
                    Some((last, before)) if !before.is_empty() => write!(f, "{} or {last}", before.join(", ")),
                    _ => f.write_str(&words.concat()),
                }
            }
        }
    }
}

/// Whether a profile may be called this.
pub(super) fn is_profile_name(name: &str) -> bool {
    (1..=WORD).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn unknown_key(name: &str, prefix: &str, table: &'static str) -> String {
    let is_root = table.is_empty();
    let mut known: Vec<&str> = of_table(table).map(|key| key.name).collect();
    if is_root {
        known.extend(tables());
    }
    if is_root && prefix.is_empty() {
        known.push(PROFILE);
    } else if is_root && name == PROFILE {
        return format!("unknown key `{prefix}{PROFILE}`: a profile holds no profiles");
    }
    let elsewhere = KEYS.iter().find(|key| key.name == name).map(|key| match key.table {
        "" => format!("`{name}` before the first [table]"),
        table => format!("`{table}.{name}`"),
    });
    let hint = match (nearest(name, known.iter().copied()), elsewhere) {
        (_, Some(elsewhere)) => format!("did you mean {elsewhere}?"),
        (Some(near), None) => format!("did you mean `{near}`?"),
        (None, None) => format!("there are {}", known.join(", ")),
    };
    format!("unknown key `{prefix}{}`; {hint}", shown(name))
}

fn shown(name: &str) -> String {
    short(name, WORD)
}

/// The beginning of a text, on one line, with nothing that a terminal obeys.
fn short(text: &str, most: usize) -> String {
    let text = visible_line(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
