//! What is known of an engine for a few minutes, across processes: a runner that starts one process for each test must not ask the same
//! questions each time.
//!
//! Only questions whose answer is checked by the next step anyway: an image that is gone after all shows when a container is made of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::run_folder::RunFolder;

const VALID_FOR: Duration = Duration::from_secs(600);
/// A file of ours has a few entries.
const SIZE_LIMIT: u64 = 1024 * 1024;
/// The most that is read of a kept file.
const CONTENT_LIMIT: u64 = 16 * 1024 * 1024;

/// Answers that were given lately.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
struct Answers(BTreeMap<String, Answer>);

#[derive(Serialize, Deserialize)]
struct Answer {
    value: String,
    /// Seconds since 1970.
    since: u64,
}

impl Known {
    /// Of the engine that is found under `host`.
    pub(crate) fn of(folder: &RunFolder, host: &str) -> Self {
        Known { path: folder.file(&format!("engine-{}.json", digest([host.as_bytes()]))) }
    }

    pub(crate) fn get(&self, question: &str) -> Option<String> {
        self.within(question, VALID_FOR)
    }

    /// The answer, if it is no older than `age`.
    pub(crate) fn within(&self, question: &str, age: Duration) -> Option<String> {
        let answer = self.read().0.remove(question)?;
        let since = now().checked_sub(answer.since)?;
        (since <= age.as_secs()).then_some(answer.value)
    }

    pub(crate) fn put(&self, question: &str, value: &str) {
        let answer = Answer { value: value.to_owned(), since: now() };
        self.change(|answers| drop(answers.insert(question.to_owned(), answer)));
    }

    /// What a file of an image holds, as [`keep_content`](Self::keep_content) has it.
    pub(crate) fn content(&self, question: &str) -> Option<Vec<u8>> {
        let path = self.content_path(question);
        let found = fs::metadata(&path).ok()?;
        let fresh = found.modified().ok()?.elapsed().is_ok_and(|age| age <= VALID_FOR);
        if fresh && found.len() <= CONTENT_LIMIT { fs::read(path).ok() } else { None }
    }

    /// Keeps what is too large to stand among the answers.
    pub(crate) fn keep_content(&self, question: &str, content: &[u8]) {
        put_in_place(&self.content_path(question), content);
    }

    fn content_path(&self, question: &str) -> PathBuf {
        self.path.with_extension(digest([question.as_bytes()]))
    }

    /// Forgets every answer that was this.
    pub(crate) fn forget(&self, value: &str) {
        self.change(|answers| answers.retain(|_, answer| answer.value != value));
    }

    fn read(&self) -> Answers {
        let small = fs::metadata(&self.path).is_ok_and(|found| found.len() <= SIZE_LIMIT);
        let text = if small { fs::read(&self.path).unwrap_or_default() } else { Vec::new() };
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Two processes at once may lose an answer, which costs a question; neither ever reads half a file.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Answer>)) {
        let mut answers = self.read();
        answers.0.retain(|_, answer| now().saturating_sub(answer.since) <= VALID_FOR.as_secs());
        change(&mut answers.0);
        if let Ok(text) = serde_json::to_vec(&answers) {
            put_in_place(&self.path, &text);
        }
    }
}

/// The whole file or none of it; where that fails, the question is asked again.
fn put_in_place(path: &Path, content: &[u8]) {
    let fresh = path.with_extension(Uuid::new_v4().simple().to_string());
    if fs::write(&fresh, content).and_then(|()| fs::rename(&fresh, path)).is_err() {
        let _ = fs::remove_file(&fresh);
    }
}

/// A short name for some parts, as good as unique.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> (tempfile::TempDir, Known) {
        let folder = tempfile::tempdir().unwrap();
        let known = Known::of(&RunFolder::at(&folder.path().join("redroom")).unwrap(), "unix:///socket");
        (folder, known)
    }

    #[test]
    fn an_answer_is_known_until_it_is_forgotten() {
        let (_folder, known) = known();
        assert_eq!(known.get("image"), None);
        known.put("image", "name:tag");
        known.put("other", "else");
        assert_eq!(known.get("image").as_deref(), Some("name:tag"));
        known.forget("name:tag");
        assert_eq!((known.get("image"), known.get("other").as_deref()), (None, Some("else")));
    }

    #[test]
    fn old_answers_answers_from_the_future_and_broken_files_count_for_nothing() {
        let (_folder, known) = known();
        let file = |since: u64| format!("{{\"image\":{{\"value\":\"x\",\"since\":{since}}}}}");
        for (text, answer) in [
            (file(now()), Some("x")),
            (file(now() - VALID_FOR.as_secs() - 5), None),
            (file(now() + 100), None),
            ("{\"image\"".to_owned(), None),
        ] {
            fs::write(&known.path, text).unwrap();
            assert_eq!(known.get("image").as_deref(), answer);
        }
    }

    #[test]
    fn a_file_of_an_image_is_known_for_as_long_as_an_answer() {
        let (_folder, known) = known();
        assert_eq!(known.content("bundle"), None);
        known.keep_content("bundle", b"certificates");
        assert_eq!((known.content("bundle").as_deref(), known.content("other")), (Some(&b"certificates"[..]), None));
        let long_ago = SystemTime::now() - 2 * VALID_FOR;
        fs::File::options().write(true).open(known.content_path("bundle")).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(known.content("bundle"), None);
    }

    #[test]
    fn parts_cannot_be_shifted_between_each_other() {
        assert_ne!(digest([&b"ab"[..], b"c"]), digest([&b"a"[..], b"bc"]));
    }
}
