//! A suite at a terminal.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::place::Place;

/// A terminal, and what was written to it when all its other ends are closed.
fn terminal(columns: u16) -> (File, JoinHandle<String>) {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap();
    tcsetwinsize(&near, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let far = OpenOptions::new().read(true).write(true).open(std::ffi::OsStr::from_bytes(name.to_bytes())).unwrap();
    let mut near = File::from(near);
    let reader = std::thread::spawn(move || {
        let (mut written, mut chunk) = (Vec::new(), [0; 4096]);
        // The last end that is closed is told by an error.
        while let Ok(length @ 1..) = near.read(&mut chunk) {
            written.extend_from_slice(&chunk[..length]);
        }
        String::from_utf8_lossy(&written).into_owned()
    });
    (far, reader)
}

fn shown(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let place = Place::new();
    let (terminal, written) = terminal(40);
    let mut suite = place.suite(arguments);
    suite.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
    suite.stdout(Stdio::from(terminal.try_clone().unwrap())).stderr(Stdio::from(terminal));
    suite.status().unwrap();
    // The command holds the terminal, too.
    drop(suite);
    written.join().unwrap()
}

pub(crate) fn what_is_under_way_is_shown_on_a_terminal_in_forty_columns() {
    let text = shown(&["many::m0", "an_attack_names_a_secret", "--skip", "m05", "--test-threads", "2"], &[]);
    assert!(text.contains("test fixture::many::m01 ... \x1b[32mok\x1b[0m"), "{text}");
    assert!(text.contains("\x1b[J") && text.contains("/9 done") && text.contains("  0: fixture::many"), "{text}");
    // What stands below the results is cut to the terminal's width: else taking it away would leave some of it.
    let status =
        text.lines().filter(|line| line.contains(" done, ") || line.starts_with("  0: ") || line.starts_with("  1: "));
    let plain = |line: &str| line.rsplit("\x1b[J").next().unwrap_or_default().trim_end().chars().count();
    assert!(status.clone().all(|line| plain(line) <= 40), "{text}");
    assert!(status.clone().any(|line| line.contains("fixture::setups::") && line.contains('…')), "{text}");
    // Nothing is left below the last words.
    let last = text.rsplit("\x1b[J").next().unwrap();
    assert!(last.contains("test result: ") && !last.contains("/9 done"), "{text}");

    let plain = shown(&["many::m01"], &[("NO_COLOR", "1")]);
    assert!(plain.contains("... ok\r\n") && !plain.contains("\x1b[32m"), "{plain}");
    let quiet = shown(&["many::m01", "--quiet"], &[]);
    assert!(!quiet.contains("done, ") && !quiet.contains("redroom:"), "{quiet}");
    let streamed = shown(&["many::m01", "--no-capture"], &[]);
    assert!(!streamed.contains("done, ") && streamed.contains("fixture::many::m01 > sleep 0.5"), "{streamed}");
}
