//! What the kernel refuses to an agent, tried in there with a small script; and the same script outside, which must find that it is the
//! jail that refuses.

use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};

use libtest_mimic::Failed;
use redroom_harness::backend::Exec;

use crate::Body;
use crate::fixture::{Fixture, ensure, ran, shell};

pub(crate) const TRIALS: &[(&str, Body)] =
    &[("what_no_agent_needs_is_refused", refused), ("sockets_of_the_machine_are_out_of_reach", sockets)];

/// Prints what was not refused.
const TRY: &str = r#"
import ctypes, errno, fcntl, os, socket, sys, termios
libc = ctypes.CDLL(None, use_errno=True)
calls = [pair.split("=") for pair in sys.stdin.read().split()]
for name, rest in calls:
    number, *arguments = [int(word, 0) for word in rest.split(",")]
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments] + [ctypes.c_long(0)] * (6 - len(arguments)))
    wanted = errno.ENOSYS if name == "clone3" else errno.EPERM
    if done != -1 or ctypes.get_errno() != wanted:
        print(name, done, errno.errorcode.get(ctypes.get_errno()))
for name, family in [("vsock", 40), ("packet", 17), ("alg", 38), ("bluetooth", 31), ("xdp", 44), ("rds", 21), ("tipc", 30)]:
    try:
        socket.socket(family, socket.SOCK_RAW if family in (17, 44) else socket.SOCK_SEQPACKET if family == 38 else socket.SOCK_DGRAM)
        print(name, "opened")
    except OSError as error:
        if error.errno != errno.EPERM: print(name, error)
near, far = os.openpty()
for name, request in [("TIOCSTI", termios.TIOCSTI), ("TIOCLINUX", 0x541C)]:
    try:
        fcntl.ioctl(far, request, b"x")
        print(name, "done")
    except OSError as error:
        if error.errno != errno.EPERM: print(name, error)
"#;

/// Calls that do no harm where they are not refused.
fn calls() -> String {
    // Both at once are nonsense, as is the request to `ptrace`: outside, nothing comes of them.
    let new_user = libc::CLONE_NEWUSER | libc::CLONE_FS | libc::SIGCHLD;
    [
        format!("ptrace={},99", libc::SYS_ptrace),
        format!("process_vm_readv={}", libc::SYS_process_vm_readv),
        format!("keyctl={}", libc::SYS_keyctl),
        format!("add_key={}", libc::SYS_add_key),
        format!("request_key={}", libc::SYS_request_key),
        format!("bpf={}", libc::SYS_bpf),
        format!("io_uring_setup={}", libc::SYS_io_uring_setup),
        format!("userfaultfd={}", libc::SYS_userfaultfd),
        format!("perf_event_open={}", libc::SYS_perf_event_open),
        format!("mount={}", libc::SYS_mount),
        format!("fsopen={}", libc::SYS_fsopen),
        format!("open_tree={}", libc::SYS_open_tree),
        format!("pivot_root={}", libc::SYS_pivot_root),
        format!("chroot={}", libc::SYS_chroot),
        format!("setns={}", libc::SYS_setns),
        format!("unshare={},{}", libc::SYS_unshare, libc::CLONE_NEWNET),
        format!("clone={},{new_user}", libc::SYS_clone),
        format!("clone3={}", libc::SYS_clone3),
        format!("kexec_load={}", libc::SYS_kexec_load),
        format!("init_module={}", libc::SYS_init_module),
        format!("open_by_handle_at={}", libc::SYS_open_by_handle_at),
        format!("pidfd_getfd={}", libc::SYS_pidfd_getfd),
        format!("kcmp={}", libc::SYS_kcmp),
        format!("personality={},0x40000", libc::SYS_personality),
        format!("prlimit64={},1", libc::SYS_prlimit64),
        format!("syslog={}", libc::SYS_syslog),
    ]
    .join("\n")
}

fn python(script: &str, input: String) -> Exec {
    Exec { argv: ["python3", "-c", script].map(str::to_owned).into(), stdin: input.into(), ..shell("") }
}

fn refused(fixture: &Fixture) -> Result<(), Failed> {
    let mut outside = Command::new("python3").args(["-c", TRY]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    outside.stdin.take().ok_or("no input")?.write_all(calls().as_bytes())?;
    let outside = String::from_utf8_lossy(&outside.wait_with_output()?.stdout).into_owned();
    for control in ["ptrace", "keyctl", "personality", "clone"] {
        ensure(outside.lines().any(|line| line.starts_with(control)), || format!("{control} outside: {outside}"))?;
    }
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let (end, heard) = ran(&*sandbox, python(TRY, calls())).await?;
        let (text, errors) = (String::from_utf8_lossy(&heard.out), String::from_utf8_lossy(&heard.err));
        ensure(end.exit_code == Some(0) && text.is_empty(), || format!("{end:?} {text} {errors}"))?;
        Ok(sandbox.remove().await?)
    })
}

fn sockets(fixture: &Fixture) -> Result<(), Failed> {
    let name = format!("redroom-trial-{}", uuid::Uuid::new_v4().simple());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("socket");
    let _listener = UnixListener::bind(&path)?;
    // Nothing but the jail is in the way.
    for open in [folder.path(), &path] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777))?;
    }
    let script = format!(
        "import socket\nfor address in ['\\0{name}', '{}']:\n  s = socket.socket(socket.AF_UNIX)\n  try:\n    s.connect(address); print('reached', repr(address))\n  except OSError: pass",
        path.display()
    );
    let outside = Command::new("python3").args(["-c", &script]).output()?;
    let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
    ensure(outside.matches("reached").count() == 2, || format!("outside: {outside}"))?;
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        let (end, heard) = ran(&*sandbox, python(&script, String::new())).await?;
        ensure(end.exit_code == Some(0) && heard.out.is_empty(), || String::from_utf8_lossy(&heard.out).into_owned())?;
        Ok(sandbox.remove().await?)
    })
}
