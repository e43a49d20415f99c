//! What is told of the keys: the schema for editors and the page about settings say what the list of keys does, and the defaults
//! are what holds where nobody says anything.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::file::{ConfigFile, Profile};
use super::keys::{KEYS, Key, Kind, PROFILE, of_table, tables};
use super::{Environment, Settings};
use crate::agent::TurnInput;
use crate::outbound::{Client, Proxies};
use crate::suite::Suite;

const PAGE: &str = include_str!("../../../docs/settings.md");

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../docs/redroom.schema.json")).unwrap()
}

/// What a part of the schema refers to.
fn resolved<'a>(schema: &'a Value, part: &'a Value) -> &'a Value {
    let pointer = part["$ref"].as_str().map(|target| target.trim_start_matches('#').to_owned());
    pointer.map_or(part, |pointer| schema.pointer(&pointer).unwrap_or_else(|| panic!("no {pointer}")))
}

fn names(object: &Value) -> BTreeSet<&str> {
    object.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect()
}

/// The schema's words about a key.
fn of_key<'a>(schema: &'a Value, key: &Key) -> &'a Value {
    let of_root = &schema["properties"];
    let properties = match key.table {
        "" => of_root,
        table => &resolved(schema, &of_root[table])["properties"],
    };
    resolved(schema, &properties[key.name])
}

fn full(key: &Key) -> String {
    if key.table.is_empty() { key.name.to_owned() } else { format!("{}.{}", key.table, key.name) }
}

#[test]
fn the_schema_has_the_keys_of_the_list_and_no_others() {
    let schema = schema();
    let root: BTreeSet<&str> = of_table("").map(|key| key.name).chain(tables()).collect();
    let with_profiles = root.iter().copied().chain([PROFILE]).collect();
    assert_eq!(names(&schema["properties"]), with_profiles);
    let profile = resolved(&schema, &schema["properties"][PROFILE]["additionalProperties"]);
    assert_eq!(names(&profile["properties"]), root);
    for name in root {
        let of = |whole: &Value| resolved(&schema, &whole["properties"][name]).clone();
        assert_eq!(of(&schema), of(profile), "{name}");
    }
    for table in tables() {
        let part = resolved(&schema, &schema["properties"][table]);
        assert_eq!(names(&part["properties"]), of_table(table).map(|key| key.name).collect(), "{table}");
        assert_eq!((&part["type"], &part["additionalProperties"]), (&json!("object"), &json!(false)), "{table}");
        assert!(part["description"].is_string(), "{table}");
    }
    assert_eq!((&schema["additionalProperties"], &profile["additionalProperties"]), (&json!(false), &json!(false)));
}

#[test]
fn the_schema_says_of_every_key_what_the_list_says() {
    let schema = schema();
    for key in &KEYS {
        let part = of_key(&schema, key);
        let told = match key.kind {
            Kind::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
            Kind::Number(least, most) => {
                assert_eq!((part["minimum"].as_f64(), part["maximum"].as_f64()), (Some(least), Some(most)), "{key:?}");
                json!({ "type": "number" })
            }
            Kind::Truth => json!({ "type": "boolean" }),
            Kind::Text => json!({ "type": "string" }),
            Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
            Kind::Texts => json!({ "type": "array" }),
            Kind::Headers => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        };
        for (word, value) in told.as_object().unwrap() {
            assert_eq!(&part[word], value, "{word} of {key:?}");
        }
        assert!(part["description"].is_string(), "{key:?}");
    }
}

/// The rows of the page's table, as cells.
fn rows() -> Vec<Vec<&'static str>> {
    let table = PAGE.split_once("## Keys\n").unwrap().1.split_once("\n## ").unwrap().0;
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn the_page_tells_every_key_as_the_list_and_the_schema_do() {
    let schema = schema();
    let told = rows();
    let keys: Vec<String> = KEYS.iter().map(|key| format!("`{}`", full(key))).collect();
    assert_eq!(told.iter().map(|row| row[0].to_owned()).collect::<Vec<_>>(), keys);
    for (key, row) in KEYS.iter().zip(&told) {
        let part = of_key(&schema, key);
        let default = match &part["default"] {
            Value::Null => String::new(),
            default => format!("`{default}`"),
        };
        assert_eq!((row[1], row[2]), (key.kind.to_string().as_str(), default.as_str()), "{key:?}");
        assert_eq!(row[6], part["description"].as_str().unwrap(), "{key:?}");
    }
}

#[test]
fn what_the_page_names_beside_a_key_is_there() {
    let (environment, flags) = (include_str!("environment.rs"), include_str!("../runner/arguments.rs"));
    let code = [
        ("Suite", include_str!("../suite.rs")),
        ("ClaudeCode", include_str!("../agent/claude_code.rs")),
        ("Limits", include_str!("../limits.rs")),
        ("ModelProxy", include_str!("../model/proxy.rs")),
        ("ToolCallCheck", include_str!("../guard.rs")),
        ("UrlCheck", include_str!("../guard/url.rs")),
    ];
    let bare = |cell: &'static str| cell.trim_matches('`');
    for row in rows() {
        let (variable, flag, method) = (bare(row[3]), bare(row[4]), bare(row[5]));
        assert!(variable.is_empty() || environment.contains(&format!("(\"{variable}\")")), "{variable}");
        let flag = flag.trim_start_matches("--");
        assert!(flag.is_empty() || flags.contains(&format!("(\"{flag}\", ")), "{flag}");
        if let Some((of, method)) = method.split_once("::") {
            let source = code.iter().find(|(name, _)| *name == of).unwrap_or_else(|| panic!("{of}")).1;
            assert!(source.contains(&format!("pub fn {method}(")), "{of}::{method}");
        }
    }
    let told: Vec<&str> = PAGE.split('`').filter(|word| word.starts_with("REDROOM_")).collect();
    for name in super::environment::NAMES {
        let name = format!("REDROOM_{name}");
        assert!(told.iter().any(|word| word.split('=').next() == Some(&name)), "{name} is not on the page");
    }
}

#[test]
fn the_example_of_the_page_is_read_and_holds_every_key() {
    let example = PAGE.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
    let path = std::path::Path::new("redroom.toml");
    let table: toml::Table = example.parse().unwrap();
    for key in &KEYS {
        let place = if key.table.is_empty() { Some(&table) } else { table[key.table].as_table() };
        assert!(place.is_some_and(|place| place.contains_key(key.name)), "{key:?}");
    }
    let chosen = Profile { name: "ci".to_owned(), chosen_by: "--profile" };
    let ci = ConfigFile::parse(path, example, Some(&chosen)).unwrap();
    assert_eq!((ci.parallel, ci.backend.as_deref()), (Some(8), Some("docker")));
}

/// Every default of the schema, written down, changes nothing.
#[test]
fn the_defaults_that_are_told_are_what_holds() {
    let schema = schema();
    let mut table = toml::Table::new();
    let mut put = |key: &Key, value: Value| {
        let of = match key.table {
            "" => &mut table,
            name => {
                let entry = table.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
                entry.as_table_mut().unwrap()
            }
        };
        of.insert(key.name.to_owned(), toml::Value::try_from(value).unwrap());
    };
    for key in &KEYS {
        match &of_key(&schema, key)["default"] {
            Value::Null if key.name == "base_url" => put(key, json!("http://h")),
            Value::Null => {}
            default => put(key, default.clone()),
        }
    }
    let settings = |text: &str| {
        let file = ConfigFile::parse(std::path::Path::new("redroom.toml"), text, None).unwrap();
        Settings::join(Environment::default(), Suite::new(), file).unwrap()
    };
    let facts = |text: &str| {
        let settings = settings(text);
        let agent = &settings.agent;
        let turn = agent.turn(&TurnInput { session: "s", index: 0, message: "" });
        let shared = (settings.parallel, settings.backend, settings.fake_domain.clone(), settings.catch_all);
        let agent = (agent.name().to_owned(), agent.version().to_owned(), turn.argv);
        (shared, agent, settings.limits.check().unwrap(), settings.provider_tools.clone())
    };
    let told = toml::to_string(&table).unwrap();
    assert_eq!(facts(&told), facts(""));
    let client = Client::new(Proxies::new(None, None)).unwrap();
    let proxy = |text: &str| {
        let file = ConfigFile::parse(std::path::Path::new("redroom.toml"), text, None).unwrap();
        format!("{:?}", file.model_proxy().unwrap().unwrap().open(&client).unwrap())
    };
    assert_eq!(proxy(&told), proxy("[model_proxy]\nbase_url = \"http://h\"\n"));
}
