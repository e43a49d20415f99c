//! The attribute's arguments: `key = value`, each key once, each value in a form that its key takes.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::{ParseBuffer, Parser as _};
use syn::spanned::Spanned as _;
use syn::{Expr, Lit, LitStr, Path, Token};

use crate::diagnostics::{Diagnostics, hint};
use crate::literals::{a_duration, is_number, is_text};
use crate::map::{Entry, Key, Map, Value, separated};
use crate::tags;

/// All arguments that could be read.
pub(crate) struct Args {
    /// The facade, where it is not `::redroom`.
    pub(crate) root: Option<Path>,
    /// In the order in which they were written.
    pub(crate) settings: Vec<Setting>,
    /// Words by which the attack is chosen.
    pub(crate) tags: Option<Vec<LitStr>>,
    /// No argument was lost to a mistake.
    pub(crate) complete: bool,
}

/// One argument.
pub(crate) struct Setting {
    pub(crate) key: Ident,
    pub(crate) value: Form,
}

/// The value of an argument.
pub(crate) enum Form {
    /// Passed on.
    Expr(Expr),
    /// `none`.
    Off,
    /// Files or pages of a map literal.
    Items(Literal<Item>),
    /// Secrets of a map literal.
    Secrets(Literal<SecretItem>),
    /// A type's constructor and setters, from a map literal.
    Built(Built),
}

/// The entries of a map literal.
pub(crate) struct Literal<T> {
    pub(crate) entries: Vec<T>,
    /// No entry was lost to a mistake.
    pub(crate) complete: bool,
}

/// A file or page: its path or URL, and what it is.
pub(crate) struct Item {
    pub(crate) key: LitStr,
    pub(crate) value: ItemValue,
}

/// What a file or page is.
pub(crate) enum ItemValue {
    Plain(Expr),
    Built { body: Expr, setters: Vec<Setter> },
}

/// A secret; `shared` where it is the suite's, and only named here.
pub(crate) struct SecretItem {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) value: Expr,
}

/// `Type::constructor(start).setter(argument)…`
pub(crate) struct Built {
    pub(crate) type_name: &'static str,
    pub(crate) constructor: &'static str,
    pub(crate) start: Option<Expr>,
    pub(crate) setters: Vec<Setter>,
}

/// A setter and its arguments.
pub(crate) struct Setter {
    pub(crate) name: Ident,
    pub(crate) arguments: Vec<Expr>,
}

const KEYS: [&str; 13] = [
    "workspace",
    "files",
    "pages",
    "secrets",
    "agent",
    "model",
    "model_proxy",
    "tool_call_check",
    "allow_provider_tools",
    "limits",
    "timeout",
    "tags",
    "crate",
];

impl Args {
    /// Reads what stands in the attribute's parentheses.
    pub(crate) fn parse(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Self {
        let mut args = Args { root: None, settings: Vec::new(), tags: None, complete: true };
        let parsed = (|input: syn::parse::ParseStream<'_>| {
            let complete = separated(input, diagnostics, begins_argument, |input, diagnostics| {
                let key = input.call(Ident::parse_any)?;
                if input.parse::<Token![=]>().is_err() {
                    if let "ignore" | "should_panic" = key.to_string().as_str() {
                        let why = format!("write `#[{key}]` below the attribute, as on `#[test]`");
                        return Err(syn::Error::new(key.span(), why));
                    }
                    if !KEYS.contains(&key.to_string().as_str()) {
                        return Err(syn::Error::new(key.span(), unknown(&key)));
                    }
                    return Err(syn::Error::new(key.span(), format!("`{key}` needs a value: write `{key} = …`")));
                }
                if key == "crate" {
                    args.root = Some(input.call(Path::parse_mod_style)?);
                } else if key == "tags" {
                    let tags = tags::read(input, diagnostics)?;
                    if args.tags.replace(tags).is_some() {
                        diagnostics.at(key.span(), "`tags` is given twice");
                    }
                } else {
                    let value = Value::parse(input, diagnostics)?;
                    args.add(key, value, diagnostics);
                }
                Ok(())
            });
            args.complete &= complete;
            Ok(())
        })
        .parse2(tokens);
        if let Err(error) = parsed {
            diagnostics.push(error);
            args.complete = false;
        }
        args.refuse_two_models(diagnostics);
        args
    }

    /// The argument with this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Form> {
        self.settings.iter().find(|setting| setting.key == key).map(|setting| &setting.value)
    }

    fn add(&mut self, key: Ident, value: Value, diagnostics: &mut Diagnostics) {
        let name = key.to_string();
        if !KEYS.contains(&name.as_str()) {
            self.complete = false;
            return diagnostics.at(key.span(), unknown(&key));
        }
        if self.settings.iter().any(|setting| setting.key == key) {
            return diagnostics.at(key.span(), format!("`{name}` is given twice"));
        }
        match form(&name, value, diagnostics) {
            Some(value) => self.settings.push(Setting { key, value }),
            None => self.complete = false,
        }
    }

    fn refuse_two_models(&self, diagnostics: &mut Diagnostics) {
        let at = |key: &str| {
            self.settings.iter().position(|setting| setting.key == key && !matches!(setting.value, Form::Off))
        };
        if let (Some(model), Some(proxy)) = (at("model"), at("model_proxy")) {
            let later = &self.settings[model.max(proxy)].key;
            diagnostics.at(
                later.span(),
                "`model` and `model_proxy` exclude each other: the model is played here or asked elsewhere",
            );
        }
    }
}

fn unknown(key: &Ident) -> String {
    format!("no argument is called `{key}`: {}", hint(&key.to_string(), &KEYS))
}

fn begins_argument(input: &ParseBuffer<'_>) -> bool {
    input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==])
}

fn form(key: &str, value: Value, diagnostics: &mut Diagnostics) -> Option<Form> {
    let map = match value {
        Value::Expr(expr) if key == "timeout" && is_number(&expr) => {
            return refused(&expr, a_duration(&expr), diagnostics);
        }
        Value::Expr(expr) if key == "allow_provider_tools" && is_text(&expr) => {
            return refused(&expr, format!("tools are listed: write `[{}]`", expr.to_token_stream()), diagnostics);
        }
        Value::Expr(expr) if matches!(key, "model" | "model_proxy" | "tool_call_check") && is_none(&expr) => {
            return Some(Form::Off);
        }
        Value::Expr(expr) => return Some(Form::Expr(expr)),
        Value::Map(map) => map,
    };
    match key {
        "workspace" | "files" => Some(Form::Items(items(map, "a path", &["body", "executable"], diagnostics))),
        "pages" => Some(Form::Items(items(map, "a URL", &["body", "content_type", "status"], diagnostics))),
        "secrets" => Some(Form::Secrets(secrets(map, diagnostics))),
        "limits" => built(map, ("Limits", "new", None), diagnostics),
        "model_proxy" => built(map, ("ModelProxy", "new", Some("base_url")), diagnostics),
        "tool_call_check" => built(map, ("ToolCallCheck", "url", Some("url")), diagnostics),
        _ => {
            diagnostics.at(map.span, format!("`{key}` takes an expression, not a map"));
            None
        }
    }
}

fn refused(at: &Expr, message: String, diagnostics: &mut Diagnostics) -> Option<Form> {
    diagnostics.on(at, message);
    None
}

fn is_none(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(path) if path.path.is_ident("none"))
}

/// Whether a secret is one of the suite's setup.
pub(crate) fn is_shared(value: &Expr) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident("shared"))
}

fn items(map: Map, key_is: &str, fields: &[&str], diagnostics: &mut Diagnostics) -> Literal<Item> {
    let mut complete = map.complete;
    let entries = map
        .entries
        .into_iter()
        .filter_map(|entry| {
            let item = item(entry, key_is, fields, diagnostics);
            complete &= item.is_some();
            item
        })
        .collect();
    Literal { entries, complete }
}

fn item(entry: Entry, key_is: &str, fields: &[&str], diagnostics: &mut Diagnostics) -> Option<Item> {
    let key = match entry.key {
        Key::Text(key) => key,
        Key::Name(name) => {
            diagnostics.at(name.span(), format!("{key_is} is a string literal: write `\"{name}\"`"));
            return None;
        }
    };
    let map = match entry.value {
        Value::Expr(expr) => return Some(Item { key, value: ItemValue::Plain(expr) }),
        Value::Map(map) => map,
    };
    let span = map.span;
    let setters = named(map, fields, diagnostics)?;
    let (mut bodies, setters): (Vec<_>, Vec<_>) = setters.into_iter().partition(|setter| setter.name == "body");
    let Some(body) = bodies.pop().and_then(|mut body| body.arguments.pop()) else {
        diagnostics.at(span, "there is no `body` in it");
        return None;
    };
    Some(Item { key, value: ItemValue::Built { body, setters } })
}

/// Names and expressions, each name once and one of those that are known.
fn named(map: Map, known: &[&str], diagnostics: &mut Diagnostics) -> Option<Vec<Setter>> {
    let mut setters: Vec<Setter> = Vec::new();
    let mut good = map.complete;
    for Entry { key, value } in map.entries {
        let mut refuse = |span: Span, message: String| {
            diagnostics.at(span, message);
            good = false;
        };
        match (key, value) {
            (Key::Text(key), _) => refuse(key.span(), format!("expected a name: {}", hint(&key.value(), known))),
            (Key::Name(name), _) if !known.iter().any(|known| name == known) => {
                refuse(name.span(), format!("nothing here is called `{name}`: {}", hint(&name.to_string(), known)));
            }
            (Key::Name(name), _) if setters.iter().any(|setter| setter.name == name) => {
                refuse(name.span(), format!("`{name}` is given twice"));
            }
            (Key::Name(name), Value::Map(map)) => refuse(map.span, format!("`{name}` takes an expression, not a map")),
            (Key::Name(name), Value::Expr(expr)) => setters.push(Setter { name, arguments: vec![expr] }),
        }
    }
    good.then_some(setters)
}

fn secrets(map: Map, diagnostics: &mut Diagnostics) -> Literal<SecretItem> {
    let mut complete = map.complete;
    let mut entries: Vec<SecretItem> = Vec::new();
    for Entry { key, value } in map.entries {
        let span = key.span();
        let name = match key {
            Key::Text(text) => text.value(),
            Key::Name(name) => name.unraw().to_string(),
        };
        let mut refuse = |span: Span, message: String| {
            diagnostics.at(span, message);
            complete = false;
        };
        match value {
            Value::Map(map) => {
                refuse(map.span, "a secret is a text or an expression such as `canary()`, not a map".to_owned())
            }
            Value::Expr(_) if !is_secret_name(&name) => refuse(
                span,
                "a secret's name has letters, digits and `_`, not a digit first, and at most 64 of them".to_owned(),
            ),
            Value::Expr(_) if entries.iter().any(|entry| entry.name == name) => {
                refuse(span, format!("secret `{name}` is declared twice"));
            }
            Value::Expr(value) => entries.push(SecretItem { name, span, value }),
        }
    }
    Literal { entries, complete }
}

fn is_secret_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `limits`, `model_proxy` and `tool_call_check`: the names are methods of the type, which knows best what it has;
/// `headers` is one `header` call for each.
fn built(
    map: Map,
    (type_name, constructor, first): (&'static str, &'static str, Option<&str>),
    diagnostics: &mut Diagnostics,
) -> Option<Form> {
    let span = map.span;
    let mut good = map.complete;
    let mut start = None;
    let mut setters: Vec<Setter> = Vec::new();
    let mut seen = Vec::new();
    for Entry { key, value } in map.entries {
        let mut refuse = |span: Span, message: String| {
            diagnostics.at(span, message);
            good = false;
        };
        let name = match key {
            Key::Name(name) => name,
            Key::Text(text) => {
                refuse(text.span(), "expected a name, without quotes".to_owned());
                continue;
            }
        };
        if seen.contains(&name) {
            refuse(name.span(), format!("`{name}` is given twice"));
            continue;
        }
        seen.push(name.clone());
        match value {
            Value::Expr(expr) if name == "turn_timeout" && is_number(&expr) => {
                refuse(expr.span(), a_duration(&expr));
            }
            Value::Expr(expr) if first.is_some_and(|first| name == first) => start = Some(expr),
            Value::Expr(expr) => setters.push(Setter { name, arguments: vec![expr] }),
            Value::Map(map) if first.is_some() && name == "headers" => match headers(&name, map, diagnostics) {
                Some(headers) => setters.extend(headers),
                None => good = false,
            },
            Value::Map(map) => refuse(map.span, format!("`{name}` takes an expression, not a map")),
        }
    }
    if let (Some(first), None, true) = (first, &start, good) {
        diagnostics.at(span, format!("there is no `{first}` in it"));
        good = false;
    }
    good.then_some(Form::Built(Built { type_name, constructor, start, setters }))
}

fn headers(name: &Ident, map: Map, diagnostics: &mut Diagnostics) -> Option<Vec<Setter>> {
    let mut good = map.complete;
    let setters = map
        .entries
        .into_iter()
        .filter_map(|entry| match (entry.key, entry.value) {
            (Key::Text(key), Value::Expr(value)) => {
                let key = Expr::Lit(syn::ExprLit { attrs: Vec::new(), lit: Lit::Str(key) });
                Some(Setter { name: Ident::new("header", name.span()), arguments: vec![key, value] })
            }
            (Key::Name(key), _) => {
                diagnostics.at(key.span(), format!("a header's name is a string literal: write `\"{key}\"`"));
                good = false;
                None
            }
            (_, Value::Map(map)) => {
                diagnostics.at(map.span, "a header's value is an expression, not a map");
                good = false;
                None
            }
        })
        .collect();
    good.then_some(setters)
}
