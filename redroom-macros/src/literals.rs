//! Values that are plainly of another kind than was meant: what rustc says of them speaks of types that the reader did not write.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Expr, ExprLit, Lit};

use crate::planting::bare;

/// What is said of a bare number of seconds.
pub(crate) fn a_duration(seconds: &Expr) -> String {
    format!("how long is a `Duration`: write `Duration::from_secs({})`", seconds.to_token_stream())
}

pub(crate) fn is_number(expr: &Expr) -> bool {
    matches!(bare(expr), Expr::Lit(ExprLit { lit: Lit::Int(_), .. }))
}

pub(crate) fn is_text(expr: &Expr) -> bool {
    matches!(bare(expr), Expr::Lit(ExprLit { lit: Lit::Str(_), .. }))
}

/// The first brace group, among what a call is given, that looks like JSON and stands in no macro. `argument` may go on with
/// the next one.
pub(crate) fn bare_json(argument: TokenStream) -> Option<Group> {
    let own = argument.into_iter().take_while(|token| !is_punct(token, ','));
    own.filter_map(|token| match token {
        TokenTree::Group(given) if given.delimiter() == Delimiter::Parenthesis => Some(given),
        _ => None,
    })
    .find_map(|given| json_in(given.stream()))
}

fn json_in(tokens: TokenStream) -> Option<Group> {
    let mut in_macro = false;
    for token in tokens {
        let after = std::mem::replace(&mut in_macro, is_punct(&token, '!'));
        let TokenTree::Group(group) = token else { continue };
        if after {
            continue;
        }
        let mut first = group.stream().into_iter();
        let begins = [first.next(), first.next()];
        if let (Delimiter::Brace, [Some(TokenTree::Literal(_)), Some(colon)]) = (group.delimiter(), &begins)
            && is_punct(colon, ':')
        {
            return Some(group);
        }
        if let Some(found) = json_in(group.stream()) {
            return Some(found);
        }
    }
    None
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}
