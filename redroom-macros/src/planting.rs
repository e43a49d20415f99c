//! What can be known at compile time of what is planted: paths, URLs, names of secrets, and secrets that stand nowhere.
//! Only literals are judged; the run judges the rest.

use syn::{Expr, Lit, LitByteStr, LitStr};

use crate::args::{Args, Form, Item, ItemValue, Literal, SecretItem};
use crate::diagnostics::{Diagnostics, hint};
use crate::{paths, templates, urls};

/// Judges the literals.
pub(crate) fn check(args: &Args, diagnostics: &mut Diagnostics) {
    check_paths(args, diagnostics);
    check_urls(args, diagnostics);
    check_secrets(args, diagnostics);
}

fn items<'a>(args: &'a Args, key: &str) -> &'a [Item] {
    match args.get(key) {
        Some(Form::Items(literal)) => &literal.entries,
        _ => &[],
    }
}

fn check_paths(args: &Args, diagnostics: &mut Diagnostics) {
    let mut planted: Vec<String> = Vec::new();
    let in_workspace = items(args, "workspace").iter().map(|item| (item, paths::in_workspace(&item.key.value())));
    let in_sandbox = items(args, "files").iter().map(|item| (item, paths::in_sandbox(&item.key.value())));
    for (item, path) in in_workspace.chain(in_sandbox) {
        let path = match path {
            Ok(path) => path,
            Err(fault) => {
                diagnostics.at(item.key.span(), format!("{:?}: {fault}", item.key.value()));
                continue;
            }
        };
        if planted.contains(&path) {
            diagnostics.at(item.key.span(), format!("`{path}` is planted twice"));
            continue;
        }
        if let Some(folder) = planted.iter().find(|other| paths::is_below(&path, other)) {
            diagnostics.at(item.key.span(), format!("`{folder}` is planted as a file, but this needs a folder there"));
        } else if let Some(below) = planted.iter().find(|other| paths::is_below(other, &path)) {
            diagnostics.at(item.key.span(), format!("this is planted as a file, but `{below}` needs a folder there"));
        }
        planted.push(path);
    }
}

fn check_urls(args: &Args, diagnostics: &mut Diagnostics) {
    let mut planted = Vec::new();
    for item in items(args, "pages") {
        match urls::place(&item.key.value()) {
            Err(fault) => diagnostics.at(item.key.span(), format!("{:?}: {fault}", item.key.value())),
            Ok(place) if planted.contains(&place) => diagnostics.at(
                item.key.span(),
                format!("{:?} is planted twice (`http` and `https` find the same page)", item.key.value()),
            ),
            Ok(place) => planted.push(place),
        }
    }
}

fn check_secrets(args: &Args, diagnostics: &mut Diagnostics) {
    let none = Literal { entries: Vec::new(), complete: true };
    let declared = match args.get("secrets") {
        Some(Form::Secrets(literal)) => literal,
        None if args.complete => &none,
        _ => return,
    };
    for secret in &declared.entries {
        if let Some(value) = Declared::read(&secret.value).literal.filter(|value| value.value().chars().count() < 8) {
            diagnostics.at(
                value.span(),
                format!(
                    "secret `{}` has fewer than 8 characters and would be found by chance: make it longer, or use `canary()`",
                    secret.name
                ),
            );
        }
    }
    let contents = Contents::read(args);
    let unknown = declared.complete && refuse_unknown_names(&contents, declared, diagnostics);
    if contents.all_known && declared.complete && !unknown {
        refuse_secrets_that_stand_nowhere(&contents, declared, diagnostics);
    }
}

fn refuse_unknown_names(contents: &Contents, declared: &Literal<SecretItem>, diagnostics: &mut Diagnostics) -> bool {
    let known: Vec<_> = declared.entries.iter().map(|secret| secret.name.as_str()).collect();
    let mut unknown = false;
    for text in &contents.texts {
        for name in templates::names(&text.value()).filter(|name| !known.contains(name)) {
            unknown = true;
            diagnostics.at(text.span(), format!("no secret is called `{name}`: {}", hint(name, &known)));
        }
    }
    unknown
}

fn refuse_secrets_that_stand_nowhere(
    contents: &Contents,
    declared: &Literal<SecretItem>,
    diagnostics: &mut Diagnostics,
) {
    for secret in &declared.entries {
        let read = Declared::read(&secret.value);
        let is_known = read.is_canary || read.literal.is_some();
        if read.is_unplanted || !is_known || contents.hold(&secret.name, read.literal) {
            continue;
        }
        diagnostics.at(
            secret.span,
            format!(
                "secret `{0}` stands nowhere in what is planted: write `${{secrets.{0}}}` into a file or page, or mark it \
                 with `unplanted(..)`",
                secret.name
            ),
        );
    }
}

/// What is known of a secret's value.
struct Declared<'a> {
    literal: Option<&'a LitStr>,
    is_canary: bool,
    is_unplanted: bool,
}

impl<'a> Declared<'a> {
    fn read(value: &'a Expr) -> Self {
        match bare(value) {
            Expr::Lit(literal) => {
                let literal = match &literal.lit {
                    Lit::Str(text) => Some(text),
                    _ => None,
                };
                Declared { literal, is_canary: false, is_unplanted: false }
            }
            Expr::Call(call) => {
                let Expr::Path(function) = bare(&call.func) else { return Declared::unknown() };
                let is_last = |name: &str| function.path.segments.last().is_some_and(|last| last.ident == name);
                match call.args.first() {
                    Some(inner) if is_last("unplanted") => Declared { is_unplanted: true, ..Declared::read(inner) },
                    None => Declared {
                        literal: None,
                        is_canary: function.path.segments.iter().any(|segment| segment.ident == "canary"),
                        is_unplanted: false,
                    },
                    Some(_) => Declared::unknown(),
                }
            }
            _ => Declared::unknown(),
        }
    }

    fn unknown() -> Self {
        Declared { literal: None, is_canary: false, is_unplanted: false }
    }
}

/// The literals among what is planted.
struct Contents {
    texts: Vec<LitStr>,
    bytes: Vec<LitByteStr>,
    /// There is nothing but literals.
    all_known: bool,
}

impl Contents {
    fn read(args: &Args) -> Self {
        let mut contents = Contents { texts: Vec::new(), bytes: Vec::new(), all_known: args.complete };
        for form in ["workspace", "files", "pages"].into_iter().filter_map(|key| args.get(key)) {
            let Form::Items(literal) = form else {
                contents.all_known = false;
                continue;
            };
            contents.all_known &= literal.complete;
            for item in &literal.entries {
                contents.add(match &item.value {
                    ItemValue::Plain(body) | ItemValue::Built { body, .. } => body,
                });
            }
        }
        contents
    }

    fn add(&mut self, body: &Expr) {
        match bare(body) {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => self.texts.push(text.clone()),
                Lit::ByteStr(bytes) => self.bytes.push(bytes.clone()),
                _ => self.all_known = false,
            },
            _ => self.all_known = false,
        }
    }

    fn hold(&self, name: &str, value: Option<&LitStr>) -> bool {
        let value = value.map(LitStr::value);
        self.texts.iter().map(LitStr::value).any(|text| {
            value.as_ref().is_some_and(|value| text.contains(value))
                || templates::names(&text).any(|found| found == name)
        }) || value.is_some_and(|value| self.bytes.iter().any(|bytes| holds(&bytes.value(), value.as_bytes())))
    }
}

fn holds(bytes: &[u8], value: &[u8]) -> bool {
    bytes.windows(value.len().max(1)).any(|window| window == value)
}

/// Without the parentheses around it, nor the invisible ones that a `macro_rules!` leaves.
pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => bare(&group.expr),
        Expr::Paren(paren) => bare(&paren.expr),
        other => other,
    }
}
