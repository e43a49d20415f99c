//! Cases of an attack: `#[redroom::case(NAME, VALUE, …)]`, each a test of its own with a value for each parameter.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::discouraged::Speculative as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Expr, ItemFn, LitStr, Meta, Token};

use crate::diagnostics::{Diagnostics, hint};
use crate::map::separated;
use crate::signature::{Ignore, Parameter};
use crate::tags;

/// The cases of one attack.
pub(crate) struct Cases {
    pub(crate) all: Vec<Case>,
    /// Where the first attribute stands, readable or not.
    first: Option<Attribute>,
}

/// One case.
pub(crate) struct Case {
    pub(crate) name: Ident,
    /// In the order of the parameters.
    pub(crate) values: Vec<Expr>,
    /// What it says in place of the function.
    pub(crate) ignore: Option<Ignore>,
    /// Beside those of the attack.
    pub(crate) tags: Vec<LitStr>,
    /// No value was lost to a mistake.
    complete: bool,
}

const FORM: &str = "a case is a name and a value for each parameter: write `#[redroom::case(polite, \"Please …\")]`";
const SETTINGS: [&str; 2] = ["ignore", "tags"];

/// Whether an attribute has this name, by whatever path.
fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == name)
}

/// A case that was read before its attack: goes to the end of the attributes, where the attack finds it. Where there is no
/// attack, that is said once, however many cases there are.
pub(crate) fn before_attack(args: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(mut function) = syn::parse2::<ItemFn>(item.clone()) else {
        let mut diagnostics = Diagnostics::default();
        diagnostics.at(proc_macro2::Span::call_site(), "a case belongs to an attack, which is an async function");
        let errors = diagnostics.into_compile_errors();
        return quote! { #item #errors };
    };
    if function.attrs.iter().any(|attribute| is(attribute, "attack")) {
        function.attrs.push(syn::parse_quote!(#[case(#args)]));
        return function.into_token_stream();
    }
    let mut diagnostics = Diagnostics::default();
    diagnostics.at(proc_macro2::Span::call_site(), "a case belongs to an attack: write `#[redroom::attack]` above it");
    function.attrs.retain(|attribute| !is(attribute, "case"));
    let errors = diagnostics.into_compile_errors();
    quote! { #[allow(dead_code)] #function #errors }
}

impl Cases {
    /// Takes the cases out of the attributes.
    pub(crate) fn take(attributes: &mut Vec<Attribute>, diagnostics: &mut Diagnostics) -> Self {
        let (cases, others) =
            std::mem::take(attributes).into_iter().partition::<Vec<_>, _>(|attribute| is(attribute, "case"));
        *attributes = others;
        let mut all: Vec<Case> = Vec::new();
        for attribute in &cases {
            let Some(case) = Case::read(attribute, diagnostics) else { continue };
            if all.iter().any(|other| other.name == case.name) {
                diagnostics.at(case.name.span(), format!("there are two cases of the name `{}`", case.name));
            }
            all.push(case);
        }
        Cases { all, first: cases.into_iter().next() }
    }

    /// Whether they fit the function. `parameters` is missing where something is wrong with them.
    pub(crate) fn check(&self, item: &ItemFn, parameters: Option<&[Parameter]>, diagnostics: &mut Diagnostics) {
        match (&self.first, parameters) {
            (None, Some([first, ..])) => {
                let extra = item.sig.inputs.iter().skip(1);
                diagnostics.on(
                    quote!(#(#extra),*),
                    format!(
                        "an attack takes its run; who gives it `{}`? Write `#[redroom::case(name, value)]` below the \
                         attribute, once for each test",
                        first.name
                    ),
                );
            }
            (Some(attribute), Some([])) => diagnostics.on(
                attribute,
                "a case gives values to what the function takes beside its run, and it takes nothing: add a parameter, such \
                 as `page: &'static str`",
            ),
            (Some(_), Some(parameters)) => {
                self.all.iter().filter(|case| case.complete).for_each(|case| case.check(parameters, diagnostics));
            }
            (None, Some([]) | None) | (Some(_), None) => {}
        }
    }
}

impl Case {
    fn read(attribute: &Attribute, diagnostics: &mut Diagnostics) -> Option<Self> {
        let Meta::List(list) = &attribute.meta else {
            diagnostics.on(attribute, FORM);
            return None;
        };
        if list.tokens.is_empty() {
            diagnostics.on(attribute, FORM);
            return None;
        }
        let (mut name, mut case) = (None, CaseParts::default());
        let mut is_first = true;
        let parsed = (|input: ParseStream<'_>| {
            let complete = separated(
                input,
                diagnostics,
                |_| true,
                |input, diagnostics| {
                    if std::mem::replace(&mut is_first, false) {
                        name = Some(read_name(input)?);
                        return Ok(());
                    }
                    case.add(input, diagnostics)
                },
            );
            Ok(complete)
        })
        .parse2(list.tokens.clone());
        let complete = parsed.unwrap_or_else(|error| {
            diagnostics.push(error);
            false
        });
        let CaseParts { values, ignore, tags } = case;
        Some(Case { name: name?, values, ignore, tags: tags.unwrap_or_default(), complete })
    }

    fn check(&self, parameters: &[Parameter], diagnostics: &mut Diagnostics) {
        let name = &self.name;
        if let Some(lacking) = parameters.get(self.values.len()) {
            diagnostics.at(name.span(), format!("case `{name}` has no value for `{}`", lacking.name));
        } else if let Some(extra) = self.values.get(parameters.len()) {
            let taken: Vec<_> = parameters.iter().map(|parameter| format!("`{}`", parameter.name)).collect();
            diagnostics.on(
                extra,
                format!("case `{name}` has a value too many: the function takes {} beside its run", taken.join(", ")),
            );
        }
    }
}

/// What comes after the name.
#[derive(Default)]
struct CaseParts {
    values: Vec<Expr>,
    ignore: Option<Ignore>,
    tags: Option<Vec<LitStr>>,
}

impl CaseParts {
    fn add(&mut self, input: ParseStream<'_>, diagnostics: &mut Diagnostics) -> syn::Result<()> {
        let Some(key) = read_setting(input) else {
            self.values.push(input.parse()?);
            return Ok(());
        };
        if !SETTINGS.iter().any(|setting| key == setting) {
            let hint = hint(&key.to_string(), &SETTINGS);
            return Err(syn::Error::new(key.span(), format!("no setting of a case is called `{key}`: {hint}")));
        }
        let value = input.parse::<Option<Token![=]>>()?;
        let is_twice = match (key == "tags", value) {
            (true, _) => self.tags.replace(tags::read(input, diagnostics)?).is_some(),
            (false, Some(_)) => self.ignore.replace(Ignore::because(&input.parse()?)?).is_some(),
            (false, None) => self.ignore.replace(Ignore::Yes).is_some(),
        };
        if is_twice { Err(syn::Error::new(key.span(), format!("`{key}` is given twice"))) } else { Ok(()) }
    }
}

/// One word: filters, reports and folders have it in them as it is.
fn read_name(input: ParseStream<'_>) -> syn::Result<Ident> {
    let ahead = input.fork();
    match ahead.call(Ident::parse_any) {
        Ok(name) if name != "_" && ends(&ahead) => {
            input.advance_to(&ahead);
            Ok(name)
        }
        _ => Err(input.error("a case begins with its name, one word without quotes: its test is called by it")),
    }
}

/// The name of what is no value: `name = …`, or `ignore` alone.
fn read_setting(input: ParseStream<'_>) -> Option<Ident> {
    let ahead = input.fork();
    let key = ahead.call(Ident::parse_any).ok()?;
    let is_given = ahead.peek(Token![=]) && !ahead.peek(Token![==]);
    (is_given || (key == "ignore" && ends(&ahead))).then(|| {
        input.advance_to(&ahead);
        key
    })
}

fn ends(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}
