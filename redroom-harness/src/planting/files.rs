//! The files that a user plants, as they were written: paths are read and templates filled when a run starts.

use super::body::Body;
use super::named::named;
use crate::error::Result;

/// A file to plant. Text and bytes convert into one; text is a template in which `${secrets.NAME}` stands for a secret's
/// value, bytes are planted as they are.
///
/// ```
/// # use redroom_harness::File;
/// let script = File::new("#!/bin/sh\necho ${secrets.api_token}\n").executable(true);
/// let image = File::from(b"\x89PNG");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What it holds.
    pub body: Body,
    /// Whether it may be executed.
    pub executable: bool,
}

impl File {
    /// A file that is not executable.
    pub fn new(body: impl Into<Body>) -> Self {
        File { body: body.into(), executable: false }
    }

    /// Says whether it may be executed.
    #[must_use]
    pub fn executable(mut self, executable: bool) -> Self {
        self.executable = executable;
        self
    }
}

impl<B: Into<Body>> From<B> for File {
    fn from(body: B) -> Self {
        File::new(body)
    }
}

/// Files to plant, in order. Paths are read when the run starts, where they must be relative for `workspace` and absolute
/// for `files`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(Vec<(String, File)>);

impl Files {
    /// The same files and one more.
    #[must_use]
    pub fn with(mut self, path: impl Into<String>, file: impl Into<File>) -> Self {
        self.0.push((path.into(), file.into()));
        self
    }

    /// The same files below a folder: what [`dir`](super::dir()) reads is relative, and `files` wants absolute paths.
    #[must_use]
    pub fn under(mut self, folder: &str) -> Self {
        for (path, _) in &mut self.0 {
            *path = format!("{}/{path}", folder.trim_end_matches('/'));
        }
        self
    }

    /// The same files, with those that were given as bytes and are UTF-8 read as templates.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        for (_, file) in &mut self.0 {
            let body = std::mem::replace(&mut file.body, Body::Bytes(Vec::new()));
            file.body = body.with_secrets();
        }
        self
    }
}

named!(Files of File, by IntoFiles::into_files);

/// What `workspace` and `files` take.
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no files to plant",
    label = "not files",
    note = "`workspace` and `files` take a map literal, `redroom::dir(..)`, `Files`, a `Result` of it, an array, `Vec`, slice or map of (path, file)"
)]
pub trait IntoFiles {
    /// The files.
    ///
    /// # Errors
    /// When they cannot be read; told when the run starts.
    fn into_files(self) -> Result<Files>;
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::error::Error;

    #[test]
    fn everything_that_holds_paths_and_files_converts() {
        let wanted = Files::new().with("a", "1").with("b", "2");
        const TABLE: &[(&str, &str)] = &[("a", "1"), ("b", "2")];
        assert_eq!([("a", "1"), ("b", "2")].into_files().unwrap(), wanted);
        assert_eq!(vec![("a", "1".to_owned()), ("b", "2".to_owned())].into_files().unwrap(), wanted);
        assert_eq!(TABLE.into_files().unwrap(), wanted);
        assert_eq!((&[("a", "1"), ("b", "2")]).into_files().unwrap(), wanted);
        assert_eq!(BTreeMap::from([("b", "2"), ("a", "1")]).into_files().unwrap(), wanted);
        assert_eq!(HashMap::from([("b", "2"), ("a", "1")]).into_files().unwrap(), wanted);
        assert_eq!(Ok::<_, Error>(wanted.clone()).into_files().unwrap(), wanted);
        let error = Error::redroom("x", "y");
        assert_eq!(Err::<Files, _>(error.clone()).into_files(), Err(error));
    }

    #[test]
    fn text_is_a_template_and_bytes_are_not() {
        assert!(matches!(File::from("x").body, Body::Text(_)));
        assert!(matches!(File::from(Cow::Borrowed("x")).body, Body::Text(_)));
        assert!(matches!(File::from(b"x").body, Body::Bytes(_)));
        assert!(matches!(File::from(vec![b'x']).body, Body::Bytes(_)));
    }

    #[test]
    fn relative_files_move_below_a_folder() {
        let files = Files::new().with("a/b", "1").under("/home/agent/");
        assert_eq!(files.iter().map(|(path, _)| path).collect::<Vec<_>>(), ["/home/agent/a/b"]);
    }
}
