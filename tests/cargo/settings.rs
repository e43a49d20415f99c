//! `redroom.toml` as an editor sees it and as a suite does: what the schema takes, the suite takes, and the other way round.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::place::{Place, ended};

/// Reads files of settings, one a line, and says of each whether the schema takes it.
const CHECK: &str = "\
import json, sys, tomllib
import jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
for line in sys.stdin:
    print(validator.is_valid(tomllib.loads(json.loads(line))))
";

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/redroom.schema.json");

/// Whether there is a program that holds documents against a schema.
pub(crate) fn schemas_can_be_checked() -> bool {
    let found = Command::new("python3").args(["-c", "import jsonschema, tomllib"]).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

fn taken_by_the_schema(texts: &[String]) -> Vec<bool> {
    use std::io::Write as _;
    let mut child = Command::new("python3")
        .args(["-c", CHECK, SCHEMA])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let lines: String = texts.iter().map(|text| format!("{}\n", json!(text))).collect();
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("all is read");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line == "True").collect()
}

fn taken_by_the_suite(place: &Place, text: &str) -> bool {
    std::fs::write(place.path("redroom.toml"), text).unwrap();
    // A file that is used has to be there, one that is written need not.
    let pem = || rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap().cert.pem();
    for name in ["team.pem", "x"] {
        let _ = std::fs::remove_file(place.path(name));
        if text.contains("ca = ") {
            std::fs::write(place.path(name), pem()).unwrap();
        }
    }
    let told = ended(&mut place.suite(&["no_attack_is_called_this"]));
    match told.code {
        Some(0) => true,
        Some(2) => {
            assert!(told.err.contains("redroom.toml:"), "no place is told of {text}: {told:#?}");
            false
        }
        _ => panic!("{text}: {told:#?}"),
    }
}

/// A key that stands alone, with what its table cannot be without.
fn alone(table: &str, name: &str, value: &str) -> String {
    let needed = match (table, name) {
        (_, "name" | "base_url" | "url") => "",
        ("agent", _) => "name = \"claude-code\"\n",
        ("model_proxy", _) => "base_url = \"http://h\"\n",
        ("tool_call_check", _) => "url = \"http://h\"\n",
        _ => "",
    };
    let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
    format!("{head}{needed}{name} = {value}\n")
}

/// Values at the ends of what the schema takes and right past them, and values of every other kind.
fn values(part: &Value) -> Vec<String> {
    let mut values: Vec<String> =
        ["true", "7", "-1", "0", "0.5", "\"x\"", "\"\"", "[]", "[1]", "{}", "{ a = 1 }", "1979-05-27"]
            .map(str::to_owned)
            .into();
    for end in [&part["minimum"], &part["maximum"]].into_iter().filter(|end| !end.is_null()) {
        values.push(end.to_string());
        if let Some(end) = end.as_i64() {
            values.extend([(end - 1).to_string(), (end + 1).to_string()]);
        }
        // To a schema 99.0 is a whole number, to TOML it is none.
        if let Some(end) = end.as_f64().filter(|_| part["type"] == "number") {
            values.extend([end * 0.99, end * 1.01].map(|value| format!("{value:?}")));
        }
    }
    values.extend(part["enum"].as_array().into_iter().flatten().map(Value::to_string));
    values.extend(Some(&part["default"]).filter(|default| !default.is_null()).map(Value::to_string));
    values
}

/// Texts of a form of their own, right and wrong.
const TEXTS: [(&str, &str, &[&str]); 8] = [
    (
        "",
        "fake_domain",
        &["Corp.TEST.", "a.b.c", "test", "a..b", "-a.test", "10.0.0.1", "a b.test", "http://a.test", "x.1-a"],
    ),
    ("agent", "version", &["2.1.332", "2.1.332-beta.1", "latest", "2.1", "2.1.332-", "2.1.x"]),
    ("agent", "model", &["claude-opus-4-1", "-x", "a b", "provider/model:latest"]),
    ("limits", "memory", &["2g", "512M", "64mb", "99999999", " 2g ", "1.5g", "+2g", "lots", "2 g"]),
    ("limits", "file_size", &["1m", "1MB", "-1m", "1048576"]),
    ("model_proxy", "base_url", &["https://h/prefix", "HTTP://h", "gateway.example.com", "ftp://h/"]),
    ("tool_call_check", "url", &["http://localhost:8000/x?y=1", "file:///etc/passwd"]),
    ("model_proxy", "ca", &["team.pem"]),
];

pub(crate) fn the_schema_and_the_suite_take_the_same_files() {
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    let resolved = |part: &Value| match part["$ref"].as_str() {
        Some(target) => schema.pointer(target.trim_start_matches('#')).cloned().unwrap(),
        None => part.clone(),
    };
    let mut texts = vec![String::new()];
    let mut keys = Vec::new();
    for (name, part) in schema["properties"].as_object().unwrap() {
        let part = resolved(part);
        match part["properties"].as_object() {
            Some(inner) => keys.extend(inner.iter().map(|(key, part)| (name.clone(), key.clone(), resolved(part)))),
            None if name == "profile" => {}
            None => keys.push((String::new(), name.clone(), part)),
        }
    }
    assert!(keys.len() > 20);
    for (table, name, part) in &keys {
        texts.extend(values(part).iter().map(|value| alone(table, name, value)));
        texts.push(alone(table, &format!("{name}_"), "7"));
    }
    for (table, name, words) in TEXTS {
        texts.extend(words.iter().map(|word| alone(table, name, &json!(word).to_string())));
    }
    for table in ["agent", "limits", "model_proxy", "tool_call_check", "report"] {
        texts.extend([format!("[{table}]\n"), format!("{table} = 1\n"), format!("[profile.ci.{table}]\nx = 1\n")]);
    }
    texts.extend(
        [
            "[agent]\nname = \"shell\"\n",
            "[agent]\nname = \"shell\"\nmodel = \"x\"\n",
            "allow_provider_tools = [\"web_search\", \"batch\"]\n",
            "allow_provider_tools = [\"no tool\"]\n",
            "[profile.ci]\nparallel = 8\n[profile.ci.limits]\npids = 9\n",
            "[profile.ci]\nparallel = 0\n",
            "[profile.ci.profile.x]\nparallel = 8\n",
            "[profile.\"c i\"]\nparallel = 8\n",
            "[profile]\nci = 8\n",
            "profile = 8\n",
            "[model_proxy]\nbase_url = \"http://h\"\nheaders = { x-api-key = \"k\" }\n",
            "[model_proxy]\nbase_url = \"http://h\"\nheaders = { x-api-key = 1 }\n",
        ]
        .map(str::to_owned),
    );
    let place = Place::new();
    let by_schema = taken_by_the_schema(&texts);
    assert_eq!(by_schema.len(), texts.len());
    let taken = by_schema.iter().filter(|taken| **taken).count();
    assert!(taken > 40 && texts.len() - taken > 200, "{taken} of {}", texts.len());
    let differ: Vec<String> = texts
        .iter()
        .zip(by_schema)
        .filter(|(text, by_schema)| taken_by_the_suite(&place, text) != *by_schema)
        .map(|(text, by_schema)| format!("{text:?} (the schema takes it: {by_schema})"))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
