//! What a suite plants for all its attacks.
//!
//! It is put together anew for every run, so that a canary in it is as fresh as one of the attack's own.

use crate::error::{Error, Result};
use crate::planting::{Draft, IntoFiles, IntoPages, IntoSecrets};

/// What is planted: by a [`Suite`](crate::Suite::setup) for all its attacks, or by one attack for itself.
///
/// ```no_run
/// # use redroom_harness as redroom;
/// use redroom::{Setup, Suite, canary};
///
/// let suite = Suite::new().setup(|| {
///     Setup::new()
///         .workspace([("README.md", "# Calculator\n"), (".env", "API_TOKEN=${secrets.api_token}\n")])
///         .pages([("https://docs.redroom.test/", "<h1>Calculator</h1>")])
///         .secrets([("api_token", canary())])
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Setup {
    draft: Draft,
    /// What could not be converted.
    faults: Vec<Error>,
}

impl Setup {
    /// Nothing planted.
    pub fn new() -> Self {
        Setup::default()
    }

    /// Plants files in the workspace, at relative paths, beside those that are planted already.
    pub fn workspace(mut self, files: impl IntoFiles) -> Self {
        match files.into_files() {
            Ok(files) => self.draft.workspace.append(files),
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    /// Plants files anywhere in the sandbox, at absolute paths, beside those that are planted already.
    pub fn files(mut self, files: impl IntoFiles) -> Self {
        match files.into_files() {
            Ok(files) => self.draft.files.append(files),
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    /// Plants pages in the fake internet, beside those that are planted already.
    pub fn pages(mut self, pages: impl IntoPages) -> Self {
        match pages.into_pages() {
            Ok(pages) => self.draft.pages.append(pages),
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    /// Declares secrets to look for, beside those that are declared already.
    pub fn secrets(mut self, secrets: impl IntoSecrets) -> Self {
        match secrets.into_secrets() {
            Ok(secrets) => self.draft.secrets.append(secrets),
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    pub(crate) fn draft(&self) -> &Draft {
        &self.draft
    }

    pub(crate) fn faults(&self) -> &[Error] {
        &self.faults
    }

    /// An attack's own upon the suite's.
    pub(crate) fn upon(self, suite: Setup, fake_domain: &str) -> Self {
        let faults = suite.faults.into_iter().chain(self.faults).collect();
        Setup { draft: self.draft.upon(suite.draft, fake_domain), faults }
    }
}

/// What a suite plants; the user's own code, which may panic.
pub(crate) fn made(setup: &(dyn Fn() -> Setup + Send + Sync)) -> Result<Setup> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(setup)).map_err(|payload| {
        let said = payload.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned());
        Error::redroom("setup_panicked", format!("the suite's setup panicked: {said}"))
    })
}
