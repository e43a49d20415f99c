//! The first place where two values differ, and its path.

use std::fmt;

use serde_json::Value;

/// How much of a long text is shown, before and after the place where it differs.
const AROUND: usize = 120;

/// Where two values are not the same.
#[derive(Debug)]
pub(crate) struct Difference {
    path: String,
    docker: Option<Value>,
    jail: Option<Value>,
}

/// The first difference, in order of keys.
pub(crate) fn first(docker: &Value, jail: &Value) -> Option<Difference> {
    below(String::new(), docker, jail)
}

fn below(path: String, docker: &Value, jail: &Value) -> Option<Difference> {
    match (docker, jail) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            keys.into_iter().find_map(|key| either(format!("{path}.{key}"), one.get(key), other.get(key)))
        }
        (Value::Array(one), Value::Array(other)) => {
            let length = one.len().max(other.len());
            (0..length).find_map(|index| either(format!("{path}[{index}]"), one.get(index), other.get(index)))
        }
        (one, other) => {
            (one != other).then(|| Difference { path, docker: Some(one.clone()), jail: Some(other.clone()) })
        }
    }
}

fn either(path: String, docker: Option<&Value>, jail: Option<&Value>) -> Option<Difference> {
    match (docker, jail) {
        (Some(docker), Some(jail)) => below(path, docker, jail),
        (docker, jail) => Some(Difference { path, docker: docker.cloned(), jail: jail.cloned() }),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { path, docker, jail } = self;
        let common = match (docker, jail) {
            (Some(Value::String(one)), Some(Value::String(other))) => {
                one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
            }
            _ => 0,
        };
        let show = |value: &Option<Value>| match value {
            None => "nothing".to_owned(),
            Some(Value::String(text)) => {
                let part = text.chars().skip(common.saturating_sub(AROUND)).take(2 * AROUND);
                format!("{:?}", part.collect::<String>())
            }
            Some(value) => value.to_string().chars().take(8 * AROUND).collect(),
        };
        writeln!(f, "the results differ at {path}")?;
        writeln!(f, "  docker: {}", show(docker))?;
        write!(f, "  jail:   {}", show(jail))
    }
}
