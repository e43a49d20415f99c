//! The sidecar's image: the running executable and the libraries that it has loaded, and nothing else.
//!
//! Nothing is pulled and nothing is compiled. Harness and sidecar are one executable, so they always fit each other; and a
//! program that brings its own loader and libraries runs on any engine of its machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::models::ImageSummary;
use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder};
use futures_util::StreamExt;
use redroom_sidecar::wire;
use tokio::sync::Mutex;

use super::SIDECAR_ARGUMENT;
use super::elf::{Elf, Machine};
use super::engine::{CALL_DEADLINE, Engine, failed, unless, within};
use super::known::{Known, digest};
use super::labels::{LABEL, label_filter};
use super::upload::{self, Access};
use crate::error::{By, Error, Result};

const REPOSITORY: &str = "redroom-sidecar";
const PROGRAM: &str = "/sidecar";
const LIBRARIES: &str = "/lib";
/// How long an image of another build is kept, and how many at most.
const KEEP_FOR: Duration = Duration::from_secs(24 * 60 * 60);
const KEEP_MOST: usize = 8;

/// Makes the sidecar's image, once.
pub(crate) struct SidecarImage {
    executable: PathBuf,
    known: Known,
    made: Mutex<Option<String>>,
}

impl SidecarImage {
    /// Of the running executable, which is found at this path.
    pub(crate) fn of(executable: &Path, known: Known) -> Self {
        SidecarImage { executable: executable.to_owned(), known, made: Mutex::new(None) }
    }

    /// Where it remembers the image's name.
    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// The image's name. It is looked for, or imported, at the first call.
    pub(crate) async fn name(&self, engine: &Engine) -> Result<String> {
        let mut made = self.made.lock().await;
        if let Some(name) = &*made {
            return Ok(name.clone());
        }
        let question = fingerprint(&self.executable)?;
        if let Some(name) = self.known.get(&question) {
            return Ok(made.insert(name).clone());
        }
        let (executable, machine) = (self.executable.clone(), engine.facts().machine);
        let pack = tokio::task::spawn_blocking(move || Pack::of(&executable, machine))
            .await
            .map_err(|error| unavailable(error.to_string()))??;
        let name = pack.name();
        let look =
            unless(&[404], engine.call("look for the sidecar's image", engine.docker.inspect_image(&name)).await);
        if look?.is_none() {
            within(CALL_DEADLINE, "import the sidecar's image", import(engine, pack)).await?;
            prune(engine, Some(&name)).await?;
        }
        self.known.put(&question, &name);
        Ok(made.insert(name).clone())
    }

    /// Says that the image was not there after all: another process may have thought it old.
    pub(crate) async fn lost(&self) {
        if let Some(name) = self.made.lock().await.take() {
            self.known.forget(&name);
        }
    }
}

/// The files of the image.
struct Pack {
    /// By path. Sorted, so that the same files always make the same hash.
    files: BTreeMap<String, Vec<u8>>,
}

impl Pack {
    fn of(executable: &Path, machine: Machine) -> Result<Self> {
        let unreadable =
            |path: &Path, error: io::Error| unavailable(format!("cannot read {}: {error}", path.display()));
        let bytes = fs::read(executable).map_err(|error| unreadable(executable, error))?;
        let elf = Elf::parse(&bytes)
            .map_err(|error| unavailable(format!("{} cannot run in the engine: {error}", executable.display())))?;
        if elf.machine() != machine {
            return Err(unavailable(format!(
                "this program is made for {} and the engine runs on {machine}: build the tests for the engine's machine, \
                 or choose the jail backend",
                elf.machine()
            )));
        }
        let mut files = BTreeMap::from([(PROGRAM.to_owned(), elf.loadable())]);
        if let Some(interpreter) = elf.interpreter() {
            let loader = fs::read(interpreter).map_err(|error| unreadable(Path::new(interpreter), error))?;
            files.insert(interpreter.to_owned(), loader);
            for path in loaded(executable).map_err(|error| unreadable(Path::new("/proc/self/maps"), error))? {
                let bytes = fs::read(&path).map_err(|error| unreadable(&path, error))?;
                let Ok(library) = Elf::parse(&bytes) else { continue };
                let name = library.soname().map(str::to_owned).or_else(|| Some(path.file_name()?.to_str()?.to_owned()));
                let Some(name) = name.filter(|name| !name.contains('/')) else { continue };
                files.insert(format!("{LIBRARIES}/{name}"), library.loadable());
            }
        }
        Ok(Pack { files })
    }

    /// The image's name, which tells its content.
    fn name(&self) -> String {
        let parts = self.files.iter().flat_map(|(path, content)| [path.as_bytes(), content]);
        let digest = digest(parts);
        format!("{REPOSITORY}:{digest}-{}", wire::VERSION)
    }
}

/// What tells that an executable is the one that was packed before, without reading it.
fn fingerprint(executable: &Path) -> Result<String> {
    let found = fs::metadata(executable)
        .map_err(|error| unavailable(format!("cannot read {}: {error}", executable.display())))?;
    let identity = [found.dev(), found.ino(), found.len()];
    let change = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    Ok(format!("sidecar {}", digest([format!("{identity:?} {change:?}").as_bytes()])))
}

/// The libraries that this process has loaded, without the executable itself.
fn loaded(executable: &Path) -> io::Result<Vec<PathBuf>> {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let own = identity(executable)?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mut paths: Vec<PathBuf> = maps.lines().filter_map(executable_mapping).map(PathBuf::from).collect();
    paths.sort();
    paths.dedup();
    paths.retain(|path| identity(path).is_ok_and(|found| found != own));
    Ok(paths)
}

/// The file of a line of `/proc/self/maps`, if code of it is mapped.
fn executable_mapping(line: &str) -> Option<&str> {
    // address permissions offset device inode path, with the path padded by spaces
    let permissions = line.split(' ').nth(1)?;
    permissions.contains('x').then(|| line.find('/').map(|at| &line[at..]))?
}

async fn import(engine: &Engine, pack: Pack) -> Result<()> {
    let name = pack.name();
    let (repository, tag) = name.split_once(':').unwrap_or((REPOSITORY, &name));
    let options = CreateImageOptionsBuilder::new()
        .from_src("-")
        .repo(repository)
        .tag(tag)
        .changes(vec![
            format!("LABEL {LABEL}=1"),
            format!("ENV LD_LIBRARY_PATH={LIBRARIES}"),
            format!("ENTRYPOINT [\"{PROGRAM}\", \"{SIDECAR_ARGUMENT}\"]"),
        ])
        .build();
    let body = upload::archive(move |archive| {
        pack.files.iter().try_for_each(|(path, content)| archive.file(path, Access::PROGRAM, content))
    });
    let mut answers =
        std::pin::pin!(engine.docker.create_image(Some(options), Some(bollard::body_try_stream(body)), None));
    let mut outcome = Ok(());
    while let Some(answer) = answers.next().await {
        if let Err(error) = answer {
            outcome = Err(failed("import the sidecar's image", error));
        }
    }
    // The client library may report a broken answer after a finished import: what counts is whether the image is there.
    match engine.call("look for the sidecar's image", engine.docker.inspect_image(&name)).await {
        Ok(_) => Ok(()),
        Err(missing) => outcome.and(Err(missing)),
    }
}

/// Removes images of other builds that no container uses, and says which.
pub(crate) async fn prune(engine: &Engine, current: Option<&str>) -> Result<Vec<String>> {
    let options = ListImagesOptionsBuilder::new().filters(&label_filter()).build();
    let images = engine.call("list the sidecar's images", engine.docker.list_images(Some(options))).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut removed = Vec::new();
    for (name, image) in old(images, current, now) {
        let options = RemoveImageOptionsBuilder::new().build();
        let removal = engine.call("remove an old image", engine.docker.remove_image(&image, Some(options), None)).await;
        // 404: another process was faster. 409: a container uses it.
        if unless(&[404, 409], removal)?.is_some() {
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Names of those images of ours that are too old or too many, each with what to remove it by.
fn old(images: Vec<ImageSummary>, current: Option<&str>, now: Duration) -> Vec<(String, String)> {
    let mut ours: Vec<_> = images
        .into_iter()
        .filter_map(|image| {
            let tag = image.repo_tags.iter().find(|tag| !tag.starts_with("<none>")).cloned();
            match tag {
                Some(tag) if !tag.starts_with(&format!("{REPOSITORY}:")) || Some(&tag[..]) == current => None,
                Some(tag) => Some((image.created, Some(tag.clone()), tag)),
                None => Some((image.created, None, image.id)),
            }
        })
        .collect();
    ours.sort_by_key(|(created, ..)| std::cmp::Reverse(*created));
    let since = i64::try_from(now.saturating_sub(KEEP_FOR).as_secs()).unwrap_or(i64::MAX);
    ours.into_iter()
        .enumerate()
        .filter(|(rank, (created, ..))| *rank >= KEEP_MOST || *created < since)
        .map(|(_, (_, tag, id))| (tag.unwrap_or_else(|| id.clone()), id))
        .collect()
}

fn unavailable(why: impl Into<String>) -> Error {
    Error::new(By::Sidecar, "sidecar_unavailable", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_machine() -> Machine {
        Machine::named(std::env::consts::ARCH).unwrap()
    }

    #[test]
    fn the_pack_holds_the_program_its_loader_and_its_libraries() {
        let pack = Pack::of(Path::new("/proc/self/exe"), own_machine()).unwrap();
        assert!(pack.files.contains_key(PROGRAM));
        let executable = fs::read("/proc/self/exe").unwrap();
        if let Some(interpreter) = Elf::parse(&executable).unwrap().interpreter() {
            assert!(pack.files.contains_key(interpreter));
            assert!(pack.files.keys().any(|path| path.starts_with("/lib/libc")), "{:?}", pack.files.keys());
        }
        assert_eq!(pack.name(), Pack::of(Path::new("/proc/self/exe"), own_machine()).unwrap().name());
    }

    #[test]
    fn a_program_for_another_machine_or_none_at_all_is_refused() {
        let other = if own_machine() == Machine::X86_64 { Machine::Aarch64 } else { Machine::X86_64 };
        let error = Pack::of(Path::new("/proc/self/exe"), other).err().unwrap();
        assert_eq!((error.code(), error.by()), ("sidecar_unavailable", By::Sidecar));
        assert!(error.detail().contains("build the tests for"), "{error}");
        let script = tempfile::NamedTempFile::new().unwrap();
        fs::write(script.path(), "#!/bin/sh\n").unwrap();
        assert_eq!(Pack::of(script.path(), own_machine()).err().unwrap().code(), "sidecar_unavailable");
    }

    #[test]
    fn only_mapped_code_counts_as_loaded() {
        let line = "7f00-7f10 r-xp 00026000 fe:00 1234     /usr/lib/my libs/libc.so.6";
        assert_eq!(executable_mapping(line), Some("/usr/lib/my libs/libc.so.6"));
        assert_eq!(executable_mapping("7f00-7f10 r--p 00000000 fe:00 1234     /usr/lib/locale-archive"), None);
        assert_eq!(executable_mapping("7ff0-7ff1 r-xp 00000000 00:00 0        [vdso]"), None);
    }

    #[test]
    fn images_too_old_or_too_many_go_and_those_of_others_stay() {
        let hour = 3600;
        let now = 1000 * hour;
        let image = |tag: &str, hours: i64| ImageSummary {
            id: format!("sha256:{tag}"),
            repo_tags: if tag.is_empty() { Vec::new() } else { vec![tag.to_owned()] },
            created: now - hours * hour,
            ..Default::default()
        };
        let mut images: Vec<_> = (1..=10).map(|hours| image(&format!("redroom-sidecar:{hours}"), hours)).collect();
        images.extend([
            image("redroom-sidecar:mine", 900),
            image("redroom-sidecar:old", 30),
            image("", 40),
            image("redroom-agent:x", 90),
        ]);
        let names: Vec<String> = old(images, Some("redroom-sidecar:mine"), Duration::from_secs(now as u64))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["redroom-sidecar:9", "redroom-sidecar:10", "redroom-sidecar:old", "sha256:"]);
    }
}
