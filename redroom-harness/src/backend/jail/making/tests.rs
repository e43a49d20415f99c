//! What is made of the words that come, with somebody else at the other end who says them.

use std::process::{Child, Command};
use std::thread::JoinHandle;

use rustix::process::{PidfdFlags, pidfd_open};
use tokio_util::task::TaskTracker;

use super::super::channel::{receive, send};
use super::super::limits::Hierarchies;
use super::super::sys::Refused;
use super::*;

/// A process that stands for the helper and the first one, and who speaks for both.
struct Other {
    process: Child,
    trees: [tempfile::TempDir; 2],
    socket: OwnedFd,
}

impl Other {
    fn says(&self, word: &FromSandbox) {
        let own = pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty()).unwrap();
        let trees = self.trees.each_ref().map(|tree| std::fs::File::open(tree).unwrap());
        let fds = [own.as_fd(), trees[0].as_fd(), trees[1].as_fd()];
        // As many as belong to the word.
        let fds = match word {
            FromSandbox::Helper { .. } | FromSandbox::Built => &fds[..1],
            FromSandbox::First => &fds[..],
            _ => &[],
        };
        send(self.socket.as_fd(), word, fds).unwrap();
    }

    fn hears(&self, expected: &str) {
        let (word, _) = receive::<ToSandbox>(self.socket.as_fd()).unwrap().unwrap();
        assert_eq!(format!("{word:?}"), expected);
    }
}

/// How the making of a sandbox fails whose helper greets, and then does as it is told here.
async fn failure(then: impl FnOnce(&Other) + Send + 'static) -> Error {
    let (ours, theirs) = channel::pair().unwrap();
    let other: JoinHandle<[tempfile::TempDir; 2]> = std::thread::spawn(move || {
        let process = Command::new("sleep").arg("60").spawn().unwrap();
        let trees = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let other = Other { process, trees, socket: theirs };
        other.says(&FromSandbox::Helper { pid: other.process.id().cast_signed() });
        then(&other);
        let Other { mut process, socket, trees } = other;
        // As the kernel does it.
        let _ = process.kill().and_then(|()| process.wait());
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        // What is planted may come later.
        trees
    });
    let words = Words { channel: Channel::new(ours).unwrap(), resident: Resident::Own };
    let holder = Holder::new(&uuid::Uuid::new_v4().to_string(), Arc::new(Hierarchies::none()), TaskTracker::new());
    let limits = SandboxLimits { cpus: 1e6, memory: 64 << 20, pids: 16, file_size: 1 << 20, open_files: 64 };
    let spec = SandboxSpec {
        run: "run".to_owned(),
        base: crate::backend::Base("base".to_owned()),
        limits: limits.clone(),
        env: Vec::new(),
        entries: Vec::new(),
    };
    let made = async { Helper::greeted(words, &holder, &limits).await?.make(&[], spec).await };
    let error = made.await.err().expect("nobody has made a sandbox");
    other.join().unwrap();
    error
}

#[tokio::test]
async fn an_end_before_the_first_word_is_told_as_what_it_is() {
    let error = failure(|other| {
        other.hears("Begin");
        other.says(&FromSandbox::Ended(137));
    });
    let error = error.await;
    assert_eq!(error.code(), "sandbox_failed");
    assert_eq!(error.detail(), "a sandbox's first process was killed by signal 9 while the sandbox was made");
}

#[tokio::test]
async fn an_end_while_the_root_is_built_is_told_as_what_it_is() {
    let error = failure(|other| {
        other.hears("Begin");
        other.says(&FromSandbox::First);
        other.hears("Make");
        other.says(&FromSandbox::Ended(1));
    });
    assert!(error.await.detail().contains("first process ended with exit code 1 while"));
}

#[tokio::test]
async fn what_was_refused_says_more_than_the_end_that_follows() {
    let error = failure(|other| {
        other.hears("Begin");
        other.says(&FromSandbox::First);
        other.says(&FromSandbox::Refused(Refused { step: "proc".to_owned(), errno: 1, detail: String::new() }));
        other.says(&FromSandbox::Ended(1));
    });
    let error = error.await;
    assert_eq!(error.code(), "jail_unavailable");
    assert!(error.detail().contains("proc") && !error.detail().contains("exit code"), "{error}");
}

#[tokio::test]
async fn the_last_words_are_heard_where_nobody_listens_any_more() {
    let error = failure(|other| other.says(&FromSandbox::Ended(137)));
    let error = error.await;
    assert!(error.detail().contains("killed by signal 9"), "{error}");
    let error = failure(|other| {
        other.hears("Begin");
        other.says(&FromSandbox::First);
        other.says(&FromSandbox::Ended(137));
    });
    let error = error.await;
    assert!(error.detail().contains("killed by signal 9"), "{error}");
}

#[tokio::test]
async fn silence_is_the_end_of_the_helper() {
    for heard in [&[][..], &["Begin"]] {
        let error = failure(|other| heard.iter().for_each(|word| other.hears(word))).await;
        assert_eq!(error.detail(), "a sandbox's helper ended while the sandbox was made");
    }
}

#[tokio::test]
async fn a_word_that_nobody_waits_for_is_refused() {
    for word in [FromSandbox::Built, FromSandbox::Ready(Landlock::Full), FromSandbox::Exited(1, 0)] {
        let error = failure(move |other| {
            other.hears("Begin");
            other.says(&word);
        });
        assert!(error.await.detail().contains("what was not asked"));
    }
}
