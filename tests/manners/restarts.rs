//! An engine that goes away for real: stopped, killed, frozen, and back after a while. A second one, for these trials alone; they take
//! minutes, so they run where `REDROOM_TEST_RESTART=1` says so, as root, with an engine's tree at `ENGINE_ROOT`.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::engine::{self, Line, Moment};
use crate::suite::{PATIENCE, Place, Running, start, until};

/// How long it stays away.
const AWAY: Duration = Duration::from_secs(30);
const BASE: &str = "debian:bookworm-slim";

fn asked_for() -> bool {
    let asked = std::env::var("REDROOM_TEST_RESTART").is_ok_and(|value| value == "1");
    if !asked {
        eprintln!("not tried: REDROOM_TEST_RESTART is not 1");
    }
    asked
}

/// What happens to an engine.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stopped,
    Killed,
    Frozen,
}

impl Fate {
    fn signal(self) -> Signal {
        match self {
            Fate::Stopped => Signal::TERM,
            Fate::Killed => Signal::KILL,
            Fate::Frozen => Signal::STOP,
        }
    }

    /// How long a run may take to end after it.
    fn patience(self) -> Duration {
        match self {
            Fate::Stopped | Fate::Killed => Duration::from_secs(15),
            Fate::Frozen => Duration::from_secs(100),
        }
    }
}

pub(crate) fn an_engine_that_is_stopped_killed_or_frozen_in_mid_turn() {
    if !asked_for() {
        return;
    }
    let mut second = Second::start(true);
    for fate in [Fate::Stopped, Fate::Killed, Fate::Frozen] {
        let place = Place::new();
        let suite = second.suite(&place, "in_mid_turn");
        until("the turn", PATIENCE, || place.mark().exists());
        let lost = Instant::now();
        second.suffer(fate);
        let ended = suite.end(PATIENCE);
        assert!(lost.elapsed() < fate.patience(), "{fate:?}: {:?}", lost.elapsed());
        ended.expect(2, &["1 failed", "docker_"]);
        second.come_back(fate, lost);
        second.nothing_is_left(&place);
    }
}

pub(crate) fn an_engine_that_is_killed_or_frozen_in_mid_collection() {
    if !asked_for() {
        return;
    }
    let mut second = Second::start(true);
    for fate in [Fate::Killed, Fate::Frozen] {
        let place = Place::new();
        let line = Line::between(place.path("line.sock"), second.socket());
        let (sender, lost) = std::sync::mpsc::channel();
        let pid = second.pid();
        line.at(Moment::After(vec!["/exec/", "/pause", "/archive"]), move |_| {
            kill_process(pid, fate.signal()).unwrap();
            sender.send(Instant::now()).unwrap();
        });
        let mut suite = place.suite(&["beside::asserts"]);
        let ended = start(suite.env("DOCKER_HOST", line.host()).env("REDROOM_BACKEND", "docker")).end(PATIENCE);
        let lost = lost.recv().unwrap();
        assert!(lost.elapsed() < fate.patience(), "{fate:?}: {:?}", lost.elapsed());
        ended.expect(101, &["1 failed", "docker_"]);
        second.come_back(fate, lost);
        second.nothing_is_left(&place);
    }
}

pub(crate) fn an_engine_that_is_killed_while_it_builds_an_image() {
    if !asked_for() {
        return;
    }
    // With nothing but the base: the agent's image has to be built.
    let mut second = Second::start(false);
    let place = Place::new();
    let line = Line::between(place.path("line.sock"), second.socket());
    let (sender, lost) = std::sync::mpsc::channel();
    let pid = second.pid();
    line.at(Moment::After(vec!["POST /build"]), move |_| {
        // The call has to arrive, and the build to begin.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(2));
            kill_process(pid, Signal::KILL).unwrap();
            sender.send(Instant::now()).unwrap();
        });
    });
    let mut suite = place.suite(&["beside::asserts"]);
    let ended = start(suite.env("DOCKER_HOST", line.host()).env("REDROOM_BACKEND", "docker")).end(PATIENCE);
    let lost = lost.recv().unwrap();
    assert!(lost.elapsed() < Duration::from_secs(15), "{:?}", lost.elapsed());
    ended.expect(2, &["1 failed", "docker_lost"]);
    second.come_back(Fate::Killed, lost);
    assert!(place.containers().is_empty());
}

/// The second engine.
struct Second {
    folder: TempDir,
    tree: PathBuf,
    daemon: Child,
}

impl Second {
    /// With the images that agents start from, or with the base of those alone.
    fn start(images: bool) -> Self {
        let tree = std::env::var_os("ENGINE_ROOT").map_or_else(|| PathBuf::from("/opt/docker-engine"), PathBuf::from);
        let folder = tempfile::Builder::new().prefix("second-engine-").tempdir_in("/run").unwrap();
        let daemon = daemon(&tree, &folder);
        let second = Second { folder, tree, daemon };
        second.wait_until_it_answers();
        let own = Command::new("docker")
            .args(["image", "ls", "--filter", "label=redroom=1", "--format", "{{.Repository}}:{{.Tag}}"])
            .output();
        let own = String::from_utf8(own.unwrap().stdout).unwrap();
        let wanted = own.lines().filter(|name| images && name.starts_with("redroom-agent:")).chain([BASE]);
        let copied = Command::new("sh")
            .args(["-c", "to=$1; shift; docker save \"$@\" | docker -H \"$to\" load", "copy", &second.host()])
            .args(wanted)
            .stdout(Stdio::null())
            .status();
        assert!(copied.unwrap().success());
        second
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.daemon)
    }

    fn suite(&self, place: &Place, attack: &str) -> Running {
        start(place.suite(&[attack]).env("DOCKER_HOST", self.host()).env("REDROOM_BACKEND", "docker"))
    }

    fn suffer(&mut self, fate: Fate) {
        kill_process(self.pid(), fate.signal()).unwrap();
        if matches!(fate, Fate::Stopped) {
            self.daemon.wait().unwrap();
        }
    }

    fn come_back(&mut self, fate: Fate, lost: Instant) {
        // That it stays away is the point.
        std::thread::sleep(AWAY.saturating_sub(lost.elapsed()));
        match fate {
            Fate::Frozen => kill_process(self.pid(), Signal::CONT).unwrap(),
            Fate::Stopped | Fate::Killed => {
                self.daemon.wait().unwrap();
                self.daemon = daemon(&self.tree, &self.folder);
            }
        }
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&self) {
        until("the second engine", Duration::from_secs(60), || {
            let mut asking = Command::new("docker");
            asking.args(["-H", &self.host(), "version"]).stdout(Stdio::null()).stderr(Stdio::null());
            asking.status().is_ok_and(|status| status.success())
        });
    }

    fn nothing_is_left(&self, place: &Place) {
        self.suite(place, "moments::next").end(PATIENCE).expect(0, &["1 passed"]);
        let listed =
            Command::new("docker").args(["-H", &self.host(), "ps", "--all", "--quiet"]).output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&listed), "");
        assert!(engine::answers(), "the machine's own engine has nothing to do with it");
    }
}

fn daemon(tree: &std::path::Path, folder: &TempDir) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manners/second_engine.sh");
    let log = std::fs::File::options().append(true).create(true).open(folder.path().join("log")).unwrap();
    let mut command = Command::new(script);
    command.args([tree, folder.path()]).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = kill_process(self.pid(), Signal::CONT);
        let _ = kill_process(self.pid(), Signal::TERM);
        let _ = self.daemon.wait();
        let name = self.folder.path().file_name().unwrap().to_string_lossy();
        for left in [format!("var/lib/{name}"), format!("run/{name}"), format!("run/{name}-exec")] {
            let left = self.tree.join(left);
            let _ = std::fs::remove_dir_all(left);
        }
    }
}
