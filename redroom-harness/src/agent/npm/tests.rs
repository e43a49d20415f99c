use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Npm, Package, Version, is_package};
use crate::agent::claude_code::program;

/// A machine with a cache folder and an npm that runs a script of ours in the folder that it is to fill.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        Machine { folder: TempDir::new().unwrap() }
    }

    fn store(&self) -> Package {
        program::package(self.folder.path(), Version::parse("Claude Code", "2.1.332").unwrap()).unwrap()
    }

    fn whole(&self) -> Package {
        Package::whole(self.folder.path(), "@scope/agent", "1.2.3").unwrap()
    }

    fn npm(script: &str) -> Npm {
        Npm { command: ["bash", "-c", script, "npm"].map(Into::into).to_vec(), patience: Duration::from_secs(30) }
    }

    fn left_behind(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.store().folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

const PACK: &str = "mkdir package; echo program > package/claude; echo other > package/README.md; \
                    tar czf claude-code.tgz package; rm -r package; echo claude-code.tgz";

fn silent(_: &str) {}

#[test]
fn only_exact_versions_reach_a_command_line() {
    for good in ["2.1.332", "0.0.1", "10.20.30-beta.1", "0.171.0-linux-x64"] {
        assert!(Version::parse("it", good).is_ok(), "{good}");
    }
    let too_long = format!("1.2.3-{}", "a".repeat(80));
    for bad in [
        "",
        "latest",
        "2.1",
        "2.1.332 ",
        "2.1.x",
        "^2.1.332",
        "2.1.332-",
        "2.1.332-../x",
        "../2.1.3",
        "1.2.3.4",
        "1.2.3\n",
        "-1.2.3",
        &too_long,
    ] {
        let error = Version::parse("it", bad).unwrap_err();
        assert_eq!(error.code(), "invalid_agent", "{bad}");
    }
}

#[tokio::test]
async fn the_program_is_fetched_once_and_stays() {
    let machine = Machine::new();
    let path = machine.store().fetched(&Machine::npm(PACK), &silent).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "program\n");
    assert_eq!(machine.left_behind(), ["claude", "lock"]);
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o755);

    let again = machine.store().fetched(&Machine::npm("exit 9"), &silent).await.unwrap();
    assert_eq!(again, path);
}

#[tokio::test]
async fn npm_is_asked_for_the_package_of_this_processor_at_the_exact_version() {
    let machine = Machine::new();
    let script = format!("echo \"$@\" > \"{}\"; {PACK}", machine.folder.path().join("asked").display());
    machine.store().fetched(&Machine::npm(&script), &silent).await.unwrap();
    let asked = fs::read_to_string(machine.folder.path().join("asked")).unwrap();
    let processor = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    assert!(
        asked.starts_with("pack ")
            && asked.ends_with(&format!(" @anthropic-ai/claude-code-linux-{processor}@2.1.332\n")),
        "{asked}"
    );
}

#[tokio::test]
async fn two_that_need_it_at_once_fetch_it_once() {
    let machine = Machine::new();
    let script = format!("echo x >> \"{}\"; {PACK}", machine.folder.path().join("fetches").display());
    let (one, other) = (machine.store(), machine.store());
    let npm = Machine::npm(&script);
    let (one, other) = tokio::join!(one.fetched(&npm, &silent), other.fetched(&npm, &silent));
    assert_eq!(one.unwrap(), other.unwrap());
    assert_eq!(fs::read_to_string(machine.folder.path().join("fetches")).unwrap(), "x\n");
}

#[tokio::test]
async fn what_a_killed_fetch_left_behind_is_no_hindrance() {
    let machine = Machine::new();
    let partial = machine.store().folder.join("partial");
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("old.tgz"), "half").unwrap();
    machine.store().fetched(&Machine::npm(PACK), &silent).await.unwrap();
    assert_eq!(machine.left_behind(), ["claude", "lock"]);
}

async fn failure(script: &str) -> crate::Error {
    let machine = Machine::new();
    let error = machine.store().fetched(&Machine::npm(script), &silent).await.unwrap_err();
    assert_eq!(machine.left_behind(), ["lock"], "{script}");
    error
}

#[tokio::test]
async fn a_version_that_npm_does_not_know_is_named_as_such() {
    for words in ["npm error code ETARGET", "npm ERR! code E404"] {
        let error = failure(&format!("echo '{words}' >&2; exit 1")).await;
        assert_eq!(error.code(), "unknown_agent_version");
        assert!(error.detail().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_failing_network_gives_the_last_that_npm_said_and_no_more() {
    let error =
        failure("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo 'npm error code EAI_AGAIN' >&2; exit 1").await;
    assert_eq!(error.code(), "agent_fetch_failed");
    assert!(error.detail().contains("EAI_AGAIN") && error.detail().len() < 4_000, "{error}");
    assert_eq!(error.call().unwrap().exit_code, Some(1));
}

#[tokio::test]
async fn a_package_without_the_program_or_no_package_at_all_is_an_error() {
    assert_eq!(failure("mkdir package; tar czf x.tgz package").await.code(), "agent_fetch_failed");
    assert_eq!(
        failure("mkdir package; ln -s /etc/passwd package/claude; tar czf x.tgz package; rm -r package").await.code(),
        "agent_fetch_failed"
    );
    assert_eq!(failure("echo no archive > x.tgz").await.code(), "agent_fetch_failed");
    assert_eq!(failure("exit 0").await.code(), "agent_fetch_failed");
}

#[tokio::test]
async fn without_npm_the_error_says_what_to_install() {
    let machine = Machine::new();
    let npm = Npm { command: vec!["/nowhere/npm".into()], patience: Duration::from_secs(30) };
    let error = machine.store().fetched(&npm, &silent).await.unwrap_err();
    assert_eq!(error.code(), "npm_missing");
    assert!(error.detail().contains("install Node.js"), "{error}");
}

#[tokio::test]
async fn past_its_time_npm_and_its_children_are_killed() {
    let machine = Machine::new();
    let pid_file = machine.folder.path().join("pid");
    let mut npm =
        Machine::npm(&format!("sleep 300 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", pid_file.display()));
    npm.patience = Duration::from_secs(4);
    let error = machine.store().fetched(&npm, &silent).await.unwrap_err();
    assert_eq!(error.code(), "agent_fetch_failed");
    let grandchild: PathBuf = Path::new("/proc").join(fs::read_to_string(&pid_file).unwrap().trim());
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_alive(&grandchild) {
        assert!(Instant::now() < deadline, "a child of npm lives on");
        tokio::task::yield_now().await;
    }
}

fn is_alive(process: &Path) -> bool {
    fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

#[tokio::test]
async fn a_whole_package_is_unpacked_without_its_outermost_folder_and_without_links() {
    let machine = Machine::new();
    let script = "mkdir -p package/bin; echo x > package/bin/run; chmod 755 package/bin/run; echo y > package/lib.js; \
                  ln -s /etc/passwd package/link; tar czf agent.tgz package; rm -r package";
    let folder = machine.whole().fetched(&Machine::npm(script), &silent).await.unwrap();
    assert!(folder.ends_with("npm/@scope+agent/1.2.3/package"), "{folder:?}");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &str| folder.join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("bin/run"), mode("lib.js")), (0o755, 0o644));
    assert!(folder.join("link").symlink_metadata().is_err());
    assert_eq!(machine.whole().fetched(&Machine::npm("exit 9"), &silent).await.unwrap(), folder);
}

#[tokio::test]
async fn a_whole_package_that_leads_out_of_its_folder_or_has_no_files_is_refused() {
    let machine = Machine::new();
    let out = "echo x > x; tar czf a.tgz --transform 's,x,package/../../x,' -P x; rm x";
    let none = "mkdir package; tar czf a.tgz package; rmdir package";
    for script in [out, none] {
        let error = machine.whole().fetched(&Machine::npm(script), &silent).await.unwrap_err();
        assert_eq!(error.code(), "agent_fetch_failed", "{script}");
        assert!(!machine.folder.path().join("npm/@scope+agent/x").exists());
    }
}

#[test]
fn only_plain_names_of_packages_reach_a_command_line_or_a_path() {
    for good in ["opencode-ai", "@openai/codex", "a.b_c"] {
        assert!(is_package(good), "{good}");
    }
    let too_long = "a".repeat(215);
    for bad in ["", "-x", "../x", "@/x", "@x", "@a/b/c", "a b", "A", "git+ssh://x", "./x", "x@1", &too_long] {
        assert!(!is_package(bad), "{bad}");
    }
    assert_eq!(Package::whole(Path::new("/"), "../x", "1.2.3").err().unwrap().code(), "invalid_agent");
}
