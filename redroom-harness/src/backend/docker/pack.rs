//! The sidecar's image: the running executable and the libraries that it has loaded, and nothing else.
//!
//! Nothing is pulled and nothing is compiled. Harness and sidecar are one executable, so they always fit each other; and a
//! program that brings its own loader and libraries runs on any engine of its machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use redroom_sidecar::wire;
use tokio::sync::Mutex;

use super::SIDECAR_ARGUMENT;
use super::elf::{Elf, Machine};
use super::engine::{Engine, failed, unless};
use super::known::{Known, digest};
use super::labels::LABEL;
use super::prune::prune;
use super::upload::{self, Access};
use crate::error::{By, Error, Result};

pub(crate) const REPOSITORY: &str = "redroom-sidecar";
const PROGRAM: &str = "/sidecar";
const LIBRARIES: &str = "/lib";

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
            engine.within(engine.patience().call, "import the sidecar's image", import(engine, pack)).await?;
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
}
