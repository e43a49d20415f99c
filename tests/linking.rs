//! Attacks in a library crate, and what linkers make of them: found where the test names the crate, however it is linked; and
//! where it does not, an error that says what to write. And a page's test in a crate that has nothing but what the page says.
//!
//! Builds workspaces of its own, one with link-time optimization, which takes many minutes: only where `REDROOM_TEST_LINK=1` asks for
//! it.

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Completion, Trial};
use tempfile::TempDir;

const MANIFESTS: [(&str, &str); 3] = [
    (
        "Cargo.toml",
        r#"
[workspace]
members = ["attacks", "suite"]
resolver = "3"

[profile.release]
lto = "fat"
opt-level = 1
"#,
    ),
    (
        "attacks/Cargo.toml",
        r#"
[package]
name = "attacks"
version = "0.0.0"
edition = "2024"

[dependencies]
redroom = { path = "REDROOM" }
"#,
    ),
    (
        "suite/Cargo.toml",
        r#"
[package]
name = "suite"
version = "0.0.0"
edition = "2024"

[dev-dependencies]
attacks = { path = "../attacks" }
redroom = { path = "REDROOM" }

[[test]]
name = "named"
harness = false

[[test]]
name = "unnamed"
harness = false
"#,
    ),
];

const SOURCES: [(&str, &str); 4] = [
    (
        "attacks/src/lib.rs",
        r#"
mod inner {
    #[redroom::attack]
    async fn deep(run: redroom::Run) -> redroom::Result<()> { run.send("true").await.map(drop) }
}

#[redroom::attack]
async fn shallow(run: redroom::Run) -> redroom::Result<()> { run.send("true").await.map(drop) }
"#,
    ),
    ("suite/src/lib.rs", ""),
    ("suite/tests/named.rs", "use attacks as _;\n\nredroom::main!();\n"),
    ("suite/tests/unnamed.rs", "redroom::main!();\n"),
];

/// A way to link, and whether this machine has it.
struct Way {
    name: &'static str,
    arguments: &'static [&'static str],
    linker: Option<&'static str>,
}

const WAYS: [Way; 4] = [
    Way { name: "the_usual_linker", arguments: &[], linker: None },
    Way { name: "unused_sections_thrown_away", arguments: &["-Clink-arg=-Wl,--gc-sections"], linker: None },
    Way { name: "lld", arguments: &["-Clink-arg=-fuse-ld=lld"], linker: Some("ld.lld") },
    Way { name: "mold", arguments: &["-Clink-arg=-fuse-ld=mold"], linker: Some("mold") },
];

fn main() -> ExitCode {
    let trials = vec![
        trial(
            "attacks_of_a_library_are_found_however_they_are_linked",
            attacks_of_a_library_are_found_however_they_are_linked,
        ),
        trial(
            "the_test_that_the_page_about_guards_shows_works_in_a_new_crate",
            the_test_that_the_page_about_guards_shows_works_in_a_new_crate,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &'static str, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || {
        if std::env::var_os("REDROOM_TEST_LINK").is_none_or(|asked| asked.is_empty()) {
            return Ok(Completion::ignored_with("it builds everything anew: set REDROOM_TEST_LINK=1"));
        }
        test();
        Ok(Completion::Completed)
    })
}

fn the_test_that_the_page_about_guards_shows_works_in_a_new_crate() {
    let page = include_str!("../docs/guards.md");
    let block = |language: &str, first: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n{first}\n")).expect("the page has it");
        rest.split_once("```").expect("an end").0
    };
    // As the page has it, but with this checkout in place of the registry.
    let manifest =
        block("toml", "# Cargo.toml").replace("\"0.1\"", &format!("{{ path = {:?} }}", env!("CARGO_MANIFEST_DIR")));
    let test: Vec<&str> = block("rust", "// tests/guard.rs").lines().filter(|line| !line.starts_with("# ")).collect();
    let folder = TempDir::new().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let package = "[package]\nname = \"mine\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n";
    put("Cargo.toml", &format!("{package}{manifest}\n[workspace]\n"));
    put("src/lib.rs", "");
    put("tests/guard.rs", &test.join("\n"));
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock"), folder.path().join("Cargo.lock"))
        .expect("the same versions");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ended = Command::new(cargo)
        .args(["test", "--quiet", "--test", "guard", "--", "--nocapture"])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .output()
        .expect("cargo");
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && told.contains("1 passed") && told.contains("base64/harmful"), "{ended:?}");
}

fn attacks_of_a_library_are_found_however_they_are_linked() {
    let folder = TempDir::new().expect("a folder");
    for (path, text) in MANIFESTS.into_iter().chain(SOURCES) {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text.replace("REDROOM", env!("CARGO_MANIFEST_DIR"))).expect("a file");
    }
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    std::fs::copy(lock, folder.path().join("Cargo.lock")).expect("the same versions");
    for way in WAYS {
        if way.linker.is_some_and(|linker| !is_there(linker)) {
            println!("not tried, for this machine has no {}", way.name);
            continue;
        }
        let listed = play(folder.path(), "named", way.arguments, &["--list", "--format", "terse"]);
        let list = String::from_utf8_lossy(&listed.stdout);
        assert_eq!(list, "inner::deep: test\nshallow: test\n", "{}: {listed:?}", way.name);
        println!("found with {}", way.name);
    }
    let unnamed = play(folder.path(), "unnamed", &[], &[]);
    let words = String::from_utf8_lossy(&unnamed.stderr);
    assert_eq!(unnamed.status.code(), Some(2), "{words}");
    assert!(words.contains("no_attacks") && words.contains("use my_attacks as _;"), "{words}");
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Builds a test and runs it. Only its own link differs, so that everything else is built once.
fn play(workspace: &Path, test: &str, link: &[&str], arguments: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = workspace.join("target");
    let built = Command::new(cargo)
        .args(["rustc", "--release", "--quiet", "--package", "suite", "--test", test, "--"])
        .args(link)
        .current_dir(workspace)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .status()
        .expect("cargo");
    assert!(built.success(), "{test} was not built with {link:?}");
    let folder = std::fs::read_dir(target.join("release/deps")).expect("a folder");
    let newest = folder
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().extension().is_none())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{test}-")))
        .max_by_key(|entry| entry.metadata().and_then(|facts| facts.modified()).expect("a time"))
        .expect("a test");
    Command::new(newest.path()).args(arguments).output().expect("a suite")
}
