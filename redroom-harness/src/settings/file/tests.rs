use super::*;
use crate::settings::Environment;

fn parse(text: &str) -> Result<ConfigFile> {
    ConfigFile::parse(Path::new("redroom.toml"), text, None)
}

fn with_profile(text: &str, name: &str) -> Result<ConfigFile> {
    let chosen = Profile { name: name.to_owned(), chosen_by: "--profile" };
    ConfigFile::parse(Path::new("redroom.toml"), text, Some(&chosen))
}

#[track_caller]
fn refused(text: &str) -> Error {
    parse(text).err().unwrap_or_else(|| panic!("taken: {text}"))
}

#[test]
fn every_key_is_read() {
    let file = parse(
        "parallel = 2\nbackend = \"docker\"\nfake_domain = \"Corp.test\"\ncatch_all = true\nallow_provider_tools = [\"batch\"]\n\
         [agent]\nname = \"claude-code\"\nversion = \"2.1.316\"\nmodel = \"haiku\"\nmax_turns = 3\nmax_budget_usd = 2\n\
         [limits]\ncpus = 1.5\nmemory = \"1g\"\npids = 99\nfile_size = \"3m\"\nopen_files = 77\nturn_timeout = 60\n\
         [model_proxy]\nbase_url = \"https://gw.example\"\nheaders = { x-region = \"eu\" }\nsilence = 7\n\
         [tool_call_check]\nurl = \"http://localhost:1\"\nheaders.x-team = \"red\"\n\
         [report]\njunit = \"target/junit.xml\"\n",
    )
    .unwrap();
    assert_eq!((file.parallel, file.backend.as_deref(), file.catch_all), (Some(2), Some("docker"), Some(true)));
    assert_eq!(
        (file.fake_domain.as_deref(), &file.provider_tools),
        (Some("corp.test"), &Some(vec!["batch".to_owned()]))
    );
    assert_eq!(file.junit, Some(std::path::absolute("target/junit.xml").unwrap()));
    let limits = Limits::new().cpus(1.5).memory("1g").pids(99).file_size("3m").open_files(77);
    assert_eq!(file.limits, limits.turn_timeout(Duration::from_secs(60)));
    let agent = file.agent.clone().unwrap();
    assert_eq!((agent.name(), agent.version(), agent.model()), ("claude-code", "2.1.316", Some("haiku")));
    let turn = agent.turn(&crate::agent::TurnInput { session: "s", index: 0, message: "" }).argv.join(" ");
    assert!(turn.contains("--max-turns 3") && turn.contains("--max-budget-usd 2"), "{turn}");
    let proxy = ModelProxy::new("https://gw.example").header("x-region", "eu").silence(Duration::from_secs(7));
    assert_eq!(file.model_proxy().unwrap(), Some(proxy));
    let check = format!("{:?}", file.tool_call_check().unwrap().unwrap());
    assert!(check.contains("http://localhost:1") && check.contains("x-team"), "{check}");
}

#[test]
fn the_files_that_the_page_about_gateways_shows_are_read() {
    let page = include_str!("../../../../docs/gateways.md");
    let files: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert_eq!(files.len(), 2);
    for text in files {
        let file = ConfigFile::parse(Path::new("/place/redroom.toml"), text, None).unwrap();
        let proxy = file.model_proxy.unwrap();
        let ca = proxy.ca.map(|ca| ca.value);
        assert_eq!(ca, text.contains("ca = ").then(|| PathBuf::from("/place/certificates/team.pem")));
    }
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest_known_one() {
    for (text, told) in [
        ("paralel = 2\n", "redroom.toml:1:1: unknown key `paralel`; did you mean `parallel`?"),
        ("[limits]\nmemroy = \"1g\"\n", "redroom.toml:2:1: unknown key `limits.memroy`; did you mean `memory`?"),
        ("limits = { pid = 9 }\n", "redroom.toml:1:12: unknown key `limits.pid`; did you mean `pids`?"),
        ("[agnet]\nname = \"shell\"\n", "redroom.toml:1:2: unknown key `agnet`; did you mean `agent`?"),
        ("[profiles.ci]\n", "redroom.toml:1:2: unknown key `profiles`; did you mean `profile`?"),
        ("memory = \"1g\"\n", "redroom.toml:1:1: unknown key `memory`; did you mean `limits.memory`?"),
        (
            "[limits]\nparallel = 2\n",
            "redroom.toml:2:1: unknown key `limits.parallel`; did you mean `parallel` before the first [table]?",
        ),
        ("nothing_like_it = 2\n", "redroom.toml:1:1: unknown key `nothing_like_it`; there are parallel, backend,"),
        ("[profile.ci]\nparalel = 2\n", "redroom.toml:2:1: unknown key `profile.ci.paralel`; did you mean `parallel`?"),
        (
            "[profile.ci.limits]\npid = 2\n",
            "redroom.toml:2:1: unknown key `profile.ci.limits.pid`; did you mean `pids`?",
        ),
        (
            "[profile.ci.profile.x]\n",
            "redroom.toml:1:13: unknown key `profile.ci.profile`: a profile holds no profiles",
        ),
        ("z = 1\na = 1\n", "redroom.toml:1:1: unknown key `z`"),
    ] {
        let error = refused(text);
        assert_eq!(error.code(), "invalid_config");
        assert!(error.detail().starts_with(told), "{text}: {error}");
    }
}

#[test]
fn whatever_is_wrong_is_told_with_file_line_column_and_key() {
    for (text, code, told) in [
        (
            "catch_all = true\n\nparallel = \"x\"\n",
            "invalid_config",
            "3:12: `parallel` must be a whole number from 1 to 245, and it is text",
        ),
        ("parallel = -1\n", "invalid_parallel", "1:12: `parallel` must be a whole number from 1 to 245, and it is -1"),
        (
            "parallel = 246\n",
            "invalid_parallel",
            "1:12: `parallel` must be a whole number from 1 to 245, and it is 246",
        ),
        (
            "parallel = 2.0\n",
            "invalid_config",
            "1:12: `parallel` must be a whole number from 1 to 245, and it is a number with a fraction",
        ),
        ("agent = \"shell\"\n", "invalid_config", "1:9: `agent` must be a table"),
        (
            "agent.name = \"shel\"\n",
            "invalid_config",
            "1:14: `agent.name` must be \"claude-code\" or \"shell\", and it is \"shel\"; did you mean \"shell\"?",
        ),
        (
            "[agent]\nmodel = \"sonnet\"\n",
            "invalid_config",
            "1:1: `agent.name` is missing: it must be \"claude-code\" or \"shell\"",
        ),
        ("[agent]\nname = \"shell\"\nmodel = \"x\"\n", "invalid_config", "2:8: `agent.name` is \"shell\", to which"),
        (
            "[agent]\nname = \"claude-code\"\nversion = \"latest\"\n",
            "invalid_agent",
            "3:11: `agent.version`: \"latest\" is no version",
        ),
        (
            "[agent]\nname = \"claude-code\"\nmodel = \"a b\"\n",
            "invalid_agent",
            "3:9: `agent.model`: ClaudeCode: `model` must",
        ),
        (
            "[agent]\nname = \"claude-code\"\nmax_turns = 0\n",
            "invalid_agent",
            "3:13: `agent.max_turns` must be a whole number from 1",
        ),
        (
            "[agent]\nname = \"claude-code\"\nmax_budget_usd = nan\n",
            "invalid_agent",
            "3:18: `agent.max_budget_usd` must be a number from",
        ),
        (
            "[limits]\ncpus = \"2\"\n",
            "invalid_config",
            "2:8: `limits.cpus` must be a number from 0.01 to 1024, and it is text",
        ),
        (
            "[limits]\ncpus = 0\n",
            "invalid_limits",
            "2:8: `limits.cpus` must be a number from 0.01 to 1024, and it is 0",
        ),
        (
            "[limits]\nmemory = 2\n",
            "invalid_config",
            "2:10: `limits.memory` must be text in quotes, and it is a whole number",
        ),
        (
            "[limits]\n  memory = \"1m\"\n",
            "invalid_limits",
            "2:12: limits.memory: give at least \"32m\", such as \"2g\" or \"512m\": bytes, or with k, m, g, t",
        ),
        ("[limits]\nfile_size = \"lots\"\n", "invalid_limits", "2:13: limits.file_size: give"),
        ("[limits]\nturn_timeout = 99999999999999999999999\n", "invalid_limits", "2:16: `limits.turn_timeout` must be"),
        (
            "backend = \"dokcer\"\n",
            "invalid_backend",
            "1:11: `backend` must be \"auto\", \"docker\" or \"jail\", and it is \"dokcer\"; did you mean \"docker\"?",
        ),
        ("fake_domain = \"test\"\n", "invalid_fake_domain", "1:15: fake_domain = \"test\": write"),
        (
            "allow_provider_tools = [\n  \"batch\",\n  \"no tool\",\n]\n",
            "invalid_provider_tool",
            "3:3: allow_provider_tools: \"no tool\" can be no tool",
        ),
        (
            "allow_provider_tools = [1]\n",
            "invalid_config",
            "1:25: `allow_provider_tools` must be a list of texts in quotes, and it is a whole number",
        ),
        (
            "[model_proxy]\nca = \"x\"\n",
            "invalid_config",
            "1:1: `model_proxy.base_url` is missing: it must be text in quotes",
        ),
        (
            "[model_proxy]\nbase_url = \"gateway\"\n",
            "invalid_model_proxy",
            "2:12: `model_proxy.base_url`: the model proxy base_url is not a URL",
        ),
        (
            "[model_proxy]\nbase_url = \"http://h\"\nsilence = 0\n",
            "invalid_config",
            "3:11: `model_proxy.silence` must be a whole number from 1 to 86400",
        ),
        (
            "[model_proxy]\nbase_url = \"http://h\"\nheaders = { \"a b\" = \"1\" }\n",
            "invalid_model_proxy",
            "3:21: `model_proxy.headers.a b`: the model proxy cannot be used: the header name",
        ),
        (
            "[tool_call_check]\nurl = \"ftp://h\"\n",
            "invalid_tool_call_check",
            "2:7: `tool_call_check.url`: the tool call check url starts",
        ),
        (
            "[tool_call_check]\nurl = \"http://h\"\nheaders.te = \"$X\"\n",
            "invalid_tool_call_check",
            "3:14: `tool_call_check.headers.te`",
        ),
        ("[report]\njunit = \"\"\n", "invalid_config", "2:9: `report.junit` is empty"),
        (
            "[report]\njunit = true\n",
            "invalid_config",
            "2:9: `report.junit` must be text in quotes, and it is true or false",
        ),
        ("é = \"é\"\n", "invalid_config", "1:1: this is no TOML"),
        ("x = \"ééé\" parallel\n", "invalid_config", "1:11: this is no TOML"),
        ("[profile.ci.limits]\npids = 1\n", "invalid_limits", "2:8: `profile.ci.limits.pids` must be"),
        (
            "[profile.ci.limits]\nmemory = \"1m\"\n",
            "invalid_limits",
            "2:10: `profile.ci.limits.memory`: limits.memory: give",
        ),
        ("[profile]\nci = 1\n", "invalid_config", "2:1: `profile.ci` must be a table: write the settings"),
        ("[profile.\"c i\"]\n", "invalid_config", "1:10: `profile.c i` can be no profile"),
        ("profile = 1\n", "invalid_config", "1:11: `profile` must be a table: write"),
    ] {
        let error = refused(text);
        assert_eq!(error.code(), code, "{text}: {error}");
        assert!(error.detail().starts_with(&format!("redroom.toml:{told}")), "{text}: {error}");
    }
}

#[test]
fn what_is_no_toml_is_told_in_a_line_that_a_terminal_can_show() {
    let long = format!("fake_domain = \"{}\n", "x".repeat(100_000));
    for (text, told) in [
        ("fake_domain = \"redroom.test\n", "1:28: this is no TOML: "),
        (long.as_str(), "1:100016: this is no TOML: "),
        ("fake_domain = \"\"\"redroom\n\n", "3:1: this is no TOML: "),
        ("parallel = \n", "1:12: this is no TOML: "),
        ("parallel = 1\nparallel = 2\n", "2:1: this is no TOML: "),
        ("fake_domain = \"\u{1b}[31mred\"\n", "1:16: this is no TOML: "),
        ("[limits\nmemory = \"1g\"\n", "1:8: this is no TOML: "),
    ] {
        let error = refused(text);
        let detail = error.detail();
        assert!(detail.starts_with(&format!("redroom.toml:{told}")), "{}", &detail[..detail.len().min(400)]);
        assert!(detail.len() < 300 && !detail.contains(['\n', '\u{1b}']), "{detail}");
    }
}

#[test]
fn a_name_that_somebody_made_up_is_told_in_short_and_cannot_move_a_terminal() {
    let long = "x".repeat(100_000);
    for text in [
        format!("{long} = 1\n"),
        "\"\\u001b[31m\\n\" = 1\n".to_owned(),
        format!("[profile.{long}]\n"),
        format!("backend = \"{long}\"\n"),
        format!("[tool_call_check]\nurl = \"http://h\"\nheaders = {{ {long} = 1 }}\n"),
    ] {
        let error = refused(&text);
        let detail = error.detail();
        assert!(detail.len() < 400 && !detail.contains(['\n', '\u{1b}']), "{}", &detail[..detail.len().min(600)]);
    }
    let error = with_profile("", &"x\u{1b}".repeat(100)).err().unwrap();
    assert!(error.detail().len() < 400 && !error.detail().contains('\u{1b}'), "{error}");
}

#[test]
fn a_broken_file_is_an_error_that_does_not_quote_it() {
    for headers in
        ["{ x-api-key = sk-4711 }", "{ x-api-key = 4711 }", "'sk-4711, expected 4711'", "['sk-4711']", "\"sk-4711"]
    {
        let text = format!("[model_proxy]\nbase_url = 'http://localhost'\nheaders = {headers}\n");
        let error = refused(&text);
        assert_eq!(error.code(), "invalid_config");
        assert!(!error.to_string().contains("4711"), "{error}");
        assert!(error.detail().starts_with("redroom.toml:3:"), "{error}");
    }
}

const PROFILES: &str = "\
parallel = 3
catch_all = true

[limits]
pids = 99
memory = \"1g\"

[model_proxy]
base_url = \"http://own/\"
headers = { x-api-key = \"$REDROOM_TEST_KEY_OF_NOBODY\" }

[tool_call_check]
url = \"http://own/\"

[profile.ci]
parallel = 8

[profile.ci.limits]
memory = \"4g\"

[profile.ci.model_proxy]
base_url = \"http://ci/\"

[profile.nightly]
";

#[test]
fn a_profile_lies_over_the_files_own_settings() {
    let own = parse(PROFILES).unwrap();
    assert_eq!((own.parallel, own.catch_all), (Some(3), Some(true)));
    let ci = with_profile(PROFILES, "ci").unwrap();
    assert_eq!((ci.parallel, ci.catch_all), (Some(8), Some(true)));
    assert_eq!(ci.limits, Limits::new().pids(99).memory("4g"));
    assert!(ci.tool_call_check().unwrap().is_some());
    let nightly = with_profile(PROFILES, "nightly").unwrap();
    assert_eq!((nightly.parallel, nightly.limits), (own.parallel, own.limits.clone()));
}

#[test]
fn no_header_of_one_service_goes_to_that_of_a_profile() {
    let ci = with_profile(PROFILES, "ci").unwrap();
    assert_eq!(ci.model_proxy().unwrap(), Some(ModelProxy::new("http://ci/")));
}

#[test]
fn what_the_environment_does_not_set_is_told_with_its_place_and_only_where_it_is_used() {
    let own = parse(PROFILES).unwrap();
    let error = own.model_proxy().unwrap_err();
    assert!(
        error.detail().starts_with("redroom.toml:10:25: `model_proxy.headers.x-api-key` is $REDROOM_TEST_KEY"),
        "{error}"
    );
    let text = "[model_proxy]\nbase_url = \"http://h\"\nca = \"nowhere.pem\"\n";
    let error = parse(text).unwrap().model_proxy().unwrap_err();
    assert_eq!(error.code(), "invalid_model_proxy");
    assert!(error.detail().starts_with("redroom.toml:3:6: `model_proxy.ca`: the model proxy ca "), "{error}");
}

#[test]
fn a_profile_that_is_not_there_is_told_with_the_nearest_one() {
    for (text, name, told) in [
        (
            PROFILES,
            "nihgtly",
            "--profile asks for the profile \"nihgtly\": redroom.toml has no such profile; did you mean \"nightly\"?",
        ),
        (
            PROFILES,
            "release",
            "--profile asks for the profile \"release\": redroom.toml has no such profile; there are ci, nightly",
        ),
        ("", "ci", "--profile asks for the profile \"ci\": redroom.toml has no such profile; it has none"),
    ] {
        let error = with_profile(text, name).err().unwrap();
        assert_eq!((error.code(), error.detail().starts_with(told)), ("unknown_profile", true), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment { config: Some(folder.path().join("absent.toml")), ..Environment::default() };
    let chosen = Profile { name: "ci".to_owned(), chosen_by: "REDROOM_PROFILE" };
    let error = ConfigFile::find(&environment, None, Some(&chosen)).err().unwrap();
    let twice = Environment { manifest_dir: Some(folder.path().to_owned()), ..Environment::default() };
    let told = ConfigFile::find(&twice, Some(folder.path()), Some(&chosen)).err().unwrap().detail().to_owned();
    assert_eq!(told.matches(&*folder.path().to_string_lossy()).count(), 1, "{told}");
    assert!(
        error.detail().contains("there is no settings file at ") && error.detail().contains("absent.toml"),
        "{error}"
    );
}

#[test]
fn the_first_file_that_is_there_counts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("redroom.toml"), "parallel = 9\n").unwrap();
    let environment = Environment {
        config: Some(folder.path().join("absent.toml")),
        manifest_dir: Some(folder.path().to_owned()),
        ..Environment::default()
    };
    let found = ConfigFile::find(&environment, None, None).unwrap();
    assert_eq!(found.parallel, Some(9));
    let told = found.unread.unwrap();
    assert!(told.starts_with("REDROOM_CONFIG names ") && told.contains("absent.toml, which cannot be read"), "{told}");
    let environment = Environment { config: None, ..environment };
    assert_eq!(ConfigFile::find(&environment, None, None).unwrap().unread, None);
}

#[test]
fn what_is_named_and_is_no_file_is_told_and_never_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for path in [fifo, folder.path().to_owned()] {
        let environment = Environment { config: Some(path), ..Environment::default() };
        let told = ConfigFile::find(&environment, Some(folder.path()), None).unwrap().unread.unwrap();
        assert!(told.contains("which cannot be read (no file)"), "{told}");
    }
}

#[test]
fn what_is_no_text_or_too_large_is_broken_and_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.toml");
    let environment = Environment { config: Some(path.clone()), ..Environment::default() };
    for (bytes, told) in [
        (b"parallel = 1\nfake_domain = \"\xff\"\n".to_vec(), ":2: this is no text in UTF-8"),
        (vec![b'#'; 1024 * 1024 + 1], ": more than 1048576 bytes are no settings"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = ConfigFile::find(&environment, None, None).err().unwrap();
        assert_eq!(error.code(), "invalid_config");
        assert!(error.detail().ends_with(told), "{error}");
    }
}

#[test]
fn a_list_has_a_bound_and_a_long_one_takes_no_time() {
    let texts = |count: usize| vec!["\"x\""; count].join(", ");
    assert!(parse(&format!("allow_provider_tools = [{}]", texts(256))).is_ok());
    let profiles: String = (0..257).map(|n| format!("[profile.p{n}]\n")).collect();
    let headers: String = (0..257).map(|n| format!("x-{n} = \"y\"\n")).collect();
    for (text, said) in [
        (format!("allow_provider_tools = [{}]", texts(250_000)), "holds 250000 entries, and may hold 256"),
        (profiles, "`profile` holds 257 entries"),
        (
            format!("[model_proxy]\nbase_url = \"https://g.example\"\n[model_proxy.headers]\n{headers}"),
            "holds 257 entries",
        ),
    ] {
        let begun = std::time::Instant::now();
        let error = refused(&text);
        assert!(error.code() == "invalid_config" && error.detail().contains(said), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
