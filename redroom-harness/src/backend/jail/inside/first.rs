//! The first process of a sandbox: builds the root, gives up every right, then runs commands until it is killed.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use super::super::channel::{from_memory, receive, send};
use super::super::protocol::{Command, FromSandbox, Spec, ToSandbox};
use super::super::sys::{Fork, Kernel as _, Linux, Refused, Step, fork, reset_signals, signals_of_children};
use super::execute::become_command;
use super::filter::Filters;
use super::helper::{code, tell};
use super::{build, lockdown};

/// Does all of it; the process ends with it.
pub(super) fn live(socket: BorrowedFd<'_>, filters: &Filters) -> ! {
    let lived = make(socket, filters).and_then(|made| if made { Commands::new(socket)?.serve() } else { Ok(()) });
    if let Err(refused) = &lived {
        // Where nobody listens any more, nobody wants to know.
        let _ = send(socket, &FromSandbox::Refused(refused.clone()), &[]);
    }
    std::process::exit(i32::from(lived.is_err()))
}

/// Makes the sandbox; `false` if it is not wanted any more.
fn make(socket: BorrowedFd<'_>, filters: &Filters) -> Result<bool, Refused> {
    Linux.die_with_parent().step("death signal")?;
    let staging = build::stage(&Linux)?;
    tell(socket, &FromSandbox::First, &[staging.own.as_fd(), staging.fixed.as_fd()])?;
    let Some((ToSandbox::Make, fds)) = receive(socket).step("spec")? else { return Ok(false) };
    let file = fds.into_iter().next().ok_or_else(|| Refused::new("spec", "there is none"))?;
    let spec: Spec = from_memory(file).step("spec")?;
    build::build(&Linux, &spec, staging)?;
    // Of descriptors that are on their way, a user may have no more than the sender may have open: not once that is little.
    let root = Linux.open_folder("/").step("open root")?;
    send(socket, &FromSandbox::Built, &[root.as_fd()]).step("report")?;
    drop(root);
    let landlock = lockdown::lock(&Linux, &spec, filters)?;
    send(socket, &FromSandbox::Ready(landlock), &[]).step("report")?;
    Ok(true)
}

/// The commands that run.
struct Commands<'a> {
    socket: BorrowedFd<'a>,
    ended: OwnedFd,
    running: HashMap<Pid, u64>,
}

impl<'a> Commands<'a> {
    fn new(socket: BorrowedFd<'a>) -> Result<Self, Refused> {
        Ok(Commands { socket, ended: signals_of_children().step("signalfd")?, running: HashMap::new() })
    }

    fn serve(mut self) -> Result<(), Refused> {
        loop {
            let mut watched = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
            match poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).step("poll"),
            }
            let [asked, ended] = watched.map(|fd| !fd.revents().is_empty());
            if ended {
                self.reap().step("reap")?;
            }
            if asked {
                match receive(self.socket).step("receive")? {
                    Some((ToSandbox::Run(id), fds)) => self.run(id, fds)?,
                    Some((ToSandbox::KillAll, _)) => self.kill_all().step("kill")?,
                    Some((ToSandbox::Begin | ToSandbox::Make, _)) => {}
                    None => return Ok(()),
                }
            }
        }
    }

    /// Takes note of every process that has ended: commands, and what commands left behind.
    fn reap(&mut self) -> io::Result<()> {
        let mut signals = [0; 1024];
        while rustix::io::read(&self.ended, &mut signals).is_ok() {}
        self.take_note(WaitOptions::NOHANG)
    }

    /// Kills every process of the sandbox but this one, at once, forks included; and waits until they are gone, so that the next
    /// command sees nothing of them.
    fn kill_all(&mut self) -> io::Result<()> {
        // Nobody may be there.
        let _ = rustix::process::kill_process_group(EVERYBODY, Signal::KILL);
        self.take_note(WaitOptions::empty())
    }

    fn take_note(&mut self, options: WaitOptions) -> io::Result<()> {
        loop {
            match rustix::process::wait(options) {
                Ok(Some((pid, status))) => {
                    if let Some(id) = self.running.remove(&pid) {
                        send(self.socket, &FromSandbox::Exited(id, code(status)), &[])?;
                    }
                }
                Err(Errno::INTR) => {}
                // Nobody has ended, or nobody is left.
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    fn run(&mut self, id: u64, fds: Vec<OwnedFd>) -> Result<(), Refused> {
        let Ok([file, stdin, stdout, stderr]) = <[OwnedFd; 4]>::try_from(fds) else {
            return Err(Refused::new("run", "it has no four descriptors"));
        };
        let command: Command = from_memory(file).step("command")?;
        match fork() {
            Ok(Fork::Child) => {
                let errno = execute(command, [stdin, stdout, stderr]);
                let _ = send(self.socket, &FromSandbox::NotStarted(id, errno), &[]);
                let code = if errno == Errno::NOENT.raw_os_error() { 127 } else { 126 };
                std::process::exit(code)
            }
            Ok(Fork::Parent(pid)) => drop(self.running.insert(pid, id)),
            // The agent has as many processes as it may.
            Err(errno) => {
                send(self.socket, &FromSandbox::NotStarted(id, errno.raw_os_error()), &[]).step("report")?;
                send(self.socket, &FromSandbox::Exited(id, 126), &[]).step("report")?;
            }
        }
        Ok(())
    }
}

/// Becomes the command. Gives the error's number where that is not possible.
fn execute(command: Command, streams: [OwnedFd; 3]) -> i32 {
    if let Err(errno) = rustix::process::setsid().and_then(|_| reset_signals()) {
        return errno.raw_os_error();
    }
    // A folder that is not there must not be taken for a program that is not.
    if let Err(errno) = rustix::process::chdir(&command.cwd) {
        return if errno == Errno::NOENT { Errno::NOTDIR } else { errno }.raw_os_error();
    }
    become_command(command, streams)
}

/// Stands for every process that may be signalled, in place of a group's.
const EVERYBODY: Pid = Pid::INIT;
