//! Mistakes, collected over all steps and told together.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The mistakes so far.
#[derive(Default)]
pub(crate) struct Diagnostics(Option<syn::Error>);

impl Diagnostics {
    /// Adds a mistake.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    /// Adds a mistake at a place.
    pub(crate) fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(syn::Error::new(span, message));
    }

    /// Adds a mistake that these tokens are, from the first to the last.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// One `compile_error!` a mistake.
    pub(crate) fn into_compile_errors(self) -> TokenStream {
        self.0.map(|errors| errors.into_compile_error()).unwrap_or_default()
    }
}

/// ``: did you mean `workspace`?``, or else all that is known.
pub(crate) fn hint(name: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, candidate)) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => "there are none".to_owned(),
        None => {
            let list: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("there are {}", list.join(", "))
        }
    }
}
