use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// A machine with these files; folders are those above them, links are written `path -> target`.
#[derive(Debug, Default)]
struct Fake(BTreeMap<String, Look>);

impl Fake {
    fn new(paths: &[&str]) -> Self {
        let mut fake = Fake::default();
        for path in paths {
            let (path, look) = match path.split_once(" -> ") {
                Some((path, target)) => (path, Look::Symlink(target.to_owned())),
                None => match path.strip_suffix('=') {
                    Some(path) => (path, Look::Other),
                    None => (*path, Look::File),
                },
            };
            for (at, _) in path.match_indices('/').skip(1) {
                fake.0.insert(path[..at].to_owned(), Look::Folder);
            }
            fake.0.insert(path.to_owned(), look);
        }
        fake
    }

    fn debian() -> Self {
        Fake::new(&[
            "/bin -> usr/bin",
            "/usr/bin/bash",
            "/usr/bin/git",
            "/usr/local/bin/tool",
            "/usr/local/share/man/x",
            "/usr/lib/ssl/cert.pem -> /etc/ssl/certs/ca-certificates.crt",
            "/usr/lib/ssl/certs -> /etc/ssl/certs",
            "/usr/lib/ssl/misc/x",
            "/usr/lib/ssl/talk=",
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/ssl/private/key",
            "/etc/shadow",
            "/etc/os-release -> ../usr/lib/os-release",
            "/opt/secret",
            "/root/.ssh/id",
            "/run/docker.sock=",
            "/var/lib/x",
        ])
    }
}

impl Host for Fake {
    fn look(&self, path: &str) -> Look {
        self.0.get(path).cloned().unwrap_or(Look::Missing)
    }

    fn list(&self, path: &str) -> Vec<String> {
        let below = |known: &String| known.strip_prefix(path)?.strip_prefix('/').map(str::to_owned);
        self.0.keys().filter_map(below).filter(|name| !name.contains('/')).collect()
    }
}

fn file(path: &str, owner: Owner) -> PlacedEntry {
    PlacedEntry { path: path.to_owned(), kind: PlacedKind::File(Bytes::from_static(b"x")), mode: 0o644, owner }
}

fn folder(path: &str, owner: Owner) -> PlacedEntry {
    PlacedEntry { path: path.to_owned(), kind: PlacedKind::Folder, mode: 0o755, owner }
}

const NOBODY: Inhabitant<'static> = Inhabitant { id: 1000, program: &[] };

fn planned(entries: Vec<PlacedEntry>) -> Layout {
    plan(&Fake::debian(), NOBODY, entries).unwrap()
}

fn refused(entries: Vec<PlacedEntry>) -> Error {
    plan(&Fake::debian(), NOBODY, entries).unwrap_err()
}

/// What is bound from this machine: where from, and where to.
fn bound(layout: &Layout) -> Vec<(&str, &str)> {
    let bound = layout.steps.iter().filter_map(|step| match step {
        Step::Bind { from, at, .. } => Some((from.as_str(), at.as_str())),
        _ => None,
    });
    bound.collect()
}

fn covered(layout: &Layout) -> Vec<&str> {
    let covered = layout.steps.iter().filter_map(|step| match step {
        Step::Cover { at } => Some(at.as_str()),
        _ => None,
    });
    covered.collect()
}

fn fixed<'a>(layout: &'a Layout, path: &str) -> Option<&'a PlacedEntry> {
    layout.steps.iter().find_map(|step| match step {
        Step::Fixed { number, at, .. } if at == path => {
            layout.fixed.iter().find(|entry| entry.path == fixed_path(*number))
        }
        _ => None,
    })
}

fn position(layout: &Layout, wanted: impl Fn(&Step) -> bool) -> usize {
    layout.steps.iter().position(wanted).unwrap()
}

#[test]
fn only_what_is_listed_is_let_in() {
    let layout = planned(Vec::new());
    assert_eq!(bound(&layout), [("/etc/ssl/certs", "/etc/ssl/certs"), ("/usr", "/usr")]);
    for secret in ["/root", "/run/docker.sock", "/etc/shadow", "/opt/secret", "/var/lib", "/etc/ssl/private"] {
        let shown = layout.steps.iter().any(|step| format!("{step:?}").contains(secret));
        assert!(!shown, "{secret}");
    }
    let link = Step::Symlink { at: "/etc/os-release".to_owned(), target: "../usr/lib/os-release".to_owned() };
    assert!(layout.steps.contains(&link));
}

#[test]
fn what_the_jail_must_have_of_its_own_is_root_s() {
    let layout = planned(Vec::new());
    for path in ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/nsswitch.conf"] {
        assert_eq!(fixed(&layout, path).unwrap().owner, Owner::Root, "{path}");
    }
}

#[test]
fn a_file_over_one_of_the_machines_covers_nothing_else() {
    let layout = planned(vec![file("/usr/bin/git", Owner::Root)]);
    assert_eq!(covered(&layout), [""; 0]);
    let over = position(&layout, |step| matches!(step, Step::Fixed { at, make: false, .. } if at == "/usr/bin/git"));
    let below = position(&layout, |step| matches!(step, Step::Bind { at, .. } if at == "/usr"));
    assert!(below < over);
}

#[test]
fn a_new_file_in_a_folder_of_the_machines_lies_among_what_was_there() {
    let layout = planned(vec![file("/usr/local/bin/new", Owner::Root)]);
    assert_eq!(covered(&layout), ["/usr/local/bin"]);
    assert!(bound(&layout).contains(&("/usr/local/bin/tool", "/usr/local/bin/tool")));
    assert!(fixed(&layout, "/usr/local/bin/new").is_some());
    let cover = position(&layout, |step| matches!(step, Step::Cover { .. }));
    assert!(position(&layout, |step| matches!(step, Step::Bind { at, .. } if at == "/usr")) < cover);
    assert!(cover < position(&layout, |step| matches!(step, Step::Bind { at, .. } if at == "/usr/local/bin/tool")));
}

#[test]
fn a_link_at_the_very_place_is_replaced_and_its_neighbours_stay_but_for_sockets() {
    let layout = planned(vec![file("/usr/lib/ssl/cert.pem", Owner::Root)]);
    assert_eq!(covered(&layout), ["/usr/lib/ssl"]);
    let at = |step: &Step| match step {
        Step::Symlink { at, .. } | Step::Bind { at, .. } | Step::Fixed { at, .. } => Some(at.clone()),
        _ => None,
    };
    let there: Vec<String> = layout.steps.iter().filter_map(at).filter(|at| at.starts_with("/usr/lib/ssl/")).collect();
    assert_eq!(there, ["/usr/lib/ssl/cert.pem", "/usr/lib/ssl/certs", "/usr/lib/ssl/misc"]);
}

#[test]
fn links_on_the_way_are_followed_inside_the_new_root() {
    let layout = planned(vec![file("/bin/git", Owner::Root), file("/usr/lib/ssl/certs/own.crt", Owner::Root)]);
    assert!(fixed(&layout, "/usr/bin/git").is_some());
    assert!(fixed(&layout, "/etc/ssl/certs/own.crt").is_some());
    assert_eq!(covered(&layout), [""; 0], "/etc/ssl/certs lies in a folder of ours, and becomes one itself");
    assert!(bound(&layout).iter().any(|(from, _)| *from == "/etc/ssl/certs/ca-certificates.crt"));
}

#[test]
fn links_that_lead_in_circles_are_refused() {
    let fake = Fake::new(&["/usr/bin/x", "/usr/a -> b", "/usr/b -> a"]);
    let error = plan(&fake, NOBODY, vec![file("/usr/a/file", Owner::Root)]).unwrap_err();
    assert_eq!(error.code(), "invalid_path");
}

#[test]
fn the_agents_files_are_its_own_wherever_they_lie() {
    let layout = planned(vec![
        file("/workspace/a/b", Owner::Agent),
        folder("/opt/tool", Owner::Root),
        file("/opt/tool/notes", Owner::Agent),
        file("/top", Owner::Agent),
    ]);
    let own: Vec<&str> = layout.own.iter().map(|entry| entry.path.as_str()).collect();
    let trees = ["/workspace", "/home/agent", "/tmp", "/var/tmp", "/run/lock"];
    assert_eq!(own, [&trees[..], &["/workspace/a/b", "/opt/tool/notes", "/top"]].concat());
    assert!(layout.trees.contains("/opt/tool") && layout.trees.contains(""), "{:?}", layout.trees);
    let notes =
        Step::Own { path: "/opt/tool/notes".to_owned(), at: "/opt/tool/notes".to_owned(), file: true, make: true };
    assert!(layout.steps.contains(&notes));
    assert!(layout.steps.contains(&Step::Folder { at: "/opt/tool".to_owned(), mode: 0o755 }));
}

#[test]
fn files_of_roots_in_the_agents_trees_are_laid_over_what_the_agent_could_remove() {
    let layout = planned(vec![file("/home/agent/.config/rc", Owner::Root)]);
    assert!(fixed(&layout, "/home/agent/.config/rc").is_some());
    assert!(layout.own.iter().any(|entry| entry.path == "/home/agent/.config/rc"), "it is evidence all the same");
    let tree = position(&layout, |step| matches!(step, Step::Own { at, .. } if at == "/home/agent"));
    assert!(tree < position(&layout, |step| matches!(step, Step::Fixed { at, .. } if at.starts_with("/home/agent"))));
}

#[test]
fn a_program_is_bound_wherever_it_lies() {
    let program = [ProgramFile { source: "/root/.cache/claude".into(), target: "/usr/local/bin/claude".to_owned() }];
    let layout = plan(&Fake::debian(), Inhabitant { program: &program, ..NOBODY }, Vec::new()).unwrap();
    assert!(bound(&layout).contains(&("/root/.cache/claude", "/usr/local/bin/claude")));
    assert!(bound(&layout).contains(&("/usr/local/bin/tool", "/usr/local/bin/tool")));
}

#[test]
fn settings_of_the_machines_own_programs_are_covered() {
    let fake = Fake::new(&["/usr/bin/git", "/usr/local/etc/npmrc"]);
    let layout = plan(&fake, NOBODY, Vec::new()).unwrap();
    assert_eq!(covered(&layout), ["/usr/local/etc"]);
    assert!(!layout.steps.iter().any(|step| format!("{step:?}").contains("npmrc")));
}

#[test]
fn what_cannot_be_placed_is_refused() {
    for path in
        ["relative", "/a/../b", "/a//b", "/a/", "/", "/a\0b", "/./a", "/usr/bin/bash/x", "/usr/bin", "/workspace"]
    {
        assert_eq!(refused(vec![file(path, Owner::Root)]).code(), "invalid_path", "{path:?}");
    }
    let twice = vec![file("/srv/x", Owner::Agent), file("/srv/x/y", Owner::Agent)];
    assert_eq!(refused(twice).code(), "invalid_path");
}

#[test]
fn the_base_holds_what_the_machine_holds_there() {
    let fake = Fake::debian();
    let found = |path: &str| base_file(&fake, path);
    assert_eq!(found("/etc/ssl/certs/ca-certificates.crt").as_deref(), Some("/etc/ssl/certs/ca-certificates.crt"));
    assert_eq!(found("/usr/lib/ssl/cert.pem").as_deref(), Some("/etc/ssl/certs/ca-certificates.crt"));
    assert_eq!(found("/bin/bash").as_deref(), Some("/usr/bin/bash"));
    for hidden in ["/etc/shadow", "/etc/ssl/private/key", "/opt/secret", "/root/.ssh/id", "/usr/bin", "/usr/nothing"] {
        assert_eq!(found(hidden), None, "{hidden}");
    }
}

fn some_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("usr"),
        Just("bin"),
        Just("local"),
        Just("lib"),
        Just("ssl"),
        Just("certs"),
        Just("etc"),
        Just("opt"),
        Just("workspace"),
        Just("new"),
        Just("share"),
        Just("home"),
        Just("agent"),
    ];
    proptest::collection::vec(part, 1..5).prop_map(|parts| format!("/{}", parts.join("/")))
}

proptest! {
    /// Whatever is placed: every piece has something to lie in, nothing is made twice, and nothing of the machine's is
    /// writable.
    #[test]
    fn every_plan_can_be_built(paths in proptest::collection::vec((some_path(), any::<bool>(), any::<bool>()), 0..8)) {
        let entries = paths.into_iter().map(|(path, agents, is_folder)| {
            let owner = if agents { Owner::Agent } else { Owner::Root };
            if is_folder { folder(&path, owner) } else { file(&path, owner) }
        });
        let Ok(layout) = plan(&Fake::debian(), NOBODY, entries.collect()) else { return Ok(()) };
        let mut made = std::collections::BTreeSet::from([String::new()]);
        let mut shown: Vec<String> = Vec::new();
        for step in &layout.steps {
            let (at, make) = match step {
                Step::Folder { at, .. } | Step::Symlink { at, .. } => (at, true),
                Step::Cover { at } => (at, false),
                Step::Bind { at, make, .. } | Step::Own { at, make, .. } | Step::Fixed { at, make, .. } => (at, *make),
            };
            let parent = at.rsplit_once('/').map_or("", |(parent, _)| parent);
            if make {
                prop_assert!(made.contains(parent), "{step:?} lies in nothing of ours");
                prop_assert!(made.insert(at.clone()), "{step:?} is made twice");
            } else {
                let lies_over = shown.iter().any(|above| at.starts_with(&format!("{above}/")));
                prop_assert!(lies_over, "{step:?} lies over nothing");
                made.insert(at.clone());
            }
            if matches!(step, Step::Bind { file: false, .. } | Step::Own { file: false, .. }) {
                shown.push(at.clone());
            }
        }
    }
}
