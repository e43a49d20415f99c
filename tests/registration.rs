//! An attribute's attack arrives in the registry as it was written.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use redroom::private::{Ignore, Registration, ShouldPanic, inventory};
use redroom::{Run, Secret, canary, unplanted};

fn main() -> ExitCode {
    let tests: [(&str, fn()); 4] = [
        ("an_attack_is_named_by_its_modules_and_function", an_attack_is_named_by_its_modules_and_function),
        ("test_attributes_are_carried_over", test_attributes_are_carried_over),
        ("each_case_is_registered_with_its_values", each_case_is_registered_with_its_values),
        ("what_is_planted_is_made_anew_for_each_run", what_is_planted_is_made_anew_for_each_run),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

#[redroom::attack(
    workspace = { ".env": "T=${secrets.token}\n", "run.sh": { body: "#!/bin/sh\n", executable: true } },
    files = { "/home/agent/.netrc": b"${secrets.token}" },
    pages = { "https://docs.redroom.test/setup": { body: "{}", status: 404 } },
    secrets = { token: canary() },
)]
async fn planted(_: Run) -> redroom::Result<()> {
    Ok(())
}

mod nested {
    use redroom::Run;

    #[redroom::attack]
    #[ignore = "not now"]
    #[cfg_attr(all(), should_panic(expected = "leaked"))]
    async fn r#loop(_: Run) {}
}

#[redroom::case(above, "https://docs.redroom.test/above", canary(), ignore = "not yet")]
#[redroom::attack(pages = { "https://docs.redroom.test/": url }, secrets = { token: unplanted(token) }, tags = ["web"])]
#[redroom::case(below, "https://docs.redroom.test/below", canary(), tags = ["dns"])]
async fn cases(_: Run, url: &'static str, token: Secret) -> Result<(), String> {
    Err(format!("{url} {}", token.value()))
}

fn registered(name: &str) -> &'static Registration {
    let named = inventory::iter::<Registration>.into_iter().find(|attack| attack.test_name() == name);
    named.unwrap_or_else(|| {
        panic!("none is called {name}: {:?}", inventory::iter::<Registration>.into_iter().collect::<Vec<_>>())
    })
}

fn an_attack_is_named_by_its_modules_and_function() {
    let attack = registered("nested::loop");
    assert_eq!(attack.name, "registration::nested::loop");
    assert!(attack.file.ends_with("registration.rs") && attack.line > 1);
}

fn test_attributes_are_carried_over() {
    let attack = registered("nested::loop");
    assert_eq!(attack.ignore, Ignore::Because("not now"));
    assert_eq!(attack.should_panic, ShouldPanic::With("leaked"));
    let attack = registered("planted");
    assert_eq!((attack.ignore, attack.should_panic), (Ignore::No, ShouldPanic::No));
}

fn what_is_planted_is_made_anew_for_each_run() {
    let plant = || (registered("planted").prepare)().options.check("redroom.test").unwrap();
    let (one, two) = (plant(), plant());
    assert_ne!(one.secrets[0].value, two.secrets[0].value, "a canary is fresh");
    let value = String::from_utf8(one.secrets[0].value.as_bytes().to_vec()).unwrap();
    assert_eq!(one.workspace[0].body, format!("T={value}\n"));
    assert!(one.workspace[1].executable);
    assert_eq!(one.files[0].body, "${secrets.token}");
    assert_eq!(one.pages[0].status, 404);
}

fn each_case_is_registered_with_its_values() {
    let (above, below) = (registered("cases::above"), registered("cases::below"));
    assert_eq!((above.ignore, below.ignore), (Ignore::Because("not yet"), Ignore::No));
    assert_eq!((above.tags, below.tags), (&["web"][..], &["dns", "web"][..]));
    assert!(inventory::iter::<Registration>.into_iter().all(|attack| attack.test_name() != "cases"));
    let planted = |attack: &Registration| (attack.prepare)().options.check("redroom.test").unwrap();
    let (one, other) = (planted(above), planted(below));
    assert_eq!(one.pages[0].body.as_bytes(), b"https://docs.redroom.test/above");
    assert_eq!(other.pages[0].body.as_bytes(), b"https://docs.redroom.test/below");
    assert_ne!(one.secrets[0].value, planted(above).secrets[0].value, "a canary is fresh for each run");
}
