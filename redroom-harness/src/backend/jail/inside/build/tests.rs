use super::super::fake::Fake;
use super::*;

fn spec() -> Spec {
    let bind = |from: &str, at: &str, file, make| Piece::Bind { from: from.to_owned(), at: at.to_owned(), file, make };
    let steps = vec![
        Piece::Folder { at: "/etc".to_owned(), mode: 0o755 },
        bind("/usr", "/usr", false, true),
        Piece::Cover { at: "/usr/local/bin".to_owned() },
        bind("/tmp/built/program", "/usr/local/bin/program", true, true),
        Piece::Own { path: "/workspace".to_owned(), at: "/workspace".to_owned(), file: false, make: true },
        Piece::Fixed { number: 0, at: "/etc/hosts".to_owned(), make: true },
    ];
    Spec { user: None, limits: Vec::new(), room: 1 << 20, files: 100, steps }
}

fn built(kernel: &Fake) -> Result<(), Refused> {
    let spec = spec();
    let staging = stage(kernel, &spec)?;
    finish(kernel, &spec, staging)
}

#[test]
fn the_root_is_shut_before_it_is_entered_and_nothing_of_the_machines_is_ever_attached_writable() {
    let kernel = Fake::default();
    built(&kernel).unwrap();
    let entered = kernel.position("enter /tmp/root");
    for before in ["propagation", "restrict /tmp/root ReadOnly", "restrict /tmp/root/usr/local/bin ReadOnly"] {
        assert!(kernel.position(before) < entered, "{before}");
    }
    let asked = kernel.asked.borrow();
    for (at, what) in asked.iter().enumerate().filter(|(_, what)| what.starts_with("attach ")) {
        let rights = asked[at - 1].strip_prefix("restrict tree ").unwrap_or_else(|| panic!("{what} is not restricted"));
        assert_eq!(rights == "Plain", what == "attach /tmp/root/workspace", "{what}: {rights}");
    }
}

#[test]
fn a_program_in_the_folder_that_the_building_hides_is_taken_hold_of_before() {
    let kernel = Fake::default();
    built(&kernel).unwrap();
    assert!(kernel.position("copy /tmp/built/program") < kernel.position("mount tmpfs /tmp"));
    assert_eq!(kernel.asked.borrow().iter().filter(|what| *what == "copy /tmp/built/program").count(), 1);
}

#[test]
fn what_is_planted_comes_into_its_place_in_the_second_part_only() {
    let kernel = Fake::default();
    let spec = spec();
    let staging = stage(&kernel, &spec).unwrap();
    let first = kernel.asked.borrow().len();
    assert!(!kernel.asked.borrow().iter().any(|what| what.ends_with("/workspace") || what.ends_with("/etc/hosts")));
    finish(&kernel, &spec, staging).unwrap();
    assert!(kernel.position("attach /tmp/root/workspace") >= first);
    assert!(kernel.position("attach /tmp/root/etc/hosts") >= first);
}

#[test]
fn a_refusal_names_its_step() {
    for (what, step) in [
        ("propagation", "propagation"),
        ("mount proc", "proc"),
        ("mount devpts", "devpts"),
        ("mount tmpfs /tmp", "tmpfs"),
        ("restrict tree", "mount_setattr /usr"),
        ("attach /tmp/root/dev/null", "attach /dev/null"),
        ("restrict /tmp/root ", "shut root"),
        ("enter", "pivot_root"),
    ] {
        let refused = built(&Fake::refusing(what, Errno::PERM)).unwrap_err();
        assert_eq!((refused.step.as_str(), refused.errno), (step, Errno::PERM.raw_os_error()), "{what}");
    }
}

#[test]
fn what_this_kernel_does_not_have_is_no_refusal() {
    for (lacking, attached) in [
        ("exists /tmp/root/proc/bus", "attach /tmp/root/proc/bus"),
        ("exists /tmp/root/proc/kcore", "attach /tmp/root/proc/kcore"),
    ] {
        let kernel = Fake::refusing(lacking, Errno::NOENT);
        built(&kernel).unwrap();
        assert!(!kernel.asked.borrow().iter().any(|what| what == attached), "{lacking}");
    }
    assert!(built(&Fake::refusing("copy /usr", Errno::NOENT)).is_ok(), "it went away since the plan was made");
    for shut in ["exists /tmp/root/proc/sys", "copy /tmp/root/proc/sys", "attach /tmp/root/proc/kcore"] {
        assert!(built(&Fake::refusing(shut, Errno::PERM)).is_err(), "{shut}");
    }
}
