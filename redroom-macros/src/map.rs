//! Map literals: `{ "README.md": "…", run: expression, nested: { … } }`. Syntax only; what keys mean is decided elsewhere.

use proc_macro2::{Ident, Span, TokenTree};
use syn::ext::IdentExt as _;
use syn::parse::discouraged::Speculative as _;
use syn::parse::{ParseBuffer, ParseStream};
use syn::{Expr, LitStr, Token, braced, token};

use crate::diagnostics::Diagnostics;
use crate::literals::bare_json;

/// What stands after a key.
#[derive(Debug)]
pub(crate) enum Value {
    Map(Map),
    Expr(Expr),
}

/// A map literal.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) span: Span,
    pub(crate) entries: Vec<Entry>,
    /// No entry was lost to a mistake.
    pub(crate) complete: bool,
}

/// One entry of a map.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) value: Value,
}

/// The key of an entry.
#[derive(Debug)]
pub(crate) enum Key {
    Text(LitStr),
    Name(Ident),
}

impl Value {
    /// Reads a map where a brace group is one, else an expression.
    pub(crate) fn parse(input: ParseStream<'_>, diagnostics: &mut Diagnostics) -> syn::Result<Self> {
        if !is_map(input) {
            let ahead = input.fork();
            return input.parse().map(Value::Expr).map_err(|error| match ahead.parse().ok().and_then(bare_json) {
                Some(json) => syn::Error::new(json.span(), "JSON has a macro around it: write `json!({ … })`"),
                None => error,
            });
        }
        let content;
        let brace = braced!(content in input);
        let mut entries = Vec::new();
        let complete = separated(&content, diagnostics, begins_entry, |input, diagnostics| {
            entries.push(Entry::parse(input, diagnostics)?);
            Ok(())
        });
        let complete = complete && entries.iter().all(Entry::is_complete);
        Ok(Value::Map(Map { span: brace.span.join(), entries, complete }))
    }
}

impl Entry {
    fn parse(input: ParseStream<'_>, diagnostics: &mut Diagnostics) -> syn::Result<Self> {
        let key = if input.peek(LitStr) {
            Key::Text(input.parse()?)
        } else if input.peek(Ident::peek_any) {
            Key::Name(input.call(Ident::parse_any)?)
        } else {
            return Err(input.error("expected a key: a string literal or a name, then `:`"));
        };
        input.parse::<Token![:]>()?;
        Ok(Entry { key, value: Value::parse(input, diagnostics)? })
    }

    fn is_complete(&self) -> bool {
        !matches!(&self.value, Value::Map(map) if !map.complete)
    }
}

impl Key {
    /// Where it stands.
    pub(crate) fn span(&self) -> Span {
        match self {
            Key::Text(text) => text.span(),
            Key::Name(name) => name.span(),
        }
    }
}

/// A brace group is a map if it is empty or starts with a string literal or an identifier followed by a single `:`.
fn is_map(input: ParseStream<'_>) -> bool {
    fn looks_like_one(input: ParseStream<'_>) -> syn::Result<bool> {
        let fork = input.fork();
        let content;
        braced!(content in fork);
        let is_map = content.is_empty() || content.peek(LitStr) || begins_named_entry(&content);
        skip_all(&content);
        Ok(is_map)
    }
    input.peek(token::Brace) && looks_like_one(input).unwrap_or(false)
}

fn begins_named_entry(input: &ParseBuffer<'_>) -> bool {
    input.peek(Ident::peek_any) && input.peek2(Token![:]) && !input.peek2(Token![::])
}

fn begins_entry(input: &ParseBuffer<'_>) -> bool {
    (input.peek(LitStr) && input.peek2(Token![:])) || begins_named_entry(input)
}

/// Reads parts that are separated by commas. A part that does not parse is told and passed over, up to the comma before
/// which `begins` sees the next one. Whether all were read.
pub(crate) fn separated(
    input: ParseStream<'_>,
    diagnostics: &mut Diagnostics,
    begins: fn(&ParseBuffer<'_>) -> bool,
    mut part: impl FnMut(ParseStream<'_>, &mut Diagnostics) -> syn::Result<()>,
) -> bool {
    let mut complete = true;
    while !input.is_empty() {
        let attempt = input.fork();
        let read = part(&attempt, diagnostics)
            .and_then(|()| if attempt.is_empty() { Ok(()) } else { attempt.parse::<Token![,]>().map(drop) });
        match read {
            Ok(()) => input.advance_to(&attempt),
            Err(error) => {
                diagnostics.push(error);
                complete = false;
                skip_part(input, begins);
            }
        }
    }
    complete
}

fn skip_part(input: ParseStream<'_>, begins: fn(&ParseBuffer<'_>) -> bool) {
    while let Ok(token) = input.parse::<TokenTree>() {
        if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',') && begins(input) {
            return;
        }
    }
}

/// Only looking: what is left of a group would else count as unexpected.
fn skip_all(input: ParseStream<'_>) {
    while input.parse::<TokenTree>().is_ok() {}
}
