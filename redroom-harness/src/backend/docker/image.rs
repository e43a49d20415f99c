//! The images that sandboxes start from: a base for all, built from a Dockerfile of ours, and an agent's program laid over it.
//!
//! Built by the engine's classic builder: the other one needs a session of its own protocol. Names tell the content, so that an image that is
//! there is right.

use std::collections::{HashMap, VecDeque};
use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bollard::models::BuildInfo;
use bollard::query_parameters::BuildImageOptionsBuilder;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::engine::{Engine, failed, unless};
use super::known::{Known, digest};
use super::labels::LABEL;
use super::upload::{self, Access};
use crate::backend::{Base, Program, ProgramFile, Progress};
use crate::error::{By, Error, Result};
use crate::run_folder::RunFolder;

const DOCKERFILE: &str = include_str!("../../../images/agent/Dockerfile");
const REPOSITORY: &str = "redroom-agent";
/// Where a program's files lie in the build's context, by their paths in the sandbox.
const CONTEXT: &str = "root";
/// How much of a failed build's output is quoted.
const LAST_LINES: usize = 15;
const LINE: usize = 160;

/// Finds or builds images.
pub(crate) struct Images<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) known: &'a Known,
    pub(crate) folder: &'a RunFolder,
}

impl Images<'_> {
    /// What sandboxes of this program start from.
    pub(crate) async fn prepare(&self, program: &Program, progress: Progress<'_>) -> Result<Base> {
        program.check()?;
        let base = format!("{REPOSITORY}:{}-{}", env!("CARGO_PKG_VERSION"), digest([DOCKERFILE.as_bytes()]));
        let question = fingerprint(&base, program)?;
        if let Some(name) = self.known.get(&question) {
            return Ok(Base(name));
        }
        // One process builds; the others wait, then find what it has built.
        let _lock = self.lock().await?;
        self.base(&base, progress).await?;
        let name = if program.files.is_empty() { base } else { self.layer(&base, program, progress).await? };
        self.known.put(&question, &name);
        Ok(Base(name))
    }

    async fn base(&self, name: &str, progress: Progress<'_>) -> Result<()> {
        if self.exists(name).await? {
            return Ok(());
        }
        progress(&format!("building the image {name}: a minute or two, once"));
        let access = Access { mode: 0o644, uid: 0 };
        let context = upload::archive(move |archive| archive.file("Dockerfile", access, DOCKERFILE.as_bytes()));
        self.build(name, context, progress).await
    }

    /// The base with the program's files on top, as one layer.
    async fn layer(&self, base: &str, program: &Program, progress: Progress<'_>) -> Result<String> {
        let files = program.files.clone();
        let digest = spawn_blocking(move || content(&files)).await.map_err(|error| unreadable(error.to_string()))??;
        let name = layer_name(base, program, &digest);
        if self.exists(&name).await? {
            return Ok(name);
        }
        progress(&format!("building the image {name}"));
        let dockerfile = format!("FROM {base}\nCOPY {CONTEXT}/ /\n");
        let files = program.files.clone();
        let context = upload::archive(move |archive| {
            archive.file("Dockerfile", Access { mode: 0o644, uid: 0 }, dockerfile.as_bytes())?;
            files.iter().try_for_each(|file| {
                let source = File::open(&file.source)?;
                let size = source.metadata()?.len();
                archive.stream(&format!("{CONTEXT}{}", file.target), Access::PROGRAM, size, source)
            })
        });
        self.build(&name, context, progress).await?;
        Ok(name)
    }

    async fn exists(&self, name: &str) -> Result<bool> {
        let asking = self.engine.docker.inspect_image(name);
        Ok(unless(&[404], self.engine.call("look for an image", asking).await)?.is_some())
    }

    async fn build(
        &self,
        name: &str,
        context: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        progress: Progress<'_>,
    ) -> Result<()> {
        let options = BuildImageOptionsBuilder::new()
            .t(name)
            .rm(true)
            .forcerm(true)
            .labels(&HashMap::from([(LABEL, "1")]))
            .buildargs(&proxies())
            .build();
        let mut answers =
            std::pin::pin!(self.engine.docker.build_image(options, None, Some(bollard::body_try_stream(context))));
        let mut output = BuildOutput::default();
        let follow = async {
            let mut outcome = Ok(());
            while let Some(answer) = answers.next().await {
                match answer {
                    Ok(info) => output.add(info, progress),
                    Err(error) => outcome = Err(failed("build an image", error)),
                }
            }
            outcome
        };
        let built = self.engine.within(self.engine.patience().build, "build an image", follow).await;
        // The client library may report a broken answer after a finished build: what counts is whether the image is there.
        if self.exists(name).await? {
            return Ok(());
        }
        let why =
            built.err().map_or_else(|| "the engine did not say why".to_owned(), |error| error.detail().to_owned());
        let mut detail = format!("the image {name} could not be built: {why}; its build needs the network, once");
        if !output.0.is_empty() {
            detail.push_str(&format!("; the last lines were:\n{}", output.last_lines()));
        }
        Err(Error::backend("image_build_failed", detail))
    }

    async fn lock(&self) -> Result<File> {
        let path = self.folder.file("build.lock");
        let locked = spawn_blocking({
            let path = path.clone();
            move || {
                let file = File::create(path)?;
                file.lock()?;
                Ok(file)
            }
        });
        locked
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|error| RunFolder::unusable(&path, &error))
    }
}

/// The end of a build's output, and its steps as progress.
#[derive(Default)]
struct BuildOutput(VecDeque<String>);

impl BuildOutput {
    fn add(&mut self, info: BuildInfo, progress: Progress<'_>) {
        for line in info.stream.or(info.status).unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
            let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
            let line: String = words.chars().filter(|c| !c.is_control()).take(LINE).collect();
            if line.starts_with("Step ") {
                progress(&line);
            }
            self.0.push_back(line);
            if self.0.len() > LAST_LINES {
                self.0.pop_front();
            }
        }
    }

    fn last_lines(&self) -> String {
        self.0.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }
}

/// The name of an image with this program's content.
fn layer_name(base: &str, program: &Program, content: &str) -> String {
    let version: String = program
        .version
        .chars()
        .take(40)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' })
        .collect();
    let digest = digest([base.as_bytes(), content.as_bytes()]);
    format!("{REPOSITORY}-{}:v{version}-{digest}", program.name)
}

/// What tells that a program's files have not changed, without reading them: they may be hundreds of megabytes.
fn fingerprint(base: &str, program: &Program) -> Result<String> {
    let mut parts = vec![base.to_owned(), program.name.clone(), program.version.clone()];
    for file in &program.files {
        let found = fs::metadata(&file.source).map_err(|error| missing(&file.source, &error))?;
        let change = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        parts.push(file.target.clone());
        parts.push(format!("{} {} {} {change:?}", found.dev(), found.ino(), found.len()));
    }
    Ok(format!("image {}", digest(parts.iter().map(|part| part.as_bytes()))))
}

/// A digest of what the files hold and where they go.
fn content(files: &[ProgramFile]) -> Result<String> {
    let mut hash = Sha256::new();
    for file in files {
        let mut source = File::open(&file.source).map_err(|error| missing(&file.source, &error))?;
        let mut own = Sha256::new();
        io::copy(&mut source, &mut Hashing(&mut own)).map_err(|error| missing(&file.source, &error))?;
        hash.update(digest([file.target.as_bytes(), &own.finalize()]));
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

struct Hashing<'a>(&'a mut Sha256);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A build behind a proxy needs to be told of it. The builder keeps these out of the image and its history.
fn proxies() -> HashMap<String, String> {
    ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), env::var(name).ok()?)))
        .collect()
}

fn missing(path: &Path, error: &io::Error) -> Error {
    unreadable(format!("{}: {error}", path.display()))
}

fn unreadable(why: String) -> Error {
    Error::new(By::Agent, "program_unreadable", format!("cannot read the agent's program: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(files: &[(&Path, &str)]) -> Program {
        let empty = Program::new("claude-code", "2.1.332+x");
        files.iter().fold(empty, |program, (source, target)| program.file(*source, *target))
    }

    #[test]
    fn an_images_name_tells_program_version_and_content() {
        let name = layer_name("base:1", &program(&[]), "content");
        assert!(name.starts_with("redroom-agent-claude-code:v2.1.332_x-"), "{name}");
        assert_ne!(name, layer_name("base:1", &program(&[]), "other"));
        assert_ne!(name, layer_name("base:2", &program(&[]), "content"));
    }

    #[test]
    fn content_and_fingerprint_follow_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent");
        fs::write(&path, "one").unwrap();
        let agent = program(&[(&path, "/usr/local/bin/agent")]);
        let before = (content(&agent.files).unwrap(), fingerprint("base:1", &agent).unwrap());
        assert_eq!(before, (content(&agent.files).unwrap(), fingerprint("base:1", &agent).unwrap()));
        fs::write(&path, "three").unwrap();
        let after = (content(&agent.files).unwrap(), fingerprint("base:1", &agent).unwrap());
        assert!(before.0 != after.0 && before.1 != after.1);
        let moved = program(&[(&path, "/usr/local/bin/other")]);
        assert!(content(&moved.files).unwrap() != after.0 && fingerprint("base:1", &moved).unwrap() != after.1);
    }

    #[test]
    fn the_end_of_a_builds_output_is_kept_and_its_steps_are_progress() {
        let mut output = BuildOutput::default();
        let steps = std::sync::Mutex::new(Vec::new());
        for number in 0..100 {
            let text = format!("Step {number}/100 : RUN x\n\u{1b}[31mline {number}\n\n");
            output.add(BuildInfo { stream: Some(text), ..Default::default() }, &|line| {
                steps.lock().unwrap().push(line.to_owned())
            });
        }
        assert_eq!(steps.into_inner().unwrap().len(), 100);
        assert_eq!(output.last_lines().lines().count(), LAST_LINES);
        assert!(output.last_lines().ends_with("[31mline 99"), "{}", output.last_lines());
    }

    #[test]
    fn the_dockerfile_is_one_for_the_classic_builder() {
        assert!(DOCKERFILE.lines().any(|line| line.starts_with("FROM debian:bookworm-slim")));
        let instructions = DOCKERFILE.lines().filter(|line| !line.starts_with('#'));
        assert!(
            !instructions
                .clone()
                .any(|line| line.contains("--mount") || line.contains("--chmod") || line.contains("<<"))
        );
    }
}
