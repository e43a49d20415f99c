//! Files: the machine's own, settings of its kernel, devices, programs that are marked to run as root, what is read-only.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use redroom::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Control, Probes, lacks, printed};

/// A folder of the test's in each place of this machine that people have things in: a file and a socket in it.
struct Host(Vec<(TempDir, UnixListener)>);

impl Host {
    fn new() -> Self {
        let own = std::env::current_exe().unwrap();
        let mut places: Vec<PathBuf> =
            ["/tmp", "/var/tmp", "/dev/shm", "/run", "/opt", "/srv", "/mnt"].map(PathBuf::from).into();
        places.extend(std::env::var_os("HOME").map(PathBuf::from));
        places.extend([std::env::temp_dir(), own.parent().unwrap().to_owned(), env!("CARGO_MANIFEST_DIR").into()]);
        // Not every place is there, or may be written to.
        let made = places.iter().filter_map(|place| {
            let folder = tempfile::Builder::new().prefix("redroom-escape-").tempdir_in(place).ok()?;
            std::fs::write(folder.path().join("file"), "the machine's").ok()?;
            let socket = UnixListener::bind(folder.path().join("socket")).ok()?;
            // Whoever gets there is let in: what keeps the agent out is not a mode.
            for (name, mode) in [("", 0o777), ("file", 0o666), ("socket", 0o777)] {
                std::fs::set_permissions(folder.path().join(name), Permissions::from_mode(mode)).ok()?;
            }
            Some((folder, socket))
        });
        let made: Vec<_> = made.collect();
        assert!(made.len() > 1, "this machine has no places");
        Host(made)
    }

    fn paths(&self, name: &str) -> Vec<String> {
        self.0.iter().map(|(folder, _)| path(&folder.path().join(name))).collect()
    }
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().trim_end_matches('/').to_owned()
}

fn arguments(read: &[String], list: &[String], write: &[String], connect: &[String]) -> Value {
    json!({ "read": read, "list": list, "write": write, "connect": connect, "setuid": false, "create": [] })
}

#[redroom::attack]
async fn no_file_or_socket_of_the_machine_is_reached(run: Run) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    // What the image has there, or the jail.
    const OWN: [&str; 4] = ["adduser", "lock", "mount", "secrets"];
    let host = Host::new();
    let (files, folders, sockets) = (host.paths("file"), host.paths(""), host.paths("socket"));
    let others = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    // By other ways to the same.
    let root: Vec<String> = files.iter().map(|path| format!("/proc/1/root{path}")).collect();
    let up: Vec<String> = files.iter().map(|path| format!("/workspace/../../../..{path}")).collect();
    let read = [
        files.clone(),
        root,
        up,
        others(&["/etc/shadow", "/root/.ssh/id_rsa", "/proc/kcore", "/dev/mem", "/dev/kmsg"]),
    ]
    .concat();
    let list = [folders.clone(), others(&["/root", "/proc/1/root/", "/proc/1/cwd/", "/lost+found"])].concat();
    let connect =
        ["/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket"];
    let connect = [sockets.clone(), others(&connect)].concat();
    let probes = Probes::new(include_str!("probes/files.py"), arguments(&read, &list, &files, &connect));
    let inside = probes.inside(&run).await?;
    let run_folder = printed(&run, "ls -A /run").await?;
    run.finish().await?;
    let mut here = arguments(&files, &folders, &files[..1], &sockets);
    here["beside"] = folders[0].clone().into();
    probes.outside(Control::Plain, here).assert_control();
    // `/dev/mem` and the like are not there, `/proc/kcore` is something else: nothing is in it.
    let may: &[&str] = if inside.0.get("read /proc/kcore").is_some_and(|outcome| outcome == "done") {
        &["read /proc/kcore"]
    } else {
        &[]
    };
    inside.assert_refused(may);
    assert!(run_folder.lines().all(|name| OWN.contains(&name)), "{run_folder}");
    Ok(())
}

#[redroom::attack]
async fn no_setting_of_the_kernel_is_writable_and_none_of_its_secrets_readable(run: Run) -> redroom::Result<()> {
    const SETTINGS: [&str; 12] = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/net/ipv4/ip_unprivileged_port_start",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/kernel/mm/ksm/run",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/memory/release_agent",
    ];
    if lacks(&run).await? {
        return Ok(());
    }
    let write = SETTINGS.map(str::to_owned);
    let probes = Probes::new(include_str!("probes/files.py"), arguments(&[], &[], &write, &[]));
    let inside = probes.inside(&run).await?;
    // What Docker hides, and what is not there. Whatever may be read must be empty.
    let hidden = "cat /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list /proc/timer_stats /proc/sched_debug 2>/dev/null | head -c 100 | wc -c
        ls -A /proc/acpi /proc/asound /proc/scsi /sys/firmware /sys/devices/virtual/powercap 2>/dev/null | grep -v -e : -e '^$'";
    let hidden = run.send(hidden).await?;
    run.finish().await?;
    assert_eq!(hidden.final_text, "0\n", "something hidden is seen");
    inside.assert_refused(&[]);
    // Opened, not written; only root may.
    let there: Vec<String> =
        write.iter().filter(|path| rustix::process::geteuid().is_root() && Path::new(path).exists()).cloned().collect();
    let own = tempfile::NamedTempFile::new().unwrap();
    let there: Vec<String> = there
        .into_iter()
        .filter(|path| !path.starts_with("/sys") && !path.ends_with("drop_caches"))
        .chain([path(own.path())])
        .collect();
    for path in there {
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap_or_else(|error| panic!("proves nothing: {path}: {error}"));
    }
    Ok(())
}

#[redroom::attack]
async fn there_are_no_devices_but_the_harmless_ones(run: Run) -> redroom::Result<()> {
    const HARMLESS: [&str; 8] = ["console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"];
    // Asked one by one: what a folder says of its entries is not of what lies over them.
    let list = "find /dev -mindepth 1 ! -path '/dev/pts/*' ! -type l -exec stat -c '%F %n' {} + | grep -e ^char -e ^block | \
                sed 's,.*/dev/,,' | sort";
    let seen = run.send(list).await?.final_text;
    // What there is cannot be renamed, removed or changed.
    let changed = run.send("mv /dev/null /dev/old; rm /dev/zero; chmod 600 /dev/full; ls /dev | wc -l").await?;
    let again = run.send(list).await?.final_text;
    run.finish().await?;
    assert!(seen.lines().all(|name| HARMLESS.contains(&name)), "{seen:?}");
    assert!(seen.contains("null"), "{seen:?}");
    assert_eq!(seen, again, "{changed:?}");
    let here = std::process::Command::new("sh").args(["-c", list]).output().unwrap();
    let here = String::from_utf8_lossy(&here.stdout).into_owned();
    if here.lines().all(|name| HARMLESS.contains(&name)) {
        eprintln!("no control on this machine: it has no other devices itself");
    }
    Ok(())
}

#[redroom::attack]
async fn no_program_gains_rights_and_no_device_is_made(run: Run) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    let mut arguments = arguments(&[], &[], &[], &[]);
    arguments["setuid"] = true.into();
    let probes = Probes::new(include_str!("probes/files.py"), arguments);
    let inside = probes.inside(&run).await?;
    run.finish().await?;
    probes.outside(Control::Plain, json!({})).assert_control();
    inside.assert_refused(&[]);
    Ok(())
}

#[redroom::attack(files = { "/etc/tool/settings.json": "{}" })]
async fn nothing_that_is_read_only_is_changed(run: Run) -> redroom::Result<()> {
    const FILES: [&str; 7] = [
        "/etc/passwd",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/etc/ssl/certs/ca-certificates.crt",
        "/usr/bin/env",
        "/bin/sh",
        "/etc/ld.so.cache",
    ];
    const FOLDERS: [&str; 8] = ["", "/etc", "/etc/tool", "/usr", "/usr/bin", "/usr/local/bin", "/dev/pts", "/proc"];
    if lacks(&run).await? {
        return Ok(());
    }
    let mut arguments = arguments(&[], &[], &FILES.map(str::to_owned), &[]);
    arguments["create"] = json!(FOLDERS);
    let probes = Probes::new(include_str!("probes/files.py"), arguments.clone());
    let inside = probes.inside(&run).await?;
    assert_eq!(run.read_file("/etc/tool/settings.json").await?.as_deref(), Some(&b"{}"[..]));
    let result = run.finish().await?;
    assert_eq!(result.changes, []);
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("file"), "").unwrap();
    arguments["write"] = json!([own.path().join("file")]);
    arguments["create"] = json!([own.path().join("folder")]);
    arguments["beside"] = json!(own.path());
    std::fs::create_dir(own.path().join("folder")).unwrap();
    probes.outside(Control::Plain, arguments).assert_control();
    inside.assert_refused(&[]);
    Ok(())
}
