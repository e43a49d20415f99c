use super::super::fake::Fake;
use super::*;

fn spec() -> Spec {
    let bind = |from: &str, at: &str, file, make| Piece::Bind { from: from.to_owned(), at: at.to_owned(), file, make };
    let steps = vec![
        Piece::Folder { at: "/etc".to_owned(), mode: 0o755 },
        bind("/usr", "/usr", false, true),
        Piece::Cover { at: "/usr/local/bin".to_owned() },
        bind("/tmp/program", "/usr/local/bin/program", true, true),
        Piece::Own { path: "/workspace".to_owned(), at: "/workspace".to_owned(), file: false, make: true },
        Piece::Fixed { number: 0, at: "/etc/hosts".to_owned(), make: true },
    ];
    Spec { user: None, limits: Vec::new(), room: 1 << 20, files: 100, steps }
}

fn built(kernel: &Fake) -> Result<(), Refused> {
    let staging = stage(kernel)?;
    build(kernel, &spec(), staging)
}

#[test]
fn the_root_is_shut_before_it_is_entered_and_nothing_of_the_machines_is_ever_attached_writable() {
    let kernel = Fake::default();
    built(&kernel).unwrap();
    let entered = kernel.position("enter /sys/root");
    for before in ["propagation", "restrict /sys/root ReadOnly", "restrict /sys/root/usr/local/bin ReadOnly"] {
        assert!(kernel.position(before) < entered, "{before}");
    }
    let asked = kernel.asked.borrow();
    for (at, what) in asked.iter().enumerate().filter(|(_, what)| what.starts_with("attach ")) {
        let rights = asked[at - 1].strip_prefix("restrict tree ").unwrap_or_else(|| panic!("{what} is not restricted"));
        assert_eq!(rights == "Plain", what == "attach /sys/root/workspace", "{what}: {rights}");
    }
}

#[test]
fn nothing_is_let_in_before_it_is_known_what() {
    let kernel = Fake::default();
    let staging = stage(&kernel).unwrap();
    assert!(!kernel.asked.borrow().iter().any(|what| what.starts_with("copy") || what.starts_with("attach")));
    build(&kernel, &spec(), staging).unwrap();
}

/// Not every machine has such devices, so a suite that looks from inside may see nothing either way.
#[test]
fn folders_that_tell_of_the_machines_devices_are_empty() {
    let kernel = Fake::default();
    built(&kernel).unwrap();
    let asked = kernel.asked.borrow();
    for name in ["acpi", "asound", "scsi"] {
        let at = kernel.position(&format!("attach /sys/root/proc/{name}"));
        assert_eq!(asked[at - 2..at], [format!("copy {EMPTY}"), "restrict tree ReadOnly".to_owned()], "{name}");
    }
}

#[test]
fn the_agents_trees_have_their_bounds_before_the_agent_has_them() {
    let kernel = Fake::default();
    built(&kernel).unwrap();
    assert!(kernel.position("room /sys/own") < kernel.position("attach /sys/root/workspace"));
}

#[test]
fn no_program_can_lie_where_the_root_is_built() {
    let copies = |what: &String| what.strip_prefix("copy ").map(str::to_owned);
    let kernel = Fake::default();
    built(&kernel).unwrap();
    let copied: Vec<String> = kernel.asked.borrow().iter().filter_map(copies).collect();
    assert!(copied.contains(&"/tmp/program".to_owned()));
    assert!(
        copied
            .iter()
            .filter(|from| from.starts_with(AREA))
            .all(|from| { [SITE, OWN, FIXED, EMPTY].iter().any(|ours| from.starts_with(ours)) })
    );
}

#[test]
fn a_refusal_names_its_step() {
    for (what, step) in [
        ("propagation", "propagation"),
        ("mount proc", "proc"),
        ("mount devpts", "devpts"),
        ("mount tmpfs /sys", "tmpfs"),
        ("room", "room"),
        ("restrict tree", "mount_setattr /usr"),
        ("attach /sys/root/dev/null", "attach /dev/null"),
        ("restrict /sys/root ", "shut root"),
        ("enter", "pivot_root"),
    ] {
        let refused = built(&Fake::refusing(what, Errno::PERM)).unwrap_err();
        assert_eq!((refused.step.as_str(), refused.errno), (step, Errno::PERM.raw_os_error()), "{what}");
    }
}

#[test]
fn what_this_kernel_does_not_have_is_no_refusal() {
    for (lacking, attached) in [
        ("exists /sys/root/proc/bus", "attach /sys/root/proc/bus"),
        ("exists /sys/root/proc/kcore", "attach /sys/root/proc/kcore"),
        ("exists /sys/root/proc/scsi", "attach /sys/root/proc/scsi"),
    ] {
        let kernel = Fake::refusing(lacking, Errno::NOENT);
        built(&kernel).unwrap();
        assert!(!kernel.asked.borrow().iter().any(|what| what == attached), "{lacking}");
    }
    assert!(built(&Fake::refusing("copy /usr", Errno::NOENT)).is_ok(), "it went away since the plan was made");
    for shut in ["exists /sys/root/proc/sys", "copy /sys/root/proc/sys", "attach /sys/root/proc/kcore"] {
        assert!(built(&Fake::refusing(shut, Errno::PERM)).is_err(), "{shut}");
    }
}
