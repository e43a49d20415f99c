//! The `#[redroom::attack]` attribute, and `#[redroom::case]` that stands with it. Use them through the `redroom` crate, where they are documented.
//!
//! Three steps: the arguments and the function are parsed, all mistakes collected, the registration written. The function
//! is kept whatever is wrong, so that one mistake gives one error.

#![forbid(unsafe_code)]

mod args;
mod cases;
mod diagnostics;
mod expand;
mod literals;
mod map;
mod paths;
mod planting;
mod signature;
mod tags;
mod templates;
mod urls;

#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;

/// Registers an attack; documented where the `redroom` crate exports it.
#[proc_macro_attribute]
pub fn attack(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    // cargo names this folder to the compiler for integration tests alone: the one place where an attack can only be run.
    let runs_here = std::env::var_os("CARGO_TARGET_TMPDIR").is_some();
    attack_tokens(args.into(), item.into(), runs_here).into()
}

/// Adds a case to an attack; documented where the `redroom` crate exports it.
///
/// The attack takes its cases over, so that this is called for one that stands before its attack, or without one.
#[proc_macro_attribute]
pub fn case(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    cases::before_attack(args.into(), item.into()).into()
}

fn attack_tokens(args: TokenStream, item: TokenStream, runs_here: bool) -> TokenStream {
    let mut diagnostics = diagnostics::Diagnostics::default();
    let said = args.to_string();
    let args = args::Args::parse(args, &mut diagnostics);
    planting::check(&args, &mut diagnostics);
    let mut function = match signature::Function::parse(item.clone(), &mut diagnostics) {
        Ok(function) => function,
        Err(error) => {
            diagnostics.push(error);
            return expand::kept(&item, diagnostics);
        }
    };
    function.spare_what_is_used_in(&said);
    expand::attack(&args, &function, diagnostics, runs_here)
}
