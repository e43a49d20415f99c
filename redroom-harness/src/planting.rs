//! What an attack plants: files, pages, secrets. As the user wrote it ([`Files`], [`Pages`], [`Secrets`]), and as it was
//! checked before the run ([`Planting`]): with it in hand no path can leave its place, every URL lies in the fake domain,
//! and every secret is somewhere to be found.
//!
//! Nothing here knows of sandboxes, sidecars or agents.

mod body;
mod bounds;
pub mod canary;
mod dir;
mod files;
mod joined;
mod named;
mod pages;
mod path;
pub(crate) mod repository;
mod secrets;
pub(crate) mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aho_corasick::AhoCorasick;
use bytes::Bytes;
use redroom_sidecar::wire::{PlantedPage, PlantedSecret};

pub use body::Body;
pub use canary::canary;
pub(crate) use dir::from_crate;
pub use dir::{Dir, dir};
pub use files::{File, Files, IntoFiles};
pub use pages::{IntoPages, Page, PageUrl, PageUrlFault, Pages};
pub use path::{PathFault, SandboxPath, WorkspacePath};
pub use secrets::{IntoSecrets, Secret, Secrets, unplanted};

use crate::error::{Error, Result};
use bounds::Bounds;

/// What is planted, checked: made by [`RunOptions::check`](crate::RunOptions::check) alone.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Planting {
    /// Files of the workspace.
    pub workspace: Vec<PlantedFile<WorkspacePath>>,
    /// Files elsewhere. None is at the place of another, nor of a file of the workspace.
    pub files: Vec<PlantedFile<SandboxPath>>,
    /// Pages of the fake internet, no two at one place.
    pub pages: Vec<PlantedPage>,
    /// What to look for, no two of one name.
    pub secrets: Vec<PlantedSecret>,
}

/// A file as it will lie in the sandbox.
#[derive(Clone, PartialEq, Eq)]
pub struct PlantedFile<P> {
    /// Where.
    pub path: P,
    /// What it holds, with secrets filled in.
    pub body: Bytes,
    /// Whether it may be executed.
    pub executable: bool,
}

impl fmt::Debug for Planting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planting")
            .field("workspace", &self.workspace)
            .field("files", &self.files)
            .field("pages", &self.pages.len())
            .field("secrets", &self.secrets)
            .finish()
    }
}

impl<P: fmt::Debug> fmt::Debug for PlantedFile<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlantedFile").field("path", &self.path).field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// What is planted, as it was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) workspace: Files,
    pub(crate) files: Files,
    pub(crate) pages: Pages,
    pub(crate) secrets: Secrets,
}

impl Draft {
    /// Reads paths and URLs, fills templates, looks for collisions and for secrets that stand nowhere. Every fault is added
    /// to `faults`; only where none is the result of use.
    pub(crate) fn check(&self, fake_domain: &str, faults: &mut Vec<Error>) -> Planting {
        let too_much = |detail| Error::redroom("too_much_planted", detail);
        let told = |detail| faults.push(too_much(detail));
        let Some(bounds) = Bounds::of([&self.workspace, &self.files], &self.pages, &self.secrets, told) else {
            return Planting::default();
        };
        faults.extend(secrets::faults(&self.secrets).into_iter().map(|f| Error::redroom(f.code(), f.to_string())));
        let mut check = Check {
            values: self.secrets.iter().map(|(name, secret)| (name, secret.value())).collect(),
            unknown_names: false,
            bounds,
            faults,
        };
        let workspace = check.files("workspace", &self.workspace, WorkspacePath::parse);
        let files = check.files("files", &self.files, SandboxPath::parse);
        let pages = check.pages(&self.pages, fake_domain);
        check.collisions(&workspace, &files);
        let contents = workspace
            .iter()
            .map(|file| file.body.as_ref())
            .chain(files.iter().map(|file| file.body.as_ref()))
            .chain(pages.iter().map(|page| page.body.as_bytes()));
        check.secrets_stand_somewhere(&self.secrets, contents);
        let secrets = self
            .secrets
            .iter()
            .map(|(name, secret)| PlantedSecret { name: name.to_owned(), value: secret.value().into() })
            .collect();
        Planting { workspace, files, pages, secrets }
    }
}

/// One check under way.
struct Check<'a> {
    values: BTreeMap<&'a str, &'a str>,
    /// Whether something could not be filled in.
    unknown_names: bool,
    bounds: Bounds,
    faults: &'a mut Vec<Error>,
}

impl Check<'_> {
    fn fault(&mut self, code: &'static str, detail: String) {
        self.faults.push(Error::redroom(code, detail));
    }

    fn files<P>(
        &mut self,
        key: &str,
        files: &Files,
        parse: impl Fn(&str) -> Result<P, PathFault>,
    ) -> Vec<PlantedFile<P>> {
        let mut planted = Vec::with_capacity(files.len());
        for (path, file) in files.iter() {
            let place = format!("{key} {path:?}");
            let body = self.fill(&place, &file.body, Bounds::file);
            match parse(path) {
                Ok(path) => planted.push(PlantedFile { path, body: body.into(), executable: file.executable }),
                Err(fault) => self.fault("invalid_path", format!("{place}: {fault}")),
            }
        }
        planted
    }

    fn pages(&mut self, pages: &Pages, fake_domain: &str) -> Vec<PlantedPage> {
        let mut planted = Vec::new();
        let mut urls = BTreeSet::new();
        for (text, page) in pages.iter() {
            let place = format!("page {text:?}");
            let body = self.fill(&place, &page.body, Bounds::page);
            if !(200..=599).contains(&page.status) {
                self.fault("invalid_page", format!("{place}: status {} is not from 200 to 599", page.status));
            }
            if http::HeaderValue::from_str(&page.content_type).is_err() {
                self.fault("invalid_page", format!("{place}: its content type is no header value"));
            }
            let url = match PageUrl::parse(text, fake_domain) {
                Ok(url) => url,
                Err(fault) => {
                    self.fault("invalid_page", format!("{place}: {fault}"));
                    continue;
                }
            };
            planted.push(PlantedPage {
                host: url.host().to_owned(),
                path: url.path().to_owned(),
                status: page.status,
                content_type: page.content_type.clone(),
                body: body.into(),
            });
            if let Some(twice) = urls.replace(url) {
                self.fault(
                    "duplicate_page",
                    format!(
                        "{place}: a page is planted there already (`{twice}`; `http` and `https` find the same one)"
                    ),
                );
            }
        }
        planted
    }

    /// What is planted at a place. How much that will be is asked before it is made.
    fn fill(
        &mut self,
        place: &str,
        body: &Body,
        take: impl FnOnce(&mut Bounds, usize) -> Result<(), String>,
    ) -> Vec<u8> {
        let length = match body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Text(text) => template::length(text, &self.values),
        };
        if let Err(why) = take(&mut self.bounds, length) {
            self.unknown_names = true;
            self.fault("too_much_planted", format!("{place}: {why}"));
            return Vec::new();
        }
        let text = match body {
            Body::Bytes(bytes) => return bytes.clone(),
            Body::Text(text) => text,
        };
        template::fill(text, &self.values).map(String::into_bytes).unwrap_or_else(|unknown| {
            self.unknown_names = true;
            for template::UnknownName { name, nearest } in unknown {
                let hint = match nearest {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => "declare it in `secrets`, or plant the file as bytes, which are left alone".to_owned(),
                };
                self.fault("unknown_secret", format!("{place}: no secret is called `{name}`: {hint}"));
            }
            Vec::new()
        })
    }

    fn collisions(&mut self, workspace: &[PlantedFile<WorkspacePath>], files: &[PlantedFile<SandboxPath>]) {
        let workspace: Vec<_> = workspace.iter().map(|file| file.path.in_sandbox()).collect();
        for collision in path::collisions(workspace.iter().chain(files.iter().map(|file| &file.path))) {
            self.fault("duplicate_path", collision.to_string());
        }
    }

    /// A misspelt name would make its secret stand nowhere, too: one mistake, told once.
    fn secrets_stand_somewhere<'c>(&mut self, secrets: &Secrets, contents: impl Iterator<Item = &'c [u8]>) {
        let wanted: Vec<_> =
            secrets.iter().filter(|(_, secret)| secret.must_be_planted() && !secret.value().is_empty()).collect();
        if wanted.is_empty() || self.unknown_names {
            return;
        }
        let automaton = match AhoCorasick::new(wanted.iter().map(|(_, secret)| secret.value())) {
            Ok(automaton) => automaton,
            Err(error) => return self.fault("invalid_secret", format!("the secrets cannot be looked for: {error}")),
        };
        let mut found = vec![false; wanted.len()];
        for content in contents {
            for hit in automaton.find_overlapping_iter(content) {
                found[hit.pattern()] = true;
            }
        }
        for ((name, _), _) in wanted.iter().zip(found).filter(|(_, found)| !found) {
            self.fault(
                "secret_not_planted",
                format!(
                    "secret `{name}` stands nowhere in what is planted: write `${{secrets.{name}}}` into a file or page, or \
                     mark it with `unplanted(..)`"
                ),
            );
        }
    }
}
