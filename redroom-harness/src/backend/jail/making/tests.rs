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
    socket: OwnedFd,
}

impl Other {
    fn says(&self, word: &FromSandbox) {
        let own = pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty()).unwrap();
        // As many descriptors as belong to the word.
        let fds = match word {
            FromSandbox::Helper { .. } | FromSandbox::First | FromSandbox::Ready(_) => 1,
            FromSandbox::Built => 2,
            _ => 0,
        };
        send(self.socket.as_fd(), word, &vec![own.as_fd(); fds]).unwrap();
    }

    /// Waits for the order, as a helper does.
    fn is_told_to_make(&self) {
        let word = receive::<ToSandbox>(self.socket.as_fd()).unwrap();
        assert!(matches!(word, Some((ToSandbox::Make, _))), "{word:?}");
    }
}

/// How the making of a sandbox fails whose helper greets, and then does as it is told here.
async fn failure(then: impl FnOnce(&Other) + Send + 'static) -> Error {
    let (ours, theirs) = channel::pair().unwrap();
    let other: JoinHandle<()> = std::thread::spawn(move || {
        let mut other = Other { process: Command::new("sleep").arg("60").spawn().unwrap(), socket: theirs };
        other.says(&FromSandbox::Helper { pid: other.process.id().cast_signed() });
        then(&other);
        let Other { process, socket } = &mut other;
        // As the kernel does it.
        let _ = process.kill().and_then(|()| process.wait());
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
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
        other.is_told_to_make();
        other.says(&FromSandbox::Ended(137));
    });
    let error = error.await;
    assert_eq!(error.code(), "sandbox_failed");
    assert_eq!(error.detail(), "a sandbox's first process was killed by signal 9 while the sandbox was made");
}

#[tokio::test]
async fn an_end_at_any_later_step_is_told_as_what_it_is() {
    let error = failure(|other| {
        other.is_told_to_make();
        other.says(&FromSandbox::First);
        other.says(&FromSandbox::Ended(1));
    });
    assert!(error.await.detail().contains("first process ended with exit code 1 while"));
    let error = failure(|other| {
        other.is_told_to_make();
        other.says(&FromSandbox::First);
        other.says(&FromSandbox::Built);
        other.says(&FromSandbox::Ended(137));
    });
    let error = error.await;
    // What cannot be planted may come first: what stands for the trees is none.
    assert!(error.detail().contains("signal 9") || error.detail().contains("cannot place files"), "{error}");
}

#[tokio::test]
async fn what_was_refused_says_more_than_the_end_that_follows() {
    let error = failure(|other| {
        other.is_told_to_make();
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
    assert!(error.await.detail().contains("killed by signal 9"));
}

#[tokio::test]
async fn silence_is_the_end_of_the_helper() {
    let error = failure(|other| other.is_told_to_make()).await;
    assert_eq!(error.detail(), "a sandbox's helper ended while the sandbox was made");
    let error = failure(|_| {}).await;
    assert_eq!(error.detail(), "a sandbox's helper ended while the sandbox was made");
}

#[tokio::test]
async fn a_word_that_nobody_waits_for_is_refused() {
    let error = failure(|other| {
        other.is_told_to_make();
        other.says(&FromSandbox::Built);
    });
    assert!(error.await.detail().contains("what was not asked"));
}
