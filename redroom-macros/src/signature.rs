//! What an attack's function may look like, and the test attributes that it may carry.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Expr, FnArg, Item, ItemFn, Lit, LitStr, Meta, Pat, PatType, ReturnType, Token, Type, parse_quote,
};

use crate::cases::Cases;
use crate::diagnostics::Diagnostics;

/// An attack's function, without the cases and the test attributes that were taken over.
pub(crate) struct Function {
    pub(crate) item: ItemFn,
    /// What it takes beside its run.
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) cases: Cases,
    pub(crate) ignore: Ignore,
    pub(crate) should_panic: ShouldPanic,
}

/// A value that each case gives.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) type_: Type,
}

/// `#[ignore]`, with its reason.
pub(crate) enum Ignore {
    No,
    Yes,
    Because(LitStr),
}

/// `#[should_panic]`, with what the message must hold.
pub(crate) enum ShouldPanic {
    No,
    Yes,
    With(LitStr),
}

impl Ignore {
    /// Reads the reason.
    pub(crate) fn because(why: &Expr) -> syn::Result<Self> {
        text(why).map(Ignore::Because).ok_or_else(|| syn::Error::new_spanned(why, "the reason is a string literal"))
    }
}

impl Function {
    /// Reads the item. Its mistakes are collected; an item that is no function is the error.
    pub(crate) fn parse(item: TokenStream, diagnostics: &mut Diagnostics) -> syn::Result<Self> {
        let mut item: ItemFn = syn::parse2(item.clone()).map_err(|error| match syn::parse2::<Item>(item) {
            Ok(other) => syn::Error::new_spanned(other, "an attack is an async function: `async fn name(run: Run)`"),
            Err(_) => error,
        })?;
        let is_test_already = refuse_test(&mut item, diagnostics);
        check(&item, is_test_already, diagnostics);
        let parameters = parameters(&item, diagnostics);
        let cases = Cases::take(&mut item.attrs, diagnostics);
        cases.check(&item, parameters.as_deref(), diagnostics);
        let (ignore, should_panic) = take_test_attributes(&mut item.attrs, diagnostics);
        Ok(Function { item, parameters: parameters.unwrap_or_default(), cases, ignore, should_panic })
    }

    /// A value that the attribute's arguments name, in a text's braces as well, need not be used in the body: no lint warns of it.
    pub(crate) fn spare_what_is_used_in(&mut self, arguments: &str) {
        let words: Vec<_> = arguments.split(|char: char| !char.is_alphanumeric() && char != '_').collect();
        for (input, parameter) in self.item.sig.inputs.iter_mut().skip(1).zip(&self.parameters) {
            if let FnArg::Typed(input) = input
                && words.contains(&&*parameter.name.unraw().to_string())
            {
                input.attrs.push(parse_quote!(#[allow(unused_variables)]));
            }
        }
    }

    /// Where the argument's type stands.
    pub(crate) fn argument_span(&self) -> Span {
        match self.item.sig.inputs.first() {
            Some(FnArg::Typed(argument)) => argument.ty.span(),
            _ => self.item.sig.ident.span(),
        }
    }

    /// Where the return type stands.
    pub(crate) fn output_span(&self) -> Span {
        match &self.item.sig.output {
            ReturnType::Type(_, output) => output.span(),
            ReturnType::Default => self.item.sig.ident.span(),
        }
    }
}

/// Takes `#[test]`, and what runtimes have in its place, away: it would hide the function from the attack, which is a test without it.
fn refuse_test(item: &mut ItemFn, diagnostics: &mut Diagnostics) -> bool {
    let is_test = |attribute: &Attribute| attribute.path().segments.last().is_some_and(|name| name.ident == "test");
    let (refused, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut item.attrs).into_iter().partition(is_test);
    item.attrs = kept;
    for attribute in &refused {
        diagnostics.on(attribute, "an attack is a test already, which redroom runs: take this attribute away");
    }
    !refused.is_empty()
}

fn check(item: &ItemFn, is_test_already: bool, diagnostics: &mut Diagnostics) {
    let signature = &item.sig;
    // A runtime's attribute has made a plain function of it.
    if signature.asyncness.is_none() && !is_test_already {
        diagnostics.at(signature.fn_token.span, "an attack is an async function: write `async fn`");
    }
    if let Some(token) = &signature.constness {
        diagnostics.on(token, "an attack cannot be `const`");
    }
    if let Some(abi) = &signature.abi {
        diagnostics.on(abi, "an attack cannot be `extern`");
    }
    if !signature.generics.params.is_empty() {
        diagnostics.on(&signature.generics, "an attack cannot be generic: it is called by name");
    }
    if let Some(where_clause) = &signature.generics.where_clause {
        diagnostics.on(where_clause, "an attack cannot have a `where` clause");
    }
    check_inputs(item, diagnostics);
    if let ReturnType::Type(_, output) = &signature.output
        && matches!(&**output, Type::ImplTrait(_) | Type::Never(_) | Type::Reference(_))
    {
        diagnostics.on(output, "an attack returns `()` or `Result<(), E>` with an `E` that can be displayed");
    }
}

fn check_inputs(item: &ItemFn, diagnostics: &mut Diagnostics) {
    let signature = &item.sig;
    match signature.inputs.first() {
        None => diagnostics.at(signature.paren_token.span.join(), "an attack takes its run: write `run: Run`"),
        Some(FnArg::Receiver(receiver)) => {
            diagnostics.on(receiver, "an attack is a function by itself, without `self`");
        }
        Some(FnArg::Typed(argument)) => match &*argument.ty {
            Type::Reference(reference) => {
                diagnostics.on(reference, "an attack takes its run by value: write `run: Run`");
            }
            Type::ImplTrait(implied) => diagnostics.on(implied, "an attack takes a `Run`: write `run: Run`"),
            _ => {}
        },
    }
}

/// What the function takes beside its run, unless something is wrong with it.
fn parameters(item: &ItemFn, diagnostics: &mut Diagnostics) -> Option<Vec<Parameter>> {
    let beside_run: Vec<_> = item.sig.inputs.iter().skip(1).map(|input| parameter(input, diagnostics)).collect();
    beside_run.into_iter().collect()
}

fn parameter(input: &FnArg, diagnostics: &mut Diagnostics) -> Option<Parameter> {
    let FnArg::Typed(PatType { pat, ty, .. }) = input else { return None };
    let name = match &**pat {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => Some(name.ident.clone()),
        other => {
            diagnostics
                .on(other, "what a case gives has a name: write `page: &'static str`, and take it apart in the body");
            None
        }
    };
    if let Type::ImplTrait(implied) = &**ty {
        diagnostics.on(implied, "what a case gives has a type of its own: write which");
        return None;
    }
    Some(Parameter { name: name?, type_: (**ty).clone() })
}

fn take_test_attributes(attributes: &mut Vec<Attribute>, diagnostics: &mut Diagnostics) -> (Ignore, ShouldPanic) {
    let mut ignore = Ignore::No;
    let mut should_panic = ShouldPanic::No;
    for attribute in std::mem::take(attributes) {
        let result = if attribute.path().is_ident("ignore") {
            read_ignore(&attribute).and_then(|read| match ignore {
                Ignore::No => {
                    ignore = read;
                    Ok(())
                }
                _ => Err(syn::Error::new_spanned(attribute, "`ignore` is given twice")),
            })
        } else if attribute.path().is_ident("should_panic") {
            read_should_panic(&attribute).and_then(|read| match should_panic {
                ShouldPanic::No => {
                    should_panic = read;
                    Ok(())
                }
                _ => Err(syn::Error::new_spanned(attribute, "`should_panic` is given twice")),
            })
        } else {
            attributes.push(attribute);
            Ok(())
        };
        if let Err(error) = result {
            diagnostics.push(error);
        }
    }
    (ignore, should_panic)
}

fn read_ignore(attribute: &Attribute) -> syn::Result<Ignore> {
    match &attribute.meta {
        Meta::Path(_) => Ok(Ignore::Yes),
        Meta::NameValue(value) => Ignore::because(&value.value),
        Meta::List(_) => Err(syn::Error::new_spanned(attribute, "write `#[ignore]` or `#[ignore = \"why\"]`")),
    }
}

fn read_should_panic(attribute: &Attribute) -> syn::Result<ShouldPanic> {
    let form =
        || syn::Error::new_spanned(attribute, "write `#[should_panic]` or `#[should_panic(expected = \"text\")]`");
    match &attribute.meta {
        Meta::Path(_) => Ok(ShouldPanic::Yes),
        Meta::NameValue(value) => text(&value.value).map(ShouldPanic::With).ok_or_else(form),
        Meta::List(list) => list
            .parse_args_with(|input: syn::parse::ParseStream<'_>| {
                let name: syn::Ident = input.parse()?;
                input.parse::<Token![=]>()?;
                let expected: LitStr = input.parse()?;
                input.parse::<Option<Token![,]>>()?;
                if name == "expected" { Ok(ShouldPanic::With(expected)) } else { Err(form()) }
            })
            .map_err(|_| form()),
    }
}

fn text(expr: &Expr) -> Option<LitStr> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
