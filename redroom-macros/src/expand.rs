//! What the attribute leaves behind: the function as it was, and its registration, through paths of the facade only.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use crate::args::{Args, Built, Form, ItemValue, Setter, Setting, is_shared};
use crate::cases::Case;
use crate::diagnostics::Diagnostics;
use crate::signature::{Function, Ignore, Parameter, ShouldPanic};

/// The item as it was, and what is wrong with it.
pub(crate) fn kept(item: &TokenStream, diagnostics: Diagnostics) -> TokenStream {
    let errors = diagnostics.into_compile_errors();
    quote! { #item #errors }
}

/// The function, and its registration or what is wrong. An attack that is not registered is never called; that says the
/// error already, so no lint needs to.
pub(crate) fn attack(args: &Args, function: &Function, diagnostics: Diagnostics, runs_here: bool) -> TokenStream {
    let item = &function.item;
    if !diagnostics.is_empty() {
        return kept(&quote! { #[allow(dead_code)] #item }, diagnostics);
    }
    let root = args.root.as_ref().map_or_else(|| quote!(::redroom), ToTokens::to_token_stream);
    let registrations = match &function.cases.all[..] {
        [] => vec![registration(&root, args, function, None)],
        cases => cases.iter().map(|case| registration(&root, args, function, Some(case))).collect(),
    };
    let harness = runs_here.then(refuse_harness);
    // The error is enough: that it stands in a test which nobody could name need not be said.
    let quietly = runs_here.then(|| quote!(#[allow(unnameable_test_items)]));
    let passed_over = (!runs_here).then(|| passed_over(&item.sig.ident));
    let conditions: Vec<_> = item.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    let passed_over = passed_over.map(|test| quote!(#(#conditions)* #test));
    quote! {
        #item

        #(#conditions)*
        #quietly
        const _: () = {
            #(#root::private::inventory::submit! { #registrations })*
            #harness
        };

        #passed_over
    }
}

/// An error where rustc's own harness is linked, for that would run no attack and pass: only there a `#[test]` is looked into.
fn refuse_harness() -> TokenStream {
    quote! {
        #[::core::prelude::v1::test]
        fn refuse_harness() {
            ::core::compile_error!(
                "attacks have a main function of their own, and rustc's harness would run none: in Cargo.toml, \
                 write a `[[test]]` with this test's `name` and `harness = false`; in its file, `redroom::main!();` once"
            );
        }
    }
}

/// A library may have attacks that a test of another crate runs, so that they are no mistake among its unit tests. But rustc's harness,
/// which runs those, would pass over an attack without a word: this is the word, and nothing to run.
fn passed_over(attack: &Ident) -> TokenStream {
    let name = format_ident!("{}_is_not_run_here", attack.unraw());
    quote! {
        #[::core::prelude::v1::test]
        #[ignore = "rustc's harness runs no attack: a test with `harness = false` and `redroom::main!();` does"]
        fn #name() {}
    }
}

/// The registration of the attack, or of one case of it.
fn registration(root: &TokenStream, args: &Args, function: &Function, case: Option<&Case>) -> TokenStream {
    let ident = &function.item.sig.ident;
    let name = match case {
        None => ident.unraw().to_string(),
        Some(case) => format!("{}::{}", ident.unraw(), case.name.unraw()),
    };
    let ignore = match case.map_or(&function.ignore, |case| case.ignore.as_ref().unwrap_or(&function.ignore)) {
        Ignore::No => quote!(No),
        Ignore::Yes => quote!(Yes),
        Ignore::Because(why) => quote!(Because(#why)),
    };
    let should_panic = match &function.should_panic {
        ShouldPanic::No => quote!(No),
        ShouldPanic::Yes => quote!(Yes),
        ShouldPanic::With(text) => quote!(With(#text)),
    };
    let mut tags: Vec<_> = args.tags.iter().flatten().chain(case.iter().flat_map(|case| &case.tags)).collect();
    tags.sort_by_key(|tag| tag.value());
    tags.dedup_by_key(|tag| tag.value());
    let settings = args.settings.iter().map(|setting| call(root, setting));
    let values = case.into_iter().flat_map(|case| function.parameters.iter().zip(&case.values));
    let values = values.map(|(Parameter { name, type_ }, value)| quote!(let #name: #type_ = #value;));
    // The attribute may use a value up, and the body gets the same one.
    let copies = function.parameters.iter().map(|Parameter { name, type_ }| {
        let copy = quote_spanned!(type_.span()=> ::core::clone::Clone::clone(&#name));
        quote!(#[allow(unused_variables)] let #name = #copy;)
    });
    let given = function.parameters.iter().map(|parameter| &parameter.name);
    // Names that the user's cannot clash with, at the places where a wrong type is to be told.
    let private = |name: &str, span: Span| Ident::new(name, Span::mixed_site().located_at(span));
    let run = private("run", function.argument_span());
    let outcome = private("outcome", function.output_span());
    quote! {
        #root::private::Registration {
            name: ::core::concat!(::core::module_path!(), "::", #name),
            file: ::core::file!(),
            line: ::core::line!(),
            ignore: #root::private::Ignore::#ignore,
            should_panic: #root::private::ShouldPanic::#should_panic,
            tags: &[#(#tags),*],
            prepare: || {
                #(#values)*
                #root::private::Prepared {
                    options: {
                        #(#copies)*
                        #root::RunOptions::new() #(#settings)*
                    },
                    body: ::std::boxed::Box::new(move |#run| ::std::boxed::Box::pin(async move {
                        let #outcome = #ident(#run #(, #given)*).await;
                        #root::private::Outcome::into_result(#outcome)
                    })),
                }
            },
        }
    }
}

fn call(root: &TokenStream, Setting { key, value }: &Setting) -> TokenStream {
    let argument = match value {
        Form::Expr(expr) => expr.to_token_stream(),
        Form::Off => {
            let off = Ident::new(&format!("no_{key}"), key.span());
            return quote!(.#off());
        }
        Form::Items(literal) => {
            let (collection, one) = if key == "pages" { ("Pages", "Page") } else { ("Files", "File") };
            let collection = Ident::new(collection, Span::call_site());
            let entries = literal.entries.iter().map(|item| {
                let (path, value) = (&item.key, item_value(root, one, &item.value));
                quote!(.with(#path, #value))
            });
            quote!(#root::#collection::new() #(#entries)*)
        }
        Form::Secrets(literal) => {
            // What is the suite's is there already.
            let own = literal.entries.iter().filter(|secret| !is_shared(&secret.value));
            let entries = own.map(|secret| {
                let (name, value) = (&secret.name, &secret.value);
                quote!(.with(#name, #value))
            });
            quote!(#root::Secrets::new() #(#entries)*)
        }
        Form::Built(Built { type_name, constructor, start, setters }) => {
            let type_name = Ident::new(type_name, Span::call_site());
            let constructor = Ident::new(constructor, Span::call_site());
            let setters = setters.iter().map(set);
            quote!(#root::#type_name::#constructor(#start) #(#setters)*)
        }
    };
    quote!(.#key(#argument))
}

fn item_value(root: &TokenStream, one: &str, value: &ItemValue) -> TokenStream {
    match value {
        ItemValue::Plain(expr) => expr.to_token_stream(),
        ItemValue::Built { body, setters } => {
            let one = Ident::new(one, Span::call_site());
            let setters = setters.iter().map(set);
            quote!(#root::#one::new(#body) #(#setters)*)
        }
    }
}

fn set(Setter { name, arguments }: &Setter) -> TokenStream {
    quote!(.#name(#(#arguments),*))
}
