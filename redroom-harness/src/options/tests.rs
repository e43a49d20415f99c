use super::*;
use crate::planting::{File, Page, Secret, canary, dir, unplanted};

fn check(options: RunOptions) -> Result<Planting> {
    options.check("redroom.test")
}

fn code(options: RunOptions) -> String {
    check(options).unwrap_err().code().to_owned()
}

fn fault(options: RunOptions) -> String {
    check(options).unwrap_err().to_string()
}

#[test]
fn secrets_are_filled_into_text_and_never_into_bytes() {
    let planting = check(
        RunOptions::new()
            .workspace([(".env", File::from("T=${secrets.t}")), ("raw", File::from(b"T=${secrets.t}"))])
            .files([("/home/agent/run", File::new("${secrets.t}${HOME}").executable(true))])
            .pages([("https://a.redroom.test/x?y", Page::new("<${secrets.t}>").content_type("text/plain").status(404))])
            .secrets([("t", "PLATYPUS-7731")]),
    )
    .unwrap();
    let contents: Vec<_> = planting.workspace.iter().map(|file| file.body.as_ref()).collect();
    assert_eq!(contents, [&b"T=PLATYPUS-7731"[..], b"T=${secrets.t}"]);
    assert_eq!(planting.files[0].body.as_ref(), b"PLATYPUS-7731${HOME}");
    assert!(planting.files[0].executable);
    let page = &planting.pages[0];
    assert_eq!((page.host.as_str(), page.path.as_str(), page.status), ("a.redroom.test", "/x?y", 404));
    assert_eq!((page.content_type.as_str(), page.body.as_bytes()), ("text/plain", &b"<PLATYPUS-7731>"[..]));
    assert_eq!(planting.secrets[0].value.as_bytes(), b"PLATYPUS-7731");
}

#[test]
fn a_secret_counts_as_planted_wherever_its_value_stands() {
    let secret = || RunOptions::new().secrets([("t", "PLATYPUS-7731")]);
    assert!(check(secret().workspace([(".env", "T=PLATYPUS-7731")])).is_ok());
    assert!(check(secret().workspace([(".env", b"\xff PLATYPUS-7731")])).is_ok());
    assert!(check(secret().files([("/tmp/x", "PLATYPUS-7731")])).is_ok());
    assert!(check(secret().pages([("http://redroom.test", "PLATYPUS-7731")])).is_ok());
    assert_eq!(code(secret().workspace([(".env", "T=PLATYPUS-7732")])), "secret_not_planted");
    assert!(check(RunOptions::new().secrets([("t", unplanted("PLATYPUS-7731"))])).is_ok());
}

#[test]
fn secrets_may_equal_or_hold_one_another() {
    let options = RunOptions::new().workspace([("x", "PLATYPUS-7731")]).secrets([
        ("whole", "PLATYPUS-7731"),
        ("same", "PLATYPUS-7731"),
        ("part", "PLATYPUS"),
    ]);
    assert_eq!(check(options).unwrap().secrets.len(), 3);
}

#[test]
fn an_unknown_name_is_told_with_its_place_and_the_nearest_name_and_only_once() {
    let fault = fault(
        RunOptions::new().workspace([("a/.env", "${secrets.api_tokn}")]).secrets([("api_token", "PLATYPUS-7731")]),
    );
    assert_eq!(
        fault,
        "unknown_secret: workspace \"a/.env\": no secret is called `api_tokn`: did you mean `api_token`?"
    );
}

#[test]
fn every_fault_is_told_at_once() {
    let error = check(
        RunOptions::new()
            .workspace([("../x", ""), ("y", "")])
            .files([("/workspace/y", ""), ("/etc/claude-code/managed-settings.json", "{}")])
            .pages([("https://example.com/", ""), ("https://redroom.test/p", ""), ("http://REDROOM.test/p", "")])
            .secrets([("short", "x")])
            .timeout(Duration::ZERO),
    )
    .unwrap_err();
    assert_eq!(error.code(), "invalid_options");
    for part in [
        "invalid_timeout",
        "workspace \"../x\": must not hold `..`",
        "duplicate_path: `/workspace/y` is planted twice",
        "nothing can be planted in `/etc/claude-code`",
        "page \"https://example.com/\": must lie in the fake domain",
        "duplicate_page: page \"http://REDROOM.test/p\"",
        "invalid_secret: secret `short` has fewer than 8",
    ] {
        assert!(error.detail().contains(part), "{part} is not in {error}");
    }
}

#[test]
fn what_could_not_be_read_is_told_alone() {
    let options = RunOptions::new().workspace(dir("no/such")).secrets([("t", "PLATYPUS-7731")]);
    assert_eq!(code(options), "folder_unreadable");
}

#[test]
fn pages_that_no_client_could_read_are_refused() {
    for page in [Page::new("").status(199), Page::new("").status(600), Page::new("").content_type("a\r\nb: c")] {
        assert_eq!(code(RunOptions::new().pages([("https://redroom.test/", page)])), "invalid_page");
    }
}

#[test]
fn what_is_planted_adds_up() {
    let planting = check(RunOptions::new().workspace([("a", "1")]).workspace([("b", "2")])).unwrap();
    assert_eq!(planting.workspace.len(), 2);
    assert_eq!(code(RunOptions::new().workspace([("a", "1")]).workspace([("a", "2")])), "duplicate_path");
}

#[test]
fn no_debug_form_shows_a_secret() {
    let secret: Secret = canary();
    let value = secret.value().to_owned();
    let options = RunOptions::new().workspace([("x", value.clone())]).secrets([("t", secret)]);
    let planting = check(RunOptions::new().workspace([("x", value.clone())])).unwrap();
    assert!(!format!("{options:?}{planting:?}").contains(&value));
}

#[test]
fn no_debug_form_of_what_a_user_can_name_shows_a_key() {
    use crate::guard::ToolCallCheck;
    use crate::model::ModelProxy;
    use crate::{ClaudeCode, Script, Suite};

    let (key, query) = ("sk-never-shown-7731", "query-never-shown-7731");
    let proxy = ModelProxy::new(format!("https://h/?k={query}")).header("x-api-key", key).header("x-word", "word");
    let check = || ToolCallCheck::url(format!("https://me:{key}@h/?token={query}")).header("authorization", key);
    let suite = Suite::new().model_proxy(proxy.clone()).tool_call_check(check()).agent(ClaudeCode::new("1"));
    let options = RunOptions::new().model_proxy(proxy.clone()).tool_call_check(check());
    let script = RunOptions::new().model(Script::new().say(key));
    let shown = format!(
        "{proxy:?} {:?} {:?} {suite:?} {options:?} {script:?} {:#?} {:#?}",
        check(),
        ToolCallCheck::from(check()),
        suite,
        proxy
    );
    assert!(!shown.contains("never-shown"), "{shown}");
    assert!(shown.contains("x-api-key"), "{shown}");
}

#[test]
fn what_an_attribute_has_given_is_held_before_the_run_begins() {
    use crate::evidence::held;
    use crate::guard::ToolCallCheck;
    use crate::model::ModelProxy;

    let _options = RunOptions::new()
        .model_proxy(ModelProxy::new("http://h").header("x-api-key", "sk-given-in-options-1"))
        .tool_call_check(ToolCallCheck::url("http://h/").header("x-api-key", "sk-given-in-options-2"));
    let told = held::everything().text("sk-given-in-options-1 sk-given-in-options-2".to_owned());
    assert_eq!(told, "[redacted] [redacted]");
}

#[test]
fn none_gives_way_to_what_the_run_itself_names() {
    use crate::Script;
    use crate::model::{ModelProxy, Player};

    let proxy = || ModelProxy::new("http://h");
    let player = |options: RunOptions| options.player;
    assert!(player(RunOptions::new()).is_none());
    assert!(matches!(player(RunOptions::new().no_model()), Some(Player::Provider)));
    assert!(matches!(player(RunOptions::new().no_model_proxy()), Some(Player::Provider)));
    for options in
        [RunOptions::new().no_model().model_proxy(proxy()), RunOptions::new().model_proxy(proxy()).no_model()]
    {
        assert!(matches!(player(options), Some(Player::Proxy(_))));
    }
    let script = || Script::new();
    for options in
        [RunOptions::new().no_model_proxy().model(script()), RunOptions::new().model(script()).no_model_proxy()]
    {
        assert!(matches!(player(options), Some(Player::Model(_))));
    }
}

#[test]
fn what_is_planted_is_bounded_before_anything_is_made_of_it() {
    let numbered = |count: usize, suffix: &str| (0..count).map(|n| (format!("{n}{suffix}"), "")).collect::<Vec<_>>();
    let urls = (0..10_001).map(|n| (format!("https://a.redroom.test/{n}"), "")).collect::<Vec<_>>();
    let secrets =
        |count: usize, value: &str| (0..count).map(|n| (format!("s{n}"), unplanted(value))).collect::<Vec<_>>();
    let large = vec![b'x'; (64 << 20) + 1];
    // Small to write, too large to be: a thousand times a secret of 60 KiB.
    let swollen = "${secrets.t}".repeat(1_200);
    let long = "x".repeat(60 << 10);
    for (options, told) in [
        (RunOptions::new().workspace(numbered(20_001, "")), "20001 files"),
        (RunOptions::new().workspace(numbered(20_000, "")).files([("/tmp/x", "")]), "20001 files"),
        (RunOptions::new().pages(urls), "10001 pages"),
        (RunOptions::new().secrets(secrets(1_001, "12345678")), "1001 secrets"),
        (RunOptions::new().secrets(secrets(2, &"x".repeat(40 << 10))), "81920 bytes of secrets"),
        (RunOptions::new().workspace([("large", large)]), "workspace \"large\": it has 67108865 bytes"),
        (RunOptions::new().workspace([("x", swollen.clone())]).secrets([("t", long.clone())]), "it has 73728000 bytes"),
        (
            RunOptions::new().pages([
                ("https://a.redroom.test/", "x".repeat(9 << 20)),
                ("https://a.redroom.test/b", "x".repeat(9 << 20)),
            ]),
            "page \"https://a.redroom.test/b\": with it the pages have more than",
        ),
    ] {
        let error = check(options).unwrap_err();
        assert_eq!(error.code(), "too_much_planted", "{told}");
        assert!(error.to_string().contains(told), "{error}");
    }
    assert!(check(RunOptions::new().workspace(numbered(20_000, ""))).is_ok());
    assert_eq!(code(RunOptions::new().workspace([("a/".repeat(128) + "x", "")])), "invalid_path");
    assert!(check(RunOptions::new().workspace([("a/".repeat(127) + "x", "")])).is_ok());
}
