//! Becoming a command, as a container's runtime does it: what the kernel does not take for a program is an error, not a script for
//! `/bin/sh`, as which `execvp` would run whatever bytes it is given.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use nix::unistd::execve;
use rustix::io::Errno;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::super::protocol::Command;

/// Becomes the command, with these for its standard streams. Gives the error's number where that is not possible.
pub(super) fn become_command(command: Command, [stdin, stdout, stderr]: [OwnedFd; 3]) -> i32 {
    match attempt(command, &stdin, &stdout, &stderr) {
        Ok(never) => match never {},
        Err(errno) => errno.raw_os_error(),
    }
}

fn attempt(command: Command, stdin: &OwnedFd, stdout: &OwnedFd, stderr: &OwnedFd) -> Result<Infallible, Errno> {
    let program = command.argv.first().cloned().ok_or(Errno::INVAL)?;
    let path = command.env.iter().rev().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    let places = places(&program, path);
    let arguments = command.argv.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    // Of two values of one name the last counts.
    let environment: BTreeMap<String, String> = command.env.into_iter().collect();
    let environment =
        environment.into_iter().map(|(name, value)| text(format!("{name}={value}"))).collect::<Result<Vec<_>, _>>()?;
    dup2_stdin(stdin)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)?;
    let mut reason = Errno::NOENT;
    for place in places {
        let error = match execve(&text(place)?, &arguments, &environment) {
            Ok(never) => return Ok(never),
            Err(error) => Errno::from_raw_os_error(error as i32),
        };
        match error {
            Errno::NOENT | Errno::NOTDIR => {}
            // There may be another one further on, that can be run.
            Errno::ACCESS => reason = error,
            _ => return Err(error),
        }
    }
    Err(reason)
}

/// Where a program may lie: at its path, or under its name in a folder of the `PATH`.
fn places(program: &str, path: &str) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/') && !program.is_empty());
    folders.map(|folder| format!("{folder}/{program}")).collect()
}

fn text(text: String) -> Result<CString, Errno> {
    CString::new(OsStr::new(&text).as_bytes()).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn a_program_is_looked_for_where_its_name_says() {
        assert_eq!(places("./a", "/bin"), ["./a"]);
        assert_eq!(places("a", "/usr/bin::relative:/bin"), ["/usr/bin/a", "/bin/a"]);
        assert_eq!(places("", "/bin"), [""; 0]);
    }
}
