//! Whether a session lives: it holds a lock on a file of its own for as long as its process does, and the kernel lets go of the lock
//! whatever ends the process. In the file stands its heartbeat: a process that hangs holds its lock for ever, but its heart stops,
//! and when its lease is over nothing of it is waited for any more.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::io::Read as _;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redroom_sidecar::Lease;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::run_folder::RunFolder;

/// How long a file may lie unlocked before it counts as left behind.
const YOUTH: Duration = Duration::from_secs(60);

/// What is known of a session by its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Somebody holds the lock, or it cannot be told.
    Lives,
    /// Somebody holds the lock, but has given no sign of life for longer than the lease: stopped, in a debugger, swapped out. What it
    /// had ends by itself; what does not may be removed.
    Hangs,
    /// Its process was killed before it could tidy up.
    Dead,
    /// There is no lock of it here: it has ended, or its lock lies in a folder that this process does not use.
    Unknown,
}

/// A live session of this process.
#[derive(Debug)]
pub(crate) struct Session {
    id: String,
    locks: String,
    path: PathBuf,
    lease: Lease,
    /// Holds the lock.
    _lock: Arc<File>,
    _heart: Option<AbortOnDropHandle<()>>,
}

impl Session {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The id of the folder that the lock lies in.
    pub(crate) fn locks(&self) -> &str {
        &self.locks
    }

    /// How long what it has may go on without a sign of life.
    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // While the lock is still held: a sweep that comes in between sees no file, which means the same.
        let _ = fs::remove_file(&self.path);
    }
}

/// The per-user folder of session locks.
#[derive(Clone, Debug)]
pub(crate) struct SessionLocks {
    folder: PathBuf,
    /// Distinguishes this folder from those of other machines, users and containers that use the same engine.
    id: String,
}

impl SessionLocks {
    pub(crate) fn open(folder: &RunFolder) -> Result<Self> {
        let folder = folder.subfolder("sessions")?;
        let id = identity(&folder).map_err(|error| RunFolder::unusable(&folder, &error))?;
        Ok(SessionLocks { folder, id })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Marks a session as live until the value is dropped. Its heart beats where there is a runtime.
    pub(crate) fn hold(&self, session: &str, lease: Lease) -> Result<Session> {
        let path =
            self.path(session).ok_or_else(|| Error::redroom("invalid_session", "a session's id must be a UUID"))?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        match lock.and_then(|lock| lock.try_lock().map_err(io::Error::from).map(|()| lock)) {
            Ok(lock) => {
                let lock = Arc::new(lock);
                let heart = Handle::try_current()
                    .ok()
                    .map(|runtime| AbortOnDropHandle::new(runtime.spawn(beat(lock.clone(), lease))));
                Ok(Session { id: session.to_owned(), locks: self.id.clone(), path, lease, _lock: lock, _heart: heart })
            }
            Err(error) => Err(RunFolder::unusable(&path, &error)),
        }
    }

    /// Whether a session whose lock would lie here lives. In doubt it does.
    pub(crate) fn lives(&self, session: &str) -> bool {
        self.life(session) == Life::Lives
    }

    /// What is known of a session, wherever its lock lies. Of a dead one, it is known only once.
    pub(crate) fn life(&self, session: &str) -> Life {
        let Some(path) = self.path(session) else { return Life::Unknown };
        match File::open(&path) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => {
                    let _ = fs::remove_file(&path);
                    Life::Dead
                }
                Err(TryLockError::WouldBlock) if is_over(file) => Life::Hangs,
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Life::Lives,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Life::Unknown,
            Err(_) => Life::Lives,
        }
    }

    /// Whether a process was killed before it could tidy up, or hangs: there is something to sweep, however recent the last sweep is.
    pub(crate) fn any_dead(&self) -> bool {
        self.files().any(|path| is_free(&path) || File::open(&path).is_ok_and(is_over))
    }

    /// Removes the files of the dead, when what they stood for has been swept.
    pub(crate) fn tidy(&self) {
        for path in self.files().filter(|path| is_free(path)) {
            // A young one may be about to be locked.
            let age = fs::metadata(&path).and_then(|facts| facts.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > YOUTH) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "lock"))
    }

    /// A session's id comes from labels, too: it must not lead out of the folder.
    fn path(&self, session: &str) -> Option<PathBuf> {
        Uuid::try_parse(session).ok().map(|id| self.folder.join(format!("{}.lock", id.hyphenated())))
    }
}

/// Writes the heartbeat as often as the lease is renewed.
async fn beat(lock: Arc<File>, lease: Lease) {
    let mut beats = tokio::time::interval(lease.renewal());
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let line = Beat { lease: lease.end(), ..Beat::now() }.to_line();
        if let Err(error) = lock.write_all_at(line.as_bytes(), 0) {
            tracing::warn!(%error, "a session's heartbeat could not be written; if it hangs, nobody will know");
        }
    }
}

/// A heartbeat: when, by a clock that all processes of a machine share until its next start and that nobody can set; and how long
/// it is good for.
#[derive(Debug, PartialEq, Eq)]
struct Beat {
    machine: String,
    at: Duration,
    lease: Duration,
}

/// A heartbeat's line has one length, so that the next one covers it.
const LINE: usize = 96;

impl Beat {
    fn now() -> Self {
        // Elsewhere than on Linux there is none, and no machine's start is told from another.
        let machine = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let machine = machine.trim().chars().filter(char::is_ascii_graphic).take(36).collect();
        let now = clock_gettime(ClockId::Monotonic);
        let at = Duration::from_secs(now.tv_sec.try_into().unwrap_or(0))
            + Duration::from_nanos(now.tv_nsec.try_into().unwrap_or(0));
        Beat { machine, at, lease: Duration::ZERO }
    }

    fn to_line(&self) -> String {
        let beat = format!("{} {} {} .", self.machine, self.at.as_millis(), self.lease.as_millis());
        format!("{beat:<width$}\n", width = LINE - 1)
    }

    /// `None` where there is no whole line: a file that was just made, or is being written.
    fn from_line(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.trim_end().split(' ').collect();
        let [machine, at, lease, "."] = words[..] else { return None };
        let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
        Some(Beat { machine: machine.to_owned(), at: millis(at)?, lease: millis(lease)? })
    }

    fn in_file(file: File) -> Option<Self> {
        let mut line = String::new();
        file.take(LINE as u64).read_to_string(&mut line).ok()?;
        Self::from_line(&line)
    }

    /// Whether it is good no more.
    fn is_over(&self, now: &Beat) -> bool {
        self.machine == now.machine && now.at.saturating_sub(self.at) > self.lease
    }
}

/// Whether what a file says of its holder's heart is too long ago.
fn is_over(file: File) -> bool {
    Beat::in_file(file).is_some_and(|beat| beat.is_over(&Beat::now()))
}

fn is_free(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok())
}

/// The folder's id, made by whoever comes first.
fn identity(folder: &Path) -> io::Result<String> {
    let path = folder.join("id");
    let fresh = folder.join(format!(".id-{}", Uuid::new_v4()));
    if !path.exists() {
        fs::write(&fresh, Uuid::new_v4().to_string())?;
        let linked = fs::hard_link(&fresh, &path);
        fs::remove_file(&fresh)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    fs::read_to_string(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks() -> (tempfile::TempDir, SessionLocks) {
        let folder = tempfile::tempdir().unwrap();
        let locks = SessionLocks::open(&RunFolder::at(&folder.path().join("redroom")).unwrap()).unwrap();
        (folder, locks)
    }

    #[test]
    fn a_session_lives_as_long_as_it_is_held() {
        let (_folder, locks) = locks();
        let id = Uuid::new_v4().to_string();
        assert!(!locks.lives(&id));
        let session = locks.hold(&id, Lease::default()).unwrap();
        assert!(locks.lives(&id));
        assert!(locks.hold(&id, Lease::default()).is_err());
        drop(session);
        assert!(!locks.lives(&id));
    }

    #[tokio::test]
    async fn a_session_whose_heart_has_stopped_hangs() {
        let (_folder, locks) = locks();
        let id = Uuid::new_v4().to_string();
        let lease = Lease::new(Duration::from_secs(1)).unwrap();
        let session = locks.hold(&id, lease).unwrap();
        let beaten = async || {
            while Beat::in_file(File::open(&session.path).unwrap()).is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), beaten()).await.expect("no heartbeat was written");
        assert_eq!(locks.life(&id), Life::Lives);
        // Nothing of this runtime goes on, no beat either, as in a process that is stopped.
        let stopped = std::time::Instant::now();
        while locks.life(&id) == Life::Lives {
            assert!(stopped.elapsed() < Duration::from_secs(10), "it counts as alive");
            std::thread::yield_now();
        }
        assert_eq!(locks.life(&id), Life::Hangs);
        assert!(locks.any_dead(), "there is something to sweep");
        assert!(stopped.elapsed() > lease.length() / 2, "{:?}", stopped.elapsed());
        assert!(session.path.exists(), "its lock is its own");
    }

    #[test]
    fn only_a_whole_beat_of_this_start_of_this_machine_can_be_over() {
        let beat = Beat { machine: "here".to_owned(), at: Duration::from_secs(10), lease: Duration::from_secs(5) };
        assert_eq!(Beat::from_line(&beat.to_line()).as_ref(), Some(&beat));
        assert_eq!(beat.to_line().len(), LINE);
        let after = |machine: &str, secs| Beat {
            machine: machine.to_owned(),
            at: Duration::from_secs(secs),
            lease: Duration::ZERO,
        };
        assert!(beat.is_over(&after("here", 16)));
        for now in [after("here", 15), after("here", 3), after("there", 16)] {
            assert!(!beat.is_over(&now), "{now:?}");
        }
        for broken in ["", "here 10000 5", "here 10000 5000 ", "here x 5000 .", "here 1 -5 .", "here 1 2 3 ."] {
            assert_eq!(Beat::from_line(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_lock_file_without_a_holder_is_a_dead_session() {
        let (_folder, locks) = locks();
        let id = Uuid::new_v4().to_string();
        fs::write(locks.path(&id).unwrap(), "").unwrap();
        assert_eq!(locks.life(&id), Life::Dead);
        assert_eq!(locks.life(&id), Life::Unknown);
        assert!(!locks.path(&id).unwrap().exists());
    }

    #[test]
    fn a_killed_process_leaves_something_to_sweep_and_is_forgotten_after_it() {
        let (_folder, locks) = locks();
        let session = locks.hold(&Uuid::new_v4().to_string(), Lease::default()).unwrap();
        assert!(!locks.any_dead());
        let left = locks.path(&Uuid::new_v4().to_string()).unwrap();
        fs::write(&left, "").unwrap();
        assert!(locks.any_dead());
        locks.tidy();
        assert!(left.exists(), "it could be about to be locked");
        let long_ago = std::time::SystemTime::now() - 2 * YOUTH;
        File::options().write(true).open(&left).unwrap().set_modified(long_ago).unwrap();
        locks.tidy();
        assert!(!left.exists() && session.path.exists());
    }

    #[test]
    fn ids_from_labels_cannot_leave_the_folder() {
        let (_folder, locks) = locks();
        assert!(locks.path("../../etc/passwd").is_none());
        assert!(locks.hold("..", Lease::default()).is_err());
    }

    #[test]
    fn the_folder_has_one_id() {
        let (folder, locks) = locks();
        let again = SessionLocks::open(&RunFolder::at(&folder.path().join("redroom")).unwrap()).unwrap();
        assert_eq!(again.id(), locks.id());
    }
}
