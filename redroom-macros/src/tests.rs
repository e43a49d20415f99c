//! The attribute as a whole: golden expansions, and every mistake with its place among the tokens.
//!
//! How mistakes look to a user is pinned in the facade's `tests/ui`.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};

use crate::attack_tokens;

/// Expands `tests/expand/NAME.in.rs` and compares with `NAME.out.rs`; with `BLESS=1` writes the latter.
fn golden(name: &str) {
    let path = |kind: &str| format!("{}/tests/expand/{name}.{kind}.rs", env!("CARGO_MANIFEST_DIR"));
    let input = std::fs::read_to_string(path("in")).unwrap();
    let mut function: syn::ItemFn = syn::parse_str(&input).unwrap();
    let attribute =
        function.attrs.iter().position(|attribute| attribute.path().segments.last().unwrap().ident == "attack");
    let syn::Meta::List(arguments) = function.attrs.remove(attribute.unwrap()).meta else { panic!("no arguments") };
    let expanded = attack_tokens(arguments.tokens, function.into_token_stream(), false);
    let mut expanded: syn::File = syn::parse2(expanded).unwrap();
    expanded.items.iter_mut().for_each(show_submission);
    let expanded = prettyplease::unparse(&expanded);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path("out"), &expanded).unwrap();
    }
    assert_eq!(
        expanded,
        std::fs::read_to_string(path("out")).unwrap_or_default(),
        "{name}; look, then run with BLESS=1"
    );
}

/// A macro call would be printed as a heap of tokens: shows `submit! { … }` as `submit({ … })`.
fn show_submission(item: &mut syn::Item) {
    let syn::Item::Const(block) = item else { return };
    let syn::Expr::Block(block) = &mut *block.expr else { panic!("not a block") };
    for statement in &mut block.block.stmts {
        let syn::Stmt::Macro(call) = statement else { panic!("not a macro call") };
        let (path, body) = (&call.mac.path, call.mac.parse_body::<syn::Expr>().unwrap());
        *statement = syn::parse_quote!(#path({ #body }););
    }
}

#[test]
fn map_literals_expand_as_pinned() {
    golden("planted");
}

#[test]
fn settings_expand_as_pinned() {
    golden("settings");
}

#[test]
fn a_renamed_facade_expands_as_pinned() {
    golden("renamed_facade");
}

#[test]
fn cases_expand_as_pinned() {
    golden("cases");
}

#[test]
fn a_value_that_the_attribute_names_needs_no_use_in_the_body() {
    for (args, spared) in [
        (quote!(workspace = { "a": page }), true),
        (quote!(workspace = { "a": format!("<p>{page:?}</p>") }), true),
        (quote!(pages = { "https://docs.redroom.test/": "x" }), false),
        (quote!(), false),
    ] {
        let item = quote!(
            #[redroom::case(a, "x")]
            async fn f(run: Run, page: &'static str) {}
        );
        let expanded = attack_tokens(args.clone(), item, false).to_string();
        assert_eq!(expanded.contains("allow (unused_variables)] page"), spared, "{args}: {expanded}");
    }
}

fn function() -> TokenStream {
    quote!(
        async fn f(run: Run) {}
    )
}

/// The texts of all `compile_error!`s, and that the function was kept and nothing registered.
fn mistakes_of(args: TokenStream, item: TokenStream) -> Vec<String> {
    let expanded: syn::File = syn::parse2(attack_tokens(args, item, false)).unwrap();
    let messages: Vec<String> = expanded
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Macro(call) if call.mac.path.segments.last()?.ident == "compile_error" => {
                Some(call.mac.parse_body::<syn::LitStr>().unwrap().value())
            }
            _ => None,
        })
        .collect();
    assert!(matches!(expanded.items[0], syn::Item::Fn(_) | syn::Item::Struct(_)), "the item is kept");
    let registered = expanded.items.iter().any(|item| matches!(item, syn::Item::Const(_)));
    assert_eq!(registered, messages.is_empty(), "registered if and only if nothing is wrong");
    messages
}

fn mistakes(args: TokenStream) -> Vec<String> {
    mistakes_of(args, function())
}

/// Each message begins or goes on as told, in order.
#[track_caller]
fn assert_mistakes(found: &[String], wanted: &[&str]) {
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.contains(wanted), "{found:?} does not hold {wanted:?}");
    }
}

#[test]
fn nothing_is_needed() {
    assert_mistakes(&mistakes(quote!()), &[]);
    assert_mistakes(&mistakes(quote!(workspace = {}, files = {}, pages = {}, secrets = {})), &[]);
}

#[test]
fn a_brace_group_is_a_map_only_if_it_begins_like_one() {
    assert_mistakes(
        &mistakes(quote!(
            workspace = {
                let x = 1;
                files(x)
            }
        )),
        &[],
    );
    assert_mistakes(&mistakes(quote!(workspace = { fixtures::calculator() })), &[]);
    assert_mistakes(&mistakes(quote!(workspace = Files { x: 1 })), &[]);
    assert_mistakes(&mistakes(quote!(timeout = { secs: 1 })), &["`timeout` takes an expression"]);
    assert_mistakes(&mistakes(quote!(workspace = { "a" "b" })), &["expected `:`"]);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let found = mistakes_of(
        quote!(workspce = {}, files = { "x": "", }, timeout = , pages = { "ftp://x": 1, y: 2 }, timeout = T, timeout = T),
        quote!(
            fn f() {}
        ),
    );
    assert_mistakes(
        &found,
        &[
            "did you mean `workspace`?",
            "expected an expression",
            "a URL is a string literal: write `\"y\"`",
            "`timeout` is given twice",
            "must be absolute",
            "must start with `https://`",
            "write `async fn`",
            "write `run: Run`",
        ],
    );
}

#[test]
fn a_broken_argument_does_not_hide_the_next_one() {
    assert_mistakes(
        &mistakes(quote!(agent = f(|a, b| a +), nonsense = 1)),
        &["expected an expression", "no argument is called `nonsense`"],
    );
    assert_mistakes(
        &mistakes(quote!(agent Shell, nonsense = 1)),
        &["`agent` needs a value", "no argument is called `nonsense`"],
    );
}

#[test]
fn a_value_of_another_kind_is_told_in_words_of_the_attribute() {
    let seconds = "write `Duration::from_secs(60)`";
    assert_mistakes(&mistakes(quote!(timeout = 60, limits = { turn_timeout: 60 })), &[seconds, seconds]);
    assert_mistakes(
        &mistakes(quote!(allow_provider_tools = "web_search")),
        &["tools are listed: write `[\"web_search\"]`"],
    );
    let json = "write `json!({ … })`";
    assert_mistakes(&mistakes(quote!(model = Script::new().call("Bash", { "command": "ls" }).say("x"))), &[json]);
    assert_mistakes(&mistakes(quote!(model = s(json!({ "a": 1 })).call("Bash", [{ "command": "ls" }]))), &[json]);
    // What JSON another argument has is not to blame, nor what stands in a macro.
    assert_mistakes(&mistakes(quote!(agent = a +, model = s({ "b": 1 }))), &["expected an expression", json]);
    assert_mistakes(&mistakes(quote!(model = s(json!({ "a": 1 }), +))), &["expected an expression"]);
}

#[test]
fn paths_and_their_collisions_are_judged_over_both_maps() {
    assert_mistakes(
        &mistakes(quote!(workspace = { "/a": "", "../b": "", "c\n": "", "d": "", "d": "", "d/e": "" })),
        &["must be relative", "must not hold `..`", "control", "planted twice", "needs a folder there"],
    );
    assert_mistakes(
        &mistakes(quote!(workspace = { "a": "" }, files = { "/workspace/a": "", "/etc/claude-code/x": "", "a": "" })),
        &["`/workspace/a` is planted twice", "nothing can be planted", "must be absolute"],
    );
}

#[test]
fn the_same_page_twice_is_refused() {
    assert_mistakes(
        &mistakes(quote!(pages = { "https://a.redroom.test/x": "", "http://A.redroom.test:80/x": "" })),
        &["planted twice"],
    );
}

#[test]
fn names_in_templates_are_judged_where_they_can_be_known() {
    let unknown = mistakes(quote!(workspace = { "a": "${secrets.tokn}" }, secrets = { token: unplanted("12345678") }));
    assert_mistakes(&unknown, &["no secret is called `tokn`: did you mean `token`?"]);
    assert_mistakes(&mistakes(quote!(pages = { "https://redroom.test": "${secrets.x}" })), &["there are none"]);
    assert_mistakes(
        &mistakes(quote!(files = { "/tmp/a": { body: "${secrets.x}", executable: true } })),
        &["no secret is called `x`"],
    );
    assert_mistakes(&mistakes(quote!(workspace = { "a": "${secrets.x}" }, secrets = from_elsewhere())), &[]);
    assert_mistakes(&mistakes(quote!(workspace = { "a": b"${secrets.x}", "b": "${HOME}" })), &[]);
}

#[test]
fn secrets_are_judged_by_what_can_be_known() {
    assert_mistakes(
        &mistakes(
            quote!(secrets = { a: unplanted("short"), b: unplanted("12345678"), b: "12345678", "c-d": "12345678" }),
        ),
        &["declared twice", "a secret's name", "fewer than 8 characters"],
    );
    assert_mistakes(&mistakes(quote!(workspace = { "x": "${secrets.a}" }, secrets = { a: shared, b: shared })), &[]);
    let nowhere = "stands nowhere";
    assert_mistakes(
        &mistakes(quote!(secrets = { a: "12345678", b: canary(), c: redroom::canary::jwt() })),
        &[nowhere; 3],
    );
    assert_mistakes(&mistakes(quote!(secrets = { a: unplanted(canary()), b: TOKEN, c: token() })), &[]);
    for planted in [quote!("=12345678"), quote!(b"\xff12345678"), quote!("${secrets.a}"), quote!(fixture())] {
        assert_mistakes(&mistakes(quote!(workspace = { "x": #planted }, secrets = { a: "12345678" })), &[]);
    }
    assert_mistakes(&mistakes(quote!(workspace = dir("x"), secrets = { a: "12345678" })), &[]);
}

#[test]
fn a_model_is_played_or_asked_but_not_both() {
    assert_mistakes(&mistakes(quote!(model = s, model_proxy = p)), &["`model` and `model_proxy` exclude each other"]);
    assert_mistakes(&mistakes(quote!(model = s, model_proxy = none)), &[]);
}

#[test]
fn built_values_name_what_they_lack() {
    assert_mistakes(&mistakes(quote!(model_proxy = { headers: {} })), &["there is no `base_url` in it"]);
    assert_mistakes(&mistakes(quote!(tool_call_check = { url: "x", headers: { x: "y" } })), &["write `\"x\"`"]);
    assert_mistakes(&mistakes(quote!(limits = { cpus: 1, cpus: 2 })), &["`cpus` is given twice"]);
    assert_mistakes(&mistakes(quote!(limits = { cpus: { a: 1 } })), &["`cpus` takes an expression"]);
    assert_mistakes(&mistakes(quote!(workspace = { "x": { bdy: "", executable: true } })), &["did you mean `body`?"]);
    assert_mistakes(&mistakes(quote!(workspace = { "x": { executable: true } })), &["there is no `body` in it"]);
}

#[test]
fn the_signature_is_judged_part_by_part() {
    for (item, wanted) in [
        (
            quote!(
                fn f(run: Run) {}
            ),
            "write `async fn`",
        ),
        (
            quote!(
                async fn f() {}
            ),
            "write `run: Run`",
        ),
        (
            quote!(
                async fn f(&self) {}
            ),
            "without `self`",
        ),
        (
            quote!(
                async fn f(run: &Run) {}
            ),
            "by value",
        ),
        (
            quote!(
                async fn f(run: impl Into<Run>) {}
            ),
            "write `run: Run`",
        ),
        (
            quote!(
                async fn f(run: Run, more: u8) {}
            ),
            "who gives it `more`?",
        ),
        (
            quote!(
                async fn f<T>(run: Run) {}
            ),
            "generic",
        ),
        (
            quote!(
                async fn f(run: Run)
                where
                    u8: Copy,
                {
                }
            ),
            "`where`",
        ),
        (
            quote!(
                async extern "C" fn f(run: Run) {}
            ),
            "`extern`",
        ),
        (
            quote!(
                async fn f(run: Run) -> impl Sized {}
            ),
            "returns `()` or",
        ),
        (
            quote!(
                struct F;
            ),
            "an attack is an async function",
        ),
    ] {
        assert_mistakes(&mistakes_of(quote!(), item), &[wanted]);
    }
}

#[test]
fn test_attributes_are_taken_over_or_refused() {
    for attribute in [
        quote!(#[ignore]),
        quote!(#[ignore = "why"]),
        quote!(#[should_panic]),
        quote!(#[should_panic(expected = "x",)]),
        quote!(#[should_panic = "x"]),
    ] {
        let expanded = attack_tokens(quote!(), quote!(#attribute async fn f(run: Run) {}), true).to_string();
        assert!(!expanded.contains("# [ignore") && !expanded.contains("# [should_panic"), "{expanded}");
    }
    for (attribute, wanted) in [
        (quote!(#[ignore(x)]), "write `#[ignore]`"),
        (quote!(#[ignore = 1]), "the reason is a string literal"),
        (quote!(#[should_panic(x = "y")]), "write `#[should_panic]`"),
        (quote!(#[ignore] #[ignore]), "given twice"),
        (quote!(#[test]), "take this attribute away"),
        (quote!(#[::core::prelude::v1::test]), "take this attribute away"),
        (quote!(#[tokio::test(flavor = "current_thread")]), "take this attribute away"),
    ] {
        assert_mistakes(&mistakes_of(quote!(), quote!(#attribute async fn f(run: Run) {})), &[wanted]);
    }
}

/// The mistakes of a function that takes two values, with these cases.
fn mistakes_of_cases(cases: TokenStream) -> Vec<String> {
    mistakes_of(quote!(), quote!(#cases async fn f(run: Run, page: &'static str, status: u16) {}))
}

#[test]
fn cases_are_held_against_the_parameters() {
    let two = quote!(#[redroom::case(a, "x", 1)] #[case(b, "y", 2, ignore = "why",)]);
    assert_mistakes(&mistakes_of_cases(two), &[]);
    for (cases, wanted) in [
        (quote!(), "who gives it `page`?"),
        (quote!(#[redroom::case]), "a case is a name and a value"),
        (quote!(#[redroom::case()]), "a case is a name and a value"),
        (quote!(#[redroom::case = "a"]), "a case is a name and a value"),
        (quote!(#[redroom::case("x", 1)]), "begins with its name"),
        (quote!(#[redroom::case(a::b, "x", 1)]), "begins with its name"),
        (quote!(#[redroom::case(_, "x", 1)]), "begins with its name"),
        (quote!(#[redroom::case(a = 1, "x", 1)]), "begins with its name"),
        (quote!(#[redroom::case(a)]), "no value for `page`"),
        (quote!(#[redroom::case(a, "x")]), "no value for `status`"),
        (
            quote!(#[redroom::case(a, "x", 1, 2)]),
            "a value too many: the function takes `page`, `status` beside its run",
        ),
        (quote!(#[redroom::case(a, "x", 1)] #[redroom::case(a, "y", 2)]), "two cases of the name `a`"),
        (quote!(#[redroom::case(a, "x", 1, ignore, ignore)]), "`ignore` is given twice"),
        (quote!(#[redroom::case(a, "x", 1, ignore = 1)]), "the reason is a string literal"),
        (quote!(#[redroom::case(a, "x", 1, ignroe = "w")]), "did you mean `ignore`?"),
        (quote!(#[redroom::case(a, "x" +, 1)]), "expected an expression"),
    ] {
        assert_mistakes(&mistakes_of_cases(cases), &[wanted]);
    }
    let all = quote!(#[redroom::case(a)] #[redroom::case("b", 1)] #[redroom::case(a, 1, 2, 3)]);
    assert_mistakes(
        &mistakes_of_cases(all),
        &["begins with its name", "two cases", "no value for", "a value too many"],
    );
    let one = quote!(
        #[redroom::case(a)]
        #[redroom::case(b)]
        async fn f(run: Run) {}
    );
    assert_mistakes(&mistakes_of(quote!(), one), &["it takes nothing: add a parameter"]);
    for (parameter, wanted) in [
        (quote!((a, b): (u8, u8)), "has a name"),
        (quote!(_: u8), "has a name"),
        (quote!(page: impl Sized), "a type of its own"),
    ] {
        let item = quote!(#[redroom::case(a, x)] async fn f(run: Run, #parameter) {});
        assert_mistakes(&mistakes_of(quote!(), item), &[wanted]);
    }
}

#[test]
fn tags_are_words_in_a_list() {
    assert_mistakes(&mistakes(quote!(tags = ["dns", "slow-1", "a_b"],)), &[]);
    assert_mistakes(&mistakes(quote!(tags = [])), &[]);
    for (tags, wanted) in [
        (quote!(tags = "dns"), "tags are listed as they are"),
        (quote!(tags = TAGS), "tags are listed as they are"),
        (quote!(tags = ["dns", SLOW]), "a tag is a string literal"),
        (quote!(tags = ["a b"]), "a tag has letters"),
        (quote!(tags = ["a,b"]), "a tag has letters"),
        (quote!(tags = ["-a"]), "a tag has letters"),
        (quote!(tags = [""]), "a tag has letters"),
        (quote!(tags = ["a", "a"]), "the tag `a` is given twice"),
        (quote!(tags = ["a"], tags = ["b"]), "`tags` is given twice"),
    ] {
        assert_mistakes(&mistakes(tags), &[wanted]);
    }
    let cases =
        quote!(#[redroom::case(a, "x", 1, tags = ["a b"])] #[redroom::case(b, "x", 1, tags = [], tags = ["b"])]);
    assert_mistakes(&mistakes_of_cases(cases), &["a tag has letters", "`tags` is given twice"]);
}

#[test]
fn a_case_that_is_read_first_goes_below_its_attack_and_one_without_an_attack_is_told_once() {
    let moved = crate::cases::before_attack(
        quote!(a, "x"),
        quote!(
            #[redroom::attack]
            #[redroom::case(b, "y")]
            async fn f(run: Run, page: &str) {}
        ),
    );
    let wanted = quote!(
        #[redroom::attack]
        #[redroom::case(b, "y")]
        #[case(a, "x")]
        async fn f(run: Run, page: &str) {}
    );
    assert_eq!(moved.to_string(), wanted.to_string());
    for item in [
        quote!(
            #[redroom::case(b, "y")]
            async fn f(run: Run, page: &str) {}
        ),
        quote!(
            struct F;
        ),
    ] {
        let told = crate::cases::before_attack(quote!(a, "x"), item).to_string();
        assert_eq!(told.matches("compile_error").count(), 1, "{told}");
        assert!(told.contains("a case belongs to an attack") && !told.contains("case (b"), "{told}");
    }
}

#[test]
fn a_runtimes_test_that_stands_above_is_told_in_place_of_what_it_made_of_the_function() {
    // What `#[tokio::test]` hands on.
    let item = quote!(
        #[::core::prelude::v1::test]
        fn f(run: Run) {}
    );
    assert_mistakes(&mistakes_of(quote!(), item), &["take this attribute away"]);
}

#[test]
fn a_harness_that_would_run_nothing_is_refused_in_an_integration_test_alone() {
    let expanded = |runs_here| attack_tokens(quote!(), function(), runs_here).to_string();
    assert!(expanded(true).contains("compile_error"));
    assert!(!expanded(false).contains("compile_error"));
}

#[test]
fn where_it_cannot_be_known_that_an_attack_is_run_a_test_that_is_ignored_tells_of_it() {
    let expanded = |runs_here| {
        let item = quote!(
            #[cfg(any())]
            async fn r#loop(run: Run) {}
        );
        syn::parse2::<syn::File>(attack_tokens(quote!(), item, runs_here)).unwrap().items
    };
    let told = |item: &syn::Item| {
        matches!(item, syn::Item::Fn(test) if test.sig.ident == "loop_is_not_run_here"
            && ["cfg", "ignore"].iter().all(|name| test.attrs.iter().any(|attribute| attribute.path().is_ident(name))))
    };
    assert_eq!(expanded(false).iter().filter(|item| told(item)).count(), 1);
    assert_eq!(expanded(true).len(), 2, "the function and its registration");
}

#[test]
fn a_test_attribute_among_the_arguments_is_shown_its_place_and_an_unknown_word_is_told_as_one() {
    assert_mistakes(
        &mistakes_of(quote!(ignore), function()),
        &["write `#[ignore]` below the attribute, as on `#[test]`"],
    );
    assert_mistakes(
        &mistakes_of(quote!(pages_), function()),
        &["no argument is called `pages_`: did you mean `pages`?"],
    );
}
