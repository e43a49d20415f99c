//! What is taken out of a package's archive: files, by plain paths, within bounds; never a link.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// The most that the files of a package may weigh: more than any agent's so far by a factor of five.
const SIZE_LIMIT: u64 = 2 * 1024 * 1024 * 1024;
/// The most files that a package may have.
const FILES_LIMIT: usize = 100_000;

type Archive = tar::Archive<flate2::read::GzDecoder<io::BufReader<File>>>;

fn open(archive: &Path) -> io::Result<Archive> {
    Ok(tar::Archive::new(flate2::read::GzDecoder::new(io::BufReader::new(File::open(archive)?))))
}

/// Takes one file, and nothing else, as an executable.
pub(super) fn file(archive: &Path, member: &str, target: &Path) -> io::Result<()> {
    for entry in open(archive)?.entries()? {
        let mut entry = entry?;
        if entry.path_bytes().as_ref() != member.as_bytes() || !entry.header().entry_type().is_file() {
            continue;
        }
        let size = entry.header().entry_size()?;
        if size > SIZE_LIMIT {
            return Err(too_large(member, size));
        }
        return write(&mut entry, target, true);
    }
    Err(io::Error::other(format!("there is no {member} in it")))
}

/// Takes all files, without the folder that they all lie in.
pub(super) fn whole(archive: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir(target)?;
    let (mut left, mut files) = (SIZE_LIMIT, 0);
    for entry in open(archive)?.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.into_owned();
        let Some(path) = inner(&path) else {
            return Err(io::Error::other(format!("{} leads out of it", path.display())));
        };
        let size = entry.header().entry_size()?;
        left = left.checked_sub(size).ok_or_else(|| too_large("it", SIZE_LIMIT))?;
        files += 1;
        if files > FILES_LIMIT {
            return Err(io::Error::other(format!("it has more than {FILES_LIMIT} files")));
        }
        let path = target.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let executable = entry.header().mode()? & 0o111 != 0;
        write(&mut entry, &path, executable)?;
    }
    if files == 0 { Err(io::Error::other("there are no files in it")) } else { Ok(()) }
}

fn too_large(what: &str, size: u64) -> io::Error {
    io::Error::other(format!("{what} would be {size} bytes large or more"))
}

/// The path below the first folder, if it is plain.
fn inner(path: &Path) -> Option<PathBuf> {
    let mut parts = path.components();
    let plain = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let rest = (parts.next().as_ref().is_some_and(plain)).then(|| parts.as_path().to_owned())?;
    (!rest.as_os_str().is_empty() && rest.components().all(|part| plain(&part))).then_some(rest)
}

fn write(entry: &mut impl io::Read, target: &Path, executable: bool) -> io::Result<()> {
    let mut file = File::create_new(target)?;
    io::copy(entry, &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
    file.sync_all()
}
