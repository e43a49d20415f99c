//! `tags = ["dns", "slow"]`: words by which attacks are chosen.

use syn::parse::ParseStream;
use syn::{Expr, Lit, LitStr};

use crate::diagnostics::Diagnostics;
use crate::planting::bare;

const LONGEST: usize = 64;

/// Reads the list. It has to be known when the attack is listed, so that it can be no other expression.
pub(crate) fn read(input: ParseStream<'_>, diagnostics: &mut Diagnostics) -> syn::Result<Vec<LitStr>> {
    let list: Expr = input.parse()?;
    let Expr::Array(array) = bare(&list) else {
        return Err(syn::Error::new_spanned(list, "tags are listed as they are: write `tags = [\"dns\", \"slow\"]`"));
    };
    let mut tags: Vec<LitStr> = Vec::new();
    for tag in &array.elems {
        let Expr::Lit(syn::ExprLit { lit: Lit::Str(tag), .. }) = bare(tag) else {
            diagnostics.on(tag, "a tag is a string literal");
            continue;
        };
        let value = tag.value();
        if !is_tag(&value) {
            diagnostics.at(
                tag.span(),
                format!(
                    "{value:?}: a tag has letters, digits, `-` and `_`, not `-` first, and at most {LONGEST} of them"
                ),
            );
        } else if tags.iter().any(|other| other.value() == value) {
            diagnostics.at(tag.span(), format!("the tag `{value}` is given twice"));
        } else {
            tags.push(tag.clone());
        }
    }
    Ok(tags)
}

/// What can stand on a command line and in a list with commas.
fn is_tag(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
